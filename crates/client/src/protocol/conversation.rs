//! One connection: who has asked what, and who gets which reply. Whatever cannot be told for certain breaks the conversation
//! for good; nobody gets a reply on suspicion. It leaves out sockets, clocks (who waits no longer says so) and the choice of
//! connections.

mod bundled;
mod receive;

use std::collections::VecDeque;
use std::mem;

pub use bundled::Bundled;

use super::Form;
use super::bundle::Arriving;
use super::encode;
use super::incoming::Incoming;
use super::output::Output;
use super::reply::{Broken, Reply, Value};
use super::request::{Get, Refused, Request, needs_base64};

/// After so many silent requests the server is asked whether it has come so far.
const SILENT_RUN_MAX: usize = 64;
/// Most keys in one line of classic gets, and most bytes of it.
const GETS_KEYS_MAX: usize = 64;
const GETS_LEN_MAX: usize = 2000;
/// Bytes that a request takes besides key and value, at most.
pub(super) const REQUEST_LEN_EXTRA: usize = 128;

/// In which order a server, or what is between, answers meta requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// In the order of the requests, as servers do. A reply before its turn breaks the conversation.
    Kept,
    /// In any order, as a proxy may. An error that names no request is then believed only if there is just one it can be for.
    Free,
}

/// What a conversation is held to.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// What the server speaks.
    pub form: Form,
    /// In which order it answers.
    pub order: Order,
    /// Most requests that may be outstanding.
    pub outstanding_max: usize,
    /// Most bytes of requests that may be outstanding; a single request may be longer.
    pub outstanding_bytes_max: usize,
    /// Most bytes of a value, sent or received.
    pub value_len_max: usize,
    /// From so many replies that nobody waits for any more the conversation wants to be closed.
    pub cancelled_max: usize,
    /// The number of the first request. Drawn at random, it keeps apart the replies of two connections that something on the
    /// way has muddled up.
    pub first_ticket: u64,
}

impl Settings {
    /// Common bounds: 1,024 requests, 16 MiB, values to 1 MiB, 256 cancelled.
    pub fn new(form: Form, first_ticket: u64) -> Settings {
        Settings {
            form,
            order: Order::Kept,
            outstanding_max: 1024,
            outstanding_bytes_max: 16 << 20,
            value_len_max: 1 << 20,
            cancelled_max: 256,
            first_ticket,
        }
    }
}

/// Who waits for a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(u64);

/// Replies that have come: each ticket at most once. What came of bundles is told by [`Conversation::take_bundled`], unless it is
/// nothing but an error.
pub type Replies = Vec<(Ticket, Result<Reply, Broken>)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Get,
    Touch,
    Store,
    Delete,
    Arith,
    Noop,
    Version,
    Flush,
    Bundle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listener {
    /// Somebody waits.
    Caller,
    /// Somebody has waited, but no longer.
    Gone,
    /// Nobody ever has.
    Nobody,
}

/// A request whose reply is outstanding.
#[derive(Debug)]
struct Exchange {
    kind: Kind,
    /// The key, or nothing.
    key: Box<[u8]>,
    listener: Listener,
    /// The server was told to leave the nominal reply out.
    silent: bool,
    answered: bool,
    /// Classic gets: the last key of its line.
    ends_line: bool,
    /// The look-ups, if it is more than one.
    bundle: Option<Box<Arriving>>,
    /// Requests that it counts for.
    count: usize,
    /// Bytes that it counts for.
    len: usize,
}

/// Whose data block is coming.
#[derive(Debug)]
struct Head {
    index: usize,
    /// Which one of a bundle.
    part: usize,
    value: Value,
}

/// The line of classic gets at the end of the output, to which keys can be added.
#[derive(Debug)]
struct OpenGets {
    with_cas: bool,
    touch: Option<i64>,
    keys: usize,
    len: usize,
}

/// The state of one connection.
#[derive(Debug)]
pub struct Conversation {
    settings: Settings,
    output: Output,
    incoming: Incoming,
    /// In the order of the requests; the first has the number `first`, the next the next one.
    exchanges: VecDeque<Exchange>,
    first: u64,
    /// Exchanges from the first whose bytes have been taken for sending. The others cannot have a reply yet.
    taken: usize,
    head: Option<Head>,
    open_gets: Option<OpenGets>,
    /// Silent requests at the end of the exchanges.
    silent_run: usize,
    /// Requests that the exchanges are, and those of them that are unanswered.
    requests: usize,
    unanswered: usize,
    outstanding_bytes: usize,
    cancelled: usize,
    quiet_errors: u64,
    /// What came of bundles, to be taken.
    bundled: Vec<Bundled>,
    broken: Option<Broken>,
}

impl Conversation {
    /// A conversation over a fresh connection.
    pub fn new(settings: Settings) -> Conversation {
        Conversation {
            settings,
            output: Output::default(),
            incoming: Incoming::default(),
            exchanges: VecDeque::new(),
            first: settings.first_ticket,
            taken: 0,
            head: None,
            open_gets: None,
            silent_run: 0,
            requests: 0,
            unanswered: 0,
            outstanding_bytes: 0,
            cancelled: 0,
            quiet_errors: 0,
            bundled: Vec::new(),
            broken: None,
        }
    }

    /// Queues a request. For a quiet one no reply comes with its ticket.
    ///
    /// # Errors
    /// [`Refused`]; of [`Refused::Full`] the output is to be sent all the same, so that there will be room again.
    pub fn ask(&mut self, request: Request<'_>) -> Result<Ticket, Refused> {
        if let Err(refused) = self.check(&request) {
            if refused == Refused::Full && self.silent_run > 0 {
                self.push_barrier();
            }
            return Err(refused);
        }
        // Only a server that keeps the order says by a later reply that all is well with a silent request.
        let silent =
            request.is_quiet() && self.settings.form == Form::Meta && self.settings.order == Order::Kept;
        // An error that names no request is a silent one's, or the next one's; this keeps them apart.
        if !silent && self.silent_run > 0 && !matches!(request, Request::Noop) {
            self.push_barrier();
        }
        let listener = if request.is_quiet() {
            Listener::Nobody
        } else {
            Listener::Caller
        };
        let ticket = self.push_exchange(&request, listener, silent);
        match self.settings.form {
            Form::Meta => encode::meta(&mut self.output, request, ticket.0, silent),
            Form::Classic => self.write_classic(request),
        }
        if self.silent_run >= SILENT_RUN_MAX {
            self.push_barrier();
        }
        Ok(ticket)
    }

    /// Whether this can be asked now.
    ///
    /// # Errors
    /// [`Refused`], as [`Conversation::ask`] would.
    pub fn check(&self, request: &Request<'_>) -> Result<(), Refused> {
        let settings = &self.settings;
        if self.wants_closing() {
            return Err(Refused::Closing);
        }
        request.check(settings.form)?;
        if request.value_len() > settings.value_len_max {
            return Err(Refused::ValueLen {
                len: request.value_len(),
                max: settings.value_len_max,
            });
        }
        let bytes = self.outstanding_bytes.saturating_add(request_len(request));
        let over = bytes > settings.outstanding_bytes_max && self.unanswered > 0;
        if over || self.requests >= settings.outstanding_max {
            return Err(Refused::Full);
        }
        Ok(())
    }

    fn push_exchange(&mut self, request: &Request<'_>, listener: Listener, silent: bool) -> Ticket {
        let kind = match request {
            Request::Get(_) => Kind::Get,
            Request::Touch(_) => Kind::Touch,
            Request::Store(_) => Kind::Store,
            Request::Delete(_) => Kind::Delete,
            Request::Arith(_) => Kind::Arith,
            Request::Noop => Kind::Noop,
            Request::Version => Kind::Version,
            Request::Flush { .. } => Kind::Flush,
        };
        let key = request.key().unwrap_or_default();
        let len = request_len(request);
        let ticket = Ticket(self.first.wrapping_add(self.exchanges.len() as u64));
        self.exchanges.push_back(Exchange {
            kind,
            key: key.into(),
            listener,
            silent,
            answered: false,
            ends_line: true,
            bundle: None,
            count: 1,
            len,
        });
        self.requests += 1;
        self.unanswered += 1;
        self.outstanding_bytes += len;
        self.silent_run = if silent { self.silent_run + 1 } else { 0 };
        ticket
    }

    /// Asks for a reply behind silent requests.
    fn push_barrier(&mut self) {
        let ticket = self.push_exchange(&Request::Noop, Listener::Nobody, false);
        encode::meta(&mut self.output, Request::Noop, ticket.0, false);
    }

    fn write_classic(&mut self, request: Request<'_>) {
        let Request::Get(get) = request else {
            self.open_gets = None;
            return encode::classic(&mut self.output, request);
        };
        if self.joins_gets(&get) {
            // The exchange before this one no longer ends its line.
            let before = self.exchanges.len() - 2;
            self.exchanges[before].ends_line = false;
            return encode::extend_gets(self.output.buffer(), get.key);
        }
        self.open_gets = Some(OpenGets {
            with_cas: get.with_cas,
            touch: get.touch,
            keys: 1,
            len: get.key.len() + REQUEST_LEN_EXTRA,
        });
        encode::classic(&mut self.output, Request::Get(get));
    }

    /// Whether a key goes into the line that is open. The same key twice does not: a server may answer it once.
    fn joins_gets(&mut self, get: &Get<'_>) -> bool {
        let Some(open) = &mut self.open_gets else {
            return false;
        };
        let fits = open.with_cas == get.with_cas
            && open.touch == get.touch
            && open.keys < GETS_KEYS_MAX
            && open.len + 1 + get.key.len() <= GETS_LEN_MAX
            && !self
                .exchanges
                .iter()
                .rev()
                .skip(1)
                .take(open.keys)
                .any(|exchange| *exchange.key == *get.key);
        if fits {
            open.keys += 1;
            open.len += 1 + get.key.len();
        }
        fits
    }

    /// Whether there is something to be sent.
    pub fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// What is to be sent. A caller who takes it and does not send all of it must close the connection.
    pub fn take_output(&mut self) -> Output {
        self.open_gets = None;
        self.taken = self.exchanges.len();
        mem::take(&mut self.output)
    }

    /// All of this has been sent: what comes next may have its memory.
    pub fn reuse_output(&mut self, sent: Output) {
        self.output.reuse(sent);
    }

    /// Nobody waits for this reply any more; it is dropped when it comes. Gives whether anybody did.
    pub fn cancel(&mut self, ticket: Ticket) -> bool {
        let index = usize::try_from(ticket.0.wrapping_sub(self.first)).unwrap_or(usize::MAX);
        let Some(exchange) = self
            .exchanges
            .get_mut(index)
            .filter(|exchange| !exchange.answered)
        else {
            return false;
        };
        let waited = exchange.listener == Listener::Caller;
        if waited {
            exchange.listener = Listener::Gone;
            self.cancelled += exchange.count;
            self.give_up_bundle(index);
        }
        waited
    }

    /// Whether the connection should be closed as soon as nobody waits any more: it is broken, or too many of its replies
    /// have not come in time. As long as that is so, it takes no requests.
    pub fn wants_closing(&self) -> bool {
        // Answered ones wait behind one that is not, and there is no room for others.
        let blocked = self.requests >= self.settings.outstanding_max
            && self.unanswered < self.requests
            && self
                .exchanges
                .front()
                .is_some_and(|exchange| exchange.listener == Listener::Gone);
        self.broken.is_some() || blocked || self.cancelled >= self.settings.cancelled_max
    }

    /// Why the connection has to be closed at once.
    pub fn broken(&self) -> Option<&Broken> {
        self.broken.as_ref()
    }

    /// Requests whose replies may still come, including those that nobody waits for.
    pub fn outstanding(&self) -> usize {
        self.unanswered
    }

    /// Whether somebody waits for a reply.
    pub fn is_awaited(&self) -> bool {
        self.exchanges
            .iter()
            .any(|exchange| exchange.listener == Listener::Caller && !exchange.answered)
    }

    /// Errors that were the answer to quiet requests.
    pub fn quiet_errors(&self) -> u64 {
        self.quiet_errors
    }

    /// Takes received bytes, cut anywhere, and appends the replies that are whole now.
    ///
    /// # Errors
    /// [`Broken`], and every ticket that was outstanding has got it, too.
    pub fn feed(&mut self, bytes: &[u8], replies: &mut Replies) -> Result<(), Broken> {
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        let fed = self.feed_pieces(bytes, replies);
        if let Err(broken) = &fed {
            self.fail(broken, replies);
        }
        fed
    }

    /// The connection has ended, or the caller ends it: every ticket that is outstanding gets [`Broken::Ended`].
    pub fn end(&mut self, replies: &mut Replies) {
        if self.broken.is_none() {
            self.fail(&Broken::Ended, replies);
        }
    }

    fn fail(&mut self, broken: &Broken, replies: &mut Replies) {
        for (index, exchange) in self.exchanges.drain(..).enumerate() {
            if exchange.listener == Listener::Caller && !exchange.answered {
                let ticket = Ticket(self.first.wrapping_add(index as u64));
                match exchange.bundle.and_then(|mut bundle| bundle.give_up()) {
                    Some(came) => self.bundled.push(Bundled {
                        ticket,
                        came,
                        broken: Some(broken.clone()),
                    }),
                    None => replies.push((ticket, Err(broken.clone()))),
                }
            }
        }
        self.taken = 0;
        self.requests = 0;
        self.unanswered = 0;
        self.outstanding_bytes = 0;
        self.cancelled = 0;
        self.output = Output::default();
        self.broken = Some(broken.clone());
    }

    /// The sent and unanswered request of this number.
    fn index_of(&self, number: u64) -> Option<usize> {
        let index = usize::try_from(number.wrapping_sub(self.first)).ok()?;
        (index < self.taken && !self.exchanges[index].answered).then_some(index)
    }

    /// The oldest such request that is sent and unanswered.
    fn oldest(&self, is_it: impl Fn(&Exchange) -> bool) -> Option<usize> {
        self.exchanges
            .iter()
            .take(self.taken)
            .position(|exchange| !exchange.answered && is_it(exchange))
    }

    fn answer(&mut self, index: usize, reply: Reply, replies: &mut Replies) {
        let exchange = &mut self.exchanges[index];
        debug_assert!(!exchange.answered);
        exchange.answered = true;
        self.unanswered -= exchange.count;
        self.outstanding_bytes -= exchange.len;
        match exchange.listener {
            Listener::Caller => replies.push((Ticket(self.first.wrapping_add(index as u64)), Ok(reply))),
            Listener::Gone => self.cancelled -= exchange.count,
            Listener::Nobody => self.quiet_errors += u64::from(matches!(reply, Reply::Error(_))),
        }
    }

    /// Drops what is answered from the front.
    fn retire(&mut self) {
        while let Some(exchange) = self.exchanges.front().filter(|exchange| exchange.answered) {
            self.requests -= exchange.count;
            self.exchanges.pop_front();
            self.first = self.first.wrapping_add(1);
            self.taken -= 1;
        }
        self.silent_run = self.silent_run.min(self.exchanges.len());
    }
}

fn request_len(request: &Request<'_>) -> usize {
    let key = request.key().unwrap_or_default();
    let key_len = if needs_base64(key) {
        key.len() * 2
    } else {
        key.len()
    };
    request.value_len() + key_len + REQUEST_LEN_EXTRA
}
