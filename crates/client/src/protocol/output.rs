//! Bytes on their way to the socket, so that they leave with one call: small requests lie together in one buffer, a large
//! value is a piece of its own that is never copied.

use std::collections::VecDeque;

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
            self.pieces.pop_front();
            self.gone += 1;
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

    /// Where small bytes are appended.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        if self.pieces.is_empty() {
            self.pieces.push_back(Vec::new());
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
    use super::Output;

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
