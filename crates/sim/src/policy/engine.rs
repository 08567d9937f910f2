//! The real engine as a look-aside cache of a trace.

use std::sync::Arc;

use scrubjay_base::time::Now;
use scrubjay_cache::{Body, Cache, Config, CurvePoint, Delete, Get, Store, StoreOutcome, Usage, Worker};

use super::play::{Outcome, Player, play};
use super::trace::{Request, Trace};

/// Least capacity that has as many segments as a large cache; smaller ones are played with all sizes multiplied.
const CAPACITY_MIN: u64 = 8 << 20;

/// Largest item played; larger ones miss always.
const ITEM_SIZE_MAX: usize = 64 << 20;

/// Requests in a turn.
const TURN: u64 = 64;

/// Requests after which the limit is fitted to what the engine keeps beside its segments.
const FIT: u64 = 500;

/// Milliseconds between two rounds of background work.
const MAINTENANCE_MILLIS: u64 = 250;

/// Bytes of an item beside key and value: word 0, CAS number, key length, value length of one to three bytes, and the
/// deadline if it has one.
const fn header_len(size: usize, expires: bool) -> usize {
    let lengths = if size < 270 {
        1
    } else if size < 65_550 {
        2
    } else {
        3
    };
    9 + lengths + if expires { 4 } else { 0 }
}

/// Plays the trace on an engine of that capacity.
pub(super) fn run(trace: &Trace, capacity: u64) -> Outcome {
    let factor = CAPACITY_MIN.div_ceil(capacity).max(1);
    if factor > 1 {
        run_unscaled(&trace.scaled(factor as u32), capacity * factor, 0).0
    } else {
        run_unscaled(trace, capacity, 0).0
    }
}

/// As [`run`], with the sizes as they are and a seed of the keys' hashes; returns as well what the engine says that it would have missed with other limits.
pub(super) fn run_unscaled(trace: &Trace, capacity: u64, seed: u64) -> (Outcome, Vec<CurvePoint>) {
    let mut engine = Engine::new(capacity, seed);
    let outcome = play(trace, &mut engine);
    engine.worker.go_idle();
    engine.cache.audit();
    let counters = engine.cache.counters();
    let outcome = Outcome {
        relocated: counters.relocated_bytes as f64 / engine.inserted.max(1) as f64,
        beyond_bound: counters.evictions_beyond_bound,
        ..outcome
    };
    (outcome, engine.cache.miss_ratio_curve())
}

struct Engine {
    cache: Arc<Cache>,
    worker: Worker,
    capacity: u64,
    value_max: usize,
    bytes: Vec<u8>,
    requests: u64,
    millis: u64,
    maintained: u64,
    /// Bytes stored, key and value.
    inserted: u64,
}

impl Engine {
    fn new(capacity: u64, seed: u64) -> Engine {
        let config = Config::new(capacity as usize);
        let config = Config {
            item_size_max: ITEM_SIZE_MAX.min(config.memory_max / 2),
            workers_max: 1,
            hash_seed: config.hash_seed + seed,
            ..config
        };
        let value_max = config.item_size_max - 128;
        let cache = Cache::new(config).expect("memory for a cache in a test");
        Engine {
            worker: cache.worker(),
            cache,
            capacity,
            value_max,
            bytes: vec![0; ITEM_SIZE_MAX],
            requests: 0,
            millis: 0,
            maintained: 0,
            inserted: 0,
        }
    }

    fn now(&self) -> Now {
        Now::from_millis(1_000 + self.millis)
    }
}

/// What the engine keeps beside its segments.
fn beside(usage: &Usage) -> u64 {
    const SEGMENT_HEADER: u64 = 128;
    usage.index_bytes + usage.eviction_bytes + usage.ledger_bytes + usage.segments_total * SEGMENT_HEADER
}

impl Player for Engine {
    fn advance(&mut self, millis: u64) {
        let moved = self.millis < millis;
        self.millis = millis;
        if self.requests == 0 || millis >= self.maintained + MAINTENANCE_MILLIS {
            self.maintained = millis;
            self.worker.go_idle();
            self.cache.maintain(self.now());
        }
        if self.requests.is_multiple_of(FIT) {
            let beside = beside(&self.cache.usage());
            self.cache.set_memory_max((self.capacity + beside) as usize);
        }
        if moved || self.requests.is_multiple_of(TURN) {
            self.worker.begin_turn(self.now());
        }
        self.requests += 1;
    }

    fn get(&mut self, request: &Request) -> bool {
        self.worker
            .get(&Get::key(&request.object.to_le_bytes()))
            .is_some()
    }

    fn set(&mut self, request: &Request) {
        let key = request.object.to_le_bytes();
        let size = request.size as usize;
        let value_len = size.saturating_sub(key.len() + header_len(size, request.ttl > 0));
        if value_len > self.value_max {
            return self.delete(request);
        }
        self.inserted += u64::from(request.size);
        let outcome = self.worker.store(Store {
            exptime: i64::from(request.ttl),
            ..Store::set(&key, Body::Bytes(&self.bytes[..value_len]))
        });
        assert!(matches!(outcome, StoreOutcome::Stored { .. }), "{outcome:?}");
    }

    fn delete(&mut self, request: &Request) {
        self.worker.delete(&Delete::key(&request.object.to_le_bytes()));
    }
}
