//! Connections that are served together.
//!
//! After a call of the kernel little of the program is left in the processor's nearest caches, and what a look-up needs of a
//! cache was not there anyway. So each step of a turn is taken with up to sixteen connections: all are read, what they look up
//! is fetched from memory for all at once, all are answered, and all replies are sent.

use std::ops::Range;

use scrubjay_base::time::Now;
use scrubjay_io::driver::Driver;

use super::Worker;
use crate::connection::{After, Begun, Lent, WRITE_MAX};
use crate::output::Output;
use crate::service::{Next, Reason, Service};

/// Connections that are served together.
const GROUP_MAX: usize = 16;

/// Bytes read from a connection in one turn.
pub(super) const READ_MAX: usize = 64 << 10;

/// Bytes read from a group; one whose members send much is smaller.
const BUFFER_LEN: usize = 2 * READ_MAX;

/// A longer reply does not wait for those of the others: it would not be in the nearest caches any more.
const WAITING_REPLY_MAX: usize = 4 << 10;

/// An output buffer is given back to this size when a turn made it larger.
const OUTPUT_KEPT: usize = 32 << 10;

/// A connection's turn that is due.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) index: usize,
    pub(super) readable: bool,
    /// It was held back, and has paid for a request in advance.
    pub(super) is_paid: bool,
}

impl Turn {
    /// The turn of the connection at `index`, which may have sent something.
    pub(super) fn of(index: usize, readable: bool) -> Turn {
        let is_paid = false;
        Turn {
            index,
            readable,
            is_paid,
        }
    }

    /// The turn of the connection at `index`, which was held back.
    pub(super) fn paid(index: usize) -> Turn {
        let (readable, is_paid) = (true, true);
        Turn {
            index,
            readable,
            is_paid,
        }
    }

    pub(super) fn is_of(&self, index: usize) -> bool {
        self.index == index
    }
}

/// What a worker needs to serve a group, kept from one to the next.
#[derive(Debug)]
pub(super) struct Group<P> {
    buffer: Box<[u8]>,
    members: Vec<Member<P>>,
    /// How many members the present group has.
    len: usize,
}

/// A connection in the middle of its turn.
#[derive(Debug)]
struct Member<P> {
    index: usize,
    /// Where in the buffer its input is.
    input: Range<usize>,
    /// Bytes that it may still write in this turn.
    share: usize,
    /// Bytes that it held before.
    held: u64,
    /// It has paid for a request in advance.
    is_paid: bool,
    /// It is answered, and this is next.
    next: Option<Next>,
    output: Output<P>,
}

impl<P> Default for Member<P> {
    fn default() -> Member<P> {
        Member {
            index: 0,
            input: 0..0,
            share: 0,
            held: 0,
            is_paid: false,
            next: None,
            output: Output::default(),
        }
    }
}

impl<P> Default for Group<P> {
    fn default() -> Group<P> {
        Group {
            buffer: Box::default(),
            members: Vec::new(),
            len: 0,
        }
    }
}

impl<P> Group<P> {
    /// With its buffers.
    pub(super) fn new() -> Group<P> {
        let mut members = Vec::new();
        members.resize_with(GROUP_MAX, Member::default);
        Group {
            buffer: vec![0; BUFFER_LEN].into_boxed_slice(),
            members,
            len: 0,
        }
    }

    /// An output that nobody uses between two groups; to be left empty.
    pub(super) fn output(&mut self) -> &mut Output<P> {
        &mut self.members[0].output
    }

    fn inputs(&self) -> impl Iterator<Item = &[u8]> {
        self.members[..self.len]
            .iter()
            .map(|member| &self.buffer[member.input.clone()])
    }
}

impl<D: Driver, S: Service> Worker<'_, D, S> {
    /// Gives each of these connections its turn.
    pub(super) fn serve(&mut self, turns: &[Turn], now: Now) {
        let mut group = std::mem::take(&mut self.group);
        let mut turns = turns;
        while !turns.is_empty() {
            let begun = self.begin(&mut group, turns, now);
            turns = &turns[begun..];
            if group.len > 1 {
                self.service.look_ahead(&mut group.inputs());
            }
            self.answer(&mut group);
        }
        self.group = group;
    }

    /// Makes a group of the first of `turns`; returns of how many.
    fn begin(&mut self, group: &mut Group<S::Shared>, turns: &[Turn], now: Now) -> usize {
        let mut end = 0;
        group.len = 0;
        for (number, turn) in turns.iter().enumerate() {
            if group.len == GROUP_MAX || group.buffer.len() - end < READ_MAX {
                return number;
            }
            let Some(connection) = self.connections.get_mut(turn.index) else {
                continue;
            };
            connection.last_active = now;
            let member = &mut group.members[group.len];
            member.index = turn.index;
            member.share = WRITE_MAX;
            member.held = connection.held(&self.driver);
            member.is_paid = turn.is_paid;
            let buffer = &mut group.buffer[end..end + READ_MAX];
            let begun = if self.rates.is_any() || connection.is_held_back() {
                self.begin_within_rates(turn, buffer, &mut member.share, now)
            } else {
                let mut lent = Lent {
                    driver: &mut self.driver,
                    bytes_read: &mut self.bytes_read,
                    bytes_written: &mut self.bytes_written,
                };
                connection.begin(&mut lent, buffer, turn.readable, &mut member.share)
            };
            match begun {
                Begun::Over(after) => self.settle(turn.index, member.held, after),
                Begun::Input(len) => {
                    member.input = end..end + len;
                    end += len;
                    group.len += 1;
                }
            }
        }
        turns.len()
    }

    fn answer(&mut self, group: &mut Group<S::Shared>) {
        let members = &mut group.members[..group.len];
        let has_rates = self.rates.is_any();
        if has_rates {
            // What others have asked, as datagrams, is nobody's of these.
            self.service.take_asked();
        }
        for member in members.iter_mut() {
            let Some(connection) = self.connections.get_mut(member.index) else {
                continue;
            };
            let input = &group.buffer[member.input.clone()];
            self.service.serves(self.driver.descriptor(&connection.socket));
            member.next = Some(connection.handle(&mut self.service, input, &mut member.output));
            if has_rates {
                self.charge(member.index, member.is_paid);
            }
            if member.output.len() > WAITING_REPLY_MAX {
                self.finish(member);
            }
        }
        members.iter_mut().for_each(|member| self.finish(member));
    }

    /// Sends a member's replies, if it is not done yet.
    fn finish(&mut self, member: &mut Member<S::Shared>) {
        let Some(next) = member.next.take() else {
            return;
        };
        let Some(connection) = self.connections.get_mut(member.index) else {
            return;
        };
        let mut lent = Lent {
            driver: &mut self.driver,
            bytes_read: &mut self.bytes_read,
            bytes_written: &mut self.bytes_written,
        };
        let after = connection.finish(&mut lent, next, &mut member.output, member.share);
        member.output.clear();
        member.output.shrink(OUTPUT_KEPT);
        self.settle(member.index, member.held, after);
    }

    /// The end of a turn: what the connection holds is noted, where it held `held` bytes before, and what is next done.
    fn settle(&mut self, index: usize, held: u64, after: After) {
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        connection.rest();
        let holds = connection.held(&self.driver);
        let fits = self.shared.counters.memory.note(held, holds);
        match after {
            _ if !fits => self.close(index, Reason::Error),
            After::Wait => {}
            After::Again => {
                self.shared
                    .counters
                    .conn_yields
                    .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                self.again.push(index);
            }
            After::Rest => self.rest.push(index),
            After::Later => self.later.push(index),
            After::Fed => self.feed_later(index),
            After::Close => self.close(index, Reason::Normal),
            After::Fail => self.close(index, Reason::Error),
        }
    }
}
