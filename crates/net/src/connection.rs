//! One connection: its session, what it sent and nobody could use yet, what it has not taken yet.
//!
//! An idle connection owns neither buffer: input is read into the worker's buffer and output made in the worker's, and
//! only what is left over moves here.
//!
//! A turn has three steps, so that a worker can take each of them with many connections together: [`Connection::begin`] sends
//! what waits and reads, [`Connection::handle`] answers, [`Connection::finish`] sends.

use std::io::IoSlice;

use scrubjay_base::time::Now;
use scrubjay_io::driver::{Driver, Interest};

use crate::addresses::Entry;
use crate::output::Output;
use crate::roll::State;
use crate::service::{Next, Service};

/// Longest incomplete request that a service may leave: a line, or a body of 64 KiB with its line.
const LEFTOVER_MAX: usize = (64 << 10) + (8 << 10);

/// Pieces written by one system call.
const PIECES_PER_WRITE: usize = 64;

/// Bytes written to a connection in one turn: what the kernel takes from one in some 50 us. Others wait as long for each that
/// sends much. An encrypted connection needs room for a chunk of records that it began (64 KiB).
pub(crate) const WRITE_MAX: usize = 128 << 10;

/// A connection of a worker. There may be a hundred thousand, most of them idle: what only some need is boxed.
pub(crate) struct Connection<D: Driver, S: Service> {
    pub(crate) socket: D::Socket,
    pub(crate) session: S::Session,
    /// Input and output that wait; an idle connection has none.
    waiting: Option<Box<Waiting<S::Shared>>>,
    /// Its place among those of its address.
    pub(crate) entry: Entry,
    pub(crate) last_active: Now,
    pub(crate) token: u64,
    /// The driver took output that it could not send yet, and nothing is to go on before it has.
    owes: bool,
    /// How it is closed when everything is sent, if it is.
    closing: Option<After>,
    /// What the service said last: whether there is work without new input, now or later.
    next: Next,
    /// Its share of a turn ended before its output did.
    sends: bool,
    interest: Interest,
    /// At its last turn it had nothing to read, to do or to send.
    caught_up: bool,
    /// Something has come from the peer.
    has_begun: bool,
    /// Its last request, as the service numbers them; 0 before the first.
    pub(crate) last_asked: u8,
}

/// Bytes that an idle connection takes, with its place among the others: all that it has unless its service or its driver keeps more
/// for it.
pub const fn resting_len<D: Driver, S: Service>() -> usize {
    size_of::<Option<Connection<D, S>>>()
}

/// A connection taken apart.
pub(crate) struct Parts<D: Driver, S: Service> {
    pub(crate) socket: D::Socket,
    pub(crate) session: S::Session,
    pub(crate) entry: Entry,
    pub(crate) input: Vec<u8>,
    pub(crate) unsent: Output<S::Shared>,
    pub(crate) is_closing: bool,
}

/// What is neither handled nor sent.
struct Waiting<P> {
    /// Input that waits for more, or for this connection's next turn.
    leftover: Vec<u8>,
    /// Output that the socket did not take.
    unsent: Output<P>,
}

impl<P> Default for Waiting<P> {
    fn default() -> Waiting<P> {
        Waiting {
            leftover: Vec::new(),
            unsent: Output::default(),
        }
    }
}

/// What a worker lends a connection for a step that sends or reads.
pub(crate) struct Lent<'a, D> {
    pub(crate) driver: &'a mut D,
    pub(crate) bytes_read: &'a mut u64,
    pub(crate) bytes_written: &'a mut u64,
}

/// How a turn begins.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Begun {
    /// There is something to handle: so many bytes that were read, behind what was left over.
    Input(usize),
    /// There is not, and the turn is over.
    Over(After),
}

/// What becomes of a connection after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// Wait for readiness.
    Wait,
    /// Give it another turn soon.
    Again,
    /// Give it another turn when those who rest have theirs.
    Rest,
    /// Give it another turn when the workers are woken.
    Later,
    /// Give it another turn when the service has something for it.
    Fed,
    /// Close it.
    Close,
    /// Close it: its socket failed, or what came cannot be a request.
    Fail,
}

impl After {
    /// How a connection is closed, if it is.
    fn of(next: Next) -> Option<After> {
        match next {
            Next::Close => Some(After::Close),
            Next::Fail => Some(After::Fail),
            _ => None,
        }
    }
}

impl<D: Driver, S: Service> Connection<D, S> {
    pub(crate) fn new(
        socket: D::Socket,
        entry: Entry,
        session: S::Session,
        token: u64,
        now: Now,
    ) -> Connection<D, S> {
        Connection {
            socket,
            session,
            waiting: None,
            entry,
            last_active: now,
            token,
            owes: false,
            closing: None,
            next: Next::Wait,
            sends: false,
            interest: Interest::Read,
            caught_up: false,
            has_begun: false,
            last_asked: 0,
        }
    }

    /// It was another server's: this much was received and not handled, this much made and not sent. With its first turn the
    /// one goes, then the other is handled.
    pub(crate) fn go_on(&mut self, next: Next, input: Vec<u8>, output: &[u8]) {
        self.next = next;
        self.closing = After::of(next);
        self.has_begun = true;
        let mut unsent = Output::default();
        unsent.bytes().extend_from_slice(output);
        let leftover = input;
        self.waiting = Some(Box::new(Waiting { leftover, unsent }));
        self.rest();
    }

    /// Takes it apart.
    pub(crate) fn into_parts(self) -> Parts<D, S> {
        let waiting = self.waiting.map(|waiting| *waiting).unwrap_or_default();
        Parts {
            socket: self.socket,
            session: self.session,
            entry: self.entry,
            input: waiting.leftover,
            unsent: waiting.unsent,
            is_closing: self.closing.is_some(),
        }
    }

    /// Bytes that it holds beside its place among the connections.
    pub(crate) fn held(&self, driver: &D) -> u64 {
        let waiting = self.waiting.as_ref().map_or(0, |waiting| {
            size_of::<Waiting<S::Shared>>() + waiting.leftover.capacity() + waiting.unsent.held()
        });
        (waiting + driver.held(&self.socket)) as u64
    }

    /// Copies what waits to be sent from the service's memory.
    pub(crate) fn copy_out(&mut self) {
        if let Some(waiting) = &mut self.waiting
            && waiting.unsent.has_shared()
        {
            waiting.unsent.own();
        }
    }

    fn has_unsent(&self) -> bool {
        let unsent = self.waiting.as_ref().map(|waiting| &waiting.unsent);
        self.owes || unsent.is_some_and(|unsent| !unsent.is_empty())
    }

    fn has_work(&self) -> bool {
        matches!(
            self.next,
            Next::Again | Next::Rest | Next::Soon | Next::Later | Next::Fed
        )
    }

    /// Whether what it is sent is made elsewhere.
    pub(crate) fn is_fed(&self) -> bool {
        self.next == Next::Fed
    }

    fn leftover_len(&self) -> usize {
        self.waiting.as_ref().map_or(0, |waiting| waiting.leftover.len())
    }

    /// Whether replies wait for the peer to take them.
    pub(crate) fn waits_for_peer(&self) -> bool {
        self.has_unsent() && !self.sends
    }

    /// Whether everything that had come by its last turn is answered.
    pub(crate) fn has_caught_up(&self) -> bool {
        self.caught_up
    }

    /// What it is about, for a list.
    pub(crate) fn state(&self) -> State {
        match () {
            () if self.closing.is_some() => State::Closing,
            () if self.is_held_back() => State::HeldBack,
            () if self.has_unsent() => State::Sending,
            () if self.has_work() => State::Working,
            () if self.leftover_len() > 0 => State::Receiving,
            () if !self.has_begun => State::New,
            () => State::Waiting,
        }
    }

    /// Whether it is to have a turn without new input.
    pub(crate) fn has_more_to_do(&self) -> bool {
        self.sends || (self.has_work() && !self.is_fed() && !self.has_unsent() && !self.is_held_back())
    }

    /// Sends what waits, of which a turn writes `share` bytes at most, and reads once if that is allowed.
    pub(crate) fn begin(
        &mut self,
        lent: &mut Lent<'_, D>,
        buffer: &mut [u8],
        readable: bool,
        share: &mut usize,
    ) -> Begun {
        match self.send_waiting(lent, share) {
            Some(after) => Begun::Over(after),
            None => self.receive(lent, buffer, readable),
        }
    }

    /// Sends what waits, of which a turn writes `share` bytes at most. `None` if nothing waits any more: its input may be
    /// [received](Connection::receive).
    pub(crate) fn send_waiting(&mut self, lent: &mut Lent<'_, D>, share: &mut usize) -> Option<After> {
        self.caught_up = false;
        if !self.has_unsent() {
            return None;
        }
        // Its input waits until it takes its replies.
        match (self.send_unsent(lent, share), self.closing) {
            (Sent::All, Some(after)) => Some(self.settle(lent, after)),
            (Sent::All, None) => None,
            (unfinished, _) => Some(self.after_sending_part(lent, unfinished)),
        }
    }

    /// Reads once, if that is allowed.
    pub(crate) fn receive(&mut self, lent: &mut Lent<'_, D>, buffer: &mut [u8], readable: bool) -> Begun {
        // While it waits for an answer it is read from, lest its input wake the worker time and again; but not on and on.
        let is_full = self.next == Next::Later && self.leftover_len() > LEFTOVER_MAX;
        let read = match readable && !matches!(self.next, Next::Again | Next::Rest | Next::Soon) && !is_full {
            true => self.read(lent, buffer),
            false => Read::Nothing,
        };
        match read {
            Read::Bytes(len) => Begun::Input(len),
            Read::Nothing if self.has_work() => Begun::Input(0),
            Read::Nothing => {
                let after = self.settle(lent, After::Wait);
                self.caught_up = readable && !self.has_unsent();
                Begun::Over(after)
            }
            Read::End => {
                // The driver may have taken output that has not gone.
                self.closing = Some(After::Close);
                Begun::Over(self.settle(lent, After::Close))
            }
            Read::Failed => Begun::Over(After::Fail),
        }
    }

    fn read(&mut self, lent: &mut Lent<'_, D>, buffer: &mut [u8]) -> Read {
        match lent.driver.read(&self.socket, buffer) {
            Ok(0) => Read::End,
            Ok(len) => {
                *lent.bytes_read += len as u64;
                self.has_begun = true;
                Read::Bytes(len)
            }
            Err(error) if may_be_tried_again(&error) => Read::Nothing,
            Err(_) => Read::Failed,
        }
    }

    /// Answers what was left over and `input` behind it.
    pub(crate) fn handle(&mut self, service: &mut S, input: &[u8], output: &mut Output<S::Shared>) -> Next {
        if self.leftover_len() > 0 {
            self.leftover().extend_from_slice(input);
            return self.handle_leftover(service, output);
        }
        let handled = service.handle(&mut self.session, input, output);
        self.note_last(service);
        debug_assert!(handled.consumed <= input.len());
        if handled.consumed < input.len() {
            let rest = &input[handled.consumed..];
            // Reserved exactly: many connections may wait in the middle of a request.
            self.leftover().reserve_exact(rest.len());
            self.leftover().extend_from_slice(rest);
        }
        handled.next
    }

    fn leftover(&mut self) -> &mut Vec<u8> {
        &mut self.waiting.get_or_insert_default().leftover
    }

    fn handle_leftover(&mut self, service: &mut S, output: &mut Output<S::Shared>) -> Next {
        let leftover = self.waiting.as_ref().map_or(&[][..], |waiting| &waiting.leftover);
        let handled = service.handle(&mut self.session, leftover, output);
        debug_assert!(handled.consumed <= leftover.len());
        if handled.consumed == leftover.len() {
            if let Some(waiting) = &mut self.waiting {
                waiting.leftover = Vec::new();
            }
        } else {
            self.leftover().drain(..handled.consumed);
        }
        self.note_last(service);
        handled.next
    }

    fn note_last(&mut self, service: &S) {
        match service.last_asked() {
            0 => {}
            last_asked => self.last_asked = last_asked,
        }
    }

    /// Sends `output`, which is empty afterwards; what the socket does not take, or is more than `share`, moves here.
    pub(crate) fn finish(
        &mut self,
        lent: &mut Lent<'_, D>,
        next: Next,
        output: &mut Output<S::Shared>,
        share: usize,
    ) -> After {
        self.next = next;
        self.caught_up = next == Next::Fed && output.is_empty();
        let is_too_much = !self.has_work() && self.leftover_len() > LEFTOVER_MAX;
        self.closing = After::of(next).or(is_too_much.then_some(After::Fail));
        match (self.send(lent, output, share), self.closing) {
            (Sent::All, Some(after)) => self.settle(lent, after),
            (Sent::All, None) => {
                if next == Next::Partial {
                    lent.driver.acknowledge_now(&self.socket);
                }
                self.wait_for(lent, Interest::Read)
            }
            (unfinished, _) => self.after_sending_part(lent, unfinished),
        }
    }

    /// Ends a turn in which its input is left where it is, until it is given another. What the driver has taken goes first: until
    /// then it is not held back.
    pub(crate) fn hold_back(&mut self, lent: &mut Lent<'_, D>) -> After {
        match self.flush(lent) {
            Sent::All => self.wait_for(lent, Interest::Neither),
            Sent::Failed => After::Fail,
            Sent::Part | Sent::Share => self.wait_for(lent, Interest::Write),
        }
    }

    /// It is not held back any more.
    pub(crate) fn go_on_reading(&mut self, lent: &mut Lent<'_, D>) -> After {
        self.wait_for(lent, Interest::Read)
    }

    /// Whether its input is left where it is, as its user or its address has asked too much.
    pub(crate) fn is_held_back(&self) -> bool {
        self.interest == Interest::Neither
    }

    /// Gives back what is not needed to wait; the end of a turn.
    pub(crate) fn rest(&mut self) {
        if let Some(waiting) = &self.waiting
            && waiting.leftover.is_empty()
            && waiting.unsent.is_empty()
        {
            self.waiting = None;
        }
    }

    fn after_sending_part(&mut self, lent: &mut Lent<'_, D>, sent: Sent) -> After {
        match sent {
            Sent::Failed => After::Fail,
            Sent::All => After::Close,
            Sent::Part => self.wait_for(lent, Interest::Write),
            Sent::Share => After::Again,
        }
    }

    /// What becomes of a connection that has nothing more to do: the driver may still have something to send for it.
    fn settle(&mut self, lent: &mut Lent<'_, D>, after: After) -> After {
        match (self.flush(lent), after) {
            (Sent::All, After::Wait) => self.wait_for(lent, Interest::Read),
            (Sent::All, after) => after,
            (Sent::Failed, _) => After::Fail,
            (Sent::Part | Sent::Share, _) => self.wait_for(lent, Interest::Write),
        }
    }

    fn wait_for(&mut self, lent: &mut Lent<'_, D>, interest: Interest) -> After {
        if self.interest != interest {
            self.interest = interest;
            if lent.driver.change(&self.socket, self.token, interest).is_err() {
                return After::Fail;
            }
        }
        match interest {
            Interest::Read if self.next == Next::Again => After::Again,
            Interest::Read if self.next == Next::Rest => After::Rest,
            Interest::Read if matches!(self.next, Next::Soon | Next::Later) => After::Later,
            Interest::Read if self.is_fed() => After::Fed,
            _ => After::Wait,
        }
    }

    fn send(&mut self, lent: &mut Lent<'_, D>, output: &mut Output<S::Shared>, share: usize) -> Sent {
        if output.is_empty() {
            return Sent::All;
        }
        let (sent, result) = write_out(lent.driver, &self.socket, output, share);
        *lent.bytes_written += sent as u64;
        self.sends = result == Sent::Share;
        if matches!(result, Sent::Part | Sent::Share) {
            self.waiting.get_or_insert_default().unsent = output.split_off(sent);
        }
        output.clear();
        result
    }

    fn send_unsent(&mut self, lent: &mut Lent<'_, D>, share: &mut usize) -> Sent {
        let unsent = &mut self.waiting.get_or_insert_default().unsent;
        let (sent, result) = write_out(lent.driver, &self.socket, unsent, *share);
        *lent.bytes_written += sent as u64;
        *share -= sent;
        self.sends = result == Sent::Share;
        match result {
            Sent::Part | Sent::Share => unsent.advance(sent),
            Sent::All | Sent::Failed => *unsent = Output::default(),
        }
        match result {
            Sent::All if self.owes => self.flush(lent),
            _ => result,
        }
    }

    fn flush(&mut self, lent: &mut Lent<'_, D>) -> Sent {
        let flushed = match lent.driver.flush(&self.socket) {
            Ok(()) => Sent::All,
            Err(error) if may_be_tried_again(&error) => Sent::Part,
            Err(_) => Sent::Failed,
        };
        self.owes = flushed == Sent::Part;
        flushed
    }
}

enum Read {
    Bytes(usize),
    Nothing,
    End,
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    All,
    /// The socket takes no more.
    Part,
    /// No more may go in this turn.
    Share,
    Failed,
}

/// As [`write_out`], for what lies together: the usual case.
fn write_bytes<D: Driver>(driver: &mut D, socket: &D::Socket, bytes: &[u8], share: usize) -> (usize, Sent) {
    let wanted = bytes.len().min(share);
    if wanted == 0 {
        return (0, if bytes.is_empty() { Sent::All } else { Sent::Share });
    }
    match driver.write(socket, &[IoSlice::new(&bytes[..wanted])]) {
        Ok(sent) if sent == bytes.len() => (sent, Sent::All),
        Ok(sent) if sent == wanted => (sent, Sent::Share),
        Ok(sent) => (sent, Sent::Part),
        Err(error) if may_be_tried_again(&error) => (0, Sent::Part),
        Err(_) => (0, Sent::Failed),
    }
}

fn may_be_tried_again(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted
    )
}

/// Writes until everything is out, the socket takes no more or `share` bytes went; returns how many went.
fn write_out<D: Driver, P: AsRef<[u8]>>(
    driver: &mut D,
    socket: &D::Socket,
    output: &Output<P>,
    share: usize,
) -> (usize, Sent) {
    if !output.has_shared() {
        return write_bytes(driver, socket, output.copied(), share);
    }
    let mut sent = 0;
    let mut pieces = output.pieces().peekable();
    let mut batch = [IoSlice::new(&[]); PIECES_PER_WRITE];
    while pieces.peek().is_some() {
        let mut count = 0;
        let mut wanted = 0;
        while count < PIECES_PER_WRITE
            && sent + wanted < share
            && let Some(piece) = pieces.next()
        {
            // Of a piece that is cut short here, the rest is in nobody's way: the turn ends with this call.
            let piece = &piece[..piece.len().min(share - sent - wanted)];
            batch[count] = IoSlice::new(piece);
            wanted += piece.len();
            count += 1;
        }
        if count == 0 {
            break;
        }
        match driver.write(socket, &batch[..count]) {
            Ok(len) => {
                sent += len;
                if len < wanted {
                    return (sent, Sent::Part);
                }
            }
            Err(error) if may_be_tried_again(&error) => return (sent, Sent::Part),
            Err(_) => return (sent, Sent::Failed),
        }
    }
    match sent == output.len() {
        true => (sent, Sent::All),
        false => (sent, Sent::Share),
    }
}
