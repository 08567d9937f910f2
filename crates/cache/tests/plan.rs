//! What is forecast fits into a real cache, and not much more: within 3 %.

use scrubjay_base::time::Now;
use scrubjay_cache::plan::{ItemMeasure, forecast};
use scrubjay_cache::{Body, Cache, Config, Store, StoreOutcome};

/// Items that leave one by one before memory is full: one in a thousand, and this many at most.
const ALONE_MAX: u64 = 20;

/// Stores between two rounds of background work.
const STORES_PER_ROUND: u64 = 500;

/// Items of the same measures.
fn fixed(key_len: usize, value_len: usize) -> impl Fn(u64) -> ItemMeasure {
    move |_| ItemMeasure {
        key_len,
        value_len,
        flags: 0,
        ttl_secs: None,
    }
}

/// splitmix64's mixing step.
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Items of many sizes, flags and lives.
fn varied(number: u64) -> ItemMeasure {
    let random = mixed(number);
    ItemMeasure {
        key_len: 8 + (random % 40) as usize,
        // Most are small, a few are cut into pieces.
        value_len: if random >> 32 & 0xff == 0 {
            20_000
        } else {
            1 << (random >> 8 & 7)
        },
        flags: [0, 0, 7, 0x1_0000][(random >> 16 & 3) as usize],
        ttl_secs: [None, Some(60), Some(600), Some(86_400)][(random >> 20 & 3) as usize],
    }
}

/// Items that go to more TTL buckets than may have an open segment.
fn of_many_lives(number: u64) -> ItemMeasure {
    ItemMeasure {
        ttl_secs: Some(1 << (mixed(number) % 20)),
        ..varied(number)
    }
}

/// Items stored before evictions begin.
fn fill(config: Config, measure: impl Fn(u64) -> ItemMeasure) -> u64 {
    let cache = Cache::new(config).expect("memory");
    let mut worker = cache.worker();
    let now = Now::from_secs(1);
    let bytes = vec![b'v'; 1 << 20];
    for number in 0.. {
        let item = measure(number);
        worker.begin_turn(now);
        let mut key = vec![b'k'; item.key_len];
        key[..8].copy_from_slice(&number.to_le_bytes());
        let outcome = worker.store(Store {
            flags: item.flags,
            exptime: item.ttl_secs.map_or(0, i64::from),
            ..Store::set(&key, Body::Bytes(&bytes[..item.value_len]))
        });
        assert!(matches!(outcome, StoreOutcome::Stored { .. }), "{outcome:?}");
        if number % STORES_PER_ROUND == 0 {
            worker.go_idle();
            while cache.maintain(now) {}
        }
        // Those few that have to make room in a full page of the index say nothing of memory.
        if cache.counters().removed.evicted > ALONE_MAX.min(number / 1000) {
            return number;
        }
    }
    unreachable!("a cache is full at some time")
}

fn check(what: &str, mebibytes: usize, measure: impl Fn(u64) -> ItemMeasure) {
    let config = Config::new(mebibytes << 20);
    let sample: Vec<_> = (0..50_000).map(&measure).collect();
    let planned = forecast(&config, &sample).expect("valid limits").items;
    let stored = fill(config, measure);
    let off = planned as f64 / stored as f64 - 1.0;
    println!(
        "{what} at -m {mebibytes}: planned {planned}, stored {stored}, {:+.2} %",
        100.0 * off
    );
    assert!(
        off.abs() < 0.03,
        "{what} at -m {mebibytes}: planned {planned}, stored {stored}"
    );
}

#[test]
fn forecast_is_within_three_percent_of_a_filled_cache() {
    for mebibytes in [16, 24, 45, 64] {
        check("8/8", mebibytes, fixed(8, 8));
        check("8/128", mebibytes, fixed(8, 128));
        check("16/1024", mebibytes, fixed(16, 1024));
        check("32/262144", mebibytes, fixed(32, 262_144));
        check("varied", mebibytes, varied);
        check("of many lives", mebibytes, of_many_lives);
    }
}
