//! All workers together: threads, sockets, one way to stop them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use scrubjay_io::driver::Driver;

use crate::addresses::Addresses;
use crate::carried::{Carried, Ended};
use crate::counters::{Control, Counters, Stop};
use crate::datagrams::{Datagrams, Place, UdpConfig};
use crate::service::Service;
use crate::worker::accept::Mailbox;
use crate::worker::{Given, Limits, Shared, Worker, hand_over};

/// How to run a server.
#[derive(Clone, Debug)]
pub struct Config {
    /// The core of each worker, if they are to stay where they are; as many as workers at least, or none.
    pub cores: Vec<usize>,
    /// Limits of connections.
    pub limits: Limits,
}

/// What is served.
#[derive(Debug)]
pub struct Sockets<L, T, S> {
    /// Where connections come from.
    pub listeners: Vec<L>,
    /// Where datagrams come from, if they are served.
    pub udp: Option<Udp<T>>,
    /// Connections that another server gave back.
    pub carried: Vec<Carried<S>>,
}

/// Where datagrams come from.
#[derive(Debug)]
pub struct Udp<T> {
    /// How they are answered.
    pub config: UdpConfig,
    /// For each address its port and a socket for every worker.
    pub places: Vec<(u16, Vec<T>)>,
}

/// Serves `sockets` with a thread for each of `drivers` until `control` says stop; `make_service` is called once for each
/// worker, on its thread. Returns when all workers have ended, with what they give back.
///
/// # Errors
/// What ended the first worker that failed; the others are stopped then.
pub fn run<D, S: Service>(
    config: &Config,
    drivers: Vec<D>,
    sockets: Sockets<D::Listener, D::Datagrams, D::Socket>,
    counters: &Arc<Counters>,
    control: &Arc<Control>,
    make_service: impl Fn(usize) -> S + Sync,
) -> std::io::Result<EndedBy<D>>
where
    D: Driver<Listener: Sync, Socket: Send, Datagrams: Send> + Send,
{
    let workers = drivers.len();
    counters.roll_call.expect(workers);
    let shared = shared(&config.limits, &drivers, counters, control);
    let make_service = &make_service;
    let Sockets {
        listeners,
        udp,
        carried,
    } = sockets;
    let admitted = hand_over::admit(&shared, carried);
    let work = |index: usize, driver: D, datagrams: Option<Datagrams<D::Datagrams>>, admitted| {
        let own = if index == 0 { &listeners[..] } else { &[] };
        let core = config.cores.get(index);
        let result = core
            .map_or(Ok(()), |core| scrubjay_io::thread::stay_on(&[*core]))
            .and_then(|()| {
                let mut worker = Worker::new(index, driver, make_service(index), &shared, own, datagrams);
                worker.take_over(admitted);
                worker.run()
            });
        if result.is_err() {
            shared.control.stop_now();
        }
        result
    };
    let work = &work;
    let tasks: Vec<_> = drivers
        .into_iter()
        .zip(datagrams_by_worker(workers, udp))
        .zip(admitted)
        .enumerate()
        .map(|(index, ((driver, datagrams), admitted))| {
            let name = format!("worker-{index}");
            (name, move || work(index, driver, datagrams, admitted))
        })
        .collect();
    let given: std::io::Result<Vec<Given<D>>> = scrubjay_io::thread::run_all(tasks).into_iter().collect();
    let given = given?;
    let is_handed_over = control.stop() == Stop::HandOver;
    let unopened = hand_over::unopened(shared);
    let mut ended = Ended {
        carried: Vec::new(),
        listeners,
        udp: Vec::new(),
    };
    for (carried, datagrams) in given {
        ended.carried.extend(carried);
        gather_datagrams(&mut ended.udp, datagrams);
    }
    if is_handed_over {
        ended.carried.extend(unopened);
    }
    Ok(ended)
}

/// What is left of a server with drivers of this kind.
pub type EndedBy<D> = Ended<<D as Driver>::Listener, <D as Driver>::Socket, <D as Driver>::Datagrams>;

/// Adds a worker's sockets of datagrams to those of the workers before it.
fn gather_datagrams<T>(all: &mut Vec<(u16, Vec<T>)>, datagrams: Option<Datagrams<T>>) {
    let places = datagrams.into_iter().flat_map(|datagrams| datagrams.places);
    for (number, Place { socket, port }) in places.enumerate() {
        if number == all.len() {
            all.push((port, Vec::new()));
        }
        all[number].1.push(socket);
    }
}

/// Serves `listeners` with one worker, which is this thread, until `control` says stop: for a side door that must not
/// take anything from the others' threads.
///
/// # Errors
/// What the worker cannot recover from.
pub fn run_here<D: Driver, S: Service>(
    limits: &Limits,
    driver: D,
    listeners: &[D::Listener],
    control: &Arc<Control>,
    service: S,
) -> std::io::Result<()> {
    let shared = shared(limits, std::slice::from_ref(&driver), &Arc::default(), control);
    Worker::new(0, driver, service, &shared, listeners, None)
        .run()
        .map(drop)
}

/// What the workers of `drivers` share; from now on `control` wakes them.
fn shared<D: Driver>(
    limits: &Limits,
    drivers: &[D],
    counters: &Arc<Counters>,
    control: &Arc<Control>,
) -> Shared<D::Socket> {
    let wakers = drivers.iter().filter_map(Driver::waker);
    wakers.for_each(|waker| control.add(waker));
    let mailboxes = drivers.iter().map(|driver| Mailbox::new(driver.waker()));
    Shared {
        limits: limits.clone(),
        addresses: Addresses::new(limits.connections_per_address),
        counters: Arc::clone(counters),
        control: Arc::clone(control),
        mailboxes: mailboxes.collect(),
        accept_stopped: AtomicBool::new(false),
    }
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
