//! What a get costs that a copy answers, and one that a server answers:
//! `cargo run --release -p scrubjay-client --example near_speed -- HOST:PORT`.

use std::hint::black_box;
use std::time::Instant;

use scrubjay_client::config::parse_server;
use scrubjay_client::near::Settings;
use scrubjay_client::protocol::{Get, Request, Store};
use scrubjay_client::{Call, Client, Config, NearCache};

const KEYS: usize = 1000;
const VALUE: [u8; 100] = [b'v'; 100];
const HITS: usize = 2_000_000;
const ASKED: usize = 10_000;

type Failure = Box<dyn std::error::Error>;

/// Nanoseconds of one of `count` calls, a key each in turn.
fn nanos(keys: &[Vec<u8>], count: usize, mut each: impl FnMut(&[u8])) -> f64 {
    let start = Instant::now();
    for number in 0..count {
        each(&keys[number % KEYS]);
    }
    start.elapsed().as_secs_f64() * 1e9 / count as f64
}

fn get(near: &NearCache, key: &[u8]) {
    black_box(near.get(key)).expect("a reply");
}

fn main() -> Result<(), Failure> {
    let place = std::env::args().nth(1).ok_or("which server? give HOST:PORT")?;
    let client = Client::new(Config::new(vec![parse_server(&place)?]))?;
    let near = NearCache::new(client.clone(), &Settings::default())?;
    let keys: Vec<Vec<u8>> = (0..KEYS)
        .map(|number| format!("near:{number}").into_bytes())
        .collect();
    for key in &keys {
        client.call(Request::Store(Store::new(key, VALUE.as_slice())), Call::default())?;
        near.get(key)?;
    }
    let get_of_client = |key: &[u8]| {
        black_box(client.call(Request::Get(Get::new(key)), Call::default())).expect("a reply");
    };
    println!(
        "asked of the server    {:9.1} ns",
        nanos(&keys, ASKED, get_of_client)
    );
    println!(
        "get                    {:9.1} ns",
        nanos(&keys, HITS, |key| get(&near, key))
    );
    let call = |key: &[u8]| {
        black_box(near.call(Request::Get(Get::new(key)), Call::default())).expect("a reply");
    };
    println!("call                   {:9.1} ns", nanos(&keys, HITS, call));
    let both = std::thread::scope(|scope| {
        let run = || nanos(&keys, HITS, |key| get(&near, key));
        let other = scope.spawn(run);
        (run(), other.join().expect("no panic"))
    });
    println!("get, two threads       {:9.1} ns {:9.1} ns", both.0, both.1);
    println!("{:?}", near.counts());
    Ok(())
}
