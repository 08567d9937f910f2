//! The segment pool: who has which segment, and how many there may be.
//!
//! ```text
//! Free --take--> Open --seal--> Sealed --(reclaimer)--> Draining --> Retired --epoch passed, no pins--> Free
//! ```
//! The open segment of each log is shared by all workers. Everything else here is done under one lock, once per
//! segment and not once per item.

use scrubjay_base::sync::whole::{AtomicU32, Mutex, MutexGuard, Ordering};
use std::collections::VecDeque;

use crate::api::Config;
use crate::epoch::Epochs;
use crate::eviction::{LOGS, class_logs};
use crate::huge::Ranges;
use crate::segment::{Heap, SegmentId, SegmentState};

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests;

/// Segments that only reclamation may take, so that it can always move live items out of a victim.
const RESERVE: u32 = 2;

/// Segments beyond the reserve that are made free before they are needed where nothing may be evicted: what compaction cannot
/// move must not go.
const AHEAD_WITHOUT_EVICTION: u32 = 1;

/// At most this share of all (one over it) is made free ahead, when workers had to wait for memory.
const AHEAD_SHARE: u32 = 32;

/// A wait is put up with if so many segments were taken since the last one: a segment that is kept free all the time costs more.
const TAKEN_PER_WAIT: u32 = 32;

/// Segments taken without a wait after which one less is made free ahead.
const TAKEN_PER_DECAY: u32 = 64;

/// At most this share of all segments may be open.
pub(crate) const OPEN_SHARE: u32 = 16;

/// Logs that may have an open segment however small the cache is.
pub(crate) const OPEN_MIN: u32 = 4;

/// When so many segments (all of them over this) were sealed while nothing came to a class's open one, another class takes
/// it over. Which class items of a size belong to changes with the mean size, and left open segments behind.
const IDLE_SHARE: u32 = 16;

/// Of a segment that is taken over at most so much is filled (one over it).
const FILLED_SHARE: usize = 4;

/// Emptied segments may wait for slow readers up to this share of all (one over it), and up to this many.
const HELD_SHARE: u32 = 16;
const HELD_MIN: u32 = 2;

/// No cache lives long enough to count further: what a file has above it is damage.
pub(crate) const NUMBER_MAX: u64 = 1 << 62;

/// In `Pool::open`: the log has no open segment.
const NONE: u32 = u32::MAX;

/// When a segment is opened: by the clock, and by what eviction measures worth with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Born {
    pub(crate) tick: u32,
    pub(crate) inflation: f64,
}

/// All segments.
#[derive(Debug)]
pub(crate) struct Pool {
    /// Each log's open segment. Written under `state`'s lock, read by appenders.
    open: Box<[AtomicU32]>,
    state: Mutex<State>,
}

/// An open segment when it was looked at.
#[derive(Clone, Copy, Debug)]
struct Seen {
    segment: u32,
    left: usize,
    /// How many segments had been sealed.
    sealed_order: u64,
}

/// What the lock guards.
#[derive(Debug)]
pub(crate) struct State {
    /// Free segments with memory.
    free: Vec<SegmentId>,
    /// Free segments without memory.
    pub(crate) parked: Vec<SegmentId>,
    /// Segments from this number on were never used.
    untouched: u32,
    /// Segments that no slot points into, in the order in which they were retired.
    retired: VecDeque<SegmentId>,
    /// How many segments beyond the reserve are made free before they are needed. Rises when waits follow each other
    /// closely, falls slowly to the second number.
    ahead: u32,
    ahead_min: u32,
    taken_without_wait: u32,
    /// Segments in any state but free.
    used: u32,
    /// How many segments may be used.
    allowed: u32,
    open: u32,
    /// Each log's open segment when it was last found to have become fuller.
    seen: Box<[Seen]>,
    sealed_order: u64,
    /// Given to the next segment that is opened.
    pub(crate) next_incarnation: u64,
    lock_memory: bool,
    /// How often the operating system refused to lock a segment.
    pub(crate) locks_refused: u64,
    /// Which parts of the heap have memory.
    pub(crate) ranges: Ranges,
}

fn ahead_min(config: &Config) -> u32 {
    if config.evict { 0 } else { AHEAD_WITHOUT_EVICTION }
}

/// Segments that a cache keeps free when it is full and nobody has to wait.
pub(crate) fn kept_free(config: &Config) -> u32 {
    RESERVE + ahead_min(config)
}

impl Pool {
    pub(crate) fn new(heap: &Heap, config: &Config) -> Pool {
        Pool {
            open: (0..LOGS).map(|_| AtomicU32::new(NONE)).collect(),
            state: Mutex::new(State {
                free: Vec::new(),
                parked: Vec::new(),
                untouched: 0,
                retired: VecDeque::new(),
                ahead: ahead_min(config),
                ahead_min: ahead_min(config),
                taken_without_wait: 0,
                used: 0,
                allowed: 0,
                open: 0,
                seen: vec![
                    Seen {
                        segment: NONE,
                        left: 0,
                        sealed_order: 0
                    };
                    LOGS
                ]
                .into(),
                sealed_order: 0,
                next_incarnation: 1,
                lock_memory: config.lock_memory,
                locks_refused: 0,
                ranges: Ranges::new(heap),
            }),
        }
    }

    /// The pool by the segments' headers, which nobody else uses; `None` if they cannot be. Free segments give their memory
    /// back, for nobody knows how much of it they have.
    pub(crate) fn resume(heap: &Heap, config: &Config) -> Option<Pool> {
        let pool = Pool::new(heap, config);
        let mut state = pool.lock();
        let mut unsealed = Vec::new();
        for segment in (0..heap.segments_max()).map(SegmentId) {
            let header = heap.header(segment);
            let incarnation = header.incarnation.load(Ordering::Relaxed);
            // What was never used is zero.
            if incarnation == 0 {
                if header.state() != SegmentState::Free {
                    return None;
                }
                continue;
            }
            if incarnation > NUMBER_MAX {
                return None;
            }
            state.next_incarnation = state.next_incarnation.max(incarnation + 1);
            let order = header.sealed_order.load(Ordering::Relaxed);
            if order > NUMBER_MAX {
                return None;
            }
            state.sealed_order = state.sealed_order.max(order);
            state.untouched = segment.0 + 1;
            if header.resume(heap)? == SegmentState::Free {
                continue;
            }
            state.used += 1;
            state.ranges.note_taken(segment);
            state.lock_into_ram(heap, segment);
            if header.state() == SegmentState::Open && header.is_closed() {
                unsealed.push(header);
            } else if header.state() == SegmentState::Open {
                let open = pool.open.get(header.log())?;
                if open.swap(segment.0, Ordering::Relaxed) != NONE {
                    return None;
                }
                state.open += 1;
            }
        }
        // Earlier builds left one so where nothing came to its log any more.
        for header in unsealed {
            state.sealed_order += 1;
            header.sealed_order.store(state.sealed_order, Ordering::Relaxed);
            header.set_state(SegmentState::Sealed);
        }
        // All that was flushed is older than all that comes.
        if heap.superblock().flush_below.load(Ordering::Relaxed) > state.next_incarnation {
            return None;
        }
        let free = |segment: &SegmentId| heap.header(*segment).state() == SegmentState::Free;
        state.parked = (0..state.untouched).map(SegmentId).filter(free).rev().collect();
        state
            .parked
            .iter()
            .for_each(|segment| heap.punch_segment(*segment));
        drop(state);
        Some(pool)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the pool")
    }

    /// The log's open segment, which may have been closed a moment ago. Acquire pairs with the store in `open`.
    #[inline]
    pub(crate) fn open_segment(&self, log: usize) -> Option<SegmentId> {
        let id = self.open[log].load(Ordering::Acquire);
        (id != NONE).then_some(SegmentId(id))
    }

    /// The log to use instead of `log` when no more segments may be opened: the nearest one that has an open one.
    pub(crate) fn nearest_open(&self, log: usize) -> Option<usize> {
        (1..LOGS)
            .flat_map(|distance| [log.checked_sub(distance), Some(log + distance)])
            .flatten()
            .filter(|&near| near < LOGS)
            .find(|&near| self.open[near].load(Ordering::Relaxed) != NONE)
    }

    /// Another class's open segment to which nothing has come for long: it is `log`'s now, which has none.
    fn take_over(&self, state: &mut State, heap: &Heap, log: usize, inflation: f64) -> Option<SegmentId> {
        let (size, seals) = (heap.segment_size(), u64::from(state.allowed / IDLE_SHARE));
        let mut nearest: Option<(usize, SegmentId)> = None;
        for other in class_logs(log)? {
            let Some(segment) = self.open_segment(other) else {
                continue;
            };
            let left = heap.left(segment);
            let seen = &mut state.seen[other];
            if (seen.segment, seen.left) != (segment.0, left) {
                *seen = Seen {
                    segment: segment.0,
                    left,
                    sealed_order: state.sealed_order,
                };
            } else if state.sealed_order - seen.sealed_order >= seals
                && left >= size - size / FILLED_SHARE
                && nearest.is_none_or(|(near, _)| other.abs_diff(log) < near.abs_diff(log))
            {
                nearest = Some((other, segment));
            }
        }
        let (from, segment) = nearest?;
        // Who is about to put something there for the other class does so all the same.
        self.open[from].store(NONE, Ordering::Relaxed);
        heap.header(segment).take_over(log, inflation);
        self.open[log].store(segment.0, Ordering::Release);
        Some(segment)
    }

    /// Opens a segment for `log`, which has none: another class's that is idle, else a free one. `for_reclaim` may use the
    /// reserve.
    pub(crate) fn open(
        &self,
        state: &mut State,
        heap: &Heap,
        log: usize,
        born: Born,
        for_reclaim: bool,
    ) -> Option<SegmentId> {
        debug_assert_eq!(self.open[log].load(Ordering::Relaxed), NONE);
        let idle = self.take_over(state, heap, log, born.inflation);
        if idle.is_some() {
            return idle;
        }
        let segment = state.take(heap, for_reclaim)?;
        heap.forget_sum(segment);
        heap.header(segment)
            .open(state.next_incarnation, log, born.tick, born.inflation);
        state.next_incarnation += 1;
        state.open += 1;
        self.open[log].store(segment.0, Ordering::Release);
        Some(segment)
    }

    /// Seals the closed segment `segment`; nothing if that has happened already, or while whoever closes it has not said yet
    /// where it ends: then that one seals it.
    pub(crate) fn seal(&self, state: &mut State, heap: &Heap, epochs: &Epochs, segment: SegmentId) {
        let header = heap.header(segment);
        let log = header.log();
        if self.open[log].load(Ordering::Relaxed) != segment.0 || !header.is_closed() {
            return;
        }
        self.open[log].store(NONE, Ordering::Relaxed);
        state.sealed_order += 1;
        state.open -= 1;
        header.sealed_order.store(state.sealed_order, Ordering::Relaxed);
        // Appenders that got room before the close finish within their turn; nobody walks the segment before.
        header.retired_epoch.store(epochs.retire(), Ordering::Relaxed);
        header.set_state(SegmentState::Sealed);
    }

    /// Closes and seals every open segment for which `which` holds.
    pub(crate) fn seal_open(
        &self,
        state: &mut State,
        heap: &Heap,
        epochs: &Epochs,
        which: impl Fn(SegmentId) -> bool,
    ) -> u32 {
        let mut sealed = 0;
        for log in 0..LOGS {
            if let Some(segment) = self.open_segment(log).filter(|&segment| which(segment)) {
                heap.close(segment);
                self.seal(state, heap, epochs, segment);
                sealed += 1;
            }
        }
        sealed
    }
}

impl State {
    /// How many segments may be used, and how many are.
    pub(crate) fn allowed_and_used(&self) -> (u32, u32) {
        (self.allowed, self.used)
    }

    /// A worker needs memory and has to wait until others have passed a quiet moment.
    pub(crate) fn note_wait(&mut self) {
        if self.taken_without_wait < TAKEN_PER_WAIT {
            self.ahead = (self.ahead + 1).min((self.allowed / AHEAD_SHARE).max(1));
        }
        self.taken_without_wait = 0;
    }

    /// Whether so few segments are free, or will be in a moment, that the next one should be made free now: then nobody
    /// has to wait for readers when it is needed.
    pub(crate) fn is_short(&self) -> bool {
        self.available() + (self.retired.len() as u32) < RESERVE + self.ahead
    }

    /// Whether a segment can be had now, or as soon as workers have passed a quiet moment.
    pub(crate) fn has_or_awaits_free(&self, heap: &Heap) -> bool {
        let unpinned = |segment: &SegmentId| heap.header(*segment).pins.load(Ordering::Relaxed) == 0;
        self.available() > RESERVE || self.retired.iter().any(unpinned)
    }

    /// Whether more segments are used than allowed, those that will be free in a moment left out.
    pub(crate) fn over_limit(&self) -> bool {
        self.used - self.retired.len() as u32 > self.allowed
    }

    /// Whether more retired segments than a sixteenth of all wait for pins only.
    pub(crate) fn is_held_by_readers(&self, heap: &Heap) -> bool {
        let pinned = |segment: &&SegmentId| heap.header(**segment).pins.load(Ordering::Relaxed) > 0;
        let held = self.retired.iter().filter(pinned).count() as u32;
        held > (self.allowed / HELD_SHARE).max(HELD_MIN)
    }

    /// Segments that may still be taken, the reserve among them.
    pub(crate) fn available(&self) -> u32 {
        self.allowed.saturating_sub(self.used)
    }

    /// Whether another log may have an open segment.
    pub(crate) fn may_open(&self) -> bool {
        self.open < (self.allowed / OPEN_SHARE).max(OPEN_MIN)
    }

    /// How many segments were ever sealed.
    pub(crate) fn sealed_order(&self) -> u64 {
        self.sealed_order
    }

    /// Highest segment number ever used, plus one.
    pub(crate) fn touched(&self) -> u32 {
        self.untouched
    }

    fn take(&mut self, heap: &Heap, for_reclaim: bool) -> Option<SegmentId> {
        let kept_back = if for_reclaim { 0 } else { RESERVE };
        if self.available() <= kept_back {
            return None;
        }
        let segment = self.free.pop().or_else(|| {
            let fresh = self.parked.pop().or_else(|| {
                (self.untouched < heap.segments_max()).then(|| {
                    self.untouched += 1;
                    SegmentId(self.untouched - 1)
                })
            })?;
            self.ranges.note_taken(fresh);
            self.lock_into_ram(heap, fresh);
            Some(fresh)
        })?;
        self.used += 1;
        self.taken_without_wait = self.taken_without_wait.saturating_add(1);
        if self.taken_without_wait.is_multiple_of(TAKEN_PER_DECAY) {
            self.ahead = self.ahead.saturating_sub(1).max(self.ahead_min);
        }
        Some(segment)
    }

    /// For `-k`. What cannot be locked is used all the same, and counted.
    fn lock_into_ram(&mut self, heap: &Heap, segment: SegmentId) {
        if self.lock_memory && heap.lock_segment(segment).is_err() {
            self.locks_refused += 1;
        }
    }

    /// A drained segment waits for its readers.
    pub(crate) fn retire(&mut self, segment: SegmentId) {
        self.retired.push_back(segment);
    }

    /// Frees the retired segments that nobody can read any more; returns how many it freed and how many wait for a
    /// worker's quiet moment only (not for a pin).
    pub(crate) fn free_retired(&mut self, heap: &Heap, epochs: &Epochs) -> (u32, u32) {
        let (mut freed, mut waiting) = (0, 0);
        if self.retired.is_empty() {
            return (0, 0);
        }
        let horizon = epochs.horizon();
        for _ in 0..self.retired.len() {
            let Some(segment) = self.retired.pop_front() else {
                break;
            };
            let header = heap.header(segment);
            // Acquire pairs with the Release when a pin goes: what it sent has been read.
            let pinned = header.pins.load(Ordering::Acquire) > 0;
            let passed = header.retired_epoch.load(Ordering::Relaxed) <= horizon;
            if passed && !pinned {
                header.set_state(SegmentState::Free);
                self.used -= 1;
                self.free.push(segment);
                freed += 1;
            } else {
                waiting += u32::from(!passed);
                self.retired.push_back(segment);
            }
        }
        self.park_surplus(heap);
        (freed, waiting)
    }

    /// Sets how many segments may be used. If more are, they are reclaimed as time goes by.
    pub(crate) fn allow(&mut self, heap: &Heap, segments: u32) {
        self.allowed = segments.min(heap.segments_max());
        self.park_surplus(heap);
    }

    fn park_surplus(&mut self, heap: &Heap) {
        while self.free.len() as u32 > self.available() {
            let Some(segment) = self.free.pop() else { break };
            heap.punch_segment(segment);
            self.ranges.note_given_back(segment);
            self.parked.push(segment);
        }
    }
}
