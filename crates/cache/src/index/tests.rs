//! Tests of resizing.

use std::sync::atomic::Ordering;

use super::resize::{CROWD_TICKS, GROW_ABOVE, PUNCH_BATCH, SHRINK_BELOW};
use super::{Geometry, Index, KeyHash};
use crate::epoch::Epochs;
use crate::line::{Heat, Location};
use crate::segment::Heap;

/// An empty index of so many pages, over a heap with room for more.
fn index_of(pages: usize) -> (Heap, Index, Epochs) {
    let heap = Heap::reserve(14, 64, 1024).expect("address space");
    let index = Index::new(1, 4);
    let start = Geometry {
        extent: 0,
        pages,
        next_pages: 0,
    };
    index.geometry.store(start.encode(), Ordering::Release);
    (heap, index, Epochs::new(1))
}

#[test]
fn a_page_that_was_given_back_is_not_touched_when_it_is_full_in_the_new_table() {
    let pages = 4 * PUNCH_BATCH;
    let (heap, index, epochs) = index_of(pages);
    let items = (pages * GROW_ABOVE + 1) as u64;
    let mut pushed_out = Vec::new();
    for _ in 0..pages - 1 {
        index.step(&heap, &epochs, items, 1, &mut pushed_out);
    }
    let is_marked = |page| heap.page(0, page).iter().any(|line| line.read().moved());
    assert!(!is_marked(0), "the first page was given back");
    assert!(is_marked(pages - 2), "the last that moved was not");
    index.relieve(&heap, &epochs, KeyHash(0), items, &mut pushed_out);
    assert!(!is_marked(0));
}

#[test]
fn a_table_that_ends_with_a_batch_is_given_back_wholly() {
    let pages = 2 * PUNCH_BATCH;
    let (heap, index, epochs) = index_of(pages);
    let items = (pages * GROW_ABOVE + 1) as u64;
    let mut pushed_out = Vec::new();
    // Nobody reads, so each step gives back what the one before it moved.
    for _ in 0..2 * pages {
        index.step(&heap, &epochs, items, 1, &mut pushed_out);
    }
    let now = index.geometry();
    assert_eq!((now.extent, now.pages, now.next_pages), (1, pages + pages / 4, 0));
    assert!(!index.has_leftovers());
}

/// What a table of `pages` would be resized to with these items, after the load was noted at `tick`.
fn target(index: &Index, items: usize, tick: u32, memory_is_free: bool) -> Option<usize> {
    index.note_load(items as u64, tick, memory_is_free);
    index.target_pages(items as u64)
}

#[test]
fn a_table_waits_for_the_end_of_a_crowd_while_memory_is_free() {
    let pages = 1 << 10;
    let (_heap, index, _epochs) = index_of(pages);
    let third = pages * SHRINK_BELOW;
    assert_eq!(target(&index, third, 0, true), None);
    assert_eq!(
        target(&index, third - 1, 0, false),
        Some(pages / 2),
        "memory is wanted"
    );
    assert_eq!(target(&index, third - 1, 0, true), None);
    // They go on leaving, each time a sixteenth and more, up to the last moment of patience.
    let mut items = third;
    for tick in 1..8 * CROWD_TICKS {
        if tick % CROWD_TICKS == CROWD_TICKS - 1 {
            items -= items / 15;
        }
        assert_eq!(target(&index, items, tick, true), None, "tick {tick}");
    }
    let end = 9 * CROWD_TICKS;
    assert_eq!(
        target(&index, items, end, true),
        Some(pages / 2),
        "none left for long"
    );
    assert_eq!(target(&index, third / 8 - 1, end, true), Some(pages / 16));
    assert_eq!(target(&index, third / 4 - 1, end, false), Some(pages / 8));
}

#[test]
fn a_table_that_shrinks_to_a_sixteenth_keeps_what_it_holds() {
    const ITEMS: u64 = 12_000;
    let pages = 512;
    let (heap, index, epochs) = index_of(pages);
    let mut pushed_out = Vec::new();
    let home = |number: u64| KeyHash(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let place = |number: u64| Location::from_units(number + 1);
    for number in 0..ITEMS {
        let mut locked = index.lock(&heap, home(number));
        assert!(locked.try_insert(place(number), Heat::default()));
    }
    while index.step(&heap, &epochs, ITEMS, 1, &mut pushed_out) {}
    assert_eq!(index.geometry().pages, pages / 16);
    assert!(pushed_out.is_empty());
    for number in 0..ITEMS {
        let locked = index.lock(&heap, home(number));
        let is_home = locked.home.line().find_location(place(number)).is_some();
        let is_beside = locked.find_location_beside(place(number)).is_some();
        assert!(is_home != is_beside, "key {number}");
    }
}
