//! Replies on their way out: bytes of our own, and shared bytes in between that are not copied.

/// Replies to one connection, in order.
#[derive(Debug)]
pub struct Output<S> {
    bytes: Vec<u8>,
    /// How many of the copied bytes are sent already.
    sent: usize,
    shared: Vec<Shared<S>>,
    shared_len: usize,
}

/// A piece that goes out from where it lies.
#[derive(Debug)]
struct Shared<S> {
    /// How many copied bytes go before it.
    at: usize,
    piece: S,
    /// How many of its own bytes are sent already.
    sent: usize,
}

impl<S: AsRef<[u8]>> Shared<S> {
    fn bytes(&self) -> &[u8] {
        &self.piece.as_ref()[self.sent..]
    }
}

impl<S> Default for Output<S> {
    fn default() -> Output<S> {
        Output {
            bytes: Vec::new(),
            sent: 0,
            shared: Vec::new(),
            shared_len: 0,
        }
    }
}

impl<S> Output<S> {
    /// The buffer to append copied bytes to. Append only: what it holds already has its place among the shared pieces.
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Bytes waiting, copied and shared.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.sent + self.shared_len
    }

    /// The copied bytes that wait: all that waits where nothing is shared.
    pub(crate) fn copied(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops everything and keeps the buffer.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.sent = 0;
        self.shared.clear();
        self.shared_len = 0;
    }

    /// Gives memory beyond `kept` bytes back; call it when empty.
    pub fn shrink(&mut self, kept: usize) {
        if self.bytes.capacity() > kept {
            self.bytes.shrink_to(kept);
        }
    }
}

impl<S: AsRef<[u8]>> Output<S> {
    /// Appends a piece that goes out from where it lies.
    pub fn push_shared(&mut self, piece: S) {
        self.shared_len += piece.as_ref().len();
        self.shared.push(Shared {
            at: self.bytes.len(),
            piece,
            sent: 0,
        });
    }

    /// Bytes of memory that it holds, shared pieces' own left out.
    pub fn held(&self) -> usize {
        self.bytes.capacity() + self.shared.capacity() * size_of::<Shared<S>>()
    }

    /// Whether something waits to go out from where it lies.
    pub fn has_shared(&self) -> bool {
        !self.shared.is_empty()
    }

    /// Copies the shared pieces, so that they can be used again where they lie.
    pub fn own(&mut self) {
        let mut bytes = Vec::with_capacity(self.len());
        self.pieces().for_each(|piece| bytes.extend_from_slice(piece));
        *self = Output {
            bytes,
            ..Output::default()
        };
    }

    /// The waiting pieces in order.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = self.sent;
        let tail = self.shared.last().map_or(start, |shared| shared.at);
        self.shared
            .iter()
            .flat_map(move |shared| {
                let copied = &self.bytes[start..shared.at];
                start = shared.at;
                [copied, shared.bytes()]
            })
            .chain(std::iter::once(&self.bytes[tail..]))
            .filter(|piece| !piece.is_empty())
    }

    /// The first `len` waiting bytes are sent. Shared pieces that are done with are dropped, nothing is copied.
    pub fn advance(&mut self, len: usize) {
        let mut left = len;
        let mut done = 0;
        for shared in &mut self.shared {
            let copied = left.min(shared.at - self.sent);
            self.sent += copied;
            left -= copied;
            let skipped = left.min(shared.bytes().len());
            shared.sent += skipped;
            self.shared_len -= skipped;
            left -= skipped;
            if self.sent < shared.at || !shared.bytes().is_empty() {
                break;
            }
            done += 1;
        }
        self.shared.drain(..done);
        self.sent += left;
    }

    /// Moves what is behind the first `sent` waiting bytes into an output of its own: copied bytes are copied, shared
    /// pieces move. Nothing stays.
    pub fn split_off(&mut self, sent: usize) -> Output<S> {
        self.advance(sent);
        let mut rest = Output {
            bytes: self.bytes[self.sent..].to_vec(),
            sent: 0,
            shared: std::mem::take(&mut self.shared),
            shared_len: self.shared_len,
        };
        rest.shared.iter_mut().for_each(|shared| shared.at -= self.sent);
        self.clear();
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::Output;

    #[test]
    fn what_is_split_off_continues_exactly_where_the_rest_was_sent() {
        let build = || {
            let mut output: Output<Vec<u8>> = Output::default();
            output.bytes().extend_from_slice(b"VALUE a\r\n");
            output.push_shared(b"shared one".to_vec());
            output.bytes().extend_from_slice(b"\r\n");
            output.push_shared(b"two".to_vec());
            output.push_shared(b"three".to_vec());
            output.bytes().extend_from_slice(b"END\r\n");
            output
        };
        let whole: Vec<u8> = build().pieces().flatten().copied().collect();
        assert_eq!(whole, b"VALUE a\r\nshared one\r\ntwothreeEND\r\n");
        for first in 0..=whole.len() {
            let mut rest = build().split_off(first);
            assert_eq!(rest.len(), whole.len() - first);
            assert_eq!(
                rest.pieces().flatten().copied().collect::<Vec<u8>>(),
                whole[first..]
            );
            for second in 0..=rest.len() {
                let again: Vec<u8> = build()
                    .split_off(first)
                    .split_off(second)
                    .pieces()
                    .flatten()
                    .copied()
                    .collect();
                assert_eq!(again, whole[first + second..]);
            }
            for second in 0..=rest.len() {
                let mut again = build();
                again.advance(first);
                again.advance(second);
                assert_eq!(again.len(), whole.len() - first - second);
                assert_eq!(
                    again.pieces().flatten().copied().collect::<Vec<u8>>(),
                    whole[first + second..]
                );
            }
            let mut owned = build();
            owned.advance(first);
            owned.own();
            assert!(!owned.has_shared());
            assert_eq!(
                owned.pieces().flatten().copied().collect::<Vec<u8>>(),
                whole[first..]
            );
            rest.clear();
            assert!(rest.is_empty());
        }
    }
}
