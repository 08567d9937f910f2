//! The clock: one monotonic reading per loop turn, and the wall clock once, at start.

use std::cell::Cell;
use std::rc::Rc;

use rustix::time::{ClockId, clock_gettime};
use scrubjay_base::time::Now;

/// Counts from its creation, through suspend (CLOCK_BOOTTIME); never goes back.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start_nanos: u64,
    unix_millis_at_start: u64,
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Clock {
        Clock {
            start_nanos: nanos(ClockId::Boottime),
            unix_millis_at_start: nanos(ClockId::Realtime) / 1_000_000,
        }
    }

    /// The present moment. Cost: one vDSO call.
    pub fn now(&self) -> Now {
        Now::from_nanos(nanos(ClockId::Boottime) - self.start_nanos)
    }

    /// Unix time in milliseconds when the clock started.
    pub fn unix_millis_at_start(&self) -> u64 {
        self.unix_millis_at_start
    }
}

/// Processor time that this thread has used, in nanoseconds. Cost: a system call.
pub fn thread_cpu_nanos() -> u64 {
    nanos(ClockId::ThreadCPUTime)
}

fn nanos(id: ClockId) -> u64 {
    let time = clock_gettime(id);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A clock that stands still until it is moved; for simulation.
#[derive(Clone, Debug, Default)]
pub struct SimClock {
    now: Rc<Cell<Now>>,
}

impl SimClock {
    /// The present moment.
    pub fn now(&self) -> Now {
        self.now.get()
    }

    /// Moves the clock `nanos` nanoseconds on.
    pub fn advance(&self, nanos: u64) {
        self.now.set(self.now.get().plus_nanos(nanos));
    }
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::{Clock, SimClock};

    #[test]
    fn a_clock_starts_at_zero_and_never_goes_back() {
        let clock = Clock::start();
        let mut last = clock.now();
        assert!(last.secs() < 60);
        for _ in 0..10_000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        assert!(
            unix.as_millis()
                .abs_diff(u128::from(clock.unix_millis_at_start()))
                < 60_000
        );
    }

    #[test]
    fn a_simulated_clock_moves_when_told_for_all_who_hold_it() {
        let clock = SimClock::default();
        let other = clock.clone();
        clock.advance(1_500_000_000);
        clock.advance(1);
        assert_eq!(other.now().nanos(), 1_500_000_001);
    }
}
