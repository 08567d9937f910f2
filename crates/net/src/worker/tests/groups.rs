//! Connections that are served together.

use scrubjay_io::driver::sim::{Faults, Peer};

use super::{NO_LIMITS, Setup, turns};

#[test]
fn connections_are_foreseen_and_answered_in_groups() {
    let setup = Setup::new(1, Faults::NONE, NO_LIMITS);
    let mut worker = setup.worker();
    let peers: Vec<Peer> = (0..40).map(|_| setup.connect()).collect();
    turns(&mut worker, 4);
    for (number, peer) in peers.iter().enumerate() {
        peer.send(format!("{number}\n").as_bytes());
    }
    turns(&mut worker, 1);
    for (number, peer) in peers.iter().enumerate() {
        assert_eq!(peer.receive(100), format!("{number}\n").into_bytes());
    }
    let groups: Vec<usize> = worker.service.foreseen.iter().map(Vec::len).collect();
    assert_eq!(groups, [16, 16, 8]);
}

#[test]
fn a_group_is_smaller_where_its_members_send_much() {
    let setup = Setup::new(1, Faults::WIDE, NO_LIMITS);
    let mut worker = setup.worker();
    let peers: Vec<Peer> = (0..6).map(|_| setup.connect()).collect();
    turns(&mut worker, 1);
    let line = [&b"x".repeat(49_999)[..], b"\n"].concat();
    peers.iter().for_each(|peer| peer.send(&line));
    turns(&mut worker, 1);
    assert!(peers.iter().all(|peer| peer.receive(100_000) == line));
    // Two such inputs leave less room than one may take.
    assert_eq!(worker.service.foreseen, vec![vec![50_000; 2]; 3]);
}
