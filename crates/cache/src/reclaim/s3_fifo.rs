//! S3-FIFO on segments, to compare with: two queues of segments, reads counted up to three.
//!
//! Source: Yang et al., "FIFO Queues are All You Need for Cache Eviction" (SOSP 2023). What is new goes to the small queue,
//! what is new and was evicted from there lately to the main queue. The small queue gives up its oldest segment while it
//! is more than a tenth of all, else the main queue does. What was read twice moves from the small queue to the main one;
//! what was read in the main queue goes to its end with one read less. Segments of TTL buckets, of items that
//! are expected to expire before they are evicted, count to the small queue.

use super::{Least, Mercy, Survey};
use crate::api::Cause;
use crate::cache::Cache;
use crate::eviction::{LOG_MAIN, LOG_SMALL};
use crate::line::Heat;
use crate::segment::SegmentId;

/// The small queue has at most this share of all segments (one over it).
const SMALL_SHARE: usize = 10;

/// Reads that count.
const READS_MAX: u8 = 3;

/// The heat of an item of the main queue that goes round once more.
pub(super) fn once_more(heat: Heat) -> Heat {
    Heat::remembered(heat.level().min(READS_MAX).saturating_sub(1))
}

impl Cache {
    /// The oldest segment of the queue that has to give one up.
    pub(super) fn oldest_of_queue(&self, survey: &Survey) -> Option<Least> {
        let oldest = |is_main: bool| {
            let queue = survey
                .sealed
                .iter()
                .filter(|(log, ..)| (*log == LOG_MAIN) == is_main);
            queue
                .min_by_key(|(_, order, _)| *order)
                .map(|(.., segment)| *segment)
        };
        let mut state = self.pool.lock();
        let (allowed, _) = state.allowed_and_used();
        let small = survey.sealed.iter().filter(|(log, ..)| *log != LOG_MAIN).count();
        let from_main = (small + 1) * SMALL_SHARE < allowed as usize;
        if let Some(segment) = oldest(from_main).or_else(|| oldest(!from_main)) {
            return Some(Least::Sealed(segment));
        }
        let open = [LOG_MAIN, LOG_SMALL].into_iter().find_map(|log| {
            let segment = self.pool.open_segment(log)?;
            (self.heap.header(segment).used() > 0).then_some((log, segment))
        });
        let (log, segment) = open?;
        if self.heap.close(segment) {
            self.pool.seal(&mut state, &self.heap, &self.epochs, log, segment);
        }
        Some(Least::Closed)
    }

    /// What is kept of a segment.
    pub(super) fn mercy_of_queue(&self, segment: SegmentId, cause: Cause) -> Mercy {
        if self.heap.header(segment).log() == LOG_MAIN {
            Mercy::Main(cause)
        } else {
            Mercy::Small(cause)
        }
    }
}
