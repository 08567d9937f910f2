//! The short way of a set: a small value replaces whatever is there. It is written under the line's lock, right after the old
//! item was found, so that the key is looked up once and nothing that was written is given up.
//!
//! Readers take no lock. Other writers of the line wait for the copy of a small value longer, and no more: nothing that may
//! wait is done here. Where something would have to, the long way is taken, and nothing was done.

use super::{Draft, Occupant};
use crate::api::Cause;
use crate::index::{HomePage, KeyHash};
use crate::item::Header;
use crate::line::Location;
use crate::worker::Worker;

/// Most bytes of a value that is copied while others wait. Shorter than what is cut to fill the end of a segment.
const VALUE_LEN_MAX: usize = 256;

impl Worker {
    /// Stores the item that `header`, `key` and `value` make; where it lies. `None`: there is no room for it in its log's open
    /// segment or in its line of the index, or it is too large, or it was flushed before it was published.
    #[inline]
    pub(super) fn store_at_once(
        &self,
        hash: KeyHash,
        home: HomePage<'_>,
        key: &[u8],
        header: &Header,
        value: &[u8],
    ) -> Option<Location> {
        if value.len() > VALUE_LEN_MAX {
            return None;
        }
        let (cache, turn) = (self.member.cache(), self.turn());
        let form = header.form(key.len(), value.len());
        let locked = cache.index.lock_at(&cache.heap, hash, home);
        // The new item is written while the old one is fetched. Until it is there, what has the key's tag is taken for it, and its
        // heat chooses the place. If it is another's, the line must have room, or what was written would be waste.
        let likely = if locked.has_room_at_home() {
            locked.likely()
        } else {
            None
        };
        let elsewhere = if likely.is_none() {
            self.occupant(&locked, key)
        } else {
            None
        };
        if likely.is_none() && elsewhere.is_none() && !locked.has_room_at_home() {
            return None;
        }
        let live = elsewhere.as_ref().and_then(Occupant::live);
        let heat = likely.map(|likely| likely.heat()).or(live.map(|live| live.heat));
        let heat = self.heat_of(hash, heat);
        let place = cache.eviction.place(form.len(), heat, header.deadline, turn.tick);
        let room = match cache.append(place.log, &place, form.len(), None) {
            Ok(room) => room,
            Err(full) => {
                drop(locked);
                // The long way may choose another log, and would leave what this one closed.
                cache.seal(full);
                return None;
            }
        };
        let (location, len) = (room.location(), room.len());
        let mut draft = Draft {
            item: room.write_form(&form, header, key, value),
            location,
            len,
            pieces: None,
            heat,
            replaces: Cause::Replaced,
        };
        let old = match likely.map(|likely| locked.find_likely(likely, key)) {
            Some(Some(entry)) => Some(self.occupying(entry)),
            Some(None) => self.occupant(&locked, key),
            None => elsewhere,
        };
        let live = old.as_ref().and_then(Occupant::live).map(|live| live.heat);
        if likely.is_some() && live != Some(heat) {
            draft.heat = self.heat_of(hash, live);
        }
        if self.is_flushed(&draft) {
            drop(locked);
            self.discard(draft);
            return None;
        }
        self.publish(locked, old, draft);
        Some(location)
    }
}
