//! Reading what may be no item: after a crash, and for checksums.

use scrubjay_base::sync::whole::Ordering;

use super::{Kind, Outline, PIECE_HEADER, Piece, SHAPE_PIECE};
use crate::item::ItemRef;

/// Bytes that whatever lies in a segment takes at least.
pub(crate) const LEAST: usize = 8;

impl<'a> ItemRef<'a> {
    /// As [`ItemRef::outline`] of what may be anything; `None` if it is nothing that ends within `room` bytes. They must be
    /// the segment's own.
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
        let outline = (head <= room).then(|| self.outline())?;
        (outline.len <= room).then_some(outline)
    }

    /// The bytes that never change once it is complete: the first byte, and these. What else there is changes while it is
    /// read, or is nobody's.
    pub(crate) fn lasting_bytes(&self, outline: &Outline<'a>) -> (u8, &'a [u8]) {
        let shape = self.shape();
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
