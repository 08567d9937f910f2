//! The encrypting driver over a simulated network: what it promises at every split, fault, mistake and limit.

#![expect(clippy::unwrap_used, reason = "a test may fail so")]

mod kit;

use std::sync::Arc;

use kit::{Authority, Client, Files, Rig, client_config, count, replace};
use rustls::ClientConfig;
use rustls::version::{TLS12, TLS13};
use scrubjay_base::time::Now;
use scrubjay_io::driver::sim::Faults;
use scrubjay_tls::{Certificate, Tls};

/// A server's certificates and a client that trusts them.
fn scene() -> (Authority, Files, Arc<Tls>, Arc<ClientConfig>) {
    let authority = Authority::new();
    let files = Files::new(&authority);
    let tls = files.tls();
    let config = client_config(&authority, None, &[&TLS13]);
    (authority, files, tls, config)
}

fn bytes(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| ((at * 31 + seed * 7) >> 3) as u8).collect()
}

#[test]
fn every_byte_comes_back_whatever_the_network_does() {
    let (authority, _files, tls, _) = scene();
    let unkind = Faults {
        blocks: 60,
        short: 100,
        delay_ms_max: 3,
        send_buffer: 700,
        defers: 90,
    };
    for (seed, faults, len) in [
        (1, Faults::NONE, 1_000_000),
        (2, unkind, 60_000),
        (3, unkind, 60_000),
    ] {
        for version in [&TLS12, &TLS13] {
            let config = client_config(&authority, None, &[version]);
            let mut rig = Rig::new(&tls, Certificate::NotAsked, seed, faults);
            let mut client = rig.connect(&config);
            let sent = bytes(len, seed as usize);
            // rustls refuses more than it may buffer, so it is offered piece by piece.
            let mut pieces = sent.chunks(16 << 10);
            rig.run(&mut client, |client| {
                if let Some(piece) = pieces.next() {
                    client.send(piece);
                }
                client.received.len() == len
            });
            assert!(client.received == sent, "seed {seed}: other bytes came back");
        }
    }
    assert_eq!(count(&tls.counters.handshake_errors), 0);
    assert_eq!(count(&tls.counters.protocol_errors), 0);
}

/// With the handshake in pieces, records in part, ciphertext received and not decrypted, made and not sent.
#[test]
fn every_byte_comes_back_however_often_drivers_change() {
    let (authority, _files, tls, _) = scene();
    for seed in 0..40 {
        let faults = Faults {
            blocks: 60,
            short: 100,
            delay_ms_max: (seed % 3) as u32,
            send_buffer: if seed % 2 == 0 { 700 } else { 100_000 },
            defers: 90,
        };
        let version = [&TLS12, &TLS13][seed as usize / 2 % 2];
        let config = client_config(&authority, None, &[version]);
        let mut rig = Rig::new(&tls, Certificate::NotAsked, seed, faults);
        let mut client = rig.connect(&config);
        let sent = bytes(200_000, seed as usize);
        let mut pieces = sent.chunks(16 << 10);
        let mut changes = 0;
        while client.received.len() < sent.len() {
            if !client.tls.is_handshaking()
                && let Some(piece) = pieces.next()
            {
                client.send(piece);
            }
            changes += 1;
            assert!(changes < 20_000, "seed {seed}: it goes on for ever");
            for _ in 0..rig.network.draw(12) {
                client.turn();
                rig.turn();
            }
            rig.change_driver();
        }
        assert!(client.received == sent, "seed {seed}: other bytes came back");
        assert_eq!(rig.open(), 1);
    }
    assert_eq!(count(&tls.counters.handshake_errors), 0);
    assert_eq!(count(&tls.counters.protocol_errors), 0);
}

#[test]
fn records_of_one_byte_are_taken() {
    let (_authority, _files, tls, config) = scene();
    let mut rig = Rig::new(&tls, Certificate::NotAsked, 1, Faults::NONE);
    let mut client = rig.connect(&config);
    let sent = bytes(3_000, 1);
    rig.run(&mut client, |client| !client.tls.is_handshaking());
    for byte in &sent {
        client.send(&[*byte]);
    }
    rig.run(&mut client, |client| client.received.len() == 3_000);
    assert_eq!(client.received, sent);
}

/// Handshake messages that go over many records, some of them encrypted, and come in pieces.
#[test]
fn messages_in_many_records_are_put_together() {
    let (authority, _files, tls, _) = scene();
    let pair = authority.sign("client");
    let faults = Faults {
        short: 120,
        ..Faults::NONE
    };
    for version in [&TLS12, &TLS13] {
        for fragment in [32, 37, 200] {
            let config = client_config(&authority, Some(&pair), &[version]);
            let mut config = Arc::unwrap_or_clone(config);
            config.max_fragment_size = Some(fragment);
            let mut rig = Rig::new(&tls, Certificate::Required, fragment as u64, faults);
            let mut client = rig.connect(&Arc::new(config));
            let sent = bytes(5_000, 1);
            std::io::Write::write_all(&mut client.tls.writer(), &sent).unwrap();
            rig.run(&mut client, |client| client.received.len() == sent.len());
            assert!(
                client.received == sent,
                "records of {fragment}: other bytes came back"
            );
        }
    }
    assert_eq!(count(&tls.counters.handshake_errors), 0);
}

/// Many clients say hello at once. In every turn, each established client is answered, and no more is done of handshakes
/// than is allowed; all get through.
#[test]
fn a_storm_of_handshakes_does_not_hold_up_those_who_are_established() {
    const CLIENTS: usize = 150;
    let (_authority, _files, tls, config) = scene();
    let mut rig = Rig::new(&tls, Certificate::NotAsked, 1, Faults::NONE);
    let mut first = rig.connect(&config);
    rig.run(&mut first, |client| !client.tls.is_handshaking());
    let mut others: Vec<Client> = (0..CLIENTS).map(|_| rig.connect(&config)).collect();
    let established = || count(&tls.counters.new_sessions) as usize;
    let mut turns = 0;
    while established() < 1 + CLIENTS {
        others.iter_mut().for_each(Client::turn);
        let (before, asked) = (established(), first.received.len());
        first.send(b"get");
        rig.turn();
        first.turn();
        assert_eq!(
            first.received.len(),
            asked + 3,
            "turn {turns}: not answered at once"
        );
        assert!(established() - before <= 1, "turn {turns}: too many handshakes");
        turns += 1;
        assert!(turns < 4 * CLIENTS, "the others starve: {} done", established());
    }
    assert!(turns >= CLIENTS, "{turns} turns");
}

#[test]
fn what_is_no_tls_is_turned_away_and_counted() {
    let (_authority, _files, tls, config) = scene();
    let mut rig = Rig::new(&tls, Certificate::NotAsked, 1, Faults::NONE);
    let mut expected = 0;
    for garbage in [
        &b"get a\r\n"[..],
        b"\x80\x00\x00\x01\x00",
        b"\x16\x03\x01\x00\x05hello",
        b"\0",
    ] {
        let peer = rig.raw_connect();
        peer.send(garbage);
        peer.end();
        while !peer.is_closed() {
            rig.turn();
        }
        expected += 1;
        assert_eq!(count(&tls.counters.handshake_errors), expected, "{garbage:?}");
        let said = peer.receive(100);
        assert!(said.is_empty() || said[0] == 21, "an alert or nothing: {said:?}");
    }
    // Every beginning of a good hello, and then nothing more.
    let mut client = rig.connect(&config);
    let mut hello = Vec::new();
    client.tls.write_tls(&mut hello).unwrap();
    for len in 0..hello.len() {
        let peer = rig.raw_connect();
        peer.send(&hello[..len]);
        rig.turn();
        peer.end();
        while !peer.is_closed() {
            rig.turn();
        }
        expected += 1;
    }
    assert_eq!(count(&tls.counters.handshake_errors), expected);
    assert_eq!(count(&tls.counters.new_sessions), 0);
    client.peer.send(&hello);
    rig.run(&mut client, |client| !client.tls.is_handshaking());
}

#[test]
fn a_broken_record_ends_an_established_connection() {
    let (_authority, _files, tls, config) = scene();
    let mut rig = Rig::new(&tls, Certificate::NotAsked, 1, Faults::NONE);
    let garbage: [&[u8]; 3] = [
        b"\x17\x03\x03\x00\x20hellohellohellohellohellohello!!",
        b"get a\r\n",
        b"\x17\x03\x03\xff\xff",
    ];
    for (number, garbage) in garbage.iter().enumerate() {
        let mut client = rig.connect(&config);
        rig.run(&mut client, |client| !client.tls.is_handshaking());
        client.send(b"good");
        rig.run(&mut client, |client| client.received == b"good");
        client.peer.send(garbage);
        rig.run(&mut client, |client| client.peer.is_closed());
        assert_eq!(count(&tls.counters.protocol_errors), 1 + number as u64);
        assert!(client.error.is_some(), "it was told why");
    }
    assert_eq!(rig.open(), 0);
}

#[test]
fn what_was_asked_before_the_goodbye_is_answered_and_the_goodbye_returned() {
    let (_authority, _files, tls, config) = scene();
    for send_buffer in [64 << 10, 200] {
        let faults = Faults {
            send_buffer,
            ..Faults::NONE
        };
        let mut rig = Rig::new(&tls, Certificate::NotAsked, 1, faults);
        let mut client = rig.connect(&config);
        rig.run(&mut client, |client| !client.tls.is_handshaking());
        // One flight, and the connection stays open below: nothing else will wake the server.
        let mut flight = Vec::new();
        let sent = bytes(10_000, 1);
        std::io::Write::write_all(&mut client.tls.writer(), &sent).unwrap();
        client.tls.send_close_notify();
        client.tls.write_tls(&mut flight).unwrap();
        client.peer.send(&flight);
        rig.run(&mut client, |client| client.peer.is_closed());
        client.turn();
        assert!(
            client.received == sent,
            "{} bytes came back",
            client.received.len()
        );
        let end = std::io::Read::read(&mut client.tls.reader(), &mut [0]);
        assert_eq!(end.ok(), Some(0), "a goodbye, not a broken connection");
    }
    assert_eq!(count(&tls.counters.protocol_errors), 0);
}

#[test]
fn a_record_that_ends_early_is_an_end() {
    let (_authority, _files, tls, config) = scene();
    let mut rig = Rig::new(&tls, Certificate::NotAsked, 1, Faults::NONE);
    let mut client = rig.connect(&config);
    rig.run(&mut client, |client| !client.tls.is_handshaking());
    let mut record = Vec::new();
    std::io::Write::write_all(&mut client.tls.writer(), b"hello").unwrap();
    client.tls.write_tls(&mut record).unwrap();
    client.peer.send(&record[..record.len() - 1]);
    rig.turn();
    client.peer.end();
    rig.run(&mut client, |client| client.peer.is_closed());
    assert_eq!(rig.echoed, 0, "what is not whole is not believed");
}

#[test]
fn clients_are_let_in_by_their_certificates() {
    let (authority, _files, tls, _) = scene();
    let good = authority.sign("client");
    let stranger = Authority::new().sign("client");
    let mut errors = 0;
    let mut check = |asked, pair, is_let_in: bool| {
        for version in [&TLS12, &TLS13] {
            let mut rig = Rig::new(&tls, asked, 1, Faults::NONE);
            let mut client = rig.connect(&client_config(&authority, pair, &[version]));
            client.tls.set_buffer_limit(None);
            std::io::Write::write_all(&mut client.tls.writer(), b"hello").unwrap();
            rig.run(&mut client, |client| {
                client.peer.is_closed() || client.received == b"hello"
            });
            client.turn();
            assert_eq!(client.received == b"hello", is_let_in, "{asked:?} {client:?}");
            assert_eq!(client.error.is_none(), is_let_in, "{asked:?} {client:?}");
            errors += u64::from(!is_let_in);
            assert_eq!(count(&tls.counters.handshake_errors), errors);
        }
    };
    for asked in [Certificate::NotAsked, Certificate::Asked, Certificate::Required] {
        check(asked, Some(&good), true);
        check(asked, None, asked != Certificate::Required);
        check(asked, Some(&stranger), asked == Certificate::NotAsked);
    }
}

#[test]
fn sessions_are_resumed_until_the_certificates_change() {
    let (authority, files, tls, _) = scene();
    for version in [&TLS12, &TLS13] {
        let config = client_config(&authority, None, &[version]);
        let mut rig = Rig::new(&tls, Certificate::NotAsked, 1, Faults::NONE);
        let counts = || {
            (
                count(&tls.counters.new_sessions),
                count(&tls.counters.resumed_sessions),
            )
        };
        let mut connect = || {
            let mut client = rig.connect(&config);
            client.tls.set_buffer_limit(None);
            std::io::Write::write_all(&mut client.tls.writer(), b"hello").unwrap();
            rig.run(&mut client, |client| client.received == b"hello");
        };
        let (made, resumed) = counts();
        connect();
        assert_eq!(counts(), (made + 1, resumed));
        connect();
        assert_eq!(counts(), (made + 1, resumed + 1));
        files.write(&authority.sign("localhost"), &authority);
        assert_eq!(tls.reload_if_changed(Now::from_secs(9)), Some(Ok(())));
        connect();
        assert_eq!(counts(), (made + 2, resumed + 1));
    }
    let mut settings = files.settings.clone();
    settings.resumption = false;
    let tls = Tls::load(settings, Now::default()).unwrap();
    let config = client_config(&authority, None, &[&TLS13, &TLS12]);
    let mut rig = Rig::new(&tls, Certificate::NotAsked, 1, Faults::NONE);
    for _ in 0..2 {
        let mut client = rig.connect(&config);
        rig.run(&mut client, |client| !client.tls.is_handshaking());
        client.send(b"hello");
        rig.run(&mut client, |client| client.received == b"hello");
    }
    assert_eq!(count(&tls.counters.new_sessions), 2);
}

#[test]
fn new_certificates_are_for_new_connections_and_bad_ones_for_nobody() {
    let (authority, files, tls, config) = scene();
    let mut rig = Rig::new(&tls, Certificate::NotAsked, 1, Faults::NONE);
    let mut old = rig.connect(&config);
    rig.run(&mut old, |client| !client.tls.is_handshaking());
    let shown = |client: &Client| client.tls.peer_certificates().unwrap()[0].clone();
    let first = shown(&old);
    let mut serves = |certificate: &rustls::pki_types::CertificateDer<'static>| {
        let mut client = rig.connect(&client_config(&authority, None, &[&TLS13]));
        rig.run(&mut client, |client| !client.tls.is_handshaking());
        assert_eq!(shown(&client), *certificate);
        let before = old.received.len();
        old.send(b"still here");
        rig.run(&mut old, |client| client.received.len() == before + 10);
    };
    assert_eq!(tls.reload_if_changed(Now::from_secs(1)), None);
    assert_eq!(tls.secs_since_load(Now::from_secs(7)), 7);
    let second = authority.sign("localhost");
    let bad = |option: &str, part: &str| {
        let outcome = tls.reload_if_changed(Now::from_secs(2)).unwrap();
        let why = outcome.unwrap_err().to_string();
        assert!(why.contains(option) && why.contains(part), "{why}");
        assert_eq!(tls.reload_if_changed(Now::from_secs(3)), None, "said once");
    };
    replace(&files.settings.chain, "nothing");
    bad("ssl_chain_cert", "holds no certificate");
    replace(&files.settings.chain, &second.pem);
    bad("ssl_key", "are a pair");
    std::fs::remove_file(&files.settings.key).unwrap();
    bad("ssl_key", "this user may read");
    replace(&files.settings.key, "-----BEGIN ENCRYPTED PRIVATE KEY-----\n");
    bad("ssl_key", "without a password");
    serves(&first);
    assert_eq!(tls.secs_since_load(Now::from_secs(7)), 7);
    replace(&files.settings.key, &second.key.serialize_pem());
    assert_eq!(tls.reload_if_changed(Now::from_secs(4)), Some(Ok(())));
    assert_eq!(tls.secs_since_load(Now::from_secs(7)), 3);
    serves(&second.certificate);
}

#[test]
fn who_does_not_read_holds_a_bounded_amount() {
    let (_authority, _files, tls, config) = scene();
    let mut rig = Rig::new(&tls, Certificate::NotAsked, 1, Faults::NONE);
    let mut client = rig.connect(&config);
    rig.run(&mut client, |client| !client.tls.is_handshaking());
    for _ in 0..200 {
        client.send(&bytes(16 << 10, 1));
        rig.turn();
    }
    assert!(rig.held_max < 100 << 10, "{} bytes", rig.held_max);
    assert!(rig.echoed < 300 << 10, "{} bytes were read", rig.echoed);
    rig.run(&mut client, |client| client.received.len() == 200 * (16 << 10));
    // Idle again, it holds what a connection must.
    rig.held_max = 0;
    let mut idle = rig.connect(&config);
    rig.run(&mut idle, |client| !client.tls.is_handshaking());
    rig.turn();
    assert!(rig.held_max <= 8 << 10, "{} bytes", rig.held_max);
}

/// Clients whose bytes are spoilt on the way, before and after the connection is established: nothing panics, nothing is
/// believed that was not said, and the connection is closed or lives.
#[test]
fn spoilt_bytes_are_survived() {
    const SEEDS: u64 = 600;
    let (authority, _files, tls, _) = scene();
    let pair = authority.sign("client");
    let configs = [&TLS12, &TLS13].map(|version| client_config(&authority, Some(&pair), &[version]));
    let faults = Faults {
        short: 30,
        ..Faults::NONE
    };
    let sent = bytes(2_000, 1);
    let mut established = 0;
    for seed in 0..SEEDS {
        let mut rig = Rig::new(&tls, Certificate::Asked, seed, faults);
        let mut client = rig.connect(&configs[seed as usize % 2]);
        let spoils_from = rig.network.draw(6);
        for turn in 0..60 {
            if turn == 20 && client.error.is_none() && !client.tls.is_handshaking() {
                std::io::Write::write_all(&mut client.tls.writer(), &sent).unwrap();
                // A change of keys in between is a handshake message that may be cut.
                let _ = client.tls.refresh_traffic_keys();
            }
            client.take(usize::MAX);
            let mut flight = Vec::new();
            while client.tls.wants_write() {
                client.tls.write_tls(&mut flight).unwrap();
            }
            if turn >= spoils_from && !flight.is_empty() && rig.network.draw(3) > 0 {
                spoil(&mut flight, |bound| rig.network.draw(bound));
            }
            client.peer.send(&flight);
            rig.turn();
        }
        established += usize::from(!client.tls.is_handshaking());
        assert!(sent.starts_with(&client.received), "seed {seed}: made up");
        client.peer.end();
        for _ in 0..10 {
            rig.turn();
        }
        assert!(client.peer.is_closed(), "seed {seed}: still open");
    }
    assert!(established > 50, "both sides of the handshake: {established}");
}

fn spoil(flight: &mut Vec<u8>, draw: impl Fn(u64) -> u64) {
    for _ in 0..=draw(3) {
        // Headers are worth more than what they head.
        let at = draw((flight.len() as u64).min(if draw(2) == 0 { 8 } else { u64::MAX })) as usize;
        match draw(5) {
            0 => flight[at] ^= 1 << draw(8),
            1 => flight[at] = draw(256) as u8,
            2 => flight.insert(at, draw(256) as u8),
            3 => drop(flight.remove(at)),
            _ => {
                let again = flight[at..].to_vec();
                flight.extend(again);
            }
        }
        if flight.is_empty() {
            return;
        }
    }
}
