//! The clock: one monotonic reading per loop turn, and the wall clock once, at start.

use std::cell::Cell;
use std::io;
use std::path::Path;
use std::rc::Rc;

use rustix::time::{ClockId, clock_gettime};
use scrubjay_base::time::Now;

/// Longest text that a boot's number is read from.
const BOOT_ID_LEN_MAX: usize = 64;

/// Counts from its creation, through suspend (CLOCK_BOOTTIME); never goes back.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// CLOCK_BOOTTIME when it stood at zero, which may be before the boot.
    start_nanos: u64,
    unix_millis_at_start: u64,
    started: Now,
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Clock {
        Clock {
            start_nanos: nanos(ClockId::Boottime),
            unix_millis_at_start: nanos(ClockId::Realtime) / 1_000_000,
            started: Now::default(),
        }
    }

    /// The clock of another process goes on: it stood at zero at this Unix time in milliseconds, and `latest` was read from
    /// it. It shows what the wall clock says has passed since, never less than `latest`.
    pub fn resume(unix_millis_at_start: u64, latest: Now) -> Clock {
        let wall = nanos(ClockId::Realtime).saturating_sub(unix_millis_at_start.saturating_mul(1_000_000));
        let started = latest.max(Now::from_nanos(wall));
        Clock {
            start_nanos: nanos(ClockId::Boottime).wrapping_sub(started.nanos()),
            unix_millis_at_start,
            started,
        }
    }

    /// The present moment. Cost: one vDSO call.
    pub fn now(&self) -> Now {
        Now::from_nanos(nanos(ClockId::Boottime).wrapping_sub(self.start_nanos))
    }

    /// What it showed when this process got it: zero, unless it was resumed.
    pub fn started(&self) -> Now {
        self.started
    }

    /// Unix time in milliseconds when the clock stood at zero.
    pub fn unix_millis_at_start(&self) -> u64 {
        self.unix_millis_at_start
    }
}

/// The number that the kernel has drawn for this boot: what lies in memory is of no use to another.
///
/// # Errors
/// The kernel does not tell, or in no way that is known.
pub fn boot_id() -> io::Result<[u8; 16]> {
    let text = crate::file::read(Path::new("/proc/sys/kernel/random/boot_id"), BOOT_ID_LEN_MAX)?;
    let mut digits = text.iter().filter_map(|&byte| char::from(byte).to_digit(16));
    let mut id = [0; 16];
    for byte in &mut id {
        let pair = digits.next().zip(digits.next());
        let (high, low) = pair.ok_or(io::ErrorKind::InvalidData)?;
        *byte = (high << 4 | low) as u8;
    }
    Ok(id)
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

    use super::{Clock, SimClock, boot_id};
    use scrubjay_base::time::Now;

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
    fn a_resumed_clock_goes_on_where_the_wall_clock_says_and_never_back() {
        let first = Clock::start();
        let hour_ago = first.unix_millis_at_start() - 3_600_000;
        let resumed = Clock::resume(hour_ago, Now::from_secs(5));
        assert!((3_600..3_660).contains(&resumed.now().secs()));
        assert_eq!(resumed.unix_millis_at_start(), hour_ago);
        assert!(resumed.started() <= resumed.now());
        // As if the wall clock had been set back by a day.
        let ahead = Clock::resume(hour_ago, Now::from_secs(90_000));
        assert!((90_000..90_060).contains(&ahead.now().secs()));
        assert_eq!(ahead.started(), Now::from_secs(90_000));
        assert_eq!(first.started(), Now::default());
    }

    #[test]
    fn a_boot_has_one_number() {
        let id = boot_id().expect("Linux tells");
        assert_ne!(id, [0; 16]);
        assert_eq!(boot_id().expect("again"), id);
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
