//! Connections that go from worker to worker: nothing is lost, doubled or torn, and limits hold.

use std::sync::atomic::AtomicU64;

use scrubjay_io::driver::sim::{Faults, Peer, Sim};

use super::super::hand_over::{admit, unopened};
use super::super::{Limits, Worker};
use super::{Echo, NO_LIMITS, Setup, TURNS_MAX, lines, turns};
use crate::counters::Counters;

/// A worker that goes on where this one was.
fn hand_over<'a>(setup: &'a Setup, mut worker: Worker<'a, Sim, Echo>) -> Worker<'a, Sim, Echo> {
    let carried = worker.hand_over().unwrap();
    assert_eq!(worker.service.open, 0, "every session was packed or closed");
    assert_eq!(setup.count(|counters| &counters.curr_connections), 0);
    assert_eq!(setup.shared.counters.memory.held(), 0);
    let mut next = setup.worker();
    next.service.repeats = worker.service.repeats;
    let mut admitted = admit(&setup.shared, carried);
    next.take_over(admitted.remove(0));
    next
}

#[test]
fn every_byte_comes_back_once_and_in_order_however_often_workers_change() {
    for seed in 0..200 {
        let setup = Setup::new(seed, Faults::unkind(seed), NO_LIMITS);
        let network = &setup.network;
        let mut worker = setup.worker();
        worker.service.repeats = 300;
        let mut peers: Vec<_> = (0..1 + network.draw(4))
            .map(|_| {
                let mut text = lines(network, network.draw(100) as usize);
                let mut expected = text.clone();
                for line in [&b"repeat\n"[..], b"copied\n"] {
                    text.extend_from_slice(line);
                    expected.extend_from_slice(&line.repeat(300));
                }
                (setup.connect(), text, 0, Vec::new(), expected)
            })
            .collect();
        let is_done = |peer: &(Peer, Vec<u8>, usize, Vec<u8>, Vec<u8>)| peer.3.len() == peer.4.len();
        let mut turn = 0;
        while !peers.iter().all(is_done) {
            assert!(turn < TURNS_MAX, "seed {seed}: it goes on for ever");
            turns(&mut worker, 1);
            if network.draw(20) == 0 {
                worker = hand_over(&setup, worker);
            }
            let chosen = network.draw(peers.len() as u64) as usize;
            let (peer, text, sent, received, _) = &mut peers[chosen];
            let len = (network.draw(3_000) as usize).min(text.len() - *sent);
            if len > 0 {
                peer.send(&text[*sent..*sent + len]);
                *sent += len;
            }
            received.extend(peer.receive(network.draw(2_000) as usize));
            turn += 1;
        }
        for (peer, _, _, received, expected) in &peers {
            assert!(received == expected, "seed {seed}: other bytes came back");
            assert!(!peer.is_closed(), "seed {seed}");
        }
        worker = hand_over(&setup, worker);
        assert_eq!(worker.service.open, peers.len());
    }
}

#[test]
fn a_connection_that_is_to_be_closed_gets_its_last_replies_from_the_next_server() {
    let faults = Faults {
        send_buffer: 10,
        ..Faults::NONE
    };
    let setup = Setup::new(1, faults, NO_LIMITS);
    let mut worker = setup.worker();
    let peer = setup.connect();
    peer.send(b"a line of some length\nquit\nnot answered\n");
    turns(&mut worker, 5);
    let mut worker = hand_over(&setup, worker);
    let mut received = Vec::new();
    while !peer.is_closed() {
        received.extend(peer.receive(3));
        turns(&mut worker, 1);
    }
    received.extend(peer.receive(100));
    assert_eq!(received, b"a line of some length\nquit\n");
    assert_eq!(setup.count(|counters| &counters.curr_connections), 0);
}

#[test]
fn what_waits_to_be_worked_out_is_asked_for_again() {
    let setup = Setup::new(1, Faults::NONE, NO_LIMITS);
    let mut worker = setup.worker();
    let peer = setup.connect();
    peer.send(b"one\nlater\ntwo\n");
    turns(&mut worker, 3);
    assert_eq!(peer.receive(100), b"one\n");
    let mut worker = hand_over(&setup, worker);
    turns(&mut worker, 3);
    assert!(peer.receive(100).is_empty());
    worker.service.is_worked_out = true;
    turns(&mut worker, 3);
    assert_eq!(peer.receive(100), b"later\ntwo\n");
}

#[test]
fn a_session_that_nobody_can_go_on_with_ends_behind_its_last_reply() {
    let faults = Faults {
        send_buffer: 10,
        ..Faults::NONE
    };
    let setup = Setup::new(1, faults, NO_LIMITS);
    let mut worker = setup.worker();
    let (answered, unread) = (setup.connect(), setup.connect());
    answered.send(b"one\n");
    unread.send(b"a line that is not read\n");
    turns(&mut worker, 5);
    worker.service.packs_nothing = true;
    let mut worker = hand_over(&setup, worker);
    assert!(answered.is_closed(), "it has its answer");
    let mut received = Vec::new();
    while !unread.is_closed() {
        received.extend(unread.receive(3));
        turns(&mut worker, 1);
    }
    received.extend(unread.receive(100));
    assert_eq!(received, b"a line that is not read\n");
}

#[test]
fn a_connection_is_idle_for_as_long_as_it_was() {
    let limits = Limits {
        idle_timeout_secs: 10,
        ..NO_LIMITS
    };
    let setup = Setup::new(1, Faults::NONE, limits);
    let mut worker = setup.worker();
    let peer = setup.connect();
    peer.send(b"one\n");
    turns(&mut worker, 3);
    let began = setup.seconds();
    while setup.seconds() < began + 6 {
        turns(&mut worker, 1);
    }
    let mut worker = hand_over(&setup, worker);
    while !peer.is_closed() {
        turns(&mut worker, 1);
        assert!(setup.seconds() < began + 12, "it is idle too long");
    }
    assert!(setup.seconds() >= began + 10, "it was closed too early");
}

#[test]
fn limits_hold_for_connections_of_another_server() {
    let check = |limits: Limits, which: fn(&Counters) -> &AtomicU64, kept: usize| {
        let setup = Setup::new(1, Faults::NONE, NO_LIMITS);
        let mut worker = setup.worker();
        let peers: Vec<_> = (0..5).map(|_| setup.connect()).collect();
        peers.iter().for_each(|peer| peer.send(b"one\n"));
        turns(&mut worker, 5);
        let carried = worker.hand_over().unwrap();
        assert_eq!(carried.len(), 5);
        let next = Setup::new(1, Faults::NONE, limits);
        let mut admitted = admit(&next.shared, carried);
        let mut worker = next.worker();
        worker.take_over(admitted.remove(0));
        assert_eq!(worker.service.open, kept);
        assert_eq!(peers.iter().filter(|peer| !peer.is_closed()).count(), kept);
        assert_eq!(next.count(which), 5 - kept as u64);
        assert_eq!(next.count(|counters| &counters.curr_connections), kept as u64);
    };
    check(
        Limits {
            connections_max: 3,
            ..NO_LIMITS
        },
        |counters| &counters.rejected_connections,
        3,
    );
    check(
        Limits {
            connections_per_address: 2,
            ..NO_LIMITS
        },
        |counters| &counters.rejected_by_address,
        2,
    );
}

#[test]
fn what_was_accepted_for_a_worker_that_has_ended_is_handed_over_too() {
    let setup = Setup::of_workers(2, 1, Faults::NONE, NO_LIMITS);
    let mut first = setup.worker();
    let mut second = setup.other_worker(1);
    let gone = second.hand_over().unwrap();
    let peer = setup.connect();
    peer.send(b"one\n");
    turns(&mut first, 2);
    let carried = first.hand_over().unwrap();
    drop((first, second));
    let late = unopened(setup.shared);
    assert_eq!((gone.len(), carried.len(), late.len()), (0, 0, 1));
    assert!(late[0].input.is_empty() && late[0].session.is_empty());
    assert!(!peer.is_closed());
}
