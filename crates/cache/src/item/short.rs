//! Writing an item whose value is at hand, and telling its key: as few steps as there can be, for most of the items that are ever
//! written.

use std::ptr::copy_nonoverlapping;

use scrubjay_base::bytes;

use super::{
    FETCHED, Header, ItemRef, KEY_IS_BINARY, LAST_ACCESS_SHIFT, Layout, Room, STALE, Shape, ValueShape, WIN,
};

/// What the words of a head may be too long by: each is written whole, and the next one, the key or the value over what is too
/// much of it.
const OVER: usize = 4;

/// How an item with its value behind its key will lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    shape: Shape,
    layout: Layout,
    key_len: usize,
    value_len: usize,
}

impl Header {
    /// Word 0 of an item of this shape.
    #[inline]
    pub(super) fn word(&self, shape: Shape) -> u32 {
        u32::from(shape.0)
            | if self.key_is_binary { KEY_IS_BINARY } else { 0 }
            | if self.stale { STALE } else { 0 }
            | if self.win { WIN } else { 0 }
            | if self.fetched { FETCHED } else { 0 }
            | (self.last_access << LAST_ACCESS_SHIFT)
    }

    /// The form of an item with this header.
    #[inline]
    pub(crate) fn form(&self, key_len: usize, value_len: usize) -> Form {
        let shape = self.shape(ValueShape::Inline(value_len));
        Form {
            shape,
            layout: shape.layout(),
            key_len,
            value_len,
        }
    }
}

impl ItemRef<'_> {
    #[inline]
    pub(crate) fn has_key(&self, key: &[u8]) -> bool {
        bytes::same(self.key(), key)
    }
}

impl Form {
    /// Bytes that the item takes before alignment.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        usize::from(self.layout.key) + self.key_len + self.value_len
    }
}

impl<'a> Room<'a> {
    /// Writes an item of this form, which was made of the same header and lengths.
    #[inline]
    pub(crate) fn write_form(self, form: &Form, header: &Header, key: &[u8], value: &[u8]) -> ItemRef<'a> {
        assert!(
            key.len() == form.key_len && value.len() == form.value_len && form.len() <= self.len,
            "the form is this item's, and the room was reserved for it"
        );
        if form.key_len + form.value_len < OVER {
            return self.write(header, key, &[value]);
        }
        let layout = form.layout;
        let cas = header.cas.unwrap_or(0);
        let put = |at: u8, number: u32| {
            // SAFETY: `Room::new` 1: nobody else uses these bytes. A word begins in front of the key, at the value's length at the
            // latest, so it ends at most `OVER` bytes behind the head: inside the item by the test above, and so inside the
            // room by the assertion.
            unsafe {
                self.at
                    .add(at.into())
                    .cast::<[u8; 4]>()
                    .write(number.to_le_bytes());
            }
        };
        put(0, header.word(form.shape));
        put(4, header.deadline);
        put(layout.cas, cas as u32);
        put(layout.cas_high, (cas >> 32) as u32);
        put(layout.flags, header.flags);
        put(layout.key_len, form.key_len as u32);
        put(layout.key_len + 1, form.value_len as u32);
        // SAFETY: head, key and value are inside the room by the assertion, and nobody else uses it; the slices lie elsewhere.
        // Then all bytes of the item are written, and nobody recycles them during `'a`.
        unsafe {
            let at = self.at.add(layout.key.into());
            copy(key, at);
            copy(value, at.add(key.len()));
            ItemRef::new(self.at)
        }
    }
}

/// Copies bytes: a call of a function for many takes longer than to copy few.
///
/// # Safety
/// 1. `to` is followed by as many bytes that nobody else uses.
#[inline]
unsafe fn copy(bytes: &[u8], to: *mut u8) {
    let (from, len) = (bytes.as_ptr(), bytes.len());
    // SAFETY: 1; both chunks, which overlap or touch, lie within the `len` bytes.
    unsafe {
        match len {
            16..=32 => copy_ends::<16>(from, to, len),
            8..16 => copy_ends::<8>(from, to, len),
            _ => copy_nonoverlapping(from, to, len),
        }
    }
}

/// Copies the first and the last `CHUNK` of `len` bytes.
///
/// # Safety
/// 1. There are `len` bytes at both places, which do not overlap, and they are `CHUNK` at least.
#[inline]
unsafe fn copy_ends<const CHUNK: usize>(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: 1. Both are read before one is written, so that they may stand in registers.
    unsafe {
        let first = from.cast::<[u8; CHUNK]>().read();
        let last = from.add(len - CHUNK).cast::<[u8; CHUNK]>().read();
        to.cast::<[u8; CHUNK]>().write(first);
        to.add(len - CHUNK).cast::<[u8; CHUNK]>().write(last);
    }
}

#[cfg(test)]
mod tests {
    use super::{Header, Room};
    use crate::item::NEVER;
    use crate::line::Location;

    #[test]
    fn an_item_lies_as_the_long_way_writes_it() {
        for cas in [None, Some(7), Some(1 << 33), Some(u64::MAX)] {
            for (deadline, flags) in [(NEVER, 0), (77, 0), (NEVER, 255), (5, 70_000)] {
                for key_len in [1, 2, 7, 8, 15, 16, 17, 32, 33, 250] {
                    for value_len in [0, 1, 2, 3, 7, 8, 9, 16, 31, 32, 33, 255, 256, 300] {
                        check(&header(cas, deadline, flags), key_len, value_len);
                    }
                }
            }
        }
    }

    fn header(cas: Option<u64>, deadline: u32, flags: u32) -> Header {
        Header {
            deadline,
            deadline_word: false,
            cas,
            flags,
            key_is_binary: true,
            stale: false,
            win: true,
            fetched: false,
            last_access: 99,
        }
    }

    fn check(header: &Header, key_len: usize, value_len: usize) {
        let bytes: Vec<u8> = (0..=255).cycle().take(600).collect();
        let (key, value) = (&bytes[..key_len], &bytes[100..100 + value_len]);
        let form = header.form(key_len, value_len);
        let write = |short: bool| {
            // What is behind the item's end stays as it is.
            let mut memory = vec![0x5555_5555_5555_5555u64; form.len().div_ceil(8) + 1];
            let at = memory.as_mut_ptr().cast();
            // SAFETY: the vector outlives the room and nobody else uses it.
            let room = unsafe { Room::new(at, form.len(), Location::from_units(1)) };
            match short {
                true => room.write_form(&form, header, key, value),
                false => room.write(header, key, &[value]),
            };
            memory
        };
        assert_eq!(write(true), write(false), "{header:?}, {key_len}, {value_len}");
    }
}
