//! A relay over the simulated network: what it promises at every split and fault.

use scrubjay_io::driver::Driver as _;
use scrubjay_io::driver::sim::{Faults, Network, Peer, Sim, Socket};

use super::{GRACE_NANOS, HELD_MAX, Pair, Relay};

/// More turns than any test needs.
const TURNS_MAX: usize = 200_000;

/// Longer than any test takes, in simulated time.
const LONG: u64 = 1_000_000_000_000_000;

/// The other ends of a pair.
struct Ends {
    client: Peer,
    server: Peer,
}

fn pair(network: &Network, driver: &mut Sim) -> (Pair<Socket>, Ends) {
    let listener = network.listen();
    let mut connect = || {
        let peer = network.connect(&listener);
        let (socket, _) = driver.accept(&listener).unwrap();
        (socket, peer)
    };
    let ((client, client_end), (server, server_end)) = (connect(), connect());
    let ends = Ends {
        client: client_end,
        server: server_end,
    };
    (Pair { client, server }, ends)
}

fn relay(network: &Network, count: usize, nanos_max: u64) -> (Relay<Sim>, Vec<Ends>) {
    let mut driver = network.driver();
    let pairs = (0..count).map(|_| pair(network, &mut driver));
    let (pairs, ends): (Vec<_>, Vec<_>) = pairs.collect();
    (Relay::new(network.driver(), pairs, nanos_max), ends)
}

fn bytes(network: &Network, len_max: u64) -> Vec<u8> {
    (0..network.draw(len_max))
        .map(|_| network.draw(256) as u8)
        .collect()
}

#[test]
fn every_byte_arrives_once_and_in_order_and_each_end_after_the_last() {
    for seed in 0..100 {
        let network = Network::new(seed, Faults::unkind(seed));
        let (mut relay, ends) = relay(&network, 3, LONG);
        let mut talks: Vec<_> = ends
            .iter()
            .map(|ends| {
                let (asked, answered) = (bytes(&network, 20_000), bytes(&network, 20_000));
                (ends, asked, answered, Vec::new(), Vec::new())
            })
            .collect();
        for (ends, asked, answered, ..) in &talks {
            asked.chunks(1_009).for_each(|piece| ends.client.send(piece));
            ends.client.end();
            answered.chunks(997).for_each(|piece| ends.server.send(piece));
        }
        let mut turns = 0;
        while relay.turn().unwrap() {
            turns += 1;
            assert!(turns < TURNS_MAX, "seed {seed}: it goes on for ever");
            for (ends, asked, answered, heard, told) in &mut talks {
                heard.extend(ends.server.receive(network.draw(500) as usize));
                told.extend(ends.client.receive(network.draw(500) as usize));
                let has_all = heard.len() == asked.len() && told.len() == answered.len();
                if has_all && ends.server.has_ended() {
                    ends.server.end();
                }
            }
        }
        for (ends, asked, answered, heard, told) in &talks {
            assert!(
                heard == asked && told == answered,
                "seed {seed}: other bytes arrived"
            );
            assert!(ends.client.is_closed() && ends.server.is_closed(), "seed {seed}");
        }
    }
}

#[test]
fn the_last_replies_of_a_server_arrive_before_its_end() {
    let network = Network::new(1, Faults::unkind(11));
    let (mut relay, ends) = relay(&network, 1, LONG);
    let answered = bytes(&network, 100_000);
    ends[0].server.send(&answered);
    ends[0].server.end();
    let mut told = Vec::new();
    while relay.turn().unwrap() {
        told.extend(ends[0].client.receive(700));
    }
    told.extend(ends[0].client.receive(usize::MAX));
    assert!(told == answered, "other bytes arrived");
    assert!(ends[0].client.is_closed());
}

#[test]
fn no_more_is_held_than_a_read_brings() {
    let network = Network::new(1, Faults::NONE);
    let (mut relay, ends) = relay(&network, 1, LONG);
    // Neither of them reads.
    ends[0].client.send(&[1; 1_000_000]);
    ends[0].server.send(&[2; 1_000_000]);
    for _ in 0..1_000 {
        assert!(relay.turn().unwrap());
    }
    let most = (HELD_MAX + Faults::NONE.send_buffer) as u64;
    for taken in [ends[0].client.taken(), ends[0].server.taken()] {
        assert!(taken <= most, "{taken} bytes were read");
    }
    let mut told = 0;
    while told < 1_000_000 {
        told += ends[0].client.receive(10_000).len();
        assert!(relay.turn().unwrap());
    }
}

#[test]
fn whoever_breaks_off_takes_the_other_along_and_nobody_else() {
    let network = Network::new(1, Faults::NONE);
    let (mut relay, ends) = relay(&network, 3, LONG);
    ends[0].client.reset();
    ends[1].server.reset();
    for _ in 0..5 {
        assert!(relay.turn().unwrap());
    }
    for ends in &ends[..2] {
        assert!(ends.client.is_closed() && ends.server.is_closed());
    }
    ends[2].client.send(b"asked");
    assert!(relay.turn().unwrap() && relay.turn().unwrap());
    assert_eq!(ends[2].server.receive(100), b"asked");
}

#[test]
fn when_the_time_is_over_what_was_asked_is_still_answered() {
    let network = Network::new(1, Faults::NONE);
    let (mut relay, ends) = relay(&network, 2, 10_000_000_000);
    ends[0].client.send(b"asked");
    let began = network.clock().now();
    while !ends[0].server.has_ended() {
        assert!(relay.turn().unwrap());
    }
    assert!(network.clock().now().nanos_since(began) >= 10_000_000_000);
    ends[0].client.send(b"too late");
    assert_eq!(ends[0].server.receive(100), b"asked");
    ends[0].server.send(b"answered");
    ends[0].server.end();
    // The other's server does not come to an end.
    while relay.turn().unwrap() {}
    assert_eq!(ends[0].client.receive(100), b"answered");
    assert!(ends[0].client.is_closed() && !ends[1].client.is_closed());
    let most = 10_000_000_000 + 2 * GRACE_NANOS;
    assert!(network.clock().now().nanos_since(began) < most);
    relay.close();
    assert!(ends[1].client.is_closed() && ends[1].server.is_closed());
}
