//! Servers that are not there, or are there and say nothing: a call ends in time, and the next ones do not wait at all.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use scrubjay_client::config::{Apart, Failover};
use scrubjay_client::event::{Hook, What};
use scrubjay_client::placement::Server;
use scrubjay_client::protocol::{Form, Get, Reply, Request};
use scrubjay_client::{Call, Client, Config, Error, State};

/// A client of one server that is given up at its first failure, for longer than any test takes.
fn config(address: SocketAddr) -> Config {
    let mut config = Config::new(vec![Server::new(address.ip().to_string(), address.port())]);
    config.failure_limit = 1;
    config.retry_interval = Duration::from_secs(3600);
    config
}

fn get(client: &Client) -> Result<Reply, Error> {
    client.call(Request::Get(Get::new(b"k")), Call::default())
}

/// The kernel accepts for it; nobody reads.
fn silent() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    (listener, address)
}

/// As many connections wait as may, so that the kernel drops whatever wants to become another one.
fn full() -> (TcpListener, Vec<TcpStream>, SocketAddr) {
    let (listener, address) = silent();
    rustix::net::listen(&listener, 0).expect("a shorter queue");
    let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(100));
    let waiting = std::iter::from_fn(|| connect().ok()).collect();
    (listener, waiting, address)
}

fn is_skipped(client: &Client) {
    for _ in 0..10 {
        match get(client) {
            Err(Error::Down { retry_after, .. }) => assert!(retry_after > Duration::from_secs(3000)),
            other => panic!("{other:?}"),
        }
    }
    let statistics = client.statistics().remove(0);
    assert_eq!((statistics.state, statistics.downs), (State::Down, 1));
    assert_eq!((statistics.counters.requests, statistics.counters.down), (11, 10));
}

#[test]
fn a_server_that_never_answers_costs_one_timeout() {
    let (_listener, address) = silent();
    let mut config = config(address);
    config.timeout = Duration::from_millis(300);
    // Otherwise it is the first question that is not answered, which is part of connecting.
    config.form = Some(Form::Meta);
    let client = Client::new(config).expect("one server");
    assert!(matches!(get(&client), Err(Error::TimedOut { .. })));
    is_skipped(&client);
}

#[test]
fn a_servers_own_timeout_is_less_than_that_of_the_call() {
    let (_listener, address) = silent();
    let mut config = config(address);
    config.timeout = Duration::from_secs(3600);
    config.form = Some(Form::Meta);
    config.apart = vec![Apart {
        timeout: Some(Duration::from_millis(300)),
        ..Apart::default()
    }];
    let client = Client::new(config.clone()).expect("one server");
    assert!(matches!(get(&client), Err(Error::TimedOut { .. })));
    config.apart.clear();
    config.read_timeout = Some(Duration::from_millis(300));
    config.failure_limit = u32::MAX;
    let client = Client::new(config).expect("one server");
    assert!(matches!(get(&client), Err(Error::TimedOut { .. })));
    // And for those who do not wait.
    let (tell, told) = mpsc::channel();
    let one = tell.clone();
    client.start(Request::Get(Get::new(b"k")), Call::default(), move |reply| {
        one.send(reply).expect("it is waited for");
    });
    client.start_all(
        vec![Request::Get(Get::new(b"k"))],
        Call::default(),
        move |mut replies| {
            tell.send(replies.remove(0)).expect("it is waited for");
        },
    );
    for reply in told.iter().take(2) {
        assert!(matches!(reply, Err(Error::TimedOut { .. })), "{reply:?}");
    }
}

#[test]
fn a_connection_that_is_not_made_costs_one_connect_timeout() {
    let (_listener, _waiting, address) = full();
    let mut config = config(address);
    config.timeout = Duration::from_secs(3600);
    config.connect_timeout = Duration::from_millis(300);
    let client = Client::new(config).expect("one server");
    match get(&client) {
        Err(error @ Error::Connect { .. }) => assert!(!error.is_doubtful()),
        other => panic!("{other:?}"),
    }
    is_skipped(&client);
}

#[test]
fn whoever_wants_to_know_is_told_of_failures_before_anything_is_done_about_them() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let mut config = Config::new(vec![Server::new("/nowhere/at/all", 0)]);
    config.failure_limit = 2;
    config.failover = Failover::Miss;
    config.on_event = Some(Hook::new(move |event| {
        let what = match event.what {
            What::Failed(Error::Connect { .. }) => "failed",
            What::Down { .. } => "down",
            _ => "other",
        };
        let line = format!("{} {what}", event.server);
        tell.lock().expect("no panic").push(line);
    }));
    let client = Client::new(config).expect("one server");
    for _ in 0..3 {
        assert_eq!(get(&client), Ok(Reply::Miss));
    }
    let told = told.lock().expect("no panic");
    let expected = ["failed", "failed", "down"].map(|what| format!("/nowhere/at/all {what}"));
    assert_eq!(*told, expected);
}

#[test]
fn a_server_set_offline_keeps_its_keys_and_is_not_asked() {
    let mut config = Config::new(vec![Server::new("/nowhere/a", 0)]);
    config.add_server("/nowhere/b offline").expect("this can be said");
    let online = Client::new(Config::new(config.servers.clone())).expect("two servers");
    let client = Client::new(config).expect("two servers");
    let offline = client.servers().nth(1).expect("two servers");
    for number in 0..100u32 {
        let key = number.to_le_bytes();
        assert_eq!(client.place(&key), online.place(&key));
    }
    let state = || client.statistics()[1].state;
    let key = (0..u32::MAX)
        .map(|number| format!("k{number}"))
        .find(|key| client.place(key.as_bytes()) == offline)
        .expect("each server has keys");
    let get = || client.call(Request::Get(Get::new(key.as_bytes())), Call::default());
    assert_eq!(state(), State::Offline);
    match get() {
        Err(error @ Error::Down { .. }) => assert!(error.to_string().contains("offline"), "{error}"),
        other => panic!("{other:?}"),
    }
    client.set_offline(offline, false);
    assert!(matches!(get(), Err(Error::Connect { .. })), "it is asked");
    client.set_offline(offline, true);
    assert!(matches!(get(), Err(Error::Down { .. })));
}
