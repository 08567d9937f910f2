//! Limits of requests a second in a running server. Who has asked too much owes minutes here, so that it is held back however slow
//! the machine is, until the limit is lifted.

use std::io::{BufRead, BufReader, Read, Write};

use crate::admin::get;
use crate::kit::{Dir, Server, ask, signal, until};
use crate::tls::Certificates;

/// The one that is used everywhere, and the one that is chosen here.
const DRIVERS: [&str; 2] = ["-o io_driver=epoll", ""];

/// So many look-ups in one line that nobody may ask again for three minutes at 20 a second, and so few that the line comes as a
/// whole, in one record of TLS: of one that comes in parts, the later ones wait as any input does.
fn much() -> String {
    format!("get{}", " k".repeat(4_000))
}

/// A number of `stats`, told where there are no limits.
fn statistic(server: &Server, name: &str) -> u64 {
    let (_, body) = get(*server.ports.last().expect("an admin port"), "/stats.json");
    let (_, rest) = body.split_once(&format!("\"{name}\":")).expect(name);
    let digits = rest.trim_start_matches([' ', '"']);
    let end = digits
        .find(|digit: char| !digit.is_ascii_digit())
        .expect("an end");
    digits[..end].parse().expect(name)
}

/// What two connections of one address are told, when the second one's limit is lifted.
fn held_until_the_limit_is_lifted<S: Read + Write>(options: &str, connect: impl Fn(&Server) -> S) {
    let dir = Dir::new();
    let file = dir.path("s.toml");
    let limit = |rate: u32| {
        std::fs::write(&file, format!("requests-per-address = {rate}\n")).expect("writable");
    };
    limit(20);
    let server = Server::start(&format!("-t 2 --config {} -o admin=0 {options}", file.display()));
    let (mut first, mut second) = (connect(&server), connect(&server));
    // Two come at once within this limit.
    assert_eq!(ask(&mut second, "get x"), "END");
    assert_eq!(ask(&mut first, &much()), "END");
    assert_eq!(statistic(&server, "held_by_address"), 0);
    for stream in [&mut first, &mut second] {
        stream
            .write_all(b"set a 0 0 1\r\nb\r\nget a\r\n")
            .expect("there is room in the socket");
    }
    until(|| (statistic(&server, "held_by_address") >= 2).then_some(())).expect("both wait");
    limit(0);
    signal(server.child.id(), "HUP");
    for stream in [&mut first, &mut second] {
        let mut reply = [0; 29];
        stream.read_exact(&mut reply).expect("an answer");
        assert_eq!(reply, *b"STORED\r\nVALUE a 0 1\r\nb\r\nEND\r\n");
        assert_eq!(ask(stream, "get x"), "END");
    }
    assert_eq!(statistic(&server, "held_by_address"), 2);
    assert!(statistic(&server, "time_held_by_address_us") > 0);
}

#[test]
fn an_address_that_asks_too_much_waits_and_loses_nothing() {
    for driver in DRIVERS {
        held_until_the_limit_is_lifted(driver, Server::connect);
    }
}

#[test]
fn an_address_that_asks_too_much_waits_over_tls_too() {
    let certificates = Certificates::new();
    for driver in DRIVERS {
        let options = format!("{} {driver}", certificates.options());
        held_until_the_limit_is_lifted(&options, |server| certificates.connect(server));
    }
}

#[test]
fn a_user_who_asks_too_much_waits_and_others_do_not() {
    let dir = Dir::new();
    let users = dir.path("users");
    std::fs::write(&users, "ann:secret\nbob:secret\n").expect("writable");
    let server = Server::start(&format!(
        "-t 2 -o admin=0 --requests-per-user 20 -Y {}",
        users.display()
    ));
    let log_in = |name: &str| {
        let stream = server.connect();
        let words = format!("{name} secret");
        let reply = ask(&stream, &format!("set x 0 0 {}\r\n{words}", words.len()));
        assert_eq!(reply, "STORED");
        stream
    };
    let (first, mut second, bob) = (log_in("ann"), log_in("ann"), log_in("bob"));
    assert_eq!(ask(&first, &much()), "END");
    second.write_all(b"get x\r\n").expect("writable");
    let held = until(|| {
        assert_eq!(ask(&bob, "get x"), "END");
        let mut lines = BufReader::new(&bob);
        lines.get_mut().write_all(b"stats conns\r\n").expect("writable");
        let told = lines.lines().map(|line| line.expect("a line"));
        let states = told
            .take_while(|line| line != "END")
            .filter(|line| line.ends_with(":state conn_held_back"));
        (states.count() == 1).then_some(())
    });
    held.expect("ann is held back");
    assert_eq!(statistic(&server, "held_by_address"), 0);
    assert!(statistic(&server, "held_by_user") > 0);
    // What has come is answered before the end.
    let (code, said) = server.stop("USR1");
    assert_eq!(code, Some(0), "{said}");
    let mut reply = String::new();
    second.read_to_string(&mut reply).expect("an end");
    assert_eq!(reply, "END\r\n");
}
