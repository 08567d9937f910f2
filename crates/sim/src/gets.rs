//! What a look-up costs when the cache is far larger than what the processor keeps at hand: through the engine and through
//! sessions, with and without huge pages.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use rand_distr::{Distribution as _, Zipf};
use scrubjay_base::time::Now;
use scrubjay_cache::{Body, Cache, Config, Get, Store, StoreOutcome};
use scrubjay_net::{Output, Peer, Service as _};
use scrubjay_server::options::Options;
use scrubjay_server::service::{CacheService, Shared};

/// Bytes of a value.
const VALUE_LEN: usize = 100;

/// Bytes of memory for each item, index included.
const ITEM_BYTES: usize = 160;

/// Look-ups that each thread does.
const GETS: usize = 1_000_000;

/// A key: "key:" and ten digits.
type Key = [u8; 14];

/// So few items stay within what the processor keeps at hand: what look-ups cost without waiting for memory.
const FEW_ITEMS: u64 = 10_000;

/// Requests that a connection has under way.
const DEPTH: usize = 16;

/// Fills caches, one with few items and two with `items` each, and returns a table of what look-ups cost.
///
/// # Errors
/// The memory for it cannot be had.
pub fn run(items: u64) -> Result<String, String> {
    let mut table = format!(
        "Items of {VALUE_LEN} B, ns of processor time a look-up\n\
         | items | huge pages | keys | threads | engine, not fetched ahead | {DEPTH} fetched ahead | \
         text session, {DEPTH} deep | one by one |\n\
         |---|---|---|---|---|---|---|---|\n"
    );
    let mut notes = String::new();
    for (items, collapse) in [(FEW_ITEMS, false), (items, false), (items, true)] {
        let cache = Cache::new(Config {
            collapse,
            ..Config::new((items as usize * ITEM_BYTES).max(64 << 20))
        })
        .map_err(|error| error.to_string())?;
        fill(&cache, items);
        let (before, start) = (resident_mib(), cpu_time());
        for round in 0..3_000 {
            cache.maintain(Now::from_millis(2_000 + round * 250));
        }
        let usage = cache.usage();
        let _ = writeln!(
            notes,
            "{} MiB of huge pages took {:?}; {} refused; resident MiB before {before}, after {}",
            usage.huge_page_bytes >> 20,
            cpu_time() - start,
            usage.huge_pages_refused,
            resident_mib(),
        );
        rows(
            &Shared::new(Arc::clone(&cache), Options::default(), None, None),
            items,
            &mut table,
        );
    }
    Ok(table + &notes)
}

fn fill(cache: &Arc<Cache>, items: u64) {
    let mut worker = cache.worker();
    worker.begin_turn(Now::from_millis(1_000));
    for number in 0..items {
        let outcome = worker.store(Store::set(&key(number), Body::Bytes(&[b'x'; VALUE_LEN])));
        assert!(matches!(outcome, StoreOutcome::Stored { .. }), "{outcome:?}");
    }
    worker.go_idle();
    while cache.maintain(Now::from_millis(1_000)) {}
}

fn key(number: u64) -> Key {
    let text = format!("key:{number:010}");
    text.as_bytes().try_into().expect("so many digits")
}

fn rows(shared: &Arc<Shared>, items: u64, table: &mut String) {
    for zipf in [false, true] {
        for threads in [1, 2] {
            let spent = |each: &(dyn Fn(&[Key]) -> Duration + Sync)| {
                let total: Duration = std::thread::scope(|scope| {
                    let running: Vec<_> = (0..threads)
                        .map(|seed| scope.spawn(move || each(&draw(items, zipf, seed))))
                        .collect();
                    let done = running.into_iter().map(|thread| thread.join());
                    done.map(|spent| spent.expect("look-ups do not panic")).sum()
                });
                total.as_nanos() as f64 / (threads * GETS as u64) as f64
            };
            let _ = writeln!(
                table,
                "| {items} | {} MiB | {} | {threads} | {:.0} | {:.0} | {:.0} | {:.0} |",
                shared.cache.usage().huge_page_bytes >> 20,
                if zipf { "Zipf 0.99" } else { "uniform" },
                spent(&|keys| look_up(&shared.cache, keys, false)),
                spent(&|keys| look_up(&shared.cache, keys, true)),
                spent(&|keys| ask(shared, keys, DEPTH)),
                spent(&|keys| ask(shared, keys, 1)),
            );
        }
    }
}

/// The keys to look up, ready before the clock runs.
fn draw(items: u64, zipf: bool, seed: u64) -> Vec<Key> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let ranks = Zipf::new(items as f64, 0.99).expect("a Zipf distribution has keys");
    let mut number = || match zipf {
        false => rng.random_range(0..items),
        // Ranks next to each other are not neighbours in memory.
        true => (ranks.sample(&mut rng) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) % items,
    };
    (0..GETS).map(|_| key(number())).collect()
}

fn look_up(cache: &Arc<Cache>, keys: &[Key], ahead: bool) -> Duration {
    let mut worker = cache.worker();
    let mut found = 0;
    let start = cpu_time();
    for turn in keys.chunks(DEPTH) {
        worker.begin_turn(Now::from_millis(6_000_000));
        if ahead {
            worker.fetch_ahead(turn.iter().map(Key::as_slice));
        }
        for key in turn {
            let hit = worker.get(&Get::key(key));
            found += hit.map_or(0, |hit| hit.value_len());
        }
    }
    let spent = cpu_time() - start;
    assert_eq!(found, keys.len() * VALUE_LEN);
    spent
}

/// The same through a session.
fn ask(shared: &Arc<Shared>, keys: &[Key], depth: usize) -> Duration {
    const LINE_LEN: usize = "get ".len() + size_of::<Key>() + "\r\n".len();
    let mut service = CacheService::new(shared);
    let mut session = service.open(Peer::Unix);
    let lines = keys
        .iter()
        .flat_map(|key| [b"get ".as_slice(), key, b"\r\n"].concat());
    let input: Vec<u8> = lines.collect();
    let mut output = Output::default();
    let mut answered = 0;
    let start = cpu_time();
    for turn in input.chunks(depth * LINE_LEN) {
        service.begin_turn(Now::from_millis(6_000_000));
        service.handle(&mut session, turn, &mut output);
        answered += output.len();
        output.clear();
    }
    let spent = cpu_time() - start;
    assert!(answered > keys.len() * VALUE_LEN);
    spent
}

/// What this thread has had of a processor; others may run beside it.
pub(crate) fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split(' ').next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

fn resident_mib() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<usize>().ok());
    pages.unwrap_or(0) >> 8
}
