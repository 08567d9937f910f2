//! What the engine tells of itself in numbers: what it has counted, and what it holds now.

/// What the engine counted since start, summed over workers. Exact when nothing is in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Look-ups.
    pub reads: u64,
    /// Of these: those that found what had expired and had not been removed yet, which takes some seconds at most.
    pub expired_misses: u64,
    /// The same of what a flush had made unreadable.
    pub flushed_misses: u64,
    /// Items that were there when the cache was opened.
    pub found: u64,
    /// Items created: every publish of a new item, also by incr, append and vivify (`total_items`).
    pub created: u64,
    /// Removals by cause.
    pub removed: Removals,
    /// Live items evicted that had never been read.
    pub evicted_unfetched: u64,
    /// Expired items that had never been read.
    pub expired_unfetched: u64,
    /// Live bytes copied by compaction and eviction.
    pub relocated_bytes: u64,
    /// Segments emptied, by any means.
    pub segments_reclaimed: u64,
    /// Evictions that happened while dead bytes were over the bound of promise P1; must stay 0.
    pub evictions_beyond_bound: u64,
}

/// Removals since start; every item that left the cache is counted under exactly one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removals {
    /// Died of age.
    pub expired: u64,
    /// Removed live for want of room.
    pub evicted: u64,
    /// A new version took its place.
    pub replaced: u64,
    /// Deleted on request.
    pub deleted: u64,
    /// Fell to flush_all.
    pub flushed: u64,
    /// Their values were dropped on request.
    pub invalidated: u64,
    /// Removed because the value that should replace it was over the size limit.
    pub too_large: u64,
    /// Removed because there was no memory for the value that should replace it.
    pub no_memory: u64,
    /// Removed when the memory limit was lowered.
    pub limit_lowered: u64,
}

impl Removals {
    /// What was counted since `before`.
    pub fn since(&self, before: &Removals) -> Removals {
        Removals {
            expired: self.expired - before.expired,
            evicted: self.evicted - before.evicted,
            replaced: self.replaced - before.replaced,
            deleted: self.deleted - before.deleted,
            flushed: self.flushed - before.flushed,
            invalidated: self.invalidated - before.invalidated,
            too_large: self.too_large - before.too_large,
            no_memory: self.no_memory - before.no_memory,
            limit_lowered: self.limit_lowered - before.limit_lowered,
        }
    }

    /// Sum over all causes.
    pub fn total(&self) -> u64 {
        self.expired
            + self.evicted
            + self.replaced
            + self.deleted
            + self.flushed
            + self.invalidated
            + self.too_large
            + self.no_memory
            + self.limit_lowered
    }
}

/// Items of a class of sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SizeClass {
    /// Bytes that the largest item of the class takes; the class before it ends below the smallest.
    pub bytes_max: u64,
    /// Items there are.
    pub items: u64,
    /// Bytes they take, all told.
    pub bytes: u64,
    /// Items created.
    pub created: u64,
    /// Items evicted, those for a lowered limit among them.
    pub evicted: u64,
    /// Of those: items that would have expired at some time.
    pub evicted_expiring: u64,
    /// Of those: items that were never read.
    pub evicted_unfetched: u64,
    /// Items that died of age.
    pub expired: u64,
    /// Of those: items that were never read.
    pub expired_unfetched: u64,
}

impl SizeClass {
    /// What there is, and what was counted since `before`.
    pub fn since(&self, before: &SizeClass) -> SizeClass {
        SizeClass {
            created: self.created - before.created,
            evicted: self.evicted - before.evicted,
            evicted_expiring: self.evicted_expiring - before.evicted_expiring,
            evicted_unfetched: self.evicted_unfetched - before.evicted_unfetched,
            expired: self.expired - before.expired,
            expired_unfetched: self.expired_unfetched - before.expired_unfetched,
            ..*self
        }
    }
}

/// What the cache holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Items in the index; expired ones are out within two seconds.
    pub items: u64,
    /// Bytes of those items: header, key, value.
    pub item_bytes: u64,
    /// Bytes of the index.
    pub index_bytes: u64,
    /// The index is being resized, a page at a time.
    pub index_is_resizing: bool,
    /// Bytes of what eviction remembers and learns from: evicted keys, shadow caches.
    pub eviction_bytes: u64,
    /// Bytes of the ledger of items that left.
    pub ledger_bytes: u64,
    /// Bytes in sealed segments of items that left and of those whose deadline passed, not yet used again.
    pub dead_bytes: u64,
    /// Bytes of items whose deadline has passed and that nobody has removed yet, as far as it is known by segment.
    pub expired_bytes: u64,
    /// Bytes of items that were never read.
    pub unread_bytes: u64,
    /// Seconds between the last read of the item that was evicted last and its eviction.
    pub evicted_idle_secs: u32,
    /// Bytes held by segments that are not free.
    pub segment_bytes: u64,
    /// The limit (`-m`), in bytes.
    pub memory_max: u64,
    /// Segments in use and in all.
    pub segments_used: u64,
    /// Segments that the limit allows.
    pub segments_total: u64,
    /// Bytes of one segment.
    pub segment_size: u64,
    /// Bytes that others hold out of the same budget: connections.
    pub held_beside_bytes: u64,
    /// Bytes in unfinished uploads.
    pub upload_bytes: u64,
    /// Bytes of index and segments that were given huge pages.
    pub huge_page_bytes: u64,
    /// How often the operating system refused a huge page.
    pub huge_pages_refused: u64,
    /// How often the operating system refused to lock a segment into RAM.
    pub locks_refused: u64,
}

/// What another memory limit would miss, by a shadow cache of that size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvePoint {
    /// Multiple of the present limit.
    pub factor: f64,
    /// The limit it stands for, in bytes.
    pub memory_max: u64,
    /// Share of look-ups since start that a cache of that size would have missed; `None` before the first.
    pub miss_ratio: Option<f64>,
    /// Keys that the shadow cache holds now.
    pub keys: u64,
    /// One key in this many is sampled.
    pub sample: u64,
}
