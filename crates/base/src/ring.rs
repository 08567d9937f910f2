//! A bounded buffer of records between two threads: one writes, one takes, neither waits.
//!
//! A record is four words and some bytes. Where there is no room for one it is refused, and the writer counts it. Everything
//! lies in atomic words, so that a wrong number of threads could mix records up but break nothing else.

use crate::sync::{AtomicU64, Ordering, OwnLine};

/// Words of a record before its bytes; the low 16 bits of the first are the ring's own.
pub const HEAD_WORDS: usize = 4;

/// Most bytes of a record.
pub const BYTES_MAX: usize = u16::MAX as usize;

const LEN_MASK: u64 = BYTES_MAX as u64;

/// The buffer. [`Ring::push`] belongs to one thread at a time, [`Ring::take`] to another.
#[derive(Debug)]
pub struct Ring {
    /// A power of two of them; written by the writer between `taken` and `taken` + their number.
    words: Box<[AtomicU64]>,
    writer: OwnLine<Writer>,
    /// Words that were taken. Written by the taker; says which may be written again.
    taken: OwnLine<AtomicU64>,
}

#[derive(Debug, Default)]
struct Writer {
    /// Words that were written. Publishes them to the taker.
    written: AtomicU64,
    /// What the writer last saw of `taken`; nobody else reads it.
    seen_taken: AtomicU64,
}

/// Words of a record with so many bytes.
fn words_of(len: usize) -> u64 {
    (HEAD_WORDS + len.div_ceil(size_of::<u64>())) as u64
}

impl Ring {
    /// An empty ring of at least so many bytes.
    pub fn new(bytes: usize) -> Ring {
        let words = bytes.div_ceil(size_of::<u64>()).next_power_of_two();
        Ring {
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
            writer: OwnLine(Writer {
                written: AtomicU64::new(0),
                seen_taken: AtomicU64::new(0),
            }),
            taken: OwnLine(AtomicU64::new(0)),
        }
    }

    /// Bytes that it takes.
    pub fn held(&self) -> usize {
        self.words.len() * size_of::<u64>()
    }

    fn word(&self, position: u64) -> &AtomicU64 {
        &self.words[position as usize & (self.words.len() - 1)]
    }

    /// Where the next record will begin: all before it were written before.
    pub fn position(&self) -> u64 {
        // Acquire pairs with the release in `push`.
        self.writer.0.written.load(Ordering::Acquire)
    }

    /// Appends a record; `false` if there is no room. Cost: a store a word, and a look at the taker's line when the ring seems
    /// full.
    ///
    /// # Panics
    /// If the low 16 bits of `head` are not 0, or `bytes` are more than [`BYTES_MAX`].
    pub fn push(&self, head: [u64; HEAD_WORDS], bytes: &[u8]) -> bool {
        assert!(head[0] & LEN_MASK == 0 && bytes.len() <= BYTES_MAX);
        let writer = &self.writer.0;
        let start = writer.written.load(Ordering::Relaxed);
        let end = start + words_of(bytes.len());
        if !self.reaches(end) {
            return false;
        }
        let head = [head[0] | bytes.len() as u64, head[1], head[2], head[3]];
        let mut at = start;
        let mut put = |word: u64| {
            self.word(at).store(word, Ordering::Relaxed);
            at += 1;
        };
        head.into_iter().for_each(&mut put);
        let (whole, rest) = bytes.as_chunks::<8>();
        whole.iter().for_each(|chunk| put(u64::from_le_bytes(*chunk)));
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            put(u64::from_le_bytes(last));
        }
        // Release pairs with the acquire in `take` and `position`.
        writer.written.store(end, Ordering::Release);
        true
    }

    /// Whether a record of so many bytes would find room now, for the writer: so it need not be made in vain.
    pub fn has_room(&self, len: usize) -> bool {
        self.reaches(self.writer.0.written.load(Ordering::Relaxed) + words_of(len))
    }

    /// Whether everything up to `end` may be written; looks at the taker's line when the ring seems full.
    fn reaches(&self, end: u64) -> bool {
        let (writer, len) = (&self.writer.0, self.words.len() as u64);
        if end - writer.seen_taken.load(Ordering::Relaxed) <= len {
            return true;
        }
        // Acquire pairs with the release in `take`: what was there has been read.
        let taken = self.taken.0.load(Ordering::Acquire);
        writer.seen_taken.store(taken, Ordering::Relaxed);
        end - taken <= len
    }

    /// Takes everything that was written until now: calls `each` with the position of a record, its head and its bytes.
    pub fn take(&self, mut each: impl FnMut(u64, [u64; HEAD_WORDS], &[u8])) {
        let end = self.position();
        let mut at = self.taken.0.load(Ordering::Relaxed);
        let mut bytes = Vec::new();
        while at < end {
            let start = at;
            let mut next = || {
                let word = self.word(at).load(Ordering::Relaxed);
                at += 1;
                word
            };
            let mut head = [next(), next(), next(), next()];
            let len = (head[0] & LEN_MASK) as usize;
            head[0] &= !LEN_MASK;
            bytes.clear();
            (0..len.div_ceil(size_of::<u64>())).for_each(|_| bytes.extend_from_slice(&next().to_le_bytes()));
            bytes.truncate(len);
            each(start, head, &bytes);
        }
        // Release pairs with the acquire in `push`.
        self.taken.0.store(end, Ordering::Release);
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::Ring;

    fn taken(ring: &Ring) -> Vec<(u64, Vec<u8>)> {
        let mut all = Vec::new();
        ring.take(|_, head, bytes| all.push((head[3], bytes.to_vec())));
        all
    }

    #[test]
    fn records_come_out_as_they_went_in_around_the_end_and_over_again() {
        let ring = Ring::new(200);
        assert_eq!(ring.held(), 256);
        for round in 0..1000u64 {
            let bytes: Vec<u8> = (0..round % 40).map(|byte| (byte + round) as u8).collect();
            assert!(ring.push([1 << 16, 0, 0, round], &bytes));
            assert!(ring.push([0, 0, 0, round], b""));
            assert_eq!(taken(&ring), [(round, bytes), (round, Vec::new())]);
        }
        assert!(taken(&ring).is_empty());
    }

    #[test]
    fn what_has_no_room_is_refused_and_what_was_there_stays() {
        let ring = Ring::new(128);
        assert!((0..4).all(|number| ring.push([0, 0, 0, number], b"")));
        assert!(!ring.push([0, 0, 0, 4], b""));
        let numbers: Vec<u64> = taken(&ring).into_iter().map(|(number, _)| number).collect();
        assert_eq!(numbers, [0, 1, 2, 3]);
        assert!(ring.push([0, 0, 0, 5], &[7; 96]));
        assert!(!ring.push([0, 0, 0, 6], b""));
        assert!(
            !ring.push([0; 4], &[0; 1000]),
            "more than it will ever have room for"
        );
        assert_eq!(taken(&ring), [(5, vec![7; 96])]);
    }
}

/// Every interleaving of one that writes and one that takes, by loom.
#[cfg(all(test, loom))]
mod models {
    use loom::sync::Arc;
    use loom::thread;

    use super::Ring;

    #[test]
    fn what_is_taken_was_written_whole_once_and_in_order() {
        loom::model(|| {
            // Room for one record of five words and not for two.
            let ring = Arc::new(Ring::new(64));
            let writer = Arc::clone(&ring);
            let task = thread::spawn(move || {
                (1..=3u64)
                    .filter(|number| {
                        writer.push([number << 16, *number, *number, *number], &[*number as u8; 7])
                    })
                    .collect()
            });
            let mut taken = Vec::new();
            let mut take = || {
                ring.take(|_, head, bytes| {
                    let number = head[3];
                    assert_eq!(head, [number << 16, number, number, number]);
                    assert_eq!(bytes, [number as u8; 7]);
                    taken.push(number);
                });
            };
            take();
            take();
            let written: Vec<u64> = task.join().expect("the writer ends");
            take();
            assert_eq!(taken, written);
        });
    }
}
