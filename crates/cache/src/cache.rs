//! The cache that all workers share: its parts, its limits, its counts, and the background work.

use std::sync::Arc;

use scrubjay_base::sync::whole::{AtomicBool, AtomicU32, AtomicU64, Mutex, Ordering};
use scrubjay_base::sync::{OwnLine, yield_now};
use scrubjay_base::time::Now;

use crate::api::{Cause, Config, Refusal, item_size};
use crate::checksum::Checksums;
use crate::counters::{Counters, CurvePoint, SizeClass, Usage};
use crate::departure::Departures;
use crate::epoch::Epochs;
use crate::error::CacheError;
use crate::eviction::{Eviction, Place};
use crate::expiry::{is_expired, tick, ttl_secs};
use crate::huge::HugePages;
use crate::index::{Entry, Index, KeyHash};
use crate::item::{ItemRef, Kind, NEVER, PIECE_HEADER, Room};
use crate::ledger::{self, Leaving, Ledger};
use crate::line::Location;
use crate::pool::{Born, Pool};
use crate::reclaim::{Reclaimer, is_held_back};
use crate::segment::{Append, Heap, SEGMENT_HEADER_LEN, SegmentId, SegmentState};
use crate::sizes::{self, Left};
use crate::tally::Tally;
use crate::upload::Uploads;
use crate::worker::{Member, Turn, Worker};

/// Least memory a cache can work with.
const MEMORY_MIN: usize = 512 << 10;

/// Segments that a cache is cut into, about: those that are kept free and those that are not full are a smaller share of
/// more. But small segments cut values, and all are looked at when a victim is chosen.
const SEGMENTS_AIM: std::ops::RangeInclusive<usize> = 512..=2048;

/// Bytes of the limit for each pair of segments, at least: with twice as many, four times as much is looked at for each byte
/// stored.
const BYTES_PER_PAIR: usize = 1 << 10;

/// Memory counts as free while so much of it (one over it) is.
const FREE_SHARE: u32 = 16;

const SEGMENT_SHIFT_MIN: u32 = 14;
const SEGMENT_SHIFT_MAX: u32 = 24;

/// The memory limit can be raised to this many times what it was at start.
pub(crate) const GROWTH_MAX: usize = 8;

/// Pages of the index that one call of [`Cache::maintain`] moves at most.
const PAGES_PER_MAINTENANCE: usize = 256;

/// Segments that one call of [`Cache::maintain`] empties at most.
const DRAINS_PER_MAINTENANCE: usize = 32;

/// The cache, shared by all workers.
#[derive(Debug)]
pub struct Cache {
    pub(crate) config: Config,
    /// When this process got it.
    pub(crate) opened: Now,
    pub(crate) heap: Heap,
    pub(crate) index: Index,
    pub(crate) pool: Pool,
    pub(crate) epochs: Epochs,
    pub(crate) reclaimer: Mutex<Reclaimer>,
    pub(crate) uploads: Uploads,
    pub(crate) eviction: Eviction,
    pub(crate) ledger: Ledger,
    pub(crate) departures: Departures,
    pub(crate) huge_pages: HugePages,
    pub(crate) checksums: Checksums,
    /// Items in segments of an older incarnation than this are dead; 0 while no flush is being worked off.
    pub(crate) flush_below: OwnLine<AtomicU64>,
    /// The latest tick any worker has seen: all judge expiry by it, so that no worker serves what is dead to another.
    pub(crate) tick: OwnLine<AtomicU32>,
    /// Millisecond of the clock at which a delayed flush acts.
    pub(crate) flush_at: OwnLine<AtomicU64>,
    pub(crate) memory_max: AtomicU64,
    /// Bytes that others hold out of the same budget: connections.
    pub(crate) held_beside: AtomicU64,
    /// The limit was lowered, and what is over it has not gone yet.
    pub(crate) lowering: AtomicBool,
    pub(crate) tallies: Box<[OwnLine<Tally>]>,
    /// Numbers of workers that are not registered.
    pub(crate) vacant: Mutex<Vec<usize>>,
    /// Keys whose items were evicted, one for each time: what a model is told.
    #[cfg(shuttle)]
    pub(crate) evicted: std::sync::Mutex<Vec<Vec<u8>>>,
}

/// Whether a cache can be built within these limits.
pub(crate) fn check_limits(config: &Config) -> Result<(), CacheError> {
    let (memory_max, item_size_max) = (config.memory_max, config.item_size_max);
    if memory_max < MEMORY_MIN {
        return Err(CacheError::MemoryTooSmall {
            memory_max,
            memory_min: MEMORY_MIN,
        });
    }
    if item_size_max > memory_max / 2 {
        return Err(CacheError::ItemSizeOverHalf {
            item_size_max,
            memory_max,
        });
    }
    let ledger_bytes = ledger::bytes_of(memory_max, config.ledger_bytes);
    if ledger_bytes > memory_max / 4 {
        return Err(CacheError::LedgerOverQuarter {
            ledger_bytes,
            memory_max,
        });
    }
    Ok(())
}

/// The least limit that a cache of these items can be brought to.
pub(crate) fn memory_min(config: &Config) -> usize {
    MEMORY_MIN.max(2 * config.item_size_max)
}

/// Segments of a cache that starts with `memory_max` have `1 << this` bytes.
pub(crate) fn segment_shift(memory_max: usize) -> u32 {
    let aim = (memory_max / BYTES_PER_PAIR).isqrt();
    (memory_max / aim.clamp(*SEGMENTS_AIM.start(), *SEGMENTS_AIM.end()))
        .max(1)
        .ilog2()
        .clamp(SEGMENT_SHIFT_MIN, SEGMENT_SHIFT_MAX)
}

/// Segments that there is address space for, as the limit may be raised.
pub(crate) fn segments_max(memory_max: usize, segment_shift: u32) -> u32 {
    u32::try_from((memory_max * GROWTH_MAX) >> segment_shift).unwrap_or(u32::MAX / 2)
}

/// What a segment takes of the memory limit, its header too.
pub(crate) fn budget_of_segment(segment_size: usize) -> usize {
    segment_size + SEGMENT_HEADER_LEN
}

impl Cache {
    /// Registers a worker; each belongs to one thread at a time, at most `workers_max` live at a time.
    ///
    /// # Panics
    /// If more than `workers_max` workers are registered.
    pub fn worker(self: &Arc<Cache>) -> Worker {
        let index = self.vacant.lock().expect("nothing panics under this lock").pop();
        let index = index.expect("no more than workers_max workers are registered at a time");
        Worker::new(Member::new(Arc::clone(self), index))
    }

    pub(crate) fn leave(&self, index: usize) {
        self.epochs.sleep(index);
        self.vacant
            .lock()
            .expect("nothing panics under this lock")
            .push(index);
    }

    /// How it was configured.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Counts since start.
    pub fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        self.tallies.iter().for_each(|tally| tally.0.add_to(&mut sum));
        sum
    }

    /// Items by size, smallest first, the classes without any among them; `created` and what left since start. Cost: a
    /// look at a hundred counts of every worker. Sums are exact when nothing is in flight.
    pub fn size_classes(&self) -> Vec<SizeClass> {
        sizes::sum(self.tallies.iter().map(|tally| &tally.0.sizes))
    }

    /// How often the operating system refused to lock a segment into RAM.
    pub fn locks_refused(&self) -> u64 {
        self.pool.lock().locks_refused
    }

    /// What it holds now. Cost: a look at every segment's header.
    pub fn usage(&self) -> Usage {
        let (touched, allowed, used) = {
            let state = self.pool.lock();
            let (allowed, used) = state.allowed_and_used();
            (state.touched(), allowed, used)
        };
        let segment_size = self.heap.segment_size() as u64;
        let item_bytes = (0..touched).map(SegmentId).map(|segment| {
            let header = self.heap.header(segment);
            match header.state() {
                SegmentState::Free | SegmentState::Retired => 0,
                _ => u64::from(header.live()),
            }
        });
        Usage {
            items: self.items(),
            item_bytes: item_bytes.sum(),
            index_bytes: self.index.bytes() as u64,
            index_is_resizing: self.index.is_resizing(),
            eviction_bytes: self.eviction.bytes() as u64,
            ledger_bytes: self.ledger_bytes() as u64,
            dead_bytes: self.dead_bytes(),
            expired_bytes: self.expired_bytes(),
            unread_bytes: self.unread_bytes(),
            evicted_idle_secs: self.eviction.evicted_idle_secs.load(Ordering::Relaxed),
            segment_bytes: u64::from(used) * segment_size,
            memory_max: self.memory_max.load(Ordering::Relaxed),
            segments_used: u64::from(used),
            segments_total: u64::from(allowed),
            segment_size,
            upload_bytes: self.uploads.bytes(),
            held_beside_bytes: self.held_beside.load(Ordering::Relaxed),
            huge_page_bytes: self.huge_page_bytes() as u64,
            huge_pages_refused: self.huge_pages_refused(),
            locks_refused: self.locks_refused(),
        }
    }

    /// Items in the index, the expired that nobody has noticed among them.
    pub(crate) fn items(&self) -> u64 {
        self.tallies
            .iter()
            .map(|tally| tally.0.balance())
            .sum::<i64>()
            .max(0) as u64
    }

    /// Bytes of those items, with all their pieces.
    pub(crate) fn items_bytes(&self) -> u64 {
        self.tallies
            .iter()
            .map(|tally| tally.0.balance_bytes())
            .sum::<i64>()
            .max(0) as u64
    }

    /// Bytes of the items that were never read.
    pub(crate) fn unread_bytes(&self) -> u64 {
        let tallies = self.tallies.iter();
        let sum = tallies.map(|tally| tally.0.unread_bytes()).sum::<i64>();
        sum.max(0) as u64
    }

    /// Bytes of all items that were ever stored, with all their pieces.
    pub(crate) fn created_bytes(&self) -> u64 {
        let tallies = self.tallies.iter();
        tallies.map(|tally| tally.0.created_bytes.get()).sum()
    }

    /// Bytes that an item takes with all its pieces.
    pub(crate) fn whole_len(&self, item: ItemRef<'_>) -> usize {
        let pieces = |piece: crate::item::Piece| self.heap.aligned(PIECE_HEADER + piece.len);
        let own = self.heap.aligned(item.len());
        own + if item.is_chained() {
            item.pieces().map(pieces).sum()
        } else {
            0
        }
    }

    pub(crate) fn tally(&self, member: usize) -> &Tally {
        &self.tallies[member].0
    }

    /// Changes the memory limit; returns the limit now in force, which is the nearest one possible: from 512 KiB or twice
    /// the item size limit up to eight times the limit at start.
    pub fn set_memory_max(&self, bytes: usize) -> usize {
        let bytes = bytes.clamp(
            memory_min(&self.config),
            self.config.memory_max.saturating_mul(GROWTH_MAX),
        );
        let before = self.memory_max.swap(bytes as u64, Ordering::Relaxed);
        self.lowering.fetch_or((bytes as u64) < before, Ordering::Relaxed);
        self.balance_budget();
        bytes
    }

    /// Fits the number of segments to what the limit leaves beside the index.
    pub(crate) fn balance_budget(&self) {
        let beside = (self.index.bytes() + self.eviction.bytes() + self.ledger_bytes()) as u64;
        let beside = beside + self.held_beside.load(Ordering::Relaxed);
        let left = self.memory_max.load(Ordering::Relaxed).saturating_sub(beside);
        let segments = left / budget_of_segment(self.heap.segment_size()) as u64;
        self.pool.lock().allow(&self.heap, segments as u32);
        self.eviction.sampler.set_capacity(self.capacity());
    }

    /// Bytes of dead items in sealed segments.
    fn dead_bytes(&self) -> u64 {
        let touched = self.pool.lock().touched();
        let dead = |segment| {
            let header = self.heap.header(segment);
            match header.state() {
                SegmentState::Sealed => u64::from(header.used() - header.live_at(self.tick())),
                _ => 0,
            }
        };
        (0..touched).map(SegmentId).map(dead).sum()
    }

    /// Bytes of items whose deadline has passed and that still have a slot.
    fn expired_bytes(&self) -> u64 {
        let touched = self.pool.lock().touched();
        let expired = |segment| {
            let header = self.heap.header(segment);
            match header.state() {
                SegmentState::Sealed | SegmentState::Open => u64::from(header.expired(self.tick())),
                _ => 0,
            }
        };
        (0..touched).map(SegmentId).map(expired).sum()
    }

    pub(crate) fn ledger_bytes(&self) -> usize {
        ledger::bytes_of(self.config.memory_max, self.config.ledger_bytes)
    }

    /// Bytes of all segments that may be used.
    pub(crate) fn capacity(&self) -> u64 {
        let (allowed, _) = self.pool.lock().allowed_and_used();
        u64::from(allowed) * self.heap.segment_size() as u64
    }

    /// What the cache would have missed since start with other memory limits, smallest first; empty for a cache that is
    /// too small to learn from a sample (below 32 MiB).
    pub fn miss_ratio_curve(&self) -> Vec<CurvePoint> {
        let sum = |count: fn(&Tally) -> u64| self.tallies.iter().map(|tally| count(&tally.0)).sum();
        let (reads, misses) = (sum(|tally| tally.reads.get()), sum(|tally| tally.misses.get()));
        self.eviction.sampler.curve(self.memory_max(), reads, misses)
    }

    /// Takes `bytes` out of the budget for what others hold, connections for one; segments are given up for it as time
    /// goes by. At most half of the limit counts.
    pub fn set_held_beside(&self, bytes: u64) {
        // In whole segments, so that small changes change nothing.
        let segment = self.heap.segment_size() as u64;
        let bytes = (bytes - bytes % segment).min(self.memory_max() / 2);
        if self.held_beside.swap(bytes, Ordering::Relaxed) != bytes {
            self.balance_budget();
        }
    }

    /// Whether segments that are empty but for replies still being sent from them are more than a sixteenth of all: then
    /// whoever sends should copy what is left to send.
    pub fn is_held_by_readers(&self) -> bool {
        self.pool.lock().is_held_by_readers(&self.heap)
    }

    /// The limit was lowered, and memory is still to be given up for that.
    pub(crate) fn is_lowering(&self) -> bool {
        self.lowering.load(Ordering::Relaxed)
    }

    pub(crate) fn end_lowering(&self) {
        self.lowering.store(false, Ordering::Relaxed);
    }

    pub(crate) fn memory_max(&self) -> u64 {
        self.memory_max.load(Ordering::Relaxed)
    }

    /// The CAS number of a modification; `None` when CAS is off.
    #[inline]
    pub(crate) fn next_cas(&self, wanted: Option<u64>) -> Option<u64> {
        self.config.cas.then(|| {
            wanted.unwrap_or_else(|| self.heap.superblock().cas.0.fetch_add(1, Ordering::Relaxed) + 1)
        })
    }

    /// Whether an item of this shape is within the item size limit by memcached's sum.
    pub(crate) fn fits(&self, key_len: usize, flags: u32, value_len: usize) -> bool {
        item_size(self.config.cas, key_len, flags, value_len) <= self.config.item_size_max
    }

    /// Time has come to `now`.
    #[inline]
    pub(crate) fn advance(&self, now: Now) {
        let tick = tick(now);
        if self.tick.0.load(Ordering::Relaxed) < tick {
            self.tick.0.fetch_max(tick, Ordering::AcqRel);
        }
    }

    /// The tick by which items are alive or dead.
    #[inline]
    pub(crate) fn tick(&self) -> u32 {
        self.tick.0.load(Ordering::Acquire)
    }

    /// Why the item at `location` may not be read at `tick`, if so.
    #[inline]
    pub(crate) fn death(&self, location: Location, deadline: u32, tick: u32) -> Option<Cause> {
        if is_expired(deadline, tick) {
            return Some(Cause::Expired);
        }
        // Acquire pairs with the store in `flush_now`.
        let flush_below = self.flush_below.0.load(Ordering::Acquire);
        (flush_below > 0 && self.incarnation(location) < flush_below).then_some(Cause::Flushed)
    }

    fn incarnation(&self, location: Location) -> u64 {
        self.heap
            .header(self.heap.segment_of(location))
            .incarnation
            .load(Ordering::Relaxed)
    }

    /// Reserves room for an item at its place, reclaiming memory if there is none. The caller holds no item: while this
    /// waits, other segments are recycled.
    ///
    /// `listed` is the key's hash if the item is new and nobody has read it: see [`Heap::append`].
    pub(crate) fn reserve(
        &self,
        turn: &Turn<'_>,
        place: &Place,
        len: usize,
        listed: Option<KeyHash>,
    ) -> Result<Room<'_>, Refusal> {
        let mut log = place.log;
        loop {
            let full = match self.append(log, place, len, listed) {
                Ok(room) => return Ok(room),
                Err(full) => full,
            };
            log = self.open_another(turn, log, full)?;
        }
    }

    /// Room at the end of the log's open segment, or that segment if it is full.
    #[inline(always)]
    pub(crate) fn append(
        &self,
        log: usize,
        place: &Place,
        len: usize,
        listed: Option<KeyHash>,
    ) -> Result<Room<'_>, Option<SegmentId>> {
        let Some(segment) = self.pool.open_segment(log) else {
            return Err(None);
        };
        match self.heap.append(segment, len, listed) {
            Append::Room(room) => {
                let header = self.heap.header(segment);
                header.raise_deadline(place.deadline);
                header.note_expiring(place.deadline, room.len() as i32);
                place.credit(header, room.len());
                Ok(room)
            }
            Append::Closed | Append::Full => Err(Some(segment)),
        }
    }

    fn born(&self) -> Born {
        Born {
            tick: self.tick(),
            inflation: self.eviction.inflation(),
        }
    }

    /// Seals the segment that [`append`](Cache::append) found full, if there was one.
    #[cold]
    pub(crate) fn seal(&self, full: Option<SegmentId>) {
        if let Some(full) = full {
            let mut state = self.pool.lock();
            self.pool.seal(&mut state, &self.heap, &self.epochs, full);
        }
    }

    /// Seals `full` and sees to it that the log (or the one to use instead) has an open segment.
    pub(crate) fn open_another(
        &self,
        turn: &Turn<'_>,
        log: usize,
        full: Option<SegmentId>,
    ) -> Result<usize, Refusal> {
        let mut attempts = 0;
        self.recycle(turn);
        loop {
            {
                let mut state = self.pool.lock();
                if let Some(full) = full {
                    self.pool.seal(&mut state, &self.heap, &self.epochs, full);
                }
                if let Some(open) = self.pool.open_segment(log) {
                    if full == Some(open) {
                        // Whoever closes it says in a moment where it ends.
                        drop(state);
                        yield_now();
                    }
                    return Ok(log);
                }
                if !state.may_open()
                    && let Some(near) = self.pool.nearest_open(log)
                {
                    return Ok(near);
                }
                let opened = self.pool.open(&mut state, &self.heap, log, self.born(), false);
                if opened.is_some() {
                    let is_short = state.is_short();
                    drop(state);
                    if is_short {
                        self.reclaim_ahead(turn);
                    }
                    return Ok(log);
                }
            }
            self.reclaim(turn, &mut attempts)?;
        }
    }

    /// Room for an item that reclamation moves, from the reserve if need be; `None` if even that is used up.
    pub(crate) fn reserve_for_survivor(&self, place: &Place, len: usize) -> Option<Room<'_>> {
        let mut log = place.log;
        loop {
            let full = match self.append(log, place, len, None) {
                Ok(room) => return Some(room),
                Err(full) => full,
            };
            let mut state = self.pool.lock();
            if let Some(full) = full {
                self.pool.seal(&mut state, &self.heap, &self.epochs, full);
            }
            if self.pool.open_segment(log).is_some() {
                drop(state);
                yield_now();
                continue;
            }
            let near = self.pool.nearest_open(log);
            if let Some(near) = near.filter(|_| !state.may_open()) {
                log = near;
            } else if self
                .pool
                .open(&mut state, &self.heap, log, self.born(), true)
                .is_none()
            {
                log = near?;
            }
        }
    }

    /// Counts an item that no slot points at any more, and its bytes as dead.
    pub(crate) fn bury(&self, turn: &Turn<'_>, entry: &Entry<'_>, cause: Cause) {
        let outline = entry.item.outline();
        let bytes = match outline.kind {
            Kind::Chained => self.whole_len(entry.item),
            _ => self.heap.aligned(outline.len),
        };
        self.note_gone(turn, entry, cause, bytes as u64);
        self.count_dead(entry.location, outline.len, entry.item.deadline());
    }

    /// As `bury` of an item that has so many bytes with all its pieces, but its own are counted as dead by the caller.
    ///
    /// Inline so that a cause that is known beforehand decides there what is to be done.
    #[inline(always)]
    pub(crate) fn note_gone(&self, turn: &Turn<'_>, entry: &Entry<'_>, cause: Cause, bytes: u64) {
        let item = entry.item;
        let (state, deadline) = (item.state(), item.deadline());
        let left = Left {
            cause,
            bytes,
            expires: deadline != NEVER,
            fetched: state.fetched(),
        };
        let ttl = match cause {
            Cause::Expired => Some(0),
            _ => ttl_secs(deadline, turn.tick),
        };
        self.note_left(turn, entry, &left, ttl);
        #[cfg(shuttle)]
        self.note_evicted_key(item, cause);
        if state.is_chained() {
            for piece in item.pieces() {
                self.count_dead(piece.location, PIECE_HEADER + piece.len, deadline);
            }
        }
    }

    /// Counts what left, in one piece or not, and notes why; the seconds that it had to live are `ttl`.
    #[inline(always)]
    pub(crate) fn note_left(&self, turn: &Turn<'_>, entry: &Entry<'_>, left: &Left, ttl: Option<u32>) {
        let &Left { cause, bytes, .. } = left;
        let tally = turn.tally;
        tally.removed(cause).add(1);
        tally.removed_bytes.add(bytes);
        tally.sizes.note_left(left);
        // A key whose version was replaced is not gone.
        if !matches!(cause, Cause::Replaced | Cause::Invalidated) {
            let leaving = Leaving {
                cause,
                secs: turn.secs,
                bytes,
                ttl,
                level: entry.heat.level(),
            };
            self.ledger.note(entry.hash, &leaving);
            self.show_evicted(turn, entry, cause);
        }
        if !left.fetched {
            tally.removed_unread_bytes.add(bytes);
            match cause {
                Cause::Evicted | Cause::LimitLowered => tally.evicted_unfetched.add(1),
                Cause::Expired => tally.expired_unfetched.add(1),
                _ => {}
            }
        }
    }

    /// Counts `len` bytes at `location`, which would have died at `deadline`, as dead.
    pub(crate) fn count_dead(&self, location: Location, len: usize, deadline: u32) {
        let dead = self.heap.aligned(len) as u32;
        let header = self.heap.header(self.heap.segment_of(location));
        header.note_expiring(deadline, -(dead as i32));
        // Release pairs with `SegmentHeader::live`: who finds nothing alive finds the index without it, too.
        header.dead.fetch_add(dead, Ordering::Release);
    }

    /// What lies at `location` dies at another time than it was put there for.
    pub(crate) fn change_expiring(&self, location: Location, len: usize, from: u32, to: u32) {
        if from != to {
            let header = self.heap.header(self.heap.segment_of(location));
            let len = self.heap.aligned(len) as i32;
            header.raise_deadline(to);
            header.note_expiring(from, -len);
            header.note_expiring(to, len);
        }
    }

    /// As `change_expiring`, for an item that was put there for `from` and all its pieces.
    pub(crate) fn change_deadlines(&self, location: Location, item: ItemRef<'_>, from: u32, to: u32) {
        self.change_expiring(location, item.len(), from, to);
        if item.is_chained() {
            for piece in item.pieces() {
                self.change_expiring(piece.location, PIECE_HEADER + piece.len, from, to);
            }
        }
    }

    /// One step of background work: delayed flush, expiry, freeing, resizing the index. Call it about every 250 ms with
    /// the current time, and again at once if it returns `true`. Cost: a look at every segment's header, plus the items
    /// that died.
    pub fn maintain(&self, now: Now) -> bool {
        self.advance(now);
        self.flush_if_due(now);
        let member = self.tallies.len() - 1;
        let Ok(mut reclaimer) = self.reclaimer.lock() else {
            return false;
        };
        self.epochs.announce(member);
        let turn = Turn {
            member,
            tick: self.tick(),
            secs: now.secs() as u32,
            tally: self.tally(member),
        };
        self.seal_expired(&turn);
        let drained = self.drain_dead(&turn, &mut reclaimer, DRAINS_PER_MAINTENANCE);
        self.epochs.announce(member);
        self.pool.lock().free_retired(&self.heap, &self.epochs);
        self.lower_to_limit(&turn, &mut reclaimer);
        drop(reclaimer);
        self.index
            .note_load(self.items(), turn.tick, self.has_free_memory());
        // When a crowd dies, the index shrinks after it, and moves only what is left.
        let crowd = drained == DRAINS_PER_MAINTENANCE;
        let resizing = !crowd && self.step_index(&turn, PAGES_PER_MAINTENANCE);
        self.end_finished_flush();
        self.note_used();
        self.note_state(now);
        self.sum_up(member, now);
        self.epochs.sleep(member);
        self.take_huge_pages(now);
        crowd || resizing
    }

    /// Whether so much memory is free that nobody will have to make room soon.
    fn has_free_memory(&self) -> bool {
        let (allowed, used) = self.pool.lock().allowed_and_used();
        used < allowed - allowed / FREE_SHARE
    }

    /// Tells the shadows how much of the segments in use holds items.
    fn note_used(&self) {
        let (_, used) = self.pool.lock().allowed_and_used();
        let used = u64::from(used) * self.heap.segment_size() as u64;
        self.eviction.sampler.note_used(self.items_bytes(), used);
    }

    /// Moves some pages of the index if a resize is due; returns whether more is to do.
    pub(crate) fn step_index(&self, turn: &Turn<'_>, pages: usize) -> bool {
        let items = self.items();
        let items_bytes = self.items_bytes();
        self.eviction.note_mean_size(items_bytes, items);
        self.heap
            .expect_items_of(items_bytes.checked_div(items).unwrap_or(0));
        if !self.index.wants_step(items) && !self.index.has_leftovers() {
            return false;
        }
        let mut pushed_out = Vec::new();
        let more = self
            .index
            .step(&self.heap, &self.epochs, items, pages, &mut pushed_out);
        self.bury_pushed_out(turn, &pushed_out);
        self.balance_budget();
        more
    }

    /// A page of the index is full: it grows there at once, unless that would cost more than it is worth.
    pub(crate) fn relieve_index(&self, turn: &Turn<'_>, hash: KeyHash) {
        // One item makes room where growing for one page would cost many.
        let free = u64::from(self.pool.lock().available()) * self.heap.segment_size() as u64;
        if free < self.index.growth_bytes() && !self.index.is_due(self.items()) {
            return;
        }
        let mut pushed_out = Vec::new();
        self.index
            .relieve(&self.heap, &self.epochs, hash, self.items(), &mut pushed_out);
        self.bury_pushed_out(turn, &pushed_out);
        self.balance_budget();
    }

    fn bury_pushed_out(&self, turn: &Turn<'_>, pushed_out: &[Entry<'_>]) {
        for entry in pushed_out {
            self.bury(turn, entry, Cause::Evicted);
        }
    }

    /// An open segment whose items have expired, all or most of them, is of no more use.
    fn seal_expired(&self, turn: &Turn<'_>) {
        let mut state = self.pool.lock();
        self.pool
            .seal_open(&mut state, &self.heap, &self.epochs, |segment| {
                let header = self.heap.header(segment);
                header.used() > 0
                    && (is_expired(header.max_deadline(), turn.tick) || is_held_back(header, turn.tick))
            });
    }
}

/// The clock's tick from which an item that never expires would be dead: never.
const _: () = assert!(NEVER == u32::MAX);
