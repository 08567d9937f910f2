//! Connections between two servers: what one gives back when it is told to hand over, and another takes over.
//!
//! Nothing is lost, doubled or torn: what was read from a socket is handled, or it is in `input`; what was made for the peer
//! is with the kernel, or it is in `output`.

use crate::service::Peer;

/// A connection on its way from one server to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried<T> {
    /// The connection itself. Nobody watches it.
    pub socket: T,
    /// Who is at the other end.
    pub peer: Peer,
    /// Received and not handled; what the socket has comes after it.
    pub input: Vec<u8>,
    /// Made and not sent; it goes before anything else.
    pub output: Vec<u8>,
    /// The service's own words about the session's state; none: as freshly accepted.
    pub session: Vec<u8>,
    /// For how long it has done nothing.
    pub idle_nanos: u64,
    /// It is to be closed when `output` is sent; nothing is read or handled any more.
    pub is_closing: bool,
}

impl<T> Carried<T> {
    /// The same conversation over `socket`, and what it was over before.
    pub fn over<U>(self, socket: U) -> (Carried<U>, T) {
        let carried = Carried {
            socket,
            peer: self.peer,
            input: self.input,
            output: self.output,
            session: self.session,
            idle_nanos: self.idle_nanos,
            is_closing: self.is_closing,
        };
        (carried, self.socket)
    }
}

/// What is left of a server that has ended: after a hand-over everything that it served, to be served by another.
#[derive(Debug)]
pub struct Ended<L, T, U> {
    /// Its connections; none after any other end.
    pub carried: Vec<Carried<T>>,
    /// Its listeners, still open. Dropped, they are closed.
    pub listeners: Vec<L>,
    /// For each address of datagrams its port and the sockets, one for every worker that there was.
    pub udp: Vec<(u16, Vec<U>)>,
}
