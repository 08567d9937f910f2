//! Large items of a segment, listed at its end: where they lie and whose they are. When all of a segment has expired, this is all
//! that has to be known of them, so their own pages are not looked at: each is a page whose translation the processor would
//! wait for longer than everything else about the item takes. In a log-structured file system that is the segment summary: Rosenblum
//! and Ousterhout, "The Design and Implementation of a Log-Structured File System" (1992).
//!
//! ```text
//! segment: start | items, one behind the other ->        <- listings, 16 bytes each | its end
//! listing: u32 start, u32 length, both in bytes | u64 hash of the key
//! ```
//! A listing holds until the segment's next life, whatever becomes of the item; whether it is alive, the index knows. Items that were
//! moved here, and what is in pieces, are not listed; nor is anything after a restart.

use scrubjay_base::sync::whole::{AtomicU64, Ordering};

use super::{Heap, SegmentHeader, SegmentId};
use crate::index::KeyHash;

/// Bytes of an item, aligned, from which on it is listed. A listing is 1.25 % of the smallest.
const LISTED_MIN: usize = 1280;

/// Bytes of a listing.
pub(crate) const LISTING_LEN: usize = size_of::<[AtomicU64; 2]>();

/// Listings in a line of memory, which is fetched at a time.
const LISTINGS_PER_LINE: usize = 64 / LISTING_LEN;

/// Whether an item of `len` bytes, aligned, is listed where it is put first.
#[inline]
pub(crate) fn is_listed(len: usize) -> bool {
    len >= LISTED_MIN
}

/// Bytes of an open segment that an item of `len` bytes, aligned, takes where it is put first.
#[inline]
pub(crate) fn with_listing(len: usize) -> usize {
    len + if is_listed(len) { LISTING_LEN } else { 0 }
}

/// What is taken of a segment, as one number: listings:24 | closed:1 | bytes of items and listings:39.
///
/// Appenders add what they take. Who finds that it is too much takes it back; the first such closes the segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken(pub(super) u64);

impl Taken {
    const LISTINGS_SHIFT: u32 = 40;

    /// More than any segment has, and no more is added to it than threads can have in hand.
    pub(super) const CLOSED: u64 = 1 << 39;

    /// An item of `len` bytes, listed or not.
    #[inline]
    pub(super) fn of(len: u32, listed: bool) -> Taken {
        let listed = u64::from(listed);
        Taken(listed << Self::LISTINGS_SHIFT | (u64::from(len) + listed * LISTING_LEN as u64))
    }

    #[inline]
    pub(super) fn listed(self) -> usize {
        (self.0 >> Self::LISTINGS_SHIFT) as usize
    }

    /// Of items and listings together; past all sizes once it is closed.
    #[inline]
    pub(super) fn bytes(self) -> u64 {
        self.0 & ((1 << Self::LISTINGS_SHIFT) - 1)
    }

    /// Where the next item begins, or would.
    #[inline]
    pub(super) fn offset(self) -> u32 {
        ((self.bytes() & !Self::CLOSED) - (self.listed() * LISTING_LEN) as u64) as u32
    }
}

/// Where a large item lies, and whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listing {
    /// Bytes from the segment's start.
    pub(crate) start: u32,
    /// Bytes, aligned.
    pub(crate) len: u32,
    /// Of its key.
    pub(crate) hash: KeyHash,
}

impl SegmentHeader {
    /// How many items are listed; for sealed segments.
    pub(crate) fn listed(&self) -> usize {
        self.taken().listed()
    }
}

impl Heap {
    /// The words of a segment's listing of this number.
    fn listing_words(&self, segment: SegmentId, number: usize) -> &[AtomicU64; 2] {
        let end = self.segment_size() - number * LISTING_LEN;
        assert!(
            end >= LISTING_LEN && segment.0 < self.segments_max,
            "in a segment"
        );
        let at = self.address(segment, (end - LISTING_LEN) as u32);
        // SAFETY: inside the segment by the assertion, and 16-aligned as its end is. Where listings are counted for, no item
        // is; who gets the number by its addition is alone to write them, and they are read when it has ended its turn.
        unsafe { &*at.cast() }
    }

    /// Writes a listing whose number the caller alone has.
    #[inline(never)]
    pub(super) fn list(&self, segment: SegmentId, number: usize, listing: Listing) {
        let [place, hash] = self.listing_words(segment, number);
        let start = u64::from(listing.start);
        place.store(start << 32 | u64::from(listing.len), Ordering::Relaxed);
        hash.store(listing.hash.0, Ordering::Relaxed);
    }

    /// The listings of a sealed segment all of whose appenders have ended their turns, by where the items lie.
    pub(crate) fn listings(&self, segment: SegmentId) -> impl Iterator<Item = Listing> + Clone {
        (0..self.header(segment).listed()).map(move |number| {
            let [place, hash] = self.listing_words(segment, number);
            let place = place.load(Ordering::Relaxed);
            Listing {
                start: (place >> 32) as u32,
                len: place as u32,
                hash: KeyHash(hash.load(Ordering::Relaxed)),
            }
        })
    }

    /// Hints the processor to fetch a segment's first listings.
    pub(super) fn prefetch_listings(&self, segment: SegmentId, lines: usize) {
        let count = self.header(segment).listed().min(lines * LISTINGS_PER_LINE);
        for number in (0..count).step_by(LISTINGS_PER_LINE) {
            super::prefetch(std::ptr::from_ref(self.listing_words(segment, number)).cast());
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use scrubjay_base::sync::whole::Ordering;

    use super::{LISTED_MIN, LISTING_LEN, Listing, Taken, is_listed, with_listing};
    use crate::index::KeyHash;
    use crate::segment::{Append, Heap, SEGMENT_START, SegmentId};

    /// Bytes of a segment of these tests.
    const SIZE: usize = 1 << 14;
    const SEGMENT: SegmentId = SegmentId(0);

    fn open_heap() -> Heap {
        let heap = Heap::reserve(SIZE.ilog2(), 4, 4).expect("address space");
        heap.header(SEGMENT).open(1, 0, 0, 0.0);
        heap
    }

    /// Puts an item there; whether there was room.
    fn put(heap: &Heap, len: usize, hash: u64) -> bool {
        match heap.append(SEGMENT, len, Some(KeyHash(hash))) {
            Append::Room(room) => {
                room.fill();
                true
            }
            Append::Closed | Append::Full => false,
        }
    }

    #[test]
    fn only_large_items_are_listed_in_the_order_in_which_they_lie() {
        let heap = open_heap();
        let lens = [100, LISTED_MIN, LISTED_MIN - 4, LISTED_MIN + 4, 40, 3_000];
        let (mut start, mut expected) = (SEGMENT_START, Vec::new());
        for (number, len) in lens.into_iter().enumerate() {
            assert!(put(&heap, len, number as u64));
            let (len, hash) = (len as u32, KeyHash(number as u64));
            expected.extend(is_listed(len as usize).then_some(Listing { start, len, hash }));
            start += len;
        }
        assert!(heap.close(SEGMENT));
        assert_eq!(heap.listings(SEGMENT).collect::<Vec<_>>(), expected);
        assert_eq!(heap.header(SEGMENT).used(), start - SEGMENT_START);
        assert_eq!(heap.walk(SEGMENT).count(), lens.len());
    }

    #[test]
    fn an_item_and_its_listing_fit_together_or_not_at_all() {
        let len = 3_100;
        for spare in [0, 4, LISTING_LEN - 4, LISTING_LEN] {
            // Five go in; before the fifth, what is left is its own length, and so much more.
            let heap = open_heap();
            (0..4).for_each(|hash| assert!(put(&heap, len, hash)));
            let left = heap.left(SEGMENT);
            assert_eq!(left, SIZE - SEGMENT_START as usize - 4 * with_listing(len));
            let filler = left - len - spare;
            assert!(!is_listed(filler) && put(&heap, filler, 4));
            assert_eq!(heap.left(SEGMENT), len + spare);
            assert_eq!(put(&heap, len, 5), spare == LISTING_LEN);
            // The first who does not fit has closed it, for the smallest, too.
            assert!(!put(&heap, 8, 6));
            assert!(!heap.close(SEGMENT));
            assert!(heap.header(SEGMENT).is_closed());
            let fitted = 4 + usize::from(spare == LISTING_LEN);
            assert_eq!(heap.listings(SEGMENT).count(), fitted);
            assert_eq!(heap.walk(SEGMENT).count(), fitted + 1);
        }
    }

    #[test]
    fn after_a_restart_nothing_is_listed_and_what_was_being_closed_is_open() {
        let heap = open_heap();
        let header = heap.header(SEGMENT);
        assert!(put(&heap, 3_000, 1) && put(&heap, 100, 2));
        header.taken.fetch_add(Taken::CLOSED, Ordering::Relaxed);
        let end = SEGMENT_START + 3_100;
        assert_eq!(header.settle(SIZE as u32, 0), Some(end));
        assert_eq!(heap.listings(SEGMENT).count(), 0);
        assert_eq!(heap.left(SEGMENT), SIZE - end as usize);
        assert!(put(&heap, 3_000, 3));
        let [listing] = heap.listings(SEGMENT).collect::<Vec<_>>()[..] else {
            panic!("one is listed since");
        };
        assert_eq!((listing.start, listing.hash), (end, KeyHash(3)));
    }

    #[test]
    fn who_comes_late_to_a_closed_segment_changes_nothing() {
        let heap = open_heap();
        assert!(put(&heap, 3_000, 1));
        assert!(heap.close(SEGMENT) && !heap.close(SEGMENT));
        for hash in 0..100_000 {
            assert!(!put(&heap, SIZE / 2, hash) && !put(&heap, 40, hash));
        }
        let listing = Listing {
            start: SEGMENT_START,
            len: 3_000,
            hash: KeyHash(1),
        };
        assert_eq!(heap.listings(SEGMENT).collect::<Vec<_>>(), [listing]);
        assert_eq!(heap.header(SEGMENT).used(), 3_000);
    }
}
