//! What a thread does that watches many connections: it never waits for one alone.

use std::sync::Arc;
use std::time::Instant;

use rustix::event::PollFlags;

use super::stream::Wire;
use super::{Caller, Connection, Desk, Guard, Waiter};
use crate::protocol::{Refused, Request};

/// What came of asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The reply is going to be delivered.
    Yes,
    /// No reply is wanted.
    Quiet,
    /// Not now: the desk is going to be woken when there may be room.
    Full,
    /// Not here; another connection may do.
    Retired,
    /// Not at all.
    Refused(Refused),
}

/// A connection of which many things are asked at once.
pub(crate) struct Asking<'a> {
    connection: &'a Connection,
    state: Guard<'a>,
}

impl Asking<'_> {
    /// As [`Connection::call`], but only asks.
    pub(crate) fn ask(&mut self, request: &mut Request<'_>, desk: &Arc<Desk>, id: u64) -> Asked {
        let waiter = Waiter::new(desk, id, request);
        match self.connection.ask(&mut self.state, request) {
            Ok(_) if request.is_quiet() => Asked::Quiet,
            Ok(ticket) => {
                self.state.roles.wait(ticket, waiter);
                Asked::Yes
            }
            Err(Refused::Full) => {
                self.state.join_crowd(desk);
                Asked::Full
            }
            Err(Refused::Closing) => {
                self.connection.retire_if_wanted(&self.state);
                Asked::Retired
            }
            Err(refused) => Asked::Refused(refused),
        }
    }
}

impl Connection {
    pub(crate) fn asking(&self, now: Instant) -> Asking<'_> {
        let mut state = self.lock();
        self.look_at_idle(&mut state, now);
        Asking {
            connection: self,
            state,
        }
    }

    /// Sends what the system takes at once, if nobody else does.
    pub(crate) fn flush(&self) {
        let mut state = self.lock();
        if state.try_write() {
            state = self.write(state, None);
        }
        drop(state);
    }

    /// What the thread of this desk is to wait for on behalf of the connection; it is the reader then if that contains input.
    /// `None` if it has nothing to do with it any more.
    pub(crate) fn start_watching(&self, desk: &Arc<Desk>) -> Option<PollFlags> {
        let mut state = self.lock();
        let to_write = state.has_output() && !state.roles.is_writing();
        if !to_write && !state.roles.knows(|waiter| Arc::ptr_eq(&waiter.desk, desk)) {
            self.leave(state);
            return None;
        }
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, state.roles.try_read());
        flags.set(PollFlags::OUT, to_write);
        Some(flags)
    }

    /// It has waited for `flags`, and `found` is so.
    pub(crate) fn stop_watching(&self, flags: PollFlags, found: PollFlags) {
        if flags.contains(PollFlags::IN) {
            let state = self.lock();
            drop(self.stop_reading(
                state,
                found.intersects(PollFlags::IN | PollFlags::ERR | PollFlags::HUP),
            ));
        }
        if found.contains(PollFlags::OUT) {
            self.flush();
        }
    }

    /// Waits for this connection alone: reads once as the reader, or sleeps until another one has.
    pub(crate) fn wait(&self, caller: Caller<'_>) {
        let mut state = self.lock();
        if state.try_write() {
            drop(self.write(state, Some(caller)));
        } else if !state.roles.knows(|waiter| Arc::ptr_eq(&waiter.desk, caller.desk)) {
            // What it waited for has just come.
        } else if state.roles.try_read_deaf(caller.desk.number()) {
            let read = self.read(state, None, |stream, buffer| {
                stream.receive(buffer, caller.patience)
            });
            debug_assert!(read.is_err(), "no reply is waited for");
        } else {
            drop(state);
            caller.desk.sleep(Some(caller.patience.until));
        }
    }

    /// Nobody at this desk waits any more for what `is_it` says.
    pub(crate) fn forget(&self, desk: &Arc<Desk>, is_it: impl Fn(u64) -> bool) {
        let mut state = self.lock();
        let tickets: Vec<_> = state
            .roles
            .waiting()
            .filter(|(_, waiter)| Arc::ptr_eq(&waiter.desk, desk) && is_it(waiter.id))
            .map(|(ticket, _)| ticket)
            .collect();
        for ticket in &tickets {
            state.roles.done(*ticket);
            state.conversation.cancel(*ticket);
            state.sample.take_if(|sample| sample.ticket == *ticket);
        }
        if !tickets.is_empty() {
            self.retire_if_silent(&state);
        }
        self.leave(state);
    }

    /// This desk wants nothing of the connection for now.
    pub(crate) fn go(&self, desk: &Arc<Desk>) {
        let mut state = self.lock();
        state.roles.leave_crowd(|each| Arc::ptr_eq(&each.desk, desk));
        self.leave(state);
    }
}
