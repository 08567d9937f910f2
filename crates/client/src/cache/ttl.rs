//! How long items live, said so that nobody falls into memcached's traps: 0 is for ever, and more than 30 days is a date.

use std::time::{Duration, SystemTime};

use crate::value::Choice;

/// From one second more on, memcached takes an exptime for a date.
const RELATIVE_SECS_MAX: u64 = 30 * 24 * 60 * 60;

/// memcached reads exptimes as 32 bits with sign: dates up to January 2038.
const EXPTIME_MAX: u64 = i32::MAX as u64;

/// How it is said that an item has expired already.
const EXPIRED: i64 = -1;

/// How long an item lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ttl {
    /// Until it is evicted or removed.
    #[default]
    Forever,
    /// So long from now, in whole seconds, rounded up; zero: it has expired already. Any length is right: beyond 30 days it is
    /// sent as a date by this machine's clock.
    After(Duration),
    /// Until then, by this machine's clock and the server's; a time that has passed: it has expired already.
    Until(SystemTime),
}

impl From<Duration> for Ttl {
    fn from(duration: Duration) -> Ttl {
        Ttl::After(duration)
    }
}

impl From<SystemTime> for Ttl {
    fn from(time: SystemTime) -> Ttl {
        Ttl::Until(time)
    }
}

impl Ttl {
    /// As the protocol says it. What ends after January 2038, which memcached cannot be told, lives for ever.
    pub fn exptime(self) -> i64 {
        match self {
            // The clock is not asked where it does not matter.
            Ttl::Forever => 0,
            Ttl::After(duration) if secs_up(duration) <= RELATIVE_SECS_MAX => self.exptime_at(0),
            Ttl::After(_) | Ttl::Until(_) => self.exptime_at(unix_secs(SystemTime::now())),
        }
    }

    fn exptime_at(self, now_secs: u64) -> i64 {
        let date = match self {
            Ttl::Forever => return 0,
            Ttl::After(Duration::ZERO) => return EXPIRED,
            Ttl::After(duration) => match secs_up(duration) {
                secs @ ..=RELATIVE_SECS_MAX => return secs as i64,
                secs => now_secs.saturating_add(secs),
            },
            Ttl::Until(time) => match unix_secs(time) {
                past if past <= now_secs => return EXPIRED,
                date => date,
            },
        };
        if date > EXPTIME_MAX { 0 } else { date as i64 }
    }
}

fn secs_up(duration: Duration) -> u64 {
    let more = u64::from(duration.subsec_nanos() > 0);
    duration.as_secs().saturating_add(more)
}

/// Whole seconds since 1970; 0 before.
fn unix_secs(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// How a value is put into the cache. Made of a [`Ttl`] or a [`Duration`] where nothing else matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Put {
    /// How long it lives.
    pub ttl: Ttl,
    /// Whether it is compressed.
    pub choice: Choice,
    /// The reply is not waited for: what goes wrong on the way is counted, not told.
    pub quiet: bool,
}

impl<T: Into<Ttl>> From<T> for Put {
    fn from(ttl: T) -> Put {
        Put {
            ttl: ttl.into(),
            ..Put::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::Ttl;

    #[test]
    fn no_length_of_life_becomes_another() {
        const NOW: u64 = 1_800_000_000;
        const DAY: u64 = 24 * 60 * 60;
        let after = |secs| Ttl::After(Duration::from_secs(secs));
        let until = |secs| Ttl::Until(SystemTime::UNIX_EPOCH + Duration::from_secs(secs));
        for (ttl, exptime) in [
            (Ttl::Forever, 0),
            (after(0), -1),
            (Ttl::After(Duration::from_nanos(1)), 1),
            (Ttl::After(Duration::from_millis(1_001)), 2),
            (after(30 * DAY), 2_592_000),
            (Ttl::After(Duration::from_millis(2_592_000_001)), 1_802_592_001),
            (after(31 * DAY), 1_802_678_400),
            (after(347_483_647), i64::from(i32::MAX)),
            (after(347_483_648), 0),
            (after(u64::MAX), 0),
            (Ttl::After(Duration::MAX), 0),
            (until(0), -1),
            (until(60), -1),
            (until(NOW), -1),
            (until(NOW + 1), 1_800_000_001),
            (until(1 << 40), 0),
            (Ttl::Until(SystemTime::UNIX_EPOCH - Duration::from_secs(5)), -1),
        ] {
            assert_eq!(ttl.exptime_at(NOW), exptime, "{ttl:?}");
        }
    }

    #[test]
    fn exptimes_hold_by_the_real_clock_too() {
        let month = Duration::from_secs(40 * 24 * 60 * 60);
        assert_eq!(Ttl::from(Duration::from_secs(60)).exptime(), 60);
        assert!(Ttl::from(month).exptime() > 1_700_000_000);
        assert!(Ttl::from(SystemTime::now() + month).exptime() > 1_700_000_000);
        assert_eq!(Ttl::from(SystemTime::now() - month).exptime(), -1);
    }
}
