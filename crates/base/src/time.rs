//! Time as the whole project sees it: one monotonic moment, read once per loop turn and passed on.

/// A moment on the process's clock: nanoseconds since that clock's start. Never goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Now {
    nanos: u64,
}

impl Now {
    /// The moment `nanos` nanoseconds after the clock's start.
    pub const fn from_nanos(nanos: u64) -> Now {
        Now { nanos }
    }

    /// The moment `millis` milliseconds after the clock's start.
    pub const fn from_millis(millis: u64) -> Now {
        Now {
            nanos: millis * 1_000_000,
        }
    }

    /// The moment `secs` seconds after the clock's start.
    pub const fn from_secs(secs: u64) -> Now {
        Now {
            nanos: secs * 1_000_000_000,
        }
    }

    /// Nanoseconds since the clock's start.
    pub const fn nanos(self) -> u64 {
        self.nanos
    }

    /// Whole milliseconds since the clock's start.
    pub const fn millis(self) -> u64 {
        self.nanos / 1_000_000
    }

    /// Whole seconds since the clock's start.
    pub const fn secs(self) -> u64 {
        self.nanos / 1_000_000_000
    }

    /// This moment moved `nanos` nanoseconds into the future.
    pub const fn plus_nanos(self, nanos: u64) -> Now {
        Now {
            nanos: self.nanos + nanos,
        }
    }

    /// Nanoseconds from `earlier` to this moment; 0 if `earlier` is later.
    pub const fn nanos_since(self, earlier: Now) -> u64 {
        self.nanos.saturating_sub(earlier.nanos)
    }
}
