//! Finding a key under its line's lock, where most lie in the line itself and take few steps, and finding again what was found.

use super::{Entry, Found, HOME_LINES, Index, KeyHash, Locked, Place};
use crate::line::{Heat, Location, Slot};
use crate::segment::Heap;

/// Where an item was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    hash: KeyHash,
    location: Location,
    place: Place,
    slot_index: usize,
}

impl Default for Mark {
    fn default() -> Mark {
        Mark {
            hash: KeyHash(0),
            location: Location::from_units(1),
            place: Place::Home,
            slot_index: 0,
        }
    }
}

impl Found<'_> {
    /// What it takes to find it again, where `hash` is its key's.
    #[inline]
    pub(crate) fn mark(&self, hash: KeyHash) -> Mark {
        Mark {
            hash,
            location: self.location,
            place: self.place,
            slot_index: self.slot_index,
        }
    }
}

impl Index {
    /// The item that was found there, if its slot still says so and this worker has held it all the while.
    #[inline]
    pub(crate) fn find_again<'a>(&self, heap: &'a Heap, mark: &Mark) -> Option<Found<'a>> {
        let (page, _) = self.page_of(heap, mark.hash);
        let home = &page[mark.hash.home()];
        let seen = home.read();
        let line = match mark.place {
            Place::Home => home,
            Place::Overflow(number) => &page[HOME_LINES + number],
        };
        let slot = line.slot(mark.slot_index);
        let slot = slot.filter(|slot| slot.location == mark.location)?;
        // Only after this are the slot's words known to be one slot's.
        (!seen.moved() && home.unchanged(seen)).then(|| Found {
            item: heap.item(slot.location),
            location: slot.location,
            home,
            seen,
            line,
            place: mark.place,
            slot_index: mark.slot_index,
            slot,
        })
    }
}

/// A slot that most likely is the key's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Likely {
    slot_index: usize,
    slot: Slot,
}

impl Likely {
    pub(crate) fn heat(&self) -> Heat {
        self.slot.heat
    }
}

impl<'a> Locked<'a> {
    /// The key's slot.
    #[inline]
    pub(crate) fn find(&self, key: &[u8]) -> Option<Entry<'a>> {
        for (slot_index, slot) in self.home.line().matches(self.hash.tag()) {
            let entry = self.entry_at_home(slot_index, slot);
            if entry.item.has_key(key) {
                return Some(entry);
            }
        }
        match self.home.overflow() {
            0 => None,
            _ => self.find_by(|item| item.has_key(key)),
        }
    }

    /// The first slot of the home line that may be the key's; the processor is told to fetch its item.
    #[inline]
    pub(crate) fn likely(&self) -> Option<Likely> {
        let (slot_index, slot) = self.home.line().matches(self.hash.tag()).next()?;
        self.heap.prefetch(slot.location);
        Some(Likely { slot_index, slot })
    }

    /// The item of that slot, if it is the key's after all; after `likely` under the same lock.
    #[inline(always)]
    pub(crate) fn find_likely(&self, likely: Likely, key: &[u8]) -> Option<Entry<'a>> {
        let item = self.heap.item(likely.slot.location);
        item.has_key(key)
            .then(|| self.entry_at_home(likely.slot_index, likely.slot))
    }

    #[inline]
    fn entry_at_home(&self, slot_index: usize, slot: Slot) -> Entry<'a> {
        Entry {
            hash: self.hash,
            item: self.heap.item(slot.location),
            location: slot.location,
            heat: slot.heat,
            place: Place::Home,
            slot_index,
        }
    }

    /// Whether the home line has an empty slot.
    #[inline]
    pub(crate) fn has_room_at_home(&self) -> bool {
        self.home.empty_slot().is_some()
    }
}
