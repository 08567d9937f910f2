//! The first bytes of the file that a cache lives in: whose it is, how it is cut, and the words that a restart needs.
//!
//! ```text
//! head    written when the file is created, with a checksum: what cannot change
//! words   what changes while the cache works, right at every moment: a process may die between any two instructions
//! saved   written when the cache is closed, with a checksum: what else would have to be counted item by item
//! ```

use std::io;
use std::mem::offset_of;

use scrubjay_base::sync::OwnLine;
use scrubjay_base::sync::whole::{AtomicU64, Ordering};
use scrubjay_base::time::Now;
use scrubjay_io::memory::MemoryFile;

use crate::api::Cause;
use crate::eviction;
use crate::item;
use crate::line::{Line, SLOTS, TAG_BITS};
use crate::pool::NUMBER_MAX;
use crate::segment::{PAGE_LINES, SEGMENT_START, SegmentHeader};
use crate::sizes;

/// Bytes that the superblock takes in the file: the segments' headers follow.
pub(crate) const SUPERBLOCK_LEN: usize = 4096;

/// A file begins with these bytes.
const MAGIC: u64 = u64::from_le_bytes(*b"scrubjay");

/// Raised by every change of what lies in the file that [`layout`] would not notice.
const LAYOUT_VERSION: u64 = 4;

/// The cache is in use, or its process died.
const IN_USE: u64 = 1;

/// The cache was closed: `saved` is right.
const CLOSED: u64 = 2;

const HEAD_WORDS: usize = 8;

/// Words of `saved` before those of the sizes.
const SAVED_FIRST: usize = 3;

const SAVED_WORDS: usize = SAVED_FIRST + 2 * sizes::CLASSES;

/// What stands there. Words are written by one thread at a time: under the pool's lock, by the resizer, by background work.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Superblock {
    /// A [`Head`], its checksum behind it.
    head: [AtomicU64; HEAD_WORDS],
    /// 0 while the file is being made, then [`IN_USE`] or [`CLOSED`].
    state: AtomicU64,
    /// The latest moment that background work has seen.
    latest_nanos: AtomicU64,
    /// Bytes of the ledger.
    pub(crate) ledger_bytes: AtomicU64,
    /// Copies of the words of the same names that readers look at; see `flush.rs`. Written before those.
    pub(crate) flush_below: AtomicU64,
    pub(crate) flush_at: AtomicU64,
    /// The same for `index.rs`.
    pub(crate) geometry: AtomicU64,
    pub(crate) frontier: AtomicU64,
    /// What eviction has learnt, as of the last background work.
    pub(crate) eviction: [AtomicU64; eviction::LEARNT_WORDS],
    /// The last CAS number given out; raised by every modification.
    pub(crate) cas: OwnLine<AtomicU64>,
    saved: [AtomicU64; SAVED_WORDS],
    saved_check: AtomicU64,
}

const _: () = assert!(size_of::<Superblock>() <= SUPERBLOCK_LEN);

impl Superblock {
    /// Where each of its fields lies.
    const OFFSETS: [usize; 12] = [
        offset_of!(Superblock, head),
        offset_of!(Superblock, state),
        offset_of!(Superblock, latest_nanos),
        offset_of!(Superblock, ledger_bytes),
        offset_of!(Superblock, flush_below),
        offset_of!(Superblock, flush_at),
        offset_of!(Superblock, geometry),
        offset_of!(Superblock, frontier),
        offset_of!(Superblock, eviction),
        offset_of!(Superblock, cas),
        offset_of!(Superblock, saved),
        size_of::<Superblock>(),
    ];
}

/// What cannot change while a file is one cache's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) boot_id: [u8; 16],
    pub(crate) hash_seed: u64,
    /// The memory limit at creation: all sizes in the file follow from it.
    pub(crate) memory_max: u64,
    pub(crate) unix_millis_at_start: u64,
}

/// What was counted when the cache was closed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Saved {
    pub(crate) items: u64,
    pub(crate) bytes: u64,
    /// Of the bytes, those of items that were never read.
    pub(crate) unread_bytes: u64,
    /// Items and their bytes by class of size.
    pub(crate) sizes: Vec<(u64, u64)>,
}

/// A cache that a file keeps, as far as its superblock tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Unix time in milliseconds at the start of the cache's clock.
    pub unix_millis_at_start: u64,
    /// The latest moment of that clock that is known: time must not go back behind it.
    pub latest: Now,
    /// The cache was closed; otherwise its process died.
    pub clean: bool,
    /// The memory limit at creation.
    pub memory_max: usize,
    pub(crate) hash_seed: u64,
}

/// Why a file does not bring a cache back.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cold {
    /// Nothing was ever in it.
    Empty,
    /// It was made before the machine was started last: what was written since may be missing.
    OtherBoot,
    /// A version of this program made it that lays memory out in another way.
    OtherLayout {
        /// Number of the layout found.
        found: u64,
        /// Number of this program's.
        expected: u64,
    },
    /// It was made for a limit that is too far from the present one.
    OtherMemory {
        /// The memory limit when the file was made.
        created_with: usize,
        /// The memory limit asked for.
        wanted: usize,
    },
    /// It is not what a cache leaves behind.
    Damaged(String),
}

impl std::fmt::Display for Cold {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Cold::Empty => write!(out, "the memory file is new: the cache starts empty"),
            Cold::OtherBoot => write!(
                out,
                "the memory file is from before the machine's last start and may lack what was written last: \
                 the cache starts empty"
            ),
            Cold::OtherLayout { found, expected } => write!(
                out,
                "the memory file was made by another version of scrubjay (layout {found:016x}, this one has \
                 {expected:016x}): the cache starts empty"
            ),
            Cold::OtherMemory { created_with, wanted } => write!(
                out,
                "the memory file was made with -m {created_with} and can be used from an eighth of that up to eight \
                 times as much, not with -m {wanted}: the cache starts empty; give -m in that range to keep what is in it"
            ),
            Cold::Damaged(why) => {
                write!(out, "the memory file is damaged ({why}): the cache starts empty")
            }
        }
    }
}

/// A number for how this program lays memory out: sizes, bits, where fields lie, and which hash is used.
pub(crate) fn layout() -> u64 {
    let mut numbers = vec![
        LAYOUT_VERSION,
        size_of::<Line>() as u64,
        SLOTS as u64,
        PAGE_LINES as u64,
        crate::index::HOME_LINES as u64,
        u64::from(TAG_BITS),
        u64::from(crate::line::Location::BITS),
        u64::from(SEGMENT_START),
        u64::from(crate::expiry::TICKS_PER_SEC),
        eviction::LOGS as u64,
        sizes::CLASSES as u64,
        Cause::ALL.len() as u64,
        xxhash_rust::xxh3::xxh3_64_with_seed(b"key", 1),
    ];
    let offsets = Superblock::OFFSETS.iter().chain(&SegmentHeader::OFFSETS);
    numbers.extend(offsets.map(|offset| *offset as u64));
    numbers.extend(item::layout());
    check(&numbers)
}

fn check(words: &[u64]) -> u64 {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    xxhash_rust::xxh3::xxh3_64(&bytes)
}

impl Head {
    fn encode(&self) -> [u64; HEAD_WORDS] {
        let boot = u128::from_le_bytes(self.boot_id);
        let mut words = [
            MAGIC,
            layout(),
            boot as u64,
            (boot >> 64) as u64,
            self.hash_seed,
            self.memory_max,
            self.unix_millis_at_start,
            0,
        ];
        words[HEAD_WORDS - 1] = check(&words[..HEAD_WORDS - 1]);
        words
    }

    fn decode(words: &[u64]) -> Result<Head, Cold> {
        let [
            magic,
            layout_found,
            boot_low,
            boot_high,
            hash_seed,
            memory_max,
            start,
            check_found,
        ] = *words
        else {
            return Err(Cold::Damaged("it has no whole superblock".to_owned()));
        };
        if words.iter().all(|word| *word == 0) {
            return Err(Cold::Empty);
        }
        if magic != MAGIC {
            return Err(Cold::Damaged("it does not begin as a cache's".to_owned()));
        }
        let expected = layout();
        if layout_found != expected {
            let found = layout_found;
            return Err(Cold::OtherLayout { found, expected });
        }
        if check_found != check(&words[..HEAD_WORDS - 1]) {
            return Err(Cold::Damaged("its superblock has a wrong checksum".to_owned()));
        }
        Ok(Head {
            boot_id: (u128::from(boot_high) << 64 | u128::from(boot_low)).to_le_bytes(),
            hash_seed,
            memory_max,
            unix_millis_at_start: start,
        })
    }
}

/// Whether a file may be emptied: it holds nothing, or some cache.
///
/// # Errors
/// What the operating system says.
pub(crate) fn is_ours(file: &MemoryFile) -> io::Result<bool> {
    let mut magic = [0; 8];
    let read = file.read_at(&mut magic, 0)?;
    // While a file is being made, its first word is still missing.
    Ok(read == 0 || read == magic.len() && [0, MAGIC].contains(&u64::from_le_bytes(magic)))
}

/// What cache `file` keeps, or why it keeps none for a process of this boot. Reads the superblock only.
///
/// # Errors
/// What the operating system says.
pub fn look(file: &MemoryFile, boot_id: &[u8; 16]) -> io::Result<Result<Kept, Cold>> {
    // Head, state and latest moment come first.
    let mut bytes = [0; (HEAD_WORDS + 2) * size_of::<u64>()];
    let read = file.read_at(&mut bytes, 0)?;
    if read == 0 {
        return Ok(Err(Cold::Empty));
    }
    let words: Vec<u64> = bytes[..read]
        .as_chunks()
        .0
        .iter()
        .map(|bytes| u64::from_le_bytes(*bytes))
        .collect();
    Ok(judge(&words, boot_id))
}

fn judge(words: &[u64], boot_id: &[u8; 16]) -> Result<Kept, Cold> {
    let (head, words) = words.split_at(words.len().min(HEAD_WORDS));
    let head = Head::decode(head)?;
    if head.boot_id != *boot_id {
        return Err(Cold::OtherBoot);
    }
    let (state, latest) = match *words {
        [state @ (IN_USE | CLOSED), latest, ..] if latest < NUMBER_MAX => (state, latest),
        _ => return Err(Cold::Damaged("it was never finished".to_owned())),
    };
    Ok(Kept {
        unix_millis_at_start: head.unix_millis_at_start,
        latest: Now::from_nanos(latest),
        clean: state == CLOSED,
        memory_max: usize::try_from(head.memory_max).unwrap_or(usize::MAX),
        hash_seed: head.hash_seed,
    })
}

impl Superblock {
    /// Makes a file of zeros a cache's.
    pub(crate) fn create(&self, head: &Head) {
        let words = head.encode();
        self.state.store(IN_USE, Ordering::Relaxed);
        // The magic number last: a file without it keeps nothing.
        for (place, word) in self.head.iter().zip(words).rev() {
            place.store(word, Ordering::Release);
        }
    }

    /// Whether the cache was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.state.load(Ordering::Acquire) == CLOSED
    }

    /// From now on the cache changes.
    pub(crate) fn open(&self) {
        self.state.store(IN_USE, Ordering::Release);
    }

    /// The cache does not change any more; `saved` is what it holds.
    pub(crate) fn close(&self, saved: &Saved) {
        let mut words = vec![saved.items, saved.bytes, saved.unread_bytes];
        words.extend(saved.sizes.iter().flat_map(|(items, bytes)| [*items, *bytes]));
        for (place, word) in self.saved.iter().zip(&words) {
            place.store(*word, Ordering::Relaxed);
        }
        self.saved_check.store(check(&words), Ordering::Relaxed);
        // Release: whoever finds it closed finds all of the above.
        self.state.store(CLOSED, Ordering::Release);
    }

    /// What was saved when it was closed; `None` if that was spoilt.
    pub(crate) fn saved(&self) -> Option<Saved> {
        let words = self.saved.each_ref().map(|word| word.load(Ordering::Relaxed));
        let sizes = words[SAVED_FIRST..].as_chunks().0.iter();
        let saved = Saved {
            items: words[0],
            bytes: words[1],
            unread_bytes: words[2],
            sizes: sizes.map(|[items, bytes]| (*items, *bytes)).collect(),
        };
        (check(&words) == self.saved_check.load(Ordering::Relaxed)).then_some(saved)
    }

    /// Whether the words can be those of a cache.
    pub(crate) fn is_sane(&self) -> bool {
        let numbers = [&self.latest_nanos, &self.cas.0];
        numbers
            .iter()
            .all(|word| word.load(Ordering::Relaxed) < NUMBER_MAX)
    }

    /// The latest moment that is known.
    pub(crate) fn latest(&self) -> Now {
        Now::from_nanos(self.latest_nanos.load(Ordering::Relaxed))
    }

    /// Time has come to `now`.
    pub(crate) fn note_time(&self, now: Now) {
        self.latest_nanos.fetch_max(now.nanos(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::{Cold, HEAD_WORDS, Head, IN_USE, Kept, judge};
    use scrubjay_base::time::Now;

    const HEAD: Head = Head {
        boot_id: [7; 16],
        hash_seed: 3,
        memory_max: 64 << 20,
        unix_millis_at_start: 5,
    };

    fn words(head: &Head) -> Vec<u64> {
        let mut words = head.encode().to_vec();
        words.extend([IN_USE, 9]);
        words
    }

    #[test]
    fn a_head_tells_what_was_put_in() {
        let expected = Kept {
            unix_millis_at_start: 5,
            latest: Now::from_nanos(9),
            clean: false,
            memory_max: 64 << 20,
            hash_seed: 3,
        };
        assert_eq!(judge(&words(&HEAD), &[7; 16]), Ok(expected));
        assert_eq!(judge(&words(&HEAD), &[8; 16]), Err(Cold::OtherBoot));
    }

    #[test]
    fn whatever_is_changed_in_a_head_is_noticed() {
        for bit in 0..HEAD_WORDS * 64 {
            let mut words = words(&HEAD);
            words[bit / 64] ^= 1 << (bit % 64);
            assert!(judge(&words, &[7; 16]).is_err(), "bit {bit}");
        }
        for len in 0..HEAD_WORDS + 2 {
            let judged = judge(&words(&HEAD)[..len], &[7; 16]);
            assert!(matches!(judged, Err(Cold::Damaged(_))), "{len} words: {judged:?}");
        }
        assert_eq!(judge(&[0; HEAD_WORDS + 2], &[7; 16]), Err(Cold::Empty));
        let mut other = words(&HEAD);
        other[1] += 1;
        assert!(matches!(judge(&other, &[7; 16]), Err(Cold::OtherLayout { .. })));
        other[0] += 1;
        assert!(matches!(judge(&other, &[7; 16]), Err(Cold::Damaged(_))));
    }
}
