//! Looking for a reply again and again, for a short time, before sleeping until it comes. A processor whose only thread sleeps goes
//! idle, and to wake it again can take longer than the server needs: on virtual machines 60 us against 20. Between two looks
//! the thread gives way, so that a server on the same processor runs at once, and so does whoever else has work there.
//!
//! A look that found nothing in its time costs, so reads that sleep at once follow it: one more doubling of them after each in a
//! row, which is what a server far away gets; and as many as the microseconds by which the time was overrun, because then
//! others want the processor, and it was they who were waited for.

use std::io::{ErrorKind, Result};
use std::time::{Duration, Instant};

use scrubjay_base::sync::whole::{AtomicU32, Ordering};
use scrubjay_base::sync::yield_now;

/// Most reads that sleep at once after looking in vain, but for those by which an overrun is made good.
const PAUSE_MAX: u32 = 64;
/// For so many requests that are asked together it is looked as long again: a server answers some hundred in the time of one.
const SPAN_REQUESTS: usize = 64;
/// But never longer than so many times: deadlines are not looked at meanwhile.
const SPANS_MAX: usize = 8;
/// Most reads that sleep at once after an overrun.
const OVERRUN_MAX: u32 = 10_000;

/// How often who sleeps while another one reads gives way before: by then the reply is there as a rule, if the others are many.
/// With 16 threads of Python on two cores, 2, 4, 8 and 16 times make 1.4, 1.4, 1.6 and 1.4 times as many requests of none.
const GIVE_WAY_MAX: usize = if cfg!(shuttle) { 1 } else { 8 };

/// What looking has come to.
#[derive(Debug)]
pub(crate) struct Look<T> {
    pub(crate) found: Option<T>,
    /// By how much the time was exceeded: then it was in vain, even if something was found at last.
    pub(crate) overrun: Option<Duration>,
}

/// Looks until something is found or the time is over, and gives way in between.
pub(crate) fn look<T>(span: Duration, mut look: impl FnMut() -> Option<T>) -> Look<T> {
    let mut start = None;
    loop {
        let found = look();
        let took = start.map_or(Duration::ZERO, |start: Instant| start.elapsed());
        let overrun = took.checked_sub(span);
        if found.is_some() || overrun.is_some() {
            return Look { found, overrun };
        }
        start.get_or_insert_with(Instant::now);
        yield_now();
    }
}

/// How long is looked before sleeping, and when.
#[derive(Debug)]
pub(crate) struct Spin {
    span: Duration,
    /// Reads that are to sleep at once. It and the next are read and written by whoever is the reader, or by all who give way, of whom
    /// one may undo what another counts: a pause is some times longer or shorter then. They publish nothing.
    pause: AtomicU32,
    /// Times in a row that were in vain, as the pause that follows the next.
    penalty: AtomicU32,
}

impl Spin {
    /// None at all if the span is zero.
    pub(crate) fn new(span: Duration) -> Spin {
        Spin {
            span,
            pause: AtomicU32::new(0),
            penalty: AtomicU32::new(1),
        }
    }

    /// What `receive_now` gives, unless that is nothing ([`ErrorKind::WouldBlock`]) for the whole time, or now is no time to look.
    /// Who is alone says how many requests are unanswered; others do not look.
    pub(super) fn receive(
        &self,
        alone: Option<usize>,
        mut receive_now: impl FnMut() -> Result<usize>,
    ) -> Option<Result<usize>> {
        let unanswered = alone.filter(|_| self.is_time())?;
        let look = look(self.span(unanswered), || {
            let received = receive_now();
            let found = !matches!(&received, Err(error) if error.kind() == ErrorKind::WouldBlock);
            found.then_some(received)
        });
        self.note(look.overrun);
        look.found
    }

    /// Gives way a few times, until it is called, for one who is about to sleep until then. Threads of the same process that have
    /// their replies may run meanwhile, which is what it is for; so only much more time than a look has is an overrun, and paid for
    /// like one: others want the processor then.
    pub(super) fn give_way(&self, mut is_called: impl FnMut() -> bool) {
        if !self.is_time() {
            return;
        }
        let start = Instant::now();
        for _ in 0..GIVE_WAY_MAX {
            yield_now();
            if is_called() {
                break;
            }
        }
        self.note(start.elapsed().checked_sub(self.span * SPANS_MAX as u32));
    }

    /// Whether to look before this read. Who does tells what came of it.
    pub(crate) fn is_time(&self) -> bool {
        !self.span.is_zero() && !self.is_paused()
    }

    /// What came of it: in vain if it took longer than the time there is, by so much.
    pub(crate) fn note(&self, overrun: Option<Duration>) {
        match overrun {
            None => self.penalty.store(1, Ordering::Relaxed),
            Some(overrun) => self.failed(overrun),
        }
    }

    /// How long to look while so many requests are unanswered.
    pub(crate) fn span(&self, unanswered: usize) -> Duration {
        self.span * (1 + unanswered / SPAN_REQUESTS).min(SPANS_MAX) as u32
    }

    fn is_paused(&self) -> bool {
        let pause = self.pause.load(Ordering::Relaxed);
        self.pause.store(pause.saturating_sub(1), Ordering::Relaxed);
        pause > 0
    }

    fn failed(&self, overrun: Duration) {
        let penalty = self.penalty.load(Ordering::Relaxed);
        let overrun = u32::try_from(overrun.as_micros())
            .unwrap_or(u32::MAX)
            .min(OVERRUN_MAX);
        self.pause.store(penalty + overrun, Ordering::Relaxed);
        self.penalty
            .store((penalty * 2).min(PAUSE_MAX), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Result};
    use std::time::Duration;

    use super::{GIVE_WAY_MAX, OVERRUN_MAX, PAUSE_MAX, Spin};

    /// How often it looks at a socket on which nothing comes.
    fn looks(spin: &Spin, wanted: bool) -> usize {
        let mut looks = 0;
        let nothing = || -> Result<usize> {
            looks += 1;
            Err(ErrorKind::WouldBlock.into())
        };
        assert!(spin.receive(wanted.then_some(1), nothing).is_none());
        looks
    }

    fn pause(spin: &Spin) -> u32 {
        (0..).take_while(|_| spin.is_paused()).count() as u32
    }

    #[test]
    fn nothing_is_looked_at_without_a_span_or_when_others_wait() {
        assert_eq!(looks(&Spin::new(Duration::ZERO), true), 0);
        assert_eq!(looks(&Spin::new(Duration::from_secs(3600)), false), 0);
    }

    #[test]
    fn many_requests_are_looked_for_longer_in_bounds() {
        let spin = Spin::new(Duration::from_micros(50));
        for (unanswered, times) in [(0, 1), (1, 1), (63, 1), (64, 2), (100, 2), (448, 8), (1024, 8)] {
            assert_eq!(spin.span(unanswered), Duration::from_micros(50) * times);
        }
    }

    #[test]
    fn who_is_about_to_sleep_gives_way_until_it_is_called_in_bounds() {
        let looks = |spin: &Spin, called_at: usize| {
            let mut looks = 0;
            spin.give_way(|| {
                looks += 1;
                looks == called_at
            });
            looks
        };
        let spin = Spin::new(Duration::from_secs(3600));
        for called_at in 1..=GIVE_WAY_MAX {
            assert_eq!(looks(&spin, called_at), called_at);
        }
        assert_eq!(looks(&spin, usize::MAX), GIVE_WAY_MAX);
        assert_eq!(looks(&Spin::new(Duration::ZERO), 1), 0, "it is not wanted");
        // As if somebody else had had the processor meanwhile.
        let spin = Spin::new(Duration::from_nanos(1));
        assert_eq!((looks(&spin, 1), looks(&spin, 1)), (1, 0));
        assert!(pause(&spin) < OVERRUN_MAX);
    }

    #[test]
    fn what_comes_in_time_is_given_and_so_are_errors() {
        let spin = Spin::new(Duration::from_secs(3600));
        let mut left = 3;
        let received = spin.receive(Some(1), || {
            left -= 1;
            if left > 0 {
                return Err(ErrorKind::WouldBlock.into());
            }
            Ok(5)
        });
        assert_eq!(received.expect("it came").ok(), Some(5));
        let received = spin.receive(Some(1), || Err(ErrorKind::ConnectionReset.into()));
        let error = received.expect("it came").expect_err("it is an error");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }

    #[test]
    fn the_pause_after_looking_in_vain_doubles_until_something_comes() {
        let spin = Spin::new(Duration::from_secs(3600));
        for times in 0..10 {
            spin.failed(Duration::ZERO);
            assert_eq!(pause(&spin), PAUSE_MAX.min(1 << times));
        }
        assert!(spin.receive(Some(1), || Ok(1)).is_some());
        spin.failed(Duration::ZERO);
        assert_eq!((looks(&spin, true), pause(&spin)), (0, 0));
    }

    #[test]
    fn an_overrun_is_made_good_in_bounds() {
        let spin = Spin::new(Duration::from_secs(3600));
        spin.failed(Duration::from_millis(3));
        assert_eq!(pause(&spin), 1 + 3000);
        spin.failed(Duration::from_secs(1));
        assert_eq!(pause(&spin), 2 + OVERRUN_MAX);
    }
}
