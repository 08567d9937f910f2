//! Emptying a segment: each item is looked up by its own address, under its line's lock; what no slot names is dead already.
//!
//! Nobody has looked at most of it for a long time, so the time goes into waiting for memory: the segment is walked in
//! several parts at once, and lines of index and ledger are fetched while those of items before are worked on.

use std::ptr;

use scrubjay_base::sync::whole::Ordering;

use crate::api::Cause;
use crate::cache::Cache;
use crate::eviction::Place;
use crate::expiry::is_expired;
use crate::index::{Entry, HomePage, KeyHash, Locked};
use crate::item::{Header, ItemRef, Kind, Outline, PIECE_HEADER, Piece, Room, ValueShape};
use crate::line::{Heat, Location};
use crate::reclaim::Reclaimer;
use crate::segment::{Listing, SegmentHeader, SegmentId, SegmentState, Walk};
use crate::sizes::Left;
use crate::worker::Turn;

/// Items ahead of the one being worked on whose lines of index and ledger are fetched.
const LOOK_AHEAD: usize = 32;

/// Items ahead of it whose lines of the index have come, so that they tell which overflow lines to fetch.
const LOOK_AHEAD_OVERFLOW: usize = 8;

/// What is done with live items of a victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mercy {
    /// All are moved: compaction.
    All,
    /// Those that were read since they were put there are moved; the others are evicted for this cause.
    Read(Cause),
}

/// A segment that is being emptied.
struct Drain<'a> {
    cache: &'a Cache,
    turn: &'a Turn<'a>,
    segment: &'a SegmentHeader,
    mercy: Mercy,
    /// So much was moved lately that one read is not enough to be moved.
    is_strict: bool,
    /// Bytes that were moved.
    kept: u32,
    /// Bytes of this segment that died meanwhile by this hand, those of pieces left out.
    dead: u32,
}

/// What the walk came to, some steps before it is worked on.
struct Ahead<'a> {
    location: Location,
    item: ItemRef<'a>,
    kind: Kind,
    len: usize,
    hash: KeyHash,
    home: HomePage<'a>,
}

impl Cache {
    /// Empties a sealed segment and retires it.
    pub(crate) fn drain(&self, turn: &Turn<'_>, reclaimer: &mut Reclaimer, segment: SegmentId, mercy: Mercy) {
        let header = self.heap.header(segment);
        header.set_state(SegmentState::Draining);
        let live_before = u64::from(header.live());
        let mut drain = Drain {
            cache: self,
            turn,
            segment: header,
            mercy,
            is_strict: reclaimer.has_moved_enough(self.created_bytes(), self.capacity()),
            kept: 0,
            dead: 0,
        };
        // What is dead was taken out of the index before it was counted so: where all is, there is nothing to look up.
        if live_before > 0 {
            let has_expired = is_expired(header.max_deadline(), turn.tick);
            drain.go_over(segment, has_expired && header.listed() > 0);
        }
        let kept = u64::from(drain.kept);
        header.dead.fetch_add(drain.dead, Ordering::Relaxed);
        if matches!(mercy, Mercy::Read(_)) {
            reclaimer.note_moved(kept);
            let evicted = live_before.saturating_sub(kept);
            self.eviction
                .note_evicted(header.worth_per_byte(), evicted, self.capacity());
            if self.eviction.ghost.fit(self.items()) {
                self.balance_budget();
            }
        }
        turn.tally.relocated_bytes.add(kept);
        turn.tally.segments_reclaimed.add(1);
        // No slot points in any more: readers that found one before are waited for.
        header
            .retired_epoch
            .store(self.epochs.retire(), Ordering::Relaxed);
        header.set_state(SegmentState::Retired);
        self.pool.lock().retire(segment);
    }
}

impl Cache {
    #[inline(always)]
    fn look_ahead<'a>(
        &'a self,
        (location, item, outline): (Location, ItemRef<'a>, Outline<'a>),
    ) -> Ahead<'a> {
        let hash = match outline.kind {
            Kind::Piece => KeyHash(item.piece_owner()),
            _ => self.index.hash(outline.key),
        };
        self.ahead(location, outline.kind, outline.len, hash)
    }

    #[inline(always)]
    fn look_ahead_listed(&self, segment: SegmentId, listing: Listing) -> Ahead<'_> {
        let location = self.heap.location(segment, listing.start);
        self.ahead(location, Kind::Inline, listing.len as usize, listing.hash)
    }

    #[inline(always)]
    fn ahead(&self, location: Location, kind: Kind, len: usize, hash: KeyHash) -> Ahead<'_> {
        self.ledger.prefetch(hash);
        Ahead {
            location,
            item: self.heap.item(location),
            kind,
            len,
            hash,
            home: self.index.prefetch(&self.heap, hash),
        }
    }
}

impl<'a> Drain<'a> {
    /// Goes over all that is in the segment, by its listings as far as they go if they are to be used.
    fn go_over(&mut self, segment: SegmentId, by_listings: bool) {
        let (cache, heap) = (self.cache, &self.cache.heap);
        // It has the first items fetched, while the listings are worked on.
        let walk = if by_listings {
            Walk::of_unlisted(heap, segment)
        } else {
            Walk::of_all(heap, segment)
        };
        if by_listings {
            let look_ahead = |listing| cache.look_ahead_listed(segment, listing);
            self.pass(heap.listings(segment), look_ahead, Self::listed);
        }
        self.pass(walk, |found| cache.look_ahead(found), Self::walked);
    }

    /// Works on what comes, fetching what is needed for what comes after it.
    #[inline(always)]
    fn pass<T>(
        &mut self,
        mut coming: impl Iterator<Item = T>,
        look_ahead: impl Fn(T) -> Ahead<'a>,
        work: impl Fn(&mut Self, &Ahead<'a>),
    ) {
        let (index, heap) = (&self.cache.index, &self.cache.heap);
        let mut ahead: Vec<_> = coming.by_ref().take(LOOK_AHEAD).map(&look_ahead).collect();
        let mut at = 0;
        for next in coming {
            let soon = &ahead[(at + LOOK_AHEAD_OVERFLOW) % LOOK_AHEAD];
            index.prefetch_overflow(heap, soon.hash, soon.home);
            work(self, &ahead[at]);
            ahead[at] = look_ahead(next);
            at = (at + 1) % LOOK_AHEAD;
        }
        let (newer, older) = ahead.split_at(at);
        older.iter().chain(newer).for_each(|now| work(self, now));
    }

    #[inline(always)]
    fn walked(&mut self, now: &Ahead<'a>) {
        match now.kind {
            Kind::Inline | Kind::Chained => self.item(now),
            Kind::Piece => self.piece(now.location, now.item),
            Kind::Filler => {}
        }
    }

    /// An item that has expired and that nobody looks at, unless somebody has read what was under its key.
    #[inline(always)]
    fn listed(&mut self, now: &Ahead<'a>) {
        let cache = self.cache;
        let mut locked = cache.index.lock_at(&cache.heap, now.hash, now.home);
        let Some(entry) = locked.find_location(now.location, now.item) else {
            return;
        };
        locked.remove(&entry);
        drop(locked);
        let left = Left {
            cause: Cause::Expired,
            bytes: now.len as u64,
            expires: true,
            fetched: entry.heat != Heat::default() && entry.item.state().fetched(),
        };
        cache.note_left(self.turn, &entry, &left, Some(0));
        self.dead += now.len as u32;
    }

    fn item(&mut self, now: &Ahead<'a>) {
        let cache = self.cache;
        let mut locked = cache.index.lock_at(&cache.heap, now.hash, now.home);
        let Some(entry) = locked.find_location(now.location, now.item) else {
            return;
        };
        if is_expired(now.item.deadline(), self.turn.tick) {
            locked.remove(&entry);
            drop(locked);
            self.bury(&entry, Cause::Expired, now.len);
        } else {
            self.unexpired(now, locked, &entry);
        }
    }

    /// What becomes of an item whose time is not over.
    #[inline(never)]
    fn unexpired(&mut self, now: &Ahead<'a>, mut locked: Locked<'a>, entry: &Entry<'a>) {
        let (cache, turn) = (self.cache, self.turn);
        let &Ahead {
            location, item, hash, ..
        } = now;
        if let Some(cause) = cache.death(location, item.deadline(), turn.tick) {
            locked.remove(entry);
            drop(locked);
            return self.bury(entry, cause, now.len);
        }
        if let Some(cause) = self.refused(entry) {
            locked.remove(entry);
            drop(locked);
            self.note_evicted(entry);
            return self.bury(entry, cause, now.len);
        }
        drop(locked);
        let place = self.place_kept(entry);
        let Some(room) = cache.reserve_for_survivor(&place, item.len()) else {
            return self.evict(location, item, hash);
        };
        let new = room.location();
        let header = item.header();
        let copy = copy_item(room, &header, item);
        let mut locked = cache.index.lock(&cache.heap, hash);
        // Asked of the old place and after the room was had: a flush before that sees an old segment here, a flush after
        // it sees an old segment there.
        let entry = locked.find_location(location, item);
        let Some(entry) = entry.filter(|_| cache.death(location, item.deadline(), turn.tick).is_none())
        else {
            drop(locked);
            cache.count_dead(new, item.len(), place.deadline);
            return self.bury_if_dead(location, item, hash);
        };
        copy.take_over(item);
        cache.change_expiring(new, item.len(), place.deadline, item.deadline());
        let heat = if item.is_chained() {
            entry.heat
        } else {
            kept_heat(self.mercy, &entry)
        };
        locked.replace(&entry, new, heat);
        drop(locked);
        self.note_kept(item.len());
    }

    /// Why a live item has to go, if it has.
    ///
    /// A chained one is judged with the segment of its first piece, whichever part the walk comes to first there; where
    /// only other parts are, they stay with it.
    fn refused(&self, entry: &Entry<'_>) -> Option<Cause> {
        let keeps = entry.heat.hit && (!self.is_strict || entry.heat.reads() > 1);
        match self.mercy {
            Mercy::Read(cause) if !keeps && self.is_judged_here(entry.item) => Some(cause),
            Mercy::All | Mercy::Read(_) => None,
        }
    }

    fn is_judged_here(&self, item: ItemRef<'_>) -> bool {
        let heap = &self.cache.heap;
        let is_here = |piece: Piece| ptr::eq(heap.header(heap.segment_of(piece.location)), self.segment);
        !item.is_chained() || item.pieces().next().is_some_and(is_here)
    }

    /// Counts an item of this segment that no slot points at any more. The segment's bins of deadlines are let be: nobody asks
    /// an empty one.
    #[inline(always)]
    fn bury(&mut self, entry: &Entry<'_>, cause: Cause, len: usize) {
        let own = self.cache.heap.aligned(len);
        let bytes = if entry.item.is_chained() {
            self.cache.whole_len(entry.item)
        } else {
            own
        };
        self.cache.note_gone(self.turn, entry, cause, bytes as u64);
        self.dead += own as u32;
    }

    fn note_kept(&mut self, len: usize) {
        let len = self.cache.heap.aligned(len) as u32;
        self.kept += len;
        self.dead += len;
    }

    /// A live item goes for want of room: remembers its key and how long it stayed.
    fn note_evicted(&self, entry: &Entry<'_>) {
        let eviction = &self.cache.eviction;
        let idle = entry.item.header().idle_secs(self.turn.secs);
        eviction.evicted_idle_secs.store(idle, Ordering::Relaxed);
        // One more than it was read: that it will be asked for again.
        eviction.ghost.put(entry.hash, entry.heat.level() + 1);
        let heap = &self.cache.heap;
        let segment = heap.header(heap.segment_of(entry.location));
        let size = entry.item.judged_len();
        eviction.note_stay(size, entry.heat, segment, self.turn.tick);
    }

    /// Where an item of the segment goes.
    fn place_kept(&self, entry: &Entry<'_>) -> Place {
        let (size, deadline) = (entry.item.judged_len(), entry.item.deadline());
        let (eviction, tick) = (&self.cache.eviction, self.turn.tick);
        match self.mercy {
            Mercy::All => eviction.place_survivor(size, entry.heat, deadline, tick, self.segment),
            Mercy::Read(_) => {
                let worth = self.segment.worth_per_byte();
                eviction.place_again(size, entry.heat, deadline, tick, worth)
            }
        }
    }

    /// The item at `location`, in this segment or elsewhere, could not be moved: it goes.
    fn evict(&self, location: Location, item: ItemRef<'a>, hash: KeyHash) {
        let mut locked = self.cache.index.lock(&self.cache.heap, hash);
        if let Some(entry) = locked.find_location(location, item) {
            locked.remove(&entry);
            drop(locked);
            self.note_evicted(&entry);
            self.cache.bury(self.turn, &entry, Cause::Evicted);
        }
    }

    fn bury_if_dead(&mut self, location: Location, item: ItemRef<'a>, hash: KeyHash) {
        let mut locked = self.cache.index.lock(&self.cache.heap, hash);
        if let Some(entry) = locked.find_location(location, item) {
            // It was flushed or expired between the two looks.
            let death = self.cache.death(location, entry.item.deadline(), self.turn.tick);
            locked.remove(&entry);
            drop(locked);
            self.bury(&entry, death.unwrap_or(Cause::Flushed), entry.item.len());
        }
    }

    /// A piece of a chained value: moved if its owner stays, else the owner goes.
    fn piece(&mut self, location: Location, piece: ItemRef<'a>) {
        let (cache, turn) = (self.cache, self.turn);
        let bytes = piece.piece_bytes();
        let old = Piece {
            location,
            len: bytes.len(),
        };
        let hash = KeyHash(piece.piece_owner());
        let owns = |item: ItemRef<'_>| item.is_chained() && item.pieces().any(|piece| piece == old);
        let mut locked = cache.index.lock(&cache.heap, hash);
        let Some(entry) = locked.find_by(owns) else { return };
        if let Some(cause) = cache.death(entry.location, entry.item.deadline(), turn.tick) {
            locked.remove(&entry);
            drop(locked);
            return cache.bury(turn, &entry, cause);
        }
        let is_first = entry.item.pieces().next() == Some(old);
        if let Some(cause) = self.refused(&entry) {
            locked.remove(&entry);
            drop(locked);
            self.note_evicted(&entry);
            return cache.bury(turn, &entry, cause);
        }
        drop(locked);
        let place = self.place_kept(&entry);
        let Some(mut room) = cache.reserve_for_survivor(&place, piece.len()) else {
            return self.evict(entry.location, entry.item, hash);
        };
        room.write_piece_header(bytes.len(), hash.0);
        room.put(PIECE_HEADER, bytes);
        let new = Piece {
            location: room.location(),
            len: bytes.len(),
        };
        let mut locked = cache.index.lock(&cache.heap, hash);
        // The owner itself may have moved; a copy that is still being made takes its table under this lock.
        let moved = locked.find_by(owns).is_some_and(|entry| {
            cache.change_expiring(new.location, piece.len(), place.deadline, entry.item.deadline());
            if is_first {
                locked.replace(&entry, entry.location, kept_heat(self.mercy, &entry));
            }
            locked.change_in_place(|| entry.item.replace_piece(old, new))
        });
        drop(locked);
        if moved {
            self.note_kept(piece.len());
        } else {
            cache.count_dead(new.location, piece.len(), place.deadline);
        }
    }
}

/// The heat of an item in its new place: what eviction keeps has to be read again to be kept again.
fn kept_heat(mercy: Mercy, entry: &Entry<'_>) -> Heat {
    match mercy {
        Mercy::All => entry.heat,
        Mercy::Read(_) => entry.heat.cooled(),
    }
}

/// Writes a copy of `item` with another header.
pub(crate) fn copy_item<'a>(room: Room<'a>, header: &Header, item: ItemRef<'_>) -> ItemRef<'a> {
    if item.is_chained() {
        let pieces: Vec<Piece> = item.pieces().collect();
        room.write_chained(header, item.key(), item.value_len(), &pieces)
    } else {
        room.write(header, item.key(), &[item.inline_value()])
    }
}

/// The shape of `item`'s value.
pub(crate) fn value_shape(item: ItemRef<'_>) -> ValueShape {
    if item.is_chained() {
        ValueShape::Chained {
            len: item.value_len(),
            pieces: item.pieces().count(),
        }
    } else {
        ValueShape::Inline(item.value_len())
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use scrubjay_base::time::Now;

    use crate::api::{Body, Cause, Config, Delete, Get, Store, Why};
    use crate::cache::Cache;
    use crate::worker::Worker;

    fn set(worker: &mut Worker, key: &str, value: &[u8]) {
        let store = Store {
            exptime: 10,
            ..Store::set(key.as_bytes(), Body::Bytes(value))
        };
        worker.store(store);
    }

    fn get(worker: &mut Worker, key: &str) {
        assert!(worker.get(&Get::key(key.as_bytes())).is_some());
    }

    /// What is done with one key of each kind.
    const HISTORIES: [fn(&mut Worker, &str, &[u8]); 7] = [
        |_, _, _| {},
        |worker, key, _| get(worker, key),
        |worker, key, _| assert!(worker.touch(key.as_bytes(), 10)),
        |worker, key, value| set(worker, key, value),
        |worker, key, value| {
            get(worker, key);
            set(worker, key, value);
        },
        |worker, key, value| {
            set(worker, key, value);
            get(worker, key);
        },
        |worker, key, _| {
            worker.delete(&Delete::key(key.as_bytes()));
        },
    ];

    /// Which of them end unread, and which are not there to expire.
    const UNREAD: [usize; 3] = [0, 3, 4];
    const DELETED: usize = 6;

    #[test]
    fn large_items_expire_by_their_listings_with_all_that_is_told_of_others() {
        const EACH: usize = 40;
        for value_len in [100, 1_000, 1_300, 3_000, 70_000] {
            let cache = Cache::new(Config::new(64 << 20)).expect("memory");
            let mut worker = cache.worker();
            worker.begin_turn(Now::from_millis(0));
            let value = vec![b'v'; value_len];
            let keys: Vec<String> = (0..EACH * HISTORIES.len())
                .map(|key| format!("key:{key}"))
                .collect();
            keys.iter().for_each(|key| set(&mut worker, key, &value));
            for (number, key) in keys.iter().enumerate() {
                HISTORIES[number % HISTORIES.len()](&mut worker, key, &value);
            }
            worker.go_idle();
            cache.audit();
            assert!(cache.usage().unread_bytes > 0);
            // Open segments are closed, and emptied when their appenders are gone.
            for millis in [10_250, 10_500] {
                while cache.maintain(Now::from_millis(millis)) {}
            }
            cache.audit();
            let counters = cache.counters();
            assert_eq!(counters.removed.expired, (EACH * (HISTORIES.len() - 1)) as u64);
            assert_eq!(counters.expired_unfetched, (EACH * UNREAD.len()) as u64);
            assert_eq!((cache.usage().unread_bytes, cache.items()), (0, 0));
            worker.begin_turn(Now::from_millis(10_500));
            for (number, key) in keys.iter().enumerate() {
                let Why::Gone(gone) = worker.why(key.as_bytes()) else {
                    panic!("{key} of {value_len} bytes is gone, and that is known");
                };
                let is_deleted = number % HISTORIES.len() == DELETED;
                let cause = if is_deleted {
                    Cause::Deleted
                } else {
                    Cause::Expired
                };
                assert_eq!(gone.cause, cause);
            }
        }
    }
}
