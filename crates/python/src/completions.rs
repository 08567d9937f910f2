//! Replies on their way to an event loop: a list and one descriptor that becomes readable when it is no longer empty, so that a
//! loop is woken once for all that has come meanwhile.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::{Py, PyAny, PyResult, Python};
use rustix::event::{EventfdFlags, eventfd};

use crate::finish::{Finish, Outcome};

/// Where replies of one event loop wait.
#[derive(Debug)]
pub(crate) struct Completions {
    /// Makes a future of the loop.
    create_future: Py<PyAny>,
    queue: Arc<Queue>,
    /// Futures made and not taken yet. Only who holds the interpreter counts: relaxed is enough.
    waiting: AtomicUsize,
}

/// The part that the client's threads see; they never wait for the interpreter.
#[derive(Debug)]
pub(crate) struct Queue {
    list: Mutex<Vec<Completion>>,
    wake: OwnedFd,
}

/// A reply, and who waits for it.
#[derive(Debug)]
pub(crate) struct Completion {
    /// What the caller awaits.
    pub(crate) future: Py<PyAny>,
    /// What the caller was promised.
    pub(crate) finish: Finish,
    /// What came.
    pub(crate) outcome: Outcome,
}

impl Completions {
    /// For the loop whose `create_future` this is.
    pub(crate) fn new(create_future: Py<PyAny>) -> std::io::Result<Completions> {
        let queue = Queue {
            list: Mutex::new(Vec::new()),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        };
        Ok(Completions {
            create_future,
            queue: Arc::new(queue),
            waiting: AtomicUsize::new(0),
        })
    }

    /// What the loop is to watch.
    pub(crate) fn fd(&self) -> i32 {
        self.queue.wake.as_raw_fd()
    }

    /// A future of the loop.
    pub(crate) fn future(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let future = self.create_future.call0(py)?;
        self.waiting.fetch_add(1, Relaxed);
        Ok(future)
    }

    /// For those who complete.
    pub(crate) fn queue(&self) -> Arc<Queue> {
        Arc::clone(&self.queue)
    }

    /// How many futures have nothing yet.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Relaxed)
    }

    /// Everything that has come.
    pub(crate) fn take(&self) -> Vec<Completion> {
        let mut count = [0; 8];
        // Before the list is taken: what comes between the two wakes the loop once more. Nothing to read is no error either.
        let _ = rustix::io::read(&self.queue.wake, &mut count);
        let list = std::mem::take(&mut *self.queue.list.lock().unwrap_or_else(PoisonError::into_inner));
        self.waiting.fetch_sub(list.len(), Relaxed);
        list
    }
}

impl Queue {
    /// Adds a completion, and wakes the loop if it is the first.
    pub(crate) fn push(&self, completion: Completion) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        let first = list.is_empty();
        list.push(completion);
        drop(list);
        if first {
            // Only a counter that is full would refuse; then the loop is awake.
            let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
        }
    }
}
