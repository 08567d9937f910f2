//! Direct descriptors: files that the ring has for itself, and that take none of the process's numbers.
//!
//! A process may open so many files (RLIMIT_NOFILE), and each ring has as many slots besides. A connection whose descriptor is
//! among the last ones allowed is put into a slot, and the descriptor is closed; numbers are given out lowest first, so a high
//! one says that there are few left. The ring receives and sends by the slot. What takes a call of its own borrows a descriptor
//! for that call.

use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use rustix::net::Shutdown;
use rustix::process::{Resource, getrlimit};

use super::place::Facts;
use super::ring::Kind;
use super::{Ends, Name, PeerAddress, Socket, Uring, socket};

/// Most slots of a ring: what the kernel takes.
const SLOTS_MAX: u64 = 1 << 20;

/// Waits for a descriptor that was asked for, a millisecond each; it mostly comes with the call.
const WAITS_MAX: usize = 1_000;

/// When descriptors are scarce.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scarcity {
    /// Connections with this descriptor or a higher one are put into slots.
    pub(super) from: RawFd,
    /// Connections that get this descriptor or a higher one when they are given back are closed: whoever takes them over has
    /// other files to open.
    pub(super) released_below: RawFd,
    /// Slots of a ring.
    pub(super) slots: u32,
}

/// A descriptor for one call.
pub(super) enum Borrowed {
    /// The connection's own.
    Own(RawFd),
    /// Closed after the call.
    Lent(OwnedFd),
}

impl Scarcity {
    /// By what this process may open: the last quarter is kept free.
    pub(super) fn of_process() -> Scarcity {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(SLOTS_MAX);
        let number = |files: u64| files.try_into().unwrap_or(RawFd::MAX);
        Scarcity {
            from: number(files - files / 4),
            released_below: number(files - files / 16),
            slots: files.min(SLOTS_MAX) as u32,
        }
    }
}

impl Borrowed {
    pub(super) fn number(&self) -> RawFd {
        match self {
            Borrowed::Own(number) => *number,
            Borrowed::Lent(fd) => fd.as_raw_fd(),
        }
    }
}

impl Uring {
    /// Whether it can have files for itself.
    pub(in crate::driver) fn has_slots(&self) -> bool {
        self.ring.lends()
    }

    /// Puts the file of a connection that was just added into the slot of its place, if descriptors are scarce. Where that is
    /// not possible it stays as it is.
    pub(super) fn take_file(&mut self, socket: &mut Socket, index: u32) {
        if socket.raw_fd() < self.scarcity.from || !self.ring.lends() {
            return;
        }
        // More may be allowed by now.
        self.scarcity = (self.ask_scarcity)();
        if socket.raw_fd() < self.scarcity.from {
            return;
        }
        let Some(ends) = socket.ends() else {
            return;
        };
        let slots = self.scarcity.slots;
        if self.ring.take_file(index, socket.fd(), slots).is_ok() {
            self.places.get_mut(index).make_direct(index);
            self.ends.insert(index, ends);
            socket.close_descriptor();
        }
    }

    /// The connection at a place is gone.
    pub(super) fn leave(&mut self, index: u32) {
        let place = self.places.get_mut(index);
        if place.is(Facts::DIRECT) {
            place.set(Facts::CLOSES, true);
            self.closing.push(index);
            self.ends.remove(&index);
        }
        self.places.leave(index);
    }

    /// Closes the files of connections that are gone. Their requests have been cancelled before.
    pub(super) fn close_files(&mut self) -> io::Result<()> {
        for index in self.closing.drain(..) {
            let place = self.places.get_mut(index);
            if place.is(Facts::CLOSES) {
                place.set(Facts::CLOSES, false);
                self.ring.close(index, self.places.tag(index, Kind::Close))?;
            }
        }
        Ok(())
    }

    /// Another descriptor of the file in a slot. Completions that come meanwhile are taken.
    ///
    /// # Errors
    /// No descriptors left, or the ring is broken.
    pub(super) fn lend(&mut self, index: u32) -> io::Result<OwnedFd> {
        self.ring.enable()?;
        // One that came too late is closed.
        self.lent = None;
        self.ring.lend(index, self.places.tag(index, Kind::Lend))?;
        self.ring.submit()?;
        self.take_completions()?;
        for _ in 0..WAITS_MAX {
            if let Some(lent) = self.lent.take() {
                return lent;
            }
            self.ring.enter(Some(1))?;
            self.take_completions()?;
        }
        Err(ErrorKind::TimedOut.into())
    }

    /// A descriptor for a connection that leaves.
    ///
    /// # Errors
    /// As [`Uring::lend`]; too few are left for whoever gets it.
    pub(super) fn descriptor_to_leave(&mut self, index: u32) -> io::Result<OwnedFd> {
        let fd = self.lend(index)?;
        if fd.as_raw_fd() >= self.scarcity.released_below {
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        Ok(fd)
    }

    /// The same for a call that may be made later as well: if there are none left, it is as if the socket had to be waited for.
    fn lend_or_wait(&mut self, index: u32) -> io::Result<OwnedFd> {
        let is_scarce = |error: &io::Error| matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE));
        self.lend(index).map_err(|error| match is_scarce(&error) {
            true => ErrorKind::WouldBlock.into(),
            false => error,
        })
    }

    /// A descriptor of the connection at a place, for one call.
    pub(super) fn borrow_file(&mut self, index: u32) -> io::Result<Borrowed> {
        let place = self.places.get(index);
        if place.is(Facts::DIRECT) {
            self.lend_or_wait(index).map(Borrowed::Lent)
        } else {
            Ok(Borrowed::Own(place.fd))
        }
    }

    /// Reads from the socket itself.
    pub(super) fn read_directly(
        &mut self,
        socket: &Socket,
        index: u32,
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        if socket.direct_place().is_none() {
            return socket.read(buffer);
        }
        let fd = self.lend_or_wait(index)?;
        let place = self.places.get_mut(index);
        if !place.received.is_empty() {
            // It came while the descriptor was asked for, and goes before what the socket has.
            return Ok(self.buffers.read(&mut place.received, buffer));
        }
        socket::receive(fd.as_fd(), buffer)
    }

    /// Writes to the socket itself.
    pub(super) fn write_directly(
        &mut self,
        socket: &Socket,
        index: u32,
        pieces: &[IoSlice<'_>],
    ) -> io::Result<usize> {
        if socket.direct_place().is_none() {
            return socket.write(pieces);
        }
        let fd = self.lend_or_wait(index)?;
        socket::send_all(fd.as_fd(), pieces)
    }

    /// Ends one direction. If that cannot be said for want of a descriptor, the connection is lost.
    pub(super) fn end(&mut self, socket: &Socket, how: Shutdown) {
        match socket.direct_place() {
            Some(index) => match self.lend(index) {
                Ok(fd) => socket::shut_down(fd.as_fd(), how),
                Err(error) => {
                    self.places.get_mut(index).error = error.raw_os_error().unwrap_or(libc::EMFILE);
                    self.note(index);
                }
            },
            None => socket::shut_down(socket.fd(), how),
        }
    }

    /// What a connection without a descriptor is called: no number that the kernel gives, and no other connection's.
    pub(super) fn direct_number(&self, slot: u32) -> u64 {
        (self.others.raw_fd() as u64 + 1) * SLOTS_MAX + u64::from(slot)
    }

    /// Who is at the other end of a connection without a descriptor, or was.
    pub(super) fn direct_peer(&self, slot: u32) -> Option<PeerAddress> {
        self.ends.get(&slot).map(|ends| match ends {
            Ends::Tcp { there, .. } => PeerAddress::Tcp(*there),
            Ends::Unix(_) => PeerAddress::Unix,
        })
    }

    /// What a connection without a descriptor is called in a list.
    pub(super) fn direct_name(&self, slot: u32) -> Name {
        let number = self.direct_number(slot);
        self.ends
            .get(&slot)
            .map_or_else(Name::default, |ends| Name::of_direct(number, ends))
    }
}
