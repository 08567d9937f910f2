//! Where lock-free code takes its atomics and locks from: the standard library, or a model checker.
//!
//! Under `cfg(loom)` the types here are loom's, for single parts that are checked under every interleaving. Under
//! `cfg(shuttle)` every access is a point at which another thread may go on, for the engine as a whole: see `stepped.rs`.

#[cfg(not(any(loom, shuttle)))]
pub use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

#[cfg(shuttle)]
mod stepped;
#[cfg(shuttle)]
pub use stepped::{AtomicU16, AtomicU32, AtomicU64, fence, point, points_left, preempt_after};
#[cfg(shuttle)]
pub use whole::Ordering;

/// For code that is checked as part of the whole engine only: loom knows nothing of it.
pub mod whole {
    #[cfg(not(shuttle))]
    pub use std::sync::{
        Mutex, MutexGuard, TryLockError,
        atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    };
    #[cfg(not(shuttle))]
    pub use std::thread::{self, Thread};

    #[cfg(shuttle)]
    pub use super::stepped::{
        AtomicBool, AtomicI32, AtomicI64, AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
    };
    #[cfg(shuttle)]
    pub use shuttle::sync::{Mutex, MutexGuard, TryLockError};
    #[cfg(shuttle)]
    pub use shuttle::thread::{self, Thread};
    #[cfg(shuttle)]
    pub use std::sync::atomic::Ordering;
}

/// Tells the processor (or the model checker) that this thread spins.
pub fn spin_loop() {
    #[cfg(not(any(loom, shuttle)))]
    std::hint::spin_loop();
    #[cfg(any(loom, shuttle))]
    yield_now();
}

/// Lets another thread run.
pub fn yield_now() {
    #[cfg(not(any(loom, shuttle)))]
    std::thread::yield_now();
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(shuttle)]
    stepped::give_way();
}

/// Alone on its cache line, so that writers of neighbours do not slow its readers.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct OwnLine<T>(pub T);
