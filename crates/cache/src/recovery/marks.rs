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

    /// Hints the processor to fetch the mark of what is there; `false` if there is none, as no checksum covers it.
    #[inline]
    pub(super) fn fetch(&self, location: Location) -> bool {
        let place = self.place(location);
        if let Some((word, _)) = place {
            prefetch(std::ptr::from_ref(&self.words.words()[word]).cast());
        }
        place.is_some()
    }

    /// Sets the mark of what is there; `false` if no checksum covers it.
    #[inline]
    pub(super) fn set(&self, location: Location) -> bool {
        let place = self.place(location);
        if let Some((word, bit)) = place {
            self.words.words()[word].fetch_or(bit, Ordering::Relaxed);
        }
        place.is_some()
    }

    /// Whether the mark of what begins there, which a checksum covers, is set.
    #[inline]
    pub(super) fn is_set(&self, segment: SegmentId, start: u32) -> bool {
        let (word, bit) = self.at(segment, start);
        self.words.words()[word].load(Ordering::Relaxed) & bit != 0
    }

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

/// What a pair of a location and a seat adds to the sum of its side.
#[inline]
pub(super) fn pair(location: Location, seat: u64) -> u64 {
    let mixed = (location.units() ^ seat.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seat;
    let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ (mixed >> 32)
}
