//! The client's near cache before real servers: what others write is seen within a second, what one writes oneself at once.

use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use scrubjay_client::config::Failover;
use scrubjay_client::near::{Coherence, NearCache, NearError, Settings};
use scrubjay_client::protocol::{Arith, Get, Reply, Request, Store};
use scrubjay_client::{Call, Client, Config, Route, placement};

use crate::failover::{Process, patient};
use crate::kit::{self, Dir, Server, scrubjay};

/// What is promised of a write elsewhere.
const BOUND: Duration = Duration::from_secs(1);

fn config(servers: &[&Server]) -> Config {
    let place = |server: &&Server| placement::Server::new("127.0.0.1", server.ports[0]);
    hasty_to_retry(servers.iter().map(place).collect())
}

fn hasty_to_retry(places: Vec<placement::Server>) -> Config {
    let mut config = patient(places);
    config.retry_interval = Duration::from_millis(20);
    config
}

fn client(servers: &[&Server]) -> Client {
    Client::new(config(servers)).expect("good settings")
}

#[test]
fn where_a_key_has_many_places_there_is_no_near_cache() {
    let server = Server::start("");
    let check = |change: fn(&mut Config), words: &str| {
        let mut config = config(&[&server]);
        change(&mut config);
        let client = Client::new(config).expect("good settings");
        let refused = NearCache::new(client, &Settings::default()).expect_err(words);
        assert!(refused.to_string().contains(words), "{refused}");
    };
    let random = |config: &mut Config| config.scheme = "twemproxy-random".parse().expect("a scheme");
    check(random, "draws a server each time");
    check(
        |config| config.failover = Failover::Next(1),
        "failover to the next servers",
    );
}

/// A near cache whose copies would stay for long.
fn near(servers: &[&Server]) -> NearCache {
    near_of(client(servers))
}

fn near_of(client: Client) -> NearCache {
    let settings = Settings {
        ttl: Duration::from_secs(3600),
        ..Settings::default()
    };
    NearCache::new(client, &settings).expect("servers that tell")
}

fn set(client: &Client, key: &[u8], value: &str) {
    let reply = client.call(store(key, value), Call::default());
    assert_eq!(reply, Ok(Reply::Stored));
}

fn store<'a>(key: &'a [u8], value: &'a str) -> Request<'a> {
    Request::Store(Store::new(key, value.as_bytes()))
}

fn read(near: &NearCache, key: &[u8]) -> Option<String> {
    let value = near.get(key).expect("a reply")?;
    Some(String::from_utf8(value.bytes.clone()).expect("text"))
}

/// Reads until it is a copy that is read.
fn warm(near: &NearCache, key: &[u8]) -> Option<String> {
    kit::until(|| {
        let before = near.counts().hits;
        let value = read(near, key);
        (near.counts().hits > before).then_some(value)
    })
    .expect("a copy in time")
}

/// Reads until there is this value, which somebody has just been told to be stored. However slow everything is: a read that begins
/// later than the bound finds it.
fn until(near: &NearCache, key: &[u8], value: Option<&str>) {
    let stored = Instant::now();
    kit::until(|| {
        let age = stored.elapsed();
        let found = read(near, key);
        let is_new = found.as_deref() == value;
        assert!(
            is_new || age <= BOUND,
            "{found:?} {age:?} after {value:?} was stored"
        );
        is_new.then_some(())
    })
    .expect("the new value in time");
}

#[test]
fn what_another_client_writes_is_seen_within_a_second_every_time() {
    let servers = [Server::start("-t 2"), Server::start("-t 2")];
    let servers = [&servers[0], &servers[1]];
    let (near, other) = (near(&servers), client(&servers));
    let keys: Vec<Vec<u8>> = (0..8)
        .map(|number| format!("key {number}\n").into_bytes())
        .collect();
    for round in 0..100 {
        let key = &keys[round % keys.len()];
        let value = round.to_string();
        set(&other, key, &value);
        until(&near, key, Some(&value));
        assert_eq!(warm(&near, key), Some(value));
    }
    let deleted = Request::Delete(scrubjay_client::protocol::Delete::new(&keys[0]));
    assert_eq!(other.call(deleted, Call::default()), Ok(Reply::Deleted));
    until(&near, &keys[0], None);
    assert_eq!(warm(&near, &keys[1]), Some("97".to_owned()));
    for server in other.servers() {
        let call = Call {
            route: Route::Server(server),
            ..Call::default()
        };
        let flushed = other.call(Request::Flush { delay_secs: 0 }, call);
        assert_eq!(flushed, Ok(Reply::Flushed));
    }
    until(&near, &keys[1], None);
    // Of the other server nothing was asked since.
    kit::until(|| (near.counts().flushes >= 2).then_some(())).expect("both servers told");
    let counts = near.counts();
    assert!(counts.hits >= 101 && counts.invalidations >= 100, "{counts:?}");
}

#[test]
fn what_one_writes_oneself_is_seen_at_once() {
    let server = Server::start("-t 2");
    let near = near(&[&server]);
    for round in 0..200 {
        let value = round.to_string();
        let reply = near.call(store(b"k", &value), Call::default());
        assert_eq!(reply, Ok(Reply::Stored));
        assert_eq!(read(&near, b"k"), Some(value.clone()));
        assert_eq!(read(&near, b"k"), Some(value.clone()));
        let replies = near.call_all(
            vec![store(b"k", "x"), Request::Get(Get::new(b"none"))],
            Call::default(),
        );
        assert_eq!(replies, [Ok(Reply::Stored), Ok(Reply::Miss)]);
        assert_eq!(read(&near, b"k").as_deref(), Some("x"));
        let (done, told) = channel();
        let done = move |reply| done.send(reply).expect("somebody waits");
        near.start(store(b"k", "y"), Call::default(), done);
        assert_eq!(told.recv(), Ok(Ok(Reply::Stored)));
        assert_eq!(read(&near, b"k").as_deref(), Some("y"));
        let flushed = near.call(Request::Flush { delay_secs: 0 }, Call::default());
        assert_eq!(flushed, Ok(Reply::Flushed));
        assert_eq!(read(&near, b"k"), None);
    }
}

/// Four gets of a key that holds `v`, and one of a key that is not there.
fn ask_in_all_ways(near: &NearCache) {
    let get = || Request::Get(Get::new(b"k"));
    let plain = near.call(get(), Call::default());
    let Ok(Reply::Value(value)) = &plain else {
        panic!("no value: {plain:?}");
    };
    assert_eq!(value.bytes, b"v");
    let replies = near.call_all(
        vec![get(), Request::Get(Get::new(b"none")), get()],
        Call::default(),
    );
    assert_eq!(replies, [plain.clone(), Ok(Reply::Miss), plain.clone()]);
    let (done, told) = channel();
    near.start(get(), Call::default(), move |reply| {
        done.send(reply).expect("somebody waits")
    });
    assert_eq!(told.recv(), Ok(plain));
}

#[test]
fn a_copy_is_served_without_asking_and_all_ways_to_ask_share_it() {
    let server = Server::start("");
    let near = near(&[&server]);
    set(near.client(), b"k", "v");
    // What is told of the write may remove the first copy, and a stream that is late all of them.
    let after = kit::until(|| {
        assert_eq!(warm(&near, b"k").as_deref(), Some("v"));
        let before = near.counts();
        ask_in_all_ways(&near);
        let after = near.counts();
        let asked = (after.hits - before.hits, after.misses - before.misses);
        (asked == (4, 1)).then_some(after)
    });
    let after = after.expect("the copy answers four, the server one");
    let with_cas = Request::Get(Get {
        with_cas: true,
        ..Get::new(b"k")
    });
    let Ok(Reply::Value(value)) = near.call(with_cas, Call::default()) else {
        panic!("no value");
    };
    assert!(value.cas.is_some());
    assert_eq!(
        near.counts().hits,
        after.hits,
        "asked of the server, and what it says may be newer"
    );
    read(&near, b"k");
    assert_eq!(near.counts().hits, after.hits, "so there is no copy");
}

#[test]
fn lines_that_are_lost_flush() {
    let server = Server::start("-t 1 -o worker_logbuf_size=1,watcher_logbuf_size=4");
    let (near, other) = (near(&[&server]), client(&[&server]));
    set(&other, b"k", "old");
    assert_eq!(warm(&near, b"k").as_deref(), Some("old"));
    let flushes = near.counts().flushes;
    kit::until(|| {
        let many = (0..2_000).map(|_| store(b"other", "x")).collect();
        other.call_all(many, Call::default());
        (near.counts().flushes > flushes).then_some(())
    })
    .expect("more than a small buffer holds");
    set(&other, b"k", "new");
    until(&near, b"k", Some("new"));
}

#[test]
fn without_its_server_everything_passes_through_until_it_is_back() {
    // A socket whose path stays: a port might be somebody else's when the server is back.
    let dir = Dir::new();
    let path = dir.path("socket");
    let start = || {
        let child = scrubjay(&format!("-t 1 -s {}", path.display()))
            .stderr(Stdio::null())
            .spawn();
        kit::until(|| UnixStream::connect(&path).ok()).expect("it listens in time");
        Process(child.expect("starts"))
    };
    let first = start();
    let place = placement::Server::new(path.display().to_string(), 0);
    let near = near_of(Client::new(hasty_to_retry(vec![place])).expect("good settings"));
    let place = near.client().place(b"k");
    set(near.client(), b"k", "old");
    assert_eq!(warm(&near, b"k").as_deref(), Some("old"));
    assert_eq!(near.is_kept(place), Ok(()));
    drop(first);
    let trouble = kit::until(|| near.is_kept(place).err()).expect("it is noticed");
    assert!(!trouble.is_empty());
    assert!(near.get(b"k").is_err(), "nobody to ask, and no copy");
    let _second = start();
    kit::until(|| near.is_kept(place).ok()).expect("it is followed again");
    kit::until(|| near.get(b"k").ok()).expect("it answers");
    set(near.client(), b"k", "new");
    until(&near, b"k", Some("new"));
    assert_eq!(warm(&near, b"k").as_deref(), Some("new"));
}

#[test]
fn a_server_that_tells_nothing_is_refused_unless_time_alone_is_wanted() {
    let server = Server::start_memcached("");
    let refused = NearCache::new(client(&[&server]), &Settings::default()).expect_err("no stream");
    assert!(matches!(refused, NearError::NotTold { .. }));
    let words = refused.to_string();
    assert!(words.contains("knows no `watch invalidations`"), "{words}");
    let settings = Settings {
        ttl: Duration::from_millis(50),
        coherence: Coherence::TtlOnly,
        ..Settings::default()
    };
    let near = NearCache::new(client(&[&server]), &settings).expect("no stream is needed");
    set(near.client(), b"k", "old");
    assert_eq!(warm(&near, b"k").as_deref(), Some("old"));
    set(near.client(), b"k", "new");
    until(&near, b"k", Some("new"));
    let without = Server::start("-W");
    let refused = NearCache::new(client(&[&without]), &Settings::default()).expect_err("not allowed");
    assert!(refused.to_string().contains("refuses"), "{refused}");
}

const KEYS: usize = 6;

fn key(number: usize) -> Vec<u8> {
    format!("key:{number}").into_bytes()
}

/// When a version was known to be stored, and of which key.
type History = Mutex<Vec<(Instant, usize, u64)>>;

/// Counts keys up, drawn by chance, until the time is over.
fn write(client: &Client, history: &History, seed: u64, end: Instant) {
    let mut random = StdRng::seed_from_u64(seed);
    while Instant::now() < end {
        let number = random.random_range(0..KEYS);
        let counted = client.call(Request::Arith(Arith::new(&key(number), 1)), Call::default());
        let Ok(Reply::Number(version)) = counted else {
            panic!("no number: {counted:?}");
        };
        let row = (Instant::now(), number, version);
        history.lock().expect("no panic").push(row);
    }
}

/// Reads keys through a near cache until the time is over, and writes one of its own.
fn check(near: &NearCache, history: &History, own: &str, end: Instant) {
    let (mut floor, mut looked, mut round) = ([0; KEYS], 0, 0);
    while Instant::now() < end {
        let then = Instant::now() - BOUND;
        let rows = history.lock().expect("no panic");
        while let Some((_, number, version)) = rows.get(looked).filter(|(at, ..)| *at < then) {
            floor[*number] = floor[*number].max(*version);
            looked += 1;
        }
        drop(rows);
        for (number, floor) in floor.iter().enumerate() {
            let seen: u64 = read(near, &key(number))
                .expect("it is there")
                .parse()
                .expect("a version");
            assert!(
                seen >= *floor,
                "key {number}: {seen}, and {floor} was there a second ago"
            );
        }
        round += 1;
        if round % 8 == 0 {
            let text = round.to_string();
            let reply = near.call(store(own.as_bytes(), &text), Call::default());
            assert_eq!(reply, Ok(Reply::Stored));
            assert_eq!(read(near, own.as_bytes()), Some(text));
        }
    }
}

/// Several count keys up; who reads with near caches never sees a number older than what was answered more than a second before, nor,
/// of a key that he alone writes, older than his own.
#[test]
fn no_reader_sees_what_was_overwritten_more_than_a_second_before() {
    let server = Server::start("-t 4 -o worker_logbuf_size=16");
    (0..KEYS).for_each(|number| set(&client(&[&server]), &key(number), "0"));
    let readers: Vec<NearCache> = (0..2).map(|_| near(&[&server])).collect();
    let history = History::default();
    let start = Instant::now();
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (history, client) = (&history, client(&[&server]));
            scope.spawn(move || write(&client, history, seed, start + 3 * BOUND));
        }
        for (reader, near) in readers.iter().enumerate() {
            let history = &history;
            scope.spawn(move || check(near, history, &format!("own:{reader}"), start + 5 * BOUND));
        }
    });
    let mut last = [0; KEYS];
    let rows = history.into_inner().expect("no panic");
    rows.iter()
        .for_each(|(_, number, version)| last[*number] = last[*number].max(*version));
    for near in &readers {
        for (number, last) in last.iter().enumerate() {
            assert_eq!(read(near, &key(number)), Some(last.to_string()));
        }
        let counts = near.counts();
        assert!(counts.hits > 0 && counts.invalidations > 0, "{counts:?}");
    }
}

/// The same key may be a different item at another server: each route has its own.
#[test]
fn a_key_that_is_placed_as_another_has_copies_of_its_own() {
    let servers = [Server::start(""), Server::start("")];
    let servers = [&servers[0], &servers[1]];
    let (near, other) = (near(&servers), client(&servers));
    let elsewhere = (0..)
        .map(|number| format!("as {number}").into_bytes())
        .find(|name| other.place(name) != other.place(b"k"))
        .expect("a key of the other server");
    let routes = [Route::Key, Route::As(&elsewhere)];
    for (route, value) in routes.iter().zip(["own", "other"]) {
        let replies = near.call_each(vec![(store(b"k", value), *route)], None);
        assert_eq!(replies, [Ok(Reply::Stored)]);
    }
    kit::until(|| {
        let before = near.counts().hits;
        for (route, value) in routes.iter().zip(["own", "other"]) {
            let gets = [0, 1].map(|_| (Request::Get(Get::new(b"k")), *route));
            for reply in near.call_each(gets.into(), None) {
                assert!(matches!(reply, Ok(Reply::Value(found)) if found.bytes == value.as_bytes()));
            }
            let call = Call {
                route: *route,
                timeout: None,
            };
            let reply = near.call(Request::Get(Get::new(b"k")), call);
            assert!(matches!(reply, Ok(Reply::Value(found)) if found.bytes == value.as_bytes()));
        }
        (near.counts().hits >= before + 2).then_some(())
    })
    .expect("copies in time");
}

#[test]
fn a_copy_does_not_outlive_its_item() {
    let server = Server::start("");
    let near = near(&[&server]);
    let request = Request::Store(Store {
        exptime: 2,
        ..Store::new(b"k", b"v".as_slice())
    });
    assert_eq!(near.client().call(request, Call::default()), Ok(Reply::Stored));
    let stored = Instant::now();
    kit::until(|| {
        let age = stored.elapsed();
        let found = read(&near, b"k");
        assert!(
            found.is_none() || age <= Duration::from_secs(3),
            "{found:?} at {age:?}"
        );
        found.is_none().then_some(())
    })
    .expect("its end");
    assert!(near.counts().hits > 0);
}
