//! Both ways of recovery find the same, and the quick one notices when it must not be trusted.

use std::sync::Arc;

use scrubjay_base::time::Now;

use super::{Found, recover_by_marks, recover_in_doubt};
use crate::api::{Body, Config, Delete, Store};
use crate::cache::Cache;
use crate::item::LEAST;
use crate::segment::{SEGMENT_START, SegmentHeader, SegmentId, SegmentState};
use crate::worker::Worker;

const NOW: Now = Now::from_secs(5);
const TICK: u32 = 50;

fn store(worker: &mut Worker, number: u64) {
    let key = format!("key-{number}");
    let len = match number % 500 {
        0 => 40_000,
        rest => rest as usize % 150,
    };
    worker.store(Store {
        flags: number as u32,
        exptime: if number.is_multiple_of(3) { 1000 } else { 0 },
        ..Store::set(key.as_bytes(), Body::Bytes(&vec![number as u8; len]))
    });
}

/// A cache in which so many items were stored, and some replaced and deleted; checksums are made on the way.
fn filled(count: u64) -> Arc<Cache> {
    let cache = Cache::new(Config::new(32 << 20)).expect("memory");
    let mut worker = cache.worker();
    for number in 0..count {
        worker.begin_turn(NOW);
        store(&mut worker, number);
        if number.is_multiple_of(7) {
            store(&mut worker, number / 2);
        }
        if number.is_multiple_of(11) {
            worker.delete(&Delete::key(format!("key-{}", number / 3).as_bytes()));
        }
        if number.is_multiple_of(1000) {
            worker.go_idle();
            cache.maintain(Now::from_millis(5000 + number));
        }
    }
    cache
}

/// What was found, and what lives in each segment.
fn outcome(cache: &Cache, found: Option<Found>) -> Option<(Found, Vec<u32>)> {
    let headers = (0..cache.heap.segments_max()).map(|id| cache.heap.header(SegmentId(id)));
    let used = headers.filter(|header| header.state() != SegmentState::Free);
    let live = used.map(SegmentHeader::live).collect();
    found.map(|found| (found, live))
}

fn by_marks(cache: &Cache) -> Option<(Found, Vec<u32>)> {
    outcome(cache, recover_by_marks(&cache.heap, &cache.index, TICK))
}

fn in_doubt(cache: &Cache) -> Option<(Found, Vec<u32>)> {
    outcome(cache, recover_in_doubt(&cache.heap, &cache.index, TICK))
}

/// A byte of an item that a checksum covers, and its segment: the last of the first such item.
fn covered_byte(cache: &Cache) -> (SegmentId, *mut u8) {
    let mut ids = (0..cache.heap.segments_max()).map(SegmentId);
    let id = ids
        .find(|id| cache.heap.kept_sum(*id).covered > SEGMENT_START + 4000)
        .expect("a covered segment");
    let byte = cache.heap.address(id, SEGMENT_START + 2000).cast_mut();
    (id, byte)
}

#[test]
fn both_ways_find_the_same_whatever_a_resize_has_moved() {
    let mut resizes = 0;
    for count in (20_000..60_000).step_by(1_777) {
        let cache = filled(count);
        let (items, bytes) = (cache.items(), cache.items_bytes());
        resizes += u32::from(cache.index.is_resizing());
        let (quick, quick_live) = by_marks(&cache).expect("nobody has changed the memory");
        let (slow, slow_live) = in_doubt(&cache).expect("nothing contradicts");
        assert_eq!((quick.items.items, quick.items.bytes), (items, bytes), "{count}");
        assert_eq!(quick.items, slow.items, "{count}");
        assert_eq!(quick_live, slow_live, "{count}");
        assert_eq!((slow.spoilt, slow.unreadable), (0, 0), "{count}");
        assert!(by_marks(&cache).is_some(), "once more");
    }
    assert!(resizes > 0, "none was under way: choose other counts");
}

#[test]
fn a_changed_byte_makes_it_doubt() {
    let cache = filled(20_000);
    let (id, byte) = covered_byte(&cache);
    // SAFETY: inside a segment that nobody uses now.
    unsafe { *byte ^= 1 };
    assert!(by_marks(&cache).is_none());
    let (found, _) = in_doubt(&cache).expect("nothing contradicts");
    assert!(found.spoilt > 0, "segment {id:?} is given up");
}

#[test]
fn a_slot_that_names_another_item_makes_it_doubt() {
    let cache = filled(20_000);
    cache.index.swap_two_slots(&cache.heap);
    assert!(by_marks(&cache).is_none());
    let (found, _) = in_doubt(&cache).expect("nothing contradicts");
    assert_eq!(found.unreadable, 2);
}

#[test]
fn a_segment_whose_end_was_not_said_when_little_was_left_is_taken_up() {
    let cache = Cache::new(Config::new(32 << 20)).expect("memory");
    let mut worker = cache.worker();
    worker.begin_turn(NOW);
    let mut set = |number: u32, len: usize| {
        let key = format!("key-{number:08}");
        worker.store(Store::set(key.as_bytes(), Body::Bytes(&vec![7; len])));
    };
    let (segment, unit) = (SegmentId(0), cache.heap.aligned(1));
    assert!(unit < LEAST, "or so little is never left");
    let left = || cache.heap.left(segment);
    let whole = cache.heap.segment_size() - SEGMENT_START as usize;
    set(0, 20);
    let item = whole - left();
    // The last item ends one unit before the segment does: items of a size that divides the rest.
    let more = (0..200)
        .step_by(unit)
        .find(|more| (left() - unit).is_multiple_of(item + more));
    let more = more.expect("a size");
    (1..)
        .take_while(|_| left() > unit)
        .for_each(|number| set(number, 20 + more));
    assert_eq!(left(), unit);
    // Who finds no room then dies before it says where the segment ends.
    let header = cache.heap.header(segment);
    header.seal_at(0);
    header.set_state(SegmentState::Open);
    let (items, bytes) = (cache.items(), cache.items_bytes());
    let (found, _) = by_marks(&cache).expect("nobody has changed the memory");
    assert_eq!((found.items.items, found.items.bytes), (items, bytes));
    assert_eq!(header.state(), SegmentState::Sealed);
    assert_eq!(
        cache.heap.segment_size() - header.used() as usize,
        unit + SEGMENT_START as usize
    );
    assert_eq!(header.live(), header.used());
}
