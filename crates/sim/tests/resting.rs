//! What an idle connection takes of the process's memory, counted at the allocator.

use std::alloc::System;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use scrubjay_io::clock::Clock;
use scrubjay_io::driver::choice::{self, Drivers};
use scrubjay_io::driver::{Listener, datagrams};
use scrubjay_net::{BusyPoll, Config, Control, Counters, Limits, Live, Sockets};
use scrubjay_sim::serving::Serving;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const CONNECTIONS: usize = 384;

/// Bytes of an idle connection, its share of lists and half-filled chunks included.
const RESTING_MAX: usize = 160;

fn live() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// Moves a value of 4 KB in and out, in two requests that come in pieces, and leaves nothing unanswered.
fn move_value(connection: &mut TcpStream) {
    let value = [b'x'; 4096];
    let request = [&b"set key 0 0 4096\r\n"[..], &value, b"\r\nget key\r\n"].concat();
    let reply = [&b"STORED\r\nVALUE key 0 4096\r\n"[..], &value, b"\r\nEND\r\n"].concat();
    let mut received = vec![0; reply.len()];
    for piece in request.chunks(3_000) {
        connection.write_all(piece).expect("the server reads");
    }
    connection.read_exact(&mut received).expect("the server answers");
    assert!(received == reply);
}

fn connect(address: SocketAddr, count: usize) -> Vec<TcpStream> {
    let connect = |_| {
        let mut connection = TcpStream::connect(address).expect("the server listens");
        connection
            .set_read_timeout(Some(Duration::from_secs(60)))
            .expect("a time that is allowed");
        move_value(&mut connection);
        connection
    };
    (0..count).map(connect).collect()
}

#[test]
fn an_idle_connection_that_has_moved_a_value_takes_little() {
    let files = 2 * CONNECTIONS as u64 + 100;
    scrubjay_io::process::raise_open_files(files).expect("as many files as tests are usually allowed");
    let serving = Serving::new(&["-m".to_owned(), "16".to_owned()]).expect("good options");
    let listener = Listener::tcp((Ipv4Addr::LOCALHOST, 0).into(), 64).expect("a free port");
    let address = listener.address().expect("a TCP address");
    let sockets = Sockets::<_, datagrams::Socket, _> {
        listeners: vec![listener],
        udp: None,
        carried: Vec::new(),
    };
    let config = Config {
        cores: Vec::new(),
        limits: Live::new(Limits {
            connections_max: 2 * CONNECTIONS,
            refusal: None,
            connections_per_address: 0,
            refusal_of_address: b"",
            requests_per_address: 0,
            requests_per_user: 0,
            idle_timeout_secs: 0,
            busy_poll: BusyPoll::Micros(0),
        }),
    };
    let (counters, control) = (Arc::new(Counters::default()), Arc::new(Control::default()));
    std::thread::scope(|scope| {
        let (serving, counters, control) = (&serving, &counters, &control);
        let config = &config;
        let server = scope.spawn(move || {
            let service = |_| serving.service();
            let opened = choice::open(None, 1, Clock::start())?;
            match opened.drivers {
                Drivers::Epoll(drivers) => {
                    scrubjay_net::run(config, drivers, sockets, counters, control, service).map(drop)
                }
                Drivers::Uring(drivers) => {
                    scrubjay_net::run(config, drivers, sockets, counters, control, service).map(drop)
                }
            }
        });
        let warm = connect(address, 64);
        let before = live();
        let idle = connect(address, CONNECTIONS - warm.len());
        let held = live() - before - idle.capacity() * size_of::<TcpStream>();
        control.stop_gracefully();
        server.join().expect("no panic").expect("a clean end");
        let each = held / idle.len();
        assert!(each <= RESTING_MAX, "{each} bytes a connection");
        assert!(each >= 64, "{each} bytes a connection: something is not counted");
    });
}
