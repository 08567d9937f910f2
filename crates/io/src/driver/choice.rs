//! Which of the real drivers a process uses.

use std::fmt;
use std::io;

use super::epoll::Epoll;
use super::uring::Uring;
use crate::clock::Clock;

/// A real driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// By epoll: works everywhere.
    Epoll,
    /// By io_uring: Linux 6.1, where nothing forbids it.
    Uring,
}

/// Drivers for all workers, of one kind.
pub enum Drivers {
    /// By epoll.
    Epoll(Vec<Epoll>),
    /// By io_uring.
    Uring(Vec<Uring>),
}

/// Drivers, and why they are not of the kind that would be better.
pub struct Opened {
    /// The drivers.
    pub drivers: Drivers,
    /// What forbids io_uring here, if it was tried and is not used.
    pub refusal: Option<io::Error>,
}

impl Kind {
    /// Its name in options and statistics.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Epoll => "epoll",
            Kind::Uring => "io_uring",
        }
    }

    /// The kind of this name.
    pub fn of_name(name: &str) -> Option<Kind> {
        [Kind::Epoll, Kind::Uring]
            .into_iter()
            .find(|kind| kind.name() == name)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl Drivers {
    /// What they are.
    pub fn kind(&self) -> Kind {
        match self {
            Drivers::Epoll(_) => Kind::Epoll,
            Drivers::Uring(_) => Kind::Uring,
        }
    }
}

/// Open files that a process is to be allowed so that `wanted` of them are not scarce to any driver.
pub fn files_with_room(wanted: u64) -> u64 {
    // The last quarter counts as scarce.
    wanted + wanted / 3 + 1
}

/// Most files, connections mostly, that `workers` drivers can have between them in a process that may open `files`: io_uring's
/// have slots of their own besides. Cost: opens such a driver to see whether it works here.
pub fn files_max(asked: Option<Kind>, workers: usize, files: u64) -> u64 {
    let has_slots = || Uring::new(Clock::start()).is_ok_and(|driver| driver.has_slots());
    if asked != Some(Kind::Epoll) && has_slots() {
        files.saturating_mul(workers as u64)
    } else {
        files
    }
}

/// Opens `count` drivers: of the kind `asked` for, or of the better one that works here.
///
/// # Errors
/// The kind that was asked for does not work here, or there are no descriptors left.
pub fn open(asked: Option<Kind>, count: usize, clock: Clock) -> io::Result<Opened> {
    let epoll = || (0..count).map(|_| Epoll::new(clock)).collect::<io::Result<_>>();
    let uring = || (0..count).map(|_| Uring::new(clock)).collect::<io::Result<_>>();
    let (drivers, refusal) = match asked {
        Some(Kind::Epoll) => (Drivers::Epoll(epoll()?), None),
        Some(Kind::Uring) => (Drivers::Uring(uring()?), None),
        None => match uring() {
            Ok(drivers) => (Drivers::Uring(drivers), None),
            Err(error) => (Drivers::Epoll(epoll()?), Some(error)),
        },
    };
    Ok(Opened { drivers, refusal })
}
