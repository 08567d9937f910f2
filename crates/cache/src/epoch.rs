//! Quiescent-state reclamation: memory that was unlinked is used again only after every worker has passed a moment at
//! which it held nothing. Reads pay nothing for it.
//!
//! A worker announces the current epoch between operations and 0 while it sleeps. A reclaimer unlinks, takes a new epoch
//! with [`Epochs::retire`], and may recycle once [`Epochs::passed`] says that every awake worker has announced it.

use scrubjay_base::sync::{AtomicU64, Ordering, OwnLine, fence};

use crate::cache::Cache;

/// Announced by a worker that holds nothing and will not look before it announces again.
const ASLEEP: u64 = 0;

/// The epochs of all workers.
#[derive(Debug)]
pub(crate) struct Epochs {
    /// Raised by reclaimers, read by workers.
    current: OwnLine<AtomicU64>,
    /// One per worker, written by that worker only, read by reclaimers.
    announced: Box<[OwnLine<AtomicU64>]>,
}

impl Epochs {
    pub(crate) fn new(workers_max: usize) -> Epochs {
        Epochs {
            current: OwnLine(AtomicU64::new(1)),
            announced: (0..workers_max)
                .map(|_| OwnLine(AtomicU64::new(ASLEEP)))
                .collect(),
        }
    }

    /// Worker `index` is awake and holds nothing now.
    pub(crate) fn announce(&self, index: usize) {
        let slot = &self.announced[index].0;
        let waking = slot.load(Ordering::Relaxed) == ASLEEP;
        // Acquire: what was unlinked before this epoch is seen as unlinked. Release: what this worker read before is read.
        slot.store(self.current.0.load(Ordering::Acquire), Ordering::Release);
        if waking {
            // Pairs with the fences in `retire` and `passed`: either the reclaimer sees this worker awake, or this worker
            // sees the unlink.
            fence(Ordering::SeqCst);
            slot.store(self.current.0.load(Ordering::Acquire), Ordering::Release);
        }
    }

    /// As [`Epochs::announce`] for a worker that is awake, at the cost of two loads while no epoch has begun since.
    #[inline]
    pub(crate) fn announce_again(&self, index: usize) {
        let slot = &self.announced[index].0;
        let current = self.current.0.load(Ordering::Acquire);
        if slot.load(Ordering::Relaxed) != current {
            slot.store(current, Ordering::Release);
        }
    }

    /// Worker `index` goes to sleep.
    pub(crate) fn sleep(&self, index: usize) {
        self.announced[index].0.store(ASLEEP, Ordering::Release);
    }

    /// Call after unlinking: the epoch that workers must have announced before the memory is used again.
    pub(crate) fn retire(&self) -> u64 {
        // Pairs with the fence in `announce`.
        fence(Ordering::SeqCst);
        self.current.0.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The earliest epoch that an awake worker has announced last: what was retired up to it is nobody's any more.
    pub(crate) fn horizon(&self) -> u64 {
        // Pairs with the fence in `announce`.
        fence(Ordering::SeqCst);
        let awake = |slot: &OwnLine<AtomicU64>| match slot.0.load(Ordering::Acquire) {
            ASLEEP => None,
            announced => Some(announced),
        };
        self.announced.iter().filter_map(awake).min().unwrap_or(u64::MAX)
    }

    /// Whether every awake worker has announced `epoch` or later.
    pub(crate) fn passed(&self, epoch: u64) -> bool {
        epoch <= self.horizon()
    }
}

/// A moment that all workers pass, each between two of its operations.
#[derive(Clone, Copy, Debug)]
pub struct Mark(u64);

impl Cache {
    /// Sets a mark. Once it [has passed](Cache::has_passed), what any worker did before it is seen by all, and whatever a worker
    /// does after it is done by one who sees what the caller wrote before.
    pub fn mark(&self) -> Mark {
        Mark(self.epochs.retire())
    }

    /// Whether every worker has passed `mark`, or sleeps.
    pub fn has_passed(&self, mark: Mark) -> bool {
        self.epochs.passed(mark.0)
    }
}
