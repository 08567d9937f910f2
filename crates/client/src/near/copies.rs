//! The copies themselves: which there are, which are right, and which answers may become one. No sockets, no clock.
//!
//! A copy is right while nothing was told about its key since it was asked for, its server's stream is up to date, and its life is
//! not over. Everything here rests on one order: whoever asks a server takes a [`Fill`] first, and whatever makes copies of that
//! key wrong meanwhile makes the fill void.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use scrubjay_base::time::Now;

use crate::placement::ServerIndex;
use crate::protocol::Value;

/// Parts of the keys that have a count of their own: a change of one key makes void the fills of its part only.
const PARTS: usize = 1024;

/// Bytes that a copy takes beside key and value, about.
const COPY_OVERHEAD: usize = 160;

/// Bytes of a usual copy, by which the table is sized at first.
const USUAL_LEN: usize = 512;

/// A moment that never comes.
const NEVER: u64 = u64::MAX;

/// Copies of values.
#[derive(Debug)]
pub(super) struct Copies {
    table: Cache<Box<[u8]>, Kept, Weigh>,
    hasher: RandomState,
    /// How often something was told about the keys of each part. Locked while copies of the part are put or removed.
    parts: Box<[Mutex<u64>]>,
    sources: Box<[Source]>,
    pub(super) counts: Counts,
}

#[derive(Clone, Debug)]
struct Kept {
    value: Arc<Value>,
    source: ServerIndex,
    /// Whether the source is where the key itself lies, and not another key that it was placed as.
    by_itself: bool,
    /// The source's when it was asked for.
    generation: u64,
    /// When it is too old, in nanoseconds of the clock.
    ends_at: u64,
}

#[derive(Clone, Debug)]
struct Weigh;

impl Weighter<Box<[u8]>, Kept> for Weigh {
    fn weight(&self, key: &Box<[u8]>, copy: &Kept) -> u64 {
        (key.len() + copy.value.bytes.len() + COPY_OVERHEAD) as u64
    }
}

/// A server that copies are of.
#[derive(Debug)]
struct Source {
    /// Copies of earlier generations are wrong.
    generation: AtomicU64,
    /// Up to when what is known of its changes is believed, in nanoseconds of the clock; 0: nothing is known.
    believed_until: AtomicU64,
}

/// Counts of a near cache since it was made.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) hits: AtomicU64,
    pub(super) misses: AtomicU64,
    pub(super) passed: AtomicU64,
    pub(super) invalidations: AtomicU64,
    pub(super) flushes: AtomicU64,
    pub(super) voids: AtomicU64,
}

pub(super) fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

/// The server of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// That of its key, which is always the same.
    Own(ServerIndex),
    /// That of another key, as which it is placed.
    Other(ServerIndex),
}

impl Place {
    fn server(self) -> ServerIndex {
        let (Place::Own(server) | Place::Other(server)) = self;
        server
    }
}

/// What is taken before a server is asked for a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fill {
    from: Place,
    generation: u64,
    told: u64,
}

impl Copies {
    /// None yet, of at most so many bytes. Without `streams` servers are believed for ever.
    pub(super) fn new(servers: usize, bytes_max: usize, streams: bool) -> Copies {
        let source = || Source {
            generation: AtomicU64::new(0),
            believed_until: AtomicU64::new(if streams { 0 } else { NEVER }),
        };
        Copies {
            table: Cache::with_weighter(bytes_max / USUAL_LEN, bytes_max as u64, Weigh),
            hasher: RandomState::new(),
            parts: (0..PARTS).map(|_| Mutex::default()).collect(),
            sources: (0..servers).map(|_| source()).collect(),
            counts: Counts::default(),
        }
    }

    /// The copy of `key` from its own server, or from this one, if it is right. Cost: a look-up, three loads.
    pub(super) fn get(&self, key: &[u8], other: Option<ServerIndex>, now: Now) -> Option<Arc<Value>> {
        let copy = self.table.get(key)?;
        let source = &self.sources[copy.source.get()];
        // Acquire pairs with the release in `flush`.
        let is_right = other.map_or(copy.by_itself, |other| other == copy.source)
            && copy.generation == source.generation.load(Ordering::Acquire)
            && now.nanos() < copy.ends_at
            && self.believes(copy.source, now);
        is_right.then_some(copy.value)
    }

    /// Whether all that makes copies of this server wrong is known, or was until a moment ago.
    pub(super) fn believes(&self, source: ServerIndex, now: Now) -> bool {
        now.nanos() < self.sources[source.get()].believed_until.load(Ordering::Acquire)
    }

    /// To be called before `key` is asked for at its server; `None` while its changes are not known.
    pub(super) fn begin(&self, key: &[u8], from: Place, now: Now) -> Option<Fill> {
        let source = from.server();
        // In this order: a generation that begins when the stream is lost is seen with the loss.
        let generation = self.sources[source.get()].generation.load(Ordering::Acquire);
        self.believes(source, now).then(|| Fill {
            from,
            generation,
            told: *self.locked(key),
        })
    }

    /// The value that was asked for has come: it is kept for so long at most, unless something was told about its key.
    pub(super) fn end(&self, fill: Fill, key: &[u8], value: &Arc<Value>, ends_at: Now) {
        let copy = Kept {
            value: Arc::clone(value),
            source: fill.from.server(),
            by_itself: matches!(fill.from, Place::Own(_)),
            generation: fill.generation,
            ends_at: ends_at.nanos(),
        };
        let told = self.locked(key);
        match *told == fill.told {
            true => self.table.insert(key.into(), copy),
            false => add(&self.counts.voids),
        }
    }

    /// A copy of `key` is wrong, and so is what was asked for before now.
    pub(super) fn change(&self, key: &[u8]) {
        let mut told = self.locked(key);
        *told += 1;
        self.table.remove(key);
    }

    /// Any copy of this server may be wrong.
    pub(super) fn flush(&self, source: ServerIndex) {
        self.sources[source.get()]
            .generation
            .fetch_add(1, Ordering::Release);
    }

    /// All that makes copies of this server wrong is known up to the moment by which this one follows.
    pub(super) fn believe(&self, source: ServerIndex, until: Now) {
        let believed = &self.sources[source.get()].believed_until;
        believed.store(until.nanos(), Ordering::Release);
    }

    /// Nothing is known any more.
    pub(super) fn doubt(&self, source: ServerIndex) {
        // In this order, see `begin`.
        self.believe(source, Now::default());
        self.flush(source);
    }

    fn locked(&self, key: &[u8]) -> MutexGuard<'_, u64> {
        let part = self.hasher.hash_one(key) as usize % PARTS;
        self.parts[part].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies that there are, wrong ones too, and their bytes.
    pub(super) fn held(&self) -> (u64, u64) {
        (self.table.len() as u64, self.table.weight())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use scrubjay_base::time::Now;

    use super::{Copies, Place};
    use crate::placement::ServerIndex;
    use crate::protocol::Value;

    const NOW: Now = Now::from_secs(10);
    const LATER: Now = Now::from_secs(20);

    fn server() -> ServerIndex {
        ServerIndex::new(0)
    }

    fn value(text: &str) -> Arc<Value> {
        Arc::new(Value {
            bytes: text.into(),
            ..Value::default()
        })
    }

    fn believed() -> Copies {
        let copies = Copies::new(2, 1 << 20, true);
        assert!(
            copies.begin(b"k", Place::Own(server()), NOW).is_none(),
            "nothing is known yet"
        );
        copies.believe(server(), LATER);
        copies
    }

    /// A copy of `k`, before which `meanwhile` happens between question and answer.
    fn filled(meanwhile: impl FnOnce(&Copies)) -> Copies {
        let copies = believed();
        let fill = copies
            .begin(b"k", Place::Own(server()), NOW)
            .expect("it is believed");
        meanwhile(&copies);
        copies.end(fill, b"k", &value("v"), LATER);
        copies
    }

    #[test]
    fn a_copy_is_served_until_something_is_told_or_its_time_is_over() {
        let check = |then: &dyn Fn(&Copies), at, is_there: bool| {
            let copies = filled(|_| {});
            then(&copies);
            assert_eq!(copies.get(b"k", None, at).is_some(), is_there);
        };
        let nothing = |_: &Copies| {};
        check(&nothing, NOW, true);
        check(&nothing, LATER, false);
        check(&|copies| copies.change(b"k"), NOW, false);
        check(&|copies| copies.change(b"other"), NOW, true);
        check(&|copies| copies.flush(server()), NOW, false);
        check(&|copies| copies.flush(ServerIndex::new(1)), NOW, true);
        check(&|copies| copies.doubt(server()), NOW, false);
        let back = |copies: &Copies| {
            copies.doubt(server());
            copies.believe(server(), LATER);
        };
        check(&back, NOW, false);
        let short = |copies: &Copies| copies.believe(server(), Now::from_secs(12));
        check(&short, Now::from_secs(11), true);
        check(&short, Now::from_secs(12), false);
    }

    #[test]
    fn an_answer_that_a_change_has_overtaken_is_not_kept() {
        let check = |meanwhile: fn(&Copies), is_there: bool| {
            assert_eq!(filled(meanwhile).get(b"k", None, NOW).is_some(), is_there);
        };
        check(|_| {}, true);
        check(|copies| copies.change(b"k"), false);
        check(|copies| copies.flush(server()), false);
        let reconnected = |copies: &Copies| {
            copies.doubt(server());
            copies.believe(server(), LATER);
        };
        check(reconnected, false);
    }

    #[test]
    fn a_copy_is_served_only_to_those_who_would_ask_the_server_that_it_is_from() {
        let (here, there) = (server(), ServerIndex::new(1));
        let check = |from: Place, right: &[Option<ServerIndex>]| {
            let copies = believed();
            copies.believe(there, LATER);
            let fill = copies.begin(b"k", from, NOW).expect("it is believed");
            copies.end(fill, b"k", &value("v"), LATER);
            for other in [None, Some(here), Some(there)] {
                let is_there = copies.get(b"k", other, NOW).is_some();
                assert_eq!(is_there, right.contains(&other), "{from:?} {other:?}");
            }
        };
        check(Place::Own(here), &[None, Some(here)]);
        check(Place::Other(here), &[Some(here)]);
        check(Place::Other(there), &[Some(there)]);
    }

    #[test]
    fn copies_take_no_more_bytes_than_they_may() {
        let copies = believed();
        for number in 0..10_000 {
            let key = format!("key:{number}").into_bytes();
            let fill = copies
                .begin(&key, Place::Own(server()), NOW)
                .expect("it is believed");
            copies.end(fill, &key, &value(&"v".repeat(1000)), LATER);
        }
        let (count, bytes) = copies.held();
        assert!(bytes <= 1 << 20 && count > 500, "{count} copies in {bytes} bytes");
        let fill = copies
            .begin(b"huge", Place::Own(server()), NOW)
            .expect("it is believed");
        copies.end(fill, b"huge", &value(&"v".repeat(2 << 20)), LATER);
        assert!(copies.held().1 <= 1 << 20);
        assert!(copies.get(b"huge", None, NOW).is_none());
    }
}
