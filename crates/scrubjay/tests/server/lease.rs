//! Values that one caller computes for all, with scrubjay and with Debian's memcached; and the client's questions about one server.

use std::convert::Infallible;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use scrubjay_client::admin::{Admin, AdminError};
use scrubjay_client::protocol::Form;
use scrubjay_client::value::Value;
use scrubjay_client::{Cache, Client, ComputeError, Config, LeaseOptions, Ttl};

use crate::cache::{FORMS, MINUTE, cache, config, everywhere};
use crate::kit::{Dir, PATIENCE, Server};

/// Patient, so that a slow machine computes nothing twice.
const OPTIONS: LeaseOptions = LeaseOptions {
    lease: Duration::from_secs(600),
    wait_max: PATIENCE,
    recache_below: None,
};

fn other(cache: &Cache) -> Cache {
    Cache::new(Client::new(cache.client().config().clone()).expect("servers"))
}

fn never() -> Result<Value, Infallible> {
    panic!("nothing is to be computed")
}

/// Many threads on so many clients ask at once; gives how often the value was computed.
fn herd(clients: &[Cache], key: &str) -> u32 {
    const THREADS: usize = 8;
    let computed = AtomicU32::new(0);
    let start = Barrier::new(clients.len() * THREADS);
    std::thread::scope(|scope| {
        for client in clients {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    start.wait();
                    let value = client.get_or_compute(key, MINUTE, OPTIONS, || {
                        computed.fetch_add(1, Ordering::Relaxed);
                        // So long that the others have come.
                        std::thread::park_timeout(Duration::from_millis(50));
                        Ok::<_, Infallible>("acorn")
                    });
                    assert_eq!(value, Ok(Value::from("acorn")));
                });
            }
        }
    });
    computed.into_inner()
}

#[test]
fn one_of_many_threads_and_clients_computes() {
    for server in [Server::start("-m 64"), Server::start_memcached("-m 64")] {
        for round in 0..5 {
            let clients: Vec<Cache> = (0..2).map(|_| cache(&[&server], Form::Meta)).collect();
            assert_eq!(herd(&clients, &format!("meta {round}").replace(' ', "-")), 1);
            // Without leases it is one in each process; a client stands for one.
            let alone = cache(&[&server], Form::Classic);
            assert_eq!(herd(&[alone], &format!("classic-{round}")), 1);
            // A key that cannot have a lease.
            assert_eq!(herd(&clients[..1], &format!("with blanks {round}")), 1);
        }
    }
}

#[test]
fn whoever_fails_or_panics_makes_room() {
    everywhere(|cache| {
        let failed = cache.get_or_compute("k", MINUTE, OPTIONS, || Err::<Value, _>("no"));
        assert_eq!(failed, Err(ComputeError::Compute("no")));
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            cache.get_or_compute("k", MINUTE, OPTIONS, never)
        }));
        assert!(panicked.is_err());
        assert_eq!(cache.get("k"), Ok(None));
        let next = other(cache).get_or_compute("k", MINUTE, OPTIONS, || Ok::<_, Infallible>(1));
        assert_eq!(next, Ok(Value::Int(1)));
        assert_eq!(
            cache.get_or_compute("k", MINUTE, OPTIONS, never),
            Ok(Value::Int(1))
        );
    });
}

#[test]
fn invalidated_value_serves_those_who_wait_only() {
    for server in [Server::start("-m 64"), Server::start_memcached("-m 64")] {
        let cache = cache(&[&server], Form::Meta);
        let other = other(&cache);
        assert_eq!(cache.invalidate("k", MINUTE), Ok(false));
        assert_eq!(cache.set("k", "old", MINUTE), Ok(true));
        assert_eq!(cache.invalidate("k", MINUTE), Ok(true));
        let new = cache.get_or_compute("k", MINUTE, OPTIONS, || {
            let meanwhile = other.get_or_compute("k", MINUTE, OPTIONS, never);
            assert_eq!(meanwhile, Ok(Value::from("old")));
            assert_eq!(other.get("k"), Ok(None));
            Ok::<_, Infallible>("new")
        });
        assert_eq!(new, Ok(Value::from("new")));
        assert_eq!(other.get("k"), Ok(Some(Value::from("new"))));
        // A failure leaves the old value to leases.
        assert_eq!(cache.invalidate("k", MINUTE), Ok(true));
        let failed = cache.get_or_compute("k", MINUTE, OPTIONS, || Err::<Value, _>(()));
        assert_eq!(failed, Err(ComputeError::Compute(())));
        let left = other.get_or_compute("k", MINUTE, OPTIONS, never);
        assert_eq!(left, Ok(Value::from("new")));
    }
}

#[test]
fn what_changed_meanwhile_is_not_overwritten() {
    for server in [Server::start("-m 64"), Server::start_memcached("-m 64")] {
        let cache = cache(&[&server], Form::Meta);
        let other = other(&cache);
        let compute = |meanwhile: &dyn Fn()| {
            let value = cache.get_or_compute("k", MINUTE, OPTIONS, || {
                meanwhile();
                Ok::<_, Infallible>("computed")
            });
            assert_eq!(value, Ok(Value::from("computed")));
        };
        compute(&|| assert_eq!(other.set("k", "theirs", MINUTE), Ok(true)));
        assert_eq!(cache.get("k"), Ok(Some(Value::from("theirs"))));
        assert_eq!(cache.delete("k"), Ok(true));
        compute(&|| assert_eq!(other.delete("k"), Ok(true)));
        assert_eq!(cache.get("k"), Ok(None));
        // Invalid before it is there: the next one computes.
        compute(&|| assert_eq!(other.invalidate("k", MINUTE), Ok(true)));
        let next = cache.get_or_compute("k", MINUTE, OPTIONS, || Ok::<_, Infallible>("anew"));
        assert_eq!(next, Ok(Value::from("anew")));
    }
}

#[test]
fn who_waits_too_long_computes_and_one_refreshes_early() {
    for server in [Server::start("-m 64"), Server::start_memcached("-m 64")] {
        let cache = cache(&[&server], Form::Meta);
        let other = other(&cache);
        let hasty = LeaseOptions {
            wait_max: Duration::from_millis(20),
            ..OPTIONS
        };
        let value = cache.get_or_compute("k", MINUTE, OPTIONS, || {
            let own = other.get_or_compute("k", MINUTE, hasty, || Ok::<_, Infallible>("own"));
            assert_eq!(own, Ok(Value::from("own")));
            Ok::<_, Infallible>("lasting")
        });
        assert_eq!(value, Ok(Value::from("lasting")));
        assert_eq!(other.get("k"), Ok(Some(Value::from("lasting"))));
        let early = LeaseOptions {
            recache_below: Some(2 * MINUTE),
            ..OPTIONS
        };
        let value = cache.get_or_compute("k", 10 * MINUTE, early, || {
            assert_eq!(
                other.get_or_compute("k", MINUTE, early, never),
                Ok(Value::from("lasting"))
            );
            Ok::<_, Infallible>("fresh")
        });
        assert_eq!(value, Ok(Value::from("fresh")));
        assert_eq!(
            other.get_or_compute("k", MINUTE, early, never),
            Ok(Value::from("fresh"))
        );
    }
}

#[test]
fn all_keys_are_listed_with_what_is_known_of_them() {
    for server in [Server::start("-m 64"), Server::start_memcached("-m 64")] {
        let cache = cache(&[&server], Form::Meta);
        let config = config(&[&server], Form::Meta);
        let admin = || Admin::connect(&config.servers[0], &config).expect("connects");
        assert_eq!(admin().dump_keys().expect("it is sent").count(), 0);
        let mut keys: Vec<Vec<u8>> = (0..5_000).map(|n| format!("key-{n}").into_bytes()).collect();
        keys.push(b"50%=a+\xff\xe5\x8c\x97".to_vec());
        let pairs = keys.iter().map(|key| (key, "acorn"));
        assert!(cache.set_many(pairs, MINUTE).is_empty());
        assert_eq!(cache.set("forever", 1, Ttl::Forever), Ok(true));
        let listed: Result<Vec<_>, AdminError> = admin().dump_keys().expect("it is sent").collect();
        let mut listed = listed.expect("no error");
        let forever = listed.iter().position(|facts| facts.key == b"forever");
        let forever = listed.swap_remove(forever.expect("it is listed"));
        assert_eq!(forever.expires_at, None);
        for facts in &listed {
            let expires_at = facts.expires_at.expect("a minute");
            // Each of the two is rounded to a whole second on its own.
            assert!((1..=63).contains(&(expires_at - facts.accessed_at)), "{facts:?}");
            assert!(facts.size > 10, "{facts:?}");
        }
        let mut found: Vec<Vec<u8>> = listed.into_iter().map(|facts| facts.key).collect();
        found.sort();
        keys.sort();
        assert_eq!(found, keys);
    }
}

#[test]
fn versions_and_statistics_of_one_server() {
    for server in [Server::start("-m 64"), Server::start_memcached("-m 64")] {
        for form in FORMS {
            let config = config(&[&server], form);
            let mut admin = Admin::connect(&config.servers[0], &config).expect("connects");
            let version = admin.version().expect("a version");
            let (_, of_client) = cache(&[&server], form).versions().remove(0);
            assert_eq!(of_client, Ok(version));
            let rows = admin.stats("").expect("rows");
            let pid = rows
                .iter()
                .find(|(name, _)| name == "pid")
                .map(|(_, value)| value);
            assert_eq!(pid, Some(&server.child.id().to_string()));
            assert!(!admin.stats("settings").expect("rows").is_empty());
            assert!(matches!(
                admin.stats("nothing-like-that"),
                Err(AdminError::Refused { .. })
            ));
            assert!(admin.version().is_ok(), "a refusal ends nothing");
        }
    }
}

#[test]
fn an_admin_logs_in_before_it_asks() {
    let dir = Dir::new();
    let users = dir.path("users");
    std::fs::write(&users, "jay:acorn\n").expect("writable");
    let line = format!("-m 64 -Y {}", users.display());
    for server in [Server::start(&line), Server::start_memcached(&line)] {
        let mut config = config(&[&server], Form::Meta);
        let connect = |config: &Config| Admin::connect(&config.servers[0], config);
        let mut login = |password: &str| {
            config.set("login", &format!("jay:{password}")).expect("a login");
            connect(&config)
        };
        assert!(matches!(login("oak"), Err(AdminError::Refused { .. })));
        let mut admin = login("acorn").expect("the right password");
        assert!(!admin.stats("").expect("rows").is_empty());
    }
}
