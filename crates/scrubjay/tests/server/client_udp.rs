//! The client's multi-gets over datagrams, from real servers over real sockets.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use scrubjay_client::placement;
use scrubjay_client::protocol::{Request, Store};
use scrubjay_client::udp::{Options, Reader};
use scrubjay_client::{Call, Client};

use crate::failover::patient;
use crate::kit::{PATIENCE, Server, until};

const SERVERS: usize = 8;
const KEYS: usize = 500;
/// Bytes of the receive buffer: a thirtieth of what the values are.
const SMALL: usize = 16 << 10;

fn key(number: usize) -> Vec<u8> {
    format!("key-{number}").into_bytes()
}

/// Of every tenth key there is none; the others have 100 to 2,000 bytes.
fn value(number: usize) -> Option<Vec<u8>> {
    let byte = b'a' + (number % 26) as u8;
    (!number.is_multiple_of(10)).then(|| vec![byte; 100 + number * 997 % 1901])
}

/// Servers, a client of theirs, and their values.
fn start() -> (Vec<Server>, Client) {
    let servers: Vec<Server> = (0..SERVERS).map(|_| Server::start("-U -1 -t 1 -m 64")).collect();
    let place = |server: &Server| placement::Server::new("127.0.0.1", server.ports[0]);
    let config = patient(servers.iter().map(place).collect());
    let client = Client::new(config).expect("servers that differ");
    for number in 0..KEYS {
        if let Some(value) = value(number) {
            let key = key(number);
            let request = Request::Store(Store::new(&key, value));
            client.call(request, Call::default()).expect("stored");
        }
    }
    (servers, client)
}

fn addresses(servers: &[Server]) -> Vec<Option<SocketAddr>> {
    let address = |server: &Server| Some(SocketAddr::from(([127, 0, 0, 1], server.ports[1])));
    servers.iter().map(address).collect()
}

/// Asks for everything; every value must be the right one, whichever way it came.
fn check(reader: &mut Reader) {
    let keys: Vec<Vec<u8>> = (0..KEYS).map(key).collect();
    for (number, found) in reader.get_many(&keys, PATIENCE).into_iter().enumerate() {
        let found = found.expect("an answer").map(|found| found.bytes);
        assert_eq!(found, value(number), "key {number}");
    }
}

/// Datagrams that the kernel has dropped for want of room, at the reader and at the servers.
fn dropped(reader: &Reader, servers: &[Server]) -> u64 {
    let mut ports: Vec<u16> = servers.iter().map(|server| server.ports[1]).collect();
    ports.push(reader.local_addr().expect("bound").port());
    let text = fs::read_to_string("/proc/net/udp").expect("Linux");
    let rows = text.lines().skip(1).filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let port = words[1].rsplit(':').next().expect("a port");
        let port = u16::from_str_radix(port, 16).expect("a port");
        ports
            .contains(&port)
            .then(|| words[words.len() - 1].parse::<u64>().expect("a count"))
    });
    rows.sum()
}

#[test]
fn with_the_window_no_datagram_is_lost_in_a_small_buffer_and_without_it_many_are() {
    let (servers, client) = start();
    let small = Options {
        receive_buffer: Some(SMALL),
        ..Options::default()
    };
    // What comes too late meets what was asked for instead: on a busy machine that may be too much.
    let without_loss = || {
        let reader = Reader::with_addresses(&client, addresses(&servers), small.clone());
        let mut with = reader.expect("a reader");
        (0..3).for_each(|_| check(&mut with));
        (with.counts().lost_requests == 0 || dropped(&with, &servers) == 0).then_some(with)
    };
    let with = until(without_loss).expect("a reader whose datagrams all come");
    assert_eq!(dropped(&with, &servers), 0);
    let all_at_once = Options {
        window_min: 1000,
        heed_buffer: false,
        ..small
    };
    let mut without = Reader::with_addresses(&client, addresses(&servers), all_at_once).expect("a reader");
    check(&mut without);
    assert!(dropped(&without, &servers) > 0);
    assert!(without.counts().fallback_keys > 0, "{:?}", without.counts());
}

#[test]
fn memcached_answers_as_well() {
    let servers = [Server::start_memcached("-U -1")];
    let place = placement::Server::new("127.0.0.1", servers[0].ports[0]);
    let client = Client::new(patient(vec![place])).expect("a server");
    client
        .call(Request::Store(Store::new(b"k", b"v".as_slice())), Call::default())
        .expect("stored");
    let options = Options {
        fallback: false,
        ..Options::default()
    };
    let mut reader = Reader::with_addresses(&client, addresses(&servers), options).expect("a reader");
    // One that comes later than others did is taken for lost.
    let all_answered = || {
        let found = reader.get_many(&["k", "nothing", ""], PATIENCE);
        found[..2].iter().all(Result::is_ok).then_some(found)
    };
    let found = until(all_answered).expect("answers in time");
    let bytes = |found: &Result<Option<scrubjay_client::protocol::Value>, _>| {
        found
            .as_ref()
            .expect("an answer")
            .as_ref()
            .map(|value| value.bytes.clone())
    };
    assert_eq!(bytes(&found[0]), Some(b"v".to_vec()));
    assert_eq!(bytes(&found[1]), None);
    assert!(found[2].is_err(), "no key");
}

#[test]
fn one_reader_asks_servers_of_both_address_families() {
    let four = Server::start("-U -1 -l 127.0.0.1");
    let Ok(six) = UdpSocket::bind("[::1]:0") else {
        return;
    };
    // Answers a miss to everything, as a server would that is asked by one key and `mn`.
    let address = six.local_addr().expect("bound");
    std::thread::spawn(move || {
        let mut buffer = [0; 2000];
        while let Ok((len, from)) = six.recv_from(&mut buffer) {
            let text = String::from_utf8_lossy(&buffer[8..len]).into_owned();
            let lines = text.lines().map(|line| match line.split_once(" O") {
                Some((_, opaque)) => format!("EN O{opaque}\r\n"),
                None => "MN\r\n".to_owned(),
            });
            let reply = [&buffer[..8], lines.collect::<String>().as_bytes()].concat();
            let _ = six.send_to(&reply, from);
        }
    });
    let places = vec![
        placement::Server::new("127.0.0.1", four.ports[0]),
        placement::Server::new("::1", address.port()),
    ];
    let client = Client::new(patient(places)).expect("servers that differ");
    let addresses = vec![Some(([127, 0, 0, 1], four.ports[1]).into()), Some(address)];
    let options = Options {
        fallback: false,
        ..Options::default()
    };
    let mut reader = Reader::with_addresses(&client, addresses, options).expect("a reader");
    let keys: Vec<Vec<u8>> = (0..100).map(key).collect();
    // One that comes later than others did is taken for lost.
    let all_answered = || {
        let found = reader.get_many(&keys, PATIENCE);
        found.iter().all(|found| *found == Ok(None)).then_some(())
    };
    until(all_answered).expect("answers in time");
}

/// Passes datagrams on, both ways, and drops every fifth reply if it is told to.
fn relay(server: SocketAddr, is_lossy: &Arc<AtomicBool>) -> SocketAddr {
    let socket = || UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let (front, back) = (Arc::new(socket()), Arc::new(socket()));
    back.connect(server).expect("our machine");
    let address = front.local_addr().expect("bound");
    let client = Arc::new(Mutex::new(None));
    // Both end with the process.
    let requests = (Arc::clone(&front), Arc::clone(&back), Arc::clone(&client));
    std::thread::spawn(move || {
        let (front, back, client) = requests;
        let mut buffer = [0; 2000];
        while let Ok((len, from)) = front.recv_from(&mut buffer) {
            *client.lock().expect("no panic") = Some(from);
            let _ = back.send(&buffer[..len]);
        }
    });
    let is_lossy = Arc::clone(is_lossy);
    std::thread::spawn(move || {
        let mut buffer = [0; 2000];
        let mut count = 0;
        while let Ok(len) = back.recv(&mut buffer) {
            count += 1;
            let client = client.lock().expect("no panic").expect("it has asked");
            // Relaxed: a moment sooner or later makes no difference.
            if count % 5 > 0 || !is_lossy.load(Ordering::Relaxed) {
                let _ = front.send_to(&buffer[..len], client);
            }
        }
    });
    address
}

#[test]
fn losses_shrink_the_window_and_everything_is_answered_all_the_same() {
    let (servers, client) = start();
    let is_lossy = Arc::new(AtomicBool::new(false));
    let relays = addresses(&servers)
        .into_iter()
        .map(|server| server.map(|server| relay(server, &is_lossy)));
    let options = Options {
        heed_buffer: false,
        ..Options::default()
    };
    let mut reader = Reader::with_addresses(&client, relays.collect(), options).expect("a reader");
    let start = reader.window();
    // On a busy machine some replies come too late.
    let grown = until(|| {
        check(&mut reader);
        Some(reader.window()).filter(|window| *window > start)
    });
    let grown = grown.expect("a window that grows");
    is_lossy.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        check(&mut reader);
    }
    assert!(
        reader.window() < grown,
        "from {grown} to {} keys",
        reader.window()
    );
    let counts = reader.counts();
    assert!(counts.lost_requests > 0 && counts.fallback_keys > 0, "{counts:?}");
}
