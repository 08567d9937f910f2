//! Shares: nobody's storm, burst or stuck reader takes what belongs to the others.

use scrubjay_io::driver::sim::{Faults, Peer};

use super::{Limits, NO_LIMITS, Setup, turns};
use crate::connection::WRITE_MAX;
use crate::worker::BusyPoll;
use crate::worker::accept::ACCEPTS_PER_TURN;

#[test]
fn a_storm_of_connections_leaves_those_who_are_connected_their_turns() {
    let setup = Setup::new(1, Faults::NONE, NO_LIMITS);
    let mut worker = setup.worker();
    let peer = setup.connect();
    turns(&mut worker, 1);
    let storm: Vec<Peer> = (0..900).map(|_| setup.connect()).collect();
    storm.iter().for_each(|other| other.send(b"hello\n"));
    let mut accepted_before = setup.network.accepts_tried();
    for _ in 0..900 / ACCEPTS_PER_TURN + 2 {
        peer.send(b"one\n");
        turns(&mut worker, 1);
        assert_eq!(peer.receive(100), b"one\n");
        let accepted = setup.network.accepts_tried();
        assert!(accepted - accepted_before <= ACCEPTS_PER_TURN as u64);
        accepted_before = accepted;
    }
    assert!(storm.iter().all(|other| other.receive(100) == b"hello\n"));
}

#[test]
fn connections_are_even_among_workers_when_some_have_gone_too() {
    let setup = Setup::of_workers(3, 1, Faults::NONE, NO_LIMITS);
    let mut workers = [setup.worker(), setup.other_worker(1), setup.other_worker(2)];
    let mut peers: Vec<Peer> = (0..30).map(|_| setup.connect()).collect();
    let mut all_turn = |count| {
        for _ in 0..count {
            workers.iter_mut().for_each(|worker| turns(worker, 1));
        }
        workers.each_ref().map(|worker| worker.service.open)
    };
    assert_eq!(all_turn(5), [10, 10, 10]);
    // All of the second worker's go: the next ones are its.
    for peer in peers.iter().step_by(3) {
        peer.end();
    }
    assert_eq!(all_turn(5), [10, 0, 10]);
    peers.extend((0..10).map(|_| setup.connect()));
    assert_eq!(all_turn(5), [10, 10, 10]);
}

#[test]
fn who_is_sent_much_lets_others_go_first() {
    let setup = Setup::new(1, Faults::WIDE, NO_LIMITS);
    let mut worker = setup.worker();
    worker.service.repeats = 300_000;
    let (greedy, modest) = (setup.connect(), setup.connect());
    turns(&mut worker, 1);
    // Ten megabytes are asked for at once; the socket would take them all.
    greedy.send(&b"repeat\n".repeat(5));
    let mut received = 0;
    let mut yields = 0u64;
    while received < 5 * 300_000 * "repeat\n".len() {
        modest.send(b"one\n");
        turns(&mut worker, 1);
        assert_eq!(modest.receive(100), b"one\n");
        let len = greedy.receive(usize::MAX).len();
        assert!(len <= WRITE_MAX, "{len} bytes in a turn");
        received += len;
        yields += 1;
        assert!(yields < 1_000);
    }
    assert!(setup.count(|counters| &counters.conn_yields) >= yields - 10);
    // It is idle again, and quick to stop.
    greedy.send(b"one\n");
    turns(&mut worker, 2);
    assert_eq!(greedy.receive(100), b"one\n");
    let before = setup.network.waits();
    turns(&mut worker, 3);
    assert_eq!(setup.network.waits(), before + 3);
}

#[test]
fn a_stop_sends_more_than_a_share_without_waiting() {
    let setup = Setup::new(1, Faults::WIDE, NO_LIMITS);
    let mut worker = setup.worker();
    worker.service.repeats = 300_000;
    let peer = setup.connect();
    turns(&mut worker, 1);
    peer.send(b"repeat\n");
    turns(&mut worker, 2);
    setup.shared.control.stop_gracefully();
    worker.stop(&mut Vec::new()).unwrap();
    assert!(peer.is_closed());
    assert_eq!(setup.seconds(), 0);
}

#[test]
fn who_would_hold_too_much_is_closed_and_the_others_stay() {
    let setup = Setup::new(1, Faults::NONE, NO_LIMITS);
    let mut worker = setup.worker();
    worker.service.repeats = 150_000;
    let limit = 10 << 20;
    setup.shared.counters.memory.set_limit(limit);
    let stuck: Vec<Peer> = (0..500).map(|_| setup.connect()).collect();
    let modest = setup.connect();
    turns(&mut worker, 60);
    // A burst of large replies that nobody reads, copied out as they are when the engine wants its segments back.
    stuck.iter().for_each(|peer| peer.send(b"copied\n"));
    for _ in 0..200 {
        turns(&mut worker, 1);
        let held = setup.shared.counters.memory.held();
        assert!(held <= limit, "{held} bytes are held");
    }
    let closed = stuck.iter().filter(|peer| peer.is_closed()).count();
    assert_eq!(setup.shared.counters.memory.kicks(), closed as u64);
    assert!((100..500).contains(&closed), "{closed} of 500 were closed");
    modest.send(b"hello\n");
    turns(&mut worker, 3);
    assert_eq!(modest.receive(100), b"hello\n");
    stuck.iter().for_each(Peer::reset);
    turns(&mut worker, 5);
    assert_eq!(setup.shared.counters.memory.held(), 0);
}

#[test]
fn a_worker_that_looks_again_sleeps_when_nothing_comes() {
    let limits = Limits {
        busy_poll: BusyPoll::Micros(100),
        ..NO_LIMITS
    };
    let setup = Setup::new(1, Faults::NONE, limits);
    let mut worker = setup.worker();
    let peer = setup.connect();
    turns(&mut worker, 1);
    for _ in 0..10 {
        peer.send(b"hello\n");
        let slept = worker.service.slept;
        turns(&mut worker, 20);
        assert_eq!(worker.service.slept, slept);
        assert_eq!(peer.receive(100), b"hello\n");
    }
    let slept = worker.service.slept;
    turns(&mut worker, 200);
    assert!(worker.service.slept > slept, "it looks on and on");
}
