//! What any real driver must do, asked of both over sockets of this machine.
//!
//! Where the kernel forbids io_uring its half says so and passes: the server falls back to epoll there, and `xtask` reports
//! what was not covered.

use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use self::leaving::{
    a_flood_leaves_whole, nothing_is_reported_that_nobody_wants,
    what_has_come_leaves_with_its_connection_in_order, what_was_taken_arrives_or_leaves_with_its_connection,
    who_hears_that_nothing_more_comes_may_still_send, who_wants_nothing_is_not_woken_on_and_on,
};
use super::epoll::Epoll;
use super::uring::Uring;
use super::{Driver, Interest, Listener, PeerAddress, Ready, Socket, datagrams};
use crate::clock::Clock;

mod leaving;

/// How long anything may take before a test gives up, in waits of a tenth of a second.
const PATIENCE: usize = 300;

/// Tokens of the first connection and of the listener.
const FIRST: u64 = 7 << 32;
const LISTENER: u64 = 1 << 63;

macro_rules! contract {
    ($($name:ident),* $(,)?) => {
        mod epoll {
            use crate::clock::Clock;
            use crate::driver::epoll::Epoll;
            $(#[test] fn $name() { super::$name(Epoll::new(Clock::start()).unwrap()); })*
        }
        mod uring {
            $(#[test] fn $name() { super::uring().into_iter().for_each(super::$name); })*
        }
        mod uring_with_few_descriptors {
            $(#[test] fn $name() { super::scarce().into_iter().for_each(super::$name); })*
        }
    };
}

contract!(
    what_is_not_read_is_reported_again,
    a_listener_is_reported_until_nobody_waits,
    small_replies_arrive_in_order,
    large_replies_follow_small_ones_in_order,
    what_a_full_socket_does_not_take_goes_later_and_in_order,
    a_peer_that_takes_nothing_is_not_read_from,
    what_was_written_before_closing_arrives,
    who_is_told_to_flush_before_closing_loses_nothing,
    input_waits_while_only_writing_is_wanted,
    a_flood_arrives_whole,
    the_end_comes_after_the_last_bytes,
    a_reset_is_reported,
    ended_input_reads_as_the_end,
    more_connections_than_buffers_are_all_served,
    a_place_used_again_hears_nothing_of_its_predecessor,
    a_waker_ends_a_wait,
    a_wait_ends_in_time,
    a_connection_may_be_read_without_being_reported,
    datagrams_are_reported_until_received,
    what_has_come_leaves_with_its_connection_in_order,
    a_flood_leaves_whole,
    what_was_taken_arrives_or_leaves_with_its_connection,
    nothing_is_reported_that_nobody_wants,
    who_wants_nothing_is_not_woken_on_and_on,
    who_hears_that_nothing_more_comes_may_still_send,
);

/// A driver by io_uring, unless that is forbidden here.
fn uring() -> Option<Uring> {
    if_allowed(Uring::new(Clock::start()))
}

/// The same, which keeps the files of its first connections for itself.
fn scarce() -> Option<Uring> {
    let driver = if_allowed(Uring::with_direct_files(Clock::start()))?;
    if !driver.has_slots() {
        say_not_covered(&ErrorKind::Unsupported.into());
        return None;
    }
    Some(driver)
}

fn if_allowed(driver: std::io::Result<Uring>) -> Option<Uring> {
    match driver {
        Ok(driver) => Some(driver),
        Err(error) => {
            say_not_covered(&error);
            None
        }
    }
}

/// A driver, its listener, and connections.
struct Bench<D> {
    driver: D,
    listener: Listener,
    address: SocketAddr,
    ready: Vec<Ready>,
}

impl<D: Driver<Socket = Socket, Listener = Listener, Datagrams = datagrams::Socket>> Bench<D> {
    fn new(driver: D) -> Bench<D> {
        let listener = Listener::tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 1024).unwrap();
        let address = listener.address().unwrap();
        Bench {
            driver,
            listener,
            address,
            ready: Vec::new(),
        }
    }

    /// A connection that was added under `token`, and its peer.
    fn connect(&mut self, token: u64) -> (Socket, TcpStream) {
        let peer = TcpStream::connect(self.address).unwrap();
        peer.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let (mut socket, address) = self.until(|driver, listener, _| driver.accept(listener).ok());
        assert_eq!(address, PeerAddress::Tcp(peer.local_addr().unwrap()));
        self.driver.add(&mut socket, token).unwrap();
        (socket, peer)
    }

    /// Waits until `ask` has an answer.
    fn until<T>(&mut self, mut ask: impl FnMut(&mut D, &Listener, &[Ready]) -> Option<T>) -> T {
        for _ in 0..PATIENCE {
            if let Some(answer) = ask(&mut self.driver, &self.listener, &self.ready) {
                return answer;
            }
            self.driver.wait(Some(100), &mut self.ready).unwrap();
        }
        panic!("it does not happen");
    }

    fn until_readable(&mut self, token: u64) {
        self.ready.clear();
        self.until(|_, _, ready| {
            ready
                .iter()
                .any(|one| one.token == token && one.readable)
                .then_some(())
        });
    }

    /// Waits a little: what was to happen has happened.
    fn wait_a_little(&mut self) -> Vec<Ready> {
        for _ in 0..3 {
            self.driver.wait(Some(20), &mut self.ready).unwrap();
        }
        self.ready.clone()
    }

    /// Reads until there are `len` bytes.
    fn read_exactly(&mut self, socket: &Socket, token: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let mut have = 0;
        while have < len {
            self.until_readable(token);
            match self.driver.read(socket, &mut bytes[have..]) {
                Ok(more) => {
                    assert!(more > 0, "the end comes after {have} of {len} bytes");
                    have += more;
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        bytes
    }

    /// Writes all of `bytes` as a connection of the loop does, while `peer` reads them.
    fn write_all(&mut self, socket: &Socket, token: u64, bytes: &[u8], peer: &mut impl Read) -> Vec<u8> {
        let mut received = Vec::new();
        let mut sent = 0;
        while sent < bytes.len() {
            match self.driver.write(socket, &[IoSlice::new(&bytes[sent..])]) {
                Ok(len) => sent += len,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            self.driver.change(socket, token, Interest::Write).unwrap();
            let mut part = vec![0; 64 << 10];
            let len = peer.read(&mut part).unwrap();
            received.extend_from_slice(&part[..len]);
            self.driver.wait(Some(0), &mut self.ready).unwrap();
        }
        self.driver.change(socket, token, Interest::Read).unwrap();
        while received.len() < bytes.len() {
            let mut part = vec![0; 64 << 10];
            self.driver.wait(Some(0), &mut self.ready).unwrap();
            let len = peer.read(&mut part).unwrap();
            received.extend_from_slice(&part[..len]);
        }
        received
    }

    fn write(&mut self, socket: &Socket, bytes: &[u8]) -> usize {
        match self.driver.write(socket, &[IoSlice::new(bytes)]) {
            Ok(len) => len,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                0
            }
        }
    }
}

/// Bytes of which each tells where it belongs.
fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| ((at * 31 + seed * 7) >> 3) as u8).collect()
}

trait Real: Driver<Socket = Socket, Listener = Listener, Datagrams = datagrams::Socket> {}

impl Real for Epoll {}
impl Real for Uring {}

fn what_is_not_read_is_reported_again(driver: impl Real) {
    let mut bench = Bench::new(driver);
    let (socket, mut peer) = bench.connect(FIRST);
    peer.write_all(b"abcdef").unwrap();
    bench.until_readable(FIRST);
    for expected in [b"ab", b"cd", b"ef"] {
        bench.until_readable(FIRST);
        bench.until_readable(FIRST);
        let mut two = [0; 2];
        assert_eq!(bench.driver.read(&socket, &mut two).unwrap(), 2);
        assert_eq!(&two, expected);
    }
    assert_eq!(bench.wait_a_little(), []);
    bench.driver.close(socket);
}

fn a_listener_is_reported_until_nobody_waits(driver: impl Real) {
    let mut bench = Bench::new(driver);
    bench.driver.add_listener(&bench.listener, LISTENER).unwrap();
    let peers = [(); 2].map(|()| TcpStream::connect(bench.address).unwrap());
    for _ in &peers {
        bench.until_readable(LISTENER);
        bench.until_readable(LISTENER);
        bench.driver.accept(&bench.listener).unwrap();
    }
    assert_eq!(bench.wait_a_little(), []);
    bench.driver.remove_listener(&bench.listener).unwrap();
    assert!(bench.driver.remove_listener(&bench.listener).is_err());
    let _third = TcpStream::connect(bench.address).unwrap();
    assert_eq!(bench.wait_a_little(), []);
    bench.driver.add_listener(&bench.listener, LISTENER).unwrap();
    bench.until_readable(LISTENER);
}

fn small_replies_arrive_in_order(driver: impl Real) {
    let mut bench = Bench::new(driver);
    let mut both = [FIRST, FIRST + 1].map(|token| bench.connect(token));
    for round in 0..50 {
        for turn in 0..7 {
            for (socket, _) in &both {
                let text = format!("{round}.{turn} ");
                let halves = text.as_bytes().split_at(1);
                let pieces = [IoSlice::new(halves.0), IoSlice::new(halves.1)];
                assert_eq!(bench.driver.write(socket, &pieces).unwrap(), text.len());
            }
        }
        bench.driver.wait(Some(0), &mut bench.ready).unwrap();
        let expected: String = (0..7).map(|turn| format!("{round}.{turn} ")).collect();
        for (_, peer) in &mut both {
            let mut received = vec![0; expected.len()];
            peer.read_exact(&mut received).unwrap();
            assert_eq!(String::from_utf8(received).unwrap(), expected);
        }
    }
    for (socket, _) in both {
        bench.driver.close(socket);
    }
}

fn large_replies_follow_small_ones_in_order(driver: impl Real) {
    let mut bench = Bench::new(driver);
    let (socket, mut peer) = bench.connect(FIRST);
    let mut expected = b"small".to_vec();
    bench.write(&socket, b"small");
    let large = pattern(3_000_000, 1);
    expected.extend_from_slice(&large);
    let mut received = bench.write_all(&socket, FIRST, &large, &mut peer);
    let mut rest = vec![0; expected.len() - received.len()];
    peer.read_exact(&mut rest).unwrap();
    received.extend_from_slice(&rest);
    assert!(received == expected, "other bytes, or in another order");
    bench.driver.close(socket);
}

/// Writes small replies, each with a turn, until the socket and the driver take no more; returns what they took.
fn fill<D: Real>(bench: &mut Bench<D>, socket: &Socket) -> Vec<u8> {
    let mut written = Vec::new();
    for number in 0.. {
        let reply = pattern(8_000, number);
        let len = bench.write(socket, &reply);
        written.extend_from_slice(&reply[..len]);
        if len < reply.len() {
            break;
        }
        bench.driver.wait(Some(0), &mut bench.ready).unwrap();
    }
    written
}

fn what_a_full_socket_does_not_take_goes_later_and_in_order(driver: impl Real) {
    let mut bench = Bench::new(driver);
    let (socket, mut peer) = bench.connect(FIRST);
    let written = fill(&mut bench, &socket);
    assert_eq!(bench.write(&socket, b"more"), 0);
    bench.driver.change(&socket, FIRST, Interest::Write).unwrap();
    let mut received = vec![0; written.len()];
    std::thread::scope(|scope| {
        scope.spawn(|| peer.read_exact(&mut received).unwrap());
        bench.ready.clear();
        bench.until(|_, _, ready| {
            ready
                .iter()
                .any(|one| one.token == FIRST && one.writable)
                .then_some(())
        });
        assert_eq!(bench.write(&socket, b"more"), 4);
        bench.driver.flush(&socket).unwrap();
    });
    assert!(received == written, "other bytes, or in another order");
    let mut more = [0; 4];
    peer.read_exact(&mut more).unwrap();
    assert_eq!(&more, b"more");
    bench.driver.close(socket);
}

fn a_peer_that_takes_nothing_is_not_read_from(driver: impl Real) {
    let mut bench = Bench::new(driver);
    let (socket, mut peer) = bench.connect(FIRST);
    fill(&mut bench, &socket);
    bench.driver.change(&socket, FIRST, Interest::Write).unwrap();
    peer.set_nonblocking(true).unwrap();
    let piece = [7; 64 << 10];
    let mut taken = 0;
    let mut quiet = 0;
    // Until the kernel's own buffers are full, which take a few megabytes.
    while quiet < 3 {
        match peer.write(&piece) {
            Ok(len) => (taken, quiet) = (taken + len, 0),
            Err(_) => quiet += 1,
        }
        bench.driver.wait(Some(10), &mut bench.ready).unwrap();
        assert!(taken < 64 << 20, "the driver goes on reading");
        assert!(bench.driver.held(&socket) < 1 << 20, "the driver takes and takes");
    }
    bench.driver.close(socket);
}

fn what_was_written_before_closing_arrives(driver: impl Real) {
    let mut bench = Bench::new(driver);
    let (socket, mut peer) = bench.connect(FIRST);
    bench.wait_a_little();
    assert_eq!(bench.write(&socket, b"good-bye"), 8);
    bench.driver.close(socket);
    bench.driver.wait(Some(0), &mut bench.ready).unwrap();
    let mut text = String::new();
    peer.read_to_string(&mut text).unwrap();
    assert_eq!(text, "good-bye");
}

fn who_is_told_to_flush_before_closing_loses_nothing(driver: impl Real) {
    let mut bench = Bench::new(driver);
    let (socket, mut peer) = bench.connect(FIRST);
    let written = fill(&mut bench, &socket);
    bench.driver.change(&socket, FIRST, Interest::Write).unwrap();
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut received = Vec::new();
            peer.read_to_end(&mut received).unwrap();
            received
        });
        bench.until(|driver, _, _| match driver.flush(&socket) {
            Ok(()) => Some(()),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                None
            }
        });
        bench.driver.close(socket);
        bench.driver.wait(Some(0), &mut bench.ready).unwrap();
        assert!(reader.join().unwrap() == written, "not what was written");
    });
}

fn input_waits_while_only_writing_is_wanted(driver: impl Real) {
    let mut bench = Bench::new(driver);
    let (socket, mut peer) = bench.connect(FIRST);
    peer.write_all(&pattern(5_000, 3)).unwrap();
    bench.until_readable(FIRST);
    bench.driver.change(&socket, FIRST, Interest::Write).unwrap();
    peer.write_all(&pattern(100_000, 4)).unwrap();
    let reports = bench.wait_a_little();
    assert!(
        reports.iter().all(|one| one.writable && !one.readable),
        "{reports:?}"
    );
    bench.driver.change(&socket, FIRST, Interest::Read).unwrap();
    let received = bench.read_exactly(&socket, FIRST, 105_000);
    assert!(received == [pattern(5_000, 3), pattern(100_000, 4)].concat());
    assert_eq!(bench.driver.held(&socket), 0);
    bench.driver.close(socket);
}

fn a_flood_arrives_whole(driver: impl Real) {
    let mut bench = Bench::new(driver);
    let (socket, mut peer) = bench.connect(FIRST);
    let (other, mut other_peer) = bench.connect(FIRST + 1);
    let sent = pattern(4_000_000, 5);
    std::thread::scope(|scope| {
        scope.spawn(|| peer.write_all(&sent).unwrap());
        let mut received = Vec::new();
        let mut piece = vec![0; 64 << 10];
        while received.len() < sent.len() {
            // The flood takes nothing from others.
            other_peer.write_all(b"ping").unwrap();
            assert_eq!(bench.read_exactly(&other, FIRST + 1, 4), b"ping");
            // Now a little is read at a time, now much.
            let room = if received.len() % 3 == 0 { 700 } else { piece.len() };
            if let Ok(len) = bench.driver.read(&socket, &mut piece[..room]) {
                received.extend_from_slice(&piece[..len]);
            }
        }
        assert!(received == sent, "other bytes, or in another order");
    });
    // And small requests after it.
    for number in 0..20 {
        peer.write_all(&pattern(50, number)).unwrap();
        assert_eq!(bench.read_exactly(&socket, FIRST, 50), pattern(50, number));
    }
    bench.driver.close(socket);
    bench.driver.close(other);
}

fn the_end_comes_after_the_last_bytes(driver: impl Real) {
    let mut bench = Bench::new(driver);
    let (socket, mut peer) = bench.connect(FIRST);
    peer.write_all(b"last").unwrap();
    peer.shutdown(Shutdown::Write).unwrap();
    assert_eq!(bench.read_exactly(&socket, FIRST, 4), b"last");
    for _ in 0..2 {
        bench.until_readable(FIRST);
        assert_eq!(bench.driver.read(&socket, &mut [0; 8]).unwrap(), 0);
    }
    // The other direction is open.
    assert_eq!(bench.write(&socket, b"reply"), 5);
    bench.driver.close(socket);
    bench.driver.wait(Some(0), &mut bench.ready).unwrap();
    let mut text = String::new();
    peer.read_to_string(&mut text).unwrap();
    assert_eq!(text, "reply");
}

fn a_reset_is_reported(driver: impl Real) {
    let mut bench = Bench::new(driver);
    let (socket, peer) = bench.connect(FIRST);
    bench.write(&socket, b"never read");
    bench.wait_a_little();
    // Closed with bytes unread: the kernel resets.
    drop(peer);
    bench.until_readable(FIRST);
    assert!(!matches!(bench.driver.read(&socket, &mut [0; 8]), Ok(1..)));
    bench.until(|driver, _, _| driver.write(&socket, &[IoSlice::new(b"x")]).err());
    bench.driver.close(socket);
}

fn ended_input_reads_as_the_end(driver: impl Real) {
    let mut bench = Bench::new(driver);
    let (socket, _peer) = bench.connect(FIRST);
    assert_eq!(bench.wait_a_little(), []);
    bench.driver.end_input(&socket);
    bench.until_readable(FIRST);
    assert_eq!(bench.driver.read(&socket, &mut [0; 8]).unwrap(), 0);
    bench.driver.close(socket);
}

fn more_connections_than_buffers_are_all_served(driver: impl Real) {
    let mut bench = Bench::new(driver);
    let mut all: Vec<_> = (0..400).map(|number| bench.connect(FIRST + number)).collect();
    for round in 0..3 {
        for (number, (_, peer)) in all.iter_mut().enumerate() {
            peer.write_all(&pattern(10, number + round)).unwrap();
        }
        for (number, (socket, _)) in all.iter().enumerate() {
            let received = bench.read_exactly(socket, FIRST + number as u64, 10);
            assert_eq!(received, pattern(10, number + round));
        }
    }
    for (socket, _) in all {
        bench.driver.close(socket);
    }
    assert_eq!(bench.wait_a_little(), []);
}

fn a_place_used_again_hears_nothing_of_its_predecessor(driver: impl Real) {
    let mut bench = Bench::new(driver);
    for round in 0..50 {
        let (socket, mut peer) = bench.connect(FIRST + round);
        bench.wait_a_little_if(round % 3 == 0);
        peer.write_all(b"old").unwrap();
        bench.write(&socket, b"old");
        bench.driver.close(socket);
        let (socket, mut peer) = bench.connect(FIRST + 1_000 + round);
        peer.write_all(b"new").unwrap();
        assert_eq!(bench.read_exactly(&socket, FIRST + 1_000 + round, 3), b"new");
        bench.write(&socket, b"NEW");
        bench.driver.close(socket);
        bench.driver.wait(Some(0), &mut bench.ready).unwrap();
        let mut text = String::new();
        peer.read_to_string(&mut text).unwrap();
        assert_eq!(text, "NEW");
    }
}

impl<D: Real> Bench<D> {
    fn wait_a_little_if(&mut self, yes: bool) {
        if yes {
            self.wait_a_little();
        }
    }
}

fn a_waker_ends_a_wait(driver: impl Real) {
    let mut bench = Bench::new(driver);
    let waker = bench.driver.waker().expect("a real driver has one");
    for _ in 0..3 {
        std::thread::scope(|scope| {
            scope.spawn(|| waker.wake());
            bench.driver.wait(None, &mut bench.ready).unwrap();
        });
    }
}

fn a_wait_ends_in_time(driver: impl Real) {
    let mut bench = Bench::new(driver);
    let before = bench.driver.now();
    bench.driver.wait(Some(0), &mut bench.ready).unwrap();
    bench.driver.wait(Some(30), &mut bench.ready).unwrap();
    assert_eq!(bench.ready, []);
    assert!(bench.driver.now().nanos_since(before) >= 25_000_000);
}

fn a_connection_may_be_read_without_being_reported(driver: impl Real) {
    let mut bench = Bench::new(driver);
    let (socket, mut peer) = bench.connect(FIRST);
    assert_eq!(bench.wait_a_little(), []);
    let mut expected = Vec::new();
    for number in 0..50 {
        peer.write_all(&pattern(100, number)).unwrap();
        expected.extend_from_slice(&pattern(100, number));
    }
    let mut received = vec![0; 2_000];
    let len = bench.driver.read(&socket, &mut received).unwrap();
    received.truncate(len);
    received.extend(bench.read_exactly(&socket, FIRST, expected.len() - len));
    assert!(received == expected, "other bytes, or in another order");
    bench.driver.close(socket);
}

fn datagrams_are_reported_until_received(driver: impl Real) {
    let mut bench = Bench::new(driver);
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut sockets = datagrams::Socket::group(any, 1).unwrap();
    let mut socket = sockets.remove(0);
    bench.driver.add_datagrams(&socket, LISTENER).unwrap();
    let peer = std::net::UdpSocket::bind(any).unwrap();
    let mut inbox = datagrams::Inbox::default();
    for number in 0..3 {
        peer.send_to(&pattern(20, number), socket.address().unwrap())
            .unwrap();
        bench.until_readable(LISTENER);
        bench.until_readable(LISTENER);
        bench.driver.receive(&mut socket, &mut inbox).unwrap();
        assert_eq!(inbox.len(), 1);
        assert_eq!(bench.wait_a_little(), []);
    }
}

#[test]
fn unix_sockets_work_by_io_uring_too() {
    for (driver, is_scarce) in [(uring(), false), (scarce(), true)] {
        let Some(driver) = driver else { continue };
        let mut bench = Bench::new(driver);
        let (ours, mut peer) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut socket = Socket::of(ours.into(), false);
        let name = bench.driver.name(&socket);
        bench.driver.add(&mut socket, FIRST).unwrap();
        assert_eq!(bench.driver.peer(&socket).unwrap(), PeerAddress::Unix);
        assert_eq!(bench.driver.name(&socket).here, name.here);
        let has_number_of_kernel = bench.driver.descriptor(&socket) == name.descriptor;
        assert_eq!(has_number_of_kernel, !is_scarce, "whether it is direct");
        let sent = pattern(100_000, 6);
        std::thread::scope(|scope| {
            let mut writer = peer.try_clone().unwrap();
            let sent = &sent;
            scope.spawn(move || writer.write_all(sent).unwrap());
            assert!(bench.read_exactly(&socket, FIRST, sent.len()) == *sent);
        });
        assert!(bench.write_all(&socket, FIRST, &sent, &mut peer) == sent);
        bench.driver.close(socket);
    }
}

/// Past the test's captured output, for `xtask` to print.
fn say_not_covered(error: &std::io::Error) {
    let text = format!("NOT COVERED: io_uring's driver, which cannot be used here: {error}\n");
    let _ = std::io::stderr().write_all(text.as_bytes());
}
