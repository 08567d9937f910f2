//! Shadow caches beside the real one: some play other ageing of the inflation, and the best is taken over; others play
//! other sizes, and what they miss is the curve of what more or less memory would bring.
//!
//! Only keys whose hash falls into a sample are played. A shadow that comes to hold too many keys halves its sample and
//! its size, so memory stays bounded whatever the cache holds; so it does when the samples bring more than a hundredth of a
//! core can play.
//!
//! A cache of another size would choose its ageing by itself, so each size has rivals of its own. What the real cache missed is
//! known exactly, and what it missed of a sample too: a size is told by what it missed for each that the real one
//! missed of the same sample. Chance puts keys that are missed often into both or into neither.

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

/// Keys that a shadow of another size may hold at most: with 1,024, six of 96 points were more than two off.
const KEYS_OF_OTHERS_MAX: usize = 1536;

/// Bytes that a shadow takes for a key, about.
const KEY_BYTES: usize = 80;

/// Of the keys, one in two to this power is played at first: all where misses are counted, fewer where ageings are compared.
const SHIFT_AT_FIRST: u32 = 0;
const SHIFT_OF_CONTESTS: u32 = 4;

/// The real cache depends on one of the contests: its sample counts as smaller by this shift when one must be halved.
const SPARED_SHIFT: u32 = 2;

/// Shadows that play in a tick for a hundredth of a core, at some 250 ns each.
const PLAYS_PER_TICK: i64 = 10_000;

/// Ticks whose plays can be saved up, and are at the start: half a minute.
const TICKS_SAVED: i64 = 120;

/// What does not hold items gets less by this power as a cache gets larger: ends of segments and open segments do, dead bytes do not.
const WASTE_POWER: f64 = -0.7;

/// A larger share of a segment is not wasted where it is small: large values come in pieces.
const WASTE_MAX: f64 = 0.18;

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
    /// The tick of the last event, and how many shadows may play before samples are halved.
    tick: u32,
    credit: i64,
    /// What the real cache has for items.
    room: Room,
    sizes: Vec<Size>,
}

/// What a cache has for items.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Room {
    /// Bytes of all segments.
    bytes: u64,
    /// Share of the bytes of segments in use in which nothing lives.
    waste: f64,
}

impl Room {
    /// Bytes of items that a sample of a cache with `factor` times the segments holds.
    fn of_sample(&self, factor: f64, shift: u32) -> u64 {
        let most = self.waste.max(WASTE_MAX);
        let waste = (self.waste * factor.powf(WASTE_POWER)).min(most);
        ((self.bytes as f64 * factor * (1.0 - waste)) as u64) >> shift
    }
}

/// A cache of some size.
#[derive(Debug)]
struct Size {
    factor: f64,
    /// Plays with the ageing that is best now; `None` for the size of the real cache, which does that itself.
    own: Option<Own>,
    contest: Contest,
}

/// What a cache of another size would hold and miss.
#[derive(Debug)]
struct Own {
    shift: u32,
    keys_max: usize,
    shadow: Shadow,
    /// Misses since the start, each counted for all that its key stands for.
    misses: f64,
    /// Misses of the real cache in the same reads.
    real_misses: f64,
}

/// Shadows of one size that differ in ageing, to find the best.
#[derive(Debug)]
struct Contest {
    shift: u32,
    keys_max: usize,
    /// One for each of [`AGEINGS`]; none where a cache of that size would compare none.
    rivals: Vec<Rival>,
    current: usize,
    /// Bytes that the first of the rivals had inserted when misses were halved last.
    decayed_at: u64,
}

#[derive(Debug)]
struct Rival {
    shadow: Shadow,
    /// Misses, halved now and then.
    recent_misses: f64,
}

/// Plays an event; whether it was a read that missed.
fn play(shadow: &mut Shadow, hash: KeyHash, event: Event, tick: u32) -> bool {
    match event {
        Event::Read(real) => {
            let is_hit = shadow.read(hash.0, tick);
            if let Some((size, deadline)) = real
                && !is_hit
            {
                shadow.store(hash.0, size, deadline, tick);
            }
            return !is_hit;
        }
        Event::Stored(size, deadline) => shadow.store(hash.0, size, deadline, tick),
        Event::Deleted => shadow.remove(hash.0),
    }
    false
}

impl Own {
    fn play(&mut self, hash: KeyHash, event: Event, tick: u32) {
        let weight = (1u64 << self.shift) as f64;
        if matches!(event, Event::Read(None)) {
            self.real_misses += weight;
        }
        // What the real one has and a shadow that never evicted has not was there before the shadow began.
        let began_later = !self.shadow.has_evicted() && matches!(event, Event::Read(Some(_)));
        if play(&mut self.shadow, hash, event, tick) && !(began_later && self.shadow.holds(hash.0)) {
            self.misses += weight;
        }
    }

    fn halve(&mut self, factor: f64, room: &Room) {
        self.shift += 1;
        let shift = self.shift;
        self.shadow.retain(|hash| in_sample(KeyHash(hash), shift));
        self.shadow.set_capacity(room.of_sample(factor, shift));
    }
}

impl Contest {
    fn new(keys_max: usize) -> Contest {
        let rival = |ageing: &Ageing| Rival {
            shadow: Shadow::new(1, *ageing, keys_max),
            recent_misses: 0.0,
        };
        Contest {
            shift: SHIFT_OF_CONTESTS,
            keys_max,
            rivals: AGEINGS
                .iter()
                .map(rival)
                .take(if keys_max > 0 { AGEINGS.len() } else { 0 })
                .collect(),
            current: 0,
            decayed_at: 0,
        }
    }

    /// Plays an event; the ageing to use from now on if another has become better.
    fn play(&mut self, hash: KeyHash, event: Event, tick: u32) -> Option<Ageing> {
        if self.rivals.is_empty() {
            return None;
        }
        for rival in &mut self.rivals {
            if play(&mut rival.shadow, hash, event, tick) {
                rival.recent_misses += 1.0;
            }
        }
        let current = self.rivals[self.current].recent_misses;
        let rivals = self.rivals.iter().enumerate();
        let best = rivals
            .filter(|(at, rival)| leads(&AGEINGS[*at], rival.recent_misses, current))
            .min_by(|one, other| one.1.recent_misses.total_cmp(&other.1.recent_misses))
            .map(|(at, _)| at);
        if self.inserted() - self.decayed_at > self.rivals[0].shadow.capacity() {
            self.decayed_at = self.inserted();
            let rivals = self.rivals.iter_mut();
            rivals.for_each(|rival| rival.recent_misses /= 2.0);
        }
        self.current = best?;
        Some(AGEINGS[self.current])
    }

    fn inserted(&self) -> u64 {
        self.rivals.first().map_or(0, |rival| rival.shadow.traffic().0)
    }

    fn is_full(&self) -> bool {
        let mut rivals = self.rivals.iter();
        rivals.any(|rival| rival.shadow.len() > self.keys_max)
    }

    /// All have the same sample, as they are compared with each other.
    fn halve(&mut self, factor: f64, room: &Room) {
        self.shift += 1;
        let shift = self.shift;
        for rival in &mut self.rivals {
            rival.shadow.retain(|hash| in_sample(KeyHash(hash), shift));
            rival.recent_misses /= 2.0;
        }
        self.fit(factor, room);
        self.decayed_at = self.inserted();
    }

    fn fit(&mut self, factor: f64, room: &Room) {
        let capacity = ((room.bytes as f64 * factor) as u64) >> self.shift;
        let rivals = self.rivals.iter_mut();
        rivals.for_each(|rival| rival.shadow.set_capacity(capacity));
    }
}

impl Size {
    /// Of a cache with `factor` times the memory of one of `memory_max` bytes.
    fn new(factor: f64, memory_max: usize) -> Size {
        let keys_max = keys_of(memory_max).min(KEYS_OF_OTHERS_MAX);
        let own = Own {
            shift: SHIFT_AT_FIRST,
            keys_max,
            shadow: Shadow::new(1, AGEINGS[0], keys_max),
            misses: 0.0,
            real_misses: 0.0,
        };
        Size {
            factor,
            own: (factor != 1.0).then_some(own),
            contest: Contest::new(contest_keys_of(memory_max, factor)),
        }
    }

    /// Plays an event; how many shadows did, and the ageing to use from now on if another has become better.
    fn play(&mut self, hash: KeyHash, event: Event, tick: u32, room: &Room) -> (i64, Option<Ageing>) {
        let (mut plays, mut better) = (0, None);
        if in_sample(hash, self.contest.shift) {
            plays += self.contest.rivals.len() as i64;
            better = self.contest.play(hash, event, tick);
            if self.contest.is_full() {
                self.contest.halve(self.factor, room);
            }
        }
        if let Some(own) = &mut self.own {
            if in_sample(hash, own.shift) {
                plays += 1;
                own.play(hash, event, tick);
                if own.shadow.len() > own.keys_max {
                    own.halve(self.factor, room);
                }
            }
            better.inspect(|ageing| own.shadow.set_ageing(*ageing));
        }
        (plays, better)
    }

    fn fit(&mut self, room: &Room) {
        self.contest.fit(self.factor, room);
        if let Some(own) = &mut self.own {
            own.shadow.set_capacity(room.of_sample(self.factor, own.shift));
        }
    }

    /// Its larger sample.
    fn shift(&self) -> u32 {
        let own = self.own.as_ref().map_or(self.contest.shift, |own| own.shift);
        own.min(self.contest.shift)
    }

    /// The shift that its contest counts for when a sample must be halved.
    fn contest_counts_for(&self) -> u32 {
        let spared = if self.own.is_none() { SPARED_SHIFT } else { 0 };
        self.contest.shift + spared
    }

    /// The least that one of its samples counts for.
    fn counts_for(&self) -> u32 {
        let contest = self.contest_counts_for();
        self.own.as_ref().map_or(contest, |own| own.shift.min(contest))
    }

    /// Halves its samples that count for this shift.
    fn halve(&mut self, shift: u32, room: &Room) {
        if self.contest_counts_for() == shift {
            self.contest.halve(self.factor, room);
        }
        if let Some(own) = self.own.as_mut().filter(|own| own.shift == shift) {
            own.halve(self.factor, room);
        }
    }

    /// The shadow that tells of this size, and its sample.
    fn told_by(&self) -> (&Shadow, u32) {
        match &self.own {
            Some(own) => (&own.shadow, own.shift),
            None => (
                &self.contest.rivals[self.contest.current].shadow,
                self.contest.shift,
            ),
        }
    }

    /// Misses of this size where the real cache missed `misses`.
    fn misses(&self, misses: f64) -> f64 {
        match &self.own {
            Some(own) if own.real_misses > 0.0 => misses * own.misses / own.real_misses,
            Some(own) => own.misses,
            None => misses,
        }
    }
}

/// Keys that a shadow of a cache of `memory_max` bytes may hold; 0 if that would be too few.
fn keys_of(memory_max: usize) -> usize {
    let keys = (memory_max / BYTES_PER_KEY).min(KEYS_MAX);
    if keys < KEYS_MIN { 0 } else { keys }
}

/// Keys that each rival may hold of a contest at `factor` times the memory: as many as there, where that is not more than
/// half of what this cache's own rivals may.
fn contest_keys_of(memory_max: usize, factor: f64) -> usize {
    let (own, there) = (
        keys_of(memory_max),
        keys_of((memory_max as f64 * factor) as usize),
    );
    match factor {
        1.0 => own,
        _ => there.min(own.min(KEYS_OF_OTHERS_MAX) / 2),
    }
}

/// Bytes that the shadows of a cache of `memory_max` bytes may take.
pub(crate) fn bytes_of(memory_max: usize) -> usize {
    let own = (FACTORS.len() - 1) * keys_of(memory_max).min(KEYS_OF_OTHERS_MAX);
    let contests: usize = FACTORS
        .iter()
        .map(|factor| contest_keys_of(memory_max, *factor))
        .sum();
    (own + AGEINGS.len() * contests) * KEY_BYTES
}

/// Middle bits: the outer ones choose places in the index and in ghosts.
fn in_sample(hash: KeyHash, shift: u32) -> bool {
    (hash.0 >> 24) & ((1 << shift) - 1) == 0
}

impl Sampler {
    /// Shadows of a cache of `memory_max` bytes; none if it is too small to learn from a sample.
    pub(crate) fn new(memory_max: usize) -> Sampler {
        let (factors, shift) = match keys_of(memory_max) {
            0 => (&[][..], u64::BITS),
            _ => (&FACTORS[..], SHIFT_AT_FIRST),
        };
        Sampler {
            shift: OwnLine(AtomicU32::new(shift)),
            state: Mutex::new(State {
                tick: 0,
                credit: TICKS_SAVED * PLAYS_PER_TICK,
                room: Room { bytes: 0, waste: 0.0 },
                sizes: factors
                    .iter()
                    .map(|factor| Size::new(*factor, memory_max))
                    .collect(),
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
        if ageing < AGEINGS.len() {
            for size in &mut state.sizes {
                size.contest.current = ageing;
                if let Some(own) = &mut size.own {
                    own.shadow.set_ageing(AGEINGS[ageing]);
                }
            }
        }
    }

    /// The real cache has `bytes` for items.
    pub(crate) fn set_capacity(&self, bytes: u64) {
        let mut state = self.state.lock().expect("nothing panics while it plays");
        let room = Room { bytes, ..state.room };
        state.set_room(room);
    }

    /// In segments of `used` bytes, of all that the real cache may use, `live` are items.
    pub(crate) fn note_used(&self, live: u64, used: u64) {
        let mut state = self.state.lock().expect("nothing panics while it plays");
        // While it fills, open segments make most of it.
        if used > state.room.bytes / 4 * 3 && used > 0 {
            let waste = (1.0 - live as f64 / used as f64).clamp(0.0, 0.5);
            let room = Room { waste, ..state.room };
            state.set_room(room);
        }
    }

    /// What other sizes would have missed since the start, when the real one missed `misses` of `reads`. More memory
    /// never makes it worse.
    pub(crate) fn curve(&self, memory_max: u64, reads: u64, misses: u64) -> Vec<CurvePoint> {
        let state = self.state.lock().expect("nothing panics while it plays");
        let (reads, real) = (reads as f64, misses as f64);
        let mut misses: Vec<f64> = state
            .sizes
            .iter()
            .map(|size| size.misses(real).min(reads))
            .collect();
        let base = FACTORS.iter().position(|factor| *factor == 1.0).unwrap_or(0);
        for at in base + 1..misses.len() {
            misses[at] = misses[at].min(misses[at - 1]);
        }
        for at in (1..=base.min(misses.len())).rev() {
            misses[at - 1] = misses[at - 1].max(misses[at]);
        }
        let point = |(size, misses): (&Size, f64)| {
            let (shadow, shift) = size.told_by();
            CurvePoint {
                factor: size.factor,
                memory_max: (memory_max as f64 * size.factor) as u64,
                miss_ratio: (reads > 0.0).then_some(misses / reads),
                keys: shadow.len() as u64,
                sample: 1 << shift,
            }
        };
        state.sizes.iter().zip(misses).map(point).collect()
    }
}

impl State {
    fn shift(&self) -> u32 {
        let shifts = self.sizes.iter().map(Size::shift);
        shifts.min().unwrap_or(u64::BITS)
    }

    fn set_room(&mut self, room: Room) {
        if self.room != room {
            self.room = room;
            self.sizes.iter_mut().for_each(|size| size.fit(&room));
        }
    }

    fn play(&mut self, hash: KeyHash, event: Event, tick: u32) -> Option<Ageing> {
        let passed = i64::from(tick.saturating_sub(self.tick));
        if passed > 0 {
            self.tick = tick;
            self.credit = (self.credit + passed * PLAYS_PER_TICK).min(TICKS_SAVED * PLAYS_PER_TICK);
        }
        let mut used = None;
        for size in &mut self.sizes {
            let (plays, better) = size.play(hash, event, tick, &self.room);
            self.credit -= plays;
            if size.own.is_none() {
                used = better;
            }
        }
        if self.credit < 0 {
            self.halve_largest();
            self.credit = PLAYS_PER_TICK;
        }
        used
    }

    /// Halves the samples that take most keys.
    fn halve_largest(&mut self) {
        let room = self.room;
        let shift = self.sizes.iter().map(Size::counts_for).min().unwrap_or(0);
        self.sizes.iter_mut().for_each(|size| size.halve(shift, &room));
    }
}

#[cfg(test)]
mod tests {
    use super::{Event, KEYS_MAX, Sampler};
    use crate::index::KeyHash;
    use crate::item::NEVER;

    /// A hash that is spread as the index's are.
    fn hash(key: u64) -> KeyHash {
        KeyHash((key + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Asks for 2,000 keys in turn, which a cache with room for half of them misses always and a larger one once.
    fn in_turn(memory_max: usize, rounds: u64) -> Vec<f64> {
        let sampler = Sampler::new(memory_max);
        sampler.set_capacity(1_000 * 100);
        for key in (0..rounds).flat_map(|_| 0..2_000) {
            sampler.play(hash(key), Event::Read(None), 0);
            sampler.play(hash(key), Event::Stored(100, NEVER), 0);
        }
        let reads = rounds * 2_000;
        let curve = sampler.curve(memory_max as u64, reads, reads);
        curve
            .iter()
            .map(|point| point.miss_ratio.expect("there were reads"))
            .collect()
    }

    #[test]
    fn the_present_size_is_told_as_it_was_and_more_memory_misses_no_more() {
        let curve = in_turn(64 << 20, 10);
        assert_eq!(curve[2], 1.0, "the real cache missed always");
        assert!(curve.is_sorted_by(|less, more| less >= more), "{curve:?}");
        assert!((curve[4] - 0.1).abs() < 0.02, "once in ten rounds: {curve:?}");
    }

    #[test]
    fn samples_stay_small_and_what_they_play_is_bounded() {
        let sampler = Sampler::new(1 << 40);
        sampler.set_capacity(1 << 40);
        for key in 0..200_000 {
            sampler.play(hash(key), Event::Stored(100, NEVER), 0);
        }
        let curve = sampler.curve(1 << 40, 1, 1);
        assert!(
            curve.iter().all(|point| point.keys <= KEYS_MAX as u64),
            "{curve:?}"
        );
        assert!(curve.iter().all(|point| point.sample >= 32), "{curve:?}");
    }

    #[test]
    fn what_was_there_before_the_shadows_is_no_miss_of_theirs() {
        let sampler = Sampler::new(64 << 20);
        sampler.set_capacity(1 << 20);
        (0..100).for_each(|key| {
            sampler.play(hash(key), Event::Read(Some((100, NEVER))), 0);
        });
        sampler.play(hash(100), Event::Read(None), 0);
        let curve = sampler.curve(64 << 20, 101, 1);
        let ratio = Some(1.0 / 101.0);
        assert!(curve.iter().all(|point| point.miss_ratio == ratio), "{curve:?}");
    }
}
