//! Multi-gets from servers that are simulated, over a network that loses, doubles, delays and reorders.

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};

use super::{Datagram, Fetch, ID_REST, IDS_RESTING_MAX, Learnt, Outcome, Peer};
use crate::protocol::{Form, Refused, Value};
use crate::udp::Counts;
use crate::udp::frame::{DATAGRAM_LEN_MAX, FRAME_LEN, Frame};
use crate::udp::patience::Patience;
use crate::udp::window::Window;

fn address(server: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, server as u8], 11211))
}

fn learnt(servers: usize, form: impl Into<Option<Form>>) -> Learnt {
    let form = form.into();
    Learnt {
        window: Window::new(1, 1000, usize::MAX),
        patience: Patience::default(),
        peers: (0..servers)
            .map(|server| Peer::new(Some(address(server)), form))
            .collect(),
        counts: Counts::default(),
        next_id: u16::MAX - 3,
        next_opaque: u64::MAX - 10,
        resting: HashMap::new(),
        value_len_max: 1 << 20,
        retry_interval: Duration::from_millis(500),
    }
}

/// The value of a key: some have none, some one that fills several datagrams.
fn value(key: &[u8]) -> Option<Value> {
    let mark = xxhash_rust::xxh3::xxh3_64(key);
    let len = if mark.is_multiple_of(7) { 5000 } else { 50 };
    let bytes: Vec<u8> = key
        .iter()
        .map(|byte| byte % 26 + b'a')
        .cycle()
        .take(len)
        .collect();
    (!mark.is_multiple_of(5)).then_some(Value {
        bytes,
        flags: mark as u16 as u32,
        ..Value::default()
    })
}

/// What a server answers.
fn answer(request: &[u8], speaks_meta: bool) -> Vec<u8> {
    let text = String::from_utf8(request.to_vec()).expect("plain keys");
    let mut reply = Vec::new();
    let mut put = |head: String, value: Value| {
        reply.extend_from_slice(head.as_bytes());
        reply.extend_from_slice(&value.bytes);
        reply.extend_from_slice(b"\r\n");
    };
    let mut ends = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if words[0] == "mn" {
            ends.extend_from_slice(if speaks_meta { b"MN\r\n" } else { b"ERROR\r\n" });
            continue;
        }
        if words[0] == "get" {
            for key in &words[1..] {
                if let Some(value) = value(key.as_bytes()) {
                    let head = format!("VALUE {key} {} {}\r\n", value.flags, value.bytes.len());
                    put(head, value);
                }
            }
            ends = b"END\r\n".to_vec();
            continue;
        }
        let (key, opaque) = (words[1], words[words.len() - 1]);
        let (head, found) = match value(key.as_bytes()) {
            _ if !speaks_meta => ("ERROR".to_owned(), None),
            Some(value) => (
                format!("VA {} f{} k{key} {opaque}\r\n", value.bytes.len(), value.flags),
                Some(value),
            ),
            None => (format!("EN {opaque}"), None),
        };
        put(head, found.unwrap_or_default());
    }
    reply.extend_from_slice(&ends);
    reply
}

/// Of a hundred datagrams, how many meet with what.
#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    lost: u64,
    doubled: u64,
    /// Milliseconds that one may take longer than another.
    delay: u64,
}

/// Servers and the way to them.
struct World {
    now: Instant,
    chance: u64,
    faults: Faults,
    speaks_meta: bool,
    /// Each line is answered by itself, as memcached does.
    apart: bool,
    /// Servers that say nothing.
    silent: Vec<usize>,
    sent: Vec<usize>,
    underway: Vec<(Instant, SocketAddr, Vec<u8>)>,
}

impl World {
    fn new(seed: u64, faults: Faults) -> World {
        World {
            now: Instant::now(),
            chance: seed,
            faults,
            speaks_meta: true,
            apart: false,
            silent: Vec::new(),
            sent: Vec::new(),
            underway: Vec::new(),
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.chance = xxhash_rust::xxh3::xxh3_64(&self.chance.to_le_bytes());
        self.chance % bound
    }

    fn take(&mut self, request: &Datagram) {
        assert!(request.bytes.len() <= DATAGRAM_LEN_MAX, "{}", request.bytes.len());
        let server = (0..100).find(|server| address(*server) == request.to);
        let server = server.expect("one of ours");
        self.sent.push(server);
        let (frame, payload) = Frame::parse(&request.bytes).expect("framed");
        if self.silent.contains(&server) || self.below(100) < self.faults.lost {
            return;
        }
        let requests: Vec<&[u8]> = match self.apart {
            true => payload.split_inclusive(|byte| *byte == b'\n').collect(),
            false => vec![payload],
        };
        for lines in requests {
            let reply = answer(lines, self.speaks_meta);
            self.deliver(request.to, frame, &reply);
        }
    }

    fn deliver(&mut self, from: SocketAddr, frame: Frame, reply: &[u8]) {
        let parts: Vec<&[u8]> = reply.chunks(DATAGRAM_LEN_MAX - FRAME_LEN).collect();
        for (number, part) in parts.iter().enumerate() {
            let frame = Frame {
                number: number as u16,
                total: parts.len() as u16,
                ..frame
            };
            let datagram = [&frame.encode()[..], part].concat();
            let copies = match self.below(100) {
                chance if chance < self.faults.lost => 0,
                chance if chance < self.faults.lost + self.faults.doubled => 2,
                _ => 1,
            };
            for _ in 0..copies {
                let after = Duration::from_micros(200 + self.below(self.faults.delay * 1000 + 1));
                self.underway.push((self.now + after, from, datagram.clone()));
            }
        }
    }

    /// Runs a multi-get to its end. Datagrams may be left that arrive in a later one.
    fn run(&mut self, mut fetch: Fetch<'_>) -> Vec<Outcome> {
        loop {
            fetch.expire(self.now);
            while let Some(request) = fetch.next(self.now) {
                self.take(&request);
            }
            if fetch.is_done() {
                return fetch.end(self.now);
            }
            let wake = fetch.wake().expect("something is outstanding");
            let first = self.underway.iter().map(|(when, ..)| *when).min();
            self.now = self.now.max(first.map_or(wake, |first| first.min(wake)));
            let now = self.now;
            let (due, later) = self.underway.drain(..).partition(|(when, ..)| *when <= now);
            self.underway = later;
            let mut due: Vec<_> = due;
            due.sort_by_key(|(when, ..)| *when);
            for (_, from, datagram) in due {
                fetch.receive(now, from, &datagram);
            }
        }
    }
}

fn keys(from: usize, count: usize, servers: usize) -> Vec<(Cow<'static, [u8]>, usize)> {
    let key = |number: usize| (Cow::Owned(format!("key-{number}").into_bytes()), number % servers);
    (from..from + count).map(key).collect()
}

fn all_right(keys: &[(Cow<'_, [u8]>, usize)], outcomes: &[Outcome]) -> bool {
    let right =
        |((key, _), outcome): (&(Cow<'_, [u8]>, usize), &Outcome)| *outcome == Outcome::Value(value(key));
    keys.iter().zip(outcomes).all(right)
}

proptest! {
    /// Late datagrams of one round arrive in the next.
    #[test]
    fn what_is_answered_is_right_whatever_the_network_does(
        seed: u64,
        rates in (0u64..30, 0u64..30, 0u64..60),
        servers in 1usize..8,
        counts in prop::collection::vec(0usize..120, 1..4),
        form in prop::sample::select(vec![None, Some(Form::Meta), Some(Form::Classic)]),
        apart in any::<bool>(),
    ) {
        let (lost, doubled, delay) = rates;
        let mut world = World::new(seed, Faults { lost, doubled, delay });
        world.apart = apart && form != Some(Form::Meta);
        let mut learnt = learnt(servers, form);
        for (round, count) in counts.into_iter().enumerate() {
            let keys = keys(round * 50, count, servers);
            let outcomes = world.run(Fetch::new(&mut learnt, keys.clone()));
            for ((key, _), outcome) in keys.iter().zip(outcomes) {
                if outcome != Outcome::Missing {
                    prop_assert_eq!(outcome, Outcome::Value(value(key)));
                }
            }
            prop_assert!(learnt.window.is_idle());
        }
    }

    #[test]
    fn nothing_is_missing_if_nothing_is_lost(
        seed: u64,
        doubled in 0u64..50,
        servers in 1usize..30,
        form in prop::sample::select(vec![None, Some(Form::Meta), Some(Form::Classic)]),
    ) {
        let faults = Faults { doubled, delay: 10, ..Faults::default() };
        let mut world = World::new(seed, faults);
        let mut learnt = learnt(servers, form);
        let size = learnt.window.size();
        let keys = keys(0, 500, servers);
        let outcomes = world.run(Fetch::new(&mut learnt, keys.clone()));
        prop_assert!(all_right(&keys, &outcomes));
        prop_assert_eq!(learnt.counts.lost_requests, 0);
        prop_assert!(learnt.window.size() > size, "grows on success");
    }
}

#[test]
fn losses_make_the_window_smaller() {
    let faults = Faults {
        lost: 20,
        ..Faults::default()
    };
    let mut world = World::new(1, faults);
    let mut learnt = learnt(20, Form::Meta);
    for _ in 0..5 {
        world.run(Fetch::new(&mut learnt, keys(0, 500, 20)));
    }
    assert!(learnt.counts.lost_requests > 0);
    assert!(learnt.window.size() < 10, "{}", learnt.window.size());
}

#[test]
fn a_server_that_is_silent_is_left_alone_for_a_while() {
    let mut world = World::new(1, Faults::default());
    world.silent = vec![1];
    let mut learnt = learnt(4, Form::Meta);
    let asked = |world: &World| world.sent.iter().filter(|server| **server == 1).count();
    for _ in 0..3 {
        let keys = keys(0, 400, 4);
        let outcomes = world.run(Fetch::new(&mut learnt, keys.clone()));
        for ((key, server), outcome) in keys.iter().zip(outcomes) {
            let expected = match server {
                1 => Outcome::Missing,
                _ => Outcome::Value(value(key)),
            };
            assert_eq!(outcome, expected, "{server}");
        }
    }
    let before = asked(&world);
    assert!(before <= 12, "{before} requests, some of them after a while");
    world.silent.clear();
    world.now += learnt.retry_interval;
    let keys = keys(0, 400, 4);
    let outcomes = world.run(Fetch::new(&mut learnt, keys.clone()));
    assert!(all_right(&keys, &outcomes));
    assert!(asked(&world) > before);
}

#[test]
fn the_id_of_a_request_that_was_given_up_rests() {
    let mut learnt = learnt(1, Form::Meta);
    let mut now = Instant::now();
    let id_of_next = |learnt: &mut Learnt, now: Instant| {
        learnt.next_id = 7;
        let mut fetch = Fetch::new(learnt, keys(0, 1, 1));
        let id = fetch.next(now).expect("a request").id;
        fetch.end(now);
        id
    };
    assert_eq!(id_of_next(&mut learnt, now), 7);
    assert_eq!(id_of_next(&mut learnt, now), 8);
    now += ID_REST;
    assert_eq!(id_of_next(&mut learnt, now), 7);
    learnt.resting = (0..IDS_RESTING_MAX as u16)
        .map(|id| (id, now + ID_REST))
        .collect();
    let mut fetch = Fetch::new(&mut learnt, keys(0, 1, 1));
    assert!(fetch.next(now).is_none() && fetch.is_done(), "none is left");
}

#[test]
fn how_a_server_is_asked_is_learnt_from_its_first_reply() {
    let check = |speaks_meta, apart, form: Form| {
        let mut world = World::new(1, Faults::default());
        (world.speaks_meta, world.apart) = (speaks_meta, apart);
        let mut learnt = learnt(2, None);
        for _ in 0..2 {
            let keys = keys(0, 100, 2);
            let outcomes = world.run(Fetch::new(&mut learnt, keys.clone()));
            assert!(all_right(&keys, &outcomes), "{speaks_meta} {apart}");
        }
        let forms: Vec<_> = learnt.peers.iter().map(|peer| peer.form).collect();
        assert_eq!(forms, [Some(form); 2], "{speaks_meta} {apart}");
    };
    check(true, false, Form::Meta);
    check(true, true, Form::Classic);
    check(false, false, Form::Classic);
    check(false, true, Form::Classic);
}

#[test]
fn a_key_twice_is_answered_twice() {
    for form in [None, Some(Form::Classic)] {
        let mut world = World::new(1, Faults::default());
        world.apart = true;
        let mut learnt = learnt(1, form);
        let keys = [keys(0, 20, 1), keys(5, 20, 1)].concat();
        let outcomes = world.run(Fetch::new(&mut learnt, keys.clone()));
        assert!(all_right(&keys, &outcomes), "{form:?}");
    }
}

#[test]
fn a_reply_must_come_from_the_server_under_the_id_with_opaque_and_key() {
    let now = Instant::now();
    let check = |from: usize, id_off: u16, reply: &dyn Fn(&str) -> String, expected: Outcome| {
        let mut learnt = learnt(2, Form::Meta);
        let mut fetch = Fetch::new(&mut learnt, vec![(Cow::Borrowed(b"key"), 0)]);
        let request = fetch.next(now).expect("a request");
        let text = String::from_utf8_lossy(&request.bytes[FRAME_LEN..]).into_owned();
        let opaque = text.trim_end().rsplit(' ').next().expect("an opaque");
        let frame = Frame::of_request(request.id.wrapping_add(id_off));
        let datagram = [&frame.encode()[..], reply(opaque).as_bytes()].concat();
        fetch.receive(now, address(from), &datagram);
        let is_stranger = expected == Outcome::Missing;
        assert_eq!(fetch.end(now), [expected], "{:?}", reply(opaque));
        assert_eq!(learnt.counts.strangers, u64::from(is_stranger));
    };
    let hit = Value {
        bytes: b"v".to_vec(),
        ..Value::default()
    };
    let right = |opaque: &str| format!("VA 1 f0 kkey {opaque}\r\nv\r\n");
    check(0, 0, &right, Outcome::Value(Some(hit)));
    check(1, 0, &right, Outcome::Missing);
    check(0, 1, &right, Outcome::Missing);
    for len in 0..right("O18446744073709551605").len() {
        let cut = |opaque: &str| right(opaque)[..len].to_owned();
        check(0, 0, &cut, Outcome::Missing);
    }
    let other_key = |opaque: &str| format!("VA 1 f0 kyek {opaque}\r\nv\r\n");
    check(0, 0, &other_key, Outcome::Missing);
    check(0, 0, &|_| "VA 1 f0 kkey O1\r\nv\r\n".to_owned(), Outcome::Missing);
    check(0, 0, &|_| "EN O1\r\n".to_owned(), Outcome::Missing);
    check(0, 0, &|_| "EN\r\n".to_owned(), Outcome::Missing);
    let more = |opaque: &str| format!("EN {opaque}\r\nEN {opaque}\r\n");
    check(0, 0, &more, Outcome::Missing);
    check(
        0,
        0,
        &|opaque: &str| format!("EN {opaque}\r\n"),
        Outcome::Value(None),
    );
}

#[test]
fn what_cannot_be_asked_is_refused_and_the_longest_keys_fit() {
    let mut world = World::new(1, Faults::default());
    let mut learnt = learnt(1, Form::Meta);
    let mut keys: Vec<(Cow<'_, [u8]>, usize)> = (0..50)
        .map(|number| (Cow::Owned(format!("{number:0>250}").into_bytes()), 0))
        .collect();
    keys.insert(3, (Cow::Owned(vec![b'x'; 251]), 0));
    let mut outcomes = world.run(Fetch::new(&mut learnt, keys.clone()));
    keys.remove(3);
    let refused = Refused::KeyLen { len: 251, max: 250 };
    assert_eq!(outcomes.remove(3), Outcome::Refused(refused));
    assert!(all_right(&keys, &outcomes));
}
