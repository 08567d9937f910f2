//! Every segment as an operator sees it: how old it is, and how much of it is alive. For reading only.

use std::sync::Arc;

use crate::cache::Cache;
use crate::expiry::TICKS_PER_SEC;
use crate::segment::{SegmentHeader, SegmentId, SegmentState};

/// A segment, at about one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentView {
    /// It holds items or did until a moment ago; the other numbers are 0 if not.
    pub is_used: bool,
    /// It takes new items.
    pub is_open: bool,
    /// Seconds since it was opened.
    pub age_secs: u32,
    /// Bytes of items that can be read.
    pub live: u64,
    /// Bytes of items past their deadline that nobody has removed, as far as it is known.
    pub expired: u64,
    /// Bytes of items that left.
    pub dead: u64,
}

impl Cache {
    /// All segments that were ever used, by number; the bytes of one that make up less than its size are not written yet.
    /// Cost: a look at every segment's header.
    pub fn segments(self: &Arc<Cache>) -> Vec<SegmentView> {
        let touched = self.pool.lock().touched();
        let numbers = (0..touched).map(SegmentId);
        numbers
            .map(|segment| view(self.heap.header(segment), self.tick()))
            .collect()
    }
}

fn view(header: &SegmentHeader, tick: u32) -> SegmentView {
    let state = header.state();
    if state == SegmentState::Free {
        return SegmentView::default();
    }
    let used = header.used();
    // Nobody looks for what is left in a segment that waits for its last readers.
    let (kept, expired) = match state {
        SegmentState::Retired => (0, 0),
        _ => (header.live().min(used), header.expired(tick)),
    };
    let expired = expired.min(kept);
    SegmentView {
        is_used: true,
        is_open: state == SegmentState::Open,
        age_secs: tick.saturating_sub(header.opened_tick()) / TICKS_PER_SEC,
        live: u64::from(kept - expired),
        expired: u64::from(expired),
        dead: u64::from(used - kept),
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use scrubjay_base::time::Now;

    use crate::{Body, Cache, Config, Delete, Store};

    #[test]
    fn segments_add_up_to_what_the_cache_holds() {
        let cache = Cache::new(Config::new(4 << 20)).expect("memory");
        let mut worker = cache.worker();
        worker.begin_turn(Now::from_secs(5));
        for number in 0..1000_u32 {
            worker.store(Store::set(&number.to_be_bytes(), Body::Bytes(&[b'x'; 1000])));
        }
        worker.delete(&Delete::key(&7_u32.to_be_bytes()));
        worker.begin_turn(Now::from_secs(9));
        let views = cache.segments();
        let sum = |of: fn(&super::SegmentView) -> u64| views.iter().map(of).sum::<u64>();
        assert_eq!(sum(|view| view.live), cache.usage().item_bytes);
        assert_eq!(sum(|view| view.is_used.into()), cache.usage().segments_used);
        assert!(sum(|view| view.dead) > 1000);
        assert_eq!(sum(|view| view.expired), 0);
        let ages = views.iter().filter(|view| view.is_used).map(|view| view.age_secs);
        assert!(ages.clone().all(|age| age == 4), "{:?}", ages.collect::<Vec<_>>());
    }
}
