//! What a watcher of `invalidations` is told beside the changes, so that it knows up to when it knows everything.
//!
//! A beat bears how many changes each book had when the round began, and the last number that the watcher had sent by then.
//! The round takes all records after that is read, and the beat goes out behind their lines. So whoever sees its own number
//! come back has been told everything that was answered before it sent the number.

use std::sync::atomic::Ordering;

use scrubjay_base::time::Now;
use scrubjay_cache::{Cache, Mark};

use super::{Feed, Log};

/// How often there is a beat at least, but for the pause between two rounds. Promised: 250 ms.
const PERIOD_NANOS: u64 = 200_000_000;

/// How far the books and the flushes are when a round begins.
#[derive(Debug, Default)]
pub(super) struct Reach {
    /// Changes so far, by book.
    changes: Vec<u64>,
    pub(super) flushes: u64,
}

impl Reach {
    /// Reads it, for a round that takes the books afterwards.
    pub(super) fn read(&mut self, log: &Log) {
        let books = log.books.get().into_iter().flatten();
        self.changes.clear();
        // Acquire pairs with the release in `Book::write_change` and in `Evictions::flushed`.
        self.changes
            .extend(books.map(|book| book.0.changes.0.load(Ordering::Acquire)));
        self.flushes = log.flushes.load(Ordering::Acquire);
    }
}

/// One watcher's beats.
#[derive(Debug)]
pub(super) struct Pulse {
    /// Workers that have not passed it may change something without telling, as nobody watched when they looked.
    mark: Option<Mark>,
    /// Flushes that it knows of.
    flushes: u64,
    /// What it had sent when the round began.
    heard: u64,
    echoed: u64,
    beaten_at: Option<Now>,
}

impl Pulse {
    /// Of a watcher whose streams are noted from now on.
    pub(super) fn new(cache: &Cache, log: &Log) -> Pulse {
        Pulse {
            mark: Some(cache.mark()),
            flushes: log.flushes.load(Ordering::Acquire),
            heard: 0,
            echoed: 0,
            beaten_at: None,
        }
    }

    /// A round begins: to be called before [`Reach::read`].
    pub(super) fn look(&mut self, cache: &Cache, feed: &Feed) {
        self.mark = self.mark.filter(|mark| !cache.has_passed(*mark));
        self.heard = feed.heard();
    }

    /// Whether everything was flushed since the last call.
    pub(super) fn learns_of_flush(&mut self, reach: &Reach) -> bool {
        std::mem::replace(&mut self.flushes, reach.flushes) != reach.flushes
    }

    /// Whether a beat is due.
    pub(super) fn is_due(&self, now: Now) -> bool {
        let is_late = |at: Now| now.nanos_since(at) >= PERIOD_NANOS;
        self.mark.is_none() && (self.heard != self.echoed || self.beaten_at.is_none_or(is_late))
    }

    /// Appends a beat's line.
    pub(super) fn write(&self, reach: &Reach, out: &mut Vec<u8>) {
        let told = reach.changes.iter().enumerate().filter(|(_, count)| **count > 0);
        let told: Vec<String> = told.map(|(book, count)| format!("{book}:{count}")).collect();
        let line = format!("beat={} at={}\n", self.heard, told.join(","));
        out.extend_from_slice(line.as_bytes());
    }

    /// A beat has gone out.
    pub(super) fn note(&mut self, now: Now) {
        self.echoed = self.heard;
        self.beaten_at = Some(now);
    }
}
