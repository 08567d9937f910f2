//! Connections that leave a driver alive.

use std::io::{IoSlice, Read, Write};

use super::{Bench, FIRST, Real, fill, pattern};
use crate::clock::Clock;
use crate::driver::epoll::Epoll;
use crate::driver::{Driver, Interest, Released, Socket};

/// A driver that goes on.
fn next() -> Bench<Epoll> {
    Bench::new(Epoll::new(Clock::start()).unwrap())
}

/// Everything a peer has sent: what left with the connection, and what its socket still has.
fn read_all(released: Released<Socket>) -> Vec<u8> {
    let mut next = next();
    let Released {
        mut socket, input, ..
    } = released;
    next.driver.add(&mut socket, FIRST).unwrap();
    let mut received = input;
    let mut buffer = vec![0; 64 << 10];
    loop {
        next.until_readable(FIRST);
        match next.driver.read(&socket, &mut buffer) {
            Ok(0) => return received,
            Ok(len) => received.extend_from_slice(&buffer[..len]),
            Err(_) => {}
        }
    }
}

pub(super) fn what_has_come_leaves_with_its_connection_in_order(driver: impl Real) {
    let mut bench = Bench::new(driver);
    // More than there are buffers, some of which are read in part, or not at all.
    let connections: Vec<_> = (0..300)
        .map(|number| {
            let (socket, mut peer) = bench.connect(FIRST + number);
            let sent = pattern(1 + (number as usize * 131) % 9_000, number as usize);
            peer.write_all(&sent).unwrap();
            if number % 3 == 1 {
                bench
                    .driver
                    .change(&socket, FIRST + number, Interest::Write)
                    .unwrap();
            }
            (socket, peer, sent)
        })
        .collect();
    bench.wait_a_little();
    let mut read = Vec::new();
    for (number, (socket, ..)) in connections.iter().enumerate() {
        let mut some = [0; 100];
        let len = match number % 3 {
            0 => bench.driver.read(socket, &mut some).unwrap_or(0),
            _ => 0,
        };
        read.push(some[..len].to_vec());
    }
    bench.driver.be_quiet().unwrap();
    for ((socket, mut peer, mut sent), read) in connections.into_iter().zip(read) {
        let released = bench.driver.release(socket).unwrap();
        peer.write_all(b"what came later").unwrap();
        drop(peer);
        sent.extend_from_slice(b"what came later");
        assert!([read, read_all(released)].concat() == sent, "other bytes came");
    }
}

pub(super) fn a_flood_leaves_whole(driver: impl Real) {
    let mut bench = Bench::new(driver);
    let (socket, mut peer) = bench.connect(FIRST);
    let sent = pattern(3_000_000, 5);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            sent.chunks(3_001)
                .for_each(|piece| peer.write_all(piece).unwrap());
            peer.shutdown(std::net::Shutdown::Write).unwrap();
        });
        let mut received = bench.read_exactly(&socket, FIRST, 500_000);
        bench.driver.be_quiet().unwrap();
        received.extend(read_all(bench.driver.release(socket).unwrap()));
        assert!(received == sent, "other bytes came");
    });
}

pub(super) fn what_was_taken_arrives_or_leaves_with_its_connection(driver: impl Real) {
    let mut bench = Bench::new(driver);
    let mut connections = Vec::new();
    for number in 0..50 {
        let (socket, peer) = bench.connect(FIRST + number);
        let mut taken = match number % 2 {
            0 => Vec::new(),
            _ => fill(&mut bench, &socket),
        };
        let small = pattern(300 + number as usize, number as usize);
        let written = bench.driver.write(&socket, &[IoSlice::new(&small)]);
        taken.extend_from_slice(&small[..written.unwrap_or(0)]);
        connections.push((socket, peer, taken));
    }
    bench.driver.be_quiet().unwrap();
    for (socket, mut peer, taken) in connections {
        let Released { socket, output, .. } = bench.driver.release(socket).unwrap();
        let mut received = vec![0; taken.len() - output.len()];
        peer.read_exact(&mut received).unwrap();
        drop(socket);
        assert_eq!(peer.read(&mut [0; 10]).unwrap(), 0, "nothing else arrives");
        assert!([received, output].concat() == taken, "other bytes went");
    }
}

pub(super) fn nothing_is_reported_that_nobody_wants(driver: impl Real) {
    let mut bench = Bench::new(driver);
    let (socket, mut peer) = bench.connect(FIRST);
    bench.driver.change(&socket, FIRST, Interest::Neither).unwrap();
    peer.write_all(b"input").unwrap();
    let ready = bench.wait_a_little();
    assert!(ready.is_empty(), "{ready:?}");
    bench.driver.change(&socket, FIRST, Interest::ReadWrite).unwrap();
    assert_eq!(bench.read_exactly(&socket, FIRST, 5), b"input");
}

pub(super) fn who_wants_nothing_is_not_woken_on_and_on(driver: impl Real) {
    let mut bench = Bench::new(driver);
    let (socket, mut peer) = bench.connect(FIRST);
    bench.driver.change(&socket, FIRST, Interest::Neither).unwrap();
    peer.write_all(b"input").unwrap();
    peer.shutdown(std::net::Shutdown::Both).unwrap();
    bench.driver.end_output(&socket);
    // It may be told once, and that is then over.
    let ready = bench.wait_a_little();
    assert!(ready.is_empty(), "{ready:?}");
    bench.driver.change(&socket, FIRST, Interest::Read).unwrap();
    assert_eq!(bench.read_exactly(&socket, FIRST, 5), b"input");
}

pub(super) fn who_hears_that_nothing_more_comes_may_still_send(driver: impl Real) {
    let mut bench = Bench::new(driver);
    let (socket, mut peer) = bench.connect(FIRST);
    bench.driver.write(&socket, &[IoSlice::new(b"last")]).unwrap();
    bench.driver.flush(&socket).unwrap();
    bench.driver.end_output(&socket);
    let mut received = Vec::new();
    peer.read_to_end(&mut received).unwrap();
    assert_eq!(received, b"last");
    peer.write_all(b"answer").unwrap();
    assert_eq!(bench.read_exactly(&socket, FIRST, 6), b"answer");
}
