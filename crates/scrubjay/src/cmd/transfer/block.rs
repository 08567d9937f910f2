//! Items back to back, as they lie in a file and travel between the parts of a tool.
//!
//! ```text
//! item: u8 what it is (1: its key was given as base64) | u8 key length | u32 client flags
//!       u32 seconds left to live (all ones: it never expires) | u32 value length | key | value
//! ```
//! Numbers are little-endian.

use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes before an item's key.
const HEAD_LEN: usize = 14;

const KEY_IS_BINARY: u8 = 1;

const NEVER: u32 = u32::MAX;

/// An item of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
    pub(crate) flags: u32,
    /// Seconds left to live when its block was taken; `None` never expires.
    pub(crate) ttl: Option<u32>,
    pub(crate) key_is_binary: bool,
}

/// Some items, taken at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) bytes: Vec<u8>,
    pub(crate) items: u32,
    /// Unix milliseconds.
    pub(crate) taken_at: u64,
    /// Where the source's list goes on behind this block and all before it, if it told.
    pub(crate) cursor: Option<u64>,
}

impl Block {
    /// Appends an item.
    pub(crate) fn push(&mut self, item: &Item<'_>) {
        let kind = if item.key_is_binary { KEY_IS_BINARY } else { 0 };
        let ttl = item.ttl.map_or(NEVER, |ttl| ttl.min(NEVER - 1));
        self.bytes.extend_from_slice(&[kind, item.key.len() as u8]);
        for number in [item.flags, ttl, item.value.len() as u32] {
            self.bytes.extend_from_slice(&number.to_le_bytes());
        }
        self.bytes.extend_from_slice(item.key);
        self.bytes.extend_from_slice(item.value);
        self.items += 1;
    }

    /// The items in order; an error where the bytes are none.
    pub(crate) fn items(&self) -> impl Iterator<Item = Result<Item<'_>, String>> {
        let mut rest = &self.bytes[..];
        let mut number = 0;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            number += 1;
            let cut = cut_item(&mut rest).ok_or_else(|| {
                rest = &[];
                format!("item {number} of a block of {} is cut short", self.items)
            });
            Some(cut)
        })
    }

    /// Seconds that have passed at `unix_millis` since it was taken, rounded.
    pub(crate) fn age_secs(&self, unix_millis: u64) -> u32 {
        let secs = (unix_millis.saturating_sub(self.taken_at) + 500) / 1000;
        u32::try_from(secs).unwrap_or(u32::MAX)
    }
}

fn cut_item<'a>(rest: &mut &'a [u8]) -> Option<Item<'a>> {
    let head = rest.split_off(..HEAD_LEN)?;
    let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let (flags, ttl, value_len) = (number(2), number(6), number(10));
    Some(Item {
        key: rest.split_off(..usize::from(head[1]))?,
        value: rest.split_off(..value_len as usize)?,
        flags,
        ttl: (ttl != NEVER).then_some(ttl),
        key_is_binary: head[0] & KEY_IS_BINARY != 0,
    })
}

/// Milliseconds of the wall clock since 1970.
pub(crate) fn unix_millis() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::{Block, Item};

    #[test]
    fn items_are_read_as_they_were_pushed_and_a_cut_block_says_so() {
        let items = [
            Item {
                key: b"k",
                value: b"",
                flags: 0,
                ttl: None,
                key_is_binary: false,
            },
            Item {
                key: &[0; 250],
                value: &[b'\n'; 300],
                flags: u32::MAX,
                ttl: Some(0),
                key_is_binary: true,
            },
        ];
        let mut block = Block::default();
        items.iter().for_each(|item| block.push(item));
        assert_eq!(block.items().collect::<Result<Vec<_>, _>>(), Ok(items.to_vec()));
        block.bytes.pop();
        let read: Vec<_> = block.items().collect();
        assert_eq!(read.len(), 2);
        assert_eq!(read[1], Err("item 2 of a block of 2 is cut short".to_owned()));
    }

    #[test]
    fn age_is_rounded_and_never_negative() {
        let block = Block {
            taken_at: 10_000,
            ..Block::default()
        };
        for (at, age) in [(9_000, 0), (10_499, 0), (10_500, 1), (70_000, 60)] {
            assert_eq!(block.age_secs(at), age);
        }
    }
}
