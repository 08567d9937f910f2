//! Waking a driver's `wait` from another thread.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

/// Wakes a driver's `wait` from any thread.
#[derive(Clone, Debug)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    pub(super) fn new() -> io::Result<Waker> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Waker(Arc::new(eventfd(0, flags)?)))
    }

    /// Makes the driver's next or present `wait` return. Safe to call in a signal handler.
    pub fn wake(&self) {
        // A full counter wakes as well.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }

    /// The wake-ups so far are noticed.
    pub(super) fn clear(&self) {
        // Nothing to read: nobody woke it.
        let _ = rustix::io::read(&*self.0, &mut [0; 8]);
    }

    pub(super) fn fd(&self) -> impl AsFd {
        self.0.as_fd()
    }
}
