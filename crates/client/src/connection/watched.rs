//! What a thread does that watches many connections: it never waits for one alone.

use std::sync::Arc;
use std::time::Instant;

use rustix::event::PollFlags;

use super::stream::{Stream, Wire};
use super::{Caller, Connection, Desk, Guard, Lost, Patience, Spin, Waiter};
use crate::ids::Ids;
use crate::protocol::{Bundle, Get, Refused, Request};
use crate::spare;

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

/// What a thread waits for on behalf of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch {
    /// It is the reader if that contains input.
    pub(crate) flags: PollFlags,
    /// If it is the reader, and nobody else waits for anything there: how many requests are unanswered.
    pub(crate) alone: Option<usize>,
}

/// A connection of which many things are asked at once.
pub(crate) struct Asking<'a, W: Wire = Stream> {
    connection: &'a Connection<W>,
    state: Guard<'a>,
    desk: &'a Arc<Desk>,
    open: Option<Open>,
}

/// Look-ups that are going to be asked as one.
struct Open {
    bundle: Bundle,
    ids: Ids,
    /// Of all of them.
    patience: Patience,
}

impl<W: Wire> Asking<'_, W> {
    /// As [`Connection::call`], but only asks: at the latest when this ends. Requests that may take equally long can be one bundle.
    pub(crate) fn ask(&mut self, request: &mut Request<'_>, id: u64, patience: &Patience) -> Asked {
        match request {
            Request::Get(get) => self.look_up(get, id, patience),
            request => self.ask_alone(request, id),
        }
    }

    /// The same for a look-up.
    #[inline]
    pub(crate) fn look_up(&mut self, get: &Get<'_>, id: u64, patience: &Patience) -> Asked {
        if self.join(get, id, patience) {
            return Asked::Yes;
        }
        self.ask_alone(&mut Request::Get(*get), id)
    }

    /// Asks for those of these keys that can go with the look-up that was asked last, and are wanted as it is, up to the first that
    /// cannot. Gives how many; so many ids are taken from the front.
    #[inline]
    pub(crate) fn look_up_alike(&mut self, ids: &mut Ids, keys: &[&[u8]]) -> usize {
        let Some(open) = &mut self.open else {
            return 0;
        };
        let count = (self.state.conversation).add_alike(&mut open.bundle, keys);
        ids.move_to(&mut open.ids, count as u64);
        count
    }

    /// What goes by itself.
    fn ask_alone(&mut self, request: &mut Request<'_>, id: u64) -> Asked {
        self.close();
        let desk = self.desk;
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

    /// Adds a look-up to the open bundle, or to a new one; false if it has to be asked by itself.
    #[inline]
    fn join(&mut self, get: &Get<'_>, id: u64, patience: &Patience) -> bool {
        let conversation = &self.state.conversation;
        if let Some(open) = &mut self.open
            && (open.patience.since, open.patience.until) == (patience.since, patience.until)
            && conversation.add(&mut open.bundle, get)
        {
            open.ids.push(id);
            return true;
        }
        self.begin(get, id, patience)
    }

    /// Adds a look-up to a new bundle, behind the one that is open.
    fn begin(&mut self, get: &Get<'_>, id: u64, patience: &Patience) -> bool {
        self.close();
        let conversation = &self.state.conversation;
        let Some(mut bundle) = conversation.bundle(get) else {
            return false;
        };
        bundle.reuse(spare::take());
        let joined = !conversation.wants_closing() && conversation.add(&mut bundle, get);
        let mut ids = Ids::default();
        ids.push(id);
        self.open = joined.then_some(Open {
            bundle,
            ids,
            patience: *patience,
        });
        joined
    }

    /// Asks what is open.
    fn close(&mut self) {
        let Some(Open { bundle, ids, .. }) = self.open.take() else {
            return;
        };
        let (connection, state) = (self.connection, &mut *self.state);
        let (asked, waiter) = match bundle.only() {
            Some(get) => {
                let mut request = Request::Get(get);
                let id = ids.first().expect("each look-up has one");
                let waiter = Waiter::new(self.desk, id, &request);
                (connection.ask(state, &mut request), waiter)
            }
            None => {
                let waiter = Waiter::of_bundle(self.desk, ids);
                (connection.sample(state, |state| state.ask_bundle(bundle)), waiter)
            }
        };
        match asked {
            Ok(ticket) => state.roles.wait(ticket, waiter),
            // It was asked whether that can be, under the same lock; should it not be so, others may do.
            Err(_) => waiter.deliver(Err(Lost::Unsent)),
        }
    }
}

impl<W: Wire> Drop for Asking<'_, W> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<W: Wire> Connection<W> {
    pub(crate) fn asking<'a>(&'a self, desk: &'a Arc<Desk>, now: Instant) -> Asking<'a, W> {
        let mut state = self.lock();
        self.look_at_idle(&mut state, now);
        Asking {
            connection: self,
            state,
            desk,
            open: None,
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

    /// How long is looked for something to read before sleeping, and when.
    pub(crate) fn spin(&self) -> &Spin {
        &self.spin
    }

    /// What the thread of this desk is to wait for on behalf of the connection; none if it has nothing to do with it any more.
    pub(crate) fn start_watching(&self, desk: &Arc<Desk>) -> Option<Watch> {
        let mut state = self.lock();
        let to_write = state.has_output() && !state.roles.is_writing();
        if !to_write && !state.roles.knows(|waiter| Arc::ptr_eq(&waiter.desk, desk)) {
            self.leave(state);
            return None;
        }
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, state.roles.try_read());
        flags.set(PollFlags::OUT, to_write);
        let alone = state.alone(desk).filter(|_| flags.contains(PollFlags::IN));
        Some(Watch { flags, alone })
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
            let alone = state.alone(caller.desk);
            let read = self.read(state, None, |stream, buffer| {
                self.receive(stream, buffer, caller.patience, alone)
            });
            debug_assert!(read.is_err(), "no reply is waited for");
        } else {
            drop(state);
            self.sleep(caller);
        }
    }

    /// Nobody at this desk waits any more for what `is_it` says; a bundle is waited for as long as one of its look-ups is. What has
    /// come of one that is not is laid there.
    pub(crate) fn forget(&self, desk: &Arc<Desk>, is_it: impl Fn(u64) -> bool) {
        let mut state = self.lock();
        let tickets: Vec<_> = state
            .roles
            .waiting()
            .filter(|(_, waiter)| Arc::ptr_eq(&waiter.desk, desk) && waiter.is_all(&is_it))
            .map(|(ticket, _)| ticket)
            .collect();
        for ticket in &tickets {
            let waiter = state.roles.done(*ticket);
            state.conversation.cancel(*ticket);
            state.sample.take_if(|sample| sample.ticket == *ticket);
            // What has come of a bundle; this thread looks at its desk in any case.
            for (bundled, waiter) in state.conversation.take_bundled().into_iter().zip(waiter) {
                waiter.deliver_bundled(bundled);
            }
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
