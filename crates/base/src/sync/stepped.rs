//! Atomics of the standard library with a point before each access at which the thread may be preempted.
//!
//! The engine lays its atomics over zeroed memory of a mapping, where a model checker's own types cannot be; so these are
//! the real ones, and shuttle only decides who runs. All threads of a model run on one thread of the operating system: what
//! is found is what some order of the accesses does, not what a machine's weak order of memory does, which is loom's part.

use std::cell::Cell;
use std::sync::atomic as real;
use std::sync::atomic::Ordering;

thread_local! {
    /// Points that are passed before the running thread is preempted.
    static LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
}

/// Lets whoever runs pass `points` points; at the next one it is preempted. `u64::MAX`: never.
pub fn preempt_after(points: u64) {
    LEFT.set(points);
}

/// Points that the running thread passes before it is preempted: at 0 it gives way because it has to, else because it waits.
pub fn points_left() -> u64 {
    LEFT.get()
}

/// A point at which the running thread may be preempted.
pub fn point() {
    match LEFT.get() {
        u64::MAX => {}
        0 => give_way(),
        left => LEFT.set(left - 1),
    }
}

/// Another thread goes on, if one can.
pub(super) fn give_way() {
    // While a failed model unwinds, its threads are not scheduled any more.
    if !std::thread::panicking() {
        shuttle::thread::yield_now();
    }
}

/// A fence, which orders nothing more between threads that run one at a time.
pub fn fence(order: Ordering) {
    point();
    real::fence(order);
}

/// The part that all atomics have, numbers or not.
macro_rules! atomic {
    ($($name:ident of $inner:ty),*) => {$(
        /// As the standard library's, with a point before each access.
        #[derive(Debug, Default)]
        #[repr(transparent)]
        pub struct $name(real::$name);

        #[expect(missing_docs, reason = "as in the standard library")]
        impl $name {
            pub const fn new(value: $inner) -> Self {
                Self(real::$name::new(value))
            }

            pub fn load(&self, order: Ordering) -> $inner {
                point();
                self.0.load(order)
            }

            pub fn store(&self, value: $inner, order: Ordering) {
                point();
                self.0.store(value, order);
            }

            pub fn swap(&self, value: $inner, order: Ordering) -> $inner {
                point();
                self.0.swap(value, order)
            }

            pub fn compare_exchange(
                &self,
                current: $inner,
                new: $inner,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$inner, $inner> {
                point();
                self.0.compare_exchange(current, new, success, failure)
            }

            pub fn compare_exchange_weak(
                &self,
                current: $inner,
                new: $inner,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$inner, $inner> {
                self.compare_exchange(current, new, success, failure)
            }

            pub fn fetch_or(&self, value: $inner, order: Ordering) -> $inner {
                point();
                self.0.fetch_or(value, order)
            }

            pub fn fetch_update(
                &self,
                set_order: Ordering,
                fetch_order: Ordering,
                mut change: impl FnMut($inner) -> Option<$inner>,
            ) -> Result<$inner, $inner> {
                let mut seen = self.load(fetch_order);
                while let Some(next) = change(seen) {
                    match self.compare_exchange(seen, next, set_order, fetch_order) {
                        Ok(before) => return Ok(before),
                        Err(other) => seen = other,
                    }
                }
                Err(seen)
            }
        }
    )*};
}

/// What only numbers have.
macro_rules! arithmetic {
    ($($name:ident of $inner:ty),*) => {$(
        #[expect(missing_docs, reason = "as in the standard library")]
        impl $name {
            pub fn fetch_add(&self, value: $inner, order: Ordering) -> $inner {
                point();
                self.0.fetch_add(value, order)
            }

            pub fn fetch_sub(&self, value: $inner, order: Ordering) -> $inner {
                point();
                self.0.fetch_sub(value, order)
            }

            pub fn fetch_max(&self, value: $inner, order: Ordering) -> $inner {
                point();
                self.0.fetch_max(value, order)
            }
        }
    )*};
}

atomic!(AtomicBool of bool, AtomicU16 of u16, AtomicU32 of u32, AtomicU64 of u64);
atomic!(AtomicUsize of usize, AtomicI32 of i32, AtomicI64 of i64);
arithmetic!(AtomicU16 of u16, AtomicU32 of u32, AtomicU64 of u64);
arithmetic!(AtomicUsize of usize, AtomicI32 of i32, AtomicI64 of i64);
