//! The event loop of one worker thread.
//!
//! A turn: wait for readiness, tell the service the time, then one fair share of work for every ready connection: one
//! read, all requests in it handled as one batch, one write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use scrubjay_base::time::Now;
use scrubjay_io::driver::{Driver, Ready};

use self::accept::Mailbox;
pub use self::busy_poll::BusyPoll;
use self::busy_poll::Looking;
use self::group::{Group, Turn};
use self::rates::{Queue, Rates};
use crate::addresses::Addresses;
use crate::carried::Carried;
use crate::connection::Connection;
use crate::counters::{Control, Counters, Stop};
use crate::datagrams::Datagrams;
use crate::live::{Live, Seen};
use crate::service::{Reason, Service};
use crate::table::Table;

pub(crate) mod accept;
mod busy_poll;
mod fed;
mod group;
pub(crate) mod hand_over;
mod rates;
mod roll_call;

/// Tokens from this number on are listeners.
const LISTENER_TOKENS: u64 = 1 << 63;

/// Tokens from this number on are sockets of datagrams.
const DATAGRAM_TOKENS: u64 = LISTENER_TOKENS | (1 << 62);

/// How long a graceful stop waits for peers to take their replies.
const GRACE_MS: u64 = 5_000;

/// How often idle connections and a stopped accept are looked at.
const SWEEP_MS: u32 = 100;

/// How long connections rest that are in no hurry.
const REST_MS: u32 = 1;

/// Limits of all workers.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Most connections at a time.
    pub connections_max: usize,
    /// What a connection over the limit is told before it is closed; `None`: it is left waiting instead.
    pub refusal: Option<&'static [u8]>,
    /// Most connections of one address at a time; 0: any number.
    pub connections_per_address: usize,
    /// What a connection over that limit is told before it is closed.
    pub refusal_of_address: &'static [u8],
    /// Requests a second of one address, of all its connections together; 0: any number.
    pub requests_per_address: u32,
    /// The same of one user, whom the service knows.
    pub requests_per_user: u32,
    /// Close connections that did nothing for this many seconds; 0: never.
    pub idle_timeout_secs: u32,
    /// How long a worker looks for something to do again and again before it sleeps.
    pub busy_poll: BusyPoll,
}

/// What all workers share.
#[derive(Debug)]
pub(crate) struct Shared<T> {
    pub(crate) limits: Arc<Live<Limits>>,
    pub(crate) addresses: Addresses,
    pub(crate) counters: Arc<Counters>,
    pub(crate) control: Arc<Control>,
    pub(crate) mailboxes: Vec<Mailbox<T>>,
    /// Connections wait to be accepted until one is closed.
    pub(crate) accept_stopped: AtomicBool,
}

/// What a worker gives back at its end.
pub(crate) type Given<D> = (
    Vec<Carried<<D as Driver>::Socket>>,
    Option<Datagrams<<D as Driver>::Datagrams>>,
);

/// One worker.
pub(crate) struct Worker<'a, D: Driver, S: Service> {
    index: usize,
    driver: D,
    service: S,
    shared: &'a Shared<D::Socket>,
    /// The first worker's; empty in the others.
    listeners: &'a [D::Listener],
    datagrams: Option<Datagrams<D::Datagrams>>,
    connections: Table<Connection<D, S>>,
    /// Connections that have more to do.
    again: Vec<usize>,
    /// Connections that will have when the workers are woken.
    later: Vec<usize>,
    /// Tokens of connections that will have when the service says so.
    fed: Vec<u64>,
    /// Connections that are to have a turn from `rest_until` on.
    rest: Vec<usize>,
    rest_until: Now,
    /// The turns of this turn of the loop.
    turns: Vec<Turn>,
    group: Group<S::Shared>,
    /// As they were when this turn began.
    limits: Seen<Limits>,
    rates: Rates,
    held_back: Queue,
    looking: Looking,
    /// When this turn began.
    turn_at: Now,
    listening: bool,
    stopped_listening_at: Option<Now>,
    /// Accepting failed for want of descriptors or memory: not tried again before.
    accept_again_at: Now,
    swept_at: Now,
    bytes_read: u64,
    bytes_written: u64,
    copies_made: u64,
    /// The last roll call that was answered.
    roll_answered: u64,
    /// The roll call that is being answered, and the place of the first connection that is not on the roll.
    roll_at: (u64, usize),
}

impl<'a, D: Driver, S: Service> Worker<'a, D, S> {
    pub(crate) fn new(
        index: usize,
        driver: D,
        mut service: S,
        shared: &'a Shared<D::Socket>,
        listeners: &'a [D::Listener],
        datagrams: Option<Datagrams<D::Datagrams>>,
    ) -> Worker<'a, D, S> {
        let limits = shared.limits.see();
        service.wakes_by(driver.waker());
        Worker {
            index,
            driver,
            service,
            shared,
            listeners,
            datagrams,
            connections: Table::default(),
            again: Vec::new(),
            later: Vec::new(),
            fed: Vec::new(),
            rest: Vec::new(),
            rest_until: Now::default(),
            turns: Vec::new(),
            group: Group::new(),
            looking: Looking::new(limits.busy_poll),
            rates: Rates::of(&limits),
            held_back: Queue::default(),
            turn_at: Now::default(),
            limits,
            listening: false,
            stopped_listening_at: None,
            accept_again_at: Now::default(),
            swept_at: Now::default(),
            bytes_read: 0,
            bytes_written: 0,
            copies_made: 0,
            roll_answered: 0,
            roll_at: (0, 0),
        }
    }

    /// Serves until told to stop; returns the connections that are handed over, and the sockets of datagrams.
    ///
    /// # Errors
    /// What the driver cannot recover from.
    pub(crate) fn run(mut self) -> std::io::Result<Given<D>> {
        let open = self.shared.counters.curr_connections.load(Ordering::Relaxed) as usize;
        if open < self.limits.connections_max || self.limits.refusal.is_some() {
            self.listen(true)?;
        }
        self.add_datagrams()?;
        let mut ready = Vec::new();
        while self.shared.control.stop() == Stop::No {
            self.turn(&mut ready)?;
        }
        let carried = match self.shared.control.stop() {
            Stop::HandOver => self.hand_over()?,
            _ => self.stop(&mut ready)?,
        };
        Ok((carried, self.datagrams))
    }

    /// One turn of the loop.
    pub(crate) fn turn(&mut self, ready: &mut Vec<Ready>) -> std::io::Result<()> {
        if self.limits.renew(&self.shared.limits) {
            self.looking.set_rule(self.limits.busy_poll);
            self.renew_rates();
        }
        let sweeps = self.limits.idle_timeout_secs > 0 || (!self.listening && !self.listeners.is_empty());
        let waits = self.datagrams.as_ref().is_some_and(Datagrams::has_more_to_do)
            || self.shared.counters.roll_call.hear(self.roll_answered);
        let timeout = match (self.again.is_empty() && !waits, sweeps) {
            (false, _) => Some(0),
            _ if !self.rest.is_empty() => Some(REST_MS),
            (true, true) => Some(SWEEP_MS),
            (true, false) => None,
        };
        let timeout = self.held_back.shorten(timeout, self.turn_at);
        let timeout = match self.looking.looks_again() {
            true => Some(0),
            false => timeout,
        };
        if timeout != Some(0) {
            self.service.go_idle();
        }
        self.driver.wait(timeout, ready)?;
        let now = self.driver.now();
        self.turn_at = now;
        self.looking.note(now, !ready.is_empty());
        self.service.begin_turn(now);
        self.take_mail(now);
        self.copy_out_if_asked();
        self.answer_roll_call();
        let again = std::mem::take(&mut self.again);
        let later = std::mem::take(&mut self.later);
        let mut turns = std::mem::take(&mut self.turns);
        if !self.rest.is_empty() && now >= self.rest_until {
            self.rest_until = now.plus_nanos(u64::from(REST_MS) * 1_000_000);
            turns.extend(self.rest.drain(..).map(|index| Turn::of(index, false)));
        }
        let connections = ready.iter().filter(|ready| ready.token < LISTENER_TOKENS);
        let served =
            connections.filter(|ready| self.is_current(ready.token) && !self.has_more_to_do(ready.token));
        turns.extend(served.map(|ready| Turn::of(ready.token as u32 as usize, ready.readable)));
        turns.extend(again.into_iter().map(|index| Turn::of(index, false)));
        turns.extend(later.into_iter().map(|index| Turn::of(index, true)));
        self.add_fed(&mut turns);
        self.let_go(&mut turns, now);
        self.serve(&turns, now);
        turns.clear();
        self.turns = turns;
        self.receive_datagrams(ready);
        self.answer_datagrams();
        // After all who are connected: a storm of connections costs them a share of a turn each, and no more.
        self.accept_ready(ready, now)?;
        self.sweep(now)?;
        self.count_bytes();
        Ok(())
    }

    fn receive_datagrams(&mut self, ready: &[Ready]) {
        let Some(datagrams) = &mut self.datagrams else {
            return;
        };
        for ready in ready.iter().filter(|ready| ready.token >= DATAGRAM_TOKENS) {
            datagrams.receive(&mut self.driver, (ready.token - DATAGRAM_TOKENS) as usize);
        }
    }

    fn add_datagrams(&mut self) -> std::io::Result<()> {
        let places = self.datagrams.iter().flat_map(|datagrams| &datagrams.places);
        for (number, place) in places.enumerate() {
            self.driver
                .add_datagrams(&place.socket, DATAGRAM_TOKENS + number as u64)?;
        }
        Ok(())
    }

    fn answer_datagrams(&mut self) {
        let Some(datagrams) = &mut self.datagrams else {
            return;
        };
        if !datagrams.has_more_to_do() {
            return;
        }
        datagrams.turn(&mut self.driver, &mut self.service, self.group.output());
        let counts = std::mem::take(&mut datagrams.counts);
        self.bytes_read += counts.bytes_read;
        self.bytes_written += counts.bytes_written;
        self.shared.counters.add_datagrams(self.index, &counts);
    }

    fn is_current(&self, token: u64) -> bool {
        let connection = self.connections.get(token as u32 as usize);
        connection.is_some_and(|connection| connection.token == token)
    }

    /// It has its turn anyway, without new input.
    fn has_more_to_do(&self, token: u64) -> bool {
        let connection = self.connections.get(token as u32 as usize);
        connection.is_some_and(Connection::has_more_to_do)
    }

    /// Copies what slow peers keep in the service's memory, if the keeper of the books asks for it.
    fn copy_out_if_asked(&mut self) {
        let shared = self.shared;
        let asked = shared.counters.memory.copies_asked();
        if asked == self.copies_made {
            return;
        }
        self.copies_made = asked;
        for index in 0..self.connections.len() {
            let Some(connection) = self.connections.get_mut(index) else {
                continue;
            };
            let held = connection.held(&self.driver);
            connection.copy_out();
            if !shared.counters.memory.note(held, connection.held(&self.driver)) {
                self.close(index, Reason::Error);
            }
        }
    }

    fn close(&mut self, index: usize, reason: Reason) {
        let Some(connection) = self.connections.take(index) else {
            return;
        };
        let held = connection.held(&self.driver);
        self.shared.counters.memory.note(held, 0);
        if connection.is_held_back() {
            self.forget_held(connection.token, self.turn_at);
        }
        self.shared.addresses.leave(connection.entry, self.turn_at);
        let descriptor = self.driver.descriptor(&connection.socket);
        let peer = || self.driver.last_peer(&connection.socket);
        self.service.closing(descriptor, reason, &peer);
        self.service.close(connection.session);
        self.driver.close(connection.socket);
        self.note_closed();
    }

    /// Closes idle connections, and accepts again if that was stopped and there is room.
    fn sweep(&mut self, now: Now) -> std::io::Result<()> {
        let may_listen = !self.listening && !self.listeners.is_empty() && now >= self.accept_again_at;
        if may_listen && self.shared.control.stop() == Stop::No {
            let open = self.shared.counters.curr_connections.load(Ordering::Relaxed) as usize;
            self.listen(open < self.limits.connections_max)?;
        }
        let idle_max = u64::from(self.limits.idle_timeout_secs) * 1_000_000_000;
        if idle_max == 0 || now.nanos_since(self.swept_at) < u64::from(SWEEP_MS) * 1_000_000 {
            return Ok(());
        }
        self.swept_at = now;
        for index in 0..self.connections.len() {
            let idle = |connection: &Connection<D, S>| {
                let is_idle = now.nanos_since(connection.last_active) >= idle_max;
                is_idle && !connection.is_fed() && !connection.is_held_back()
            };
            if self.connections.get(index).is_some_and(idle) {
                self.shared.counters.idle_kicks.fetch_add(1, Ordering::Relaxed);
                self.close(index, Reason::Idle);
            }
        }
        Ok(())
    }

    fn count_bytes(&mut self) {
        let (read, written) = (
            std::mem::take(&mut self.bytes_read),
            std::mem::take(&mut self.bytes_written),
        );
        self.shared.counters.add_traffic(self.index, read, written);
        self.looking.note_work(read, || self.driver.processor_nanos());
    }

    /// Answers what has been received, then closes everything.
    fn stop(&mut self, ready: &mut Vec<Ready>) -> std::io::Result<Vec<Carried<D::Socket>>> {
        self.shared.counters.roll_call.end();
        self.listen(false)?;
        let now = self.driver.now();
        self.turn_at = now;
        self.service.begin_turn(now);
        self.take_mail(now);
        self.end_rates();
        let waits_until = now.plus_nanos(GRACE_MS * 1_000_000);
        // What had come before the stop is answered, however much it is; what comes after a connection has caught up is
        // not read.
        let mut behind: Vec<usize> = (0..self.connections.len()).collect();
        loop {
            let now = self.driver.now();
            self.service.begin_turn(now);
            let turns: Vec<Turn> = behind.iter().map(|&index| Turn::of(index, true)).collect();
            self.serve(&turns, now);
            behind.retain(|&index| {
                let connection = self.connections.get(index);
                connection.is_some_and(|connection| !connection.has_caught_up())
            });
            self.again.clear();
            self.later.clear();
            let waits_for_peer = |index: &usize| {
                let connection = self.connections.get(*index);
                connection.is_some_and(Connection::waits_for_peer)
            };
            let all_wait = behind.iter().all(waits_for_peer);
            let waits_no_more = all_wait && self.shared.control.stop() == Stop::Now;
            if behind.is_empty() || waits_no_more || now > waits_until {
                break;
            }
            self.service.go_idle();
            self.driver.wait(Some(if all_wait { 100 } else { 0 }), ready)?;
        }
        for index in 0..self.connections.len() {
            self.close(index, Reason::Stop);
        }
        self.service.go_idle();
        self.count_bytes();
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests;
