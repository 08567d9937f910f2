//! Checksums of what lies in segments, made by background work and asked for after a crash.
//!
//! A segment's sum is made of the sum (`crc.rs`) of each of its items, over the bytes that never change, from its start up to a
//! place before which every item is complete. The items' own sums do not wait for each other: a processor works on several at
//! once. It goes up to the end soon after the segment is sealed, and follows an open segment once a second. It guards against
//! memory that was changed by others while nobody looked, not against halves of items: no slot names those.

use std::sync::Mutex;

use scrubjay_base::sync::whole::Ordering;
use scrubjay_base::sync::yield_now;
use scrubjay_base::time::Now;

use crate::cache::Cache;
use crate::crc;
use crate::item::{ItemRef, Outline};
use crate::segment::{Heap, SEGMENT_START, SegmentId, SegmentState};

/// Time between two looks at how far segments are filled.
const ROUND_MILLIS: u64 = 1000;

/// Bytes that are summed before other threads are told that this one holds nothing: memory waits for it no longer.
const STEP: u32 = 256 << 10;

/// A checksum, and where in its segment the bytes end that it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) covered: u32,
    sum: u32,
}

impl Sum {
    /// Of nothing.
    pub(crate) const EMPTY: Sum = Sum {
        covered: SEGMENT_START,
        sum: 0,
    };

    /// As one word, 0 for the empty one.
    fn encode(self) -> u64 {
        u64::from(self.covered - SEGMENT_START) << 32 | u64::from(self.sum)
    }

    fn decode(word: u64) -> Sum {
        Sum {
            covered: ((word >> 32) as u32).saturating_add(SEGMENT_START),
            sum: word as u32,
        }
    }
}

/// How far the work is.
#[derive(Debug, Default)]
pub(crate) struct Checksums(Mutex<Round>);

#[derive(Debug, Default)]
struct Round {
    /// Milliseconds of the clock before which no new ends are noted.
    quiet_until: u64,
    /// Segments, their incarnations, and where their items ended when they were looked at.
    ends: Vec<(SegmentId, u64, u32)>,
    /// What was begun before these ends is finished when this epoch has passed.
    epoch: u64,
}

impl Heap {
    pub(crate) fn kept_sum(&self, segment: SegmentId) -> Sum {
        Sum::decode(self.sum_word(segment).load(Ordering::Acquire))
    }

    /// Release: whoever finds the sum finds the bytes that it covers.
    fn keep_sum(&self, segment: SegmentId, sum: Sum) {
        self.sum_word(segment).store(sum.encode(), Ordering::Release);
    }

    /// Nothing of the segment is covered: it begins a new life.
    pub(crate) fn forget_sum(&self, segment: SegmentId) {
        self.sum_word(segment).store(0, Ordering::Release);
    }

    /// The sum of a segment from `before` on, up to `end` or the first item behind `enough` bytes more; `None` if what lies
    /// there are not items one behind the other. `visit` is told of each: where it starts, where the next one does.
    #[inline]
    pub(crate) fn sum_on<'a>(
        &'a self,
        segment: SegmentId,
        before: Sum,
        end: u32,
        enough: u32,
        visit: impl FnMut(u32, u32, ItemRef<'a>, &Outline<'a>),
    ) -> Option<Sum> {
        let stop = end.min(before.covered.saturating_add(enough));
        #[cfg(target_arch = "x86_64")]
        if crc::has_instruction() {
            // SAFETY: the processor has what it needs.
            return unsafe { self.sum_by_instruction(segment, before, (stop, end), visit) };
        }
        self.sum_by(crc::library_sum, segment, before, (stop, end), visit)
    }

    /// Compiled for such processors as a whole: nothing is called for an item.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "sse4.2")]
    fn sum_by_instruction<'a>(
        &'a self,
        segment: SegmentId,
        before: Sum,
        ends: (u32, u32),
        visit: impl FnMut(u32, u32, ItemRef<'a>, &Outline<'a>),
    ) -> Option<Sum> {
        self.sum_by(|seed, bytes| crc::sum(seed, bytes), segment, before, ends, visit)
    }

    #[inline(always)]
    fn sum_by<'a>(
        &'a self,
        sum_of: impl Fn(u32, &[u8]) -> u32,
        segment: SegmentId,
        before: Sum,
        (stop, end): (u32, u32),
        mut visit: impl FnMut(u32, u32, ItemRef<'a>, &Outline<'a>),
    ) -> Option<Sum> {
        let Sum { mut covered, mut sum } = before;
        while covered < stop {
            let item = self.item(self.location(segment, covered));
            let outline = item.checked_outline((end - covered) as usize)?;
            let (first, bytes) = item.lasting_bytes(&outline);
            // The place is part of it: no item can stand for another.
            let seed = covered << 8 | u32::from(first);
            sum = sum.rotate_left(1) ^ sum_of(seed, bytes);
            let next = covered + self.aligned(outline.len) as u32;
            visit(covered, next, item, &outline);
            covered = next;
        }
        (covered <= end).then_some(Sum { covered, sum })
    }
}

impl Cache {
    /// Goes on with the checksums, if it is time. The caller is awake as `member` and holds nothing.
    pub(crate) fn sum_up(&self, member: usize, now: Now) {
        let Ok(mut round) = self.checksums.0.try_lock() else {
            return;
        };
        if !round.ends.is_empty() {
            self.epochs.announce(member);
            if !self.epochs.passed(round.epoch) {
                return;
            }
            for (segment, incarnation, end) in std::mem::take(&mut round.ends) {
                self.sum_up_to(member, segment, incarnation, end);
            }
        }
        if now.millis() >= round.quiet_until {
            round.quiet_until = now.millis() + ROUND_MILLIS;
            round.ends = self.ends_to_cover();
            round.epoch = self.epochs.retire();
        }
    }

    /// The segments with items that no sum covers.
    fn ends_to_cover(&self) -> Vec<(SegmentId, u64, u32)> {
        let touched = self.pool.lock().touched();
        let uncovered = (0..touched).map(SegmentId).filter_map(|segment| {
            let header = self.heap.header(segment);
            if !matches!(header.state(), SegmentState::Open | SegmentState::Sealed) {
                return None;
            }
            let end = header.used().saturating_add(SEGMENT_START);
            // While somebody closes it, the end is not known.
            let is_known = end as usize <= self.heap.segment_size();
            let is_wanted = is_known && end > self.heap.kept_sum(segment).covered;
            is_wanted.then(|| (segment, header.incarnation.load(Ordering::Relaxed), end))
        });
        uncovered.collect()
    }

    /// Every item before `end` is complete, but for those of unfinished uploads.
    fn sum_up_to(&self, member: usize, segment: SegmentId, incarnation: u64, end: u32) {
        let header = self.heap.header(segment);
        loop {
            // From here on the segment is not used anew, if it still is what it was.
            self.epochs.announce(member);
            let is_in_use = matches!(header.state(), SegmentState::Open | SegmentState::Sealed);
            let sum = self.heap.kept_sum(segment);
            if !is_in_use
                || header.incarnation.load(Ordering::Relaxed) != incarnation
                // Acquire pairs with the Release when an upload is finished or given up.
                || header.uploads.load(Ordering::Acquire) > 0
                || sum.covered >= end
            {
                return;
            }
            let next = self.heap.sum_on(segment, sum, end, STEP, |_, _, _, _| {});
            debug_assert!(next.is_some(), "items lie one behind the other");
            let Some(next) = next else { return };
            self.heap.keep_sum(segment, next);
            // What was stored in a second takes milliseconds, and this thread has none of its own: a worker that has
            // something to do goes first.
            yield_now();
        }
    }
}
