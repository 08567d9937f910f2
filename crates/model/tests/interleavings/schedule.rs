//! Who runs when: schedules that follow from a number alone, so that a number repeats a failure.

use std::cell::{Cell, RefCell};
use std::sync::Once;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use scrubjay_base::sync::{points_left, preempt_after};
use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

/// Times that threads may give way in one run before it counts as one that does not end.
const STEPS_MAX: usize = 3_000_000;

const STACK_BYTES: usize = 512 << 10;

/// Longest stretch that a thread runs without a preemption, as a power of two of the accesses in it: from a single access
/// to some segments emptied.
const STRETCH_BITS: u32 = 14;

thread_local! {
    static RUN: Cell<u64> = const { Cell::new(0) };
    /// What to say when a thread of the run panics: how to repeat it.
    static REPEAT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs `model` once for each of `seeds`, with stretches of random lengths between preemptions.
pub fn at_random(seeds: impl Iterator<Item = u64> + 'static, model: impl Fn(u64) + Send + Sync + 'static) {
    say_when_panicking();
    let scheduler = Random {
        seeds: Box::new(seeds),
        random: StdRng::seed_from_u64(0),
    };
    Runner::new(scheduler, config()).run(move || model(RUN.get()));
}

/// Runs `model` once for each of `accesses` (ascending), with the first thread preempted at its access of that number, as
/// far as it makes so many; then the others run to their end, or to where they wait for it, before it goes on. Returns
/// how many runs that were. `shown` says what the runs do.
pub fn at_accesses(
    accesses: impl Iterator<Item = u64> + 'static,
    shown: &str,
    model: impl Fn() + Send + Sync + 'static,
) -> u64 {
    say_when_panicking();
    let scheduler = OnePreemption {
        accesses: Box::new(accesses),
        shown: shown.to_owned(),
        access: 0,
        preempted: true,
    };
    Runner::new(scheduler, config()).run(model) as u64
}

/// Any thread's panic is followed by how to repeat its run. All of a run are on one thread of the operating system.
fn say_when_panicking() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            before(panic);
            REPEAT.with_borrow(|repeat| eprintln!("{repeat}"));
        }));
    });
}

/// The threads of the model are about to start: preemptions from here on.
pub fn start() {
    preempt_after(0);
}

/// Only one thread is left: no preemptions any more.
pub fn stop() {
    preempt_after(u64::MAX);
}

fn config() -> Config {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.failure_persistence = FailurePersistence::None;
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    config.silence_warnings = true;
    config
}

/// Another than `current` if there is one.
fn others(runnable: &[&Task], current: Option<TaskId>) -> Vec<TaskId> {
    let all = runnable.iter().map(|task| task.id());
    let others: Vec<TaskId> = all.filter(|task| Some(*task) != current).collect();
    if others.is_empty() {
        runnable.iter().map(|task| task.id()).collect()
    } else {
        others
    }
}

fn may_stay(runnable: &[&Task], current: Option<TaskId>, is_yielding: bool) -> Option<TaskId> {
    current.filter(|current| !is_yielding && runnable.iter().any(|task| task.id() == *current))
}

struct Random {
    seeds: Box<dyn Iterator<Item = u64>>,
    random: StdRng,
}

impl Scheduler for Random {
    fn new_execution(&mut self) -> Option<Schedule> {
        let seed = self.seeds.next()?;
        RUN.set(seed);
        REPEAT.set(format!("repeat this run with SCRUBJAY_INTERLEAVING={seed}"));
        self.random = StdRng::seed_from_u64(seed);
        preempt_after(u64::MAX);
        Some(Schedule::new(seed))
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        if let Some(current) = may_stay(runnable, current, is_yielding) {
            return Some(current);
        }
        if is_yielding {
            let bits = self.random.random_range(0..=STRETCH_BITS);
            preempt_after(self.random.random_range(0..1 << bits));
        }
        let others = others(runnable, current);
        Some(others[self.random.random_range(0..others.len())])
    }

    fn next_u64(&mut self) -> u64 {
        self.random.random()
    }
}

struct OnePreemption {
    accesses: Box<dyn Iterator<Item = u64>>,
    shown: String,
    access: u64,
    /// The last run was long enough for its preemption.
    preempted: bool,
}

impl Scheduler for OnePreemption {
    fn new_execution(&mut self) -> Option<Schedule> {
        if !self.preempted {
            return None;
        }
        self.access = self.accesses.next()?;
        REPEAT.set(format!(
            "{} at access {}; the same test comes here again",
            self.shown, self.access
        ));
        self.preempted = false;
        preempt_after(u64::MAX);
        Some(Schedule::new(self.access))
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        if let Some(current) = may_stay(runnable, current, is_yielding) {
            return Some(current);
        }
        // Thread 0 builds, starts the others and waits; 1 is the one that is preempted.
        let first = TaskId::from(1);
        if current == Some(TaskId::from(0)) && runnable.iter().any(|task| task.id() == first) {
            preempt_after(self.access);
            return Some(first);
        }
        if current == Some(first) && is_yielding && !self.preempted {
            if points_left() > 0 {
                // It waits: nobody else has begun, so it is for what comes of itself.
                return current;
            }
            self.preempted = true;
            preempt_after(u64::MAX);
        }
        others(runnable, current).first().copied()
    }

    fn next_u64(&mut self) -> u64 {
        0
    }
}
