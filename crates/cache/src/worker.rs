//! One thread's way into the cache: look-ups and changes in place. Storing is in `store.rs`.

use std::cell::Cell;
use std::sync::Arc;

use scrubjay_base::sync::yield_now;
use scrubjay_base::time::Now;

use crate::api::Body;
use crate::api::{
    Cause, Delete, DeleteOutcome, Get, Gone, Hit, Present, Refusal, Store, StoreMode, StoreOutcome, Why, Win,
    admits,
};
use crate::cache::Cache;
use crate::expiry::{TICKS_PER_SEC, deadline, is_expired, tick, ttl_secs};
use crate::index::{Entry, Found, Glance, KeyHash, Locked};
use crate::item::{Header, ItemRef, NEVER, PIECE_HEADER};
use crate::ledger;
use crate::line::{Heat, Location};
use crate::reads::Reads;
use crate::sampler::Event;
use crate::store::Placed;
use crate::tally::Tally;
use crate::value::Value;

/// A registered worker, shared with the pins that outlive its turns.
#[derive(Debug)]
pub(crate) struct Member {
    cache: Arc<Cache>,
    pub(crate) index: usize,
}

impl Member {
    pub(crate) fn new(cache: Arc<Cache>, index: usize) -> Arc<Member> {
        Arc::new(Member { cache, index })
    }

    pub(crate) fn cache(&self) -> &Cache {
        &self.cache
    }
}

/// What every operation of a turn needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn<'a> {
    pub(crate) member: usize,
    pub(crate) tick: u32,
    pub(crate) secs: u32,
    pub(crate) tally: &'a Tally,
}

/// One thread's way into the cache. Operations act at the time given to the last [`Worker::begin_turn`].
#[derive(Debug)]
pub struct Worker {
    pub(crate) member: Arc<Member>,
    pub(crate) now: Now,
    secs: u32,
    random: Cell<u64>,
    pub(crate) reads: Reads,
    /// Items stored since this worker last looked whether the index should grow.
    stored: Cell<u32>,
}

/// A change to an item that keeps its value.
#[derive(Clone, Copy, Debug, Default)]
struct Change {
    deadline: Option<u32>,
    cas: Option<u64>,
    /// Stale and win.
    lease: Option<(bool, bool)>,
}

/// Look-ups that are fetched for at a time: about as many lines as a processor can wait for.
pub const FETCH_AHEAD_MAX: usize = 16;

/// Stores between two looks at the index's load.
const STORES_PER_LOOK: u32 = 32;

/// Pages of the index that a storing worker moves at a look, so that the index keeps up with any rate.
const PAGES_PER_LOOK: usize = 1;

/// Times a worker waits for the index at most: as long as others may be without a processor.
const INDEX_WAITS_MAX: usize = 20_000;

/// What a look-up has come to: a live item as it was at one moment, or what one died of that nobody has noticed.
type Looked<'a> = Result<(Found<'a>, Header), Option<Cause>>;

impl Cache {
    /// A consistent snapshot of the live item under `key`, or what one died of that nobody has noticed.
    fn look(&self, hash: KeyHash, key: &[u8]) -> Looked<'_> {
        loop {
            let Some(found) = self.index.find(&self.heap, hash, key) else {
                return Err(None);
            };
            if let Some(looked) = self.look_at(found) {
                return looked;
            }
        }
    }

    /// Whether what was found is alive; `None` if somebody changed its line meanwhile.
    #[inline(always)]
    fn look_at<'a>(&self, found: Found<'a>) -> Option<Looked<'a>> {
        let header = found.item.header();
        // Asked before it is known that the slot was still there: once a flush is worked off, nobody can tell any more
        // that an item of that time was flushed.
        // For the time it is the other way round: by one from before, an item that came later could be dead to others.
        let death = self.death(found.location, header.deadline, self.tick());
        found.unchanged().then_some(match death {
            None => Ok((found, header)),
            cause => Err(cause),
        })
    }
}

impl Worker {
    pub(crate) fn new(member: Arc<Member>) -> Worker {
        let random = 0x9e37_79b9_7f4a_7c15 ^ (member.index as u64 + 1);
        let mut worker = Worker {
            member,
            now: Now::default(),
            secs: 0,
            random: Cell::new(random),
            reads: Reads::default(),
            stored: Cell::new(0),
        };
        worker.begin_turn(Now::default());
        worker
    }

    /// The cache it belongs to.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.member.cache
    }

    /// Starts a turn at `now`; nothing that earlier turns returned by reference is in use any more. Cost: two stores.
    pub fn begin_turn(&mut self, now: Now) {
        self.note_reads();
        self.now = now;
        self.secs = now.secs() as u32;
        self.member.cache.advance(now);
        self.member.cache.epochs.announce(self.member.index);
        self.member.cache.flush_if_due(now);
    }

    /// Says that this worker holds nothing and will not call until the next [`Worker::begin_turn`]. A worker that sleeps
    /// without saying so keeps memory from being used again.
    pub fn go_idle(&mut self) {
        self.note_reads();
        self.member.cache.epochs.sleep(self.member.index);
    }

    /// The tick by which items are alive or dead.
    #[inline]
    fn tick(&self) -> u32 {
        self.member.cache.tick()
    }

    /// Whoever asks may make room with it, and so let items go.
    pub(crate) fn turn(&self) -> Turn<'_> {
        self.note_reads();
        Turn {
            member: self.member.index,
            tick: self.tick(),
            secs: self.secs,
            tally: self.member.cache.tally(self.member.index),
        }
    }

    pub(crate) fn deadline(&self, exptime: i64) -> u32 {
        deadline(exptime, self.now, self.member.cache.config().unix_millis_at_start)
    }

    /// Whether an item of this shape is within the item size limit.
    pub fn admits(&self, key_len: usize, flags: u32, value_len: u64) -> bool {
        admits(self.member.cache.config(), key_len, flags, value_len)
    }

    /// Looks `key` up, with the side effects that `get` asks for. `None` is a miss (with `vivify`: a miss that could not
    /// be filled for want of memory). Cost: two cache misses at most, no lock unless `get` changes the item.
    #[inline(always)]
    pub fn get(&mut self, get: &Get<'_>) -> Option<Hit<'_>> {
        let cache = &*self.member.cache;
        if !get.note_later || self.reads.is_full() {
            // What an earlier call returned is not in use any more: `self` is borrowed anew.
            self.announce_again();
        }
        let hash = cache.index.hash(get.key);
        cache.tally(self.member.index).reads.add(1);
        match cache.index.glance(&cache.heap, hash, get.key) {
            Glance::Found(found) => {
                if let Some(Ok((found, seen))) = cache.look_at(found) {
                    return self.get_found(get, hash, &found, &seen);
                }
            }
            Glance::Absent if get.vivify.is_none() => {
                self.note_miss(hash, None);
                return None;
            }
            Glance::Absent | Glance::Unclear => {}
        }
        self.get_elsewhere(*get, hash)
    }

    /// As [`Worker::get`], where a glance is not enough. `get` is a copy, here and below, so that [`Worker::get`] has none in memory.
    #[inline(never)]
    fn get_elsewhere(&self, get: Get<'_>, hash: KeyHash) -> Option<Hit<'_>> {
        match self.member.cache.look(hash, get.key) {
            Ok((found, seen)) => self.get_found(&get, hash, &found, &seen),
            Err(death) => {
                self.note_miss(hash, death);
                get.vivify.and_then(|_| self.get_locked(get, hash))
            }
        }
    }

    /// Answers with a live item.
    #[inline(always)]
    fn get_found<'w>(
        &'w self,
        get: &Get<'_>,
        hash: KeyHash,
        found: &Found<'w>,
        seen: &Header,
    ) -> Option<Hit<'w>> {
        let cache = &*self.member.cache;
        cache.eviction.note(hash, self.tick(), || {
            Event::Read(Some((cache.whole_len(found.item) as u32, seen.deadline)))
        });
        if get.touch.is_some() || self.wants_win(get, seen) {
            return self.get_locked(*get, hash);
        }
        let is_for_later = get.note_later && !get.no_bump && self.reads.push(found.mark(hash));
        if !get.no_bump && !is_for_later {
            self.note_read(found);
        }
        Some(self.hit(found.item, found.location, seen))
    }

    /// A look-up has found nothing, or what has died of this and nobody has noticed.
    #[inline]
    fn note_miss(&self, hash: KeyHash, death: Option<Cause>) {
        let cache = &*self.member.cache;
        cache.tally(self.member.index).note_miss(death);
        cache.eviction.note(hash, self.tick(), || Event::Read(None));
    }

    /// Whether the cache is so large that [`Worker::fetch_ahead`] gains more than it takes.
    #[inline]
    pub fn is_fetching_worth_it(&self) -> bool {
        self.member.cache.index.is_far()
    }

    /// Hints the processor to fetch what look-ups of `keys` will need, or of the first [`FETCH_AHEAD_MAX`].
    #[inline]
    pub fn fetch_ahead<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) {
        let (index, heap) = (&self.member.cache.index, &self.member.cache.heap);
        let (mut hashes, mut count) = ([KeyHash(0); FETCH_AHEAD_MAX], 0);
        for (hash, key) in hashes.iter_mut().zip(keys) {
            *hash = index.hash(key);
            index.prefetch(heap, *hash);
            count += 1;
        }
        for &hash in &hashes[..count] {
            index.prefetch_items(heap, hash);
        }
    }

    /// A consistent snapshot of the live item under `key`.
    pub(crate) fn look(&self, hash: KeyHash, key: &[u8]) -> Option<(Found<'_>, Header)> {
        self.member.cache.look(hash, key).ok()
    }

    /// Whether this caller should be the one who refills the item.
    fn wants_win(&self, get: &Get<'_>, seen: &Header) -> bool {
        let runs_out = get
            .recache_below
            .zip(ttl_secs(seen.deadline, self.tick()))
            .is_some_and(|(below, ttl)| i64::from(ttl) < below);
        get.leases && !seen.win && (seen.stale || runs_out)
    }

    /// What a look-up answers, from the state before this access.
    #[inline(always)]
    fn hit<'w>(&'w self, item: ItemRef<'w>, location: Location, seen: &Header) -> Hit<'w> {
        let ttl = ttl_secs(seen.deadline, self.tick());
        Hit {
            flags: seen.flags,
            cas: seen.cas.unwrap_or(0),
            ttl,
            ttl_before: ttl,
            idle_secs: seen.idle_secs(self.secs),
            fetched: seen.fetched,
            stale: seen.stale,
            win: if seen.win { Win::Taken } else { Win::None },
            key_is_binary: seen.key_is_binary,
            created: false,
            value: Value::new(item, location, &self.member),
        }
    }

    #[inline(never)]
    fn get_locked(&self, get: Get<'_>, hash: KeyHash) -> Option<Hit<'_>> {
        loop {
            let cache = &*self.member.cache;
            let mut locked = cache.index.lock(&cache.heap, hash);
            let Some(entry) = self.live_entry(&locked, get.key) else {
                drop(locked);
                let exptime = get.vivify?;
                match self.vivify(&get, exptime) {
                    Ok(placed) => return self.created(&get, exptime, &placed),
                    // Somebody else created it in between: that one is looked at.
                    Err(StoreOutcome::NotStored) => continue,
                    _ => return None,
                }
            };
            let seen = entry.item.header();
            let touched = get.touch.map(|exptime| self.deadline(exptime));
            // What is left of the life decides after the touch, as in memcached.
            let won = self.wants_win(
                &get,
                &Header {
                    deadline: touched.unwrap_or(seen.deadline),
                    ..seen
                },
            );
            let change = Change {
                deadline: touched,
                cas: None,
                lease: won.then_some((seen.stale, true)),
            };
            if !get.no_bump {
                locked.note_read(&entry, || next_random(&self.random));
            }
            let (item, location) = if self.change_in_place(&mut locked, &entry, &change) {
                drop(locked);
                (entry.item, entry.location)
            } else {
                drop(locked);
                match self.rewrite(get.key, hash, (entry.location, &seen), &change) {
                    Rewrite::Done(location) => (self.member.cache.heap.item(location), location),
                    Rewrite::Changed => continue,
                    Rewrite::NoMemory => return None,
                }
            };
            if !get.no_bump {
                self.note_access(item);
            }
            let mut hit = self.hit(
                item,
                location,
                &Header {
                    deadline: change.deadline.unwrap_or(seen.deadline),
                    ..seen
                },
            );
            hit.ttl_before = ttl_secs(seen.deadline, self.tick());
            if won {
                hit.win = Win::Won;
            }
            return Some(hit);
        }
    }

    /// Tells others that this worker holds nothing.
    #[inline]
    pub(crate) fn announce_again(&self) {
        self.note_reads();
        self.member.cache.epochs.announce_again(self.member.index);
    }

    #[inline(always)]
    pub(crate) fn note_read(&self, found: &Found<'_>) {
        self.note_access(found.item);
        found.note_read(|| next_random(&self.random));
    }

    #[inline(always)]
    fn note_access(&self, item: ItemRef<'_>) {
        if item.note_access(item.state(), self.secs) {
            let cache = &*self.member.cache;
            let tally = cache.tally(self.member.index);
            tally.first_read_bytes.add(cache.whole_len(item) as u64);
        }
    }

    fn vivify(&self, get: &Get<'_>, exptime: i64) -> Result<Placed, StoreOutcome> {
        let store = Store {
            key_is_binary: get.key_is_binary,
            mode: StoreMode::Add,
            exptime,
            new_cas: get.new_cas,
            ..Store::set(get.key, Body::Bytes(b""))
        };
        self.store_won(store)
    }

    /// The item that this worker has just vivified, as it was then: another may have taken its place already.
    fn created(&self, get: &Get<'_>, exptime: i64, placed: &Placed) -> Option<Hit<'_>> {
        let &Placed { cas, location } = placed;
        let deadline = self.deadline(exptime);
        if is_expired(deadline, tick(self.now)) {
            return None;
        }
        let item = self.member.cache.heap.item(location);
        let seen = Header {
            deadline,
            cas: Some(cas),
            stale: false,
            ..item.header()
        };
        if !get.no_bump {
            // Making it counts as reading it, as in memcached.
            self.note_access(item);
        }
        let mut hit = self.hit(item, location, &seen);
        (hit.created, hit.win, hit.fetched) = (true, Win::Won, false);
        Some(hit)
    }

    /// The live item under a locked key.
    pub(crate) fn live_entry<'c>(&self, locked: &Locked<'c>, key: &[u8]) -> Option<Entry<'c>> {
        let entry = locked.find(key)?;
        let death = self
            .member
            .cache
            .death(entry.location, entry.item.deadline(), self.tick());
        death.is_none().then_some(entry)
    }

    /// Gives a live item a new exptime; `false` if there is none. The CAS number stays.
    pub fn touch(&mut self, key: &[u8], exptime: i64) -> bool {
        self.get(&Get {
            touch: Some(exptime),
            ..Get::key(key)
        })
        .is_some()
    }

    /// Makes a change in the item's mutable words; `false`, with nothing changed, if one does not fit.
    fn change_in_place(&self, locked: &mut Locked<'_>, entry: &Entry<'_>, change: &Change) -> bool {
        let item = entry.item;
        let room_for_deadline = change
            .deadline
            .is_none_or(|new| new == NEVER || item.deadline() != NEVER);
        let room_for_cas = change
            .cas
            .is_none_or(|new| new >> 32 == item.cas() >> 32 && item.header().cas.is_some());
        if !room_for_deadline || !room_for_cas {
            return false;
        }
        if let Some(deadline) = change.deadline {
            // Before the item says so: whoever drops the segment at its old end asks each item.
            self.member
                .cache
                .change_deadlines(entry.location, item, item.deadline(), deadline);
        }
        // Whoever dies in between leaves some of it done: in this order each part promises less than what was there.
        locked.change_in_place(|| {
            let cas_fits = change.cas.is_none_or(|cas| item.set_cas(cas));
            if let Some((stale, win)) = change.lease {
                item.set_lease(stale, win);
            }
            let fits = change.deadline.is_none_or(|deadline| item.set_deadline(deadline));
            debug_assert!(cas_fits && fits, "asked above, under the same lock");
        });
        true
    }

    /// Writes the item that the caller saw there anew with a change that does not fit in place. Nothing is created or
    /// removed: it is the same item in another place. On [`Rewrite::Changed`] the caller, who decided by what it saw, starts
    /// again.
    fn rewrite(
        &self,
        key: &[u8],
        hash: KeyHash,
        (location, expected): (Location, &Header),
        change: &Change,
    ) -> Rewrite {
        let cache = &*self.member.cache;
        let (turn, item) = (self.turn(), cache.heap.item(location));
        let changed = |header: Header| Header {
            deadline: change.deadline.unwrap_or(header.deadline),
            cas: header.cas.map(|cas| change.cas.unwrap_or(cas)),
            stale: change.lease.map_or(header.stale, |(stale, _)| stale),
            win: change.lease.map_or(header.win, |(_, win)| win),
            ..header
        };
        let new_header = changed(*expected);
        let len = new_header.item_len(key.len(), crate::drain::value_shape(item));
        let heat = cache
            .index
            .find(&cache.heap, hash, key)
            .map_or(Heat::default(), |found| found.heat());
        let place = cache.eviction.place(len, heat, new_header.deadline, turn.tick);
        let Ok(room) = cache.reserve(&turn, &place, len, None) else {
            return Rewrite::NoMemory;
        };
        let new = room.location();
        // Reserving may have let the segment go: look again before its bytes are read.
        let still = self
            .look(hash, key)
            .filter(|(found, seen)| found.location == location && seen.same_words(expected));
        let Some((found, seen)) = still else {
            let len = room.len();
            room.fill();
            cache.count_dead(new, len, place.deadline);
            return Rewrite::Changed;
        };
        let copy = crate::drain::copy_item(room, &changed(seen), found.item);
        let mut locked = cache.index.lock(&cache.heap, hash);
        let entry = self
            .live_entry(&locked, key)
            .filter(|entry| entry.location == location && entry.item.header().same_words(&seen));
        let Some(entry) = entry else {
            drop(locked);
            cache.count_dead(new, copy.len(), place.deadline);
            return Rewrite::Changed;
        };
        copy.take_over_pieces(entry.item);
        cache.change_expiring(new, copy.len(), place.deadline, copy.deadline());
        let (before, now) = (entry.item.deadline(), copy.deadline());
        if copy.is_chained() {
            for piece in copy.pieces() {
                cache.change_expiring(piece.location, PIECE_HEADER + piece.len, before, now);
            }
        }
        locked.replace(&entry, new, entry.heat);
        drop(locked);
        self.count_rewritten(entry.item, copy, seen.fetched);
        // The pieces live on under the new head.
        cache.count_dead(location, entry.item.len(), before);
        Rewrite::Done(new)
    }

    /// Counts an item that lies elsewhere now, with the pieces of before.
    fn count_rewritten(&self, old: ItemRef<'_>, new: ItemRef<'_>, fetched: bool) {
        let (cache, turn) = (&*self.member.cache, self.turn());
        let len = |item: ItemRef<'_>| cache.heap.aligned(item.len()) as u64;
        let (old_len, new_len) = (len(old), len(new));
        turn.tally.created_bytes.add(new_len);
        turn.tally.removed_bytes.add(old_len);
        let whole_len = cache.whole_len(new) as u64;
        turn.tally
            .sizes
            .note_resized(whole_len - new_len + old_len, whole_len);
        if fetched {
            turn.tally.first_read_bytes.add(new_len);
        } else {
            turn.tally.removed_unread_bytes.add(old_len);
        }
    }

    /// Deletes or invalidates.
    pub fn delete(&mut self, delete: &Delete<'_>) -> DeleteOutcome {
        let hash = self.member.cache.index.hash(delete.key);
        if delete.drop_value {
            return self.drop_value(delete, hash);
        }
        loop {
            let cache = &*self.member.cache;
            let mut locked = cache.index.lock(&cache.heap, hash);
            let Some(entry) = self.live_entry(&locked, delete.key) else {
                return DeleteOutcome::NotFound;
            };
            if delete.compare_cas.is_some_and(|cas| cas != entry.item.cas()) {
                return DeleteOutcome::Exists;
            }
            if !delete.invalidate {
                locked.remove(&entry);
                drop(locked);
                cache.bury(&self.turn(), &entry, Cause::Deleted);
                cache.eviction.note(hash, self.tick(), || Event::Deleted);
                return DeleteOutcome::Deleted;
            }
            let seen = entry.item.header();
            let change = Change {
                deadline: delete.touch.map(|exptime| self.deadline(exptime)),
                cas: cache.next_cas(delete.new_cas),
                lease: Some((true, false)),
            };
            if self.change_in_place(&mut locked, &entry, &change) {
                return DeleteOutcome::Deleted;
            }
            drop(locked);
            match self.rewrite(delete.key, hash, (entry.location, &seen), &change) {
                Rewrite::Done(_) => return DeleteOutcome::Deleted,
                Rewrite::Changed => {}
                Rewrite::NoMemory => return DeleteOutcome::NoMemory,
            }
        }
    }

    /// Where the item under `key` is, or why it is gone. Leaves no trace.
    pub fn why(&self, key: &[u8]) -> Why {
        let cache = &*self.member.cache;
        self.announce_again();
        let hash = cache.index.hash(key);
        if let Some((found, header)) = self.look(hash, key) {
            let segment = cache.heap.segment_of(found.location);
            let opened = cache.heap.header(segment).opened_tick();
            return Why::Present(Present {
                bytes: cache.whole_len(found.item) as u64,
                value_len: found.item.value_len(),
                ttl: ttl_secs(header.deadline, self.tick()),
                idle_secs: header.idle_secs(self.secs),
                placed_secs: self.tick().saturating_sub(opened) / TICKS_PER_SEC,
                fetched: header.fetched,
                reads: found.heat().reads_class(),
                segment: segment.0,
            });
        }
        // The item may be dead and not have been noticed.
        let unnoticed = cache.index.find(&cache.heap, hash, key).and_then(|found| {
            let deadline = found.item.deadline();
            let cause = cache.death(found.location, deadline, self.tick())?;
            found.unchanged().then(|| Gone {
                cause,
                secs: match cause {
                    Cause::Expired => self.tick().saturating_sub(deadline) / TICKS_PER_SEC,
                    _ => 0,
                },
                bytes: cache.whole_len(found.item) as u64,
                ttl: ttl_secs(deadline, self.tick()),
                reads: found.heat().reads_class(),
            })
        });
        if let Some(gone) = unnoticed {
            return Why::Gone(gone);
        }
        match cache.ledger.find(hash) {
            ledger::Entry::Left(leaving) => Why::Gone(Gone {
                cause: leaving.cause,
                secs: self.secs.saturating_sub(leaving.secs),
                bytes: leaving.bytes,
                ttl: leaving.ttl,
                reads: Heat::remembered(leaving.level).reads_class(),
            }),
            ledger::Entry::NotSince(secs) => Why::Unknown {
                not_for_secs: self.secs.saturating_sub(secs),
            },
        }
    }

    /// A value for `key` was refused before it could be stored: as memcached does for `set` and `ms`, the old item goes,
    /// so that nobody reads what should have been overwritten.
    pub fn refuse(&mut self, key: &[u8], why: Refusal) {
        let cache = &*self.member.cache;
        let hash = cache.index.hash(key);
        let mut locked = cache.index.lock(&cache.heap, hash);
        let Some(entry) = self.live_entry(&locked, key) else {
            return;
        };
        locked.remove(&entry);
        drop(locked);
        let cause = match why {
            Refusal::TooLarge => Cause::TooLarge,
            Refusal::NoMemory => Cause::NoMemory,
        };
        cache.bury(&self.turn(), &entry, cause);
    }

    /// Makes everything stored until now (`delay` 0 or negative), or until the moment that `delay` names as an exptime,
    /// unreadable at that moment. A later call replaces a pending one.
    pub fn flush_all(&mut self, delay: i64) {
        let cache = &*self.member.cache;
        if delay <= 0 {
            return cache.flush_now();
        }
        let millis_per_tick = 1000 / u64::from(TICKS_PER_SEC);
        let relative = (delay <= 60 * 60 * 24 * 30).then(|| self.now.millis() + delay as u64 * 1000);
        cache.flush_later(relative.unwrap_or_else(|| u64::from(self.deadline(delay)) * millis_per_tick));
        cache.flush_if_due(self.now);
    }

    /// Lets the index keep up with what this worker stores.
    pub(crate) fn note_stored(&self) {
        let cache = &*self.member.cache;
        // An operation has just ended and nothing is held: others may be waiting for memory until they know that.
        self.announce_again();
        self.stored.set(self.stored.get() + 1);
        if self.stored.get() >= STORES_PER_LOOK {
            self.stored.set(0);
            cache.step_index(&self.turn(), PAGES_PER_LOOK);
            self.wait_for_index();
        }
    }
}

impl Worker {
    /// Waits, holding nothing, while the index cannot grow because another worker has not passed a quiet moment or is at it but has
    /// no processor.
    fn wait_for_index(&self) {
        let cache = &*self.member.cache;
        for _ in 0..INDEX_WAITS_MAX {
            if !cache.index.is_behind(cache.items()) {
                break;
            }
            self.announce_again();
            yield_now();
            cache.step_index(&self.turn(), PAGES_PER_LOOK);
        }
    }
}

/// How [`Worker::rewrite`] ended.
enum Rewrite {
    /// The item is now here.
    Done(Location),
    /// Somebody else changed it in between.
    Changed,
    /// No room.
    NoMemory,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.note_reads();
        self.member.cache.leave(self.member.index);
    }
}

/// xorshift64: cheap, and good enough to thin out frequency counts.
#[inline]
fn next_random(state: &Cell<u64>) -> u64 {
    let mut random = state.get();
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    state.set(random);
    random
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use scrubjay_base::time::Now;

    use crate::api::{Body, Config, Get, Store};
    use crate::cache::Cache;

    /// Reads every key so often at that second by two workers and returns what they share afterwards.
    fn after_reads(cache: &mut Arc<Cache>, times: usize, second: u64) -> Vec<u8> {
        let mut workers = [cache.worker(), cache.worker()];
        for worker in &mut workers {
            worker.begin_turn(Now::from_millis(second * 1000));
            for number in (0..100u8).cycle().take(100 * times) {
                assert!(worker.get(&Get::key(&[b'a', number])).is_some());
                assert!(worker.get(&Get::key(&[b'z', number])).is_none());
            }
        }
        drop(workers);
        let alone = Arc::get_mut(cache).expect("the workers are gone");
        alone.heap.bytes().to_vec()
    }

    #[test]
    fn misses_for_what_has_died_and_is_still_there_are_counted_by_why() {
        let cache = Cache::new(Config::new(8 << 20)).expect("memory");
        let mut worker = cache.worker();
        let mut misses = |millis: u64, flushes: bool| {
            worker.begin_turn(Now::from_millis(millis));
            if flushes {
                worker.flush_all(0);
            }
            for key in [b"dies", b"live"] {
                worker.get(&Get::key(key));
            }
            let counters = cache.counters();
            (counters.reads, counters.expired_misses, counters.flushed_misses)
        };
        let mut other = cache.worker();
        other.begin_turn(Now::from_millis(0));
        for (key, exptime) in [(b"dies", 1), (b"live", 0)] {
            let store = Store::set(key, Body::Bytes(b"value"));
            other.store(Store { exptime, ..store });
        }
        assert_eq!(misses(500, false), (2, 0, 0));
        assert_eq!(misses(1500, false), (4, 1, 0));
        assert_eq!(misses(1600, true), (6, 2, 1));
        drop(other);
        for millis in (2000..6000).step_by(250) {
            while cache.maintain(Now::from_millis(millis)) {}
        }
        assert_eq!(misses(6000, false), (8, 2, 1), "nothing is left of them");
    }

    #[test]
    fn the_index_is_behind_while_another_worker_keeps_it_from_growing_and_catches_up_when_that_one_goes() {
        let cache = Cache::new(Config::new(64 << 20)).expect("memory");
        let [mut worker, mut other] = [cache.worker(), cache.worker()];
        worker.begin_turn(Now::from_millis(0));
        let mut keys = 0..u64::MAX;
        let mut store = || {
            let key = keys.next().expect("many").to_le_bytes();
            worker.store(Store::set(&key, Body::Bytes(b"value")));
        };
        // Once it has grown with nobody in the way, the next growth leaves an extent at which the other may be looking.
        let pages = cache.index.bytes();
        while cache.index.bytes() == pages || cache.index.is_resizing() {
            store();
        }
        other.begin_turn(Now::from_millis(0));
        while !cache.index.is_behind(cache.items()) {
            store();
        }
        other.go_idle();
        (0..200_000).for_each(|_| store());
        assert!(!cache.index.is_behind(cache.items()));
        assert_eq!(cache.counters().removed.evicted, 0);
    }

    #[test]
    fn reads_of_what_is_read_often_write_to_a_key_once_a_second_and_a_miss_to_nothing() {
        // So small that no key is sampled.
        let mut cache = Cache::new(Config::new(8 << 20)).expect("memory");
        let mut worker = cache.worker();
        worker.begin_turn(Now::from_millis(0));
        for number in 0..100 {
            worker.store(Store {
                key_is_binary: true,
                ..Store::set(&[b'a', number], Body::Bytes(&[number; 100]))
            });
        }
        drop(worker);
        let warm = after_reads(&mut cache, 1000, 1);
        assert!(warm == after_reads(&mut cache, 100, 1), "nothing is written");
        let later = after_reads(&mut cache, 100, 2);
        let words = warm.chunks(8).zip(later.chunks(8));
        let written = words.filter(|(before, after)| before != after).count();
        assert_eq!(written, 100, "the second of the last read of each item");
    }
}
