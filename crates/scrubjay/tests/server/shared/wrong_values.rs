//! Whatever a relay does to the replies, nobody gets the value of another key. `WRONG_VALUES` says how many requests there
//! are, `WRONG_VALUES_SEED` by which chance.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use scrubjay_client::protocol::{Get, Reply, Request, Store};
use scrubjay_client::{Client, Error};

use super::chaos::{Chance, Relay};
use super::{block_on, client, config, within};
use crate::kit::Server;

const THREADS: u64 = 16;
const KEYS: u64 = 2000;

/// What happened, over all threads.
#[derive(Default)]
struct Tally {
    values: AtomicU64,
    late: AtomicU64,
    lost: AtomicU64,
}

impl Tally {
    fn add(&self, key: &str, reply: Result<Reply, Error>) {
        let place = match reply {
            Ok(Reply::Value(value)) => {
                let of = value.bytes.split(|byte| *byte == b' ').next();
                assert_eq!(of, Some(key.as_bytes()), "the value of another key");
                assert_eq!(
                    value.bytes,
                    bytes_of(key, value.bytes.len()),
                    "a value of {key} that was never stored"
                );
                &self.values
            }
            Ok(Reply::Stored | Reply::Miss) => &self.values,
            Err(Error::TimedOut { .. }) => &self.late,
            Err(Error::Broken { .. } | Error::Connect { .. }) => &self.lost,
            other => panic!("{other:?}"),
        };
        place.fetch_add(1, Ordering::Relaxed);
    }
}

/// A value that says whose it is: the key, and a filling of its own to that length.
fn bytes_of(key: &str, len: usize) -> Vec<u8> {
    let fill = key
        .bytes()
        .fold(b'a', |sum, byte| b'a' + (sum.wrapping_add(byte)) % 26);
    let mut bytes = format!("{key} ").into_bytes();
    bytes.resize(len.max(bytes.len()), fill);
    bytes
}

fn value_of(key: &str, chance: &mut Chance) -> Vec<u8> {
    let len = [20, 200, 3000, 20_000][chance.below(4) as usize] + chance.below(20);
    bytes_of(key, len as usize)
}

fn name(chance: &mut Chance) -> String {
    format!("key:{}", chance.below(KEYS))
}

/// One thread's calls, of all kinds.
fn work(client: &Client, requests: u64, seed: u64, tally: &Tally) {
    let mut chance = Chance::new(seed);
    let mut asked = 0;
    while asked < requests {
        let call = within(Duration::from_micros(500 + chance.below(15_000)));
        let key = name(&mut chance);
        let get = || Request::Get(Get::new(key.as_bytes()));
        asked += 1;
        match chance.below(10) {
            0 => {
                let value = value_of(&key, &mut chance);
                tally.add(
                    &key,
                    client.call(Request::Store(Store::new(key.as_bytes(), value)), call),
                );
            }
            1 => {
                let keys: Vec<String> = (0..1 + chance.below(20)).map(|_| name(&mut chance)).collect();
                asked += keys.len() as u64 - 1;
                let plain = chance.below(2) == 0;
                let get = |key| Get {
                    plain,
                    ..Get::new(key)
                };
                let gets = keys.iter().map(|key| Request::Get(get(key.as_bytes()))).collect();
                for (key, reply) in keys.iter().zip(client.call_all(gets, call)) {
                    tally.add(key, reply);
                }
            }
            2 => tally.add(&key, block_on(client.call_async(get(), call))),
            3 => drop(client.call_async(get(), call)),
            4 => {
                let (tell, told) = mpsc::channel();
                client.start(get(), call, move |reply| tell.send(reply).expect("listened to"));
                tally.add(&key, told.recv().expect("told exactly once"));
                assert!(told.recv().is_err(), "told twice");
            }
            _ => tally.add(&key, client.call(get(), call)),
        }
    }
}

#[test]
fn muddled_replies_reach_nobody_they_are_not_for() {
    let number =
        |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().expect("a number"));
    let requests = number("WRONG_VALUES", 30_000);
    let seed = number("WRONG_VALUES_SEED", 1);
    let servers = [Server::start("-m 128"), Server::start("-m 128")];
    let direct = [&servers[0], &servers[1]].map(|server| server.ports[0]);
    let relays = direct.map(|port| Relay::start(port, Some(seed)));
    let mut config = config(&relays.each_ref().map(|relay| relay.port));
    config.connections = 2;
    let filler = client(&direct);
    for number in 0..KEYS {
        let key = format!("key:{number}");
        let value = value_of(&key, &mut Chance::new(number));
        let stored = filler.call(
            Request::Store(Store::new(key.as_bytes(), value)),
            within(crate::kit::PATIENCE),
        );
        assert_eq!(stored, Ok(Reply::Stored));
    }
    let client = Client::new(config).expect("servers");
    let tally = Tally::default();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (client, tally) = (&client, &tally);
            scope.spawn(move || work(client, requests / THREADS, seed * THREADS + thread, tally));
        }
    });
    let [values, late, lost] =
        [&tally.values, &tally.late, &tally.lost].map(|count| count.load(Ordering::Relaxed));
    println!("seed {seed}: {values} replies, {late} late, {lost} lost with their connection");
    assert!(values > 0, "seed {seed}: no reply came through");
}
