//! The index: keys to locations, in pages of cache lines, that grows and shrinks a line at a time.
//!
//! ```text
//! page, 4 KiB = 56 home lines + 8 overflow lines shared by the page
//! hash, 64 bits: the high 32 choose the page (multiply-shift, any number of pages),
//!                bits 0..16 the home line in it, bits 16..23 the tag
//! ```
//! To resize, lines move in order from the table in one extent to a table of another size in the other extent. A line
//! that moved says so in its header; pages before the frontier moved wholly and their memory is given back. So any size is
//! reachable in small steps and the index never exists twice.

pub(crate) mod order;

use scrubjay_base::sync::whole::{AtomicBool, AtomicU64, Mutex, Ordering};

use crate::item::ItemRef;
use crate::line::{Heat, Line, LineGuard, Location, SLOTS, Seen, Slot, TAG_BITS};
use crate::segment::{Heap, PAGE_LINES, PAGE_SIZE};
use resize::{FAR_PAGES, HALVINGS_MAX, Resize};

/// Lines of a page that are somebody's home.
pub(crate) const HOME_LINES: usize = 56;

/// The hash of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyHash(pub(crate) u64);

impl KeyHash {
    #[inline]
    pub(crate) fn of(key: &[u8], seed: u64) -> KeyHash {
        KeyHash(xxhash_rust::xxh3::xxh3_64_with_seed(key, seed))
    }

    #[inline]
    fn page(self, pages: usize) -> usize {
        (((self.0 >> 32) * pages as u64) >> 32) as usize
    }

    #[inline]
    fn home(self) -> usize {
        ((self.0 & 0xffff) as usize * HOME_LINES) >> 16
    }

    #[inline]
    fn tag(self) -> u16 {
        ((self.0 >> 16) & ((1 << TAG_BITS) - 1)) as u16
    }

    /// What stands in a slot of an overflow line instead of the tag: the home line and a bit of the tag, so that nobody has to
    /// look at an item to know whose it is.
    #[inline]
    fn overflow_tag(self) -> u16 {
        (self.home() as u16) << 1 | self.tag() & 1
    }

    /// Some hash that has its place there; the key's own may be another.
    fn placed(page: usize, pages: usize, home: usize, tag: u16) -> KeyHash {
        let high = ((page as u64) << 32).div_ceil(pages as u64);
        let low = (home << 16).div_ceil(HOME_LINES) as u64;
        KeyHash(high << 32 | u64::from(tag) << 16 | low)
    }
}

/// The home line that a slot of an overflow line belongs to.
fn overflow_home(slot: Slot) -> usize {
    usize::from(slot.tag >> 1)
}

const _: () = assert!(HOME_LINES << 1 <= 1 << TAG_BITS);

/// Which extent holds the table, how many pages it has, and how many the table has that it is being moved to (0: none).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Geometry {
    extent: usize,
    pages: usize,
    next_pages: usize,
}

impl Geometry {
    const PAGES_BITS: u32 = 31;

    fn encode(self) -> u64 {
        (self.extent as u64) << 62 | (self.next_pages as u64) << Self::PAGES_BITS | self.pages as u64
    }

    /// How often the table is halved: then a line's new place follows from its old one. 0: it is not.
    fn halvings(self) -> u32 {
        (1..=HALVINGS_MAX)
            .find(|&halvings| self.next_pages << halvings == self.pages)
            .unwrap_or(0)
    }

    fn decode(word: u64) -> Geometry {
        let mask = (1 << Self::PAGES_BITS) - 1;
        Geometry {
            extent: (word >> 62) as usize,
            pages: (word & mask) as usize,
            next_pages: ((word >> Self::PAGES_BITS) & mask) as usize,
        }
    }
}

/// The index over a [`Heap`].
#[derive(Debug)]
pub(crate) struct Index {
    seed: u64,
    first_pages: usize,
    /// Written by the resizer under `resize`, read by all.
    geometry: AtomicU64,
    /// Pages of the old table that moved wholly. Release on store: the lines in the new table are filled.
    frontier: AtomicU64,
    /// A page was full: grow whatever the load says.
    page_was_full: AtomicBool,
    /// Whether a resize is going on; read often, written when one starts or ends.
    resizing: AtomicBool,
    resize: Mutex<Resize>,
    /// A table that is too large is left alone for now.
    awaits_fewer: AtomicBool,
    /// Since when it has been too large without a crowd that left, and how many items there were then.
    sparse: Mutex<Option<(u32, u64)>>,
}

/// A found item, and what to check to know that it was in the index all the while.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found<'a> {
    pub(crate) item: ItemRef<'a>,
    pub(crate) location: Location,
    home: &'a Line,
    seen: Seen,
    line: &'a Line,
    place: Place,
    slot_index: usize,
    slot: Slot,
}

impl Found<'_> {
    /// Whether nothing about the line's items changed since they were looked up.
    pub(crate) fn unchanged(&self) -> bool {
        self.home.unchanged(self.seen)
    }

    pub(crate) fn heat(&self) -> Heat {
        self.slot.heat
    }

    /// Notes that the item was read. Nothing is written when there is nothing new to say.
    #[inline(always)]
    pub(crate) fn note_read(&self, random: impl FnOnce() -> u64) {
        let heat = self.slot.heat.raised(random);
        if heat != self.slot.heat {
            self.line.note_heat(self.slot_index, self.slot, heat);
        }
    }
}

/// The page that a home line lay in at some moment of this turn; its memory stays until the turn ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HomePage<'a>(&'a [Line; PAGE_LINES]);

/// Which line of a page: the home line or an overflow line by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Home,
    Overflow(usize),
}

/// A key's slot under its home line's lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) hash: KeyHash,
    pub(crate) item: ItemRef<'a>,
    pub(crate) location: Location,
    pub(crate) heat: Heat,
    place: Place,
    slot_index: usize,
}

/// A locked home line: no key that belongs here changes but through this.
#[derive(Debug)]
pub(crate) struct Locked<'a> {
    index: &'a Index,
    heap: &'a Heap,
    hash: KeyHash,
    page: &'a [Line; PAGE_LINES],
    home: LineGuard<'a>,
}

impl Index {
    /// An empty index of so many pages, of which it never has fewer.
    pub(crate) fn new(seed: u64, first_pages: usize) -> Index {
        let geometry = Geometry {
            extent: 0,
            pages: first_pages,
            next_pages: 0,
        };
        Index {
            seed,
            first_pages,
            geometry: AtomicU64::new(geometry.encode()),
            frontier: AtomicU64::new(0),
            page_was_full: AtomicBool::new(false),
            resizing: AtomicBool::new(false),
            resize: Mutex::new(Resize::default()),
            awaits_fewer: AtomicBool::new(false),
            sparse: Mutex::new(None),
        }
    }

    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> KeyHash {
        KeyHash::of(key, self.seed)
    }

    fn slot_hash(&self, heap: &Heap, slot: Slot) -> KeyHash {
        self.hash(heap.item(slot.location).key())
    }

    fn geometry(&self) -> Geometry {
        Geometry::decode(self.geometry.load(Ordering::Acquire))
    }

    /// Bytes that the index takes now.
    pub(crate) fn bytes(&self) -> usize {
        let geometry = self.geometry();
        let moved = if geometry.next_pages > 0 {
            self.frontier.load(Ordering::Relaxed) as usize
        } else {
            0
        };
        // While it is resized: what has not moved yet, a batch that waits to be given back, and the new table's share.
        let next = (geometry.next_pages * moved).div_ceil(geometry.pages);
        let waiting = if geometry.next_pages > 0 {
            moved.min(2 * PUNCH_BATCH)
        } else {
            0
        };
        (geometry.pages - moved + waiting + next) * PAGE_SIZE
    }

    /// The page that holds `hash`'s home line now, or held it a moment ago (then the line says that it moved).
    #[inline]
    fn page_of<'a>(&self, heap: &'a Heap, hash: KeyHash) -> (&'a [Line; PAGE_LINES], Geometry) {
        let geometry = self.geometry();
        let page = hash.page(geometry.pages);
        // Acquire pairs with the Release store in `move_page`.
        if geometry.next_pages > 0 && (page as u64) < self.frontier.load(Ordering::Acquire) {
            return (self.next_page_of(heap, hash, geometry), geometry);
        }
        (heap.page(geometry.extent, page), geometry)
    }

    fn next_page_of<'a>(&self, heap: &'a Heap, hash: KeyHash, geometry: Geometry) -> &'a [Line; PAGE_LINES] {
        heap.page(1 - geometry.extent, hash.page(geometry.next_pages))
    }

    /// Hints the processor to fetch `hash`'s home line; where it is helps to find it again.
    #[inline]
    pub(crate) fn prefetch<'a>(&self, heap: &'a Heap, hash: KeyHash) -> HomePage<'a> {
        let (page, _) = self.page_of(heap, hash);
        heap.prefetch_line(&page[hash.home()]);
        HomePage(page)
    }

    /// Hints the processor to fetch the overflow lines that `hash`'s home line, fetched before, speaks of.
    #[inline]
    pub(crate) fn prefetch_overflow(&self, heap: &Heap, hash: KeyHash, at: HomePage<'_>) {
        for number in overflow_lines(at.0[hash.home()].overflow_hint()) {
            heap.prefetch_line(&at.0[HOME_LINES + number]);
        }
    }

    /// As [`Index::lock`], where the line was in the same turn.
    #[inline]
    pub(crate) fn lock_at<'a>(&'a self, heap: &'a Heap, hash: KeyHash, at: HomePage<'a>) -> Locked<'a> {
        let page = at.0;
        match page[hash.home()].lock() {
            Some(home) => self.locked(heap, hash, page, home),
            None => self.lock(heap, hash),
        }
    }

    /// Hints the processor to fetch the items in `hash`'s home line that may be the one.
    #[inline]
    pub(crate) fn prefetch_items(&self, heap: &Heap, hash: KeyHash) {
        let (page, _) = self.page_of(heap, hash);
        for (_, slot) in page[hash.home()].matches(hash.tag()) {
            heap.prefetch(slot.location);
            heap.prefetch_value(slot.location);
        }
    }

    /// Whether the index is larger than what a processor core keeps at hand.
    #[inline]
    pub(crate) fn is_far(&self) -> bool {
        self.geometry().pages >= FAR_PAGES
    }

    /// Looks `key` up without a lock. The result was true at one moment during the call.
    pub(crate) fn find<'a>(&self, heap: &'a Heap, hash: KeyHash, key: &[u8]) -> Option<Found<'a>> {
        let (mut page, mut geometry) = self.page_of(heap, hash);
        loop {
            match find_in(page, heap, hash, key) {
                Look::Found(found) => return Some(found),
                Look::Absent => return None,
                Look::Changed => {}
                Look::Moved if geometry.next_pages > 0 => {
                    // One step further; the new line may have moved on only if a resize ended and another began.
                    page = self.next_page_of(heap, hash, geometry);
                    geometry.next_pages = 0;
                    continue;
                }
                Look::Moved => {}
            }
            (page, geometry) = self.page_of(heap, hash);
        }
    }

    /// As [`Index::find`], but a glance at the home line only: at no slot or the first whose tag is the key's. Most often that is
    /// enough. There is no loop, so the processor keeps in its registers what is found, not what another round would need.
    #[inline(always)]
    pub(crate) fn glance<'a>(&self, heap: &'a Heap, hash: KeyHash, key: &[u8]) -> Glance<'a> {
        let home = &self.page_of(heap, hash).0[hash.home()];
        let Some(seen) = home.try_read().filter(|seen| !seen.moved()) else {
            return Glance::Unclear;
        };
        let like = home.like(hash.tag());
        let Some(slot_index) = like.first() else {
            return match seen.overflow() == 0 && home.unchanged(seen) {
                true => Glance::Absent,
                false => Glance::Unclear,
            };
        };
        let Some(slot) = home.slot(slot_index).filter(|_| home.unchanged(seen)) else {
            return Glance::Unclear;
        };
        match found_at_home(heap, key, home, seen, (slot_index, slot)) {
            Some(found) => Glance::Found(found),
            None => Glance::Unclear,
        }
    }

    /// Locks `hash`'s home line.
    pub(crate) fn lock<'a>(&'a self, heap: &'a Heap, hash: KeyHash) -> Locked<'a> {
        let (mut page, mut geometry) = self.page_of(heap, hash);
        loop {
            if let Some(home) = page[hash.home()].lock() {
                return self.locked(heap, hash, page, home);
            }
            if geometry.next_pages > 0 {
                page = self.next_page_of(heap, hash, geometry);
                geometry.next_pages = 0;
            } else {
                (page, geometry) = self.page_of(heap, hash);
            }
        }
    }

    fn locked<'a>(
        &'a self,
        heap: &'a Heap,
        hash: KeyHash,
        page: &'a [Line; PAGE_LINES],
        home: LineGuard<'a>,
    ) -> Locked<'a> {
        Locked {
            index: self,
            heap,
            hash,
            page,
            home,
        }
    }
}

/// What a look at one home line found.
enum Look<'a> {
    Found(Found<'a>),
    Absent,
    Changed,
    Moved,
}

/// What a glance at one home line found.
pub(crate) enum Glance<'a> {
    Found(Found<'a>),
    Absent,
    /// It takes more than a glance.
    Unclear,
}

/// The overflow lines whose bits are set. Most often there is none.
#[inline]
fn overflow_lines(overflow: u32) -> impl Iterator<Item = usize> {
    let mut left = overflow & ((1 << (PAGE_LINES - HOME_LINES)) - 1);
    std::iter::from_fn(move || {
        let number = left.trailing_zeros() as usize;
        (left != 0).then(|| {
            left &= left - 1;
            number
        })
    })
}

fn find_in<'a>(page: &'a [Line; PAGE_LINES], heap: &'a Heap, hash: KeyHash, key: &[u8]) -> Look<'a> {
    let home = &page[hash.home()];
    let seen = home.read();
    if seen.moved() {
        return Look::Moved;
    }
    for (slot_index, slot) in home.matches(hash.tag()) {
        // Only after this is the pair of location and tag known to be one slot's.
        if !home.unchanged(seen) {
            return Look::Changed;
        }
        if let Some(found) = found_at_home(heap, key, home, seen, (slot_index, slot)) {
            return Look::Found(found);
        }
    }
    for number in overflow_lines(seen.overflow()) {
        let line = &page[HOME_LINES + number];
        let line_seen = line.read();
        for (slot_index, slot) in line.matches(hash.overflow_tag()) {
            if !line.unchanged(line_seen) {
                return Look::Changed;
            }
            let item = heap.item(slot.location);
            if item.has_key(key) {
                return Look::Found(Found {
                    item,
                    location: slot.location,
                    home,
                    seen,
                    line,
                    place: Place::Overflow(number),
                    slot_index,
                    slot,
                });
            }
        }
    }
    if home.unchanged(seen) {
        Look::Absent
    } else {
        Look::Changed
    }
}

/// What this slot of a home line points at, if it has this key. The slot is known to be one's.
#[inline(always)]
fn found_at_home<'a>(
    heap: &'a Heap,
    key: &[u8],
    home: &'a Line,
    seen: Seen,
    (slot_index, slot): (usize, Slot),
) -> Option<Found<'a>> {
    // It is fetched along with the key: what a reader does before it comes to the value orders memory accesses.
    heap.prefetch_value(slot.location);
    let item = heap.item(slot.location);
    item.has_key(key).then_some(Found {
        item,
        location: slot.location,
        home,
        seen,
        line: home,
        place: Place::Home,
        slot_index,
        slot,
    })
}

impl<'a> Locked<'a> {
    /// Whose home it is.
    pub(crate) fn hash(&self) -> KeyHash {
        self.hash
    }

    /// The slot that points at `location`, where `item` lies.
    #[inline(always)]
    pub(crate) fn find_location(&self, location: Location, item: ItemRef<'a>) -> Option<Entry<'a>> {
        let (place, slot_index, slot) = match self.home.line().find_location(location) {
            Some((slot_index, slot)) => (Place::Home, slot_index, slot),
            None => self.find_location_beside(location)?,
        };
        Some(Entry {
            hash: self.hash,
            item,
            location,
            heat: slot.heat,
            place,
            slot_index,
        })
    }

    /// As `find_location`, in the overflow lines.
    #[cold]
    fn find_location_beside(&self, location: Location) -> Option<(Place, usize, Slot)> {
        overflow_lines(self.home.overflow()).find_map(|number| {
            let line = &self.page[HOME_LINES + number];
            // Other homes change their slots here meanwhile; see `entries`.
            let found = loop {
                let seen = line.read();
                let found = line.find_location(location);
                if line.unchanged(seen) {
                    break found;
                }
            };
            found.map(|(slot_index, slot)| (Place::Overflow(number), slot_index, slot))
        })
    }

    /// The slot among those with this hash's tag whose item `is` the one.
    pub(crate) fn find_by(&self, is: impl Fn(ItemRef<'a>) -> bool) -> Option<Entry<'a>> {
        self.entries().find(|entry| is(entry.item))
    }

    fn entries(&self) -> impl Iterator<Item = Entry<'a>> {
        let (page, heap) = (self.page, self.heap);
        let tag = self.hash.overflow_tag();
        let home = self
            .home
            .line()
            .matches(self.hash.tag())
            .map(|(slot_index, slot)| (Place::Home, slot_index, slot));
        let overflow = overflow_lines(self.home.overflow()).flat_map(move |number| {
            let line = &page[HOME_LINES + number];
            // Other homes change their slots here meanwhile; ours stay, so a state without a change is complete.
            let slots = loop {
                let seen = line.read();
                let mut slots = [None; SLOTS];
                for (slot_index, slot) in line.matches(tag) {
                    slots[slot_index] = Some((Place::Overflow(number), slot_index, slot));
                }
                if line.unchanged(seen) {
                    break slots;
                }
            };
            slots.into_iter().flatten()
        });
        let hash = self.hash;
        home.chain(overflow).map(move |(place, slot_index, slot)| Entry {
            hash,
            item: heap.item(slot.location),
            location: slot.location,
            heat: slot.heat,
            place,
            slot_index,
        })
    }

    fn slot(&self, place: Place, location: Location, heat: Heat) -> Slot {
        let tag = match place {
            Place::Home => self.hash.tag(),
            Place::Overflow(_) => self.hash.overflow_tag(),
        };
        Slot { location, tag, heat }
    }

    /// Points the key's slot at another item.
    pub(crate) fn replace(&mut self, entry: &Entry<'_>, location: Location, heat: Heat) {
        let slot = self.slot(entry.place, location, heat);
        match entry.place {
            Place::Home => self.home.change(|change| change.set(entry.slot_index, slot)),
            Place::Overflow(number) => {
                let mut line = self.overflow_line(number);
                self.home
                    .change(|_| line.change(|change| change.set(entry.slot_index, slot)));
            }
        }
    }

    /// Notes that the key's item was read.
    pub(crate) fn note_read(&self, entry: &Entry<'_>, random: impl FnOnce() -> u64) {
        let heat = entry.heat.raised(random);
        if heat != entry.heat {
            let line = match entry.place {
                Place::Home => self.home.line(),
                Place::Overflow(number) => &self.page[HOME_LINES + number],
            };
            let slot = self.slot(entry.place, entry.location, entry.heat);
            line.note_heat(entry.slot_index, slot, heat);
        }
    }

    /// Empties the key's slot.
    #[inline]
    pub(crate) fn remove(&mut self, entry: &Entry<'_>) {
        match entry.place {
            Place::Home => self.home.change(|change| change.clear(entry.slot_index)),
            Place::Overflow(number) => self.remove_beside(number, entry.slot_index),
        }
    }

    #[cold]
    fn remove_beside(&mut self, number: usize, slot_index: usize) {
        let mut line = self.overflow_line(number);
        let home_number = self.hash.home();
        let mut others = line.line().slots().filter(|(other, _)| *other != slot_index);
        let last = !others.any(|(_, slot)| overflow_home(slot) == home_number);
        self.home.change(|home| {
            line.change(|change| change.clear(slot_index));
            if last {
                home.set_overflow(number, false);
            }
        });
    }

    /// Runs `change` on the item's mutable words so that no reader pairs old ones with new ones.
    pub(crate) fn change_in_place<R>(&mut self, change: impl FnOnce() -> R) -> R {
        self.home.change(|_| change())
    }

    /// Puts the key, which must not be there, into a slot. If the whole page is full even after [`Index::relieve`], which
    /// takes crafted keys, an item of the home line makes room and is returned: the caller counts it as evicted.
    pub(crate) fn insert(&mut self, location: Location, heat: Heat) -> Option<Entry<'a>> {
        if self.try_insert(location, heat) {
            return None;
        }
        Some(self.insert_by_force(location, heat))
    }

    /// Whether a key that is not there would find an empty slot.
    pub(crate) fn has_room(&self) -> bool {
        self.home.empty_slot().is_some()
            || self.page[HOME_LINES..]
                .iter()
                .any(|line| line.slots().count() < SLOTS)
    }

    fn try_insert(&mut self, location: Location, heat: Heat) -> bool {
        if let Some(slot_index) = self.home.empty_slot() {
            let slot = self.slot(Place::Home, location, heat);
            self.home.change(|change| change.set(slot_index, slot));
            return true;
        }
        let used = self.home.overflow();
        // Lines that already hold keys of this home first: each further one costs look-ups.
        for number in overflow_lines(used).chain(overflow_lines(!used)) {
            let mut line = self.overflow_line(number);
            if let Some(slot_index) = line.empty_slot() {
                let slot = self.slot(Place::Overflow(number), location, heat);
                self.home.change(|home| {
                    line.change(|change| change.set(slot_index, slot));
                    home.set_overflow(number, true);
                });
                return true;
            }
        }
        false
    }

    fn insert_by_force(&mut self, location: Location, heat: Heat) -> Entry<'a> {
        let (slot_index, victim) = self
            .home
            .line()
            .slots()
            .min_by_key(|(_, slot)| slot.heat.reads())
            .expect("the line is full");
        let slot = self.slot(Place::Home, location, heat);
        self.home.change(|change| change.set(slot_index, slot));
        Entry {
            hash: self.index.slot_hash(self.heap, victim),
            item: self.heap.item(victim.location),
            location: victim.location,
            heat: victim.heat,
            place: Place::Home,
            slot_index,
        }
    }

    fn overflow_line(&self, number: usize) -> LineGuard<'a> {
        self.page[HOME_LINES + number]
            .lock()
            .expect("overflow lines are never marked as moved")
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

mod find;
mod recover;
mod resize;
mod restart;

pub(crate) use find::Mark;
pub(crate) use recover::{Moved, Visit};
pub(crate) use resize::{GROW_ABOVE, PUNCH_BATCH, first_pages, grown};
