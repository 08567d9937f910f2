//! When to look for connections that nobody needs any more. They are closed by whoever asks something, of whatever server, and by the
//! client's own thread where there is one: a thread for this alone would be one more in every process.
//!
//! With several connections to a server, a request goes to the first of those with the least outstanding. So at low traffic the
//! first ones carry all of it, and the others are closed after a time.

use std::time::{Duration, Instant};

use scrubjay_base::sync::whole::{AtomicU64, Ordering};

/// So many looks in the time that a connection may be idle: it is closed at most a quarter late.
const LOOKS: u32 = 4;

/// Says when to look.
#[derive(Debug)]
pub(crate) struct Looks {
    /// After what time idle connections are closed; none: never.
    idle: Option<Duration>,
    origin: Instant,
    /// Microseconds from the origin to the next look. Written and read by all callers; it publishes nothing but itself.
    next: AtomicU64,
}

impl Looks {
    pub(crate) fn new(idle: Option<Duration>, origin: Instant) -> Looks {
        Looks {
            idle,
            origin,
            next: AtomicU64::new(0),
        }
    }

    /// For another one who looks.
    pub(crate) fn afresh(&self) -> Looks {
        Looks::new(self.idle, self.origin)
    }

    /// Whether it is time to look; then what is idle for longer than this is to be closed, and nobody else is told so.
    pub(crate) fn is_time(&self, now: Instant) -> Option<Duration> {
        let idle = self.idle?;
        let at = now.saturating_duration_since(self.origin).as_micros() as u64;
        let next = self.next.load(Ordering::Relaxed);
        if at < next {
            return None;
        }
        let later = at + (idle / LOOKS).as_micros() as u64;
        let mine = self
            .next
            .compare_exchange(next, later, Ordering::Relaxed, Ordering::Relaxed);
        mine.ok().map(|_| idle)
    }

    /// When to look next.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.idle?;
        Some(self.origin + Duration::from_micros(self.next.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::Looks;

    #[test]
    fn one_of_all_callers_looks_four_times_in_the_time_and_none_if_there_is_no_time() {
        let idle = Duration::from_secs(400);
        let origin = Instant::now();
        let looks = Looks::new(Some(idle), origin);
        let mut told = Vec::new();
        for second in 0..=400 {
            let now = origin + Duration::from_secs(second);
            for _ in 0..3 {
                if looks.is_time(now) == Some(idle) {
                    told.push(second);
                }
            }
            assert!(looks.next() > Some(now));
        }
        assert_eq!(told, [0, 100, 200, 300, 400]);
        let never = Looks::new(None, origin);
        assert_eq!((never.is_time(origin + idle), never.next()), (None, None));
    }
}
