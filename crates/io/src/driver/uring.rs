//! The driver for new kernels: io_uring. All replies of a turn, and the wait for the next requests, are one system call.
//!
//! What arrives is received into buffers that all connections share and waits there to be read; replies are copied and go out
//! with the next wait. Everything larger goes the way it goes with epoll, by calls of its own.
//!
//! Order of a connection's bytes. In: buffers are filled during this driver's calls only, and all completions are taken before
//! a wait returns; so what lies in the socket came after what lies in buffers. Out: a queued reply goes before anything is sent
//! directly, and what the socket did not take of it before anything else; until that has gone the peer is not read from.

use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{AsFd, AsRawFd, RawFd};

use scrubjay_base::time::Now;

use super::datagrams::{self, Inbox, Outbox};
use super::{Driver, Interest, Listener, PeerAddress, Ready, Socket, Waker, socket};
use crate::clock::Clock;
use buffers::Buffers;
use place::{Facts, Place, Places};
use queue::Queue;
use ring::{BATCH, Completion, Kind, Ring, Tag};

mod buffers;
mod place;
mod queue;
mod ring;

/// A connection that sends so much between two turns is read from its socket: one copy less.
const BULK_LEN: usize = 16 << 10;

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
    watches: Vec<Watch>,
    waker: Waker,
    /// The request to report it is with the kernel.
    waits_for_waker: bool,
    clock: Clock,
}

/// A listener or a socket of datagrams.
#[derive(Debug)]
struct Watch {
    token: u64,
    /// Below zero: removed.
    fd: RawFd,
    /// The request to report it is with the kernel.
    polls: bool,
    readable: bool,
}

impl Uring {
    /// A driver with nothing to watch. It may be moved to another thread before its first wait.
    ///
    /// # Errors
    /// io_uring is forbidden here or too old, or there is no memory.
    pub fn new(clock: Clock) -> io::Result<Uring> {
        let buffers = Buffers::new()?;
        Ok(Uring {
            ring: Ring::new(&buffers)?,
            buffers,
            queue: Queue::default(),
            places: Places::default(),
            unsettled: Vec::new(),
            noteworthy: Vec::new(),
            ended: Vec::new(),
            watches: Vec::new(),
            waker: Waker::new()?,
            waits_for_waker: false,
            clock,
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

    fn watch(&mut self, fd: RawFd, token: u64) {
        let watch = Watch {
            token,
            fd,
            polls: false,
            readable: false,
        };
        // A place whose last request may still be with the kernel is not taken again.
        match self.watches.iter_mut().find(|watch| watch.fd < 0 && !watch.polls) {
            Some(vacant) => *vacant = watch,
            None => self.watches.push(watch),
        }
    }

    /// Fills the ring with everything that is wanted of the kernel: replies first.
    fn ask(&mut self) -> io::Result<()> {
        for number in 0..self.queue.entries.len() {
            let index = self.queue.entries[number].place;
            let bytes = self.queue.bytes(number as u32);
            if !bytes.is_empty() {
                let tag = self.places.tag(index, Kind::Send);
                // SAFETY: the queue's bytes stay where they are until it is cleared, after the ring has submitted all.
                unsafe { self.ring.send(self.places.get(index).fd, bytes, tag)? };
            }
        }
        for tag in self.ended.drain(..) {
            self.ring.cancel(tag)?;
        }
        for index in std::mem::take(&mut self.unsettled) {
            self.settle(index)?;
        }
        if !self.waits_for_waker {
            self.ring.poll(self.waker.fd().as_fd().as_raw_fd(), libc::POLLIN, tag_of(Kind::Wake, 0))?;
            self.waits_for_waker = true;
        }
        for (number, watch) in self.watches.iter_mut().enumerate() {
            if watch.fd >= 0 && !watch.polls {
                let tag = tag_of(Kind::Watch, number);
                self.ring.poll(watch.fd, libc::POLLIN, tag)?;
                (watch.polls, watch.readable) = (true, false);
            }
        }
        Ok(())
    }

    /// Brings a connection's requests in line with what is wanted of it.
    fn settle(&mut self, index: u32) -> io::Result<()> {
        let tag = |kind| self.places.tag(index, kind);
        let (receive, poll_in, poll_out) = (tag(Kind::Receive), tag(Kind::PollIn), tag(Kind::PollOut));
        let place = self.places.get_mut(index);
        place.set(Facts::UNSETTLED, false);
        if place.fd < 0 || place.error != 0 {
            return Ok(());
        }
        let (reads, is_bulk) = (place.wants_input(), place.is(Facts::BULK));
        if reads && !place.has_received() && !place.is(Facts::READABLE) {
            if is_bulk && !place.is(Facts::POLLS_IN) {
                self.ring.poll(place.fd, libc::POLLIN, poll_in)?;
                place.set(Facts::POLLS_IN, true);
            } else if !is_bulk && !place.is(Facts::RECEIVES) {
                self.ring.receive(place.fd, receive)?;
                place.set(Facts::RECEIVES, true);
            }
        }
        if (!reads || is_bulk) && place.is(Facts::RECEIVES) && !place.is(Facts::CANCELLED) {
            self.ring.cancel(receive)?;
            place.set(Facts::CANCELLED, true);
        }
        let writes = place.interest != Interest::Read || place.has_unsent();
        if writes && !place.is(Facts::WRITABLE) && !place.is(Facts::POLLS_OUT) {
            self.ring.poll(place.fd, libc::POLLOUT, poll_out)?;
            place.set(Facts::POLLS_OUT, true);
        }
        Ok(())
    }

    /// Takes all completions; `true` if another thread wanted the loop to wake.
    fn take_completions(&mut self) -> io::Result<bool> {
        let mut is_woken = false;
        let mut batch = [None; BATCH];
        loop {
            let count = self.ring.take(&mut batch);
            for completion in batch[..count].iter().flatten() {
                is_woken |= completion.tag.kind == Kind::Wake;
                self.complete(completion);
            }
            if count < BATCH {
                if !self.ring.has_requests() && !self.ring.has_overflown() {
                    return Ok(is_woken);
                }
                self.ring.submit()?;
            }
        }
    }

    fn complete(&mut self, completion: &Completion) {
        let &Completion { tag, result, .. } = completion;
        match tag.kind {
            Kind::Cancel => {}
            Kind::Wake => {
                self.waker.clear();
                self.waits_for_waker = false;
            }
            Kind::Watch => {
                let watch = &mut self.watches[tag.place as usize];
                watch.polls = false;
                watch.readable = watch.fd >= 0 && result >= 0;
            }
            Kind::Receive => self.complete_receive(completion),
            _ if !self.places.is_current(tag) => {}
            Kind::Send => self.complete_send(tag.place, result),
            Kind::PollIn => {
                let place = self.places.get_mut(tag.place);
                place.set(Facts::POLLS_IN, false);
                place.set(Facts::READABLE, true);
                self.note(tag.place);
            }
            Kind::PollOut => {
                let place = self.places.get_mut(tag.place);
                place.set(Facts::POLLS_OUT, false);
                self.continue_sending(tag.place);
            }
        }
    }

    fn complete_receive(&mut self, completion: &Completion) {
        let &Completion { tag, result, buffer, goes_on } = completion;
        if !self.places.is_current(tag) {
            buffer.into_iter().for_each(|number| self.buffers.give_back(number));
            return;
        }
        let place = self.places.get_mut(tag.place);
        match (result, buffer) {
            (1.., Some(number)) => {
                self.buffers.append(&mut place.received, number, result as usize);
                if !place.wants_input() {
                    let Place { kept, received, .. } = place;
                    self.buffers.move_all(received, &mut kept.get_or_insert_default().received);
                    place.tell_if_changed();
                }
            }
            (_, Some(number)) => self.buffers.give_back(number),
            _ => {}
        }
        // No buffer, the end, an error: the socket itself says more. What only means "again" is asked again.
        let is_again = [libc::ECANCELED, libc::EAGAIN, libc::EINTR].contains(&-result);
        place.set(Facts::READABLE, place.is(Facts::READABLE) || (result <= 0 && !is_again));
        self.note(tag.place);
        if !goes_on {
            let place = self.places.get_mut(tag.place);
            place.set(Facts::RECEIVES, false);
            place.set(Facts::CANCELLED, false);
            self.unsettle(tag.place);
        }
    }

    /// A queued reply did not go as a whole.
    fn complete_send(&mut self, index: u32, result: i32) {
        let place = self.places.get_mut(index);
        let bytes = self.queue.bytes(place.queued);
        let sent = match result {
            0.. => result as usize,
            _ if [libc::EAGAIN, libc::EINTR].contains(&-result) => 0,
            _ => {
                place.error = -result;
                bytes.len()
            }
        };
        let rest = &bytes[sent.min(bytes.len())..];
        if !rest.is_empty() {
            place.kept().unsent = rest.to_vec();
            place.tell_if_changed();
        }
        self.note(index);
        self.unsettle(index);
    }

    /// Sends what the socket did not take before.
    fn continue_sending(&mut self, index: u32) {
        self.send_unsent(index);
        let place = self.places.get_mut(index);
        let has_room = !place.has_unsent() && place.interest != Interest::Read;
        place.set(Facts::WRITABLE, has_room);
        place.tell_if_changed();
        self.note(index);
        self.unsettle(index);
    }

    fn send_unsent(&mut self, index: u32) {
        let place = self.places.get_mut(index);
        let Some(kept) = place.kept.as_mut().filter(|kept| !kept.unsent.is_empty()) else {
            return;
        };
        match socket::send(place.fd, &kept.unsent) {
            Ok(len) if len == kept.unsent.len() => kept.unsent = Vec::new(),
            Ok(len) => drop(kept.unsent.drain(..len)),
            Err(error) if is_again(&error) => {}
            Err(error) => {
                kept.unsent = Vec::new();
                place.error = error.raw_os_error().unwrap_or(libc::EPIPE);
            }
        }
    }

    /// Sends what is queued for a connection before the others': it is to be sent more directly, or to be closed.
    fn send_queued(&mut self, index: u32) {
        let place = self.places.get_mut(index);
        let number = std::mem::replace(&mut place.queued, queue::NONE);
        if number != queue::NONE {
            place.kept().unsent = self.queue.bytes(number).to_vec();
            self.queue.withdraw(number);
        }
        self.send_unsent(index);
    }

    /// Fills `ready` with what is to be reported; drops places that have nothing to say from the list.
    fn report(&mut self, ready: &mut Vec<Ready>) {
        ready.clear();
        let watches = self.watches.iter().filter(|watch| watch.readable && watch.fd >= 0);
        ready.extend(watches.map(|watch| Ready {
            token: watch.token,
            readable: true,
            writable: false,
        }));
        let places = &mut self.places;
        self.noteworthy.retain(|&index| {
            let place = places.get_mut(index);
            let (readable, writable) = place.report();
            let is_news = place.fd >= 0 && (readable || writable);
            if is_news {
                ready.push(Ready {
                    token: place.token,
                    readable,
                    writable,
                });
            }
            place.set(Facts::NOTEWORTHY, is_news);
            is_news
        });
    }

    /// What was reported before and has not been read.
    fn has_news(&mut self) -> bool {
        let places = &mut self.places;
        self.noteworthy.retain(|&index| {
            let place = places.get_mut(index);
            let is_news = place.fd >= 0 && place.report() != (false, false);
            place.set(Facts::NOTEWORTHY, is_news);
            is_news
        });
        !self.noteworthy.is_empty()
    }

    /// One call of the kernel with everything that is asked of it; `None` if the time was over, else whether another thread
    /// wanted the loop to wake.
    fn turn(&mut self, timeout_ms: Option<u32>) -> io::Result<Option<bool>> {
        self.ask()?;
        let in_time = self.ring.enter(timeout_ms)?;
        let is_woken = self.take_completions()?;
        for entry in &self.queue.entries {
            self.places.get_mut(entry.place).queued = queue::NONE;
        }
        self.queue.clear();
        Ok(in_time.then_some(is_woken))
    }
}

/// Whether an error only says that it would have had to wait.
fn is_again(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// A tag of what is not a connection.
fn tag_of(kind: Kind, number: usize) -> Tag {
    Tag {
        kind,
        generation: 0,
        place: number as u32,
    }
}

impl Driver for Uring {
    type Socket = Socket;
    type Listener = Listener;
    type Datagrams = datagrams::Socket;

    fn waker(&self) -> Option<Waker> {
        Some(self.waker.clone())
    }

    fn now(&mut self) -> Now {
        self.clock.now()
    }

    fn wait(&mut self, timeout_ms: Option<u32>, ready: &mut Vec<Ready>) -> io::Result<()> {
        self.ring.enable()?;
        loop {
            // What was reported and left is reported again.
            let timeout_ms = if self.has_news() { Some(0) } else { timeout_ms };
            let turned = self.turn(timeout_ms)?;
            self.report(ready);
            // What came may concern nobody any more.
            if !ready.is_empty() || turned != Some(false) || timeout_ms == Some(0) {
                return Ok(());
            }
        }
    }

    fn add(&mut self, socket: &Socket, token: u64) -> io::Result<()> {
        let index = self.places.take(socket.raw_fd(), token);
        socket.set_place(index);
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
        self.watch(listener.raw_fd(), token);
        Ok(())
    }

    fn remove_listener(&mut self, listener: &Listener) -> io::Result<()> {
        let fd = listener.raw_fd();
        let number = self.watches.iter().position(|watch| watch.fd == fd);
        let number = number.ok_or_else(|| io::Error::from(ErrorKind::NotFound))?;
        self.watches[number].fd = -1;
        if self.watches[number].polls {
            self.ended.push(tag_of(Kind::Watch, number));
        }
        Ok(())
    }

    fn add_datagrams(&mut self, socket: &datagrams::Socket, token: u64) -> io::Result<()> {
        self.watch(socket.fd().as_fd().as_raw_fd(), token);
        Ok(())
    }

    fn receive(&mut self, socket: &mut datagrams::Socket, inbox: &mut Inbox) -> io::Result<()> {
        socket.receive(inbox)
    }

    fn send(&mut self, socket: &mut datagrams::Socket, outbox: &mut Outbox) -> usize {
        socket.send(outbox)
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
            result = socket.read(&mut buffer[len..]);
            let room = buffer.len() - len;
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
                return socket.write(pieces);
            }
        }
        self.flush(socket)?;
        socket.write(pieces)
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
        socket.acknowledge_now();
    }

    fn end_input(&mut self, socket: &Socket) {
        socket.end_input();
        if let Some(index) = socket.place() {
            self.places.get_mut(index).set(Facts::READABLE, true);
            self.note(index);
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
        self.places.leave(index);
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
