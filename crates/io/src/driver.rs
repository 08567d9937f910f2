//! The door to sockets: what an event loop needs of the operating system, and no more.
//!
//! Contract: sockets never block. `wait` reports readiness by level: what was not read is reported again. Tokens are the
//! caller's. A driver belongs to one thread, its [`Waker`] to all.

use std::io::{self, IoSlice};

use scrubjay_base::time::Now;

use datagrams::{Inbox, Outbox};
pub use name::Name;
pub use socket::{Listener, Socket};
pub use waker::Waker;

pub mod choice;
mod connect;
#[cfg(test)]
mod contract;
pub mod datagrams;
pub mod epoll;
mod name;
pub mod sim;
mod socket;
pub mod uring;
mod waker;

/// What a socket is ready for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The token it was added with.
    pub token: u64,
    /// There are bytes, an end of stream or an error to read.
    pub readable: bool,
    /// Bytes can be written.
    pub writable: bool,
}

/// What to wait for on a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Bytes to read.
    Read,
    /// Room to write; input waits.
    Write,
    /// Both: who asks must go on reading, or two peers may wait for each other.
    ReadWrite,
    /// Neither; that it was broken off may be reported all the same.
    Neither,
}

impl Interest {
    /// Whether bytes to read are waited for.
    pub(crate) fn reads(self) -> bool {
        matches!(self, Interest::Read | Interest::ReadWrite)
    }

    /// Whether room to write is waited for.
    pub(crate) fn writes(self) -> bool {
        matches!(self, Interest::Write | Interest::ReadWrite)
    }
}

/// A connection that a driver has given back.
#[derive(Debug)]
pub struct Released<S> {
    /// To be added to another driver, or sent to another process.
    pub socket: S,
    /// What had come and was not read: it comes before what the socket has.
    pub input: Vec<u8>,
    /// What `write` took and did not send: it goes before anything else.
    pub output: Vec<u8>,
    /// Of what `write` was last offered and did not take, so many bytes have gone or go by themselves all the same.
    pub owed: usize,
}

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerAddress {
    /// A TCP peer.
    Tcp(std::net::SocketAddr),
    /// A peer on a unix socket.
    Unix,
    /// The sender of a datagram, if it says the truth.
    Udp(std::net::SocketAddr),
}

/// Sockets, readiness and time of one event loop.
pub trait Driver {
    /// A connection; dropped, it is closed.
    type Socket;
    /// A listening socket.
    type Listener;
    /// A socket of datagrams.
    type Datagrams;

    /// Something to wake its `wait` with, if another thread could.
    fn waker(&self) -> Option<Waker> {
        None
    }

    /// The present moment.
    fn now(&mut self) -> Now;

    /// Nanoseconds that this thread has had of the processor; always 0 where nothing takes any.
    fn processor_nanos(&self) -> u64 {
        0
    }

    /// Waits until something is ready, another thread wakes the loop, or `timeout_ms` passed (`None`: no limit). `ready`
    /// is cleared and filled.
    ///
    /// # Errors
    /// Only what makes going on impossible.
    fn wait(&mut self, timeout_ms: Option<u32>, ready: &mut Vec<Ready>) -> io::Result<()>;

    /// As `wait`, with a limit in nanoseconds. A driver whose timers count milliseconds waits so much longer.
    ///
    /// # Errors
    /// As `wait`.
    fn wait_nanos(&mut self, nanos: u64, ready: &mut Vec<Ready>) -> io::Result<()> {
        let ms = nanos.div_ceil(1_000_000);
        self.wait(Some(ms.try_into().unwrap_or(u32::MAX)), ready)
    }

    /// Starts to report a connection under `token`, for reading. Until it is released or closed only this driver knows how to
    /// reach it: it may keep the file for itself.
    ///
    /// # Errors
    /// No memory or watches left.
    fn add(&mut self, socket: &mut Self::Socket, token: u64) -> io::Result<()>;

    /// Changes what a connection waits for.
    ///
    /// # Errors
    /// As `add`.
    fn change(&mut self, socket: &Self::Socket, token: u64, interest: Interest) -> io::Result<()>;

    /// Starts to report a listener under `token`.
    ///
    /// # Errors
    /// As `add`.
    fn add_listener(&mut self, listener: &Self::Listener, token: u64) -> io::Result<()>;

    /// Stops reporting a listener.
    ///
    /// # Errors
    /// If it was not added.
    fn remove_listener(&mut self, listener: &Self::Listener) -> io::Result<()>;

    /// Starts to report a socket of datagrams under `token`, for reading.
    ///
    /// # Errors
    /// As `add`.
    fn add_datagrams(&mut self, socket: &Self::Datagrams, token: u64) -> io::Result<()>;

    /// Fills `inbox` with datagrams that are there, a batch at most.
    ///
    /// # Errors
    /// `WouldBlock` if nothing is there; others concern one datagram.
    fn receive(&mut self, socket: &mut Self::Datagrams, inbox: &mut Inbox) -> io::Result<()>;

    /// Sends and clears `outbox`; returns how many datagrams could not be sent. They are lost, as datagrams may be.
    fn send(&mut self, socket: &mut Self::Datagrams, outbox: &mut Outbox) -> usize;

    /// Takes a waiting connection.
    ///
    /// # Errors
    /// `WouldBlock` if there is none; EMFILE and the like.
    fn accept(&mut self, listener: &Self::Listener) -> io::Result<(Self::Socket, PeerAddress)>;

    /// Reads what is there, at most `buffer`; 0 is the end of the stream.
    ///
    /// # Errors
    /// `WouldBlock` if nothing is there; anything else ends the connection.
    fn read(&mut self, socket: &Self::Socket, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes as much as the socket takes. What it did not take is to be offered again, the same bytes, before any others:
    /// a driver that encrypts may have sent part of them.
    ///
    /// # Errors
    /// `WouldBlock` if it takes nothing; anything else ends the connection.
    fn write(&mut self, socket: &Self::Socket, pieces: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Sees to it that everything `write` took has gone to the operating system. Call it before closing a connection that is
    /// to have all of it.
    ///
    /// # Errors
    /// `WouldBlock` if the socket does not take it now: it is reported as writable when it does. Anything else ends the
    /// connection.
    fn flush(&mut self, _socket: &Self::Socket) -> io::Result<()> {
        Ok(())
    }

    /// A request has come in part: the peer may be waiting for an acknowledgement before it sends the rest.
    fn acknowledge_now(&mut self, socket: &Self::Socket);

    /// Nothing more is wanted from the peer: from now on reading reports the end of the stream.
    fn end_input(&mut self, socket: &Self::Socket);

    /// Bytes of memory that the driver holds for a connection. They change in `read` and `write` only.
    fn held(&self, _socket: &Self::Socket) -> usize {
        0
    }

    /// Nothing more is sent on a connection, which the peer is told. What `write` took is to be flushed before.
    fn end_output(&mut self, socket: &Self::Socket);

    /// Ends what is under way in the kernel for connections, all of which are to be released or closed next: replies that were
    /// taken go as far as their sockets let them, and nothing is received any more.
    ///
    /// # Errors
    /// Only what makes going on impossible.
    fn be_quiet(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Gives a connection back that was added, with what is held for it. Call [`Driver::be_quiet`] before.
    ///
    /// # Errors
    /// It is lost, and closed now.
    fn release(&mut self, socket: Self::Socket) -> io::Result<Released<Self::Socket>>;

    /// Who is at the other end of a connection.
    ///
    /// # Errors
    /// Nobody any more.
    fn peer(&self, socket: &Self::Socket) -> io::Result<PeerAddress>;

    /// Who is at the other end of a connection, or was; `None` if that is not known any more.
    fn last_peer(&self, _socket: &Self::Socket) -> Option<PeerAddress> {
        None
    }

    /// A connection's descriptor in this process, or another number that no connection has meanwhile, if it has none. Cost: no
    /// system call.
    fn descriptor(&self, _socket: &Self::Socket) -> u64 {
        0
    }

    /// What a connection is called in a list.
    fn name(&self, _socket: &Self::Socket) -> Name {
        Name::default()
    }

    /// What a listener is called in a list.
    fn listener_name(&self, _listener: &Self::Listener) -> Name {
        Name::default()
    }

    /// What a socket of datagrams is called in a list.
    fn datagrams_name(&self, _socket: &Self::Datagrams) -> Name {
        Name::default()
    }

    /// Closes a connection that was added; where there is a way to say goodbye, it is said.
    fn close(&mut self, socket: Self::Socket) {
        drop(socket);
    }
}
