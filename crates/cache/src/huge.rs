//! Huge pages under memory that is in full use: a few ranges a round, by the hand of the background work.
//!
//! A memory file gets none by itself, and with small pages a look-up in a large cache waits as long for the page table as for
//! the bytes. A range is [`HUGE_PAGE_SIZE`] bytes of the heap, of the index or of the ledger. It is taken when all of it has memory
//! already, so what the process holds does not grow: segments that were never used or whose memory was given back, and
//! an index that is being resized, are let be. While a range changes, whoever touches it waits; so never an open segment.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};

use scrubjay_base::time::Now;
use scrubjay_io::memory::HUGE_PAGE_SIZE;

use crate::cache::Cache;
use crate::segment::{Heap, PAGE_SIZE, SegmentId, SegmentState};

/// Ranges that a round changes at most; each costs a copy, and in a virtual machine with fresh memory ten times that.
const RANGES_PER_ROUND: usize = 8;

/// Time between two rounds, whoever calls how often.
const ROUND_MILLIS: u64 = 200;

/// Segments whose headers a round looks at, at most.
const LOOKS_PER_ROUND: usize = 2048;

/// Pause after a refusal; the next one in a row doubles it.
const PAUSE_MILLIS_MIN: u64 = 1_000;
const PAUSE_MILLIS_MAX: u64 = 3_600_000;

/// A sealed segment with less than this share in use (one over it missing) may have parts that were never touched.
const UNUSED_SHARE: usize = 8;

/// Entries for each page of the ledger after which one page in fifty has none.
const NOTED_PER_PAGE: u64 = 4;

/// How far the work is.
#[derive(Debug, Default)]
pub(crate) struct HugePages {
    progress: Mutex<Progress>,
    refused: AtomicU64,
    /// The operating system's number for the last refusal.
    error: AtomicI32,
    /// Ranges of the ledger that have one.
    of_ledger: AtomicUsize,
}

#[derive(Debug, Default)]
struct Progress {
    /// The range of the heap to look at next, and of the ledger.
    next: usize,
    next_of_ledger: usize,
    /// Milliseconds of the clock before which nothing is done.
    quiet_until: u64,
    /// The last pause, 0 after a success.
    pause: u64,
}

/// Which ranges of the heap have memory and huge pages; the pool's lock guards it.
#[derive(Debug)]
pub(crate) struct Ranges {
    segment_shift: u32,
    /// Segments of each range that have memory.
    with_memory: Vec<u8>,
    is_huge: Vec<bool>,
    /// How many of them.
    huge: usize,
}

impl Ranges {
    pub(crate) fn new(heap: &Heap) -> Ranges {
        let segment_shift = heap.segment_size().ilog2();
        let ranges = ((heap.segments_max() as usize) << segment_shift).div_ceil(HUGE_PAGE_SIZE);
        Ranges {
            segment_shift,
            with_memory: vec![0; ranges],
            is_huge: vec![false; ranges],
            huge: 0,
        }
    }

    /// The ranges that a segment has part in.
    fn of(&self, segment: SegmentId) -> std::ops::Range<usize> {
        let start = (segment.0 as usize) << self.segment_shift;
        let end = start + (1 << self.segment_shift);
        start / HUGE_PAGE_SIZE..end.div_ceil(HUGE_PAGE_SIZE)
    }

    /// The segments that have part in a range.
    fn segments(&self, range: usize) -> std::ops::Range<u32> {
        let first = (range * HUGE_PAGE_SIZE) >> self.segment_shift;
        let count = (HUGE_PAGE_SIZE >> self.segment_shift).max(1);
        first as u32..(first + count) as u32
    }

    /// A segment is used that had no memory.
    pub(crate) fn note_taken(&mut self, segment: SegmentId) {
        self.of(segment).for_each(|range| self.with_memory[range] += 1);
    }

    /// A segment's memory was given back.
    pub(crate) fn note_given_back(&mut self, segment: SegmentId) {
        for range in self.of(segment) {
            self.with_memory[range] -= 1;
            self.huge -= usize::from(std::mem::take(&mut self.is_huge[range]));
        }
    }

    fn has_memory(&self, range: usize) -> bool {
        usize::from(self.with_memory[range]) == self.segments(range).len()
    }

    /// Whether a range is to get a huge page: it has none, and all of it is in use.
    fn is_ripe(&self, heap: &Heap, range: usize) -> bool {
        let is_in_use = |segment| {
            let header = heap.header(SegmentId(segment));
            match header.state() {
                SegmentState::Open => false,
                SegmentState::Sealed => {
                    let size = heap.segment_size();
                    header.used() as usize >= size - size / UNUSED_SHARE
                }
                // Emptied, it keeps its memory for the next life.
                SegmentState::Free | SegmentState::Draining | SegmentState::Retired => true,
            }
        };
        !self.is_huge[range] && self.has_memory(range) && self.segments(range).all(is_in_use)
    }

    fn bytes(&self) -> usize {
        self.huge * HUGE_PAGE_SIZE
    }
}

impl Cache {
    /// A round, if one is due.
    pub(crate) fn take_huge_pages(&self, now: Now) {
        let Ok(mut progress) = self.huge_pages.progress.try_lock() else {
            return;
        };
        if !self.config().collapse || now.millis() < progress.quiet_until {
            return;
        }
        progress.quiet_until = now.millis() + ROUND_MILLIS;
        for _ in 0..RANGES_PER_ROUND {
            let outcome = self
                .index
                .take_huge_page(&self.heap)
                .or_else(|| self.take_ledger_range(&mut progress.next_of_ledger))
                .or_else(|| self.take_next_range(&mut progress.next));
            match outcome {
                None => return,
                Some(Ok(())) => progress.pause = 0,
                Some(Err(error)) => {
                    // Too many reasons to tell apart: no kernel for it, no memory, a page busy. All may pass.
                    let number = error.raw_os_error().unwrap_or(0);
                    self.huge_pages.error.store(number, Ordering::Relaxed);
                    self.huge_pages.refused.fetch_add(1, Ordering::Relaxed);
                    progress.pause = (progress.pause * 2).clamp(PAUSE_MILLIS_MIN, PAUSE_MILLIS_MAX);
                    progress.quiet_until = now.millis() + progress.pause;
                    return;
                }
            }
        }
    }

    /// The next range of the ledger, once so much has been noted there that hardly a page of it has no memory; `None` if there
    /// is none.
    fn take_ledger_range(&self, next: &mut usize) -> Option<io::Result<()>> {
        let bytes = self.ledger_bytes();
        let range = *next;
        if (range + 1) * HUGE_PAGE_SIZE > bytes {
            return None;
        }
        let removed = self.counters().removed;
        if removed.expired + removed.evicted + removed.deleted < (bytes / PAGE_SIZE) as u64 * NOTED_PER_PAGE {
            return None;
        }
        *next += 1;
        let taken = self.heap.collapse_ledger(range);
        let ranges = &self.huge_pages.of_ledger;
        ranges.fetch_add(usize::from(taken.is_ok()), Ordering::Relaxed);
        Some(taken)
    }

    /// The next ripe range of the heap, from `next` on; `None` if it finds none.
    fn take_next_range(&self, next: &mut usize) -> Option<io::Result<()>> {
        let range = self.pool.lock().next_ripe(&self.heap, next)?;
        let taken = self.heap.collapse_range(range);
        // Workers open and free segments meanwhile; one that was given back must not have got memory anew.
        let mut state = self.pool.lock();
        if taken.is_ok() && !state.note_huge(range) {
            state.punch_parked(&self.heap, range);
        }
        Some(taken)
    }

    /// Bytes that were given huge pages.
    pub(crate) fn huge_page_bytes(&self) -> usize {
        let of_ledger = self.huge_pages.of_ledger.load(Ordering::Relaxed) * HUGE_PAGE_SIZE;
        self.index.huge_page_bytes() + of_ledger + self.pool.lock().ranges.bytes()
    }

    /// Why the operating system refused a huge page last, if it ever did.
    pub fn huge_page_refusal(&self) -> Option<io::Error> {
        let error = self.huge_pages.error.load(Ordering::Relaxed);
        (self.huge_pages_refused() > 0).then(|| io::Error::from_raw_os_error(error))
    }

    /// How often the operating system refused one.
    pub(crate) fn huge_pages_refused(&self) -> u64 {
        self.huge_pages.refused.load(Ordering::Relaxed)
    }
}

impl crate::pool::State {
    /// The next ripe range at or after `next`, which goes on behind it, or starts again when it came to the end.
    fn next_ripe(&self, heap: &Heap, next: &mut usize) -> Option<usize> {
        let end = self.ranges.of(SegmentId(self.touched())).start;
        let mut looks = 0;
        while looks < LOOKS_PER_ROUND && *next < end {
            let range = *next;
            *next += 1;
            if self.ranges.is_ripe(heap, range) {
                return Some(range);
            }
            looks += self.ranges.segments(range).len();
        }
        if *next >= end {
            *next = 0;
        }
        None
    }

    /// Notes a huge page; `false` if part of the range was given back meanwhile.
    fn note_huge(&mut self, range: usize) -> bool {
        let has_memory = self.ranges.has_memory(range);
        if has_memory {
            self.ranges.is_huge[range] = true;
            self.ranges.huge += 1;
        }
        has_memory
    }

    /// Gives what segments of the range that should have no memory may have got back.
    fn punch_parked(&self, heap: &Heap, range: usize) {
        let segments = self.ranges.segments(range);
        let parked = self.parked.iter();
        parked
            .filter(|segment| segments.contains(&segment.0))
            .for_each(|&segment| heap.punch_segment(segment));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{HUGE_PAGE_SIZE, NOTED_PER_PAGE, Ordering, PAGE_SIZE, Ranges};
    use crate::api::{Body, Config, Delete, Get, Store};
    use crate::cache::Cache;
    use crate::segment::{Heap, SegmentId};
    use scrubjay_base::time::Now;

    #[test]
    fn a_range_has_memory_when_all_its_segments_have() {
        // Four segments a range; then two ranges a segment.
        let heap = Heap::reserve(19, 16, 4).expect("address space");
        let mut ranges = Ranges::new(&heap);
        (0..5).for_each(|segment| ranges.note_taken(SegmentId(segment)));
        assert_eq!((ranges.has_memory(0), ranges.has_memory(1)), (true, false));
        ranges.note_given_back(SegmentId(2));
        assert!(!ranges.has_memory(0));
        let heap = Heap::reserve(22, 4, 4).expect("address space");
        let mut ranges = Ranges::new(&heap);
        ranges.note_taken(SegmentId(1));
        let having: Vec<usize> = (0..8).filter(|&range| ranges.has_memory(range)).collect();
        assert_eq!(having, [2, 3]);
    }

    /// Fills a cache, lets its pages become huge, lowers its limit and raises it again.
    #[test]
    fn items_outlive_huge_pages_and_their_end() {
        let cache = Cache::new(Config {
            collapse: true,
            ..Config::new(64 << 20)
        })
        .expect("memory");
        let mut worker = cache.worker();
        let mut millis = 0;
        let mut play = |limit: usize, from: u32| {
            cache.set_memory_max(limit);
            for number in from..from + 60_000 {
                worker.begin_turn(Now::from_millis(millis));
                let key = number.to_string();
                worker.store(Store::set(key.as_bytes(), Body::Bytes(&[number as u8; 1000])));
                if number % 1000 == 0 {
                    millis += 250;
                    cache.maintain(Now::from_millis(millis));
                }
            }
            for number in from + 59_000..from + 60_000 {
                let hit = worker.get(&Get::key(number.to_string().as_bytes()));
                assert!(hit.is_some_and(|hit| hit.value_len() == 1000), "{number}");
            }
            worker.go_idle();
            cache.audit();
            cache.usage()
        };
        let full = play(64 << 20, 0);
        assert!(
            full.huge_page_bytes > 0 || full.huge_pages_refused > 0,
            "{full:?}"
        );
        let small = play(8 << 20, 100_000);
        assert!(small.huge_page_bytes <= 8 << 20, "{small:?}");
        let again = play(64 << 20, 200_000);
        assert!(again.huge_page_bytes <= again.memory_max, "{again:?}");
        assert_eq!(full.huge_page_bytes % HUGE_PAGE_SIZE as u64, 0);
    }

    #[test]
    fn the_ledger_gets_huge_pages_when_much_was_noted_and_not_before() {
        let cache = Cache::new(Config {
            collapse: true,
            ledger_bytes: Some(HUGE_PAGE_SIZE),
            ..Config::new(16 << 20)
        })
        .expect("memory");
        let mut worker = cache.worker();
        let of_ledger = |millis| {
            cache.maintain(Now::from_millis(millis));
            cache.huge_pages.of_ledger.load(Ordering::Relaxed) as u64 + cache.huge_pages_refused()
        };
        let enough = (HUGE_PAGE_SIZE / PAGE_SIZE) as u64 * NOTED_PER_PAGE;
        worker.begin_turn(Now::from_millis(0));
        for number in 1..=enough {
            let key = number.to_string();
            let key = key.as_bytes();
            worker.store(Store::set(key, Body::Bytes(b"value")));
            if number == enough {
                assert_eq!(of_ledger(1_000), 0);
            }
            worker.delete(&Delete::key(key));
        }
        worker.go_idle();
        assert_eq!(of_ledger(2_000), 1);
    }
}
