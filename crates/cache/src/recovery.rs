//! After a crash: what the index names is what there is; everything else is counted anew.
//!
//! 1. Each segment's header is settled.
//! 2. Each slot is gone through. One that is as its writer left it, whose item a checksum covers, leaves a mark: see `marks.rs`.
//!    The item of any other is looked at: it can be read, it belongs there, or the slot goes.
//! 3. Each segment is gone through: its checksum is verified, and what is marked is counted.
//! 4. Behind the part that a checksum covers, what no slot names becomes room given up, so that the segment can be walked.
//!
//! After a mere death all of this agrees. If it does not, somebody else has changed the memory: then all is done again without
//! marks, in doubt of everything. A segment whose checksum fails is given up as a whole, and the item of each slot is looked at.
//!
//! Died in the middle of it, the next process begins anew: nothing here depends on what was counted before.

use std::sync::atomic::AtomicUsize;

use scrubjay_base::sync::whole::Ordering;
use scrubjay_io::thread;

use crate::checksum::Sum;
use crate::eviction::LOGS;
use crate::index::{Index, KeyHash, Moved, Visit};
use crate::item::{ItemRef, Kind, LEAST, Outline};
use crate::line::Location;
use crate::pool::NUMBER_MAX;
use crate::segment::{Heap, SEGMENT_START, SegmentId, SegmentState, Starts};
use crate::sizes;
use crate::superblock::Saved;
use marks::{Marker, Marks, pair};

mod marks;
#[cfg(all(test, not(loom), not(shuttle)))]
mod tests;

/// Threads at most; more would wait for memory together.
const THREADS_MAX: usize = 16;

/// Bytes of segments for each thread at least.
const BYTES_PER_THREAD: usize = 64 << 20;

/// What a thread takes at once: their words lie beside each other.
const PAGES_TAKEN: usize = 16;
const SEGMENTS_TAKEN: usize = 16;

/// What a process found that died.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) items: Saved,
    /// Items of segments whose checksums failed.
    pub(crate) spoilt: u64,
    /// Slots that named nothing that can be read.
    pub(crate) unreadable: u64,
}

/// A segment whose items can be looked at.
#[derive(Clone, Copy, Debug)]
enum Segment {
    /// It holds nothing.
    Unused,
    /// Its checksum failed.
    Spoilt,
    Used {
        /// Where its items end at the latest.
        limit: u32,
        /// Before this, items lie one behind the other.
        covered: u32,
        starts: Starts,
    },
}

/// An item or a piece that lies where no checksum covers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Loose {
    segment: SegmentId,
    start: u32,
    end: u32,
}

/// One thread's way over slots or segments.
struct Walker<'a> {
    heap: &'a Heap,
    index: &'a Index,
    segments: &'a [Segment],
    /// `None` if every slot is to be looked at.
    marker: Option<Marker<'a>>,
    moved: Moved,
    seen: Seen,
}

/// What a thread saw.
#[derive(Default)]
struct Seen {
    found: Found,
    loose: Vec<Loose>,
    /// Bytes of live items of each segment.
    live: Vec<u64>,
    /// The sum over slots that left marks, less that over items that were found marked.
    unpaired: u64,
    /// Something is not as a mere death leaves it.
    doubt: bool,
}

/// Counts what the index names; `None` if heap and index contradict each other.
pub(crate) fn recover(heap: &Heap, index: &Index, tick: u32) -> Option<Found> {
    recover_by_marks(heap, index, tick).or_else(|| recover_in_doubt(heap, index, tick))
}

/// `None` if something is not as a mere death leaves it.
fn recover_by_marks(heap: &Heap, index: &Index, tick: u32) -> Option<Found> {
    let mut segments = settle_segments(heap, tick);
    let covered = segments.iter().map(|segment| match segment {
        Segment::Used { covered, .. } => *covered,
        Segment::Unused | Segment::Spoilt => SEGMENT_START,
    });
    // Without memory for marks the other way remains.
    let marks = Marks::new(heap, covered.collect()).ok()?;
    let mut seen = walk_slots(heap, index, &segments, Some(&marks));
    if seen.doubt {
        return None;
    }
    let moved = index.moved(heap);
    let parts = in_parallel(threads(&segments, heap), |next| {
        let mut walker = Walker::new(heap, index, &segments, None, moved);
        let mut starts = Vec::new();
        while let Some(taken) = take(next, segments.len(), SEGMENTS_TAKEN) {
            let found = taken.filter_map(|id| Some((id, walker.count_marked(&marks, SegmentId(id as u32))?)));
            starts.extend(found);
        }
        (walker.seen, starts)
    });
    for (part, found) in parts {
        seen.add(part);
        for (id, found) in found {
            if let Segment::Used { starts, .. } = &mut segments[id] {
                *starts = found;
            }
        }
    }
    let agrees = !seen.doubt && seen.unpaired == 0;
    agrees.then(|| finish(heap, &segments, seen)).flatten()
}

/// Trusts nothing: every checksum is verified first, and the item of every slot looked at.
fn recover_in_doubt(heap: &Heap, index: &Index, tick: u32) -> Option<Found> {
    let mut segments = settle_segments(heap, tick);
    let parts = in_parallel(threads(&segments, heap), |next| {
        let mut verified = Vec::new();
        while let Some(taken) = take(next, segments.len(), SEGMENTS_TAKEN) {
            verified.extend(taken.map(|id| (id, verify(heap, SegmentId(id as u32), segments[id]))));
        }
        verified
    });
    for (id, segment) in parts.into_iter().flatten() {
        segments[id] = segment;
    }
    let seen = walk_slots(heap, index, &segments, None);
    finish(heap, &segments, seen)
}

/// Goes through all slots, on all cores.
fn walk_slots(heap: &Heap, index: &Index, segments: &[Segment], marks: Option<&Marks<'_>>) -> Seen {
    let (pages, moved) = (index.pages_to_recover(), index.moved(heap));
    let parts = in_parallel(threads(segments, heap), |next| {
        let mut walker = Walker::new(heap, index, segments, marks, moved);
        while let Some(mut taken) = take(next, pages, PAGES_TAKEN) {
            taken.all(|page| {
                index.recover_page(heap, moved, page, &mut walker);
                !walker.seen.doubt
            });
        }
        walker.marker.iter_mut().for_each(Marker::finish);
        walker.seen
    });
    let mut seen = Seen::default();
    parts.into_iter().for_each(|part| seen.add(part));
    seen
}

/// Fills the gaps and notes what lives; `None` if that cannot be.
fn finish(heap: &Heap, segments: &[Segment], mut seen: Seen) -> Option<Found> {
    seen.loose.sort_unstable();
    let gaps_are_filled = fill_gaps(heap, segments, &seen.loose);
    let mut segments = segments.iter().zip(&seen.live).zip(0..);
    let all_fits = segments.all(|((segment, live), id)| match segment {
        Segment::Used { .. } => heap.header(SegmentId(id)).set_live(*live),
        Segment::Unused | Segment::Spoilt => true,
    });
    (gaps_are_filled && all_fits).then_some(seen.found)
}

fn settle_segments(heap: &Heap, tick: u32) -> Vec<Segment> {
    let ids = || (0..heap.segments_max()).map(SegmentId);
    let segments: Vec<Segment> = ids().map(|id| settle_segment(heap, id, tick)).collect();
    // A log has one open segment. Whatever is sealed now follows on all that was sealed before.
    let mut open = [false; LOGS];
    let mut order = ids()
        .map(|id| heap.header(id).sealed_order.load(Ordering::Relaxed))
        .filter(|order| *order < NUMBER_MAX)
        .max()
        .unwrap_or(0);
    for (id, segment) in ids().zip(&segments) {
        let (header, Segment::Used { limit, .. }) = (heap.header(id), segment) else {
            continue;
        };
        if header.state() == SegmentState::Open && std::mem::replace(&mut open[header.log()], true) {
            header.seal_at(*limit);
            header.sealed_order.store(0, Ordering::Relaxed);
        }
        let known = header.sealed_order.load(Ordering::Relaxed);
        if header.state() == SegmentState::Sealed && (known == 0 || known > order) {
            order += 1;
            header.sealed_order.store(order, Ordering::Relaxed);
        }
    }
    segments
}

fn settle_segment(heap: &Heap, segment: SegmentId, tick: u32) -> Segment {
    match heap.header(segment).settle(heap.segment_size() as u32, tick) {
        None => Segment::Unused,
        Some(limit) => Segment::Used {
            limit,
            covered: heap.kept_sum(segment).covered,
            starts: Starts::default(),
        },
    }
}

/// Gives a segment up whose checksum fails.
fn verify(heap: &Heap, id: SegmentId, segment: Segment) -> Segment {
    let Segment::Used { limit, covered, .. } = segment else {
        return segment;
    };
    let (kept, mut starts) = (heap.kept_sum(id), Starts::default());
    let is_right = covered <= limit
        && heap.sum_on(id, Sum::EMPTY, covered, u32::MAX, |start, next, _, _| {
            starts.note(heap, start, next);
        }) == Some(kept);
    if !is_right {
        heap.header(id).give_up();
        return Segment::Spoilt;
    }
    Segment::Used {
        limit,
        covered,
        starts,
    }
}

/// Makes what lies behind the covered part of each segment items one behind the other. `loose` is in order.
fn fill_gaps(heap: &Heap, segments: &[Segment], loose: &[Loose]) -> bool {
    let mut loose = loose.iter().peekable();
    (0..).map(SegmentId).zip(segments).all(|(id, segment)| {
        let Segment::Used {
            limit,
            covered,
            mut starts,
        } = *segment
        else {
            return true;
        };
        let mut at = covered;
        while let Some(next) = loose.next_if(|next| next.segment == id) {
            if !heap.fill_gap(id, at, next.start, &mut starts) {
                return false;
            }
            starts.note(heap, next.start, next.end);
            at = next.end;
        }
        let left = limit.saturating_sub(at) as usize;
        let is_filled = if (1..LEAST).contains(&left) && limit as usize == heap.segment_size() {
            // Who closed it, and knew that so little was left, did not come to say so.
            heap.header(id).seal_at(at);
            true
        } else {
            heap.fill_gap(id, at, limit, &mut starts)
        };
        heap.header(id).set_starts(&starts);
        is_filled
    })
}

impl Seen {
    fn add(&mut self, part: Seen) {
        self.found.add(&part.found);
        self.loose.extend(part.loose);
        self.live.resize(part.live.len(), 0);
        for (live, more) in self.live.iter_mut().zip(part.live) {
            *live += more;
        }
        self.unpaired = self.unpaired.wrapping_add(part.unpaired);
        self.doubt |= part.doubt;
    }
}

impl Found {
    fn add(&mut self, part: &Found) {
        let (items, more) = (&mut self.items, &part.items);
        items.items += more.items;
        items.bytes += more.bytes;
        items.unread_bytes += more.unread_bytes;
        items.sizes.resize(sizes::CLASSES, (0, 0));
        for (class, more) in items.sizes.iter_mut().zip(&more.sizes) {
            *class = (class.0 + more.0, class.1 + more.1);
        }
        self.spoilt += part.spoilt;
        self.unreadable += part.unreadable;
    }
}

impl<'a> Walker<'a> {
    fn new(
        heap: &'a Heap,
        index: &'a Index,
        segments: &'a [Segment],
        marks: Option<&'a Marks<'a>>,
        moved: Moved,
    ) -> Walker<'a> {
        let mut seen = Seen {
            live: vec![0; segments.len()],
            ..Seen::default()
        };
        seen.found.items.sizes = vec![(0, 0); sizes::CLASSES];
        Walker {
            heap,
            index,
            segments,
            marker: marks.map(Marker::new),
            moved,
            seen,
        }
    }

    /// Verifies a segment's checksum and counts what is marked in it; `None` if it holds nothing.
    fn count_marked(&mut self, marks: &Marks<'_>, id: SegmentId) -> Option<Starts> {
        let Segment::Used { limit, covered, .. } = self.segments[id.0 as usize] else {
            return None;
        };
        if covered > limit {
            self.seen.doubt = true;
            return None;
        }
        let (heap, mut starts) = (self.heap, Starts::default());
        let sum = heap.sum_on(id, Sum::EMPTY, covered, u32::MAX, |start, next, item, outline| {
            starts.note(heap, start, next);
            if marks.is_set(id, start) {
                self.count_one(heap.location(id, start), item, outline);
            }
        });
        self.seen.doubt |= sum != Some(heap.kept_sum(id));
        Some(starts)
    }

    /// Counts what a slot left a mark for, and takes it off what slots added.
    #[inline]
    fn count_one(&mut self, location: Location, item: ItemRef<'a>, outline: &Outline<'a>) {
        let Some(hash) = self.hash_of(outline) else {
            self.seen.doubt = true;
            return;
        };
        let seat = self.moved.seat(self.heap, hash);
        self.seen.unpaired = self.seen.unpaired.wrapping_sub(pair(location, seat));
        self.seen.doubt |= !self.count_item(location, item, outline, hash);
    }

    /// The hash of an item's key; `None` for what is no item.
    #[inline]
    fn hash_of(&self, outline: &Outline<'_>) -> Option<KeyHash> {
        let is_item = matches!(outline.kind, Kind::Inline | Kind::Chained) && !outline.key.is_empty();
        is_item.then(|| self.index.hash(outline.key))
    }

    /// What lies there, if something does that ends where items may.
    fn item_at(&self, location: Location) -> Option<(ItemRef<'a>, Outline<'a>)> {
        let (segment, offset) = self.heap.place_of(location)?;
        let Segment::Used { limit, .. } = self.segments.get(segment.0 as usize)? else {
            return None;
        };
        if !(SEGMENT_START..*limit).contains(&offset) {
            return None;
        }
        let item = self.heap.item(location);
        let outline = item.checked_outline((limit - offset) as usize)?;
        Some((item, outline))
    }

    /// Notes that `len` bytes there, which die at `deadline`, are in use.
    #[inline]
    fn count(&mut self, location: Location, len: usize, deadline: u32) {
        let Some((segment, start)) = self.heap.place_of(location) else {
            return;
        };
        let len = self.heap.aligned(len) as u32;
        self.seen.live[segment.0 as usize] += u64::from(len);
        let header = self.heap.header(segment);
        header.raise_deadline(deadline);
        header.note_expiring(deadline, len as i32);
        let Some(Segment::Used { covered, .. }) = self.segments.get(segment.0 as usize) else {
            return;
        };
        if start >= *covered {
            let end = start + len;
            self.seen.loose.push(Loose { segment, start, end });
        }
    }

    /// Counts an item that the index names; `false` if it is not whole.
    #[inline]
    fn count_item(
        &mut self,
        location: Location,
        item: ItemRef<'a>,
        outline: &Outline<'a>,
        hash: KeyHash,
    ) -> bool {
        let deadline = item.outlined_deadline(outline);
        let mut bytes = self.heap.aligned(outline.len) as u64;
        if outline.kind == Kind::Chained {
            if !self.has_pieces(item, hash) {
                return false;
            }
            bytes += self.count_pieces(item, deadline);
        }
        self.count(location, outline.len, deadline);
        let items = &mut self.seen.found.items;
        items.items += 1;
        items.bytes += bytes;
        items.unread_bytes += if item.state().fetched() { 0 } else { bytes };
        let class = &mut items.sizes[sizes::class_of(bytes)];
        *class = (class.0 + 1, class.1 + bytes);
        true
    }

    /// Notes that all pieces of a chained item are in use; the bytes that they take.
    #[cold]
    fn count_pieces(&mut self, item: ItemRef<'a>, deadline: u32) -> u64 {
        let mut bytes = 0;
        for piece in item.pieces() {
            let len = crate::item::PIECE_HEADER + piece.len;
            self.count(piece.location, len, deadline);
            bytes += self.heap.aligned(len) as u64;
        }
        bytes
    }

    /// Whether all pieces of a chained item are there.
    fn has_pieces(&self, item: ItemRef<'a>, hash: KeyHash) -> bool {
        let mut len = 0;
        let all = item.checked_pieces().all(|piece| {
            let Some(piece) = piece else { return false };
            len += piece.len;
            self.item_at(piece.location)
                .is_some_and(|(found, outline)| found.is_piece_of(&outline, hash.0, piece.len))
        });
        all && len == item.value_len()
    }
}

impl Visit for Walker<'_> {
    fn hash_at(&self, location: Location) -> Option<KeyHash> {
        let (_, outline) = self.item_at(location)?;
        self.hash_of(&outline)
    }

    #[inline]
    fn fetch(&self, location: Location) {
        self.heap.prefetch(location);
        self.heap.prefetch_value(location);
    }

    #[inline]
    fn trust(&mut self, location: Location, seat: u64) -> bool {
        let is_marked = self.marker.as_mut().is_some_and(|marker| marker.set(location));
        if is_marked {
            self.seen.unpaired = self.seen.unpaired.wrapping_add(pair(location, seat));
        }
        is_marked
    }

    fn keep(&mut self, location: Location, hash: KeyHash) -> bool {
        let found = self.item_at(location);
        found.is_some_and(|(item, outline)| self.count_item(location, item, &outline, hash))
    }

    fn lose(&mut self, location: Location) -> bool {
        if self.marker.is_some() {
            self.seen.doubt = true;
            return false;
        }
        let segment = self
            .heap
            .place_of(location)
            .map(|(segment, _)| segment.0 as usize);
        match segment.and_then(|segment| self.segments.get(segment)) {
            Some(Segment::Spoilt) => self.seen.found.spoilt += 1,
            _ => self.seen.found.unreadable += 1,
        }
        true
    }
}

fn threads(segments: &[Segment], heap: &Heap) -> usize {
    let used = segments
        .iter()
        .filter(|segment| matches!(segment, Segment::Used { .. }));
    threads_for(used.count() * heap.segment_size())
}

fn threads_for(bytes: usize) -> usize {
    let cores = thread::cores().len().clamp(1, THREADS_MAX);
    // A model checker has threads of its own only.
    let cores = if cfg!(shuttle) { 1 } else { cores };
    (bytes / BYTES_PER_THREAD).clamp(1, cores)
}

/// Runs the same task on so many threads; the number they share says what was taken already.
fn in_parallel<R: Send>(threads: usize, task: impl Fn(&AtomicUsize) -> R + Sync) -> Vec<R> {
    let (next, task) = (AtomicUsize::new(0), &task);
    if threads == 1 {
        return vec![task(&next)];
    }
    let next = &next;
    let named = |number| (format!("recover-{number}"), move || task(next));
    thread::run_all((0..threads).map(named).collect())
}

/// Up to `at_once` of `count` that nobody has taken.
fn take(next: &AtomicUsize, count: usize, at_once: usize) -> Option<std::ops::Range<usize>> {
    let taken = next.fetch_add(at_once, Ordering::Relaxed);
    (taken < count).then(|| taken..count.min(taken + at_once))
}
