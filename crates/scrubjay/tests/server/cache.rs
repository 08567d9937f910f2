//! The client's typed cache, with scrubjay and with Debian's memcached, by meta and by classic commands.

use std::collections::HashMap;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use scrubjay_client::cache::Swap;
use scrubjay_client::protocol::Form;
use scrubjay_client::value::{Choice, Error as ValueError, Key, Stored, Value};
use scrubjay_client::{Cache, CacheError, Client, Config, Put, Ttl, placement};

use crate::kit::{PATIENCE, Server};

pub fn config(servers: &[&Server], form: Form) -> Config {
    let place = |server: &&Server| placement::Server::new("127.0.0.1", server.ports[0]);
    let mut config = Config::new(servers.iter().map(place).collect());
    config.form = Some(form);
    config.timeout = PATIENCE;
    config.connect_timeout = PATIENCE;
    config.value_len_max = 4 << 20;
    config
}

pub fn cache(servers: &[&Server], form: Form) -> Cache {
    Cache::new(Client::new(config(servers, form)).expect("servers"))
}

pub const FORMS: [Form; 2] = [Form::Meta, Form::Classic];

/// Both servers in both forms, each time empty.
pub fn everywhere(check: impl Fn(&Cache)) {
    for server in [Server::start("-m 64"), Server::start_memcached("-m 64")] {
        for form in FORMS {
            let cache = cache(&[&server], form);
            assert!(cache.flush_all(0).is_empty());
            check(&cache);
        }
    }
}

pub const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn values_come_back_as_they_were() {
    everywhere(|cache| {
        let map = Value::Map(vec![("a".into(), 1.into()), (Key::Int(2), Value::Null)]);
        let values = [
            Value::from("acorn"),
            Value::from(""),
            Value::from(b"\xff\0".to_vec()),
            Value::from(-7),
            Value::from(0.1),
            Value::from(true),
            Value::Null,
            Value::from("北京".repeat(5_000)),
            Value::List(vec![map, Value::from("x")]),
        ];
        for value in values {
            assert_eq!(cache.set("k", value.clone(), MINUTE), Ok(true));
            assert_eq!(cache.get("k"), Ok(Some(value)));
        }
        assert_eq!(cache.get("none"), Ok(None));
        let raw = Stored {
            flags: 0xffff_ffff,
            bytes: b"as it is".to_vec(),
        };
        assert_eq!(cache.set_raw("k", raw.clone(), Ttl::Forever), Ok(true));
        assert_eq!(cache.get_raw("k"), Ok(Some(raw)));
        assert!(matches!(
            cache.get("k"),
            Err(CacheError::Value(ValueError::UnknownFlags { .. }))
        ));
    });
}

#[test]
fn conditions_hold() {
    everywhere(|cache| {
        assert_eq!(cache.replace("k", 1, MINUTE), Ok(false));
        assert_eq!(cache.add("k", 1, MINUTE), Ok(true));
        assert_eq!(cache.add("k", 2, MINUTE), Ok(false));
        assert_eq!(cache.replace("k", 3, MINUTE), Ok(true));
        let (value, cas) = cache.gets("k").expect("a reply").expect("a value");
        assert_eq!(value, Value::Int(3));
        assert_eq!(cache.cas("k", 4, cas, MINUTE), Ok(Swap::Stored));
        assert_eq!(cache.cas("k", 5, cas, MINUTE), Ok(Swap::Changed));
        assert_eq!(cache.get("k"), Ok(Some(Value::Int(4))));
        assert_eq!(cache.delete("k"), Ok(true));
        assert_eq!(cache.delete("k"), Ok(false));
        assert_eq!(cache.cas("k", 6, cas, MINUTE), Ok(Swap::Missing));
    });
}

#[test]
fn lives_end_when_they_should() {
    everywhere(|cache| {
        assert_eq!(cache.set("k", 1, Duration::ZERO), Ok(true));
        assert_eq!(cache.get("k"), Ok(None));
        // More than 30 days, which servers would take for a date in 1970.
        let days = Duration::from_secs(40 * 24 * 60 * 60);
        for ttl in [Ttl::Forever, Ttl::After(days), Ttl::After(Duration::MAX)] {
            assert_eq!(cache.set("k", 1, ttl), Ok(true));
            assert_eq!(cache.get("k"), Ok(Some(Value::Int(1))), "{ttl:?}");
        }
        assert_eq!(cache.touch("k", days), Ok(true));
        assert_eq!(cache.get_and_touch("k", MINUTE), Ok(Some(Value::Int(1))));
        assert_eq!(cache.touch("k", Duration::ZERO), Ok(true));
        assert_eq!(cache.get("k"), Ok(None));
        assert_eq!(cache.touch("k", MINUTE), Ok(false));
        assert_eq!(cache.get_and_touch("k", MINUTE), Ok(None));
    });
}

#[test]
fn numbers_are_counted_and_read() {
    everywhere(|cache| {
        assert_eq!(cache.incr("n", 1), Ok(None));
        assert_eq!(cache.incr_from("n", 5, 10, MINUTE), Ok(10));
        assert_eq!(cache.incr_from("n", 5, 10, MINUTE), Ok(15));
        assert_eq!(cache.get("n"), Ok(Some(Value::Int(15))));
        // Fewer digits than before.
        assert_eq!(cache.decr("n", 6), Ok(Some(9)));
        assert_eq!(cache.get("n"), Ok(Some(Value::Int(9))));
        assert_eq!(cache.decr_from("n", 100, 7, MINUTE), Ok(0));
        assert_eq!(cache.decr_from("other", 100, 7, MINUTE), Ok(7));
        assert_eq!(cache.set("text", "acorn", MINUTE), Ok(true));
        assert!(matches!(cache.incr("text", 1), Err(CacheError::Call(_))));
    });
}

#[test]
fn bytes_are_appended_to_what_is_raw_and_nothing_else_is_misread() {
    everywhere(|cache| {
        assert_eq!(cache.append("k", "b"), Ok(false));
        let raw = Put {
            choice: Choice::Raw,
            ..MINUTE.into()
        };
        let long = "acorn".repeat(1_000);
        assert_eq!(cache.set("k", long.as_str(), raw), Ok(true));
        assert_eq!(cache.append("k", ">"), Ok(true));
        assert_eq!(cache.prepend("k", "<"), Ok(true));
        assert_eq!(cache.get("k"), Ok(Some(format!("<{long}>").into())));
        for value in [Value::from(long.as_str()), Value::List(vec![1.into()])] {
            assert_eq!(cache.set("k", value, MINUTE), Ok(true));
            assert_eq!(cache.append("k", ">"), Ok(true));
            assert!(matches!(cache.get("k"), Err(CacheError::Value(_))));
        }
    });
}

#[test]
fn batches_tell_what_failed_by_name() {
    everywhere(|cache| {
        let long_key = "k".repeat(300);
        let pairs = [("a", 1), ("b", 2), (long_key.as_str(), 3)];
        let failed = cache.set_many(pairs, MINUTE);
        assert_eq!(failed.len(), 1);
        assert_eq!(failed[0].0, long_key);
        let many = cache.get_many(["a", "b", "none", "a", long_key.as_str()]);
        assert_eq!(
            many.found,
            HashMap::from([("a", Value::Int(1)), ("b", Value::Int(2))])
        );
        assert_eq!(many.failed.len(), 1);
        assert!(many.complete().is_err());
        let gone = cache.delete_many(["a", "none"]).complete().expect("no failure");
        assert_eq!(gone, HashMap::from([("a", ())]));
        assert_eq!(cache.get("a"), Ok(None));
        assert_eq!(cache.get("b"), Ok(Some(Value::Int(2))));
    });
}

#[test]
fn a_dead_server_takes_nothing_from_the_others() {
    let (alive, dead) = (Server::start("-m 64"), Server::start("-m 64"));
    let cache = cache(&[&alive, &dead], Form::Meta);
    let keys: Vec<String> = (0..100).map(|number| format!("key-{number}")).collect();
    let pairs = keys.iter().map(|key| (key, key.as_str()));
    assert!(cache.set_many(pairs, MINUTE).is_empty());
    dead.stop("KILL");
    let many = cache.within(Duration::from_secs(2)).get_many(&keys);
    let of_dead = |key: &&String| cache.client().place(key.as_bytes()).get() == 1;
    assert_eq!(many.failed.len(), keys.iter().filter(of_dead).count());
    assert!(many.failed.iter().all(|(key, _)| of_dead(key)));
    assert_eq!(many.found.len() + many.failed.len(), keys.len());
    assert!(
        many.found
            .iter()
            .all(|(key, value)| *value == Value::from(key.as_str()))
    );
    let versions = cache.versions();
    assert!(versions[0].1.is_ok() && versions[1].1.is_err());
}

#[test]
fn updates_of_many_lose_nothing() {
    everywhere(|cache| {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let other = Cache::new(Client::new(cache.client().config().clone()).expect("servers"));
                scope.spawn(move || {
                    for _ in 0..25 {
                        let more = |old: Option<&Value>| match old {
                            Some(Value::List(list)) => {
                                let mut list = list.clone();
                                list.push(Value::Null);
                                Some(Value::List(list))
                            }
                            _ => Some(Value::List(vec![Value::Null])),
                        };
                        other.update("k", MINUTE, more).expect("not that contended");
                    }
                });
            }
        });
        let all = Value::List(vec![Value::Null; 100]);
        assert_eq!(cache.get("k"), Ok(Some(all.clone())));
        assert_eq!(cache.update("k", MINUTE, |_| None), Ok(Some(all)));
    });
}

#[test]
fn quiet_requests_are_executed() {
    everywhere(|cache| {
        let quiet = Put {
            quiet: true,
            ..MINUTE.into()
        };
        assert_eq!(cache.set("k", 1, quiet), Ok(true));
        assert_eq!(cache.get("k"), Ok(Some(Value::Int(1))));
        assert_eq!(cache.delete_quietly("k"), Ok(()));
        assert_eq!(cache.get("k"), Ok(None));
    });
}

/// Runs a future whose wakers need not be heeded.
fn run<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        std::thread::yield_now();
    }
}

#[test]
fn futures_do_the_same() {
    everywhere(|cache| {
        run(async {
            assert_eq!(cache.set_async("k", 1, MINUTE).await, Ok(true));
            assert_eq!(cache.add_async("k", 2, MINUTE).await, Ok(false));
            assert_eq!(cache.replace_async("k", 3, MINUTE).await, Ok(true));
            let (value, cas) = cache.gets_async("k").await.expect("a reply").expect("a value");
            assert_eq!(value, Value::Int(3));
            assert_eq!(cache.cas_async("k", 4, cas, MINUTE).await, Ok(Swap::Stored));
            assert_eq!(cache.incr_async("k", 2).await, Ok(Some(6)));
            assert_eq!(cache.decr_async("k", 1).await, Ok(Some(5)));
            assert_eq!(cache.touch_async("k", MINUTE).await, Ok(true));
            assert_eq!(cache.get_async("k").await, Ok(Some(Value::Int(5))));
            let many = cache.get_many_async(["k", "none"]).await;
            assert_eq!(many.complete(), Ok(HashMap::from([("k", Value::Int(5))])));
            assert_eq!(cache.delete_async("k").await, Ok(true));
        });
    });
}
