//! How fast items go, and how far they are: the rate that the user allows, and the bar that says what is done.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};

/// Batches in a second of a rate: so many small steps instead of a large one.
const STEPS_PER_SEC: u64 = 20;

/// Between two drawings of the bar.
const DRAWN_EVERY: Duration = Duration::from_millis(200);

/// Lets so many items a second pass, over all threads.
#[derive(Debug)]
pub(crate) struct Pace {
    rate: Option<u64>,
    next: Mutex<Instant>,
}

impl Pace {
    /// As fast as it goes without a rate.
    pub(crate) fn new(rate: Option<u64>) -> Pace {
        Pace {
            rate,
            next: Mutex::new(Instant::now()),
        }
    }

    /// The largest batch that still goes evenly.
    pub(crate) fn batch_max(&self, wanted: usize) -> usize {
        let fair = self.rate.map_or(u64::MAX, |rate| (rate / STEPS_PER_SEC).max(1));
        wanted.min(usize::try_from(fair).unwrap_or(usize::MAX))
    }

    /// Waits until so many items may pass.
    pub(crate) fn wait(&self, items: usize) {
        let Some(rate) = self.rate else { return };
        let now = Instant::now();
        let start = {
            let mut next = self.next.lock().expect("nothing panics under it");
            // Time in which nobody came is not made up for.
            let start = (*next).max(now);
            *next = start + Duration::from_secs_f64(items as f64 / rate as f64);
            start
        };
        std::thread::sleep(start - now);
    }
}

/// A bar on a terminal; elsewhere nothing.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Of so many items, if that is known.
    pub(crate) fn new(items: Option<u64>) -> Progress {
        let (bar, template) = match items {
            Some(items) => (
                ProgressBar::new(items),
                "{human_pos} of {human_len} items, {msg}, {per_sec:0}, {eta} left {wide_bar}",
            ),
            None => (ProgressBar::no_length(), "{human_pos} items, {msg}, {per_sec:0}"),
        };
        bar.set_style(ProgressStyle::with_template(template).expect("a template that we wrote"));
        bar.enable_steady_tick(DRAWN_EVERY);
        Progress { bar }
    }

    /// So much has gone through.
    pub(crate) fn note(&self, items: u64, bytes: u64) {
        self.bar.set_position(items);
        self.bar.set_message(HumanBytes(bytes).to_string());
    }

    /// Leaves the line to what is said next.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
