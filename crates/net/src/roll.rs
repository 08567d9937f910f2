//! A roll call: whoever asks gets a row for every socket, from the workers that own them.
//!
//! Nobody waits. The one who asks raises a number and wakes the workers; each finds the number changed at its next turn and
//! adds its rows; the last one wakes all, and the one who asked, who was told to come back
//! [`Later`](crate::Next::Later), finds the roll complete. Who asks meanwhile shares the same roll.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use scrubjay_base::time::Now;
use scrubjay_io::driver::Name;

use crate::counters::Control;

/// What a socket is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It takes connections.
    Listening,
    /// It takes datagrams.
    Datagrams,
    /// Nothing has come since it was accepted.
    New,
    /// It waits for a request.
    Waiting,
    /// A request has come in part.
    Receiving,
    /// A request is being answered.
    Working,
    /// The peer has not taken all replies.
    Sending,
    /// It will be closed when the peer has taken all replies.
    Closing,
}

/// A socket.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its number and addresses.
    pub name: Name,
    /// What it is about.
    pub state: State,
    /// When it was last served.
    pub last_active: Now,
}

/// The rows that were collected for one call.
#[derive(Debug)]
pub struct Roll {
    /// Workers that have not added their rows.
    left: AtomicUsize,
    rows: Mutex<Vec<Row>>,
}

impl Roll {
    /// What was collected, one row a descriptor, in their order.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = self.rows.lock().expect("nothing panics under this lock").clone();
        // A descriptor that one worker closed may have come back in another before that one answered: the later row holds.
        rows.reverse();
        rows.sort_by_key(|row| row.name.descriptor);
        rows.dedup_by_key(|row| row.name.descriptor);
        rows
    }
}

/// Where calls are made and heard.
#[derive(Debug, Default)]
pub struct RollCall {
    /// How many calls there were; a worker compares it once a turn with what it has answered.
    calls: AtomicU64,
    workers: AtomicUsize,
    /// A worker has begun to stop: nobody waits for rows any more.
    is_over: AtomicBool,
    /// The last call's number and its roll, while somebody waits for it.
    current: Mutex<(u64, Weak<Roll>)>,
}

impl RollCall {
    /// Calls the roll, or joins a call under way.
    pub fn call(&self, control: &Control) -> Arc<Roll> {
        let mut current = self.current.lock().expect("nothing panics under this lock");
        if let Some(roll) = current.1.upgrade().filter(|roll| !self.is_complete(roll)) {
            return roll;
        }
        let roll = Arc::new(Roll {
            left: AtomicUsize::new(self.workers.load(Ordering::Relaxed)),
            rows: Mutex::default(),
        });
        *current = (current.0 + 1, Arc::downgrade(&roll));
        // Release pairs with the load in `hear`; the lock says the rest.
        self.calls.store(current.0, Ordering::Release);
        drop(current);
        control.wake_all();
        roll
    }

    /// Whether every worker has added its rows, or none will.
    pub fn is_complete(&self, roll: &Roll) -> bool {
        // Acquire pairs with the worker that was last.
        roll.left.load(Ordering::Acquire) == 0 || self.is_over.load(Ordering::Relaxed)
    }

    pub(crate) fn enter(&self) {
        self.workers.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Whether there was a call since the one numbered `answered`.
    pub(crate) fn hear(&self, answered: u64) -> bool {
        self.calls.load(Ordering::Acquire) != answered
    }

    /// The number of the last call, for a worker that heard it; `add` is called with the rows if somebody waits for them.
    pub(crate) fn answer(&self, control: &Control, add: impl FnOnce(&mut Vec<Row>)) -> u64 {
        let (number, roll) = self
            .current
            .lock()
            .expect("nothing panics under this lock")
            .clone();
        if let Some(roll) = roll.upgrade() {
            add(&mut roll.rows.lock().expect("nothing panics under this lock"));
            if roll.left.fetch_sub(1, Ordering::AcqRel) == 1 {
                control.wake_all();
            }
        }
        number
    }
}
