//! The ledger: of items that left lately, why, when, and what they were like. It answers "why is my key gone?".
//!
//! ```text
//! entry, 16 bytes, four in a cache line that the key's hash chooses
//! word 0   fingerprint:48 (of the hash) | cause:4, never 0 | reads:4 | spare:8
//! word 1   when:32 (seconds of the cache's clock) | bytes:16 | ttl left:16 (both short floats)
//! ```
//! A new entry takes the place of the key's older one, else of the oldest. Deletions use the first two places of a line
//! only, so a storm of them leaves half of the evictions. Writers take no lock: two that meet in one entry may pair one's
//! fingerprint and cause with the other's size, never with the other's cause.

use scrubjay_base::sync::whole::{AtomicU64, Ordering};

use crate::api::Cause;
use crate::index::KeyHash;
use crate::prefetch::prefetch;

/// Entries in a line.
const ENTRIES: usize = 4;

/// The bits of a place in a line.
const PLACE_MASK: u64 = ENTRIES as u64 - 1;
const _: () = assert!(ENTRIES.is_power_of_two());

/// Places of a line that deletions may take.
const DELETION_ENTRIES: usize = 2;

/// Bytes of the cache for each byte of the ledger, unless the configuration says how large it is.
const SHARE: usize = 100;

const FINGERPRINT_SHIFT: u32 = 16;
const CAUSE_SHIFT: u32 = 12;
const READS_SHIFT: u32 = 8;
const NO_TTL: u16 = u16::MAX;

#[derive(Debug)]
#[repr(C, align(64))]
struct Line([[AtomicU64; 2]; ENTRIES]);

/// What an item was like when it left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leaving {
    pub(crate) cause: Cause,
    /// Seconds of the cache's clock.
    pub(crate) secs: u32,
    pub(crate) bytes: u64,
    /// Seconds that it had to live; `None`: for ever.
    pub(crate) ttl: Option<u32>,
    /// Level of its heat, 0 to 15.
    pub(crate) level: u8,
}

/// What the ledger says of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// How it left, last.
    Left(Leaving),
    /// It did not leave since this second of the cache's clock.
    NotSince(u32),
}

/// All entries.
#[derive(Debug)]
pub(crate) struct Ledger {
    lines: *const Line,
    count: usize,
}

// SAFETY: the lines are atomics that live as long as the ledger is used, by the duty of `Ledger::new`.
unsafe impl Send for Ledger {}
// SAFETY: as above.
unsafe impl Sync for Ledger {}

/// Bytes of a ledger, by the configuration's wish or the memory limit.
pub(crate) fn bytes_of(memory_max: usize, wanted: Option<usize>) -> usize {
    let bytes = wanted.unwrap_or(memory_max / SHARE);
    (bytes / size_of::<Line>()).max(1) * size_of::<Line>()
}

/// Eleven bits of mantissa, five of exponent: to a part in 2,048, up to 2^41.
fn short_float(number: u64) -> u16 {
    let bits = u64::BITS - number.leading_zeros();
    let exponent = bits.saturating_sub(11).min(30);
    ((exponent as u16) << 11) | ((number >> exponent).min(0x7ff) as u16)
}

fn long_integer(float: u16) -> u64 {
    u64::from(float & 0x7ff) << (float >> 11)
}

impl Ledger {
    /// The ledger that lies there.
    ///
    /// # Safety
    /// 1. `at` is 64-aligned, and `bytes` bytes from there on are initialised, used by ledgers only, and there for as long as
    ///    this one is used.
    pub(crate) unsafe fn new(at: *const u8, bytes: usize) -> Ledger {
        Ledger {
            lines: at.cast(),
            count: bytes / size_of::<Line>(),
        }
    }

    fn line(&self, hash: KeyHash) -> &[[AtomicU64; 2]; ENTRIES] {
        let line = (u128::from(hash.0) * self.count as u128) >> 64;
        // SAFETY: `new` 1; a part of `count` is below it.
        unsafe { &(*self.lines.add(line as usize)).0 }
    }

    /// Hints the processor to fetch what [`Ledger::note`] of this key looks at.
    pub(crate) fn prefetch(&self, hash: KeyHash) {
        prefetch(std::ptr::from_ref(self.line(hash)).cast());
    }

    /// Of the bits that do not choose the line; false matches are one in 2^46 questions.
    fn fingerprint(hash: KeyHash) -> u64 {
        hash.0 << FINGERPRINT_SHIFT
    }

    /// Notes that a key's item left.
    #[inline]
    pub(crate) fn note(&self, hash: KeyHash, leaving: &Leaving) {
        let line = self.line(hash);
        let fingerprint = Ledger::fingerprint(hash);
        let places = if leaving.cause == Cause::Deleted {
            DELETION_ENTRIES
        } else {
            ENTRIES
        };
        // The key's own entry, else the oldest of those that may be taken, by its word that begins with when: 0 in an empty one.
        // Which one that is cannot be foretold, so nothing branches on it: the place stands in the word's last bits.
        let is_own = |entry: &[AtomicU64; 2]| {
            (entry[0].load(Ordering::Relaxed) ^ fingerprint) >> FINGERPRINT_SHIFT == 0
        };
        let own = line
            .iter()
            .rev()
            .fold(0u32, |own, entry| own << 1 | u32::from(is_own(entry)));
        let when = |place: usize| line[place][1].load(Ordering::Relaxed) & !PLACE_MASK | place as u64;
        let oldest = (1..places).map(when).fold(when(0), u64::min);
        let place = match own {
            0 => (oldest & PLACE_MASK) as usize,
            own => own.trailing_zeros() as usize,
        };
        let entry = &line[place];
        let ttl = leaving.ttl.map_or(NO_TTL, |ttl| short_float(u64::from(ttl)));
        let facts =
            u64::from(leaving.secs) << 32 | u64::from(short_float(leaving.bytes)) << 16 | u64::from(ttl);
        let head =
            fingerprint | (leaving.cause as u64 + 1) << CAUSE_SHIFT | u64::from(leaving.level) << READS_SHIFT;
        entry[1].store(facts, Ordering::Relaxed);
        entry[0].store(head, Ordering::Relaxed);
    }

    /// What is known of how a key left.
    pub(crate) fn find(&self, hash: KeyHash) -> Entry {
        let line = self.line(hash);
        let fingerprint = Ledger::fingerprint(hash) >> FINGERPRINT_SHIFT;
        for entry in line {
            let head = entry[0].load(Ordering::Relaxed);
            let cause = (head >> CAUSE_SHIFT & 0xf).checked_sub(1);
            if head >> FINGERPRINT_SHIFT != fingerprint {
                continue;
            }
            let Some(cause) = cause.and_then(|cause| Cause::ALL.get(cause as usize)) else {
                continue;
            };
            let facts = entry[1].load(Ordering::Relaxed);
            let ttl = facts as u16;
            return Entry::Left(Leaving {
                cause: *cause,
                secs: (facts >> 32) as u32,
                bytes: long_integer((facts >> 16) as u16),
                ttl: (ttl != NO_TTL).then(|| long_integer(ttl) as u32),
                level: (head >> READS_SHIFT & 0xf) as u8,
            });
        }
        // Whatever displaced an entry was noted later, in one of the places that all may use, and the other of these two
        // was not older than the displaced one.
        let when = |entry: &[AtomicU64; 2]| match entry[0].load(Ordering::Relaxed) {
            0 => 0,
            _ => (entry[1].load(Ordering::Relaxed) >> 32) as u32,
        };
        Entry::NotSince(line[..DELETION_ENTRIES].iter().map(when).min().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::{Entry, Leaving, Ledger, long_integer, short_float};
    use crate::api::Cause;
    use crate::index::KeyHash;

    fn leaving(cause: Cause, secs: u32) -> Leaving {
        Leaving {
            cause,
            secs,
            bytes: 100,
            ttl: Some(7),
            level: 3,
        }
    }

    /// One that nobody takes down.
    fn empty() -> Ledger {
        let memory = scrubjay_io::memory::Memory::reserve(4096).expect("a page");
        let at = Box::leak(Box::new(memory)).as_ptr();
        // SAFETY: a mapping of zeros of 4,096 bytes that stays for ever.
        unsafe { Ledger::new(at, 64) }
    }

    fn hash(key: u64) -> KeyHash {
        KeyHash(key.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    #[test]
    fn latest_entry_of_a_key_is_found_and_strangers_are_not() {
        let ledger = empty();
        assert_eq!(ledger.find(hash(1)), Entry::NotSince(0));
        ledger.note(hash(1), &leaving(Cause::Evicted, 5));
        ledger.note(hash(1), &leaving(Cause::Expired, 6));
        assert_eq!(ledger.find(hash(1)), Entry::Left(leaving(Cause::Expired, 6)));
        assert_eq!(ledger.find(hash(2)), Entry::NotSince(0), "places are left");
    }

    #[test]
    fn deletions_leave_half_of_a_line_and_the_limit_of_memory_is_told() {
        let ledger = empty();
        (0..4).for_each(|key| ledger.note(hash(key), &leaving(Cause::Evicted, key as u32)));
        (10..1000).for_each(|key| ledger.note(hash(key), &leaving(Cause::Deleted, key as u32)));
        let kept = (0..4).filter(|key| matches!(ledger.find(hash(*key)), Entry::Left(_)));
        assert_eq!(kept.count(), 2);
        let Entry::NotSince(secs) = ledger.find(hash(500)) else {
            panic!("displaced long ago");
        };
        assert!((501..1000).contains(&secs), "{secs}");
        assert!(matches!(ledger.find(hash(999)), Entry::Left(_)));
    }

    #[test]
    fn short_floats_are_near_what_they_stand_for() {
        for number in [0, 1, 2047, 2048, 1_000_000, 31_536_000, 1 << 40] {
            let back = long_integer(short_float(number));
            assert!(
                back <= number && number - back <= number >> 10,
                "{number}: {back}"
            );
        }
    }
}
