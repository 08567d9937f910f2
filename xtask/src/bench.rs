//! `cargo xtask bench`: the speed figures, against memcached and against a floor in the same run, as one table.
//!
//! It builds scrubjay for release and has `scrubjay bench` measure each load: servers of one worker on the first core, the load
//! on the others, taking turns.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::certificate::Certificate;

/// What is measured.
struct Load {
    name: &'static str,
    /// What is said to `scrubjay bench`.
    arguments: &'static str,
    against: Against,
    /// What is asked of scrubjay's processor time per request, as a part of the other's.
    at_most: Option<f64>,
}

/// What scrubjay takes turns with, both with one worker if nothing else is said.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Against {
    /// memcached, in the clear.
    Memcached,
    /// memcached, both encrypted.
    Encrypted,
    /// Itself: two workers against one, on all cores.
    OneWorker,
}

const fn load(name: &'static str, arguments: &'static str) -> Load {
    Load {
        name,
        arguments,
        against: Against::Memcached,
        at_most: None,
    }
}

/// All loads. The first is what the others are compared with.
const LOADS: &[Load] = &[
    load("get, text over TCP", "--fill --expect-hits"),
    Load {
        against: Against::Encrypted,
        ..load("get, text over TLS", "--fill --expect-hits --tls --tls-no-verify")
    },
    load(
        "get, text over a Unix socket",
        "--fill --expect-hits --listen unix",
    ),
    load("get, meta over TCP", "--fill --expect-hits --protocol meta"),
    load("get, binary over TCP", "--fill --expect-hits --protocol binary"),
    load("get, 128 connections", "--fill --expect-hits --connections 128"),
    load("get, depth 16", "--fill --expect-hits --pipeline 16"),
    load("get, depth 100", "--fill --expect-hits --pipeline 100"),
    Load {
        at_most: Some(0.5),
        ..load("multi-get of 100 keys", "--fill --expect-hits --multiget 100")
    },
    load("set, 32 connections", "--mix set=1"),
    load("set, depth 16", "--mix set=1 --pipeline 16"),
    Load {
        at_most: Some(0.35),
        ..load(
            "set with noreply, depth 100",
            "--mix set=1 --pipeline 100 --noreply",
        )
    },
    load("connect, get, close", "--connect"),
    Load {
        against: Against::Encrypted,
        ..load(
            "connect, full handshake, get, close",
            "--connect --tls --tls-no-verify",
        )
    },
    Load {
        against: Against::Encrypted,
        ..load(
            "connect, resume, get, close",
            "--connect --tls --tls-no-verify --tls-resume",
        )
    },
    Load {
        against: Against::OneWorker,
        at_most: Some(1.1),
        ..load("get, 2 workers against 1", "--fill --expect-hits --threads 2")
    },
    Load {
        against: Against::OneWorker,
        at_most: Some(1.1),
        ..load(
            "get, depth 16, 2 workers against 1",
            "--fill --expect-hits --threads 2 --pipeline 16",
        )
    },
];

/// What is said for all of them: five rounds of a second each.
const ALWAYS: &str = "--floor --rounds 5 --duration 1 --value-size 32 --json";

/// Room for all keys and connections.
const SERVER_OPTIONS: &str = "-m 256 -c 2048";

const HEAD: &str = "\
| load | scrubjay | the other | CPU ratio | asked | of the first row | floor | busy: server, load |
|---|---|---|---|---|---|---|---|";

/// Builds the server, runs the loads whose names contain all of `words` and prints their table; `false` if one fails.
pub fn run(words: &[&str]) -> bool {
    let built = Command::new("cargo")
        .args(["build", "--release", "--quiet", "-p", "scrubjay"])
        .status();
    if !built.is_ok_and(|status| status.success()) {
        eprintln!("bench: scrubjay does not build");
        return false;
    }
    let measured = Certificate::make("bench").and_then(|certificate| table(words, &certificate));
    match measured {
        Ok(()) => true,
        Err(why) => {
            eprintln!("bench: {why}");
            false
        }
    }
}

fn table(words: &[&str], certificate: &Certificate) -> Result<(), String> {
    println!("machine: {} cores, {}\n\n{HEAD}", cores(), kernel());
    let scrubjay = crate::target().join("release/scrubjay");
    let chosen = |load: &&Load| words.iter().all(|word| load.name.contains(word));
    let mut first = None;
    for load in LOADS.iter().filter(chosen) {
        let text = measure(&scrubjay, load, certificate)?;
        let result: Value = serde_json::from_str(&text).map_err(|why| format!("{}: {why}", load.name))?;
        let servers = &result[0]["servers"];
        println!("{}", row(load, servers, first));
        if load.name == LOADS[0].name {
            first = cpu(&servers[0]);
        }
    }
    Ok(())
}

/// One row of the table. `first` is what the first load cost scrubjay.
fn row(load: &Load, servers: &Value, first: Option<f64>) -> String {
    let (ours, other) = (cpu(&servers[0]), cpu(&servers[1]));
    let ratio = ours.zip(other).map(|(ours, other)| ours / other);
    let of_first = ours.zip(first).map(|(ours, first)| ours / first);
    let asked = load.at_most.map_or(String::new(), |at_most| {
        let is_kept = ratio.is_some_and(|ratio| ratio <= at_most);
        format!("<= {at_most}{}", if is_kept { "" } else { ", missed" })
    });
    let percent = |of: &Value, name: &str| of["median"][name].as_f64().unwrap_or(0.0);
    format!(
        "| {} | {} | {} | {} | {asked} | {} | {} | {:.0} %, {:.0} % |",
        load.name,
        cell(&servers[0]),
        cell(&servers[1]),
        number(ratio, 2),
        number(of_first, 2),
        cell(&servers[2]),
        percent(&servers[0], "server_busy"),
        percent(&servers[0], "load_busy"),
    )
}

/// Throughput and processor time of one server.
fn cell(server: &Value) -> String {
    let rate = server["median"]["requests_per_second"].as_f64();
    format!(
        "{} k/s, {} us",
        number(rate.map(|rate| rate / 1e3), 1),
        number(cpu(server), 3)
    )
}

fn cpu(server: &Value) -> Option<f64> {
    server["median"]["server_cpu_us"].as_f64()
}

fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or(String::new(), |value| format!("{value:.decimals$}"))
}

/// What `scrubjay bench` prints.
fn measure(scrubjay: &Path, load: &Load, certificate: &Certificate) -> Result<String, String> {
    let options = match load.against {
        Against::Encrypted => format!("{SERVER_OPTIONS} {}", certificate.options()),
        Against::Memcached | Against::OneWorker => SERVER_OPTIONS.to_owned(),
    };
    let own = scrubjay.display();
    let (server, other) = match load.against {
        Against::OneWorker => (format!("{own} -t 2 {options}"), format!("{own} -t 1 {options}")),
        _ => (
            format!("{own} -t 1 {options}"),
            format!("memcached -t 1 {options}"),
        ),
    };
    let mut command = Command::new(scrubjay);
    command
        .args(["bench", "--server", &server, "--vs", &other])
        .args(ALWAYS.split(' ').chain(load.arguments.split(' ')));
    if load.against != Against::OneWorker {
        command.arg("--pin");
    }
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|why| format!("{own}: {why}"))?;
    if !output.status.success() {
        return Err(format!(
            "{}: scrubjay bench ended with {}",
            load.name, output.status
        ));
    }
    String::from_utf8(output.stdout).map_err(|why| why.to_string())
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(0, std::num::NonZero::get)
}

fn kernel() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease")
        .unwrap_or_default()
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{LOADS, row};

    #[test]
    fn a_row_says_what_was_kept_and_what_was_missed() {
        let load = LOADS.iter().find(|load| load.at_most == Some(0.5)).unwrap();
        let server = |cpu: f64| json!({"median": {"requests_per_second": 1500.0, "server_cpu_us": cpu, "server_busy": 98.7}});
        let of = |cpus: [f64; 3]| json!(cpus.map(server));
        let kept = row(load, &of([1.0, 2.0, 0.5]), Some(4.0));
        assert_eq!(
            kept,
            "| multi-get of 100 keys | 1.5 k/s, 1.000 us | 1.5 k/s, 2.000 us | 0.50 | <= 0.5 | 0.25 | 1.5 k/s, 0.500 us | 99 %, 0 % |"
        );
        let missed = row(load, &of([1.1, 2.0, 0.5]), None);
        assert!(missed.contains("| 0.55 | <= 0.5, missed |  |"), "{missed}");
    }
}
