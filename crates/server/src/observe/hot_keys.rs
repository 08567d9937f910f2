//! The keys that are asked for most, by Space-Saving over the sampled requests: a fixed number of counters, and a key that has
//! none takes over the smallest. A key with more than its share of the requests, one over the number of counters, is
//! never missed, and no count is too high by more than is told. Source: Metwally, Agrawal, El Abbadi, "Efficient
//! Computation of Frequent and Top-k Elements in Data Streams", 2005.
//!
//! Counts are halved every ten seconds, and so is the time they stand for: what is hot is hot now.

use std::collections::BTreeMap;

use scrubjay_base::time::Now;

/// Counters of a worker.
const COUNTERS: usize = 128;

/// Counters whose marks are compared at a time.
const TOGETHER: usize = 16;

/// Counts are halved this often.
const HALVED_EVERY_NANOS: u64 = 10_000_000_000;

/// Halving so often leaves nothing of any count.
const HALVINGS_MAX: u64 = 32;

/// Longest key of the protocols, in bytes.
const KEY_LEN_MAX: usize = 250;

/// A key that is asked for often, all workers taken together.
#[derive(Clone, Debug, PartialEq)]
pub struct HotKey {
    /// The key.
    pub key: Vec<u8>,
    /// Requests a second, of late.
    pub rate: f64,
    /// So much of that may be other keys' requests.
    pub error: f64,
}

/// One worker's counters, filled from the first on.
#[derive(Debug)]
pub(super) struct HotKeys {
    /// A part of each key's hash, in a row of their own to be searched fast.
    marks: [u32; COUNTERS],
    counters: Vec<Counter>,
    /// No counter is below this.
    floor: u32,
    /// Where the search for one that is at the floor goes on.
    next: usize,
    /// When counts were last halved; nothing before the first request.
    halved_at: Option<Now>,
    /// Seconds that the counts stood for at that time.
    window: f64,
}

#[derive(Debug)]
struct Counter {
    key: Vec<u8>,
    count: u32,
    /// What the counter had when the key took it over.
    error: u32,
}

impl Default for HotKeys {
    fn default() -> HotKeys {
        HotKeys {
            marks: [0; COUNTERS],
            counters: Vec::new(),
            floor: 0,
            next: 0,
            halved_at: None,
            window: 0.0,
        }
    }
}

impl HotKeys {
    /// Counts a request for `key`, whose hash is `hash`.
    pub(super) fn note(&mut self, hash: u64, key: &[u8], now: Now) {
        self.halve_if_due(now);
        let mark = hash as u32;
        if let Some(number) = self.find(mark, key) {
            self.counters[number].count += 1;
        } else if self.counters.len() < COUNTERS {
            self.marks[self.counters.len()] = mark;
            let mut own = Vec::with_capacity(KEY_LEN_MAX);
            own.extend_from_slice(key);
            self.counters.push(Counter {
                key: own,
                count: 1,
                error: 0,
            });
        } else {
            let number = self.smallest();
            self.marks[number] = mark;
            let counter = &mut self.counters[number];
            counter.key.clear();
            counter.key.extend_from_slice(key);
            counter.error = counter.count;
            counter.count += 1;
        }
    }

    fn find(&self, mark: u32, key: &[u8]) -> Option<usize> {
        for (part, marks) in self.marks.chunks_exact(TOGETHER).enumerate() {
            if !marks.iter().fold(false, |any, known| any | (*known == mark)) {
                continue;
            }
            for number in part * TOGETHER..(part + 1) * TOGETHER {
                let counter = self.counters.get(number)?;
                if self.marks[number] == mark && counter.key == key {
                    return Some(number);
                }
            }
        }
        None
    }

    /// A counter that is at the floor. Counts only rise between two halvings, so each is looked at once for each floor.
    fn smallest(&mut self) -> usize {
        loop {
            while self.next < COUNTERS {
                let number = self.next;
                self.next += 1;
                if self.counters[number].count <= self.floor {
                    return number;
                }
            }
            self.next = 0;
            let counts = self.counters.iter().map(|counter| counter.count);
            self.floor = counts.min().unwrap_or(0);
        }
    }

    fn halve_if_due(&mut self, now: Now) {
        let halved_at = *self.halved_at.get_or_insert(now);
        let passed = now.nanos_since(halved_at);
        let times = passed / HALVED_EVERY_NANOS;
        if times == 0 {
            return;
        }
        let period = HALVED_EVERY_NANOS as f64 / 1e9;
        for _ in 0..times.min(HALVINGS_MAX) {
            self.window = (self.window + period) / 2.0;
        }
        let by = times.min(HALVINGS_MAX - 1) as u32;
        for counter in &mut self.counters {
            counter.count >>= by;
            counter.error >>= by;
        }
        (self.floor, self.next) = (0, 0);
        self.halved_at = Some(halved_at.plus_nanos(times * HALVED_EVERY_NANOS));
    }

    /// Adds the keys to `merged`; each count stands for `interval` requests.
    pub(super) fn add_to(&self, merged: &mut BTreeMap<Vec<u8>, (f64, f64)>, now: Now, interval: f64) {
        let Some(halved_at) = self.halved_at else { return };
        // Of less than a second nothing can be said.
        let seconds = (self.window + now.nanos_since(halved_at) as f64 / 1e9).max(1.0);
        for counter in self.counters.iter().filter(|counter| counter.count > 0) {
            let (rate, error) = merged.entry(counter.key.clone()).or_default();
            *rate += f64::from(counter.count) * interval / seconds;
            *error += f64::from(counter.error) * interval / seconds;
        }
    }
}

/// The first `count` of them by rate. Of others than these nothing is known but that they are not hot: they share a counter with
/// so many that more than half of it may be theirs.
pub(super) fn sorted(merged: BTreeMap<Vec<u8>, (f64, f64)>, count: usize) -> Vec<HotKey> {
    let keys = merged.into_iter();
    let mut keys: Vec<HotKey> = keys
        .map(|(key, (rate, error))| HotKey { key, rate, error })
        .collect();
    keys.retain(|key| key.error <= key.rate / 2.0);
    keys.sort_by(|left, right| right.rate.total_cmp(&left.rate));
    keys.truncate(count);
    keys
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use scrubjay_base::time::Now;

    use super::{COUNTERS, HotKey, HotKeys, sorted};

    fn note(hot_keys: &mut HotKeys, key: &str, now: Now) {
        let hash = key
            .bytes()
            .fold(7_u64, |hash, byte| hash.wrapping_mul(31) + u64::from(byte));
        hot_keys.note(hash, key.as_bytes(), now);
    }

    fn told(hot_keys: &HotKeys, now: Now) -> Vec<HotKey> {
        let mut merged = BTreeMap::new();
        hot_keys.add_to(&mut merged, now, 16.0);
        sorted(merged, 10)
    }

    #[test]
    fn keys_with_more_than_their_share_are_found_and_no_count_is_off_by_more_than_told() {
        let mut hot_keys = HotKeys::default();
        let mut truth = BTreeMap::<String, u32>::new();
        for number in 0..20_000_u32 {
            let key = match number % 10 {
                0..3 => "first".to_owned(),
                3 => "second".to_owned(),
                // More keys than counters.
                _ => format!("other:{}", number.wrapping_mul(2_654_435_761) % 5_000),
            };
            *truth.entry(key.clone()).or_default() += 1;
            note(&mut hot_keys, &key, Now::from_secs(1));
        }
        assert_eq!(hot_keys.counters.len(), COUNTERS);
        let found = told(&hot_keys, Now::from_secs(2));
        let names: Vec<&[u8]> = found.iter().map(|hot| &hot.key[..]).collect();
        assert_eq!(names, [&b"first"[..], b"second"]);
        let mut merged = BTreeMap::new();
        hot_keys.add_to(&mut merged, Now::from_secs(2), 16.0);
        assert_eq!(merged.len(), COUNTERS);
        for (key, (rate, error)) in merged {
            let hot = HotKey { key, rate, error };
            let (count, error) = (hot.rate / 16.0, hot.error / 16.0);
            let is = f64::from(truth[std::str::from_utf8(&hot.key).expect("text")]);
            assert!(is <= count && count - error <= is, "{hot:?}: {is}");
            assert!(error <= 20_000.0 / COUNTERS as f64);
        }
    }

    #[test]
    fn a_steady_rate_is_told_at_any_time_and_fades_when_it_ends() {
        let mut hot_keys = HotKeys::default();
        for tenth in 0..600 {
            let now = Now::from_millis(tenth * 100);
            note(&mut hot_keys, "steady", now);
            if tenth > 20 {
                let rate = told(&hot_keys, now)[0].rate;
                assert!((rate / 160.0 - 1.0).abs() < 0.1, "{tenth}: {rate}");
            }
        }
        assert!(told(&hot_keys, Now::from_secs(120))[0].rate < 50.0);
        note(&mut hot_keys, "new", Now::from_secs(600));
        assert_eq!(told(&hot_keys, Now::from_secs(600))[0].key, b"new");
    }
}
