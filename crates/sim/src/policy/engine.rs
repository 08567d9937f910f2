//! The real engine as a look-aside cache of a trace.

use scrubjay_base::time::Now;
use scrubjay_cache::{Body, Cache, Config, CurvePoint, Get, Store, StoreMode, StoreOutcome, Usage, Worker};

use super::Trace;

/// Least capacity that has as many segments as a large cache; smaller ones are played with all sizes multiplied.
const CAPACITY_MIN: u64 = 8 << 20;

/// Largest item played; larger ones miss always.
const ITEM_SIZE_MAX: usize = 64 << 20;

/// Bytes of an item beside key and value: word 0, CAS number, key length, value length of one to three bytes.
const fn header_len(size: usize) -> usize {
    9 + if size < 270 {
        1
    } else if size < 65_550 {
        2
    } else {
        3
    }
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Played {
    pub(super) miss_ratio: f64,
    /// Bytes relocated for each byte inserted.
    pub(super) relocated: f64,
    /// What the cache says it would have missed with other limits.
    pub(super) curve: Vec<CurvePoint>,
}

pub(super) fn play(trace: &Trace, capacity: u64) -> Played {
    let factor = CAPACITY_MIN.div_ceil(capacity).max(1);
    if factor > 1 {
        run(&trace.scaled(factor as u32), capacity * factor)
    } else {
        run(trace, capacity)
    }
}

/// What the engine keeps beside its segments.
fn beside(usage: &Usage) -> u64 {
    const SEGMENT_HEADER: u64 = 128;
    usage.index_bytes + usage.eviction_bytes + usage.ledger_bytes + usage.segments_total * SEGMENT_HEADER
}

/// As [`play`], with the sizes as they are.
pub(super) fn run(trace: &Trace, capacity: u64) -> Played {
    let config = Config::new(capacity as usize);
    let config = Config {
        item_size_max: ITEM_SIZE_MAX.min(config.memory_max / 2),
        workers_max: 1,
        ..config
    };
    let value_max = config.item_size_max - 128;
    let cache = Cache::new(config).expect("memory for a cache in a test");
    let mut worker = cache.worker();
    let bytes = vec![0; ITEM_SIZE_MAX];
    let (mut misses, mut inserted) = (0, 0);
    for (at, &(object, size)) in trace.requests.iter().enumerate() {
        look_after(&cache, &mut worker, at, capacity);
        let key = object.to_le_bytes();
        if worker.get(&Get::key(&key)).is_some() {
            continue;
        }
        misses += 1;
        let value_len = (size as usize).saturating_sub(key.len() + header_len(size as usize));
        if value_len > value_max {
            continue;
        }
        inserted += u64::from(size);
        let outcome = worker.store(Store {
            key: &key,
            key_is_binary: false,
            mode: StoreMode::Set,
            flags: 0,
            exptime: 0,
            value: Body::Bytes(&bytes[..value_len]),
            compare_cas: None,
            invalidate: false,
            new_cas: None,
            vivify: None,
        });
        assert!(matches!(outcome, StoreOutcome::Stored { .. }), "{outcome:?}");
    }
    worker.go_idle();
    cache.audit();
    Played {
        miss_ratio: trace.miss_ratio(misses),
        relocated: cache.counters().relocated_bytes as f64 / inserted.max(1) as f64,
        curve: cache.miss_ratio_curve(),
    }
}

/// Time, turns and background work of request number `at`: 50,000 requests a second.
fn look_after(cache: &Cache, worker: &mut Worker, at: usize, capacity: u64) {
    let now = Now::from_millis(1_000 + at as u64 / 50);
    if at.is_multiple_of(12_500) {
        worker.go_idle();
        cache.maintain(now);
    }
    if at.is_multiple_of(500) {
        worker.go_idle();
        cache.set_memory_max((capacity + beside(&cache.usage())) as usize);
    }
    if at.is_multiple_of(64) {
        worker.begin_turn(now);
    }
}
