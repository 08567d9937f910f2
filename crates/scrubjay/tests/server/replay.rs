//! `scrubjay replay` against running servers.

use crate::kit::{Dir, Server, printed_by, said_by};

/// Ten keys, asked for in turn, a hundred times; one is stored and deleted by the trace itself.
fn trace(dir: &Dir) -> String {
    let mut rows = String::new();
    for round in 0..100 {
        for key in 0..10 {
            rows += &format!("{round},key{key},12,{},0,get,0\n", 100 * key);
        }
    }
    rows += "100,own,8,50,0,set,60\n101,own,8,50,0,get,0\n102,own,8,50,0,delete,0\n103,own,8,50,0,get,0\n";
    // A life of more than 30 days, and a number that is counted on.
    rows += "104,long,8,50,0,set,4000000\n105,long,8,50,0,get,0\n";
    rows += "106,count,8,5,0,set,0\n107,count,8,5,0,incr,0\n108,count,8,5,0,incr,0\n109,count,8,5,0,get,0\n";
    let path = dir.path("trace.csv");
    std::fs::write(&path, rows).expect("writes");
    path.display().to_string()
}

fn number(json: &str, name: &str) -> Vec<f64> {
    let marks = json.lines().filter(|line| line.contains(&format!("\"{name}\":")));
    marks
        .map(|line| {
            line.split(':')
                .nth(1)
                .expect("a value")
                .trim()
                .trim_matches(',')
                .parse()
                .expect(line)
        })
        .collect()
}

#[test]
fn a_trace_is_replayed_look_aside_against_two_servers() {
    let dir = Dir::new();
    let (first, second) = (Server::start("-m 8"), Server::start("-m 16"));
    let json = printed_by(
        &format!(
            "replay {} --server 127.0.0.1:{} --vs 127.0.0.1:{} --json",
            trace(&dir),
            first.ports[0],
            second.ports[0]
        ),
        0,
    );
    assert_eq!(number(&json, "requests"), [1010.0, 1010.0]);
    // Each of the ten is missed once; `own` is found, then missed after its deletion.
    assert_eq!(number(&json, "misses_first_requests"), [10.0, 10.0]);
    assert_eq!(number(&json, "misses_expired_or_deleted"), [1.0, 1.0]);
    assert_eq!(number(&json, "misses_others"), [0.0, 0.0]);
    assert_eq!(number(&json, "wrong_values"), [0.0, 0.0]);
    assert_eq!(number(&json, "refused"), [0.0, 0.0]);
    assert_eq!(number(&json, "server_memory_limit_MiB"), [8.0, 16.0]);
}

#[test]
fn what_cannot_be_replayed_is_told() {
    let dir = Dir::new();
    let server = Server::start("");
    let check = |arguments: &str, says: &str| {
        let text = said_by(&format!("replay {arguments}"), 2);
        assert!(text.contains(says), "{text}");
    };
    let here = format!("--server 127.0.0.1:{}", server.ports[0]);
    check(&format!("{} {here}", dir.path("none.csv").display()), "none.csv");
    std::fs::write(dir.path("bad.csv"), "0,k,1,1,0,get,0\n0,k,1,1\n").expect("writes");
    check(&format!("{} {here}", dir.path("bad.csv").display()), "line 2");
    std::fs::write(dir.path("empty.csv"), "").expect("writes");
    check(
        &format!("{} {here}", dir.path("empty.csv").display()),
        "no request",
    );
    check(
        &format!("{} --server {}", trace(&dir), dir.path("no.sock").display()),
        "is a server listening",
    );
}

#[test]
fn a_workload_is_drawn_where_a_cluster_is_named_in_place_of_a_trace() {
    let server = Server::start("-m 64");
    let here = format!("--server 127.0.0.1:{}", server.ports[0]);
    let json = printed_by(
        &format!("replay twitter:cluster22 --requests 20000 --keys 5000 {here} --json"),
        0,
    );
    assert_eq!(number(&json, "requests"), [20_000.0]);
    assert_eq!(number(&json, "wrong_values"), [0.0]);
    assert_eq!(number(&json, "refused"), [0.0]);
    let said = said_by(&format!("replay twitter:cluster55 {here}"), 2);
    assert!(said.contains("twitter:cluster5,"), "{said}");
}
