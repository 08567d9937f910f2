//! After a crash: what the index names is what there is; everything else is counted anew.
//!
//! 1. Each segment's header is settled, and its checksum is verified: a segment that fails is given up as a whole.
//! 2. Each slot is looked at, once: it names an item that can be read and whose place it is, or it goes.
//! 3. Behind the part that a checksum covers, what no slot names becomes room given up, so that the segment can be walked.
//!
//! Died in the middle of it, the next process begins anew: nothing here depends on what was counted before.

use std::sync::atomic::AtomicUsize;

use scrubjay_base::sync::whole::{AtomicU64, Ordering};
use scrubjay_io::thread;

use crate::checksum::Sum;
use crate::eviction::LOGS;
use crate::index::{Index, KeyHash, Visit};
use crate::item::{ItemRef, Kind, Outline};
use crate::line::Location;
use crate::pool::NUMBER_MAX;
use crate::segment::{Heap, SEGMENT_START, SegmentId, SegmentState, Starts};
use crate::sizes;
use crate::superblock::Saved;

/// Threads at most; more would wait for memory together.
const THREADS_MAX: usize = 16;

/// Bytes of segments for each thread at least.
const BYTES_PER_THREAD: usize = 64 << 20;

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

/// One thread's way over the slots.
struct Walker<'a> {
    heap: &'a Heap,
    index: &'a Index,
    segments: &'a [Segment],
    /// Bytes of live items of each segment.
    live: &'a [AtomicU64],
    found: Found,
    loose: Vec<Loose>,
}

/// Counts what the index names; `None` if heap and index contradict each other.
pub(crate) fn recover(heap: &Heap, index: &Index, tick: u32) -> Option<Found> {
    let segments = settle_segments(heap, tick);
    let live: Vec<AtomicU64> = segments.iter().map(|_| AtomicU64::new(0)).collect();
    let pages = index.pages_to_recover();
    let walkers = in_parallel(threads(&segments, heap), |next| {
        let mut walker = Walker {
            heap,
            index,
            segments: &segments,
            live: &live,
            found: Found::default(),
            loose: Vec::new(),
        };
        walker.found.items.sizes = vec![(0, 0); sizes::CLASSES];
        while let Some(page) = take(next, pages) {
            index.recover_page(heap, page, &mut walker);
        }
        (walker.found, walker.loose)
    });
    let (mut found, mut loose) = (Found::default(), Vec::new());
    for (part, more) in walkers {
        found.add(&part);
        loose.extend(more);
    }
    loose.sort_unstable();
    let gaps_are_filled = fill_gaps(heap, &segments, &loose);
    let mut segments = segments
        .iter()
        .zip(&live)
        .zip(0..)
        .map(|(pair, id)| (pair, SegmentId(id)));
    let all_fits = segments.all(|((segment, live), id)| match segment {
        Segment::Used { .. } => heap.header(id).set_live(live.load(Ordering::Relaxed)),
        Segment::Unused | Segment::Spoilt => true,
    });
    (gaps_are_filled && all_fits).then_some(found)
}

fn settle_segments(heap: &Heap, tick: u32) -> Vec<Segment> {
    let count = heap.segments_max() as usize;
    let in_use =
        (0..heap.segments_max()).filter(|id| heap.header(SegmentId(*id)).state() != SegmentState::Free);
    let threads = threads_for(in_use.count() * heap.segment_size());
    let mut settled: Vec<(usize, Segment)> = in_parallel(threads, |next| {
        let ids = std::iter::from_fn(|| take(next, count));
        ids.map(|id| (id, settle_segment(heap, SegmentId(id as u32), tick)))
            .collect::<Vec<_>>()
    })
    .into_iter()
    .flatten()
    .collect();
    settled.sort_unstable_by_key(|(id, _)| *id);
    let segments: Vec<Segment> = settled.into_iter().map(|(_, segment)| segment).collect();
    // A log has one open segment. Whatever is sealed now follows on all that was sealed before.
    let mut open = [false; LOGS];
    let mut order = (0..heap.segments_max())
        .map(|id| heap.header(SegmentId(id)).sealed_order.load(Ordering::Relaxed))
        .filter(|order| *order < NUMBER_MAX)
        .max()
        .unwrap_or(0);
    for (id, segment) in (0..).map(SegmentId).zip(&segments) {
        let (header, Segment::Used { limit, .. }) = (heap.header(id), segment) else {
            continue;
        };
        if header.state() == SegmentState::Open && std::mem::replace(&mut open[header.log()], true) {
            header.seal_at(*limit, heap.segment_size() as u32);
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
    let header = heap.header(segment);
    let Some(limit) = header.settle(heap.segment_size() as u32, tick) else {
        return Segment::Unused;
    };
    let kept = heap.kept_sum(segment);
    let mut starts = Starts::default();
    let is_right = kept.covered <= limit
        && heap.sum_on(segment, Sum::EMPTY, kept.covered, u32::MAX, &mut starts) == Some(kept);
    if !is_right {
        header.give_up();
        return Segment::Spoilt;
    }
    Segment::Used {
        limit,
        covered: kept.covered,
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
        let is_filled = heap.fill_gap(id, at, limit, &mut starts);
        heap.header(id).set_starts(&starts);
        is_filled
    })
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
    fn count(&mut self, location: Location, len: usize, deadline: u32) {
        let Some((segment, start)) = self.heap.place_of(location) else {
            return;
        };
        let len = self.heap.aligned(len) as u32;
        self.live[segment.0 as usize].fetch_add(len.into(), Ordering::Relaxed);
        let header = self.heap.header(segment);
        header.raise_deadline(deadline);
        header.note_expiring(deadline, len as i32);
        let Some(Segment::Used { covered, .. }) = self.segments.get(segment.0 as usize) else {
            return;
        };
        if start >= *covered {
            let end = start + len;
            self.loose.push(Loose { segment, start, end });
        }
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
        let is_item = matches!(outline.kind, Kind::Inline | Kind::Chained) && !outline.key.is_empty();
        is_item.then(|| self.index.hash(outline.key))
    }

    fn fetch(&self, location: Location) {
        self.heap.prefetch(location);
    }

    fn keep(&mut self, location: Location, hash: KeyHash) -> bool {
        let Some((item, outline)) = self.item_at(location) else {
            return false;
        };
        if item.is_chained() && !self.has_pieces(item, hash) {
            return false;
        }
        let deadline = item.deadline();
        self.count(location, outline.len, deadline);
        let mut bytes = self.heap.aligned(outline.len) as u64;
        if item.is_chained() {
            for piece in item.pieces() {
                let len = crate::item::PIECE_HEADER + piece.len;
                self.count(piece.location, len, deadline);
                bytes += self.heap.aligned(len) as u64;
            }
        }
        let items = &mut self.found.items;
        items.items += 1;
        items.bytes += bytes;
        items.unread_bytes += if item.state().fetched() { 0 } else { bytes };
        let class = &mut items.sizes[sizes::class_of(bytes)];
        *class = (class.0 + 1, class.1 + bytes);
        true
    }

    fn lose(&mut self, location: Location) {
        let segment = self
            .heap
            .place_of(location)
            .map(|(segment, _)| segment.0 as usize);
        match segment.and_then(|segment| self.segments.get(segment)) {
            Some(Segment::Spoilt) => self.found.spoilt += 1,
            _ => self.found.unreadable += 1,
        }
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

/// The next of `count` that nobody has taken.
fn take(next: &AtomicUsize, count: usize) -> Option<usize> {
    let taken = next.fetch_add(1, Ordering::Relaxed);
    (taken < count).then_some(taken)
}
