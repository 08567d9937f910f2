//! Where free segments come from: dead ones first, then compaction while dead bytes exceed a bound, only then eviction.
//!
//! One thread reclaims at a time. It empties a victim segment: each item is looked up by its own address, under its
//! line's lock; what no slot names is dead already. The segment is used again when every worker has passed a quiet
//! moment and no reply sends from it any more.

use scrubjay_base::sync::whole::Ordering;
use scrubjay_base::sync::yield_now;
use std::collections::VecDeque;

use crate::api::{Cause, Refusal};
use crate::cache::Cache;
use crate::eviction::{LOGS, Place};
use crate::expiry::is_expired;
use crate::index::{Entry, KeyHash};
use crate::item::{Header, ItemRef, PIECE_HEADER, Piece, ValueShape};
use crate::line::{Heat, Location};
use crate::segment::{SegmentHeader, SegmentId, SegmentState};
use crate::worker::Turn;

/// Dead bytes in sealed segments may be this share of them (one over it) when something live is evicted. Promise P1.
const DEAD_SHARE: u64 = 16;

/// Segments that are made free ahead at most when one is opened.
const AHEAD_PER_OPEN: usize = 2;

/// Items ahead of the one being emptied whose lines of index and ledger are fetched.
const LOOK_AHEAD: usize = 16;

/// Times a worker waits for others before it concludes that no memory can be had: far more than any turn takes.
const WAITS_MAX: u32 = 200_000;

/// The right to empty segments. Whoever holds its lock is the only one.
#[derive(Debug, Default)]
pub(crate) struct Reclaimer {}

/// What is done with live items of a victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mercy {
    /// All are moved: compaction.
    All,
    /// Those that were read since they were put there are moved; the others are evicted for this cause.
    Read(Cause),
}

/// How an attempt to empty a victim went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// A segment was emptied.
    Emptied,
    /// One can be emptied when workers have passed a quiet moment.
    Wait,
    /// There is none.
    Nothing,
}

/// The segment whose bytes are worth least.
enum Least {
    /// It can be emptied.
    Sealed(SegmentId),
    /// It was open and is closed now.
    Closed,
}

/// The state of sealed segments that a choice of a victim needs.
#[derive(Debug)]
struct Survey {
    /// A segment with nothing live.
    wholly_dead: Option<SegmentId>,
    /// The sealed segment with the most dead bytes, and how many.
    most_dead: Option<(SegmentId, u32)>,
    /// The segment of each log that was sealed first, and its place in the order of sealing.
    oldest: [Option<(SegmentId, u64)>; LOGS],
    /// Bytes used in sealed segments, and the dead of them.
    used: u64,
    dead: u64,
    /// A sealed segment will be ready when workers have passed a quiet moment.
    waiting: bool,
}

impl Default for Survey {
    fn default() -> Survey {
        Survey {
            wholly_dead: None,
            most_dead: None,
            oldest: [None; LOGS],
            used: 0,
            dead: 0,
            waiting: false,
        }
    }
}

impl Cache {
    /// One attempt to make a segment free. The caller holds no item.
    ///
    /// # Errors
    /// [`Refusal::NoMemory`] when nothing can be freed: everything is pinned, or live while eviction is off.
    pub(crate) fn reclaim(&self, turn: &Turn<'_>, attempts: &mut u32) -> Result<(), Refusal> {
        self.epochs.announce(turn.member);
        let (freed, waiting) = {
            let mut state = self.pool.lock();
            let (freed, waiting) = state.free_retired(&self.heap, &self.epochs);
            if freed == 0 && waiting > 0 && *attempts == 0 {
                state.note_wait();
            }
            (freed, waiting)
        };
        if freed > 0 {
            return Ok(());
        }
        *attempts += 1;
        if *attempts > WAITS_MAX {
            return Err(Refusal::NoMemory);
        }
        if waiting > 0 {
            yield_now();
            return Ok(());
        }
        let Ok(mut reclaimer) = self.reclaimer.try_lock() else {
            yield_now();
            return Ok(());
        };
        let survey = self.survey(turn);
        match self.reclaim_one(turn, &mut reclaimer, &survey) {
            Step::Emptied => {
                self.epochs.announce(turn.member);
                self.pool.lock().free_retired(&self.heap, &self.epochs);
                Ok(())
            }
            Step::Wait => {
                yield_now();
                Ok(())
            }
            // Who had the right to empty segments before this worker may have left none to empty.
            Step::Nothing if self.pool.lock().has_or_awaits_free(&self.heap) => {
                yield_now();
                Ok(())
            }
            Step::Nothing => Err(Refusal::NoMemory),
        }
    }

    /// Empties a victim or two before memory is needed, unless somebody else is at it. The caller holds no item.
    pub(crate) fn reclaim_ahead(&self, turn: &Turn<'_>) {
        self.epochs.announce(turn.member);
        let Ok(mut reclaimer) = self.reclaimer.try_lock() else {
            return;
        };
        for _ in 0..AHEAD_PER_OPEN {
            let survey = self.survey(turn);
            if self.reclaim_one(turn, &mut reclaimer, &survey) != Step::Emptied {
                return;
            }
            let mut state = self.pool.lock();
            state.free_retired(&self.heap, &self.epochs);
            if !state.is_short() {
                return;
            }
        }
    }

    /// Empties one victim by the rule: dead, then compaction, then eviction.
    fn reclaim_one(&self, turn: &Turn<'_>, reclaimer: &mut Reclaimer, survey: &Survey) -> Step {
        if let Some(segment) = survey.wholly_dead {
            self.drain(turn, reclaimer, segment, Mercy::All);
            return Step::Emptied;
        }
        let over_bound = survey.dead * DEAD_SHARE > survey.used;
        if let Some((segment, dead)) = survey.most_dead {
            // A victim that gives back less than an item's worth would be copied for nothing.
            let enough = dead as usize * DEAD_SHARE as usize >= self.heap.segment_size();
            if enough && (over_bound || !self.config().evict) {
                self.drain(turn, reclaimer, segment, Mercy::All);
                return Step::Emptied;
            }
        }
        let waits = if survey.waiting { Step::Wait } else { Step::Nothing };
        if !self.config().evict {
            return waits;
        }
        let least = match self.least_worth(survey) {
            Some(Least::Sealed(segment)) => segment,
            Some(Least::Closed) => return Step::Wait,
            None => return waits,
        };
        let one_segment = self.heap.segment_size() as u64;
        if over_bound && survey.dead > one_segment {
            turn.tally.evictions_beyond_bound.add(1);
        }
        self.drain(turn, reclaimer, least, Mercy::Read(Cause::Evicted));
        Step::Emptied
    }

    /// Looks at all sealed segments that may be emptied.
    fn survey(&self, turn: &Turn<'_>) -> Survey {
        let mut survey = Survey::default();
        let horizon = self.epochs.horizon();
        let touched = self.pool.lock().touched();
        for segment in (0..touched).map(SegmentId) {
            let header = self.heap.header(segment);
            if header.state() != SegmentState::Sealed || header.uploads.load(Ordering::Acquire) > 0 {
                continue;
            }
            if header.retired_epoch.load(Ordering::Relaxed) > horizon {
                survey.waiting = true;
                continue;
            }
            let (used, live) = (header.used(), header.live_at(turn.tick));
            survey.used += u64::from(used);
            survey.dead += u64::from(used - live);
            if self.is_wholly_dead(segment, header, turn.tick) {
                survey.wholly_dead = Some(segment);
            }
            if survey.most_dead.is_none_or(|(_, dead)| used - live > dead) {
                survey.most_dead = Some((segment, used - live));
            }
            let order = header.sealed_order.load(Ordering::Relaxed);
            let oldest = &mut survey.oldest[header.log()];
            if oldest.is_none_or(|(_, oldest)| order < oldest) {
                *oldest = Some((segment, order));
            }
        }
        survey
    }

    /// The segment that is evicted next: of the oldest of each log, the one whose bytes are worth least. A log that has
    /// only its open segment gives that one; it is sealed here, and can be emptied when its appenders have finished.
    fn least_worth(&self, survey: &Survey) -> Option<Least> {
        let mut state = self.pool.lock();
        let (allowed, _) = state.allowed_and_used();
        let newest = state.sealed_order();
        let behind_max = self.eviction.segments_behind_max(allowed);
        let worth = |segment: SegmentId, order: u64| {
            let too_old = (newest - order) as f64 > behind_max;
            if too_old {
                f64::NEG_INFINITY
            } else {
                self.heap.header(segment).worth_per_byte()
            }
        };
        let heads = survey.oldest.iter().enumerate().filter_map(|(log, oldest)| {
            let sealed = oldest.map(|(segment, order)| (segment, worth(segment, order), None));
            sealed.or_else(|| {
                let open = self.pool.open_segment(log)?;
                let is_used = self.heap.header(open).used() > 0;
                is_used.then(|| (open, worth(open, newest), Some(log)))
            })
        });
        let (segment, _, open_in) = heads.min_by(|one, other| one.1.total_cmp(&other.1))?;
        if let Some(log) = open_in {
            if self.heap.close(segment) {
                self.pool.seal(&mut state, &self.heap, &self.epochs, log, segment);
            }
            return Some(Least::Closed);
        }
        Some(Least::Sealed(segment))
    }

    fn is_wholly_dead(&self, segment: SegmentId, header: &SegmentHeader, tick: u32) -> bool {
        header.live() == 0 || is_expired(header.max_deadline(), tick) || self.is_flushed(segment)
    }

    /// Empties up to `limit` segments in which nothing is live, or little that holds much back; returns how many.
    pub(crate) fn drain_dead(&self, turn: &Turn<'_>, reclaimer: &mut Reclaimer, limit: usize) -> usize {
        let touched = self.pool.lock().touched();
        let dead = (0..touched).map(SegmentId).filter(|&segment| {
            let header = self.heap.header(segment);
            header.state() == SegmentState::Sealed
                && header.uploads.load(Ordering::Acquire) == 0
                && (self.is_wholly_dead(segment, header, turn.tick) || is_held_back(header, turn.tick))
                && self.epochs.passed(header.retired_epoch.load(Ordering::Relaxed))
        });
        let mut drained = 0;
        for segment in dead.take(limit) {
            self.drain(turn, reclaimer, segment, Mercy::All);
            drained += 1;
        }
        drained
    }

    /// Reclaims until no more segments are used than the limit allows, or nothing more can be reclaimed now.
    pub(crate) fn lower_to_limit(&self, turn: &Turn<'_>, reclaimer: &mut Reclaimer) {
        loop {
            self.epochs.announce(turn.member);
            let over = {
                let mut state = self.pool.lock();
                state.free_retired(&self.heap, &self.epochs);
                state.over_limit()
            };
            if !over {
                return self.end_lowering();
            }
            let cause = if self.is_lowering() {
                Cause::LimitLowered
            } else {
                Cause::Evicted
            };
            let survey = self.survey(turn);
            let evicts = survey.wholly_dead.is_none() && self.config().evict;
            match evicts.then(|| self.least_worth(&survey)).flatten() {
                Some(Least::Sealed(least)) => {
                    self.drain(turn, reclaimer, least, Mercy::Read(cause));
                }
                // Its appenders finish within their turn; the next look finds it sealed.
                Some(Least::Closed) => return,
                None if self.reclaim_one(turn, reclaimer, &survey) == Step::Emptied => {}
                None => return,
            }
        }
    }

    /// Empties a sealed segment and retires it.
    fn drain(&self, turn: &Turn<'_>, _reclaimer: &mut Reclaimer, segment: SegmentId, mercy: Mercy) {
        let header = self.heap.header(segment);
        header.set_state(SegmentState::Draining);
        let live_before = u64::from(header.live());
        let mut kept = 0;
        let mut walk = self.heap.walk(segment);
        let mut ahead = VecDeque::with_capacity(LOOK_AHEAD);
        loop {
            while ahead.len() < LOOK_AHEAD
                && let Some((location, item)) = walk.next()
            {
                let hash = self.hash_of(item);
                self.index.prefetch(&self.heap, hash);
                self.ledger.prefetch(hash);
                ahead.push_back((location, item, hash));
            }
            let Some((location, item, hash)) = ahead.pop_front() else {
                break;
            };
            if item.is_piece() {
                self.drain_piece(turn, location, item, mercy, header, &mut kept);
            } else if !item.is_filler() {
                self.drain_item(turn, location, item, hash, mercy, header, &mut kept);
            }
        }
        if matches!(mercy, Mercy::Read(_)) {
            let evicted = live_before.saturating_sub(u64::from(kept));
            let capacity = self.capacity();
            let worth = header.worth_per_byte();
            self.eviction.note_evicted(worth, evicted, capacity);
            if self.eviction.ghost.fit(self.items()) {
                self.balance_budget();
            }
        }
        turn.tally.relocated_bytes.add(u64::from(kept));
        turn.tally.segments_reclaimed.add(1);
        // No slot points in any more: readers that found one before are waited for.
        header
            .retired_epoch
            .store(self.epochs.retire(), Ordering::Relaxed);
        header.set_state(SegmentState::Retired);
        self.pool.lock().retire(segment);
    }

    fn hash_of(&self, item: ItemRef<'_>) -> KeyHash {
        if item.is_piece() {
            KeyHash(item.piece_owner())
        } else {
            self.index.hash(item.key())
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one step of `drain`, which owns these")]
    fn drain_item(
        &self,
        turn: &Turn<'_>,
        location: Location,
        item: ItemRef<'_>,
        hash: KeyHash,
        mercy: Mercy,
        segment: &SegmentHeader,
        kept: &mut u32,
    ) {
        let mut locked = self.index.lock(&self.heap, hash);
        let Some(entry) = locked.find_location(location) else {
            return;
        };
        if let Some(cause) = self.death(location, item.deadline(), turn.tick) {
            locked.remove(&entry);
            drop(locked);
            self.bury(turn, &entry, cause);
            return;
        }
        let len = self.heap.aligned(item.len()) as u32;
        // A chained item is judged by its first piece, and its head goes along.
        let judged = !item.is_chained();
        if let Some(cause) = refused(mercy, &entry).filter(|_| judged) {
            locked.remove(&entry);
            drop(locked);
            self.bury_evicted(turn, &entry, cause);
            return;
        }
        drop(locked);
        let place = self.place_kept(turn, mercy, &entry, segment);
        let Some(room) = self.reserve_for_survivor(&place, item.len()) else {
            self.evict_location(turn, location, hash);
            return;
        };
        let new = room.location();
        let header = item.header();
        let copy = copy_item(room, &header, item);
        let mut locked = self.index.lock(&self.heap, hash);
        // Asked of the old place and after the room was had: a flush before that sees an old segment here, a flush after
        // it sees an old segment there.
        let entry = locked.find_location(location);
        let Some(entry) = entry.filter(|_| self.death(location, item.deadline(), turn.tick).is_none()) else {
            drop(locked);
            self.count_dead(new, item.len(), place.deadline);
            return self.bury_if_dead(turn, location, hash);
        };
        copy.take_over(item);
        self.change_expiring(new, item.len(), place.deadline, item.deadline());
        let heat = if judged {
            kept_heat(mercy, &entry)
        } else {
            entry.heat
        };
        locked.replace(&entry, new, heat);
        drop(locked);
        *kept += len;
        segment.dead.fetch_add(len, Ordering::Relaxed);
    }

    /// Counts a live item as gone for want of room, and remembers its key and how long it stayed.
    fn bury_evicted(&self, turn: &Turn<'_>, entry: &Entry<'_>, cause: Cause) {
        let idle = entry.item.header().idle_secs(turn.secs);
        self.eviction.evicted_idle_secs.store(idle, Ordering::Relaxed);
        // One more than it was read: that it will be asked for again.
        self.eviction.ghost.put(entry.hash, entry.heat.level() + 1);
        let segment = self.heap.header(self.heap.segment_of(entry.location));
        let size = entry.item.judged_len();
        self.eviction.note_stay(size, entry.heat, segment, turn.tick);
        self.bury(turn, entry, cause);
    }

    /// Where an item of a victim goes.
    fn place_kept(&self, turn: &Turn<'_>, mercy: Mercy, entry: &Entry<'_>, segment: &SegmentHeader) -> Place {
        let (size, deadline) = (entry.item.judged_len(), entry.item.deadline());
        match mercy {
            Mercy::All => self
                .eviction
                .place_survivor(size, entry.heat, deadline, turn.tick, segment),
            Mercy::Read(_) => {
                let worth = segment.worth_per_byte();
                self.eviction
                    .place_again(size, entry.heat, deadline, turn.tick, worth)
            }
        }
    }

    /// The item at `location` could not be moved: it goes.
    fn evict_location(&self, turn: &Turn<'_>, location: Location, hash: KeyHash) {
        let mut locked = self.index.lock(&self.heap, hash);
        if let Some(entry) = locked.find_location(location) {
            locked.remove(&entry);
            drop(locked);
            self.bury_evicted(turn, &entry, Cause::Evicted);
        }
    }

    fn bury_if_dead(&self, turn: &Turn<'_>, location: Location, hash: KeyHash) {
        let mut locked = self.index.lock(&self.heap, hash);
        if let Some(entry) = locked.find_location(location) {
            // It was flushed or expired between the two looks.
            let cause = self
                .death(location, entry.item.deadline(), turn.tick)
                .unwrap_or(Cause::Flushed);
            locked.remove(&entry);
            drop(locked);
            self.bury(turn, &entry, cause);
        }
    }

    /// A piece of a chained value: moved if its owner stays, else the owner goes.
    fn drain_piece(
        &self,
        turn: &Turn<'_>,
        location: Location,
        piece: ItemRef<'_>,
        mercy: Mercy,
        segment: &SegmentHeader,
        kept: &mut u32,
    ) {
        let bytes = piece.piece_bytes();
        let old = Piece {
            location,
            len: bytes.len(),
        };
        let hash = KeyHash(piece.piece_owner());
        let owns = |item: ItemRef<'_>| item.is_chained() && item.pieces().any(|piece| piece == old);
        let mut locked = self.index.lock(&self.heap, hash);
        let Some(entry) = locked.find_by(owns) else { return };
        let len = self.heap.aligned(piece.len()) as u32;
        let death = self.death(entry.location, entry.item.deadline(), turn.tick);
        if let Some(cause) = death {
            locked.remove(&entry);
            drop(locked);
            self.bury(turn, &entry, cause);
            return;
        }
        let judged = entry.item.pieces().next() == Some(old);
        if let Some(cause) = refused(mercy, &entry).filter(|_| judged) {
            locked.remove(&entry);
            drop(locked);
            return self.bury_evicted(turn, &entry, cause);
        }
        drop(locked);
        let place = self.place_kept(turn, mercy, &entry, segment);
        let Some(mut room) = self.reserve_for_survivor(&place, piece.len()) else {
            return self.evict_location(turn, entry.location, hash);
        };
        room.write_piece_header(bytes.len(), hash.0);
        room.put(PIECE_HEADER, bytes);
        let new = Piece {
            location: room.location(),
            len: bytes.len(),
        };
        let mut locked = self.index.lock(&self.heap, hash);
        // The owner itself may have moved; a copy that is still being made takes its table under this lock.
        let moved = locked.find_by(owns).is_some_and(|entry| {
            self.change_expiring(new.location, piece.len(), place.deadline, entry.item.deadline());
            if judged {
                locked.replace(&entry, entry.location, kept_heat(mercy, &entry));
            }
            locked.change_in_place(|| entry.item.replace_piece(old, new))
        });
        drop(locked);
        if moved {
            *kept += len;
            segment.dead.fetch_add(len, Ordering::Relaxed);
        } else {
            self.count_dead(new.location, piece.len(), place.deadline);
        }
    }
}

/// Whether most of a segment has expired and the rest lives on for so long that it had better move: items of unlike lives
/// came together when too many logs were open. Where lives are alike, the rest follows soon.
pub(crate) fn is_held_back(header: &SegmentHeader, tick: u32) -> bool {
    let age = tick.saturating_sub(header.opened_tick());
    header.max_deadline().saturating_sub(tick) > age / 2 && header.expired(tick) > header.used() / 2
}

/// Why a live item has to go, if `mercy` says so.
fn refused(mercy: Mercy, entry: &Entry<'_>) -> Option<Cause> {
    match mercy {
        Mercy::All => None,
        Mercy::Read(cause) => (!entry.heat.hit).then_some(cause),
    }
}

/// The heat of an item in its new place: what eviction keeps has to be read again to be kept again.
fn kept_heat(mercy: Mercy, entry: &Entry<'_>) -> Heat {
    match mercy {
        Mercy::All => entry.heat,
        Mercy::Read(_) => entry.heat.cooled(),
    }
}

/// Writes a copy of `item` with another header.
pub(crate) fn copy_item<'a>(room: crate::item::Room<'a>, header: &Header, item: ItemRef<'_>) -> ItemRef<'a> {
    if item.is_chained() {
        let pieces: Vec<Piece> = item.pieces().collect();
        room.write_chained(header, item.key(), item.value_len(), &pieces)
    } else {
        room.write(header, item.key(), &[item.inline_value()])
    }
}

/// The shape of `item`'s value.
pub(crate) fn value_shape(item: ItemRef<'_>) -> ValueShape {
    if item.is_chained() {
        ValueShape::Chained {
            len: item.value_len(),
            pieces: item.pieces().count(),
        }
    } else {
        ValueShape::Inline(item.value_len())
    }
}
