//! How an item lies in a segment. Little-endian, aligned to the heap's unit (4 bytes or more).
//!
//! ```text
//! +0  u32  word 0: shape:8 | key is binary:1 stale:1 win:1 fetched:1 | last access:20 (seconds, modulo 2^20)
//! +4  u32  deadline in ticks           if the shape says so
//! ..  u32  low half of the CAS number  if the shape has one (4, 5 or 8 bytes)
//! ..  0, 1 or 4 bytes: the CAS number's high part
//! ..  0, 1, 2 or 4 bytes: client flags
//! ..  u8   key length
//! ..  1, 2 or 3 bytes: value length;  chained: u32 value length, u16 number of pieces
//! ..  key, then the value;  chained: padding to 8, then per piece a u64 location:40 | length:24
//! ```
//! A piece of a chained value has a 16-byte header: word 0 with the piece bit, u32 length, u64 hash of the owner's key.
//!
//! Word 0, the deadline and the low CAS half change while readers look, always as whole words; the rest is written
//! before the item is published and never again.

use scrubjay_base::sync::whole::{AtomicU32, AtomicU64, Ordering};
use std::marker::PhantomData;

use crate::line::Location;

/// Bytes in front of a piece's bytes.
pub(crate) const PIECE_HEADER: usize = 16;

/// Deadline of an item that never expires.
pub(crate) const NEVER: u32 = u32::MAX;

/// Longest value that an inline length can say.
pub(crate) const INLINE_VALUE_MAX: usize = (1 << 24) - 1;

const SHAPE_EXP: u8 = 1 << 4;
const SHAPE_PIECE: u8 = 1 << 7;
const KEY_IS_BINARY: u32 = 1 << 8;
const STALE: u32 = 1 << 9;
const WIN: u32 = 1 << 10;
const FETCHED: u32 = 1 << 11;
const LAST_ACCESS_SHIFT: u32 = 12;
/// Last access is kept modulo this many seconds (12 days).
const LAST_ACCESS_MODULO: u32 = 1 << 20;
const PIECE_LENGTH_BITS: u32 = 24;

/// Which fields an item has and how wide they are: flags width code:2, CAS width code:2, deadline:1, length code:2, piece:1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape(u8);

/// Where the fields of one shape begin.
#[derive(Clone, Copy, Debug)]
struct Layout {
    cas: u8,
    cas_high: u8,
    flags: u8,
    key_len: u8,
    key: u8,
}

/// Room for the longest head of an item, and a word more.
const HEAD_MAX: usize = 32;

const FLAGS_WIDTH: [u8; 4] = [0, 1, 2, 4];
const CAS_WIDTH: [u8; 4] = [0, 4, 5, 8];
const CHAINED: u8 = 3;

const LAYOUTS: [Layout; 128] = {
    let mut layouts = [Layout {
        cas: 0,
        cas_high: 0,
        flags: 0,
        key_len: 0,
        key: 0,
    }; 128];
    let mut shape = 0;
    while shape < 128 {
        let cas_width = CAS_WIDTH[(shape >> 2) & 3];
        let cas = if shape as u8 & SHAPE_EXP != 0 { 8 } else { 4 };
        let cas_low_width = if cas_width > 0 { 4 } else { 0 };
        let cas_high = cas + cas_low_width;
        let flags = cas_high + cas_width - cas_low_width;
        let key_len = flags + FLAGS_WIDTH[shape & 3];
        let length_code = (shape >> 5) as u8 & 3;
        let value_len_width = if length_code == CHAINED {
            6
        } else {
            length_code + 1
        };
        layouts[shape] = Layout {
            cas,
            cas_high,
            flags,
            key_len,
            key: key_len + 1 + value_len_width,
        };
        shape += 1;
    }
    layouts
};

/// Numbers that change when items lie in memory in another way.
pub(crate) fn layout() -> impl Iterator<Item = u64> {
    let bits = [
        SHAPE_EXP.into(),
        SHAPE_PIECE.into(),
        KEY_IS_BINARY,
        STALE,
        WIN,
        FETCHED,
    ];
    let of_shapes = LAYOUTS
        .iter()
        .flat_map(|of| [of.cas, of.cas_high, of.flags, of.key_len, of.key]);
    let lens = [LAST_ACCESS_SHIFT, PIECE_LENGTH_BITS, PIECE_HEADER as u32];
    bits.into_iter()
        .chain(lens)
        .chain(of_shapes.map(u32::from))
        .map(u64::from)
}

impl Shape {
    fn layout(self) -> Layout {
        LAYOUTS[usize::from(self.0 & 127)]
    }

    fn is_chained(self) -> bool {
        (self.0 >> 5) & 3 == CHAINED
    }

    fn has_deadline(self) -> bool {
        self.0 & SHAPE_EXP != 0
    }

    fn cas_width(self) -> u8 {
        CAS_WIDTH[usize::from((self.0 >> 2) & 3)]
    }
}

/// Everything about a new item but its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    /// Deadline in ticks, [`NEVER`] for none.
    pub(crate) deadline: u32,
    /// The item has a word for a deadline even if it never expires now.
    pub(crate) deadline_word: bool,
    /// CAS number; `None` when CAS is off.
    pub(crate) cas: Option<u64>,
    pub(crate) flags: u32,
    pub(crate) key_is_binary: bool,
    pub(crate) stale: bool,
    pub(crate) win: bool,
    pub(crate) fetched: bool,
    /// Seconds of the clock.
    pub(crate) last_access: u32,
}

impl Header {
    /// Whether the words that change in place, accesses left out, are the same.
    pub(crate) fn same_words(&self, other: &Header) -> bool {
        (self.deadline, self.cas, self.stale, self.win) == (other.deadline, other.cas, other.stale, other.win)
    }

    /// Seconds from the last access to `now_secs`, modulo 12 days.
    pub(crate) fn idle_secs(&self, now_secs: u32) -> u32 {
        now_secs.wrapping_sub(self.last_access) % LAST_ACCESS_MODULO
    }

    fn shape(&self, value: ValueShape) -> Shape {
        let flags = match self.flags {
            0 => 0,
            1..=0xff => 1,
            0x100..=0xffff => 2,
            _ => 3,
        };
        let cas = match self.cas {
            None => 0,
            Some(cas) if cas < 1 << 32 => 1,
            Some(cas) if cas < 1 << 40 => 2,
            Some(_) => 3,
        };
        let length = match value {
            ValueShape::Inline(0..=0xff) => 0,
            ValueShape::Inline(0x100..=0xffff) => 1,
            ValueShape::Inline(_) => 2,
            ValueShape::Chained { .. } => CHAINED,
        };
        let exp = if self.deadline == NEVER && !self.deadline_word {
            0
        } else {
            SHAPE_EXP
        };
        Shape(flags | (cas << 2) | exp | (length << 5))
    }

    /// Bytes that the item takes before alignment. A chained item's piece table starts 8-aligned: its padding is counted
    /// at its largest.
    pub(crate) fn item_len(&self, key_len: usize, value: ValueShape) -> usize {
        let head = usize::from(self.shape(value).layout().key) + key_len;
        match value {
            ValueShape::Inline(len) => head + len,
            ValueShape::Chained { pieces, .. } => head + 7 + pieces * 8,
        }
    }
}

/// How a value is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ValueShape {
    /// Behind the key, this many bytes.
    Inline(usize),
    /// In pieces elsewhere.
    Chained { len: usize, pieces: usize },
}

/// An item's address. Holding one tells you that `key` and `value` may be read for `'a`, the turn of the worker that
/// looked it up; it does not tell you that the item is still in the index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ItemRef<'a> {
    at: *const u8,
    heap: PhantomData<&'a [u8]>,
}

/// What lies at a place of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An item with its value.
    Inline,
    /// An item whose value is in pieces.
    Chained,
    /// A piece of a value.
    Piece,
    /// Room that was given up: dead from the start.
    Filler,
}

/// What a walk has to know of what it comes to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outline<'a> {
    shape: Shape,
    pub(crate) kind: Kind,
    /// Bytes from its start to its end, before alignment.
    pub(crate) len: usize,
    /// Of an item.
    pub(crate) key: &'a [u8],
}

/// A piece of a chained value: where it lies and how many bytes of the value it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) location: Location,
    pub(crate) len: usize,
}

impl Piece {
    fn encode(self) -> u64 {
        (self.location.units() << PIECE_LENGTH_BITS) | self.len as u64
    }

    fn decode(word: u64) -> Piece {
        Piece {
            location: Location::from_units(word >> PIECE_LENGTH_BITS),
            len: (word & ((1 << PIECE_LENGTH_BITS) - 1)) as usize,
        }
    }

    /// As `decode` of what may be anything.
    fn try_decode(word: u64) -> Option<Piece> {
        let units = word >> PIECE_LENGTH_BITS;
        (1..1 << Location::BITS)
            .contains(&units)
            .then(|| Piece::decode(word))
    }
}

impl<'a> ItemRef<'a> {
    /// # Safety
    /// 1. `at` is 4-aligned and starts an item or piece whose immutable bytes are written.
    /// 2. Its memory is not recycled during `'a`.
    pub(crate) unsafe fn new(at: *const u8) -> ItemRef<'a> {
        ItemRef {
            at,
            heap: PhantomData,
        }
    }

    fn word(&self, offset: usize) -> &'a AtomicU32 {
        // SAFETY: `new` 1 and 2; offsets of words come from the layout, inside the item and 4-aligned.
        unsafe { &*self.at.add(offset).cast::<AtomicU32>() }
    }

    fn bytes(&self, offset: usize, len: usize) -> &'a [u8] {
        // SAFETY: `new` 1 and 2; the range lies inside the item by its own lengths, and is immutable once written.
        unsafe { std::slice::from_raw_parts(self.at.add(offset), len) }
    }

    fn byte(&self, offset: u8) -> u8 {
        self.bytes(usize::from(offset), 1)[0]
    }

    /// Little-endian number of up to 4 bytes. One load for each width: a copy of so many bytes and a load of the copy would
    /// wait for each other.
    #[inline]
    fn number(&self, offset: u8, width: u8) -> u32 {
        match *self.bytes(usize::from(offset), usize::from(width)) {
            [] => 0,
            [low] => u32::from(low),
            [low, high] => u32::from(u16::from_le_bytes([low, high])),
            [low, middle, high] => u32::from_le_bytes([low, middle, high, 0]),
            [a, b, c, d, ..] => u32::from_le_bytes([a, b, c, d]),
        }
    }

    fn shape(&self) -> Shape {
        Shape(self.word(0).load(Ordering::Relaxed) as u8)
    }

    pub(crate) fn is_piece(&self) -> bool {
        self.shape().0 & SHAPE_PIECE != 0
    }

    /// Of a piece: the hash of its owner's key.
    pub(crate) fn piece_owner(&self) -> u64 {
        let high = self.word(12).load(Ordering::Acquire);
        u64::from(high) << 32 | u64::from(self.word(8).load(Ordering::Relaxed))
    }

    /// Room that was given up: dead from the start.
    pub(crate) fn is_filler(&self) -> bool {
        !self.is_piece() && self.key().is_empty()
    }

    /// Of a piece that is not published yet: says whose it is.
    pub(crate) fn set_piece_owner(&self, owner: u64) {
        self.word(8).store(owner as u32, Ordering::Relaxed);
        self.word(12).store((owner >> 32) as u32, Ordering::Release);
    }

    /// Of a piece: its bytes of the value.
    pub(crate) fn piece_bytes(&self) -> &'a [u8] {
        self.bytes(PIECE_HEADER, self.word(4).load(Ordering::Relaxed) as usize)
    }

    pub(crate) fn key(&self) -> &'a [u8] {
        let layout = self.shape().layout();
        self.bytes(usize::from(layout.key), usize::from(self.byte(layout.key_len)))
    }

    pub(crate) fn is_chained(&self) -> bool {
        self.shape().is_chained()
    }

    pub(crate) fn value_len(&self) -> usize {
        let layout = self.shape().layout();
        let width = if self.is_chained() {
            4
        } else {
            layout.key - layout.key_len - 1
        };
        self.number(layout.key_len + 1, width) as usize
    }

    /// The value of an item that is not chained.
    pub(crate) fn inline_value(&self) -> &'a [u8] {
        self.value_in_one().expect("asked of an item that is not chained")
    }

    /// The value, if it is not in pieces.
    #[inline]
    pub(crate) fn value_in_one(&self) -> Option<&'a [u8]> {
        let shape = self.shape();
        let layout = shape.layout();
        (!shape.is_chained()).then(|| {
            let start = usize::from(layout.key) + usize::from(self.byte(layout.key_len));
            let len = self.number(layout.key_len + 1, layout.key - layout.key_len - 1);
            self.bytes(start, len as usize)
        })
    }

    fn piece_table(&self) -> (usize, usize) {
        let layout = self.shape().layout();
        let end_of_key = usize::from(layout.key) + usize::from(self.byte(layout.key_len));
        let padding = (self.at as usize + end_of_key).wrapping_neg() & 7;
        (end_of_key + padding, self.number(layout.key_len + 5, 2) as usize)
    }

    fn piece_word(&self, table: usize, index: usize) -> &'a AtomicU64 {
        // SAFETY: `new` 1 and 2; the table lies inside the item and starts 8-aligned by `piece_table`'s padding.
        unsafe { &*self.at.add(table + index * 8).cast::<AtomicU64>() }
    }

    /// The pieces of a chained item, in order. Acquire pairs with [`ItemRef::replace_piece`].
    pub(crate) fn pieces(self) -> impl Iterator<Item = Piece> + 'a {
        let (table, count) = self.piece_table();
        (0..count).map(move |index| Piece::decode(self.piece_word(table, index).load(Ordering::Acquire)))
    }

    /// Points the table at a piece's new place; `false` if the item does not name `old`. Caller holds the line's lock.
    pub(crate) fn replace_piece(&self, old: Piece, new: Piece) -> bool {
        let (table, count) = self.piece_table();
        let found =
            (0..count).find(|&index| self.piece_word(table, index).load(Ordering::Relaxed) == old.encode());
        if let Some(index) = found {
            self.piece_word(table, index)
                .store(new.encode(), Ordering::Release);
        }
        found.is_some()
    }

    /// Bytes from the item's start to its end, before alignment; for pieces too.
    pub(crate) fn len(&self) -> usize {
        self.outline().len
    }

    /// What a walk has to know of it, from one look at its shape.
    #[inline]
    pub(crate) fn outline(&self) -> Outline<'a> {
        self.outline_of(self.shape())
    }

    /// The size by which its worth is judged: for a chained item the value's, which is all that is known of it when its
    /// pieces are placed.
    pub(crate) fn judged_len(&self) -> usize {
        if self.is_chained() {
            self.value_len()
        } else {
            self.len()
        }
    }

    /// Deadline in ticks. Acquire pairs with [`ItemRef::set_deadline`].
    pub(crate) fn deadline(&self) -> u32 {
        self.deadline_of(self.shape())
    }

    /// Changes the deadline in place; `false` if the item has no room for one. Caller holds the line's lock.
    pub(crate) fn set_deadline(&self, deadline: u32) -> bool {
        if !self.shape().has_deadline() {
            return deadline == NEVER;
        }
        self.word(4).store(deadline, Ordering::Release);
        true
    }

    /// CAS number, 0 without one.
    pub(crate) fn cas(&self) -> u64 {
        let shape = self.shape();
        self.cas_by(shape.cas_width(), shape.layout()).unwrap_or(0)
    }

    #[inline]
    fn cas_by(&self, width: u8, layout: Layout) -> Option<u64> {
        (width > 0).then(|| {
            let low = self.word(usize::from(layout.cas)).load(Ordering::Acquire);
            (u64::from(self.number(layout.cas_high, width - 4)) << 32) | u64::from(low)
        })
    }

    /// Changes the CAS number in place; `false` if it does not fit. Caller holds the line's lock.
    pub(crate) fn set_cas(&self, cas: u64) -> bool {
        let shape = self.shape();
        if shape.cas_width() == 0 || self.cas() >> 32 != cas >> 32 {
            return false;
        }
        self.word(usize::from(shape.layout().cas))
            .store(cas as u32, Ordering::Release);
        true
    }

    /// What else a reader wants to know, from one load.
    pub(crate) fn state(&self) -> State {
        State(self.word(0).load(Ordering::Acquire))
    }

    /// Marks the item as read at `now_secs`; one relaxed attempt, only if that changes anything. Whether this was its
    /// first read.
    pub(crate) fn note_access(&self, seen: State, now_secs: u32) -> bool {
        let noted = (seen.0 & ((1 << LAST_ACCESS_SHIFT) - 1)) | FETCHED | (now_secs << LAST_ACCESS_SHIFT);
        let changes = noted != seen.0
            && self
                .word(0)
                .compare_exchange(seen.0, noted, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        changes && !seen.fetched()
    }

    /// Sets the lease state. Caller holds the line's lock; readers may note accesses meanwhile.
    pub(crate) fn set_lease(&self, stale: bool, win: bool) {
        let bits = if stale { STALE } else { 0 } | if win { WIN } else { 0 };
        let _ = self
            .word(0)
            .fetch_update(Ordering::Release, Ordering::Relaxed, |word| {
                Some((word & !(STALE | WIN)) | bits)
            });
    }

    /// Takes over what changed in place in `original`, of which this is a copy with the same shape that is not published
    /// yet. Caller holds the line's lock.
    pub(crate) fn take_over(&self, original: ItemRef<'_>) {
        let state = original.state();
        self.set_lease(state.stale(), state.win());
        let fits = self.set_deadline(original.deadline())
            && (self.cas() == original.cas() || self.set_cas(original.cas()));
        debug_assert!(fits, "a copy has the shape of its original");
        self.take_over_pieces(original);
    }

    /// The part of [`ItemRef::take_over`] that concerns pieces, which reclamation moves at any time.
    pub(crate) fn take_over_pieces(&self, original: ItemRef<'_>) {
        if !original.is_chained() {
            return;
        }
        let (table, _) = self.piece_table();
        for (index, piece) in original.pieces().enumerate() {
            self.piece_word(table, index)
                .store(piece.encode(), Ordering::Release);
        }
    }

    /// The item as a header, to write a changed copy.
    #[inline(always)]
    pub(crate) fn header(&self) -> Header {
        let state = self.state();
        let shape = Shape(state.0 as u8);
        let layout = shape.layout();
        Header {
            deadline: self.deadline_of(shape),
            deadline_word: shape.has_deadline(),
            cas: self.cas_by(shape.cas_width(), layout),
            flags: self.number(layout.flags, layout.key_len - layout.flags),
            key_is_binary: state.key_is_binary(),
            stale: state.stale(),
            win: state.win(),
            fetched: state.fetched(),
            last_access: state.0 >> LAST_ACCESS_SHIFT,
        }
    }
}

/// Word 0 as read at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State(u32);

impl State {
    pub(crate) fn key_is_binary(self) -> bool {
        self.0 & KEY_IS_BINARY != 0
    }

    pub(crate) fn stale(self) -> bool {
        self.0 & STALE != 0
    }

    pub(crate) fn win(self) -> bool {
        self.0 & WIN != 0
    }

    pub(crate) fn fetched(self) -> bool {
        self.0 & FETCHED != 0
    }

    pub(crate) fn is_chained(self) -> bool {
        Shape(self.0 as u8).is_chained()
    }
}

/// Bytes in a segment that only the caller may write, until it publishes their location.
#[derive(Debug)]
pub(crate) struct Room<'a> {
    at: *mut u8,
    len: usize,
    location: Location,
    heap: PhantomData<&'a mut [u8]>,
}

impl<'a> Room<'a> {
    /// # Safety
    /// 1. `at..at + len` is in the heap, 4-aligned, and nobody else reads or writes it during `'a`, except readers of
    ///    what was published.
    pub(crate) unsafe fn new(at: *mut u8, len: usize, location: Location) -> Room<'a> {
        Room {
            at,
            len,
            location,
            heap: PhantomData,
        }
    }

    pub(crate) fn location(&self) -> Location {
        self.location
    }

    /// Reserved bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Of a piece's room: bytes of value that go in.
    pub(crate) fn len_of_piece(&self) -> usize {
        self.len - PIECE_HEADER
    }

    /// Leaves the alignment behind a piece of `len` bytes out of the room.
    pub(crate) fn shorten_to_piece(&mut self, len: usize) {
        assert!(PIECE_HEADER + len <= self.len, "a room only gets shorter");
        self.len = PIECE_HEADER + len;
    }

    /// Writes the item's head and key and returns it with the place for the inline value.
    fn write_head(&mut self, header: &Header, key: &[u8], value: ValueShape) -> (ItemRef<'a>, usize) {
        assert!(
            header.item_len(key.len(), value) <= self.len,
            "the room was reserved for this item"
        );
        let shape = header.shape(value);
        let layout = shape.layout();
        let word = header.word(shape);
        let (len, pieces) = match value {
            ValueShape::Inline(len) => (len, 0),
            ValueShape::Chained { len, pieces } => (len, pieces),
        };
        let cas = header.cas.unwrap_or(0);
        let mut head = [0; HEAD_MAX];
        let mut write = |at: u8, number: u32| {
            head[usize::from(at)..][..4].copy_from_slice(&number.to_le_bytes());
        };
        // All in whole words, from the front: what is too much of one is overwritten by the next, or not copied.
        write(0, word);
        write(4, header.deadline);
        write(layout.cas, cas as u32);
        write(layout.cas_high, (cas >> 32) as u32);
        write(layout.flags, header.flags);
        write(layout.key_len, key.len() as u32);
        write(layout.key_len + 1, len as u32);
        write(layout.key_len + 5, pieces as u32);
        self.put(0, &head[..layout.key.into()]);
        self.put(layout.key.into(), key);
        // SAFETY: the item's immutable bytes up to the value are written; the caller writes the value before publishing.
        // Nobody recycles the room during `'a`.
        let item = unsafe { ItemRef::new(self.at) };
        (item, usize::from(layout.key) + key.len())
    }

    /// Writes an item whose value is the concatenation of `value`.
    pub(crate) fn write(mut self, header: &Header, key: &[u8], value: &[&[u8]]) -> ItemRef<'a> {
        let len = value.iter().map(|part| part.len()).sum();
        let (item, mut at) = self.write_head(header, key, ValueShape::Inline(len));
        for part in value {
            self.put(at, part);
            at += part.len();
        }
        item
    }

    /// Writes an item whose value is in `pieces`.
    pub(crate) fn write_chained(
        mut self,
        header: &Header,
        key: &[u8],
        len: usize,
        pieces: &[Piece],
    ) -> ItemRef<'a> {
        let (item, _) = self.write_head(
            header,
            key,
            ValueShape::Chained {
                len,
                pieces: pieces.len(),
            },
        );
        let (mut at, _) = item.piece_table();
        for piece in pieces {
            self.put(at, &piece.encode().to_ne_bytes());
            at += 8;
        }
        item
    }

    /// Gives the room up: what a walk finds there is dead.
    pub(crate) fn fill(mut self) {
        let shape = Shape(2 << 5);
        let head = usize::from(shape.layout().key);
        let len = (self.len - head) as u32;
        self.put(0, &u32::from(shape.0).to_le_bytes());
        self.put(4, &[0]);
        self.put(5, &len.to_le_bytes()[..3]);
    }

    /// Writes a piece's header, for `len` bytes of value that follow through [`Room::put`].
    pub(crate) fn write_piece_header(&mut self, len: usize, owner: u64) {
        assert!(
            PIECE_HEADER + len <= self.len,
            "the room was reserved for this piece"
        );
        self.put(0, &u32::from(SHAPE_PIECE).to_le_bytes());
        self.put(4, &(len as u32).to_le_bytes());
        self.put(8, &owner.to_le_bytes());
    }

    /// Copies `bytes` to `offset`.
    pub(crate) fn put(&mut self, offset: usize, bytes: &[u8]) {
        assert!(
            offset + bytes.len() <= self.len,
            "{} bytes at {offset} of {}",
            bytes.len(),
            self.len
        );
        // SAFETY: inside the room by the assertion; `new` 1: nobody else uses these bytes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at.add(offset), bytes.len()) }
    }

    /// The same room again, for a writer that fills it over several turns.
    ///
    /// # Safety
    /// 1. The segment cannot be recycled during `'b` (an upload keeps it), and only one of the rooms is in use at a time.
    pub(crate) unsafe fn detach<'b>(self) -> Room<'b> {
        Room {
            at: self.at,
            len: self.len,
            location: self.location,
            heap: PhantomData,
        }
    }
}

// SAFETY: a room is exclusive access to its bytes; any one thread may have it.
unsafe impl Send for Room<'_> {}

mod checked;
mod short;

pub(crate) use checked::LEAST;

#[cfg(test)]
mod tests {
    use super::{Header, ItemRef, Location, NEVER, Piece, Room, ValueShape};

    fn header() -> Header {
        Header {
            deadline: NEVER,
            deadline_word: false,
            cas: Some(7),
            flags: 0,
            key_is_binary: false,
            stale: false,
            win: false,
            fetched: false,
            last_access: 99,
        }
    }

    fn with_room<R>(len: usize, test: impl FnOnce(Room<'_>) -> R) -> R {
        let mut memory = vec![0u64; len.div_ceil(8)];
        // SAFETY: the vector outlives the room and nobody else uses it.
        test(unsafe { Room::new(memory.as_mut_ptr().cast(), len, Location::from_units(1)) })
    }

    #[test]
    fn smallest_item_with_cas_takes_ten_bytes_of_header() {
        assert_eq!(header().item_len(8, ValueShape::Inline(8)), 26);
        assert_eq!(
            Header {
                deadline: 5,
                ..header()
            }
            .item_len(8, ValueShape::Inline(8)),
            30
        );
        assert_eq!(
            Header { flags: 3, ..header() }.item_len(8, ValueShape::Inline(8)),
            27
        );
        assert_eq!(
            Header {
                cas: None,
                ..header()
            }
            .item_len(8, ValueShape::Inline(8)),
            22
        );
    }

    #[test]
    fn every_shape_reads_back_what_was_written() {
        for deadline in [NEVER, 0, 77] {
            for cas in [
                None,
                Some(0),
                Some(u64::from(u32::MAX)),
                Some(1 << 32),
                Some((1 << 40) - 1),
                Some(u64::MAX),
            ] {
                for flags in [0, 1, 255, 256, 65_535, 65_536, u32::MAX] {
                    for value_len in [0, 1, 255, 256, 65_535, 65_536] {
                        check(
                            Header {
                                deadline,
                                cas,
                                flags,
                                ..header()
                            },
                            value_len,
                        );
                    }
                }
            }
        }
    }

    fn check(header: Header, value_len: usize) {
        let value: Vec<u8> = (0..value_len).map(|byte| byte as u8).collect();
        let len = header.item_len(3, ValueShape::Inline(value_len));
        with_room(len, |room| {
            let item: ItemRef<'_> = room.write(&header, b"key", &[&value]);
            assert_eq!(item.key(), b"key");
            assert_eq!(item.inline_value(), value);
            assert_eq!(item.cas(), header.cas.unwrap_or(0));
            assert_eq!(item.header().flags, header.flags);
            assert_eq!(item.deadline(), header.deadline);
            assert_eq!(item.len(), len);
            assert_eq!(item.header().idle_secs(100), 1);
            assert!(!item.is_piece());
        });
    }

    #[test]
    fn chained_item_names_its_pieces_and_follows_one_that_moves() {
        let pieces: Vec<Piece> = (1..=5)
            .map(|n| Piece {
                location: Location::from_units(n << 30),
                len: n as usize * 1000,
            })
            .collect();
        let shape = ValueShape::Chained {
            len: 15_000,
            pieces: 5,
        };
        with_room(header().item_len(11, shape), |room| {
            let item = room.write_chained(&header(), b"eleven byte", 15_000, &pieces);
            assert_eq!(item.value_len(), 15_000);
            assert_eq!(item.key(), b"eleven byte");
            assert_eq!(item.pieces().collect::<Vec<_>>(), pieces);
            let moved = Piece {
                location: Location::from_units(9),
                len: 3000,
            };
            assert!(item.replace_piece(pieces[2], moved));
            assert!(!item.replace_piece(pieces[2], moved));
            assert_eq!(item.pieces().nth(2), Some(moved));
        });
    }
}
