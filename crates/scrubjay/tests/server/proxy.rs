//! The client through a proxy that somebody else has written: Debian's twemproxy (nutcracker) before two servers. It speaks a part of
//! the classic commands, and ends the connection at any other.

use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use scrubjay_client::cache::{CacheError, Swap};
use scrubjay_client::value::Value;
use scrubjay_client::{Cache, Client, Config, Error, LeaseOptions, Put, placement};

use crate::cache::MINUTE;
use crate::kit::{Dir, PATIENCE, Server, until};

/// Two servers behind a proxy; all gone when dropped.
struct Proxied {
    servers: Vec<Server>,
    proxy: Child,
    dir: Dir,
}

impl Drop for Proxied {
    fn drop(&mut self) {
        let _ = self.proxy.kill();
        let _ = self.proxy.wait();
    }
}

impl Proxied {
    /// Nothing if there is no such proxy on this machine, which is said.
    fn start() -> Option<Proxied> {
        if Command::new("nutcracker").arg("-V").output().is_err() {
            eprintln!("skipped: nutcracker is not installed");
            return None;
        }
        let servers = vec![Server::start("-m 64"), Server::start("-m 64")];
        let dir = Dir::new();
        let listed: String = servers
            .iter()
            .map(|server| format!("    - 127.0.0.1:{}:1\n", server.ports[0]))
            .collect();
        let socket = dir.path("proxy");
        let text = format!(
            "pool:\n  listen: {}\n  hash: fnv1a_64\n  distribution: ketama\n  auto_eject_hosts: false\n  \
             timeout: 60000\n  servers:\n{listed}",
            socket.display()
        );
        std::fs::write(dir.path("configuration"), text).expect("our folder");
        // It cannot be told to take any port for its statistics: a free one may be taken by another meanwhile.
        let started = until(|| {
            let mut proxy = spawn(&dir, free_port());
            let listens = until(|| match proxy.try_wait().expect("our child") {
                Some(_) => Some(false),
                None => UnixStream::connect(&socket).ok().map(|_| true),
            });
            (listens == Some(true)).then_some(proxy)
        });
        let proxy = started.expect("the proxy listens in time");
        Some(Proxied { servers, proxy, dir })
    }

    /// The form is found out by asking.
    fn cache(&self) -> Cache {
        let path = self.dir.path("proxy").display().to_string();
        let mut config = Config::new(vec![placement::Server::new(path, 0)]);
        config.timeout = PATIENCE;
        config.connect_timeout = PATIENCE;
        // It ends connections when a server behind it dies, and is not down for that.
        config.failure_limit = u32::MAX;
        Cache::new(Client::new(config).expect("a server"))
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.local_addr().expect("bound").port()
}

fn spawn(dir: &Dir, statistics_port: u16) -> Child {
    Command::new("nutcracker")
        .args(["-a", "127.0.0.1", "-s", &statistics_port.to_string()])
        .arg("-c")
        .arg(dir.path("configuration"))
        .arg("-o")
        .arg(dir.path("log"))
        .arg("-p")
        .arg(dir.path("pid"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts")
}

#[test]
fn a_proxy_is_used_as_far_as_it_goes() {
    let Some(proxied) = Proxied::start() else {
        return;
    };
    let cache = proxied.cache();
    // Longer than the proxy's buffers, too.
    for len in [0, 1, 2_000, 100_000] {
        let bytes: Vec<u8> = (0..len).map(|at: u32| at.wrapping_mul(at) as u8).collect();
        assert_eq!(cache.set("k", bytes.clone(), MINUTE), Ok(true));
        assert_eq!(cache.get("k"), Ok(Some(Value::Bytes(bytes))));
    }
    assert_eq!(cache.add("k", 2, MINUTE), Ok(false));
    assert_eq!(cache.replace("k", 3, MINUTE), Ok(true));
    let (value, cas) = cache.gets("k").expect("a reply").expect("a value");
    assert_eq!(value, Value::Int(3));
    assert_eq!(cache.cas("k", 4, cas, MINUTE), Ok(Swap::Stored));
    assert_eq!(cache.cas("k", 5, cas, MINUTE), Ok(Swap::Changed));
    assert_eq!(cache.incr("k", 10), Ok(Some(14)));
    assert_eq!(cache.decr("k", 1), Ok(Some(13)));
    assert_eq!(cache.incr("none", 1), Ok(None));
    assert_eq!(cache.incr_from("n", 1, 5, MINUTE), Ok(5));
    assert_eq!(cache.touch("k", MINUTE), Ok(true));
    assert_eq!(cache.touch("none", MINUTE), Ok(false));
    assert_eq!(
        cache.update("k", MINUTE, |_| Some("a".into())),
        Ok(Some("a".into()))
    );
    assert_eq!(cache.append("k", "b"), Ok(true));
    assert_eq!(cache.get("k"), Ok(Some("ab".into())));
    let computed = cache.get_or_compute("c", MINUTE, LeaseOptions::default(), || Ok::<_, ()>(1));
    assert_eq!(computed, Ok(Value::Int(1)));
    assert_eq!(cache.invalidate("c", MINUTE), Ok(true));
    assert_eq!(cache.delete("k"), Ok(true));
    assert_eq!(cache.get("k"), Ok(None));
    let quiet = Put {
        quiet: true,
        ..MINUTE.into()
    };
    assert_eq!(cache.set("q", 1, quiet), Ok(true));
    assert_eq!(cache.get("q"), Ok(Some(Value::Int(1))));
    assert_eq!(cache.delete_quietly("q"), Ok(()));
    assert_eq!(cache.get("q"), Ok(None));
    assert!(cache.versions()[0].1.is_ok());
    // It does not know these, and ends the connection: an error, and the next request has another one.
    assert!(cache.get_and_touch("n", MINUTE).is_err());
    assert_eq!(cache.get("n"), Ok(Some(Value::Int(5))));
    assert_eq!(cache.flush_all(0).len(), 1);
    assert_eq!(cache.get("n"), Ok(Some(Value::Int(5))));

    let keys: Vec<String> = (0..2_000).map(|number| format!("key-{number}")).collect();
    let pairs = keys.iter().map(|key| (key, key.as_str()));
    assert!(cache.set_many(pairs, MINUTE).is_empty());
    let found = cache.get_many(&keys).complete().expect("no failure");
    assert_eq!(found.len(), keys.len());
    assert!(found.iter().all(|(key, value)| *value == key.as_str().into()));
    for server in &proxied.servers {
        assert!(server.statistic("curr_items") > 100, "both have keys");
    }
    assert_eq!(cache.delete_many(&keys).found.len(), keys.len());
}

#[test]
fn a_server_that_dies_behind_a_proxy_gives_no_wrong_values() {
    let Some(mut proxied) = Proxied::start() else {
        return;
    };
    let cache = proxied.cache();
    let keys: Vec<String> = (0..500).map(|number| format!("key-{number}")).collect();
    let pairs = keys.iter().map(|key| (key, key.as_str()));
    assert!(cache.set_many(pairs, MINUTE).is_empty());
    let (rounds, over) = (AtomicU32::new(0), AtomicBool::new(false));
    let right = |key: &str, value: &Value| assert_eq!(*value, Value::from(key));
    let dead = proxied.servers.remove(1);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (cache, keys, rounds, over) = (&cache, &keys, &rounds, &over);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    if thread % 2 == 0 {
                        let many = cache.within(Duration::from_secs(2)).get_many(keys);
                        many.found.iter().for_each(|(key, value)| right(key, value));
                    }
                    for key in keys.iter().skip(thread).step_by(8) {
                        if let Ok(Some(value)) = cache.get(key) {
                            right(key, &value);
                        }
                    }
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let more = |count| {
            let before = rounds.load(Ordering::Relaxed);
            until(|| (rounds.load(Ordering::Relaxed) >= before + count).then_some(()))
        };
        let went_on = more(16).and_then(|()| {
            dead.stop("KILL");
            more(32)
        });
        over.store(true, Ordering::Relaxed);
        went_on.expect("requests are answered in time");
    });
    // The other one's keys are still there, each with its value. A connection that the proxy ended is no answer: it is asked again.
    let answer = |key: &String| {
        until(|| match cache.get(key) {
            Ok(value) => Some(value),
            Err(CacheError::Call(Error::Server { .. })) => Some(None),
            Err(_) => None,
        })
    };
    let values = keys.iter().filter_map(|key| {
        let value = answer(key).expect("the proxy answers in time")?;
        right(key, &value);
        Some(value)
    });
    let (alive, there) = (values.count() as u64, proxied.servers[0].statistic("curr_items"));
    assert_eq!(alive, there);
}
