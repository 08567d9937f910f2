//! Large values: received piece by piece, kept in pieces.
//!
//! Memory is taken as bytes arrive, never by declared length: a piece is at most as long as what has already come (and
//! at least 64 KiB), so a peer pays for what it holds. Unfinished uploads together hold at most a quarter of the memory;
//! beyond that the one longest without progress is cut off.

use std::sync::Arc;

use scrubjay_base::sync::whole::{AtomicU64, Mutex, MutexGuard, Ordering};
use scrubjay_base::time::Now;

use crate::api::Refusal;
use crate::cache::Cache;
use crate::eviction::Place;
use crate::index::KeyHash;
use crate::item::{INLINE_VALUE_MAX, PIECE_HEADER, Piece, Room};
use crate::line::Heat;
use crate::segment::{Append, SEGMENT_START, with_listing};
use crate::worker::{Member, Turn, Worker};

/// Items shorter than this are never cut, and ends of segments shorter than that are not filled by cutting.
const CUT_ITEM_MIN: usize = 512;
const CUT_TAIL_MIN: usize = PIECE_HEADER + PIECE_MIN;

/// A value up to this share of a segment (one over it) lies behind its key; a longer one is cut into pieces.
const INLINE_SHARE: usize = 8;

/// Least bytes of value in a piece, unless the value ends.
pub(crate) const PIECE_MIN: usize = 112;

/// A piece may be this long before anything came.
const FIRST_PIECE_MAX: usize = 64 << 10;

/// Unfinished uploads may hold this share of the memory (one over it).
const UPLOAD_SHARE: u64 = 4;

/// All unfinished uploads.
#[derive(Debug, Default)]
pub(crate) struct Uploads {
    bytes: AtomicU64,
    unfinished: Mutex<Vec<Arc<Mutex<Progress>>>>,
}

/// An unfinished upload, as its owner and whoever must cut it off see it.
#[derive(Debug)]
struct Progress {
    /// Bytes that came first, while they are few.
    buffer: Vec<u8>,
    pieces: Option<PieceList>,
    /// The last piece, not full yet, and how much of it is.
    room: Option<(Room<'static>, usize)>,
    last_bytes_at: Now,
    /// Bytes charged to the account of uploads.
    charged: u64,
    cut: bool,
}

impl Uploads {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Mutex<Progress>>>> {
        self.unfinished.lock().expect("nothing panics under this lock")
    }

    /// Charges `len` bytes to `own`, cutting others off that made no progress for longer.
    fn charge(&self, own: &Arc<Mutex<Progress>>, len: usize, memory_max: u64) -> Result<(), Refusal> {
        loop {
            let wanted = self.bytes.fetch_add(len as u64, Ordering::Relaxed) + len as u64;
            if wanted <= memory_max / UPLOAD_SHARE {
                lock(own).charged += len as u64;
                return Ok(());
            }
            self.bytes.fetch_sub(len as u64, Ordering::Relaxed);
            let longest = self
                .lock()
                .iter()
                .min_by_key(|progress| lock(progress).last_bytes_at)
                .cloned();
            match longest {
                Some(victim) if !Arc::ptr_eq(&victim, own) => self.cut(&victim),
                _ => return Err(Refusal::NoMemory),
            }
        }
    }

    /// Takes everything from an upload; its owner notices at the next bytes.
    fn cut(&self, progress: &Arc<Mutex<Progress>>) {
        {
            let mut progress = lock(progress);
            progress.cut = true;
            progress.pieces = None;
            progress.room = None;
            progress.buffer = Vec::new();
            self.bytes
                .fetch_sub(std::mem::take(&mut progress.charged), Ordering::Relaxed);
        }
        self.lock().retain(|other| !Arc::ptr_eq(other, progress));
    }
}

fn lock(progress: &Arc<Mutex<Progress>>) -> MutexGuard<'_, Progress> {
    progress.lock().expect("nothing panics under this lock")
}

/// Longest value that lies behind its key.
pub(crate) fn inline_value_max(segment_size: usize) -> usize {
    (segment_size / INLINE_SHARE).min(INLINE_VALUE_MAX)
}

/// Whether an item of `len` bytes that does not fit into the `left` bytes at the end of a segment is cut, so that they are
/// used: a cut costs about 60 bytes.
pub(crate) fn is_cut(len: usize, left: usize) -> bool {
    len >= CUT_ITEM_MIN && left >= CUT_TAIL_MIN && left < len
}

/// Most bytes of value in a piece.
pub(crate) fn piece_len_max(segment_size: usize) -> usize {
    segment_size - SEGMENT_START as usize - PIECE_HEADER
}

impl Cache {
    /// Whether an item of `len` bytes in `log` is cut to fill the end of the open segment. A guess: others append too.
    pub(crate) fn cuts(&self, log: usize, len: usize) -> bool {
        self.pool.open_segment(log).is_some_and(|segment| {
            let left = self.heap.left(segment);
            is_cut(with_listing(self.heap.aligned(len)), left)
        })
    }

    pub(crate) fn inline_value_max(&self) -> usize {
        inline_value_max(self.heap.segment_size())
    }

    /// Room for a piece of up to `len` bytes of value: what is left in the log's open segment, or a fresh one's.
    fn reserve_piece(
        &self,
        turn: &Turn<'_>,
        len: usize,
        place: &Place,
    ) -> Result<(Room<'_>, usize), Refusal> {
        let len = len.min(piece_len_max(self.heap.segment_size()));
        let least = PIECE_HEADER + len.min(PIECE_MIN);
        let mut log = place.log;
        loop {
            let full = match self.pool.open_segment(log) {
                None => None,
                Some(segment) => match self.heap.append_up_to(segment, least, PIECE_HEADER + len) {
                    Append::Room(room) => {
                        let header = self.heap.header(segment);
                        header.raise_deadline(place.deadline);
                        header.note_expiring(place.deadline, room.len() as i32);
                        place.credit(header, room.len());
                        let len = len.min(room.len() - PIECE_HEADER);
                        return Ok((room, len));
                    }
                    Append::Closed | Append::Full => Some(segment),
                },
            };
            log = self.open_another(turn, log, full)?;
        }
    }
}

/// The pieces of a value whose item is not published yet. Their segments are not emptied while it lives; dropped, it
/// marks them dead.
#[derive(Debug)]
pub(crate) struct PieceList {
    member: Arc<Member>,
    pieces: Vec<Piece>,
    value_len: usize,
    /// Deadline for which the pieces were put where they lie.
    deadline: u32,
    published: bool,
}

impl PieceList {
    fn new(member: &Arc<Member>, deadline: u32) -> PieceList {
        PieceList {
            member: Arc::clone(member),
            pieces: Vec::new(),
            value_len: 0,
            deadline,
            published: false,
        }
    }

    /// Copies the concatenation of `parts`.
    pub(crate) fn copy_of(
        member: &Arc<Member>,
        turn: &Turn<'_>,
        parts: &[&[u8]],
        place: &Place,
    ) -> Result<PieceList, Refusal> {
        let mut list = PieceList::new(member, place.deadline);
        let mut left = parts.iter().map(|part| part.len()).sum::<usize>();
        let mut parts = parts.iter().copied();
        let mut part: &[u8] = &[];
        while left > 0 {
            let (mut room, len) = member.cache().reserve_piece(turn, left, place)?;
            list.add(&mut room, len);
            let mut filled = 0;
            while filled < len {
                if part.is_empty() {
                    part = parts.next().expect("parts hold `left` more bytes");
                    continue;
                }
                let (now, later) = part.split_at(part.len().min(len - filled));
                room.put(PIECE_HEADER + filled, now);
                filled += now.len();
                part = later;
            }
            left -= len;
        }
        Ok(list)
    }

    /// Adds the piece in `room`, whose bytes the caller writes.
    fn add(&mut self, room: &mut Room<'_>, len: usize) {
        room.write_piece_header(len, 0);
        let piece = Piece {
            location: room.location(),
            len,
        };
        let heap = &self.member.cache().heap;
        heap.header(heap.segment_of(piece.location))
            .uploads
            .fetch_add(1, Ordering::Relaxed);
        self.pieces.push(piece);
        self.value_len += len;
    }

    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    pub(crate) fn value_len(&self) -> usize {
        self.value_len
    }

    pub(crate) fn slices(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces
            .iter()
            .map(|piece| self.member.cache().heap.item(piece.location).piece_bytes())
    }

    /// Says whose pieces they are, before the item is published.
    pub(crate) fn belong_to(&mut self, hash: KeyHash, deadline: u32) {
        let cache = self.member.cache();
        for piece in &self.pieces {
            cache.heap.item(piece.location).set_piece_owner(hash.0);
            cache.change_expiring(piece.location, PIECE_HEADER + piece.len, self.deadline, deadline);
        }
        self.deadline = deadline;
    }

    /// The item that names the pieces is published.
    pub(crate) fn keep(mut self) {
        self.published = true;
    }
}

impl Drop for PieceList {
    fn drop(&mut self) {
        let cache = self.member.cache();
        for piece in &self.pieces {
            if !self.published {
                cache.count_dead(piece.location, PIECE_HEADER + piece.len, self.deadline);
            }
            let segment = cache.heap.segment_of(piece.location);
            // Release: the pieces' bytes and owner are written before the segment may be emptied.
            cache.heap.header(segment).uploads.fetch_sub(1, Ordering::Release);
        }
    }
}

/// A value on its way in, longer than what is at hand at once. Dropped unfinished, it leaves no trace.
#[derive(Debug)]
pub struct Upload {
    member: Arc<Member>,
    progress: Arc<Mutex<Progress>>,
    value_len: usize,
    received: usize,
    deadline: u32,
}

impl Upload {
    pub(crate) fn new(member: &Arc<Member>, value_len: usize, deadline: u32, now: Now) -> Upload {
        let progress = Arc::new(Mutex::new(Progress {
            buffer: Vec::new(),
            pieces: None,
            room: None,
            last_bytes_at: now,
            charged: 0,
            cut: false,
        }));
        member.cache().uploads.lock().push(Arc::clone(&progress));
        Upload {
            member: Arc::clone(member),
            progress,
            value_len,
            received: 0,
            deadline,
        }
    }

    /// Length of the whole value.
    pub fn value_len(&self) -> usize {
        self.value_len
    }

    /// Bytes still to come.
    pub fn missing(&self) -> usize {
        self.value_len - self.received
    }

    /// A copy of what has come so far; `None` if this upload was cut off.
    pub fn received(&self) -> Option<Vec<u8>> {
        let progress = lock(&self.progress);
        if progress.cut {
            return None;
        }
        let mut bytes = progress.buffer.clone();
        bytes.reserve_exact(self.received - bytes.len());
        for piece in progress.pieces.iter().flat_map(PieceList::slices) {
            // The last one is not full.
            let left = self.received - bytes.len();
            bytes.extend_from_slice(&piece[..piece.len().min(left)]);
        }
        Some(bytes)
    }

    /// Adds the next bytes of the value.
    ///
    /// # Errors
    /// [`Refusal::NoMemory`] when no memory can be had for them or this upload was cut off; drop it then.
    ///
    /// # Panics
    /// If there are more bytes than are missing.
    pub fn write(&mut self, worker: &mut Worker, bytes: &[u8]) -> Result<(), Refusal> {
        assert!(
            bytes.len() <= self.missing(),
            "{} bytes, {} missing",
            bytes.len(),
            self.missing()
        );
        lock(&self.progress).last_bytes_at = worker.now;
        if self.value_len <= self.member.cache().inline_value_max() {
            self.write_buffer(bytes)?;
            self.received += bytes.len();
            return Ok(());
        }
        let mut bytes = bytes;
        while !bytes.is_empty() {
            let mut progress = lock(&self.progress);
            if progress.cut {
                return Err(Refusal::NoMemory);
            }
            if let Some((room, filled)) = &mut progress.room {
                let (now, later) = bytes.split_at(bytes.len().min(room.len_of_piece() - *filled));
                room.put(PIECE_HEADER + *filled, now);
                *filled += now.len();
                self.received += now.len();
                bytes = later;
                if *filled == room.len_of_piece() {
                    progress.room = None;
                }
                continue;
            }
            drop(progress);
            self.next_piece(&worker.turn())?;
        }
        Ok(())
    }

    fn write_buffer(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        let cache = self.member.cache();
        cache
            .uploads
            .charge(&self.progress, bytes.len(), cache.memory_max())?;
        let mut progress = lock(&self.progress);
        if progress.cut {
            return Err(Refusal::NoMemory);
        }
        progress.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn next_piece(&self, turn: &Turn<'_>) -> Result<(), Refusal> {
        let cache = self.member.cache();
        let len = self.missing().min(self.received.max(FIRST_PIECE_MAX));
        cache.uploads.charge(&self.progress, len, cache.memory_max())?;
        let place = cache
            .eviction
            .place(self.value_len, Heat::default(), self.deadline, turn.tick);
        let (mut room, got) = cache.reserve_piece(turn, len, &place)?;
        let mut progress = lock(&self.progress);
        if progress.cut {
            let len = room.len();
            let location = room.location();
            room.fill();
            cache.count_dead(location, len, self.deadline);
            return Err(Refusal::NoMemory);
        }
        progress
            .pieces
            .get_or_insert_with(|| PieceList::new(&self.member, self.deadline))
            .add(&mut room, got);
        room.shorten_to_piece(got);
        // SAFETY: the piece list keeps the segment; the room is taken from under this lock only.
        let room = unsafe { room.detach() };
        progress.room = Some((room, 0));
        // What was charged but not had.
        progress.charged -= (len - got) as u64;
        cache
            .uploads
            .bytes
            .fetch_sub((len - got) as u64, Ordering::Relaxed);
        Ok(())
    }

    /// The complete value: its bytes if they are to lie behind the key, else its pieces.
    pub(crate) fn finish(self) -> Result<Result<Vec<u8>, PieceList>, Refusal> {
        let mut progress = lock(&self.progress);
        if progress.cut {
            return Err(Refusal::NoMemory);
        }
        Ok(match progress.pieces.take() {
            Some(pieces) => Err(pieces),
            None => Ok(std::mem::take(&mut progress.buffer)),
        })
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.member.cache().uploads.cut(&self.progress);
    }
}
