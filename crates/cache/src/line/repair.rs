//! A line after a crash, before anybody else looks at it: what its writers left half done.

use super::{
    LOCATION_HIGH_MASK, LOCKED, Line, Location, MOVED, OVERFLOW_MASK, SLOTS, Slot, VERSION_MASK, VERSION_ONE,
};
use scrubjay_base::sync::Ordering;

impl Line {
    /// Whether a change was going on.
    pub(crate) fn was_changing(&self) -> bool {
        self.header.load(Ordering::Relaxed) & VERSION_ONE != 0
    }

    /// Whether its keys are in the other table.
    pub(crate) fn was_moved(&self) -> bool {
        self.header.load(Ordering::Relaxed) & MOVED != 0
    }

    /// What a slot holds, and whether that is more than nothing.
    pub(crate) fn slot(&self, index: usize) -> Option<Slot> {
        let location = self.locations[index].load(Ordering::Relaxed);
        Slot::decode(location, self.meta(index))
    }

    /// What a slot may have been meant to hold when its two words were not stored both: the same but for the location's
    /// high bits.
    pub(crate) fn other_readings(slot: Slot) -> impl Iterator<Item = Slot> {
        let low = slot.location.0 & u64::from(u32::MAX);
        (0..=u64::from(LOCATION_HIGH_MASK))
            .map(move |high| Slot {
                location: Location(high << 32 | low),
                ..slot
            })
            .filter(move |other| *other != slot)
    }

    /// Makes a slot hold this. Nobody else looks at the line.
    pub(crate) fn put_back(&self, index: usize, slot: Option<Slot>) {
        debug_assert!(index < SLOTS);
        let (location, meta) = slot.map_or((0, 0), |slot| (slot.location.0 as u32, slot.meta()));
        // Most are as they should be: their memory is not written to.
        if self.locations[index].load(Ordering::Relaxed) != location {
            self.locations[index].store(location, Ordering::Relaxed);
        }
        if self.meta(index) != meta {
            self.set_meta(index, meta);
        }
    }

    /// Nobody holds the lock and nobody changes the line any more.
    pub(crate) fn settle(&self, moved: bool, overflow: u32) {
        let header = self.header.load(Ordering::Relaxed);
        debug_assert_eq!(LOCKED & (VERSION_MASK | OVERFLOW_MASK), 0);
        // The version goes on, past the change that was not finished.
        let version = (header & VERSION_MASK).wrapping_add(header & VERSION_ONE);
        let moved = if moved { MOVED } else { 0 };
        let settled = version | moved | overflow & OVERFLOW_MASK;
        if settled != header {
            self.header.store(settled, Ordering::Release);
        }
    }
}
