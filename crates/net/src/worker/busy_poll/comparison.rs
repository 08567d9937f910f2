//! Whether looking again takes less processor time than sleeping at once, found out by doing both.
//!
//! What a sleep takes cannot be told beforehand. It is little on a machine whose cores never halt, much on a virtual one, more when
//! the caches are cold afterwards, and part of it is paid by whoever wakes. So turns are counted in stretches: in most of them the
//! worker does what took less processor time for a byte of requests, in one now and then the other. These get rarer while they
//! confirm what is known, so that what they waste is a small part of the whole.

/// Turns that make a stretch.
const TURNS: u32 = 128;

/// Most stretches from one trial to the next.
const STRETCHES_MAX: u32 = 512;

/// From one trial to the next where something else is asked than before.
const STRETCHES_AT_CHANGE: u32 = 16;

/// So many times as much as before for the same: something has changed.
const CHANGED: f64 = 1.5;

/// How much one stretch counts in the mean.
const WEIGHT: f64 = 0.25;

/// What is done, and what each of both takes.
#[derive(Debug)]
pub(super) struct Comparison {
    /// Whether it is looked in this stretch.
    looks: bool,
    /// Whether that is what has taken less.
    looking_is_better: bool,
    /// Nanoseconds of the processor that this takes for a byte of requests, if it is known.
    cost: Option<f64>,
    /// Of this stretch.
    turns: u32,
    bytes: u64,
    /// How much of the processor this thread had had when it began.
    began_nanos: u64,
    /// Stretches from one trial to the next, and how many of them are left.
    interval: u32,
    left: u32,
}

impl Default for Comparison {
    fn default() -> Comparison {
        Comparison {
            looks: false,
            looking_is_better: false,
            cost: None,
            turns: 0,
            bytes: 0,
            began_nanos: 0,
            interval: 1,
            left: 1,
        }
    }
}

impl Comparison {
    /// Whether to look now.
    #[inline]
    pub(super) fn looks(&self) -> bool {
        self.looks
    }

    /// A turn had `bytes` of requests.
    #[inline]
    pub(super) fn note(&mut self, bytes: u64, processor_nanos: impl FnOnce() -> u64) {
        self.turns += 1;
        self.bytes += bytes;
        if self.turns == TURNS {
            self.end_stretch(processor_nanos());
        }
    }

    fn end_stretch(&mut self, now_nanos: u64) {
        // The first one began at an unknown time.
        if self.began_nanos > 0 {
            let cost = now_nanos.saturating_sub(self.began_nanos) as f64 / self.bytes as f64;
            self.judge(cost);
        }
        (self.turns, self.bytes, self.began_nanos) = (0, 0, now_nanos);
    }

    /// The stretch that ends took so much for a byte; says what is done in the next.
    fn judge(&mut self, cost: f64) {
        if self.looks != self.looking_is_better {
            return self.end_trial(cost);
        }
        self.left -= 1;
        match self.cost {
            Some(before) if cost > before * CHANGED => {
                // What is known may not be so any more.
                self.cost = Some(cost);
                self.interval = self.interval.min(STRETCHES_AT_CHANGE);
                self.left = self.left.min(self.interval);
            }
            before => self.cost = Some(before.map_or(cost, |before| before + (cost - before) * WEIGHT)),
        }
        if self.left == 0 {
            self.looks = !self.looking_is_better;
        }
    }

    /// What was tried took so much.
    fn end_trial(&mut self, cost: f64) {
        if self.cost.is_some_and(|better| cost < better) {
            self.looking_is_better = self.looks;
            self.cost = Some(cost);
            self.interval = STRETCHES_AT_CHANGE;
        } else {
            self.interval = (self.interval * 2).min(STRETCHES_MAX);
        }
        (self.looks, self.left) = (self.looking_is_better, self.interval);
    }
}

#[cfg(test)]
mod tests {
    use super::{Comparison, STRETCHES_AT_CHANGE, STRETCHES_MAX, TURNS};

    /// Turns of a hundred bytes that take so much, sleeping and looking; in how many it was looked, and what all took.
    fn turns(comparison: &mut Comparison, clock: &mut u64, count: u32, nanos: [u64; 2]) -> (u32, u64) {
        let (mut looked, began) = (0, *clock);
        for _ in 0..count {
            looked += u32::from(comparison.looks());
            *clock += nanos[usize::from(comparison.looks())];
            comparison.note(100, || *clock);
        }
        (looked, *clock - began)
    }

    #[test]
    fn what_takes_less_is_done_and_the_other_is_tried_ever_more_rarely() {
        for (nanos, looking) in [([30_000, 24_000], true), ([30_000, 50_000], false)] {
            let (mut comparison, mut clock) = (Comparison::default(), 1);
            turns(&mut comparison, &mut clock, 4 * TURNS, nanos);
            assert_eq!(comparison.looking_is_better, looking);
            turns(&mut comparison, &mut clock, 2 * STRETCHES_MAX * TURNS, nanos);
            let count = 100 * STRETCHES_MAX * TURNS;
            let (looked, taken) = turns(&mut comparison, &mut clock, count, nanos);
            let others = if looking { count - looked } else { looked };
            assert!(
                (90 * TURNS..=101 * TURNS).contains(&others),
                "{others} of {count}"
            );
            let best = u64::from(count) * nanos[0].min(nanos[1]);
            assert!(taken - best < best / 100);
        }
    }

    #[test]
    fn a_change_is_noticed() {
        let (mut comparison, mut clock) = (Comparison::default(), 1);
        turns(&mut comparison, &mut clock, 1_000 * TURNS, [30_000, 24_000]);
        assert!(comparison.looking_is_better);
        // Requests come further apart: looking for them takes longer.
        let within = (STRETCHES_AT_CHANGE + 4) * TURNS;
        turns(&mut comparison, &mut clock, within, [30_000, 70_000]);
        assert!(!comparison.looking_is_better);
        // What does not show in what is done is found by the next trial.
        turns(
            &mut comparison,
            &mut clock,
            (STRETCHES_MAX + 2) * TURNS,
            [30_000, 20_000],
        );
        assert!(comparison.looking_is_better);
    }

    #[test]
    fn where_nothing_takes_any_time_it_is_slept() {
        let (mut comparison, mut clock) = (Comparison::default(), 0);
        let (looked, _) = turns(&mut comparison, &mut clock, 10_000 * TURNS, [0, 0]);
        assert_eq!(looked, 0);
    }
}
