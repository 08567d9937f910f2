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

    /// Will be asked soon.
    fn fetch(&self, location: Location);

    /// The item is in the index; `false` if it is not whole: then it goes.
    fn keep(&mut self, location: Location, hash: KeyHash) -> bool;

    /// A slot named nothing that can be read.
    fn lose(&mut self, location: Location);
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
}

/// What becomes of a slot.
enum Verdict {
    Keep(Slot, KeyHash),
    /// Of a line that was moved, or that was not yet.
    Double,
    Lost,
}

/// Lines whose items are fetched before they are looked at.
const LINES_AHEAD: usize = 4;

impl Index {
    /// Pages with slots.
    pub(crate) fn pages_to_recover(&self) -> usize {
        self.tables().iter().map(|(_, pages, first)| pages - first).sum()
    }

    /// Settles the page of this number, of [`Index::pages_to_recover`]. Any thread may, each page once.
    pub(crate) fn recover_page(&self, heap: &Heap, number: usize, visit: &mut impl Visit) {
        let (tables, is_resizing) = (self.tables(), self.geometry().next_pages > 0);
        let mut left = number;
        for (at, (extent, pages, first)) in tables.into_iter().enumerate() {
            if left < pages - first {
                let place = Place {
                    extent,
                    pages,
                    number: first + left,
                    is_left: is_resizing && at == 0,
                    is_next: is_resizing && at == 1,
                };
                return self.recover_lines(heap, place, visit);
            }
            left -= pages - first;
        }
    }

    fn recover_lines(&self, heap: &Heap, place: Place, visit: &mut impl Visit) {
        let page = heap.page(place.extent, place.number);
        let mut overflow = [0u32; HOME_LINES];
        let fetch = |number: usize, visit: &mut _| fetch_line(page.get(number), visit);
        (0..LINES_AHEAD).for_each(|number| fetch(number, visit));
        for (number, line) in page.iter().enumerate() {
            fetch(number + LINES_AHEAD, visit);
            if number < HOME_LINES && place.is_left && line.was_moved() {
                continue;
            }
            for slot_index in 0..SLOTS {
                let Some(slot) = line.slot(slot_index) else {
                    line.put_back(slot_index, None);
                    continue;
                };
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
                        if !line.was_changing() {
                            visit.lose(slot.location);
                        }
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
            Some((_, hash)) if place.is_next && !self.has_moved(heap, hash) => Verdict::Double,
            Some((slot, hash)) => Verdict::Keep(slot, hash),
            None => Verdict::Lost,
        }
    }

    /// Whether the hash's line of the table that is being left was moved.
    fn has_moved(&self, heap: &Heap, hash: KeyHash) -> bool {
        let (extent, pages, first) = self.tables()[0];
        let number = hash.page(pages);
        number < first || heap.page(extent, number)[hash.home()].was_moved()
    }
}

fn fetch_line(line: Option<&Line>, visit: &impl Visit) {
    let slots = line.into_iter().flat_map(Line::slots);
    slots.for_each(|(_, slot)| visit.fetch(slot.location));
}

/// No line of the page is locked or being changed, and each home line names the overflow lines that hold keys of it.
fn settle(page: &[Line; PAGE_LINES], place: Place, overflow: &[u32; HOME_LINES]) {
    for (number, line) in page.iter().enumerate() {
        let moved = place.is_left && number < HOME_LINES && line.was_moved();
        line.settle(moved, overflow.get(number).copied().unwrap_or(0));
    }
}
