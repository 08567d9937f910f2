//! Servers from files, names and clusters, and what becomes of a client whose list changes.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use scrubjay_client::discovery::{DiscoveryError, Source};
use scrubjay_client::event::{Hook, What};
use scrubjay_client::placement::Server;
use scrubjay_client::{Client, Config, State};

fn client(config: Config) -> Client {
    Client::new(config).expect("servers")
}

/// What is asked may be as slow as the machine is.
fn somewhere() -> Config {
    let mut config = Config::new(vec![Server::new("somewhere", 1)]);
    config.timeout = Duration::from_secs(20);
    config.connect_timeout = Duration::from_secs(20);
    config
}

fn names(client: &Client) -> Vec<String> {
    client
        .statistics()
        .into_iter()
        .map(|server| server.server)
        .collect()
}

/// A file that is gone when dropped.
struct File(PathBuf);

impl File {
    fn new(name: &str) -> File {
        File(std::env::temp_dir().join(format!("scrubjay-{name}-{}", std::process::id())))
    }

    /// A reader sees all of it or nothing.
    fn write(&self, text: &str) {
        let new = self.0.with_extension("new");
        std::fs::write(&new, text).expect("writable");
        std::fs::rename(&new, &self.0).expect("writable");
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_file_is_followed_as_it_changes_and_left_alone_when_it_is_no_list() {
    let (tell, told) = std::sync::mpsc::channel();
    let tell = Mutex::new(tell);
    let mut config = somewhere();
    config.on_event = Some(Hook::new(move |event| {
        if let What::NoList(error) = event.what {
            // Nobody listens any more at the end of the test.
            let _ = tell.lock().expect("no panic").send(error.to_string());
        }
    }));
    let client = client(config);
    let file = File::new("followed");
    let source = Source::File(file.0.clone());
    let every = Duration::from_millis(1);
    match client.follow(source.clone(), every) {
        Err(DiscoveryError::Unread { source, .. }) => assert_eq!(source, file.0.display().to_string()),
        other => panic!("there is no such file: {other:?}"),
    }
    file.write("# two\na:1*2\nb offline\n");
    let follower = client.follow(source, every).expect("a list");
    assert_eq!(names(&client), ["a:1", "b:11211"]);
    assert_eq!(client.statistics()[1].state, State::Offline);
    file.write("c:3\n");
    while names(&client) != ["c:3"] {
        std::thread::yield_now();
    }
    for (text, part) in [("c:x\n", "c:x"), ("", "no list"), ("c:3\nc:3\n", "c:3")] {
        file.write(text);
        // What was wrong before may be told several times more.
        while !told.recv().expect("the follower lives").contains(part) {}
        assert_eq!(names(&client), ["c:3"]);
    }
    drop(follower);
    drop(client);
    while told.recv().is_ok() {}
}

/// Answers one connection line by line, then ends.
fn cluster(answers: &'static [(&'static str, &'static str)]) -> (Server, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut lines = BufReader::new(stream.try_clone().expect("a socket")).lines();
        for (line, answer) in answers {
            assert_eq!(lines.next().expect("a line").expect("readable"), *line);
            // In two parts, as it may come.
            let (first, second) = answer.split_at(answer.len() / 2);
            stream.write_all(first.as_bytes()).expect("writable");
            stream.write_all(second.as_bytes()).expect("writable");
        }
    });
    (Server::new("127.0.0.1", port), thread)
}

#[test]
fn a_cluster_tells_its_servers_the_new_way_or_the_old() {
    let list = "7\none|10.0.0.1|11211 two|10.0.0.2|11212\n\r\nEND\r\n";
    let new: &'static str = Box::leak(format!("CONFIG cluster 0 40\r\n{list}").into());
    let old: &'static str = Box::leak(format!("VALUE AmazonElastiCache:cluster 0 40\r\n{list}").into());
    let config = "config get cluster";
    let get = "get AmazonElastiCache:cluster";
    let ways: [&'static [(&str, &str)]; 2] = [
        Box::leak(Box::new([(config, new)])),
        Box::leak(Box::new([(config, "ERROR\r\n"), (get, old)])),
    ];
    for answers in ways {
        let (server, thread) = cluster(answers);
        let client = client(somewhere());
        let hour = Duration::from_secs(3600);
        let _follower = client.follow(Source::Cluster(server), hour).expect("a list");
        assert_eq!(names(&client), ["one:11211", "two:11212"]);
        thread.join().expect("it was asked so");
    }
}

#[test]
fn a_server_that_is_no_cluster_is_none() {
    for (answers, text) in [
        (
            &[
                ("config get cluster", "ERROR\r\n"),
                ("get AmazonElastiCache:cluster", "END\r\n"),
            ][..],
            "END",
        ),
        (
            &[("config get cluster", "CLIENT_ERROR no\r\n")][..],
            "CLIENT_ERROR no",
        ),
    ] {
        let (server, thread) = cluster(answers);
        match Source::Cluster(server).read(&somewhere()) {
            Err(DiscoveryError::NoList { text: found, .. }) => assert_eq!(found, text),
            other => panic!("{other:?}"),
        }
        thread.join().expect("it was asked so");
    }
}

#[test]
fn every_address_of_a_name_is_a_server() {
    let source = Source::Dns {
        host: "localhost".to_owned(),
        port: 7,
    };
    let found = source.read(&somewhere()).expect("it has an address");
    assert!(found.servers.iter().all(|server| server.port == 7));
    let loops = ["127.0.0.1", "::1"];
    assert!(
        found
            .servers
            .iter()
            .all(|server| loops.contains(&server.host.as_str()))
    );
    let other = Source::Dns {
        host: "not.a.name.invalid".to_owned(),
        port: 7,
    };
    assert!(matches!(
        other.read(&somewhere()),
        Err(DiscoveryError::Unread { .. })
    ));
}

#[test]
fn a_list_that_cannot_be_changes_nothing() {
    let client = client(somewhere());
    assert!(client.reconfigure(Vec::new()).is_err());
    assert_eq!(names(&client), ["somewhere:1"]);
    let shared = Arc::new(client.clone());
    client
        .reconfigure(vec![Server::new("a", 1), Server::new("b", 1)])
        .expect("two servers");
    assert_eq!(names(&shared), ["a:1", "b:1"]);
    assert_eq!(shared.servers().count(), 2);
}
