//! The event loop of one worker thread.
//!
//! A turn: wait for readiness, tell the service the time, then one fair share of work for every ready connection: one
//! read, all requests in it handled as one batch, one write.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use scrubjay_base::time::Now;
use scrubjay_io::driver::epoll::Waker;
use scrubjay_io::driver::{Driver, PeerAddress, Ready};

use crate::addresses::Addresses;
use crate::connection::{After, Connection, Lent};
use crate::counters::{Control, Counters, Stop};
use crate::datagrams::Datagrams;
use crate::output::Output;
use crate::roll::{Roll, Row, State};
use crate::service::Service;

/// Bytes read from a connection in one turn.
const READ_MAX: usize = 64 << 10;

/// A worker's output buffer is given back to this size when a turn made it larger.
const OUTPUT_KEPT: usize = 512 << 10;

/// Connections accepted in one turn.
const ACCEPTS_PER_TURN: usize = 64;

/// Connections that are listed in one turn.
const ROWS_PER_TURN: usize = 64;

/// How long accepting rests when the process has no descriptors left.
const ACCEPT_PAUSE_NANOS: u64 = 100_000_000;

/// Tokens from this number on are listeners.
const LISTENER_TOKENS: u64 = 1 << 63;

/// Tokens from this number on are sockets of datagrams.
const DATAGRAM_TOKENS: u64 = LISTENER_TOKENS | (1 << 62);

/// How long a graceful stop waits for peers to take their replies.
const GRACE_MS: u64 = 5_000;

/// How often idle connections and a stopped accept are looked at.
const SWEEP_MS: u32 = 100;

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
    /// Close connections that did nothing for this many seconds; 0: never.
    pub idle_timeout_secs: u32,
}

/// Accepted connections on their way to another worker.
#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    pub(crate) has_mail: Flag,
    pub(crate) sockets: Mutex<Vec<(T, PeerAddress)>>,
    pub(crate) waker: Option<Waker>,
}

/// Set by others, taken by its owner, who mostly finds it unset and then writes nothing.
#[derive(Debug, Default)]
pub(crate) struct Flag(AtomicBool);

impl Flag {
    fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn swap_if_set(&self) -> bool {
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Acquire)
    }
}

/// What all workers share.
#[derive(Debug)]
pub(crate) struct Shared<T> {
    pub(crate) limits: Limits,
    pub(crate) addresses: Addresses,
    pub(crate) counters: Arc<Counters>,
    pub(crate) control: Arc<Control>,
    pub(crate) mailboxes: Vec<Mailbox<T>>,
    /// Connections wait to be accepted until one is closed.
    pub(crate) accept_stopped: AtomicBool,
}

/// One worker.
pub(crate) struct Worker<'a, D: Driver, S: Service> {
    index: usize,
    driver: D,
    service: S,
    shared: &'a Shared<D::Socket>,
    /// The first worker's; empty in the others.
    listeners: &'a [D::Listener],
    datagrams: Option<Datagrams<D::Datagrams>>,
    connections: Vec<Option<Connection<D, S>>>,
    vacant: Vec<usize>,
    /// Connections that have more to do.
    again: Vec<usize>,
    /// Connections that will have when the workers are woken.
    later: Vec<usize>,
    buffer: Box<[u8]>,
    output: Output<S::Shared>,
    next_worker: usize,
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
        service: S,
        shared: &'a Shared<D::Socket>,
        listeners: &'a [D::Listener],
        datagrams: Option<Datagrams<D::Datagrams>>,
    ) -> Worker<'a, D, S> {
        Worker {
            index,
            driver,
            service,
            shared,
            listeners,
            datagrams,
            connections: Vec::new(),
            vacant: Vec::new(),
            again: Vec::new(),
            later: Vec::new(),
            buffer: vec![0; READ_MAX].into_boxed_slice(),
            output: Output::default(),
            next_worker: 0,
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

    /// Serves until told to stop.
    ///
    /// # Errors
    /// What the driver cannot recover from.
    pub(crate) fn run(mut self) -> std::io::Result<()> {
        self.listen(true)?;
        self.add_datagrams()?;
        let mut ready = Vec::new();
        while self.shared.control.stop() == Stop::No {
            self.turn(&mut ready)?;
        }
        self.stop(&mut ready)
    }

    /// One turn of the loop.
    pub(crate) fn turn(&mut self, ready: &mut Vec<Ready>) -> std::io::Result<()> {
        let sweeps =
            self.shared.limits.idle_timeout_secs > 0 || (!self.listening && !self.listeners.is_empty());
        let waits = self.datagrams.as_ref().is_some_and(Datagrams::has_more_to_do)
            || self.shared.counters.roll_call.hear(self.roll_answered);
        let timeout = match (self.again.is_empty() && !waits, sweeps) {
            (false, _) => Some(0),
            (true, true) => Some(SWEEP_MS),
            (true, false) => None,
        };
        if timeout != Some(0) {
            self.service.go_idle();
        }
        self.driver.wait(timeout, ready)?;
        let now = self.driver.now();
        self.service.begin_turn(now);
        self.take_mail(now);
        self.copy_out_if_asked();
        self.answer_roll_call();
        let again = std::mem::take(&mut self.again);
        let later = std::mem::take(&mut self.later);
        for ready in ready.iter() {
            if ready.token >= DATAGRAM_TOKENS {
                let place = (ready.token - DATAGRAM_TOKENS) as usize;
                let datagrams = self.datagrams.iter_mut();
                datagrams.for_each(|datagrams| datagrams.receive(&mut self.driver, place));
            } else if ready.token >= LISTENER_TOKENS {
                self.accept((ready.token - LISTENER_TOKENS) as usize, now)?;
            } else if self.is_current(ready.token) && !self.has_more_to_do(ready.token) {
                self.serve(ready.token as u32 as usize, ready.readable, now);
            }
        }
        for index in again {
            self.serve(index, false, now);
        }
        for index in later {
            self.serve(index, true, now);
        }
        self.answer_datagrams();
        self.sweep(now)?;
        self.count_bytes();
        Ok(())
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
        datagrams.turn(&mut self.driver, &mut self.service, &mut self.output);
        self.output.shrink(OUTPUT_KEPT);
        let counts = std::mem::take(&mut datagrams.counts);
        self.bytes_read += counts.bytes_read;
        self.bytes_written += counts.bytes_written;
        self.shared.counters.add_datagrams(self.index, &counts);
    }

    fn is_current(&self, token: u64) -> bool {
        let connection = self.connections.get(token as u32 as usize);
        connection
            .and_then(Option::as_ref)
            .is_some_and(|connection| connection.token == token)
    }

    /// It has its turn anyway, without new input.
    fn has_more_to_do(&self, token: u64) -> bool {
        self.connections[token as u32 as usize]
            .as_ref()
            .is_some_and(Connection::has_more_to_do)
    }

    fn serve(&mut self, index: usize, readable: bool, now: Now) {
        let Some(connection) = self.connections[index].as_mut() else {
            return;
        };
        connection.last_active = now;
        let held = connection.held(&self.driver);
        let mut lent = Lent {
            driver: &mut self.driver,
            service: &mut self.service,
            buffer: &mut self.buffer,
            output: &mut self.output,
            bytes_read: &mut self.bytes_read,
            bytes_written: &mut self.bytes_written,
        };
        let after = connection.turn(&mut lent, readable);
        let holds = connection.held(&self.driver);
        let fits = self.shared.counters.memory.note(held, holds);
        match after {
            _ if !fits => self.close(index),
            After::Wait => {}
            After::Again => {
                self.shared.counters.conn_yields.fetch_add(1, Ordering::Relaxed);
                self.again.push(index);
            }
            After::Later => self.later.push(index),
            After::Close => self.close(index),
        }
        self.output.clear();
        self.output.shrink(OUTPUT_KEPT);
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
            let Some(connection) = self.connections[index].as_mut() else {
                continue;
            };
            let held = connection.held(&self.driver);
            connection.copy_out();
            if !shared.counters.memory.note(held, connection.held(&self.driver)) {
                self.close(index);
            }
        }
    }

    /// Says which sockets are its own, some of them a turn, if somebody wants to know.
    fn answer_roll_call(&mut self) {
        let shared = self.shared;
        let roll_call = &shared.counters.roll_call;
        if !roll_call.hear(self.roll_answered) {
            return;
        }
        let (number, roll) = roll_call.current();
        let Some(roll) = roll else {
            self.roll_answered = number;
            return;
        };
        if self.roll_at.0 != number {
            self.roll_at = (number, 0);
            self.add_constant_rows(&roll);
        }
        let first = self.roll_at.1;
        let last = (first + ROWS_PER_TURN).min(self.connections.len());
        let connections = self.connections[first.min(last)..last].iter().flatten();
        roll.add(connections.map(|connection| Row {
            name: self.driver.name(&connection.socket),
            state: connection.state(),
            last_active: connection.last_active,
        }));
        self.roll_at.1 = last;
        if last == self.connections.len() {
            self.roll_answered = number;
            roll.finish(&shared.control);
        }
    }

    fn add_constant_rows(&self, roll: &Roll) {
        let row = |name, state| Row {
            name,
            state,
            last_active: Now::default(),
        };
        let listeners = self.listeners.iter();
        roll.add(listeners.map(|listener| row(self.driver.listener_name(listener), State::Listening)));
        let places = self.datagrams.iter().flat_map(|datagrams| &datagrams.places);
        roll.add(places.map(|place| row(self.driver.datagrams_name(&place.socket), State::Datagrams)));
    }

    fn close(&mut self, index: usize) {
        let Some(connection) = self.connections[index].take() else {
            return;
        };
        self.vacant.push(index);
        self.shared.addresses.leave(connection.peer);
        let held = connection.held(&self.driver);
        self.shared.counters.memory.note(held, 0);
        self.service.close(connection.session);
        self.driver.close(connection.socket);
        self.shared
            .counters
            .curr_connections
            .fetch_sub(1, Ordering::Relaxed);
        if self.shared.accept_stopped.load(Ordering::Acquire)
            && let Some(waker) = &self.shared.mailboxes[0].waker
        {
            waker.wake();
        }
    }

    fn listen(&mut self, on: bool) -> std::io::Result<()> {
        if self.listening == on || self.listeners.is_empty() {
            return Ok(());
        }
        for (number, listener) in self.listeners.iter().enumerate() {
            if on {
                self.driver
                    .add_listener(listener, LISTENER_TOKENS + number as u64)?;
            } else {
                self.driver.remove_listener(listener)?;
            }
        }
        self.listening = on;
        let now = self.driver.now();
        if let Some(since) = self.stopped_listening_at.take() {
            let counters = &self.shared.counters;
            let micros = now.nanos_since(since) / 1000;
            counters
                .listen_disabled_micros
                .fetch_add(micros, Ordering::Relaxed);
        }
        self.stopped_listening_at = (!on).then_some(now);
        let stopped = !on && self.shared.control.stop() == Stop::No;
        self.shared.accept_stopped.store(stopped, Ordering::Release);
        self.shared
            .counters
            .accepting_stopped
            .store(stopped.into(), Ordering::Relaxed);
        Ok(())
    }

    fn accept(&mut self, listener: usize, now: Now) -> std::io::Result<()> {
        let counters = &self.shared.counters;
        for _ in 0..ACCEPTS_PER_TURN {
            if !self.listening {
                return Ok(());
            }
            let (socket, peer) = match self.driver.accept(&self.listeners[listener]) {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(()),
                // The peer gave up, or the process has no descriptors: the latter is tried again at the next sweep.
                Err(error) if is_of_one_connection(&error) => continue,
                Err(_) => {
                    counters.listen_disabled_num.fetch_add(1, Ordering::Relaxed);
                    self.accept_again_at = now.plus_nanos(ACCEPT_PAUSE_NANOS);
                    return self.listen(false);
                }
            };
            let open = counters.curr_connections.fetch_add(1, Ordering::Relaxed) + 1;
            if open as usize > self.shared.limits.connections_max
                && let Some(refusal) = self.shared.limits.refusal
            {
                counters.curr_connections.fetch_sub(1, Ordering::Relaxed);
                counters.rejected_connections.fetch_add(1, Ordering::Relaxed);
                // A courtesy: a peer that does not take it is closed all the same.
                let _ = self.driver.write(&socket, &[std::io::IoSlice::new(refusal)]);
                continue;
            }
            if !self.shared.addresses.enter(peer) {
                counters.curr_connections.fetch_sub(1, Ordering::Relaxed);
                counters.rejected_by_address.fetch_add(1, Ordering::Relaxed);
                let refusal = std::io::IoSlice::new(self.shared.limits.refusal_of_address);
                // As above.
                let _ = self.driver.write(&socket, &[refusal]);
                continue;
            }
            counters.total_connections.fetch_add(1, Ordering::Relaxed);
            self.place(socket, peer, now);
            if open as usize >= self.shared.limits.connections_max && self.shared.limits.refusal.is_none() {
                counters.listen_disabled_num.fetch_add(1, Ordering::Relaxed);
                self.listen(false)?;
            }
        }
        Ok(())
    }

    /// Gives the connection to the next worker in turn.
    fn place(&mut self, socket: D::Socket, peer: PeerAddress, now: Now) {
        let target = self.next_worker % self.shared.mailboxes.len();
        self.next_worker += 1;
        if target == self.index {
            return self.open(socket, peer, now);
        }
        let mailbox = &self.shared.mailboxes[target];
        mailbox
            .sockets
            .lock()
            .expect("nothing panics under this lock")
            .push((socket, peer));
        mailbox.has_mail.set();
        mailbox.waker.iter().for_each(Waker::wake);
    }

    fn take_mail(&mut self, now: Now) {
        let mailbox = &self.shared.mailboxes[self.index];
        // Read-mostly: no lock is taken while there is none.
        if !mailbox.has_mail.swap_if_set() {
            return;
        }
        let sockets = std::mem::take(&mut *mailbox.sockets.lock().expect("nothing panics under this lock"));
        for (socket, peer) in sockets {
            self.open(socket, peer, now);
        }
    }

    fn open(&mut self, socket: D::Socket, peer: PeerAddress, now: Now) {
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        // The count of connections tells a late report for an earlier owner of the place from one for this.
        let generation = self.shared.counters.total_connections.load(Ordering::Relaxed) & 0x7fff_ffff;
        let token = (generation << 32) | index as u64;
        let session = self.service.open(peer);
        let added = self.driver.add(&socket, token);
        let connection = Connection::new(socket, peer, session, token, now);
        let fits = self.shared.counters.memory.note(0, connection.held(&self.driver));
        self.connections[index] = Some(connection);
        if added.is_err() || !fits {
            self.close(index);
        }
    }

    /// Closes idle connections, and accepts again if that was stopped and there is room.
    fn sweep(&mut self, now: Now) -> std::io::Result<()> {
        let may_listen = !self.listening && !self.listeners.is_empty() && now >= self.accept_again_at;
        if may_listen && self.shared.control.stop() == Stop::No {
            let open = self.shared.counters.curr_connections.load(Ordering::Relaxed) as usize;
            self.listen(open < self.shared.limits.connections_max)?;
        }
        let idle_max = u64::from(self.shared.limits.idle_timeout_secs) * 1_000_000_000;
        if idle_max == 0 || now.nanos_since(self.swept_at) < u64::from(SWEEP_MS) * 1_000_000 {
            return Ok(());
        }
        self.swept_at = now;
        for index in 0..self.connections.len() {
            let idle = |connection: &Connection<D, S>| now.nanos_since(connection.last_active) >= idle_max;
            if self.connections[index].as_ref().is_some_and(idle) {
                self.shared.counters.idle_kicks.fetch_add(1, Ordering::Relaxed);
                self.close(index);
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
    }

    /// Answers what has been received, then closes everything.
    fn stop(mut self, ready: &mut Vec<Ready>) -> std::io::Result<()> {
        self.shared.counters.roll_call.end();
        self.listen(false)?;
        let now = self.driver.now();
        self.service.begin_turn(now);
        self.take_mail(now);
        let waits_until = now.plus_nanos(GRACE_MS * 1_000_000);
        // What had come before the stop is answered, however much it is; what comes after a connection has caught up is
        // not read.
        let mut behind: Vec<usize> = (0..self.connections.len()).collect();
        loop {
            let now = self.driver.now();
            self.service.begin_turn(now);
            behind.retain(|&index| {
                self.serve(index, true, now);
                self.connections[index]
                    .as_ref()
                    .is_some_and(|connection| !connection.has_caught_up())
            });
            self.again.clear();
            self.later.clear();
            let waits_for_peer = |index: &usize| {
                self.connections[*index]
                    .as_ref()
                    .is_some_and(Connection::has_unsent)
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
            self.close(index);
        }
        self.service.go_idle();
        self.count_bytes();
        Ok(())
    }
}

/// Whether an error of accept concerns only the connection that was to be accepted.
fn is_of_one_connection(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        std::io::ErrorKind::ConnectionAborted
            | std::io::ErrorKind::Interrupted
            | std::io::ErrorKind::ConnectionReset
    )
}

#[cfg(test)]
mod tests;
