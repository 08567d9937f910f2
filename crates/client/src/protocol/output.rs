//! Bytes on their way to the socket, so that they leave with one call: small requests lie together in one buffer, a large
//! value is a piece of its own that is never copied.

use std::collections::VecDeque;
use std::mem;

/// From how many bytes on an owned value is a piece of its own.
pub const PIECE_LEN_MIN: usize = 16 * 1024;

/// Bytes that are not sent yet.
#[derive(Debug, Default)]
pub struct Output {
    pieces: VecDeque<Vec<u8>>,
    /// Bytes of the first piece that have gone.
    sent: usize,
    /// Pieces that have gone.
    gone: usize,
    /// Where values end: which piece since the beginning, and how many bytes of it.
    ends: VecDeque<(usize, usize)>,
    /// The memory of a piece that has gone.
    spare: Vec<u8>,
}

impl From<Vec<u8>> for Output {
    fn from(bytes: Vec<u8>) -> Output {
        Output {
            pieces: VecDeque::from([bytes]),
            ..Output::default()
        }
    }
}

impl Output {
    /// Whether everything has gone.
    pub fn is_empty(&self) -> bool {
        self.slices().next().is_none()
    }

    /// The pieces that are left, in order, for one vectored write.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces
            .iter()
            .enumerate()
            .map(|(at, piece)| {
                if at == 0 {
                    &piece[self.sent..]
                } else {
                    piece.as_slice()
                }
            })
            .filter(|slice| !slice.is_empty())
    }

    /// After how many of the bytes that are left each value ends that a request has.
    pub fn ends(&self) -> impl Iterator<Item = usize> {
        let (mut before, mut piece) = (0, self.gone);
        let ends = self.ends.iter().map(move |(of, at)| {
            while piece < *of {
                before += self.pieces[piece - self.gone].len();
                piece += 1;
            }
            (before + at).saturating_sub(self.sent)
        });
        ends.filter(|end| *end > 0)
    }

    /// So many bytes have gone.
    ///
    /// # Panics
    /// If there were not so many.
    pub fn advance(&mut self, len: usize) {
        let mut left = len + self.sent;
        while let Some(front) = self.pieces.front()
            && front.len() <= left
        {
            left -= front.len();
            self.gone += 1;
            if let Some(mut piece) = self.pieces.pop_front()
                && piece.capacity() < PIECE_LEN_MIN
            {
                piece.clear();
                self.spare = piece;
            }
        }
        while self.ends.front().is_some_and(|(piece, _)| *piece < self.gone) {
            self.ends.pop_front();
        }
        assert!(
            left == 0 || !self.pieces.is_empty(),
            "{left} bytes more have gone than there were"
        );
        self.sent = left;
    }

    /// Takes over the memory of one of which everything has gone, unless there is something here already.
    pub(super) fn reuse(&mut self, mut gone: Output) {
        if self.pieces.is_empty() && gone.pieces.is_empty() {
            (gone.sent, gone.gone) = (0, 0);
            gone.ends.clear();
            *self = gone;
        }
    }

    /// Where small bytes are appended.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        if self.pieces.is_empty() {
            self.pieces.push_back(mem::take(&mut self.spare));
        }
        self.pieces.back_mut().expect("there is one now")
    }

    /// What was appended last is a value.
    pub(super) fn end_value(&mut self) {
        let last = self.pieces.back().map_or(0, Vec::len);
        self.ends
            .push_back((self.gone + self.pieces.len().saturating_sub(1), last));
    }

    /// Appends a large value without copying it.
    pub(super) fn push_piece(&mut self, value: Vec<u8>) {
        self.pieces.push_back(value);
        self.pieces.push_back(Vec::new());
    }
}

#[cfg(test)]
mod tests {
    use super::{Output, PIECE_LEN_MIN};

    #[test]
    fn what_has_gone_leaves_its_memory_to_what_comes() {
        let gone = |bytes: &[u8]| {
            let mut output = Output::default();
            output.buffer().extend_from_slice(bytes);
            output.end_value();
            output.advance(bytes.len());
            output
        };
        let mut output = Output::default();
        output.reuse(gone(b"bytes"));
        assert!(output.is_empty() && output.ends().next().is_none());
        assert!(output.buffer().capacity() >= 5 && output.buffer().is_empty());
        output.buffer().extend_from_slice(b"more");
        output.end_value();
        output.reuse(gone(b"others"));
        assert!(output.slices().eq([b"more".as_slice()]) && output.ends().eq([4]));
        let mut output = Output::default();
        output.reuse(gone(&[0; PIECE_LEN_MIN]));
        assert_eq!(output.buffer().capacity(), 0, "large ones are not kept");
    }

    #[test]
    fn bytes_leave_in_any_portions_and_in_order() {
        for portion in 1..12 {
            let mut output = Output::default();
            output.buffer().extend_from_slice(b"head ");
            let value = b"value".to_vec();
            let address = value.as_ptr();
            output.push_piece(value);
            output.buffer().extend_from_slice(b"\r\n");
            output.end_value();
            output.buffer().extend_from_slice(b"next");
            output.end_value();
            assert_eq!(
                output.slices().nth(1).map(<[u8]>::as_ptr),
                Some(address),
                "not copied"
            );
            let mut gone = Vec::new();
            while !output.is_empty() {
                let all: Vec<u8> = output.slices().flatten().copied().collect();
                let len = portion.min(all.len());
                let left = |end: usize| end.checked_sub(gone.len()).filter(|left| *left > 0);
                assert!(
                    output.ends().eq([12, 16].into_iter().filter_map(left)),
                    "{portion}"
                );
                gone.extend_from_slice(&all[..len]);
                output.advance(len);
            }
            assert_eq!(gone, b"head value\r\nnext", "{portion}");
        }
    }
}
