//! What expiry costs: items of many sizes and lives are stored, and the processor time that maintenance takes to get their
//! bytes back is set against how many there were.

use std::fmt::Write as _;
use std::ops::Range;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use scrubjay_base::time::Now;
use scrubjay_cache::{Body, Cache, Config, Store, StoreOutcome, Worker};
use scrubjay_io::clock::thread_cpu_nanos;

/// Memory of the cache that is filled.
const MEMORY: usize = 1 << 30;

/// Time between two rounds of maintenance, as the server has it.
const ROUND_MS: u64 = 250;

/// Time in which checksums and huge pages are seen to; what dies meanwhile is not counted.
const SETTLING_MS: u64 = 3_000;

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
        "| lives and values | expired | evicted | ns for each expired item | and for its share of the passes over headers | \
         ns for a pass |\n|---|---|---|---|---|---|\n",
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
        // As the server has it with so much memory.
        collapse: true,
        ..config
    })
    .expect("memory for a cache");
    let mut worker = cache.worker();
    let life = 1_000 * (mix.ttl.1 as u64 + 3);
    // The first crowd is not counted: it finds memory that nobody has touched, and small pages.
    fill(mix, &mut worker, 1_000);
    maintain(&cache, 1_000..1_000 + life);
    let start = 1_000 + life + SETTLING_MS;
    fill(mix, &mut worker, start);
    // What filling left to do is not counted either.
    maintain(&cache, start..start + SETTLING_MS);
    let spent = maintain(&cache, start + SETTLING_MS..start + life);
    cache.audit();
    let expired = spent.expired.max(1) as f64;
    let passes = spent.pass() * spent.rounds as f64;
    format!(
        "| {} | {expired} | {} | {:.1} | {:.1} | {:.0} |",
        mix.name,
        cache.counters().removed.evicted,
        (spent.nanos as f64 - passes) / expired,
        passes / expired,
        spent.pass(),
    )
}

/// What rounds of maintenance took.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    rounds: u64,
    /// Of processor time.
    nanos: u64,
    /// Items that were found expired.
    expired: u64,
    /// The same of rounds in which none was.
    idle_rounds: u64,
    idle_nanos: u64,
}

impl Spent {
    /// Nanoseconds of a round that finds nothing expired: a pass over the headers of all segments that there are then, which
    /// is what the others begin with.
    fn pass(&self) -> f64 {
        self.idle_nanos as f64 / self.idle_rounds.max(1) as f64
    }
}

/// Maintains the cache in these milliseconds.
fn maintain(cache: &Cache, millis: Range<u64>) -> Spent {
    let mut spent = Spent::default();
    let expired_by_now = || cache.counters().removed.expired;
    let mut before = expired_by_now();
    for at in millis.step_by(ROUND_MS as usize) {
        let start = thread_cpu_nanos();
        while cache.maintain(Now::from_millis(at)) {}
        let nanos = thread_cpu_nanos() - start;
        let expired = expired_by_now() - before;
        before += expired;
        spent.rounds += 1;
        spent.nanos += nanos;
        spent.expired += expired;
        if expired == 0 {
            spent.idle_rounds += 1;
            spent.idle_nanos += nanos;
        }
    }
    spent
}

fn fill(mix: &Mix, worker: &mut Worker, millis: u64) {
    worker.begin_turn(Now::from_millis(millis));
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
        let key = format!("key:{number}");
        let outcome = worker.store(Store {
            exptime,
            ..Store::set(key.as_bytes(), Body::Bytes(&bytes[..value_len]))
        });
        assert!(matches!(outcome, StoreOutcome::Stored { .. }), "{outcome:?}");
    }
    worker.go_idle();
}
