//! One server after another over one cache, each with what the one before it gave back.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use scrubjay_io::driver::{Driver, Listener, Socket, datagrams};
use scrubjay_net::{Config, Limits, Sockets, Stop};
use scrubjay_server::service::Shared;
use scrubjay_sim::serving::Serving;

/// How long anything may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Workers of a server.
const WORKERS: usize = 2;

/// A driver of real sockets.
pub trait Real: Driver<Socket = Socket, Listener = Listener, Datagrams = datagrams::Socket> + Send {}

impl<D> Real for D where D: Driver<Socket = Socket, Listener = Listener, Datagrams = datagrams::Socket> + Send {}

/// The servers, as a test sees them.
pub struct Servers {
    address: SocketAddr,
    /// The present one.
    current: Mutex<Arc<Shared>>,
    /// Bytes that those before it have read.
    read_before: Mutex<u64>,
}

impl Servers {
    /// Starts the first server, and stops the last when `body` is done.
    pub fn run<D: Real, R>(options: &[String], driver: fn() -> D, body: impl FnOnce(&Servers) -> R) -> R {
        let listener = Listener::tcp((Ipv4Addr::LOCALHOST, 0).into(), 1_024).unwrap();
        let first = Serving::new(options).unwrap();
        let servers = Servers {
            address: listener.address().unwrap(),
            current: Mutex::new(Arc::clone(first.shared())),
            read_before: Mutex::new(0),
        };
        std::thread::scope(|scope| {
            let running = scope.spawn(|| servers.serve(driver, first, listener));
            let outcome = body(&servers);
            servers.current().control.stop_now();
            running.join().unwrap();
            outcome
        })
    }

    fn serve<D: Real>(&self, driver: fn() -> D, first: Serving, listener: Listener) {
        let config = Config {
            cores: Vec::new(),
            limits: Limits {
                connections_max: 2_000,
                refusal: None,
                connections_per_address: 0,
                refusal_of_address: b"",
                idle_timeout_secs: 0,
                busy_poll_micros: 0,
            },
        };
        let mut serving = first;
        let mut sockets = Sockets {
            listeners: vec![listener],
            udp: None,
            carried: Vec::new(),
        };
        loop {
            let drivers = (0..WORKERS).map(|_| driver()).collect();
            let shared = Arc::clone(serving.shared());
            let make = |_| serving.service();
            let ended =
                scrubjay_net::run(&config, drivers, sockets, &shared.net, &shared.control, make).unwrap();
            if shared.control.stop() != Stop::HandOver {
                return;
            }
            assert_eq!(shared.net.curr_connections.load(Ordering::Relaxed), 0);
            sockets = Sockets {
                listeners: ended.listeners,
                udp: None,
                carried: ended.carried,
            };
            serving = serving.successor();
            *self.read_before.lock().unwrap() += shared.net.bytes_read();
            *self.current.lock().unwrap() = Arc::clone(serving.shared());
        }
    }

    fn current(&self) -> Arc<Shared> {
        Arc::clone(&self.current.lock().unwrap())
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
        let before = self.current();
        before.control.hand_over();
        self.wait_until(|| !Arc::ptr_eq(&before, &self.current()));
    }
}
