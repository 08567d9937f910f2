//! The engine under memory pressure: what it may lose, what it must not, and that its books balance.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use scrubjay_base::time::Now;
use scrubjay_cache::{
    Arith, ArithOutcome, Body, Cache, Cause, Config, Delete, DeleteOutcome, Get, Refusal, Store,
    StoreOutcome, Why, Worker,
};

fn store<'a>(key: &'a [u8], value: &'a [u8], exptime: i64) -> Store<'a> {
    Store {
        exptime,
        ..Store::set(key, Body::Bytes(value))
    }
}

fn set(worker: &mut Worker, key: &[u8], value: &[u8], exptime: i64) {
    let outcome = worker.store(store(key, value, exptime));
    assert!(matches!(outcome, StoreOutcome::Stored { .. }), "{outcome:?}");
}

/// Stores a value that comes in these pieces, a turn each.
fn receive<'a>(worker: &mut Worker, key: &[u8], pieces: impl Iterator<Item = &'a [u8]> + Clone, now: Now) {
    let len = pieces.clone().map(<[u8]>::len).sum();
    let mut upload = worker.begin_upload(len, 0);
    for piece in pieces {
        worker.begin_turn(now);
        upload.write(worker, piece).expect("memory");
    }
    let outcome = worker.store(Store {
        value: Body::Upload(upload),
        ..store(key, b"", 0)
    });
    assert!(matches!(outcome, StoreOutcome::Stored { .. }), "{outcome:?}");
}

fn read(worker: &mut Worker, key: &[u8]) -> Option<Vec<u8>> {
    worker.get(&Get::key(key)).map(|hit| {
        let mut value = Vec::new();
        hit.append_to(&mut value);
        assert_eq!(value.len(), hit.value_len());
        value
    })
}

fn cache(memory_max: usize) -> Arc<Cache> {
    Cache::new(Config::new(memory_max)).expect("memory")
}

/// splitmix64, so that a failure names its seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// A value that tells its key, its version and whether it is whole.
fn value(key: u64, version: u64, len: usize) -> Vec<u8> {
    let mut value = Vec::with_capacity(len + 16);
    value.extend_from_slice(&key.to_le_bytes());
    value.extend_from_slice(&version.to_le_bytes());
    let mut random = Random(key ^ version.rotate_left(32));
    while value.len() < len {
        value.extend_from_slice(&random.next().to_le_bytes());
    }
    value
}

fn version_of(key: u64, bytes: &[u8]) -> u64 {
    let version = u64::from_le_bytes(bytes[8..16].try_into().expect("eight bytes"));
    assert_eq!(
        bytes,
        value(key, version, bytes.len()),
        "value of key {key} is torn or another's"
    );
    version
}

#[test]
fn random_operations_under_pressure_never_answer_wrongly() {
    for seed in 0..6 {
        let cache = cache(1 << 20);
        let mut worker = cache.worker();
        let mut random = Random(seed);
        let mut model: HashMap<u64, (u64, usize)> = HashMap::new();
        let mut now = Now::from_secs(100);
        for step in 1..40_000u64 {
            worker.begin_turn(now);
            let key = random.below(3000);
            let name = format!("key-{key}").into_bytes();
            match random.below(100) {
                0..45 => {
                    let len = [20, 100, 400, 1500, 9000, 60_000]
                        [random.below(6) as usize % if step % 50 == 0 { 6 } else { 4 }];
                    set(
                        &mut worker,
                        &name,
                        &value(key, step, len),
                        [0, 0, 5, 60][random.below(4) as usize],
                    );
                    model.insert(key, (step, len));
                }
                45..85 => {
                    if let Some(bytes) = read(&mut worker, &name) {
                        let version = version_of(key, &bytes);
                        assert_eq!(
                            model.get(&key).map(|(version, _)| *version),
                            Some(version),
                            "seed {seed} step {step}"
                        );
                    }
                }
                85..92 => {
                    let outcome = worker.delete(&Delete::key(&name));
                    assert!(outcome == DeleteOutcome::Deleted || outcome == DeleteOutcome::NotFound);
                    model.remove(&key);
                }
                92..96 => {
                    worker.touch(&name, [0, 5, 100][random.below(3) as usize]);
                }
                96..98 => {
                    let invalidation = Delete {
                        invalidate: true,
                        ..Delete::key(&name)
                    };
                    worker.delete(&invalidation);
                }
                _ => {
                    if random.below(300) == 0 {
                        worker.flush_all(0);
                        model.clear();
                    }
                    now = now.plus_nanos(random.below(400) * 1_000_000);
                    worker.go_idle();
                    while cache.maintain(now) {}
                }
            }
            if step % 5000 == 0 {
                cache.audit();
            }
        }
        let counters = cache.counters();
        assert!(counters.removed.evicted > 0, "there was pressure");
        assert!(counters.removed.expired > 0);
        assert_eq!(counters.evictions_beyond_bound, 0);
        cache.audit();
    }
}

#[test]
fn expired_items_go_before_live_ones() {
    // Requirement D05: 11 MB of expired items beside 11 MB of new ones at 16 MiB.
    let cache = cache(16 << 20);
    let mut worker = cache.worker();
    worker.begin_turn(Now::from_secs(1));
    for number in 0..9950 {
        set(&mut worker, format!("{number:032}").as_bytes(), &[b'a'; 1024], 10);
    }
    assert_eq!(cache.counters().removed.evicted, 0);
    worker.begin_turn(Now::from_secs(13));
    for number in 0..31_506 {
        set(
            &mut worker,
            format!("second{number:026}").as_bytes(),
            &[b'b'; 256],
            0,
        );
    }
    assert_eq!(cache.counters().removed.evicted, 0);
    for number in 0..31_506 {
        assert!(
            read(&mut worker, format!("second{number:026}").as_bytes()).is_some(),
            "item {number}"
        );
    }
    cache.audit();
}

#[test]
fn lasting_items_survive_a_crowd_of_short_lived_ones() {
    // Requirements C07 and C09.
    for lasting in [1, 49, 50, 51, 500, 5000] {
        let cache = cache(8 << 20);
        let mut worker = cache.worker();
        worker.begin_turn(Now::from_secs(1));
        for number in 0..lasting {
            set(
                &mut worker,
                format!("lasting-{number}").as_bytes(),
                &[b'l'; 100],
                0,
            );
        }
        for second in 1..72 {
            let now = Now::from_secs(second);
            worker.begin_turn(now);
            for number in 0..1000 {
                let key = format!("short-{second}-{number}").into_bytes();
                set(&mut worker, &key, &[b's'; 100], 3);
                assert!(read(&mut worker, &key).is_some());
            }
            while cache.maintain(now) {}
        }
        assert_eq!(cache.counters().removed.evicted, 0);
        assert!(
            cache.usage().items <= 6000 + lasting,
            "{} items",
            cache.usage().items
        );
        for number in 0..lasting {
            assert!(
                read(&mut worker, format!("lasting-{number}").as_bytes()).is_some(),
                "item {number} of {lasting}"
            );
        }
    }
}

#[test]
fn index_grows_and_shrinks_with_its_items_and_loses_none() {
    let cache = cache(64 << 20);
    let mut worker = cache.worker();
    let now = Now::from_secs(1);
    worker.begin_turn(now);
    for number in 0..500_000u64 {
        set(&mut worker, &number.to_be_bytes(), b"12345678", 0);
    }
    while cache.maintain(now) {}
    let grown = cache.usage();
    assert_eq!((grown.items, cache.counters().removed.total()), (500_000, 0));
    let per_item = grown.index_bytes as f64 / grown.items as f64;
    assert!(per_item < 10.5, "{per_item} bytes of index an item");
    for number in 0..500_000u64 {
        assert!(
            read(&mut worker, &number.to_be_bytes()).is_some(),
            "item {number}"
        );
    }
    cache.audit();
    for number in 0..499_000u64 {
        assert_eq!(
            worker.delete(&Delete::key(&number.to_be_bytes())),
            DeleteOutcome::Deleted
        );
    }
    for _ in 0..1000 {
        worker.begin_turn(now);
        cache.maintain(now);
    }
    assert!(
        cache.usage().index_bytes < grown.index_bytes / 16,
        "{} bytes left",
        cache.usage().index_bytes
    );
    for number in 499_000..500_000u64 {
        assert!(
            read(&mut worker, &number.to_be_bytes()).is_some(),
            "item {number}"
        );
    }
    cache.audit();
}

#[test]
fn full_cache_without_eviction_refuses_and_keeps_what_it_has() {
    let cache = Cache::new(Config {
        evict: false,
        ..Config::new(1 << 20)
    })
    .unwrap();
    let mut worker = cache.worker();
    worker.begin_turn(Now::from_secs(1));
    let mut stored = 0u64;
    while let StoreOutcome::Stored { .. } = worker.store(store(&stored.to_be_bytes(), &[7; 500], 0)) {
        stored += 1;
    }
    assert_eq!(
        worker.store(store(b"one more", &[7; 500], 0)),
        StoreOutcome::Refused(Refusal::NoMemory)
    );
    assert!(stored > 1500, "{stored} items of 500 bytes in 1 MiB");
    for number in 0..stored {
        assert!(read(&mut worker, &number.to_be_bytes()).is_some());
    }
    for number in 0..stored / 2 {
        worker.delete(&Delete::key(&number.to_be_bytes()));
    }
    set(&mut worker, b"one more", &[7; 500], 0);
    cache.audit();
}

#[test]
fn large_values_are_kept_in_pieces_and_survive_compaction() {
    let cache = cache(8 << 20);
    let mut worker = cache.worker();
    let mut random = Random(5);
    for round in 0..400u64 {
        worker.begin_turn(Now::from_secs(1 + round / 10));
        let key = random.below(12);
        let name = key.to_string().into_bytes();
        let whole = value(key, round, 200_000 + random.below(700_000) as usize);
        receive(
            &mut worker,
            &name,
            whole.chunks(50_000),
            Now::from_secs(1 + round / 10),
        );
        for small in 0..200u64 {
            set(&mut worker, &(small + 1000 * round).to_be_bytes(), &[1; 90], 1);
        }
        let bytes = read(&mut worker, &name).expect("just stored");
        assert_eq!(version_of(key, &bytes), round);
        // An unfinished upload leaves no trace.
        let mut unfinished = worker.begin_upload(500_000, 0);
        unfinished.write(&mut worker, &whole[..100_000]).unwrap();
        drop(unfinished);
        assert_eq!(cache.usage().upload_bytes, 0);
        let other = random.below(12);
        if let Some(bytes) = read(&mut worker, other.to_string().as_bytes()) {
            version_of(other, &bytes);
        }
        if round % 50 == 0 {
            cache.audit();
        }
    }
    cache.audit();
}

#[test]
fn values_in_pieces_fill_a_cache_and_leave_it_as_a_whole() {
    let memory_max: usize = 64 << 20;
    let whole = value(0, 0, 100_000);
    let cache = cache(memory_max);
    let mut worker = cache.worker();
    let count = 4 * memory_max / whole.len();
    for number in 0..count as u64 {
        let now = Now::from_secs(1 + number / 100);
        receive(&mut worker, &number.to_be_bytes(), whole.chunks(16_000), now);
        if number % 100 == 0 {
            cache.maintain(Now::from_secs(1 + number / 100));
        }
    }
    cache.audit();
    let (kept, moved) = (cache.usage().item_bytes, cache.counters().relocated_bytes);
    assert!(
        kept as usize > memory_max / 100 * 94,
        "{kept} of {memory_max} bytes hold items"
    );
    assert!(
        moved as usize * 50 < count * whole.len(),
        "{moved} bytes were moved"
    );
}

#[test]
fn uploads_hold_at_most_a_quarter_and_the_longest_idle_one_is_cut_off() {
    let cache = Cache::new(Config {
        item_size_max: 4 << 20,
        ..Config::new(8 << 20)
    })
    .unwrap();
    let mut worker = cache.worker();
    let mut uploads = Vec::new();
    for second in 1..=8 {
        worker.begin_turn(Now::from_secs(second));
        let mut upload = worker.begin_upload(3 << 20, 0);
        upload.write(&mut worker, &[9; 400_000]).unwrap();
        uploads.push(upload);
        assert!(cache.usage().upload_bytes <= 2 << 20);
    }
    worker.begin_turn(Now::from_secs(9));
    assert_eq!(uploads[0].write(&mut worker, &[9; 1000]), Err(Refusal::NoMemory));
    uploads[7].write(&mut worker, &[9; 1000]).unwrap();
    drop(uploads);
    assert_eq!(cache.usage().upload_bytes, 0);
    cache.audit();
}

#[test]
fn pinned_value_keeps_its_bytes_whatever_happens_to_its_item() {
    let cache = cache(1 << 20);
    let mut worker = cache.worker();
    worker.begin_turn(Now::from_secs(1));
    let whole = value(1, 1, 100_000);
    set(&mut worker, b"pinned", &whole, 0);
    let pins: Vec<_> = worker.get(&Get::key(b"pinned")).unwrap().pins().collect();
    for number in 0..20_000u64 {
        worker.begin_turn(Now::from_secs(2));
        set(&mut worker, &number.to_be_bytes(), &[3; 200], 0);
    }
    assert!(read(&mut worker, b"pinned").is_none(), "evicted long ago");
    let bytes: Vec<u8> = pins.iter().flat_map(|pin| pin.as_ref().to_vec()).collect();
    assert!(bytes == whole);
    drop(pins);
    cache.audit();
}

#[test]
fn counters_count_exactly_once_from_many_threads() {
    let cache = cache(4 << 20);
    let total = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut worker = cache.worker();
                for round in 0..20_000u64 {
                    worker.begin_turn(Now::from_secs(1));
                    let arith = Arith {
                        initial: Some((1, 0)),
                        ..Arith::key(b"counter", 1, false)
                    };
                    assert!(matches!(worker.arith(&arith), ArithOutcome::Value { .. }));
                    total.fetch_add(1, Ordering::Relaxed);
                    set(
                        &mut worker,
                        format!("noise-{}", round % 5000).as_bytes(),
                        &[b'n'; 300],
                        0,
                    );
                    // Read it now and then, so that it stays.
                    read(&mut worker, b"counter");
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..200 {
                cache.maintain(Now::from_secs(1));
                std::thread::yield_now();
            }
        });
    });
    let mut worker = cache.worker();
    worker.begin_turn(Now::from_secs(1));
    let bytes = read(&mut worker, b"counter").expect("always in use");
    assert_eq!(
        String::from_utf8(bytes).unwrap().trim(),
        total.load(Ordering::Relaxed).to_string()
    );
    drop(worker);
    cache.audit();
}

#[test]
fn threads_under_pressure_read_whole_values_of_the_right_key_and_never_older_ones() {
    const KEYS: u64 = 4000;
    const THREADS: u64 = 4;
    let cache = cache(2 << 20);
    // The newest version that its one writer has stored or deleted, known before it is acknowledged to anybody else.
    let acknowledged: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (cache, acknowledged) = (&cache, &acknowledged);
            scope.spawn(move || {
                let mut worker = cache.worker();
                let mut random = Random(thread);
                for step in 1..60_000u64 {
                    worker.begin_turn(Now::from_millis(1000 + step / 4));
                    let key = random.below(KEYS);
                    let name = format!("key-{key}").into_bytes();
                    let mine = key % THREADS == thread;
                    match random.below(10) {
                        0..4 if mine => {
                            let len = [30, 200, 900, 5000][random.below(4) as usize];
                            set(
                                &mut worker,
                                &name,
                                &value(key, step, len),
                                [0, 3, 7][random.below(3) as usize],
                            );
                            acknowledged[key as usize].store(step, Ordering::SeqCst);
                        }
                        4 if mine => {
                            worker.delete(&Delete::key(&name));
                            acknowledged[key as usize].store(step, Ordering::SeqCst);
                        }
                        5 => {
                            worker.touch(&name, 9);
                        }
                        _ => {
                            let before = acknowledged[key as usize].load(Ordering::SeqCst);
                            if let Some(bytes) = read(&mut worker, &name) {
                                let version = version_of(key, &bytes);
                                assert!(version >= before, "key {key}: version {version} after {before}");
                            }
                        }
                    }
                }
            });
        }
        scope.spawn(|| {
            for millis in (1000..16_000).step_by(50) {
                cache.maintain(Now::from_millis(millis));
                std::thread::yield_now();
            }
        });
    });
    assert!(cache.counters().removed.evicted > 0);
    cache.audit();
}

#[test]
fn every_item_that_left_has_one_cause_and_why_names_it() {
    let cache = cache(8 << 20);
    let mut worker = cache.worker();
    let second = Now::from_millis;
    worker.begin_turn(second(1_000));
    let why = |worker: &Worker, key: &str| match worker.why(key.as_bytes()) {
        Why::Gone(gone) => Some(gone.cause),
        Why::Present(_) | Why::Unknown { .. } => None,
    };
    assert_eq!(
        worker.why(b"never"),
        Why::Unknown { not_for_secs: 1 },
        "since the clock's start"
    );
    for key in ["expires", "deleted", "refused", "flushed"] {
        set(
            &mut worker,
            key.as_bytes(),
            b"value",
            i64::from(key == "expires") * 5,
        );
    }
    let Why::Present(present) = worker.why(b"expires") else {
        panic!("just stored");
    };
    assert_eq!(
        (present.ttl, present.value_len, present.reads, present.fetched),
        (Some(5), 5, 0, false)
    );
    worker.delete(&Delete::key(b"deleted"));
    worker.refuse(b"refused", Refusal::TooLarge);
    worker.begin_turn(second(7_000));
    assert_eq!(
        why(&worker, "expires"),
        Some(Cause::Expired),
        "before anybody noticed"
    );
    worker.go_idle();
    cache.maintain(second(7_000));
    worker.begin_turn(second(8_000));
    assert_eq!(
        why(&worker, "expires"),
        Some(Cause::Expired),
        "after it was dropped"
    );
    worker.flush_all(0);
    assert_eq!(why(&worker, "flushed"), Some(Cause::Flushed));
    worker.go_idle();
    cache.maintain(second(8_000));
    worker.begin_turn(second(8_000));
    assert_eq!(why(&worker, "deleted"), Some(Cause::Deleted));
    assert_eq!(why(&worker, "refused"), Some(Cause::TooLarge));
    assert_eq!(why(&worker, "flushed"), Some(Cause::Flushed));
    worker.go_idle();
    cache.audit();
    let removed = cache.counters().removed;
    assert_eq!(
        (
            removed.expired,
            removed.deleted,
            removed.too_large,
            removed.flushed
        ),
        (1, 1, 1, 1)
    );
}

#[test]
fn what_went_for_want_of_memory_is_told_from_what_a_lower_limit_cost() {
    let cache = cache(8 << 20);
    let mut worker = cache.worker();
    let second = Now::from_millis;
    // More than fits, then half the limit.
    for key in 0..20_000u64 {
        worker.begin_turn(second(8_000 + key / 100));
        set(&mut worker, &key.to_le_bytes(), &value(key, 1, 1000), 0);
    }
    let count = |worker: &Worker, cause: Cause| {
        let gone =
            |key: &u64| matches!(worker.why(&key.to_le_bytes()), Why::Gone(gone) if gone.cause == cause);
        (0..20_000u64).filter(gone).count() as u64
    };
    // The ledger of a hundredth of 8 MiB holds 5,242.
    assert!((3_000..=5_242).contains(&count(&worker, Cause::Evicted)));
    worker.go_idle();
    cache.set_memory_max(4 << 20);
    (0..20).for_each(|step| {
        cache.maintain(second(8_300 + step));
    });
    worker.begin_turn(second(8_400));
    assert!(count(&worker, Cause::LimitLowered) > 1_000);
    worker.go_idle();
    cache.audit();
    let counters = cache.counters();
    let removed = counters.removed;
    assert!(removed.evicted > 0 && removed.limit_lowered > 0);
    assert_eq!(counters.created, cache.usage().items + removed.total());
}

#[test]
fn expired_bytes_among_the_living_are_known_to_an_eighth_and_go_before_anything_live() {
    let cache = cache(8 << 20);
    let mut worker = cache.worker();
    worker.begin_turn(Now::from_millis(0));
    // A crowd of short lives with a long one among a thousand, in the same segments by their TTL bucket.
    for key in 0..5_000u64 {
        set(
            &mut worker,
            &key.to_le_bytes(),
            &value(key, 1, 1000),
            if key % 1000 == 0 { 119 } else { 100 },
        );
    }
    worker.go_idle();
    let later = Now::from_millis(105_000);
    cache.maintain(later);
    let usage = cache.usage();
    assert!(
        usage.dead_bytes * 10 > usage.item_bytes * 8,
        "{} of {} bytes are known to be dead",
        usage.dead_bytes,
        usage.item_bytes
    );
    worker.begin_turn(later);
    for key in 10_000..16_000u64 {
        set(&mut worker, &key.to_le_bytes(), &value(key, 1, 1000), 0);
    }
    let counters = cache.counters();
    assert_eq!(
        (counters.removed.evicted, counters.evictions_beyond_bound),
        (0, 0)
    );
    for key in (0..5u64).map(|key| key * 1000).chain(10_000..16_000) {
        assert!(read(&mut worker, &key.to_le_bytes()).is_some(), "key {key}");
    }
    worker.go_idle();
    cache.audit();
}
