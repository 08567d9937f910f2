//! Random sessions to two servers side by side; by hand with `cargo run -p scrubjay-sim --release -- differential`.

use scrubjay_sim::differential::{Pair, arguments, run};
use scrubjay_sim::server::Server;

/// Requests that every CI run compares.
const REQUESTS: usize = 240_000;

/// Sessions have seeds from here on.
const SEED: u64 = 1_000_000;

#[test]
fn memcached_does_not_differ_from_itself() {
    let start = || Server::start_memcached(&arguments()).unwrap();
    run(&Pair::of_memcached(start(), start()), SEED, REQUESTS / 10).unwrap_or_else(|why| panic!("{why}"));
}

#[test]
fn scrubjay_does_not_differ_from_memcached() {
    let ours = Server::start_scrubjay(&arguments()).unwrap();
    let theirs = Server::start_memcached(&arguments()).unwrap();
    run(&Pair::new(ours, theirs), SEED, REQUESTS).unwrap_or_else(|why| panic!("{why}"));
}
