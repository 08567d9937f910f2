//! What expiry costs: items of many sizes and lives are stored, and the time that maintenance takes to get their bytes
//! back is set against how many there were.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use scrubjay_base::time::Now;
use scrubjay_cache::{Body, Cache, Config, Store, StoreMode, StoreOutcome, Worker};

/// Memory of the cache that is filled.
const MEMORY: usize = 1 << 30;

/// Time between two rounds of maintenance, as the server has it.
const ROUND_MS: u64 = 250;

/// Lives and sizes of the items of one row.
struct Mix {
    name: &'static str,
    /// Seconds, from and to.
    ttl: (i64, i64),
    /// One item in this many lives for a month instead; 0: none.
    long_lived: u64,
    value_len: (usize, usize),
    items: u64,
}

const MIXES: [Mix; 4] = [
    Mix {
        name: "10 s, 100 B",
        ttl: (10, 10),
        long_lived: 0,
        value_len: (100, 100),
        items: 4_000_000,
    },
    Mix {
        name: "1 to 600 s, 1 to 300 B",
        ttl: (1, 600),
        long_lived: 0,
        value_len: (1, 300),
        items: 4_000_000,
    },
    Mix {
        name: "1 to 600 s, one in a million a month, 100 B",
        ttl: (1, 600),
        long_lived: 1_000_000,
        value_len: (100, 100),
        items: 4_000_000,
    },
    Mix {
        name: "1 to 600 s, 1 to 8 KiB",
        ttl: (1, 600),
        long_lived: 0,
        value_len: (1024, 8192),
        items: 150_000,
    },
];

/// Stores each mix, lets it expire without a reader, and returns a table of what that took.
///
/// # Panics
/// If an item is neither expired nor alive at the end, or the cache has no memory.
pub fn run() -> String {
    let mut table = String::from(
        "| lives and values | items | expired | evicted | ns for each expired item | ns for a round that finds nothing |\n\
         |---|---|---|---|---|---|\n",
    );
    for mix in &MIXES {
        let _ = writeln!(table, "{}", play(mix));
    }
    table
}

fn play(mix: &Mix) -> String {
    let config = Config::new(MEMORY);
    let cache = Cache::new(Config {
        workers_max: 1,
        ..config
    })
    .expect("memory for a cache");
    let mut worker = cache.worker();
    worker.begin_turn(Now::from_millis(1_000));
    fill(mix, &mut worker);
    worker.go_idle();
    // What filling left to do is not counted.
    while cache.maintain(Now::from_millis(1_000)) {}
    let end = 1_000 + 1_000 * (mix.ttl.1 as u64 + 3);
    let mut spent = Duration::ZERO;
    let mut at = 1_000;
    while at < end {
        at += ROUND_MS;
        let start = Instant::now();
        while cache.maintain(Now::from_millis(at)) {}
        spent += start.elapsed();
    }
    let quiet = {
        let start = Instant::now();
        (1..=100).for_each(|round| {
            cache.maintain(Now::from_millis(end + round * ROUND_MS));
        });
        start.elapsed() / 100
    };
    cache.audit();
    let removed = cache.counters().removed;
    let (expired, evicted) = (removed.expired, removed.evicted);
    format!(
        "| {} | {} | {expired} | {evicted} | {:.1} | {} |",
        mix.name,
        mix.items,
        spent.as_nanos() as f64 / expired.max(1) as f64,
        quiet.as_nanos()
    )
}

fn fill(mix: &Mix, worker: &mut Worker) {
    let mut rng = StdRng::seed_from_u64(1);
    let bytes = vec![b'x'; mix.value_len.1];
    for number in 0..mix.items {
        let is_long_lived = mix.long_lived > 0 && number % mix.long_lived == mix.long_lived / 2;
        let exptime = if is_long_lived {
            30 * 24 * 3600
        } else {
            rng.random_range(mix.ttl.0..=mix.ttl.1)
        };
        let value_len = rng.random_range(mix.value_len.0..=mix.value_len.1);
        let outcome = worker.store(Store {
            key: format!("key:{number}").as_bytes(),
            key_is_binary: false,
            mode: StoreMode::Set,
            flags: 0,
            exptime,
            value: Body::Bytes(&bytes[..value_len]),
            compare_cas: None,
            invalidate: false,
            new_cas: None,
            vivify: None,
        });
        assert!(matches!(outcome, StoreOutcome::Stored { .. }), "{outcome:?}");
    }
}
