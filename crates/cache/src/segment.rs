//! The heap: equal segments, a header for each, and the addresses in between.
//!
//! Everything lies in one mapping: superblock, segment headers, two index extents, the heap, the ledger. Items are appended to open segments;
//! what a segment's life looks like is told in `pool.rs`.

use std::mem::offset_of;

use scrubjay_base::sync::whole::{AtomicI32, AtomicI64, AtomicU16, AtomicU32, AtomicU64, Ordering};

use scrubjay_io::memory::{HUGE_PAGE_SIZE, Memory, MemoryFile};

use crate::eviction::LOGS;
use crate::extent::Extent;
use crate::index::KeyHash;
use crate::item::{ItemRef, NEVER, Room};
use crate::line::{Line, Location};
use crate::prefetch::{prefetch, prefetch_to_write};
use crate::superblock::Superblock;

/// Lines in a page of the index.
pub(crate) const PAGE_LINES: usize = 64;

/// Bytes of a page of the index.
pub(crate) const PAGE_SIZE: usize = PAGE_LINES * size_of::<Line>();

/// Bytes at the start of each segment that hold no item, so that no item has location 0.
pub(crate) const SEGMENT_START: u32 = 16;

/// Number of a segment in the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SegmentId(pub(crate) u32);

/// Free -> Open -> Sealed -> Draining -> Retired -> Free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum SegmentState {
    /// In no use; its pages may be given back.
    Free = 0,
    /// Takes new items.
    Open = 1,
    /// Full or closed; no new items.
    Sealed = 2,
    /// Being emptied by the reclaimer.
    Draining = 3,
    /// No slot points in; waits for readers and pins.
    Retired = 4,
}

/// What is known of one segment.
#[repr(C, align(128))]
#[derive(Debug)]
pub(crate) struct SegmentHeader {
    /// What is taken of it, raised by appenders: see [`Taken`].
    taken: AtomicU64,
    /// Bytes in use; written once, by whoever closed the segment, 0 while open.
    end: AtomicU32,
    /// Bytes of items that died here, raised by whoever removed them.
    pub(crate) dead: AtomicU32,
    /// Latest deadline in ticks of any item appended or touched here; raised before the item's deadline is set.
    max_deadline: AtomicU32,
    /// Replies that still send from here.
    pub(crate) pins: AtomicU32,
    /// Unfinished uploads with pieces here; the segment is not emptied meanwhile.
    pub(crate) uploads: AtomicU32,
    /// How far into each part of the segment but the first an item begins first: see [`Heap::part_starts`]. Written by the
    /// appender whose item ends there.
    part_starts: [AtomicU16; PARTS - 1],
    /// Its state, and which log it belongs to, 4 and 12 bits. Written by the pool under its lock, from when it is sealed until it is
    /// retired by the reclaimer under its own.
    state_and_log: AtomicU16,
    /// When it was opened.
    opened_tick: AtomicU32,
    /// Which life of the segment this is; global and never reused.
    pub(crate) incarnation: AtomicU64,
    /// Order in which segments were sealed.
    pub(crate) sealed_order: AtomicU64,
    /// Epoch that must have passed before a retired segment is free.
    pub(crate) retired_epoch: AtomicU64,
    /// The inflation when it was opened, the bits of an f64. See `eviction.rs`.
    inflation: AtomicU64,
    /// Where the bins of `expiring` begin and how wide they are, in ticks, as two halves; 0 while nothing here expires.
    bins: AtomicU64,
    /// Bytes of live items here by their deadline; the last bin has all later ones. Raised and lowered by whoever puts,
    /// touches or removes an item, under its line's lock or before it is published.
    expiring: [AtomicI32; BINS],
    /// Sum over the bytes put here of their priority above `inflation`, in 1/65,536; raised by appenders.
    worth: AtomicI64,
}

/// Parts of a segment that can be walked at once: the way from an item to the next leads through its header, and many ways
/// at once wait for memory once.
const PARTS: usize = 8;

/// Bytes that a processor fetches at a time.
const CACHE_LINE: usize = size_of::<Line>();

/// How far behind what is appended a line is fetched for what will be: some small items.
const WRITE_AHEAD: u32 = 4 * CACHE_LINE as u32;

/// Where in its word a segment's log begins; its state is below.
const LOG_SHIFT: u32 = 4;
const STATE_MASK: u16 = (1 << LOG_SHIFT) - 1;
const _: () = assert!(LOGS <= 1 << (u16::BITS - LOG_SHIFT));

/// Bins of deadlines of a segment.
const BINS: usize = 8;

/// Parts of one in which worth is kept.
const WORTH_SCALE: f64 = 65536.0;

/// Bytes of the limit that a segment takes beside its items.
pub const SEGMENT_HEADER_LEN: usize = size_of::<SegmentHeader>();

const _: () = assert!(SEGMENT_HEADER_LEN == 128);

impl SegmentHeader {
    /// Where each of its fields lies: files are told apart by it.
    pub(crate) const OFFSETS: [usize; 17] = [
        offset_of!(SegmentHeader, taken),
        offset_of!(SegmentHeader, end),
        offset_of!(SegmentHeader, dead),
        offset_of!(SegmentHeader, max_deadline),
        offset_of!(SegmentHeader, pins),
        offset_of!(SegmentHeader, uploads),
        offset_of!(SegmentHeader, part_starts),
        offset_of!(SegmentHeader, state_and_log),
        offset_of!(SegmentHeader, opened_tick),
        offset_of!(SegmentHeader, incarnation),
        offset_of!(SegmentHeader, sealed_order),
        offset_of!(SegmentHeader, retired_epoch),
        offset_of!(SegmentHeader, inflation),
        offset_of!(SegmentHeader, bins),
        offset_of!(SegmentHeader, expiring),
        offset_of!(SegmentHeader, worth),
        size_of::<SegmentHeader>(),
    ];

    pub(crate) fn state(&self) -> SegmentState {
        match self.state_and_log.load(Ordering::Acquire) & STATE_MASK {
            1 => SegmentState::Open,
            2 => SegmentState::Sealed,
            3 => SegmentState::Draining,
            4 => SegmentState::Retired,
            _ => SegmentState::Free,
        }
    }

    pub(crate) fn set_state(&self, state: SegmentState) {
        let log = self.state_and_log.load(Ordering::Relaxed) & !STATE_MASK;
        self.state_and_log.store(log | state as u16, Ordering::Release);
    }

    /// Bytes of items in it, live and dead.
    pub(crate) fn used(&self) -> u32 {
        match self.end.load(Ordering::Acquire) {
            0 => self.taken().offset() - SEGMENT_START,
            end => end - SEGMENT_START,
        }
    }

    /// Bytes of live items, the expired that still have a slot among them.
    pub(crate) fn live(&self) -> u32 {
        // Acquire pairs with `Cache::count_dead`.
        self.used().saturating_sub(self.dead.load(Ordering::Acquire))
    }

    /// What is taken stays as it was `before`, as `mine` has no room; but that who finds it at or below the size closes, and from then on
    /// nobody does.
    #[cold]
    fn take_back<'a>(&self, before: Taken, mine: Taken, closes: bool) -> Append<'a> {
        if closes {
            self.end.store(before.offset(), Ordering::Release);
            self.taken
                .fetch_add(Taken::CLOSED.wrapping_sub(mine.0), Ordering::Relaxed);
            Append::Closed
        } else {
            self.taken.fetch_sub(mine.0, Ordering::Relaxed);
            Append::Full
        }
    }

    fn taken(&self) -> Taken {
        Taken(self.taken.load(Ordering::Relaxed))
    }

    pub(crate) fn max_deadline(&self) -> u32 {
        self.max_deadline.load(Ordering::Acquire)
    }

    /// Makes sure that the segment is kept at least until `deadline`; call before an item gets that deadline.
    pub(crate) fn raise_deadline(&self, deadline: u32) {
        if self.max_deadline.load(Ordering::Relaxed) < deadline {
            self.max_deadline.fetch_max(deadline, Ordering::AcqRel);
        }
    }

    pub(crate) fn log(&self) -> usize {
        usize::from(self.state_and_log.load(Ordering::Relaxed) >> LOG_SHIFT)
    }

    pub(super) fn set_log(&self, log: usize) {
        let state = self.state_and_log.load(Ordering::Relaxed) & STATE_MASK;
        self.state_and_log
            .store((log as u16) << LOG_SHIFT | state, Ordering::Relaxed);
    }

    /// It goes to another log. What is in it counts for nothing there: a log gives up its oldest segment only, and one that is
    /// worth more than the others would keep all of them.
    pub(crate) fn take_over(&self, log: usize, inflation: f64) {
        self.set_log(log);
        self.inflation.store(inflation.to_bits(), Ordering::Relaxed);
        self.worth.store(0, Ordering::Relaxed);
    }

    pub(crate) fn opened_tick(&self) -> u32 {
        self.opened_tick.load(Ordering::Relaxed)
    }

    /// The inflation when it was opened.
    pub(crate) fn inflation(&self) -> f64 {
        f64::from_bits(self.inflation.load(Ordering::Relaxed))
    }

    pub(crate) fn add_worth(&self, worth: f64) {
        self.worth
            .fetch_add((worth * WORTH_SCALE) as i64, Ordering::Relaxed);
    }

    /// Mean priority of its bytes.
    pub(crate) fn worth_per_byte(&self) -> f64 {
        let worth = self.worth.load(Ordering::Relaxed) as f64 / WORTH_SCALE;
        self.inflation() + worth / f64::from(self.used().max(1))
    }

    /// Counts `len` bytes that die at `deadline`: a positive number comes, a negative one goes.
    #[inline]
    pub(crate) fn note_expiring(&self, deadline: u32, len: i32) {
        if deadline == NEVER {
            return;
        }
        let mut bins = self.bins.load(Ordering::Relaxed);
        if bins == 0 {
            // Most lie between three quarters of the first one's life and twice that.
            let life = deadline.saturating_sub(self.opened_tick()).max(BINS as u32);
            let start = u64::from(self.opened_tick()) + u64::from(life) * 3 / 4;
            let wanted = start << 32 | u64::from(life / BINS as u32);
            let set = self
                .bins
                .compare_exchange(0, wanted, Ordering::Relaxed, Ordering::Relaxed);
            bins = set.map_or_else(|other| other, |_| wanted);
        }
        let (start, width) = ((bins >> 32) as u32, bins as u32);
        let bin = deadline.saturating_sub(start + 1) / width;
        self.expiring[(bin as usize).min(BINS - 1)].fetch_add(len, Ordering::Relaxed);
    }

    /// Bytes of items whose deadline has passed at `tick` and that still have a slot; at least these, to a bin.
    pub(crate) fn expired(&self, tick: u32) -> u32 {
        let bins = self.bins.load(Ordering::Relaxed);
        if bins == 0 {
            return 0;
        }
        let (start, width) = (bins >> 32, bins & u64::from(u32::MAX));
        let ends = |bin: usize| match bin + 1 {
            BINS => u64::from(self.max_deadline()),
            next => start + width * next as u64,
        };
        (0..BINS)
            .filter(|&bin| ends(bin) <= u64::from(tick))
            .map(|bin| self.expiring[bin].load(Ordering::Relaxed).max(0) as u32)
            .sum::<u32>()
            .min(self.live())
    }

    /// Bytes of items that are alive at `tick`, as far as it is known.
    pub(crate) fn live_at(&self, tick: u32) -> u32 {
        self.live() - self.expired(tick)
    }

    /// Bytes of live items that expire at all.
    pub(crate) fn expiring_total(&self) -> i64 {
        let bins = self.expiring.iter();
        bins.map(|bin| i64::from(bin.load(Ordering::Relaxed))).sum()
    }

    /// Whether it takes no more items.
    pub(crate) fn is_closed(&self) -> bool {
        self.end.load(Ordering::Relaxed) != 0
    }

    /// Starts a new life in `log`.
    pub(crate) fn open(&self, incarnation: u64, log: usize, tick: u32, inflation: f64) {
        self.set_log(log);
        self.opened_tick.store(tick, Ordering::Relaxed);
        self.inflation.store(inflation.to_bits(), Ordering::Relaxed);
        self.worth.store(0, Ordering::Relaxed);
        self.bins.store(0, Ordering::Relaxed);
        self.expiring
            .iter()
            .for_each(|bin| bin.store(0, Ordering::Relaxed));
        self.part_starts
            .iter()
            .for_each(|start| start.store(0, Ordering::Relaxed));
        self.taken.store(SEGMENT_START.into(), Ordering::Relaxed);
        self.end.store(0, Ordering::Relaxed);
        self.dead.store(0, Ordering::Relaxed);
        self.max_deadline.store(0, Ordering::Relaxed);
        self.incarnation.store(incarnation, Ordering::Relaxed);
        self.set_state(SegmentState::Open);
    }
}

/// Where in each part of a segment but the first an item begins first: see [`SegmentHeader`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Starts([u16; PARTS - 1]);

impl Starts {
    /// An item from `start` to `end` follows on the last one.
    #[inline]
    pub(crate) fn note(&mut self, heap: &Heap, start: u32, end: u32) {
        for part in heap.part(start) + 1..=heap.part(end).min(PARTS - 1) {
            self.0[part - 1] = heap.way_into_part(part, end);
        }
    }
}

/// How an append went.
pub(crate) enum Append<'a> {
    /// These bytes are the caller's.
    Room(Room<'a>),
    /// Does not fit, and the caller is the one who closed the segment: it seals it.
    Closed,
    /// Does not fit; somebody else closed the segment.
    Full,
}

/// The mapping and its geometry.
#[derive(Debug)]
pub(crate) struct Heap {
    memory: Memory,
    superblock: *const Superblock,
    headers: *const SegmentHeader,
    sums: *const AtomicU64,
    extents: [*const Line; 2],
    base: *mut u8,
    base_offset: usize,
    /// Where the ledger begins, behind the segments.
    ledger_offset: usize,
    segment_shift: u32,
    unit_shift: u32,
    segments_max: u32,
    pages_max: usize,
    /// How far from an item's first byte its last one is fetched for: see [`Heap::expect_items_of`].
    reach: AtomicU32,
}

// SAFETY: the pointers lead into `memory`, which lives as long as the heap; what they lead to is atomics, or item bytes
// under the rules of `item.rs`.
unsafe impl Send for Heap {}
// SAFETY: as above.
unsafe impl Sync for Heap {}

impl Heap {
    /// As [`Heap::map`], in a file of its own.
    #[cfg(test)]
    pub(crate) fn reserve(segment_shift: u32, segments_max: u32, pages_max: usize) -> std::io::Result<Heap> {
        let file = MemoryFile::anonymous()?;
        Heap::map(
            file,
            &Extent {
                segment_shift,
                segments_max,
                pages_max,
                ledger_bytes: 64,
            },
        )
    }

    /// Maps `file`, which becomes as long as `extent` takes. Untouched pages take no memory.
    pub(crate) fn map(file: MemoryFile, extent: &Extent) -> std::io::Result<Heap> {
        let &Extent {
            segment_shift,
            segments_max,
            pages_max,
            ..
        } = extent;
        let [headers, sums, first, second, base_offset, ledger_offset, len] = extent.offsets();
        let memory = Memory::map(file, len)?;
        let start = memory.as_ptr();
        // SAFETY: the offsets are inside the mapping's length.
        let at = |offset: usize| unsafe { start.add(offset) };
        Ok(Heap {
            superblock: start.cast(),
            headers: at(headers).cast(),
            sums: at(sums).cast(),
            extents: [at(first).cast(), at(second).cast()],
            base: at(base_offset),
            base_offset,
            ledger_offset,
            segment_shift,
            unit_shift: unit_shift(segment_shift, segments_max),
            segments_max,
            pages_max,
            reach: AtomicU32::new(CACHE_LINE as u32),
            memory,
        })
    }

    /// The file that all lies in.
    pub(crate) fn file(&self) -> &MemoryFile {
        self.memory.file()
    }

    #[inline]
    pub(crate) fn superblock(&self) -> &Superblock {
        // SAFETY: the mapping begins with it and is longer; it is atomics only, for which any bytes are a value.
        unsafe { &*self.superblock }
    }

    /// The first byte of the ledger.
    pub(crate) fn ledger(&self) -> *const u8 {
        // SAFETY: the offset is inside the mapping's length.
        unsafe { self.memory.as_ptr().add(self.ledger_offset) }
    }

    /// Makes a ledger empty.
    pub(crate) fn punch_ledger(&self) {
        self.memory
            .punch(self.ledger_offset, self.memory.len() - self.ledger_offset);
    }

    pub(crate) fn segment_size(&self) -> usize {
        1 << self.segment_shift
    }

    pub(crate) fn segments_max(&self) -> u32 {
        self.segments_max
    }

    pub(crate) fn pages_max(&self) -> usize {
        self.pages_max
    }

    /// Bytes that an item of `len` bytes takes.
    pub(crate) fn aligned(&self, len: usize) -> usize {
        len.next_multiple_of(1 << self.unit_shift)
    }

    pub(crate) fn header(&self, segment: SegmentId) -> &SegmentHeader {
        assert!(
            segment.0 < self.segments_max,
            "segment {} of {}",
            segment.0,
            self.segments_max
        );
        // SAFETY: inside the header array by the assertion; headers are atomics in zero-filled memory.
        unsafe { &*self.headers.add(segment.0 as usize) }
    }

    /// Where a segment's checksum is kept.
    pub(crate) fn sum_word(&self, segment: SegmentId) -> &AtomicU64 {
        assert!(segment.0 < self.segments_max, "a segment of this heap");
        // SAFETY: inside the array by the assertion; any bytes are a value.
        unsafe { &*self.sums.add(segment.0 as usize) }
    }

    /// A page of extent `extent`.
    #[inline]
    pub(crate) fn page(&self, extent: usize, page: usize) -> &[Line; PAGE_LINES] {
        assert!(page < self.pages_max, "page {page} of {}", self.pages_max);
        // SAFETY: inside the extent by the assertion; lines are atomics in zero-filled memory.
        unsafe { &*self.extents[extent].add(page * PAGE_LINES).cast() }
    }

    /// Gives the memory of pages `first..last` of an extent back; they read as empty lines after.
    pub(crate) fn punch_pages(&self, extent: usize, first: usize, last: usize) {
        self.memory.punch(
            self.extent_offset(extent) + first * PAGE_SIZE,
            (last - first) * PAGE_SIZE,
        );
    }

    /// All that the workers share but single counters: headers, index and items, as they are while nobody else has them.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn bytes(&mut self) -> &[u8] {
        // SAFETY: the mapping is as long as it says and lives as long as `self`, which nobody else has.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.memory.len()) }
    }

    fn extent_offset(&self, extent: usize) -> usize {
        // SAFETY: both pointers lead into the mapping.
        unsafe {
            self.extents[extent]
                .cast::<u8>()
                .offset_from(self.memory.as_ptr()) as usize
        }
    }

    /// Puts a huge page under the segments' `range`-th bytes of its size; parts without memory get some.
    pub(crate) fn collapse_range(&self, range: usize) -> std::io::Result<()> {
        self.memory.collapse(self.base_offset + range * HUGE_PAGE_SIZE)
    }

    /// Puts a huge page under an extent's `range`-th bytes of its size; parts without memory get some.
    pub(crate) fn collapse_pages(&self, extent: usize, range: usize) -> std::io::Result<()> {
        self.memory
            .collapse(self.extent_offset(extent) + range * HUGE_PAGE_SIZE)
    }

    /// Puts a huge page under the ledger's `range`-th bytes of its size; parts without memory get some.
    pub(crate) fn collapse_ledger(&self, range: usize) -> std::io::Result<()> {
        self.memory.collapse(self.ledger_offset + range * HUGE_PAGE_SIZE)
    }

    /// Gives a free segment's memory back.
    pub(crate) fn punch_segment(&self, segment: SegmentId) {
        self.memory.punch(
            self.base_offset + ((segment.0 as usize) << self.segment_shift),
            self.segment_size(),
        );
    }

    /// Locks a segment's memory into RAM; the operating system's limit may forbid it.
    pub(crate) fn lock_segment(&self, segment: SegmentId) -> std::io::Result<()> {
        self.memory.lock(
            self.base_offset + ((segment.0 as usize) << self.segment_shift),
            self.segment_size(),
        )
    }

    /// Asks for huge pages under the whole mapping.
    pub(crate) fn advise_huge(&self) -> std::io::Result<()> {
        self.memory.advise_huge(0, self.memory.len())
    }

    pub(crate) fn segment_of(&self, location: Location) -> SegmentId {
        SegmentId((location.units() >> (self.segment_shift - self.unit_shift)) as u32)
    }

    /// The segment that a location lies in, and where in it; `None` if it is not in the heap.
    pub(crate) fn place_of(&self, location: Location) -> Option<(SegmentId, u32)> {
        let offset = location.units() << self.unit_shift;
        let segment = SegmentId((offset >> self.segment_shift) as u32);
        let in_segment = offset & ((1 << self.segment_shift) - 1);
        (offset >> self.segment_shift < u64::from(self.segments_max)).then_some((segment, in_segment as u32))
    }

    pub(crate) fn location(&self, segment: SegmentId, offset: u32) -> Location {
        let bytes = (u64::from(segment.0) << self.segment_shift) + u64::from(offset);
        Location::from_units(bytes >> self.unit_shift)
    }

    /// Reads the item at `location`, which came from a validated slot, a piece table or a walk in this worker's turn:
    /// so it was published, and its segment is not recycled before the turn ends.
    #[inline]
    pub(crate) fn item(&self, location: Location) -> ItemRef<'_> {
        let offset = (location.units() as usize) << self.unit_shift;
        assert!(
            offset < (self.segments_max as usize) << self.segment_shift,
            "location outside the heap"
        );
        // SAFETY: inside the heap by the assertion; 1 and 2 by the caller's duty above.
        unsafe { ItemRef::new(self.base.add(offset)) }
    }

    /// Hints the processor to fetch the item's first line.
    #[inline]
    pub(crate) fn prefetch(&self, location: Location) {
        let offset = (location.units() as usize) << self.unit_shift;
        prefetch(self.base.wrapping_add(offset));
    }

    pub(crate) fn address(&self, segment: SegmentId, offset: u32) -> *const u8 {
        let offset = ((segment.0 as usize) << self.segment_shift) + offset as usize;
        self.base.wrapping_add(offset)
    }

    /// Hints the processor to fetch what follows on the item's first line: the next one, and the one in which an item of mean size
    /// ends. How long this one is stands in it; whoever waits to read that waits twice.
    #[inline]
    pub(crate) fn prefetch_value(&self, location: Location) {
        let offset = (location.units() as usize) << self.unit_shift;
        let reach = self.reach.load(Ordering::Relaxed) as usize;
        prefetch(self.base.wrapping_add(offset + CACHE_LINE));
        prefetch(self.base.wrapping_add(offset + reach));
    }

    /// The mean item has so many bytes. Of longer ones than some lines the processor fetches the rest by itself.
    pub(crate) fn expect_items_of(&self, mean_size: u64) {
        let lines = CACHE_LINE as u64..=2 * CACHE_LINE as u64;
        let reach = mean_size.saturating_sub(1).clamp(*lines.start(), *lines.end());
        self.reach.store(reach as u32, Ordering::Relaxed);
    }

    /// Hints the processor to fetch a line of the index.
    #[inline]
    pub(crate) fn prefetch_line(&self, line: &Line) {
        prefetch(std::ptr::from_ref(line).cast());
    }

    /// Reserves `len` bytes (aligned here) at the end of an open segment. With `listed`, the hash of its key, a large item is listed:
    /// one that is whole, new, and that nobody has read.
    #[inline(always)]
    pub(crate) fn append(&self, segment: SegmentId, len: usize, listed: Option<KeyHash>) -> Append<'_> {
        let size = self.segment_size() as u64;
        let len = self.aligned(len) as u32;
        debug_assert!(u64::from(len + SEGMENT_START) <= size);
        let header = self.header(segment);
        let listed = listed.filter(|_| is_listed(len as usize));
        let mine = Taken::of(len, listed.is_some());
        let before = Taken(header.taken.fetch_add(mine.0, Ordering::Relaxed));
        let (at, bytes) = (before.offset(), before.bytes());
        if bytes + mine.bytes() > size {
            return header.take_back(before, mine, bytes <= size);
        }
        if let Some(hash) = listed {
            self.list(segment, before.listed(), Listing { start: at, len, hash });
        }
        for part in self.part(at) + 1..=self.part(at + len).min(PARTS - 1) {
            header.part_starts[part - 1].store(self.way_into_part(part, at + len), Ordering::Relaxed);
        }
        prefetch_to_write(self.address(segment, at + WRITE_AHEAD));
        // SAFETY: the fetch_add gave this range to this caller alone; inside the segment by the comparison.
        Append::Room(unsafe {
            let offset = ((segment.0 as usize) << self.segment_shift) + at as usize;
            Room::new(self.base.add(offset), len as usize, self.location(segment, at))
        })
    }

    /// The part of a segment that an offset lies in; the end lies in none.
    #[inline]
    fn part(&self, offset: u32) -> usize {
        (offset >> self.part_shift()) as usize
    }

    /// Bytes of a part are `1 << this`.
    fn part_shift(&self) -> u32 {
        self.segment_shift - PARTS.ilog2()
    }

    /// How a segment's header says where in a part, or behind it, an item begins: one more than the units before it; 0 if they
    /// are too many to be said.
    fn way_into_part(&self, part: usize, offset: u32) -> u16 {
        let units = (offset - ((part as u32) << self.part_shift())) >> self.unit_shift;
        u16::try_from(units + 1).unwrap_or(0)
    }

    /// Where in the parts of a segment but the first an item begins first, in order; nothing of those of which it is not known.
    fn part_starts(&self, header: &SegmentHeader) -> impl Iterator<Item = u32> {
        (1..PARTS).filter_map(|part| {
            let units = u32::from(header.part_starts[part - 1].load(Ordering::Relaxed)).checked_sub(1)?;
            Some(((part as u32) << self.part_shift()) + (units << self.unit_shift))
        })
    }

    /// Takes what is left at the end of an open segment, at most `len` and at least `min` bytes.
    pub(crate) fn append_up_to(&self, segment: SegmentId, min: usize, len: usize) -> Append<'_> {
        self.append(segment, self.left(segment).clamp(min, len), None)
    }

    /// Bytes at the end of an open segment that nobody has taken.
    pub(crate) fn left(&self, segment: SegmentId) -> usize {
        let taken = self.header(segment).taken().bytes();
        (self.segment_size() as u64).saturating_sub(taken) as usize
    }

    /// Closes an open segment that is not full; whether the caller is the one who did.
    pub(crate) fn close(&self, segment: SegmentId) -> bool {
        let header = self.header(segment);
        let before = Taken(header.taken.fetch_add(Taken::CLOSED, Ordering::Relaxed));
        let closes = before.bytes() <= self.segment_size() as u64;
        if closes {
            header.end.store(before.offset(), Ordering::Release);
        } else {
            header.taken.fetch_sub(Taken::CLOSED, Ordering::Relaxed);
        }
        closes
    }

    /// The locations of all items and pieces in a sealed segment, in order, live and dead.
    pub(crate) fn walk(&self, segment: SegmentId) -> impl Iterator<Item = (Location, ItemRef<'_>)> {
        let end = self.header(segment).used() + SEGMENT_START;
        let mut offset = SEGMENT_START;
        std::iter::from_fn(move || {
            if offset >= end {
                return None;
            }
            let location = self.location(segment, offset);
            let item = self.item(location);
            offset += self.aligned(item.len()) as u32;
            Some((location, item))
        })
    }
}

/// Items start at multiples of `1 << this` bytes: as fine as a location's bits can say.
pub(crate) fn unit_shift(segment_shift: u32, segments_max: u32) -> u32 {
    let heap_bits = segment_shift + u32::BITS - segments_max.leading_zeros();
    heap_bits.saturating_sub(Location::BITS).max(2)
}

mod listing;
mod recover;
mod walk;

use listing::LISTING_LEN;
use listing::Taken;
pub(crate) use listing::{Listing, is_listed, with_listing};
pub(crate) use walk::Walk;
