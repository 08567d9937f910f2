//! The engine against the reference model: random operations, some with time between them, must have equal outcomes as
//! long as there is room for everything, whatever ends and goes on with another process in between.

#![expect(clippy::unwrap_used, reason = "a test may fail so")]

use std::collections::HashMap;

use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop, prop_oneof, proptest};
use scrubjay_base::time::Now;
use scrubjay_cache::{
    Arith, ArithOutcome, Body, Cache, Config, Delete, Get, Hit, Refusal, Store, StoreMode, StoreOutcome,
    Worker, look,
};
use scrubjay_io::clock::boot_id;
use scrubjay_model::{Found, Model};

const MEMORY: usize = 64 << 20;
const ITEM_SIZE_MAX: usize = 256 << 10;
/// Given CAS numbers start here: above all that a server counts up to by itself.
const GIVEN_CAS: u64 = 1 << 62;

/// A CAS number to compare with or to give.
#[derive(Clone, Copy, Debug)]
enum Cas {
    /// The one seen this many sightings of the key ago.
    Seen(usize),
    Given(u64),
}

#[derive(Clone, Debug)]
enum Value {
    Text(Vec<u8>),
    Number(u64),
    Padding(usize),
}

#[derive(Clone, Debug)]
enum Operation {
    Get {
        key: usize,
        touch: Option<i64>,
        vivify: Option<i64>,
        recache_below: Option<i64>,
        no_bump: bool,
        leases: bool,
        new_cas: Option<Cas>,
        key_is_binary: bool,
    },
    Store {
        key: usize,
        mode: StoreMode,
        flags: u32,
        exptime: i64,
        value: Value,
        pieces: Option<usize>,
        compare_cas: Option<Cas>,
        invalidate: bool,
        new_cas: Option<Cas>,
        vivify: Option<i64>,
        key_is_binary: bool,
    },
    Refuse {
        key: usize,
    },
    Delete {
        key: usize,
        compare_cas: Option<Cas>,
        invalidate: bool,
        drop_value: bool,
        touch: Option<i64>,
        new_cas: Option<Cas>,
    },
    Arith {
        key: usize,
        delta: u64,
        decrement: bool,
        compare_cas: Option<Cas>,
        initial: Option<(u64, i64)>,
        touch: Option<i64>,
        new_cas: Option<Cas>,
    },
    Touch {
        key: usize,
        exptime: i64,
    },
    Flush {
        delay: i64,
    },
    Wait {
        millis: u64,
    },
    Maintain,
    /// The cache is closed or just left, and opened again after some time with a limit of so many MiB.
    Restart {
        closes: bool,
        millis: u64,
        mebibytes: usize,
    },
}

fn exptimes() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => Just(0),
        4 => 1..6_i64,
        1 => Just(100),
        1 => Just(60 * 60 * 24 * 30),
        1 => Just(-1),
        1 => Just(1_000_000_000),
        1 => 1_799_999_999..1_800_000_030_i64,
        1 => Just(1_900_000_000),
    ]
}

fn some<T: std::fmt::Debug + Clone>(strategy: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    prop::option::weighted(0.2, strategy)
}

fn cas() -> impl Strategy<Value = Cas> {
    prop_oneof![4 => (0..4_usize).prop_map(Cas::Seen), 1 => (0..4_u64).prop_map(Cas::Given)]
}

fn given_cas() -> impl Strategy<Value = Cas> {
    (0..4_u64).prop_map(Cas::Given)
}

fn values() -> impl Strategy<Value = Value> {
    prop_oneof![
        6 => prop::collection::vec(any::<u8>(), 0..40).prop_map(Value::Text),
        6 => prop_oneof![0..200_u64, any::<u64>()].prop_map(Value::Number),
        2 => (0..3_000_usize).prop_map(Value::Padding),
        1 => (0..ITEM_SIZE_MAX - 400).prop_map(Value::Padding),
    ]
}

fn modes() -> impl Strategy<Value = StoreMode> {
    prop_oneof![
        5 => Just(StoreMode::Set),
        1 => Just(StoreMode::Add),
        1 => Just(StoreMode::Replace),
        1 => Just(StoreMode::Append),
        1 => Just(StoreMode::Prepend),
    ]
}

fn keys() -> std::ops::Range<usize> {
    0..6
}

fn flag() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.2)
}

fn gets() -> impl Strategy<Value = Operation> {
    (
        keys(),
        some(exptimes()),
        some(exptimes()),
        some(0..20_i64),
        flag(),
        any::<bool>(),
        some(given_cas()),
        flag(),
    )
        .prop_map(
            |(key, touch, vivify, recache_below, no_bump, leases, new_cas, key_is_binary)| Operation::Get {
                key,
                touch,
                vivify,
                recache_below,
                no_bump,
                leases,
                new_cas,
                key_is_binary,
            },
        )
}

fn stores() -> impl Strategy<Value = Operation> {
    let what = (
        keys(),
        modes(),
        prop_oneof![Just(0), any::<u32>()],
        exptimes(),
        values(),
    );
    let how = (
        prop::option::of(1..50_000_usize),
        some(cas()),
        any::<bool>(),
        some(given_cas()),
    );
    (what, how, some(exptimes()), flag()).prop_map(|(what, how, vivify, key_is_binary)| {
        let (key, mode, flags, exptime, value) = what;
        let (pieces, compare_cas, invalidate, new_cas) = how;
        // Add and replace come with no number: the protocol makes such requests a `cas`.
        let compared = matches!(mode, StoreMode::Set | StoreMode::Append | StoreMode::Prepend);
        Operation::Store {
            key,
            mode,
            flags,
            exptime,
            value,
            pieces,
            compare_cas: compare_cas.filter(|_| compared),
            invalidate,
            new_cas,
            vivify,
            key_is_binary,
        }
    })
}

fn deletes() -> impl Strategy<Value = Operation> {
    (
        keys(),
        some(cas()),
        any::<bool>(),
        flag(),
        some(exptimes()),
        some(given_cas()),
    )
        .prop_map(
            |(key, compare_cas, invalidate, drop_value, touch, new_cas)| Operation::Delete {
                key,
                compare_cas,
                invalidate,
                drop_value,
                touch,
                new_cas,
            },
        )
}

fn ariths() -> impl Strategy<Value = Operation> {
    (
        keys(),
        prop_oneof![0..20_u64, any::<u64>()],
        any::<bool>(),
        some(cas()),
        prop::option::of((any::<u64>(), exptimes())),
        some(exptimes()),
        some(given_cas()),
    )
        .prop_map(
            |(key, delta, decrement, compare_cas, initial, touch, new_cas)| Operation::Arith {
                key,
                delta,
                decrement,
                compare_cas,
                initial,
                touch,
                new_cas,
            },
        )
}

fn operations() -> impl Strategy<Value = Operation> {
    let delays = prop_oneof![Just(0), Just(-1), 1..5_i64, 1_799_999_999..1_800_000_030_i64];
    prop_oneof![
        8 => gets(),
        8 => stores(),
        1 => keys().prop_map(|key| Operation::Refuse { key }),
        3 => deletes(),
        3 => ariths(),
        2 => (keys(), exptimes()).prop_map(|(key, exptime)| Operation::Touch { key, exptime }),
        1 => delays.prop_map(|delay| Operation::Flush { delay }),
        3 => (0..12_u64).prop_map(|quarters| Operation::Wait { millis: quarters * 250 }),
        1 => Just(Operation::Maintain),
        1 => (any::<bool>(), 0..12_u64, 32..128_usize).prop_map(|(closes, quarters, mebibytes)| Operation::Restart {
            closes,
            millis: quarters * 250,
            mebibytes,
        }),
    ]
}

fn config() -> Config {
    Config {
        item_size_max: ITEM_SIZE_MAX,
        ..Config::new(MEMORY)
    }
}

/// Engine and model side by side.
struct Both {
    worker: Worker,
    model: Model,
    now: Now,
    /// CAS numbers seen for a key, the engine's and the model's, oldest first.
    seen: HashMap<usize, Vec<(u64, u64)>>,
}

fn key_bytes(key: usize) -> Vec<u8> {
    // Of different lengths, the longest allowed among them.
    let len = [1, 2, 7, 8, 30, 250][key];
    vec![b'a' + key as u8; len]
}

fn found(hit: Hit<'_>) -> Found {
    let mut value = Vec::new();
    hit.append_to(&mut value);
    assert_eq!(value.len(), hit.value_len());
    let pinned: Vec<u8> = hit.pins().flat_map(|pin| pin.as_ref().to_vec()).collect();
    assert_eq!(value, pinned);
    Found {
        value,
        flags: hit.flags,
        cas: hit.cas,
        ttl: hit.ttl,
        idle_secs: hit.idle_secs,
        fetched: hit.fetched,
        stale: hit.stale,
        win: hit.win,
        key_is_binary: hit.key_is_binary,
        created: hit.created,
    }
}

impl Both {
    fn new() -> Both {
        let config = config();
        let cache = Cache::new(config.clone()).unwrap();
        let mut both = Both {
            worker: cache.worker(),
            model: Model::new(config),
            now: Now::from_secs(2),
            seen: HashMap::new(),
        };
        both.turn(0);
        both
    }

    fn turn(&mut self, millis: u64) {
        self.now = self.now.plus_nanos(millis * 1_000_000);
        self.worker.go_idle();
        self.worker.begin_turn(self.now);
        self.model.begin_turn(self.now);
    }

    /// The same CAS number as the engine and as the model has it.
    fn cas(&self, key: usize, cas: Option<Cas>) -> (Option<u64>, Option<u64>) {
        match cas {
            None => (None, None),
            Some(Cas::Given(number)) => (Some(GIVEN_CAS + number), Some(GIVEN_CAS + number)),
            Some(Cas::Seen(back)) => {
                let seen = self.seen.get(&key).and_then(|seen| seen.iter().rev().nth(back));
                seen.map_or((Some(GIVEN_CAS), Some(GIVEN_CAS)), |(engine, model)| {
                    (Some(*engine), Some(*model))
                })
            }
        }
    }

    /// Notes a pair of CAS numbers; each must always be paired with the same.
    fn saw(&mut self, key: usize, engine: u64, model: u64) {
        let seen = self.seen.entry(key).or_default();
        let known = seen.iter().find(|pair| pair.0 == engine || pair.1 == model);
        match known {
            Some(pair) => assert_eq!(*pair, (engine, model), "CAS numbers"),
            None => seen.push((engine, model)),
        }
    }

    fn run(&mut self, operation: &Operation) {
        match operation {
            Operation::Get { .. } => self.get(operation),
            Operation::Store { .. } => self.store(operation),
            Operation::Delete { .. } => self.delete(operation),
            Operation::Arith { .. } => self.arith(operation),
            Operation::Refuse { key } => {
                self.worker.refuse(&key_bytes(*key), Refusal::TooLarge);
                self.model.refuse(&key_bytes(*key));
            }
            Operation::Touch { key, exptime } => {
                let key = key_bytes(*key);
                assert_eq!(
                    self.worker.touch(&key, *exptime),
                    self.model.touch(&key, *exptime)
                );
            }
            Operation::Flush { delay } => {
                self.worker.flush_all(*delay);
                self.model.flush_all(*delay);
            }
            Operation::Wait { millis } => self.turn(*millis),
            Operation::Maintain => self.maintain(),
            Operation::Restart {
                closes,
                millis,
                mebibytes,
            } => self.restart(*closes, *millis, *mebibytes),
        }
    }

    fn restart(&mut self, closes: bool, millis: u64, mebibytes: usize) {
        let cache = self.worker.cache().clone();
        let file = cache.memory_file().try_clone().unwrap();
        let elsewhere = Cache::new(Config::new(1 << 20)).unwrap();
        self.worker = elsewhere.worker();
        assert!(!closes || cache.close(self.now), "no worker is left");
        let items = cache.usage().items;
        drop(cache);
        self.now = self.now.plus_nanos(millis * 1_000_000);
        let kept = look(&file, &boot_id().unwrap()).unwrap().expect("a cache");
        assert!(kept.clean == closes && kept.latest <= self.now);
        let config = Config {
            memory_max: mebibytes << 20,
            // What the file says counts.
            hash_seed: 1,
            unix_millis_at_start: 0,
            ..config()
        };
        let (cache, recovered) = Cache::reopen(config, file, &kept, self.now).unwrap();
        assert_eq!((recovered.clean, recovered.items), (closes, items));
        assert_eq!((recovered.lost_to_checksums, recovered.lost_unreadable), (0, 0));
        cache.audit();
        self.worker = cache.worker();
        self.turn(0);
    }

    fn maintain(&mut self) {
        self.worker.go_idle();
        let cache = self.worker.cache().clone();
        for _ in 0..1000 {
            if !cache.maintain(self.now) {
                break;
            }
        }
        self.worker.begin_turn(self.now);
    }

    fn get(&mut self, operation: &Operation) {
        let Operation::Get {
            key,
            touch,
            vivify,
            recache_below,
            no_bump,
            leases,
            new_cas,
            key_is_binary,
        } = operation
        else {
            unreachable!()
        };
        let bytes = key_bytes(*key);
        let (new_cas, _) = self.cas(*key, *new_cas);
        let get = Get {
            key_is_binary: *key_is_binary,
            touch: *touch,
            vivify: *vivify,
            recache_below: *recache_below,
            no_bump: *no_bump,
            new_cas,
            leases: *leases,
            ..Get::key(&bytes)
        };
        let mut ours = self.worker.get(&get).map(found);
        let theirs = self.model.get(&get);
        if let (Some(ours), Some(theirs)) = (&mut ours, &theirs) {
            self.saw(*key, ours.cas, theirs.cas);
            ours.cas = theirs.cas;
        }
        assert_eq!(ours, theirs);
    }

    fn store(&mut self, operation: &Operation) {
        let Operation::Store {
            key,
            mode,
            flags,
            exptime,
            value,
            pieces,
            compare_cas,
            invalidate,
            new_cas,
            vivify,
            key_is_binary,
        } = operation
        else {
            unreachable!()
        };
        let value = match value {
            Value::Text(text) => text.clone(),
            Value::Number(number) => number.to_string().into_bytes(),
            Value::Padding(len) => (0..*len).map(|index| (index % 251) as u8).collect(),
        };
        let body = match pieces {
            None => Body::Bytes(&value),
            Some(len) => {
                let mut upload = self.worker.begin_upload(value.len(), *exptime);
                for piece in value.chunks(*len) {
                    upload.write(&mut self.worker, piece).unwrap();
                }
                assert_eq!(upload.missing(), 0);
                Body::Upload(upload)
            }
        };
        let bytes = key_bytes(*key);
        let (compare, compare_model) = self.cas(*key, *compare_cas);
        let (new_cas, _) = self.cas(*key, *new_cas);
        let store = |value, compare_cas| Store {
            key: &bytes,
            key_is_binary: *key_is_binary,
            mode: *mode,
            flags: *flags,
            exptime: *exptime,
            value,
            compare_cas,
            invalidate: *invalidate,
            new_cas,
            vivify: *vivify,
        };
        let mut ours = self.worker.store(store(body, compare));
        let theirs = self.model.store(&store(Body::Bytes(&value), compare_model));
        if let (StoreOutcome::Stored { cas: ours, .. }, StoreOutcome::Stored { cas: theirs, .. }) =
            (&mut ours, theirs)
        {
            self.saw(*key, *ours, theirs);
            *ours = theirs;
        }
        assert_eq!(ours, theirs);
    }

    fn delete(&mut self, operation: &Operation) {
        let Operation::Delete {
            key,
            compare_cas,
            invalidate,
            drop_value,
            touch,
            new_cas,
        } = operation
        else {
            unreachable!()
        };
        let bytes = key_bytes(*key);
        let (compare, compare_model) = self.cas(*key, *compare_cas);
        let (new_cas, _) = self.cas(*key, *new_cas);
        let delete = |compare_cas| Delete {
            key: &bytes,
            compare_cas,
            invalidate: *invalidate,
            touch: *touch,
            drop_value: *drop_value,
            new_cas,
        };
        assert_eq!(
            self.worker.delete(&delete(compare)),
            self.model.delete(&delete(compare_model))
        );
    }

    fn arith(&mut self, operation: &Operation) {
        let Operation::Arith {
            key,
            delta,
            decrement,
            compare_cas,
            initial,
            touch,
            new_cas,
        } = operation
        else {
            unreachable!()
        };
        let bytes = key_bytes(*key);
        let (compare, compare_model) = self.cas(*key, *compare_cas);
        let (new_cas, _) = self.cas(*key, *new_cas);
        let arith = |compare_cas| Arith {
            compare_cas,
            initial: *initial,
            touch: *touch,
            new_cas,
            ..Arith::key(&bytes, *delta, *decrement)
        };
        let mut ours = self.worker.arith(&arith(compare));
        let theirs = self.model.arith(&arith(compare_model));
        if let (ArithOutcome::Value { cas: ours, .. }, ArithOutcome::Value { cas: theirs, .. }) =
            (&mut ours, theirs)
        {
            self.saw(*key, *ours, theirs);
            *ours = theirs;
        }
        // A value in several pieces is no number, whatever its CAS number; how long that is, is the engine's business.
        let no_bump = true;
        let is_long = |found: Found| found.value.len() > 4096;
        if ours == ArithOutcome::NonNumeric
            && self
                .model
                .get(&Get {
                    no_bump,
                    ..Get::key(&bytes)
                })
                .is_some_and(is_long)
        {
            return;
        }
        assert_eq!(ours, theirs);
    }

    /// What is left, and that every item is accounted for.
    fn close(mut self) {
        for key in 0..6 {
            self.get(&Operation::Get {
                key,
                touch: None,
                vivify: None,
                recache_below: None,
                no_bump: true,
                leases: false,
                new_cas: None,
                key_is_binary: false,
            });
        }
        for _ in 0..8 {
            self.turn(250);
            self.maintain();
        }
        let cache = self.worker.cache().clone();
        let (usage, counters) = (cache.usage(), cache.counters());
        assert!(usage.items >= self.model.items() as u64, "items are missing");
        assert_eq!(
            counters.found + counters.created,
            counters.removed.total() + usage.items,
            "{counters:?}"
        );
        assert_eq!(counters.removed.evicted, 0, "there was room for everything");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn engine_does_what_the_model_does(operations in prop::collection::vec(operations(), 1..80)) {
        let mut both = Both::new();
        operations.iter().for_each(|operation| both.run(operation));
        both.close();
    }
}
