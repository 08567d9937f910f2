//! A line of the hash table: one cache line of slots under one version.
//!
//! ```text
//! header     u32        version:21 (odd = being changed) | spare:1 | moved:1 | locked:1 | overflow:8
//! locations  u32 x 10   low 32 bits of an item's location; 0 = empty slot
//! metas      u16 x 10   tag:9 | frequency:3 | location's high 4 bits
//! ```
//! Readers never lock: they read the version, the slots, then the version again. Writers lock the home line of a key;
//! any change to the keys of a home line, also of those that lie in an overflow line, changes the home line's version.

use scrubjay_base::sync::{AtomicU16, AtomicU32, Ordering, fence, spin_loop, yield_now};

/// Slots in a line.
pub(crate) const SLOTS: usize = 10;

/// Largest frequency a slot can hold.
pub(crate) const FREQUENCY_MAX: u16 = 7;

const OVERFLOW_MASK: u32 = 0xff;
const LOCKED: u32 = 1 << 8;
const MOVED: u32 = 1 << 9;
const VERSION_ONE: u32 = 1 << 11;
const VERSION_MASK: u32 = !(VERSION_ONE - 1);

const TAG_SHIFT: u16 = 7;
const FREQUENCY_SHIFT: u16 = 4;
const FREQUENCY_MASK: u16 = FREQUENCY_MAX << FREQUENCY_SHIFT;
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
pub(crate) struct Line {
    /// Written by the holder of the lock bit; read by all. Even-version stores (Release) pair with [`Line::read`].
    header: AtomicU32,
    /// Written inside an odd version; read between two loads of the header.
    locations: [AtomicU32; SLOTS],
    /// As `locations`; readers may also raise the frequency (one relaxed attempt, lossy by contract).
    metas: [AtomicU16; SLOTS],
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
    pub(crate) frequency: u16,
}

impl Slot {
    fn meta(self) -> u16 {
        (self.tag << TAG_SHIFT) | (self.frequency << FREQUENCY_SHIFT) | (self.location.0 >> 32) as u16
    }

    fn decode(location: u32, meta: u16) -> Option<Slot> {
        (location != 0).then(|| Slot {
            location: Location((u64::from(meta & LOCATION_HIGH_MASK) << 32) | u64::from(location)),
            tag: meta >> TAG_SHIFT,
            frequency: (meta & FREQUENCY_MASK) >> FREQUENCY_SHIFT,
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
            metas: std::array::from_fn(|_| AtomicU16::new(0)),
        }
    }

    /// Waits until nobody changes the line and returns what its header says.
    #[inline]
    pub(crate) fn read(&self) -> Seen {
        let mut spins = 0;
        loop {
            // Pairs with the Release stores in `change` and `drop`.
            let header = self.header.load(Ordering::Acquire);
            if header & VERSION_ONE == 0 {
                return Seen(header);
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
        (0..SLOTS).filter_map(move |slot| {
            let meta = self.metas[slot].load(Ordering::Relaxed);
            if meta >> TAG_SHIFT != tag {
                return None;
            }
            Some((
                slot,
                Slot::decode(self.locations[slot].load(Ordering::Relaxed), meta)?,
            ))
        })
    }

    /// All filled slots. To be believed only under the lock or after [`Line::unchanged`].
    pub(crate) fn slots(&self) -> impl Iterator<Item = (usize, Slot)> + '_ {
        (0..SLOTS).filter_map(|slot| {
            let meta = self.metas[slot].load(Ordering::Relaxed);
            Some((
                slot,
                Slot::decode(self.locations[slot].load(Ordering::Relaxed), meta)?,
            ))
        })
    }

    /// Raises the frequency that was read with `slot` by one. One attempt: a race loses a count, never more.
    pub(crate) fn raise_frequency(&self, index: usize, slot: Slot) {
        debug_assert!(slot.frequency < FREQUENCY_MAX);
        let raised = Slot {
            frequency: slot.frequency + 1,
            ..slot
        };
        let _ = self.metas[index].compare_exchange(
            slot.meta(),
            raised.meta(),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
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

    /// Whether somebody holds the lock; for audits of a quiet table.
    pub(crate) fn is_busy(&self) -> bool {
        self.header.load(Ordering::Relaxed) & (LOCKED | VERSION_ONE) != 0
    }
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
        (0..SLOTS).find(|&slot| self.line.locations[slot].load(Ordering::Relaxed) == 0)
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
        line.metas[index].store(slot.meta(), Ordering::Relaxed);
    }

    pub(crate) fn clear(&mut self, index: usize) {
        let line = self.guard.line;
        line.locations[index].store(0, Ordering::Relaxed);
        line.metas[index].store(0, Ordering::Relaxed);
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
