//! A walk over a segment in several places at once.

use super::{Heap, PARTS, SEGMENT_START, SegmentId, prefetch};
use crate::item::{ItemRef, Outline};
use crate::line::Location;

/// Bytes from an item's start within which its header and a key of usual length end.
const HEAD_AND_KEY: usize = 48;

/// A walk of all items and pieces in a sealed segment, live and dead, that goes on in each part of it in turn and has the
/// processor fetch what it comes to next.
pub(crate) struct Walk<'a> {
    heap: &'a Heap,
    segment: SegmentId,
    /// Where the walk of each part is, and where it ends.
    parts: [(u32, u32); PARTS],
    /// Parts that are not at their end, one behind the other, and which of them is next.
    count: usize,
    turn: usize,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(heap: &'a Heap, segment: SegmentId) -> Walk<'a> {
        let header = heap.header(segment);
        let end = header.used() + SEGMENT_START;
        let mut walk = Walk {
            heap,
            segment,
            parts: [(0, 0); PARTS],
            count: 0,
            turn: 0,
        };
        let mut start = SEGMENT_START;
        for next in heap.part_starts(header).chain([end]) {
            if start < next {
                walk.parts[walk.count] = (start, next);
                walk.count += 1;
                walk.fetch(start);
            }
            start = next;
        }
        walk
    }

    /// Hints the processor to fetch an item's header and the start of its key.
    fn fetch(&self, offset: u32) {
        let at = self.heap.address(self.segment, offset);
        prefetch(at);
        prefetch(at.wrapping_add(HEAD_AND_KEY));
    }
}

impl<'a> Iterator for Walk<'a> {
    type Item = (Location, ItemRef<'a>, Outline<'a>);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.count == 0 {
            return None;
        }
        let part = &mut self.parts[self.turn % PARTS];
        let location = self.heap.location(self.segment, part.0);
        let item = self.heap.item(location);
        let outline = item.outline();
        part.0 += self.heap.aligned(outline.len) as u32;
        let (next, end) = *part;
        self.turn += 1;
        if next < end {
            self.fetch(next);
        } else {
            self.end_part();
        }
        if self.turn >= self.count {
            self.turn = 0;
        }
        Some((location, item, outline))
    }
}

impl Walk<'_> {
    /// The part that was walked last is at its end.
    #[cold]
    fn end_part(&mut self) {
        self.parts.copy_within(self.turn.., self.turn - 1);
        self.turn -= 1;
        self.count -= 1;
    }
}
