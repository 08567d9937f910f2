//! Whether a server is worth asking: one word that all threads share, without locks, clocks or sockets.
//!
//! A server is up until so many failures in a row; then it is down, and nobody asks it for an interval. After that one probe is
//! let through while all others are still refused; its success brings the server back, its failure starts another interval,
//! twice as long as the one before up to a bound. A server can also be set offline: it keeps its keys, and nobody asks it.
//!
//! Failures that overlap are one: a failure counts only if its request was sent after the last one that counted. So a
//! connection that breaks under a hundred requests is no more than one failure, and what was sent before a server went down
//! says nothing about it any more.

use std::time::Duration;

use scrubjay_base::sync::{AtomicU64, Ordering};

/// What a circuit is held to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// From so many failures in a row a server is down.
    pub(crate) failure_limit: u32,
    /// The same if the last of them was that no connection could be made.
    pub(crate) connect_failure_limit: u32,
    /// The first interval.
    pub(crate) interval: Duration,
    /// The longest interval.
    pub(crate) interval_max: Duration,
    /// From then on a probe is believed to be lost, and another one is let through.
    pub(crate) probe_max: Duration,
}

impl Limits {
    /// How long a server is left alone after so many probes have failed.
    fn interval(&self, probes: u32) -> Duration {
        let factor = 1u32 << probes.min(16);
        let longest = self.interval_max.max(self.interval);
        self.interval.saturating_mul(factor).min(longest)
    }
}

/// Whether a server may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It may.
    Ask,
    /// It may not, and the caller is to see to it that it is probed.
    Probe,
    /// It may not, for so long; [`Duration::MAX`] if it is offline.
    Refuse(Duration),
}

/// What a result has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The server is down, for so long at least.
    Down(Duration),
    /// The server is back.
    Up,
}

/// How a server stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is asked.
    Up,
    /// It is left alone after failures.
    Down,
    /// One probe is on its way; everybody else leaves it alone.
    Probing,
    /// It was set offline.
    Offline,
}

/// The circuit of one server. Moments are microseconds since any one moment, the same for all calls.
#[derive(Debug)]
pub(crate) struct Circuit {
    /// Written and read by all threads, always as a whole, by compare-and-swap but for being set on- and offline. It publishes
    /// nothing but itself, so every access is relaxed.
    word: AtomicU64,
}

/// The word in parts: two bits of state, 14 of count, 48 of a moment (eight years).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word {
    state: State,
    /// Up: failures in a row. Otherwise: probes that have failed since it went down.
    count: u32,
    /// Up: of the last failure that counted, or of the return. Down: when that began. Probing: when the probe was let through.
    since: u64,
}

const COUNT_MAX: u32 = (1 << 14) - 1;
const MOMENT_BITS: u32 = 48;

impl Word {
    fn unpack(word: u64) -> Word {
        Word {
            state: match word >> 62 {
                0 => State::Up,
                1 => State::Down,
                2 => State::Probing,
                _ => State::Offline,
            },
            count: (word >> MOMENT_BITS) as u32 & COUNT_MAX,
            since: word & ((1 << MOMENT_BITS) - 1),
        }
    }

    fn pack(self) -> u64 {
        let state = match self.state {
            State::Up => 0,
            State::Down => 1,
            State::Probing => 2,
            State::Offline => 3,
        };
        let count = u64::from(self.count.min(COUNT_MAX));
        state << 62 | count << MOMENT_BITS | self.since.min((1 << MOMENT_BITS) - 1)
    }
}

impl Circuit {
    /// Of a server of which nothing is known: it is up.
    pub(crate) fn new() -> Circuit {
        Circuit {
            word: AtomicU64::new(0),
        }
    }

    /// How it stands.
    pub(crate) fn state(&self) -> State {
        self.load().state
    }

    /// Whether the server may be asked now. Costs one load as long as it is up.
    pub(crate) fn admit(&self, now: u64, limits: &Limits) -> Admission {
        loop {
            let word = self.load();
            let wait = match word.state {
                State::Up => return Admission::Ask,
                State::Offline => return Admission::Refuse(Duration::MAX),
                State::Down => limits.interval(word.count),
                State::Probing => limits.probe_max,
            };
            let passed = Duration::from_micros(now.saturating_sub(word.since));
            if let Some(left) = wait.checked_sub(passed).filter(|left| !left.is_zero()) {
                return Admission::Refuse(left);
            }
            let probing = Word {
                state: State::Probing,
                since: now,
                ..word
            };
            if self.swap(word, probing) {
                return Admission::Probe;
            }
        }
    }

    /// The server has answered a request or probe that was sent then.
    pub(crate) fn succeeded(&self, sent: u64) -> Option<Change> {
        loop {
            let word = self.load();
            let up = Word {
                state: State::Up,
                count: 0,
                since: word.since,
            };
            match word.state {
                State::Up if word.count == 0 => return None,
                State::Up if self.swap(word, up) => return None,
                State::Probing if sent >= word.since => {
                    if self.swap(word, up) {
                        return Some(Change::Up);
                    }
                }
                State::Up => {}
                State::Probing | State::Down | State::Offline => return None,
            }
        }
    }

    /// A request or probe that was sent then has failed, now, and whether that was for want of a connection.
    pub(crate) fn failed(&self, sent: u64, now: u64, limits: &Limits, unconnected: bool) -> Option<Change> {
        let limit = match unconnected {
            true => limits.connect_failure_limit,
            false => limits.failure_limit,
        };
        loop {
            let word = self.load();
            let counted = match word.state {
                State::Up | State::Probing => sent >= word.since,
                State::Down | State::Offline => false,
            };
            if !counted {
                return None;
            }
            let count = word.count.saturating_add(1);
            let (state, count) = match word.state {
                State::Up if count < limit.min(COUNT_MAX) => (State::Up, count),
                State::Up => (State::Down, 0),
                _ => (State::Down, count),
            };
            let next = Word {
                state,
                count,
                since: now,
            };
            if self.swap(word, next) {
                return (state == State::Down).then(|| Change::Down(limits.interval(count)));
            }
        }
    }

    /// Sets it offline, or online again, as if nothing were known of it.
    pub(crate) fn set_offline(&self, offline: bool, now: u64) {
        let state = if offline { State::Offline } else { State::Up };
        let word = Word {
            state,
            count: 0,
            since: now,
        };
        if offline || self.state() == State::Offline {
            self.word.store(word.pack(), Ordering::Relaxed);
        }
    }

    fn load(&self) -> Word {
        Word::unpack(self.word.load(Ordering::Relaxed))
    }

    fn swap(&self, old: Word, new: Word) -> bool {
        self.word
            .compare_exchange(old.pack(), new.pack(), Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }
}

#[cfg(test)]
const LIMITS: Limits = Limits {
    failure_limit: 2,
    connect_failure_limit: 1,
    interval: Duration::from_micros(100),
    interval_max: Duration::from_micros(300),
    probe_max: Duration::from_micros(50),
};

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use proptest::{collection, prop_assert, prop_assert_eq, proptest};

    use super::{Admission, Change, Circuit, LIMITS, Limits, State};

    fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    fn down() -> Circuit {
        let circuit = Circuit::new();
        assert_eq!(circuit.failed(5, 10, &LIMITS, false), None);
        assert_eq!(
            circuit.failed(10, 20, &LIMITS, false),
            Some(Change::Down(micros(100)))
        );
        circuit
    }

    #[test]
    fn a_connection_that_cannot_be_made_has_a_limit_of_its_own() {
        let circuit = Circuit::new();
        assert_eq!(
            circuit.failed(5, 10, &LIMITS, true),
            Some(Change::Down(micros(100)))
        );
        let circuit = Circuit::new();
        let patient = Limits {
            failure_limit: 1,
            connect_failure_limit: 2,
            ..LIMITS
        };
        assert_eq!(circuit.failed(5, 10, &patient, true), None);
        assert!(circuit.failed(10, 20, &patient, false).is_some());
    }

    #[test]
    fn a_server_that_is_down_is_left_alone_until_one_probe_succeeds() {
        let circuit = down();
        assert_eq!(circuit.admit(20, &LIMITS), Admission::Refuse(micros(100)));
        assert_eq!(circuit.admit(119, &LIMITS), Admission::Refuse(micros(1)));
        assert_eq!(circuit.admit(120, &LIMITS), Admission::Probe);
        assert_eq!(circuit.admit(120, &LIMITS), Admission::Refuse(micros(50)));
        assert_eq!(circuit.state(), State::Probing);
        assert_eq!(circuit.succeeded(120), Some(Change::Up));
        assert_eq!(circuit.admit(121, &LIMITS), Admission::Ask);
    }

    #[test]
    fn each_failed_probe_doubles_the_interval_up_to_its_bound() {
        let circuit = down();
        let mut now = 120;
        for interval in [200, 300, 300] {
            assert_eq!(circuit.admit(now, &LIMITS), Admission::Probe);
            assert_eq!(
                circuit.failed(now, now, &LIMITS, false),
                Some(Change::Down(micros(interval)))
            );
            now += interval;
        }
    }

    #[test]
    fn a_probe_that_is_lost_is_followed_by_another() {
        let circuit = down();
        assert_eq!(circuit.admit(120, &LIMITS), Admission::Probe);
        assert_eq!(circuit.admit(169, &LIMITS), Admission::Refuse(micros(1)));
        assert_eq!(circuit.admit(170, &LIMITS), Admission::Probe);
        // The first one's result comes late.
        assert_eq!(circuit.succeeded(120), None);
        assert_eq!(circuit.state(), State::Probing);
    }

    #[test]
    fn failures_that_overlap_are_one() {
        let circuit = Circuit::new();
        for sent in 0..10 {
            assert_eq!(circuit.failed(sent, 10, &LIMITS, false), None, "sent at {sent}");
        }
        assert_eq!(circuit.succeeded(3), None);
        assert_eq!(
            circuit.failed(11, 12, &LIMITS, false),
            None,
            "a success came in between"
        );
        assert!(circuit.failed(12, 13, &LIMITS, false).is_some());
    }

    #[test]
    fn what_is_offline_stays_so_whatever_is_answered() {
        let circuit = Circuit::new();
        circuit.set_offline(true, 10);
        assert_eq!(circuit.succeeded(20), None);
        assert_eq!(circuit.failed(20, 30, &LIMITS, false), None);
        assert_eq!(
            circuit.admit(1_000_000, &LIMITS),
            Admission::Refuse(Duration::MAX)
        );
        circuit.set_offline(false, 40);
        assert_eq!(circuit.admit(40, &LIMITS), Admission::Ask);
        let circuit = down();
        circuit.set_offline(false, 40);
        assert_eq!(circuit.state(), State::Down, "it was not offline");
    }

    proptest! {
        /// A request is asked or refused; each result comes after any time and in any order. Two things hold of every history:
        /// nobody asks a server within an interval of its going down, and of an interval there is one probe at a time.
        #[test]
        fn nobody_asks_a_server_that_is_down(steps in collection::vec((0u8..4, 0u64..60), 1..300)) {
            let circuit = Circuit::new();
            let mut now = 0;
            let mut sent = Vec::new();
            let mut refused_until = 0;
            let mut probe = None;
            for (step, passed) in steps {
                now += passed;
                match step {
                    0 | 1 => match circuit.admit(now, &LIMITS) {
                        Admission::Ask => {
                            prop_assert!(probe.is_none());
                            sent.push(now);
                        }
                        Admission::Probe => {
                            prop_assert!(now >= refused_until);
                            prop_assert!(probe.is_none_or(|since| now >= since + 50));
                            probe = Some(now);
                            sent.push(now);
                        }
                        Admission::Refuse(left) => prop_assert!(!left.is_zero()),
                    },
                    step if !sent.is_empty() => {
                        let of = sent.swap_remove(passed as usize % sent.len());
                        let change = if step == 2 {
                            circuit.succeeded(of)
                        } else {
                            circuit.failed(of, now, &LIMITS, false)
                        };
                        match change {
                            Some(Change::Down(interval)) => {
                                refused_until = now + interval.as_micros() as u64;
                                probe = None;
                            }
                            Some(Change::Up) => {
                                prop_assert_eq!(probe, Some(of));
                                probe = None;
                            }
                            None => {}
                        }
                    }
                    _ => {}
                }
            }
        }
    }
}

/// Every interleaving, by loom: `RUSTFLAGS="--cfg loom" cargo test -p scrubjay-client --lib health`.
#[cfg(all(test, loom))]
mod models {
    use loom::sync::Arc;
    use loom::thread;

    use super::{Admission, Circuit, LIMITS, State};

    /// Two ask a server whose interval is over, while the result of an old request comes in.
    #[test]
    fn one_of_two_probes_and_an_old_result_changes_nothing() {
        loom::model(|| {
            let circuit = Arc::new(Circuit::new());
            circuit.failed(5, 10, &LIMITS, false);
            circuit.failed(10, 20, &LIMITS, false);
            let other = Arc::clone(&circuit);
            let task = thread::spawn(move || other.admit(120, &LIMITS));
            let late = Arc::clone(&circuit);
            let old = thread::spawn(move || (late.succeeded(15), late.failed(15, 120, &LIMITS, false)));
            let mine = circuit.admit(120, &LIMITS);
            let theirs = task.join().expect("no panic");
            assert_eq!(old.join().expect("no panic"), (None, None));
            let probes = [mine, theirs]
                .iter()
                .filter(|one| **one == Admission::Probe)
                .count();
            assert_eq!(probes, 1);
            assert_eq!(circuit.state(), State::Probing);
        });
    }

    /// Two failures one after the other, beside a success: down, or one failure counted after the success.
    #[test]
    fn a_server_goes_down_once() {
        loom::model(|| {
            let circuit = Arc::new(Circuit::new());
            let other = Arc::clone(&circuit);
            let task = thread::spawn(move || other.failed(30, 40, &LIMITS, false));
            let mine = circuit.failed(30, 40, &LIMITS, false);
            let theirs = task.join().expect("no panic");
            assert_eq!(mine.or(theirs), None, "they overlap");
            assert!(circuit.failed(40, 50, &LIMITS, false).is_some());
            assert_eq!(circuit.state(), State::Down);
        });
    }
}
