//! What the event loop counts, and how it is told to stop.

use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use scrubjay_base::sync::OwnLine;
use scrubjay_io::driver::Waker;

use crate::datagrams::Counts;
use crate::memory::Memory;
use crate::roll::RollCall;

/// Counts of connections and bytes. Raised at accept and close, and once a turn for bytes.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections open now.
    pub curr_connections: AtomicU64,
    /// Connections accepted since start.
    pub total_connections: AtomicU64,
    /// Connections refused because of the limit.
    pub rejected_connections: AtomicU64,
    /// Connections refused because their address had as many as it may.
    pub rejected_by_address: AtomicU64,
    /// Connections held back because their address asked too much.
    pub held_by_address: HeldBack,
    /// Connections held back because their user asked too much.
    pub held_by_user: HeldBack,
    /// The first address of which one was held back since somebody last asked.
    pub(crate) address_held: Mutex<Option<IpAddr>>,
    /// Times that accepting was stopped because of the limit.
    pub listen_disabled_num: AtomicU64,
    /// Microseconds for which accepting was stopped, up to when it last began again.
    pub listen_disabled_micros: AtomicU64,
    /// Whether connections are being refused or left waiting: 0 or 1.
    pub accepting_stopped: AtomicU64,
    /// Bytes by worker, each on a line of its own.
    traffic: [OwnLine<Traffic>; TRAFFIC_CELLS],
    /// Connections closed because they were idle too long.
    pub idle_kicks: AtomicU64,
    /// What connections hold of memory.
    pub memory: Memory,
    /// Where lists of all sockets are asked for.
    pub roll_call: RollCall,
    udp: [OwnLine<Udp>; TRAFFIC_CELLS],
    /// Times that a connection had to wait for its next turn although it had more to do.
    pub conn_yields: AtomicU64,
}

/// Connections that were not read because somebody asked too much. Written when one is held back and when it goes on.
#[derive(Debug, Default)]
pub struct HeldBack {
    /// How often.
    pub times: AtomicU64,
    /// For how many microseconds, together.
    pub micros: AtomicU64,
}

/// Workers beyond this many share cells with others; the sums stay right.
const TRAFFIC_CELLS: usize = 32;

/// Bytes that a worker moved.
#[derive(Debug, Default)]
struct Traffic {
    read: AtomicU64,
    written: AtomicU64,
}

/// A worker's datagrams.
#[derive(Debug, Default)]
struct Udp {
    requests: AtomicU64,
    replies: AtomicU64,
    dropped: AtomicU64,
    refused: AtomicU64,
    unsent: AtomicU64,
}

/// Datagrams of all workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpCounts {
    /// Datagrams received and answered, or refused in an answer.
    pub requests: u64,
    /// Datagrams sent.
    pub replies: u64,
    /// Datagrams received and dropped: no header, no request, or from the port of a server.
    pub dropped: u64,
    /// Replies not sent because they were longer than the peer may be sent.
    pub refused_amplification: u64,
    /// Datagrams that the socket did not take.
    pub unsent: u64,
}

impl UdpCounts {
    /// What was counted since `before`.
    pub fn since(&self, before: &UdpCounts) -> UdpCounts {
        UdpCounts {
            requests: self.requests - before.requests,
            replies: self.replies - before.replies,
            dropped: self.dropped - before.dropped,
            refused_amplification: self.refused_amplification - before.refused_amplification,
            unsent: self.unsent - before.unsent,
        }
    }
}

impl Counters {
    pub(crate) fn note_address_held(&self, address: Option<IpAddr>) {
        let mut held = self.address_held.lock().expect("nothing panics under this lock");
        *held = held.or(address);
    }

    /// An address of which a connection was held back since the last call of this.
    pub fn take_address_held(&self) -> Option<IpAddr> {
        self.address_held
            .lock()
            .expect("nothing panics under this lock")
            .take()
    }

    pub(crate) fn add_datagrams(&self, worker: usize, counts: &Counts) {
        let cell = &self.udp[worker % TRAFFIC_CELLS].0;
        for (sum, count) in [
            (&cell.requests, counts.requests),
            (&cell.replies, counts.replies),
            (&cell.dropped, counts.dropped),
            (&cell.refused, counts.refused),
            (&cell.unsent, counts.unsent),
        ] {
            if count > 0 {
                sum.fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    /// Datagrams since the start.
    pub fn udp(&self) -> UdpCounts {
        let sum = |count: fn(&Udp) -> &AtomicU64| {
            let counts = self.udp.iter().map(|cell| count(&cell.0).load(Ordering::Relaxed));
            counts.sum()
        };
        UdpCounts {
            requests: sum(|udp| &udp.requests),
            replies: sum(|udp| &udp.replies),
            dropped: sum(|udp| &udp.dropped),
            refused_amplification: sum(|udp| &udp.refused),
            unsent: sum(|udp| &udp.unsent),
        }
    }

    pub(crate) fn add_traffic(&self, worker: usize, read: u64, written: u64) {
        if read | written == 0 {
            return;
        }
        let cell = &self.traffic[worker % TRAFFIC_CELLS].0;
        cell.read.fetch_add(read, Ordering::Relaxed);
        cell.written.fetch_add(written, Ordering::Relaxed);
    }

    /// Bytes read from all connections.
    pub fn bytes_read(&self) -> u64 {
        self.traffic
            .iter()
            .map(|cell| cell.0.read.load(Ordering::Relaxed))
            .sum()
    }

    /// Bytes written to all connections.
    pub fn bytes_written(&self) -> u64 {
        self.traffic
            .iter()
            .map(|cell| cell.0.written.load(Ordering::Relaxed))
            .sum()
    }
}

const RUNNING: u8 = 0;
const HAND_OVER: u8 = 1;
const GRACEFUL: u8 = 2;
const NOW: u8 = 3;

/// Tells the workers to stop. Any thread may.
#[derive(Debug, Default)]
pub struct Control {
    state: AtomicU8,
    wakers: Mutex<Vec<Waker>>,
}

/// How far stopping has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Serve on.
    No,
    /// Accept nothing; give every connection back as it is.
    HandOver,
    /// Accept nothing; answer what has been received, then close.
    Graceful,
    /// Close at once.
    Now,
}

impl Control {
    /// No more connections are accepted, what was received is answered, then everything is closed.
    pub fn stop_gracefully(&self) {
        self.raise(GRACEFUL);
    }

    /// As [`Control::stop_gracefully`], without waiting for peers that do not take their replies.
    pub fn stop_now(&self) {
        self.raise(NOW);
    }

    /// Every worker finishes its turn and gives back its connections, to be served by another server. If a stop is ordered
    /// before all have done so, some are closed instead.
    pub fn hand_over(&self) {
        self.raise(HAND_OVER);
    }

    /// After a hand-over that came to nothing: lets workers run again, once those before have ended. `false` if a stop was
    /// ordered meanwhile.
    pub fn serve_again(&self) -> bool {
        self.wakers
            .lock()
            .expect("nothing panics under this lock")
            .clear();
        let served = self
            .state
            .compare_exchange(HAND_OVER, RUNNING, Ordering::AcqRel, Ordering::Acquire);
        !matches!(served, Err(GRACEFUL | NOW))
    }

    /// Whether and how to stop.
    pub fn stop(&self) -> Stop {
        match self.state.load(Ordering::Acquire) {
            RUNNING => Stop::No,
            HAND_OVER => Stop::HandOver,
            GRACEFUL => Stop::Graceful,
            _ => Stop::Now,
        }
    }

    /// Asks for replies that wait in the service's memory to be copied, by workers that sleep as well.
    pub fn copy_out(&self, memory: &Memory) {
        memory.ask_for_copies();
        self.wake_all();
    }

    pub(crate) fn add(&self, waker: Waker) {
        self.wakers
            .lock()
            .expect("nothing panics under this lock")
            .push(waker);
    }

    fn raise(&self, state: u8) {
        self.state.fetch_max(state, Ordering::AcqRel);
        self.wake_all();
    }

    /// Gives every worker a turn, for what was to be done [`Later`](crate::Next::Later).
    pub fn wake_all(&self) {
        self.wakers
            .lock()
            .expect("nothing panics under this lock")
            .iter()
            .for_each(Waker::wake);
    }
}
