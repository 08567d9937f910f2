//! The order in which a scan goes through the index: one that does not change while the index grows and shrinks.
//!
//! Where a key belongs follows from its hash: the high half says how far into a table of any size its page lies, the low bits
//! name one of the page's home lines. A scan takes the first home line of every page, then the second of every page, and so on
//! to the last. So a place is a pair of a home line's number and a high half of a hash: it means the same whatever the number of
//! pages, and a key has one such place for as long as it lives. Going page by page would keep to memory better, but a place
//! within a page would be none any more when the page's keys have moved to two others.

use scrubjay_base::sync::whole::Ordering;

use crate::index::{Geometry, HOME_LINES, HomePage, Index, KeyHash, Locked, overflow_home, overflow_lines};
use crate::line::Location;
use crate::segment::Heap;

/// Bits of a hash's high half.
const HIGH_BITS: u32 = 32;

/// Bits of a place.
pub(crate) const PLACE_BITS: u32 = HIGH_BITS + (HOME_LINES as u32).ilog2() + 1;

/// Lines that are fetched together.
pub(crate) const FETCHED_TOGETHER: usize = 16;

/// A place in the order: everything before it has been passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(u64);

impl Place {
    pub(crate) const START: Place = Place(0);
    pub(crate) const END: Place = Place((HOME_LINES as u64) << HIGH_BITS);

    /// The place of this number, if there is one.
    pub(crate) fn numbered(number: u64) -> Option<Place> {
        (number <= Place::END.0).then_some(Place(number))
    }

    pub(crate) fn number(self) -> u64 {
        self.0
    }

    fn of(hash: KeyHash) -> Place {
        Place((hash.home() as u64) << HIGH_BITS | hash.0 >> HIGH_BITS)
    }

    fn home(self) -> usize {
        (self.0 >> HIGH_BITS) as usize
    }

    /// Some hash whose place this is; it is not the end.
    fn hash(self) -> KeyHash {
        let low = ((self.home() as u64) << 16).div_ceil(HOME_LINES as u64);
        KeyHash(self.0 << HIGH_BITS | low)
    }

    /// The first place that is not in this one's home line in a table of so many pages: in the next page, or behind the last
    /// page in the first page's next line.
    fn behind_line(self, pages: usize) -> Place {
        let end = (self.hash().page(pages) as u64 + 1) << HIGH_BITS;
        Place(((self.home() as u64) << HIGH_BITS) + end.div_ceil(pages as u64))
    }
}

impl Index {
    /// Tells this index' order from that of another.
    pub(crate) fn order_check(&self) -> u64 {
        KeyHash::of(b"order", self.seed).0
    }

    /// Locks the line that holds `place`, which is not the end, and says where the places behind those that it holds begin.
    pub(crate) fn lock_place<'a>(&'a self, heap: &'a Heap, place: Place) -> (Locked<'a>, Place) {
        let hash = place.hash();
        loop {
            let geometry = self.geometry();
            let number = hash.page(geometry.pages);
            let behind = place.behind_line(geometry.pages);
            if !self.has_moved(geometry, number) {
                let page = heap.page(geometry.extent, number);
                if let Some(home) = page[hash.home()].lock() {
                    return (self.locked(heap, hash, page, home), behind);
                }
            }
            if geometry.next_pages == 0 {
                continue;
            }
            let page = self.next_page_of(heap, hash, geometry);
            if let Some(home) = page[hash.home()].lock() {
                // Of what the new page is for, only the old line's part is known to have moved.
                let behind = behind.min(place.behind_line(geometry.next_pages));
                return (self.locked(heap, hash, page, home), behind);
            }
        }
    }

    fn has_moved(&self, geometry: Geometry, page: usize) -> bool {
        // Acquire pairs with the Release store in `step`.
        geometry.next_pages > 0 && (page as u64) < self.frontier.load(Ordering::Acquire)
    }

    /// Hints the processor to fetch the next lines from `place` on, and what lies in them.
    pub(crate) fn prefetch_places<'a>(&self, heap: &'a Heap, place: Place) {
        let pages = self.geometry().pages;
        let mut ahead: [Option<(KeyHash, HomePage<'a>)>; FETCHED_TOGETHER] = [None; FETCHED_TOGETHER];
        let mut at = place;
        for line in &mut ahead {
            if at < Place::END {
                *line = Some((at.hash(), self.prefetch(heap, at.hash())));
                at = at.behind_line(pages);
            }
        }
        for (hash, page) in ahead.into_iter().flatten() {
            self.prefetch_overflow(heap, hash, page);
            let slots = page.0[hash.home()].slots();
            slots.for_each(|(_, slot)| heap.prefetch(slot.location));
        }
    }
}

impl<'a> Locked<'a> {
    /// Runs `each` on where the line's items lie whose places are from `from` on and before `to`.
    pub(crate) fn for_each_between(&self, from: Place, to: Place, mut each: impl FnMut(Location)) {
        let mut look = |location| {
            let place = Place::of(self.index.hash(self.heap.item(location).key()));
            if from <= place && place < to {
                each(location);
            }
        };
        self.home.line().slots().for_each(|(_, slot)| look(slot.location));
        for number in overflow_lines(self.home.overflow()) {
            let line = &self.page[HOME_LINES + number];
            // Other homes change their slots here meanwhile; ours stay, so a state without a change is complete.
            let (own, count) = loop {
                let seen = line.read();
                let (mut own, mut count) = ([None; crate::line::SLOTS], 0);
                for (_, slot) in line
                    .slots()
                    .filter(|(_, slot)| overflow_home(*slot) == self.hash.home())
                {
                    own[count] = Some(slot.location);
                    count += 1;
                }
                if line.unchanged(seen) {
                    break (own, count);
                }
            };
            own[..count].iter().flatten().copied().for_each(&mut look);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Place;
    use crate::index::{HOME_LINES, KeyHash};

    #[test]
    fn lines_of_a_table_of_any_size_hold_all_places_without_a_gap() {
        for pages in [1, 4, 5, 64, 100, 1023, 1024] {
            let (mut at, mut lines) = (Place::START, 0);
            while at < Place::END {
                let behind = at.behind_line(pages);
                assert!(at < behind);
                let last = Place(behind.0 - 1);
                for place in [at, last] {
                    assert_eq!(Place::of(place.hash()), place);
                    assert_eq!(place.home(), at.home());
                    assert_eq!(place.hash().page(pages), at.hash().page(pages));
                }
                (at, lines) = (behind, lines + 1);
            }
            assert_eq!((at, lines), (Place::END, pages * HOME_LINES), "{pages} pages");
        }
    }

    #[test]
    fn a_place_in_the_middle_of_a_line_goes_on_to_its_end() {
        let pages = 7;
        for number in 0..1000u64 {
            let hash = KeyHash(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let (place, page) = (Place::of(hash), hash.page(pages));
            let behind = place.behind_line(pages);
            let last = Place(behind.0 - 1);
            assert_eq!((last.hash().page(pages), last.home()), (page, place.home()));
            assert!(
                behind == Place::END
                    || behind.home() != place.home()
                    || behind.hash().page(pages) == page + 1
            );
        }
    }
}
