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
