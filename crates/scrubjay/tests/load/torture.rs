//! Eight connections write, read, delete, touch and compare-and-swap 10,000 keys in a cache that is far too small.
//!
//! Each key is changed by one connection only, which therefore knows what may be read: the version that it stored last
//! or, because of eviction, nothing; and once nothing, nothing until it stores again. Everyone reads everything. A
//! version travels as the client flags, and key and version determine every byte of the value.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use crate::kit::{Connection, PATIENCE, Server};

const WRITERS: usize = 8;
const KEYS: usize = 10_000;

/// An item may be served this long after its end: exptimes are whole seconds.
const SLACK: Duration = Duration::from_secs(2);

/// The lowest version of each key that may still be read, whoever reads.
struct Floors(Vec<AtomicU32>);

impl Floors {
    fn raise(&self, key: usize, version: u32) {
        self.0[key].fetch_max(version, Ordering::SeqCst);
    }

    fn get(&self, key: usize) -> u32 {
        self.0[key].load(Ordering::SeqCst)
    }
}

/// What the writer of a key knows about it.
#[derive(Clone, Copy, Default)]
struct Known {
    /// Versions given out so far; some may still be under way.
    given: u32,
    /// The last version whose request was answered.
    answered: u32,
    /// The version that may be read now; `None`: nothing may be.
    current: Option<u32>,
    /// From then on nothing may be read.
    end: Option<Instant>,
    /// A CAS number that was read, and the version that it belongs to.
    token: Option<(u64, u32)>,
}

/// A request that is under way.
enum Sent {
    Store {
        key: usize,
        version: u32,
        ttl: u64,
        /// The version that it was to replace, for `cas`.
        expected: Option<u32>,
    },
    Delete(usize),
    Touch {
        key: usize,
        ttl: u64,
    },
    /// Own and others' keys with the floor each had when the request was sent.
    Get(Vec<(usize, u32)>),
}

/// One connection with its share of the keys.
struct Writer<'a> {
    own: usize,
    random: StdRng,
    known: Vec<Known>,
    connection: Connection,
    floors: &'a Floors,
    tally: &'a Tally,
    sent_at: Instant,
}

/// What happened in all, so that a run that tested nothing is seen.
#[derive(Debug, Default)]
struct Tally {
    stores: AtomicU64,
    refused: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
    swaps: AtomicU64,
    touches: AtomicU64,
    deletions: AtomicU64,
}

impl Tally {
    fn is_enough(&self) -> bool {
        let enough = [(&self.stores, 1000), (&self.hits, 1000), (&self.swaps, 100)];
        let is_enough = |(counter, least): (&AtomicU64, u64)| counter.load(Ordering::Relaxed) > least;
        enough.into_iter().all(is_enough)
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn name(key: usize) -> String {
    format!("torture-{key}")
}

/// The value of a key's version: its length and every byte follow from the two.
fn value(key: usize, version: u32) -> Vec<u8> {
    let mut random = StdRng::seed_from_u64(((key as u64) << 32) | u64::from(version));
    let len = match random.random_range(0..100) {
        0..5 => 0,
        5..70 => random.random_range(1..200),
        70..95 => random.random_range(200..5_000),
        _ => random.random_range(5_000..200_000),
    };
    let mut value = format!("{} version {version} length {len} ", name(key)).into_bytes();
    let mut word = random.random::<u64>() | 1;
    while value.len() < len {
        // An odd multiplier walks through many values; a torn or shifted value cannot fit.
        word = word.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17);
        value.extend_from_slice(&word.to_le_bytes());
    }
    value.truncate(len);
    value
}

impl Writer<'_> {
    fn known(&mut self, key: usize) -> &mut Known {
        &mut self.known[key / WRITERS]
    }

    fn pick_own(&mut self) -> usize {
        self.random.random_range(0..KEYS / WRITERS) * WRITERS + self.own
    }

    /// Sends a batch, stores first: while they are under way no long reply can fill the pipe.
    fn turn(&mut self) {
        let mut bytes = Vec::new();
        let mut sent = Vec::new();
        for _ in 0..self.random.random_range(0..6) {
            sent.push(self.store(&mut bytes));
        }
        for _ in 0..self.random.random_range(0..3) {
            let key = self.pick_own();
            bytes.extend_from_slice(format!("delete {}\r\n", name(key)).as_bytes());
            sent.push(Sent::Delete(key));
        }
        for _ in 0..self.random.random_range(0..3) {
            let (key, ttl) = (self.pick_own(), self.random.random_range(0..4));
            bytes.extend_from_slice(format!("touch {} {ttl}\r\n", name(key)).as_bytes());
            sent.push(Sent::Touch { key, ttl });
        }
        for _ in 0..self.random.random_range(1..5) {
            let mut keys = vec![self.pick_own()];
            keys.extend((0..self.random.random_range(0..8)).map(|_| self.random.random_range(0..KEYS)));
            let names: Vec<String> = keys.iter().map(|key| name(*key)).collect();
            bytes.extend_from_slice(format!("gets {}\r\n", names.join(" ")).as_bytes());
            sent.push(Sent::Get(
                keys.iter().map(|key| (*key, self.floors.get(*key))).collect(),
            ));
        }
        self.sent_at = Instant::now();
        self.connection.send(&bytes);
        for request in sent {
            self.receive(request);
        }
    }

    fn store(&mut self, bytes: &mut Vec<u8>) -> Sent {
        let key = self.pick_own();
        let ttl = [0, 0, 0, 100, 1, 2][self.random.random_range(0..6)];
        let swap = self.random.random_bool(0.3);
        let known = self.known(key);
        known.given += 1;
        let version = known.given;
        let token = known.token.take().filter(|_| swap);
        let value = value(key, version);
        let (verb, last) = match token {
            Some((token, _)) => ("cas", format!(" {token}")),
            None => ("set", String::new()),
        };
        let line = format!("{verb} {} {version} {ttl} {}{last}\r\n", name(key), value.len());
        bytes.extend_from_slice(line.as_bytes());
        bytes.extend_from_slice(&value);
        bytes.extend_from_slice(b"\r\n");
        let expected = token.map(|(_, version)| version);
        Sent::Store {
            key,
            version,
            ttl,
            expected,
        }
    }

    fn receive(&mut self, request: Sent) {
        let key = match request {
            Sent::Get(keys) => return self.read(&keys),
            Sent::Store { key, .. } | Sent::Delete(key) | Sent::Touch { key, .. } => key,
        };
        let line = self.connection.line();
        match (&request, line.as_str()) {
            (_, "NOT_FOUND") => self.is_gone(key),
            (Sent::Delete(_), "DELETED") => {
                self.was_there(key);
                self.is_gone(key);
                count(&self.tally.deletions);
            }
            (Sent::Touch { ttl, .. }, "TOUCHED") => {
                self.was_there(key);
                self.known(key).end = end(*ttl);
                count(&self.tally.touches);
            }
            (
                Sent::Store {
                    version,
                    ttl,
                    expected,
                    ..
                },
                line,
            ) => self.stored(key, *version, *ttl, *expected, line),
            (_, line) => panic!("{}: {line}", name(key)),
        }
        if let Sent::Store { version, .. } = request {
            self.known(key).answered = version;
        }
    }

    fn stored(&mut self, key: usize, version: u32, ttl: u64, expected: Option<u32>, line: &str) {
        let current = self.known(key).current;
        match line {
            "STORED" => {
                if expected.is_some() {
                    self.was_there(key);
                    assert_eq!(
                        current,
                        expected,
                        "{}: cas with an old number was taken",
                        name(key)
                    );
                    count(&self.tally.swaps);
                }
                let known = self.known(key);
                (known.current, known.end) = (Some(version), end(ttl));
                self.floors.raise(key, version);
                count(&self.tally.stores);
            }
            "EXISTS" => {
                self.was_there(key);
                assert!(
                    expected.is_some() && current != expected,
                    "{}: EXISTS for the right number",
                    name(key)
                );
            }
            line if line.starts_with("SERVER_ERROR out of memory") => {
                count(&self.tally.refused);
                // A refused set removes the old value, a refused cas does not.
                if expected.is_none() {
                    self.is_gone(key);
                }
            }
            line => panic!("{} version {version}: {line}", name(key)),
        }
    }

    /// The server has just served or changed the item: it must not have been removed or have expired before.
    fn was_there(&mut self, key: usize) {
        let sent_at = self.sent_at;
        let known = self.known(key);
        assert!(
            known.current.is_some(),
            "{} came back after version {}",
            name(key),
            known.answered
        );
        assert!(
            known.end.is_none_or(|end| sent_at < end),
            "{} lives on after its end",
            name(key)
        );
    }

    /// The item is not there; no version that was answered may be read from now on.
    fn is_gone(&mut self, key: usize) {
        let known = self.known(key);
        (known.current, known.end) = (None, None);
        let floor = known.answered + 1;
        self.floors.raise(key, floor);
    }

    fn read(&mut self, keys: &[(usize, u32)]) {
        let mut line = self.connection.line();
        for (key, floor) in keys {
            let found = line
                .strip_prefix("VALUE ")
                .and_then(|rest| rest.strip_prefix(&name(*key)));
            let Some(rest) = found.and_then(|rest| rest.strip_prefix(' ')) else {
                count(&self.tally.misses);
                if key % WRITERS == self.own {
                    self.is_gone(*key);
                }
                continue;
            };
            let numbers: Vec<u64> = rest
                .split(' ')
                .map(|number| number.parse().expect("a number"))
                .collect();
            let &[version, len, token] = numbers.as_slice() else {
                panic!("not three numbers: {line}")
            };
            let version = version as u32;
            let found = self.connection.value(len as usize);
            assert!(
                found == value(*key, version),
                "{}: not the bytes of version {version}",
                name(*key)
            );
            assert!(
                version >= *floor,
                "{}: version {version} after version {floor}",
                name(*key)
            );
            self.floors.raise(*key, version);
            if key % WRITERS == self.own {
                self.was_there(*key);
                let known = self.known(*key);
                assert_eq!(
                    known.current,
                    Some(version),
                    "{}: not the newest version",
                    name(*key)
                );
                known.token = Some((token, version));
            }
            count(&self.tally.hits);
            line = self.connection.line();
        }
        assert_eq!(line, "END");
    }
}

/// When an item with this exptime must be gone at the latest.
fn end(ttl: u64) -> Option<Instant> {
    (ttl > 0).then(|| Instant::now() + Duration::from_secs(ttl) + SLACK)
}

#[test]
fn nothing_wrong_torn_resurrected_or_stale_is_served_under_pressure() {
    let seconds = std::env::var("SCRUBJAY_TORTURE_SECS").map_or(3, |text| text.parse().expect("seconds"));
    let mut server = Server::start("-m 8 -t 4 -o no_lru_crawler");
    let floors = Floors((0..KEYS).map(|_| AtomicU32::new(0)).collect());
    let tally = Tally::default();
    let end = Instant::now() + Duration::from_secs(seconds);
    std::thread::scope(|scope| {
        for own in 0..WRITERS {
            let mut writer = Writer {
                own,
                random: StdRng::seed_from_u64(own as u64),
                known: vec![Known::default(); KEYS / WRITERS],
                connection: server.connect(),
                floors: &floors,
                tally: &tally,
                sent_at: Instant::now(),
            };
            let tally = &tally;
            scope.spawn(move || {
                // On a busy machine it takes longer until there was enough to be wrong.
                while Instant::now() < end || !tally.is_enough() && Instant::now() < end + PATIENCE {
                    writer.turn();
                }
            });
        }
    });
    assert!(server.is_alive(), "the server ended");
    println!("{tally:?}");
    assert!(tally.is_enough(), "too little was tested");
    let [stores, refused] = [&tally.stores, &tally.refused].map(|counter| counter.load(Ordering::Relaxed));
    assert!(refused * 20 < stores, "{refused} of {stores} stores had no room");
}
