//! Counts, one set per worker, written by that worker only and added up on request.

use scrubjay_base::sync::whole::{AtomicU64, Ordering};

use crate::api::Cause;
use crate::counters::{Counters, Removals};
use crate::sizes::Sizes;
use crate::superblock::Saved;

/// One worker's counts.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Items that were there when the cache was opened, their bytes, and of these those that were never read.
    found: Count,
    found_bytes: Count,
    found_unread_bytes: Count,
    /// Look-ups.
    pub(crate) reads: Count,
    /// Of these: those that found nothing.
    pub(crate) misses: Count,
    /// Of these: those that found what had expired, or fallen to a flush, and had not been removed yet.
    expired_misses: Count,
    flushed_misses: Count,
    pub(crate) created: Count,
    /// Bytes of the items created, with all their pieces, and of those removed.
    pub(crate) created_bytes: Count,
    pub(crate) removed_bytes: Count,
    /// Of the bytes created: those of items that were read for the first time, and of those removed without a read.
    pub(crate) first_read_bytes: Count,
    pub(crate) removed_unread_bytes: Count,
    removed: [Count; Cause::ALL.len()],
    pub(crate) evicted_unfetched: Count,
    pub(crate) expired_unfetched: Count,
    pub(crate) relocated_bytes: Count,
    pub(crate) segments_reclaimed: Count,
    pub(crate) evictions_beyond_bound: Count,
    pub(crate) sizes: Sizes,
}

/// A number with one writer: raising it is a load and a store, not a locked instruction.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    #[inline]
    pub(crate) fn add(&self, by: u64) {
        self.0
            .store(self.0.load(Ordering::Relaxed) + by, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Tally {
    pub(crate) fn removed(&self, cause: Cause) -> &Count {
        &self.removed[cause as usize]
    }

    /// A look-up found nothing, or what had died of this.
    #[inline]
    pub(crate) fn note_miss(&self, death: Option<Cause>) {
        self.misses.add(1);
        match death {
            None => {}
            Some(Cause::Expired) => self.expired_misses.add(1),
            Some(_) => self.flushed_misses.add(1),
        }
    }

    /// What another process left is there from the start. Nothing else was counted here yet.
    pub(crate) fn begin_with(&self, found: &Saved) {
        self.found.add(found.items);
        self.found_bytes.add(found.bytes);
        self.found_unread_bytes.add(found.unread_bytes);
        self.sizes.begin_with(&found.sizes);
    }

    /// Items this worker found or created less items it removed; only the sum over workers means something.
    pub(crate) fn balance(&self) -> i64 {
        (self.found.get() + self.created.get()) as i64
            - self.removed.iter().map(|count| count.get() as i64).sum::<i64>()
    }

    /// As `balance`, in bytes.
    pub(crate) fn balance_bytes(&self) -> i64 {
        (self.found_bytes.get() + self.created_bytes.get()) as i64 - self.removed_bytes.get() as i64
    }

    /// Bytes of items that were never read; only the sum over workers means something.
    pub(crate) fn unread_bytes(&self) -> i64 {
        let gone = self.first_read_bytes.get() + self.removed_unread_bytes.get();
        (self.found_unread_bytes.get() + self.created_bytes.get()) as i64 - gone as i64
    }

    pub(crate) fn add_to(&self, sum: &mut Counters) {
        let removed = |cause| self.removed(cause).get();
        sum.reads += self.reads.get();
        sum.expired_misses += self.expired_misses.get();
        sum.flushed_misses += self.flushed_misses.get();
        sum.found += self.found.get();
        sum.created += self.created.get();
        sum.removed = Removals {
            expired: sum.removed.expired + removed(Cause::Expired),
            evicted: sum.removed.evicted + removed(Cause::Evicted),
            replaced: sum.removed.replaced + removed(Cause::Replaced),
            deleted: sum.removed.deleted + removed(Cause::Deleted),
            flushed: sum.removed.flushed + removed(Cause::Flushed),
            invalidated: sum.removed.invalidated + removed(Cause::Invalidated),
            too_large: sum.removed.too_large + removed(Cause::TooLarge),
            no_memory: sum.removed.no_memory + removed(Cause::NoMemory),
            limit_lowered: sum.removed.limit_lowered + removed(Cause::LimitLowered),
        };
        sum.evicted_unfetched += self.evicted_unfetched.get();
        sum.expired_unfetched += self.expired_unfetched.get();
        sum.relocated_bytes += self.relocated_bytes.get();
        sum.segments_reclaimed += self.segments_reclaimed.get();
        sum.evictions_beyond_bound += self.evictions_beyond_bound.get();
    }
}
