use scrubjay_base::time::Now;
use scrubjay_cache::{Cache, Config, PinnedSlice, Worker};
use scrubjay_net::{Next, Output};

use std::sync::Arc;

use crate::service::Shared;
use crate::stats::WorkerCounters;

use super::{BinaryState, handle};
use crate::session::Context;

/// Most bytes that a session may leave in the input while it waits for more. Source: [`Next::Wait`].
const LEFT_OVER_MAX: usize = (64 << 10) + (4 << 10);

/// A request packet; opaque and CAS number 0.
fn packet(opcode: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    declared(opcode, extras, key, value, extras.len() + key.len() + value.len())
}

fn declared(opcode: u8, extras: &[u8], key: &[u8], value: &[u8], body_len: usize) -> Vec<u8> {
    let mut bytes = vec![0x80, opcode];
    bytes.extend_from_slice(&(key.len() as u16).to_be_bytes());
    bytes.extend_from_slice(&[extras.len() as u8, 0, 0, 0]);
    bytes.extend_from_slice(&(body_len as u32).to_be_bytes());
    bytes.extend_from_slice(&[0; 12]);
    [&bytes, extras, key, value].concat()
}

fn set(opcode: u8, key: &str, value: &[u8]) -> Vec<u8> {
    packet(opcode, b"\0\0\0\x05\0\0\0\0", key.as_bytes(), value)
}

/// One reply as text: opcode, status in hex, then extras, key and value in letters.
fn describe(replies: &[u8]) -> Vec<String> {
    let mut rest = replies;
    let mut lines = Vec::new();
    while !rest.is_empty() {
        assert_eq!(rest[0], 0x81, "a reply starts with its magic");
        let body_len = u32::from_be_bytes([rest[8], rest[9], rest[10], rest[11]]) as usize;
        let body = &rest[24..24 + body_len];
        let shown = if body_len > 60 {
            format!("{body_len} bytes")
        } else {
            body.escape_ascii().to_string()
        };
        let space = if body_len == 0 { "" } else { " " };
        lines.push(format!("{:02x} {:x}{space}{shown}", rest[1], rest[7]));
        rest = &rest[24 + body_len..];
    }
    lines
}

struct Server {
    worker: Worker,
    shared: Arc<Shared>,
    counters: WorkerCounters,
}

impl Server {
    fn new(arguments: &[&str]) -> Server {
        let command = crate::options::add_to(clap::Command::new("serve"));
        let matches = command
            .try_get_matches_from([&["serve"], arguments].concat())
            .expect("known options");
        let environment = crate::options::Environment {
            memory_limit: None,
            is_root: false,
        };
        let options = crate::options::resolve(&matches, &environment).expect("good options");
        let config: Config = options.cache_config(1_800_000_000_000, 1);
        let cache = Cache::new(config).expect("memory");
        Server {
            worker: cache.worker(),
            shared: Shared::new(cache, options, None, None),
            counters: WorkerCounters::default(),
        }
    }

    /// Feeds `pieces` one by one; the replies, and whether it closed.
    fn run<'a>(&mut self, pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<u8>, bool) {
        let mut state = BinaryState::default();
        let (mut input, mut replies) = (Vec::new(), Vec::new());
        for (turn, piece) in pieces.into_iter().enumerate() {
            input.extend_from_slice(piece);
            self.worker
                .begin_turn(Now::from_millis(1000 + turn as u64 / 1000));
            loop {
                let mut output: Output<PinnedSlice> = Output::default();
                let mut context = Context {
                    worker: &mut self.worker,
                    shared: &self.shared,
                    counters: &self.counters,
                    now: Now::from_secs(1),
                    rights: crate::auth::Rights::Administer,
                    noted: 0,
                    post: &crate::watch::Post::default(),
                };
                let handled = handle(&mut state, &mut context, &input, &mut output);
                input.drain(..handled.consumed);
                output.pieces().for_each(|piece| replies.extend_from_slice(piece));
                match handled.next {
                    Next::Again => assert!(handled.consumed > 0 || !output.is_empty()),
                    Next::Close | Next::Fail => return (replies, true),
                    _waits => break,
                }
            }
            assert!(input.len() <= LEFT_OVER_MAX);
        }
        (replies, false)
    }
}

/// Runs a session whole, byte by byte and cut in two at every place, each on an empty cache.
#[track_caller]
fn check(requests: &[Vec<u8>], expected: &[&str], closes: bool) {
    let bytes = requests.concat();
    let mut server = Server::new(&["-m", "64"]);
    let mut check = |pieces: Vec<&[u8]>| {
        server.worker.begin_turn(Now::from_secs(1));
        server.worker.flush_all(0);
        let (replies, closed) = server.run(pieces);
        assert_eq!(
            (describe(&replies), closed),
            (expected.iter().map(|&line| line.to_owned()).collect(), closes)
        );
    };
    check(vec![&bytes]);
    if bytes.len() > 10_000 {
        check(bytes.chunks(4096).collect());
        check(bytes.chunks(997).collect());
        return;
    }
    check(bytes.chunks(1).collect());
    for cut in 0..bytes.len() {
        let (first, second) = bytes.split_at(cut);
        check(vec![first, second]);
    }
}

#[test]
fn items_are_stored_and_found() {
    check(
        &[
            packet(0x00, b"", b"k", b""),
            packet(0x0c, b"", b"k", b""),
            set(0x01, "k", b"hello"),
            set(0x02, "k", b"other"),
            packet(0x00, b"", b"k", b""),
            packet(0x0c, b"", b"k", b""),
            packet(0x0e, b"", b"k", b"!"),
            packet(0x0f, b"", b"k", b">"),
            packet(0x1d, b"\0\0\0\0", b"k", b""),
            packet(0x1c, b"\0\0\0\0", b"k", b""),
            packet(0x04, b"", b"k", b""),
            packet(0x04, b"", b"k", b""),
            set(0x03, "k", b"none"),
            packet(0x0e, b"", b"k", b"!"),
        ],
        &[
            "00 1 Not found",
            "0c 1 k",
            "01 0",
            "02 2 Data exists for key.",
            r"00 0 \x00\x00\x00\x05hello",
            r"0c 0 \x00\x00\x00\x05khello",
            "0e 0",
            "0f 0",
            r"1d 0 \x00\x00\x00\x05>hello!",
            r"1c 0 \x00\x00\x00\x05",
            "04 0",
            "04 1 Not found",
            "03 1 Not found",
            "0e 5 Not stored.",
        ],
        false,
    );
}

#[test]
fn quiet_requests_say_only_what_is_unusual() {
    check(
        &[
            packet(0x09, b"", b"k", b""),
            packet(0x0d, b"", b"k", b""),
            set(0x11, "k", b"1"),
            set(0x12, "k", b"2"),
            packet(0x09, b"", b"k", b""),
            packet(0x0d, b"", b"k", b""),
            packet(0x19, b"", b"k", b"2"),
            packet(0x19, b"", b"none", b"2"),
            packet(
                0x15,
                &[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
                b"k",
                b"",
            ),
            packet(0x14, b"", b"k", b""),
            packet(0x14, b"", b"k", b""),
            packet(0x18, b"", b"", b""),
            packet(0x0a, b"", b"", b""),
            packet(0x17, b"", b"", b""),
            packet(0x0a, b"", b"", b""),
        ],
        &[
            "12 2 Data exists for key.",
            r"09 0 \x00\x00\x00\x051",
            r"0d 0 \x00\x00\x00\x05k1",
            "19 5 Not stored.",
            "14 1 Not found",
            "0a 0",
        ],
        true,
    );
}

#[test]
fn numbers_are_counted_and_created() {
    let arith = |opcode, delta: u64, initial: u64, exptime: u32| {
        let extras = [
            &delta.to_be_bytes()[..],
            &initial.to_be_bytes(),
            &exptime.to_be_bytes(),
        ]
        .concat();
        packet(opcode, &extras, b"n", b"")
    };
    check(
        &[
            arith(0x05, 1, 10, u32::MAX),
            arith(0x05, 1, 10, 0),
            arith(0x05, 5, 10, u32::MAX),
            arith(0x06, 6, 0, 0),
            packet(0x00, b"", b"n", b""),
            set(0x01, "n", b"word"),
            arith(0x06, 1, 0, 0),
        ],
        &[
            "05 1 Not found",
            r"05 0 \x00\x00\x00\x00\x00\x00\x00\n",
            r"05 0 \x00\x00\x00\x00\x00\x00\x00\x0f",
            r"06 0 \x00\x00\x00\x00\x00\x00\x00\t",
            r"00 0 \x00\x00\x00\x009 ",
            "01 0",
            "06 6 Non-numeric server-side value for incr or decr",
        ],
        false,
    );
}

#[test]
fn what_is_wrong_is_answered_and_closed_as_memcached_does() {
    let noop = || packet(0x0a, b"", b"", b"");
    let invalid = |request: Vec<u8>| {
        let line = format!("{:02x} 4 Invalid arguments", request[1]);
        check(&[request, noop()], &[&line], true);
    };
    invalid(packet(0x00, b"", b"", b""));
    invalid(packet(0x00, b"abcd", b"k", b""));
    invalid(packet(0x01, b"", b"k", b"v"));
    invalid(packet(0x09, b"", &[b'k'; 251], b""));
    invalid(packet(0x17, b"", b"k", b""));
    invalid(packet(0x1c, b"\0\0\0\0", b"k", b"v"));
    check(
        &[declared(0x00, b"", b"k", b"", 0), noop()],
        &["00 81 Unknown command"],
        true,
    );
    check(
        &[noop(), b"get k\r\n and some more bytes".to_vec()],
        &["0a 0"],
        true,
    );
    // The body of what is unknown is passed over.
    check(
        &[
            packet(0xff, b"ab", b"k", b"v"),
            packet(0x1b, b"\0\0\0\x01", b"", b""),
            packet(0x21, b"", b"PLAIN", b"x"),
            noop(),
        ],
        &[
            "ff 81 Unknown command",
            "1b 81 Unknown command",
            "21 81 Unknown command",
            "0a 0",
        ],
        false,
    );
}

#[test]
fn large_values_come_and_go_in_pieces() {
    let large = vec![b'v'; 300_000];
    let beyond = vec![b'v'; 1 << 20];
    check(
        &[
            set(0x11, "k", &large),
            packet(0x0c, b"", b"k", b""),
            set(0x02, "k", &beyond),
            set(0x13, "k", &beyond),
            packet(0x19, b"", b"k", &beyond),
            packet(0x00, b"", b"k", b""),
            packet(0x19, b"", b"k", &[b'v'; 1_000_000]),
            set(0x11, "k", &beyond),
            packet(0x00, b"", b"k", b""),
        ],
        &[
            "0c 0 300005 bytes",
            "02 3 Too large.",
            "13 3 Too large.",
            "19 3 Too large.",
            "00 0 300004 bytes",
            "19 5 Not stored.",
            "11 3 Too large.",
            "00 1 Not found",
        ],
        false,
    );
}

#[test]
fn four_gigabytes_are_declared_refused_and_passed_over() {
    let request = declared(0x01, &[0; 8], b"k", b"", u32::MAX as usize);
    let piece = vec![b'v'; 1 << 20];
    let value_len = u32::MAX as usize - 9;
    let pieces = std::iter::repeat_n(&piece[..], value_len >> 20);
    let last = &piece[..value_len & ((1 << 20) - 1)];
    let noop = packet(0x0a, b"", b"", b"");
    let mut server = Server::new(&["-m", "64"]);
    let (replies, closed) = server.run([&request[..]].into_iter().chain(pieces).chain([last, &noop]));
    assert_eq!(describe(&replies), ["01 3 Too large.", "0a 0"]);
    assert!(!closed);
}
