//! Finding a key under its line's lock: most lie in the line itself, and for those it takes few steps.

use super::{Entry, Locked, Place};

impl<'a> Locked<'a> {
    /// The key's slot.
    #[inline]
    pub(crate) fn find(&self, key: &[u8]) -> Option<Entry<'a>> {
        for (slot_index, slot) in self.home.line().matches(self.hash.tag()) {
            let item = self.heap.item(slot.location);
            if item.has_key(key) {
                return Some(Entry {
                    hash: self.hash,
                    item,
                    location: slot.location,
                    heat: slot.heat,
                    place: Place::Home,
                    slot_index,
                });
            }
        }
        match self.home.overflow() {
            0 => None,
            _ => self.find_by(|item| item.has_key(key)),
        }
    }

    /// Whether the home line has an empty slot.
    #[inline]
    pub(crate) fn has_room_at_home(&self) -> bool {
        self.home.empty_slot().is_some()
    }
}
