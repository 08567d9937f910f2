//! The caches that are compared, each behind the same door. Keys and values are bytes; all are bound by bytes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use scrubjay_base::time::Now;
use scrubjay_cache::{Body, Get, Store, StoreOutcome};

use crate::load::{Found, Key, Request, Session, VALUE_LEN, drive, sum};

/// Bytes of a segment of segcache.
pub const SEGMENT: usize = 1 << 20;

/// How long scrubjay's background work may be put off.
const MAINTENANCE: Duration = Duration::from_millis(250);

/// A cache under test.
pub trait Engine: Sync {
    /// Its name in tables.
    fn name(&self) -> &'static str;

    /// One thread's requests, of which `sets` in a hundred store.
    fn drive(&self, thread: usize, requests: &[Request], sets: u32) -> Found;

    /// Work that it puts off until there is time.
    fn settle(&self) {}

    /// Whether it is another way into the cache before it.
    fn is_same_cache(&self) -> bool {
        false
    }
}

/// Those whose names have one of `parts` (none: all), empty, with room for `bytes` each; `keys` is how many keys there will be.
pub fn all(bytes: usize, keys: usize, parts: &[String]) -> Vec<Box<dyn Engine>> {
    let mut all: Vec<Box<dyn Engine>> = Vec::new();
    if crate::selects(parts, "scrubjay") {
        let scrubjay = Scrubjay::new(bytes);
        let ahead = Scrubjay {
            ahead: true,
            ..scrubjay.clone()
        };
        all.extend([Box::new(scrubjay) as Box<dyn Engine>, Box::new(ahead)]);
    }
    if crate::selects(parts, "segcache") {
        all.push(Box::new(Segcache::new(bytes, keys)));
    }
    if crate::selects(parts, "quick_cache") {
        all.push(Box::new(QuickCache::new(bytes, keys)));
    }
    if crate::selects(parts, "moka") {
        all.push(Box::new(Moka::new(bytes, keys)));
    }
    all
}

/// This project's engine.
#[derive(Clone)]
struct Scrubjay {
    cache: Arc<scrubjay_cache::Cache>,
    start: Instant,
    /// Says which keys will be looked up before it looks them up, as the server does.
    ahead: bool,
}

impl Scrubjay {
    fn new(bytes: usize) -> Scrubjay {
        let config = scrubjay_cache::Config {
            // As the server has it by default.
            collapse: bytes >= 512 << 20,
            ..scrubjay_cache::Config::new(bytes)
        };
        Scrubjay {
            cache: scrubjay_cache::Cache::new(config).expect("memory for scrubjay"),
            start: Instant::now(),
            ahead: false,
        }
    }

    fn now(&self) -> Now {
        Now::from_nanos(self.start.elapsed().as_nanos() as u64)
    }
}

impl Engine for Scrubjay {
    fn name(&self) -> &'static str {
        if self.ahead {
            "scrubjay, looking ahead"
        } else {
            "scrubjay"
        }
    }

    fn is_same_cache(&self) -> bool {
        self.ahead
    }

    fn drive(&self, thread: usize, requests: &[Request], sets: u32) -> Found {
        let session = &mut Worker {
            worker: self.cache.worker(),
            engine: self,
            // The first thread does the background work, and its time counts.
            maintained: (thread == 0).then_some(Now::default()),
            refused: 0,
        };
        let found = drive(session, requests, sets);
        if session.refused > 0 {
            eprintln!(
                "scrubjay refused {} of {} requests",
                session.refused,
                requests.len()
            );
        }
        found
    }

    fn settle(&self) {
        while self.cache.maintain(self.now()) {}
        // Huge pages come a few at a time, at moments further apart.
        let mut now = self.now();
        let mut before = u64::MAX;
        while self.cache.usage().huge_page_bytes != before {
            before = self.cache.usage().huge_page_bytes;
            for _ in 0..40 {
                now = now.plus_nanos(MAINTENANCE.as_nanos() as u64);
                self.cache.maintain(now);
            }
        }
    }
}

struct Worker<'e> {
    worker: scrubjay_cache::Worker,
    engine: &'e Scrubjay,
    maintained: Option<Now>,
    refused: u64,
}

impl Session for Worker<'_> {
    #[inline]
    fn begin_turn(&mut self) {
        let now = self.engine.now();
        if let Some(last) = &mut self.maintained
            && now.nanos_since(*last) > MAINTENANCE.as_nanos() as u64
        {
            *last = now;
            self.engine.cache.maintain(now);
        }
        self.worker.begin_turn(now);
    }

    #[inline]
    fn fetch_ahead(&mut self, requests: &[Request]) {
        if self.engine.ahead {
            self.worker
                .fetch_ahead(requests.iter().map(|request| request.key.as_slice()));
        }
    }

    #[inline]
    fn get(&mut self, key: &Key) -> Option<u64> {
        let hit = self.worker.get(&Get {
            // Each by itself, as who looks ahead waits for no memory anyway.
            note_later: !self.engine.ahead,
            ..Get::key(key)
        })?;
        Some(hit.slices().map(sum).sum())
    }

    #[inline]
    fn set(&mut self, key: &Key, value: &[u8; VALUE_LEN]) {
        let outcome = self.worker.store(Store::set(key, Body::Bytes(value)));
        // It refuses while a thread that lost its core keeps memory from being used again.
        self.refused += u64::from(!matches!(outcome, StoreOutcome::Stored { .. }));
    }
}

/// Pelikan's engine.
struct Segcache(segcache::Segcache);

impl Segcache {
    fn new(bytes: usize, keys: usize) -> Segcache {
        // Its table beside the heap is of a fixed size; up to two of its slots for each key.
        let hash_power = (keys * 8 / 7).next_power_of_two().ilog2().max(7) as u8;
        let cache = segcache::Segcache::builder()
            .heap_size(bytes)
            .segment_size(SEGMENT as i32)
            .hash_power(hash_power)
            // What its authors recommend.
            .eviction(segcache::Policy::Merge {
                max: 8,
                merge: 4,
                compact: 2,
            })
            .build();
        Segcache(cache.expect("memory for segcache"))
    }
}

impl Engine for Segcache {
    fn name(&self) -> &'static str {
        "segcache"
    }

    fn drive(&self, _thread: usize, requests: &[Request], sets: u32) -> Found {
        drive(&mut &self.0, requests, sets)
    }
}

impl Session for &segcache::Segcache {
    #[inline]
    fn get(&mut self, key: &Key) -> Option<u64> {
        match segcache::Segcache::get(self, key)?.value() {
            segcache::Value::Bytes(bytes) => Some(sum(bytes)),
            segcache::Value::U64(_) => None,
        }
    }

    #[inline]
    fn set(&mut self, key: &Key, value: &[u8; VALUE_LEN]) {
        // It refuses where both buckets of a key are full; hit ratios tell how often.
        let _ = self.insert(key, value.as_slice(), None, Duration::ZERO);
    }
}

/// A value that can be handed out without a copy.
type Shared = Arc<[u8]>;

/// Bytes of an item: those of key and value, nothing for the cache's own.
#[derive(Clone)]
struct Bytes;

impl quick_cache::Weighter<Box<[u8]>, Shared> for Bytes {
    fn weight(&self, key: &Box<[u8]>, value: &Shared) -> u64 {
        (key.len() + value.len()) as u64
    }
}

struct QuickCache(quick_cache::sync::Cache<Box<[u8]>, Shared, Bytes>);

impl QuickCache {
    fn new(bytes: usize, keys: usize) -> QuickCache {
        QuickCache(quick_cache::sync::Cache::with_weighter(keys, bytes as u64, Bytes))
    }
}

impl Engine for QuickCache {
    fn name(&self) -> &'static str {
        "quick_cache"
    }

    fn drive(&self, _thread: usize, requests: &[Request], sets: u32) -> Found {
        drive(&mut &self.0, requests, sets)
    }
}

impl Session for &quick_cache::sync::Cache<Box<[u8]>, Shared, Bytes> {
    #[inline]
    fn get(&mut self, key: &Key) -> Option<u64> {
        Some(sum(&quick_cache::sync::Cache::get(self, key.as_slice())?))
    }

    #[inline]
    fn set(&mut self, key: &Key, value: &[u8; VALUE_LEN]) {
        self.insert(key.as_slice().into(), value.as_slice().into());
    }
}

struct Moka(moka::sync::Cache<Box<[u8]>, Shared, foldhash::fast::RandomState>);

impl Moka {
    fn new(bytes: usize, keys: usize) -> Moka {
        let cache = moka::sync::Cache::builder()
            .weigher(|key: &Box<[u8]>, value: &Shared| (key.len() + value.len()) as u32)
            .max_capacity(bytes as u64)
            .initial_capacity(keys)
            .build_with_hasher(foldhash::fast::RandomState::default());
        Moka(cache)
    }
}

impl Engine for Moka {
    fn name(&self) -> &'static str {
        "moka"
    }

    fn drive(&self, _thread: usize, requests: &[Request], sets: u32) -> Found {
        drive(&mut &self.0, requests, sets)
    }

    fn settle(&self) {
        self.0.run_pending_tasks();
    }
}

impl Session for &moka::sync::Cache<Box<[u8]>, Shared, foldhash::fast::RandomState> {
    #[inline]
    fn get(&mut self, key: &Key) -> Option<u64> {
        Some(sum(&moka::sync::Cache::get(self, key.as_slice())?))
    }

    #[inline]
    fn set(&mut self, key: &Key, value: &[u8; VALUE_LEN]) {
        self.insert(key.as_slice().into(), value.as_slice().into());
    }
}
