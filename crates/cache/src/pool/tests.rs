//! A segment that is closed gets sealed, whoever closed it and whether or not anything comes to its log any more.

use std::sync::Arc;

use scrubjay_base::time::Now;
use scrubjay_io::clock::boot_id;

use crate::api::{Body, Config, Get, Store};
use crate::cache::Cache;
use crate::segment::{SegmentId, SegmentState};
use crate::superblock::look;
use crate::worker::Worker;

const NOW: Now = Now::from_secs(5);
const MEMORY: usize = 2 << 20;

fn cache() -> Arc<Cache> {
    Cache::new(Config::new(MEMORY)).expect("memory")
}

fn set(worker: &mut Worker, number: u64) {
    worker.begin_turn(NOW);
    let key = format!("key-{number}");
    let value = vec![number as u8; 20 + (number % 200) as usize];
    worker.store(Store::set(key.as_bytes(), Body::Bytes(&value)));
}

fn is_there(worker: &mut Worker, number: u64) -> bool {
    worker.begin_turn(NOW);
    worker
        .get(&Get::key(format!("key-{number}").as_bytes()))
        .is_some()
}

/// Open segments that are closed.
fn unsealed(cache: &Cache) -> Vec<SegmentId> {
    let ids = (0..cache.heap.segments_max()).map(SegmentId);
    let headers = ids.map(|id| (id, cache.heap.header(id)));
    headers
        .filter(|(_, header)| header.state() == SegmentState::Open && header.is_closed())
        .map(|(id, _)| id)
        .collect()
}

/// The cache's only open segment, closed as by a thread that gets no processor before it seals it.
fn close_only_open(cache: &Cache) -> SegmentId {
    let mut ids = (0..cache.heap.segments_max()).map(SegmentId);
    let open = ids
        .find(|&id| cache.heap.header(id).state() == SegmentState::Open)
        .expect("an open segment");
    assert!(cache.heap.close(open));
    assert_eq!(unsealed(cache), [open]);
    open
}

#[test]
fn a_set_that_does_not_fit_and_goes_to_another_log_seals_what_it_closed() {
    let cache = cache();
    let mut worker = cache.worker();
    // Keys that are evicted and come back, some of them read: their heat is another one when it is looked for again.
    for round in 0..120_000_u64 {
        let number = round.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50;
        set(&mut worker, number);
        if number.is_multiple_of(3) {
            is_there(&mut worker, number / 2);
        }
        assert_eq!(unsealed(&cache), [], "after {round} sets");
    }
    worker.go_idle();
    cache.audit();
}

#[test]
fn what_another_closed_and_did_not_seal_is_evicted_when_nothing_else_is_left() {
    let cache = cache();
    let mut worker = cache.worker();
    set(&mut worker, 1);
    let closed = close_only_open(&cache);
    worker.begin_turn(NOW);
    for _ in 0..3 {
        assert!(cache.reclaim(&worker.turn(), &mut 0).is_ok());
    }
    assert_eq!(cache.heap.header(closed).state(), SegmentState::Free);
    assert!(!is_there(&mut worker, 1));
    worker.go_idle();
    cache.audit();
}

#[test]
fn a_file_with_a_segment_that_was_closed_and_not_sealed_is_taken_up() {
    let cache = cache();
    let mut worker = cache.worker();
    (1..=3).for_each(|number| set(&mut worker, number));
    let closed = close_only_open(&cache);
    drop(worker);
    let file = cache.memory_file().try_clone().expect("a descriptor");
    assert!(cache.close(NOW));
    drop(cache);
    let kept = look(&file, &boot_id().expect("Linux")).expect("readable");
    let kept = kept.expect("a cache's file");
    let (cache, recovered) = Cache::reopen(Config::new(MEMORY), file, &kept, NOW).expect("not cold");
    assert!(recovered.clean);
    assert_eq!(cache.heap.header(closed).state(), SegmentState::Sealed);
    let mut worker = cache.worker();
    assert!((1..=3).all(|number| is_there(&mut worker, number)));
    set(&mut worker, 4);
    worker.go_idle();
    cache.audit();
}
