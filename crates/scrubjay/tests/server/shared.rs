//! The client's shared connections against the real server: many threads, batches, time-outs, ends of connections, forks.

mod bundles;
pub mod chaos;
mod wrong_values;

use std::collections::HashMap;
use std::future::Future;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::pin::pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use scrubjay_client::config::Login;
use scrubjay_client::placement;
use scrubjay_client::protocol::{Form, Get, Reply, Request, Store};
use scrubjay_client::{Call, Client, Config, Error, Route};

use crate::kit::{Dir, PATIENCE, Server, ask, until};

pub fn config(ports: &[u16]) -> Config {
    let servers = ports
        .iter()
        .map(|port| placement::Server::new("127.0.0.1", *port));
    let mut config = Config::new(servers.collect());
    config.timeout = PATIENCE;
    config.connect_timeout = PATIENCE;
    // Here every request is to be asked, whatever became of those before.
    config.failure_limit = u32::MAX;
    config
}

pub fn client(ports: &[u16]) -> Client {
    Client::new(config(ports)).expect("servers")
}

/// Makes the connections, which a short time-out would have to allow for.
fn connect(client: &Client) {
    for server in client.servers() {
        let call = Call {
            route: Route::Server(server),
            timeout: None,
        };
        assert_eq!(client.call(Request::Noop, call), Ok(Reply::Alive));
    }
}

fn get<'a>(key: &'a str) -> Request<'a> {
    Request::Get(Get::new(key.as_bytes()))
}

fn set<'a>(key: &'a str, value: &'a str) -> Request<'a> {
    Request::Store(Store::new(key.as_bytes(), value.as_bytes()))
}

fn within(timeout: Duration) -> Call<'static> {
    Call {
        timeout: Some(timeout),
        ..Call::default()
    }
}

pub fn text(reply: Result<Reply, Error>) -> String {
    match reply {
        Ok(Reply::Value(value)) => String::from_utf8(value.bytes).expect("text"),
        other => format!("{other:?}"),
    }
}

/// Connections that the server has, this question's included.
pub fn connections(server: &Server) -> u32 {
    let mut stream = server.connect();
    stream.write_all(b"stats\r\nquit\r\n").expect("writable");
    let mut all = String::new();
    stream.read_to_string(&mut all).expect("readable");
    let line = all
        .lines()
        .find(|line| line.starts_with("STAT curr_connections "));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok())
        .expect("a count")
}

/// A server that takes connections and says what `answer` makes of each line; nothing if that is empty.
fn stub(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, answer) = (stream.expect("a connection"), answer.clone());
            thread::spawn(move || serve_stub(stream, &*answer));
        }
    });
    port
}

fn serve_stub(mut stream: TcpStream, answer: &dyn Fn(&str) -> String) {
    let mut input = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(len @ 1..) = stream.read(&mut buffer) {
        input.extend_from_slice(&buffer[..len]);
        while let Some(at) = input.windows(2).position(|pair| pair == b"\r\n") {
            let line: Vec<u8> = input.drain(..at + 2).collect();
            let reply = answer(&String::from_utf8_lossy(&line[..at]));
            if reply == "end" || stream.write_all(reply.as_bytes()).is_err() {
                return;
            }
        }
    }
}

/// Answers the first question of a connection only.
pub fn mute() -> u16 {
    stub(|line| {
        if line == "mn" {
            "MN\r\n".to_owned()
        } else {
            String::new()
        }
    })
}

#[test]
fn threads_share_one_connection_and_each_gets_its_own() {
    for (form, line) in [(Form::Meta, "-m 64"), (Form::Classic, "-m 64 -t 1")] {
        let server = Server::start(line);
        let mut config = config(&server.ports);
        config.form = Some(form);
        let client = Client::new(config).expect("one server");
        thread::scope(|scope| {
            for thread in 0..16 {
                let client = &client;
                scope.spawn(move || {
                    for number in 0..200 {
                        let (key, value) = (format!("{thread}:{number}"), format!("of {thread}:{number}"));
                        assert_eq!(client.call(set(&key, &value), Call::default()), Ok(Reply::Stored));
                        assert_eq!(text(client.call(get(&key), Call::default())), value);
                    }
                });
            }
        });
        assert_eq!(connections(&server), 2, "the client's, and the one that asks");
    }
}

#[test]
fn batch_asks_all_servers_and_names_what_did_not_come() {
    let server = Server::start("-m 64");
    let client = client(&[server.ports[0], mute()]);
    let good = client.servers().next().expect("two");
    let keys: Vec<String> = (0..200).map(|number| format!("key:{number}")).collect();
    for key in &keys {
        let call = Call {
            route: Route::Server(good),
            timeout: None,
        };
        assert_eq!(client.call(set(key, key), call), Ok(Reply::Stored));
    }
    connect(&client);
    let (of_good, of_mute): (Vec<&String>, Vec<&String>) =
        keys.iter().partition(|key| client.place(key.as_bytes()) == good);
    assert!(!of_good.is_empty() && !of_mute.is_empty());
    let all_good_come = || {
        let gets = [&of_good[..], &of_mute].concat().into_iter().map(|key| get(key));
        let mut replies = client.call_all(gets.collect(), within(Duration::from_millis(500)));
        for reply in replies.split_off(of_good.len()) {
            assert!(matches!(reply, Err(Error::TimedOut { .. })), "{reply:?}");
        }
        // Half a second may be short for the other one, too.
        if replies
            .iter()
            .any(|reply| matches!(reply, Err(Error::TimedOut { .. })))
        {
            return None;
        }
        let pairs = of_good.iter().zip(replies);
        pairs.for_each(|(key, reply)| assert_eq!(text(reply), **key));
        Some(())
    };
    until(all_good_come).expect("the good server's values");
}

#[test]
fn batch_of_many_keys_is_sent_on_as_replies_come() {
    let servers = [Server::start("-m 256"), Server::start("-m 256")];
    let client = client(&[servers[0].ports[0], servers[1].ports[0]]);
    let keys: Vec<String> = (0..100_000).map(|number| format!("key:{number}")).collect();
    let stored = client.call_all(keys.iter().map(|key| set(key, key)).collect(), Call::default());
    assert!(stored.iter().all(|reply| *reply == Ok(Reply::Stored)));
    let replies = client.call_all(keys.iter().map(|key| get(key)).collect(), Call::default());
    for (key, reply) in keys.iter().zip(replies) {
        assert_eq!(text(reply), *key);
    }
}

#[test]
fn large_values_go_both_ways_at_once() {
    let server = Server::start("-m 256");
    let client = client(&server.ports);
    let value = "v".repeat(900_000);
    thread::scope(|scope| {
        for thread in 0..8 {
            let (client, value) = (&client, &value);
            scope.spawn(move || {
                let keys: Vec<String> = (0..8).map(|number| format!("{thread}:{number}")).collect();
                let owned = |key| Request::Store(Store::new(key, value.clone().into_bytes()));
                let sets = keys.iter().map(|key| owned(key.as_bytes()));
                let mixed = sets.chain(keys.iter().map(|key| get(key))).collect();
                for (index, reply) in client.call_all(mixed, Call::default()).into_iter().enumerate() {
                    if index < 8 {
                        assert_eq!(reply, Ok(Reply::Stored));
                    } else {
                        assert!(text(reply) == *value, "{index}");
                    }
                }
            });
        }
    });
}

#[test]
fn request_that_is_late_does_not_cost_others_the_connection() {
    let (go, gone) = mpsc::channel::<()>();
    let gone = Mutex::new(gone);
    let port = stub(move |line| match line.split(' ').collect::<Vec<_>>().as_slice() {
        ["mn"] => "MN\r\n".to_owned(),
        ["mg", "slow", .., opaque] => {
            gone.lock().expect("no panics").recv().expect("told");
            format!("VA 1 {opaque} kslow\r\ns\r\n")
        }
        ["mg", key, .., opaque] => format!("VA 1 {opaque} k{key}\r\nf\r\n"),
        other => panic!("{other:?}"),
    });
    let client = client(&[port]);
    connect(&client);
    let late = client.call(get("slow"), within(Duration::from_millis(20)));
    assert!(matches!(late, Err(Error::TimedOut { .. })), "{late:?}");
    go.send(()).expect("it waits");
    assert_eq!(text(client.call(get("fast"), Call::default())), "f");
}

#[test]
fn connection_that_has_gone_silent_is_replaced_after_a_time_out() {
    let port = stub(|line| match line.split(' ').collect::<Vec<_>>().as_slice() {
        ["mn"] => "MN\r\n".to_owned(),
        ["mg", "first", ..] => String::new(),
        // Behind the first one, on the same connection, this would come before its turn.
        ["mg", key, .., opaque] => format!("VA 1 {opaque} k{key}\r\ns\r\n"),
        other => panic!("{other:?}"),
    });
    let client = client(&[port]);
    connect(&client);
    // A second of silence is what it takes, and that begins when the request is sent.
    let late = client.call(get("first"), within(Duration::from_secs(2)));
    assert!(matches!(late, Err(Error::TimedOut { .. })), "{late:?}");
    assert_eq!(text(client.call(get("second"), Call::default())), "s");
}

#[test]
fn connection_that_ended_while_idle_is_not_the_callers_problem() {
    let server = Server::start("-m 64");
    let relay = chaos::Relay::start(server.ports[0], None);
    let client = client(&[relay.port]);
    for round in 0..20 {
        let value = round.to_string();
        assert_eq!(
            client.call(set("key", &value), Call::default()),
            Ok(Reply::Stored)
        );
        relay.end_all();
        // Longer than a connection is believed to be there without a look.
        thread::park_timeout(Duration::from_millis(12));
        assert_eq!(text(client.call(get("key"), Call::default())), value);
    }
}

#[test]
fn quiet_requests_are_sent_and_never_answer_others() {
    let server = Server::start("-m 64");
    let client = client(&server.ports);
    for number in 0..5000 {
        let key = format!("key:{number}");
        let quiet = Store {
            quiet: true,
            ..Store::new(key.as_bytes(), key.as_bytes())
        };
        assert_eq!(
            client.call(Request::Store(quiet), Call::default()),
            Ok(Reply::Alive)
        );
        if number % 97 == 0 {
            assert_eq!(text(client.call(get(&key), Call::default())), key);
        }
    }
    assert_eq!(text(client.call(get("key:4999"), Call::default())), "key:4999");
}

#[test]
fn prefix_is_on_the_wire_and_not_in_the_callers_keys() {
    let server = Server::start("-m 64");
    let mut config = config(&server.ports);
    config.prefix = b"app:".to_vec();
    let client = Client::new(config).expect("one server");
    assert_eq!(client.call(set("a", "1"), Call::default()), Ok(Reply::Stored));
    assert!(client.call_all(vec![set("b", "2")], Call::default())[0].is_ok());
    assert_eq!(text(block_on(client.call_async(get("a"), Call::default()))), "1");
    assert_eq!(ask(server.connect(), "mg app:a s"), "HD s1");
    assert_eq!(ask(server.connect(), "mg app:b s"), "HD s1");
}

#[test]
fn login_comes_first_and_its_refusal_is_told() {
    let dir = Dir::new();
    let users = dir.path("users");
    std::fs::write(&users, "app:secret\n").expect("writable");
    let server = Server::start(&format!("-m 64 -Y {}", users.display()));
    let mut config = config(&server.ports);
    let call = |config: &Config| {
        let client = Client::new(config.clone()).expect("one server");
        client.call(set("key", "value"), Call::default())
    };
    assert!(matches!(call(&config), Err(Error::Connect { .. })));
    let user = "app".to_owned();
    let password = "wrong".to_owned();
    config.login = Some(Login { user, password });
    assert!(matches!(call(&config), Err(Error::Connect { .. })));
    config.set("login", "app:secret").expect("a login");
    assert_eq!(call(&config), Ok(Reply::Stored));
}

#[test]
fn server_that_ends_at_the_question_is_spoken_to_in_the_classic_form() {
    let port = stub(|line| match line {
        "mn" => "end".to_owned(),
        "get key" => "VALUE key 0 5\r\nvalue\r\nEND\r\n".to_owned(),
        other => panic!("{other}"),
    });
    assert_eq!(text(client(&[port]).call(get("key"), Call::default())), "value");
}

#[test]
fn nothing_listens_and_every_caller_is_told() {
    // A port that was free might be somebody else's by now; nobody is given this one.
    let client = client(&[1]);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let one = client.call(get("key"), Call::default());
                assert!(matches!(one, Err(Error::Connect { .. })), "{one:?}");
                for one in client.call_all(vec![get("a"), get("b")], Call::default()) {
                    assert!(matches!(one, Err(Error::Connect { .. })), "{one:?}");
                }
                let later = block_on(client.call_async(get("key"), Call::default()));
                assert!(matches!(later, Err(Error::Connect { .. })), "{later:?}");
            });
        }
    });
}

/// Runs a future on this thread.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Unpark>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(done) => return done,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn replies_are_delivered_to_those_who_do_not_wait() {
    let servers = [Server::start("-m 64"), Server::start("-m 64")];
    let client = client(&[servers[0].ports[0], servers[1].ports[0]]);
    let (tell, told) = mpsc::channel();
    let keys: Vec<String> = (0..5000).map(|number| format!("key:{number}")).collect();
    for key in &keys {
        let (tell, own) = (tell.clone(), key.clone());
        client.start(set(key, key), Call::default(), move |reply| {
            tell.send((own, reply)).expect("somebody listens");
        });
    }
    drop(tell);
    let stored: HashMap<String, _> = told.iter().collect();
    assert_eq!(stored.len(), keys.len());
    assert!(stored.values().all(|reply| *reply == Ok(Reply::Stored)));
    let (tell, told) = mpsc::channel();
    let requests = keys.iter().map(|key| get(key)).collect();
    client.start_all(requests, Call::default(), move |replies| {
        tell.send(replies).expect("listened to")
    });
    for (key, reply) in keys.iter().zip(told.recv().expect("delivered")) {
        assert_eq!(text(reply), *key);
    }
    // Who waits and who does not share the connections.
    thread::scope(|scope| {
        for thread in 0..4 {
            let (client, keys) = (&client, &keys);
            scope.spawn(move || {
                for key in &keys[thread * 100..][..300] {
                    let later = client.call_async(get(key), Call::default());
                    drop(client.call_async(get("dropped"), Call::default()));
                    assert_eq!(text(client.call(get(key), Call::default())), *key);
                    assert_eq!(text(block_on(later)), *key);
                }
            });
        }
    });
    assert_eq!(connections(&servers[0]), 2);
}

#[test]
fn late_replies_are_told_to_those_who_do_not_wait() {
    let client = client(&[mute()]);
    connect(&client);
    let call = within(Duration::from_millis(30));
    let one = block_on(client.call_async(get("key"), call));
    assert!(matches!(one, Err(Error::TimedOut { .. })), "{one:?}");
    let (tell, told) = mpsc::channel();
    client.start_all(vec![get("a"), get("b")], call, move |replies| {
        tell.send(replies).expect("listened to");
    });
    drop(client);
    for reply in told.recv().expect("delivered after the client has gone") {
        assert!(matches!(reply, Err(Error::TimedOut { .. })), "{reply:?}");
    }
}

#[test]
fn forked_child_shares_nothing_with_its_parent() {
    let server = Server::start("-m 64");
    let client = client(&server.ports);
    let ok = |client: &Client, of: &str| {
        (0..300).all(|number| {
            let (key, value) = (format!("{of}:{number}"), format!("{of} {number}"));
            client.call(set(&key, &value), Call::default()) == Ok(Reply::Stored)
                && text(client.call(get(&key), Call::default())) == value
                && text(
                    client
                        .call_all(vec![get(&key), get(&key)], Call::default())
                        .remove(1),
                ) == value
                && (number % 50 != 0
                    || text(block_on(client.call_async(get(&key), Call::default()))) == value)
        })
    };
    assert!(ok(&client, "before"));
    // Other threads are in the middle of calls when it happens.
    let parent = thread::spawn({
        let client = client.clone();
        move || (0..10).all(|round| ok(&client, &format!("parent{round}")))
    });
    for round in 0..5 {
        let child = scrubjay_io::child::run(|| ok(&client, &format!("child{round}"))).expect("forks");
        assert!(child, "{round}");
        assert!(ok(&client, "after"), "{round}");
    }
    assert!(parent.join().expect("no panic"));
}
