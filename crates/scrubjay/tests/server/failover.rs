//! One of four servers dies under load and returns, or stands still and goes on: each row of the table in
//! `docs/client/failover.md`.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::pin::pin;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use scrubjay_client::config::{Apart, Failover};
use scrubjay_client::placement::{self, ServerIndex};
use scrubjay_client::protocol::{Arith, Delete, Form, Get, Reply, Request, Store, Touch};
use scrubjay_client::{Call, Client, Config, Error, Route, State};

use crate::kit::{Dir, PATIENCE, Server, ask, scrubjay, signal, until};

/// Which of the four dies.
const VICTIM: usize = 2;

/// The longest life in the gutter.
const GUTTER_SECS: u64 = 60;

/// Four servers behind sockets whose paths stay when a server is started again, and one for the gutter.
struct Fleet {
    servers: Vec<Process>,
    dir: Dir,
}

/// Of servers that may be as slow as the machine is.
pub fn patient(places: Vec<placement::Server>) -> Config {
    let mut config = Config::new(places);
    config.timeout = PATIENCE;
    config.connect_timeout = PATIENCE;
    config
}

/// A server that listens on a socket; gone when dropped.
pub struct Process(pub Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Fleet {
    fn start() -> Fleet {
        let mut fleet = Fleet {
            dir: Dir::new(),
            servers: Vec::new(),
        };
        for number in 0..5 {
            let server = fleet.start_one(number);
            fleet.servers.push(server);
        }
        fleet
    }

    fn path(&self, number: usize) -> String {
        self.dir.path(&number.to_string()).display().to_string()
    }

    /// Starts it, and waits until it listens.
    fn start_one(&self, number: usize) -> Process {
        let line = format!("-m 64 -t 1 -s {}", self.path(number));
        let child = scrubjay(&line).stderr(Stdio::null()).spawn();
        let process = Process(child.expect("starts"));
        until(|| UnixStream::connect(self.path(number)).ok()).expect("the server listens in time");
        process
    }

    fn kill(&mut self, number: usize) {
        let child = &mut self.servers[number].0;
        child.kill().and_then(|()| child.wait()).expect("our child");
    }

    /// Stops it, and waits until none of its threads runs: the signal takes a moment.
    fn stand_still(&self, number: usize) {
        let pid = self.servers[number].0.id();
        signal(pid, "STOP");
        let is_stopped = |thread: PathBuf| {
            let text = std::fs::read_to_string(thread.join("stat")).expect("a thread that lives");
            // Behind the name, which may hold anything.
            text.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
        };
        let stopped = until(|| {
            let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("its threads");
            let mut threads = threads.map(|thread| thread.expect("a thread").path());
            threads.all(is_stopped).then_some(())
        });
        stopped.expect("it stands still");
    }

    fn place(&self, number: usize) -> placement::Server {
        placement::Server::new(self.path(number), 0)
    }

    /// Nobody but the victim fails by being slow.
    fn config(&self, failover: Failover) -> Config {
        let mut config = patient((0..4).map(|number| self.place(number)).collect());
        config.form = Some(Form::Meta);
        config.failover = failover;
        config.retry_interval = Duration::from_millis(50);
        config
    }

    fn modes(&self) -> [Failover; 4] {
        let gutter = Failover::Gutter {
            servers: vec![self.place(4)],
            ttl: Duration::from_secs(GUTTER_SECS),
        };
        [Failover::Error, Failover::Miss, Failover::Next(1), gutter]
    }

    /// What a server itself says of a key.
    fn look(&self, number: usize, key: &str) -> String {
        let stream = UnixStream::connect(self.path(number)).expect("connects");
        ask(stream, &format!("mg {key} t"))
    }
}

/// A key of this server that no other call of this gives.
fn key_of(client: &Client, server: usize, name: &str) -> String {
    (0..)
        .map(|number| format!("{name}{number}"))
        .find(|key| client.place(key.as_bytes()).get() == server)
        .expect("each server has keys")
}

/// What is asked, by the table's names.
fn request<'a>(name: &str, key: &'a str) -> Request<'a> {
    let key = key.as_bytes();
    let store = Store::new(key, b"1".as_slice());
    match name {
        "get" => Request::Get(Get::new(key)),
        "gets" => Request::Get(Get {
            with_cas: true,
            ..Get::new(key)
        }),
        "set" => Request::Store(store),
        "cas" => Request::Store(Store {
            cas: Some(1),
            ..store
        }),
        "delete" => Request::Delete(Delete::new(key)),
        "touch" => Request::Touch(Touch {
            key,
            exptime: 0,
            quiet: false,
        }),
        "incr" => Request::Arith(Arith::new(key, 1)),
        _ => panic!("no such row: {name}"),
    }
}

const ROWS: [&str; 7] = ["get", "gets", "set", "cas", "delete", "touch", "incr"];

/// In a word what came of it.
fn outcome(result: &Result<Reply, Error>) -> &'static str {
    match result {
        Ok(Reply::Value(_)) => "hit",
        Ok(Reply::Miss) => "miss",
        Ok(Reply::Stored) => "stored",
        Ok(Reply::NotStored) => "not stored",
        Ok(Reply::NotFound) => "not found",
        Ok(Reply::Deleted) => "deleted",
        Ok(Reply::Touched) => "touched",
        Ok(Reply::Number(_)) => "number",
        Ok(_) => "another reply",
        Err(error) if error.is_doubtful() => "doubt",
        Err(error) if error.is_failure() => "error",
        Err(_) => "another error",
    }
}

fn call(client: &Client, name: &str, key: &str) -> &'static str {
    outcome(&client.call(request(name, key), Call::default()))
}

/// The ways to ask, all of which fail over.
const WAYS: [fn(&Client, &str, &str) -> &'static str; 5] = [
    call,
    |client, name, key| outcome(&client.call_all(vec![request(name, key)], Call::default())[0]),
    |client, name, key| {
        let (tell, told) = mpsc::channel();
        client.start(request(name, key), Call::default(), move |reply| {
            tell.send(reply).expect("it is waited for");
        });
        outcome(&told.recv().expect("done is called"))
    },
    |client, name, key| {
        let (tell, told) = mpsc::channel();
        let two = vec![request(name, key), request("get", "elsewhere")];
        client.start_all(two, Call::default(), move |replies| {
            tell.send(replies).expect("it is waited for");
        });
        let replies = told.recv().expect("done is called");
        assert_eq!(replies.len(), 2);
        outcome(&replies[0])
    },
    |client, name, key| {
        let mut asked = pin!(client.call_async(request(name, key), Call::default()));
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        loop {
            match asked.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(reply) => return outcome(&reply),
                Poll::Pending => std::thread::park(),
            }
        }
    },
];

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn state(client: &Client) -> State {
    client.statistics()[VICTIM].state
}

/// Gets and sets of many keys by two threads as long as `act` takes.
fn under_load(client: &Client, act: impl FnOnce()) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let over = &over;
            scope.spawn(move || {
                for number in 0u64.. {
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                    let key = format!("load{thread}-{}", number % 100);
                    for name in ["get", "set"] {
                        let result = client.call(request(name, &key), Call::default());
                        let of_victim = client.place(key.as_bytes()).get() == VICTIM;
                        assert!(result.is_ok() || of_victim, "{key}: {result:?}");
                    }
                }
            });
        }
        let stop = Stop(&over);
        act();
        drop(stop);
    });
}

/// Ends the load even if an assertion fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// For one key each, in this order: get, gets, set, cas, delete, touch, incr; and then, of one key: set, get, incr, touch,
/// delete, get.
fn expected(failover: &Failover) -> ([&'static str; 7], [&'static str; 6]) {
    match failover {
        Failover::Error => (["error"; 7], ["error"; 6]),
        Failover::Miss => (
            [
                "miss",
                "miss",
                "not stored",
                "not found",
                "not found",
                "not found",
                "not found",
            ],
            [
                "not stored",
                "miss",
                "not found",
                "not found",
                "not found",
                "miss",
            ],
        ),
        // The other server has none of these keys, but takes them.
        Failover::Next(_) | Failover::Gutter { .. } => (
            [
                "miss",
                "error",
                "stored",
                "error",
                "not found",
                "not found",
                "not found",
            ],
            ["stored", "hit", "number", "touched", "deleted", "miss"],
        ),
    }
}

#[test]
fn a_server_that_dies_under_load_is_replaced_as_the_table_says_and_returns() {
    let mut fleet = Fleet::start();
    for failover in fleet.modes() {
        let client = Client::new(fleet.config(failover.clone())).expect("four servers");
        let key = key_of(&client, VICTIM, "k");
        assert_eq!(call(&client, "set", &key), "stored");
        let fleet = &mut fleet;
        under_load(&client, || {
            fleet.kill(VICTIM);
            until(|| (state(&client) != State::Up).then_some(())).expect("the load notices");
            let (alone, together) = expected(&failover);
            for (way, ask) in WAYS.into_iter().enumerate() {
                for (name, expected) in ROWS.into_iter().zip(alone) {
                    let key = key_of(&client, VICTIM, name);
                    assert_eq!(
                        ask(&client, name, &key),
                        expected,
                        "{failover:?} {name}, way {way}"
                    );
                }
            }
            let names = ["set", "get", "incr", "touch", "delete", "get"];
            for (name, expected) in names.into_iter().zip(together) {
                assert_eq!(call(&client, name, &key), expected, "{failover:?} {name}");
            }
            let at_victim = Call {
                route: Route::Server(client.servers().nth(VICTIM).expect("four")),
                ..Call::default()
            };
            let direct = client.call(request("get", &key), at_victim);
            assert_eq!(outcome(&direct), "error", "{failover:?}: asked for by name");
            if let Failover::Gutter { .. } = failover {
                assert_eq!(call(&client, "set", &key), "stored");
                let left = fleet.look(4, &key);
                let secs: u64 = left.trim_start_matches("HD t").parse().expect(&left);
                assert!((1..=GUTTER_SECS).contains(&secs), "{left}");
            }
            fleet.servers[VICTIM] = fleet.start_one(VICTIM);
            until(|| (state(&client) == State::Up).then_some(())).expect("the load notices");
            let fresh = key_of(&client, VICTIM, "fresh");
            assert_eq!(call(&client, "get", &key), "miss", "{failover:?}: it is empty");
            assert_eq!(call(&client, "set", &fresh), "stored");
            assert_eq!(
                fleet.look(VICTIM, &fresh),
                "HD t-1",
                "it is there and nowhere else"
            );
        });
        let statistics = client.statistics();
        assert_eq!(
            statistics.len(),
            if matches!(failover, Failover::Gutter { .. }) {
                5
            } else {
                4
            }
        );
        for (number, server) in statistics.iter().enumerate().take(4) {
            assert_eq!(server.downs > 0, number == VICTIM, "{server:?}");
        }
        assert_eq!(
            statistics[VICTIM].counters.failed_over > 0,
            failover != Failover::Error
        );
    }
}

#[test]
fn what_is_in_doubt_is_never_done_a_second_time() {
    let fleet = Fleet::start();
    for failover in fleet.modes() {
        let mut config = fleet.config(failover.clone());
        // It is never held to be down, so that every request is sent.
        config.failure_limit = 10_000;
        let patient = Client::new(config.clone()).expect("four servers");
        config.apart = vec![Apart::default(); 4];
        config.apart[VICTIM].timeout = Some(Duration::from_millis(50));
        let client = Client::new(config).expect("four servers");
        let key = key_of(&client, VICTIM, "held");
        assert_eq!(call(&patient, "set", &key), "stored");
        // It is connected before, as that takes time, too.
        until(|| (call(&client, "get", &key) == "hit").then_some(())).expect("a hit in time");
        fleet.stand_still(VICTIM);
        for name in ROWS {
            let expected = match (&failover, name) {
                (Failover::Miss, "get" | "gets") => "miss",
                (Failover::Next(_) | Failover::Gutter { .. }, "get") => "miss",
                _ => "doubt",
            };
            let key = key_of(&client, VICTIM, name);
            assert_eq!(call(&client, name, &key), expected, "{failover:?} {name}");
        }
        let other = match client.place(b"k").get() {
            VICTIM => key_of(&client, 0, "k"),
            _ => "k".to_owned(),
        };
        assert_eq!(
            call(&client, "set", &other),
            "stored",
            "the others are not concerned"
        );
        signal(fleet.servers[VICTIM].0.id(), "CONT");
        let back = until(|| (call(&client, "get", &key) == "hit").then_some(()));
        assert_eq!(back, Some(()), "{failover:?}: it has kept what it had");
        for server in (0..5).filter(|server| *server != VICTIM) {
            let set = key_of(&client, VICTIM, "set");
            assert_eq!(
                fleet.look(server, &set),
                "EN",
                "{failover:?}: stored nowhere else"
            );
        }
        assert_eq!(call(&patient, "delete", &key), "deleted");
    }
}

#[test]
fn connections_last_as_long_as_the_client_and_are_shared() {
    let server = Server::start("-m 64");
    let place = placement::Server::new("127.0.0.1", server.ports[0]);
    let client = Client::new(patient(vec![place])).expect("one server");
    for number in 0..100 {
        let shared = client.clone();
        assert_eq!(call(&shared, "set", &format!("k{number}")), "stored");
    }
    let statistics = client.statistics().remove(0);
    assert_eq!(statistics.counters.connects, 1);
    assert_eq!(statistics.times.connect.count(), 1);
    assert_eq!(statistics.counters.requests, 100);
    assert_eq!(statistics.times.wait.count(), 100);
    assert!(statistics.times.wire.count() > 0);
    assert!(statistics.counters.bytes_out > 100 && statistics.counters.bytes_in > 100);
}

#[test]
fn keys_are_shared_by_weight_and_counted_by_server() {
    let servers: Vec<Server> = (0..2).map(|_| Server::start("-m 64")).collect();
    let mut config = patient(Vec::new());
    for (server, weight) in servers.iter().zip([1, 3]) {
        let text = format!("127.0.0.1:{}*{weight}", server.ports[0]);
        config.add_server(&text).expect("a server");
    }
    let client = Client::new(config).expect("two servers");
    for number in 0..4000 {
        call(&client, "get", &format!("k{number}"));
    }
    let misses: Vec<u64> = (client.statistics().iter())
        .map(|server| server.counters.misses)
        .collect();
    assert_eq!(misses.iter().sum::<u64>(), 4000);
    assert!((600..1400).contains(&misses[0]), "a quarter: {misses:?}");
    let placed = |server: ServerIndex| {
        (0..4000)
            .filter(|number| client.place(format!("k{number}").as_bytes()) == server)
            .count() as u64
    };
    assert_eq!(client.servers().map(placed).collect::<Vec<_>>(), misses);
}

#[test]
fn servers_that_stay_in_the_list_keep_their_connections() {
    let servers: Vec<Server> = (0..3).map(|_| Server::start("-m 64")).collect();
    let place = |number: usize| placement::Server::new("127.0.0.1", servers[number].ports[0]);
    let client = Client::new(patient(vec![place(0), place(1)])).expect("two servers");
    let touch_all = |client: &Client| {
        for server in client.servers() {
            let at = Call {
                route: Route::Server(server),
                ..Call::default()
            };
            assert_eq!(outcome(&client.call(Request::Noop, at)), "another reply");
        }
    };
    touch_all(&client);
    let last = client.servers().last().expect("two servers");
    client
        .reconfigure(vec![place(2), place(1), place(0)])
        .expect("three servers");
    touch_all(&client);
    let connects: Vec<u64> = (client.statistics().iter())
        .map(|server| server.counters.connects)
        .collect();
    assert_eq!(connects, [1, 1, 1]);
    client.reconfigure(vec![place(1)]).expect("one server");
    touch_all(&client);
    assert_eq!(client.statistics()[0].counters.requests, 3);
    let gone = Call {
        route: Route::Server(last),
        ..Call::default()
    };
    assert_eq!(
        outcome(&client.call(Request::Noop, gone)),
        "error",
        "there is no such server"
    );
}
