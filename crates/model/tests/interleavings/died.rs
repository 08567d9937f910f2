//! Bounded and exhaustive: the process dies at each access to shared memory that an operation makes, one access a run. Whoever
//! takes up what lay in memory at that moment finds what was there before the operation or after it, and nothing else.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use scrubjay_base::time::Now;
use scrubjay_cache::{Arith, Body, Cache, Config, Delete, Get, Store, StoreMode, Win, Worker, look};
use scrubjay_io::clock::boot_id;
use scrubjay_io::memory::MemoryFile;
use shuttle::thread;

use crate::{number_from_environment, schedule};

/// Of the accesses of an operation, one in so many is died at; 1 leaves out none.
const STRIDE: u64 = 17;

/// What is done to the key, or around it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Store(StoreMode, usize),
    Delete,
    Invalidate,
    DropValue,
    Touch,
    Arith,
    Flush,
    /// Stores of other keys, so that segments are emptied: the key may be evicted.
    Press(u64),
    /// Stores of so many small ones, so that the index grows.
    Crowd(u64),
    /// The crowd goes, so that the index shrinks.
    Disperse(u64),
    Maintain,
}

/// What a look-up of the key tells.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    value: Vec<u8>,
    flags: u32,
    cas: u64,
    ttl: Option<u32>,
    stale: bool,
    win: Win,
}

/// What the thread that dies has told.
#[derive(Default)]
struct Told {
    /// 0 before the operation, 1 in it, 2 after it.
    phase: AtomicU64,
    before: Mutex<Option<Seen>>,
    after: Mutex<Option<Seen>>,
}

const KEY: &[u8] = b"the key";
const NOW: Now = Now::from_secs(2);

fn config() -> Config {
    Config {
        workers_max: 4,
        item_size_max: 64 << 10,
        ledger_bytes: Some(4 << 10),
        ..Config::new(512 << 10)
    }
}

fn see(worker: &mut Worker) -> Option<Seen> {
    let get = Get {
        no_bump: true,
        ..Get::key(KEY)
    };
    worker.get(&get).map(|hit| {
        let mut value = Vec::new();
        hit.append_to(&mut value);
        Seen {
            value,
            flags: hit.flags,
            cas: hit.cas,
            ttl: hit.ttl,
            stale: hit.stale,
            win: hit.win,
        }
    })
}

fn store(worker: &mut Worker, key: &[u8], mode: StoreMode, value: &[u8], exptime: i64) {
    worker.store(Store {
        mode,
        flags: 5,
        exptime,
        ..Store::set(key, Body::Bytes(value))
    });
}

fn crowd_key(number: u64) -> String {
    format!("crowd-{number}")
}

fn perform(cache: &Arc<Cache>, worker: &mut Worker, step: Step) {
    worker.begin_turn(NOW);
    let delete = Delete::key(KEY);
    match step {
        Step::Store(mode, len) => store(worker, KEY, mode, &vec![b'1' + (len % 7) as u8; len], 50),
        Step::Delete => _ = worker.delete(&delete),
        Step::Invalidate => {
            worker.delete(&Delete {
                invalidate: true,
                touch: Some(20),
                ..delete
            });
        }
        Step::DropValue => {
            worker.delete(&Delete {
                drop_value: true,
                ..delete
            });
        }
        // Whether it is there is seen by the look-up.
        Step::Touch => _ = worker.touch(KEY, 90),
        Step::Arith => _ = worker.arith(&Arith::key(KEY, 1, false)),
        Step::Flush => worker.flush_all(0),
        Step::Press(count) => (0..count).for_each(|number| {
            worker.begin_turn(NOW);
            let key = format!("press-{number}");
            store(worker, key.as_bytes(), StoreMode::Set, &[b'p'; 1800], 0);
        }),
        Step::Crowd(count) => (0..count).for_each(|number| {
            worker.begin_turn(NOW);
            let key = crowd_key(number);
            store(worker, key.as_bytes(), StoreMode::Set, key.as_bytes(), 0);
        }),
        Step::Disperse(count) => (0..count).for_each(|number| {
            worker.begin_turn(NOW);
            worker.delete(&Delete::key(crowd_key(number).as_bytes()));
        }),
        Step::Maintain => {
            worker.go_idle();
            cache.maintain(NOW);
            worker.begin_turn(NOW);
        }
    }
}

/// One run: what was there before, and the step at one of whose accesses the process dies.
fn run(before: &[Step], step: Step) {
    let cache = Cache::new(config()).expect("memory");
    let mut worker = cache.worker();
    before.iter().for_each(|step| perform(&cache, &mut worker, *step));
    let told = Arc::new(Told::default());
    let dies = {
        let (cache, told) = (Arc::clone(&cache), Arc::clone(&told));
        thread::spawn(move || {
            *told.before.lock().expect("alone") = see(&mut worker);
            told.phase.store(1, Ordering::SeqCst);
            perform(&cache, &mut worker, step);
            *told.after.lock().expect("alone") = see(&mut worker);
            told.phase.store(2, Ordering::SeqCst);
            worker.go_idle();
        })
    };
    let death = {
        let (cache, told) = (Arc::clone(&cache), Arc::clone(&told));
        thread::spawn(move || {
            let copy = cache.memory_file().copy().expect("a copy");
            (told.phase.load(Ordering::SeqCst), copy)
        })
    };
    schedule::start();
    dies.join().expect("it did not panic");
    let (phase, file) = death.join().expect("it did not panic");
    schedule::stop();
    // Before it looked, nothing is known.
    if phase > 0 {
        check(file, phase, &told, before, step);
    }
}

fn check(file: MemoryFile, phase: u64, told: &Told, before: &[Step], step: Step) {
    let kept = look(&file, &boot_id().expect("Linux tells"));
    let kept = kept.expect("it can be read").expect("a cache");
    assert!(!kept.clean);
    let (cache, recovered) = Cache::reopen(config(), file, &kept, NOW).expect("it can be taken up");
    assert_eq!((recovered.lost_to_checksums, recovered.lost_unreadable), (0, 0));
    cache.audit();
    let mut worker = cache.worker();
    worker.begin_turn(NOW);
    let found = see(&mut worker);
    let then = told.before.lock().expect("alone").clone();
    let later = told.after.lock().expect("alone").clone();
    let may_go = matches!(step, Step::Press(_) | Step::Crowd(_));
    let is_legal = found == later
        || phase == 1 && found == then
        || may_go && found.is_none()
        || phase == 1 && is_between(step, &then, &found, &later);
    assert!(
        is_legal,
        "phase {phase}: {found:?}, before {then:?}, after {later:?}"
    );
    check_crowd(&mut worker, before, step);
    let highest = then
        .iter()
        .chain(later.iter().filter(|_| phase == 2))
        .map(|seen| seen.cas);
    store(&mut worker, KEY, StoreMode::Set, b"x", 0);
    let now = see(&mut worker).expect("there is room").cas;
    assert!(highest.max().is_none_or(|highest| now > highest));
    (0..40).for_each(|_| perform(&cache, &mut worker, Step::Press(1)));
    perform(&cache, &mut worker, Step::Maintain);
    worker.go_idle();
    cache.audit();
}

/// Of the crowd, all are there who did not go and may not be going.
fn check_crowd(worker: &mut Worker, before: &[Step], step: Step) {
    let (mut first, mut end) = (0, 0);
    for step in before.iter().chain([&step]) {
        match step {
            Step::Crowd(count) if before.contains(step) => end = *count,
            Step::Disperse(count) => first = *count,
            Step::Flush | Step::Press(_) => return,
            _ => {}
        }
    }
    for number in first..end {
        let key = crowd_key(number);
        let hit = worker.get(&Get::key(key.as_bytes()));
        assert!(
            hit.is_some_and(|hit| hit.value_len() == key.len()),
            "{key} is lost"
        );
    }
}

/// A change in place has some words done and not others, in an order in which each promises no more than the last.
fn is_between(step: Step, then: &Option<Seen>, found: &Option<Seen>, later: &Option<Seen>) -> bool {
    let (Some(then), Some(found), Some(later)) = (then, found, later) else {
        return false;
    };
    let with = |cas, stale| Seen {
        cas,
        stale,
        ..then.clone()
    };
    step == Step::Invalidate && [with(later.cas, then.stale), with(later.cas, later.stale)].contains(found)
}

#[test]
fn a_process_that_dies_at_any_access_leaves_before_or_after() {
    use StoreMode::{Append, Set};
    let stride = number_from_environment("SCRUBJAY_STRIDE").unwrap_or(STRIDE);
    let beginnings: [&[Step]; 3] = [
        &[],
        &[Step::Store(Set, 40)],
        &[Step::Store(Set, 9000), Step::Press(40)],
    ];
    let steps = [
        Step::Store(Set, 60),
        Step::Store(Set, 9000),
        Step::Store(Append, 100),
        Step::Delete,
        Step::Invalidate,
        Step::DropValue,
        Step::Touch,
        Step::Arith,
        Step::Flush,
        Step::Press(25),
        Step::Maintain,
    ];
    let pairs = beginnings
        .into_iter()
        .flat_map(|before| steps.map(|step| (before, step)));
    const FIRST: Step = Step::Store(Set, 3);
    let resizes: [(&[Step], Step); 3] = [
        (&[FIRST, Step::Crowd(1900)], Step::Crowd(2600)),
        (&[FIRST, Step::Crowd(2600)], Step::Disperse(2000)),
        (
            &[FIRST, Step::Crowd(2600), Step::Maintain, Step::Disperse(2000)],
            Step::Maintain,
        ),
    ];
    let mut runs = 0;
    for (number, (before, step)) in pairs.chain(resizes).enumerate() {
        // What makes thousands of accesses is died at more rarely.
        let stride = match step {
            Step::Maintain => stride * 7,
            Step::Press(_) => stride * 23,
            Step::Crowd(_) | Step::Disperse(_) => stride * 67,
            _ => stride,
        };
        let accesses = (number as u64 % stride..).step_by(stride as usize);
        let shown = format!("{before:?}, then death in {step:?}");
        runs += schedule::at_accesses(accesses, &shown, move || run(before, step));
    }
    println!("{runs} deaths");
}

/// What a process leaves that dies in `step` after so many accesses.
fn leftovers(before: &'static [Step], step: Step, accesses: [u64; 3]) -> Vec<MemoryFile> {
    let left = Arc::new(Mutex::new(Vec::new()));
    let all = Arc::clone(&left);
    schedule::at_accesses(accesses.into_iter(), "what is recovered", move || {
        let cache = Cache::new(config()).expect("memory");
        let mut worker = cache.worker();
        before.iter().for_each(|step| perform(&cache, &mut worker, *step));
        let file = cache.memory_file().try_clone().expect("a descriptor");
        let dies = thread::spawn(move || perform(&cache, &mut worker, step));
        let all = Arc::clone(&all);
        let death = thread::spawn(move || {
            let copy = file.copy().expect("a copy");
            all.lock().expect("alone").push(copy);
        });
        schedule::start();
        dies.join().expect("it did not panic");
        death.join().expect("it did not panic");
        schedule::stop();
    });
    std::mem::take(&mut *left.lock().expect("alone"))
}

fn recover(file: MemoryFile) -> Option<Arc<Cache>> {
    let kept = look(&file, &boot_id().expect("Linux tells"));
    let kept = kept.expect("it can be read").expect("a cache");
    let (cache, recovered) = Cache::reopen(config(), file, &kept, NOW).expect("it can be taken up");
    assert_eq!((recovered.lost_to_checksums, recovered.lost_unreadable), (0, 0));
    (!recovered.clean).then_some(cache)
}

/// All items as look-ups tell of them: what the key is, and how many of the crowd there are.
fn all_of(cache: &Arc<Cache>, crowd: u64) -> (Option<Seen>, Vec<u64>, u64) {
    cache.audit();
    let mut worker = cache.worker();
    worker.begin_turn(NOW);
    let seen = see(&mut worker);
    let is_there = |number: &u64| worker.get(&Get::key(crowd_key(*number).as_bytes())).is_some();
    let there = (0..crowd).filter(is_there).collect();
    worker.go_idle();
    (seen, there, cache.usage().items)
}

#[test]
fn a_process_that_dies_while_it_recovers_leaves_all_to_the_next() {
    use StoreMode::Set;
    const CROWD: u64 = 2600;
    const FIRST: Step = Step::Store(Set, 9000);
    const SUMMED: [Step; 2] = [Step::Maintain, Step::Maintain];
    const CROWDED: [Step; 4] = [FIRST, Step::Crowd(1900), SUMMED[0], SUMMED[1]];
    let stride = number_from_environment("SCRUBJAY_STRIDE").unwrap_or(STRIDE) * 53;
    let mut runs = 0;
    let crowded = leftovers(&CROWDED, Step::Crowd(CROWD), [20_011, 45_007, 70_001]);
    let stored = leftovers(&CROWDED, Step::Store(Set, 9000), [15, 40, 65]);
    for (number, left) in crowded.into_iter().chain(stored).enumerate() {
        let left = Arc::new(left);
        let accesses = (number as u64 % stride..).step_by(stride as usize);
        let shown = format!("recovery of leftover {number}");
        runs += schedule::at_accesses(accesses, &shown, move || {
            let undisturbed = recover(left.copy().expect("a copy")).expect("its process died");
            let wanted = all_of(&undisturbed, CROWD);
            let file = left.copy().expect("a copy");
            let watched = file.try_clone().expect("a descriptor");
            let dies = thread::spawn(move || _ = recover(file));
            let death = thread::spawn(move || watched.copy().expect("a copy"));
            schedule::start();
            dies.join().expect("it did not panic");
            let left = death.join().expect("it did not panic");
            schedule::stop();
            let next = recover(left).expect("its process died");
            assert_eq!(all_of(&next, CROWD), wanted);
        });
    }
    println!("{runs} deaths");
    assert!(
        runs > 100,
        "{runs}: recovery makes fewer accesses than was thought"
    );
}
