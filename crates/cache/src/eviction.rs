//! What an item is worth, which log it goes to for that, and which log gives up a segment when room is needed.
//!
//! GreedyDual-Size-Frequency (Cherkasova, 1998) on a log: an item's priority is the inflation at the time it was put
//! where it lies plus its density, (reads + 1) / bytes. Nothing moves on a hit. Each class of density has a log of
//! segments of its own, so that a segment holds items of like worth. The log whose oldest segment has the least
//! priority per byte gives that segment up: what was read there since is appended anew, the rest is evicted and
//! remembered. How the parts were chosen is told in docs/internals/eviction.md.

use std::ops::Range;

use scrubjay_base::sync::whole::{AtomicU32, AtomicU64, Ordering};

use crate::expiry::{BUCKETS, bucket};
use crate::ghost::Ghost;
use crate::index::KeyHash;
use crate::item::NEVER;
use crate::line::Heat;
use crate::sampler::{self, AGEINGS, Event, Sampler};
use crate::segment::SegmentHeader;
use crate::shadow::Ageing;

/// Classes of density, an octave each but the outer ones.
const CLASSES: usize = 8;

/// The class of an item of mean size that was not read yet.
const CLASS_OF_MEAN: i32 = 3;

/// Logs of what is stored: one a TTL bucket, one a class.
const LOGS_OF_STORED: usize = BUCKETS + CLASSES;

/// All logs: each has another for what compaction moves from such segments. That has outlived its neighbours and will outlive
/// new ones; among them it would be moved again and again.
pub(crate) const LOGS: usize = 2 * LOGS_OF_STORED;

/// Size taken for the mean before anything is known.
pub(crate) const MEAN_SIZE_AT_START: u32 = 256;

/// Words of what is learnt that a restart keeps.
pub(crate) const LEARNT_WORDS: usize = 3 + CLASSES;

/// Where an item is to be put, and what it counts for there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) log: usize,
    pub(crate) deadline: u32,
    /// Inflation that its priority starts from.
    base: f64,
    /// Reads + 1 per byte.
    density: f32,
}

impl Place {
    /// Adds `len` bytes put here to what the segment is worth.
    #[inline]
    pub(crate) fn credit(&self, segment: &SegmentHeader, len: usize) {
        let per_byte = self.base - segment.inflation() + f64::from(self.density);
        segment.add_worth(per_byte * len as f64);
    }
}

/// The logs of all classes, where `log` is one's; `None` if it is a TTL bucket's.
pub(crate) fn class_logs(log: usize) -> Option<Range<usize>> {
    let first = log / LOGS_OF_STORED * LOGS_OF_STORED + BUCKETS;
    (log >= first).then_some(first..first + CLASSES)
}

/// Reads + 1 per byte of an item of `size` bytes.
fn density(size: usize, heat: Heat) -> f32 {
    f32::from(heat.reads() + 1) / size.max(1) as f32
}

/// The class of density of an item where the mean item has `mean_size` bytes.
pub(crate) fn class_of(density: f32, mean_size: u32) -> usize {
    let times_mean = density * mean_size as f32;
    // The exponent of a positive number is the floor of its logarithm.
    let octave = (times_mean.to_bits() >> (f32::MANTISSA_DIGITS - 1)) as i32 - (f32::MAX_EXP - 1);
    (octave + CLASS_OF_MEAN).clamp(0, CLASSES as i32 - 1) as usize
}

/// Bytes that the state of eviction takes beside the heap of a cache of `memory_max` bytes until something is evicted.
pub(crate) fn bytes_of(memory_max: usize) -> usize {
    sampler::bytes_of(memory_max)
}

/// The state of eviction.
#[derive(Debug)]
pub(crate) struct Eviction {
    /// Written by the reclaimer; the bits of an f64.
    inflation: AtomicU64,
    /// Mean bytes of an item, written by the reclaimer.
    mean_size: AtomicU32,
    /// Ticks that items of each class stay before they are evicted: those that expire before belong to a TTL bucket.
    stay: [AtomicU32; CLASSES],
    /// How the inflation follows what is evicted; the bits of two f64. Written when the sampler has found a better way.
    tau: AtomicU64,
    age_max: AtomicU64,
    pub(crate) ghost: Ghost,
    pub(crate) sampler: Sampler,
    bytes: usize,
    /// Seconds since its last read of the item that was evicted last; written by the reclaimer.
    pub(crate) evicted_idle_secs: AtomicU32,
}

impl Eviction {
    pub(crate) fn new(memory_max: usize) -> Eviction {
        Eviction {
            inflation: AtomicU64::new(0f64.to_bits()),
            mean_size: AtomicU32::new(MEAN_SIZE_AT_START),
            stay: std::array::from_fn(|_| AtomicU32::new(NEVER)),
            tau: AtomicU64::new(AGEINGS[0].tau.to_bits()),
            age_max: AtomicU64::new(AGEINGS[0].age_max.to_bits()),
            ghost: Ghost::new(memory_max),
            sampler: Sampler::new(memory_max),
            bytes: bytes_of(memory_max),
            evicted_idle_secs: AtomicU32::new(0),
        }
    }

    /// Writes down what a restart is to keep; ghosts and shadows are not: they learn anew.
    pub(crate) fn save(&self, words: &[AtomicU64; LEARNT_WORDS]) {
        let tau = self.tau.load(Ordering::Relaxed);
        let ageing = AGEINGS.iter().position(|ageing| ageing.tau.to_bits() == tau);
        words[0].store(self.inflation.load(Ordering::Relaxed), Ordering::Relaxed);
        words[1].store(self.mean_size.load(Ordering::Relaxed).into(), Ordering::Relaxed);
        words[2].store(ageing.unwrap_or(0) as u64, Ordering::Relaxed);
        for (word, stay) in words[3..].iter().zip(&self.stay) {
            word.store(stay.load(Ordering::Relaxed).into(), Ordering::Relaxed);
        }
    }

    /// Takes over what was saved, as far as it can be.
    pub(crate) fn resume(&self, words: &[AtomicU64; LEARNT_WORDS]) {
        let word = |at: usize| words[at].load(Ordering::Relaxed);
        let inflation = f64::from_bits(word(0));
        if inflation.is_finite() && inflation >= 0.0 {
            self.inflation.store(inflation.to_bits(), Ordering::Relaxed);
        }
        if let Some(mean) = u32::try_from(word(1)).ok().filter(|mean| *mean > 0) {
            self.mean_size.store(mean, Ordering::Relaxed);
        }
        if let Some(ageing) = AGEINGS.get(word(2) as usize) {
            self.sampler.resume(word(2) as usize);
            self.set_ageing(ageing);
        }
        for (at, stay) in self.stay.iter().enumerate() {
            let ticks = u32::try_from(word(3 + at)).unwrap_or(NEVER).max(1);
            stay.store(ticks, Ordering::Relaxed);
        }
    }

    fn set_ageing(&self, ageing: &Ageing) {
        self.tau.store(ageing.tau.to_bits(), Ordering::Relaxed);
        self.age_max.store(ageing.age_max.to_bits(), Ordering::Relaxed);
    }

    pub(crate) fn inflation(&self) -> f64 {
        f64::from_bits(self.inflation.load(Ordering::Relaxed))
    }

    /// Tells the shadow caches what happened to a key, if it is one that they play. Cost: a mask for most keys.
    #[inline]
    pub(crate) fn note(&self, hash: KeyHash, tick: u32, event: impl FnOnce() -> Event) {
        if self.sampler.takes(hash)
            && let Some(ageing) = self.sampler.play(hash, event(), tick)
        {
            self.set_ageing(&ageing);
        }
    }

    /// Segments sealed after one before that one is too old to stay, when `allowed` segments make the cache.
    pub(crate) fn segments_behind_max(&self, allowed: u32) -> f64 {
        f64::from_bits(self.age_max.load(Ordering::Relaxed)) * f64::from(allowed)
    }

    /// Bytes of memory beside the heap.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.ghost.bytes()
    }

    /// Where an item of `size` bytes in all goes.
    #[inline]
    pub(crate) fn place(&self, size: usize, heat: Heat, deadline: u32, tick: u32) -> Place {
        let density = density(size, heat);
        let class = self.class(density);
        let expires_here =
            deadline != NEVER && deadline.saturating_sub(tick) < self.stay[class].load(Ordering::Relaxed);
        Place {
            log: if expires_here {
                bucket(deadline, tick)
            } else {
                BUCKETS + class
            },
            deadline,
            base: self.inflation(),
            density,
        }
    }

    fn class(&self, density: f32) -> usize {
        class_of(density, self.mean_size.load(Ordering::Relaxed))
    }

    /// Where what was read in an evicted segment of this worth goes.
    pub(crate) fn place_again(&self, size: usize, heat: Heat, deadline: u32, tick: u32, worth: f64) -> Place {
        let place = self.place(size, heat, deadline, tick);
        Place {
            base: place.base.max(worth),
            ..place
        }
    }

    /// Where compaction puts an item: its priority stays.
    pub(crate) fn place_survivor(
        &self,
        size: usize,
        heat: Heat,
        deadline: u32,
        tick: u32,
        from: &SegmentHeader,
    ) -> Place {
        let place = self.place(size, heat, deadline, tick);
        Place {
            base: from.inflation(),
            log: place.log + LOGS_OF_STORED,
            ..place
        }
    }

    /// A segment of priority `worth` per byte was evicted, `evicted` of its bytes had not been read; the cache holds
    /// `capacity` bytes.
    pub(crate) fn note_evicted(&self, worth: f64, evicted: u64, capacity: u64) {
        let inflation = self.inflation();
        if worth > inflation {
            let tau = f64::from_bits(self.tau.load(Ordering::Relaxed));
            let step = 1.0 - (-(evicted as f64) / (tau * capacity as f64)).exp();
            self.inflation.store(
                (inflation + step * (worth - inflation)).to_bits(),
                Ordering::Relaxed,
            );
        }
    }

    /// An item of `size` bytes in all was evicted from `segment`, whichever log that is in: where all items have
    /// deadlines, nothing else tells that they do not live until then.
    pub(crate) fn note_stay(&self, size: usize, heat: Heat, segment: &SegmentHeader, tick: u32) {
        let stay = &self.stay[self.class(density(size, heat))];
        let stayed = tick.saturating_sub(segment.opened_tick());
        let before = stay.load(Ordering::Relaxed);
        let now = if before == NEVER {
            stayed
        } else {
            before - before / 4 + stayed / 4
        };
        stay.store(now.max(1), Ordering::Relaxed);
    }

    pub(crate) fn note_mean_size(&self, bytes: u64, items: u64) {
        if let Some(mean) = bytes.checked_div(items) {
            self.mean_size
                .store(mean.clamp(1, 1 << 30) as u32, Ordering::Relaxed);
        }
    }
}
