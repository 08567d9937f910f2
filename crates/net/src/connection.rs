//! One connection: its session, what it sent and nobody could use yet, what it has not taken yet.
//!
//! An idle connection owns neither buffer: input is read into the worker's buffer and output made in the worker's, and
//! only what is left over moves here.

use std::io::IoSlice;

use scrubjay_base::time::Now;
use scrubjay_io::driver::{Driver, Interest, PeerAddress};

use crate::output::Output;
use crate::roll::State;
use crate::service::{Next, Service};

/// Longest incomplete request that a service may leave: a line, or a body of 64 KiB with its line.
const LEFTOVER_MAX: usize = (64 << 10) + (8 << 10);

/// Pieces written by one system call.
const PIECES_PER_WRITE: usize = 64;

/// A connection of a worker.
pub(crate) struct Connection<D: Driver, S: Service> {
    pub(crate) socket: D::Socket,
    pub(crate) session: S::Session,
    pub(crate) token: u64,
    /// Input that waits for more, or for this connection's next turn.
    leftover: Vec<u8>,
    /// Output that the socket did not take.
    unsent: Output<S::Shared>,
    /// Close when everything is sent.
    closing: bool,
    /// There is work without new input.
    again: bool,
    /// There will be.
    later: bool,
    /// Until then nothing is read.
    soon: bool,
    /// Who is at the other end.
    pub(crate) peer: PeerAddress,
    interest: Interest,
    /// At its last turn it had nothing to read, to do or to send.
    caught_up: bool,
    /// Something has come from the peer.
    has_begun: bool,
    pub(crate) last_active: Now,
}

/// What a worker lends a connection for a turn.
pub(crate) struct Lent<'a, D, S: Service> {
    pub(crate) driver: &'a mut D,
    pub(crate) service: &'a mut S,
    pub(crate) buffer: &'a mut [u8],
    pub(crate) output: &'a mut Output<S::Shared>,
    pub(crate) bytes_read: &'a mut u64,
    pub(crate) bytes_written: &'a mut u64,
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
        peer: PeerAddress,
        session: S::Session,
        token: u64,
        now: Now,
    ) -> Connection<D, S> {
        Connection {
            socket,
            session,
            token,
            leftover: Vec::new(),
            unsent: Output::default(),
            closing: false,
            again: false,
            later: false,
            soon: false,
            peer,
            interest: Interest::Read,
            caught_up: false,
            has_begun: false,
            last_active: now,
        }
    }

    /// Bytes that it holds beside its place among the connections.
    pub(crate) fn held(&self, driver: &D) -> u64 {
        (self.leftover.capacity() + self.unsent.held() + driver.held(&self.socket)) as u64
    }

    /// Copies what waits to be sent from the service's memory.
    pub(crate) fn copy_out(&mut self) {
        if self.unsent.has_shared() {
            self.unsent.own();
        }
    }

    /// Whether replies wait for the peer to take them.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Whether everything that had come by its last turn is answered.
    pub(crate) fn has_caught_up(&self) -> bool {
        self.caught_up
    }

    /// What it is about, for a list.
    pub(crate) fn state(&self) -> State {
        match () {
            () if self.closing => State::Closing,
            () if self.has_unsent() => State::Sending,
            () if self.again || self.later => State::Working,
            () if !self.leftover.is_empty() => State::Receiving,
            () if !self.has_begun => State::New,
            () => State::Waiting,
        }
    }

    /// Whether it is to have a turn without new input.
    pub(crate) fn has_more_to_do(&self) -> bool {
        (self.again || self.later) && !self.has_unsent()
    }

    /// One turn: send what waits, read once if that is allowed, handle, send.
    pub(crate) fn turn(&mut self, lent: &mut Lent<'_, D, S>, readable: bool) -> After {
        self.caught_up = false;
        if self.has_unsent() {
            // Its input waits until it takes its replies.
            match self.send_unsent(lent) {
                Sent::All if self.closing => return After::Close,
                Sent::All => {}
                Sent::Part => return self.wait_for(lent, Interest::Write),
                Sent::Failed => return After::Close,
            }
        }
        // While it waits for an answer it is read from, lest its input wake the worker time and again; but not on and on.
        let is_full = self.later && self.leftover.len() > LEFTOVER_MAX;
        let read = if readable && !self.again && !self.soon && !is_full {
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
                self.has_begun = true;
                Read::Bytes(len)
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Read::Nothing,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => Read::Nothing,
            Err(_) => Read::End,
        }
    }

    fn handle_read(&mut self, lent: &mut Lent<'_, D, S>, len: usize) -> After {
        if !self.leftover.is_empty() {
            self.leftover.extend_from_slice(&lent.buffer[..len]);
            return self.handle_leftover(lent);
        }
        let handled = lent
            .service
            .handle(&mut self.session, &lent.buffer[..len], lent.output);
        debug_assert!(handled.consumed <= len);
        // Reserved exactly: many connections may wait in the middle of a request.
        self.leftover.reserve_exact(len - handled.consumed);
        self.leftover
            .extend_from_slice(&lent.buffer[handled.consumed..len]);
        self.after(lent, handled.next)
    }

    fn handle_leftover(&mut self, lent: &mut Lent<'_, D, S>) -> After {
        let handled = lent
            .service
            .handle(&mut self.session, &self.leftover, lent.output);
        debug_assert!(handled.consumed <= self.leftover.len());
        if handled.consumed == self.leftover.len() {
            self.leftover = Vec::new();
        } else {
            self.leftover.drain(..handled.consumed);
        }
        self.after(lent, handled.next)
    }

    fn after(&mut self, lent: &mut Lent<'_, D, S>, next: Next) -> After {
        self.again = next == Next::Again;
        self.soon = next == Next::Soon;
        self.later = self.soon || next == Next::Later;
        let waits = !self.again && !self.later;
        self.closing = next == Next::Close || (waits && self.leftover.len() > LEFTOVER_MAX);
        match self.send(lent) {
            Sent::Failed => After::Close,
            Sent::Part => self.wait_for(lent, Interest::Write),
            Sent::All if self.closing => After::Close,
            Sent::All => {
                if next == Next::Partial {
                    lent.driver.acknowledge_now(&self.socket);
                }
                self.wait_for(lent, Interest::Read)
            }
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

    /// Sends the worker's output; what the socket does not take moves here.
    fn send(&mut self, lent: &mut Lent<'_, D, S>) -> Sent {
        if lent.output.is_empty() {
            return Sent::All;
        }
        let (sent, result) = write_out(lent.driver, &self.socket, lent.output);
        *lent.bytes_written += sent as u64;
        if result == Sent::Part {
            self.unsent = lent.output.split_off(sent);
        }
        lent.output.clear();
        result
    }

    fn send_unsent(&mut self, lent: &mut Lent<'_, D, S>) -> Sent {
        let (sent, result) = write_out(lent.driver, &self.socket, &self.unsent);
        *lent.bytes_written += sent as u64;
        match result {
            Sent::Part => self.unsent.advance(sent),
            Sent::All | Sent::Failed => self.unsent = Output::default(),
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
    Part,
    Failed,
}

/// Writes until everything is out or the socket takes no more; returns how many bytes went.
fn write_out<D: Driver, P: AsRef<[u8]>>(
    driver: &mut D,
    socket: &D::Socket,
    output: &Output<P>,
) -> (usize, Sent) {
    let mut sent = 0;
    let mut pieces = output.pieces().peekable();
    let mut batch = [IoSlice::new(&[]); PIECES_PER_WRITE];
    while pieces.peek().is_some() {
        let mut count = 0;
        let mut wanted = 0;
        for (slot, piece) in batch.iter_mut().zip(&mut pieces) {
            *slot = IoSlice::new(piece);
            wanted += piece.len();
            count += 1;
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
    (sent, Sent::All)
}
