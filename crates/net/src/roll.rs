//! A roll call: whoever asks gets a row for every socket, from the workers that own them.
//!
//! Nobody waits. The one who asks raises a number and wakes the workers; each finds the number changed at its next turn and
//! adds its rows, a few a turn; the last one wakes all, and the one who asked, who was told to come back
//! [`Soon`](crate::Next::Soon), finds the roll complete. Who asks meanwhile shares the same roll.

use std::collections::BTreeMap;
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
    /// Its user or its address has asked too much, and it is not read until they may ask again.
    HeldBack,
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
    /// Its last request, as the service numbers them; 0 if there was none.
    pub last_asked: u8,
}

/// The rows that were collected for one call.
#[derive(Debug)]
pub struct Roll {
    /// Workers that have not added all their rows.
    left: AtomicUsize,
    /// By descriptor. One that a worker closed may come back in another before that one has answered: the later row holds.
    rows: Mutex<BTreeMap<u64, Row>>,
}

impl Roll {
    /// Calls `each` with at most `max` rows, from the descriptor `from` on; returns where to go on, if there are more.
    pub fn read(&self, from: u64, max: usize, mut each: impl FnMut(&Row)) -> Option<u64> {
        let rows = self.rows.lock().expect("nothing panics under this lock");
        let mut rest = rows.range(from..);
        rest.by_ref().take(max).for_each(|(_, row)| each(row));
        rest.next().map(|(descriptor, _)| *descriptor)
    }

    pub(crate) fn add(&self, rows: impl Iterator<Item = Row>) {
        let mut known = self.rows.lock().expect("nothing panics under this lock");
        known.extend(rows.map(|row| (row.name.descriptor, row)));
    }

    /// A worker has no more rows.
    pub(crate) fn finish(&self, control: &Control) {
        // Release pairs with the load of whoever asks whether that was the last one.
        let less_one = |left: usize| left.checked_sub(1);
        if self
            .left
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, less_one)
            == Ok(1)
        {
            control.wake_all();
        }
    }
}

/// Where calls are made and heard.
#[derive(Debug, Default)]
pub struct RollCall {
    /// How many calls there were; a worker compares it once a turn with what it has answered.
    calls: AtomicU64,
    /// Workers that answer; where none is expected, as in tests of one alone, a roll is complete and empty at once.
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
        // Acquire pairs with `finish` of the worker that was last.
        roll.left.load(Ordering::Acquire) == 0 || self.is_over.load(Ordering::Relaxed)
    }

    /// So many workers answer, from the first call on; said before any of them runs.
    pub(crate) fn expect(&self, workers: usize) {
        self.workers.store(workers, Ordering::Relaxed);
        self.is_over.store(false, Ordering::Relaxed);
    }

    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Whether there was a call since the one numbered `answered`.
    pub(crate) fn hear(&self, answered: u64) -> bool {
        self.calls.load(Ordering::Acquire) != answered
    }

    /// The last call's number, and its roll while somebody waits for it.
    pub(crate) fn current(&self) -> (u64, Option<Arc<Roll>>) {
        let current = self.current.lock().expect("nothing panics under this lock");
        (current.0, current.1.upgrade())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use scrubjay_base::time::Now;
    use scrubjay_io::driver::Name;

    use super::{Roll, RollCall, Row, State};
    use crate::counters::Control;

    fn row(descriptor: u64, state: State) -> Row {
        Row {
            name: Name {
                descriptor,
                ..Name::default()
            },
            state,
            last_active: Now::default(),
            last_asked: 0,
        }
    }

    fn read(roll: &Roll, from: u64, max: usize) -> (Vec<(u64, State)>, Option<u64>) {
        let mut rows = Vec::new();
        let next = roll.read(from, max, |row| rows.push((row.name.descriptor, row.state)));
        (rows, next)
    }

    #[test]
    fn a_roll_is_complete_when_every_worker_has_answered() {
        let (call, control) = (RollCall::default(), Control::default());
        assert!(call.is_complete(&call.call(&control)), "nobody is there");
        call.expect(2);
        assert!(call.hear(0));
        let roll = call.call(&control);
        assert!(
            Arc::ptr_eq(&roll, &call.call(&control)),
            "who asks meanwhile shares it"
        );
        let (number, found) = call.current();
        assert!(!call.hear(number) && found.is_some());
        roll.add([row(7, State::Waiting), row(9, State::New)].into_iter());
        roll.finish(&control);
        assert!(!call.is_complete(&roll));
        roll.add([row(7, State::Working)].into_iter());
        roll.finish(&control);
        assert!(call.is_complete(&roll));
        assert_eq!(read(&roll, 0, 1), (vec![(7, State::Working)], Some(9)));
        assert_eq!(read(&roll, 9, 1), (vec![(9, State::New)], None));
        assert!(!Arc::ptr_eq(&roll, &call.call(&control)), "a later one is new");
    }

    #[test]
    fn nobody_answers_who_has_gone_and_nobody_waits_for_workers_that_stop() {
        let (call, control) = (RollCall::default(), Control::default());
        call.expect(1);
        drop(call.call(&control));
        assert!(call.hear(0) && call.current().1.is_none());
        let roll = call.call(&control);
        call.end();
        assert!(call.is_complete(&roll));
    }
}
