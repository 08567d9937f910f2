//! Random sessions, cut anywhere, with a hand-over at each cut and whenever others have their turn: what comes back is what
//! comes back where nothing is cut and nobody changes.

use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use scrubjay_sim::differential::session::Session;
use scrubjay_sim::in_process::{Cuts, InProcess};
use scrubjay_sim::runner::Target as _;
use scrubjay_sim::serving::{START, Serving};

use crate::clients::clients;

/// How long new seeds are tried.
const BUDGET: Duration = Duration::from_secs(5);

/// Most places at which a session is cut.
const CUTS_MAX: usize = 30;

/// What comes back, and whether the connection was closed.
fn converse(bytes: &[u8], cuts: Option<Vec<usize>>) -> (Vec<u8>, bool) {
    let serving = Serving::new(&["-m", "64"].map(str::to_owned)).unwrap();
    let service = serving.service();
    let mut target = match cuts {
        None => InProcess::new(service, START, Cuts::None),
        Some(cuts) => {
            let mut target = InProcess::new(service, START, Cuts::Before(cuts));
            target.hand_over_to(move || serving.service());
            target
        }
    };
    target.open().unwrap();
    target.send(0, bytes);
    let received = std::mem::take(target.received(0));
    (received, target.is_closed(0))
}

fn check(bytes: &[u8], random: &mut StdRng, what: &str) {
    let count = random.random_range(1..=CUTS_MAX);
    let mut cuts: Vec<usize> = (0..count).map(|_| random.random_range(0..=bytes.len())).collect();
    cuts.sort_unstable();
    let (expected, received) = (converse(bytes, None), converse(bytes, Some(cuts.clone())));
    assert!(
        received == expected,
        "{what}: other replies with cuts at {cuts:?}"
    );
}

#[test]
fn random_sessions_are_answered_alike_wherever_they_are_handed_over() {
    let began = Instant::now();
    let mut seed = 0;
    while began.elapsed() < BUDGET {
        let random = &mut StdRng::seed_from_u64(seed);
        let session = Session::random(random);
        let mut bytes = Vec::new();
        for request in session.batches.iter().flatten() {
            request.encode(&[], &mut bytes);
        }
        check(&bytes, random, &format!("seed {seed}"));
        seed += 1;
    }
    println!("{seed} sessions");
}

#[test]
fn sessions_in_every_state_are_answered_alike_wherever_they_are_handed_over() {
    for (number, client) in clients(false, 3).iter().enumerate() {
        let bytes = [&client.before[..], &client.after].concat();
        check(&bytes, &mut StdRng::seed_from_u64(number as u64), client.name);
    }
}
