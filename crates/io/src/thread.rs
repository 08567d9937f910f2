//! Threads, by name.

use std::io;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// Runs every task on a thread of its own with the given name and returns their results, in order, when all have ended.
///
/// # Panics
/// If no thread can be started, or if a task panicked.
pub fn run_all<R: Send>(tasks: Vec<(String, impl FnOnce() -> R + Send)>) -> Vec<R> {
    run_beside(tasks, || ()).0
}

/// As [`run_all`], and runs `own` on this thread meanwhile.
///
/// # Panics
/// As `run_all`.
pub fn run_beside<R: Send, O>(
    tasks: Vec<(String, impl FnOnce() -> R + Send)>,
    own: impl FnOnce() -> O,
) -> (Vec<R>, O) {
    std::thread::scope(|scope| {
        let threads: Vec<_> = tasks
            .into_iter()
            .map(|(name, task)| {
                let thread = std::thread::Builder::new().name(name).spawn_scoped(scope, task);
                thread.expect("the operating system starts a thread")
            })
            .collect();
        let own = own();
        let results = threads
            .into_iter()
            .map(|thread| thread.join().expect("a task does not panic"))
            .collect();
        (results, own)
    })
}

/// How long a thread rests.
const REST: Duration = Duration::from_micros(100);

/// Sleeps 100 us, so that whoever is waited for gets a processor: who yields instead stays in line before it.
pub fn rest() {
    std::thread::sleep(REST);
}

/// The cores that this thread may run on.
pub fn cores() -> Vec<usize> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else {
        return Vec::new();
    };
    (0..rustix::thread::CpuSet::MAX_CPU)
        .filter(|core| set.is_set(*core))
        .collect()
}

/// Keeps this thread, and what it starts from now on, on `cores`.
///
/// # Errors
/// None of them is there or allowed.
pub fn stay_on(cores: &[usize]) -> io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// This thread's number, as the kernel lists it below the process.
pub fn id() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}

/// Nanoseconds that this thread has been running.
pub fn cpu_nanos() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Has this thread run on what the others leave of the cores, from now on.
pub fn give_way() {
    const LOWEST: i32 = 19;
    // No process: on Linux that is this thread. Nobody is refused to go lower.
    let _ = rustix::process::setpriority_process(None, LOWEST);
}

/// Has this thread woken within a few microseconds of the moment it waits for, where the kernel would let it sleep fifty
/// longer to save energy.
pub fn wake_precisely() {
    // Where that is not possible, waiting is less precise and nothing else.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

/// Starts a thread that runs on its own until the process ends.
///
/// # Errors
/// The operating system starts no more threads.
pub fn spawn(name: &str, task: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(task)
        .map(drop)
}

/// A thread's alarm clock: it waits for a time or until another thread rings.
#[derive(Debug, Default)]
pub struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    /// Ends the present or next wait at once, for good.
    pub fn ring(&self) {
        *self.rung.lock().expect("nothing panics under this lock") = true;
        self.changed.notify_all();
    }

    /// Waits for `at_most`; whether the bell was rung.
    pub fn wait(&self, at_most: Duration) -> bool {
        let rung = self.rung.lock().expect("nothing panics under this lock");
        let waited = self.changed.wait_timeout_while(rung, at_most, |rung| !*rung);
        *waited.expect("nothing panics under this lock").0
    }
}
