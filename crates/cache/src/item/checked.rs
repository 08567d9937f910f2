//! Reading what may be no item, after a crash and for checksums: one look at the shape for all.

use scrubjay_base::sync::whole::Ordering;

use super::{Kind, NEVER, Outline, PIECE_HEADER, Piece, SHAPE_PIECE, Shape};
use crate::item::ItemRef;

/// Bytes that whatever lies in a segment takes at least.
pub(crate) const LEAST: usize = 8;

impl<'a> ItemRef<'a> {
    /// As [`ItemRef::outline`] of what may be anything; `None` if it is nothing that ends within `room` bytes. They must be
    /// the segment's own.
    #[inline]
    pub(crate) fn checked_outline(&self, room: usize) -> Option<Outline<'a>> {
        if room < LEAST {
            return None;
        }
        let shape = self.shape();
        let head = if shape.0 & SHAPE_PIECE != 0 {
            PIECE_HEADER
        } else {
            usize::from(shape.layout().key)
        };
        // From here on, what `outline` reads to know the length is inside.
        let outline = (head <= room).then(|| self.outline_of(shape))?;
        (outline.len <= room).then_some(outline)
    }

    /// As [`ItemRef::outline`] of an item of this shape.
    #[inline]
    pub(super) fn outline_of(&self, shape: Shape) -> Outline<'a> {
        if shape.0 & SHAPE_PIECE != 0 {
            let len = PIECE_HEADER + self.word(4).load(Ordering::Relaxed) as usize;
            let (kind, key) = (Kind::Piece, &[][..]);
            return Outline {
                shape,
                kind,
                len,
                key,
            };
        }
        let layout = shape.layout();
        let key = self.bytes(usize::from(layout.key), usize::from(self.byte(layout.key_len)));
        let head = usize::from(layout.key) + key.len();
        if shape.is_chained() {
            let len = head + 7 + self.piece_table().1 * 8;
            let kind = Kind::Chained;
            return Outline {
                shape,
                kind,
                len,
                key,
            };
        }
        let value_len = self.number(layout.key_len + 1, layout.key - layout.key_len - 1);
        Outline {
            shape,
            kind: if key.is_empty() {
                Kind::Filler
            } else {
                Kind::Inline
            },
            len: head + value_len as usize,
            key,
        }
    }

    /// As [`ItemRef::deadline`] of an item of this shape.
    #[inline]
    pub(super) fn deadline_of(&self, shape: Shape) -> u32 {
        if shape.has_deadline() {
            self.word(4).load(Ordering::Acquire)
        } else {
            NEVER
        }
    }

    /// The bytes that never change once it is complete: the first byte, and these. What else there is changes while it is
    /// read, or is nobody's.
    #[inline]
    pub(crate) fn lasting_bytes(&self, outline: &Outline<'a>) -> (u8, &'a [u8]) {
        let shape = outline.shape;
        let lasting = match outline.kind {
            Kind::Piece => self.bytes(4, outline.len - 4),
            Kind::Filler => self.bytes(4, LEAST - 4),
            Kind::Inline | Kind::Chained => {
                let layout = shape.layout();
                let start = usize::from(layout.cas_high);
                // The pieces of a value are moved.
                let end = if shape.is_chained() {
                    usize::from(layout.key) + outline.key.len()
                } else {
                    outline.len
                };
                self.bytes(start, end - start)
            }
        };
        (shape.0, lasting)
    }

    /// Its deadline, as [`ItemRef::deadline`], without another look at its shape.
    #[inline]
    pub(crate) fn outlined_deadline(&self, outline: &Outline<'a>) -> u32 {
        self.deadline_of(outline.shape)
    }

    /// Whether it is a piece of so many bytes that belongs to the item of a key of this hash.
    pub(crate) fn is_piece_of(&self, outline: &Outline<'a>, hash: u64, len: usize) -> bool {
        outline.kind == Kind::Piece && outline.len == PIECE_HEADER + len && self.piece_owner() == hash
    }

    /// As [`ItemRef::pieces`] of an item whose outline was checked; `None` for an entry that names no place.
    pub(crate) fn checked_pieces(self) -> impl Iterator<Item = Option<Piece>> + 'a {
        let (table, count) = self.piece_table();
        (0..count).map(move |index| {
            let word = self.piece_word(table, index).load(Ordering::Acquire);
            Piece::try_decode(word)
        })
    }
}
