//! One server after another over one cache, each with what the one before it gave back.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use scrubjay_io::driver::{Driver, Listener, Socket, datagrams};
use scrubjay_net::{BusyPoll, Carried, Config, Control, Limits, Sockets, Stop, relay};
use scrubjay_server::carry::{self, RELAY_NANOS_MAX};
use scrubjay_server::service::Shared;
use scrubjay_sim::serving::Serving;
use scrubjay_tls::{Certificate, Secure, Tls};

/// How long anything may take before a test gives up.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Workers of a server.
const WORKERS: usize = 2;

/// A driver of real sockets.
pub trait Real: Driver<Socket = Socket, Listener = Listener, Datagrams = datagrams::Socket> + Send {}

impl<D> Real for D where D: Driver<Socket = Socket, Listener = Listener, Datagrams = datagrams::Socket> + Send {}

/// What servers are like.
pub struct Kind<D> {
    /// Options.
    pub options: Vec<String>,
    /// Makes drivers.
    pub driver: fn() -> D,
    /// Certificates, if connections are encrypted.
    pub tls: Option<Arc<Tls>>,
    /// A hand-over comes to nothing: the same server goes on with its connections, keys and all. Else they go as to another
    /// process.
    pub stays: bool,
}

/// The servers, as a test sees them.
pub struct Servers {
    address: SocketAddr,
    /// The present one, and how many there were before.
    current: Mutex<(Arc<Shared>, usize)>,
    /// Bytes that those before it have read.
    read_before: Mutex<u64>,
    /// Ends relays.
    relays: Control,
}

impl Servers {
    /// Starts the first server, and stops the last when `body` is done.
    pub fn run<D: Real, R>(kind: &Kind<D>, body: impl FnOnce(&Servers) -> R) -> R {
        let listener = Listener::tcp((Ipv4Addr::LOCALHOST, 0).into(), 1_024).unwrap();
        let first = Serving::new(&kind.options).unwrap();
        let servers = Servers {
            address: listener.address().unwrap(),
            current: Mutex::new((Arc::clone(first.shared()), 0)),
            read_before: Mutex::new(0),
            relays: Control::default(),
        };
        let listener = match &kind.tls {
            None => scrubjay_tls::Listener::plain(listener),
            Some(tls) => scrubjay_tls::Listener::secure(listener, tls, Certificate::NotAsked),
        };
        std::thread::scope(|scope| {
            let servers = &servers;
            let running = scope.spawn(move || servers.serve(kind, first, listener));
            let outcome = body(servers);
            servers.current().control.stop_now();
            servers.relays.stop_now();
            running.join().unwrap();
            outcome
        })
    }

    fn serve<D: Real>(&self, kind: &Kind<D>, first: Serving, listener: scrubjay_tls::Listener<Listener>) {
        let config = Config {
            cores: Vec::new(),
            limits: scrubjay_net::Live::new(Limits {
                connections_max: 2_000,
                refusal: None,
                connections_per_address: 0,
                refusal_of_address: b"",
                requests_per_address: 0,
                requests_per_user: 0,
                idle_timeout_secs: 0,
                busy_poll: BusyPoll::Micros(0),
            }),
        };
        let mut serving = first;
        let mut sockets = Sockets {
            listeners: vec![listener],
            udp: None,
            carried: Vec::new(),
        };
        std::thread::scope(|scope| {
            loop {
                let drivers = (0..WORKERS).map(|_| Secure::new((kind.driver)())).collect();
                let shared = Arc::clone(serving.shared());
                let make = |_| serving.service();
                let ended =
                    scrubjay_net::run(&config, drivers, sockets, &shared.net, &shared.control, make).unwrap();
                if shared.control.stop() != Stop::HandOver {
                    return;
                }
                assert_eq!(shared.net.curr_connections.load(Ordering::Relaxed), 0);
                assert_eq!(shared.net.memory.held(), 0);
                let mut carried = ended.carried;
                if kind.stays {
                    assert!(shared.control.serve_again());
                } else {
                    let (parted, pairs) = part(carried);
                    carried = parted;
                    if !pairs.is_empty() {
                        let driver = Secure::new((kind.driver)());
                        scope.spawn(|| relay::run(driver, pairs, RELAY_NANOS_MAX, &self.relays).unwrap());
                    }
                    serving = serving.successor();
                    *self.read_before.lock().unwrap() += shared.net.bytes_read();
                }
                sockets = Sockets {
                    listeners: ended.listeners,
                    udp: None,
                    carried,
                };
                let mut current = self.current.lock().unwrap();
                *current = (Arc::clone(serving.shared()), current.1 + 1);
            }
        });
    }

    fn current(&self) -> Arc<Shared> {
        Arc::clone(&self.current.lock().unwrap().0)
    }

    /// A new connection.
    pub fn connect(&self) -> TcpStream {
        let connection = TcpStream::connect(self.address).unwrap();
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        connection
    }

    fn wait_until(&self, mut is_so: impl FnMut() -> bool) {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < PATIENCE, "it does not happen");
            std::thread::yield_now();
        }
    }

    /// Waits until servers have read so many bytes together.
    pub fn wait_until_read(&self, bytes: u64) {
        self.wait_until(|| {
            let before = *self.read_before.lock().unwrap();
            before + self.current().net.bytes_read() == bytes
        });
    }

    /// Has the present server hand over, and waits until the next one is there.
    pub fn hand_over(&self) {
        let (before, count) = self.current.lock().unwrap().clone();
        before.control.hand_over();
        self.wait_until(|| self.current.lock().unwrap().1 > count);
    }
}

type Passed = Vec<Carried<scrubjay_tls::Socket<Socket>>>;

/// As to another process: what is not encrypted goes, what is gets a relay.
fn part(carried: Passed) -> (Passed, Vec<relay::Pair<scrubjay_tls::Socket<Socket>>>) {
    let parted = carry::part(carried, Socket::pair);
    assert_eq!(parted.lost, 0);
    let plain = parted.carried.into_iter().map(|carried| {
        let (carried, socket) = carried.over(());
        carried.over(scrubjay_tls::Socket::plain(socket)).0
    });
    (plain.collect(), parted.relayed)
}
