//! A shadow cache: the policy of `eviction.rs` played on keys and sizes alone, for a sample of the keys and a cache that
//! is smaller in the same proportion. What it misses says what a cache of its size and setting would miss.
//!
//! Source of the idea: Waldspurger et al., "Cache Modeling and Optimization using Miniature Simulations" (2017), and
//! "SHARDS" (2015) for the choice of keys by their hash.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use crate::ghost::Ghost;
use crate::index::KeyHash;
use crate::item::NEVER;
use crate::line::Heat;

/// Segments that the shadow's bytes are cut into.
const SEGMENTS: u64 = 512;

/// Places and deadlines that nothing is at any more, beside as many as there are items, before they are swept.
const SLACK: usize = 64;

/// Classes of density; see `eviction.rs`.
const CLASSES: usize = 8;
const CLASS_OF_MEAN: f64 = 3.0;

/// How eviction follows what it evicts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ageing {
    /// The inflation follows the priority of what is evicted by 1 - exp(-evicted bytes / (tau x capacity)).
    pub tau: f64,
    /// What was put where it lies more than this many capacities of insertions ago goes first; infinite: age does not
    /// matter.
    pub age_max: f64,
}

impl Ageing {
    /// By this tau alone.
    pub const fn slow(tau: f64) -> Ageing {
        Ageing {
            tau,
            age_max: f64::INFINITY,
        }
    }
}

/// One key.
#[derive(Debug)]
struct Item {
    size: u32,
    heat: Heat,
    deadline: u32,
    /// Which entry of a segment is its place.
    place: u32,
}

/// For keys that are hashes already.
#[derive(Clone, Copy, Debug, Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(self.0.rotate_left(8) ^ u64::from(byte));
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

type Hashed = BuildHasherDefault<AsIs>;

#[derive(Debug, Default)]
struct Segment {
    keys: Vec<(u64, u32)>,
    bytes: u64,
    worth: f64,
    /// Bytes inserted before it was opened.
    born: u64,
}

/// The cache that is played.
#[derive(Debug)]
pub struct Shadow {
    ageing: Ageing,
    capacity: u64,
    items: HashMap<u64, Item, Hashed>,
    used: u64,
    logs: [VecDeque<Segment>; CLASSES],
    deadlines: BinaryHeap<Reverse<(u32, u64)>>,
    inflation: f64,
    inserted: u64,
    relocated: u64,
    places: u32,
    /// Places noted in segments, those that nothing is at any more among them.
    noted: usize,
    has_evicted: bool,
    ghost: Ghost,
}

impl Shadow {
    /// A shadow of `capacity` bytes with memory for about `items` keys' ghosts.
    pub fn new(capacity: u64, ageing: Ageing, items: usize) -> Shadow {
        Shadow {
            ageing,
            capacity: capacity.max(1),
            items: HashMap::default(),
            used: 0,
            logs: Default::default(),
            deadlines: BinaryHeap::new(),
            inflation: 0.0,
            inserted: 0,
            relocated: 0,
            places: 0,
            noted: 0,
            has_evicted: false,
            ghost: Ghost::with_lines(2 * items / 15 + 1),
        }
    }

    /// Keys that it holds.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Whether it holds the key, which is not read by that.
    pub(crate) fn holds(&self, hash: u64) -> bool {
        self.items.contains_key(&hash)
    }

    /// Whether anything live went for want of room.
    pub(crate) fn has_evicted(&self) -> bool {
        self.has_evicted
    }

    /// Bytes of items that it may hold.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Bytes inserted and bytes relocated since the start.
    pub fn traffic(&self) -> (u64, u64) {
        (self.inserted, self.relocated)
    }

    /// Changes its size; what is too much goes at the next insertion.
    pub fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity.max(1);
    }

    /// Changes how eviction follows what it evicts.
    pub fn set_ageing(&mut self, ageing: Ageing) {
        self.ageing = ageing;
    }

    /// The key was asked for at `tick`: whether it is here.
    pub fn read(&mut self, hash: u64, tick: u32) -> bool {
        self.expire(tick);
        match self.items.get_mut(&hash) {
            Some(item) => {
                item.heat = item.heat.raised(|| 0);
                true
            }
            None => false,
        }
    }

    /// The key was stored, or is in the real cache and was asked for here in vain.
    pub fn store(&mut self, hash: u64, size: u32, deadline: u32, tick: u32) {
        self.expire(tick);
        let old = self.items.remove(&hash);
        if let Some(old) = &old {
            self.used -= u64::from(old.size);
        }
        if u64::from(size) > self.capacity / 2 {
            return;
        }
        while self.used + u64::from(size) > self.capacity && self.evict() {}
        let heat = old.map_or_else(
            || {
                self.ghost
                    .take(KeyHash(hash))
                    .map_or(Heat::default(), Heat::remembered)
            },
            |old| old.heat,
        );
        let item = Item {
            size,
            heat,
            deadline,
            place: 0,
        };
        self.inserted += u64::from(size);
        self.used += u64::from(size);
        if deadline != NEVER {
            self.deadlines.push(Reverse((deadline, hash)));
        }
        self.put(hash, item, self.inflation);
        if self.noted.max(self.deadlines.len()) > 2 * self.items.len() + SLACK {
            self.sweep();
        }
    }

    /// Forgets the places and deadlines of what is not here any more. Where keys are stored over and over and nothing has to be
    /// evicted, they would grow without bound.
    fn sweep(&mut self) {
        let items = &self.items;
        for log in &mut self.logs {
            for segment in &mut *log {
                let is_here =
                    |(hash, place): &(u64, u32)| items.get(hash).is_some_and(|item| item.place == *place);
                segment.keys.retain(is_here);
            }
            log.retain(|segment| !segment.keys.is_empty());
        }
        self.noted = items.len();
        let expiring = items.iter().filter(|(_, item)| item.deadline != NEVER);
        self.deadlines = expiring
            .map(|(hash, item)| Reverse((item.deadline, *hash)))
            .collect();
    }

    /// The key was deleted.
    pub fn remove(&mut self, hash: u64) {
        if let Some(item) = self.items.remove(&hash) {
            self.used -= u64::from(item.size);
        }
    }

    /// Drops every key for which `keep` does not hold.
    pub fn retain(&mut self, keep: impl Fn(u64) -> bool) {
        self.items.retain(|hash, _| keep(*hash));
        self.used = self.items.values().map(|item| u64::from(item.size)).sum();
    }

    fn expire(&mut self, tick: u32) {
        while let Some(&Reverse((deadline, hash))) = self.deadlines.peek()
            && deadline <= tick
        {
            self.deadlines.pop();
            // The key may have been stored anew with another deadline.
            if self.items.get(&hash).is_some_and(|item| item.deadline <= tick) {
                self.remove(hash);
            }
        }
    }

    fn put(&mut self, hash: u64, mut item: Item, base: f64) {
        let density = (f64::from(item.heat.reads()) + 1.0) / f64::from(item.size.max(1));
        let mean = self.used as f64 / (self.items.len() + 1) as f64;
        let class = ((density * mean).log2() + CLASS_OF_MEAN)
            .floor()
            .clamp(0.0, (CLASSES - 1) as f64) as usize;
        let size = u64::from(item.size);
        let log = &mut self.logs[class];
        let is_full = |open: &Segment| open.bytes > 0 && open.bytes + size > self.capacity / SEGMENTS;
        if log.back().is_none_or(is_full) {
            log.push_back(Segment {
                born: self.inserted,
                ..Segment::default()
            });
        }
        let open = log.back_mut().expect("one was pushed if there was none");
        self.places = self.places.wrapping_add(1);
        item.place = self.places;
        open.keys.push((hash, self.places));
        self.noted += 1;
        open.bytes += size;
        open.worth += (base + density) * size as f64;
        self.items.insert(hash, item);
    }

    /// Empties the segment that is worth least; `false` if there is none.
    fn evict(&mut self) -> bool {
        let age_max = self.ageing.age_max * self.capacity as f64;
        let worth = |segment: &Segment| {
            let too_old = (self.inserted - segment.born) as f64 > age_max;
            if too_old {
                f64::NEG_INFINITY
            } else {
                segment.worth / segment.bytes.max(1) as f64
            }
        };
        let heads = self.logs.iter().enumerate();
        let least = heads
            .filter_map(|(log, segments)| Some((log, worth(segments.front()?))))
            .min_by(|one, other| one.1.total_cmp(&other.1));
        let Some((log, _)) = least else { return false };
        let segment = self.logs[log].pop_front().expect("its front was looked at");
        let worth = segment.worth / segment.bytes.max(1) as f64;
        let mut evicted = 0;
        self.noted -= segment.keys.len();
        for (hash, place) in segment.keys {
            if self.items.get(&hash).is_none_or(|item| item.place != place) {
                continue;
            }
            let item = self.items.remove(&hash).expect("looked at just now");
            if item.heat.hit {
                self.relocated += u64::from(item.size);
                let cooled = Item {
                    heat: item.heat.cooled(),
                    ..item
                };
                self.put(hash, cooled, self.inflation.max(worth));
            } else {
                evicted += u64::from(item.size);
                self.used -= u64::from(item.size);
                self.has_evicted = true;
                self.ghost.put(KeyHash(hash), item.heat.level() + 1);
            }
        }
        self.ghost.fit(self.items.len() as u64);
        if worth > self.inflation {
            let step = 1.0 - (-(evicted as f64) / (self.ageing.tau * self.capacity as f64)).exp();
            self.inflation += step * (worth - self.inflation);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::{Ageing, SLACK, Shadow};
    use crate::item::NEVER;

    const AGEING: Ageing = Ageing::slow(0.05);

    /// A hash that is spread as the index's are.
    fn hash(key: u64) -> u64 {
        (key + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn what_is_read_outlives_what_is_not_and_the_bound_holds() {
        let mut shadow = Shadow::new(100_000, AGEING, 1000);
        for key in 0..10_000 {
            shadow.store(hash(key), 100, NEVER, 0);
            assert!(shadow.used <= 100_000);
            assert_eq!(shadow.used, 100 * shadow.len() as u64);
            (0..50).for_each(|hot| {
                shadow.read(hash(hot), 0);
            });
        }
        let kept = (0..50).filter(|key| shadow.read(hash(*key), 0)).count();
        assert_eq!(kept, 50, "keys that are read all the time");
    }

    #[test]
    fn what_is_stored_over_and_over_takes_no_more_memory() {
        let mut shadow = Shadow::new(100_000, AGEING, 100);
        for round in 0..1_000 {
            (0..50).for_each(|key| shadow.store(hash(key), 100, 1_000_000 + round, round));
        }
        assert!(!shadow.has_evicted());
        assert!(shadow.noted <= 2 * 50 + SLACK && shadow.deadlines.len() <= 2 * 50 + SLACK);
        let noted: usize = shadow
            .logs
            .iter()
            .flatten()
            .map(|segment| segment.keys.len())
            .sum();
        assert_eq!(noted, shadow.noted);
        assert!((0..50).all(|key| shadow.read(hash(key), 1_000)));
    }

    #[test]
    fn the_dead_make_room() {
        let mut shadow = Shadow::new(10_000, AGEING, 100);
        (0..50).for_each(|key| shadow.store(hash(key), 100, 8, 0));
        (50..100).for_each(|key| shadow.store(hash(key), 100, NEVER, 0));
        (100..150).for_each(|key| shadow.store(hash(key), 100, NEVER, 9));
        assert!(
            (50..150).all(|key| shadow.read(hash(key), 9)),
            "nothing live was lost"
        );
        shadow.remove(hash(60));
        assert!(!shadow.read(hash(60), 9));
    }
}
