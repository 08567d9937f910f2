//! How connections leave the driver alive: with every byte that was received or taken for them, and no request left.

use std::io::{self, ErrorKind};

use super::place::Facts;
use super::ring::Kind;
use super::{Released, Socket, Uring, queue};
use crate::driver::Driver;

/// Waits for requests to end, a millisecond each. What a cancelled request needs is a call or two.
const WAITS_MAX: usize = 1_000;

/// Requests of a connection that go on by themselves.
const REQUESTS: [(Facts, Kind); 3] = [
    (Facts::RECEIVES, Kind::Receive),
    (Facts::POLLS_IN, Kind::PollIn),
    (Facts::POLLS_OUT, Kind::PollOut),
];

impl Uring {
    /// Sends what is queued and ends all requests of connections.
    pub(super) fn end_requests(&mut self) -> io::Result<()> {
        self.ring.enable()?;
        self.is_quiet = true;
        (0..self.places.len() as u32).for_each(|index| self.unsettle(index));
        let mut ready = Vec::new();
        let mut timeout_ms = 0;
        for _ in 0..WAITS_MAX {
            self.turn(Some(timeout_ms), &mut ready)?;
            let mut indices = 0..self.places.len() as u32;
            if !indices.any(|index| self.has_requests(index)) {
                break;
            }
            timeout_ms = 1;
        }
        Ok(())
    }

    fn has_requests(&self, index: u32) -> bool {
        let place = self.places.get(index);
        place.fd >= 0 && REQUESTS.iter().any(|(fact, _)| place.is(*fact))
    }

    /// Has the kernel end a connection's requests.
    pub(super) fn cancel_requests(&mut self, index: u32) -> io::Result<()> {
        for (fact, kind) in REQUESTS {
            if self.places.get(index).is(fact) {
                self.ring.cancel(self.places.tag(index, kind))?;
            }
        }
        Ok(())
    }

    /// Gives a connection's place up and everything that was held for it back.
    pub(super) fn give_back(&mut self, mut socket: Socket) -> io::Result<Released<Socket>> {
        let Some(index) = socket.place() else {
            return Err(ErrorKind::NotFound.into());
        };
        let place = self.places.get_mut(index);
        if let Err(error) = place.check() {
            self.close(socket);
            return Err(error);
        }
        assert!(place.queued == queue::NONE, "the driver was told to be quiet");
        if self.has_requests(index) {
            // The kernel may still receive for it: what comes then would be lost.
            self.close(socket);
            return Err(ErrorKind::TimedOut.into());
        }
        if socket.direct_place().is_some() {
            match self.descriptor_to_leave(index) {
                Ok(fd) => socket.give_descriptor(fd),
                Err(error) => {
                    self.close(socket);
                    return Err(error);
                }
            }
        }
        let place = self.places.get_mut(index);
        let mut kept = place.kept.take().unwrap_or_default();
        // What is kept had come before what lies in buffers.
        self.buffers.move_all(&mut place.received, &mut kept.received);
        self.leave(index);
        // Nobody knows how long it is until the next turn, and its peer may wait for the end.
        self.close_files()?;
        self.ring.submit()?;
        socket.leave_place();
        Ok(Released {
            socket,
            input: kept.received,
            output: kept.unsent,
            owed: 0,
        })
    }
}
