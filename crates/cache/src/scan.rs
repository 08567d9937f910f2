//! Listing everything that a cache holds, a few lines of the index at a time, while others go on reading and writing.
//!
//! A scan has no state in the cache: it is a cursor that whoever scans keeps. Each step locks one line of the index after the
//! other, each for as long as it takes to look at its ten slots; readers do not notice. Every item belongs to one place of an
//! order that no resize changes (`index/order.rs`), and under the line's lock it is either there or not. Hence what is in the
//! cache from the first step to the last is listed exactly once; what comes, goes or is replaced meanwhile once at most.
//! Where it lies does not matter, so reclamation may move it.
//!
//! What is dead is left out. Nothing is counted as read.

use crate::cache::Cache;
use crate::expiry::{TICKS_PER_SEC, ttl_secs};
use crate::index::order::{FETCHED_TOGETHER, PLACE_BITS, Place};
use crate::item::{Header, ItemRef, NEVER};
use crate::sizes::class_of;
use crate::worker::Worker;

/// Items of a line and what lies of it in all overflow lines, if luck is bad; a batch of lines has fewer as a rule.
const ITEMS_EXPECTED: usize = 256;

/// How far a scan has come. It may be kept and gone on with at any later time, by any worker of the same cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanCursor {
    place: Place,
}

/// An item that a scan came to.
#[derive(Clone, Copy, Debug)]
pub struct Scanned<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The key was given as base64.
    pub key_is_binary: bool,
    /// Client flags.
    pub flags: u32,
    /// CAS number, 0 without one.
    pub cas: u64,
    /// Seconds left to live, rounded up; `None` never expires.
    pub ttl: Option<u32>,
    /// When it expires, in Unix seconds; `None` never expires.
    pub expires_at: Option<u64>,
    /// Seconds since the last access, modulo 12 days.
    pub idle_secs: u32,
    /// Read since it was stored.
    pub fetched: bool,
    /// Bytes that it takes, as in [`Usage`](crate::Usage).
    pub bytes: u64,
    /// Bytes of the value.
    pub value_len: usize,
    /// The number of its size class, from 0.
    pub class: usize,
}

impl ScanCursor {
    /// Share of the cache that is behind it, 0 to 1.
    pub fn progress(self) -> f64 {
        self.place.number() as f64 / Place::END.number() as f64
    }
}

impl Cache {
    /// Where a scan begins.
    pub fn scan_start(&self) -> ScanCursor {
        ScanCursor { place: Place::START }
    }

    /// A number to name `cursor` by; 0 is the start of any cache.
    pub fn number_of(&self, cursor: ScanCursor) -> u64 {
        let number = cursor.place.number();
        if number == 0 {
            return 0;
        }
        self.cursor_check() | number
    }

    /// The cursor of this number; `None` if the number is of another cache, or of none.
    pub fn cursor_of(&self, number: u64) -> Option<ScanCursor> {
        if number == 0 {
            return Some(self.scan_start());
        }
        let (check, place) = (
            number >> PLACE_BITS << PLACE_BITS,
            number << (64 - PLACE_BITS) >> (64 - PLACE_BITS),
        );
        let place = Place::numbered(place)?;
        (check == self.cursor_check()).then_some(ScanCursor { place })
    }

    /// Each cache has an order of its own: what another's cursor has passed is something else.
    fn cursor_check(&self) -> u64 {
        self.index.order_check() >> PLACE_BITS << PLACE_BITS
    }
}

impl Worker {
    /// Runs `each` on the live items of about `lines` lines of the index from `cursor` on, a few items each, and returns the
    /// cursor to go on with; `None` at the end.
    pub fn scan(
        &mut self,
        cursor: ScanCursor,
        lines: usize,
        each: &mut dyn FnMut(&Scanned<'_>),
    ) -> Option<ScanCursor> {
        let cache = self.member.cache();
        // What an earlier call returned is not in use any more: `self` is borrowed anew.
        self.announce_again();
        let (turn, mut place) = (self.turn(), cursor.place);
        let mut found: Vec<(ItemRef<'_>, Header)> = Vec::with_capacity(ITEMS_EXPECTED);
        for number in 0..lines {
            if place == Place::END {
                return None;
            }
            if number % FETCHED_TOGETHER == 0 {
                cache.index.prefetch_places(&cache.heap, place);
            }
            let (locked, behind) = cache.index.lock_place(&cache.heap, place);
            locked.for_each_between(place, behind, |location| {
                let item = cache.heap.item(location);
                let header = item.header();
                if cache.death(location, header.deadline, turn.tick).is_none() {
                    found.push((item, header));
                }
            });
            // The items' bytes stay for this turn, whatever becomes of their slots.
            drop(locked);
            for (item, header) in found.drain(..) {
                each(&cache.scanned(item, &header, turn.tick, turn.secs));
            }
            place = behind;
        }
        (place < Place::END).then_some(ScanCursor { place })
    }
}

impl Cache {
    fn scanned<'a>(&self, item: ItemRef<'a>, header: &Header, tick: u32, secs: u32) -> Scanned<'a> {
        let bytes = self.whole_len(item) as u64;
        Scanned {
            key: item.key(),
            key_is_binary: header.key_is_binary,
            flags: header.flags,
            cas: header.cas.unwrap_or(0),
            ttl: ttl_secs(header.deadline, tick),
            expires_at: (header.deadline != NEVER).then(|| self.unix_secs(header.deadline)),
            idle_secs: header.idle_secs(secs),
            fetched: header.fetched,
            bytes,
            value_len: item.value_len(),
            class: class_of(bytes),
        }
    }

    /// The Unix second that a tick is in or, if it ends one, at the end of.
    fn unix_secs(&self, tick: u32) -> u64 {
        let millis = u64::from(tick) * 1000 / u64::from(TICKS_PER_SEC);
        (self.config().unix_millis_at_start + millis + 500) / 1000
    }
}
