//! One connection: its session, what it sent and nobody could use yet, what it has not taken yet.
//!
//! An idle connection owns neither buffer: input is read into the worker's buffer and output made in the worker's, and
//! only what is left over moves here.

use std::io::IoSlice;

use scrubjay_base::time::Now;
use scrubjay_io::driver::{Driver, Interest};

use crate::addresses::Entry;
use crate::output::Output;
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
    /// Close when everything is sent.
    closing: bool,
    /// There is work without new input.
    again: bool,
    /// There will be.
    later: bool,
    /// Its share of a turn ended before its output did.
    sends: bool,
    interest: Interest,
    /// At its last turn it had nothing to read, to do or to send.
    caught_up: bool,
}

/// Bytes that an idle connection takes, with its place among the others: all that it has unless its service or its driver keeps more
/// for it.
pub const fn resting_len<D: Driver, S: Service>() -> usize {
    size_of::<Option<Connection<D, S>>>()
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

/// What a worker lends a connection for a turn.
pub(crate) struct Lent<'a, D, S: Service> {
    pub(crate) driver: &'a mut D,
    pub(crate) service: &'a mut S,
    pub(crate) buffer: &'a mut [u8],
    pub(crate) output: &'a mut Output<S::Shared>,
    pub(crate) bytes_read: &'a mut u64,
    pub(crate) bytes_written: &'a mut u64,
    /// Bytes that it may still write in this turn.
    pub(crate) share: usize,
}

/// What becomes of a connection after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// Wait for readiness.
    Wait,
    /// Give it another turn soon.
    Again,
    /// Give it another turn when the workers are woken.
    Later,
    /// Close it.
    Close,
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
            closing: false,
            again: false,
            later: false,
            sends: false,
            interest: Interest::Read,
            caught_up: false,
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
        self.waiting
            .as_ref()
            .is_some_and(|waiting| !waiting.unsent.is_empty())
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

    /// Whether it is to have a turn without new input.
    pub(crate) fn has_more_to_do(&self) -> bool {
        self.sends || ((self.again || self.later) && !self.has_unsent())
    }

    /// One turn: send what waits, read once if that is allowed, handle, send.
    pub(crate) fn turn(&mut self, lent: &mut Lent<'_, D, S>, readable: bool) -> After {
        let after = self.take_turn(lent, readable);
        if let Some(waiting) = &self.waiting
            && waiting.leftover.is_empty()
            && waiting.unsent.is_empty()
        {
            self.waiting = None;
        }
        after
    }

    fn take_turn(&mut self, lent: &mut Lent<'_, D, S>, readable: bool) -> After {
        self.caught_up = false;
        if self.has_unsent() {
            // Its input waits until it takes its replies.
            match self.send_unsent(lent) {
                Sent::All if self.closing => return After::Close,
                Sent::All => {}
                unfinished => return self.after_sending_part(lent, unfinished),
            }
        }
        // While it waits for an answer it is read from, lest its input wake the worker time and again; but not on and on.
        let is_full = self.later && self.leftover_len() > LEFTOVER_MAX;
        let read = if readable && !self.again && !is_full {
            self.read(lent)
        } else {
            Read::Nothing
        };
        match read {
            Read::End => After::Close,
            Read::Nothing if !self.again && !self.later => {
                self.caught_up = readable;
                self.wait_for(lent, Interest::Read)
            }
            Read::Nothing => self.handle_leftover(lent),
            Read::Bytes(len) => self.handle_read(lent, len),
        }
    }

    fn read(&mut self, lent: &mut Lent<'_, D, S>) -> Read {
        match lent.driver.read(&self.socket, lent.buffer) {
            Ok(0) => Read::End,
            Ok(len) => {
                *lent.bytes_read += len as u64;
                Read::Bytes(len)
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Read::Nothing,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => Read::Nothing,
            Err(_) => Read::End,
        }
    }

    fn handle_read(&mut self, lent: &mut Lent<'_, D, S>, len: usize) -> After {
        if self.leftover_len() > 0 {
            self.leftover().extend_from_slice(&lent.buffer[..len]);
            return self.handle_leftover(lent);
        }
        let handled = lent
            .service
            .handle(&mut self.session, &lent.buffer[..len], lent.output);
        debug_assert!(handled.consumed <= len);
        if handled.consumed < len {
            // Reserved exactly: many connections may wait in the middle of a request.
            self.leftover().reserve_exact(len - handled.consumed);
            self.leftover()
                .extend_from_slice(&lent.buffer[handled.consumed..len]);
        }
        self.after(lent, handled.next)
    }

    fn leftover(&mut self) -> &mut Vec<u8> {
        &mut self.waiting.get_or_insert_default().leftover
    }

    fn handle_leftover(&mut self, lent: &mut Lent<'_, D, S>) -> After {
        let leftover = self.waiting.as_ref().map_or(&[][..], |waiting| &waiting.leftover);
        let handled = lent.service.handle(&mut self.session, leftover, lent.output);
        debug_assert!(handled.consumed <= leftover.len());
        if handled.consumed == leftover.len() {
            if let Some(waiting) = &mut self.waiting {
                waiting.leftover = Vec::new();
            }
        } else {
            self.leftover().drain(..handled.consumed);
        }
        self.after(lent, handled.next)
    }

    fn after(&mut self, lent: &mut Lent<'_, D, S>, next: Next) -> After {
        self.again = next == Next::Again;
        self.later = next == Next::Later;
        let waits = !self.again && !self.later;
        self.closing = next == Next::Close || (waits && self.leftover_len() > LEFTOVER_MAX);
        match self.send(lent) {
            Sent::All if self.closing => After::Close,
            Sent::All => {
                if next == Next::Partial {
                    lent.driver.acknowledge_now(&self.socket);
                }
                self.wait_for(lent, Interest::Read)
            }
            unfinished => self.after_sending_part(lent, unfinished),
        }
    }

    fn after_sending_part(&mut self, lent: &mut Lent<'_, D, S>, sent: Sent) -> After {
        match sent {
            Sent::Failed | Sent::All => After::Close,
            Sent::Part => self.wait_for(lent, Interest::Write),
            Sent::Share => After::Again,
        }
    }

    fn wait_for(&mut self, lent: &mut Lent<'_, D, S>, interest: Interest) -> After {
        if self.interest != interest {
            self.interest = interest;
            if lent.driver.change(&self.socket, self.token, interest).is_err() {
                return After::Close;
            }
        }
        match interest {
            Interest::Read if self.again => After::Again,
            Interest::Read if self.later => After::Later,
            _ => After::Wait,
        }
    }

    /// Sends the worker's output; what the socket does not take, or is more than a share, moves here.
    fn send(&mut self, lent: &mut Lent<'_, D, S>) -> Sent {
        if lent.output.is_empty() {
            return Sent::All;
        }
        let (sent, result) = write_out(lent.driver, &self.socket, lent.output, lent.share);
        *lent.bytes_written += sent as u64;
        self.sends = result == Sent::Share;
        if matches!(result, Sent::Part | Sent::Share) {
            self.waiting.get_or_insert_default().unsent = lent.output.split_off(sent);
        }
        lent.output.clear();
        result
    }

    fn send_unsent(&mut self, lent: &mut Lent<'_, D, S>) -> Sent {
        let unsent = &mut self.waiting.get_or_insert_default().unsent;
        let (sent, result) = write_out(lent.driver, &self.socket, unsent, lent.share);
        *lent.bytes_written += sent as u64;
        lent.share -= sent;
        self.sends = result == Sent::Share;
        match result {
            Sent::Part | Sent::Share => unsent.advance(sent),
            Sent::All | Sent::Failed => *unsent = Output::default(),
        }
        result
    }
}

enum Read {
    Bytes(usize),
    Nothing,
    End,
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

/// Writes until everything is out, the socket takes no more or `share` bytes went; returns how many went.
fn write_out<D: Driver, P: AsRef<[u8]>>(
    driver: &mut D,
    socket: &D::Socket,
    output: &Output<P>,
    share: usize,
) -> (usize, Sent) {
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
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return (sent, Sent::Part),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => return (sent, Sent::Part),
            Err(_) => return (sent, Sent::Failed),
        }
    }
    match sent == output.len() {
        true => (sent, Sent::All),
        false => (sent, Sent::Share),
    }
}
