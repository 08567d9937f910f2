//! Segments in which nothing lives are used again before others are touched: where a few keys are stored over and over, what is
//! written goes to memory that the processor has at hand, and a cache takes no more of it than it needs.
//!
//! Background work finds them, too, but four times a second: meanwhile a worker fills a hundred segments.

use scrubjay_base::sync::whole::Ordering;

use crate::cache::Cache;
use crate::drain::Mercy;
use crate::segment::{SegmentId, SegmentState};
use crate::worker::Turn;

/// Segments that are looked at when one is opened: a part of all in turn, so that this costs little however many there are.
const LOOKS_PER_OPEN: u32 = 64;

impl Cache {
    /// Retires some of the segments in which nothing lives, and frees those that were retired before. The caller holds no item.
    pub(crate) fn recycle(&self, turn: &Turn<'_>) {
        // Who has the right to empty segments now does this as well.
        let Ok(mut reclaimer) = self.reclaimer.try_lock() else {
            return;
        };
        self.epochs.announce(turn.member);
        let touched = {
            let mut state = self.pool.lock();
            state.free_retired(&self.heap, &self.epochs);
            state.touched()
        };
        let horizon = self.epochs.horizon();
        let looks = LOOKS_PER_OPEN.min(touched);
        let from = reclaimer.next_look(looks);
        for number in from..from.saturating_add(looks) {
            let segment = SegmentId(number % touched);
            let header = self.heap.header(segment);
            let is_empty = header.state() == SegmentState::Sealed
                && header.live() == 0
                && header.uploads.load(Ordering::Acquire) == 0
                && header.retired_epoch.load(Ordering::Relaxed) <= horizon;
            if is_empty {
                self.drain(turn, &mut reclaimer, segment, Mercy::All);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use scrubjay_base::time::Now;

    use crate::api::{Body, Config, Store, StoreOutcome};
    use crate::cache::Cache;

    #[test]
    fn keys_that_are_stored_over_and_over_take_few_segments_before_background_work_comes() {
        let cache = Cache::new(Config::new(8 << 20)).expect("memory");
        let mut worker = cache.worker();
        let mut stored = 0;
        while stored < cache.memory_max() / 2 {
            worker.begin_turn(Now::from_millis(0));
            for number in 0..10u8 {
                let outcome = worker.store(Store {
                    key_is_binary: true,
                    ..Store::set(&[b'a', number], Body::Bytes(&[number; 100]))
                });
                assert!(matches!(outcome, StoreOutcome::Stored { .. }), "{outcome:?}");
                stored += 100;
            }
        }
        let used = cache.usage().segments_used;
        assert!(used <= 8, "{used} segments of {}", cache.usage().segments_total);
        let counters = cache.counters();
        assert_eq!(counters.created - counters.removed.replaced, 10);
        drop(worker);
        cache.audit();
    }
}
