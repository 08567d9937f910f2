//! UDP over real sockets, beside Debian's memcached where that can be asked.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::UdpSocket;

use scrubjay_io::clock::Clock;
use scrubjay_io::driver::epoll::Epoll;
use scrubjay_io::driver::{Driver, datagrams};

use crate::kit::{PATIENCE, Server, ask, said_by};

/// A client of one server.
struct Client {
    socket: UdpSocket,
    id: u16,
}

impl Client {
    fn new(server: &Server) -> Client {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        socket
            .connect(("127.0.0.1", server.ports[1]))
            .expect("our machine");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Client { socket, id: 0 }
    }

    /// Sends requests under a new id.
    fn send(&mut self, requests: &[u8]) -> u16 {
        self.id = self.id.wrapping_add(1);
        let datagram = [&frame(self.id, 0, 1)[..], requests].concat();
        self.socket.send(&datagram).expect("sent");
        self.id
    }

    fn receive(&self) -> (u16, u16, u16, Vec<u8>) {
        let mut buffer = [0; 2000];
        let len = self.socket.recv(&mut buffer).expect("a datagram");
        let field = |at: usize| u16::from_be_bytes([buffer[at], buffer[at + 1]]);
        assert!((8..=1400).contains(&len), "{len} bytes");
        assert_eq!(field(6), 0, "reserved");
        (field(0), field(2), field(4), buffer[8..len].to_vec())
    }

    /// Sends requests and puts the reply together from its datagrams, in whatever order they come.
    fn ask(&mut self, requests: &[u8]) -> Vec<u8> {
        let id = self.send(requests);
        let mut parts = BTreeMap::new();
        loop {
            let (reply_id, sequence, total, bytes) = self.receive();
            assert_eq!(reply_id, id, "a reply to something else");
            assert!(sequence < total && parts.insert(sequence, bytes).is_none());
            if parts.len() == usize::from(total) {
                return parts.into_values().flatten().collect();
            }
        }
    }

    fn check(&mut self, requests: &[u8], expected: &[u8]) {
        let reply = self.ask(requests);
        let [asked, reply, expected] = [requests, &reply, expected].map(String::from_utf8_lossy);
        assert_eq!(reply, expected, "to {asked:?}");
    }
}

fn frame(id: u16, sequence: u16, total: u16) -> [u8; 8] {
    let [i, s, t] = [id, sequence, total].map(u16::to_be_bytes);
    [i[0], i[1], s[0], s[1], t[0], t[1], 0, 0]
}

#[test]
fn single_requests_are_answered_as_memcached_answers_them() {
    let servers = [Server::start("-U -1"), Server::start_memcached("-U -1")];
    let binary_get = [&[0x80, 0, 0, 1][..], &[0; 7], &[1, 0, 0, 0, 9], &[0; 8], b"a"].concat();
    let requests: Vec<Vec<u8>> = vec![
        b"get a\r\n".to_vec(),
        b"set a 5 0 3\r\nabc\r\n".to_vec(),
        b"get a\r\n".to_vec(),
        b"add a 0 0 1\r\nx\r\n".to_vec(),
        b"append a 0 0 1\r\nd\r\n".to_vec(),
        b"mg a v f k Oq\r\n".to_vec(),
        b"ms m 2 T0\r\n12\r\n".to_vec(),
        b"incr m 30\r\n".to_vec(),
        b"mn\r\n".to_vec(),
        b"touch a 100\r\n".to_vec(),
        b"delete m\r\n".to_vec(),
        b"delete m\r\n".to_vec(),
        b"no such command\r\n".to_vec(),
        b"verbosity 0\r\n".to_vec(),
        binary_get,
        [b"set large 0 0 30000\r\n", &[b'x'; 30_000][..], b"\r\n"].concat(),
        b"get large\r\n".to_vec(),
        b"flush_all\r\n".to_vec(),
        b"get a\r\n".to_vec(),
    ];
    let [ours, theirs] = servers.each_ref().map(|server| {
        let mut client = Client::new(server);
        requests
            .iter()
            .map(|request| client.ask(request))
            .collect::<Vec<_>>()
    });
    for ((request, ours), theirs) in requests.iter().zip(ours).zip(theirs) {
        let [asked, ours, theirs] = [request, &ours, &theirs].map(|bytes| String::from_utf8_lossy(bytes));
        assert_eq!(ours, theirs, "to {asked:?}");
    }
}

#[test]
fn everything_in_a_datagram_is_answered_in_one_numbered_reply() {
    let server = Server::start("-U -1 -t 2");
    let mut client = Client::new(&server);
    client.check(
        b"set a 0 0 1\r\nx\r\nget a\r\nget a b a\r\nmn\r\nversions\r\n",
        b"STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\nVALUE a 0 1\r\nx\r\nVALUE a 0 1\r\nx\r\nEND\r\nMN\r\nERROR\r\n",
    );
    client.check(b"get a\r\nquit\r\nget a\r\n", b"VALUE a 0 1\r\nx\r\nEND\r\n");
    let incomplete = b"CLIENT_ERROR the datagram ends in the middle of a request\r\n";
    client.check(b"get a", incomplete);
    client.check(
        b"mn\r\nset a 0 0 10\r\nabc",
        &[b"MN\r\n", &incomplete[..]].concat(),
    );
    client.check(b"set huge 0 0 1000000\r\nabc", incomplete);
    client.check(b"get huge\r\nget a\r\n", b"END\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
    // Silence is what was asked for: the next reply is the next request's.
    client.send(b"set a 0 0 1 noreply\r\ny\r\n");
    client.check(b"get a\r\n", b"VALUE a 0 1\r\ny\r\nEND\r\n");
    for len in [1_371, 1_372, 1_373, 1_374, 3_000, 60_000] {
        let value = vec![b'v'; len];
        let set = [format!("set big 0 0 {len}\r\n").as_bytes(), &value, b"\r\n"].concat();
        client.check(&set, b"STORED\r\n");
        let get = [
            format!("VALUE big 0 {len}\r\n").as_bytes(),
            &value,
            b"\r\nEND\r\n",
        ]
        .concat();
        client.check(b"get big\r\n", &get);
    }
    client.check(
        b"stats conns\r\n",
        b"CLIENT_ERROR this is answered by TCP only\r\n",
    );
}

#[test]
fn large_values_come_over_many_datagrams_and_larger_ones_are_refused() {
    let server = Server::start("-U -1 -t 1");
    let mut stream = server.connect();
    // The first fits into a socket's buffer as the kernel gives it by default; of the second the start is enough.
    for len in [80_000, 1_000_000] {
        let value: Vec<u8> = (0..len).map(|at| b'a' + (at % 23) as u8).collect();
        let set = [format!("set big 0 0 {len}\r\n").as_bytes(), &value].concat();
        stream.write_all(&set).expect("sent");
        assert_eq!(ask(&mut stream, ""), "STORED");
        let start = format!("VALUE big 0 {len}\r\n");
        let expected = [start.as_bytes(), &value, b"\r\nEND\r\n"].concat();
        let mut client = Client::new(&server);
        if len < 100_000 {
            client.check(b"get big\r\n", &expected);
        } else {
            let id = client.send(b"get big\r\n");
            let (reply_id, sequence, total, bytes) = client.receive();
            assert_eq!(
                (reply_id, sequence, usize::from(total)),
                (id, 0, expected.len().div_ceil(1392))
            );
            assert_eq!(bytes, expected[..1392]);
        }
    }
    Client::new(&server).check(
        b"get big big\r\n",
        b"SERVER_ERROR reply too large for UDP; ask for less at a time, or by TCP\r\n",
    );
}

#[test]
fn ten_thousand_datagrams_in_a_window_are_all_answered_and_others_have_their_turn() {
    let server = Server::start("-U -1 -t 1");
    let mut client = Client::new(&server);
    client.check(b"set a 0 0 1\r\nx\r\n", b"STORED\r\n");
    // Small enough for the least socket buffers.
    const WINDOW: usize = 64;
    let mut other = Client::new(&server);
    let mut stream = server.connect();
    for round in 0..10_000 / WINDOW + 1 {
        let ids: Vec<u16> = (0..WINDOW).map(|_| client.send(b"get a\r\n")).collect();
        if round % 10 == 0 {
            other.check(b"mn\r\n", b"MN\r\n");
            assert_eq!(ask(&mut stream, "mn"), "MN");
        }
        for id in ids {
            let expected = (id, 0, 1, b"VALUE a 0 1\r\nx\r\nEND\r\n".to_vec());
            assert_eq!(client.receive(), expected);
        }
    }
    assert_eq!(server.statistic("udp_dropped"), 0);
    assert_eq!(server.statistic("udp_unsent"), 0);
    assert!(server.statistic("udp_requests") > 10_000);
}

#[test]
fn requests_that_come_as_one_message_are_answered_each_by_its_number() {
    const COUNT: u16 = 40;
    let server = Server::start("-U -1 -t 1");
    Client::new(&server).check(b"set a 0 0 1\r\nx\r\n", b"STORED\r\n");
    let address = ([127, 0, 0, 1], server.ports[1]).into();
    let mut driver = Epoll::new(Clock::start()).expect("a queue");
    let mut client = datagrams::Socket::connect(address).expect("a socket");
    driver.add_datagrams(&client, 0).expect("watched");
    let mut outbox = datagrams::Outbox::default();
    for id in 0..COUNT {
        outbox.bytes().extend_from_slice(&frame(id, 0, 1));
        // All but the last are equally long, so that the kernel is handed one message; some find nothing.
        let key = ["a", "b"][usize::from(id % 7 == 3)];
        let end = ["\r\n", "\n"][usize::from(id + 1 == COUNT)];
        outbox
            .bytes()
            .extend_from_slice(format!("get {key}{end}").as_bytes());
        outbox.finish(address);
    }
    assert_eq!(driver.send(&mut client, &mut outbox), 0);
    let (mut inbox, mut ready) = (datagrams::Inbox::default(), Vec::new());
    let mut next = 0;
    while next < COUNT {
        let patience = PATIENCE.as_millis() as u32;
        driver.wait(Some(patience), &mut ready).expect("waited");
        assert!(!ready.is_empty(), "{next} replies came");
        driver.receive(&mut client, &mut inbox).expect("received");
        for index in 0..inbox.len() {
            let reply = ["VALUE a 0 1\r\nx\r\nEND\r\n", "END\r\n"][usize::from(next % 7 == 3)];
            let expected = [&frame(next, 0, 1)[..], reply.as_bytes()].concat();
            assert_eq!(inbox.get(index), (&expected[..], address));
            next += 1;
        }
    }
    assert_eq!(server.statistic("udp_requests"), u64::from(COUNT) + 1);
    assert_eq!(server.statistic("udp_dropped"), 0);
}

#[test]
fn split_short_and_random_frames_do_no_harm() {
    let server = Server::start("-U -1 -t 1");
    let mut client = Client::new(&server);
    let split = b"SERVER_ERROR multi-packet request not supported\r\n".to_vec();
    client
        .socket
        .send(&[&frame(9, 0, 2)[..], b"get a\r\n"].concat())
        .expect("sent");
    assert_eq!(client.receive(), (9, 0, 1, split));
    let dropped: [&[u8]; 4] = [
        b"",
        b"short",
        &frame(9, 0, 1),
        &[&frame(9, 0, 0)[..], b"mn\r\n"].concat(),
    ];
    for datagram in dropped {
        client.socket.send(datagram).expect("sent");
    }
    client.check(b"mn\r\n", b"MN\r\n");
    assert_eq!(server.statistic("udp_dropped"), 4);
    let mut state = 7u64;
    let mut random = move || {
        // Constants of Knuth's MMIX generator.
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) as usize
    };
    let words: [&[u8]; 8] = [
        b"get ",
        b"a",
        b"\r\n",
        b"set a 0 0 ",
        b"5",
        b"ms a ",
        b"\x80",
        b"\0\0\0",
    ];
    let mut other = Client::new(&server);
    for round in 0..3_000 {
        // More at a time than sockets' buffers take would be lost, and with them what is to be answered.
        if round % 64 == 0 {
            other.check(b"mn\r\n", b"MN\r\n");
        }
        let mut datagram = match random() % 4 {
            0 => Vec::new(),
            _ => frame(1, 0, (random() % 8 != 0).into()).to_vec(),
        };
        for _ in 0..random() % 12 {
            match random() % 4 {
                0 => datagram.push(random() as u8),
                _ => datagram.extend_from_slice(words[random() % words.len()]),
            }
        }
        client.socket.send(&datagram).expect("sent");
    }
    other.check(b"mn\r\n", b"MN\r\n");
}

#[test]
fn udp_is_off_unless_asked_for_and_never_beside_a_login() {
    let mut server = Server::start("");
    assert_eq!(server.ports.len(), 1);
    server.child.kill().expect("our child");
    let mut server = Server::start_as("-p 0 -U -1 -t 2");
    assert_eq!(server.ports.len(), 1, "a line for UDP only");
    server.ports.insert(0, 0);
    Client::new(&server).check(b"mn\r\n", b"MN\r\n");
    crate::kit::signal(server.child.id(), "TERM");
    crate::kit::wait(&mut server.child).expect("ends");
    let said = server.output();
    assert!(said.contains("(UDP)"), "{said}");
    let taken = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("bound").port();
    let said = said_by(&format!("-p -1 -U {port}"), 71);
    assert!(said.contains("another port with -U"), "{said}");
}
