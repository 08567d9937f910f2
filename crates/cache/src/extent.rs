//! How the file that a cache lives in is cut.

use scrubjay_io::memory::HUGE_PAGE_SIZE;

use crate::segment::{PAGE_SIZE, SegmentHeader};
use crate::superblock::SUPERBLOCK_LEN;

/// How large the parts of a mapping are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) segment_shift: u32,
    pub(crate) segments_max: u32,
    pub(crate) pages_max: usize,
    pub(crate) ledger_bytes: usize,
}

impl Extent {
    /// Where headers, checksums, the two extents of the index, segments and ledger begin, and where all ends. Each part behind
    /// the checksums starts where a huge page may start.
    pub(crate) fn offsets(&self) -> [usize; 7] {
        let sums = SUPERBLOCK_LEN + self.segments_max as usize * size_of::<SegmentHeader>();
        let sums_len = self.segments_max as usize * size_of::<u64>();
        let pages_len = (self.pages_max * PAGE_SIZE).next_multiple_of(HUGE_PAGE_SIZE);
        let first = (sums + sums_len).next_multiple_of(HUGE_PAGE_SIZE);
        let base = first + 2 * pages_len;
        let heap_len = (self.segments_max as usize) << self.segment_shift;
        let ledger = base + heap_len.next_multiple_of(HUGE_PAGE_SIZE);
        let end = ledger + self.ledger_bytes.next_multiple_of(PAGE_SIZE);
        [SUPERBLOCK_LEN, sums, first, first + pages_len, base, ledger, end]
    }

    /// Bytes of a file without those of the ledger.
    pub(crate) fn len_without_ledger(&self) -> usize {
        self.offsets()[5]
    }
}
