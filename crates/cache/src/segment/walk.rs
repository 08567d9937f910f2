//! A walk over a segment in several places at once.

use super::{Heap, PARTS, SEGMENT_START, SegmentId, prefetch};
use crate::item::{ItemRef, Outline};
use crate::line::Location;

/// Bytes from an item's start within which its header and a key of usual length end.
const HEAD_AND_KEY: usize = 48;

/// Lines of listings that are fetched before a segment is emptied.
const LISTING_LINES: usize = 8;

/// Items one behind the other: where the first begins and where the last ends.
type Run = (u32, u32);

/// A walk of items and pieces in a sealed segment, live and dead, that goes on in several places in turn and has the
/// processor fetch what it comes to next.
pub(crate) struct Walk<'a> {
    heap: &'a Heap,
    segment: SegmentId,
    /// What is left of the runs that are walked now.
    places: [Run; PARTS],
    /// How many places those are, one behind the other, and which of them is next.
    count: usize,
    turn: usize,
    /// Those that come after.
    runs: std::vec::IntoIter<Run>,
}

impl<'a> Walk<'a> {
    /// Over all that is there.
    pub(crate) fn of_all(heap: &'a Heap, segment: SegmentId) -> Walk<'a> {
        Walk::of_runs(heap, segment, heap.runs(segment).collect())
    }

    /// Over all but what is listed.
    pub(crate) fn of_unlisted(heap: &'a Heap, segment: SegmentId) -> Walk<'a> {
        let mut listings = heap.listings(segment).peekable();
        let mut unlisted = Vec::new();
        for (start, end) in heap.runs(segment) {
            let mut at = start;
            while let Some(listing) = listings.next_if(|listing| listing.start < end) {
                unlisted.extend((at < listing.start).then_some((at, listing.start)));
                at = listing.start + listing.len;
            }
            unlisted.extend((at < end).then_some((at, end)));
        }
        Walk::of_runs(heap, segment, unlisted)
    }

    fn of_runs(heap: &'a Heap, segment: SegmentId, runs: Vec<Run>) -> Walk<'a> {
        let mut walk = Walk {
            heap,
            segment,
            places: [(0, 0); PARTS],
            count: 0,
            turn: 0,
            runs: runs.into_iter(),
        };
        for (place, run) in walk.places.iter_mut().zip(&mut walk.runs) {
            *place = run;
            walk.count += 1;
            heap.fetch(segment, run.0);
        }
        walk
    }

    /// The run in the place that was walked last is at its end.
    #[cold]
    fn end_run(&mut self) {
        if let Some(run) = self.runs.next() {
            self.heap.fetch(self.segment, run.0);
            self.places[self.turn - 1] = run;
            return;
        }
        self.places.copy_within(self.turn.., self.turn - 1);
        self.turn -= 1;
        self.count -= 1;
    }
}

impl<'a> Iterator for Walk<'a> {
    type Item = (Location, ItemRef<'a>, Outline<'a>);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.count == 0 {
            return None;
        }
        let place = &mut self.places[self.turn % PARTS];
        let location = self.heap.location(self.segment, place.0);
        let item = self.heap.item(location);
        let outline = item.outline();
        place.0 += self.heap.aligned(outline.len) as u32;
        let (next, end) = *place;
        self.turn += 1;
        if next < end {
            self.heap.fetch(self.segment, next);
        } else {
            self.end_run();
        }
        if self.turn >= self.count {
            self.turn = 0;
        }
        Some((location, item, outline))
    }
}

impl Heap {
    /// All that a sealed segment holds, by its parts.
    fn runs(&self, segment: SegmentId) -> impl Iterator<Item = Run> {
        let header = self.header(segment);
        let starts = self.part_starts(header);
        let mut start = SEGMENT_START;
        let runs = starts.chain([header.used() + SEGMENT_START]).map(move |next| {
            let run = (start, next);
            start = next;
            run
        });
        runs.filter(|(start, end)| start < end)
    }

    /// Hints the processor to fetch an item's header and the start of its key.
    #[inline]
    fn fetch(&self, segment: SegmentId, offset: u32) {
        let at = self.address(segment, offset);
        prefetch(at);
        prefetch(at.wrapping_add(HEAD_AND_KEY));
    }

    /// Hints the processor to fetch what is looked at first when a segment is emptied of what has expired.
    pub(crate) fn prefetch_expired(&self, segment: SegmentId) {
        if self.header(segment).listed() > 0 {
            return self.prefetch_listings(segment, LISTING_LINES);
        }
        self.runs(segment)
            .for_each(|(start, _)| self.fetch(segment, start));
    }
}
