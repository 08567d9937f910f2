//! Connections that nobody needs are closed after a time, and nobody notices but the server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use scrubjay_client::protocol::{Get, Reply, Request};
use scrubjay_client::{Call, Client, Error, Route};

use crate::kit::{Server, until};
use crate::shared::{block_on, config, connections, mute};

fn ask(client: &Client, server: usize) -> Result<Reply, Error> {
    let route = Route::Server(client.servers().nth(server).expect("a server"));
    let call = Call {
        route,
        ..Call::default()
    };
    client.call(Request::Get(Get::new(b"none")), call)
}

fn client(ports: &[u16], idle: Duration, connections: usize) -> Client {
    let mut config = config(ports);
    config.idle = Some(idle);
    config.connections = connections;
    Client::new(config).expect("servers")
}

/// Waits until the server has so many connections, the one of this question included.
fn wait_for(server: &Server, count: u32, mut meanwhile: impl FnMut()) {
    let found = until(|| {
        meanwhile();
        (connections(server) <= count).then_some(())
    });
    found.expect("closed in time");
}

#[test]
fn whoever_asks_another_server_closes_what_is_idle() {
    let servers = [Server::start("-m 64"), Server::start("-m 64")];
    let client = client(
        &[servers[0].ports[0], servers[1].ports[0]],
        Duration::from_millis(30),
        1,
    );
    for round in 1..4 {
        assert_eq!(ask(&client, 0), Ok(Reply::Miss));
        wait_for(&servers[0], 1, || {
            assert_eq!(ask(&client, 1), Ok(Reply::Miss));
        });
        let counters = client.statistics().remove(0).counters;
        assert_eq!((counters.connects, counters.failures()), (round, 0));
    }
}

#[test]
fn the_clients_own_thread_closes_what_is_idle_although_nobody_asks() {
    let server = Server::start("-m 64");
    let client = client(&server.ports, Duration::from_millis(30), 1);
    for _ in 0..3 {
        let later = block_on(client.call_async(Request::Get(Get::new(b"none")), Call::default()));
        assert_eq!(later, Ok(Reply::Miss));
        wait_for(&server, 1, || {});
    }
    assert_eq!(client.statistics()[0].counters.failures(), 0);
}

#[test]
fn at_low_traffic_one_connection_is_kept_busy_and_the_others_go() {
    let server = Server::start("-m 64 -t 1");
    let client = client(&server.ports, Duration::from_millis(400), 4);
    let made = until(|| {
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        assert_eq!(ask(&client, 0), Ok(Reply::Miss));
                    }
                });
            }
        });
        (client.statistics()[0].counters.connects > 1).then_some(())
    });
    made.expect("more than one connection");
    wait_for(&server, 2, || {
        assert_eq!(ask(&client, 0), Ok(Reply::Miss));
    });
    assert_eq!(client.statistics()[0].counters.failures(), 0);
}

#[test]
fn what_waits_for_a_reply_is_not_idle() {
    let server = Server::start("-m 64");
    let client = client(&[mute(), server.ports[0]], Duration::from_millis(10), 1);
    let call = Call {
        route: Route::Server(client.servers().next().expect("a server")),
        timeout: Some(Duration::from_millis(300)),
    };
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let late = client.call(Request::Get(Get::new(b"none")), call);
            assert!(matches!(late, Err(Error::TimedOut { .. })), "{late:?}");
            ended.store(true, Ordering::Release);
        });
        while !ended.load(Ordering::Acquire) {
            assert_eq!(ask(&client, 1), Ok(Reply::Miss));
        }
    });
}
