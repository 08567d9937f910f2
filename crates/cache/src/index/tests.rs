//! Tests of resizing.

use std::sync::atomic::Ordering;

use super::{GROW_ABOVE, Geometry, Index, KeyHash, PUNCH_BATCH};
use crate::epoch::Epochs;
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
