//! Who does what on a shared connection. No thread belongs to it: of those that wait for replies, one writes for all that have
//! asked, one reads for all that wait, and the others sleep. This is the bookkeeping alone, without sockets and threads, so
//! that it can be modelled.
//!
//! What must hold: whenever somebody waits, there is a reader, or one of those who wait has been woken since the last one
//! stopped; the same for a writer, if there is something to write. Who stops asks [`Roles::successor`] whom to wake. A reader who
//! waits in the read itself cannot be woken: a writer goes on as long as there is no other [`Roles::heir`].

use std::collections::VecDeque;

use crate::protocol::Ticket;

/// What a thread that waits does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It is the writer now.
    Write,
    /// It is the reader now.
    Read,
    /// Others do both; they wake it.
    Sleep,
}

/// The two roles, and who could take them.
#[derive(Debug)]
pub(crate) struct Roles<W> {
    writing: bool,
    reading: bool,
    /// The desk of a reader who does not hear when it is called, as it waits in the read itself.
    deaf: Option<usize>,
    /// Who waits for a reply, in the order of the requests.
    waiting: VecDeque<(Ticket, W)>,
    /// Who waits until there is room for a request.
    crowd: Vec<W>,
}

impl<W> Default for Roles<W> {
    fn default() -> Roles<W> {
        Roles {
            writing: false,
            reading: false,
            deaf: None,
            waiting: VecDeque::new(),
            crowd: Vec::new(),
        }
    }
}

impl<W: Clone> Roles<W> {
    /// Gives a role to the thread at this desk, if one is free and there is something to do. It need not hear when it is called
    /// while it reads.
    pub(crate) fn step(&mut self, has_output: bool, desk: usize) -> Step {
        if self.try_write(has_output) {
            Step::Write
        } else if self.try_read_deaf(desk) {
            Step::Read
        } else {
            Step::Sleep
        }
    }

    pub(crate) fn try_write(&mut self, has_output: bool) -> bool {
        let free = has_output && !self.writing;
        self.writing |= free;
        free
    }

    pub(crate) fn try_read(&mut self) -> bool {
        !std::mem::replace(&mut self.reading, true)
    }

    /// For a thread that waits in the read itself.
    pub(crate) fn try_read_deaf(&mut self, desk: usize) -> bool {
        let free = self.try_read();
        if free {
            self.deaf = Some(desk);
        }
        free
    }

    pub(crate) fn stop_writing(&mut self) {
        debug_assert!(self.writing);
        self.writing = false;
    }

    pub(crate) fn stop_reading(&mut self) {
        debug_assert!(self.reading);
        self.reading = false;
        self.deaf = None;
    }

    pub(crate) fn is_writing(&self) -> bool {
        self.writing
    }

    /// Somebody waits for this reply. Tickets come in rising order.
    pub(crate) fn wait(&mut self, ticket: Ticket, who: W) {
        debug_assert!(self.waiting.back().is_none_or(|(last, _)| *last < ticket));
        self.waiting.push_back((ticket, who));
    }

    /// The reply has come, or nobody waits for it any more: who it was.
    pub(crate) fn done(&mut self, ticket: Ticket) -> Option<W> {
        if self.waiting.front().is_some_and(|(first, _)| *first == ticket) {
            return self.waiting.pop_front().map(|(_, who)| who);
        }
        let index = self
            .waiting
            .binary_search_by(|(each, _)| each.cmp(&ticket))
            .ok()?;
        self.waiting.remove(index).map(|(_, who)| who)
    }

    /// Whether this reply is still waited for.
    pub(crate) fn is_waiting(&self, ticket: Ticket) -> bool {
        match self.waiting.front() {
            Some((first, _)) if *first == ticket => true,
            _ => self
                .waiting
                .binary_search_by(|(each, _)| each.cmp(&ticket))
                .is_ok(),
        }
    }

    /// Somebody waits for room.
    pub(crate) fn wait_for_room(&mut self, who: W) {
        self.crowd.push(who);
    }

    /// All who have waited for room: they are to look again.
    pub(crate) fn take_crowd(&mut self) -> Vec<W> {
        std::mem::take(&mut self.crowd)
    }

    /// Who has waited for room no longer does.
    pub(crate) fn leave_crowd(&mut self, is_it: impl Fn(&W) -> bool) {
        self.crowd.retain(|each| !is_it(each));
    }

    /// Whom to wake, so that somebody takes the role that is free. The one who has asked last: its reply comes last, so it keeps the
    /// role longest.
    pub(crate) fn successor(&self, has_output: bool, desk_of: impl Fn(&W) -> usize) -> Option<W> {
        let needed = !self.reading || (has_output && !self.writing);
        if needed { self.heir(desk_of).cloned() } else { None }
    }

    /// The last of those who wait and hear when they are called.
    pub(crate) fn heir(&self, desk_of: impl Fn(&W) -> usize) -> Option<&W> {
        let hears = |who: &&W| self.deaf != Some(desk_of(who));
        let mut waiting = self.waiting.iter().rev().map(|(_, who)| who);
        waiting
            .find(hears)
            .or_else(|| self.crowd.iter().rev().find(hears))
    }

    /// Whether such a one waits, for a reply or for room.
    pub(crate) fn knows(&self, is_it: impl Fn(&W) -> bool) -> bool {
        self.waiting.iter().any(|(_, who)| is_it(who)) || self.crowd.iter().any(is_it)
    }

    /// Everybody who waits for a reply.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (Ticket, &W)> {
        self.waiting.iter().map(|(ticket, who)| (*ticket, who))
    }
}
