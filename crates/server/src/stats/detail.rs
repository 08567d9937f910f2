//! `stats detail`: requests by the prefix of their key, up to the delimiter of `-D`, while somebody wants them counted.
//!
//! While nobody does, a request costs a look at a flag. While somebody does, it takes its worker's own lock, for which only
//! a dump competes. Requests of the meta and the binary protocol count as those of the classic one.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::options::Options;
use crate::service::Shared;

/// Most prefixes that a worker remembers; requests for others are not counted.
const PREFIXES_MAX: usize = 4096;

/// Whether requests are counted.
#[derive(Debug)]
pub struct Switch(AtomicBool);

impl Switch {
    /// On from the start where a delimiter was given.
    pub fn new(options: &Options) -> Switch {
        Switch(AtomicBool::new(options.detail_enabled))
    }

    /// Another one in the same position.
    pub(crate) fn copy(&self) -> Switch {
        Switch(AtomicBool::new(self.is_on()))
    }

    /// Whether requests are counted now.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What was asked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Request {
    Get { found: bool },
    Set,
    Delete,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    gets: u64,
    hits: u64,
    sets: u64,
    deletes: u64,
}

/// One worker's counts by prefix.
#[derive(Debug, Default)]
pub(crate) struct Detail(Mutex<BTreeMap<Vec<u8>, Counts>>);

impl Detail {
    /// Counts a request. A key without the delimiter has no prefix and is not counted.
    #[cold]
    #[inline(never)]
    pub(crate) fn note(&self, options: &Options, key: &[u8], request: Request) {
        let delimiter = options.stat_delimiter as u8;
        let Some(len) = key.iter().position(|&byte| byte == delimiter) else {
            return;
        };
        let prefix = &key[..len];
        let mut prefixes = self.0.lock().expect("nothing panics under this lock");
        if !prefixes.contains_key(prefix) {
            if prefixes.len() >= PREFIXES_MAX {
                return;
            }
            prefixes.insert(prefix.to_vec(), Counts::default());
        }
        let Some(counts) = prefixes.get_mut(prefix) else {
            return;
        };
        match request {
            Request::Get { found } => {
                counts.gets += 1;
                counts.hits += u64::from(found);
            }
            Request::Set => counts.sets += 1,
            Request::Delete => counts.deletes += 1,
        }
    }
}

/// Turns counting `on` or `off`; `false` if `word` is neither.
pub(crate) fn switch(shared: &Shared, word: &[u8]) -> bool {
    let on = word == b"on";
    if on || word == b"off" {
        shared.detail.0.store(on, Ordering::Relaxed);
    }
    on || word == b"off"
}

/// Forgets what was counted.
pub(crate) fn reset(shared: &Shared) {
    let workers = shared.counters.lock().expect("nothing panics under this lock");
    for worker in workers.iter() {
        worker
            .detail
            .0
            .lock()
            .expect("nothing panics under this lock")
            .clear();
    }
}

/// A line a prefix, in order.
pub(crate) fn dump(shared: &Shared) -> String {
    let mut sums = BTreeMap::<Vec<u8>, Counts>::new();
    let workers = shared.counters.lock().expect("nothing panics under this lock");
    for worker in workers.iter().map(Arc::as_ref) {
        let prefixes = worker.detail.0.lock().expect("nothing panics under this lock");
        for (prefix, counts) in prefixes.iter() {
            let sum = sums.entry(prefix.clone()).or_default();
            sum.gets += counts.gets;
            sum.hits += counts.hits;
            sum.sets += counts.sets;
            sum.deletes += counts.deletes;
        }
    }
    let mut text = String::new();
    for (prefix, sum) in sums {
        let Counts {
            gets,
            hits,
            sets,
            deletes,
        } = sum;
        // Blanks and line ends of a binary key must not break the line.
        let breaks = |letter: char| letter.is_whitespace() || letter.is_control();
        let prefix = String::from_utf8_lossy(&prefix).replace(breaks, "?");
        writeln!(
            text,
            "PREFIX {prefix} get {gets} hit {hits} set {sets} del {deletes}\r"
        )
        .expect("a string takes every byte");
    }
    text
}
