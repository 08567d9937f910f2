//! Flushing: everything stored before a moment is dead at once, by the age of the segment that it lies in.

use scrubjay_base::sync::whole::Ordering;
use scrubjay_base::time::Now;

use crate::cache::Cache;
use crate::pool::State;
use crate::segment::{SegmentId, SegmentState};

/// No delayed flush is waiting.
pub(crate) const NO_FLUSH: u64 = u64::MAX;

impl Cache {
    /// Whether everything in the segment was flushed.
    pub(crate) fn is_flushed(&self, segment: SegmentId) -> bool {
        self.heap.header(segment).incarnation.load(Ordering::Relaxed)
            < self.flush_below.0.load(Ordering::Acquire)
    }

    /// Makes what is stored unreadable: what was published before is in segments of an older incarnation, what comes
    /// after goes to new ones. A delayed flush is not waited for any more.
    pub(crate) fn flush_now(&self) {
        let mut state = self.pool.lock();
        self.flush_locked(&mut state);
        self.set_flush_at(NO_FLUSH);
    }

    fn flush_locked(&self, state: &mut State) {
        self.pool.seal_open(state, &self.heap, &self.epochs, |_| true);
        // In the file first: what is told as flushed stays so.
        let superblock = self.heap.superblock();
        superblock
            .flush_below
            .store(state.next_incarnation, Ordering::SeqCst);
        self.flush_below.0.store(state.next_incarnation, Ordering::SeqCst);
        // Whoever is told finds nothing any more.
        self.departures
            .get()
            .into_iter()
            .for_each(|observer| observer.flushed());
    }

    /// Puts a flush off to `millis` of the clock, in place of a pending one.
    pub(crate) fn flush_later(&self, millis: u64) {
        let _state = self.pool.lock();
        self.set_flush_at(millis);
    }

    /// The caller holds the pool's lock.
    fn set_flush_at(&self, millis: u64) {
        self.heap.superblock().flush_at.store(millis, Ordering::Relaxed);
        self.flush_at.0.store(millis, Ordering::Relaxed);
    }

    /// Performs a delayed flush whose time has come.
    #[inline]
    pub(crate) fn flush_if_due(&self, now: Now) {
        if self.flush_at.0.load(Ordering::Relaxed) <= now.millis() {
            self.flush_due(now);
        }
    }

    #[cold]
    fn flush_due(&self, now: Now) {
        let mut state = self.pool.lock();
        if self.flush_at.0.load(Ordering::Relaxed) <= now.millis() {
            self.flush_locked(&mut state);
            // Forgotten when it is done, not before: the process may die in between.
            self.set_flush_at(NO_FLUSH);
        }
    }

    /// Once no segment of an older incarnation holds items, readers need not look at incarnations any more.
    pub(crate) fn end_finished_flush(&self) {
        if self.flush_below.0.load(Ordering::Acquire) == 0 {
            return;
        }
        // Who flushes holds the lock, too.
        let state = self.pool.lock();
        let pending = (0..state.touched()).map(SegmentId).any(|segment| {
            let header = self.heap.header(segment);
            !matches!(header.state(), SegmentState::Free | SegmentState::Retired) && self.is_flushed(segment)
        });
        if !pending {
            self.flush_below.0.store(0, Ordering::Release);
            self.heap.superblock().flush_below.store(0, Ordering::Release);
        }
    }
}
