//! Connections that come from another server, and go to another.
//!
//! Giving them back is the end of a worker: it has finished its turn, nothing is under way in its driver, and every connection
//! is taken apart into its socket and what was neither handled nor sent. Taking one over is accepting it in the middle of its
//! conversation: what is unsent goes first, then what it had sent is handled without waiting for more.

use std::sync::atomic::Ordering;

use scrubjay_base::time::Now;
use scrubjay_io::driver::{Driver, Released};

use super::accept::Mailbox;
use super::group::Turn;
use super::{Shared, Worker};
use crate::addresses::Entry;
use crate::carried::Carried;
use crate::connection::Connection;
use crate::service::Reason;
use crate::service::{Next, Service};

/// A connection that counts as one of this server's, on its way to a worker.
pub(crate) type Admitted<T> = (Carried<T>, Entry);

/// Counts `carried` as connections of this server and spreads them over its workers. What is over a limit is dropped, which
/// closes it.
pub(crate) fn admit<T>(shared: &Shared<T>, carried: Vec<Carried<T>>) -> Vec<Vec<Admitted<T>>> {
    let workers = shared.mailboxes.len();
    let mut all: Vec<Vec<Admitted<T>>> = (0..workers).map(|_| Vec::new()).collect();
    let counters = &shared.counters;
    let limits = shared.limits.see();
    let (mut open, mut next) = (0, 0);
    for connection in carried {
        if open == limits.connections_max {
            counters.rejected_connections.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        let most = limits.connections_per_address;
        let has_rate = limits.requests_per_address > 0;
        let Some(entry) = shared.addresses.enter(connection.peer, most, has_rate) else {
            counters.rejected_by_address.fetch_add(1, Ordering::Relaxed);
            continue;
        };
        open += 1;
        shared.mailboxes[next].expect_one();
        all[next].push((connection, entry));
        next = (next + 1) % workers;
    }
    counters
        .curr_connections
        .fetch_add(open as u64, Ordering::Relaxed);
    all
}

/// Connections that were accepted for workers that had ended by then: as fresh ones.
pub(crate) fn unopened<T>(shared: Shared<T>) -> Vec<Carried<T>> {
    let mailboxes = shared.mailboxes.into_iter();
    let unopened = mailboxes.flat_map(Mailbox::into_unopened);
    let carried = unopened.map(|(socket, peer)| {
        shared.counters.curr_connections.fetch_sub(1, Ordering::Relaxed);
        Carried {
            socket,
            peer,
            input: Vec::new(),
            output: Vec::new(),
            session: Vec::new(),
            idle_nanos: 0,
            is_closing: false,
        }
    });
    carried.collect()
}

impl<D: Driver, S: Service> Worker<'_, D, S> {
    /// Goes on with connections of another server.
    pub(crate) fn take_over(&mut self, admitted: Vec<Admitted<D::Socket>>) {
        let now = self.driver.now();
        self.turn_at = now;
        self.service.begin_turn(now);
        let mut turns = Vec::new();
        let mut idle = Vec::new();
        for (carried, entry) in admitted {
            let is_idle = carried.input.is_empty() && carried.output.is_empty();
            let last_active = Now::from_nanos(now.nanos().saturating_sub(carried.idle_nanos));
            if let Some(index) = self.take_over_one(carried, entry, last_active) {
                turns.push(Turn::of(index, false));
                idle.extend(is_idle.then_some((index, last_active)));
            }
        }
        self.serve(&turns, now);
        for (index, last_active) in idle {
            if let Some(connection) = self.connections.get_mut(index) {
                connection.last_active = last_active;
            }
        }
    }

    /// Returns where the connection is that is to have its first turn.
    fn take_over_one(
        &mut self,
        mut carried: Carried<D::Socket>,
        entry: Entry,
        last_active: Now,
    ) -> Option<usize> {
        let session = match carried.session.is_empty() || carried.is_closing {
            true => Some(self.service.open(carried.peer)),
            false => self.service.unpack(carried.peer, &carried.session),
        };
        let before = self
            .shared
            .counters
            .total_connections
            .fetch_add(1, Ordering::Relaxed);
        let index = self.connections.next();
        let token = ((before + 1) & 0x7fff_ffff) << 32 | index as u64;
        let next = match (&session, carried.is_closing) {
            (Some(_), false) => Next::Again,
            // Nobody can go on with it; what was answered before is still sent.
            _ => Next::Close,
        };
        let session = session.unwrap_or_else(|| self.service.open(carried.peer));
        let added = self.driver.add(&mut carried.socket, token);
        let mut connection = Connection::new(carried.socket, entry, session, token, last_active);
        connection.go_on(next, carried.input, &carried.output);
        let fits = self.shared.counters.memory.note(0, connection.held(&self.driver));
        let is_done = next == Next::Close && carried.output.is_empty();
        self.connections.insert(connection);
        if added.is_err() || !fits || is_done {
            self.close(index, Reason::Error);
            return None;
        }
        Some(index)
    }

    /// Takes all connections apart; the worker has nothing more to do.
    ///
    /// # Errors
    /// What the driver cannot recover from.
    pub(super) fn hand_over(&mut self) -> std::io::Result<Vec<Carried<D::Socket>>> {
        self.shared.counters.roll_call.end();
        self.listen(false)?;
        let now = self.driver.now();
        self.turn_at = now;
        self.service.begin_turn(now);
        self.take_mail(now);
        self.finish_datagrams();
        self.driver.be_quiet()?;
        let indices = 0..self.connections.len();
        let carried = indices.filter_map(|index| self.give_back(index, now)).collect();
        self.service.go_idle();
        self.count_bytes();
        Ok(carried)
    }

    /// Takes a connection apart; `None` if there is none, or it is lost or done with and closed.
    fn give_back(&mut self, index: usize, now: Now) -> Option<Carried<D::Socket>> {
        let connection = self.connections.take(index)?;
        let held = connection.held(&self.driver);
        self.shared.counters.memory.note(held, 0);
        let idle_nanos = match connection.is_held_back() {
            true => 0,
            false => now.nanos_since(connection.last_active),
        };
        let peer = self.driver.peer(&connection.socket);
        let parts = connection.into_parts();
        self.shared.addresses.leave(parts.entry, now);
        self.note_closed();
        let mut input = parts.input;
        let session = match parts.is_closing {
            true => {
                self.service.close(parts.session);
                None
            }
            false => self.service.pack(parts.session, &mut input),
        };
        if peer.is_err() || (session.is_none() && parts.unsent.is_empty() && self.has_sent(&parts.socket)) {
            self.driver.close(parts.socket);
            return None;
        }
        let Released {
            socket,
            input: received,
            mut output,
            owed,
        } = self.driver.release(parts.socket).ok()?;
        input.extend_from_slice(&received);
        let mut rest = parts.unsent;
        rest.advance(owed);
        rest.pieces().for_each(|piece| output.extend_from_slice(piece));
        Some(Carried {
            socket,
            peer: peer.ok()?,
            input,
            output,
            is_closing: session.is_none(),
            session: session.unwrap_or_default(),
            idle_nanos,
        })
    }

    /// Whether the driver has nothing more to send for a connection, or never will.
    fn has_sent(&mut self, socket: &D::Socket) -> bool {
        let flushed = self.driver.flush(socket);
        !flushed.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    }

    /// Answers the datagrams that were received.
    fn finish_datagrams(&mut self) {
        while self
            .datagrams
            .as_ref()
            .is_some_and(|datagrams| datagrams.has_more_to_do())
        {
            self.answer_datagrams();
        }
    }
}
