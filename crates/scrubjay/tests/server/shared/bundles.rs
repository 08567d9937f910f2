//! Look-ups that one caller asks at once: what each gets when the server answers but some of them, or ends in between, and what is
//! counted.

use std::time::Duration;

use scrubjay_client::config::Failover;
use scrubjay_client::protocol::{Get, Reply, Request};
use scrubjay_client::{Call, Client, Error, Seen};

use super::{client, config, get, set, stub, text, within};
use crate::kit::Server;

fn plain(key: &str) -> Request<'_> {
    Request::Get(Get {
        plain: true,
        ..Get::new(key.as_bytes())
    })
}

fn bytes<'a>(seen: &Result<Option<Seen<'a>>, &Error>) -> Option<&'a [u8]> {
    seen.as_ref().ok().copied().flatten().map(|seen| seen.bytes)
}

/// Answers look-ups by the value of `a`, and nothing else.
fn halting(end: bool) -> u16 {
    stub(move |line| match line {
        "mn" => "MN\r\n".to_owned(),
        _ if line.starts_with("mg a ") => {
            let number = line.split(' ').find(|word| word.starts_with('O'));
            format!("VA 1 f0 ka {}\r\nx\r\n", number.expect("a number"))
        }
        _ if line.starts_with("get ") => "VALUE a 0 1\r\nx\r\n".to_owned(),
        _ if end => "end".to_owned(),
        _ => String::new(),
    })
}

#[test]
fn what_came_in_time_of_a_bundle_is_returned_and_the_rest_is_late() {
    let client = client(&[halting(false)]);
    let requests = vec![plain("a"), plain("b"), plain("c")];
    let replies = client.call_all(requests, within(Duration::from_millis(300)));
    assert_eq!(text(replies[0].clone()), "x");
    for late in &replies[1..] {
        assert!(matches!(late, Err(Error::TimedOut { .. })), "{late:?}");
    }
    let counters = client.statistics()[0].counters;
    assert_eq!((counters.requests, counters.hits, counters.timeouts), (3, 1, 2));
    // Another connection: on that one the rest of the first reply would come before anything else.
    let client = super::client(&[halting(false)]);
    let keys: [&[u8]; 3] = [b"a", b"b", b"c"];
    let found = client.look_up(&keys, false, within(Duration::from_millis(300)));
    let found: Vec<_> = found.iter().collect();
    assert_eq!(bytes(&found[0]), Some(b"x".as_slice()));
    for late in &found[1..] {
        assert!(matches!(late, Err(Error::TimedOut { .. })), "{late:?}");
    }
    let counters = client.statistics()[0].counters;
    assert_eq!((counters.requests, counters.hits, counters.timeouts), (3, 1, 2));
}

#[test]
fn what_a_lease_holds_is_a_miss_to_those_who_look_up_many() {
    let server = Server::start("-t 1");
    let client = client(&[server.ports[0]]);
    for stored in [set("empty", ""), set("full", "x")] {
        assert_eq!(client.call(stored, Call::default()), Ok(Reply::Stored));
    }
    let lease = Get {
        vivify: Some(60),
        ..Get::new(b"held")
    };
    let reply = client.call(Request::Get(lease), Call::default());
    assert!(
        matches!(&reply, Ok(Reply::Value(value)) if value.is_placeholder()),
        "{reply:?}"
    );
    let keys: [&[u8]; 4] = [b"held", b"empty", b"full", b"none"];
    let found = client.look_up(&keys, false, Call::default());
    let found: Vec<_> = found.iter().map(|seen| bytes(&seen)).collect();
    assert_eq!(found, [None, Some(&b""[..]), Some(b"x"), None]);
}

#[test]
fn what_came_of_a_bundle_before_its_connection_broke_is_returned() {
    let client = client(&[halting(true)]);
    let replies = client.call_all(vec![plain("a"), plain("b"), plain("c")], Call::default());
    assert_eq!(text(replies[0].clone()), "x");
    for lost in &replies[1..] {
        assert!(matches!(lost, Err(Error::Broken { .. })), "{lost:?}");
    }
}

#[test]
fn keys_of_a_bundle_whose_server_fails_are_looked_up_elsewhere() {
    let good = Server::start("-m 64");
    let keys: Vec<String> = (0..50).map(|number| format!("key:{number}")).collect();
    let stored =
        client(&[good.ports[0]]).call_all(keys.iter().map(|key| set(key, key)).collect(), Call::default());
    assert!(stored.iter().all(|reply| *reply == Ok(Reply::Stored)));
    // It ends whenever it is asked for values.
    let bad = stub(|line| if line == "mn" { "MN\r\n" } else { "end" }.to_owned());
    let mut both = config(&[bad, good.ports[0]]);
    both.failover = Failover::Next(1);
    let client = Client::new(both).expect("two servers");
    let replies = client.call_all(keys.iter().map(|key| plain(key)).collect(), Call::default());
    for (key, reply) in keys.iter().zip(replies) {
        assert_eq!(text(reply), *key);
    }
    let wire: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
    let found = client.look_up(&wire, false, Call::default());
    for (key, seen) in keys.iter().zip(found.iter()) {
        assert_eq!(bytes(&seen), Some(key.as_bytes()));
    }
}

#[test]
fn look_ups_of_all_kinds_and_sizes_get_their_own() {
    let servers = [Server::start("-m 256"), Server::start("-m 256")];
    let client = client(&[servers[0].ports[0], servers[1].ports[0]]);
    let names = |number: usize| match number % 7 {
        0 => format!("with blanks {number}"),
        _ => format!("{number}:{}", "k".repeat(number % 200)),
    };
    let keys: Vec<String> = (0..3000).map(names).collect();
    let value = |number: usize| format!("{number} ").repeat([0, 1, 10, 400, 5000][number % 5]);
    let values: Vec<String> = (0..keys.len()).map(value).collect();
    let is_there = |number: usize| !number.is_multiple_of(3);
    let sets = (0..keys.len()).filter(|number| is_there(*number));
    let sets = sets.map(|number| set(&keys[number], &values[number])).collect();
    let stored = client.call_all(sets, Call::default());
    assert!(stored.iter().all(|reply| *reply == Ok(Reply::Stored)));
    let before: u64 = client.statistics().iter().map(|each| each.counters.hits).sum();
    // Some keys twice.
    let asked: Vec<usize> = (0..keys.len())
        .flat_map(|number| vec![number; 1 + number % 2])
        .collect();
    let expected = |number: usize| is_there(number).then(|| values[number].as_bytes());
    for ask in [get, plain] {
        let replies = client.call_all(
            asked.iter().map(|number| ask(&keys[*number])).collect(),
            Call::default(),
        );
        for (number, reply) in asked.iter().zip(replies) {
            let found = match reply {
                Ok(Reply::Value(value)) => Some(value.bytes),
                Ok(Reply::Miss) => None,
                other => panic!("{other:?}"),
            };
            assert_eq!(found.as_deref(), expected(*number));
        }
    }
    let wire: Vec<&[u8]> = asked.iter().map(|number| keys[*number].as_bytes()).collect();
    let found = client.look_up(&wire, true, Call::default());
    for (number, seen) in asked.iter().zip(found.iter()) {
        let seen = seen.expect("a server without faults");
        assert_eq!(seen.map(|seen| seen.bytes), expected(*number));
        assert!(seen.is_none_or(|seen| seen.cas.is_some()));
    }
    let hits: u64 = client.statistics().iter().map(|each| each.counters.hits).sum();
    let there = asked.iter().filter(|number| is_there(**number)).count();
    assert_eq!(hits - before, 3 * there as u64);
}
