//! A worker over the simulated network: what it promises at every split, fault and limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use scrubjay_base::time::Now;
use scrubjay_io::driver::sim::{Faults, Listener, Network, Peer, Sim, Socket};

use super::accept::Mailbox;
use super::{BusyPoll, Limits, Shared, Worker};
use crate::addresses::Addresses;
use crate::counters::{Control, Counters};
use crate::live::Live;
use crate::output::Output;
use crate::service::{Handled, Next, Peer as Address, Service};

mod fed;
mod groups;
mod hand_over;
mod rates;
mod shares;

/// Lines that the service answers in one call.
const LINES_PER_CALL: usize = 10;

/// More turns than any test needs.
const TURNS_MAX: usize = 200_000;

/// Sends whole lines back, every other one without a copy; the line `quit` is the last, and for the line `later` one must
/// wait until it is worked out. The lines `repeat` and `copied` come back many times, the former without a copy.
#[derive(Default)]
struct Echo {
    open: usize,
    is_worked_out: bool,
    /// How often the lines `repeat` and `copied` are sent back.
    repeats: usize,
    slept: usize,
    /// No other server can go on with its sessions.
    packs_nothing: bool,
    /// Lengths of what connections had sent, group by group.
    foreseen: Vec<Vec<usize>>,
}

impl Service for Echo {
    type Session = usize;
    type Shared = Vec<u8>;

    fn open(&mut self, _peer: Address) -> usize {
        self.open += 1;
        0
    }

    fn close(&mut self, _session: usize) {
        self.open -= 1;
    }

    fn pack(&mut self, lines: usize, _input: &mut Vec<u8>) -> Option<Vec<u8>> {
        self.open -= 1;
        let packed = if lines == 0 {
            Vec::new()
        } else {
            lines.to_le_bytes().to_vec()
        };
        Some(packed).filter(|_| !self.packs_nothing)
    }

    fn unpack(&mut self, _peer: Address, packed: &[u8]) -> Option<usize> {
        self.open += 1;
        packed.try_into().ok().map(usize::from_le_bytes)
    }

    fn begin_turn(&mut self, _now: Now) {}

    fn go_idle(&mut self) {
        self.slept += 1;
    }

    fn look_ahead(&mut self, inputs: &mut dyn Iterator<Item = &[u8]>) {
        self.foreseen.push(inputs.map(<[u8]>::len).collect());
    }

    fn handle(&mut self, lines: &mut usize, input: &[u8], output: &mut Output<Vec<u8>>) -> Handled {
        let mut consumed = 0;
        for line in input.split_inclusive(|byte| *byte == b'\n').take(LINES_PER_CALL) {
            if !line.ends_with(b"\n") {
                let next = Next::Partial;
                return Handled { consumed, next };
            }
            if line == b"later\n" && !self.is_worked_out {
                let next = Next::Later;
                return Handled { consumed, next };
            }
            consumed += line.len();
            *lines += 1;
            if line == b"repeat\n" {
                output.push_shared(line.repeat(self.repeats));
                continue;
            }
            if line == b"copied\n" {
                output.bytes().extend_from_slice(&line.repeat(self.repeats));
                continue;
            }
            match *lines % 2 {
                0 => output.bytes().extend_from_slice(line),
                _ => output.push_shared(line.to_vec()),
            }
            if line == b"quit\n" {
                let next = Next::Close;
                return Handled { consumed, next };
            }
        }
        let next = match consumed < input.len() {
            true => Next::Again,
            false => Next::Wait,
        };
        Handled { consumed, next }
    }
}

struct Setup {
    network: Network,
    listeners: [Listener; 1],
    shared: Shared<Socket>,
}

const NO_LIMITS: Limits = Limits {
    connections_max: 1_000,
    refusal: None,
    connections_per_address: 0,
    refusal_of_address: b"",
    requests_per_address: 0,
    requests_per_user: 0,
    idle_timeout_secs: 0,
    busy_poll: BusyPoll::Micros(0),
};

impl Setup {
    fn new(seed: u64, faults: Faults, limits: Limits) -> Setup {
        Setup::of_workers(1, seed, faults, limits)
    }

    fn of_workers(workers: usize, seed: u64, faults: Faults, limits: Limits) -> Setup {
        let network = Network::new(seed, faults);
        let listeners = [network.listen()];
        let shared = Shared {
            addresses: Addresses::default(),
            limits: Live::new(limits),
            counters: Arc::new(Counters::default()),
            control: Arc::new(Control::default()),
            mailboxes: (0..workers).map(|_| Mailbox::new(None)).collect(),
            accept_stopped: AtomicBool::new(false),
        };
        Setup {
            network,
            listeners,
            shared,
        }
    }

    fn worker(&self) -> Worker<'_, Sim, Echo> {
        let driver = self.network.driver();
        let mut worker = Worker::new(0, driver, Echo::default(), &self.shared, &self.listeners, None);
        worker.listen(true).unwrap();
        worker
    }

    /// One that does not accept.
    fn other_worker(&self, index: usize) -> Worker<'_, Sim, Echo> {
        let driver = self.network.driver();
        Worker::new(index, driver, Echo::default(), &self.shared, &[], None)
    }

    fn connect(&self) -> Peer {
        self.network.connect(&self.listeners[0])
    }

    fn count(&self, which: impl Fn(&Counters) -> &AtomicU64) -> u64 {
        which(&self.shared.counters).load(Ordering::Relaxed)
    }

    fn seconds(&self) -> u64 {
        self.network.clock().now().secs()
    }
}

fn turns(worker: &mut Worker<'_, Sim, Echo>, count: usize) {
    let mut ready = Vec::new();
    for _ in 0..count {
        worker.turn(&mut ready).unwrap();
    }
}

/// Lines of drawn lengths, each with its number.
fn lines(network: &Network, count: usize) -> Vec<u8> {
    let mut text = Vec::new();
    for number in 0..count {
        text.extend_from_slice(number.to_string().as_bytes());
        text.resize(text.len() + network.draw(200) as usize, b'.');
        text.push(b'\n');
    }
    text
}

/// A peer that sends a text bit by bit and takes what comes back.
struct Talk {
    peer: Peer,
    text: Vec<u8>,
    sent: usize,
    received: Vec<u8>,
}

impl Talk {
    fn begin(setup: &Setup) -> Talk {
        let text = lines(&setup.network, setup.network.draw(100) as usize);
        Talk {
            peer: setup.connect(),
            text,
            sent: 0,
            received: Vec::new(),
        }
    }

    fn is_done(&self) -> bool {
        self.received.len() == self.text.len()
    }

    fn go_on(&mut self, network: &Network) {
        let len = (network.draw(3_000) as usize).min(self.text.len() - self.sent);
        if len > 0 {
            self.peer.send(&self.text[self.sent..self.sent + len]);
            self.sent += len;
        }
        self.received
            .extend(self.peer.receive(network.draw(2_000) as usize));
    }

    /// All came back, once and in order.
    fn end(&self, seed: u64) {
        assert!(self.received == self.text, "seed {seed}: other bytes came back");
        assert!(!self.peer.is_closed(), "seed {seed}");
        self.peer.end();
    }
}

#[test]
fn every_byte_comes_back_once_and_in_order_whatever_the_network_does() {
    for seed in 0..200 {
        let setup = Setup::new(seed, Faults::unkind(seed), NO_LIMITS);
        let network = &setup.network;
        let mut worker = setup.worker();
        let mut talks: Vec<_> = (0..1 + network.draw(4)).map(|_| Talk::begin(&setup)).collect();
        // One more that breaks off somewhere in between.
        let broken = setup.connect();
        let breaks_at = network.draw(50) as usize;
        let mut turn = 0;
        while !talks.iter().all(Talk::is_done) {
            assert!(turn < TURNS_MAX, "seed {seed}: it goes on for ever");
            turns(&mut worker, 1);
            match turn.cmp(&breaks_at) {
                std::cmp::Ordering::Less => broken.send(b"half a line, or a whole one\nand"),
                std::cmp::Ordering::Equal => broken.reset(),
                std::cmp::Ordering::Greater => {}
            }
            let chosen = network.draw(talks.len() as u64) as usize;
            talks[chosen].go_on(network);
            turn += 1;
        }
        talks.iter().for_each(|talk| talk.end(seed));
        broken.reset();
        while !broken.is_closed() || !talks.iter().all(|talk| talk.peer.is_closed()) {
            assert!(turn < TURNS_MAX, "seed {seed}: a connection stays");
            turns(&mut worker, 1);
            turn += 1;
        }
        assert_eq!(worker.service.open, 0, "seed {seed}");
        assert_eq!(setup.count(|counters| &counters.curr_connections), 0);
    }
}

#[test]
fn a_peer_that_does_not_read_is_not_read_either() {
    let setup = Setup::new(1, Faults::NONE, NO_LIMITS);
    let mut worker = setup.worker();
    let peer = setup.connect();
    let text = lines(&setup.network, 20_000);
    peer.send(&text);
    turns(&mut worker, 5_000);
    let most = (super::group::READ_MAX * 2 + Faults::NONE.send_buffer) as u64;
    assert!(peer.taken() <= most, "{} bytes were read", peer.taken());
    let mut received = Vec::new();
    for _ in 0..TURNS_MAX {
        received.extend(peer.receive(1_000));
        turns(&mut worker, 1);
        if received.len() == text.len() {
            break;
        }
    }
    assert!(received == text, "other bytes came back");
}

#[test]
fn who_has_much_to_do_lets_others_go_first() {
    let setup = Setup::new(1, Faults::NONE, NO_LIMITS);
    let mut worker = setup.worker();
    let (greedy, modest) = (setup.connect(), setup.connect());
    turns(&mut worker, 1);
    greedy.send(&b"line\n".repeat(1_000));
    turns(&mut worker, 2);
    modest.send(b"one\n");
    turns(&mut worker, 1);
    assert_eq!(modest.receive(100), b"one\n");
    assert!(greedy.receive(10_000).len() <= 4 * LINES_PER_CALL * 5);
    assert!(setup.count(|counters| &counters.conn_yields) >= 3);
    turns(&mut worker, 1_000 / LINES_PER_CALL);
    assert_eq!(greedy.receive(10_000).len(), 5_000 - 3 * LINES_PER_CALL * 5);
}

#[test]
fn an_incomplete_request_is_acknowledged_at_once_and_a_complete_one_is_not() {
    let setup = Setup::new(1, Faults::NONE, NO_LIMITS);
    let mut worker = setup.worker();
    let peer = setup.connect();
    peer.send(b"whole\n");
    turns(&mut worker, 3);
    assert_eq!(peer.acknowledged(), 0);
    peer.send(b"ha");
    turns(&mut worker, 2);
    assert_eq!(peer.acknowledged(), 1);
    peer.send(b"lf\n");
    turns(&mut worker, 2);
    assert_eq!(peer.acknowledged(), 1);
    assert_eq!(peer.receive(100), b"whole\nhalf\n");
}

#[test]
fn a_line_without_end_ends_the_connection() {
    let setup = Setup::new(1, Faults::NONE, NO_LIMITS);
    let mut worker = setup.worker();
    let peer = setup.connect();
    peer.send(&vec![b'x'; 1 << 20]);
    turns(&mut worker, 10);
    assert!(peer.is_closed());
    assert!(peer.taken() <= 3 * super::group::READ_MAX as u64);
}

#[test]
fn the_last_reply_goes_out_before_a_close() {
    for defers in [0, 255] {
        let faults = Faults {
            send_buffer: 3,
            defers,
            ..Faults::NONE
        };
        let setup = Setup::new(1, faults, NO_LIMITS);
        let mut worker = setup.worker();
        let peer = setup.connect();
        peer.send(b"first\nquit\nnever\n");
        let mut received = Vec::new();
        for _ in 0..20 {
            turns(&mut worker, 1);
            received.extend(peer.receive(2));
        }
        assert_eq!(received, b"first\nquit\n");
        assert!(peer.is_closed());
    }
}

#[test]
fn who_has_said_all_is_told_all() {
    for defers in [0, 128, 255] {
        for seed in 0..50 {
            let faults = Faults {
                send_buffer: 5,
                defers,
                ..Faults::NONE
            };
            let setup = Setup::new(seed, faults, NO_LIMITS);
            let mut worker = setup.worker();
            let peer = setup.connect();
            let lines = b"and on\n".repeat(100);
            peer.send(&lines);
            peer.end();
            let mut received = Vec::new();
            while !peer.is_closed() {
                turns(&mut worker, 1);
                received.extend(peer.receive(1 + seed as usize % 4));
            }
            received.extend(peer.receive(lines.len()));
            assert!(received == lines, "{seed}, {defers}: {} bytes", received.len());
        }
    }
}

#[test]
fn only_idle_connections_time_out() {
    let limits = Limits {
        idle_timeout_secs: 2,
        ..NO_LIMITS
    };
    let setup = Setup::new(1, Faults::NONE, limits);
    let mut worker = setup.worker();
    let (busy, idle) = (setup.connect(), setup.connect());
    turns(&mut worker, 1);
    for second in 1..=6 {
        while setup.seconds() < second {
            turns(&mut worker, 1);
        }
        busy.send(b"still here\n");
    }
    turns(&mut worker, 1);
    assert!(idle.is_closed());
    assert!(!busy.is_closed());
    assert_eq!(busy.receive(1_000).len(), 6 * 11);
    assert_eq!(setup.count(|counters| &counters.idle_kicks), 1);
}

/// The third of three connections that come together is told `words` and closed; when the first has gone, another may come.
fn two_may_come(limits: Limits, words: &[u8], refused: impl Fn(&Counters) -> &AtomicU64) {
    let setup = Setup::new(1, Faults::NONE, limits);
    let mut worker = setup.worker();
    let (first, second, third) = (setup.connect(), setup.connect(), setup.connect());
    turns(&mut worker, 1);
    assert_eq!(third.receive(100), words);
    assert!(third.is_closed() && !first.is_closed() && !second.is_closed());
    assert_eq!(setup.count(refused), 1);
    assert_eq!(setup.count(|counters| &counters.curr_connections), 2);
    first.end();
    turns(&mut worker, 1);
    let fourth = setup.connect();
    fourth.send(b"hello\n");
    turns(&mut worker, 2);
    assert_eq!(fourth.receive(100), b"hello\n");
}

#[test]
fn one_too_many_is_told_so_and_closed() {
    let limits = Limits {
        connections_max: 2,
        refusal: Some(b"too many\r\n"),
        ..NO_LIMITS
    };
    two_may_come(limits, b"too many\r\n", |counters| &counters.rejected_connections);
}

#[test]
fn one_too_many_of_an_address_is_told_so_and_closed() {
    let limits = Limits {
        connections_per_address: 2,
        refusal_of_address: b"too many of you\r\n",
        ..NO_LIMITS
    };
    two_may_come(limits, b"too many of you\r\n", |counters| {
        &counters.rejected_by_address
    });
}

#[test]
fn what_is_worked_out_elsewhere_is_waited_for() {
    let setup = Setup::new(1, Faults::NONE, NO_LIMITS);
    let mut worker = setup.worker();
    let (waiting, other, lost, eager) = (setup.connect(), setup.connect(), setup.connect(), setup.connect());
    waiting.send(b"a\nlater\nb\n");
    lost.send(b"later\n");
    eager.send(b"later\n");
    turns(&mut worker, 2);
    assert_eq!(waiting.receive(100), b"a\n");
    // Input that comes meanwhile is taken in, but not without end.
    waiting.send(b"c\n");
    let much = b"................\n".repeat(20_000);
    eager.send(&much);
    other.send(b"hello\n");
    lost.reset();
    turns(&mut worker, 20);
    assert_eq!(waiting.receive(100), b"");
    assert_eq!(waiting.taken(), 12);
    assert!(eager.taken() < 200_000, "{}", eager.taken());
    assert_eq!(other.receive(100), b"hello\n");
    assert!(lost.is_closed() && !waiting.is_closed() && !eager.is_closed());
    worker.service.is_worked_out = true;
    turns(&mut worker, 5);
    assert_eq!(waiting.receive(100), b"later\nb\nc\n");
    let mut received = Vec::new();
    for _ in 0..5_000 {
        turns(&mut worker, 1);
        received.extend(eager.receive(100_000));
    }
    assert_eq!(received.len(), 6 + much.len());
    assert!(worker.later.is_empty());
}

#[test]
fn without_a_refusal_one_too_many_waits_for_its_place() {
    let limits = Limits {
        connections_max: 2,
        ..NO_LIMITS
    };
    let setup = Setup::new(1, Faults::NONE, limits);
    let mut worker = setup.worker();
    let (first, _second, third) = (setup.connect(), setup.connect(), setup.connect());
    third.send(b"hello\n");
    turns(&mut worker, 20);
    assert_eq!(third.taken(), 0);
    assert!(!third.is_closed());
    assert_eq!(setup.count(|counters| &counters.accepting_stopped), 1);
    first.end();
    turns(&mut worker, 5);
    assert_eq!(third.receive(100), b"hello\n");
    assert_eq!(setup.count(|counters| &counters.rejected_connections), 0);
}

#[test]
fn limits_that_change_hold_from_the_next_turn_on() {
    let limits = Limits {
        connections_max: 1,
        ..NO_LIMITS
    };
    let setup = Setup::new(1, Faults::NONE, limits.clone());
    let mut worker = setup.worker();
    let (first, second) = (setup.connect(), setup.connect());
    second.send(b"hello\n");
    turns(&mut worker, 20);
    assert_eq!(second.taken(), 0);
    setup.shared.limits.set(Limits {
        connections_max: 2,
        idle_timeout_secs: 60,
        ..limits
    });
    turns(&mut worker, 5);
    assert_eq!(second.receive(100), b"hello\n");
    assert!(!first.is_closed());
    while setup.seconds() < 70 {
        turns(&mut worker, 1);
    }
    assert!(first.is_closed() && second.is_closed());
}

#[test]
fn accepting_rests_while_there_are_no_descriptors() {
    let setup = Setup::new(1, Faults::NONE, NO_LIMITS);
    let network = &setup.network;
    let mut worker = setup.worker();
    network.set_out_of_descriptors(true);
    let peer = setup.connect();
    peer.send(b"hello\n");
    while setup.seconds() < 5 {
        turns(&mut worker, 1);
        assert!(network.waits() < 200, "the loop spins");
    }
    assert!(
        (5..=60).contains(&network.accepts_tried()),
        "{}",
        network.accepts_tried()
    );
    assert!(!peer.is_closed());
    network.set_out_of_descriptors(false);
    turns(&mut worker, 10);
    assert_eq!(peer.receive(100), b"hello\n");
}

#[test]
fn a_stop_answers_everything_that_had_come() {
    let faults = Faults {
        send_buffer: 1 << 20,
        ..Faults::NONE
    };
    let setup = Setup::new(1, faults, NO_LIMITS);
    let mut worker = setup.worker();
    let peers: Vec<Peer> = (0..5).map(|_| setup.connect()).collect();
    turns(&mut worker, 1);
    let texts: Vec<Vec<u8>> = peers.iter().map(|_| lines(&setup.network, 3_000)).collect();
    for (peer, text) in peers.iter().zip(&texts) {
        peer.send(text);
    }
    turns(&mut worker, 1);
    setup.shared.control.stop_gracefully();
    worker.stop(&mut Vec::new()).unwrap();
    for (peer, text) in peers.iter().zip(&texts) {
        let received = peer.receive(usize::MAX);
        assert!(received == *text, "{} of {} bytes", received.len(), text.len());
        assert!(peer.is_closed());
    }
    assert_eq!(setup.count(|counters| &counters.curr_connections), 0);
}

#[test]
fn a_stop_does_not_wait_for_ever_for_a_peer_that_does_not_read() {
    for (stop_now, seconds_max) in [(false, 6), (true, 0)] {
        let setup = Setup::new(1, Faults::NONE, NO_LIMITS);
        let mut worker = setup.worker();
        let (stuck, other) = (setup.connect(), setup.connect());
        stuck.send(&lines(&setup.network, 10_000));
        turns(&mut worker, 200);
        other.send(b"hello\n");
        match stop_now {
            true => setup.shared.control.stop_now(),
            false => setup.shared.control.stop_gracefully(),
        }
        worker.stop(&mut Vec::new()).unwrap();
        assert!(stuck.is_closed() && other.is_closed());
        assert_eq!(other.receive(100), b"hello\n");
        assert!(setup.seconds() <= seconds_max);
    }
}
