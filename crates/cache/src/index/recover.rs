//! The index after a crash: every slot is looked at, and every line is settled.
//!
//! A slot is what its line's writer left. A line whose version is odd was being changed: the two words of one of its slots may
//! belong to different items, and a slot that names nothing sensible then was never told as stored. While the index is being
//! resized, the old line rules until it says that it was moved.

use super::{HOME_LINES, Index, KeyHash, overflow_home};
use crate::line::{Line, Location, SLOTS, Slot};
use crate::segment::{Heap, PAGE_LINES};

/// What the walk of the slots asks of, and tells to, whoever knows items.
pub(crate) trait Visit {
    /// The hash of the key of the item there; `None` if there is none.
    fn hash_at(&self, location: Location) -> Option<KeyHash>;

    /// Its item will be looked at soon.
    fn fetch(&self, location: Location);

    /// Whether nobody has to look at the item of a slot that is as its writer left it: it will be looked at otherwise, and must
    /// then turn out to have this seat (see [`Moved::seat`]).
    fn trust(&mut self, location: Location, seat: u64) -> bool;

    /// The item is in the index; `false` if it is not whole: then it goes.
    fn keep(&mut self, location: Location, hash: KeyHash) -> bool;

    /// A slot named nothing that can be read; whether it is to be cleared.
    fn lose(&mut self, location: Location) -> bool;
}

/// A page of one of the tables.
#[derive(Clone, Copy)]
struct Place {
    extent: usize,
    pages: usize,
    number: usize,
    /// The table from which lines move to another.
    is_left: bool,
    /// The table to which they move.
    is_next: bool,
    /// All old lines from which its slots come said that they moved.
    is_whole: bool,
}

impl Place {
    /// The seat of what a home line of the page holds.
    fn seat(&self, home: usize, tag: u16) -> u64 {
        seat(self.is_next, self.number, home, tag)
    }
}

/// Which lines of which table hold the slots that count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    extent: usize,
    pages: usize,
    /// 0 while the index is not resized.
    next_pages: usize,
    /// Old pages before this one moved wholly, those behind it not at all.
    whole: usize,
}

/// What becomes of a slot.
enum Verdict {
    Keep(Slot, KeyHash),
    /// Of a line that was moved, or that was not yet.
    Double,
    Lost,
}

impl Moved {
    /// Which home line is that of a key, in which page of which table, and its tag, as one number.
    #[inline]
    pub(crate) fn seat(&self, heap: &Heap, hash: KeyHash) -> u64 {
        let number = hash.page(self.pages);
        let moves = self.next_pages > 0
            && (number < self.whole
                || number == self.whole && heap.page(self.extent, number)[hash.home()].was_moved());
        let number = if moves { hash.page(self.next_pages) } else { number };
        seat(moves, number, hash.home(), hash.tag())
    }
}

impl Index {
    /// Pages with slots.
    pub(crate) fn pages_to_recover(&self) -> usize {
        self.tables().iter().map(|(_, pages, first)| pages - first).sum()
    }

    /// How far lines were moved to another table.
    pub(crate) fn moved(&self, heap: &Heap) -> Moved {
        let (extent, pages, first) = self.tables()[0];
        let is_whole = |number: &usize| {
            heap.page(extent, *number)[..HOME_LINES]
                .iter()
                .all(Line::was_moved)
        };
        // They move in order.
        let next_pages = self.geometry().next_pages;
        let whole = match next_pages {
            0 => 0,
            _ => (first..pages).find(|number| !is_whole(number)).unwrap_or(pages),
        };
        Moved {
            extent,
            pages,
            next_pages,
            whole,
        }
    }

    /// Settles the page of this number, of [`Index::pages_to_recover`]. Any thread may, each page once.
    pub(crate) fn recover_page(&self, heap: &Heap, moved: Moved, number: usize, visit: &mut impl Visit) {
        let (tables, is_resizing) = (self.tables(), self.geometry().next_pages > 0);
        let mut left = number;
        for (at, (extent, pages, first)) in tables.into_iter().enumerate() {
            if left < pages - first {
                let (number, is_next) = (first + left, is_resizing && at == 1);
                let place = Place {
                    extent,
                    pages,
                    number,
                    is_left: is_resizing && at == 0,
                    is_next,
                    is_whole: is_next && last_source(number, pages, moved.pages) < moved.whole,
                };
                return self.recover_lines(heap, place, visit);
            }
            left -= pages - first;
        }
    }

    fn recover_lines(&self, heap: &Heap, place: Place, visit: &mut impl Visit) {
        let page = heap.page(place.extent, place.number);
        let is_settled = !place.is_next || place.is_whole;
        // Items that have to be looked at are all fetched before the first one is.
        let mut doubtful = Vec::new();
        for (number, line) in page.iter().enumerate() {
            let is_home = number < HOME_LINES;
            if is_home && place.is_left && line.was_moved() {
                continue;
            }
            let in_place = is_home && is_settled && !line.was_changing();
            for slot_index in 0..SLOTS {
                let Some(slot) = line.slot(slot_index) else {
                    line.put_back(slot_index, None);
                    continue;
                };
                if !in_place || !visit.trust(slot.location, place.seat(number, slot.tag)) {
                    visit.fetch(slot.location);
                    doubtful.push((number, slot_index, slot));
                }
            }
        }
        let mut overflow = [0u32; HOME_LINES];
        for (number, slot_index, slot) in doubtful {
            let line = &page[number];
            match self.judge(heap, place, number, slot, visit) {
                Verdict::Keep(read, hash) if visit.keep(read.location, hash) => {
                    line.put_back(slot_index, Some(read));
                    if number >= HOME_LINES {
                        overflow[hash.home()] |= 1 << (number - HOME_LINES);
                    }
                }
                Verdict::Double => line.put_back(slot_index, None),
                Verdict::Keep(..) | Verdict::Lost => {
                    // What was being put there was never told as stored.
                    if line.was_changing() || visit.lose(slot.location) {
                        line.put_back(slot_index, None);
                    }
                }
            }
        }
        settle(page, place, &overflow);
    }

    fn judge(&self, heap: &Heap, place: Place, number: usize, slot: Slot, visit: &impl Visit) -> Verdict {
        let page = heap.page(place.extent, place.number);
        if number >= HOME_LINES && place.is_left {
            let home = page[..HOME_LINES].get(overflow_home(slot));
            if home.is_some_and(Line::was_moved) {
                return Verdict::Double;
            }
        }
        let fits = |slot: Slot| {
            let hash = visit.hash_at(slot.location)?;
            let is_here = hash.page(place.pages) == place.number
                && match number {
                    ..HOME_LINES => hash.home() == number && hash.tag() == slot.tag,
                    _ => hash.overflow_tag() == slot.tag,
                };
            is_here.then_some((slot, hash))
        };
        let found = fits(slot).or_else(|| {
            let mut others = Line::other_readings(slot).filter(|_| page[number].was_changing());
            others.find_map(fits)
        });
        match found {
            Some((_, hash)) if place.is_next && !self.hash_has_moved(heap, hash) => Verdict::Double,
            Some((slot, hash)) => Verdict::Keep(slot, hash),
            None => Verdict::Lost,
        }
    }

    /// Whether the hash's line of the table that is being left was moved.
    fn hash_has_moved(&self, heap: &Heap, hash: KeyHash) -> bool {
        let (extent, pages, first) = self.tables()[0];
        let number = hash.page(pages);
        number < first || heap.page(extent, number)[hash.home()].was_moved()
    }
}

fn seat(is_next: bool, page: usize, home: usize, tag: u16) -> u64 {
    u64::from(is_next) << 63 | (page as u64) << 16 | (home as u64) << 8 | u64::from(tag)
}

/// The last page of a table of so many pages whose keys move to page `number` of one of `pages`.
fn last_source(number: usize, pages: usize, from_pages: usize) -> usize {
    let behind = ((number as u64 + 1) << 32).div_ceil(pages as u64);
    KeyHash((behind - 1) << 32).page(from_pages)
}

/// No line of the page is locked or being changed, and each home line names the overflow lines that hold keys of it.
fn settle(page: &[Line; PAGE_LINES], place: Place, overflow: &[u32; HOME_LINES]) {
    for (number, line) in page.iter().enumerate() {
        let moved = place.is_left && number < HOME_LINES && line.was_moved();
        line.settle(moved, overflow.get(number).copied().unwrap_or(0));
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
impl Index {
    /// Has each of two slots of different tags name the other's item, as if somebody else had written there.
    pub(crate) fn swap_two_slots(&self, heap: &Heap) {
        let (extent, pages, first) = self.tables()[0];
        let lines = (first..pages).flat_map(|number| &heap.page(extent, number)[..HOME_LINES]);
        let line = lines.filter(|line| !line.was_moved()).find_map(|line| {
            let (one, other) = (line.slot(0)?, line.slot(1)?);
            (one.tag != other.tag).then_some((line, one, other))
        });
        let (line, one, other) = line.expect("a line with two items");
        let named = |slot: Slot, location| Slot { location, ..slot };
        line.put_back(0, Some(named(one, other.location)));
        line.put_back(1, Some(named(other, one.location)));
    }
}
