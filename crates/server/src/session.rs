//! One connection's conversation: bytes in, replies out, no sockets. The first byte decides the protocol.
//!
//! Whatever way the input is cut, the replies are the same: a request is handled when it is complete; only the keys of a
//! multi-get and the bodies of large values are taken as they come.

mod ahead;
mod binary;
mod carry;
mod dump;
mod guard;
mod insides;
pub(crate) mod last;
mod meta;
mod need;
mod replies;
mod sets;
mod text;
mod watch;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use scrubjay_base::time::Now;
use scrubjay_cache::{
    Arith, ArithOutcome, Delete, DeleteOutcome, Get, Hit, PinnedSlice, Refusal, Store, StoreMode,
    StoreOutcome, Worker,
};
use scrubjay_net::{Handled, Next, Output, Peer, Roll, Row};

pub(crate) use self::ahead::fetch_firsts as look_ahead;
use self::guard::Guard;
use crate::auth::{Login, Rights};
use crate::observe::{self, Kind};
use crate::options;
use crate::service::Shared;
use crate::stats::{self, Counter, WorkerCounters, detail};
use crate::watch::{DETAIL, Post, Stream};

/// The version on the wire: the protocol level that clients go by.
pub const VERSION: &str = "1.6.45";

/// Longest value that is waited for as a whole, in bytes; longer ones are received piece by piece.
const WAIT_VALUE_LEN_MAX: usize = 64 << 10;

/// Longest value that is copied into the output; longer ones go out from where they lie.
const COPY_VALUE_LEN_MAX: usize = 4 << 10;

/// Bytes of replies that one call makes before others have their turn. With 256 KiB, small gets beside a client that asked for a
/// thousand keys at a time waited twice as long in the median.
const OUTPUT_PER_CALL: usize = 64 << 10;

/// Connections that are listed before others have their turn.
const ROWS_PER_CALL: usize = 256;

/// First byte of a request in the binary protocol.
const BINARY_MAGIC: u8 = 0x80;

/// What a session needs of its worker to handle requests.
#[derive(Debug)]
pub struct Context<'a> {
    /// The worker's door to the cache.
    pub worker: &'a mut Worker,
    /// What all workers share.
    pub shared: &'a Shared,
    /// What this worker counts.
    pub counters: &'a WorkerCounters,
    /// The present moment.
    pub now: Now,
    /// What the connection's user may do.
    pub rights: Rights,
    /// For whom requests are noted, as the log said when this call began.
    pub(crate) noted: u32,
    /// Where this worker stands, for records and watchers.
    pub(crate) post: &'a Post,
}

impl Context<'_> {
    fn requests_per_call(&self) -> usize {
        self.shared.live.requests_per_turn.load(Ordering::Relaxed)
    }

    /// So many commands were handled in this call, the last of which was this one; 0 or none: none is known.
    fn note_asked(&self, count: u64, last: Option<u8>) {
        self.post.asked.set(count);
        if let Some(number) = last.filter(|number| *number != 0) {
            self.post.last.set(number);
        }
    }

    fn has_cas(&self) -> bool {
        self.shared.options.cas
    }

    fn flush_enabled(&self) -> bool {
        self.shared.live.flush_enabled.load(Ordering::Relaxed)
    }

    fn shutdown_enabled(&self) -> bool {
        self.shared.live.shutdown_enabled.load(Ordering::Relaxed)
    }

    /// Looks up and counts. Inlined: it is the hot path of every protocol, and none of them asks for all that there is.
    #[inline(always)]
    fn get(&mut self, get: &Get<'_>) -> Option<Hit<'_>> {
        let counters = self.counters;
        let hit = self.worker.get(get);
        counters.add(Counter::CmdGet);
        let found = hit.as_ref().is_some_and(|hit| !hit.created);
        if self.noted & watch::GETS != 0 {
            watch::note_get(self.shared, self.post, counters, get.key, hit.as_ref());
        }
        // Its life is another now, or it was made here.
        if hit.is_some() && (get.touch.is_some() || !found) {
            watch::note_change(self.shared, self.post, get.key);
        }
        let (counter, kind) = match (get.touch.is_some(), found) {
            (false, true) => (Counter::GetHits, Kind::GetHit),
            (false, false) => (Counter::GetMisses, Kind::GetMiss),
            (true, true) => (Counter::TouchHits, Kind::TouchHit),
            (true, false) => (Counter::TouchMisses, Kind::TouchMiss),
        };
        if get.touch.is_some() {
            counters.add(Counter::CmdTouch);
        }
        counters.add(counter);
        counters.observed.note(self.shared, self.now, get.key, kind);
        hit
    }

    fn touch(&mut self, key: &[u8], exptime: i64) -> bool {
        self.note_look(key);
        let found = self.worker.touch(key, exptime);
        if found {
            self.note_change(key);
        }
        self.counters.add(Counter::CmdTouch);
        let (counter, kind) = match found {
            true => (Counter::TouchHits, Kind::TouchHit),
            false => (Counter::TouchMisses, Kind::TouchMiss),
        };
        self.counters.add(counter);
        self.note(key, kind);
        found
    }

    #[inline]
    fn store(&mut self, store: Store<'_>) -> StoreOutcome {
        let compared = store.compare_cas.is_some() && store.mode == StoreMode::Set;
        self.note_detail(store.key, detail::Request::Set);
        self.counters.observed.note_store(self.shared, self.now, &store);
        let (key, pending) = (store.key, self.note_store(&store));
        let outcome = self.worker.store(store);
        if matches!(outcome, StoreOutcome::Stored { .. } | StoreOutcome::Refused(_)) {
            self.note_change(key);
        }
        if let Some(pending) = &pending {
            self.tell_stored(key, pending, outcome);
        }
        self.counters.add(Counter::CmdSet);
        self.note(key, observe::kind_of_store(outcome));
        if compared {
            match outcome {
                StoreOutcome::Stored { .. } => self.counters.add(Counter::CasHits),
                StoreOutcome::Exists => self.counters.add(Counter::CasBadval),
                StoreOutcome::NotFound => self.counters.add(Counter::CasMisses),
                StoreOutcome::NotStored | StoreOutcome::Refused(_) => {}
            }
        }
        if let StoreOutcome::Refused(why) = outcome {
            self.count_refusal(why);
        }
        outcome
    }

    fn count_refusal(&self, why: Refusal) {
        self.counters.add(match why {
            Refusal::TooLarge => Counter::StoreTooLarge,
            Refusal::NoMemory => Counter::StoreNoMemory,
        });
    }

    /// The old item goes when a value that was to replace it was refused.
    fn refuse(&mut self, key: &[u8], why: Refusal) {
        self.note_look(key);
        self.worker.refuse(key, why);
        self.note_change(key);
    }

    fn delete(&mut self, delete: &Delete<'_>, is_meta: bool) -> DeleteOutcome {
        self.note_detail(delete.key, detail::Request::Delete);
        let size = self.note_delete(delete.key);
        let outcome = self.worker.delete(delete);
        // What is not found here may have been evicted, and lie elsewhere.
        if outcome != DeleteOutcome::Exists {
            self.note_change(delete.key);
        }
        self.note(delete.key, observe::kind_of_delete(outcome));
        if let (Some(size), DeleteOutcome::Deleted) = (size, outcome) {
            self.tell_deleted(delete, is_meta, size);
        }
        match outcome {
            DeleteOutcome::Deleted => self.counters.add(Counter::DeleteHits),
            DeleteOutcome::NotFound => self.counters.add(Counter::DeleteMisses),
            DeleteOutcome::Exists | DeleteOutcome::NoMemory => {}
        }
        outcome
    }

    fn arith(&mut self, arith: &Arith<'_>) -> ArithOutcome {
        self.note_look(arith.key);
        let outcome = self.worker.arith(arith);
        if matches!(outcome, ArithOutcome::Value { .. }) {
            self.note_change(arith.key);
        }
        self.note(arith.key, observe::kind_of_arith(outcome));
        if let (ArithOutcome::Value { created: true, .. }, Some(made)) = (outcome, arith.initial)
            && self.noted != 0
        {
            self.tell_made(arith.key, made);
        }
        let (hits, misses) = if arith.decrement {
            (Counter::DecrHits, Counter::DecrMisses)
        } else {
            (Counter::IncrHits, Counter::IncrMisses)
        };
        match outcome {
            ArithOutcome::Value { created: false, .. } => self.counters.add(hits),
            ArithOutcome::Value { created: true, .. } | ArithOutcome::NotFound => self.counters.add(misses),
            ArithOutcome::NonNumeric | ArithOutcome::Exists | ArithOutcome::NoMemory => {}
        }
        outcome
    }

    /// An operation on `key` was done. To be called once for each.
    #[inline]
    fn note(&self, key: &[u8], kind: Kind) {
        self.counters.observed.note(self.shared, self.now, key, kind);
    }

    /// Whether the next request is to be [`measured`].
    #[inline]
    fn is_due(&self) -> bool {
        self.counters.observed.is_due()
    }

    fn flush_all(&mut self, delay: i64) {
        self.counters.add(Counter::CmdFlush);
        if self.is_told(Stream::SystemEvents.bit()) {
            self.tell_order(&format!("type=flush_all delay={delay}"));
        }
        self.worker.flush_all(delay);
    }

    /// Calls `each` with name and value of every statistic of `group`; `false` if there is no such group.
    fn stats(&self, group: &[u8], each: &mut dyn FnMut(&str, &str)) -> bool {
        stats::report(self.shared, self.now, group, each)
    }

    fn begin_list(&self) -> Listing {
        Listing {
            roll: self.shared.net.roll_call.call(&self.shared.control),
            next: 0,
        }
    }

    /// As [`Context::stats`] for the group `conns`, as far as one call goes.
    fn list_connections(&self, listing: &mut Listing, each: &mut dyn FnMut(&str, &str)) -> Listed {
        if !self.shared.net.roll_call.is_complete(&listing.roll) {
            return Listed::NotYet;
        }
        let told = |row: &Row| stats::connection(row, self.now, each);
        match listing.roll.read(listing.next, ROWS_PER_CALL, told) {
            None => Listed::All,
            Some(next) => {
                listing.next = next;
                Listed::Part
            }
        }
    }

    /// Turns counting by prefix on or off, for this call's requests too; `false` if `word` is neither.
    fn switch_detail(&mut self, word: &[u8]) -> bool {
        let known = detail::switch(self.shared, word);
        self.noted = self.shared.log.noted.bits();
        known
    }

    /// Counts a request for `key`, if that is wanted, under the key's prefix.
    #[inline]
    fn note_detail(&self, key: &[u8], request: detail::Request) {
        if self.noted & DETAIL != 0 {
            self.counters.detail.note(self.shared, key, request);
        }
    }
}

/// The commands of one call.
#[derive(Debug, Default)]
struct Asked {
    begun: u64,
    /// Where in the input the last one begins.
    last: Option<usize>,
}

impl Asked {
    #[inline]
    fn begin(&mut self, at: usize) {
        self.begin_more(1, at);
    }

    /// So many more were begun, the last of them there.
    #[inline]
    fn begin_more(&mut self, count: u64, at: usize) {
        self.begun += count;
        self.last = Some(at);
    }

    /// How many were handled, if so many bytes of the input are done with: of the last one, all or nothing may have come.
    fn handled(&self, consumed: usize) -> u64 {
        self.begun - u64::from(self.last == Some(consumed))
    }
}

/// Requests of one kind that were answered one after the other.
#[derive(Debug, Default)]
struct Run {
    /// How many.
    count: usize,
    /// Bytes that they have together.
    len: usize,
    /// Where the last one begins.
    last: usize,
    /// What so many bytes look up was fetched.
    fetched: usize,
}

/// A list of connections that is being asked for or told.
#[derive(Debug)]
struct Listing {
    roll: Arc<Roll>,
    /// The first descriptor that is not told yet.
    next: u64,
}

/// How far a list was told.
enum Listed {
    /// Workers are missing in the roll, and nothing is told.
    NotYet,
    /// There is more, for when others had their turn.
    Part,
    /// To its end.
    All,
}

/// One connection's state.
#[derive(Debug, Default)]
pub struct Session {
    protocol: Protocol,
    /// Stands at the door where users log in.
    guard: Option<Box<Guard>>,
}

#[derive(Debug, Default)]
enum Protocol {
    /// Nothing was received yet.
    #[default]
    Unknown,
    Text(text::TextState),
    Binary(binary::BinaryState),
}

impl Session {
    /// A session in which nothing but a login is answered before a user has logged in.
    pub fn guarded(peer: Peer) -> Session {
        Session {
            protocol: Protocol::Unknown,
            guard: Some(Box::new(Guard::new(peer))),
        }
    }

    /// The user that has logged in.
    pub(crate) fn login(&self) -> Option<&Login> {
        self.guard.as_ref().and_then(|guard| guard.login())
    }

    /// Handles as many requests as `input` holds, at most a fair share of them, and appends their replies to `output`.
    /// The input of the next call starts with what this one did not consume.
    pub fn handle(
        &mut self,
        context: &mut Context<'_>,
        input: &[u8],
        output: &mut Output<PinnedSlice>,
    ) -> Handled {
        if let Protocol::Unknown = self.protocol {
            let Some(first) = input.first() else {
                return Handled {
                    consumed: 0,
                    next: Next::Wait,
                };
            };
            self.protocol = match is_binary(context, *first) {
                true => Protocol::Binary(binary::BinaryState::default()),
                false => Protocol::Text(text::TextState::default()),
            };
        }
        if let Some(guard) = &mut self.guard
            && let Some(handled) = guard.stop(context, &self.protocol, input, output.bytes())
        {
            context.note_asked(u64::from(handled.consumed > 0), None);
            return handled;
        }
        match &mut self.protocol {
            Protocol::Unknown => unreachable!("decided above"),
            Protocol::Text(state) => text::handle(state, context, input, output),
            Protocol::Binary(state) => binary::handle(state, context, input, output),
        }
    }
}

fn is_binary(context: &Context<'_>, first: u8) -> bool {
    match context.shared.options.protocol {
        options::Protocol::Auto => first == BINARY_MAGIC,
        options::Protocol::Binary => true,
        options::Protocol::Text => false,
    }
}

/// One step of a session, `work`, that may be measured. Out of the way of those that are not.
#[cold]
#[inline(never)]
fn measured<S, P>(
    work: fn(&mut S, &mut Context<'_>, &[u8], &mut Output<PinnedSlice>) -> P,
    step: &mut S,
    context: &mut Context<'_>,
    input: &[u8],
    output: &mut Output<PinnedSlice>,
) -> P {
    context.counters.observed.take_up(context.shared);
    let progress = work(step, context, input, output);
    context.counters.observed.answered(context.shared, context.now);
    progress
}

/// Appends a hit's value: copied if it is small, else from where it lies.
#[inline]
fn push_value(hit: &Hit<'_>, output: &mut Output<PinnedSlice>) {
    if hit.value_len() > COPY_VALUE_LEN_MAX {
        hit.pins().for_each(|pin| output.push_shared(pin));
    } else {
        hit.append_to(output.bytes());
    }
}
