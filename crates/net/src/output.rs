//! Replies on their way out: bytes of our own, and shared bytes in between that are not copied.

/// Replies to one connection, in order.
#[derive(Debug)]
pub struct Output<S> {
    bytes: Vec<u8>,
    shared: Vec<(usize, S)>,
    shared_len: usize,
}

impl<S> Default for Output<S> {
    fn default() -> Output<S> {
        Output {
            bytes: Vec::new(),
            shared: Vec::new(),
            shared_len: 0,
        }
    }
}

impl<S: AsRef<[u8]>> Output<S> {
    /// The buffer to append copied bytes to. Append only: what it holds already has its place among the shared pieces.
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Appends a piece that goes out from where it lies.
    pub fn push_shared(&mut self, piece: S) {
        self.shared_len += piece.as_ref().len();
        self.shared.push((self.bytes.len(), piece));
    }

    /// Bytes waiting, copied and shared.
    pub fn len(&self) -> usize {
        self.bytes.len() + self.shared_len
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The waiting pieces in order.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        let tail = self.shared.last().map_or(0, |(at, _)| *at);
        self.shared
            .iter()
            .flat_map(move |(at, piece)| {
                let copied = &self.bytes[start..*at];
                start = *at;
                [copied, piece.as_ref()]
            })
            .chain(std::iter::once(&self.bytes[tail..]))
            .filter(|piece| !piece.is_empty())
    }
}
