//! What a set costs when many come together: the reading of its line alone, through the engine, and through sessions. All keys
//! are there before, so each set replaces an item.

use std::fmt::Write as _;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use scrubjay_base::time::Now;
use scrubjay_cache::{Body, Cache, Config, Store, StoreOutcome};
use scrubjay_net::{Output, Peer, Service as _};
use scrubjay_protocol::text::{Request, first_line, parse};
use scrubjay_server::options::Options;
use scrubjay_server::service::{CacheService, Shared};

use crate::gets::cpu_time;

/// Bytes of a value.
const VALUE_LEN: usize = 32;

/// Memory of the cache.
const MEMORY: usize = 256 << 20;

/// Sets that are drawn and written down before the clock runs, and how often they are done.
const SETS: usize = 200_000;
const ROUNDS: u64 = 10;

/// Time between two rounds of maintenance, as the server has it: about as much as the sets of a round take.
const ROUND_MS: u64 = 250;

/// A key: "key:" and ten digits.
type Key = [u8; 14];

/// Stores `keys` keys over and over, drawn uniformly, and returns a table of what a set costs, in ns of processor time. What
/// maintenance takes of it is told beside.
///
/// # Errors
/// The memory for it cannot be had.
pub fn run(keys: u64) -> Result<String, String> {
    let mut table = format!(
        "{keys} keys, values of {VALUE_LEN} B, ns of processor time a set\n\
         | | sets | maintenance |\n|---|---|---|\n"
    );
    for (name, depth, noreply) in [
        ("its line is read", 100, true),
        ("engine", 1, true),
        ("engine, 16 at a time", 16, true),
        ("text session", 1, false),
        ("text session, 16 at a time", 16, false),
        ("text session, 100 at a time, noreply", 100, true),
    ] {
        let cache = Cache::new(Config::new(MEMORY)).map_err(|error| error.to_string())?;
        let shared = Shared::new(Arc::clone(&cache), Options::default(), None, None);
        let drawn = draw(keys);
        let input = written(&drawn, noreply);
        let each: &dyn Fn(u64) -> Duration = match name {
            "its line is read" => &|_| read_lines(&input),
            name if name.starts_with("engine") => &|round| store(&cache, &drawn, depth, round),
            _ => &|round| ask(&shared, &input, input.len() / SETS * depth, round),
        };
        each(0);
        let (mut sets, mut maintenance) = (Duration::ZERO, Duration::ZERO);
        for round in 1..=ROUNDS {
            sets += each(round);
            let start = cpu_time();
            while cache.maintain(moment(round)) {}
            maintenance += cpu_time() - start;
        }
        let a_set = |spent: Duration| spent.as_nanos() as f64 / (ROUNDS * SETS as u64) as f64;
        let _ = writeln!(
            table,
            "| {name} | {:.0} | {:.0} |",
            a_set(sets),
            a_set(maintenance)
        );
    }
    Ok(table)
}

fn moment(round: u64) -> Now {
    Now::from_millis(1_000 + round * ROUND_MS)
}

fn draw(keys: u64) -> Vec<Key> {
    let mut rng = SmallRng::seed_from_u64(1);
    let mut key = || {
        let text = format!("key:{:010}", rng.random_range(0..keys));
        text.as_bytes().try_into().expect("so many digits")
    };
    (0..SETS).map(|_| key()).collect()
}

fn written(keys: &[Key], noreply: bool) -> Vec<u8> {
    let noreply: &[u8] = if noreply { b" noreply" } else { b"" };
    let head = format!(" 0 0 {VALUE_LEN}").into_bytes();
    let value = [b'x'; VALUE_LEN];
    let set = |key: &Key| [b"set ", &key[..], &head, noreply, b"\r\n", &value, b"\r\n"].concat();
    keys.iter().flat_map(set).collect()
}

fn read_lines(input: &[u8]) -> Duration {
    let (mut at, mut count) = (0, 0);
    let start = cpu_time();
    while let Some(line) = first_line(&input[at..]) {
        let parsed = black_box(parse(line.bytes));
        let Ok(Request::Store(store)) = parsed.request else {
            break;
        };
        at += line.len + store.value_len + 2;
        count += 1;
    }
    let spent = cpu_time() - start;
    assert_eq!(count, SETS);
    spent
}

fn store(cache: &Arc<Cache>, keys: &[Key], depth: usize, round: u64) -> Duration {
    let mut worker = cache.worker();
    let start = cpu_time();
    for turn in keys.chunks(depth) {
        worker.begin_turn(moment(round));
        for key in turn {
            let outcome = worker.store(Store::set(key, Body::Bytes(&[b'x'; VALUE_LEN])));
            debug_assert!(matches!(outcome, StoreOutcome::Stored { .. }));
        }
    }
    worker.go_idle();
    cpu_time() - start
}

fn ask(shared: &Arc<Shared>, input: &[u8], len: usize, round: u64) -> Duration {
    let mut service = CacheService::new(shared);
    let mut session = service.open(Peer::Unix);
    let mut output = Output::default();
    let start = cpu_time();
    for turn in input.chunks(len) {
        service.begin_turn(moment(round));
        let mut rest = turn;
        while !rest.is_empty() {
            let handled = service.handle(&mut session, rest, &mut output);
            rest = &rest[handled.consumed..];
        }
        output.clear();
    }
    service.go_idle();
    cpu_time() - start
}
