//! A found value: read in place during the worker's turn, or pinned to be sent later.

use scrubjay_base::sync::whole::Ordering;
use std::sync::Arc;

use crate::api::{Hit, PinnedSlice};
use crate::item::ItemRef;
use crate::line::Location;
use crate::worker::Member;

/// Where a hit's value is.
#[derive(Debug)]
pub(crate) struct Value<'w> {
    pub(crate) item: ItemRef<'w>,
    /// All of it, unless it is in pieces.
    in_one: Option<&'w [u8]>,
    pub(crate) location: Location,
    pub(crate) member: &'w Arc<Member>,
}

/// A slice of the heap under a pin of its segment.
#[derive(Debug)]
pub(crate) struct Pinned {
    bytes: *const [u8],
    location: Location,
    member: Arc<Member>,
}

// SAFETY: the bytes are immutable and stay while the pin does; a pin is an atomic counter.
unsafe impl Send for Pinned {}
// SAFETY: as above.
unsafe impl Sync for Pinned {}

impl Pinned {
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: a segment with pins is not recycled, and `member` keeps the mapping.
        unsafe { &*self.bytes }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let heap = &self.member.cache().heap;
        // Release pairs with the Acquire in `State::free_retired`: the bytes were read before.
        heap.header(heap.segment_of(self.location))
            .pins
            .fetch_sub(1, Ordering::Release);
    }
}

impl<'w> Value<'w> {
    #[inline(always)]
    pub(crate) fn new(item: ItemRef<'w>, location: Location, member: &'w Arc<Member>) -> Value<'w> {
        Value {
            item,
            in_one: item.value_in_one(),
            location,
            member,
        }
    }

    fn parts(&self) -> impl Iterator<Item = (Location, &'w [u8])> {
        let item = self.item;
        let heap = &self.member.cache().heap;
        let whole = self.in_one.map(|value| (self.location, value));
        let pieces = whole.is_none().then(|| {
            item.pieces()
                .map(move |piece| (piece.location, heap.item(piece.location).piece_bytes()))
        });
        whole.into_iter().chain(pieces.into_iter().flatten())
    }

    pub(crate) fn slices(&self) -> impl Iterator<Item = &'w [u8]> {
        self.parts().map(|(_, bytes)| bytes)
    }

    pub(crate) fn pins(&self) -> impl Iterator<Item = PinnedSlice> {
        self.parts().map(|(location, bytes)| {
            let heap = &self.member.cache().heap;
            // Raised in the turn that found the item: the reclaimer waits for that turn, then sees the pin.
            heap.header(heap.segment_of(location))
                .pins
                .fetch_add(1, Ordering::Relaxed);
            PinnedSlice(Pinned {
                bytes,
                location,
                member: Arc::clone(self.member),
            })
        })
    }
}

impl Hit<'_> {
    /// Length of the value in bytes.
    #[inline]
    pub fn value_len(&self) -> usize {
        match self.value.in_one {
            Some(value) => value.len(),
            None => self.value.item.value_len(),
        }
    }

    /// The whole value, unless it lies in several pieces, as only large ones do.
    #[inline]
    pub fn in_one(&self) -> Option<&[u8]> {
        self.value.in_one
    }

    /// The value's pieces in order; one for all but large values.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        self.value.slices()
    }

    /// Copies the value to the end of `out`.
    #[inline]
    pub fn append_to(&self, out: &mut Vec<u8>) {
        match self.value.in_one {
            Some(value) => out.extend_from_slice(value),
            None => self.slices().for_each(|slice| out.extend_from_slice(slice)),
        }
    }

    /// The value's pieces, each kept readable until dropped, for sending without a copy. Cost: one atomic addition each.
    pub fn pins(&self) -> impl Iterator<Item = PinnedSlice> {
        self.value.pins()
    }
}
