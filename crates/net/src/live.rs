//! Settings that may change while workers use them. Each worker has a copy of its own, and looks once a turn whether that is the
//! newest: a load of a word that hardly ever changes. A lock is taken by those who find that it is not.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The newest of a kind of settings.
#[derive(Debug)]
pub struct Live<T> {
    /// Raised under the lock of `value` when that is replaced; workers compare it with what they saw.
    generation: AtomicU64,
    value: Mutex<T>,
}

/// A worker's copy.
#[derive(Debug)]
pub(crate) struct Seen<T> {
    generation: u64,
    value: T,
}

impl<T: Clone> Live<T> {
    /// Settings to start with.
    pub fn new(value: T) -> Arc<Live<T>> {
        Arc::new(Live {
            generation: AtomicU64::new(0),
            value: Mutex::new(value),
        })
    }

    /// Replaces them. Workers that sleep see that when they are woken, by [`Control::wake_all`](crate::Control::wake_all).
    pub fn set(&self, value: T) {
        let mut newest = self.value.lock().expect("nothing panics under this lock");
        *newest = value;
        self.generation.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn see(&self) -> Seen<T> {
        let newest = self.value.lock().expect("nothing panics under this lock");
        Seen {
            generation: self.generation.load(Ordering::Relaxed),
            value: newest.clone(),
        }
    }
}

impl<T> Seen<T> {
    /// Another number after each change.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }
}

impl<T: Clone> Seen<T> {
    /// Takes over what is newer; whether there was anything.
    #[inline]
    pub(crate) fn renew(&mut self, live: &Live<T>) -> bool {
        let is_old = live.generation.load(Ordering::Relaxed) != self.generation;
        if is_old {
            *self = live.see();
        }
        is_old
    }
}

impl<T> Deref for Seen<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

#[cfg(test)]
mod tests {
    use super::Live;

    #[test]
    fn a_copy_is_renewed_once_for_each_change() {
        let live = Live::new(1);
        let mut seen = live.see();
        assert!(!seen.renew(&live) && *seen == 1);
        live.set(2);
        live.set(3);
        assert_eq!(*seen, 1);
        assert!(seen.renew(&live) && *seen == 3);
        assert!(!seen.renew(&live));
    }
}
