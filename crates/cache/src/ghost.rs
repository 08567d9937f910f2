//! A memory of keys that were evicted, so that one that comes back is not taken for a stranger.
//!
//! Two bytes a key: 12 bits of its hash and how often it had been read; one stranger in a hundred and thirty is taken for
//! somebody. Thirty-two make a cache line, one of them a cursor: a line forgets what it learned first. Races lose an entry or keep one twice; nothing but the guess at an
//! item's worth depends on it.

use scrubjay_base::sync::whole::{AtomicU16, AtomicUsize, Ordering};

use crate::index::KeyHash;

/// Entries in a line; the word before them is the cursor.
const ENTRIES: usize = 31;

/// Bytes of the cache for each byte of this memory.
const SHARE: usize = 128;

const LEVEL_BITS: u32 = 4;

#[derive(Debug)]
#[repr(align(64))]
struct Line([AtomicU16; ENTRIES + 1]);

/// What was evicted lately.
#[derive(Debug)]
pub(crate) struct Ghost {
    lines: Box<[Line]>,
    /// Lines in use, a power of two: three quarters of a key to three are remembered for each item. Who was evicted longer ago
    /// is a stranger.
    used: AtomicUsize,
}

fn lines_of(memory_max: usize) -> usize {
    (memory_max / SHARE / size_of::<Line>()).max(1)
}

impl Ghost {
    /// Remembers evictions of a cache of `memory_max` bytes.
    pub(crate) fn new(memory_max: usize) -> Ghost {
        Ghost::with_lines(lines_of(memory_max))
    }

    /// Of this many lines, 15 keys each.
    pub(crate) fn with_lines(lines: usize) -> Ghost {
        Ghost {
            // SAFETY: a line is integers, for which zero bytes are a value. Untouched ones take no memory.
            lines: unsafe { Box::<[Line]>::new_zeroed_slice(lines).assume_init() },
            used: AtomicUsize::new(1),
        }
    }

    /// A line keeps half of its keys when the number of lines doubles.
    fn line(&self, hash: KeyHash) -> &[AtomicU16; ENTRIES + 1] {
        let line = (hash.0 >> u32::BITS) as usize & (self.used.load(Ordering::Relaxed) - 1);
        &self.lines[line].0
    }

    /// Bytes of the lines in use; the others take no memory.
    pub(crate) fn bytes(&self) -> usize {
        self.used.load(Ordering::Relaxed) * size_of::<Line>()
    }

    /// Fits the number of keys remembered to the number of items; not at every change, for keys are
    /// forgotten by it. Whether the memory in use has changed.
    pub(crate) fn fit(&self, items: u64) -> bool {
        let used = self.used.load(Ordering::Relaxed);
        let keys = (used * ENTRIES) as u64;
        let wanted = if keys < items * 3 / 4 && 2 * used <= self.lines.len() {
            2 * used
        } else if keys > 3 * items && used > 1 {
            used / 2
        } else {
            return false;
        };
        self.used.store(wanted, Ordering::Relaxed);
        true
    }

    /// Never 0: that is an empty entry.
    fn fingerprint(hash: KeyHash) -> u16 {
        (hash.0 as u16) << LEVEL_BITS | 1 << LEVEL_BITS
    }

    /// Remembers a key and its heat's level, 0 to 15.
    pub(crate) fn put(&self, hash: KeyHash, level: u8) {
        let line = self.line(hash);
        let cursor = line[0].load(Ordering::Relaxed) as usize % ENTRIES;
        line[0].store(cursor as u16 + 1, Ordering::Relaxed);
        let entry = Ghost::fingerprint(hash) | u16::from(level.min(15));
        line[cursor + 1].store(entry, Ordering::Relaxed);
    }

    /// Forgets a key; its level if it was remembered.
    pub(crate) fn take(&self, hash: KeyHash) -> Option<u8> {
        let fingerprint = Ghost::fingerprint(hash);
        let entry = self.line(hash)[1..]
            .iter()
            .find(|entry| entry.load(Ordering::Relaxed) & !0xf == fingerprint)?;
        Some((entry.swap(0, Ordering::Relaxed) & 0xf) as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::Ghost;
    use crate::index::KeyHash;

    #[test]
    fn a_line_remembers_the_latest_and_forgets_what_is_taken() {
        let ghost = Ghost::new(0);
        let hash = |key: u64| KeyHash(key.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        (0..40).for_each(|key| ghost.put(hash(key), key as u8 % 16));
        assert_eq!(ghost.take(hash(4)), None, "pushed out");
        assert_eq!(ghost.take(hash(39)), Some(7));
        assert_eq!(ghost.take(hash(39)), None, "taken already");
        assert_eq!(ghost.take(hash(30)), Some(14));
    }
}
