//! How long a reply is waited for before it is held to be lost: what round trips take, and four times how far they vary.
//! Source: RFC 6298, with bounds that fit a cache: who asks one would rather ask otherwise than wait.

use std::time::Duration;

/// Before the first reply.
const START: Duration = Duration::from_millis(100);
/// A busy machine's scheduler takes as long.
const MIN: Duration = Duration::from_millis(20);
const MAX: Duration = Duration::from_millis(1000);

/// Round trips, smoothed.
#[derive(Clone, Debug, Default)]
pub(super) struct Patience {
    mean: Option<Duration>,
    deviation: Duration,
    /// How often it was doubled since the last reply.
    doubled: u32,
}

impl Patience {
    /// How long to wait.
    pub(super) fn get(&self) -> Duration {
        let wanted = match self.mean {
            Some(mean) => mean + 4 * self.deviation,
            None => START,
        };
        (wanted.max(MIN) * 2u32.saturating_pow(self.doubled)).min(MAX)
    }

    /// A reply has come after so long.
    pub(super) fn answered(&mut self, after: Duration) {
        self.doubled = 0;
        let Some(mean) = self.mean else {
            (self.mean, self.deviation) = (Some(after), after / 2);
            return;
        };
        self.deviation = (3 * self.deviation + mean.abs_diff(after)) / 4;
        self.mean = Some((7 * mean + after) / 8);
    }

    /// None has come; it may be that they have become slow, so more time is given until one comes.
    pub(super) fn lost(&mut self) {
        // Six times is from the least to the most.
        self.doubled = (self.doubled + 1).min(6);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{MAX, MIN, Patience, START};

    #[test]
    fn patience_follows_round_trips_and_doubles_while_none_comes_back() {
        let mut patience = Patience::default();
        assert_eq!(patience.get(), START);
        for _ in 0..50 {
            patience.answered(Duration::from_micros(100));
        }
        assert_eq!(patience.get(), MIN);
        for _ in 0..100 {
            patience.lost();
        }
        assert_eq!(patience.get(), MAX);
        let long = Duration::from_millis(200);
        for _ in 0..50 {
            patience.answered(long);
        }
        assert!(
            (long..long * 3 / 2).contains(&patience.get()),
            "{:?}",
            patience.get()
        );
    }
}
