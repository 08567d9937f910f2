//! The engine as a whole under many interleavings of its threads' accesses to shared memory, chosen by shuttle:
//! `RUSTFLAGS="--cfg shuttle" cargo test -p scrubjay-model --test interleavings`.
//!
//! Each run performs a few operations on a few keys in a cache of a dozen segments, and everything that was answered must
//! be what the reference model answers in some order. See CONTRIBUTING.md for longer runs and for repeating a failure.
#![cfg(shuttle)]

mod died;
mod history;
mod interrupted;
mod listed;
mod moved;
mod program;
mod schedule;

use std::sync::Arc;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use scrubjay_cache::StoreMode;
use shuttle::thread;

use program::{Actor, LENGTHS, Operation, Run};

/// Keys of a run.
const KEYS: usize = 2;

fn number_from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is not a number; give one")),
    )
}

fn operation(random: &mut StdRng) -> Operation {
    let key = random.random_range(0..KEYS);
    let ttl = *[0, 0, 1, 3].choose(random).expect("not empty");
    let len = *LENGTHS.choose(random).expect("not empty");
    let touch = random.random_bool(0.3).then_some(ttl);
    let (compare, rarely) = (random.random_bool(0.5), random.random_bool(0.15));
    match random.random_range(0..100) {
        0..14 => Operation::Get {
            key,
            touch,
            vivify: rarely.then_some(0),
            leases: compare,
        },
        14..22 => Operation::Hold { key },
        22..25 => Operation::Release,
        25..50 => {
            use StoreMode::{Add, Append, Prepend, Replace, Set};
            let mode = *[Set, Set, Set, Add, Replace, Append, Append, Prepend]
                .choose(random)
                .expect("not empty");
            let compare = compare && !matches!(mode, Add | Replace);
            let len = if matches!(mode, Append | Prepend) {
                len.min(600)
            } else {
                len
            };
            Operation::Store {
                key,
                mode,
                len,
                ttl,
                compare,
                invalidate: compare && rarely,
                vivify: rarely,
            }
        }
        50..54 => Operation::Upload { key, len, ttl },
        54..64 => Operation::Delete {
            key,
            compare: rarely,
            invalidate: compare,
            drop_value: rarely,
            touch,
        },
        64..76 => Operation::Arith {
            key,
            decrement: rarely,
            initial: compare,
        },
        76..77 => Operation::Refuse { key },
        77..80 => Operation::Flush,
        80..86 => Operation::Time {
            millis: 250 * random.random_range(0..8),
        },
        86..87 => Operation::Idle,
        87..88 => Operation::Beside {
            bytes: program::BESIDE - random.random_range(0..6) * (16 << 10),
        },
        88..89 => Operation::Limit {
            bytes: (512 + 64 * random.random_range(0..3)) << 10,
        },
        _ => Operation::Press {
            count: random.random_range(1..12),
            fresh: random.random_bool(0.7),
        },
    }
}

/// A run that follows from `seed`: what was there before, two or three threads, and one that maintains.
fn random_run(seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let run = Run::new();
    let mut before: Vec<Operation> = (0..4).map(|_| operation(&mut random)).collect();
    let pressed = [0, 40, 90, 120].choose(&mut random).expect("not empty");
    before.push(Operation::Press {
        count: *pressed,
        fresh: true,
    });
    before.extend((0..KEYS).map(|key| Operation::Get {
        key,
        touch: None,
        vivify: None,
        leases: false,
    }));
    Actor::new(&run, 0).perform(&before);
    let mut programs: Vec<Vec<Operation>> = Vec::new();
    for _ in 0..random.random_range(2..=3) {
        let count = random.random_range(1..=6);
        programs.push((0..count).map(|_| operation(&mut random)).collect());
    }
    if random.random_bool(0.6) {
        let step = Operation::Time {
            millis: 250 * random.random_range(0..6),
        };
        programs.push([Operation::Maintain, step].repeat(random.random_range(1..3)));
    }
    perform_together(&run, programs);
    program::check(&run, KEYS);
}

fn perform_together(run: &Arc<Run>, programs: Vec<Vec<Operation>>) {
    let threads: Vec<_> = programs
        .into_iter()
        .enumerate()
        .map(|(number, program)| {
            let run = Arc::clone(run);
            thread::spawn(move || Actor::new(&run, number + 1).perform(&program))
        })
        .collect();
    schedule::start();
    for thread in threads {
        thread.join().expect("the thread did not panic");
    }
    schedule::stop();
}

#[test]
fn random_interleavings_answer_as_one_thread_could() {
    let first = number_from_environment("SCRUBJAY_INTERLEAVING");
    let count =
        number_from_environment("SCRUBJAY_INTERLEAVINGS").unwrap_or(if first.is_some() { 1 } else { 10_000 });
    let first = first.unwrap_or(0);
    schedule::at_random(first..first + count, random_run);
}
