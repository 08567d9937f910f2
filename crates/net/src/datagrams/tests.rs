//! A worker's datagrams over a simulated socket: what is answered, to whom, and how much in a turn.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use scrubjay_base::time::Now;
use scrubjay_io::driver::sim::{self, Faults, Network, Sim};

use super::{BYTES_PER_TURN, Datagrams, Place, UdpConfig};
use crate::live::Live;
use crate::output::Output;
use crate::service::{Handled, Next, Peer, Service};
use crate::udp::{HEADER_LEN, Header, Policy, REPLY_LEN_MAX, SENT_LEN_MAX, Words};

const PORT: u16 = 11211;

/// Answers each line with as many bytes as it says, one line in a call.
#[derive(Default)]
struct Lines {
    open: usize,
    handled: usize,
}

impl Service for Lines {
    type Session = ();
    type Shared = Vec<u8>;

    fn open(&mut self, peer: Peer) {
        assert!(matches!(peer, Peer::Udp(_)));
        self.open += 1;
    }

    fn close(&mut self, (): ()) {
        self.open -= 1;
    }

    fn begin_turn(&mut self, _now: Now) {}

    fn go_idle(&mut self) {}

    fn handle(&mut self, (): &mut (), input: &[u8], output: &mut Output<Vec<u8>>) -> Handled {
        let Some(end) = input.iter().position(|byte| *byte == b'\n') else {
            let next = Next::Wait;
            return Handled { consumed: 0, next };
        };
        self.handled += 1;
        let len = std::str::from_utf8(&input[..end])
            .ok()
            .and_then(|line| line.parse().ok());
        output.push_shared(vec![b'x'; len.unwrap_or(0)]);
        let next = if end + 1 < input.len() {
            Next::Again
        } else {
            Next::Wait
        };
        Handled {
            consumed: end + 1,
            next,
        }
    }
}

struct Setup {
    driver: Sim,
    service: Lines,
    datagrams: Datagrams<sim::Datagrams>,
    config: Arc<Live<UdpConfig>>,
}

impl Setup {
    fn new() -> Setup {
        let config = Live::new(UdpConfig {
            policy: Policy {
                allowed: vec!["10.0.0.0/8".parse().expect("a network")],
                factor: 3,
            },
            words: Words {
                split: b"split",
                incomplete: b"incomplete",
                soon: b"soon",
                too_large: b"too large",
                not_allowed: "not allowed, and that is a long story".to_owned(),
                not_allowed_short: b"not allowed",
            },
        });
        let socket = sim::Datagrams {
            arriving: VecDeque::new(),
            sent: Vec::new(),
            room: usize::MAX,
        };
        Setup {
            driver: Network::new(1, Faults::NONE).driver(),
            service: Lines::default(),
            datagrams: Datagrams::new(vec![Place { socket, port: PORT }], &config),
            config,
        }
    }

    fn socket(&mut self) -> &mut sim::Datagrams {
        &mut self.datagrams.places[0].socket
    }

    fn arrive(&mut self, bytes: &[u8], from: &str) {
        let from = from.parse().expect("an address");
        self.socket().arriving.push_back((bytes.to_vec(), from));
    }

    fn turn(&mut self) -> Vec<(Vec<u8>, SocketAddr)> {
        self.datagrams.receive(&mut self.driver, 0);
        let mut output = Output::default();
        self.datagrams
            .turn(&mut self.driver, &mut self.service, &mut output);
        assert!(output.is_empty());
        assert_eq!(self.service.open, 0, "a session ends with its datagram");
        std::mem::take(&mut self.socket().sent)
    }
}

fn request(id: u16, sequence: u16, total: u16, lines: &[u8]) -> Vec<u8> {
    let header = Header {
        request: id,
        sequence,
        total,
    };
    [&header.encode(), lines].concat()
}

/// The reply to one datagram from this address, whole; `None` for silence.
fn ask(datagram: &[u8], from: &str) -> (Option<Vec<u8>>, Setup) {
    let mut setup = Setup::new();
    setup.arrive(datagram, from);
    let sent = setup.turn();
    let mut whole = Vec::new();
    for (number, (bytes, to)) in sent.iter().enumerate() {
        assert_eq!(*to, from.parse::<SocketAddr>().expect("an address"));
        let (header, rest) = Header::parse(bytes).expect("a reply");
        assert_eq!(usize::from(header.sequence), number);
        assert_eq!(usize::from(header.total), sent.len());
        whole.extend_from_slice(rest);
    }
    ((!sent.is_empty()).then_some(whole), setup)
}

#[test]
fn who_may_be_sent_what_changes_from_one_turn_to_the_next() {
    let mut setup = Setup::new();
    let reply = |setup: &mut Setup| {
        setup.arrive(&request(7, 0, 1, b"26\n"), "9.9.9.9:1");
        let sent = setup.turn();
        sent[0].0.len()
    };
    let refused = HEADER_LEN + b"not allowed".len();
    assert_eq!(reply(&mut setup), refused);
    let mut config = setup.config.see().clone();
    config.policy.factor = 4;
    setup.config.set(config);
    assert_eq!(reply(&mut setup), HEADER_LEN + 26);
}

#[test]
fn a_datagram_is_answered_as_a_whole_or_refused() {
    const HERE: &str = "127.0.0.1:5000";
    fn check(datagram: &[u8], from: &str, expected: Option<&[u8]>, dropped: u64, refused: u64) {
        let (reply, setup) = ask(datagram, from);
        assert_eq!(reply.as_deref(), expected, "{datagram:?} from {from}");
        let counts = &setup.datagrams.counts;
        assert_eq!(
            (counts.dropped, counts.refused),
            (dropped, refused),
            "{datagram:?}"
        );
        assert_eq!(counts.requests, 1 - dropped);
    }
    let one = |lines: &[u8]| request(7, 0, 1, lines);
    check(&one(b"2\n3\n"), HERE, Some(b"xxxxx"), 0, 0);
    check(&one(b"0\n"), HERE, None, 0, 0);
    check(&one(b"2\n3"), HERE, Some(b"xxincomplete"), 0, 0);
    check(
        &one(format!("{}\n", REPLY_LEN_MAX + 1).as_bytes()),
        HERE,
        Some(b"too large"),
        0,
        0,
    );
    // As memcached: only the total tells.
    check(&request(7, 5, 1, b"1\n"), HERE, Some(b"x"), 0, 0);
    // Only the first datagram of a split request is answered.
    check(&request(7, 0, 2, b"1\n"), HERE, Some(b"split"), 0, 0);
    check(&request(7, 1, 2, b"1\n"), HERE, None, 0, 0);
    check(&request(7, 0, 0, b"1\n"), HERE, None, 1, 0);
    check(&one(b""), HERE, None, 1, 0);
    check(&one(b"1\n")[..5], HERE, None, 1, 0);
    check(b"", HERE, None, 1, 0);
    // The port of a server like this one.
    check(&one(b"1\n"), "127.0.0.1:11211", None, 1, 0);
    // Eleven bytes may be answered with 33, header included.
    check(&one(b"22\n"), "9.9.9.9:1", Some(&[b'x'; 22]), 0, 0);
    check(&one(b"26\n"), "9.9.9.9:1", Some(b"not allowed"), 0, 1);
    check(&one(b"26\n"), "10.9.9.9:1", Some(&[b'x'; 26]), 0, 0);
    check(&one(b"26"), "9.9.9.9:1", Some(b"incomplete"), 0, 0);
    check(
        &one(b"99\n0\n0\n"),
        "9.9.9.9:1",
        Some(b"not allowed, and that is a long story"),
        0,
        1,
    );
    let many = [&b"9999\n"[..], &[b'\n'; 20]].concat();
    check(
        &one(&many),
        "9.9.9.9:1",
        Some(b"not allowed, and that is a long story"),
        0,
        1,
    );
}

#[test]
fn nobody_outside_gets_more_than_the_factor_whatever_is_asked() {
    for len in (0..120).chain([5_000, 100_000]) {
        for padding in 0..40 {
            let lines = [format!("{len}").as_bytes(), b"\n", &vec![b'\n'; padding]].concat();
            for (sequence, total) in [(0, 1), (0, 2)] {
                let datagram = request(1, sequence, total, &lines);
                let mut setup = Setup::new();
                setup.arrive(&datagram, "9.9.9.9:9");
                let sent: usize = setup.turn().iter().map(|(bytes, _)| bytes.len()).sum();
                assert!(sent <= 3 * datagram.len(), "{sent} bytes for {}", datagram.len());
            }
        }
    }
}

#[test]
fn a_turn_is_bounded_and_nothing_received_is_forgotten() {
    let mut setup = Setup::new();
    for id in 0..100 {
        setup.arrive(&request(id, 0, 1, b"100000\n"), "127.0.0.1:1");
    }
    let (mut turns, mut seen) = (0, Vec::new());
    while setup.datagrams.has_more_to_do() || !setup.socket().arriving.is_empty() {
        let sent = setup.turn();
        let bytes: usize = sent.iter().map(|(bytes, _)| bytes.len()).sum();
        assert!(bytes <= BYTES_PER_TURN + 110_000, "{bytes} bytes in a turn");
        seen.extend(sent.iter().filter_map(|(bytes, _)| {
            let (header, _) = Header::parse(bytes)?;
            (header.sequence == 0).then_some(header.request)
        }));
        turns += 1;
    }
    assert_eq!(seen, (0..100).collect::<Vec<u16>>());
    assert!(turns >= 34, "{turns} turns");
    assert_eq!(setup.service.handled, 100);
}

#[test]
fn what_the_socket_does_not_take_is_lost_and_counted() {
    let mut setup = Setup::new();
    setup.socket().room = 3;
    for id in 0..2 {
        setup.arrive(&request(id, 0, 1, b"5000\n"), "127.0.0.1:1");
    }
    assert_eq!(setup.turn().len(), 3);
    let counts = &setup.datagrams.counts;
    assert_eq!((counts.replies, counts.unsent), (3, 5));
    assert!(!setup.datagrams.has_more_to_do());
}

#[test]
fn arbitrary_datagrams_are_survived() {
    let mut setup = Setup::new();
    let mut state = 1u64;
    let mut next = move || {
        // Constants of Knuth's MMIX generator.
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) as usize
    };
    for _ in 0..2_000 {
        let len = next() % 40;
        let bytes: Vec<u8> = (0..len)
            .map(|_| match next() % 4 {
                0 => b'\n',
                1 => b'1',
                2 => 0,
                _ => next() as u8,
            })
            .collect();
        setup.arrive(&bytes, "127.0.0.1:1");
        for (reply, _) in setup.turn() {
            assert!(reply.len() <= SENT_LEN_MAX);
            assert!(Header::parse(&reply).is_some());
        }
    }
    let counts = &setup.datagrams.counts;
    assert_eq!(counts.requests + counts.dropped, 2_000);
}
