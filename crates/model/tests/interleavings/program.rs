//! What the threads of a model do: short lists of operations on a few keys of a cache of a dozen segments.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use scrubjay_base::sync::point;
use scrubjay_base::time::Now;
use scrubjay_cache::{
    Arith, Body, Cache, Config, Delete, PinnedSlice, Refusal, Store, StoreMode, StoreOutcome, Upload, Why,
    Worker,
};

use crate::history::{self, Answer, Bytes, Call, Event, counted, get_of};

/// The smallest cache there is, and what of it is given to nobody: a dozen segments of 16 KiB are left.
const MEMORY: usize = 512 << 10;
pub const BESIDE: u64 = 256 << 10;

/// Explicit CAS numbers: above those that the engine counts up to; every other one needs a wider word.
const GIVEN_CAS: u64 = 1 << 20;
const WIDE_CAS: u64 = 1 << 33;

/// Names of values that only take room.
const FILLERS: u64 = 400;

/// Value lengths: small, cut to fill a segment's end, longest in one piece, some pieces, over a segment.
pub const LENGTHS: [usize; 5] = [12, 600, 1900, 6000, 20_000];

/// The number of the thread that looks at everything when the others have ended.
const LAST: usize = 99;

/// One thing that a thread does.
#[derive(Clone, Copy, Debug)]
pub enum Operation {
    Get {
        key: usize,
        touch: Option<i64>,
        vivify: Option<i64>,
        leases: bool,
    },
    /// A get whose value is kept by pins until `Release` or the thread's end.
    Hold {
        key: usize,
    },
    Release,
    Store {
        key: usize,
        mode: StoreMode,
        len: usize,
        ttl: i64,
        compare: bool,
        invalidate: bool,
        vivify: bool,
    },
    /// A set whose value comes in pieces, a turn each.
    Upload {
        key: usize,
        len: usize,
        ttl: i64,
    },
    Delete {
        key: usize,
        compare: bool,
        invalidate: bool,
        drop_value: bool,
        touch: Option<i64>,
    },
    Arith {
        key: usize,
        decrement: bool,
        initial: bool,
    },
    Refuse {
        key: usize,
    },
    Flush,
    /// Time goes on by this many milliseconds.
    Time {
        millis: u64,
    },
    /// Sleeps for a moment: holds nothing.
    Idle,
    /// Stores values that nobody asks for, so that others have to go; `fresh`: under new names.
    Press {
        count: u64,
        fresh: bool,
    },
    /// Sets what is given to nobody: memory comes and goes.
    Beside {
        bytes: u64,
    },
    /// Lowers the memory limit, or raises it.
    Limit {
        bytes: usize,
    },
    Maintain,
    /// Notes in which segment the key's item lies.
    Locate {
        key: usize,
    },
}

impl Operation {
    /// A plain set.
    pub const fn set(key: usize, len: usize, ttl: i64) -> Operation {
        Operation::Store {
            key,
            mode: StoreMode::Set,
            len,
            ttl,
            compare: false,
            invalidate: false,
            vivify: false,
        }
    }
}

/// What all threads of a run share; nothing here is a point of the schedule.
pub struct Run {
    pub cache: Arc<Cache>,
    events: Mutex<Vec<Event>>,
    /// The segments that `Locate` has noted.
    located: Mutex<Vec<Option<u32>>>,
    moments: AtomicU64,
    /// The latest time that any thread has told.
    millis: AtomicU64,
    sequence: AtomicU64,
}

impl Run {
    pub fn new() -> Arc<Run> {
        let cache = Cache::new(config()).expect("half a MiB can be had");
        cache.set_held_beside(BESIDE);
        Arc::new(Run {
            cache,
            events: Mutex::default(),
            located: Mutex::default(),
            moments: AtomicU64::new(0),
            millis: AtomicU64::new(1000),
            sequence: AtomicU64::new(0),
        })
    }

    /// The events so far, each with its moments.
    pub fn events(&self) -> Vec<Event> {
        self.events.lock().expect("nothing panics under it").clone()
    }

    /// The segments in which `Locate` found its key's item.
    pub fn located(&self) -> Vec<Option<u32>> {
        self.located.lock().expect("nothing panics under it").clone()
    }

    fn moment(&self) -> u64 {
        self.moments.fetch_add(1, Ordering::Relaxed)
    }

    fn number(&self) -> u64 {
        self.sequence.fetch_add(1, Ordering::Relaxed)
    }
}

fn config() -> Config {
    Config {
        workers_max: 8,
        item_size_max: 64 << 10,
        ledger_bytes: Some(4 << 10),
        ..Config::new(MEMORY)
    }
}

/// The name of a key.
pub fn name(key: usize) -> Vec<u8> {
    format!("key-{key}").into_bytes()
}

/// One thread of a run.
pub struct Actor {
    run: Arc<Run>,
    thread: usize,
    worker: Worker,
    now: Now,
    /// The CAS number of each key that it saw last.
    seen_cas: Vec<u64>,
    held: Vec<(Vec<PinnedSlice>, Bytes)>,
}

impl Actor {
    pub fn new(run: &Arc<Run>, thread: usize) -> Actor {
        let mut actor = Actor {
            worker: run.cache.worker(),
            run: Arc::clone(run),
            thread,
            now: Now::default(),
            seen_cas: vec![0; 8],
            held: Vec::new(),
        };
        actor.time(0);
        actor
    }

    /// Does all of `operations`, then releases what it holds and sleeps.
    pub fn perform(mut self, operations: &[Operation]) {
        for operation in operations {
            self.worker.begin_turn(self.now);
            self.perform_one(*operation);
        }
        self.worker.go_idle();
        while !self.held.is_empty() {
            self.release();
        }
    }

    fn perform_one(&mut self, operation: Operation) {
        match operation {
            Operation::Get {
                key,
                touch,
                vivify,
                leases,
            } => {
                let (touch, vivify) = (
                    touch.map(|ttl| self.exptime(ttl)),
                    vivify.map(|ttl| self.exptime(ttl)),
                );
                self.get(key, touch, vivify, leases, false);
            }
            Operation::Hold { key } => self.get(key, None, None, false, true),
            Operation::Release => self.release(),
            Operation::Store { .. } => self.store(operation),
            Operation::Upload { key, len, ttl } => self.upload(key, len, ttl),
            Operation::Delete { .. } => self.delete(operation),
            Operation::Arith {
                key,
                decrement,
                initial,
            } => self.arith(key, decrement, initial),
            Operation::Refuse { key } => self.record(Some(key), Call::Refuse, |actor| {
                actor.worker.refuse(&name(key), Refusal::TooLarge);
                Answer::Done
            }),
            Operation::Flush => self.record(None, Call::Flush, |actor| {
                actor.worker.flush_all(0);
                Answer::Done
            }),
            Operation::Time { millis } => self.time(millis),
            Operation::Idle => self.worker.go_idle(),
            Operation::Press { count, fresh } => self.press(count, fresh),
            Operation::Beside { bytes } => self.run.cache.set_held_beside(bytes),
            Operation::Limit { bytes } => {
                self.run.cache.set_memory_max(bytes);
            }
            Operation::Maintain => {
                self.worker.go_idle();
                self.run.cache.maintain(self.now);
            }
            Operation::Locate { key } => {
                let segment = match self.worker.why(&name(key)) {
                    Why::Present(present) => Some(present.segment),
                    Why::Gone(_) | Why::Unknown { .. } => None,
                };
                let mut located = self.run.located.lock().expect("nothing panics under it");
                located.push(segment);
            }
        }
    }

    /// Notes what `perform` answers, with the moments before and after.
    fn record(&mut self, key: Option<usize>, call: Call, perform: impl FnOnce(&mut Actor) -> Answer) {
        let began = self.run.moment();
        let answer = perform(self);
        let ended = self.run.moment();
        let cas = match &answer {
            Answer::Found { cas, .. } | Answer::Stored(StoreOutcome::Stored { cas, .. }) => Some(*cas),
            _ => None,
        };
        if let (Some(key), Some(cas)) = (key, cas) {
            self.seen_cas[key] = cas;
        }
        let event = Event {
            thread: self.thread,
            key,
            call,
            answer,
            began,
            ended,
        };
        self.run
            .events
            .lock()
            .expect("nothing panics under it")
            .push(event);
    }

    fn time(&mut self, millis: u64) {
        let told = self.run.millis.fetch_add(millis, Ordering::Relaxed) + millis;
        self.record(None, Call::Time(told), |actor| {
            actor.now = Now::from_millis(told);
            actor.worker.begin_turn(actor.now);
            Answer::Done
        });
    }

    /// An absolute exptime, so that it does not matter by whose clock it is taken.
    fn exptime(&self, ttl: i64) -> i64 {
        let start = self.run.cache.config().unix_millis_at_start / 1000;
        if ttl == 0 {
            0
        } else {
            (start + self.now.secs()) as i64 + ttl
        }
    }

    /// A value that nobody else writes; `len` says how long it is, nearly.
    fn value(&self, key: usize, len: usize) -> Bytes {
        let number = self.run.number();
        let mut value = format!("<{key}.{}.{number}>", self.thread).into_bytes();
        let mut random = StdRng::seed_from_u64(number);
        while value.len() < len {
            value.push(random.random_range(b'a'..=b'z'));
        }
        Bytes(value.into())
    }

    fn get(&mut self, key: usize, touch: Option<i64>, vivify: Option<i64>, leases: bool, hold: bool) {
        let alone = self.thread == LAST;
        let call = Call::Get {
            touch,
            vivify,
            leases,
            alone,
        };
        self.record(Some(key), call, |actor| {
            let name = name(key);
            let Some(hit) = actor.worker.get(&get_of(&name, touch, vivify, leases)) else {
                return Answer::Missed;
            };
            let mut value = Vec::new();
            for slice in hit.slices() {
                point();
                value.extend_from_slice(slice);
                point();
            }
            let value = Bytes(value.into());
            if hold {
                actor.held.push((hit.pins().collect(), value.clone()));
            }
            Answer::Found {
                value,
                cas: hit.cas,
                stale: hit.stale,
                win: hit.win,
                created: hit.created,
                ttl: alone.then_some(hit.ttl),
            }
        });
    }

    /// A reply has been sent: until now its bytes had to stay.
    fn release(&mut self) {
        if let Some((slices, value)) = self.held.pop() {
            let mut sent = Vec::new();
            for slice in slices {
                point();
                sent.extend_from_slice(slice.as_ref());
            }
            assert_eq!(
                Bytes(sent.into()),
                value,
                "bytes changed while they were being sent"
            );
        }
    }

    fn store(&mut self, operation: Operation) {
        let Operation::Store {
            key,
            mode,
            len,
            ttl,
            compare,
            invalidate,
            vivify,
        } = operation
        else {
            unreachable!("called for stores")
        };
        let value = self.value(key, len);
        let exptime = self.exptime(ttl);
        let compare_cas = compare.then(|| self.seen_cas[key]);
        let vivify = vivify.then_some(exptime);
        let call = Call::Store {
            mode,
            value: value.clone(),
            exptime,
            compare_cas,
            vivify,
            invalidate,
        };
        self.record(Some(key), call, |actor| {
            Answer::Stored(actor.worker.store(Store {
                mode,
                exptime,
                compare_cas,
                invalidate,
                vivify,
                ..Store::set(&name(key), Body::Bytes(&value.0))
            }))
        });
    }

    fn upload(&mut self, key: usize, len: usize, ttl: i64) {
        let value = self.value(key, len);
        let exptime = self.exptime(ttl);
        let call = Call::Store {
            mode: StoreMode::Set,
            value: value.clone(),
            exptime,
            compare_cas: None,
            vivify: None,
            invalidate: false,
        };
        self.record(Some(key), call, |actor| {
            let mut upload: Upload = actor.worker.begin_upload(value.0.len(), exptime);
            for part in value.0.chunks(value.0.len().div_ceil(3)) {
                if let Err(why) = upload.write(&mut actor.worker, part) {
                    return Answer::Stored(StoreOutcome::Refused(why));
                }
                actor.worker.go_idle();
                actor.worker.begin_turn(actor.now);
            }
            Answer::Stored(actor.worker.store(Store {
                exptime,
                ..Store::set(&name(key), Body::Upload(upload))
            }))
        });
    }

    fn delete(&mut self, operation: Operation) {
        let Operation::Delete {
            key,
            compare,
            invalidate,
            drop_value,
            touch,
        } = operation
        else {
            unreachable!("called for deletions")
        };
        let compare_cas = compare.then(|| self.seen_cas[key]);
        let touch = touch.map(|ttl| self.exptime(ttl));
        // The answer does not tell the number, so it is given.
        let new_cas = invalidate.then(|| {
            let number = self.run.number();
            number + if number % 2 == 0 { GIVEN_CAS } else { WIDE_CAS }
        });
        let call = Call::Delete {
            compare_cas,
            invalidate,
            drop_value,
            touch,
            new_cas,
        };
        self.record(Some(key), call, |actor| {
            Answer::Deleted(actor.worker.delete(&Delete {
                key: &name(key),
                compare_cas,
                invalidate,
                touch,
                drop_value,
                new_cas,
            }))
        });
    }

    fn arith(&mut self, key: usize, decrement: bool, initial: bool) {
        let delta = 1 + self.run.number() % 200;
        let initial = initial.then_some((95, 0));
        self.record(
            Some(key),
            Call::Arith {
                delta,
                decrement,
                initial,
            },
            |actor| {
                let name = name(key);
                counted(actor.worker.arith(&Arith {
                    initial,
                    ..Arith::key(&name, delta, decrement)
                }))
            },
        );
    }

    fn press(&mut self, count: u64, fresh: bool) {
        for _ in 0..count {
            let number = self.run.number();
            let number = if fresh { FILLERS + number } else { number % 4 };
            let filler = format!("filler-{number}");
            // Refused is as good: nothing is claimed of fillers.
            let _ = self
                .worker
                .store(Store::set(filler.as_bytes(), Body::Bytes(&[b'f'; 1900])));
        }
    }
}

/// Checks the run when its threads have ended.
pub fn check(run: &Arc<Run>, keys: usize) {
    let mut last = Actor::new(run, LAST);
    last.worker.begin_turn(last.now);
    for key in 0..keys {
        last.get(key, None, None, false, false);
    }
    last.worker.go_idle();
    run.cache.audit();
    for key in 0..keys {
        let name = name(key);
        let evictions = run.cache.evictions_of(&name);
        history::check(run.cache.config(), key, &name, &run.events(), evictions);
    }
}
