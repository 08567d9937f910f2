//! A reply on its way into room that was made for all of it: a look whether a buffer has to grow before each of its parts, most of
//! which are a few bytes, takes longer than to write them.

use base64::Engine;
use scrubjay_base::bytes::{FEW, copy_few};
use scrubjay_base::number::{SHORT_BELOW, append, short_digits};

use crate::meta::BASE64;

/// Most bytes of a number. So much room it has to have, however short it is.
pub const NUMBER_LEN_MAX: usize = 20;

/// Said by whoever writes beyond the room.
const NO_ROOM: &str = "whoever made the room knew how much";

/// The room that is left. Each method writes at its start and returns what is left then: two words, which stay in the processor's
/// registers from part to part.
///
/// # Panics
/// Each method, if what it writes has no room.
#[derive(Debug)]
#[must_use]
pub struct Line<'o>(&'o mut [u8]);

impl<'o> Line<'o> {
    /// Nothing is written yet.
    #[inline]
    pub fn new(room: &'o mut [u8]) -> Line<'o> {
        Line(room)
    }

    /// Appends to `out` what `write` writes, at most `room` bytes.
    pub fn append(out: &mut Vec<u8>, room: usize, write: impl for<'l> FnOnce(Line<'l>) -> Line<'l>) {
        let start = out.len();
        out.resize(start + room, 0);
        let left = write(Line(&mut out[start..])).left();
        out.truncate(start + room - left);
    }

    /// Bytes of room that are left.
    #[inline]
    pub fn left(&self) -> usize {
        self.0.len()
    }

    /// So many bytes, a number that is known when this is compiled.
    #[inline]
    pub fn push<const LEN: usize>(self, bytes: [u8; LEN]) -> Line<'o> {
        let (to, left) = self.0.split_first_chunk_mut().expect(NO_ROOM);
        *to = bytes;
        Line(left)
    }

    /// Bytes.
    #[inline]
    pub fn bytes(self, bytes: &[u8]) -> Line<'o> {
        if bytes.len() > FEW {
            return self.many_bytes(bytes);
        }
        let (to, left) = self.0.split_at_mut_checked(bytes.len()).expect(NO_ROOM);
        copy_few(to, bytes);
        Line(left)
    }

    /// As [`Line::bytes`]. A call, so that who makes it has none to get ready for where the bytes are few.
    #[inline(never)]
    pub fn many_bytes(self, bytes: &[u8]) -> Line<'o> {
        let (to, left) = self.0.split_at_mut_checked(bytes.len()).expect(NO_ROOM);
        to.copy_from_slice(bytes);
        Line(left)
    }

    /// A decimal number.
    #[inline]
    pub fn number(self, number: u64) -> Line<'o> {
        match number {
            0..10 => self.push([b'0' + number as u8]),
            10..SHORT_BELOW => {
                let (digits, len) = short_digits(number as u32);
                *self.0.first_chunk_mut().expect(NO_ROOM) = digits;
                Line(&mut self.0[len..])
            }
            _ => self.long_number(number),
        }
    }

    #[inline(never)]
    fn long_number(self, number: u64) -> Line<'o> {
        let mut digits = Vec::with_capacity(NUMBER_LEN_MAX);
        append(&mut digits, number);
        self.bytes(&digits)
    }

    /// A key, as base64 with ` b` behind it if it is binary. A key that would break the line is sent so, too, whatever it was stored as.
    /// It takes [`key_len_max`] at most.
    pub fn key(self, key: &[u8], is_binary: bool) -> Line<'o> {
        let breaks_the_line = || key.iter().any(|byte| matches!(byte, b' ' | b'\n' | 0));
        if !is_binary && !breaks_the_line() {
            return self.bytes(key);
        }
        let len = BASE64.encode_slice(key, self.0).expect(NO_ROOM);
        Line(&mut self.0[len..]).push(*b" b")
    }
}

/// How long a key of so many bytes is in a line at most.
pub const fn key_len_max(key_len: usize) -> usize {
    // More than four letters for each three bytes that are begun, and the ` b`.
    2 * key_len + 4
}

#[cfg(test)]
mod tests {
    use super::{Line, NUMBER_LEN_MAX, key_len_max};

    #[test]
    fn a_key_and_a_number_take_no_more_than_is_said() {
        for len in 1..=250 {
            for key in [vec![b'k'; len], vec![b' '; len]] {
                for is_binary in [false, true] {
                    let mut out = b"before".to_vec();
                    Line::append(&mut out, key_len_max(len), |line| line.key(&key, is_binary));
                    assert!(out.starts_with(b"before"));
                    assert_eq!(out.ends_with(&key), key[0] == b'k' && !is_binary);
                }
            }
        }
        for number in [0, 9, 10, 99, 9999, 10_000, u64::MAX] {
            let mut out = Vec::new();
            Line::append(&mut out, NUMBER_LEN_MAX, |line| line.number(number));
            assert_eq!(out, number.to_string().as_bytes());
        }
    }

    #[test]
    #[should_panic = "knew how much"]
    fn nothing_is_written_beyond_the_room() {
        Line::append(&mut Vec::with_capacity(100), 3, |line| line.bytes(b"four"));
    }
}
