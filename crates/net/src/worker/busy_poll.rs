//! Looking again instead of sleeping: whoever sleeps is woken late, by the time that the kernel takes to put a thread back on its
//! core. Looking costs the core, so it is done for a bounded time, and not at all while it does not pay.

use scrubjay_base::time::Now;

use self::comparison::Comparison;

mod comparison;

/// After as many times in vain it is not tried again until it would have paid.
const IN_VAIN_MAX: u32 = 8;

/// How long is looked where nobody said how long: more than being woken takes, on most machines.
const PATIENCE_OF_AUTO_MICROS: u32 = 50;

/// How long a worker looks for something to do again and again before it sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusyPoll {
    /// A while, as long as that takes less processor time than sleeping at once, which is compared now and then.
    Auto,
    /// So many microseconds; 0: not at all.
    Micros(u32),
}

/// Whether a worker looks again or sleeps.
#[derive(Debug)]
pub(super) struct Looking {
    rule: BusyPoll,
    /// Which of the two takes less, if that is to be found out.
    comparison: Option<Comparison>,
    /// How long is looked; 0: not at all.
    patience_nanos: u64,
    /// When there was something last.
    found_at: Now,
    looked_at: Now,
    /// Times that nothing came while it was looked, since something last came in such a time. It need not have been looked for:
    /// what comes soon after falling asleep says as well that looking pays.
    in_vain: u32,
}

impl Looking {
    pub(super) fn new(rule: BusyPoll) -> Looking {
        let (patience, comparison) = match rule {
            BusyPoll::Auto => (PATIENCE_OF_AUTO_MICROS, Some(Comparison::default())),
            BusyPoll::Micros(micros) => (micros, None),
        };
        Looking {
            rule,
            comparison,
            patience_nanos: u64::from(patience) * 1_000,
            found_at: Now::default(),
            looked_at: Now::default(),
            in_vain: 0,
        }
    }

    /// Goes by this rule from now on.
    pub(super) fn set_rule(&mut self, rule: BusyPoll) {
        if rule != self.rule {
            *self = Looking::new(rule);
        }
    }

    /// Whether to look once more, and not to sleep.
    #[inline]
    pub(super) fn looks_again(&self) -> bool {
        let waited = self.looked_at.nanos_since(self.found_at);
        waited < self.patience_nanos
            && self.in_vain < IN_VAIN_MAX
            && self.comparison.as_ref().is_none_or(Comparison::looks)
    }

    /// It was looked or slept until `now`, and something was there or not.
    #[inline]
    pub(super) fn note(&mut self, now: Now, found: bool) {
        let waited = now.nanos_since(self.found_at);
        match found {
            true if waited < self.patience_nanos => self.in_vain = 0,
            false if waited >= self.patience_nanos && self.looks_again() => self.in_vain += 1,
            _ => {}
        }
        self.looked_at = now;
        if found {
            self.found_at = now;
        }
    }

    /// A turn had so many bytes of requests. `processor_nanos` says how much of the processor this thread has had so far.
    #[inline]
    pub(super) fn note_work(&mut self, bytes: u64, processor_nanos: impl FnOnce() -> u64) {
        if let Some(comparison) = &mut self.comparison
            && bytes > 0
        {
            comparison.note(bytes, processor_nanos);
        }
    }
}

#[cfg(test)]
mod tests {
    use scrubjay_base::time::Now;

    use super::{BusyPoll, IN_VAIN_MAX, Looking};

    /// Looks every microsecond, if it looks, until something is there after `gap_micros`; how often it looked.
    fn looks(poll: &mut Looking, now_micros: &mut u64, gap_micros: u64) -> u64 {
        let mut count = 0;
        let due = *now_micros + gap_micros;
        while poll.looks_again() && *now_micros + 1 < due {
            *now_micros += 1;
            count += 1;
            poll.note(Now::from_nanos(*now_micros * 1_000), false);
        }
        *now_micros = due;
        poll.note(Now::from_nanos(due * 1_000), true);
        count
    }

    #[test]
    fn it_is_looked_while_that_pays_and_not_for_long_when_it_does_not() {
        let (mut poll, mut now) = (Looking::new(BusyPoll::Micros(50)), 0);
        let mut check = |gap: u64, expected: u64| {
            let looked = looks(&mut poll, &mut now, gap);
            assert_eq!(looked, expected, "something came after {gap} us");
        };
        (0..100).for_each(|_| check(40, 39));
        // Now nothing comes in time: a bounded number of attempts, then sleep at once.
        (0..IN_VAIN_MAX).for_each(|_| check(5_000, 50));
        (0..100).for_each(|_| check(5_000, 0));
        // One that comes soon after all shows that looking would pay.
        check(30, 0);
        check(30, 29);
        check(5_000, 50);
    }

    #[test]
    fn without_patience_it_sleeps_at_once() {
        let (mut poll, mut now) = (Looking::new(BusyPoll::Micros(0)), 0);
        assert!((0..100).all(|gap| looks(&mut poll, &mut now, gap + 1) == 0));
    }
}
