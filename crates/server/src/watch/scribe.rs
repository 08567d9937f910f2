//! The scribe: a thread beside the workers that makes lines of their records and gives them to those who watch.
//!
//! It looks at the books every few milliseconds while somebody watches, and sleeps while nobody does.

use std::sync::Arc;
use std::time::Duration;

use scrubjay_base::time::Now;
use scrubjay_io::thread::Bell;

use super::beat::{Pulse, Reach};
use super::record::{Record, write_start};
use super::system::Watched;
use super::{Feed, Log, Stream};
use crate::service::Shared;

/// How long the books are left alone, at least, while records come, and at most. A book of 64 KiB has room for a thousand
/// records.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(8);

/// Longest line that says how much was skipped.
const SKIPPED_LEN_MAX: usize = "skipped=18446744073709551615\n".len();

/// Serves watchers, for ever; `now` tells the time.
pub fn run(shared: &Shared, now: impl Fn() -> Now) {
    let mut scribe = Scribe::new(shared);
    let bell = Bell::default();
    let mut pause = PAUSE_MIN;
    loop {
        scribe.wait_for_watchers();
        if shared.log.has_ended() {
            return;
        }
        pause = match scribe.round(now()) {
            true => PAUSE_MIN.max(pause / 2),
            false => PAUSE_MAX.min(pause * 2),
        };
        bell.wait(pause);
    }
}

/// What the scribe keeps from round to round.
pub(super) struct Scribe<'a> {
    shared: &'a Shared,
    log: &'a Log,
    readers: Vec<Reader>,
    watched: Watched,
    reach: Reach,
    /// The number of the last line.
    gid: u64,
    /// Unix time in microseconds when the clock started.
    unix_micros: u64,
    line: Vec<u8>,
}

/// A watcher, as the scribe sees it.
struct Reader {
    feed: Arc<Feed>,
    /// Lines that are not published yet.
    pending: Vec<u8>,
    /// Lines that it did not get and has not been told of.
    skipped: u64,
    /// Records of its streams that workers have dropped, as far as it has been counted.
    dropped: u64,
    /// Of one that wants to know what it must not keep.
    pulse: Option<Pulse>,
}

impl Reader {
    fn room(&self) -> usize {
        self.feed.room().saturating_sub(self.pending.len())
    }

    /// Takes a line, behind word of those that it missed; `false` if there is no room.
    fn offer(&mut self, line: &[u8]) -> bool {
        if line.len() + SKIPPED_LEN_MAX > self.room() {
            self.skipped += 1;
            return false;
        }
        self.tell_skipped();
        self.pending.extend_from_slice(line);
        true
    }

    fn tell_skipped(&mut self) {
        if self.skipped > 0 && SKIPPED_LEN_MAX <= self.room() {
            let skipped = std::mem::take(&mut self.skipped);
            self.pending
                .extend_from_slice(format!("skipped={skipped}\n").as_bytes());
        }
    }

    /// Writes a beat if one is due, behind all that was told or said to be missing. Without room there is one later.
    fn beat(&mut self, now: Now, reach: &Reach) {
        let (room, is_behind) = (self.room(), self.skipped > 0);
        let Some(pulse) = self
            .pulse
            .as_mut()
            .filter(|pulse| !is_behind && pulse.is_due(now))
        else {
            return;
        };
        let end = self.pending.len();
        pulse.write(reach, &mut self.pending);
        match self.pending.len() - end <= room {
            true => pulse.note(now),
            false => self.pending.truncate(end),
        }
    }
}

impl<'a> Scribe<'a> {
    pub(super) fn new(shared: &'a Shared) -> Scribe<'a> {
        Scribe {
            shared,
            log: &shared.log,
            readers: Vec::new(),
            watched: Watched::default(),
            reach: Reach::default(),
            gid: 0,
            unix_micros: shared.cache.config().unix_millis_at_start * 1000,
            line: Vec::new(),
        }
    }

    fn wait_for_watchers(&self) {
        let watchers = self.log.locked();
        let none = |watchers: &mut Vec<Arc<Feed>>| watchers.is_empty() && !self.log.has_ended();
        let waited = self.log.has_come.wait_while(watchers, none);
        drop(waited.expect("nothing panics under this lock"));
    }

    /// Takes all records that there are; whether there were any.
    pub(super) fn round(&mut self, now: Now) -> bool {
        self.look_who_watches();
        self.begin_beats();
        let first = self.gid;
        let log = self.log;
        for (number, book) in log.books.get().into_iter().flatten().enumerate() {
            book.0.ring.take(|position, head, bytes| {
                let record = Record::decode(head, bytes);
                self.gid += 1;
                self.line.clear();
                if !record.write_change(number, &mut self.line) {
                    record.write(self.unix_micros, self.gid, &mut self.line);
                }
                self.give(record.stream(), Some((number, position)));
            });
        }
        self.tell_of_flushes();
        self.tell_of_system(now);
        let found = self.gid > first;
        for reader in &mut self.readers {
            let dropped = log.dropped(reader.feed.streams);
            reader.skipped += dropped - std::mem::replace(&mut reader.dropped, dropped);
            reader.tell_skipped();
            reader.beat(now, &self.reach);
            reader.feed.publish(&mut reader.pending);
        }
        found
    }

    fn look_who_watches(&mut self) {
        let watchers = self.log.locked();
        self.readers
            .retain(|reader| watchers.iter().any(|feed| Arc::ptr_eq(feed, &reader.feed)));
        for feed in watchers.iter() {
            if !self.readers.iter().any(|reader| Arc::ptr_eq(feed, &reader.feed)) {
                self.readers.push(Reader {
                    feed: Arc::clone(feed),
                    pending: Vec::new(),
                    skipped: 0,
                    dropped: feed.dropped_before,
                    pulse: (feed.wants(Stream::Invalidations))
                        .then(|| Pulse::new(&self.shared.cache, self.log)),
                });
            }
        }
    }

    /// What beats will bear is read before the books are.
    fn begin_beats(&mut self) {
        let cache = &self.shared.cache;
        let beating = self.readers.iter_mut().filter_map(|reader| {
            let pulse = reader.pulse.as_mut()?;
            Some(pulse.look(cache, &reader.feed))
        });
        if beating.count() > 0 {
            self.reach.read(self.log);
        }
    }

    fn tell_of_flushes(&mut self) {
        for reader in &mut self.readers {
            let Some(pulse) = &mut reader.pulse else {
                continue;
            };
            if pulse.learns_of_flush(&self.reach) {
                let line = format!("all={}\n", self.reach.flushes);
                match reader.offer(line.as_bytes()) {
                    true => self.log.sent.add(1),
                    false => self.log.skipped.add(1),
                }
            }
        }
    }

    /// Gives the line to those who want it, and came before it was written at this place, if it comes out of a book.
    fn give(&mut self, stream: Stream, place: Option<(usize, u64)>) {
        for reader in &mut self.readers {
            let is_new = place.is_none_or(|(book, position)| position >= reader.feed.starts[book]);
            if !is_new || reader.feed.streams & stream.bit() == 0 {
                continue;
            }
            match reader.offer(&self.line) {
                true => self.log.sent.add(1),
                false => self.log.skipped.add(1),
            }
        }
    }

    fn tell_of_system(&mut self, now: Now) {
        if self.log.noted.bits() & Stream::SystemEvents.bit() == 0 {
            // What happens meanwhile is not told later.
            return self.watched.forget();
        }
        for words in self.watched.look(self.shared, now) {
            self.gid += 1;
            self.line.clear();
            write_start(self.unix_micros + now.nanos() / 1000, self.gid, &mut self.line);
            self.line.extend_from_slice(words.as_bytes());
            self.line.push(b'\n');
            self.give(Stream::SystemEvents, None);
        }
    }
}
