//! Where lock-free code takes its atomics from: the standard library, or loom when a model is being checked.

#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

/// Tells the processor (or the model checker) that this thread spins.
pub fn spin_loop() {
    #[cfg(not(loom))]
    std::hint::spin_loop();
    #[cfg(loom)]
    loom::thread::yield_now();
}

/// Lets another thread run.
pub fn yield_now() {
    #[cfg(not(loom))]
    std::thread::yield_now();
    #[cfg(loom)]
    loom::thread::yield_now();
}

/// Alone on its cache line, so that writers of neighbours do not slow its readers.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct OwnLine<T>(pub T);
