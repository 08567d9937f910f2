//! Servers over one cache that hand their connections over, by sockets of this machine and both drivers. What clients read is
//! what they read where nothing is handed over.

#![expect(clippy::unwrap_used, reason = "a test may fail so")]

mod clients;
mod random;
mod servers;
mod streams;

use std::io::Write;
use std::time::Instant;

use clients::{Client, clients};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use scrubjay_io::clock::Clock;
use scrubjay_io::driver::epoll::Epoll;
use scrubjay_io::driver::uring::Uring;
use servers::{Kind, Real, Servers};
use streams::{Identity, Stream};

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

/// Servers of one kind, and their clients.
struct Setup<D> {
    kind: Kind<D>,
    identity: Option<Identity>,
}

impl<D: Real> Setup<D> {
    fn plain(driver: fn() -> D, options: Vec<String>) -> Setup<D> {
        Setup {
            kind: Kind {
                options,
                driver,
                tls: None,
                stays: false,
            },
            identity: None,
        }
    }

    /// The name is the test's own.
    fn encrypted(driver: fn() -> D, name: &str, stays: bool) -> Setup<D> {
        let identity = Identity::new(name);
        let mut setup = Setup::plain(driver, open());
        setup.kind.tls = Some(std::sync::Arc::clone(&identity.tls));
        setup.kind.stays = stays;
        setup.identity = Some(identity);
        setup
    }

    fn connect(&self, servers: &Servers) -> Stream {
        let socket = servers.connect();
        match &self.identity {
            None => Stream::Plain(socket),
            Some(identity) => identity.encrypt(socket),
        }
    }

    /// Every client stops in the middle; when all that they sent has been read, servers change so many times; then they go
    /// on, one after the other. Returns what each read.
    fn stop_in_the_middle(&self, clients: &[Client], hand_overs: usize) -> Vec<Vec<u8>> {
        Servers::run(&self.kind, |servers| {
            let mut sent = 0;
            let streams: Vec<Stream> = clients
                .iter()
                .map(|client| {
                    let mut stream = self.connect(servers);
                    stream.send(&client.before);
                    sent += client.before.len() as u64;
                    stream
                })
                .collect();
            servers.wait_until_read(sent);
            (0..hand_overs).for_each(|_| servers.hand_over());
            let go_on = |(mut stream, client): (Stream, &Client)| {
                if !client.after.is_empty() {
                    stream.send(&client.after);
                    stream.finish();
                }
                stream.read_to_end()
            };
            streams.into_iter().zip(clients).map(go_on).collect()
        })
    }

    fn check_in_the_middle(&self, clients: &[Client]) {
        let expected = self.stop_in_the_middle(clients, 0);
        for hand_overs in [1, 3] {
            let received = self.stop_in_the_middle(clients, hand_overs);
            for ((received, expected), client) in received.iter().zip(&expected).zip(clients) {
                check(client, received, expected, "in the middle");
            }
        }
    }

    /// Clients send and read as they like while servers change again and again. Returns how often they did.
    fn check_at_any_moment(&self, clients: &[Client], expected: &[Vec<u8>], seed: u64) -> usize {
        Servers::run(&self.kind, |servers| {
            std::thread::scope(|scope| {
                let all = clients.iter().zip(expected).enumerate();
                let threads: Vec<_> = all
                    .map(|(number, (client, expected))| {
                        let mut stream = self.connect(servers);
                        let mut random = StdRng::seed_from_u64(seed * 1_000 + number as u64);
                        scope.spawn(move || {
                            let bytes = [&client.before[..], &client.after].concat();
                            let received = stream.converse(&bytes, expected.len(), &mut random);
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
}

fn check(client: &Client, received: &[u8], expected: &[u8], when: &str) {
    let end = |bytes: &[u8]| {
        let start = bytes.len().saturating_sub(100);
        bytes[start..].escape_ascii().to_string()
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

#[test]
fn clients_in_every_state_notice_nothing_by_epoll() {
    Setup::plain(epoll, open()).check_in_the_middle(&clients(false, 3));
    Setup::plain(epoll, guarded()).check_in_the_middle(&clients(true, 3));
}

#[test]
fn clients_in_every_state_notice_nothing_by_io_uring() {
    if has_uring() {
        Setup::plain(uring, open()).check_in_the_middle(&clients(false, 3));
        Setup::plain(uring, guarded()).check_in_the_middle(&clients(true, 3));
    }
}

#[test]
fn encrypted_clients_in_every_state_notice_nothing() {
    let clients = clients(false, 2);
    Setup::encrypted(epoll, "epoll", false).check_in_the_middle(&clients);
    Setup::encrypted(epoll, "epoll", true).check_in_the_middle(&clients);
    if has_uring() {
        Setup::encrypted(uring, "uring", false).check_in_the_middle(&clients);
        Setup::encrypted(uring, "uring", true).check_in_the_middle(&clients);
    }
}

/// Runs with some seeds, and prints how often servers changed.
fn check_at_any_moment<D: Real>(setup: &Setup<D>) {
    let clients = clients(false, 2);
    let expected = Setup::plain(epoll, open()).stop_in_the_middle(&clients, 0);
    for seed in 0..3 {
        let hand_overs = setup.check_at_any_moment(&clients, &expected, seed);
        println!("seed {seed}: {hand_overs} hand-overs");
    }
}

#[test]
fn clients_notice_nothing_at_any_moment() {
    check_at_any_moment(&Setup::plain(epoll, open()));
    if has_uring() {
        check_at_any_moment(&Setup::plain(uring, open()));
    }
}

#[test]
fn encrypted_clients_notice_nothing_at_any_moment() {
    for stays in [false, true] {
        check_at_any_moment(&Setup::encrypted(epoll, "epoll-any", stays));
        if has_uring() {
            check_at_any_moment(&Setup::encrypted(uring, "uring-any", stays));
        }
    }
}

/// What it tells depends on the moment, but it comes to its end.
#[test]
fn lists_of_connections_are_told_to_their_end() {
    let setup = Setup::plain(epoll, open());
    Servers::run(&setup.kind, |servers| {
        let _others: Vec<_> = (0..600).map(|_| servers.connect()).collect();
        let mut random = StdRng::seed_from_u64(1);
        for _ in 0..20 {
            let mut stream = setup.connect(servers);
            stream.send(b"stats conns\r\nquit\r\n");
            (0..random.random_range(0..3)).for_each(|_| servers.hand_over());
            let told = String::from_utf8(stream.read_to_end()).unwrap();
            let rows = told.strip_suffix("END\r\n").unwrap();
            assert!(rows.lines().all(|row| row.starts_with("STAT ")), "{told}");
        }
    });
}

/// How long a thousand busy clients wait: printed, as machines differ.
fn pause<D: Real>(driver: fn() -> D) {
    let value = vec![b'x'; 10_000];
    let setup = Setup::plain(driver, open());
    Servers::run(&setup.kind, |servers| {
        let mut sent = 0;
        let request = [b"set v 0 0 10000\r\n", &value[..], b"\r\nget v\r\nget"].concat();
        let mut streams: Vec<_> = (0..1_000)
            .map(|_| {
                let mut stream = setup.connect(servers);
                stream.send(&request);
                sent += request.len() as u64;
                stream
            })
            .collect();
        servers.wait_until_read(sent);
        let began = Instant::now();
        servers.hand_over();
        let last = &mut streams[999];
        let len = b"STORED\r\nVALUE v 0 10000\r\n\r\nEND\r\nEND\r\nVERSION 1.6.45\r\n".len() + value.len();
        last.converse(b" none\r\nversion\r\n", len, &mut StdRng::seed_from_u64(0));
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
