//! Limits of requests a second: who has asked too much, by user or by address, is held back.
//!
//! Nothing is refused and nothing is lost: the connection is not read until it may ask again, and what it sends meanwhile stays in
//! its socket. Replies that were made are sent. Where no rate is set a turn looks at one flag of the worker, and that is all.
//!
//! A batch is handled whole and charged afterwards, so that it costs one atomic operation rather than one for each request; the
//! next one waits until it is paid for. So what is given may be ahead of the rate by a batch for each connection of a group, of
//! each worker; a batch is what one read brings, and as many requests as the service handles in a call. Who has to wait takes a
//! request in advance, and has its turn when that one comes: so those who wait together have their turns one after the other, and
//! none of them is woken in vain.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::Ordering;

use scrubjay_base::allowance::{Allowance, Rate};
use scrubjay_base::time::Now;
use scrubjay_io::driver::Driver;

use super::group::Turn;
use super::{Limits, Worker};
use crate::connection::{After, Begun, Connection, Lent};
use crate::counters::{Counters, HeldBack};
use crate::live::Seen;
use crate::service::Service;

/// The rates that are set.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rates {
    address: Option<Rate>,
    user: Option<Rate>,
}

/// Whose rate a connection is held back by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Whose {
    Address,
    User,
}

/// A connection that is held back. The first in order goes on first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    until: Now,
    since: Now,
    token: u64,
    whose: Whose,
}

/// A worker's connections that are held back, each once.
#[derive(Debug, Default)]
pub(super) struct Queue(BinaryHeap<Reverse<Held>>);

impl Rates {
    /// What owed by the rates of earlier limits is forgiven.
    pub(super) fn of(limits: &Seen<Limits>) -> Rates {
        let rate = |per_second| Rate::new(per_second, limits.generation());
        Rates {
            address: rate(limits.requests_per_address),
            user: rate(limits.requests_per_user),
        }
    }

    pub(super) fn is_any(&self) -> bool {
        self.address.is_some() || self.user.is_some()
    }

    /// What a connection's requests are taken from.
    fn allowances<'a, D: Driver, S: Service>(
        self,
        service: &S,
        connection: &'a Connection<D, S>,
    ) -> impl Iterator<Item = (Whose, Rate, &'a Allowance)> {
        let address = self.address.zip(connection.entry.allowance());
        let user = self.user.zip(service.allowance(&connection.session));
        let of_address = address.map(|(rate, allowance)| (Whose::Address, rate, allowance));
        let of_user = user.map(|(rate, allowance)| (Whose::User, rate, allowance));
        of_address.into_iter().chain(of_user)
    }
}

impl Queue {
    /// How long a worker may sleep that would sleep for `timeout_ms`, where `None` is for ever.
    pub(super) fn shorten(&self, timeout_ms: Option<u32>, now: Now) -> Option<u32> {
        let Some(Reverse(first)) = self.0.peek() else {
            return timeout_ms;
        };
        let ms = first.until.nanos_since(now).div_ceil(1_000_000);
        let ms = ms.try_into().unwrap_or(u32::MAX);
        Some(timeout_ms.map_or(ms, |timeout_ms| timeout_ms.min(ms)))
    }

    fn pop(&mut self, now: Now) -> Option<Held> {
        let Reverse(first) = self.0.peek()?;
        (first.until <= now)
            .then(|| self.0.pop())?
            .map(|Reverse(held)| held)
    }

    /// All may go on.
    fn open(&mut self) {
        let mut all = std::mem::take(&mut self.0).into_vec();
        all.iter_mut()
            .for_each(|Reverse(held)| held.until = Now::default());
        self.0 = all.into();
    }
}

impl Whose {
    fn count(self, counters: &Counters) -> &HeldBack {
        match self {
            Whose::Address => &counters.held_by_address,
            Whose::User => &counters.held_by_user,
        }
    }
}

impl<D: Driver, S: Service> Worker<'_, D, S> {
    /// Goes by the rates of the limits as they are now. Whoever is held back goes on, and is measured by the new ones.
    pub(super) fn renew_rates(&mut self) {
        self.rates = Rates::of(&self.limits);
        self.held_back.open();
    }

    /// Holds nobody back any more, before all have a turn.
    pub(super) fn end_rates(&mut self) {
        self.rates = Rates::default();
        self.held_back = Queue::default();
        for index in 0..self.connections.len() {
            let connection = self.connections.get_mut(index);
            if let Some(connection) = connection.filter(|connection| connection.is_held_back()) {
                let mut lent = Lent {
                    driver: &mut self.driver,
                    bytes_read: &mut self.bytes_read,
                    bytes_written: &mut self.bytes_written,
                };
                // If this fails so does the turn.
                let _ = connection.go_on_reading(&mut lent);
            }
        }
    }

    /// Gives those a turn who may ask again.
    pub(super) fn let_go(&mut self, turns: &mut Vec<Turn>, now: Now) {
        while let Some(held) = self.held_back.pop(now) {
            self.count_held(&held, now);
            if self.is_current(held.token) {
                turns.push(Turn::paid(held.token as u32 as usize));
            }
        }
    }

    fn count_held(&self, held: &Held, now: Now) {
        let count = held.whose.count(&self.shared.counters);
        let micros = now.nanos_since(held.since) / 1000;
        count.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// A connection that is held back is closed. That is rare: its input is not read.
    pub(super) fn forget_held(&mut self, token: u64, now: Now) {
        let all = std::mem::take(&mut self.held_back.0).into_vec();
        let (gone, stay): (Vec<_>, Vec<_>) = all.into_iter().partition(|Reverse(held)| held.token == token);
        self.held_back.0 = stay.into();
        gone.iter().for_each(|Reverse(held)| self.count_held(held, now));
    }

    /// As [`Connection::begin`], where a rate is set.
    #[cold]
    pub(super) fn begin_within_rates(
        &mut self,
        turn: &Turn,
        buffer: &mut [u8],
        share: &mut usize,
        now: Now,
    ) -> Begun {
        let Some(connection) = self.connections.get_mut(turn.index) else {
            return Begun::Over(After::Wait);
        };
        let mut lent = Lent {
            driver: &mut self.driver,
            bytes_read: &mut self.bytes_read,
            bytes_written: &mut self.bytes_written,
        };
        if turn.is_paid {
            if connection.go_on_reading(&mut lent) == After::Fail {
                return Begun::Over(After::Fail);
            }
        } else if connection.is_held_back() {
            // The driver has something to tell: that it was broken off, if this says so; the rest can wait.
            return Begun::Over(connection.hold_back(&mut lent));
        }
        if let Some(after) = connection.send_waiting(&mut lent, share) {
            return Begun::Over(after);
        }
        if self.rates.address.is_some()
            && !connection.entry.is_some()
            && let Ok(peer) = lent.driver.peer(&connection.socket)
        {
            // It came before there was a rate. Any number may come.
            let entry = self.shared.addresses.enter(peer, 0, true);
            connection.entry = entry.unwrap_or_default();
        }
        // What a connection sends to which something is fed are no requests.
        let is_free = turn.is_paid || connection.is_fed();
        let is_open = |(_, rate, allowance): (_, _, &Allowance)| allowance.opens_at(rate, now) <= now;
        if is_free || self.rates.allowances(&self.service, connection).all(is_open) {
            return connection.receive(&mut lent, buffer, turn.readable);
        }
        let after = connection.hold_back(&mut lent);
        if connection.is_held_back() && after == After::Wait {
            self.enqueue(turn.index, now);
        }
        Begun::Over(after)
    }

    /// Takes a request in advance for a connection, which is held back until that may be asked.
    fn enqueue(&mut self, index: usize, now: Now) {
        let Some(connection) = self.connections.get(index) else {
            return;
        };
        let allowances = self.rates.allowances(&self.service, connection);
        let taken = allowances.map(|(whose, rate, allowance)| (allowance.take(rate, now, 1), whose));
        let Some((until, whose)) = taken.max() else {
            return;
        };
        whose
            .count(&self.shared.counters)
            .times
            .fetch_add(1, Ordering::Relaxed);
        match whose {
            Whose::Address => self.shared.counters.note_address_held(connection.entry.address()),
            Whose::User => self.service.held_back(&connection.session),
        }
        self.held_back.0.push(Reverse(Held {
            until,
            since: now,
            token: connection.token,
            whose,
        }));
    }

    /// Takes what a connection has just asked; of that, one request may be paid for.
    #[cold]
    pub(super) fn charge(&mut self, index: usize, is_paid: bool) {
        let asked = self.service.take_asked().saturating_sub(is_paid.into());
        let Some(connection) = self.connections.get(index).filter(|_| asked > 0) else {
            return;
        };
        for (_, rate, allowance) in self.rates.allowances(&self.service, connection) {
            allowance.take(rate, self.turn_at, asked);
        }
    }
}
