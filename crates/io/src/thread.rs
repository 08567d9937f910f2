//! Threads, by name.

use std::io;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// Runs every task on a thread of its own with the given name and returns their results, in order, when all have ended.
///
/// # Panics
/// If no thread can be started, or if a task panicked.
pub fn run_all<R: Send>(tasks: Vec<(String, impl FnOnce() -> R + Send)>) -> Vec<R> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = tasks
            .into_iter()
            .map(|(name, task)| {
                let thread = std::thread::Builder::new().name(name).spawn_scoped(scope, task);
                thread.expect("the operating system starts a thread")
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("a task does not panic"))
            .collect()
    })
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
