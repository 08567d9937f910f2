//! Shadow caches beside the real one: some play other ageing of the inflation, and the best is taken over; others play
//! other sizes, and what they miss is the curve of what more or less memory would bring.
//!
//! Only keys whose hash falls into a sample are played. A shadow that comes to hold too many keys halves its sample and
//! its size, so memory stays bounded whatever the cache holds; so it does when the sample brings more events than a
//! hundredth of a core can play.

use scrubjay_base::sync::OwnLine;
use scrubjay_base::sync::whole::{AtomicU32, AtomicU64, Mutex, Ordering, TryLockError};

use crate::counters::CurvePoint;
use crate::index::KeyHash;
use crate::shadow::{Ageing, Shadow};

/// The ways of ageing that are tried; the first is used until another is better.
pub const AGEINGS: [Ageing; 4] = [
    Ageing::slow(0.03),
    Ageing::slow(0.3),
    Ageing::slow(4.0),
    Ageing {
        tau: 0.02,
        age_max: 1.0,
    },
];

/// Sizes of the curve, as multiples of the memory limit.
const FACTORS: [f64; 6] = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0];

/// Bytes of the cache for each key that a shadow may hold.
const BYTES_PER_KEY: usize = 128 << 10;

/// Keys that a shadow may hold at most, and the fewest that say anything.
const KEYS_MAX: usize = 4096;
const KEYS_MIN: usize = 256;

/// Bytes that a shadow takes for a key, about.
const KEY_BYTES: usize = 80;

/// One key in this many, as a power of two, is played at most.
const SHIFT_MIN: u32 = 4;

/// Events played in a tick before the samples are halved: at some 1.5 us each for all shadows, a hundredth of a core.
const EVENTS_PER_TICK: u32 = 1_600;

/// Decayed misses before a lead counts, and the lead that is needed to change.
const MISSES_MIN: f64 = 256.0;
const LEAD: f64 = 0.97;

/// The lead that a limit of age needs: while a cache fills it looks better than it is, and what it throws out is missed
/// for long.
const LEAD_OF_AGE: f64 = 0.9;

/// Whether `misses` are so much fewer than the `current` ones that this ageing is to be used instead.
pub fn leads(ageing: &Ageing, misses: f64, current: f64) -> bool {
    let lead = if ageing.age_max.is_finite() {
        LEAD_OF_AGE
    } else {
        LEAD
    };
    current > MISSES_MIN && misses < lead * current
}

/// What the shadows are asked to play.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// Asked for; the size in bytes and the deadline if the real cache has it.
    Read(Option<(u32, u32)>),
    /// Stored: size and deadline.
    Stored(u32, u32),
    /// Deleted.
    Deleted,
}

/// All shadows of a cache.
#[derive(Debug)]
pub(crate) struct Sampler {
    /// The largest sample of any shadow: one key in 2^this; 64 and more if none is played.
    shift: OwnLine<AtomicU32>,
    state: Mutex<State>,
    /// Events left out because another thread was at it.
    skipped: AtomicU64,
}

#[derive(Debug)]
struct State {
    keys_max: usize,
    /// The tick of the last event, and how many it had.
    tick: u32,
    events: u32,
    /// Bytes that the real cache has for items.
    capacity: u64,
    ageings: Vec<Sample>,
    current: usize,
    /// Bytes that the first of the ageings had inserted when misses were halved last.
    decayed_at: u64,
    sizes: Vec<Sample>,
}

/// A shadow and what it saw.
#[derive(Debug)]
struct Sample {
    factor: f64,
    shift: u32,
    shadow: Shadow,
    /// Misses since the start, each counted for all that its key stands for.
    misses: f64,
    /// Misses, halved now and then.
    recent_misses: f64,
}

impl Sample {
    fn new(factor: f64, ageing: Ageing, keys_max: usize) -> Sample {
        Sample {
            factor,
            shift: SHIFT_MIN,
            shadow: Shadow::new(1, ageing, keys_max),
            misses: 0.0,
            recent_misses: 0.0,
        }
    }

    fn takes(&self, hash: KeyHash) -> bool {
        in_sample(hash, self.shift)
    }

    fn fit(&mut self, capacity: u64) {
        let capacity = (capacity as f64 * self.factor) as u64;
        self.shadow.set_capacity(capacity >> self.shift);
    }

    fn play(&mut self, hash: KeyHash, event: Event, tick: u32) {
        match event {
            Event::Read(real) => {
                let weight = (1u64 << self.shift) as f64;
                if !self.shadow.read(hash.0, tick) {
                    self.misses += weight;
                    self.recent_misses += 1.0;
                    if let Some((size, deadline)) = real {
                        self.shadow.store(hash.0, size, deadline, tick);
                    }
                }
            }
            Event::Stored(size, deadline) => self.shadow.store(hash.0, size, deadline, tick),
            Event::Deleted => self.shadow.remove(hash.0),
        }
    }

    fn halve(&mut self, capacity: u64) {
        self.shift += 1;
        let shift = self.shift;
        self.shadow.retain(|hash| in_sample(KeyHash(hash), shift));
        self.fit(capacity);
        self.recent_misses /= 2.0;
    }
}

/// Keys that a shadow of a cache of `memory_max` bytes may hold; 0 if that would be too few.
fn keys_of(memory_max: usize) -> usize {
    let keys = (memory_max / BYTES_PER_KEY).min(KEYS_MAX);
    if keys < KEYS_MIN { 0 } else { keys }
}

/// Bytes that the shadows of a cache of `memory_max` bytes may take.
pub(crate) fn bytes_of(memory_max: usize) -> usize {
    (AGEINGS.len() + FACTORS.len()) * keys_of(memory_max) * KEY_BYTES
}

/// Middle bits: the outer ones choose places in the index and in ghosts.
fn in_sample(hash: KeyHash, shift: u32) -> bool {
    (hash.0 >> 24) & ((1 << shift) - 1) == 0
}

impl Sampler {
    /// Shadows of a cache of `memory_max` bytes; none if it is too small to learn from a sample.
    pub(crate) fn new(memory_max: usize) -> Sampler {
        let keys_max = keys_of(memory_max);
        let enough = keys_max > 0;
        let samples = |count: usize| if enough { count } else { 0 };
        let ageings: Vec<Sample> = (AGEINGS.iter().take(samples(AGEINGS.len())))
            .map(|ageing| Sample::new(1.0, *ageing, keys_max))
            .collect();
        let sizes: Vec<Sample> = (FACTORS.iter().take(samples(FACTORS.len())))
            .map(|factor| Sample::new(*factor, AGEINGS[0], keys_max))
            .collect();
        Sampler {
            shift: OwnLine(AtomicU32::new(if enough { SHIFT_MIN } else { u64::BITS })),
            state: Mutex::new(State {
                keys_max,
                tick: 0,
                events: 0,
                capacity: 0,
                ageings,
                current: 0,
                decayed_at: 0,
                sizes,
            }),
            skipped: AtomicU64::new(0),
        }
    }

    /// Whether events of this key are played.
    #[inline]
    pub(crate) fn takes(&self, hash: KeyHash) -> bool {
        let shift = self.shift.0.load(Ordering::Relaxed);
        shift < u64::BITS && in_sample(hash, shift)
    }

    /// Plays an event of a key that [`Sampler::takes`]; returns the ageing to use from now on if another has become
    /// better. While another thread plays, the event is left out.
    pub(crate) fn play(&self, hash: KeyHash, event: Event, tick: u32) -> Option<Ageing> {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::WouldBlock) => {
                self.skipped.fetch_add(1, Ordering::Relaxed);
                return None;
            }
            Err(TryLockError::Poisoned(_)) => return None,
        };
        let better = state.play(hash, event, tick);
        // Every reader looks there: nothing is written that is there already.
        if state.shift() != self.shift.0.load(Ordering::Relaxed) {
            self.shift.0.store(state.shift(), Ordering::Relaxed);
        }
        better
    }

    /// The ageing of this number is in use already.
    pub(crate) fn resume(&self, ageing: usize) {
        let mut state = self.state.lock().expect("nothing panics while it plays");
        if ageing < state.ageings.len() {
            state.current = ageing;
            let sizes = state.sizes.iter_mut();
            sizes.for_each(|sample| sample.shadow.set_ageing(AGEINGS[ageing]));
        }
    }

    /// The real cache has `bytes` for items.
    pub(crate) fn set_capacity(&self, bytes: u64) {
        let mut state = self.state.lock().expect("nothing panics while it plays");
        if state.capacity != bytes {
            state.capacity = bytes;
            let State { ageings, sizes, .. } = &mut *state;
            ageings
                .iter_mut()
                .chain(sizes)
                .for_each(|sample| sample.fit(bytes));
        }
    }

    /// What other sizes would have missed of all `reads` since the start. The misses of the sample are set against all
    /// reads, not against its own: whether a very popular key is in the sample then makes no difference (SHARDS, 5.2).
    pub(crate) fn curve(&self, memory_max: u64, reads: u64) -> Vec<CurvePoint> {
        let state = self.state.lock().expect("nothing panics while it plays");
        let point = |sample: &Sample| CurvePoint {
            factor: sample.factor,
            memory_max: (memory_max as f64 * sample.factor) as u64,
            miss_ratio: (reads > 0).then(|| (sample.misses / reads as f64).min(1.0)),
            keys: sample.shadow.len() as u64,
            sample: 1 << sample.shift,
        };
        state.sizes.iter().map(point).collect()
    }
}

impl State {
    fn shift(&self) -> u32 {
        let samples = self.ageings.iter().chain(&self.sizes);
        samples.map(|sample| sample.shift).min().unwrap_or(u64::BITS)
    }

    fn play(&mut self, hash: KeyHash, event: Event, tick: u32) -> Option<Ageing> {
        let (keys_max, capacity) = (self.keys_max, self.capacity);
        if self.tick != tick {
            (self.tick, self.events) = (tick, 0);
        }
        self.events += 1;
        if self.events == EVENTS_PER_TICK {
            self.halve_largest();
        }
        for sample in self.sizes.iter_mut().filter(|sample| sample.takes(hash)) {
            sample.play(hash, event, tick);
            if sample.shadow.len() > keys_max {
                sample.halve(capacity);
            }
        }
        if self.ageings.first().is_some_and(|sample| sample.takes(hash)) {
            for sample in &mut self.ageings {
                sample.play(hash, event, tick);
            }
            if self.ageings.iter().any(|sample| sample.shadow.len() > keys_max) {
                self.halve_ageings();
            }
            return self.choose();
        }
        None
    }

    /// Halves the samples that take most keys. The first of a tick to be one too many is played all the same.
    fn halve_largest(&mut self) {
        let (shift, capacity) = (self.shift(), self.capacity);
        self.events = 0;
        let sizes = self.sizes.iter_mut().filter(|sample| sample.shift == shift);
        sizes.for_each(|sample| sample.halve(capacity));
        if self.ageings.first().is_some_and(|sample| sample.shift == shift) {
            self.halve_ageings();
        }
    }

    /// The ageings are compared with each other: all have the same sample.
    fn halve_ageings(&mut self) {
        let capacity = self.capacity;
        self.ageings.iter_mut().for_each(|sample| sample.halve(capacity));
        self.decayed_at = self.ageings[0].shadow.traffic().0;
    }

    fn choose(&mut self) -> Option<Ageing> {
        let misses = |sample: &Sample| sample.recent_misses;
        let current = misses(&self.ageings[self.current]);
        let rivals = self.ageings.iter().enumerate();
        let best = rivals
            .filter(|(at, sample)| leads(&AGEINGS[*at], misses(sample), current))
            .min_by(|one, other| misses(one.1).total_cmp(&misses(other.1)))
            .map(|(at, _)| at);
        let inserted = self.ageings[0].shadow.traffic().0;
        if inserted - self.decayed_at > self.capacity >> self.ageings[0].shift {
            self.decayed_at = inserted;
            self.ageings
                .iter_mut()
                .for_each(|sample| sample.recent_misses /= 2.0);
        }
        let best = best?;
        self.current = best;
        let ageing = AGEINGS[best];
        self.sizes
            .iter_mut()
            .for_each(|sample| sample.shadow.set_ageing(ageing));
        Some(ageing)
    }
}
