//! All workers together: threads, sockets, one way to stop them.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use scrubjay_io::clock::Clock;
use scrubjay_io::driver::Driver;
use scrubjay_io::driver::epoll::Epoll;

use crate::addresses::Addresses;
use crate::counters::{Control, Counters};
use crate::datagrams::{Datagrams, Place, UdpConfig};
use crate::service::Service;
use crate::worker::{Flag, Limits, Mailbox, Shared, Worker};

/// How to run a server.
#[derive(Clone, Debug)]
pub struct Config {
    /// Worker threads.
    pub workers: usize,
    /// Limits of connections.
    pub limits: Limits,
}

/// What is served.
#[derive(Debug)]
pub struct Sockets<L, T> {
    /// Where connections come from.
    pub listeners: Vec<L>,
    /// Where datagrams come from, if they are served.
    pub udp: Option<Udp<T>>,
}

/// Where datagrams come from.
#[derive(Debug)]
pub struct Udp<T> {
    /// How they are answered.
    pub config: UdpConfig,
    /// For each address its port and a socket for every worker.
    pub places: Vec<(u16, Vec<T>)>,
}

/// Serves `sockets` with `config.workers` threads until `control` says stop; `wrap` makes of each worker's epoll the
/// driver that it is to use, `make_service` is called once for each worker, on its thread. Returns when all workers have
/// ended.
///
/// # Errors
/// What ended the first worker that failed; the others are stopped then.
pub fn run<D, S: Service>(
    config: &Config,
    clock: Clock,
    sockets: Sockets<D::Listener, D::Datagrams>,
    counters: &Arc<Counters>,
    control: &Arc<Control>,
    wrap: impl Fn(Epoll) -> D,
    make_service: impl Fn(usize) -> S + Sync,
) -> std::io::Result<()>
where
    D: Driver<Listener: Sync, Socket: Send, Datagrams: Send> + Send,
{
    let drivers: Vec<Epoll> = (0..config.workers)
        .map(|_| Epoll::new(clock))
        .collect::<Result<_, _>>()?;
    drivers.iter().for_each(|driver| control.add(driver.waker()));
    counters.roll_call.expect(config.workers);
    let mailboxes = drivers
        .iter()
        .map(|driver| Mailbox {
            has_mail: Flag::default(),
            sockets: Mutex::new(Vec::new()),
            waker: Some(driver.waker()),
        })
        .collect();
    let shared = Shared {
        limits: config.limits.clone(),
        addresses: Addresses::new(config.limits.connections_per_address),
        counters: Arc::clone(counters),
        control: Arc::clone(control),
        mailboxes,
        accept_stopped: AtomicBool::new(false),
    };
    let (shared, make_service) = (&shared, &make_service);
    let Sockets { listeners, udp } = sockets;
    let listeners = &listeners;
    let work = |index: usize, driver: D, datagrams: Option<Datagrams<D::Datagrams>>| {
        let own = if index == 0 { &listeners[..] } else { &[] };
        let result = Worker::new(index, driver, make_service(index), shared, own, datagrams).run();
        if result.is_err() {
            shared.control.stop_now();
        }
        result
    };
    let tasks: Vec<_> = drivers
        .into_iter()
        .map(wrap)
        .zip(datagrams_by_worker(config.workers, udp))
        .enumerate()
        .map(|(index, (driver, datagrams))| {
            (format!("worker-{index}"), move || work(index, driver, datagrams))
        })
        .collect();
    scrubjay_io::thread::run_all(tasks).into_iter().collect()
}

/// Each worker's share of the sockets of datagrams.
fn datagrams_by_worker<T>(workers: usize, udp: Option<Udp<T>>) -> Vec<Option<Datagrams<T>>> {
    let Some(Udp { config, places }) = udp else {
        return (0..workers).map(|_| None).collect();
    };
    let mut all: Vec<Vec<Place<T>>> = (0..workers).map(|_| Vec::new()).collect();
    for (port, sockets) in places {
        assert_eq!(sockets.len(), workers, "a socket for every worker");
        for (places, socket) in all.iter_mut().zip(sockets) {
            places.push(Place { socket, port });
        }
    }
    all.into_iter()
        .map(|places| Some(Datagrams::new(places, &config)))
        .collect()
}
