//! The whole-engine check: everything that must hold when no worker is in the middle of an operation.

use scrubjay_base::sync::whole::Ordering;
use std::collections::{HashMap, HashSet};

#[cfg(shuttle)]
use crate::api::Cause;
use crate::cache::Cache;
use crate::item::{ItemRef, NEVER, PIECE_HEADER, Piece};
use crate::segment::{SegmentId, SegmentState, Walk};

impl Cache {
    /// Checks every invariant of index, segments and counts. Call it only while no worker is inside an operation and no
    /// upload is unfinished. Cost: reads every item.
    ///
    /// # Panics
    /// With a message that names the invariant and the numbers, if one does not hold.
    pub fn audit(&self) {
        let mut keys = HashSet::new();
        let (mut live, mut expiring) = (HashMap::<SegmentId, u64>::new(), HashMap::<SegmentId, i64>::new());
        let mut pieces: HashMap<u64, Piece> = HashMap::new();
        let mut count = 0;
        self.index.for_each(&self.heap, |hash, location, item| {
            count += 1;
            let segment = self.heap.segment_of(location);
            let header = self.heap.header(segment);
            let holds_items = matches!(
                header.state(),
                SegmentState::Open | SegmentState::Sealed | SegmentState::Draining
            );
            assert!(
                holds_items,
                "a slot points into {segment:?}, {:?}",
                header.state()
            );
            assert!(
                !item.is_piece() && !item.is_filler(),
                "a slot points at something that is no item"
            );
            let is_new = keys.insert(item.key().to_vec());
            assert!(is_new, "key {:?} has two slots", item.key());
            assert!(
                item.deadline() <= header.max_deadline(),
                "an item outlives what its segment knows"
            );
            let expires = item.deadline() != NEVER;
            let mut add = |segment, len| {
                let len = self.heap.aligned(len) as u64;
                *live.entry(segment).or_default() += len;
                *expiring.entry(segment).or_default() += if expires { len as i64 } else { 0 };
            };
            add(segment, item.len());
            if !item.is_chained() {
                return;
            }
            let mut value_len = 0;
            for piece in item.pieces() {
                let at = self.heap.item(piece.location);
                assert!(at.is_piece(), "a piece table names something that is no piece");
                assert_eq!(
                    at.piece_owner(),
                    hash.0,
                    "a piece belongs to the item that names it"
                );
                assert_eq!(
                    at.piece_bytes().len(),
                    piece.len,
                    "a piece is as long as its owner says"
                );
                assert!(
                    pieces.insert(piece.location.units(), piece).is_none(),
                    "a piece has two owners"
                );
                let segment = self.heap.segment_of(piece.location);
                assert!(item.deadline() <= self.heap.header(segment).max_deadline());
                add(segment, PIECE_HEADER + piece.len);
                value_len += piece.len;
            }
            assert_eq!(value_len, item.value_len(), "the pieces add up to the value");
        });
        self.audit_books(count, live.values().sum());
        for (segment, expected) in expiring {
            let kept = self.heap.header(segment).expiring_total();
            assert_eq!(kept, expected, "bytes that expire in segment {segment:?}");
        }
        self.audit_segments(&live);
    }

    #[cfg(shuttle)]
    pub(crate) fn note_evicted_key(&self, item: ItemRef<'_>, cause: Cause) {
        if matches!(cause, Cause::Evicted | Cause::LimitLowered) {
            let mut evicted = self.evicted.lock().expect("nothing panics under it");
            evicted.push(item.key().to_vec());
        }
    }

    /// How often an item of `key` was evicted: no model can tell that.
    #[cfg(shuttle)]
    pub fn evictions_of(&self, key: &[u8]) -> usize {
        let evicted = self.evicted.lock().expect("nothing panics under it");
        evicted.iter().filter(|other| *other == key).count()
    }

    fn audit_books(&self, count: u64, bytes: u64) {
        let counters = self.counters();
        assert_eq!(
            count,
            self.items(),
            "items in the index and the balance of counts"
        );
        assert_eq!(
            counters.found + counters.created,
            count + counters.removed.total(),
            "items found and created and what became of them"
        );
        assert_eq!(
            bytes,
            self.items_bytes(),
            "bytes of items in the index and the balance of counts"
        );
        let classes = self.size_classes();
        assert_eq!(
            (count, bytes),
            (
                classes.iter().map(|class| class.items).sum(),
                classes.iter().map(|class| class.bytes).sum()
            ),
            "items and bytes in the index and by classes of sizes"
        );
    }

    fn audit_segments(&self, live: &HashMap<SegmentId, u64>) {
        let state = self.pool.lock();
        let (allowed, used) = state.allowed_and_used();
        let mut in_use = 0;
        for segment in (0..state.touched()).map(SegmentId) {
            let header = self.heap.header(segment);
            let expected = live.get(&segment).copied().unwrap_or(0);
            match header.state() {
                SegmentState::Free => {
                    assert_eq!(
                        header.pins.load(Ordering::Relaxed),
                        0,
                        "a free segment has no pins"
                    );
                    assert_eq!(expected, 0);
                    continue;
                }
                SegmentState::Retired => assert_eq!(expected, 0, "no slot points into a retired segment"),
                SegmentState::Draining => panic!("a segment is being emptied while everything is quiet"),
                SegmentState::Open | SegmentState::Sealed => {
                    let is_sealed = header.state() == SegmentState::Sealed;
                    assert_eq!(
                        header.is_closed(),
                        is_sealed,
                        "who closed {segment:?} has sealed it"
                    );
                    assert_eq!(
                        u64::from(header.live()),
                        expected,
                        "live bytes of segment {segment:?}, kept and counted"
                    );
                    let walked: usize = self
                        .heap
                        .walk(segment)
                        .map(|(_, item)| self.heap.aligned(item.len()))
                        .sum();
                    assert_eq!(
                        walked,
                        header.used() as usize,
                        "a walk of segment {segment:?} ends at its end"
                    );
                    assert_eq!(
                        Walk::of_all(&self.heap, segment).count(),
                        self.heap.walk(segment).count(),
                        "a walk of all parts of segment {segment:?} comes to all"
                    );
                    self.audit_listings(segment);
                }
            }
            in_use += 1;
        }
        assert_eq!(in_use, used, "segments not free, found and counted");
        assert!(
            used <= allowed.max(used),
            "segments used {used}, allowed {allowed}"
        );
    }

    /// What is listed of a segment is there, and a walk beside it comes to the rest.
    fn audit_listings(&self, segment: SegmentId) {
        let heap = &self.heap;
        let found = |item: ItemRef<'_>| (heap.aligned(item.len()), self.index.hash(item.key()));
        let items: HashMap<u32, _> = heap
            .walk(segment)
            .filter(|(_, item)| !item.is_piece())
            .map(|(location, item)| (heap.place_of(location).expect("in the heap").1, found(item)))
            .collect();
        let listings: Vec<_> = heap.listings(segment).collect();
        assert!(listings.is_sorted_by_key(|listing| listing.start));
        for listing in &listings {
            assert_eq!(
                items.get(&listing.start),
                Some(&(listing.len as usize, listing.hash)),
                "what lies where {listing:?} says"
            );
        }
        assert_eq!(
            Walk::of_unlisted(heap, segment).count() + listings.len(),
            heap.walk(segment).count(),
            "what is listed of segment {segment:?}, and what is not"
        );
    }
}
