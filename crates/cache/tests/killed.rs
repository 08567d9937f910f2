//! A process that writes through the engine is killed, again and again, at moments drawn from a seed; whoever takes the cache up
//! must find of each key what was told as stored last, or what was being stored when it died.
//!
//! The child is this test program itself. It notes in memory that it shares with its parent which version of a key it is about
//! to store and which it was told as stored. Each key has one writer.

#![expect(clippy::unwrap_used, reason = "a test may fail so")]

use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::parent_id;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use scrubjay_base::time::Now;
use scrubjay_cache::{Body, Cache, Config, Delete, DeleteOutcome, Get, Store, StoreOutcome, Worker, look};
use scrubjay_io::clock::{Clock, boot_id};
use scrubjay_io::memory::{Memory, MemoryFile};
use scrubjay_io::thread::run_all;

/// What the child is told by its environment.
const TOLD: &str = "SCRUBJAY_KILLED";

const KEYS_PER_WRITER: u64 = 6_000;

/// Words of the journal before those of the keys.
const WORDS: usize = 8;

/// How a cache is used.
#[derive(Clone, Copy)]
struct Plan {
    memory: usize,
    evict: bool,
    writers: u64,
    /// Everything is flushed now and then.
    flushes: bool,
    rounds: u64,
}

const PLANS: [Plan; 3] = [
    // Room for everything: whatever was stored must be there.
    Plan {
        memory: 24 << 20,
        evict: false,
        writers: 2,
        flushes: false,
        rounds: 20,
    },
    // Segments of 16 KiB that are emptied all the time.
    Plan {
        memory: 2 << 20,
        evict: true,
        writers: 2,
        flushes: false,
        rounds: 20,
    },
    Plan {
        memory: 24 << 20,
        evict: false,
        writers: 1,
        flushes: true,
        rounds: 12,
    },
];

impl Plan {
    fn config(&self, unix_millis_at_start: u64) -> Config {
        Config {
            evict: self.evict,
            unix_millis_at_start,
            ..Config::new(self.memory)
        }
    }

    fn keys(&self) -> u64 {
        self.writers * KEYS_PER_WRITER
    }
}

/// splitmix64.
fn mix(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// What parent and child share: for each key the version that is being stored, and the one that was told as stored (0: the
/// key is not there).
struct Journal {
    memory: Memory,
}

impl Journal {
    fn map(file: MemoryFile) -> Journal {
        let len = (WORDS + 2 * 2 * KEYS_PER_WRITER as usize) * 8;
        Journal {
            memory: Memory::map(file, len).unwrap(),
        }
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at * 8 < self.memory.len());
        // SAFETY: inside the mapping by the assertion, and 8-aligned; both processes use it as atomics only.
        unsafe { &*self.memory.as_ptr().cast::<AtomicU64>().add(at) }
    }

    /// Operations that were finished; the parent waits for it.
    fn done(&self) -> &AtomicU64 {
        self.word(0)
    }

    /// The last version given out.
    fn version(&self) -> &AtomicU64 {
        self.word(1)
    }

    /// The highest CAS number that was told.
    fn cas(&self) -> &AtomicU64 {
        self.word(2)
    }

    /// Versions of the last flush that was begun, and of the last that was told as done.
    fn flush(&self) -> [&AtomicU64; 2] {
        [self.word(3), self.word(4)]
    }

    /// The process that has begun to take the cache up.
    fn taker(&self) -> &AtomicU64 {
        self.word(5)
    }

    /// `DELETE` set: it is being deleted.
    fn begun(&self, key: u64) -> &AtomicU64 {
        self.word(WORDS + 2 * key as usize)
    }

    fn told(&self, key: u64) -> &AtomicU64 {
        self.word(WORDS + 2 * key as usize + 1)
    }
}

const DELETE: u64 = 1 << 63;

fn key_bytes(key: u64) -> Vec<u8> {
    format!("key-{key}").into_bytes()
}

/// The value of a version of a key: mostly short, sometimes in several pieces. It tells its version.
fn value(key: u64, version: u64) -> Vec<u8> {
    let drawn = mix(version ^ key << 40);
    let len = match drawn % 100 {
        0 => 20_000 + drawn as usize % 60_000,
        1..8 => 1000 + drawn as usize % 5000,
        _ => 24 + drawn as usize % 200,
    };
    let words = (0..).flat_map(|at: u64| mix(version.wrapping_add(at << 32)).to_le_bytes());
    let head = [version.to_le_bytes(), key.to_le_bytes()].concat();
    head.into_iter().chain(words).take(len).collect()
}

/// The version of `key` that is there, 0 for none.
fn found(worker: &mut Worker, key: u64) -> u64 {
    let bytes = key_bytes(key);
    let Some(hit) = worker.get(&Get::key(&bytes)) else {
        return 0;
    };
    let mut text = Vec::new();
    hit.append_to(&mut text);
    let version = u64::from_le_bytes(text[..8].try_into().unwrap());
    assert_eq!(text, value(key, version), "key {key}: a torn or wrong value");
    version
}

/// Writes until it is killed.
fn write(cache: &Arc<Cache>, journal: &Journal, clock: Clock, plan: &Plan, writer: u64, seed: u64) {
    let mut worker = cache.worker();
    for round in 0.. {
        worker.begin_turn(clock.now());
        let drawn = mix(seed ^ writer << 56 ^ round);
        let key = writer * KEYS_PER_WRITER + drawn % KEYS_PER_WRITER;
        let version = journal.version().fetch_add(1, Ordering::Relaxed) + 1;
        let bytes = key_bytes(key);
        match drawn >> 32 & 0xff {
            0..4 if plan.flushes && drawn >> 48 & 0x1f == 0 => {
                let [begun, told] = journal.flush();
                begun.store(version, Ordering::SeqCst);
                worker.flush_all(0);
                told.store(version, Ordering::SeqCst);
            }
            0..40 => {
                journal.begun(key).store(DELETE, Ordering::SeqCst);
                let outcome = worker.delete(&Delete::key(&bytes));
                assert!(matches!(
                    outcome,
                    DeleteOutcome::Deleted | DeleteOutcome::NotFound
                ));
                journal.told(key).store(0, Ordering::SeqCst);
            }
            40..60 => {
                worker.touch(&bytes, 0);
            }
            60..70 => {
                found(&mut worker, key);
            }
            _ => {
                journal.begun(key).store(version, Ordering::SeqCst);
                let value = value(key, version);
                let outcome = worker.store(Store::set(&bytes, Body::Bytes(&value)));
                let StoreOutcome::Stored { cas, .. } = outcome else {
                    panic!("{outcome:?}");
                };
                journal.cas().fetch_max(cas, Ordering::SeqCst);
                journal.told(key).store(version, Ordering::SeqCst);
            }
        }
        journal.done().fetch_add(1, Ordering::SeqCst);
    }
}

/// Not a test of its own: what the child does.
#[test]
fn a_child_writes_until_it_is_killed() {
    let Ok(told) = std::env::var(TOLD) else {
        return;
    };
    // One thread's panic must not leave the others at work: whoever waits for this process would not hear of it.
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("{panic}");
        std::process::exit(101);
    }));
    let words: Vec<&str> = told.split(' ').collect();
    let [cache_path, journal_path, plan, seed] = words[..] else {
        panic!("{told}");
    };
    let plan = PLANS[plan.parse::<usize>().unwrap()];
    let seed: u64 = seed.parse().unwrap();
    let journal = Journal::map(MemoryFile::at(journal_path.as_ref()).unwrap());
    let file = MemoryFile::at(cache_path.as_ref()).unwrap();
    let claim = file.claim().expect("nobody else uses it");
    journal
        .taker()
        .store(u64::from(std::process::id()), Ordering::SeqCst);
    let (cache, clock) = take_up(file, &plan);
    let mut tasks: Vec<(String, Box<dyn FnOnce() + Send>)> = vec![];
    for writer in 0..plan.writers {
        let (cache, journal) = (&cache, &journal);
        let task = move || write(cache, journal, clock, &plan, writer, seed);
        tasks.push((format!("writer-{writer}"), Box::new(task)));
    }
    let background = &cache;
    tasks.push((
        "background".to_owned(),
        Box::new(move || {
            let parent = parent_id();
            while parent_id() == parent {
                background.maintain(clock.now());
                std::thread::yield_now();
            }
            // Nobody is left to kill it.
            std::process::exit(1);
        }),
    ));
    run_all(tasks);
    drop(claim);
}

/// The cache that is in the file, or a new one.
fn take_up(file: MemoryFile, plan: &Plan) -> (Arc<Cache>, Clock) {
    match look(&file, &boot_id().unwrap()).unwrap() {
        Ok(kept) => {
            let clock = Clock::resume(kept.unix_millis_at_start, kept.latest);
            let (cache, recovered) = Cache::reopen(plan.config(0), file, &kept, clock.now()).unwrap();
            assert_eq!(
                (recovered.lost_to_checksums, recovered.lost_unreadable),
                (0, 0),
                "{recovered:?}"
            );
            (cache, clock)
        }
        Err(_) => {
            let clock = Clock::start();
            let config = plan.config(clock.unix_millis_at_start());
            (Cache::create(config, file).unwrap(), clock)
        }
    }
}

/// What is in the cache is what the journal allows; what it was is noted there.
fn check(cache: &Arc<Cache>, journal: &Journal, now: Now, plan: &Plan, what: &str) {
    cache.audit();
    let mut worker = cache.worker();
    worker.begin_turn(now);
    let [flush_begun, flush_told] = journal.flush().map(|word| word.load(Ordering::SeqCst));
    for key in 0..plan.keys() {
        let (begun, told) = (
            journal.begun(key).load(Ordering::SeqCst),
            journal.told(key).load(Ordering::SeqCst),
        );
        let is = found(&mut worker, key);
        let was_told = is == told && (is == 0 || is > flush_told);
        let was_begun = match begun {
            0 => false,
            DELETE => is == 0,
            _ => is == begun && begun > flush_told,
        };
        let may_be_gone = plan.evict || told < flush_begun;
        assert!(
            was_told || was_begun || is == 0 && may_be_gone,
            "{what}: key {key} has version {is}; told {told}, begun {begun:x}, flushes {flush_begun} and {flush_told}"
        );
        journal.told(key).store(is, Ordering::SeqCst);
        journal.begun(key).store(0, Ordering::SeqCst);
    }
    // A flush that was begun is over, whether it took place or not.
    journal.flush()[1].store(0, Ordering::SeqCst);
    journal.flush()[0].store(0, Ordering::SeqCst);
    let key = key_bytes(u64::MAX);
    let StoreOutcome::Stored { cas, .. } = worker.store(Store::set(&key, Body::Bytes(b"x"))) else {
        panic!("{what}: no room");
    };
    assert!(cas > journal.cas().load(Ordering::SeqCst), "{what}: CAS {cas}");
}

/// A child that does not outlive this.
struct Victim(Child);

impl Drop for Victim {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn path_of(file: &MemoryFile) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_fd().as_raw_fd())
}

fn run(number: usize) {
    let plan = PLANS[number];
    let seed = std::env::var("SCRUBJAY_SEED").map_or(1, |seed| seed.parse().unwrap());
    let (file, notes) = (MemoryFile::anonymous().unwrap(), MemoryFile::anonymous().unwrap());
    let journal = Journal::map(notes.try_clone().unwrap());
    let told = |round| format!("{} {} {number} {round}", path_of(&file), path_of(&notes));
    for round in 0..plan.rounds {
        let what = format!("SCRUBJAY_SEED={seed}, plan {number}, round {round}");
        let drawn = mix(seed ^ (number as u64) << 32 ^ round << 40);
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_child_writes_until_it_is_killed", "--nocapture"])
            .env(TOLD, told(drawn))
            .stdout(Stdio::null())
            .spawn();
        let mut child = Victim(child.unwrap());
        let goal = journal.done().load(Ordering::SeqCst) + 1 + drawn % 20_000;
        let pid = u64::from(child.0.id());
        // One in three dies while it takes up what another one left that died, or soon after.
        let is_reached = || match round % 3 {
            2 => journal.taker().load(Ordering::SeqCst) == pid,
            _ => journal.done().load(Ordering::SeqCst) >= goal,
        };
        while !is_reached() {
            assert!(
                child.0.try_wait().unwrap().is_none(),
                "{what}: the child ended by itself"
            );
            std::thread::yield_now();
        }
        (0..drawn % 100_000).for_each(|_| std::hint::spin_loop());
        drop(child);
        let claim = file.claim().expect("it is dead");
        let (cache, clock) = take_up(file.try_clone().unwrap(), &plan);
        check(&cache, &journal, clock.now(), &plan, &what);
        // Now and then what the next one takes up was closed.
        assert!(!round.is_multiple_of(5) || cache.close(clock.now()));
        drop(claim);
    }
}

#[test]
fn what_was_stored_outlives_the_process() {
    run(0);
}

#[test]
fn what_was_replaced_or_deleted_stays_so_where_everything_moves() {
    run(1);
}

#[test]
fn what_was_flushed_stays_so() {
    run(2);
}
