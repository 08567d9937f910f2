//! The whole service simulated from seeds: new ones for some seconds, and those of `regressions.tsv` that once failed.

use std::time::{Duration, Instant};

use scrubjay_sim::serving::{START, Serving};
use scrubjay_sim::simulation::{Tally, run};

/// How long new seeds are tried.
const BUDGET: Duration = Duration::from_secs(8);

/// Steps of one simulation.
const STEPS: usize = 20_000;

/// New seeds count from here.
const SEED: u64 = 1;

fn simulate(seed: u64) -> Tally {
    // So little memory that most seeds evict.
    let arguments = ["-m", "2", "-I", "64k", "-t", "2"].map(str::to_owned);
    let serving = Serving::new(&arguments).expect("these options are right");
    let workers = vec![serving.service(), serving.service()];
    let maintain = |now| while serving.cache().maintain(now) {};
    let tally = run(seed, STEPS, workers, START, maintain).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    let (usage, counters) = (serving.cache().usage(), serving.cache().counters());
    assert_eq!(
        counters.created,
        counters.removed.total() + usage.items,
        "seed {seed}: an item is not accounted for: {counters:?}"
    );
    tally
}

#[test]
fn seeds_that_failed_once_pass() {
    let rows = include_str!("../regressions.tsv").lines().skip(1);
    for row in rows {
        let seed = row.split('\t').next().and_then(|seed| seed.parse().ok());
        simulate(seed.unwrap_or_else(|| panic!("no seed: {row}")));
    }
}

#[test]
fn no_reply_is_wrong_whatever_clients_time_and_memory_do() {
    let start = Instant::now();
    let mut sum = Tally::default();
    let mut seed = SEED;
    while start.elapsed() < BUDGET {
        let tally = simulate(seed);
        sum.requests += tally.requests;
        sum.hits += tally.hits;
        sum.vanished += tally.vanished;
        seed += 1;
    }
    println!("{} seeds: {sum:?}", seed - SEED);
    assert!(sum.hits > 1000, "hardly anything was found: {sum:?}");
}
