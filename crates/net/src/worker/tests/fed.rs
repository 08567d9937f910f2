//! Connections whose output is made elsewhere.

use scrubjay_base::time::Now;
use scrubjay_io::driver::sim::{Faults, Peer, Sim};

use super::{NO_LIMITS, Setup, TURNS_MAX};
use crate::output::Output;
use crate::service::{Handled, Next, Peer as Address, Service};
use crate::worker::{Limits, Worker};

/// Bytes that one call passes on.
const PER_CALL: usize = 500;

/// Passes on what it is given, whatever it is sent.
#[derive(Default)]
struct Tap {
    waiting: Vec<u8>,
    has_news: bool,
    calls: usize,
}

impl Tap {
    fn pour(&mut self, bytes: &[u8]) {
        self.waiting.extend_from_slice(bytes);
        self.has_news = true;
    }
}

impl Service for Tap {
    type Session = ();
    type Shared = Vec<u8>;

    fn open(&mut self, _peer: Address) {}

    fn begin_turn(&mut self, _now: Now) {}

    fn go_idle(&mut self) {}

    fn has_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    fn handle(&mut self, (): &mut (), input: &[u8], output: &mut Output<Vec<u8>>) -> Handled {
        self.calls += 1;
        let len = self.waiting.len().min(PER_CALL);
        output.bytes().extend(self.waiting.drain(..len));
        let next = match self.waiting.is_empty() {
            true => Next::Fed,
            false => Next::Again,
        };
        Handled {
            consumed: input.len(),
            next,
        }
    }
}

fn worker(setup: &Setup) -> Worker<'_, Sim, Tap> {
    let driver = setup.network.driver();
    let mut worker = Worker::new(0, driver, Tap::default(), &setup.shared, &setup.listeners, None);
    worker.listen(true).unwrap();
    worker
}

fn turn(worker: &mut Worker<'_, Sim, Tap>) {
    worker.turn(&mut Vec::new()).unwrap();
}

/// A connection that has said that it wants to be fed.
fn fed(setup: &Setup, worker: &mut Worker<'_, Sim, Tap>) -> Peer {
    let peer = setup.connect();
    peer.send(b"feed me");
    while worker.service.calls == 0 {
        turn(worker);
    }
    peer
}

#[test]
fn what_is_made_elsewhere_arrives_once_and_in_order_whatever_the_network_does() {
    for seed in 0..100 {
        let setup = Setup::new(seed, Faults::unkind(seed), NO_LIMITS);
        let mut worker = worker(&setup);
        let peer = fed(&setup, &mut worker);
        let (mut sent, mut received) = (Vec::new(), Vec::new());
        for number in 0..TURNS_MAX {
            if number < 50 {
                let bytes: Vec<u8> = (0..setup.network.draw(3_000))
                    .map(|byte| (byte + seed) as u8)
                    .collect();
                worker.service.pour(&bytes);
                sent.extend(bytes);
                peer.send(b"whatever");
            }
            turn(&mut worker);
            received.extend(peer.receive(setup.network.draw(4_000) as usize));
            if number >= 50 && received.len() == sent.len() {
                break;
            }
        }
        assert!(received == sent, "seed {seed}: other bytes came");
        peer.end();
        while !peer.is_closed() {
            turn(&mut worker);
        }
    }
}

#[test]
fn who_is_fed_is_not_asked_while_there_is_no_news_and_not_idle_either() {
    let limits = Limits {
        idle_timeout_secs: 1,
        ..NO_LIMITS
    };
    let setup = Setup::new(1, Faults::NONE, limits);
    let mut worker = worker(&setup);
    let peer = fed(&setup, &mut worker);
    let calls = worker.service.calls;
    while setup.seconds() < 5 {
        turn(&mut worker);
    }
    assert_eq!(worker.service.calls, calls);
    assert!(!peer.is_closed());
    worker.service.pour(b"news");
    turn(&mut worker);
    assert_eq!(worker.service.calls, calls + 1);
    assert_eq!(peer.receive(100), b"news");
}

#[test]
fn a_stop_does_not_wait_for_what_may_still_be_made() {
    let setup = Setup::new(1, Faults::NONE, NO_LIMITS);
    let mut worker = worker(&setup);
    let peer = fed(&setup, &mut worker);
    worker.service.pour(b"the last");
    setup.shared.control.stop_gracefully();
    let began = setup.network.clock().now();
    worker.run().unwrap();
    assert_eq!(peer.receive(100), b"the last");
    assert!(peer.is_closed());
    assert_eq!(setup.network.clock().now().millis(), began.millis());
}
