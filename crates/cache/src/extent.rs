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
    /// Where headers, the two extents of the index, segments and ledger begin, and where all ends. Each part but the headers
    /// starts where a huge page may start.
    pub(crate) fn offsets(&self) -> [usize; 6] {
        let headers_len = self.segments_max as usize * size_of::<SegmentHeader>();
        let pages_len = (self.pages_max * PAGE_SIZE).next_multiple_of(HUGE_PAGE_SIZE);
        let first = (SUPERBLOCK_LEN + headers_len).next_multiple_of(HUGE_PAGE_SIZE);
        let base = first + 2 * pages_len;
        let heap_len = (self.segments_max as usize) << self.segment_shift;
        let ledger = base + heap_len.next_multiple_of(HUGE_PAGE_SIZE);
        let end = ledger + self.ledger_bytes.next_multiple_of(PAGE_SIZE);
        [SUPERBLOCK_LEN, first, first + pages_len, base, ledger, end]
    }

    /// Bytes of a file without those of the ledger.
    pub(crate) fn len_without_ledger(&self) -> usize {
        self.offsets()[4]
    }
}
