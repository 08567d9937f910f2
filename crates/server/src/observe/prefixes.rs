//! How many keys were stored under each prefix: random strings as keys show as a number that never stops growing.
//!
//! A worker has a sketch for each of its first prefixes and one for all others together. It finds the one of a key without
//! a lock: places are taken once and never given back, and whoever reads looks at all of them.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use scrubjay_base::bytes;

use super::key_hash::key_hash;
use super::sketch::{self, Sketch};

/// Prefixes that a worker tells apart.
const PREFIXES_MAX: usize = 64;

/// Places are so many that few are looked at in vain.
const PLACES: usize = 2 * PREFIXES_MAX;

/// Longest prefix that is told apart, in bytes.
const PREFIX_LEN_MAX: usize = 64;

/// Keys under a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixKeys {
    /// What is before the delimiter; `None`: keys without one, or under prefixes that are not told apart.
    pub prefix: Option<Vec<u8>>,
    /// Different keys that were stored, about.
    pub keys: u64,
}

/// One worker's sketches.
#[derive(Debug)]
pub(super) struct Prefixes {
    places: Box<[OnceLock<Place>]>,
    others: OnceLock<Sketch>,
}

#[derive(Debug)]
struct Place {
    prefix: Box<[u8]>,
    sketch: Sketch,
}

impl Default for Prefixes {
    fn default() -> Prefixes {
        Prefixes {
            places: (0..PLACES).map(|_| OnceLock::new()).collect(),
            others: OnceLock::new(),
        }
    }
}

impl Prefixes {
    /// A key is stored.
    #[inline]
    pub(super) fn note(&self, key: &[u8], delimiter: u8, seed: u64) {
        let hash = key_hash(key, seed);
        let within = &key[..key.len().min(PREFIX_LEN_MAX + 1)];
        let prefix = bytes::find(within, delimiter);
        let known = prefix.and_then(|len| self.place(&key[..len]));
        let sketch = match known {
            Some(place) => &place.sketch,
            None => self.others.get_or_init(Sketch::default),
        };
        sketch.note(hash);
    }

    #[inline]
    fn place(&self, prefix: &[u8]) -> Option<&Place> {
        let mut number = first_place(prefix);
        for _ in 0..PLACES {
            match self.places[number].get() {
                Some(place) if *place.prefix == *prefix => return Some(place),
                Some(_) => number = (number + 1) % PLACES,
                None => return self.take(number, prefix),
            }
        }
        None
    }

    #[cold]
    fn take(&self, number: usize, prefix: &[u8]) -> Option<&Place> {
        let taken = self.places.iter().filter(|place| place.get().is_some()).count();
        let new = || Place {
            prefix: prefix.into(),
            sketch: Sketch::default(),
        };
        (taken < PREFIXES_MAX).then(|| self.places[number].get_or_init(new))
    }

    pub(super) fn forget(&self) {
        let sketches = self.places.iter().filter_map(|place| Some(&place.get()?.sketch));
        sketches.chain(self.others.get()).for_each(Sketch::forget);
    }
}

/// Where the search for a prefix begins: by its length and its ends. Whoever makes many begin at one place makes the search no
/// longer than the places are many.
#[inline]
fn first_place(prefix: &[u8]) -> usize {
    let ends = match prefix {
        [first, .., before, last] => [*first, *before, *last],
        [first, last] => [*first, 0, *last],
        [only] => [0, 0, *only],
        [] => [0; 3],
    };
    let [first, before, last] = ends.map(u32::from);
    let mixed = (first << 16 | before << 8 | last).wrapping_add((prefix.len() as u32) << 24);
    (mixed.wrapping_mul(0x9e37_79b1) >> (32 - PLACES.ilog2())) as usize
}

/// The prefixes of all workers, those with most keys first.
pub(super) fn merged<'a>(workers: impl Iterator<Item = &'a Prefixes>) -> Vec<PrefixKeys> {
    let mut sketches = BTreeMap::<Option<&[u8]>, Vec<&Sketch>>::new();
    for worker in workers {
        for place in worker.places.iter().filter_map(OnceLock::get) {
            sketches
                .entry(Some(&place.prefix))
                .or_default()
                .push(&place.sketch);
        }
        sketches.entry(None).or_default().extend(worker.others.get());
    }
    let counted = sketches.into_iter().map(|(prefix, sketches)| PrefixKeys {
        prefix: prefix.map(<[u8]>::to_vec),
        keys: sketch::count(sketches.into_iter()),
    });
    let mut prefixes: Vec<PrefixKeys> = counted.filter(|prefix| prefix.keys > 0).collect();
    prefixes.sort_by_key(|prefix| std::cmp::Reverse(prefix.keys));
    prefixes
}

#[cfg(test)]
mod tests {
    use super::{PREFIXES_MAX, PrefixKeys, Prefixes, merged};

    #[test]
    fn keys_are_counted_under_their_prefix_once_whichever_worker_stored_them() {
        let workers = [Prefixes::default(), Prefixes::default()];
        for number in 0..20 {
            for worker in &workers {
                worker.note(format!("user:{number}").as_bytes(), b':', 1);
            }
        }
        workers[1].note(b"page:1:2", b':', 1);
        workers[1].note(b"bare", b':', 1);
        let row = |prefix: Option<&str>, keys| PrefixKeys {
            prefix: prefix.map(|prefix| prefix.as_bytes().to_vec()),
            keys,
        };
        let found = merged(workers.iter());
        assert_eq!(found, [row(Some("user"), 20), row(None, 1), row(Some("page"), 1)]);
        workers.iter().for_each(Prefixes::forget);
        assert_eq!(merged(workers.iter()), []);
    }

    #[test]
    fn prefixes_are_bounded_and_the_rest_counts_together() {
        let worker = Prefixes::default();
        for number in 0..1000 {
            worker.note(format!("{number}:key").as_bytes(), b':', 1);
        }
        let found = merged([&worker].into_iter());
        assert_eq!(found.len(), PREFIXES_MAX + 1);
        assert_eq!(found[0].prefix, None);
        assert!((850..1020).contains(&found[0].keys), "{:?}", found[0]);
    }
}
