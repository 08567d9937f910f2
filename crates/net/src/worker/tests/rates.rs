//! Limits of requests a second: they hold over simulated time, nobody else is slowed, and nothing is lost, doubled or torn.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use scrubjay_base::allowance::Allowance;
use scrubjay_base::time::Now;
use scrubjay_io::driver::sim::{Faults, Peer, Sim};

use super::super::hand_over::admit;
use super::super::{Limits, Worker};
use super::{LINES_PER_CALL, NO_LIMITS, Setup, TURNS_MAX, Talk};
use crate::output::Output;
use crate::roll::State;
use crate::service::{Handled, Next, Peer as Address, Service};

/// Sends whole lines back; each is a request. There are three users, who connect in turn.
#[derive(Clone, Default)]
struct Lines {
    users: [Arc<Allowance>; 3],
    asked: Rc<Cell<u64>>,
    held: Rc<Cell<usize>>,
}

impl Service for Lines {
    type Session = Arc<Allowance>;
    type Shared = Vec<u8>;

    fn open(&mut self, peer: Address) -> Arc<Allowance> {
        let Address::Tcp(address) = peer else {
            unreachable!("there are none but these")
        };
        Arc::clone(&self.users[usize::from(address.port() - 1) % 3])
    }

    fn pack(&mut self, _session: Arc<Allowance>, _input: &mut Vec<u8>) -> Option<Vec<u8>> {
        Some(Vec::new())
    }

    fn begin_turn(&mut self, _now: Now) {}

    fn go_idle(&mut self) {}

    fn take_asked(&self) -> u64 {
        self.asked.take()
    }

    fn allowance<'a>(&self, session: &'a Arc<Allowance>) -> Option<&'a Allowance> {
        Some(session)
    }

    fn held_back(&self, _session: &Arc<Allowance>) {
        self.held.set(self.held.get() + 1);
    }

    fn handle(&mut self, _: &mut Arc<Allowance>, input: &[u8], output: &mut Output<Vec<u8>>) -> Handled {
        let mut consumed = 0;
        let lines = input.split_inclusive(|byte| *byte == b'\n');
        for line in lines.take(LINES_PER_CALL).filter(|line| line.ends_with(b"\n")) {
            consumed += line.len();
            output.bytes().extend_from_slice(line);
            self.asked.set(self.asked.get() + 1);
        }
        let next = match input[consumed..].contains(&b'\n') {
            true => Next::Again,
            false if consumed < input.len() => Next::Partial,
            false => Next::Wait,
        };
        Handled { consumed, next }
    }
}

/// So many requests a second of an address, of which there is one, and of each user.
fn rates(requests_per_address: u32, requests_per_user: u32) -> Limits {
    Limits {
        requests_per_address,
        requests_per_user,
        ..NO_LIMITS
    }
}

/// Workers of one server, with one service between them.
struct Server<'a> {
    setup: &'a Setup,
    workers: Vec<Worker<'a, Sim, Lines>>,
    service: Lines,
}

impl<'a> Server<'a> {
    fn new(setup: &'a Setup) -> Server<'a> {
        let service = Lines::default();
        let worker = |index: usize| {
            let listeners = if index == 0 { &setup.listeners[..] } else { &[] };
            let driver = setup.network.driver();
            let mut worker = Worker::new(index, driver, service.clone(), &setup.shared, listeners, None);
            worker.listen(true).unwrap();
            worker
        };
        let workers = (0..setup.shared.mailboxes.len()).map(worker).collect();
        Server {
            setup,
            workers,
            service,
        }
    }

    fn turns(&mut self, count: usize) {
        let mut ready = Vec::new();
        for _ in 0..count {
            for worker in &mut self.workers {
                worker.turn(&mut ready).unwrap();
            }
        }
    }

    fn run_until(&mut self, seconds: u64) {
        while self.setup.seconds() < seconds {
            self.turns(1);
        }
    }

    fn states(&self) -> Vec<State> {
        let of = |worker: &Worker<'_, Sim, Lines>| {
            let connections = (0..worker.connections.len()).filter_map(|index| worker.connections.get(index));
            connections
                .map(|connection| connection.state())
                .collect::<Vec<_>>()
        };
        self.workers.iter().flat_map(of).collect()
    }

    /// Every connection goes to new workers.
    fn hand_over(&mut self) {
        let mut carried = Vec::new();
        for mut worker in std::mem::take(&mut self.workers) {
            carried.extend(worker.hand_over().unwrap());
        }
        let service = self.service.clone();
        *self = Server::new(self.setup);
        // The users are the same ones.
        self.service = service;
        let admitted = admit(&self.setup.shared, carried);
        for (worker, admitted) in self.workers.iter_mut().zip(admitted) {
            worker.service = self.service.clone();
            worker.take_over(admitted);
        }
    }
}

/// Lines that came back.
fn received(peer: &Peer) -> u64 {
    let bytes = peer.receive(usize::MAX);
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

#[test]
fn an_address_gets_its_rate_over_all_its_connections_and_workers() {
    for (workers, rate, connections) in [(1, 1, 1), (1, 50, 1), (2, 200, 5), (3, 3_000, 40)] {
        let setup = Setup::of_workers(workers, 1, Faults::WIDE, rates(rate, 0));
        let mut server = Server::new(&setup);
        let peers: Vec<Peer> = (0..connections).map(|_| setup.connect()).collect();
        for peer in &peers {
            peer.send(&b"line\n".repeat(40_000));
        }
        server.run_until(1);
        // What each group of each worker may have had ahead is paid for by now.
        let ahead = rate / 10 + (16 * workers * LINES_PER_CALL) as u32;
        let early: u64 = peers.iter().map(received).sum();
        assert!(early <= u64::from(rate + ahead), "{rate}: {early}");
        server.run_until(11);
        let each: Vec<u64> = peers.iter().map(received).collect();
        let (given, expected) = (early + each.iter().sum::<u64>(), 11 * u64::from(rate));
        assert!(given <= expected + u64::from(ahead), "{rate}: {given}");
        assert!(given * 100 >= expected * 99 - 100, "{rate}: {given}");
        // They have their turns one after the other; somebody late leaves one to another.
        let (least, most) = (each.iter().min().unwrap(), each.iter().max().unwrap());
        assert!(
            4 * most <= 5 * (least + LINES_PER_CALL as u64),
            "{rate}: {each:?}"
        );
        let held = &setup.shared.counters.held_by_address;
        let times = held.times.load(std::sync::atomic::Ordering::Relaxed);
        // A turn for each time that somebody goes on, and little besides.
        let waits = setup.network.waits();
        assert!(
            times > 0 && waits <= 4 * workers as u64 * times + 100,
            "{rate}: {waits}"
        );
        assert!(held.micros.load(std::sync::atomic::Ordering::Relaxed) > 1_000_000);
        assert!(setup.shared.counters.take_address_held().is_some());
        assert_eq!(server.service.held.get(), 0);
    }
}

#[test]
fn only_who_asks_too_much_is_held_back() {
    let setup = Setup::new(1, Faults::WIDE, rates(0, 100));
    let mut server = Server::new(&setup);
    let (greedy, modest, silent) = (setup.connect(), setup.connect(), setup.connect());
    greedy.send(&b"line\n".repeat(10_000));
    server.turns(3);
    let mut ms = 0;
    for _ in 0..500 {
        // Somewhat less than it may.
        ms += 11;
        while setup.network.clock().now().millis() < ms {
            server.turns(1);
        }
        modest.send(b"one\n");
        server.turns(1);
        assert_eq!(modest.receive(100), b"one\n");
    }
    let given = received(&greedy);
    assert!((530..=580).contains(&given), "{given}");
    assert_eq!(
        server
            .states()
            .iter()
            .filter(|state| **state == State::HeldBack)
            .count(),
        1
    );
    silent.send(b"at once\n");
    server.turns(1);
    assert_eq!(silent.receive(100), b"at once\n");
    assert!(server.service.held.get() > 0);
    assert_eq!(setup.count(|counters| &counters.held_by_address.times), 0);
}

#[test]
fn nothing_is_lost_or_torn_whatever_the_network_does() {
    for seed in 0..150 {
        let setup = Setup::of_workers(1 + seed as usize % 3, seed, Faults::unkind(seed), NO_LIMITS);
        let network = &setup.network;
        let draw_rates = || {
            let draw = |among: u64| [0, 20, 300, 5_000][network.draw(among) as usize];
            rates(draw(4), draw(4))
        };
        setup.shared.limits.set(draw_rates());
        let mut server = Server::new(&setup);
        let mut talks: Vec<_> = (0..1 + network.draw(6)).map(|_| Talk::begin(&setup)).collect();
        let broken = setup.connect();
        let mut turn = 0;
        while !talks.iter().all(Talk::is_done) {
            assert!(turn < TURNS_MAX, "seed {seed}: it goes on for ever");
            server.turns(1);
            match network.draw(100) {
                0 => server.hand_over(),
                1 => setup.shared.limits.set(draw_rates()),
                2 => broken.reset(),
                _ => broken.send(b"half a line, or a whole one\nand"),
            }
            let chosen = network.draw(talks.len() as u64) as usize;
            talks[chosen].go_on(network);
            turn += 1;
        }
        talks.iter().for_each(|talk| talk.end(seed));
        broken.reset();
        while setup.count(|counters| &counters.curr_connections) > 0 {
            assert!(turn < TURNS_MAX, "seed {seed}: a connection stays");
            server.turns(1);
            turn += 1;
        }
    }
}

#[test]
fn who_connects_anew_does_not_get_a_new_allowance() {
    let setup = Setup::new(1, Faults::WIDE, rates(20, 0));
    let mut server = Server::new(&setup);
    let mut given = 0;
    while setup.seconds() < 10 {
        let peer = setup.connect();
        peer.send(&b"line\n".repeat(5));
        peer.end();
        server.turns(2);
        given += received(&peer);
        while !peer.is_closed() {
            server.turns(1);
            given += received(&peer);
        }
    }
    // Each waits once to be heard, and once for its end to be seen.
    assert!((140..=200 + 10).contains(&given), "{given}");
}

#[test]
fn who_is_held_back_is_not_idle() {
    let limits = Limits {
        idle_timeout_secs: 2,
        ..rates(1, 0)
    };
    let setup = Setup::new(1, Faults::NONE, limits);
    let mut server = Server::new(&setup);
    let (held, idle) = (setup.connect(), setup.connect());
    held.send(&b"line\n".repeat(LINES_PER_CALL));
    server.turns(3);
    assert_eq!(received(&held), LINES_PER_CALL as u64);
    held.send(b"last\n");
    server.run_until(LINES_PER_CALL as u64 - 1);
    assert!(idle.is_closed() && !held.is_closed());
    assert_eq!((held.taken(), server.states()), (50, vec![State::HeldBack]));
    server.run_until(LINES_PER_CALL as u64 + 1);
    assert_eq!(held.receive(100), b"last\n");
    server.run_until(LINES_PER_CALL as u64 + 5);
    assert!(held.is_closed(), "nobody holds it back any more");
}

/// A server whose only connection is held back for long, with lines of its own that nobody has read.
fn held_for_long(setup: &Setup) -> (Server<'_>, Peer) {
    let mut server = Server::new(setup);
    let peer = setup.connect();
    peer.send(&b"line\n".repeat(2 * LINES_PER_CALL));
    // It comes, has a turn, and does not have the next.
    server.turns(3);
    peer.send(b"last\n");
    assert_eq!(received(&peer), LINES_PER_CALL as u64);
    assert_eq!(server.states(), [State::HeldBack]);
    (server, peer)
}

#[test]
fn a_stop_answers_who_is_held_back() {
    let setup = Setup::new(1, Faults::NONE, rates(1, 0));
    let (mut server, peer) = held_for_long(&setup);
    setup.shared.control.stop_gracefully();
    server.workers[0].stop(&mut Vec::new()).unwrap();
    assert_eq!(received(&peer), LINES_PER_CALL as u64 + 1);
    assert!(peer.is_closed() && setup.seconds() == 0);
}

#[test]
fn who_is_held_back_is_handed_over_with_what_it_sent() {
    let setup = Setup::new(1, Faults::NONE, rates(1, 0));
    let (mut server, peer) = held_for_long(&setup);
    let carried = server.workers[0].hand_over().unwrap();
    assert_eq!(carried[0].input, b"line\n".repeat(LINES_PER_CALL));
    assert_eq!(carried[0].idle_nanos, 0);
    let mut server = Server::new(&setup);
    server.workers[0].take_over(admit(&setup.shared, carried).remove(0));
    server.run_until(LINES_PER_CALL as u64 + 2);
    assert_eq!(received(&peer), LINES_PER_CALL as u64 + 1);
}

#[test]
fn another_rate_holds_at_once_for_who_is_held_back_and_who_came_before_it() {
    let setup = Setup::new(1, Faults::NONE, rates(1, 0));
    let (mut server, peer) = held_for_long(&setup);
    setup.shared.limits.set(rates(0, 0));
    server.turns(3);
    assert_eq!(received(&peer), LINES_PER_CALL as u64 + 1);
    let other = setup.connect();
    other.send(b"line\n");
    server.turns(2);
    assert_eq!(received(&other), 1);
    setup.shared.limits.set(rates(1, 0));
    other.send(&b"line\n".repeat(LINES_PER_CALL));
    server.turns(1);
    peer.send(b"line\n");
    server.turns(1);
    assert_eq!((received(&other), received(&peer)), (LINES_PER_CALL as u64, 0));
    assert_eq!(setup.seconds(), 0);
}

#[test]
fn who_is_held_back_and_breaks_off_does_not_keep_the_worker_awake() {
    let setup = Setup::new(1, Faults::NONE, rates(1, 0));
    let (mut server, peer) = held_for_long(&setup);
    peer.reset();
    server.turns(2);
    assert!(peer.is_closed());
    assert_eq!(setup.count(|counters| &counters.curr_connections), 0);
    assert_eq!(server.workers[0].held_back.shorten(None, Now::default()), None);
}
