//! The seam between the event loop and what it serves: bytes in, bytes out, no sockets.

use scrubjay_base::allowance::Allowance;
use scrubjay_base::time::Now;

use crate::output::Output;

pub use scrubjay_io::driver::{PeerAddress as Peer, Waker};

/// What a worker calls with the bytes of its connections. Each worker thread owns one.
pub trait Service {
    /// State that belongs to one connection.
    type Session;
    /// Bytes owned by the service that go out without being copied.
    type Shared: AsRef<[u8]>;

    /// A connection was accepted.
    fn open(&mut self, peer: Peer) -> Self::Session;

    /// This worker can be woken so, for connections that are [`Next::Fed`].
    fn wakes_by(&mut self, waker: Option<Waker>) {
        let _ = waker;
    }

    /// A connection with this descriptor was opened. Datagrams have none, and no connection.
    fn opened(&mut self, descriptor: u64, peer: Peer) {
        let _ = (descriptor, peer);
    }

    /// The connection with this descriptor is about to be closed; `peer` says who was at its other end, if that is still known.
    fn closing(&mut self, descriptor: u64, reason: Reason, peer: &dyn Fn() -> Option<Peer>) {
        let _ = (descriptor, reason, peer);
    }

    /// The next calls of [`Service::handle`] are for the connection with this descriptor; 0: for a datagram.
    fn serves(&mut self, descriptor: u64) {
        let _ = descriptor;
    }

    /// Whether something has come since the last call for connections that are [`Next::Fed`]. Called once a turn while there are
    /// any.
    fn has_news(&mut self) -> bool {
        false
    }

    /// A connection is gone; its unfinished work is dropped with the session.
    fn close(&mut self, session: Self::Session) {
        drop(session);
    }

    /// A connection goes to another server: words by which that one can go on with its session; none if it is as freshly
    /// opened. What the session has used of a request that is not answered yet goes back to the front of `input`. `None` if
    /// nobody else can go on with it: the connection is closed when its output is sent.
    fn pack(&mut self, session: Self::Session, input: &mut Vec<u8>) -> Option<Vec<u8>> {
        let _ = input;
        self.close(session);
        None
    }

    /// A connection came from another server, whose [`Service::pack`] said this of its session; `None` if this one cannot go on
    /// with it.
    fn unpack(&mut self, peer: Peer, packed: &[u8]) -> Option<Self::Session> {
        let _ = (peer, packed);
        None
    }

    /// A loop turn starts at `now`; called before any [`Service::handle`] of that turn.
    fn begin_turn(&mut self, now: Now);

    /// The worker is about to sleep until something happens.
    fn go_idle(&mut self);

    /// What connections have sent that will be handled next, in this order: the time to fetch from memory what it is about.
    /// Nothing may depend on it.
    fn look_ahead(&mut self, inputs: &mut dyn Iterator<Item = &[u8]>) {
        let _ = inputs;
    }

    /// What the last of the requests handled since the last call of this was, by a number of the service's own; 0 if there was none.
    fn last_asked(&self) -> u8 {
        0
    }

    /// How many requests were handled since the last call of this, as they are counted where their rate is limited.
    fn take_asked(&self) -> u64 {
        0
    }

    /// What the user of a session may still ask, shared by all sessions of that user; `None` if there is no user.
    fn allowance<'a>(&self, session: &'a Self::Session) -> Option<&'a Allowance> {
        let _ = session;
        None
    }

    /// A connection is held back because the user of its session has asked too much.
    fn held_back(&self, session: &Self::Session) {
        let _ = session;
    }

    /// Handles as many requests as `input` holds, in order, and appends their replies to `output`.
    ///
    /// `input` starts with the bytes that an earlier call did not consume. At most a fair share of work is done in one
    /// call; [`Next::Again`] says that there is more to do without new input.
    fn handle(
        &mut self,
        session: &mut Self::Session,
        input: &[u8],
        output: &mut Output<Self::Shared>,
    ) -> Handled;
}

/// How far [`Service::handle`] came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handled {
    /// Bytes of the input that are done with.
    pub consumed: usize,
    /// What to do next.
    pub next: Next,
}

/// What the loop does with a connection after [`Service::handle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// As `Wait`, in the middle of a request: the peer may be waiting for an acknowledgement before it sends the rest.
    Partial,
    /// Wait for more input; the rest of the input is an incomplete request of at most 64 KiB + 4 KiB.
    Wait,
    /// Call again with the unconsumed input when others had their turn (and the output has drained below its bound).
    Again,
    /// As `Again`, but nobody is in a hurry: in a thousandth of a second, so that other threads have the processor meanwhile.
    Rest,
    /// The answer is worked out elsewhere: call again with the unconsumed input when the workers are woken by
    /// [`Control::wake_all`](crate::Control::wake_all).
    Later,
    /// As `Later`, but it takes the other workers a few turns only. Nothing is read meanwhile, so that a peer that has ended
    /// its input still gets its answer.
    Soon,
    /// As `Wait`; besides, the output is made elsewhere: call again, with what has come or nothing, when [`Service::has_news`].
    /// All of the input was consumed.
    Fed,
    /// Send what is in the output, then close.
    Close,
    /// As `Close`, for what cannot be a request: the reason is [`Reason::Error`].
    Fail,
}

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The socket failed, there is no memory for it, or what came cannot be a request.
    Error,
    /// The peer or the service ended it.
    Normal,
    /// It did nothing for too long.
    Idle,
    /// The server stops.
    Stop,
}
