//! Which items the index names, noted without a look at them.
//!
//! A look at each item by its slot waits for memory each time: items of one page of the index lie anywhere. So the slots are
//! gone through first, and each leaves a mark where its item must begin; then the segments are gone through from start to end,
//! where the checksum and the marked items are seen in one go. Slots and items must be the same: both sides add up what they
//! know of each pair, its location and its seat in the index, and the sums must be equal.

use std::sync::atomic::Ordering;

use scrubjay_io::memory::Scratch;

use crate::item::LEAST;
use crate::line::Location;
use crate::prefetch::prefetch;
use crate::segment::{Heap, SEGMENT_START, SegmentId};

/// Bytes for each of which there is a mark. No two items begin in the same.
const GRAIN: usize = LEAST;

const _: () = assert!(GRAIN.is_power_of_two());

/// Marks in a word.
const WORD: u64 = u64::BITS as u64;

/// Marks that are fetched before the first of them is set: as many as a processor waits for at once, and some.
const FETCHED_AHEAD: usize = 32;

/// A mark for each place in the heap where an item may begin.
#[derive(Debug)]
pub(super) struct Marks<'a> {
    heap: &'a Heap,
    /// Where in each segment what a checksum covers ends.
    covered: Vec<u32>,
    words: Scratch,
}

impl<'a> Marks<'a> {
    /// None set; `covered` tells of each segment how much of it is vouched for.
    ///
    /// # Errors
    /// There is no memory for them.
    pub(super) fn new(heap: &'a Heap, covered: Vec<u32>) -> std::io::Result<Marks<'a>> {
        let used = covered.iter().rposition(|covered| *covered > SEGMENT_START);
        let bytes = used.map_or(0, |last| (last + 1) * heap.segment_size());
        let words = (bytes / GRAIN).div_ceil(WORD as usize);
        Ok(Marks {
            heap,
            covered,
            words: Scratch::reserve(words.max(1))?,
        })
    }

    /// Whether the mark of what begins there, which a checksum covers, is set.
    #[inline]
    pub(super) fn is_set(&self, segment: SegmentId, start: u32) -> bool {
        let (word, bit) = self.at(segment, start);
        self.words.words()[word].load(Ordering::Relaxed) & bit != 0
    }

    /// The word of the mark of what is there, and its bit; `None` if no checksum covers it.
    #[inline]
    fn place(&self, location: Location) -> Option<(usize, u64)> {
        let (segment, start) = self.heap.place_of(location)?;
        let is_covered = (SEGMENT_START..self.covered[segment.0 as usize]).contains(&start);
        is_covered.then(|| self.at(segment, start))
    }

    #[inline]
    fn at(&self, segment: SegmentId, start: u32) -> (usize, u64) {
        let byte = segment.0 as usize * self.heap.segment_size() + start as usize;
        let grain = (byte / GRAIN) as u64;
        ((grain / WORD) as usize, 1 << (grain % WORD))
    }
}

/// One thread's way of setting marks: each is fetched, and set when some others have been fetched behind it.
#[derive(Debug)]
pub(super) struct Marker<'a> {
    marks: &'a Marks<'a>,
    /// Words and bits of marks that were fetched; no bit where none was.
    fetched: [(usize, u64); FETCHED_AHEAD],
    next: usize,
}

impl<'a> Marker<'a> {
    pub(super) fn new(marks: &'a Marks<'a>) -> Marker<'a> {
        Marker {
            marks,
            fetched: [(0, 0); FETCHED_AHEAD],
            next: 0,
        }
    }

    /// Sets the mark of what is there, soon; `false` if no checksum covers it.
    #[inline]
    pub(super) fn set(&mut self, location: Location) -> bool {
        let Some((word, bit)) = self.marks.place(location) else {
            return false;
        };
        prefetch(std::ptr::from_ref(&self.marks.words.words()[word]).cast());
        let (before, its_bit) = std::mem::replace(&mut self.fetched[self.next], (word, bit));
        self.next = (self.next + 1) % FETCHED_AHEAD;
        self.marks.words.words()[before].fetch_or(its_bit, Ordering::Relaxed);
        true
    }

    /// Sets all that was left for soon.
    pub(super) fn finish(&mut self) {
        for (word, bit) in self.fetched {
            self.marks.words.words()[word].fetch_or(bit, Ordering::Relaxed);
        }
    }
}

/// What a pair of a location and a seat adds to the sum of its side.
#[inline]
pub(super) fn pair(location: Location, seat: u64) -> u64 {
    let mixed = (location.units() ^ seat.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seat;
    let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ (mixed >> 32)
}
