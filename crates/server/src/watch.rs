//! `watch`: what the workers do, told to whoever watches, without slowing the workers.
//!
//! ```text
//! worker ── record ──> its book ──> scribe ── lines ──> a feed a watcher ──> the watcher's connection, at its worker
//!          (no lock)   (bounded)   (a thread)          (bounded)
//! ```
//! A worker writes a record of some words into a buffer of its own, or counts it as dropped if that is full. A thread beside
//! the workers, the scribe, makes lines of the records and puts them into the feeds of those who want them; what does not
//! fit there is skipped. Whoever missed something is told how much. While nobody watches, a request costs a look at a word.

mod beat;
mod feed;
mod record;
mod scribe;
mod system;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};

use scrubjay_base::ring::Ring;
use scrubjay_base::sync::OwnLine;
use scrubjay_base::time::Now;
use scrubjay_cache::{Departure, Observer};

pub(crate) use self::feed::{Door, Feed};
pub(crate) use self::record::{Command, Status, Told};
pub use self::scribe::run;
use crate::options::Options;

/// Most watchers at a time. Source: memcached, logger.c.
const WATCHERS_MAX: usize = 20;

/// What a watcher is told first.
const WELCOME: &[u8] = b"OK\r\n";

/// Kinds of lines that can be watched: the word, the bit, and for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Command lines as they were received.
    RawCommands,
    /// Items that leave for want of room.
    Evictions,
    /// Items that are looked up.
    Fetchers,
    /// Items that are stored.
    Mutations,
    /// What the server has to tell about itself.
    SystemEvents,
    /// Connections that come and go.
    ConnectionEvents,
    /// Items that are deleted.
    Deletions,
    /// Keys whose items changed in any way, for those who keep copies.
    Invalidations,
    /// Of memcached's proxy, of which there is none: nothing is told.
    Proxy,
}

/// Streams about which something is told.
const TOLD: usize = Stream::Proxy as usize;

/// The words of `watch`. Source: memcached 1.6.45, proto_text.c; built without a proxy it knows the words of that, too. Ours:
/// `invalidations`.
const WORDS: &[(&[u8], Stream)] = &[
    (b"rawcmds", Stream::RawCommands),
    (b"evictions", Stream::Evictions),
    (b"fetchers", Stream::Fetchers),
    (b"mutations", Stream::Mutations),
    (b"sysevents", Stream::SystemEvents),
    (b"connevents", Stream::ConnectionEvents),
    (b"deletions", Stream::Deletions),
    (b"invalidations", Stream::Invalidations),
    (b"proxyreqs", Stream::Proxy),
    (b"proxyevents", Stream::Proxy),
    (b"proxyuser", Stream::Proxy),
];

impl Stream {
    /// Its bit among those of [`Noted`].
    pub(crate) const fn bit(self) -> u32 {
        1 << self as u32
    }

    /// The stream that a word of `watch` names.
    pub(crate) fn named(word: &[u8]) -> Option<Stream> {
        WORDS.iter().find(|row| row.0 == word).map(|row| row.1)
    }
}

/// The bit of [`Noted`] for `stats detail`, behind those of the streams.
pub(crate) const DETAIL: u32 = 1 << 31;

/// For whom requests are noted, a bit for each purpose: the one word that every request looks at.
#[derive(Debug)]
pub struct Noted(OwnLine<AtomicU32>);

impl Noted {
    /// With what is on from the start.
    pub(crate) fn new(options: &Options) -> Noted {
        let bits = if options.detail_enabled { DETAIL } else { 0 };
        Noted(OwnLine(AtomicU32::new(bits)))
    }

    /// The bits. They are no more than a hint: one who looks a moment later may find others.
    #[inline]
    pub(crate) fn bits(&self) -> u32 {
        self.0.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, mask: u32, bits: u32) {
        let change = |old: u32| Some(old & !mask | bits & mask);
        // The closure always has a new value.
        let _ = self
            .0
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
    }
}

/// Written by one thread, read by others.
#[derive(Debug, Default)]
struct Count(AtomicU64);

impl Count {
    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, number: u64) {
        self.0.store(number, Ordering::Relaxed);
    }

    fn add(&self, by: u64) {
        self.set(self.get() + by);
    }
}

/// Where one worker, or whoever works beside them, writes its records. One thread at a time writes.
#[derive(Debug)]
struct Book {
    ring: Ring,
    /// Nanoseconds of the turn in which it writes.
    now: Count,
    /// Records so far, the dropped ones too: whoever reads them in order sees what is missing.
    sequence: Count,
    written: Count,
    /// Changes told here, the dropped ones too: it is raised when a change's record is written, and publishes that.
    changes: Count,
    /// Records dropped for want of room, by stream.
    dropped: [Count; TOLD],
}

/// Bytes of a usual key or line: where not even so many fit, a record is not made.
const USUAL_LEN: usize = 32;

impl Book {
    fn new(ring_len: usize) -> Book {
        Book {
            ring: Ring::new(ring_len),
            now: Count::default(),
            sequence: Count::default(),
            written: Count::default(),
            changes: Count::default(),
            dropped: std::array::from_fn(|_| Count::default()),
        }
    }

    fn write_change(&self, key: &[u8]) {
        let number = self.changes.get() + 1;
        self.write(&Told::Changed { key, number });
        // Release pairs with the acquire of the scribe, who takes what was written before it.
        self.changes.0.store(number, Ordering::Release);
    }

    fn write(&self, told: &Told<'_>) {
        let sequence = self.sequence.get();
        self.sequence.set(sequence + 1);
        if !self.ring.has_room(USUAL_LEN) {
            return self.dropped[told.stream() as usize].add(1);
        }
        let push = |head, bytes: &[u8]| self.ring.push(head, bytes);
        if record::encode(told, sequence as u32, self.now.get(), push) {
            self.written.add(1);
        } else {
            self.dropped[told.stream() as usize].add(1);
        }
    }
}

/// Where a worker stands: what its records and its watchers need of it.
#[derive(Debug, Default)]
pub(crate) struct Post {
    /// The worker's number in the cache, and that of its book.
    pub(crate) number: usize,
    /// Of the connection that is being served; 0: of a datagram.
    pub(crate) descriptor: Cell<u32>,
    /// What the connection that is being served asked last, by the numbers of `session/last.rs`; 0: nothing in this turn.
    pub(crate) last: Cell<u8>,
    /// Commands that the last call handled, unless somebody has taken this.
    pub(crate) asked: Cell<u64>,
    pub(crate) door: Arc<Door>,
}

/// The log that all workers share.
#[derive(Debug)]
pub struct Log {
    /// What is noted, and for whom.
    pub(crate) noted: Noted,
    /// One for each worker of the cache and one for background work; made when the first watcher comes.
    books: OnceLock<Box<[OwnLine<Book>]>>,
    members: usize,
    ring_len: usize,
    feed_len: usize,
    watchers: Mutex<Vec<Arc<Feed>>>,
    /// A watcher has come, or the end.
    has_come: Condvar,
    has_ended: AtomicBool,
    count: Count,
    /// Lines that watchers got, and lines that they did not get for want of room in their feeds. The scribe counts.
    sent: Count,
    skipped: Count,
    /// How often everything was flushed. Whoever flushes raises it, the scribe reads it.
    flushes: AtomicU64,
}

/// What `stats` tells of the log.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LogCounts {
    pub(crate) dropped: u64,
    pub(crate) written: u64,
    pub(crate) skipped: u64,
    pub(crate) sent: u64,
    pub(crate) watchers: u64,
}

/// There are as many watchers as there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

impl Log {
    /// Ends [`run`].
    pub fn end(&self) {
        let watchers = self.locked();
        self.has_ended.store(true, Ordering::Relaxed);
        drop(watchers);
        self.has_come.notify_all();
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// A log that nobody watches, for a cache with so many workers at most. It takes no memory yet.
    pub(crate) fn new(options: &Options, workers_max: usize) -> Log {
        Log {
            noted: Noted::new(options),
            books: OnceLock::new(),
            members: workers_max + 1,
            ring_len: options.worker_logbuf_len,
            feed_len: options.watcher_logbuf_len,
            watchers: Mutex::default(),
            has_come: Condvar::new(),
            has_ended: AtomicBool::new(false),
            count: Count::default(),
            sent: Count::default(),
            skipped: Count::default(),
            flushes: AtomicU64::new(0),
        }
    }

    /// The worker `member` begins a turn in which something may be told. Called while somebody watches.
    pub fn begin_turn(&self, member: usize, now: Now) {
        if let Some(books) = self.books.get() {
            books[member].0.now.set(now.nanos());
        }
    }

    /// Tells the scribe. Never waits: what finds no room is dropped and counted.
    pub(crate) fn tell(&self, member: usize, told: &Told<'_>) {
        if let Some(books) = self.books.get() {
            books[member].0.write(told);
        }
    }

    /// Tells the scribe that there is something else under a key than there was: after that is so, and before it is answered.
    #[cold]
    pub(crate) fn tell_change(&self, member: usize, key: &[u8]) {
        if let Some(books) = self.books.get() {
            books[member].0.write_change(key);
        }
    }

    /// A new watcher of these streams, whose connection is served behind `door`: what is told from now on comes to its feed.
    ///
    /// # Errors
    /// There are too many watchers.
    pub(crate) fn watch(&self, streams: u32, door: &Arc<Door>) -> Result<Arc<Feed>, TooMany> {
        let make = || {
            (0..self.members)
                .map(|_| OwnLine(Book::new(self.ring_len)))
                .collect()
        };
        let books = self.books.get_or_init(make);
        let mut watchers = self.locked();
        if watchers.len() >= WATCHERS_MAX {
            return Err(TooMany);
        }
        let starts = books.iter().map(|book| book.0.ring.position());
        let dropped = self.dropped(streams);
        let feed = Arc::new(Feed::new(streams, starts.collect(), dropped, self.feed_len, door));
        feed.publish(&mut WELCOME.to_vec());
        watchers.push(Arc::clone(&feed));
        self.note_watchers(&watchers);
        drop(watchers);
        self.has_come.notify_one();
        Ok(feed)
    }

    /// The watcher has gone.
    pub(crate) fn leave(&self, feed: &Arc<Feed>) {
        let mut watchers = self.locked();
        watchers.retain(|other| !Arc::ptr_eq(other, feed));
        self.note_watchers(&watchers);
    }

    fn note_watchers(&self, watchers: &[Arc<Feed>]) {
        let all = watchers.iter().fold(0, |all, feed| all | feed.streams);
        self.noted.set(!DETAIL, all);
        self.count.set(watchers.len() as u64);
    }

    fn locked(&self) -> MutexGuard<'_, Vec<Arc<Feed>>> {
        self.watchers.lock().expect("nothing panics under this lock")
    }

    /// Records of these streams that workers dropped.
    fn dropped(&self, streams: u32) -> u64 {
        let books = self.books.get().into_iter().flatten();
        let of_book = |book: &OwnLine<Book>| -> u64 {
            let counts = book.0.dropped.iter().enumerate();
            let wanted = counts.filter(|(stream, _)| streams >> stream & 1 == 1);
            wanted.map(|(_, count)| count.get()).sum()
        };
        books.map(of_book).sum()
    }

    pub(crate) fn counts(&self) -> LogCounts {
        let books = self.books.get().into_iter().flatten();
        LogCounts {
            dropped: self.dropped(u32::MAX),
            written: books.map(|book| book.0.written.get()).sum(),
            skipped: self.skipped.get(),
            sent: self.sent.get(),
            watchers: self.count.get(),
        }
    }

    /// Bytes that books and feeds take.
    pub fn held(&self) -> u64 {
        let books = self.books.get().into_iter().flatten();
        let books: usize = books.map(|book| book.0.ring.held()).sum();
        books as u64 + self.count.get() * self.feed_len as u64
    }
}

/// Tells what the cache evicts and flushes.
#[derive(Debug)]
pub(crate) struct Evictions(pub(crate) Arc<Log>);

impl Observer for Evictions {
    fn wants(&self) -> bool {
        self.0.noted.bits() & Stream::Evictions.bit() != 0
    }

    fn left(&self, member: usize, departure: &Departure<'_>) {
        self.0.tell(member, &Told::Evicted(*departure));
    }

    fn flushed(&self) {
        // Release pairs with the acquire of the scribe.
        self.0.flushes.fetch_add(1, Ordering::Release);
    }
}
