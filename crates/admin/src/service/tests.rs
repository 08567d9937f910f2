//! The admin port without sockets: what is asked, in pieces and by simulated time, and what is answered.

use std::sync::Arc;

use scrubjay_base::time::Now;
use scrubjay_cache::Cache;
use scrubjay_net::{Next, Output, Peer, Service};
use scrubjay_server::options::Options;
use scrubjay_server::service::Shared;

use super::{Admin, Session};

struct Port {
    shared: Arc<Shared>,
    admin: Admin,
    session: Session,
    now: Now,
}

impl Port {
    fn new(is_loopback: bool) -> Port {
        let options = Options::default();
        let cache = Cache::new(options.cache_config(784_111_777_000, 1)).expect("64 MiB");
        let shared = Shared::new(cache, options, None, None);
        let mut admin = Admin::new(&shared, is_loopback);
        let session = admin.open(Peer::Unix);
        let now = Now::default();
        Port {
            shared,
            admin,
            session,
            now,
        }
    }

    /// Hands it `input`; what is left of it is forgotten. The reply, and what is to be done next.
    fn send(&mut self, input: &[u8]) -> (String, Next) {
        let mut output = Output::default();
        self.admin.begin_turn(self.now);
        let handled = self.admin.handle(&mut self.session, input, &mut output);
        self.admin.go_idle();
        let bytes: Vec<u8> = output.pieces().flatten().copied().collect();
        (String::from_utf8(bytes).expect("text"), handled.next)
    }

    fn get(&mut self, target: &str) -> String {
        let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let (reply, next) = self.send(request.as_bytes());
        assert_eq!(next, Next::Wait, "{reply}");
        reply
    }
}

fn check(reply: &str, status: &str, parts: &[&str]) {
    let (head, body) = reply.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{reply}");
    let len = format!("Content-Length: {}\r\n", body.len());
    assert!(reply.contains(&len), "{reply}");
    for part in parts {
        assert!(reply.contains(part), "{part} is not in {reply}");
    }
}

#[test]
fn every_page_is_answered() {
    let mut port = Port::new(true);
    check(
        &port.get("/"),
        "200",
        &["text/html", "<title>scrubjay", "default-src 'none'", "nosniff"],
    );
    check(&port.get("/dashboard.css"), "200", &["text/css"]);
    check(&port.get("/dashboard.js"), "200", &["text/javascript"]);
    check(
        &port.get("/healthz"),
        "200",
        &["alive\n", "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"],
    );
    check(&port.get("/readyz"), "200", &["ready\n"]);
    let metrics = [
        "application/openmetrics-text; version=1.0.0",
        "memcached_current_items 0\n",
        "# EOF\n",
    ];
    check(&port.get("/metrics"), "200", &metrics);
    check(
        &port.get("/stats.json"),
        "200",
        &["application/json", "\"curr_items\":0", "\"cas_enabled\":true"],
    );
    check(&port.get("/nothing"), "404", &["there are /, /metrics"]);
}

#[test]
fn readiness_ends_when_stopping_begins() {
    let mut port = Port::new(true);
    port.shared.control.stop_gracefully();
    check(&port.get("/readyz"), "503", &["stopping"]);
    check(&port.get("/healthz"), "200", &["alive"]);
}

#[test]
fn why_takes_any_key_and_says_what_is_wrong_with_others() {
    let mut port = Port::new(true);
    check(
        &port.get("/why?key=a%20%22b"),
        "200",
        &["\"key\":\"a \\\"b\"", "\"state\":\"unknown\""],
    );
    check(&port.get("/why?key=%ff"), "200", &["unknown"]);
    check(&port.get("/why"), "400", &["/why?key=KEY"]);
    check(&port.get("/why?key="), "400", &["this one has 0"]);
    check(
        &port.get(&format!("/why?key={}", "k".repeat(251))),
        "400",
        &["this one has 251"],
    );
    check(&port.get("/why?key=%2"), "400", &["hexadecimal"]);
}

#[test]
fn on_loopback_only_own_names_are_answered_to() {
    let request = b"GET /stats.json HTTP/1.1\r\nHost: rebound.example.org:9150\r\n\r\n";
    let (reply, _) = Port::new(true).send(request);
    check(&reply, "421", &["localhost"]);
    assert!(!reply.contains("curr_items"));
    let (reply, _) = Port::new(false).send(request);
    check(&reply, "200", &["curr_items"]);
    let (reply, _) = Port::new(true).send(b"GET http://evil.org/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    check(&reply, "421", &[]);
}

#[test]
fn head_has_the_length_and_no_body() {
    let (reply, next) = Port::new(true).send(b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(
        reply.ends_with("\r\n\r\n") && reply.contains("Content-Length: "),
        "{reply}"
    );
    assert_eq!(next, Next::Wait);
}

#[test]
fn what_is_not_served_is_refused_and_the_connection_closed() {
    for (request, status, part) in [
        (
            "POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "405",
            "Allow: GET, HEAD\r\n",
        ),
        (
            "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n",
            "413",
            "body",
        ),
        ("GET / HTTP/1.1\r\n\r\n", "400", "another port"),
        ("get key\r\n", "400", "another port"),
    ] {
        let (reply, next) = Port::new(true).send(request.as_bytes());
        check(&reply, status, &[part, "Connection: close\r\n"]);
        assert_eq!(next, Next::Close, "{request}");
    }
}

#[test]
fn requests_that_come_together_are_answered_one_by_one() {
    let two = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(2);
    let (reply, next) = Port::new(true).send(two.as_bytes());
    assert_eq!((reply.matches("alive").count(), next), (1, Next::Again));
    let (_, next) = Port::new(true).send(b"GET /healthz HTTP/1.0\r\n\r\n");
    assert_eq!(next, Next::Close);
}

#[test]
fn a_request_that_dawdles_is_refused() {
    let mut port = Port::new(true);
    for (secs, expected) in [
        (0, Next::Wait),
        (5, Next::Wait),
        (10, Next::Wait),
        (11, Next::Close),
    ] {
        port.now = Now::from_secs(secs);
        let (reply, next) = port.send(b"GET / HTTP/1.1\r\nHost: loc");
        assert_eq!(next, expected, "{secs}: {reply}");
        assert_eq!(reply.contains("408 "), next == Next::Close);
    }
}

/// Requests with bytes changed, left out and put in: whatever comes of it is an answer of HTTP, or waiting for more.
#[test]
fn arbitrary_bytes_are_answered_or_waited_for() {
    let seeds = [
        "GET /why?key=a%20b HTTP/1.1\r\nHost: localhost:9150\r\nAccept: */*\r\n\r\n",
        "HEAD http://[::1]:1/metrics?x=%ff HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        "GET / HTTP/1.0\r\nContent-Length: 0\r\n\r\n",
    ];
    let mut port = Port::new(true);
    for seed in 0..3000_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % below as u64) as usize
        };
        let mut input = seeds[next(seeds.len())].as_bytes().to_vec();
        for _ in 0..next(6) {
            let at = next(input.len());
            match next(4) {
                0 => input[at] = next(256) as u8,
                1 if input.len() > 1 => drop(input.remove(at)),
                2 => input.insert(at, b"%[]:?/\r\n \0"[next(10)]),
                _ => input.truncate(at + 1),
            }
        }
        port.session = Session::default();
        let (reply, next) = port.send(&input);
        let is_answered = reply.starts_with("HTTP/1.1 ");
        assert!(
            is_answered || (reply.is_empty() && next == Next::Wait),
            "seed {seed}: {reply}"
        );
    }
}
