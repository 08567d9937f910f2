//! What peers should not send: each gets memcached's answer, memory stays bounded, and others notice nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng as _, RngCore as _, SeedableRng as _};

use crate::kit::Server;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Longest that a round trip of an innocent connection may take meanwhile, on a busy machine.
const ROUND_TRIP_MAX: Duration = Duration::from_secs(20);

/// What memory may grow by: the cache's own size, and then only what connections are granted.
const GROWTH_MAX: u64 = 64 << 20;

/// Runs `attack` while another connection goes about its business; checks that connection, the server and its memory.
fn while_others_work(attack: impl FnOnce(&Server)) {
    let mut server = Server::start("-m 32 -t 2 -c 1000");
    let resident = server.resident();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let bystander = scope.spawn(|| {
            let mut connection = server.connect();
            let mut turns = 0_u32;
            while !over.load(Ordering::SeqCst) || turns < 10 {
                let start = Instant::now();
                let value = format!("value {turns}");
                connection.send(format!("set bystander 7 0 {}\r\n{value}\r\n", value.len()).as_bytes());
                assert_eq!(connection.line(), "STORED");
                connection.send(b"get bystander\r\n");
                assert_eq!(connection.line(), format!("VALUE bystander 7 {}", value.len()));
                assert_eq!(connection.value(value.len()), value.as_bytes());
                assert_eq!(connection.line(), "END");
                let time = start.elapsed();
                assert!(time < ROUND_TRIP_MAX, "a round trip took {time:?}");
                turns += 1;
                std::thread::park_timeout(Duration::from_millis(1));
            }
        });
        // A panic of the attack must end the bystander too.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| attack(&server)));
        over.store(true, Ordering::SeqCst);
        bystander.join().expect("the other connection is served");
        outcome.expect("the attack is answered as it should be");
    });
    let growth = server.resident().saturating_sub(resident);
    assert!(growth < GROWTH_MAX, "memory grew by {} KiB", growth / 1024);
    assert!(server.is_alive(), "the server ended");
}

#[test]
fn bad_requests_get_memcacheds_answers() {
    const LINE: &str = "CLIENT_ERROR bad command line format\r\n";
    const DELTA: &str = "CLIENT_ERROR invalid numeric delta argument\r\n";
    let key = "k".repeat(251);
    let rows: &[(String, String)] = &[
        (format!("get {key}\r\n"), LINE.into()),
        (format!("set {key} 0 0 1\r\na\r\n"), format!("{LINE}ERROR\r\n")),
        (format!("delete {key}\r\n"), LINE.into()),
        (format!("incr {key} 1\r\n"), LINE.into()),
        (format!("touch {key} 1\r\n"), LINE.into()),
        (format!("mg {key} v\r\n"), LINE.into()),
        (format!("ms {key} 1\r\na\r\n"), format!("{LINE}ERROR\r\n")),
        ("get a\x01b\x7f\r\n".into(), "END\r\n".into()),
        ("set \x01\x02 0 0 1\r\na\r\n".into(), "STORED\r\n".into()),
        ("set a 0 0 -1\r\n".into(), LINE.into()),
        ("set a 0 0 2147483647\r\n".into(), LINE.into()),
        ("set a 0 0 18446744073709551616\r\n".into(), LINE.into()),
        ("set a 0 0 99999999999999999999999\r\n".into(), LINE.into()),
        ("set a 0 0 x\r\n".into(), LINE.into()),
        ("set a -1 0 1\r\na\r\n".into(), format!("{LINE}ERROR\r\n")),
        (
            "set a 0 99999999999999999999 1\r\na\r\n".into(),
            format!("{LINE}ERROR\r\n"),
        ),
        (
            "set a 0 0 3\r\nabcdef\r\n".into(),
            "CLIENT_ERROR bad data chunk\r\nERROR\r\n".into(),
        ),
        (
            "set a 0 0 3\r\nabcde".into(),
            "CLIENT_ERROR bad data chunk\r\n".into(),
        ),
        (
            "set n 0 0 1\r\n5\r\nincr n 18446744073709551616\r\n".into(),
            format!("STORED\r\n{DELTA}"),
        ),
        (
            "set n 0 0 1\r\n5\r\nincr n -1\r\n".into(),
            format!("STORED\r\n{DELTA}"),
        ),
        (
            "cas a 0 0 1 18446744073709551616\r\na\r\n".into(),
            format!("{LINE}ERROR\r\n"),
        ),
        ("set a\r\n".into(), "ERROR\r\n".into()),
        ("\r\n".into(), "ERROR\r\n".into()),
        ("nonsense\r\n".into(), "ERROR\r\n".into()),
        ("gets\r\n".into(), "ERROR\r\n".into()),
        ("ms a 18446744073709551616\r\n".into(), LINE.into()),
        ("ms a -1\r\n".into(), LINE.into()),
        ("\0\0\0\r\n".into(), "ERROR\r\n".into()),
        ("\x16\x03\x01\0\u{25}\x01\r\n".into(), "ERROR\r\n".into()),
        (format!("{}\r\n", "x".repeat(3000)), "ERROR\r\n".into()),
        // HTTP is no mistake to be told about, the connection just ends.
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n".into(), String::new()),
        (
            "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello\r\n".into(),
            String::new(),
        ),
    ];
    while_others_work(|server| {
        for (input, expected) in rows {
            let mut connection = server.connect();
            connection.send(input.as_bytes());
            assert_eq!(&connection.rest(), expected, "to {input:?}");
        }
    });
}

#[test]
fn a_body_that_is_declared_larger_than_allowed_is_swallowed() {
    while_others_work(|server| {
        let mut connection = server.connect();
        connection.send(format!("set big 0 0 {}\r\n", 1024 * MIB).as_bytes());
        let piece = vec![b'x'; MIB];
        for _ in 0..128 {
            connection.send(&piece);
        }
        // And one whose body ends: the connection goes on.
        let mut connection = server.connect();
        connection.send(format!("set big 0 0 {}\r\n", 3 * MIB).as_bytes());
        for _ in 0..3 {
            connection.send(&piece);
        }
        connection.send(b"\r\n");
        assert_eq!(connection.rest(), "SERVER_ERROR object too large for cache\r\n");
    });
}

#[test]
fn declared_bodies_take_no_memory_before_they_come() {
    while_others_work(|server| {
        let mut connections: Vec<_> = (0..400).map(|_| server.connect()).collect();
        for (number, connection) in connections.iter_mut().enumerate() {
            connection.send(format!("set half-{number} 0 0 {}\r\nhalf", 1000 * KIB).as_bytes());
        }
        // They hang, and then they go.
        let mut connection = server.connect();
        connection.send(b"set whole 0 0 4\r\nhere\r\n");
        assert_eq!(connection.line(), "STORED");
        drop(connections);
        connection.send(b"get half-0\r\n");
        assert_eq!(connection.line(), "END");
    });
}

#[test]
fn bodies_that_stop_short_are_bounded() {
    while_others_work(|server| {
        let body = vec![b'x'; 900 * KIB];
        let mut connections: Vec<_> = (0..200).map(|_| server.connect()).collect();
        for (number, connection) in connections.iter_mut().enumerate() {
            // The server may refuse or cut off any of them; it must not keep 180 MiB.
            let line = format!("set short-{number} 0 0 {}\r\n", 1000 * KIB);
            let _ = connection.try_send(line.as_bytes()) && connection.try_send(&body);
        }
        let growth = server.resident();
        assert!(growth < 160 << 20, "{} KiB resident", growth / 1024);
    });
}

#[test]
fn endless_lines_are_cut_off() {
    while_others_work(|server| {
        for start in ["", "set ", "mg ", "\n", "incr x "] {
            let mut connection = server.connect();
            connection.send(start.as_bytes());
            let piece = vec![b'x'; 64 * KIB];
            // 64 MiB without a line end; the server stops listening to it long before.
            let taken = (0..1024).take_while(|_| connection.try_send(&piece)).count();
            assert!(taken < 1024, "an endless line {start:?} was read");
        }
    });
}

#[test]
fn long_lists_of_keys_are_answered() {
    while_others_work(|server| {
        let mut connection = server.connect();
        connection.send(b"set here 0 0 1\r\nx\r\n");
        assert_eq!(connection.line(), "STORED");
        let keys = " here nowhere".repeat(20_000);
        connection.send(format!("get{keys}\r\n").as_bytes());
        for _ in 0..20_000 {
            assert_eq!(connection.line(), "VALUE here 0 1");
            assert_eq!(connection.value(1), b"x");
        }
        assert_eq!(connection.line(), "END");
    });
}

#[test]
fn half_requests_are_forgotten_with_their_connection() {
    while_others_work(|server| {
        let halves: &[&[u8]] = &[
            b"get",
            b"set a 0 0 10\r\nabc",
            b"mg a",
            b"\x80",
            b"\x80\x01\0\x05\x08\0\0\0\0\0\0\x20",
            b"s",
        ];
        for turn in 0..600 {
            let mut connection = server.connect();
            connection.send(halves[turn % halves.len()]);
        }
        let mut connection = server.connect();
        connection.send(b"get a\r\n");
        assert_eq!(connection.line(), "END");
    });
}

#[test]
fn a_slow_sender_is_served() {
    while_others_work(|server| {
        let mut connection = server.connect();
        for byte in b"set slow 0 0 5\r\nhello\r\nget slow\r\n" {
            connection.send(&[*byte]);
            std::thread::park_timeout(Duration::from_millis(2));
        }
        assert_eq!(connection.line(), "STORED");
        assert_eq!(connection.line(), "VALUE slow 0 5");
        assert_eq!(connection.value(5), b"hello");
        assert_eq!(connection.line(), "END");
    });
}

#[test]
fn a_peer_that_does_not_read_holds_up_nobody() {
    while_others_work(|server| {
        let mut connection = server.connect();
        connection.send(format!("set large 0 0 {}\r\n{}\r\n", 500 * KIB, "x".repeat(500 * KIB)).as_bytes());
        assert_eq!(connection.line(), "STORED");
        let mut deaf: Vec<_> = (0..50).map(|_| server.connect()).collect();
        for connection in &mut deaf {
            // 100 MiB of replies each, if it read them.
            connection.send("get large\r\n".repeat(200).as_bytes());
        }
        connection.send(b"get nothing\r\n");
        assert_eq!(connection.line(), "END");
    });
}

#[test]
fn garbage_is_survived() {
    while_others_work(|server| {
        let mut random = StdRng::seed_from_u64(7);
        for turn in 0..60 {
            let mut garbage = vec![0; random.random_range(1..100_000)];
            random.fill_bytes(&mut garbage);
            if turn % 3 == 0 {
                // Looks like the binary protocol.
                garbage[0] = 0x80;
            }
            // Replies are not read: closing ends both sides.
            let _ = server.connect().try_send(&garbage);
        }
    });
}
