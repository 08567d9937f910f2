//! Servers over one cache that hand their connections over, by sockets of this machine and both drivers. What clients read is
//! what they read where nothing is handed over.

#![expect(clippy::unwrap_used, reason = "a test may fail so")]

mod clients;
mod servers;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Instant;

use clients::{Client, clients};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use scrubjay_io::clock::Clock;
use scrubjay_io::driver::epoll::Epoll;
use scrubjay_io::driver::uring::Uring;
use servers::{Real, Servers};

/// Options of a server: no CAS numbers, which depend on who comes first.
const OPEN: &[&str] = &["-C", "-m", "256"];

/// As above, where users log in.
fn guarded() -> Vec<String> {
    let users = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/conformance/files/users");
    let options = [OPEN, &["-Y", users, "--connections-per-user=200"]].concat();
    options.into_iter().map(str::to_owned).collect()
}

fn open() -> Vec<String> {
    OPEN.iter().map(|&option| option.to_owned()).collect()
}

fn epoll() -> Epoll {
    Epoll::new(Clock::start()).unwrap()
}

/// Whether the kernel has io_uring for this process; `xtask` says what is not covered.
fn has_uring() -> bool {
    let opened = Uring::new(Clock::start());
    if let Err(error) = &opened {
        let text = format!("NOT COVERED: io_uring's driver, which cannot be used here: {error}\n");
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
    opened.is_ok()
}

fn uring() -> Uring {
    Uring::new(Clock::start()).unwrap()
}

/// Every client stops in the middle; when all that they sent has been read, servers change so many times; then they go on,
/// one after the other. Returns what each read.
fn stopped_in_the_middle<D: Real>(
    options: &[String],
    driver: fn() -> D,
    clients: &[Client],
    hand_overs: usize,
) -> Vec<Vec<u8>> {
    Servers::run(options, driver, |servers| {
        let mut sent = 0;
        let connections: Vec<_> = clients
            .iter()
            .map(|client| {
                let mut connection = servers.connect();
                connection.write_all(&client.before).unwrap();
                sent += client.before.len() as u64;
                connection
            })
            .collect();
        servers.wait_until_read(sent);
        (0..hand_overs).for_each(|_| servers.hand_over());
        let go_on = |(mut connection, client): (TcpStream, &Client)| {
            let mut received = Vec::new();
            if !client.after.is_empty() {
                connection.write_all(&client.after).unwrap();
                connection.shutdown(Shutdown::Write).unwrap();
            }
            connection.read_to_end(&mut received).unwrap();
            received
        };
        connections.into_iter().zip(clients).map(go_on).collect()
    })
}

fn check(client: &Client, received: &[u8], expected: &[u8], when: &str) {
    let end = |bytes: &[u8]| {
        bytes[bytes.len().saturating_sub(100)..]
            .escape_ascii()
            .to_string()
    };
    assert!(
        received == expected,
        "{} {when}: {} bytes where {} were expected; ends: {} and {}",
        client.name,
        received.len(),
        expected.len(),
        end(received),
        end(expected)
    );
}

fn check_stopped<D: Real>(options: &[String], driver: fn() -> D) {
    let clients = clients(options.iter().any(|option| option == "-Y"), 3);
    let expected = stopped_in_the_middle(options, driver, &clients, 0);
    for hand_overs in [1, 3] {
        let received = stopped_in_the_middle(options, driver, &clients, hand_overs);
        for ((received, expected), client) in received.iter().zip(&expected).zip(&clients) {
            check(client, received, expected, "in the middle");
        }
    }
}

#[test]
fn clients_in_every_state_notice_nothing_by_epoll() {
    check_stopped(&open(), epoll);
}

#[test]
fn clients_that_have_logged_in_notice_nothing_by_epoll() {
    check_stopped(&guarded(), epoll);
}

#[test]
fn clients_in_every_state_notice_nothing_by_io_uring() {
    if has_uring() {
        check_stopped(&open(), uring);
        check_stopped(&guarded(), uring);
    }
}

/// Sends in pieces while reading in others; returns as much as is expected.
fn converse(mut connection: TcpStream, client: &Client, expected: &[u8], seed: u64) -> Vec<u8> {
    let mut writer = connection.try_clone().unwrap();
    let mut rest = [&client.before[..], &client.after].concat();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut random = StdRng::seed_from_u64(seed);
            while !rest.is_empty() {
                let most = if random.random_bool(0.5) { 40 } else { 100_000 };
                let len = random.random_range(1..=rest.len().min(most));
                writer.write_all(&rest[..len]).unwrap();
                rest.drain(..len);
                std::thread::yield_now();
            }
        });
        let mut random = StdRng::seed_from_u64(seed + 1);
        let (mut received, mut buffer) = (Vec::new(), vec![0; 70_000]);
        while received.len() < expected.len() {
            let most = random.random_range(1..buffer.len());
            let len = connection.read(&mut buffer[..most]).unwrap();
            assert!(len > 0, "seed {seed}: {} was closed early", client.name);
            received.extend_from_slice(&buffer[..len]);
        }
        received
    })
}

/// Clients send and read as they like while servers change again and again. Returns how often they did.
fn at_any_moment<D: Real>(driver: fn() -> D, clients: &[Client], expected: &[Vec<u8>], seed: u64) -> usize {
    Servers::run(&open(), driver, |servers| {
        std::thread::scope(|scope| {
            let all = clients.iter().zip(expected).enumerate();
            let threads: Vec<_> = all
                .map(|(number, (client, expected))| {
                    let connection = servers.connect();
                    let seed = seed * 1_000 + number as u64;
                    scope.spawn(move || {
                        let received = converse(connection, client, expected, seed);
                        check(
                            client,
                            &received,
                            expected,
                            &format!("at any moment, seed {seed}"),
                        );
                    })
                })
                .collect();
            let mut hand_overs = 0;
            while !threads.iter().all(|thread| thread.is_finished()) {
                servers.hand_over();
                hand_overs += 1;
            }
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            hand_overs
        })
    })
}

#[test]
fn clients_notice_nothing_at_any_moment() {
    let clients = clients(false, 2);
    let expected = stopped_in_the_middle(&open(), epoll, &clients, 0);
    for seed in 0..3 {
        let mut hand_overs = at_any_moment(epoll, &clients, &expected, seed);
        if has_uring() {
            hand_overs += at_any_moment(uring, &clients, &expected, seed);
        }
        println!("seed {seed}: {hand_overs} hand-overs");
    }
}

/// How long a thousand busy clients wait: printed, as machines differ.
fn pause<D: Real>(driver: fn() -> D) {
    let value = vec![b'x'; 10_000];
    Servers::run(&open(), driver, |servers| {
        let mut sent = 0;
        let request = [b"set v 0 0 10000\r\n", &value[..], b"\r\nget v\r\nget"].concat();
        let mut connections: Vec<_> = (0..1_000)
            .map(|_| {
                let mut connection = servers.connect();
                connection.write_all(&request).unwrap();
                sent += request.len() as u64;
                connection
            })
            .collect();
        servers.wait_until_read(sent);
        let began = Instant::now();
        servers.hand_over();
        connections[999].write_all(b" none\r\nversion\r\n").unwrap();
        let len = b"STORED\r\nVALUE v 0 10000\r\n\r\nEND\r\nEND\r\nVERSION 1.6.45\r\n".len() + value.len();
        connections[999].read_exact(&mut vec![0; len]).unwrap();
        println!(
            "1,000 connections: answered {:?} after the order",
            began.elapsed()
        );
    });
}

#[test]
fn a_thousand_connections_are_handed_over() {
    scrubjay_io::process::raise_open_files(2_500).unwrap();
    pause(epoll);
    if has_uring() {
        pause(uring);
    }
}
