//! A service without sockets as a target of scripts: its input cut where the test wants it, its time simulated.

use scrubjay_base::time::Now;
use scrubjay_net::{Next, Output, Peer, Service};

use crate::runner::Target;

/// Most bytes of an incomplete request that a service may leave unconsumed. Source: [`Next::Wait`].
const LEFT_OVER_MAX: usize = (64 << 10) + (4 << 10);

/// Where the bytes sent are cut into separate arrivals.
#[derive(Clone, Debug)]
pub enum Cuts {
    /// Nowhere: what is sent together arrives together.
    None,
    /// Before these bytes of all that is sent, counted from 0, ascending.
    Before(Vec<usize>),
    /// Behind every so many bytes, after the first some.
    Every {
        /// The first cut.
        first: usize,
        /// Bytes from cut to cut.
        step: usize,
    },
}

impl Cuts {
    /// The first cut behind byte `at`, if there is one.
    fn after(&self, at: usize) -> Option<usize> {
        match self {
            Cuts::None => None,
            Cuts::Before(cuts) => cuts.iter().find(|cut| **cut > at).copied(),
            Cuts::Every { first, step } if at < *first => Some(*first).filter(|_| *step > 0),
            Cuts::Every { first, step } => Some(first + ((at - first) / step + 1) * step),
        }
    }
}

/// A service and the connections to it.
pub struct InProcess<S: Service> {
    service: S,
    /// Makes the service that every connection is handed over to, at every cut and whenever others have their turn.
    successor: Option<Box<dyn FnMut() -> S>>,
    now: Now,
    cuts: Cuts,
    /// Bytes sent so far, on all connections.
    sent: usize,
    connections: Vec<Connection<S::Session>>,
}

struct Connection<T> {
    /// `None` once the service closed it.
    session: Option<T>,
    input: Vec<u8>,
    received: Vec<u8>,
}

impl<S: Service> InProcess<S> {
    /// Runs `service` from `now` on.
    pub fn new(service: S, now: Now, cuts: Cuts) -> InProcess<S> {
        InProcess {
            service,
            successor: None,
            now,
            cuts,
            sent: 0,
            connections: Vec::new(),
        }
    }

    /// Later requests are handled at `now`.
    pub fn set_now(&mut self, now: Now) {
        self.now = now;
    }

    /// From now on each of these services hands all connections over to the next, as often as that can happen.
    pub fn hand_over_to(&mut self, successor: impl FnMut() -> S + 'static) {
        self.successor = Some(Box::new(successor));
    }

    /// Some bytes arrive at once: the service works until it wants more.
    fn arrive(&mut self, index: usize, bytes: &[u8]) {
        self.connections[index].input.extend_from_slice(bytes);
        let all = self.connections.len();
        let mut left: Vec<usize> = vec![index];
        self.service.begin_turn(self.now);
        while let Some(index) = left.pop() {
            while self.handle(index) {
                if self.hand_over() {
                    left = (0..all).filter(|other| *other != index).collect();
                }
            }
        }
        self.service.go_idle();
        if self.hand_over() {
            for index in 0..all {
                while self.handle(index) {}
            }
            self.service.go_idle();
        }
    }

    /// Handles what a connection has sent, once; whether to go on.
    fn handle(&mut self, index: usize) -> bool {
        let connection = &mut self.connections[index];
        let Some(session) = &mut connection.session else {
            return false;
        };
        let mut output = Output::default();
        let handled = self.service.handle(session, &connection.input, &mut output);
        assert!(
            handled.consumed <= connection.input.len(),
            "consumed more than there is"
        );
        output
            .pieces()
            .for_each(|piece| connection.received.extend_from_slice(piece));
        connection.input.drain(..handled.consumed);
        match handled.next {
            Next::Again => assert!(
                handled.consumed > 0 || !output.is_empty(),
                "asks again without having done anything"
            ),
            Next::Close | Next::Fail => {
                let session = connection.session.take().expect("it was there");
                self.service.close(session);
            }
            _waits => assert!(connection.input.len() <= LEFT_OVER_MAX, "leaves too much"),
        }
        matches!(handled.next, Next::Again | Next::Soon | Next::Rest)
    }

    /// Hands all connections over to another service, if there is one to come.
    fn hand_over(&mut self) -> bool {
        let Some(successor) = &mut self.successor else {
            return false;
        };
        let mut next = successor();
        next.begin_turn(self.now);
        for connection in &mut self.connections {
            let Some(session) = connection.session.take() else {
                continue;
            };
            let packed = self.service.pack(session, &mut connection.input);
            connection.session = packed.and_then(|packed| match packed.is_empty() {
                true => Some(next.open(Peer::Unix)),
                false => next.unpack(Peer::Unix, &packed),
            });
        }
        self.service.go_idle();
        self.service = next;
        true
    }
}

impl<S: Service> Target for InProcess<S> {
    fn open(&mut self) -> Result<(), String> {
        self.connections.push(Connection {
            session: Some(self.service.open(Peer::Unix)),
            input: Vec::new(),
            received: Vec::new(),
        });
        Ok(())
    }

    fn send(&mut self, connection: usize, bytes: &[u8]) {
        let end = self.sent + bytes.len();
        let mut rest = bytes;
        while !rest.is_empty() {
            let cut = self.cuts.after(self.sent).map_or(end, |cut| cut.min(end));
            let (piece, later) = rest.split_at(cut - self.sent);
            self.arrive(connection, piece);
            self.sent = cut;
            rest = later;
        }
    }

    fn received(&mut self, connection: usize) -> &mut Vec<u8> {
        &mut self.connections[connection].received
    }

    fn receive(&mut self, _connection: usize) -> bool {
        false
    }

    fn is_closed(&self, connection: usize) -> bool {
        self.connections[connection].session.is_none()
    }

    fn finish(&mut self, connection: usize) {
        if let Some(session) = self.connections[connection].session.take() {
            self.service.close(session);
        }
    }

    fn wait(&mut self, secs: u64, _cheap: bool) -> bool {
        self.now = self.now.plus_nanos(secs * 1_000_000_000);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::Cuts;

    #[test]
    fn cuts_come_in_order() {
        let check = |cuts: Cuts, expected: &[usize]| {
            let mut at = 0;
            for cut in expected {
                assert_eq!(cuts.after(at), Some(*cut), "{cuts:?}");
                at = *cut;
            }
        };
        check(Cuts::Before(vec![2, 5]), &[2, 5]);
        check(Cuts::Every { first: 1, step: 1 }, &[1, 2, 3]);
        check(Cuts::Every { first: 3, step: 10 }, &[3, 13, 23]);
        assert_eq!(Cuts::None.after(0), None);
        assert_eq!(Cuts::Before(vec![2]).after(2), None);
    }
}
