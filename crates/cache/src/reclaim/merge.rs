//! Segcache's eviction by merging, to compare with.
//!
//! Source: Yang et al., "Segcache: a memory-efficient and scalable in-memory key-value cache for small objects" (NSDI 2021)
//! and its code in Pelikan. Items lie by TTL bucket only, in the order in which they came. To make room, four
//! neighbouring segments of a bucket become one in their place: what has the most reads per byte since the last merge
//! stays, with its reads forgotten; what has none goes. The next merge takes the neighbours behind; at the end of a bucket
//! the next bucket's turn comes. Segcache finds the bound between what stays and what goes while it copies; here it
//! is found by a walk before.

use super::{Least, Mercy, Reclaimer, Survey};
use crate::api::Cause;
use crate::cache::Cache;
use crate::eviction::{LOG_MERGED, LOGS};
use crate::index::{Entry, KeyHash};
use crate::item::Piece;
use crate::segment::{SegmentId, SegmentState};
use crate::worker::Turn;

/// Segments that become one.
const MERGED: usize = 4;

/// Fewer are merged only if no bucket has so many.
const MERGED_MIN: usize = 3;

/// Where merging stands.
#[derive(Debug, Default)]
pub(super) struct Progress {
    log: usize,
    /// In that log the segments up to this place in the order have been merged.
    merged_to: u64,
}

/// Reads per byte.
pub(super) fn density(entry: &Entry<'_>) -> f32 {
    f32::from(entry.heat.reads()) / entry.item.judged_len().max(1) as f32
}

impl Cache {
    /// Any sealed segment, or an open one that is closed.
    pub(super) fn any_sealed(&self, survey: &Survey) -> Option<Least> {
        if let Some((.., segment)) = survey.sealed.first() {
            return Some(Least::Sealed(*segment));
        }
        let mut state = self.pool.lock();
        let is_used = |segment: SegmentId| self.heap.header(segment).used() > 0;
        let closed = self.pool.seal_open(&mut state, &self.heap, &self.epochs, is_used);
        (closed > 0).then_some(Least::Closed)
    }

    /// Merges the segments whose turn it is.
    pub(super) fn merge(&self, turn: &Turn<'_>, reclaimer: &mut Reclaimer, survey: &Survey, cause: Cause) {
        let chain = reclaimer.merging.next(survey);
        let Some(&(log, order, _)) = chain.last() else {
            return;
        };
        let cutoff = self.cutoff(turn, &chain);
        for (.., segment) in &chain {
            self.drain(turn, reclaimer, *segment, Mercy::Denser(cause, cutoff));
        }
        // What came of them takes their place.
        let mut state = self.pool.lock();
        if let Some(open) = self.pool.open_segment(LOG_MERGED) {
            self.heap.close(open);
            self.pool
                .seal(&mut state, &self.heap, &self.epochs, LOG_MERGED, open);
        }
        for header in (0..state.touched()).map(|segment| self.heap.header(SegmentId(segment))) {
            if header.state() == SegmentState::Sealed && header.log() == LOG_MERGED {
                header.set_log(log);
                header
                    .sealed_order
                    .store(order, std::sync::atomic::Ordering::Relaxed);
            }
        }
        reclaimer.merging.merged_to = order;
    }

    /// The density above which items of these segments make one segment.
    fn cutoff(&self, turn: &Turn<'_>, chain: &[(usize, u64, SegmentId)]) -> f32 {
        let mut densities = Vec::new();
        for (.., segment) in chain {
            for (location, item) in self.heap.walk(*segment) {
                if item.is_filler() {
                    continue;
                }
                let hash = self.hash_of(item);
                let locked = self.index.lock(&self.heap, hash);
                let entry = if item.is_piece() {
                    let piece = Piece {
                        location,
                        len: item.piece_bytes().len(),
                    };
                    let hash = KeyHash(item.piece_owner());
                    debug_assert_eq!(hash, self.hash_of(item));
                    locked.find_by(|owner| owner.is_chained() && owner.pieces().any(|one| one == piece))
                } else {
                    locked.find_location(location)
                };
                let alive = entry.filter(|entry| {
                    self.death(entry.location, entry.item.deadline(), turn.tick)
                        .is_none()
                });
                if let Some(entry) = alive.filter(|entry| entry.heat.reads() > 0) {
                    densities.push((density(&entry), self.heap.aligned(item.len())));
                }
            }
        }
        densities.sort_unstable_by(|one, other| other.0.total_cmp(&one.0));
        let mut room = self.heap.segment_size();
        let beyond = densities.iter().find(|(_, len)| {
            let fits = *len < room;
            room -= if fits { *len } else { 0 };
            !fits
        });
        beyond.map_or(0.0, |(density, _)| *density)
    }
}

impl Progress {
    /// The neighbours that are merged next, in order.
    fn next(&mut self, survey: &Survey) -> Vec<(usize, u64, SegmentId)> {
        let chain = |log: usize, after: u64| {
            let chain = survey.sealed.iter().filter(|one| one.0 == log && one.1 > after);
            let mut chain: Vec<_> = chain.copied().collect();
            chain.sort_unstable_by_key(|one| one.1);
            chain.truncate(MERGED);
            chain
        };
        for step in 0..=LOGS {
            let log = (self.log + step) % LOGS;
            let chain = chain(log, if step == 0 { self.merged_to } else { 0 });
            if chain.len() >= MERGED_MIN {
                self.log = log;
                return chain;
            }
        }
        let longest = (0..LOGS).map(|log| chain(log, 0)).max_by_key(Vec::len);
        longest.unwrap_or_default()
    }
}
