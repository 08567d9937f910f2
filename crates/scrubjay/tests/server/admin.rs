//! The admin port of a running server: metrics, health, pages, and what it keeps out.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use crate::kit::{Dir, PATIENCE, Server, ask, said_by, signal, until};

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("connects");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

/// Asks for a page under the name `host`: its status and its body.
fn get_as(port: u16, host: &str, target: &str) -> (u16, String) {
    let mut stream = connect(port);
    let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("writable");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("readable");
    let (head, body) = reply.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.expect("a status"), body.to_owned())
}

pub fn get(port: u16, target: &str) -> (u16, String) {
    get_as(port, &format!("localhost:{port}"), target)
}

/// The statistics as clients are told them.
fn stats(server: &Server) -> HashMap<String, String> {
    let mut stream = BufReader::new(server.connect());
    stream.get_mut().write_all(b"stats\r\n").expect("writable");
    let lines = stream.lines().map(|line| line.expect("readable"));
    let lines = lines.take_while(|line| line != "END");
    lines
        .filter_map(|line| {
            let (name, value) = line.strip_prefix("STAT ")?.split_once(' ')?;
            Some((name.to_owned(), value.to_owned()))
        })
        .collect()
}

#[test]
fn there_is_no_admin_port_unless_it_is_asked_for() {
    assert_eq!(Server::start("").ports.len(), 1);
    let server = Server::start("-o admin=0");
    assert_eq!(
        server.ports.len(),
        2,
        "the port file names the port that was free"
    );
    assert_eq!(get(server.ports[1], "/healthz"), (200, "alive\n".to_owned()));
    let (code, said) = server.stop("TERM");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("pages       http://127.0.0.1:"), "{said}");
}

#[test]
fn an_address_that_is_taken_is_refused_with_what_to_do() {
    let server = Server::start("-o admin=0");
    let said = said_by(&format!("-p 0 -o admin={}", server.ports[1]), 71);
    assert!(said.contains("-o admin: cannot listen on 127.0.0.1"), "{said}");
}

#[test]
fn metrics_and_json_say_what_stats_says() {
    let server = Server::start("-m 64 -o admin=0");
    for line in ["set a 0 0 5\r\nhello", "set b 0 0 2\r\nno", "delete b", "get c"] {
        ask(server.connect(), line);
    }
    let stats = stats(&server);
    let (status, metrics) = get(server.ports[1], "/metrics");
    assert_eq!(status, 200);
    let (_, json) = get(server.ports[1], "/stats.json");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    for (sample, name) in [
        ("memcached_current_items", "curr_items"),
        ("memcached_items_total", "total_items"),
        ("memcached_current_bytes", "bytes"),
        ("memcached_limit_bytes", "limit_maxbytes"),
        (
            "memcached_commands_total{command=\"get\",status=\"miss\"}",
            "get_misses",
        ),
        (
            "memcached_commands_total{command=\"set\",status=\"hit\"}",
            "cmd_set",
        ),
        (
            "scrubjay_items_removed_total{cause=\"deleted\"}",
            "removed_deleted",
        ),
        ("scrubjay_segments_allowed", "segments_total"),
    ] {
        let line = format!("{sample} {}", stats[name]);
        assert!(
            metrics.lines().any(|found| found == line),
            "{line} is not in {metrics}"
        );
        assert_eq!(json["stats"][name].to_string(), stats[name], "{name}");
    }
    for name in stats.keys() {
        assert!(!json["stats"][name].is_null(), "{name} is not in stats.json");
    }
    let parts = json["memory"].as_array().expect("parts").iter();
    let sum: u64 = parts.filter_map(|part| part["bytes"].as_u64()).sum();
    assert_eq!(sum.to_string(), stats["limit_maxbytes"]);
    assert_eq!(json["settings"]["admin"], "127.0.0.1:0");
    assert!(
        json["mrc"].as_array().is_some_and(|points| points.len() > 1),
        "{json}"
    );
}

#[test]
fn why_is_answered_to_all_where_there_are_no_users_and_to_nobody_where_there_are() {
    let server = Server::start("-o admin=0");
    ask(server.connect(), "set k 0 0 1\r\nv");
    ask(server.connect(), "delete k");
    let (_, said) = get(server.ports[1], "/why?key=k");
    assert!(said.contains("\"cause\":\"deleted\""), "{said}");
    let dir = Dir::new();
    let users = dir.path("users");
    std::fs::write(&users, "ann:secret\n").expect("writable");
    let guarded = Server::start(&format!("-o admin=0 -Y {}", users.display()));
    let (status, said) = get(guarded.ports[1], "/why?key=k");
    assert_eq!(status, 403, "{said}");
    assert_eq!(get(guarded.ports[1], "/metrics").0, 200);
}

#[test]
fn a_foreign_name_for_this_machine_is_refused() {
    let server = Server::start("-o admin=0");
    let (status, said) = get_as(server.ports[1], "rebound.example.org", "/stats.json");
    assert_eq!(status, 421, "{said}");
    assert!(!said.contains("curr_items"));
}

#[test]
fn whatever_comes_to_the_admin_port_the_cache_is_served_on() {
    let server = Server::start("-o admin=0");
    let port = server.ports[1];
    let crowd: Vec<TcpStream> = (0..40).map(|_| connect(port)).collect();
    for (number, mut stream) in crowd.iter().enumerate() {
        // Some were refused at once.
        let _ = match number % 3 {
            0 => stream.write_all(&[0xff; 10_000]),
            1 => stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: "),
            _ => stream.write_all("A".repeat(100_000).as_bytes()),
        };
    }
    assert_eq!(ask(server.connect(), "set k 0 0 1\r\nv"), "STORED");
    drop(crowd);
    let answered = until(|| {
        let mut stream = connect(port);
        // It may be refused as long as the others are there.
        stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").ok()?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply).ok()?;
        reply.contains("alive").then_some(())
    });
    assert!(answered.is_some());
}

#[test]
fn readiness_ends_when_the_server_is_told_to_stop() {
    let server = Server::start("-o admin=0");
    let port = server.ports[1];
    assert_eq!(get(port, "/readyz"), (200, "ready\n".to_owned()));
    // A peer that does not take its replies holds the end up.
    let mut slow = server.connect();
    let value = "v".repeat(1_000_000);
    ask(&slow, &format!("set k 0 0 1000000\r\n{value}"));
    slow.write_all("get k\r\n".repeat(40).as_bytes())
        .expect("writable");
    slow.read_exact(&mut [0; 100]).expect("the first of them");
    signal(server.child.id(), "TERM");
    let stopping = until(|| Some(get(port, "/readyz")).filter(|(status, _)| *status != 200));
    assert_eq!(stopping, Some((503, "stopping\n".to_owned())));
    let (code, _) = server.stop("TERM");
    assert_eq!(code, Some(0));
}
