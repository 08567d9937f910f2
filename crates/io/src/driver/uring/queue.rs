//! Replies that go out with the driver's next call of the kernel, all connections' together.

use std::io::IoSlice;

/// Bytes of one connection that wait for the next call; more is sent at once.
pub(super) const QUEUED_MAX: usize = 16 << 10;

/// Bytes that wait, all connections together.
const BYTES_MAX: usize = 128 << 10;

/// Not queued.
pub(super) const NONE: u32 = u32::MAX;

/// The bytes and whose they are.
pub(super) struct Queue {
    /// Never grows: the kernel is told where bytes lie.
    bytes: Vec<u8>,
    pub(super) entries: Vec<Entry>,
}

/// One connection's bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) place: u32,
    start: u32,
    len: u32,
}

impl Default for Queue {
    fn default() -> Queue {
        Queue {
            bytes: Vec::with_capacity(BYTES_MAX),
            entries: Vec::new(),
        }
    }
}

impl Queue {
    /// Takes `pieces` for a connection that has `number` already; `None` if there is no room for them or they would not lie
    /// behind that.
    pub(super) fn push(&mut self, place: u32, number: u32, pieces: &[IoSlice<'_>]) -> Option<u32> {
        let len: usize = pieces.iter().map(|piece| piece.len()).sum();
        let is_last = number as usize + 1 == self.entries.len();
        let before = if is_last {
            self.entries[number as usize].len as usize
        } else {
            0
        };
        let fits = before + len <= QUEUED_MAX && self.bytes.len() + len <= BYTES_MAX;
        if !fits || (number != NONE && !is_last) {
            return None;
        }
        let start = self.bytes.len() as u32;
        pieces
            .iter()
            .for_each(|piece| self.bytes.extend_from_slice(piece));
        if is_last {
            self.entries[number as usize].len += len as u32;
            return Some(number);
        }
        self.entries.push(Entry {
            place,
            start,
            len: len as u32,
        });
        Some(self.entries.len() as u32 - 1)
    }

    /// A connection's bytes.
    pub(super) fn bytes(&self, number: u32) -> &[u8] {
        let Entry { start, len, .. } = self.entries[number as usize];
        &self.bytes[start as usize..][..len as usize]
    }

    /// A connection's bytes are not to go out with the others.
    pub(super) fn withdraw(&mut self, number: u32) {
        self.entries[number as usize].len = 0;
    }

    /// All have gone.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
    }
}
