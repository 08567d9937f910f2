//! How long a call may take.

use std::time::{Duration, Instant};

/// From when to when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) since: Instant,
    pub(crate) until: Instant,
}

impl Patience {
    pub(crate) fn new(since: Instant, time: Duration) -> Patience {
        // A time beyond what the clock can tell is as good as a year.
        let far = since + Duration::from_secs(365 * 86_400);
        Patience {
            since,
            until: since.checked_add(time).unwrap_or(far).min(far),
        }
    }

    /// The same, but no longer than so long from now on.
    pub(crate) fn at_most(&self, time: Option<Duration>) -> Patience {
        match time {
            None => *self,
            Some(time) => Patience {
                since: self.since,
                until: Patience::new(Instant::now(), time).until.min(self.until),
            },
        }
    }

    pub(crate) fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    pub(crate) fn is_over(&self) -> bool {
        self.left().is_zero()
    }

    /// All of it.
    pub(crate) fn total(&self) -> Duration {
        self.until - self.since
    }
}
