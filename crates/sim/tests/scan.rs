//! A scan lists what is there from its beginning to its end exactly once, whatever happens between its steps.

#![expect(clippy::unwrap_used, reason = "a test may fail so")]

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::{ProptestConfig, Strategy, prop, prop_oneof, proptest};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use scrubjay_base::time::Now;
use scrubjay_cache::{Body, Cache, Config, Delete, ScanCursor, Store, StoreOutcome, Worker};

const MEMORY: usize = 64 << 20;

/// Keys beside those that stay at most: where each step of a scan lets the index grow by more than it looks at, it would not end.
const PASSING_MAX: usize = 60_000;

/// What happens between two steps of a scan.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The index moves pages, segments are compacted.
    Maintain,
    /// So many keys that were never there are stored, while there are not too many: the index grows.
    Grow(usize),
    /// So many of those go again: the index shrinks, segments are compacted.
    Shrink(usize),
    /// So many of the items that stay are written anew.
    Rewrite(usize),
    /// So many of the items that stay get another exptime, which may need another shape.
    Touch(usize),
    /// The scan is gone on with by its number and another worker.
    Resume,
}

fn events() -> impl Strategy<Value = Vec<(usize, Event)>> {
    let event = prop_oneof![
        4 => (0..1).prop_map(|_| Event::Maintain),
        3 => (1..6_000usize).prop_map(Event::Grow),
        3 => (1..9_000usize).prop_map(Event::Shrink),
        2 => (1..300usize).prop_map(Event::Rewrite),
        1 => (1..300usize).prop_map(Event::Touch),
        1 => (0..1).prop_map(|_| Event::Resume),
    ];
    prop::collection::vec((1..400usize, event), 1..40)
}

struct Bench {
    cache: Arc<Cache>,
    worker: Worker,
    now: Now,
    random: StdRng,
    /// How many keys stay, and which of the others are there.
    staying: usize,
    passing: std::ops::Range<usize>,
}

fn staying(number: usize) -> Vec<u8> {
    format!("stays:{number}").into_bytes()
}

fn passing(number: usize) -> Vec<u8> {
    format!("passes:{number}").into_bytes()
}

impl Bench {
    fn new(items: usize, seed: u64) -> Bench {
        let cache = Cache::new(Config {
            hash_seed: seed,
            ..Config::new(MEMORY)
        })
        .unwrap();
        let worker = cache.worker();
        let mut bench = Bench {
            cache,
            worker,
            now: Now::from_millis(1000),
            random: StdRng::seed_from_u64(seed),
            staying: items,
            passing: 0..0,
        };
        bench.turn();
        for number in 0..items {
            bench.store(&staying(number));
        }
        bench
    }

    fn turn(&mut self) {
        self.worker.begin_turn(self.now);
    }

    fn store(&mut self, key: &[u8]) {
        let len = match self.random.random_range(0..50) {
            0 => self.random.random_range(100_000..300_000),
            _ => self.random.random_range(0..60),
        };
        let len = if key.starts_with(b"stays") { len } else { len % 60 };
        let outcome = self.worker.store(Store {
            flags: 7,
            ..Store::set(key, Body::Bytes(&vec![b'v'; len]))
        });
        assert!(matches!(outcome, StoreOutcome::Stored { .. }), "{outcome:?}");
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Maintain => {
                self.worker.go_idle();
                self.cache.maintain(self.now);
                self.turn();
            }
            Event::Grow(count) => {
                let count = count.min(PASSING_MAX - self.passing.len());
                for number in self.passing.end..self.passing.end + count {
                    self.store(&passing(number));
                }
                self.passing.end += count;
            }
            Event::Shrink(count) => {
                let count = count.min(self.passing.len());
                for number in self.passing.start..self.passing.start + count {
                    self.worker.delete(&Delete::key(&passing(number)));
                }
                self.passing.start += count;
            }
            Event::Rewrite(count) => {
                for _ in 0..count {
                    let number = self.random.random_range(0..self.staying);
                    self.store(&staying(number));
                }
            }
            Event::Touch(count) => {
                for _ in 0..count {
                    let number = self.random.random_range(0..self.staying);
                    assert!(self.worker.touch(&staying(number), 1000));
                }
            }
            Event::Resume => {
                self.worker.go_idle();
                self.worker = self.cache.worker();
                self.turn();
            }
        }
    }
}

fn step(
    bench: &mut Bench,
    cursor: ScanCursor,
    lines: usize,
    seen: &mut HashMap<Vec<u8>, usize>,
) -> Option<ScanCursor> {
    bench.turn();
    let next = bench.worker.scan(cursor, lines, &mut |item| {
        assert_eq!(item.flags, 7);
        *seen.entry(item.key.to_vec()).or_default() += 1;
    });
    if let Some(next) = next {
        assert!(next.progress() > cursor.progress());
        assert_eq!(bench.cache.cursor_of(bench.cache.number_of(next)), Some(next));
    }
    next
}

fn check(items: usize, seed: u64, events: &[(usize, Event)]) {
    let mut bench = Bench::new(items, seed);
    let (mut seen, mut cursor) = (HashMap::new(), Some(bench.cache.scan_start()));
    let mut rounds = events.iter().cycle();
    while let Some(at) = cursor {
        let (lines, event) = rounds.next().unwrap();
        cursor = step(&mut bench, at, *lines, &mut seen);
        bench.happen(*event);
    }
    assert_eq!(bench.cache.counters().removed.evicted, 0, "there is room for all");
    for number in 0..items {
        assert_eq!(seen.remove(&staying(number)), Some(1), "item {number} of {items}");
    }
    for (key, times) in seen {
        assert_eq!(times, 1, "{}", String::from_utf8_lossy(&key));
        assert!(key.starts_with(b"passes:"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn what_stays_is_listed_once(items in 1..4000usize, seed: u64, events in events()) {
        check(items, seed, &events);
    }
}

#[test]
fn what_is_dead_is_not_listed_and_nothing_is_counted_as_read() {
    let mut bench = Bench::new(100, 1);
    for number in 0..50 {
        bench.worker.touch(&staying(number), 10);
    }
    bench.now = Now::from_millis(60_000);
    let list = |bench: &mut Bench| {
        let (mut keys, mut cursor) = (Vec::new(), Some(bench.cache.scan_start()));
        while let Some(at) = cursor {
            bench.turn();
            cursor = bench
                .worker
                .scan(at, 1000, &mut |item| keys.push((item.key.to_vec(), item.fetched)));
        }
        keys.sort();
        keys
    };
    let mut expected: Vec<_> = (50..100).map(|number| (staying(number), false)).collect();
    expected.sort();
    assert_eq!(list(&mut bench), expected);
    assert_eq!(list(&mut bench), expected);
    bench.worker.flush_all(0);
    assert_eq!(list(&mut bench), []);
}

#[test]
fn the_sizes_of_what_is_listed_add_up_to_those_of_the_cache() {
    let mut bench = Bench::new(2000, 3);
    let (mut items, mut bytes, mut classes) = (0, 0, HashMap::new());
    let mut cursor = Some(bench.cache.scan_start());
    while let Some(at) = cursor {
        cursor = bench.worker.scan(at, 64, &mut |item| {
            (items, bytes) = (items + 1, bytes + item.bytes);
            *classes.entry(item.class).or_insert(0) += 1;
        });
    }
    let usage = bench.cache.usage();
    assert_eq!((items, bytes), (usage.items, usage.item_bytes));
    for (number, class) in bench.cache.size_classes().iter().enumerate() {
        assert_eq!(
            classes.get(&number).copied().unwrap_or(0),
            class.items,
            "class {number}"
        );
    }
}

#[test]
fn a_cursor_of_another_cache_is_refused() {
    let (mut one, other) = (Bench::new(100, 1), Bench::new(100, 2));
    let start = one.cache.scan_start();
    let cursor = one.worker.scan(start, 10, &mut |_| ()).unwrap();
    let number = one.cache.number_of(cursor);
    assert_eq!(one.cache.cursor_of(number), Some(cursor));
    assert_eq!(other.cache.cursor_of(number), None);
    assert_eq!(one.cache.cursor_of(0), Some(start));
    assert_eq!(one.cache.number_of(start), 0);
    assert_eq!(one.cache.cursor_of(u64::MAX), None);
}
