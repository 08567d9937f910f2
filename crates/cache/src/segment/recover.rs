//! A segment after a restart, before anybody else looks at it.

use scrubjay_base::sync::whole::Ordering;

use super::{Heap, LISTING_LEN, SEGMENT_START, SegmentHeader, SegmentId, SegmentState, Starts, Taken};
use crate::eviction::LOGS;
use crate::item::Room;

impl SegmentHeader {
    /// Nobody uses the segment any more who did before a restart; returns its state, which is free if no slot points in, or
    /// `None` if the header cannot be.
    pub(crate) fn resume(&self, heap: &Heap) -> Option<SegmentState> {
        self.pins.store(0, Ordering::Relaxed);
        self.uploads.store(0, Ordering::Relaxed);
        self.retired_epoch.store(0, Ordering::Relaxed);
        let state = self.state();
        match state {
            SegmentState::Free | SegmentState::Retired => {
                self.set_state(SegmentState::Free);
                return Some(SegmentState::Free);
            }
            // It would have been retired by whoever emptied it.
            SegmentState::Draining => return None,
            SegmentState::Open | SegmentState::Sealed => {}
        }
        let (end, offset) = (self.end.load(Ordering::Relaxed), self.forget_listings());
        let reached = if state == SegmentState::Open { offset } else { end };
        let size = heap.segment_size() as u32;
        let can_be = (SEGMENT_START..=size).contains(&reached) && self.log() < LOGS;
        let ordered = heap.part_starts(self).chain([reached]).is_sorted();
        (can_be && ordered).then_some(state)
    }

    /// Nothing is listed any more: what another process wrote is not believed. Returns where the next item would begin. Who was
    /// closing the segment, and has not said where it ends, has not closed it.
    fn forget_listings(&self) -> u32 {
        let taken = self.taken();
        let listings = (taken.listed() * LISTING_LEN) as u64;
        let items = (taken.bytes() & !Taken::CLOSED).saturating_sub(listings);
        let closed = if self.is_closed() {
            taken.bytes() & Taken::CLOSED
        } else {
            0
        };
        self.taken.store(closed | items, Ordering::Relaxed);
        u32::try_from(items).unwrap_or(u32::MAX)
    }

    /// Settles what its users left half done. Returns where its items end at the latest, or `None` if it holds none. What is
    /// known of single items is forgotten: they are counted anew.
    pub(crate) fn settle(&self, size: u32, tick: u32) -> Option<u32> {
        let state = self.state();
        let is_new = self.incarnation.load(Ordering::Relaxed) == 0;
        if is_new || matches!(state, SegmentState::Free | SegmentState::Retired) {
            self.set_state(SegmentState::Free);
            return None;
        }
        if !self.inflation().is_finite() {
            self.inflation.store(0, Ordering::Relaxed);
        }
        let opened = self.opened_tick().min(tick);
        self.opened_tick.store(opened, Ordering::Relaxed);
        self.bins.store(0, Ordering::Relaxed);
        self.expiring
            .iter()
            .for_each(|bin| bin.store(0, Ordering::Relaxed));
        self.max_deadline.store(0, Ordering::Relaxed);
        let (end, offset) = (self.end.load(Ordering::Relaxed), self.forget_listings());
        let whole = SEGMENT_START..=size;
        let has_log = self.log() < LOGS;
        if state == SegmentState::Open && end == 0 && whole.contains(&offset) && has_log {
            return Some(offset);
        }
        if !has_log {
            self.set_log(0);
        }
        // It was closed, sealed or being emptied. If nobody came to say where it ends, the rest becomes room given up.
        let limit = if whole.contains(&end) { end } else { size };
        self.seal_at(limit);
        Some(limit)
    }

    /// Takes no more items.
    pub(crate) fn seal_at(&self, limit: u32) {
        self.end.store(limit, Ordering::Relaxed);
        self.taken.store(Taken::CLOSED, Ordering::Relaxed);
        self.set_state(SegmentState::Sealed);
    }

    /// Nothing in it is of use.
    pub(crate) fn give_up(&self) {
        self.set_state(SegmentState::Free);
    }

    /// So many of its bytes are live; `false` if it does not have so many.
    pub(crate) fn set_live(&self, live: u64) -> bool {
        let dead = u64::from(self.used()).checked_sub(live);
        if let Some(dead) = dead {
            self.dead.store(dead as u32, Ordering::Relaxed);
        }
        dead.is_some()
    }

    pub(crate) fn set_starts(&self, starts: &Starts) {
        for (start, found) in self.part_starts.iter().zip(starts.0) {
            start.store(found, Ordering::Relaxed);
        }
    }
}

impl Heap {
    /// Makes `start..end` of a segment, where no item lies that a slot names, room that was given up; `false` if that cannot
    /// be: no room is so small or so odd.
    pub(crate) fn fill_gap(&self, segment: SegmentId, start: u32, end: u32, starts: &mut Starts) -> bool {
        let len = end.saturating_sub(start) as usize;
        if len == 0 {
            return start == end;
        }
        if len < crate::item::LEAST || self.aligned(len) != len || end as usize > self.segment_size() {
            return false;
        }
        starts.note(self, start, end);
        // SAFETY: inside the segment by the comparison above, aligned as all that is put there. No slot names what lies
        // there, and nobody else uses the heap yet.
        unsafe {
            let offset = ((segment.0 as usize) << self.segment_shift) + start as usize;
            Room::new(self.base.add(offset), len, self.location(segment, start)).fill();
        }
        true
    }
}
