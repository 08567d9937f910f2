//! The index across a restart: what of it stands in the file, and how it is taken up again.

use scrubjay_base::sync::whole::Ordering;

use super::resize::Resize;
use super::{Geometry, HOME_LINES, Index, KeyHash, overflow_home};
use crate::item::ItemRef;
use crate::line::{Line, Location, Slot};
use crate::segment::{Heap, PAGE_LINES};

impl Index {
    /// The index that lies in the heap; `None` if what the superblock says of it cannot be. Nobody looks at it yet.
    pub(crate) fn resume(heap: &Heap, seed: u64, first_pages: usize) -> Option<Index> {
        let superblock = heap.superblock();
        let geometry = Geometry::decode(superblock.geometry.load(Ordering::Relaxed));
        let frontier = superblock.frontier.load(Ordering::Relaxed);
        let has_table = (1..=heap.pages_max()).contains(&geometry.pages);
        if geometry.extent > 1 || !has_table || geometry.next_pages > heap.pages_max() {
            return None;
        }
        let index = Index::new(seed, first_pages);
        index.geometry.store(geometry.encode(), Ordering::Relaxed);
        if geometry.next_pages == 0 {
            heap.punch_pages(1 - geometry.extent, 0, heap.pages_max());
            return Some(index);
        }
        if frontier as usize > geometry.pages {
            return None;
        }
        index.frontier.store(frontier, Ordering::Relaxed);
        index.resizing.store(true, Ordering::Relaxed);
        // Whether their memory was given back is not known, and once more does no harm.
        *index.resize.lock().expect("nobody else has it") = Resize {
            punch_to: (frontier > 0).then_some((frontier as usize, 0)),
            ..Resize::default()
        };
        Some(index)
    }

    /// An index of an empty cache, noted in the file.
    pub(crate) fn create(heap: &Heap, seed: u64, first_pages: usize) -> Index {
        let index = Index::new(seed, first_pages);
        index.set_geometry(heap, index.geometry());
        index
    }

    /// Release: who sees it finds the lines where it says. In the file first: nobody acts by what is not there.
    pub(super) fn set_geometry(&self, heap: &Heap, geometry: Geometry) {
        let superblock = heap.superblock();
        superblock.geometry.store(geometry.encode(), Ordering::Release);
        self.geometry.store(geometry.encode(), Ordering::Release);
    }

    /// As [`Index::set_geometry`].
    pub(super) fn set_frontier(&self, heap: &Heap, frontier: u64) {
        heap.superblock().frontier.store(frontier, Ordering::Release);
        self.frontier.store(frontier, Ordering::Release);
    }

    /// The tables that hold slots, the second of no pages but while the index is resized: extent, pages, and the first page
    /// that still counts.
    pub(super) fn tables(&self) -> [(usize, usize, usize); 2] {
        let geometry = self.geometry();
        let frontier = match geometry.next_pages {
            0 => 0,
            _ => self.frontier.load(Ordering::Acquire) as usize,
        };
        [
            (geometry.extent, geometry.pages, frontier),
            (1 - geometry.extent, geometry.next_pages, 0),
        ]
    }

    /// Runs `visit` on every slot; exact only while no worker is active. For audits.
    pub(crate) fn for_each<'a>(
        &'a self,
        heap: &'a Heap,
        mut visit: impl FnMut(KeyHash, Location, ItemRef<'a>),
    ) {
        for (extent, pages, first) in self.tables() {
            for number in first..pages {
                let page = heap.page(extent, number);
                assert!(
                    !page.iter().any(Line::is_busy),
                    "a line is locked or changing while everything is quiet"
                );
                for (line_number, slot) in slots_in_force(page) {
                    let item = heap.item(slot.location);
                    let hash = self.hash(item.key());
                    let tag = match line_number {
                        ..HOME_LINES => hash.tag(),
                        _ => hash.overflow_tag(),
                    };
                    assert_eq!(tag, slot.tag, "a slot's tag is its key's");
                    assert_eq!(hash.page(pages), number, "a slot lies in its key's page");
                    visit(hash, slot.location, item);
                }
            }
        }
    }
}

/// The slots of a page that were not moved to another table, and the numbers of their lines.
fn slots_in_force(page: &[Line; PAGE_LINES]) -> impl Iterator<Item = (usize, Slot)> + '_ {
    let lines = page.iter().enumerate();
    let slots = lines.flat_map(|(number, line)| line.slots().map(move |(_, slot)| (number, slot)));
    slots.filter(|(number, slot)| {
        let home = if *number < HOME_LINES {
            *number
        } else {
            overflow_home(*slot)
        };
        page.get(home).is_some_and(|home| !home.read().moved())
    })
}
