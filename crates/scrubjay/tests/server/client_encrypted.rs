//! The client over encrypted connections, to this server and to memcached: what goes well, and what is said when it does not.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use scrubjay_client::admin::Admin;
use scrubjay_client::config::{ConfigError, Login};
use scrubjay_client::discovery::Source;
use scrubjay_client::near::{NearCache, Settings};
use scrubjay_client::protocol::{Get, Reply, Request, Store};
use scrubjay_client::{Call, Client, Config, Error, placement, udp};

use crate::kit::{Dir, PATIENCE, Server, signal, until};
use crate::shared::chaos::Relay;
use crate::shared::{block_on, text};
use crate::tls::Certificates;

/// An authority, and certificates that it vouches for.
struct Authority {
    folder: Dir,
    params: rcgen::CertificateParams,
    key: rcgen::KeyPair,
}

impl Authority {
    fn new() -> Authority {
        let mut params = rcgen::CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().expect("a key");
        let folder = Dir::new();
        let own = params.self_signed(&key).expect("a certificate");
        std::fs::write(folder.path("ca"), own.pem()).expect("writable");
        Authority { folder, params, key }
    }

    /// The path of a certificate and its key in one file.
    fn issue(&self, name: &str, change: impl FnOnce(&mut rcgen::CertificateParams)) -> String {
        let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).expect("a name");
        change(&mut params);
        let key = rcgen::KeyPair::generate().expect("a key");
        let issuer = rcgen::Issuer::from_params(&self.params, &self.key);
        let issued = params.signed_by(&key, &issuer).expect("a certificate");
        let path = self.folder.path(name);
        std::fs::write(&path, issued.pem() + &key.serialize_pem()).expect("writable");
        path.display().to_string()
    }

    fn path(&self) -> String {
        self.folder.path("ca").display().to_string()
    }

    fn server(&self, pair: &str, more: &str) -> Server {
        let ca = self.path();
        Server::start(&format!(
            "-Z -o ssl_chain_cert={pair},ssl_key={pair},ssl_ca_cert={ca}{more}"
        ))
    }
}

fn config(port: u16, options: &[(&str, &str)]) -> Config {
    let mut config = Config::new(vec![placement::Server::new("127.0.0.1", port)]);
    (config.timeout, config.connect_timeout) = (PATIENCE, PATIENCE);
    config.failure_limit = u32::MAX;
    config.set("tls", "yes").expect("an option");
    for (name, value) in options {
        config.set(name, value).expect("an option");
    }
    config
}

/// One that believes the server of these certificates.
fn believing(certificates: &Certificates, port: u16, options: &[(&str, &str)]) -> Config {
    let ca = certificates.path("chain").display().to_string();
    let trust = [("tls_ca", ca.as_str()), ("tls_name", "localhost")];
    config(port, &[&trust, options].concat())
}

fn client(config: Config) -> Client {
    Client::new(config).expect("good settings")
}

fn get(key: &str) -> Request<'_> {
    Request::Get(Get::new(key.as_bytes()))
}

fn set<'a>(key: &'a str, value: &'a str) -> Request<'a> {
    Request::Store(Store::new(key.as_bytes(), value.as_bytes()))
}

fn refusal(config: Config) -> String {
    match client(config).call(get("k"), Call::default()) {
        Err(Error::Connect { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

fn check_refusal(config: Config, words: &[&str]) {
    let said = refusal(config);
    for each in words {
        assert!(said.contains(each), "{said:?} does not say {each:?}");
    }
}

/// Values of all sizes, many keys, and eight threads and futures on one connection.
fn check_everything(client: &Client) {
    for len in [0, 1, 20_000, 300_000, 10 << 20] {
        let value = vec![b'v'; len];
        let stored = client.call(
            Request::Store(Store::new(b"large", value.clone())),
            Call::default(),
        );
        assert_eq!(stored, Ok(Reply::Stored), "{len}");
        match client.call(get("large"), Call::default()) {
            Ok(Reply::Value(found)) => assert!(found.bytes == value, "{len}"),
            other => panic!("{len}: {other:?}"),
        }
    }
    let keys: Vec<String> = (0..500).map(|number| format!("key{number}")).collect();
    let stores = keys.iter().map(|key| set(key, key)).collect();
    for reply in client.call_all(stores, Call::default()) {
        assert_eq!(reply, Ok(Reply::Stored));
    }
    let right = |replies: Vec<Result<Reply, Error>>| {
        let all = replies.into_iter().map(text).eq(keys.iter().cloned());
        assert!(all, "each gets its own");
    };
    let gets = || keys.iter().map(|key| get(key)).collect::<Vec<_>>();
    right(client.call_all(gets(), Call::default()));
    right(block_on(client.call_all_async(gets(), Call::default())));
    thread::scope(|scope| {
        for thread in 0..8 {
            let keys = &keys;
            scope.spawn(move || {
                for key in &keys[thread * 50..][..100] {
                    let later = client.call_async(get(key), Call::default());
                    assert_eq!(text(client.call(get(key), Call::default())), *key);
                    assert_eq!(text(block_on(later)), *key);
                }
            });
        }
    });
}

#[test]
fn every_kind_of_call_goes_over_tls_to_scrubjay_and_to_memcached() {
    let certificates = Certificates::new();
    let options = format!("-m 128 -I 16m {}", certificates.options());
    for server in [Server::start(&options), Server::start_memcached(&options)] {
        for form in ["auto", "meta", "classic"] {
            let settings = [("form", form), ("value_len_max", "16000000")];
            let client = client(believing(&certificates, server.ports[0], &settings));
            check_everything(&client);
            let counters = client.statistics().remove(0).counters;
            assert_eq!((counters.connects, counters.failures()), (1, 0), "{form}");
        }
    }
}

#[test]
fn sessions_are_resumed_by_clients_of_one_configuration() {
    let certificates = Certificates::new();
    let server = Server::start(&format!("{} -o ssl_session_cache", certificates.options()));
    let config = believing(&certificates, server.ports[0], &[]);
    let resumed = || {
        let mut stream = certificates.connect(&server);
        stream.write_all(b"stats\r\nquit\r\n").expect("writable");
        let mut all = String::new();
        stream.read_to_string(&mut all).expect("readable");
        let line = all
            .lines()
            .find_map(|line| line.strip_prefix("STAT ssl_resumed_sessions "));
        line.and_then(|number| number.parse::<u32>().ok())
            .expect("a number")
    };
    assert_eq!(resumed(), 0);
    for before in 0..3 {
        assert_eq!(
            client(config.clone()).call(get("k"), Call::default()),
            Ok(Reply::Miss)
        );
        assert_eq!(resumed(), before);
    }
}

#[test]
fn who_is_not_believed_is_not_asked_and_the_reason_is_told() {
    let authority = Authority::new();
    let ca = authority.path();
    let good = authority.issue("cache.example", |_| {});
    let server = authority.server(&good, "");
    let port = server.ports[0];
    let trust = [("tls_ca", ca.as_str()), ("tls_name", "cache.example")];
    let miss = client(config(port, &trust)).call(get("k"), Call::default());
    assert_eq!(miss, Ok(Reply::Miss));
    check_refusal(
        config(port, &trust[..1]),
        &["not for \"127.0.0.1\"", "cache.example", "tls_name"],
    );
    let other = Authority::new();
    let others = other.path();
    let of_other = [("tls_ca", others.as_str()), ("tls_name", "cache.example")];
    check_refusal(config(port, &of_other), &["unknown issuer", "tls_ca"]);
    let any = [("tls_accept_any_certificate", "yes")];
    let miss = client(config(port, &any)).call(get("k"), Call::default());
    assert_eq!(miss, Ok(Reply::Miss), "nobody was asked who it is");
    let old = authority.issue("old.example", |params| {
        (params.not_before, params.not_after) =
            (rcgen::date_time_ymd(2020, 1, 1), rcgen::date_time_ymd(2021, 1, 1));
    });
    let server = authority.server(&old, "");
    let expired = config(server.ports[0], &[("tls_ca", &ca), ("tls_name", "old.example")]);
    check_refusal(expired.clone(), &["expired", "renewed"]);
    // Such a server is as good as none: it counts, and is left alone.
    let mut limited = expired;
    limited.failure_limit = 2;
    limited.retry_interval = Duration::from_secs(3600);
    let limited = client(limited);
    for _ in 0..2 {
        let failed = limited.call(get("k"), Call::default());
        assert!(matches!(failed, Err(Error::Connect { .. })), "{failed:?}");
    }
    let failed = limited.call(get("k"), Call::default());
    assert!(matches!(failed, Err(Error::Down { .. })), "{failed:?}");
}

#[test]
fn a_server_that_wants_a_certificate_is_shown_one() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let server = authority.server(&authority.issue("localhost", |_| {}), ",ssl_verify_mode=2");
    let port = server.ports[0];
    let ca = authority.path();
    let trust = [("tls_ca", ca.as_str()), ("tls_name", "localhost")];
    let (good, bad) = (authority.issue("me", |_| {}), stranger.issue("me", |_| {}));
    for form in ["auto", "meta"] {
        let known = client(config(
            port,
            &[&trust[..], &[("tls_cert", &good), ("form", form)]].concat(),
        ));
        assert_eq!(known.call(set("k", "v"), Call::default()), Ok(Reply::Stored));
        let without = config(port, &[&trust[..], &[("form", form)]].concat());
        check_refusal(without, &["wants a certificate of this client", "tls_cert"]);
        let unknown = [("tls_cert", bad.as_str()), ("tls_key", &bad), ("form", form)];
        let unknown = config(port, &[&trust[..], &unknown].concat());
        check_refusal(unknown, &["does not believe this client's certificate"]);
    }
}

#[test]
fn what_is_no_tls_is_told_from_what_is() {
    let certificates = Certificates::new();
    // Says what a server says in the clear, whatever comes.
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = listener.local_addr().expect("bound").port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            // A client that has gone needs no answer.
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"ERROR\r\n");
        }
    });
    check_refusal(believing(&certificates, port, &[]), &["no TLS", "set tls to no"]);
    for start in [Server::start, Server::start_memcached] {
        let server = start(&certificates.options());
        let clear = config(server.ports[0], &[("tls", "no")]);
        let said = refusal(clear);
        assert!(
            said.contains("speaks TLS") || said.contains("ended") || said.contains("no answer"),
            "{said}"
        );
    }
}

#[test]
fn the_handshake_is_part_of_connecting_and_bounded_with_it() {
    let certificates = Certificates::new();
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let settings = [("connect_timeout_ms", "30")];
    let config = believing(&certificates, port, &settings);
    check_refusal(
        config.clone(),
        &["no handshake in 30 ms", "speaks TLS on this port"],
    );
    let later = block_on(client(config).call_async(get("k"), Call::default()));
    assert!(matches!(later, Err(Error::Connect { .. })), "{later:?}");
    let short = client(believing(&certificates, port, &[]));
    let call = Call {
        timeout: Some(Duration::from_millis(30)),
        ..Call::default()
    };
    let failed = short.call(get("k"), call);
    assert!(matches!(failed, Err(Error::Connect { .. })), "{failed:?}");
    drop(listener);
}

#[test]
fn login_near_cache_and_questions_about_one_server_are_encrypted_too() {
    let (certificates, dir) = (Certificates::new(), Dir::new());
    let users = dir.path("users");
    std::fs::write(&users, "ann:secret").expect("writable");
    let server = Server::start(&format!("-Y {} {}", users.display(), certificates.options()));
    let mut config = believing(&certificates, server.ports[0], &[("form", "meta")]);
    config.login = Some(Login {
        user: "ann".to_owned(),
        password: "secret".to_owned(),
    });
    let writer = client(config.clone());
    assert_eq!(writer.call(set("k", "1"), Call::default()), Ok(Reply::Stored));
    let mut admin = Admin::connect(&config.servers[0], &config).expect("a connection");
    assert!(admin.stats("").expect("answered").len() > 50);
    let near = NearCache::new(writer.clone(), &Settings::default()).expect("a server that tells");
    let copied = until(|| {
        near.get(b"k").expect("a reply");
        (near.counts().hits > 0).then_some(())
    });
    copied.expect("a copy in time");
    let other = client(config.clone());
    assert_eq!(other.call(set("k", "2"), Call::default()), Ok(Reply::Stored));
    let told = until(|| (near.get(b"k").expect("a reply")?.bytes == b"2").then_some(()));
    told.expect("what others write is told");
    let list = format!("1\n|127.0.0.1|{}\n\r\n", server.ports[0]);
    let stored = writer.call(set("AmazonElastiCache:cluster", &list), Call::default());
    assert_eq!(stored, Ok(Reply::Stored));
    config.login = None;
    let source = Source::Cluster(config.servers[0].clone());
    // It has no login, but it is answered: over TLS.
    let refused = source.read(&config).expect_err("a login is wanted");
    assert!(refused.to_string().contains("CLIENT_ERROR"), "{refused}");
    let refused = udp::Reader::new(&writer, udp::Options::default()).expect_err("datagrams are in the clear");
    assert!(refused.to_string().contains("in the clear"), "{refused}");
}

#[test]
fn an_encrypted_connection_that_ended_while_idle_is_not_the_callers_problem() {
    let certificates = Certificates::new();
    let server = Server::start(&certificates.options());
    let relay = Relay::start(server.ports[0], None);
    // With the classic commands nothing is read before the first reply: what TLS has to say may still lie there.
    let client = client(believing(&certificates, relay.port, &[("form", "classic")]));
    for round in 0..10 {
        let value = round.to_string();
        assert_eq!(
            client.call(set("key", &value), Call::default()),
            Ok(Reply::Stored)
        );
        relay.end_all();
        // Longer than a connection is believed to be there without a look.
        thread::park_timeout(Duration::from_millis(12));
        assert_eq!(text(client.call(get("key"), Call::default())), value);
        thread::park_timeout(Duration::from_millis(12));
        assert_eq!(text(client.call(get("key"), Call::default())), value);
    }
    assert_eq!(client.statistics()[0].counters.connects, 11);
}

#[test]
fn forked_child_has_sessions_of_its_own() {
    let certificates = Certificates::new();
    let server = Server::start(&certificates.options());
    let client = client(believing(&certificates, server.ports[0], &[]));
    let ok = |client: &Client, of: &str| {
        (0..100).all(|number| {
            let (key, value) = (format!("{of}:{number}"), format!("{of} {number}"));
            client.call(set(&key, &value), Call::default()) == Ok(Reply::Stored)
                && text(client.call(get(&key), Call::default())) == value
        })
    };
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

/// Something on the way that changes bytes, or cuts the connection, after so many bytes from the server.
fn muddle(to: u16, after: usize, cut: bool) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = listener.local_addr().expect("bound").port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut near = stream.expect("a connection");
            let mut far = TcpStream::connect(("127.0.0.1", to)).expect("connects");
            let ends = (near.try_clone().expect("ours"), far.try_clone().expect("ours"));
            thread::spawn(move || std::io::copy(&mut &ends.0, &mut &ends.1));
            thread::spawn(move || {
                let (mut seen, mut buffer) = (0, [0; 1000]);
                while let Ok(len @ 1..) = far.read(&mut buffer) {
                    if cut && (seen..seen + len).contains(&after) {
                        break;
                    }
                    // Two bytes of each record, its version, mean nothing to anybody: three are changed.
                    for (at, byte) in buffer[..len].iter_mut().enumerate() {
                        *byte ^= u8::from(!cut && (after..after + 3).contains(&(seen + at)));
                    }
                    seen += len;
                    if near.write_all(&buffer[..len]).is_err() {
                        break;
                    }
                }
                // Whoever has gone already does not mind.
                let _ = near.shutdown(std::net::Shutdown::Both);
                let _ = far.shutdown(std::net::Shutdown::Both);
            });
        }
    });
    port
}

#[test]
fn connections_that_are_muddled_or_cut_give_no_wrong_value() {
    let certificates = Certificates::new();
    let server = Server::start(&certificates.options());
    let direct = client(believing(&certificates, server.ports[0], &[]));
    for number in 0..200 {
        let key = format!("k{number}");
        assert_eq!(direct.call(set(&key, &key), Call::default()), Ok(Reply::Stored));
    }
    for (after, cut) in [
        (100, false),
        (2_000, false),
        (5_000, false),
        (1_500, true),
        (6_000, true),
    ] {
        let port = muddle(server.ports[0], after, cut);
        // What comes after a length that was changed is waited for in vain.
        let times = [("connect_timeout_ms", "2000"), ("timeout_ms", "2000")];
        let client = client(believing(&certificates, port, &times));
        let (right, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for number in 0..200 {
                        let key = format!("k{number}");
                        match client.call(get(&key), Call::default()) {
                            Ok(Reply::Value(value)) => {
                                assert_eq!(value.bytes, key.as_bytes());
                                right.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(Error::Broken { .. } | Error::Connect { .. } | Error::TimedOut { .. }) => {
                                failed.fetch_add(1, Ordering::Relaxed);
                            }
                            other => panic!("{after} {cut}: {other:?}"),
                        }
                    }
                });
            }
        });
        let failed = failed.into_inner();
        assert!(failed > 0, "{after} {cut}");
        assert!(
            after < 1000 || right.into_inner() > failed,
            "{after} {cut}: {failed}"
        );
    }
}

#[test]
fn what_cannot_be_encrypted_as_it_is_said_is_told_when_the_client_is_made() {
    let (certificates, authority) = (Certificates::new(), Authority::new());
    let check = |text: &str, options: &[(&str, &str)], words: &str| {
        let mut config = believing(&certificates, 1, options);
        config.servers.clear();
        config.add_server(text).expect("a server");
        let error = Client::new(config).expect_err(words);
        assert!(matches!(error, ConfigError::Tls(_)), "{error:?}");
        assert!(error.to_string().contains(words), "{error}");
    };
    let pair = authority.issue("me", |_| {});
    let key = certificates.path("key").display().to_string();
    check("a:1", &[("tls", "no")], "but tls is no");
    check(
        "a:1",
        &[("tls_ca", "/nowhere")],
        "tls_ca /nowhere: it cannot be read",
    );
    check(
        "a:1",
        &[("tls_ca", &key)],
        "tls_ca: there is no certificate in it",
    );
    check(
        "a:1",
        &[("tls_cert", &pair), ("tls_key", &key)],
        "tls_cert and tls_key",
    );
    check("a:1", &[("tls_key", &key)], "there is no certificate for it");
    check("a:1", &[("tls_name", "no name")], "can stand in no certificate");
    check("/run/s", &[("tls_name", "none")], "by notls");
    check("a:1 notls", &[("tls", "no")], "but tls is no");
    check("a:1 notls tls_name=a", &[], "but tls is no");
    // One apart from the others.
    let mut mixed = believing(&certificates, 1, &[("tls", "no")]);
    mixed.servers.clear();
    mixed.add_server("a:1").expect("a server");
    mixed.add_server("b:1 tls").expect("a server");
    mixed.add_server("/run/s").expect("a server");
    Client::new(mixed).expect("one of them is encrypted");
}

#[test]
fn servers_that_differ_are_spoken_to_as_each_wants_it() {
    let certificates = Certificates::new();
    let (clear, encrypted) = (Server::start(""), Server::start(&certificates.options()));
    let mut config = believing(&certificates, 1, &[("tls", "no"), ("tls_name", "none")]);
    config.servers.clear();
    for text in [
        format!("127.0.0.1:{}", clear.ports[0]),
        format!("127.0.0.1:{} tls tls_name=localhost", encrypted.ports[0]),
    ] {
        config.add_server(&text).expect("a server");
    }
    let client = client(config.clone());
    let keys: Vec<String> = (0..50).map(|number| format!("k{number}")).collect();
    let stored = client.call_all(keys.iter().map(|key| set(key, key)).collect(), Call::default());
    assert!(stored.into_iter().all(|reply| reply == Ok(Reply::Stored)));
    for counted in client.statistics() {
        assert!(counted.counters.requests > 5, "{counted:?}");
    }
    for server in &config.servers {
        Admin::connect(server, &config)
            .and_then(|mut admin| admin.version())
            .expect("each as it wants");
    }
}

#[test]
fn a_renewed_certificate_is_believed_without_a_restart() {
    let certificates = Certificates::new();
    let server = Server::start(&certificates.options());
    let config = believing(&certificates, server.ports[0], &[]);
    assert_eq!(
        client(config.clone()).call(get("k"), Call::default()),
        Ok(Reply::Miss)
    );
    certificates.renew();
    signal(server.child.id(), "HUP");
    let again = until(|| {
        let reply = client(config.clone()).call(get("k"), Call::default());
        (reply == Ok(Reply::Miss)).then_some(())
    });
    again.expect("believed in time");
}
