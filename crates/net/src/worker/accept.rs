//! Where connections come from: the first worker accepts for all and gives each to the worker that has fewest.
//!
//! One accepts, because then limits hold to the connection, no connection waits in the queue of a worker that is busy, and the
//! counts are there to go by. The price is that a storm is one worker's: it accepts few a turn, after it has served its own.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use scrubjay_base::time::Now;
use scrubjay_io::driver::{Driver, PeerAddress, Ready, Waker};

use super::{DATAGRAM_TOKENS, LISTENER_TOKENS, Worker};
use crate::addresses::Entry;
use crate::connection::Connection;
use crate::counters::Stop;
use crate::service::{Reason, Service};

/// Connections accepted in one turn, of all listeners. Each costs as much as a small request.
pub(super) const ACCEPTS_PER_TURN: usize = 16;

/// How long accepting rests when the process has no descriptors left.
const ACCEPT_PAUSE_NANOS: u64 = 100_000_000;

/// Accepted connections on their way to a worker, and how many it has.
#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    has_mail: Flag,
    sockets: Mutex<Vec<(T, PeerAddress, Entry)>>,
    waker: Option<Waker>,
    /// Connections that this worker has or is about to get. Raised by the one who accepts, lowered by the worker.
    open: AtomicUsize,
}

impl<T> Mailbox<T> {
    pub(crate) fn new(waker: Option<Waker>) -> Mailbox<T> {
        Mailbox {
            has_mail: Flag::default(),
            sockets: Mutex::default(),
            waker,
            open: AtomicUsize::new(0),
        }
    }

    /// One more connection is about to be its worker's.
    pub(super) fn expect_one(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    /// What nobody has opened.
    pub(crate) fn into_unopened(self) -> Vec<(T, PeerAddress)> {
        let sockets = self.sockets.into_inner().expect("nothing panics under this lock");
        sockets
            .into_iter()
            .map(|(socket, peer, _)| (socket, peer))
            .collect()
    }
}

/// Set by others, taken by its owner, who mostly finds it unset and then writes nothing.
#[derive(Debug, Default)]
struct Flag(AtomicBool);

impl Flag {
    fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn swap_if_set(&self) -> bool {
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Acquire)
    }
}

impl<D: Driver, S: Service> Worker<'_, D, S> {
    pub(super) fn listen(&mut self, on: bool) -> std::io::Result<()> {
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

    /// Accepts from the listeners that are ready, a bounded number in all.
    pub(super) fn accept_ready(&mut self, ready: &[Ready], now: Now) -> std::io::Result<()> {
        let listeners = LISTENER_TOKENS..DATAGRAM_TOKENS;
        let mut left = ACCEPTS_PER_TURN;
        for ready in ready.iter().filter(|ready| listeners.contains(&ready.token)) {
            self.accept((ready.token - LISTENER_TOKENS) as usize, &mut left, now)?;
        }
        Ok(())
    }

    fn accept(&mut self, listener: usize, left: &mut usize, now: Now) -> std::io::Result<()> {
        let counters = &self.shared.counters;
        while *left > 0 {
            *left -= 1;
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
            if open as usize > self.limits.connections_max
                && let Some(refusal) = self.limits.refusal
            {
                counters.curr_connections.fetch_sub(1, Ordering::Relaxed);
                counters.rejected_connections.fetch_add(1, Ordering::Relaxed);
                // A courtesy: a peer that does not take it is closed all the same.
                let _ = self.driver.write(&socket, &[std::io::IoSlice::new(refusal)]);
                continue;
            }
            let most = self.limits.connections_per_address;
            let has_rate = self.limits.requests_per_address > 0;
            let Some(entry) = self.shared.addresses.enter(peer, most, has_rate) else {
                counters.curr_connections.fetch_sub(1, Ordering::Relaxed);
                counters.rejected_by_address.fetch_add(1, Ordering::Relaxed);
                let refusal = std::io::IoSlice::new(self.limits.refusal_of_address);
                // As above.
                let _ = self.driver.write(&socket, &[refusal]);
                continue;
            };
            counters.total_connections.fetch_add(1, Ordering::Relaxed);
            self.place((socket, peer, entry), now);
            if open as usize >= self.limits.connections_max && self.limits.refusal.is_none() {
                counters.listen_disabled_num.fetch_add(1, Ordering::Relaxed);
                self.listen(false)?;
            }
        }
        Ok(())
    }

    /// Gives the connection to the worker that has fewest; of several to the one behind this one first, which has the listeners
    /// to look after besides.
    fn place(&mut self, accepted: (D::Socket, PeerAddress, Entry), now: Now) {
        let mailboxes = &self.shared.mailboxes;
        let count = mailboxes.len();
        let behind = (1..=count).map(|step| (self.index + step) % count);
        let target = behind
            .min_by_key(|index| mailboxes[*index].open.load(Ordering::Relaxed))
            .unwrap_or(self.index);
        let mailbox = &mailboxes[target];
        mailbox.open.fetch_add(1, Ordering::Relaxed);
        if target == self.index {
            return self.open(accepted, now);
        }
        mailbox
            .sockets
            .lock()
            .expect("nothing panics under this lock")
            .push(accepted);
        mailbox.has_mail.set();
        mailbox.waker.iter().for_each(Waker::wake);
    }

    /// Opens what others accepted for this worker.
    pub(super) fn take_mail(&mut self, now: Now) {
        let mailbox = &self.shared.mailboxes[self.index];
        // Read-mostly: no lock is taken while there is none.
        if !mailbox.has_mail.swap_if_set() {
            return;
        }
        let sockets = std::mem::take(&mut *mailbox.sockets.lock().expect("nothing panics under this lock"));
        for accepted in sockets {
            self.open(accepted, now);
        }
    }

    fn open(&mut self, (mut socket, peer, entry): (D::Socket, PeerAddress, Entry), now: Now) {
        let index = self.connections.next();
        // The count of connections tells a late report for an earlier owner of the place from one for this.
        let generation = self.shared.counters.total_connections.load(Ordering::Relaxed) & 0x7fff_ffff;
        let token = (generation << 32) | index as u64;
        let session = self.service.open(peer);
        let added = self.driver.add(&mut socket, token);
        self.service.opened(self.driver.descriptor(&socket), peer);
        let connection = Connection::new(socket, entry, session, token, now);
        let fits = self.shared.counters.memory.note(0, connection.held(&self.driver));
        self.connections.insert(connection);
        if added.is_err() || !fits {
            self.close(index, Reason::Error);
        }
    }

    /// A connection of this worker is gone; whoever has stopped accepting may go on.
    pub(super) fn note_closed(&mut self) {
        self.shared.mailboxes[self.index]
            .open
            .fetch_sub(1, Ordering::Relaxed);
        let counters = &self.shared.counters;
        counters.curr_connections.fetch_sub(1, Ordering::Relaxed);
        if self.shared.accept_stopped.load(Ordering::Acquire)
            && let Some(waker) = &self.shared.mailboxes[0].waker
        {
            waker.wake();
        }
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
