//! `scrubjay top` over many servers of its own, as a program sees it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::kit::{Dir, Server, ask, printed_by, run, said_by, until, wait};

/// A server's whole numbers.
fn stats(server: &Server) -> BTreeMap<String, u64> {
    let mut stream = BufReader::new(server.connect());
    stream.get_mut().write_all(b"stats\r\n").expect("writable");
    let lines = stream.lines().map(|line| line.expect("readable"));
    lines
        .take_while(|line| line != "END")
        .filter_map(|line| {
            let mut words = line.split(' ').skip(1);
            Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
        })
        .collect()
}

fn json(line: &str, exit: i32) -> Value {
    serde_json::from_str(&printed_by(line, exit)).expect("JSON")
}

#[test]
fn twenty_servers_are_summed_up() {
    let servers: Vec<Server> = (0..20).map(|_| Server::start("-m 4 -t 1")).collect();
    for (number, server) in servers.iter().enumerate() {
        let stream = server.connect();
        for key in 0..=number {
            assert_eq!(ask(&stream, &format!("set key{key} 0 0 5\r\nvalue")), "STORED");
            assert_eq!(ask(&stream, &format!("get miss{key}")), "END");
        }
        assert_eq!(ask(&stream, "mg key0"), "HD");
    }
    let dir = Dir::new();
    let file = dir.path("servers");
    let names: Vec<String> = servers
        .iter()
        .map(|server| format!("127.0.0.1:{}", server.ports[0]))
        .collect();
    std::fs::write(&file, format!("# all\n{}\n", names[1..].join("\n"))).expect("our folder");
    let line = format!(
        "top {} --file {} --once --json --interval 100ms --timeout 20s",
        names[0],
        file.display()
    );
    let told = json(&line, 0);

    let rows = told["servers"].as_array().expect("rows");
    assert_eq!(rows.len(), 20);
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for ((server, name), row) in servers.iter().zip(&names).zip(rows) {
        let own = stats(server);
        assert_eq!(row["server"], name.as_str());
        assert_eq!(row["state"], "up");
        assert_eq!(row["curr_items"], own["curr_items"]);
        assert_eq!(row["bytes"], own["bytes"]);
        assert_eq!(row["since_start"]["requests"], own["cmd_get"] + own["cmd_set"]);
        assert_eq!(row["requests_per_sec"], 0);
        for (name, value) in own {
            *sums.entry(name).or_default() += value;
        }
    }
    let total = &told["total"];
    assert_eq!(
        (&total["servers"], &total["up"], &total["down"]),
        (&20.into(), &20.into(), &0.into())
    );
    for name in ["curr_items", "bytes", "limit_maxbytes"] {
        assert_eq!(total[name], sums[name], "{name}");
    }
    for (name, statistic) in [
        ("gets", "cmd_get"),
        ("get_hits", "get_hits"),
        ("get_misses", "get_misses"),
        ("sets", "cmd_set"),
        ("evictions", "evictions"),
    ] {
        assert_eq!(total["since_start"][name], sums[statistic], "{name}");
    }
    assert_eq!(sums["cmd_set"], 210);
    assert_eq!(sums["get_hits"], 20);
}

#[test]
fn who_hangs_or_is_gone_is_told_and_delays_nobody() {
    let server = Server::start("-m 4 -t 1");
    let hanging = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = |listener: &TcpListener| listener.local_addr().expect("it listens").to_string();
    // A port that was free might be somebody else's by now; nobody is given the first one.
    let names = format!("{} 127.0.0.1:1 127.0.0.1:{}", address(&hanging), server.ports[0]);
    // A busy machine may not answer in that time.
    let told = until(|| {
        let told = json(&format!("top {names} --json --interval 100ms --timeout 200ms"), 1);
        (told["servers"][2]["state"] == "up").then_some(told)
    });
    let told = told.expect("the server answers in time");
    assert_eq!(told["total"]["down"], 2);
    assert!(
        told["servers"][0]["error"]
            .as_str()
            .is_some_and(|why| why.starts_with("no answer for 0.2 s"))
    );
    assert!(
        told["servers"][1]["error"]
            .as_str()
            .is_some_and(|why| why.starts_with("Connection refused"))
    );
    // Without a terminal, `--once` goes without saying.
    let table = until(|| {
        let output = run(&format!("top {names} --interval 100ms --timeout 200ms"));
        assert_eq!(output.status.code(), Some(1));
        let table = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(table.lines().count(), 5, "{table}");
        assert!(table.contains("  DOWN: no answer for 0.2 s"), "{table}");
        table.contains("\n1 of 3 servers  ").then_some(())
    });
    table.expect("the server answers in time");
}

#[test]
fn what_cannot_be_shown_is_refused() {
    for (line, reason) in [
        ("top", "name servers"),
        ("top a a:11211", "a:11211 is named twice"),
        ("top a:b", "a port is a number"),
        ("top --file /nowhere/servers", "cannot read this file"),
    ] {
        let said = said_by(line, 2);
        assert!(said.contains(reason), "{line}: {said}");
    }
    assert_ne!(run("top a --interval 1ms").status.code(), Some(0));
}

#[test]
fn memcached_is_shown_beside_a_scrubjay() {
    let (server, memcached) = (Server::start("-m 4 -t 1"), Server::start_memcached("-m 64 -t 1"));
    let line = format!(
        "top 127.0.0.1:{} 127.0.0.1:{} --json --interval 100ms --timeout 20s",
        server.ports[0], memcached.ports[0]
    );
    let told = json(&line, 0);
    let version = |server: usize| told["servers"][server]["version"].as_str().map(str::to_owned);
    assert!(version(0).is_some_and(|version| version.starts_with("scrubjay ")));
    assert!(version(1).is_some_and(|version| version.starts_with("1.")));
    assert_eq!(told["total"]["limit_maxbytes"], 68 << 20);
}

#[test]
fn a_terminal_is_drawn_on_until_q_and_given_back() {
    let server = Server::start("-m 4 -t 1");
    let top = format!(
        "stty cols 80 rows 24; {} top 127.0.0.1:{}; echo ended with $?; stty -a",
        env!("CARGO_BIN_EXE_scrubjay"),
        server.ports[0]
    );
    // `script` is a terminal for it, `timeout` an end to what does not end.
    let mut script = Command::new("timeout")
        .args(["60", "script", "-qec", &top, "/dev/null"])
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("timeout and script, of coreutils and bsdutils");
    let mut stdout = script.stdout.take().expect("piped");
    let mut stdin = script.stdin.take().expect("piped");
    let mut text = String::new();
    let mut is_asked_to_end = false;
    let mut bytes = [0; 4096];
    loop {
        let len = stdout.read(&mut bytes).expect("readable");
        if len == 0 {
            break;
        }
        text.push_str(&String::from_utf8_lossy(&bytes[..len]));
        if !is_asked_to_end && text.contains("requests/s") {
            stdin.write_all(b"q").expect("writable");
            is_asked_to_end = true;
        }
    }
    assert!(wait(&mut script).expect("it ends").success());
    let (drawn, after) = text.split_once("ended with 0").expect("ended well");
    assert!(drawn.contains("requests/s"), "{drawn}");
    assert!(
        drawn.contains("\x1b[?1049l"),
        "back from the other screen: {drawn:?}"
    );
    assert!(after.contains(" icanon") && after.contains(" echo "), "{after}");
}
