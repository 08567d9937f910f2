//! What an operator sees of requests beyond their counts: how long they take, which keys are hot, how many keys a prefix has.
//!
//! Each worker observes its own requests and writes memory of its own; others read it as it is. Two readings of the clock for
//! each request would cost pipelined ones a fifth of their time, so one request in `-o sample_interval` is measured. Which one
//! is drawn each time anew, with that mean: a client's pattern cannot fall in step with it. What is counted of stores, by
//! TTL and by prefix, is counted of each.

mod histogram;
mod hot_keys;
mod key_hash;
mod prefixes;
mod sketch;
pub(crate) mod ttl;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use scrubjay_base::time::Now;
use scrubjay_cache::{ArithOutcome, DeleteOutcome, Store, StoreOutcome};

pub use self::histogram::{Distribution, OCTAVE_BOUNDS};
use self::histogram::{Histogram, Sums};
pub use self::hot_keys::HotKey;
use self::hot_keys::HotKeys;
use self::key_hash::key_hash;
pub use self::prefixes::PrefixKeys;
use self::prefixes::Prefixes;
use crate::service::Shared;

/// What was asked, and what came of it: a row of `stats latency`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is named and explained in `KINDS`")]
#[repr(u8)]
pub enum Kind {
    GetHit,
    GetMiss,
    GetMany,
    TouchHit,
    TouchMiss,
    SetStored,
    SetNotStored,
    SetRefused,
    DeleteHit,
    DeleteMiss,
    DeleteRefused,
    ArithHit,
    ArithMiss,
    ArithRefused,
}

/// THE table of kinds: command, outcome, and which requests these are.
pub const KINDS: &[(Kind, &str, &str, &str)] = &[
    (Kind::GetHit, "get", "hit", "look-ups of one key that was there"),
    (
        Kind::GetMiss,
        "get",
        "miss",
        "look-ups of one key that was not there",
    ),
    (
        Kind::GetMany,
        "get",
        "many",
        "look-ups of several keys, each request as a whole",
    ),
    (
        Kind::TouchHit,
        "touch",
        "hit",
        "`touch`, `gat` and their like of a key that was there",
    ),
    (
        Kind::TouchMiss,
        "touch",
        "miss",
        "`touch`, `gat` and their like of a key that was not there",
    ),
    (
        Kind::SetStored,
        "set",
        "stored",
        "stores of any kind that were carried out",
    ),
    (
        Kind::SetNotStored,
        "set",
        "not_stored",
        "stores whose condition did not hold",
    ),
    (
        Kind::SetRefused,
        "set",
        "refused",
        "stores that were too large, or for which there was no memory",
    ),
    (
        Kind::DeleteHit,
        "delete",
        "hit",
        "deletions of a key that was there",
    ),
    (
        Kind::DeleteMiss,
        "delete",
        "miss",
        "deletions of a key that was not there",
    ),
    (
        Kind::DeleteRefused,
        "delete",
        "refused",
        "deletions whose condition did not hold, or for which there was no memory",
    ),
    (
        Kind::ArithHit,
        "arith",
        "hit",
        "`incr` and `decr` of a number that was there",
    ),
    (
        Kind::ArithMiss,
        "arith",
        "miss",
        "`incr` and `decr` of a number that was not there, or was made",
    ),
    (
        Kind::ArithRefused,
        "arith",
        "refused",
        "`incr` and `decr` of what is no number, or for which there was no memory",
    ),
];

/// Where the present moment is read in the middle of a turn, for measuring and nothing else.
#[derive(Clone)]
pub struct Stopwatch(Arc<dyn Fn() -> Now + Send + Sync>);

impl Stopwatch {
    /// By the clock that `now` reads; the same that workers get their moments from.
    pub fn new(now: impl Fn() -> Now + Send + Sync + 'static) -> Stopwatch {
        Stopwatch(Arc::new(now))
    }

    fn now(&self) -> Now {
        (self.0)()
    }
}

impl std::fmt::Debug for Stopwatch {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Stopwatch")
    }
}

/// In [`Observed::kind`]: nothing was done yet.
const NONE: u8 = u8::MAX;

/// What one worker has observed. Written by that worker only; whoever reads finds each number whole, but not all of one
/// moment. That is enough for statistics.
#[derive(Debug)]
pub(crate) struct Observed {
    /// Operations until the next one that is sampled.
    left: AtomicU32,
    /// What chance has come to.
    chance: AtomicU64,
    /// When the measured request was taken up, in nanoseconds.
    taken_up: AtomicU64,
    /// A request is being measured.
    is_measuring: AtomicBool,
    /// What the measured request has turned out to be; [`NONE`]: nothing yet.
    kind: AtomicU8,
    /// It asks for several keys.
    is_many: AtomicBool,
    service: Box<[Histogram]>,
    wait: Box<[Histogram]>,
    pub(crate) ttls: [AtomicU64; ttl::CLASSES],
    hot_keys: Mutex<HotKeys>,
    prefixes: Prefixes,
}

impl Default for Observed {
    fn default() -> Observed {
        let histograms = || KINDS.iter().map(|_| Histogram::default()).collect();
        Observed {
            left: AtomicU32::new(0),
            chance: AtomicU64::new(0x9e37_79b9_7f4a_7c15),
            taken_up: AtomicU64::new(0),
            is_measuring: AtomicBool::new(false),
            kind: AtomicU8::new(NONE),
            is_many: AtomicBool::new(false),
            service: histograms(),
            wait: histograms(),
            ttls: Default::default(),
            hot_keys: Mutex::default(),
            prefixes: Prefixes::default(),
        }
    }
}

impl Observed {
    /// Whether the next operation is sampled, and the request that makes it is to be measured.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }

    /// A request is taken up. If it is due, it is measured until [`Observed::answered`].
    pub(crate) fn take_up(&self, shared: &Shared) {
        let is_wanted = self.is_due() && shared.options.sample_interval > 0;
        let Some(stopwatch) = shared.stopwatch.get().filter(|_| is_wanted) else {
            return;
        };
        self.taken_up.store(stopwatch.now().nanos(), Ordering::Relaxed);
        self.kind.store(NONE, Ordering::Relaxed);
        self.is_many.store(false, Ordering::Relaxed);
        self.is_measuring.store(true, Ordering::Relaxed);
    }

    /// The request asks for several keys.
    #[inline]
    pub(crate) fn note_many(&self) {
        self.is_many.store(true, Ordering::Relaxed);
    }

    /// An operation on `key` was done.
    #[inline]
    pub(crate) fn note(&self, shared: &Shared, now: Now, key: &[u8], kind: Kind) {
        match self.left.load(Ordering::Relaxed) {
            0 => self.sample(shared, now, key, kind),
            left => self.left.store(left - 1, Ordering::Relaxed),
        }
    }

    #[cold]
    fn sample(&self, shared: &Shared, now: Now, key: &[u8], kind: Kind) {
        let interval = shared.options.sample_interval;
        self.left.store(self.draw(interval), Ordering::Relaxed);
        if interval == 0 {
            return;
        }
        if self.kind.load(Ordering::Relaxed) == NONE {
            self.kind.store(kind as u8, Ordering::Relaxed);
        }
        // Whoever is reading them keeps this one out; a worker waits for nobody.
        if let Ok(mut hot_keys) = self.hot_keys.try_lock() {
            hot_keys.note(key_hash(key, seed(shared)), key, now);
        }
    }

    /// Operations that are passed over next: `interval` less one on the average, any number up to twice that.
    fn draw(&self, interval: u32) -> u32 {
        if interval == 0 {
            return u32::MAX;
        }
        // xorshift64. It decides nothing but which requests are measured.
        let mut chance = self.chance.load(Ordering::Relaxed);
        chance ^= chance << 13;
        chance ^= chance >> 7;
        chance ^= chance << 17;
        self.chance.store(chance, Ordering::Relaxed);
        let span = u64::from(2 * interval - 1);
        (((chance >> 32) * span) >> 32) as u32
    }

    /// The reply of the measured request is made; its turn began at `turn`.
    pub(crate) fn answered(&self, shared: &Shared, turn: Now) {
        if !self.is_measuring.load(Ordering::Relaxed) {
            return;
        }
        self.is_measuring.store(false, Ordering::Relaxed);
        let kind = usize::from(self.kind.load(Ordering::Relaxed));
        let is_many = self.is_many.load(Ordering::Relaxed);
        // A request without an operation, or of which only a part has come, leaves its turn to the next.
        let kind = match KINDS.get(kind) {
            Some((Kind::GetHit | Kind::GetMiss, ..)) if is_many => Kind::GetMany as usize,
            Some(_) => kind,
            None => return,
        };
        let Some(stopwatch) = shared.stopwatch.get() else {
            return;
        };
        let taken_up = Now::from_nanos(self.taken_up.load(Ordering::Relaxed));
        self.service[kind].add(stopwatch.now().nanos_since(taken_up));
        self.wait[kind].add(taken_up.nanos_since(turn));
    }

    /// A store is asked for.
    #[inline]
    pub(crate) fn note_store(&self, shared: &Shared, now: Now, store: &Store<'_>) {
        let unix_secs = || (shared.cache.config().unix_millis_at_start + now.millis()) / 1000;
        let class = &self.ttls[ttl::class(store.mode, store.exptime, unix_secs)];
        class.store(class.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        if shared.options.sample_interval > 0 {
            let delimiter = shared.options.stat_delimiter as u8;
            self.prefixes.note(store.key, delimiter, seed(shared));
        }
    }
}

/// Nobody outside can make keys meet in a sketch.
fn seed(shared: &Shared) -> u64 {
    shared.cache.config().hash_seed
}

/// What a store turned out to be.
pub(crate) fn kind_of_store(outcome: StoreOutcome) -> Kind {
    match outcome {
        StoreOutcome::Stored { .. } => Kind::SetStored,
        StoreOutcome::Refused(_) => Kind::SetRefused,
        StoreOutcome::Exists | StoreOutcome::NotFound | StoreOutcome::NotStored => Kind::SetNotStored,
    }
}

/// What a deletion turned out to be.
pub(crate) fn kind_of_delete(outcome: DeleteOutcome) -> Kind {
    match outcome {
        DeleteOutcome::Deleted => Kind::DeleteHit,
        DeleteOutcome::NotFound => Kind::DeleteMiss,
        DeleteOutcome::Exists | DeleteOutcome::NoMemory => Kind::DeleteRefused,
    }
}

/// What arithmetic turned out to be.
pub(crate) fn kind_of_arith(outcome: ArithOutcome) -> Kind {
    match outcome {
        ArithOutcome::Value { created: false, .. } => Kind::ArithHit,
        ArithOutcome::Value { created: true, .. } | ArithOutcome::NotFound => Kind::ArithMiss,
        ArithOutcome::NonNumeric | ArithOutcome::Exists | ArithOutcome::NoMemory => Kind::ArithRefused,
    }
}

/// What all workers observed until `stats reset`, to be subtracted.
#[derive(Debug, Default)]
pub(crate) struct Before {
    service: Vec<Sums>,
    wait: Vec<Sums>,
    pub(crate) ttls: [u64; ttl::CLASSES],
}

/// How long requests of a kind took.
#[derive(Clone, Debug)]
pub struct Latency {
    /// As in [`KINDS`].
    pub command: &'static str,
    /// As in [`KINDS`].
    pub outcome: &'static str,
    /// From taking the request up to its reply.
    pub service: Distribution,
    /// From the start of the turn, when the loop knew of the connection, until the request was taken up.
    pub wait: Distribution,
}

fn workers(shared: &Shared) -> Vec<Arc<crate::stats::WorkerCounters>> {
    shared
        .counters
        .lock()
        .expect("nothing panics under this lock")
        .clone()
}

fn sums(shared: &Shared, of: fn(&Observed) -> &[Histogram]) -> Vec<Sums> {
    let workers = workers(shared);
    let sum = |number: usize| Sums::of(workers.iter().map(|worker| &of(&worker.observed)[number]));
    (0..KINDS.len()).map(sum).collect()
}

/// Every kind of request with how long it took, since the last `stats reset`. Cost: reads some ten thousand numbers a worker.
pub fn latencies(shared: &Shared) -> Vec<Latency> {
    let before = crate::stats::baseline(shared).observed;
    let service = sums(shared, |observed| &observed.service);
    let wait = sums(shared, |observed| &observed.wait);
    let numbered = KINDS.iter().enumerate();
    let latency =
        |(number, (_, command, outcome, _)): (usize, &(Kind, &'static str, &'static str, &str))| Latency {
            command,
            outcome,
            service: service[number].since(before.service.get(number)),
            wait: wait[number].since(before.wait.get(number)),
        };
    numbered.map(latency).collect()
}

/// Sets by class of TTL since the start, as counted by all workers.
fn ttl_sums(shared: &Shared) -> [u64; ttl::CLASSES] {
    let mut sums = [0; ttl::CLASSES];
    for worker in workers(shared) {
        let counts = worker.observed.ttls.iter();
        sums.iter_mut()
            .zip(counts)
            .for_each(|(sum, count)| *sum += count.load(Ordering::Relaxed));
    }
    sums
}

/// Sets by class of TTL since the last `stats reset`: the name of each class and its count.
pub fn sets_by_ttl(shared: &Shared) -> Vec<(&'static str, u64)> {
    let before = crate::stats::baseline(shared).observed.ttls;
    let counts = ttl_sums(shared).into_iter().zip(before);
    let names = ttl::NAMES.iter();
    names
        .zip(counts)
        .map(|(name, (now, before))| (*name, now - before))
        .collect()
}

/// The keys that are asked for most, most first, at most `count`. Cost: a look at each worker's, which holds that worker up
/// for nothing.
pub fn hot_keys(shared: &Shared, now: Now, count: usize) -> Vec<HotKey> {
    let interval = f64::from(shared.options.sample_interval);
    let mut merged = std::collections::BTreeMap::new();
    for worker in workers(shared) {
        let hot_keys = worker.observed.hot_keys.lock();
        hot_keys
            .expect("nothing panics under this lock")
            .add_to(&mut merged, now, interval);
    }
    hot_keys::sorted(merged, count)
}

/// How many keys were stored under each prefix, most first.
pub fn prefixes(shared: &Shared) -> Vec<PrefixKeys> {
    let workers = workers(shared);
    prefixes::merged(workers.iter().map(|worker| &worker.observed.prefixes))
}

/// What `stats reset` subtracts from now on; what cannot be subtracted is forgotten.
pub(crate) fn reset(shared: &Shared) -> Before {
    for worker in workers(shared) {
        let observed = &worker.observed;
        let hot_keys = observed.hot_keys.lock();
        *hot_keys.expect("nothing panics under this lock") = HotKeys::default();
        observed.prefixes.forget();
    }
    Before {
        service: sums(shared, |observed| &observed.service),
        wait: sums(shared, |observed| &observed.wait),
        ttls: ttl_sums(shared),
    }
}

#[cfg(test)]
mod tests {
    use super::{KINDS, Observed};

    #[test]
    fn each_kind_is_the_row_of_its_number() {
        for (number, (kind, ..)) in KINDS.iter().enumerate() {
            assert_eq!(*kind as usize, number);
        }
    }

    #[test]
    fn one_in_the_interval_is_drawn_on_the_average_and_no_pattern_is_kept() {
        let observed = Observed::default();
        let draws: Vec<u32> = (0..10_000).map(|_| observed.draw(16)).collect();
        let mean = f64::from(draws.iter().sum::<u32>()) / draws.len() as f64;
        assert!((mean - 15.0).abs() < 0.5, "{mean}");
        for wanted in 0..=30 {
            assert!(draws.contains(&wanted), "{wanted} never comes");
        }
        assert!(draws.iter().all(|draw| *draw <= 30));
        assert_eq!(observed.draw(1), 0);
        assert_eq!(observed.draw(0), u32::MAX);
    }
}
