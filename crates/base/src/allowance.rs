//! How much somebody may still ask, where a rate is set: one word, shared by all threads (GCRA, the "virtual scheduling" of ATM).
//!
//! The word is the moment at which all that was taken is paid for: each request moves it on by the time that the rate gives one.
//! Who has taken nothing for long has a burst at once, a tenth of a second's worth: what belongs to one page often comes in a
//! bunch, and nobody takes much more than the rate in any second. What is taken beyond that is owed, and waited for.

use crate::sync::{AtomicU64, Ordering};
use crate::time::Now;

/// Bursts in a second: each is that part of a second's requests, at least one.
const BURSTS_PER_SECOND: u64 = 10;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Bits of the word that tell by which rate it was last written.
const GENERATION_BITS: u32 = 4;

/// The last moment that fits in the word: after 36 years.
const NANOS_MAX: u64 = u64::MAX >> GENERATION_BITS;

/// Requests a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    per_second: u64,
    generation: u64,
}

impl Rate {
    /// So many a second; `None` for 0, which is no limit. What is owed by a rate of another `generation` is forgiven: whoever
    /// changes a rate gives it the next.
    pub fn new(per_second: u32, generation: u64) -> Option<Rate> {
        (per_second > 0).then_some(Rate {
            per_second: per_second.into(),
            generation: generation & ((1 << GENERATION_BITS) - 1),
        })
    }

    /// Requests that may come at once when nothing was taken for long.
    pub fn burst(self) -> u64 {
        (self.per_second / BURSTS_PER_SECOND).max(1)
    }

    /// Nanoseconds in which so many requests are given, rounded up: never more is given than the rate.
    fn nanos_of(self, requests: u64) -> u64 {
        requests
            .saturating_mul(NANOS_PER_SECOND)
            .div_ceil(self.per_second)
    }

    /// How far ahead what is paid for may be when a request is allowed.
    fn nanos_ahead(self) -> u64 {
        (self.burst() - 1) * NANOS_PER_SECOND / self.per_second
    }
}

/// What somebody may still ask. Written by whoever takes of it, read by whoever is about to; it publishes nothing.
#[derive(Debug)]
pub struct Allowance(AtomicU64);

impl Default for Allowance {
    fn default() -> Allowance {
        Allowance(AtomicU64::new(0))
    }
}

impl Allowance {
    /// From when on a request is allowed: a moment that is not after `now` if that is at once. A load.
    pub fn opens_at(&self, rate: Rate, now: Now) -> Now {
        let paid_at = Allowance::paid_at(self.0.load(Ordering::Relaxed), rate, now);
        Now::from_nanos(paid_at.saturating_sub(rate.nanos_ahead()))
    }

    /// Takes so many requests, whether they are there or not; returns from when on the first of them is allowed. Of all the
    /// moments that are returned for one request each, no second has more than the rate and a burst.
    pub fn take(&self, rate: Rate, now: Now, requests: u64) -> Now {
        let cost = rate.nanos_of(requests);
        let moved = |word| {
            let paid_at = Allowance::paid_at(word, rate, now).saturating_add(cost);
            Some(paid_at.min(NANOS_MAX) << GENERATION_BITS | rate.generation)
        };
        let before = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, moved)
            .unwrap_or_else(|word| word);
        let paid_at = Allowance::paid_at(before, rate, now);
        Now::from_nanos(paid_at.saturating_sub(rate.nanos_ahead()))
    }

    /// Whether it is as if nothing had ever been taken, whatever the rate.
    pub fn is_full(&self, now: Now) -> bool {
        self.0.load(Ordering::Relaxed) >> GENERATION_BITS <= now.nanos()
    }

    /// When all that was taken is paid for; `now` if it is.
    fn paid_at(word: u64, rate: Rate, now: Now) -> u64 {
        let is_of_rate = word & ((1 << GENERATION_BITS) - 1) == rate.generation;
        match is_of_rate {
            true => (word >> GENERATION_BITS).max(now.nanos()),
            false => now.nanos(),
        }
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::{Allowance, NANOS_PER_SECOND, Rate};
    use crate::time::Now;

    fn rate(per_second: u32) -> Rate {
        Rate::new(per_second, 0).expect("it is a limit")
    }

    fn is_open(allowance: &Allowance, rate: Rate, now: Now) -> bool {
        allowance.opens_at(rate, now) <= now
    }

    /// Takes requests at `now` until there are no more, at most `most`; returns how many there were.
    fn take_all(allowance: &Allowance, rate: Rate, now: Now, most: u64) -> u64 {
        let allowed = (0..most).take_while(|_| {
            let is_allowed = is_open(allowance, rate, now);
            if is_allowed {
                assert!(allowance.take(rate, now, 1) <= now);
            }
            is_allowed
        });
        allowed.count() as u64
    }

    #[test]
    fn a_rate_gives_a_burst_at_once_and_then_so_many_a_second() {
        for (per_second, burst) in [
            (1, 1),
            (7, 1),
            (10, 1),
            (100, 10),
            (1_000, 100),
            (1_000_000, 100_000),
        ] {
            let (rate, allowance) = (rate(per_second), Allowance::default());
            let start = Now::from_secs(5);
            assert_eq!(rate.burst(), burst);
            assert_eq!(
                take_all(&allowance, rate, start, 2 * burst),
                burst,
                "{per_second}"
            );
            assert!(!is_open(&allowance, rate, start));
            // In steps of a millisecond for two seconds.
            let given: u64 = (1..=2_000)
                .map(|ms| take_all(&allowance, rate, start.plus_nanos(ms * 1_000_000), u64::MAX))
                .sum();
            let expected = 2 * u64::from(per_second);
            assert!(given <= expected + 1, "{per_second}: {given}");
            assert!((given + 1) * 1_000 >= expected * 999, "{per_second}: {given}");
        }
    }

    #[test]
    fn what_is_taken_together_is_waited_for_together() {
        let (rate, allowance) = (rate(100), Allowance::default());
        let now = Now::from_secs(1);
        assert!(allowance.is_full(now));
        assert_eq!(allowance.take(rate, now, 30), Now::from_millis(910));
        assert!(!allowance.is_full(now));
        // 30 taken, 10 are there at once: the next is allowed when 21 have been given.
        assert_eq!(allowance.opens_at(rate, now), Now::from_millis(1_210));
        assert_eq!(allowance.take(rate, now, 1), Now::from_millis(1_210));
        assert_eq!(allowance.take(rate, now, 1), Now::from_millis(1_220));
        assert!(allowance.is_full(Now::from_millis(1_320)));
    }

    #[test]
    fn another_rate_forgives_what_is_owed() {
        let (now, allowance) = (Now::from_secs(1), Allowance::default());
        let before = rate(1);
        allowance.take(before, now, 1_000_000);
        assert!(!is_open(&allowance, before, Now::from_secs(900_000)));
        let after = Rate::new(1, 1).expect("it is a limit");
        assert!(is_open(&allowance, after, now));
        allowance.take(after, now, 1);
        assert_eq!(allowance.opens_at(after, now), Now::from_secs(2));
        assert_eq!(Rate::new(0, 1), None);
    }

    #[test]
    fn no_amount_taken_overflows() {
        let (rate, allowance) = (rate(1), Allowance::default());
        for _ in 0..3 {
            allowance.take(rate, Now::from_secs(1), u64::MAX);
        }
        assert!(!is_open(&allowance, rate, Now::from_secs(1_000_000)));
    }

    /// A number below `bound` (splitmix64).
    fn draw(chance: &mut u64, bound: u64) -> u64 {
        *chance = chance.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*chance ^ (*chance >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    #[test]
    fn no_span_of_time_is_given_more_than_the_rate_and_a_burst() {
        for seed in 0..300 {
            let chance = &mut (seed << 32);
            let rate = rate(1 + draw(chance, 2_000) as u32);
            let allowance = Allowance::default();
            let pause = 1 + 3 * NANOS_PER_SECOND / rate.per_second;
            let mut now = Now::from_secs(1);
            let mut given: Vec<Now> = (0..400)
                .map(|_| {
                    now = now.plus_nanos(draw(chance, pause) * draw(chance, 2));
                    allowance.take(rate, now, 1).max(now)
                })
                .collect();
            given.sort_unstable();
            for (index, first) in given.iter().enumerate() {
                for (count, last) in given[index..].iter().enumerate().skip(1) {
                    let most = last.nanos_since(*first) * rate.per_second / NANOS_PER_SECOND + rate.burst();
                    assert!((count as u64) < most, "seed {seed}: more than {most}");
                }
            }
        }
    }
}

/// Every interleaving of threads that take, by loom.
#[cfg(all(test, loom))]
mod models {
    use loom::sync::Arc;
    use loom::thread;

    use super::{Allowance, Rate};
    use crate::time::Now;

    #[test]
    fn threads_that_take_at_once_are_given_different_moments() {
        loom::model(|| {
            let rate = Rate::new(10, 3).expect("it is a limit");
            let allowance = Arc::new(Allowance::default());
            let takers: Vec<_> = (0..2)
                .map(|thread| {
                    let allowance = Arc::clone(&allowance);
                    thread::spawn(move || {
                        [0, 30].map(|later| {
                            let now = Now::from_millis(1_000 + later + thread);
                            allowance.take(rate, now, 1).max(now)
                        })
                    })
                })
                .collect();
            let mut given: Vec<Now> = takers
                .into_iter()
                .flat_map(|taker| taker.join().expect("it ends"))
                .collect();
            given.sort_unstable();
            for pair in given.windows(2) {
                assert!(pair[1].nanos_since(pair[0]) >= 100_000_000, "{given:?}");
            }
        });
    }
}
