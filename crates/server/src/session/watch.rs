//! `watch`, and what requests tell those who watch.
//!
//! Everything here but the looks at a word is out of line: it runs while somebody watches, and then it may cost a few tens of
//! nanoseconds a request, but nothing that waits.

use std::sync::Arc;

use scrubjay_cache::{Delete, Hit, Peek, Refusal, StoreMode, StoreOutcome};
use scrubjay_protocol::reply;
use scrubjay_protocol::tokens::Tokens;

use super::{Context, OUTPUT_PER_CALL};
use crate::service::Shared;
use crate::stats::{WorkerCounters, detail};
use crate::watch::{Command, DETAIL, Feed, Log, Post, Status, Stream, Told};

/// `watch` when there are as many watchers as there may be. Source: memcached, proto_text.c.
const TOO_MANY: &str = "WATCHER_TOO_MANY log watcher limit reached";

/// For whom look-ups are noted.
pub(super) const GETS: u32 = Stream::Fetchers.bit() | DETAIL;

/// A connection that watches. It leaves when it is dropped.
#[derive(Debug)]
pub(super) struct Watcher {
    log: Arc<Log>,
    feed: Arc<Feed>,
    /// The number that it is in the middle of sending.
    number: u64,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.log.leave(&self.feed);
    }
}

impl Watcher {
    /// Answers a `watch` line, and makes its connection a watcher unless it is refused.
    pub(super) fn begin(context: &Context<'_>, line: &[u8], out: &mut Vec<u8>) -> Option<Box<Watcher>> {
        let tokens = Tokens::cut(line);
        let words = match context.shared.options_now().watch_enabled {
            false => reply::NO_WATCH,
            true => match streams_of(&tokens) {
                None => reply::ERROR,
                Some(streams) => match context.shared.log.watch(streams, &context.post.door) {
                    Ok(feed) => {
                        let log = Arc::clone(&context.shared.log);
                        let number = 0;
                        return Some(Box::new(Watcher { log, feed, number }));
                    }
                    Err(_too_many) => TOO_MANY,
                },
            },
        };
        if tokens.last() != b"noreply" {
            reply::line(out, words);
        }
        None
    }

    /// It has sent something: lines with numbers, of which the last is echoed by the next beat.
    pub(super) fn hear(&mut self, input: &[u8]) {
        if !self.feed.wants(Stream::Invalidations) {
            return;
        }
        for byte in input {
            match byte {
                b'0'..=b'9' => {
                    let digit = u64::from(byte - b'0');
                    self.number = self.number.wrapping_mul(10).wrapping_add(digit);
                }
                b'\n' => self.feed.hear(std::mem::take(&mut self.number)),
                _ => {}
            }
        }
    }

    /// Appends a fair share of what there is; whether there is more.
    pub(super) fn feed(&self, out: &mut Vec<u8>) -> bool {
        self.feed.take(out, OUTPUT_PER_CALL)
    }
}

/// What is asked for, by bits; `None` if a word is not known.
fn streams_of(tokens: &Tokens<'_>) -> Option<u32> {
    if tokens.count() == 1 {
        return Some(Stream::Fetchers.bit());
    }
    let mut words = (1..tokens.count()).map(|index| Stream::named(tokens.get(index)));
    words.try_fold(0, |all, stream| Some(all | stream?.bit()))
}

/// A key was looked up, and somebody wants to know. Of a miss watchers are told elsewhere, see [`Context::note_miss`]; one that was
/// filled was a miss, too.
#[cold]
pub(super) fn note_get(
    shared: &Shared,
    post: &Post,
    counters: &WorkerCounters,
    key: &[u8],
    hit: Option<&Hit<'_>>,
) {
    let noted = shared.log.noted.bits();
    if let Some(hit) = hit
        && noted & Stream::Fetchers.bit() != 0
    {
        let (status, size) = match hit.created {
            false => (Status::Found, hit.value_len()),
            true => (Status::NotFound, 0),
        };
        let cfd = post.descriptor.get();
        let told = Told::Get {
            key,
            status,
            size,
            cfd,
        };
        shared.log.tell(post.number, &told);
    }
    if noted & DETAIL != 0 {
        let found = hit.is_some_and(|hit| !hit.created);
        counters.detail.note(shared, key, detail::Request::Get { found });
    }
}

/// What lies under a key, or its life, may be another than before. To be called when that is so, and before it is answered.
///
/// The word is read here: the copy of this call may be older than the moment that a new watcher waits for. See
/// docs/internals/watch.md, "Copies elsewhere".
#[inline]
pub(super) fn note_change(shared: &Shared, post: &Post, key: &[u8]) {
    if shared.log.noted.bits() & Stream::Invalidations.bit() != 0 {
        shared.log.tell_change(post.number, key);
    }
}

impl Context<'_> {
    /// As the function of this name.
    #[inline]
    pub(super) fn note_change(&self, key: &[u8]) {
        note_change(self.shared, self.post, key);
    }

    /// Whether somebody watches one of these streams.
    #[inline]
    pub(super) fn is_told(&self, streams: u32) -> bool {
        self.noted & streams != 0
    }

    pub(super) fn tell(&self, told: &Told<'_>) {
        self.shared.log.tell(self.post.number, told);
    }

    /// A command line has come.
    #[cold]
    pub(super) fn tell_line(&self, line: &[u8]) {
        let cfd = self.post.descriptor.get();
        self.tell(&Told::Raw { line, cfd });
    }

    /// An order to the server was obeyed.
    #[cold]
    pub(super) fn tell_order(&self, words: &str) {
        let words = &format!("{words} cfd={}", self.post.descriptor.get());
        self.tell(&Told::System { words });
    }

    /// A key was looked up, and not found.
    #[inline]
    pub(super) fn note_miss(&self, key: &[u8]) {
        if self.is_told(Stream::Fetchers.bit()) {
            self.tell_look(key);
        }
    }

    fn tell_status(&self, key: &[u8], status: Status, size: usize) {
        let cfd = self.post.descriptor.get();
        self.tell(&Told::Get {
            key,
            status,
            size,
            cfd,
        });
    }

    /// Tells what lies under a key, as a request finds it that is about to look there.
    #[cold]
    pub(super) fn tell_look(&self, key: &[u8]) -> Peek {
        let seen = self.worker.peek(key);
        let (status, size) = match seen {
            Peek::Found { value_len, .. } => (Status::Found, value_len),
            Peek::Absent => (Status::NotFound, 0),
            Peek::Expired => (Status::Expired, 0),
            Peek::Flushed => (Status::Flushed, 0),
        };
        if self.is_told(Stream::Fetchers.bit()) {
            self.tell_status(key, status, size);
        }
        seen
    }

    /// A request is about to look a key up before it changes what is there.
    #[inline]
    pub(super) fn note_look(&self, key: &[u8]) {
        if self.is_told(Stream::Fetchers.bit()) {
            self.tell_look(key);
        }
    }

    /// A request is about to store something.
    #[inline]
    pub(super) fn note_store(&self, store: &scrubjay_cache::Store<'_>) -> Option<Pending> {
        let streams = const { Stream::Fetchers.bit() | Stream::Mutations.bit() };
        self.is_told(streams).then(|| self.begin_store(store))
    }

    #[cold]
    fn begin_store(&self, store: &scrubjay_cache::Store<'_>) -> Pending {
        let seen = self.tell_look(store.key);
        let ttl = match seen {
            // What is joined keeps the life of what is there.
            Peek::Found { ttl, .. } if is_joined(store.mode) => ttl.map_or(0, i64::from),
            _ => self.ttl(store.exptime),
        };
        let command = command(store.mode, store.compare_cas.is_some());
        Pending {
            command,
            ttl,
            size: store.value.value_len(),
        }
    }

    /// A store has ended.
    #[cold]
    pub(super) fn tell_stored(&self, key: &[u8], pending: &Pending, outcome: StoreOutcome) {
        let Pending { command, ttl, size } = *pending;
        let (status, size) = match outcome {
            StoreOutcome::Stored { value_len, .. } => (Status::Stored, value_len),
            StoreOutcome::NotStored => (Status::NotStored, size),
            StoreOutcome::Exists => (Status::Exists, size),
            StoreOutcome::NotFound => (Status::NotFound, size),
            // Of a joined value that became too large it is said no more; of any other refusal it is told where it is answered.
            StoreOutcome::Refused(Refusal::TooLarge) if pending.is_joined() => (Status::NotStored, size),
            StoreOutcome::Refused(_) => return,
        };
        self.tell_mutation(key, status, command, ttl, size);
    }

    /// A value was refused, mostly before there was anything to store; as memcached, it has no size then.
    #[inline]
    pub(super) fn note_refused(&self, key: &[u8], mode: StoreMode, why: Refusal) {
        if self.is_told(Stream::Mutations.bit()) {
            let status = match why {
                Refusal::TooLarge => Status::TooLarge,
                Refusal::NoMemory => Status::NoMemory,
            };
            self.tell_mutation(key, status, command(mode, false), 0, 0);
        }
    }

    #[cold]
    fn tell_mutation(&self, key: &[u8], status: Status, command: Command, ttl: i64, size: usize) {
        if self.is_told(Stream::Mutations.bit()) {
            let cfd = self.post.descriptor.get();
            self.tell(&Told::Store {
                key,
                status,
                command,
                ttl,
                size,
                cfd,
            });
        }
    }

    /// A request is about to delete something; the length of its value, if it is there and that is to be told.
    #[inline]
    pub(super) fn note_delete(&self, key: &[u8]) -> Option<usize> {
        let streams = const { Stream::Fetchers.bit() | Stream::Deletions.bit() };
        if !self.is_told(streams) {
            return None;
        }
        match self.tell_look(key) {
            Peek::Found { value_len, .. } => Some(value_len),
            _ => None,
        }
    }

    /// An item is deleted.
    #[cold]
    pub(super) fn tell_deleted(&self, delete: &Delete<'_>, is_meta: bool, size: usize) {
        if self.is_told(Stream::Deletions.bit()) && !delete.invalidate && !delete.drop_value {
            let (key, cfd) = (delete.key, self.post.descriptor.get());
            self.tell(&Told::Deleted {
                key,
                is_meta,
                size,
                cfd,
            });
        }
    }

    /// Arithmetic has made an item.
    #[cold]
    pub(super) fn tell_made(&self, key: &[u8], (number, exptime): (u64, i64)) {
        // As memcached, which looks again before it adds.
        if self.is_told(Stream::Fetchers.bit()) {
            self.tell_status(key, Status::NotFound, 0);
        }
        let size = number.checked_ilog10().unwrap_or(0) as usize + 1;
        self.tell_mutation(key, Status::Stored, Command::Add, self.ttl(exptime), size);
    }

    /// Seconds to live by an exptime: 0 for ever, -1 dead already.
    fn ttl(&self, exptime: i64) -> i64 {
        const RELATIVE_MAX: i64 = 60 * 60 * 24 * 30;
        match exptime {
            ..0 => -1,
            0..=RELATIVE_MAX => exptime,
            _ => {
                let millis = self.shared.cache.config().unix_millis_at_start + self.now.millis();
                (exptime - (millis / 1000) as i64).max(-1)
            }
        }
    }
}

/// What is told of a store, as far as it is known before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    command: Command,
    ttl: i64,
    size: usize,
}

impl Pending {
    fn is_joined(&self) -> bool {
        matches!(self.command, Command::Append | Command::Prepend)
    }
}

fn is_joined(mode: StoreMode) -> bool {
    matches!(mode, StoreMode::Append | StoreMode::Prepend)
}

fn command(mode: StoreMode, compares: bool) -> Command {
    match mode {
        StoreMode::Set if compares => Command::Cas,
        StoreMode::Set => Command::Set,
        StoreMode::Add => Command::Add,
        StoreMode::Replace => Command::Replace,
        StoreMode::Append => Command::Append,
        StoreMode::Prepend => Command::Prepend,
    }
}
