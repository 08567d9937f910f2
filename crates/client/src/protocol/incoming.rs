//! Received bytes, cut into lines and data blocks wherever they were cut on their way. Memory is taken as bytes arrive, never
//! by what a line announces.

use std::borrow::Cow;
use std::mem;

use super::reply::Broken;

/// Most bytes of a line. A key, numbers and the words of errors have room in it.
pub(super) const LINE_LEN_MAX: usize = 2048;

const LINE_END: &[u8] = b"\r\n";

/// What is left of the bytes before.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    /// A line that has not ended.
    line: Vec<u8>,
    /// A data block that has not ended.
    block: Option<Block>,
}

/// A data block on its way.
#[derive(Debug)]
struct Block {
    bytes: Vec<u8>,
    wanted: bool,
    /// Bytes that are missing, without the line end.
    missing: usize,
    /// Bytes of the line end that have come.
    ended: usize,
}

/// What bytes have become.
pub(super) enum Piece<'a> {
    /// A line without its end.
    Line(Cow<'a, [u8]>),
    /// A data block without its line end; empty if it was not wanted.
    Block(Vec<u8>),
}

impl Incoming {
    /// Whether what follows begins a line.
    pub(super) fn is_between(&self) -> bool {
        self.block.is_none() && self.line.is_empty()
    }

    /// What follows is a data block; its bytes are kept if they are `wanted`.
    pub(super) fn expect_block(&mut self, len: usize, wanted: bool) {
        self.block = Some(Block {
            bytes: Vec::new(),
            wanted,
            missing: len,
            ended: 0,
        });
    }

    /// Takes bytes from the front until there is a piece; `None` if they do not suffice, and all are taken.
    pub(super) fn take<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Option<Piece<'a>>, Broken> {
        match self.block.as_mut() {
            Some(block) => {
                if !block.take(bytes)? {
                    return Ok(None);
                }
                Ok(self.block.take().map(|block| Piece::Block(block.bytes)))
            }
            None => self.take_line(bytes),
        }
    }

    fn take_line<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Option<Piece<'a>>, Broken> {
        let Some(at) = memchr::memchr(b'\n', bytes) else {
            if self.line.len() + bytes.len() > LINE_LEN_MAX {
                return Err(Broken::LineTooLong);
            }
            self.line.extend_from_slice(mem::take(bytes));
            return Ok(None);
        };
        if self.line.len() + at > LINE_LEN_MAX {
            return Err(Broken::LineTooLong);
        }
        let (head, rest) = bytes.split_at(at + 1);
        *bytes = rest;
        let whole = if self.line.is_empty() {
            Cow::Borrowed(head)
        } else {
            let mut line = mem::take(&mut self.line);
            line.extend_from_slice(head);
            Cow::Owned(line)
        };
        if !whole.ends_with(LINE_END) {
            return Err(Broken::Unreadable(Broken::shown(&whole)));
        }
        Ok(Some(Piece::Line(match whole {
            Cow::Borrowed(line) => line[..line.len() - LINE_END.len()].into(),
            Cow::Owned(mut line) => {
                line.truncate(line.len() - LINE_END.len());
                line.into()
            }
        })))
    }
}

impl Block {
    /// Whether it is whole now.
    fn take(&mut self, bytes: &mut &[u8]) -> Result<bool, Broken> {
        let (head, rest) = bytes.split_at(self.missing.min(bytes.len()));
        if self.wanted {
            self.bytes.extend_from_slice(head);
        }
        self.missing -= head.len();
        *bytes = rest;
        while self.missing == 0
            && self.ended < LINE_END.len()
            && let Some((byte, rest)) = bytes.split_first()
        {
            if *byte != LINE_END[self.ended] {
                return Err(Broken::ValueEnd);
            }
            self.ended += 1;
            *bytes = rest;
        }
        Ok(self.missing == 0 && self.ended == LINE_END.len())
    }
}

#[cfg(test)]
mod tests {
    use super::Incoming;

    #[test]
    fn an_announced_block_takes_memory_as_its_bytes_come() {
        let mut incoming = Incoming::default();
        incoming.expect_block(1 << 40, true);
        let mut bytes = [0u8; 100].as_slice();
        assert!(matches!(incoming.take(&mut bytes), Ok(None)));
        let taken = incoming.block.expect("it is not whole").bytes.capacity();
        assert!((100..1000).contains(&taken), "{taken}");
    }
}
