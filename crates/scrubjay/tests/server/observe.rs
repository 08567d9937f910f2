//! What a running server observes beyond counts: latencies, hot keys, keys by prefix, sets by TTL, segments, connections.

use std::io::Write;

use serde_json::Value;

use crate::admin::get;
use crate::kit::{Server, ask, until};
use crate::statistics::{Stats, connect, stats};

fn number(stats: &Stats, name: &str) -> u64 {
    let value = stats.get(name).map_or("0", String::as_str);
    value.parse().expect(name)
}

/// Sends `batch` over one connection and waits until it is answered.
fn send(server: &Server, batch: &[u8]) {
    let mut stream = connect(server);
    stream.get_mut().write_all(batch).expect("connected");
    until(|| ask(stream.get_ref(), "mn").contains("MN").then_some(())).expect("all is answered");
}

/// Requests of every kind, of the classic and the meta protocol.
fn load(server: &Server) {
    let mut batch = Vec::new();
    for index in 0..500 {
        let exptime = [0, 30, 600, 7200, 100_000, 2_592_000][index % 6];
        batch.extend_from_slice(format!("set user:{index} 0 {exptime} 3\r\n100\r\n").as_bytes());
        batch.extend_from_slice(format!("get user:{}\r\nmg user:{} v\r\n", index / 2, index * 2).as_bytes());
        batch.extend_from_slice(
            format!("ms page:{} 2\r\nno\r\nmd page:{}\r\n", index / 5, index / 3).as_bytes(),
        );
        batch.extend_from_slice(b"get hot:1\r\nget user:1 user:2 nothing\r\n");
        batch.extend_from_slice(format!("incr user:{index} 1\r\ntouch user:{index} 0\r\n").as_bytes());
        batch.extend_from_slice(format!("gat 0 gone:{index}\r\nadd user:1 0 0 1\r\nx\r\n").as_bytes());
    }
    batch.extend_from_slice(
        b"append user:1 0 0 1\r\nx\r\nincr user:1 1\r\ndecr nothing 1\r\ndelete nothing\r\n",
    );
    batch.extend_from_slice(b"set big 0 0 100000\r\n");
    batch.extend_from_slice(&[b'x'; 100_000]);
    batch.extend_from_slice(b"\r\n");
    send(server, &batch);
}

#[test]
fn where_every_request_is_measured_the_sums_are_those_of_the_plain_counters() {
    let server = Server::start("-t 2 -o sample_interval=1");
    load(&server);
    // A look-up by the binary protocol.
    let mut packet = vec![0x80, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 6];
    packet.resize(24, 0);
    packet.extend_from_slice(b"user:2");
    let mut stream = connect(&server);
    stream.get_mut().write_all(&packet).expect("connected");
    let counted = |kind: &str| number(&stats(&mut connect(&server), "latency"), &format!("{kind}:count"));
    until(|| (stats(&mut connect(&server), "")["cmd_get"] == "3501").then_some(())).expect("all is done");
    let general = stats(&mut connect(&server), "");
    let plain = |names: &[&str]| names.iter().map(|name| number(&general, name)).sum::<u64>();
    // Each of 500 gets of three keys counts three look-ups, and is measured as one. The first two come before some key is set.
    assert_eq!(counted("get_many"), 500);
    assert_eq!(counted("get_hit") + 1000 - 3, plain(&["get_hits"]));
    assert_eq!(counted("get_miss") + 500 + 3, plain(&["get_misses"]));
    assert_eq!(counted("touch_hit"), plain(&["touch_hits"]));
    assert_eq!(counted("touch_miss"), plain(&["touch_misses"]));
    let sets = counted("set_stored") + counted("set_not_stored") + counted("set_refused");
    assert_eq!(sets, plain(&["cmd_set"]));
    assert_eq!(counted("set_not_stored"), 499);
    assert_eq!(counted("delete_hit"), plain(&["delete_hits"]));
    assert_eq!(counted("delete_miss"), plain(&["delete_misses"]));
    assert_eq!(counted("arith_hit"), plain(&["incr_hits", "decr_hits"]));
    assert_eq!(counted("arith_miss"), plain(&["incr_misses", "decr_misses"]));
    assert_eq!(counted("arith_refused"), 1);
    let latency = stats(&mut connect(&server), "latency");
    let time = |name: &str| latency[name].parse::<f64>().expect(name);
    for (less, more) in [
        ("p50", "p90"),
        ("p90", "p99"),
        ("p99", "p999"),
        ("p999", "max"),
        ("wait_p50", "wait_max"),
    ] {
        assert!(time(&format!("get_hit:{less}_us")) <= time(&format!("get_hit:{more}_us")));
    }
    assert!(time("get_hit:mean_us") > 0.0);
    ask(server.connect(), "stats reset");
    assert_eq!(stats(&mut connect(&server), "latency").len(), 1);
}

#[test]
fn nothing_is_measured_where_that_is_asked_for_and_a_sample_by_default() {
    let server = Server::start("-o sample_interval=0");
    load(&server);
    assert_eq!(stats(&mut connect(&server), "latency").len(), 1);
    assert_eq!(stats(&mut connect(&server), "hotkeys").len(), 0);
    assert_eq!(stats(&mut connect(&server), "prefixes").len(), 0);
    let server = Server::start("");
    (0..4).for_each(|_| load(&server));
    let latency = stats(&mut connect(&server), "latency");
    let counts = latency.keys().filter(|name| name.ends_with(":count"));
    let measured: u64 = counts.map(|name| number(&latency, name)).sum();
    // One in 32 of 20,000, give or take what chance does.
    assert!((450..850).contains(&measured), "{measured}");
}

#[test]
fn keys_that_are_asked_for_most_and_prefixes_with_their_keys_are_told() {
    let server = Server::start("-t 2");
    for _ in 0..20 {
        load(&server);
    }
    let hot = stats(&mut connect(&server), "hotkeys");
    let places: Vec<&str> = (1..=4)
        .map(|place| hot[&format!("{place}:key")].as_str())
        .collect();
    for wanted in ["user:1", "user:2", "hot:1", "nothing"] {
        assert!(places.contains(&wanted), "{wanted} is not among {hot:?}");
    }
    let rate = |name: &str| hot[name].parse::<f64>().expect(name);
    assert!(rate("1:rate") >= rate("2:rate") && rate("1:error") <= rate("1:rate"));
    let prefixes = stats(&mut connect(&server), "prefixes");
    assert_eq!(prefixes["1:prefix"], "user");
    // Five standard deviations of a sketch of 1,024 registers.
    assert!((420..=580).contains(&number(&prefixes, "1:keys")), "{prefixes:?}");
    assert_eq!(prefixes["2:prefix"], "page");
    assert!((84..=116).contains(&number(&prefixes, "2:keys")), "{prefixes:?}");
    assert_eq!(
        (prefixes["3:prefix"].as_str(), prefixes["3:keys"].as_str()),
        ("*", "1")
    );
}

#[test]
fn every_set_is_counted_once_by_its_ttl() {
    let server = Server::start("-t 2");
    load(&server);
    let ttls = stats(&mut connect(&server), "ttls");
    let sum: u64 = ttls.keys().map(|name| number(&ttls, name)).sum();
    assert_eq!(sum, number(&stats(&mut connect(&server), ""), "cmd_set"));
    // Of each exptime a sixth of 500; the adds, the meta sets and the large value never expire.
    assert_eq!(number(&ttls, "never"), 84 + 500 + 500 + 1);
    assert_eq!(number(&ttls, "under_1_minute"), 84);
    assert_eq!((number(&ttls, "longer"), number(&ttls, "kept")), (83, 1));
    ask(server.connect(), "stats reset");
    let ttls = stats(&mut connect(&server), "ttls");
    assert!(ttls.values().all(|count| count == "0"), "{ttls:?}");
}

#[test]
fn the_admin_port_tells_the_same() {
    let server = Server::start("-t 2 -o admin=0,sample_interval=1");
    load(&server);
    let page = |target: &str| -> Value {
        let (status, body) = get(server.ports[1], target);
        assert_eq!(status, 200, "{target}: {body}");
        serde_json::from_str(&body).expect("JSON")
    };
    let (mut told, json) = (connect(&server), page("/stats.json"));
    for group in ["latency", "ttls", "sizes"] {
        let stats = stats(&mut told, group);
        assert!(!stats.is_empty());
        for (name, value) in stats {
            assert_eq!(
                json[group][&name].to_string().parse::<f64>(),
                value.parse(),
                "{group} {name}"
            );
        }
    }
    assert_eq!(json["prefixes"][0]["prefix"], "user");
    assert!(json["hotkeys"][0]["rate"].as_f64() > Some(0.0));
    let kinds = page("/latency.json");
    let kinds = kinds["kinds"].as_array().expect("kinds");
    let hits = kinds.iter().find(|kind| kind["kind"] == "get_hit").expect("hits");
    let classes = hits["service"].as_array().expect("classes");
    let sum: u64 = classes.iter().filter_map(|class| class[1].as_u64()).sum();
    assert_eq!(sum, number(&stats(&mut told, "latency"), "get_hit:count"));
    let (_, metrics) = get(server.ports[1], "/metrics");
    let sample = format!("scrubjay_request_service_seconds_count{{command=\"get\",outcome=\"hit\"}} {sum}\n");
    assert!(metrics.contains(&sample), "{sample} is not in\n{metrics}");
    let segments = page("/segments.json");
    let cells = segments["cells"].as_array().expect("cells");
    let live: u64 = cells.iter().filter_map(|cell| cell[2].as_u64()).sum();
    assert_eq!(Some(live), page("/stats.json")["stats"]["bytes"].as_u64());
    let listed = until(|| {
        let page = page("/connections.json");
        page["connections"].as_array().cloned()
    });
    let listed = listed.expect("the workers answer");
    let own = told.get_ref().local_addr().expect("connected").to_string();
    let is_own = |row: &&Value| row["addr"].as_str().is_some_and(|addr| addr.ends_with(&own));
    assert_eq!(listed.iter().filter(is_own).count(), 1, "{listed:?}");
}

#[test]
fn keys_and_peers_are_kept_from_the_admin_port_where_there_are_users() {
    let dir = crate::kit::Dir::new();
    let users = dir.path("users");
    std::fs::write(&users, "ann:secret\n").expect("a file");
    let server = Server::start(&format!("-o admin=0 -Y {}", users.display()));
    let (_, json) = get(server.ports[1], "/stats.json");
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert!(json["hotkeys"].is_null() && json["prefixes"].is_null());
    assert_eq!(get(server.ports[1], "/connections.json").0, 403);
}
