//! A line of the hash table: one cache line of slots under one version.
//!
//! ```text
//! header     u32        version:21 (odd = being changed) | spare:1 | moved:1 | locked:1 | overflow:8
//! locations  u32 x 10   low 32 bits of an item's location; 0 = empty slot
//! metas      u16 x 10   tag:7 | hit:1 | heat:4 | location's high 4 bits; read and written by twos
//! ```
//! Readers never lock: they read the version, the slots, then the version again. Writers lock the home line of a key;
//! any change to the keys of a home line, also of those that lie in an overflow line, changes the home line's version.

use scrubjay_base::sync::{AtomicU32, Ordering, fence, spin_loop, yield_now};

/// Slots in a line.
pub(crate) const SLOTS: usize = 10;

const OVERFLOW_MASK: u32 = 0xff;
const LOCKED: u32 = 1 << 8;
const MOVED: u32 = 1 << 9;
const VERSION_ONE: u32 = 1 << 11;
const VERSION_MASK: u32 = !(VERSION_ONE - 1);

/// Bits of a tag.
pub(crate) const TAG_BITS: u32 = 7;

const TAG_SHIFT: u16 = 9;
const HIT: u16 = 1 << 8;
const LEVEL_SHIFT: u16 = 4;
const LEVEL_MASK: u16 = 0xf << LEVEL_SHIFT;
const LOCATION_HIGH_MASK: u16 = 0xf;

/// Spins before a waiting thread gives its core away: a changed version settles within some 10 ns unless its writer was
/// preempted.
const SPINS_BEFORE_YIELD: u32 = 64;

/// Where an item lies, in allocation units from the heap's start; never 0. Only [`Line`] reads that were validated and
/// the allocator make one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Location(u64);

impl Location {
    /// Bits that a slot keeps of a location.
    pub(crate) const BITS: u32 = 36;

    pub(crate) fn from_units(units: u64) -> Location {
        debug_assert!(units > 0);
        debug_assert!(units < 1 << Location::BITS);
        Location(units)
    }

    pub(crate) fn units(self) -> u64 {
        self.0
    }
}

/// One cache line of the table.
#[repr(C, align(64))]
#[derive(Debug)]
#[cfg_attr(test, derive(Default))]
pub(crate) struct Line {
    /// Written by the holder of the lock bit; read by all. Even-version stores (Release) pair with [`Line::read`].
    header: AtomicU32,
    /// Written inside an odd version; read between two loads of the header.
    locations: [AtomicU32; SLOTS],
    /// As `locations`, two slots' in a word, the first one's in its low half; readers may also note a read (one relaxed attempt,
    /// lossy by contract).
    metas: [AtomicU32; SLOTS / 2],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Line>() == 64);

/// A line's header as a reader saw it, with an even version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen(u32);

impl Seen {
    /// Which overflow lines hold keys of this home line.
    pub(crate) fn overflow(self) -> u32 {
        self.0 & OVERFLOW_MASK
    }

    /// The line's keys are in the table that the index grows or shrinks into.
    pub(crate) fn moved(self) -> bool {
        self.0 & MOVED != 0
    }
}

/// The content of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) location: Location,
    pub(crate) tag: u16,
    pub(crate) heat: Heat,
}

/// Reads that each level of heat stands for. Steps are powers of two, so that one random number decides.
const LEVEL_READS: [u16; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 28, 32];

/// How often an item was read, and whether since it was put where it lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Heat {
    level: u16,
    /// Read since it was put where it lies.
    pub(crate) hit: bool,
}

impl Heat {
    /// The heat of an item that is put somewhere after `level` (0 to 15) was remembered of it.
    pub(crate) fn remembered(level: u8) -> Heat {
        Heat {
            level: u16::from(level & 15),
            hit: false,
        }
    }

    /// What to remember of it: 0 to 15.
    pub(crate) fn level(self) -> u8 {
        self.level as u8
    }

    /// Reads noted so far; 32 stands for that many and more.
    pub(crate) fn reads(self) -> u16 {
        LEVEL_READS[usize::from(self.level)]
    }

    /// Reads noted as a power of two, 0 to 32.
    pub(crate) fn reads_class(self) -> u16 {
        match self.reads() {
            0 => 0,
            reads => 1 << reads.ilog2(),
        }
    }

    /// The same item in a new place, where it was not read yet.
    pub(crate) fn cooled(self) -> Heat {
        Heat { hit: false, ..self }
    }

    /// The heat after one more read; beyond 8 reads a level stands for several, and `random`, asked only then, says whether it is
    /// reached.
    #[inline(always)]
    pub(crate) fn raised(self, random: impl FnOnce() -> u64) -> Heat {
        let level = usize::from(self.level);
        let step = LEVEL_READS
            .get(level + 1)
            .map_or(0, |next| u64::from(next - LEVEL_READS[level]));
        let rises = match step {
            0 => false,
            1 => true,
            _ => random() & (step - 1) == 0,
        };
        Heat {
            level: self.level + u16::from(rises),
            hit: true,
        }
    }
}

/// Slots of a line: of the slot 4 * n + m, the bit 16 * m + n.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Like(u64);

impl Like {
    /// One of them, by its number.
    #[inline]
    pub(crate) fn first(self) -> Option<usize> {
        let bit = self.0.trailing_zeros() as usize;
        (self.0 != 0).then_some(bit % 16 * 4 + bit / 16)
    }
}

impl Slot {
    fn meta(self) -> u16 {
        let hit = if self.heat.hit { HIT } else { 0 };
        (self.tag << TAG_SHIFT) | hit | (self.heat.level << LEVEL_SHIFT) | (self.location.0 >> 32) as u16
    }

    fn decode(location: u32, meta: u16) -> Option<Slot> {
        (location != 0).then(|| Slot {
            location: Location((u64::from(meta & LOCATION_HIGH_MASK) << 32) | u64::from(location)),
            tag: meta >> TAG_SHIFT,
            heat: Heat {
                level: (meta & LEVEL_MASK) >> LEVEL_SHIFT,
                hit: meta & HIT != 0,
            },
        })
    }
}

impl Line {
    /// An empty line, for models; in the index lines are zeroed memory.
    #[cfg(loom)]
    pub(crate) fn new() -> Line {
        Line {
            header: AtomicU32::new(0),
            locations: std::array::from_fn(|_| AtomicU32::new(0)),
            metas: std::array::from_fn(|_| AtomicU32::new(0)),
        }
    }

    /// A slot's meta.
    #[inline]
    fn meta(&self, index: usize) -> u16 {
        (self.metas[index / 2].load(Ordering::Relaxed) >> meta_shift(index)) as u16
    }

    /// Stores a slot's meta; nobody else stores here, but a reader may note a read of the other slot, which is then lost.
    #[inline]
    fn set_meta(&self, index: usize, meta: u16) {
        let word = &self.metas[index / 2];
        word.store(
            with_meta(word.load(Ordering::Relaxed), index, meta),
            Ordering::Relaxed,
        );
    }

    /// What the line's header says, unless somebody is changing the line.
    #[inline]
    pub(crate) fn try_read(&self) -> Option<Seen> {
        // Pairs with the Release stores in `change` and `drop`.
        let header = self.header.load(Ordering::Acquire);
        (header & VERSION_ONE == 0).then_some(Seen(header))
    }

    /// Waits until nobody changes the line and returns what its header says.
    #[inline]
    pub(crate) fn read(&self) -> Seen {
        let mut spins = 0;
        loop {
            if let Some(seen) = self.try_read() {
                return seen;
            }
            wait(&mut spins);
        }
    }

    /// Whether no key of the line changed since `seen`; what was read in between is then one consistent state.
    #[inline]
    pub(crate) fn unchanged(&self, seen: Seen) -> bool {
        fence(Ordering::Acquire);
        (self.header.load(Ordering::Relaxed) ^ seen.0) & (VERSION_MASK | MOVED) == 0
    }

    /// The slots whose tag is `tag`. To be believed only under the lock or after [`Line::unchanged`].
    #[inline]
    pub(crate) fn matches(&self, tag: u16) -> impl Iterator<Item = (usize, Slot)> + '_ {
        let mut like = self.like(tag);
        std::iter::from_fn(move || {
            while let Some(index) = like.first() {
                like.0 &= like.0 - 1;
                // Under a lock-free read it may be another by now.
                if let Some(slot) = self.slot(index).filter(|slot| slot.tag == tag) {
                    return Some((index, slot));
                }
            }
            None
        })
    }

    /// Which slots seem to be filled and to have this tag. To be believed as [`Line::matches`].
    #[inline]
    pub(crate) fn like(&self, tag: u16) -> Like {
        // All metas are compared before one is looked at: where a match is found cannot be foretold, and a processor that
        // foretells it wrongly waits for memory when it could have been at the next request. The fewer steps wait for the line,
        // the more of the next request a processor has room for meanwhile.
        let pair = |number: usize| u64::from(self.metas[number].load(Ordering::Relaxed));
        let [first, second] = [0, 2].map(|number| like_tag(pair(number) | (pair(number + 1) << 32), tag));
        let last = like_tag(pair(4), tag) & u64::from(u32::MAX);
        Like(first | (second << 1) | (last << 2))
    }

    /// The slot that holds this location. To be believed as [`Line::matches`].
    #[inline]
    pub(crate) fn find_location(&self, location: Location) -> Option<(usize, Slot)> {
        let low = location.0 as u32;
        let high = (location.0 >> 32) as u16;
        // All are compared before one is looked at, as in `matches`.
        let mut set = self.locations.iter().rev().fold(0u32, |set, other| {
            set << 1 | u32::from(other.load(Ordering::Relaxed) == low)
        });
        while set != 0 {
            let index = set.trailing_zeros() as usize;
            set &= set - 1;
            let meta = self.meta(index);
            if meta & LOCATION_HIGH_MASK == high {
                return Some((index, Slot::decode(low, meta)?));
            }
        }
        None
    }

    /// All filled slots. To be believed only under the lock or after [`Line::unchanged`].
    pub(crate) fn slots(&self) -> impl Iterator<Item = (usize, Slot)> + '_ {
        (0..SLOTS).filter_map(|slot| {
            let location = self.locations[slot].load(Ordering::Relaxed);
            // Most of a line that is shrunk away is empty.
            if location == 0 {
                return None;
            }
            Some((slot, Slot::decode(location, self.meta(slot))?))
        })
    }

    /// Notes a heat other than the one that was read with `slot`. One attempt: a race loses a count, never more.
    pub(crate) fn note_heat(&self, index: usize, slot: Slot, heat: Heat) {
        let raised = Slot { heat, ..slot };
        let word = &self.metas[index / 2];
        let seen = word.load(Ordering::Relaxed);
        if (seen >> meta_shift(index)) as u16 == slot.meta() {
            let noted = with_meta(seen, index, raised.meta());
            let _ = word.compare_exchange(seen, noted, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Locks the line against writers; spins, then yields, while another holds it. `None` if the line was moved.
    pub(crate) fn lock(&self) -> Option<LineGuard<'_>> {
        let mut spins = 0;
        loop {
            let header = self.header.load(Ordering::Relaxed);
            if header & LOCKED == 0 {
                if header & MOVED != 0 {
                    return None;
                }
                // Acquire pairs with the Release in `drop`: this holder sees what the last one wrote.
                let locked = self.header.compare_exchange_weak(
                    header,
                    header | LOCKED,
                    Ordering::Acquire,
                    Ordering::Relaxed,
                );
                if locked.is_ok() {
                    return Some(LineGuard {
                        line: self,
                        header: header | LOCKED,
                    });
                }
            }
            wait(&mut spins);
        }
    }

    /// Which overflow lines held keys of this home line at some moment: good enough to fetch them.
    pub(crate) fn overflow_hint(&self) -> u32 {
        self.header.load(Ordering::Relaxed) & OVERFLOW_MASK
    }

    /// Whether somebody holds the lock; for audits of a quiet table.
    pub(crate) fn is_busy(&self) -> bool {
        self.header.load(Ordering::Relaxed) & (LOCKED | VERSION_ONE) != 0
    }
}

/// Where in its word a slot's meta begins.
fn meta_shift(index: usize) -> usize {
    index % 2 * 16
}

/// The word with another meta for one of its slots.
fn with_meta(word: u32, index: usize, meta: u16) -> u32 {
    (word & !(0xffff << meta_shift(index))) | (u32::from(meta) << meta_shift(index))
}

/// The lowest bit of each of four metas whose tag is this.
#[inline]
fn like_tag(metas: u64, tag: u16) -> u64 {
    const ONES: u64 = 0x0001_0001_0001_0001;
    let unlike = (metas ^ (ONES * u64::from(tag << TAG_SHIFT))) >> TAG_SHIFT & (ONES * ((1 << TAG_BITS) - 1));
    // Seven bits that are not all 0 carry into the eighth.
    let carried = unlike + ONES * ((1 << TAG_BITS) - 1);
    (!carried >> TAG_BITS) & ONES
}

fn wait(spins: &mut u32) {
    *spins += 1;
    if spins.is_multiple_of(SPINS_BEFORE_YIELD) {
        yield_now()
    } else {
        spin_loop()
    }
}

/// Holding it tells you: no other thread changes the keys of this line. It does not tell you that readers are away.
#[derive(Debug)]
pub(crate) struct LineGuard<'a> {
    line: &'a Line,
    /// The header as this holder last stored it; nobody else stores while the lock bit is set.
    header: u32,
}

impl<'a> LineGuard<'a> {
    pub(crate) fn line(&self) -> &'a Line {
        self.line
    }

    /// Which overflow lines hold keys of this home line.
    pub(crate) fn overflow(&self) -> u32 {
        self.header & OVERFLOW_MASK
    }

    /// The first empty slot.
    pub(crate) fn empty_slot(&self) -> Option<usize> {
        self.empty_slots().next()
    }

    /// All empty slots.
    pub(crate) fn empty_slots(&self) -> impl Iterator<Item = usize> + 'a {
        let line = self.line;
        (0..SLOTS).filter(move |&slot| line.locations[slot].load(Ordering::Relaxed) == 0)
    }

    /// Runs `change` with the version odd, so that readers who overlap it start again. Keep it to some ten stores.
    pub(crate) fn change<R>(&mut self, change: impl FnOnce(&mut LineChange<'_, 'a>) -> R) -> R {
        self.header = self.header.wrapping_add(VERSION_ONE);
        self.line.header.store(self.header, Ordering::Relaxed);
        // Orders the odd version before the stores of `change`; pairs with the Acquire fence in `unchanged`.
        fence(Ordering::Release);
        let result = change(&mut LineChange { guard: self });
        self.header = self.header.wrapping_add(VERSION_ONE);
        // Pairs with the Acquire load in `read`.
        self.line.header.store(self.header, Ordering::Release);
        result
    }
}

impl Drop for LineGuard<'_> {
    fn drop(&mut self) {
        // Pairs with the Acquire in `lock`.
        self.line.header.store(self.header & !LOCKED, Ordering::Release);
    }
}

/// The right to store into the slots of a locked line while its version is odd.
#[derive(Debug)]
pub(crate) struct LineChange<'g, 'a> {
    guard: &'g mut LineGuard<'a>,
}

impl LineChange<'_, '_> {
    pub(crate) fn set(&mut self, index: usize, slot: Slot) {
        let line = self.guard.line;
        line.locations[index].store(slot.location.0 as u32, Ordering::Relaxed);
        line.set_meta(index, slot.meta());
    }

    pub(crate) fn clear(&mut self, index: usize) {
        let line = self.guard.line;
        line.locations[index].store(0, Ordering::Relaxed);
        line.set_meta(index, 0);
    }

    pub(crate) fn set_overflow(&mut self, bit: usize, present: bool) {
        let mask = 1 << bit;
        if present {
            self.guard.header |= mask
        } else {
            self.guard.header &= !mask
        }
    }

    /// Says that the keys of this line are now in the other table.
    pub(crate) fn mark_moved(&mut self) {
        self.guard.header |= MOVED;
    }
}

mod repair;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Heat, Line, Location, SLOTS, Slot};

    #[test]
    fn the_slots_of_a_tag_are_found_among_all_others() {
        let tags = [0, 1, 0x3f, 0x40, 0x7e, 0x7f];
        for (tag, other) in tags.iter().flat_map(|tag| tags.map(|other| (*tag, other))) {
            // Every second slot, all of another tag in between, and one empty.
            let line = Line::default();
            for index in 1..SLOTS {
                line.put_back(
                    index,
                    Some(Slot {
                        location: Location::from_units((1 << 36) - index as u64),
                        tag: if index % 2 == 0 { tag } else { other },
                        heat: Heat::remembered(15),
                    }),
                );
            }
            let mut found: Vec<usize> = line.matches(tag).map(|(index, _)| index).collect();
            found.sort_unstable();
            let wanted = (1..SLOTS).filter(|index| tag == other || index % 2 == 0);
            assert_eq!(found, wanted.collect::<Vec<_>>(), "{tag} among {other}");
        }
    }
}
