//! Two workers over real sockets.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use scrubjay_base::time::Now;
use scrubjay_io::clock::Clock;
use scrubjay_io::driver::choice::Kind;
use scrubjay_io::driver::epoll::Epoll;
use scrubjay_io::driver::uring::Uring;
use scrubjay_io::driver::{Driver, Listener, Socket, datagrams};
use scrubjay_net::{
    BusyPoll, Config, Control, Counters, Handled, Limits, Live, Next, Output, Peer, Service, Sockets,
};

/// How long anything may take before the test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends back what it gets, at most 10,000 bytes at a time.
struct Echo;

impl Service for Echo {
    type Session = ();
    type Shared = Vec<u8>;

    fn open(&mut self, _peer: Peer) {}

    fn begin_turn(&mut self, _now: Now) {}

    fn go_idle(&mut self) {}

    fn handle(&mut self, _session: &mut (), input: &[u8], output: &mut Output<Vec<u8>>) -> Handled {
        let consumed = input.len().min(10_000);
        let (copied, shared) = input[..consumed].split_at(consumed / 2);
        output.bytes().extend_from_slice(copied);
        output.push_shared(shared.to_vec());
        let next = match consumed < input.len() {
            true => Next::Again,
            false => Next::Wait,
        };
        Handled { consumed, next }
    }
}

/// Sends a million bytes while reading them back.
fn echo_all(mut writer: impl Write + Send, mut reader: impl Read, seed: usize) {
    let sent: Vec<u8> = (0..1_000_000)
        .map(|at| ((at * 31 + seed * 7) >> 3) as u8)
        .collect();
    let mut received = vec![0; sent.len()];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for piece in sent.chunks(7_000 + seed * 997) {
                writer.write_all(piece).expect("the server reads");
            }
        });
        reader.read_exact(&mut received).expect("everything comes back");
    });
    assert!(received == sent, "client {seed}: other bytes came back");
}

#[test]
fn two_workers_echo_to_all_clients_and_stop_by_epoll() {
    let drivers = [(); 2].map(|()| Epoll::new(Clock::start()).unwrap());
    two_workers_echo_to_all_clients_and_stop(Kind::Epoll, drivers);
}

/// Where the kernel forbids io_uring this passes without: `xtask` says so.
#[test]
fn two_workers_echo_to_all_clients_and_stop_by_io_uring() {
    match Uring::new(Clock::start()) {
        Ok(first) => {
            let drivers = [first, Uring::new(Clock::start()).unwrap()];
            two_workers_echo_to_all_clients_and_stop(Kind::Uring, drivers);
        }
        Err(error) => say_not_covered(&error),
    }
}

#[expect(clippy::unwrap_used, reason = "the body of a test")]
fn two_workers_echo_to_all_clients_and_stop<D>(kind: Kind, drivers: [D; 2])
where
    D: Driver<Listener = Listener, Socket = Socket, Datagrams = datagrams::Socket> + Send,
{
    let name = format!("scrubjay-loopback-{}-{kind}.sock", std::process::id());
    let path = std::env::temp_dir().join(name);
    let listeners = [
        Listener::tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 64).unwrap(),
        Listener::unix(&path, 0o700, 64).unwrap(),
    ];
    let address = listeners[0].address().unwrap();
    let config = Config {
        cores: Vec::new(),
        limits: Live::new(Limits {
            connections_max: 100,
            refusal: None,
            connections_per_address: 0,
            refusal_of_address: b"",
            requests_per_address: 0,
            requests_per_user: 0,
            idle_timeout_secs: 0,
            busy_poll: BusyPoll::Micros(0),
        }),
    };
    let sockets = Sockets::<_, datagrams::Socket, _> {
        listeners: listeners.into(),
        udp: None,
        carried: Vec::new(),
    };
    let (counters, control) = (Arc::new(Counters::default()), Arc::new(Control::default()));
    std::thread::scope(|scope| {
        let (counters, control) = (&counters, &control);
        let server = scope
            .spawn(move || scrubjay_net::run(&config, drivers.into(), sockets, counters, control, |_| Echo));
        let clients: Vec<_> = (0..8)
            .map(|seed| {
                let path = &path;
                scope.spawn(move || match seed % 2 {
                    0 => {
                        let stream = TcpStream::connect(address).unwrap();
                        stream.set_read_timeout(Some(PATIENCE)).unwrap();
                        echo_all(stream.try_clone().unwrap(), stream, seed);
                    }
                    _ => {
                        let stream = UnixStream::connect(path).unwrap();
                        stream.set_read_timeout(Some(PATIENCE)).unwrap();
                        echo_all(stream.try_clone().unwrap(), stream, seed);
                    }
                })
            })
            .collect();
        let clients: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        // One stays: it is closed by the stop.
        let idle = TcpStream::connect(address);
        control.stop_gracefully();
        server.join().unwrap().unwrap();
        clients.into_iter().for_each(|client| client.unwrap());
        drop(idle);
    });
    assert_eq!(counters.bytes_read(), 8_000_000);
    assert_eq!(counters.bytes_written(), 8_000_000);
    assert!(counters.total_connections.load(Ordering::Relaxed) >= 8);
}

/// Past the test's captured output, for `xtask` to print.
fn say_not_covered(error: &std::io::Error) {
    let text = format!("NOT COVERED: io_uring's driver, which cannot be used here: {error}\n");
    let _ = std::io::stderr().write_all(text.as_bytes());
}
