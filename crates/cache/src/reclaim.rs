//! Where free segments come from: dead ones first, then compaction while dead bytes exceed a bound, only then eviction.
//!
//! One thread reclaims at a time. It empties a victim segment (`drain.rs`), which is used again when every worker has passed
//! a quiet moment and no reply sends from it any more.

use scrubjay_base::sync::whole::Ordering;
use scrubjay_base::sync::yield_now;
use scrubjay_io::thread;

use crate::api::{Cause, Refusal};
use crate::cache::Cache;
use crate::drain::Mercy;
use crate::eviction::LOGS;
use crate::expiry::is_expired;
use crate::segment::{SegmentHeader, SegmentId, SegmentState};
use crate::worker::Turn;

/// Dead bytes in sealed segments may be this share of them (one over it) when something live is evicted. Promise P1.
const DEAD_SHARE: u64 = 16;

/// Segments that are made free ahead at most when one is opened.
const AHEAD_PER_OPEN: usize = 2;

/// Times in a row that a worker only yields to others before it rests in between.
const YIELDS: u32 = 1_000;

/// Times a worker waits for others before it concludes that no memory can be had: seconds, as one that is in the middle of a
/// turn may be without a processor for long where many threads want one.
const WAITS_MAX: u32 = YIELDS + 20_000;

/// Bytes that eviction may move for each byte stored. Beyond that it keeps only what was read twice.
const COPIES_PER_STORED: f64 = 1.15;

/// So much of the capacity (one over it) may be moved in a burst after a calm.
const COPIES_BURST: u64 = 4;

/// The right to empty segments. Whoever holds its lock is the only one.
#[derive(Debug, Default)]
pub(crate) struct Reclaimer {
    /// Bytes ever stored when `copies` was last raised.
    stored: u64,
    /// Bytes that eviction may still move.
    copies: f64,
    /// The segment that [`Cache::recycle`] looks at next, modulo their number.
    next_look: u32,
}

impl Reclaimer {
    /// Whether eviction has moved as much as it may, where so many bytes were ever stored in so many.
    pub(crate) fn has_moved_enough(&mut self, stored: u64, capacity: u64) -> bool {
        let more = COPIES_PER_STORED * (stored - self.stored) as f64;
        self.stored = stored;
        self.copies = (self.copies + more).min((capacity / COPIES_BURST) as f64);
        self.copies < 0.0
    }

    pub(crate) fn note_moved(&mut self, bytes: u64) {
        self.copies -= bytes as f64;
    }

    /// Where the next so many looks begin.
    pub(crate) fn next_look(&mut self, looks: u32) -> u32 {
        let from = self.next_look;
        // Far from where numbers end, as they are taken modulo another.
        self.next_look = (from + looks) % (1 << 30);
        from
    }
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
    /// The sealed segment that compaction gains most by, and how much that is.
    gainful: Option<(SegmentId, f64)>,
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
            gainful: None,
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
            wait_for_others(*attempts);
            return Ok(());
        }
        let Ok(mut reclaimer) = self.reclaimer.try_lock() else {
            wait_for_others(*attempts);
            return Ok(());
        };
        let survey = self.survey(turn);
        match self.reclaim_one(turn, &mut reclaimer, &survey) {
            Step::Emptied => {
                self.epochs.announce(turn.member);
                let mut state = self.pool.lock();
                if let (0, 1..) = state.free_retired(&self.heap, &self.epochs) {
                    state.note_wait();
                }
                Ok(())
            }
            Step::Wait => {
                wait_for_others(*attempts);
                Ok(())
            }
            // Who had the right to empty segments before this worker may have left none to empty.
            Step::Nothing if self.pool.lock().has_or_awaits_free(&self.heap) => {
                wait_for_others(*attempts);
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
        if let Some((segment, _)) = survey.gainful
            && (over_bound || !self.config().evict)
        {
            self.drain(turn, reclaimer, segment, Mercy::All);
            return Step::Emptied;
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
        let (touched, newest) = {
            let state = self.pool.lock();
            (state.touched(), state.sealed_order())
        };
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
            let order = header.sealed_order.load(Ordering::Relaxed);
            // A victim that gives back less than a share of a segment would be copied for nothing.
            if u64::from(used - live) * DEAD_SHARE >= self.heap.segment_size() as u64 {
                let gain = gain(used, live, newest.saturating_sub(order));
                if survey.gainful.is_none_or(|(_, most)| gain > most) {
                    survey.gainful = Some((segment, gain));
                }
            }
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
            let sealed = oldest.map(|(segment, order)| (segment, worth(segment, order), false));
            sealed.or_else(|| {
                let open = self.pool.open_segment(log)?;
                let is_used = self.heap.header(open).used() > 0;
                is_used.then(|| (open, worth(open, newest), true))
            })
        });
        let (segment, _, is_open) = heads.min_by(|one, other| one.1.total_cmp(&other.1))?;
        if is_open {
            // Where another closed it and has not come to seal it, that is done here.
            self.heap.close(segment);
            self.pool.seal(&mut state, &self.heap, &self.epochs, segment);
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
        let mut dead = dead.take(limit).peekable();
        let mut drained = 0;
        while let Some(segment) = dead.next() {
            // It waits for nothing then but for what it comes to later.
            if let Some(&next) = dead.peek() {
                self.heap.prefetch_expired(next);
            }
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
}

/// Lets other threads run, for the `round`th time in a row.
fn wait_for_others(round: u32) {
    // A model checker has no clock, and runs all others while one yields.
    if round < YIELDS || cfg!(any(loom, shuttle)) {
        yield_now();
    } else {
        thread::rest();
    }
}

/// What compaction gains by a segment: the dead bytes, for what it costs to read all and write what lives, and the longer the
/// less has died lately. Source: Rosenblum and Ousterhout, "The Design and Implementation of a Log-Structured File System"
/// (1992). With the most dead bytes alone, segments were emptied that would have been wholly dead soon.
fn gain(used: u32, live: u32, sealed_since: u64) -> f64 {
    f64::from(used - live) / f64::from(used + live) * (sealed_since + 1) as f64
}

/// Whether most of a segment has expired and the rest lives on for so long that it had better move: items of unlike lives
/// came together when too many logs were open. Where lives are alike, the rest follows soon.
pub(crate) fn is_held_back(header: &SegmentHeader, tick: u32) -> bool {
    let age = tick.saturating_sub(header.opened_tick());
    header.max_deadline().saturating_sub(tick) > age / 2 && header.expired(tick) > header.used() / 2
}
