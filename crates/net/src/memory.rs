//! What connections hold of memory, and may hold: input that is not a whole request yet, replies that peers do not take.
//!
//! Workers count; whoever keeps the books of the whole process sets the bound and asks for replies to be copied out when
//! slow peers keep too much of the cache's own memory from being used again.

use std::sync::atomic::{AtomicU64, Ordering};

/// The books of all workers' connections.
#[derive(Debug)]
pub struct Memory {
    /// Raised and lowered by workers when what a connection holds has changed.
    held: AtomicU64,
    /// Set by the keeper of the books.
    limit: AtomicU64,
    /// How often copies were asked for; workers compare it with what they saw last.
    copies_asked: AtomicU64,
    /// Connections closed because they would have held more than there is.
    kicks: AtomicU64,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory {
            held: AtomicU64::new(0),
            limit: AtomicU64::new(u64::MAX),
            copies_asked: AtomicU64::new(0),
            kicks: AtomicU64::new(0),
        }
    }
}

impl Memory {
    /// Bytes that connections hold.
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Sets how many bytes connections may hold; one that wants more when they do is closed.
    pub fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// Asks workers to copy what waits to be sent from memory that belongs to the service. Wake them after.
    pub(crate) fn ask_for_copies(&self) {
        self.copies_asked.fetch_add(1, Ordering::Release);
    }

    /// Connections closed for want of memory since the start.
    pub fn kicks(&self) -> u64 {
        self.kicks.load(Ordering::Relaxed)
    }

    pub(crate) fn copies_asked(&self) -> u64 {
        self.copies_asked.load(Ordering::Acquire)
    }

    /// A connection holds `now` bytes where it held `before`; `false` if it has to go for that.
    pub(crate) fn note(&self, before: u64, now: u64) -> bool {
        if now <= before {
            if now < before {
                self.held.fetch_sub(before - now, Ordering::Relaxed);
            }
            return true;
        }
        let held = self.held.fetch_add(now - before, Ordering::Relaxed) + now - before;
        let fits = held <= self.limit.load(Ordering::Relaxed);
        if !fits {
            self.kicks.fetch_add(1, Ordering::Relaxed);
        }
        fits
    }
}
