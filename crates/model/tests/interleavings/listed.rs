//! A scan beside others: what is in the cache all the while is listed exactly once, though its neighbours come and go, it is
//! moved by compaction, and the index grows or shrinks under it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use scrubjay_base::time::Now;
use scrubjay_cache::{Body, Cache, Config, Delete, Store, Worker};
use shuttle::thread;

use crate::{number_from_environment, schedule};

const NOW: Now = Now::from_secs(2);

/// Keys that stay, whatever happens.
const STAYING: u64 = 60;

/// Seeds, if none is said.
const RUNS: u64 = 300;

fn store(worker: &mut Worker, key: &str, len: usize) {
    worker.begin_turn(NOW);
    worker.store(Store::set(key.as_bytes(), Body::Bytes(&vec![b'v'; len])));
}

fn delete(worker: &mut Worker, key: &str) {
    worker.begin_turn(NOW);
    worker.delete(&Delete::key(key.as_bytes()));
}

fn crowd(number: u64) -> String {
    format!("crowd-{number}")
}

/// Lists all in steps of `lines`; how often each key was listed.
fn list(worker: &mut Worker, cache: &Cache, lines: usize) -> HashMap<Vec<u8>, u32> {
    let (mut listed, mut next) = (HashMap::new(), Some(cache.scan_start()));
    while let Some(cursor) = next {
        worker.begin_turn(NOW);
        next = worker.scan(cursor, lines, &mut |item| {
            *listed.entry(item.key.to_vec()).or_insert(0) += 1;
        });
        worker.go_idle();
    }
    listed
}

/// What one who changes the cache does meanwhile.
fn change(worker: &mut Worker, mut random: StdRng, crowded: u64) {
    let grows = random.random_bool(0.5);
    for round in 0..random.random_range(50..700) {
        match random.random_range(0..10) {
            0 => store(worker, &crowd(random.random_range(0..crowded)), 20),
            1 => delete(worker, &crowd(random.random_range(0..crowded))),
            _ if grows => store(worker, &crowd(crowded + round), 5),
            _ => delete(worker, &crowd(round)),
        }
    }
    worker.go_idle();
}

/// A run that follows from `seed`.
fn run(seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let config = Config {
        workers_max: 4,
        item_size_max: 64 << 10,
        ledger_bytes: Some(4 << 10),
        evict: false,
        ..Config::new(1 << 20)
    };
    let cache = Cache::new(config).expect("memory");
    let mut worker = cache.worker();
    // Around the number at which the index grows.
    let crowded = *[10, 1850, 1930, 1960, 2600]
        .choose(&mut random)
        .expect("not empty");
    (0..crowded).for_each(|number| store(&mut worker, &crowd(number), 5));
    (0..STAYING).for_each(|number| store(&mut worker, &format!("stays-{number}"), 10 + number as usize));
    worker.go_idle();
    let lines = *[1, 7, 64, 1000].choose(&mut random).expect("not empty");
    let listed = Arc::new(Mutex::new(HashMap::new()));
    let lists = {
        let (cache, listed) = (Arc::clone(&cache), Arc::clone(&listed));
        thread::spawn(move || *listed.lock().expect("alone") = list(&mut worker, &cache, lines))
    };
    let changes = {
        let (mut worker, random) = (cache.worker(), StdRng::seed_from_u64(random.random()));
        thread::spawn(move || change(&mut worker, random, crowded))
    };
    let maintains = {
        let cache = Arc::clone(&cache);
        thread::spawn(move || (0..3).for_each(|_| _ = cache.maintain(NOW)))
    };
    schedule::start();
    for thread in [lists, changes, maintains] {
        thread.join().expect("it did not panic");
    }
    schedule::stop();
    let listed = listed.lock().expect("alone");
    for number in 0..STAYING {
        let key = format!("stays-{number}");
        let times = listed.get(key.as_bytes()).copied().unwrap_or(0);
        assert_eq!(
            times, 1,
            "{key}, which was there all the while, was listed so often"
        );
    }
    let most = listed.iter().max_by_key(|(_, times)| **times);
    assert!(
        most.is_some_and(|(_, times)| *times == 1),
        "{most:?}: twice at most once"
    );
    cache.audit();
}

#[test]
fn what_is_there_all_the_while_is_listed_exactly_once() {
    let first = number_from_environment("SCRUBJAY_INTERLEAVING");
    let runs = if first.is_some() { 1 } else { RUNS };
    let first = first.unwrap_or(0);
    schedule::at_random(first..first + runs, run);
}
