//! The driver for new kernels: io_uring. All replies of a turn, and the wait for the next requests, are one system call.
//!
//! What arrives is received into buffers that all connections share and waits there to be read; replies are copied and go out
//! with the next wait. Everything larger goes the way it goes with epoll, by calls of its own.
//!
//! Where descriptors become scarce, the ring has the files of further connections for itself ([`direct`]).
//!
//! Order of a connection's bytes. In: buffers are filled during this driver's calls only, and all completions are taken before
//! a wait returns; so what lies in the socket came after what lies in buffers. Out: a queued reply goes before anything is sent
//! directly, and what the socket did not take of it before anything else; until that has gone the peer is not read from.

use std::collections::HashMap;
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{AsFd, OwnedFd};

use scrubjay_base::time::Now;

use super::datagrams::{self, Inbox, Outbox};
use super::epoll::Epoll;
use super::socket::Ends;
use super::{Driver, Interest, Listener, Name, PeerAddress, Ready, Released, Socket, Waker, socket};
use crate::clock::Clock;
use buffers::Buffers;
use direct::Scarcity;
use place::{Facts, Places};
use queue::Queue;
use ring::{Kind, Ring, Tag};
use rustix::net::Shutdown;
use turn::{Answer, is_again};

mod buffers;
mod direct;
mod leave;
mod place;
mod queue;
mod ring;
mod turn;

/// A connection that sends so much between two turns is read from its socket: one copy less, and one call for all.
const BULK_LEN: usize = 6 << 10;

/// A connection that sends no more than this is not such a one any more.
const SMALL_LEN: usize = 2 << 10;

/// Sockets and readiness by io_uring.
pub struct Uring {
    // Dropped first: it receives into the buffers.
    ring: Ring,
    buffers: Buffers,
    queue: Queue,
    places: Places,
    /// Places whose requests may have to change.
    unsettled: Vec<u32>,
    /// Places that may have something to report.
    noteworthy: Vec<u32>,
    /// Requests of connections that were closed.
    ended: Vec<Tag>,
    /// Connections that have become writable, or had by the time of this request.
    writable: Vec<Tag>,
    /// Slots whose files are to be closed.
    closing: Vec<u32>,
    /// The descriptor that was asked for last.
    lent: Option<io::Result<OwnedFd>>,
    scarcity: Scarcity,
    ask_scarcity: fn() -> Scarcity,
    /// Of connections whose files are in slots: nobody can be asked for them cheaply.
    ends: HashMap<u32, Ends>,
    /// Listeners, sockets of datagrams and the waker: what is reported rarely. Requests of a ring would keep a socket open
    /// after its process was killed, until the kernel has tidied up behind it, and a successor could not listen.
    others: Epoll,
    /// The request to report the others is with the kernel.
    waits_for_others: bool,
    /// Nothing is asked for connections any more: they are given back.
    is_quiet: bool,
}

impl Uring {
    /// A driver with nothing to watch. It may be moved to another thread before its first wait.
    ///
    /// # Errors
    /// io_uring is forbidden here or too old, or there is no memory.
    pub fn new(clock: Clock) -> io::Result<Uring> {
        Uring::with(clock, Scarcity::of_process)
    }

    /// A driver that puts its first 250 connections into slots, as if descriptors were scarce.
    #[cfg(test)]
    pub(super) fn with_direct_files(clock: Clock) -> io::Result<Uring> {
        let ask_scarcity = || Scarcity {
            from: 0,
            released_below: i32::MAX,
            slots: 250,
        };
        Uring::with(clock, ask_scarcity)
    }

    fn with(clock: Clock, ask_scarcity: fn() -> Scarcity) -> io::Result<Uring> {
        let buffers = Buffers::new()?;
        Ok(Uring {
            ring: Ring::new(&buffers)?,
            buffers,
            queue: Queue::default(),
            places: Places::default(),
            unsettled: Vec::new(),
            noteworthy: Vec::new(),
            ended: Vec::new(),
            writable: Vec::new(),
            closing: Vec::new(),
            lent: None,
            scarcity: ask_scarcity(),
            ask_scarcity,
            ends: HashMap::new(),
            others: Epoll::new(clock)?,
            waits_for_others: false,
            is_quiet: false,
        })
    }

    /// Has the requests of a place looked at before the next wait.
    fn unsettle(&mut self, index: u32) {
        let place = self.places.get_mut(index);
        if !place.is(Facts::UNSETTLED) {
            place.set(Facts::UNSETTLED, true);
            self.unsettled.push(index);
        }
    }

    /// Has a place looked at for something to report.
    fn note(&mut self, index: u32) {
        let place = self.places.get_mut(index);
        if !place.is(Facts::NOTEWORTHY) {
            place.set(Facts::NOTEWORTHY, true);
            self.noteworthy.push(index);
        }
    }
}

impl Driver for Uring {
    type Socket = Socket;
    type Listener = Listener;
    type Datagrams = datagrams::Socket;

    fn waker(&self) -> Option<Waker> {
        self.others.waker()
    }

    fn now(&mut self) -> Now {
        self.others.now()
    }

    fn processor_nanos(&self) -> u64 {
        self.others.processor_nanos()
    }

    fn wait(&mut self, timeout_ms: Option<u32>, ready: &mut Vec<Ready>) -> io::Result<()> {
        self.ring.enable()?;
        ready.clear();
        loop {
            // What was reported and left is reported again.
            let timeout_ms = if self.has_news() { Some(0) } else { timeout_ms };
            let answered = self.turn(timeout_ms, ready)?;
            // What came may concern nobody any more.
            if !ready.is_empty() || answered != Answer::OfRing || timeout_ms == Some(0) {
                return Ok(());
            }
        }
    }

    fn add(&mut self, socket: &mut Socket, token: u64) -> io::Result<()> {
        let index = self.places.take(socket.raw_fd(), token);
        socket.set_place(index);
        self.take_file(socket, index);
        self.unsettle(index);
        Ok(())
    }

    fn change(&mut self, socket: &Socket, _token: u64, interest: Interest) -> io::Result<()> {
        let index = place_of(socket);
        let place = self.places.get_mut(index);
        place.interest = interest;
        place.set(Facts::WRITABLE, false);
        if !place.wants_input() && !place.received.is_empty() {
            // It may be long until it is read, and others need the buffers.
            let into = &mut place.kept.get_or_insert_default().received;
            self.buffers.move_all(&mut place.received, into);
            place.note();
        }
        self.note(index);
        self.unsettle(index);
        Ok(())
    }

    fn add_listener(&mut self, listener: &Listener, token: u64) -> io::Result<()> {
        self.others.add_listener(listener, token)
    }

    fn remove_listener(&mut self, listener: &Listener) -> io::Result<()> {
        self.others.remove_listener(listener)
    }

    fn add_datagrams(&mut self, socket: &datagrams::Socket, token: u64) -> io::Result<()> {
        self.others.add_datagrams(socket, token)
    }

    fn receive(&mut self, socket: &mut datagrams::Socket, inbox: &mut Inbox) -> io::Result<()> {
        socket.receive(inbox)
    }

    fn send(&mut self, socket: &mut datagrams::Socket, outbox: &mut Outbox) -> usize {
        socket.send(outbox)
    }

    fn descriptor(&self, socket: &Socket) -> u64 {
        match socket.direct_place() {
            None => self.others.descriptor(socket),
            Some(slot) => self.direct_number(slot),
        }
    }

    fn last_peer(&self, socket: &Socket) -> Option<PeerAddress> {
        match socket.direct_place() {
            None => self.others.last_peer(socket),
            Some(slot) => self.direct_peer(slot),
        }
    }

    fn name(&self, socket: &Socket) -> Name {
        match socket.direct_place() {
            None => self.others.name(socket),
            Some(slot) => self.direct_name(slot),
        }
    }

    fn listener_name(&self, listener: &Listener) -> Name {
        self.others.listener_name(listener)
    }

    fn datagrams_name(&self, socket: &datagrams::Socket) -> Name {
        self.others.datagrams_name(socket)
    }

    fn accept(&mut self, listener: &Listener) -> io::Result<(Socket, PeerAddress)> {
        listener.accept()
    }

    fn read(&mut self, socket: &Socket, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(index) = socket.place() else {
            return socket.read(buffer);
        };
        let place = self.places.get_mut(index);
        let mut len = 0;
        if let Some(kept) = place.kept.as_mut().filter(|kept| kept.unsent.is_empty()) {
            len = kept.received.len().min(buffer.len());
            buffer[..len].copy_from_slice(&kept.received[..len]);
            kept.received.drain(..len);
            if kept.received.is_empty() {
                kept.received = Vec::new();
            }
        }
        place.note();
        place.check()?;
        if place.has_unsent() {
            return Err(ErrorKind::WouldBlock.into());
        }
        if len < buffer.len() && !place.received.is_empty() {
            len += self.buffers.read(&mut place.received, &mut buffer[len..]);
        }
        place.set(Facts::BULK, place.is(Facts::BULK) || len >= BULK_LEN);
        let mut result = Ok(len);
        if len < buffer.len() && (len == 0 || place.is(Facts::READABLE)) {
            result = self.read_directly(socket, index, &mut buffer[len..]);
            let room = buffer.len() - len;
            let place = self.places.get_mut(index);
            let is_drained = match &result {
                Ok(more) => (1..room).contains(more),
                Err(error) => is_again(error),
            };
            place.set(Facts::READABLE, !is_drained);
            match result {
                Ok(more) => {
                    place.set(Facts::BULK, place.is(Facts::BULK) && len + more > SMALL_LEN);
                    result = Ok(len + more);
                }
                // It will come up again.
                Err(_) if len > 0 => result = Ok(len),
                Err(_) => {}
            }
        }
        let place = self.places.get(index);
        if !place.is(Facts::RECEIVES) || place.is(Facts::BULK) {
            self.unsettle(index);
        }
        result
    }

    fn write(&mut self, socket: &Socket, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let Some(index) = socket.place() else {
            return socket.write(pieces);
        };
        let place = self.places.get_mut(index);
        if place.kept.is_none() && place.error == 0 {
            if let Some(number) = self.queue.push(index, place.queued, pieces) {
                place.queued = number;
                return Ok(pieces.iter().map(|piece| piece.len()).sum());
            }
            if place.queued == queue::NONE {
                return self.write_directly(socket, index, pieces);
            }
        }
        self.flush(socket)?;
        self.write_directly(socket, index, pieces)
    }

    fn flush(&mut self, socket: &Socket) -> io::Result<()> {
        let Some(index) = socket.place() else {
            return Ok(());
        };
        self.send_queued(index);
        let place = self.places.get_mut(index);
        place.note();
        place.check()?;
        if place.has_unsent() {
            self.unsettle(index);
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(())
    }

    fn acknowledge_now(&mut self, socket: &Socket) {
        match socket.direct_place() {
            // An optimisation, as it is with a descriptor.
            Some(index) => {
                let _ = self.lend(index).map(|fd| socket::acknowledge(fd.as_fd()));
            }
            None => socket.acknowledge_now(),
        }
    }

    fn end_input(&mut self, socket: &Socket) {
        self.end(socket, Shutdown::Read);
        if let Some(index) = socket.place() {
            self.places.get_mut(index).set(Facts::READABLE, true);
            self.note(index);
        }
    }

    fn end_output(&mut self, socket: &Socket) {
        self.end(socket, Shutdown::Write);
    }

    fn be_quiet(&mut self) -> io::Result<()> {
        self.end_requests()
    }

    fn release(&mut self, socket: Socket) -> io::Result<Released<Socket>> {
        self.give_back(socket)
    }

    fn peer(&self, socket: &Socket) -> io::Result<PeerAddress> {
        match socket.direct_place() {
            None => socket.peer(),
            Some(slot) => self.direct_peer(slot).ok_or(ErrorKind::NotConnected.into()),
        }
    }

    fn held(&self, socket: &Socket) -> usize {
        socket.place().map_or(0, |index| self.places.get(index).noted())
    }

    fn close(&mut self, socket: Socket) {
        let Some(index) = socket.place() else {
            return;
        };
        // What the socket does not take now is lost; who wants to know asks before.
        self.send_queued(index);
        let place = self.places.get_mut(index);
        self.buffers.drop_all(&mut place.received);
        for (fact, kind) in [
            (Facts::RECEIVES, Kind::Receive),
            (Facts::POLLS_IN, Kind::PollIn),
            (Facts::POLLS_OUT, Kind::PollOut),
        ] {
            if self.places.get(index).is(fact) {
                self.ended.push(self.places.tag(index, kind));
            }
        }
        self.leave(index);
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        // The last connections are closed when their requests are. A ring that refuses is closed all the same.
        let _ = self.ask().and_then(|()| self.ring.enter(Some(0)));
    }
}

fn place_of(socket: &Socket) -> u32 {
    socket.place().expect("the connection was added")
}
