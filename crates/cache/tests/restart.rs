//! A cache that is closed, or whose process dies at rest, and that is taken up again: what survives, what does not, and when
//! it is refused.

#![expect(clippy::unwrap_used, reason = "a test may fail so")]

use std::sync::Arc;

use scrubjay_base::time::Now;
use scrubjay_cache::{
    Body, Cache, CacheError, Cold, Config, Delete, Get, Recovered, Store, StoreOutcome, Why, Worker, look,
};
use scrubjay_io::clock::boot_id;
use scrubjay_io::memory::MemoryFile;

const MEMORY: usize = 32 << 20;

fn set<'a>(key: &'a [u8], value: &'a [u8], exptime: i64) -> Store<'a> {
    Store {
        flags: 7,
        exptime,
        ..Store::set(key, Body::Bytes(value))
    }
}

/// The value under `key`: its number, of a length that follows from it.
fn value(key: u64) -> Vec<u8> {
    let len = 20 + (key * 37 % 200) as usize;
    key.to_le_bytes().into_iter().cycle().take(len).collect()
}

fn put(worker: &mut Worker, key: u64, exptime: i64) -> u64 {
    match worker.store(set(key.to_string().as_bytes(), &value(key), exptime)) {
        StoreOutcome::Stored { cas, .. } => cas,
        other => panic!("{key}: {other:?}"),
    }
}

/// Whether `key` is there, and then with its own value.
fn has(worker: &mut Worker, key: u64) -> bool {
    let text = key.to_string();
    let hit = worker.get(&Get::key(text.as_bytes()));
    hit.map(|hit| {
        let mut bytes = Vec::new();
        hit.append_to(&mut bytes);
        assert_eq!((bytes, hit.flags), (value(key), 7), "{key}");
    })
    .is_some()
}

/// Closes the cache, or just leaves it, and gives its file.
fn leave(cache: Arc<Cache>, now: Now, closes: bool) -> MemoryFile {
    let file = cache.memory_file().try_clone().unwrap();
    assert!(!closes || cache.close(now));
    file
}

fn reopen(file: MemoryFile, config: Config, now: Now) -> Result<(Arc<Cache>, Recovered), CacheError> {
    let kept = look(&file, &boot_id().unwrap()).unwrap().unwrap();
    Cache::reopen(config, file, &kept, now)
}

/// Background work until nothing is left to do: what is sealed in one round is emptied in the next.
fn maintain(cache: &Cache, now: Now) {
    for _ in 0..3 {
        while cache.maintain(now) {}
    }
}

#[test]
fn everything_is_there_again_and_counts_go_on() {
    [true, false].into_iter().for_each(check_everything_is);
}

fn check_everything_is(closes: bool) {
    let cache = Cache::new(Config::new(MEMORY)).unwrap();
    let mut worker = cache.worker();
    worker.begin_turn(Now::from_secs(1));
    let mut last_cas = 0;
    for key in 0..50_000 {
        last_cas = put(&mut worker, key, if key % 3 == 0 { 1000 } else { 0 });
    }
    let large = vec![9; 900_000];
    worker.store(set(b"large", &large, 0));
    assert!(worker.touch(b"3", 0));
    worker.delete(&Delete::key(b"5"));
    drop(worker);
    let (usage, classes) = (cache.usage(), cache.size_classes());
    let file = leave(cache, Now::from_secs(2), closes);
    let (cache, recovered) = reopen(file, Config::new(MEMORY), Now::from_secs(60)).unwrap();
    assert_eq!((recovered.clean, recovered.items), (closes, 50_000));
    cache.audit();
    let mut worker = cache.worker();
    worker.begin_turn(Now::from_secs(60));
    for key in 0..50_000 {
        assert_eq!(has(&mut worker, key), key != 5, "{key}");
    }
    assert!(matches!(worker.why(b"5"), Why::Gone(_)), "the ledger is kept");
    let found = worker.get(&Get::key(b"large")).map(|hit| hit.value_len());
    assert_eq!(found, Some(large.len()));
    let now = cache.usage();
    assert_eq!(
        (now.items, now.item_bytes, now.segment_bytes),
        (usage.items, usage.item_bytes, usage.segment_bytes)
    );
    let counts = |classes: &[scrubjay_cache::SizeClass]| -> Vec<_> {
        classes
            .iter()
            .map(|class| (class.bytes_max, class.items, class.bytes))
            .collect()
    };
    assert_eq!(counts(&cache.size_classes()), counts(&classes));
    assert!(put(&mut worker, 1, 0) > last_cas, "CAS numbers go on");
    drop(worker);
    maintain(&cache, Now::from_secs(61));
    cache.audit();
}

#[test]
fn what_expires_or_is_flushed_while_nobody_is_there_is_gone_and_counted_once() {
    [true, false].into_iter().for_each(check_what_expires);
}

fn check_what_expires(closes: bool) {
    let cache = Cache::new(Config::new(MEMORY)).unwrap();
    let mut worker = cache.worker();
    worker.begin_turn(Now::from_secs(1));
    for key in 0..1000 {
        put(&mut worker, key, if key < 400 { 10 } else { 100 });
    }
    drop(worker);
    let file = leave(cache, Now::from_secs(2), closes);
    let (cache, _) = reopen(file, Config::new(MEMORY), Now::from_secs(12)).unwrap();
    let mut worker = cache.worker();
    worker.begin_turn(Now::from_secs(12));
    (0..1000).for_each(|key| assert_eq!(has(&mut worker, key), key >= 400, "{key}"));
    worker.go_idle();
    maintain(&cache, Now::from_secs(12));
    let counters = cache.counters();
    assert_eq!((counters.found, counters.removed.expired), (1000, 400));
    worker.begin_turn(Now::from_secs(12));
    worker.flush_all(20);
    drop(worker);
    let file = leave(cache, Now::from_secs(13), closes);
    // Still waiting, then due while it is closed.
    let (cache, _) = reopen(file, Config::new(MEMORY), Now::from_secs(20)).unwrap();
    let mut worker = cache.worker();
    worker.begin_turn(Now::from_secs(20));
    assert!(has(&mut worker, 500));
    drop(worker);
    let file = leave(cache, Now::from_secs(21), closes);
    let (cache, _) = reopen(file, Config::new(MEMORY), Now::from_secs(40)).unwrap();
    let mut worker = cache.worker();
    worker.begin_turn(Now::from_secs(40));
    (0..1000).for_each(|key| assert!(!has(&mut worker, key), "{key}"));
    put(&mut worker, 500, 0);
    worker.go_idle();
    maintain(&cache, Now::from_secs(41));
    assert!(cache.counters().removed.flushed == 600 && cache.usage().items == 1);
    cache.audit();
}

#[test]
fn a_resize_under_way_goes_on() {
    [true, false].into_iter().for_each(check_a_resize);
}

fn check_a_resize(closes: bool) {
    let cache = Cache::new(Config::new(MEMORY)).unwrap();
    let mut worker = cache.worker();
    worker.begin_turn(Now::from_secs(1));
    let mut key = 0;
    while key < 20_000 || !cache.usage().index_is_resizing {
        put(&mut worker, key, 0);
        key += 1;
    }
    drop(worker);
    let file = leave(cache, Now::from_secs(2), closes);
    let (cache, _) = reopen(file, Config::new(MEMORY), Now::from_secs(3)).unwrap();
    assert!(cache.usage().index_is_resizing);
    cache.audit();
    let mut worker = cache.worker();
    worker.begin_turn(Now::from_secs(3));
    (0..key).for_each(|key| assert!(has(&mut worker, key), "{key}"));
    worker.go_idle();
    maintain(&cache, Now::from_secs(4));
    assert!(!cache.usage().index_is_resizing);
    (0..key).for_each(|key| assert!(has(&mut worker, key), "{key}"));
    drop(worker);
    cache.audit();
}

#[test]
fn a_full_cache_goes_on_evicting_within_another_limit() {
    [true, false].into_iter().for_each(check_a_full);
}

fn check_a_full(closes: bool) {
    let mut memory = MEMORY;
    let cache = Cache::new(Config::new(memory)).unwrap();
    let mut file = None;
    let mut cache = Some(cache);
    for round in 0..6u64 {
        let now = Now::from_secs(1 + 10 * round);
        let present = cache
            .take()
            .unwrap_or_else(|| reopen(file.take().unwrap(), Config::new(memory), now).unwrap().0);
        let mut worker = present.worker();
        for key in 0..60_000 {
            worker.begin_turn(now);
            put(
                &mut worker,
                round * 40_000 + key,
                if key % 2 == 0 { 0 } else { 5000 },
            );
            if key % 1000 == 0 {
                worker.go_idle();
                present.maintain(now);
            }
        }
        worker.begin_turn(now);
        assert!(has(&mut worker, round * 40_000 + 59_999));
        drop(worker);
        maintain(&present, now);
        present.audit();
        let usage = present.usage();
        assert_eq!(usage.memory_max, memory as u64);
        assert!(
            usage.segment_bytes + usage.index_bytes <= usage.memory_max,
            "{usage:?}"
        );
        assert_eq!(present.counters().evictions_beyond_bound, 0);
        file = Some(leave(present, now, closes));
        memory = [MEMORY / 8, MEMORY, MEMORY / 2, 2 * MEMORY, MEMORY][round as usize % 5];
    }
}

#[test]
fn a_file_that_cannot_be_taken_up_says_why() {
    let now = Now::from_secs(3);
    let boot = boot_id().unwrap();
    let file = MemoryFile::anonymous().unwrap();
    assert_eq!(look(&file, &boot).unwrap(), Err(Cold::Empty));
    file.set_len(1 << 20).unwrap();
    assert_eq!(look(&file, &boot).unwrap(), Err(Cold::Empty));
    let cache = Cache::create(Config::new(MEMORY), file.try_clone().unwrap()).unwrap();
    drop(leave(cache, now, true));
    assert_eq!(look(&file, &[1; 16]).unwrap(), Err(Cold::OtherBoot));
    for memory in [MEMORY / 8 - 4096, 8 * MEMORY + 4096] {
        let refused = reopen(file.try_clone().unwrap(), Config::new(memory), now).unwrap_err();
        let CacheError::Cold(Cold::OtherMemory { created_with, wanted }) = refused else {
            panic!("{refused}");
        };
        assert_eq!((created_with, wanted), (MEMORY, memory));
    }
    assert!(reopen(file.try_clone().unwrap(), Config::new(8 * MEMORY), now).is_ok());
    let len = file.len().unwrap();
    file.set_len(len / 2).unwrap();
    let refused = reopen(file.try_clone().unwrap(), Config::new(MEMORY), now);
    assert!(matches!(refused, Err(CacheError::Cold(Cold::Damaged(_)))));
    let cache = Cache::create(Config::new(MEMORY), file).unwrap();
    assert_eq!(cache.usage().items, 0);
}

#[test]
fn a_cache_with_workers_is_not_closed() {
    let cache = Cache::new(Config::new(MEMORY)).unwrap();
    let worker = cache.worker();
    assert!(!cache.close(Now::from_secs(1)));
    drop(worker);
    assert!(cache.close(Now::from_secs(1)));
}
