//! Who looks on: items that are evicted are shown to an observer, while it wants to see them, flushes are told to it, and a key's
//! item can be looked at without leaving a trace. The engine knows nothing of what becomes of that.

use std::sync::OnceLock;

use crate::api::Cause;
use crate::cache::Cache;
use crate::expiry::{TICKS_PER_SEC, ttl_secs};
use crate::index::Entry;
use crate::worker::{Turn, Worker};

/// An item that is evicted.
#[derive(Clone, Copy, Debug)]
pub struct Departure<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// Why it leaves.
    pub cause: Cause,
    /// Bytes of its value.
    pub value_len: usize,
    /// Seconds that it had to live; `None`: for ever.
    pub ttl: Option<u32>,
    /// Seconds since it was read or written.
    pub idle_secs: u32,
    /// Seconds since it was put where it lay.
    pub placed_secs: u32,
    /// Whether it was read since it was stored.
    pub fetched: bool,
    /// About how often it was read: 0, 1 or more, as `why` tells it.
    pub reads: u16,
}

/// Is shown what is evicted, by the thread that evicts: it must not wait, nor call the cache.
pub trait Observer: std::fmt::Debug + Send + Sync {
    /// Whether it wants to see them now; asked each time.
    fn wants(&self) -> bool;

    /// The item leaves; `member` is the number of the worker that evicts it, see [`Worker::number`], or their number if it is
    /// background work.
    fn left(&self, member: usize, departure: &Departure<'_>);

    /// Everything that was stored is dead, since just now: a `flush_all`, or one whose time has come.
    fn flushed(&self) {}
}

/// The observer's place in the cache.
pub(crate) type Departures = OnceLock<Box<dyn Observer>>;

/// What lies under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peek {
    /// A live item.
    Found {
        /// Bytes of its value.
        value_len: usize,
        /// Seconds that it has to live; `None`: for ever.
        ttl: Option<u32>,
    },
    /// Nothing.
    Absent,
    /// An item that has died of age, and has not been noticed.
    Expired,
    /// An item that fell to flush_all, and has not been noticed.
    Flushed,
}

impl Cache {
    /// Names who is shown what is evicted. Only the first one is taken.
    pub fn set_observer(&self, observer: Box<dyn Observer>) {
        // The first one stays, as said.
        let _ = self.departures.set(observer);
    }

    /// Shows an item that leaves, if anybody looks.
    #[inline]
    pub(crate) fn show_evicted(&self, turn: &Turn<'_>, entry: &Entry<'_>, cause: Cause) {
        let is_evicted = matches!(cause, Cause::Evicted | Cause::LimitLowered);
        if is_evicted && let Some(observer) = self.departures.get().filter(|observer| observer.wants()) {
            self.show(observer.as_ref(), turn, entry, cause);
        }
    }

    #[cold]
    fn show(&self, observer: &dyn Observer, turn: &Turn<'_>, entry: &Entry<'_>, cause: Cause) {
        let (item, header) = (entry.item, entry.item.header());
        let segment = self.heap.header(self.heap.segment_of(entry.location));
        let departure = Departure {
            key: item.key(),
            cause,
            value_len: item.value_len(),
            ttl: ttl_secs(header.deadline, turn.tick),
            idle_secs: header.idle_secs(turn.secs),
            placed_secs: turn.tick.saturating_sub(segment.opened_tick()) / TICKS_PER_SEC,
            fetched: header.fetched,
            reads: entry.heat.reads_class(),
        };
        observer.left(turn.member, &departure);
    }
}

impl Worker {
    /// This worker's number among those of the cache, below the configuration's `workers_max`; free again when it is dropped.
    pub fn number(&self) -> usize {
        self.member.index
    }

    /// What lies under `key`. Leaves no trace, and is not counted.
    pub fn peek(&self, key: &[u8]) -> Peek {
        let cache = self.member.cache();
        self.announce_again();
        let hash = cache.index.hash(key);
        if let Some((found, header)) = self.look(hash, key) {
            return Peek::Found {
                value_len: found.item.value_len(),
                ttl: ttl_secs(header.deadline, cache.tick()),
            };
        }
        let dead = cache.index.find(&cache.heap, hash, key).and_then(|found| {
            let cause = cache.death(found.location, found.item.deadline(), cache.tick());
            cause.filter(|_| found.unchanged())
        });
        match dead {
            Some(Cause::Expired) => Peek::Expired,
            Some(_) => Peek::Flushed,
            None => Peek::Absent,
        }
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex};

    use scrubjay_base::time::Now;

    use super::{Departure, Observer, Peek};
    use crate::api::{Body, Cause, Config, Store};
    use crate::cache::Cache;
    use crate::worker::Worker;

    /// Worker, key, length of the value.
    type Row = (usize, Vec<u8>, usize);

    #[derive(Clone, Debug, Default)]
    struct Seen {
        wants: Arc<AtomicBool>,
        rows: Arc<Mutex<Vec<Row>>>,
    }

    impl Observer for Seen {
        fn wants(&self) -> bool {
            self.wants.load(Ordering::Relaxed)
        }

        fn left(&self, member: usize, departure: &Departure<'_>) {
            assert_eq!((departure.cause, departure.fetched), (Cause::Evicted, false));
            let row = (member, departure.key.to_vec(), departure.value_len);
            self.rows.lock().expect("unpoisoned").push(row);
        }
    }

    fn store(worker: &mut Worker, key: &[u8], exptime: i64) {
        worker.store(Store {
            exptime,
            ..Store::set(key, Body::Bytes(&[7; 1000]))
        });
    }

    #[test]
    fn every_eviction_is_shown_while_somebody_looks() {
        let cache = Cache::new(Config::new(8 << 20)).expect("memory");
        let seen = Seen::default();
        cache.set_observer(Box::new(seen.clone()));
        let mut worker = cache.worker();
        let mut fill = |from: u32| {
            worker.begin_turn(Now::from_millis(1000));
            (from..from + 20_000).for_each(|number| store(&mut worker, &number.to_le_bytes(), 0));
            cache.counters().removed.evicted
        };
        let before = fill(0);
        assert!(before > 0 && seen.rows.lock().expect("unpoisoned").is_empty());
        seen.wants.store(true, Ordering::Relaxed);
        let evicted = fill(100_000) - before;
        let rows = seen.rows.lock().expect("unpoisoned");
        assert_eq!(rows.len() as u64, evicted);
        assert!(
            rows.iter()
                .all(|(member, key, len)| (*member, key.len(), *len) == (0, 4, 1000))
        );
    }

    #[test]
    fn a_key_is_looked_at_and_nothing_is_counted() {
        let cache = Cache::new(Config::new(8 << 20)).expect("memory");
        let mut worker = cache.worker();
        worker.begin_turn(Now::from_millis(1000));
        store(&mut worker, b"stays", 0);
        store(&mut worker, b"dies", 1);
        let reads = cache.counters().reads;
        let found = |ttl| Peek::Found { value_len: 1000, ttl };
        assert_eq!(worker.peek(b"stays"), found(None));
        assert_eq!(worker.peek(b"dies"), found(Some(1)));
        assert_eq!(worker.peek(b"never"), Peek::Absent);
        worker.begin_turn(Now::from_millis(3000));
        assert_eq!(worker.peek(b"dies"), Peek::Expired);
        worker.flush_all(0);
        assert_eq!(worker.peek(b"stays"), Peek::Flushed);
        assert_eq!(cache.counters().reads, reads);
    }
}
