//! Growing and shrinking: when the table gets another size, and how its lines move there.

use scrubjay_base::sync::whole::Ordering;
use scrubjay_io::memory::HUGE_PAGE_SIZE;

use super::{Entry, Geometry, HOME_LINES, Index, KeyHash, LineGuard, Slot, overflow_home, overflow_lines};
use crate::epoch::Epochs;
use crate::expiry::TICKS_PER_SEC;
use crate::line::SLOTS;
use crate::segment::{Heap, PAGE_LINES, PAGE_SIZE};

/// Pages of an empty index at least and at most.
const FIRST_PAGES: std::ops::RangeInclusive<usize> = 4..=64;

/// Bytes of the cache for each page of an empty index: a page for every MiB is nothing beside it.
const BYTES_PER_FIRST_PAGE: usize = 1 << 20;

/// Load, in items per page, above which the index grows: 0.76 of all slots. At 0.8 some pages in a hundred are full.
pub(crate) const GROW_ABOVE: usize = PAGE_LINES * SLOTS * 76 / 100;

/// Load, in items per page of the table that there is or that is coming, above which whoever stores waits for a growth that is
/// late: 0.78 of all slots if it has not begun, and 0.68 while it goes on, which begins at 0.61 and, as 32 stores move a page, ends
/// at 0.65 when nothing holds it up.
const LATE_ABOVE: usize = PAGE_LINES * SLOTS * 78 / 100;
const SLOW_ABOVE: usize = PAGE_LINES * SLOTS * 68 / 100;

/// Load below which a full page is bad luck, not a reason to grow: 0.5 of all slots.
const FULL_BELOW: usize = PAGE_LINES * SLOTS / 2;

/// Load below which it shrinks to half: 0.33 of all slots. That needs no look at the items, as page `p` goes to `p / 2`.
pub(super) const SHRINK_BELOW: usize = PAGE_LINES * SLOTS / 3;

/// It shrinks by so many halvings at once if the load allows that.
pub(super) const HALVINGS_MAX: u32 = 4;

/// While memory is free and items go by the crowd, it waits until so many halvings are due: then few are left to be moved.
const HALVINGS_AWAITED: u32 = 4;

/// Items go by the crowd if in so many ticks (two minutes, as those that live for long go together) there is one less of so many.
pub(super) const CROWD_TICKS: u32 = 120 * TICKS_PER_SEC;
const CROWD_SHARE: u64 = 16;

/// Moved pages whose memory is given back together.
pub(crate) const PUNCH_BATCH: usize = 16;

/// Pages, 1 MiB of them, from which on look-ups wait for memory.
pub(super) const FAR_PAGES: usize = 256;

/// It grows by this share of its pages (one over it), but by as many as it had at first at least: a resize ends when all workers
/// have passed a quiet moment, and until then they may store more than a quarter of a small table holds.
const GROWTH_SHARE: usize = 4;

/// Pages of the empty index of a cache of so many bytes.
pub(crate) fn first_pages(memory_max: usize) -> usize {
    (memory_max / BYTES_PER_FIRST_PAGE).clamp(*FIRST_PAGES.start(), *FIRST_PAGES.end())
}

/// Pages that follow on so many when it grows, in an index of so many at first: a number that can be halved, once if they are
/// few.
pub(crate) fn grown(pages: usize, first_pages: usize) -> usize {
    let pages = pages + (pages / GROWTH_SHARE).max(first_pages);
    let halvings = if pages < FAR_PAGES { 1 } else { HALVINGS_MAX };
    pages.next_multiple_of(1 << halvings)
}

/// How often a table of `pages` has to be halved until `items` fill a third of it.
fn halvings_due(pages: usize, items: usize) -> u32 {
    let is_due = |halvings: &u32| items < (pages >> halvings) * SHRINK_BELOW;
    (0..HALVINGS_MAX).take_while(is_due).count() as u32
}

/// Where a resize stands; only the holder of the lock moves lines.
#[derive(Debug, Default)]
pub(super) struct Resize {
    /// Old pages whose memory was given back.
    pub(super) punched: usize,
    /// Old pages before this one may be given back when `epoch` has passed.
    pub(super) punch_to: Option<(usize, u64)>,
    /// The old extent, until its last pages are given back.
    pub(super) leaving: Option<(usize, usize)>,
    /// Huge pages' worth of the table that were looked at since the last resize, and how many of them got one.
    pub(super) looked_at: usize,
    pub(super) huge: usize,
}

impl Index {
    /// Whether pages are being moved.
    pub(crate) fn is_resizing(&self) -> bool {
        self.resizing.load(Ordering::Relaxed)
    }

    /// Whether a step of resizing is due or under way, given the number of items.
    pub(crate) fn wants_step(&self, items: u64) -> bool {
        self.resizing.load(Ordering::Relaxed) || self.target_pages(items).is_some()
    }

    /// Whether items come faster than the index grows, for want of a moment: a page that is full then would cost an item though
    /// there is memory.
    pub(crate) fn is_behind(&self, items: u64) -> bool {
        let Geometry {
            pages, next_pages, ..
        } = self.geometry();
        let items = items as usize;
        match next_pages {
            // Somebody still looks at the extent that it would grow into.
            0 => {
                items > pages * LATE_ABOVE
                    && self
                        .resize
                        .try_lock()
                        .map_or(true, |resize| resize.leaving.is_some())
            }
            _ => items > next_pages * SLOW_ABOVE,
        }
    }

    /// Whether memory of an old table waits to be given back.
    pub(crate) fn has_leftovers(&self) -> bool {
        self.resize
            .try_lock()
            .is_ok_and(|resize| resize.leaving.is_some())
    }

    /// Puts a huge page under the next part of a table that is not being resized; `None` if there is none.
    pub(crate) fn take_huge_page(&self, heap: &Heap) -> Option<std::io::Result<()>> {
        // Held while the kernel copies: no page is given back meanwhile.
        let mut resize = self.resize.try_lock().ok()?;
        let geometry = self.geometry();
        let range = resize.looked_at;
        let is_whole = (range + 1) * HUGE_PAGE_SIZE <= geometry.pages * PAGE_SIZE;
        if geometry.next_pages > 0 || resize.leaving.is_some() || !is_whole {
            return None;
        }
        resize.looked_at += 1;
        let taken = heap.collapse_pages(geometry.extent, range);
        resize.huge += usize::from(taken.is_ok());
        Some(taken)
    }

    /// Bytes of the table that were given huge pages, while it is not being resized.
    pub(crate) fn huge_page_bytes(&self) -> usize {
        self.resize
            .try_lock()
            .map_or(0, |resize| resize.huge * HUGE_PAGE_SIZE)
    }

    /// Bytes that the next growth takes, while it lasts.
    pub(crate) fn growth_bytes(&self) -> u64 {
        let pages = self.geometry().pages;
        ((grown(pages, self.first_pages) - pages + pages.min(2 * PUNCH_BATCH)) * PAGE_SIZE) as u64
    }

    /// Whether so many items are more than the index is to hold at its size.
    pub(crate) fn is_due(&self, items: u64) -> bool {
        items as usize > self.geometry().pages * GROW_ABOVE
    }

    pub(super) fn target_pages(&self, items: u64) -> Option<usize> {
        let pages = self.geometry().pages;
        let items = items as usize;
        let full = self.page_was_full.load(Ordering::Relaxed);
        if items > pages * GROW_ABOVE || full {
            // A page can be full by bad luck; growing on and on for that would be waste.
            let enough = full && items < pages * FULL_BELOW;
            return (!enough).then_some(grown(pages, self.first_pages));
        }
        let due = halvings_due(pages, items);
        if due == 0 || pages <= self.first_pages || self.awaits_fewer.load(Ordering::Relaxed) {
            return None;
        }
        let halvings = due.min(pages.trailing_zeros()).max(1);
        Some((pages >> halvings).max(self.first_pages))
    }

    /// Decides whether a table that has become too large is left alone for now. While memory is free nobody needs what a smaller
    /// one would give back, and while items go by the crowd each halving would move those that go next. Called four times a
    /// second.
    pub(crate) fn note_load(&self, items: u64, tick: u32, memory_is_free: bool) {
        let due = halvings_due(self.geometry().pages, items as usize);
        let mut sparse = self.sparse.lock().expect("nothing panics under this lock");
        let began = sparse.filter(|&(_, before)| due > 0 && items + before / CROWD_SHARE >= before);
        let (since, _) = began.unwrap_or((tick, items));
        *sparse = began.or((due > 0).then_some((tick, items)));
        let is_steady = due > 0 && tick.saturating_sub(since) >= CROWD_TICKS;
        let awaits = memory_is_free && !is_steady && due < HALVINGS_AWAITED;
        self.awaits_fewer.store(awaits, Ordering::Relaxed);
    }

    /// Moves at most `pages` pages of a resize, starting one if the load asks for it. Returns whether more is to do.
    /// Another thread at the same work makes it return at once. Items for which a page of the new table has no room (a
    /// matter of crafted keys) are added to `pushed_out`; no slot points at them any more.
    pub(crate) fn step<'a>(
        &'a self,
        heap: &'a Heap,
        epochs: &Epochs,
        items: u64,
        pages: usize,
        pushed_out: &mut Vec<Entry<'a>>,
    ) -> bool {
        let Ok(mut resize) = self.resize.try_lock() else {
            return false;
        };
        self.give_back(&mut resize, heap, epochs);
        let Some(geometry) = self.start(&mut resize, heap, items) else {
            return false;
        };
        for _ in 0..pages {
            let frontier = self.frontier.load(Ordering::Relaxed) as usize;
            if frontier == geometry.pages {
                self.finish(&mut resize, heap, geometry, epochs);
                return false;
            }
            self.move_page(heap, geometry, frontier, pushed_out);
            self.set_frontier(heap, frontier as u64 + 1);
            if resize.punch_to.is_none() && frontier + 1 - resize.punched >= PUNCH_BATCH {
                resize.punch_to = Some((frontier + 1, epochs.retire()));
            }
        }
        true
    }

    /// The geometry of the resize that is going on, or of one that is started now because the load asks for it.
    fn start(&self, resize: &mut Resize, heap: &Heap, items: u64) -> Option<Geometry> {
        let mut geometry = self.geometry();
        if geometry.next_pages > 0 {
            return Some(geometry);
        }
        // The other extent still holds lines that somebody may be looking at.
        if resize.leaving.is_some() {
            return None;
        }
        let target = self.target_pages(items)?;
        if target > heap.pages_max() || target == geometry.pages {
            return None;
        }
        self.page_was_full.store(false, Ordering::Relaxed);
        geometry.next_pages = target;
        *resize = Resize::default();
        self.set_frontier(heap, 0);
        self.resizing.store(true, Ordering::Relaxed);
        self.set_geometry(heap, geometry);
        Some(geometry)
    }

    /// `hash`'s page is full: grows the index and moves that page ahead of its turn. Items as in [`Index::step`].
    pub(crate) fn relieve<'a>(
        &'a self,
        heap: &'a Heap,
        epochs: &Epochs,
        hash: KeyHash,
        items: u64,
        pushed_out: &mut Vec<Entry<'a>>,
    ) {
        let mut resize = self.resize.lock().expect("nothing panics while it moves pages");
        // A resize that is under way is relief enough; another would follow it at once.
        if self.geometry().next_pages == 0 {
            self.page_was_full.store(true, Ordering::Relaxed);
        }
        self.give_back(&mut resize, heap, epochs);
        if let Some(geometry) = self.start(&mut resize, heap, items) {
            let number = hash.page(geometry.pages);
            // A page before the frontier may have been given back: marked as moved, it would be found so by the next resize,
            // whose table it will be part of.
            if number as u64 >= self.frontier.load(Ordering::Relaxed) {
                self.move_page(heap, geometry, number, pushed_out);
            }
        }
    }

    fn finish(&self, resize: &mut Resize, heap: &Heap, geometry: Geometry, epochs: &Epochs) {
        let now = Geometry {
            extent: 1 - geometry.extent,
            pages: geometry.next_pages,
            next_pages: 0,
        };
        self.set_geometry(heap, now);
        self.resizing.store(false, Ordering::Relaxed);
        resize.leaving = Some((geometry.extent, geometry.pages));
        resize.punch_to = Some((geometry.pages, epochs.retire()));
    }

    /// Gives the memory of moved pages back once nobody can look at them.
    fn give_back(&self, resize: &mut Resize, heap: &Heap, epochs: &Epochs) {
        let Some((to, epoch)) = resize.punch_to else {
            return;
        };
        if !epochs.passed(epoch) {
            return;
        }
        let extent = resize
            .leaving
            .map_or(self.geometry().extent, |(extent, _)| extent);
        // The last batch may have ended with the table: then there is nothing left to give back, and the kernel wants no such
        // request.
        if to > resize.punched {
            heap.punch_pages(extent, resize.punched, to);
        }
        resize.punched = to;
        resize.punch_to = None;
        if resize.leaving.is_some_and(|(_, pages)| pages == to) {
            *resize = Resize::default();
        }
    }

    /// Moves every line of one old page. Writers of a line wait while it moves; readers never do.
    fn move_page<'a>(
        &'a self,
        heap: &'a Heap,
        geometry: Geometry,
        number: usize,
        pushed_out: &mut Vec<Entry<'a>>,
    ) {
        let page = heap.page(geometry.extent, number);
        // To halve, only the items of overflow lines are looked at.
        let looked_at = if geometry.halvings() > 0 {
            &page[HOME_LINES..]
        } else {
            &page[..]
        };
        for line in looked_at {
            line.slots().for_each(|(_, slot)| heap.prefetch(slot.location));
        }
        for home_number in 0..HOME_LINES {
            self.move_line(heap, geometry, number, home_number, pushed_out);
        }
    }

    fn move_line<'a>(
        &'a self,
        heap: &'a Heap,
        geometry: Geometry,
        number: usize,
        home_number: usize,
        pushed_out: &mut Vec<Entry<'a>>,
    ) {
        let page = heap.page(geometry.extent, number);
        let Some(mut home) = page[home_number].lock() else {
            return;
        };
        let halvings = geometry.halvings();
        let moved = halvings > 0 && self.move_slots(heap, geometry, number >> halvings, home_number, &home);
        for (_, slot) in home.line().slots().filter(|_| !moved) {
            let hash = if halvings > 0 {
                KeyHash::placed(number >> halvings, geometry.next_pages, home_number, slot.tag)
            } else {
                self.slot_hash(heap, slot)
            };
            self.insert_moved(heap, geometry, hash, slot, pushed_out);
        }
        let mut overflow = Vec::new();
        for number in overflow_lines(home.overflow()) {
            let line = page[HOME_LINES + number]
                .lock()
                .expect("overflow lines are never marked as moved");
            let slots = line.line().slots();
            for (slot_index, slot) in slots.filter(|(_, slot)| overflow_home(*slot) == home_number) {
                self.insert_moved(heap, geometry, self.slot_hash(heap, slot), slot, pushed_out);
                overflow.push((number, slot_index));
            }
        }
        // Readers go to the new table from here on; writers wait for the lock until the leftovers are gone as well.
        // The slots stay as they are, and nobody looks at them: one store says it all, whenever the process dies.
        home.change(|change| change.mark_moved());
        for (number, slot_index) in overflow {
            let mut line = page[HOME_LINES + number]
                .lock()
                .expect("overflow lines are never marked as moved");
            line.change(|change| change.clear(slot_index));
        }
    }

    /// Copies what a home line holds to its line in page `to` of the new table, at once, if there is room for all.
    fn move_slots(
        &self,
        heap: &Heap,
        geometry: Geometry,
        to: usize,
        home_number: usize,
        home: &LineGuard<'_>,
    ) -> bool {
        let mut new = heap.page(1 - geometry.extent, to)[home_number]
            .lock()
            .expect("lines of the new table do not move before the old ones have");
        let count = home.line().slots().count();
        if count > new.empty_slots().count() {
            return false;
        }
        if count > 0 {
            let pairs = new.empty_slots().zip(home.line().slots());
            new.change(|change| pairs.for_each(|(empty, (_, slot))| change.set(empty, slot)));
        }
        true
    }

    fn insert_moved<'a>(
        &'a self,
        heap: &'a Heap,
        geometry: Geometry,
        hash: KeyHash,
        slot: Slot,
        pushed_out: &mut Vec<Entry<'a>>,
    ) {
        let page = self.next_page_of(heap, hash, geometry);
        let home = page[hash.home()]
            .lock()
            .expect("lines of the new table do not move before the old ones have");
        let mut locked = self.locked(heap, hash, page, home);
        if !locked.try_insert(slot.location, slot.heat) {
            pushed_out.push(locked.insert_by_force(slot.location, slot.heat));
        }
    }
}
