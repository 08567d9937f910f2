//! One connection, shared by any number of threads. Who asks puts the request behind those of others; whoever is the writer
//! sends them all with one call, and whoever is the reader hands out what comes, until it has its own reply. See
//! `docs/internals/client.md`. It leaves out how connections are made, and which one is used.

mod desk;
mod encrypted;
mod idle;
#[cfg(all(test, shuttle))]
mod model;
pub(crate) mod open;
mod patience;
mod roles;
mod spin;
pub(crate) mod stream;
mod waiter;
mod watched;

use std::borrow::Cow;
use std::io::{ErrorKind, Result as IoResult};
use std::mem;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use scrubjay_base::sync::whole::{Mutex, MutexGuard};
use scrubjay_base::sync::yield_now;

pub(crate) use desk::{Desk, Named};
pub(crate) use patience::Patience;
use roles::{Roles, Step};
pub(crate) use spin::{Spin, look};
pub(crate) use stream::poll;
use stream::{Stream, Wire};
use waiter::{Waiter, wake};
pub(crate) use watched::{Asked, Asking, Watch};

use crate::protocol::conversation::Replies;
use crate::protocol::output::PIECE_LEN_MIN;
use crate::protocol::{
    Broken, Bundle, Conversation, Output, Refused, Reply, Request, Settings, Store, Ticket,
};
use crate::standing::Standing;

/// Bytes that are read at once.
const READ_LEN: usize = 64 * 1024;
/// How often a writer goes on for others although it may have its own reply.
const WRITES_MAX: usize = if cfg!(shuttle) { 1 } else { 4 };
/// A connection on which nothing has come for so long although something is outstanding is used no more after a time-out: its
/// peer may be gone without a word, and a new one would tell.
const SILENCE_MAX: Duration = Duration::from_secs(1);

/// What came of a request.
pub(crate) type Delivered = Result<Reply, Lost>;

/// Why there is no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// It cannot be asked.
    Refused(Refused),
    /// The connection ended before a byte of the request was sent; another one may do.
    Unsent,
    /// The connection ended, and it is not known what became of the request.
    Broken(Broken),
    /// The time is up.
    TimedOut,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection<W = Stream> {
    stream: W,
    state: Mutex<State>,
    /// It takes no more requests. Set under the lock; read without, as it only spares a futile try.
    retired: AtomicBool,
    standing: Standing,
    /// Of who reads alone.
    spin: Spin,
    /// Of those for whom somebody else reads.
    pause: Spin,
}

#[derive(Debug)]
struct State {
    conversation: Conversation,
    roles: Roles<Waiter>,
    /// What a writer had to leave, as the system takes no more.
    leftover: Output,
    /// The first request of which nothing has been taken for sending.
    untaken: Option<Ticket>,
    /// The reader's.
    buffer: Vec<u8>,
    replies: Replies,
    /// When something came last, or was asked while nothing was outstanding.
    heard: Instant,
    /// The request whose time is taken apart, one at a time.
    sample: Option<Sample>,
}

/// A request whose time is taken apart.
#[derive(Debug)]
struct Sample {
    ticket: Ticket,
    asked: Instant,
    /// How long it took to be made bytes of.
    made: Duration,
    taken: Option<Instant>,
}

type Guard<'a> = MutexGuard<'a, State>;

/// A thread in a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller<'a> {
    pub(crate) desk: &'a Arc<Desk>,
    pub(crate) patience: &'a Patience,
}

impl<W: Wire> Connection<W> {
    /// A connection on which nothing is outstanding.
    fn new(stream: W, settings: Settings, standing: Standing, spin: Duration) -> Connection<W> {
        Connection {
            stream,
            state: Mutex::new(State {
                conversation: Conversation::new(settings),
                roles: Roles::default(),
                leftover: Output::default(),
                untaken: None,
                buffer: vec![0; READ_LEN],
                replies: Vec::new(),
                heard: Instant::now(),
                sample: None,
            }),
            retired: AtomicBool::new(false),
            standing,
            spin: Spin::new(spin),
            pause: Spin::new(spin),
        }
    }

    fn lock(&self) -> Guard<'_> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it takes no more requests.
    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }

    /// Requests whose replies may still come.
    pub(crate) fn outstanding(&self) -> usize {
        self.lock().conversation.outstanding()
    }

    /// Asks, and waits for the reply. A quiet request is only sent. A large owned value is taken out of the request as soon as
    /// it is asked.
    pub(crate) fn call(&self, request: &mut Request<'_>, caller: Caller<'_>) -> Delivered {
        let mut state = self.lock();
        self.look_at_idle(&mut state, caller.patience.since);
        let id = caller.desk.next_ids(1);
        let waiter = Waiter::new(caller.desk, id, request);
        let ticket = loop {
            match self.ask(&mut state, request) {
                Ok(ticket) => break ticket,
                Err(Refused::Full) => state = self.wait_for_room(state, request, caller)?,
                Err(refused) => return Err(self.refused(refused)),
            }
        };
        if request.is_quiet() {
            self.send(state, caller);
            return Ok(Reply::Alive);
        }
        state.roles.wait(ticket, waiter);
        self.wait_for_reply(state, ticket, id, caller)
    }

    /// Asks; of some requests it is noted how long what takes.
    fn ask(&self, state: &mut State, request: &mut Request<'_>) -> Result<Ticket, Refused> {
        if request.is_quiet() {
            return state.ask(request);
        }
        self.sample(state, |state| state.ask(request))
    }

    fn sample(
        &self,
        state: &mut State,
        ask: impl FnOnce(&mut State) -> Result<Ticket, Refused>,
    ) -> Result<Ticket, Refused> {
        if state.sample.is_some() || !self.standing.recorder().is_sampled() {
            return ask(state);
        }
        let asked = Instant::now();
        let ticket = ask(state)?;
        state.sample = Some(Sample {
            ticket,
            asked,
            made: asked.elapsed(),
            taken: None,
        });
        Ok(ticket)
    }

    fn wait_for_reply<'a>(
        &'a self,
        mut state: Guard<'a>,
        ticket: Ticket,
        id: u64,
        caller: Caller<'_>,
    ) -> Delivered {
        loop {
            match state.step(caller.desk) {
                Step::Write => {
                    state = self.write(state, Some(caller));
                    if state.roles.is_waiting(ticket) {
                        continue;
                    }
                }
                Step::Read => {
                    let alone = state.alone(caller.desk);
                    match self.read(state, Some(ticket), |stream, buffer| {
                        self.receive(stream, buffer, caller.patience, alone)
                    }) {
                        Ok(reply) => return reply,
                        Err(again) => state = again,
                    }
                }
                Step::Sleep => {
                    drop(state);
                    self.sleep(caller);
                    // Whoever has laid it there has seen to the roles.
                    if let Some(reply) = caller.desk.take(id) {
                        return reply;
                    }
                    state = self.lock();
                }
            }
            if !state.roles.is_waiting(ticket) {
                self.leave(state);
                return caller.desk.take(id).unwrap_or(Err(Lost::TimedOut));
            }
            if caller.patience.is_over() {
                return self.give_up(state, ticket, id, caller);
            }
        }
    }

    /// Sleeps until somebody calls, unless that happens while it gives way: who reads for all is then spared the waking.
    fn sleep(&self, caller: Caller<'_>) {
        self.pause.give_way(|| caller.desk.is_called());
        caller.desk.sleep(Some(caller.patience.until));
    }

    /// Receives. Who is alone, with so many requests unanswered, may look for a while before it sleeps: it keeps nobody from anything.
    fn receive(
        &self,
        stream: &W,
        buffer: &mut [u8],
        patience: &Patience,
        alone: Option<usize>,
    ) -> IoResult<usize> {
        let found = (self.spin).receive(alone, || stream.receive_now(buffer));
        found.unwrap_or_else(|| stream.receive(buffer, patience))
    }

    /// The time is up: the reply is dropped when it comes, and the connection stays in use.
    fn give_up(&self, mut state: Guard<'_>, ticket: Ticket, id: u64, caller: Caller<'_>) -> Delivered {
        state.roles.done(ticket);
        let waited = state.conversation.cancel(ticket);
        state.sample.take_if(|sample| sample.ticket == ticket);
        self.retire_if_silent(&state);
        self.leave(state);
        // If it was too late for that, the reply lies there.
        let late = if waited { None } else { caller.desk.take(id) };
        late.unwrap_or(Err(Lost::TimedOut))
    }

    /// Waits until a request of this size may be asked.
    fn wait_for_room<'a>(
        &'a self,
        mut state: Guard<'a>,
        request: &Request<'_>,
        caller: Caller<'_>,
    ) -> Result<Guard<'a>, Lost> {
        state.join_crowd(caller.desk);
        let found = loop {
            match state.step(caller.desk) {
                Step::Write => state = self.write(state, Some(caller)),
                Step::Read => {
                    match self.read(state, None, |stream, buffer| {
                        stream.receive(buffer, caller.patience)
                    }) {
                        Ok(_) => unreachable!("no reply is waited for"),
                        Err(again) => state = again,
                    }
                }
                Step::Sleep => {
                    drop(state);
                    caller.desk.sleep(Some(caller.patience.until));
                    state = self.lock();
                }
            }
            match state.conversation.check(request) {
                Err(Refused::Full) if caller.patience.is_over() => break Err(Lost::TimedOut),
                Err(Refused::Full) => state.join_crowd(caller.desk),
                Ok(()) => break Ok(()),
                Err(refused) => break Err(self.refused(refused)),
            }
        };
        state
            .roles
            .leave_crowd(|each| Arc::ptr_eq(&each.desk, caller.desk));
        match found {
            Ok(()) => Ok(state),
            Err(lost) => {
                self.leave(state);
                Err(lost)
            }
        }
    }

    /// Sees to it that what was asked is sent.
    fn send<'a>(&'a self, mut state: Guard<'a>, caller: Caller<'_>) {
        if state.try_write() {
            state = self.write(state, Some(caller));
        }
        self.leave(state);
    }

    /// Writes, as the writer, until nothing is left or others can go on. With a caller it waits until the system takes the
    /// bytes; without, it leaves them.
    fn write<'a>(&'a self, mut state: Guard<'a>, caller: Option<Caller<'_>>) -> Guard<'a> {
        let mut rounds = 0;
        // Where others wait, some may have been woken just now and are about to ask, too: all of them go with one call. With 30
        // threads that is more than half as much again; a caller who is alone does not come here.
        if caller.is_some() && state.roles.waiting().nth(1).is_some() {
            drop(state);
            yield_now();
            state = self.lock();
        }
        while state.has_output() && (rounds < WRITES_MAX || state.roles.heir(Waiter::desk).is_none()) {
            rounds += 1;
            let (mut output, first) = state.take_output();
            drop(state);
            let mut begun = false;
            let written = loop {
                match self.stream.send(&output) {
                    Ok(len) => {
                        begun = true;
                        self.standing.recorder().sent(len);
                        output.advance(len);
                        if output.is_empty() {
                            break Ok(());
                        }
                    }
                    Err(error) => break Err(error),
                }
            };
            state = self.lock();
            match written {
                Ok(()) => state.conversation.reuse_output(output),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    state = self.leave_output(state, output, caller);
                    if caller.is_none_or(|caller| caller.patience.is_over()) {
                        break;
                    }
                }
                Err(_) => {
                    let unsent = first.filter(|_| !begun).or(state.untaken);
                    state = self.end(state, unsent);
                }
            }
        }
        state.roles.stop_writing();
        state
    }

    /// The system takes no more. A server that has not been read from may not read either, so somebody reads now.
    fn leave_output<'a>(
        &'a self,
        mut state: Guard<'a>,
        output: Output,
        caller: Option<Caller<'_>>,
    ) -> Guard<'a> {
        if state.conversation.broken().is_some() {
            return state;
        }
        state.leftover = output;
        let Some(caller) = caller else {
            return state;
        };
        let reading = state.roles.try_read();
        drop(state);
        let readable = self.stream.wait(reading, caller.desk, caller.patience);
        state = self.lock();
        if reading {
            state = self.stop_reading(state, readable);
        }
        state
    }

    /// The reader's role ends, after a look at the socket if there is something.
    fn stop_reading<'a>(&'a self, mut state: Guard<'a>, readable: bool) -> Guard<'a> {
        if !readable {
            state.roles.stop_reading();
            return state;
        }
        match self.read(state, None, W::receive_now) {
            Ok(_) => unreachable!("no reply is waited for"),
            Err(again) => again,
        }
    }

    /// Reads once, as the reader, hands out what came, and is the reader no more. If the reply of `own` is among it, that is
    /// given, and the roles are seen to; otherwise the lock.
    fn read<'a>(
        &'a self,
        mut state: Guard<'a>,
        own: Option<Ticket>,
        receive: impl FnOnce(&W, &mut [u8]) -> IoResult<usize>,
    ) -> Result<Delivered, Guard<'a>> {
        let mut buffer = mem::take(&mut state.buffer);
        drop(state);
        let received = receive(&self.stream, &mut buffer);
        let mut state = self.lock();
        let mut replies = mem::take(&mut state.replies);
        match received {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Ok(0) | Err(_) => state.conversation.end(&mut replies),
            Ok(len) => {
                self.standing.recorder().received(len);
                state.heard = Instant::now();
                // What breaks it stands in each reply.
                let _ = state.conversation.feed(&buffer[..len], &mut replies);
                self.take_apart(&mut state, &replies);
            }
        }
        state.buffer = buffer;
        let unsent = state.untaken;
        let (mine, woken) = self.hand_out(&mut state, &mut replies, unsent, own);
        state.replies = replies;
        if let Some(mine) = mine {
            state.roles.stop_reading();
            let successor = state.successor();
            drop(state);
            wake(woken);
            if let Some(successor) = successor {
                successor.desk.wake();
            }
            return Ok(mine);
        }
        if !woken.is_empty() {
            drop(state);
            wake(woken);
            state = self.lock();
        }
        state.roles.stop_reading();
        Err(state)
    }

    /// Notes what the time of the sampled request was spent on, if its reply has come.
    fn take_apart(&self, state: &mut State, replies: &Replies) {
        let bundled = state.conversation.bundled();
        let is_it = |sample: &mut Sample| {
            replies.iter().any(|(ticket, _)| *ticket == sample.ticket)
                || bundled.iter().any(|each| each.ticket == sample.ticket)
        };
        let heard = state.heard;
        let Some(sample) = state.sample.take_if(is_it) else {
            return;
        };
        let recorder = self.standing.recorder();
        let taken = sample.taken.unwrap_or(heard);
        recorder.queued(taken - sample.asked);
        recorder.on_wire(heard - taken);
        recorder.parsed(sample.made + heard.elapsed());
    }

    /// Lays replies where they are waited for. Gives the one of `own`, and whom to wake.
    fn hand_out(
        &self,
        state: &mut State,
        replies: &mut Replies,
        unsent: Option<Ticket>,
        own: Option<Ticket>,
    ) -> (Option<Delivered>, Vec<Waiter>) {
        let broken = state.conversation.broken().is_some();
        // Before anybody is told, so that nobody comes again.
        self.retire_if_wanted(state);
        let mut mine = None;
        let mut woken = Vec::new();
        for (ticket, reply) in replies.drain(..) {
            let Some(waiter) = state.roles.done(ticket) else {
                continue;
            };
            let reply = reply.map_err(|reason| match unsent {
                Some(first) if ticket >= first && !waiter.once => Lost::Unsent,
                _ => Lost::Broken(reason),
            });
            if own == Some(ticket) {
                mine = Some(reply);
            } else {
                waiter.deliver(reply);
                woken.push(waiter);
            }
        }
        for bundled in state.conversation.take_bundled() {
            if let Some(waiter) = state.roles.done(bundled.ticket) {
                waiter.deliver_bundled(bundled);
                woken.push(waiter);
            }
        }
        if broken {
            state.leftover = Output::default();
            state.untaken = None;
        }
        woken.append(&mut state.roles.take_crowd());
        (mine, woken)
    }

    /// The connection is of no use any more; who waits is told.
    fn end<'a>(&'a self, mut state: Guard<'a>, unsent: Option<Ticket>) -> Guard<'a> {
        let mut replies = mem::take(&mut state.replies);
        state.conversation.end(&mut replies);
        let (_, woken) = self.hand_out(&mut state, &mut replies, unsent, None);
        drop(state);
        wake(woken);
        self.lock()
    }

    fn refused(&self, refused: Refused) -> Lost {
        match refused {
            Refused::Closing => {
                self.retired.store(true, Ordering::Relaxed);
                Lost::Unsent
            }
            refused => Lost::Refused(refused),
        }
    }

    fn retire_if_wanted(&self, state: &State) {
        if state.conversation.wants_closing() {
            self.retired.store(true, Ordering::Relaxed);
        }
    }

    /// After a time-out.
    fn retire_if_silent(&self, state: &State) {
        self.retire_if_wanted(state);
        if state.heard.elapsed() > SILENCE_MAX {
            self.retired.store(true, Ordering::Relaxed);
        }
    }

    /// A thread waits no longer: if that leaves a role free, somebody else is woken for it. If only a reader waits, who cannot be
    /// called, and something is not sent, which may be what it waits for, it is sent first.
    fn leave<'a>(&'a self, mut state: Guard<'a>) {
        let waits_in_vain =
            state.roles.waiting().next().is_some() && state.roles.heir(Waiter::desk).is_none();
        if waits_in_vain && state.try_write() {
            state = self.write(state, None);
        }
        let mut woken: Vec<Waiter> = state.successor().into_iter().collect();
        if self.is_retired() {
            woken.append(&mut state.roles.take_crowd());
        }
        drop(state);
        wake(woken);
    }
}

impl State {
    fn has_output(&self) -> bool {
        !self.leftover.is_empty() || self.conversation.has_output()
    }

    /// How many requests are unanswered, if nobody else waits for anything here.
    fn alone(&self, desk: &Arc<Desk>) -> Option<usize> {
        let others = self.roles.knows(|waiter| !Arc::ptr_eq(&waiter.desk, desk));
        (!others).then(|| self.conversation.outstanding())
    }

    fn step(&mut self, desk: &Desk) -> Step {
        let has_output = self.has_output();
        self.roles.step(has_output, desk.number())
    }

    fn try_write(&mut self) -> bool {
        let has_output = self.has_output();
        self.roles.try_write(has_output)
    }

    fn successor(&self) -> Option<Waiter> {
        self.roles.successor(self.has_output(), Waiter::desk)
    }

    fn join_crowd(&mut self, desk: &Arc<Desk>) {
        self.roles.leave_crowd(|each| Arc::ptr_eq(&each.desk, desk));
        self.roles.wait_for_room(Waiter::for_room(desk));
    }

    /// What is to be sent next, and its first request unless part of that has gone before.
    fn take_output(&mut self) -> (Output, Option<Ticket>) {
        if !self.leftover.is_empty() {
            return (mem::take(&mut self.leftover), None);
        }
        if let Some(sample) = &mut self.sample {
            sample.taken.get_or_insert_with(Instant::now);
        }
        (self.conversation.take_output(), self.untaken.take())
    }

    fn ask_bundle(&mut self, bundle: Bundle) -> Result<Ticket, Refused> {
        let ticket = self.conversation.ask_bundle(bundle)?;
        self.untaken.get_or_insert(ticket);
        Ok(ticket)
    }

    /// Asks. Only what is large and owned is taken out of the request, so that anything else can be asked again.
    fn ask(&mut self, request: &mut Request<'_>) -> Result<Ticket, Refused> {
        let taken = is_taken_when_asked(request);
        if taken {
            self.conversation.check(request)?;
        }
        let asked = match request {
            Request::Store(store) => Request::Store(Store {
                value: if taken {
                    mem::take(&mut store.value)
                } else {
                    store.value.as_ref().into()
                },
                ..*store
            }),
            request => request.clone(),
        };
        let ticket = self.conversation.ask(asked)?;
        self.untaken.get_or_insert(ticket);
        Ok(ticket)
    }
}

/// Whether the value is large enough, and ours, so that it is sent from where it lies. The request cannot be asked again then.
fn is_taken_when_asked(request: &Request<'_>) -> bool {
    match request {
        Request::Store(store) => matches!(&store.value, Cow::Owned(value) if value.len() >= PIECE_LEN_MIN),
        _ => false,
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
