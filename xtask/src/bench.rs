//! `cargo xtask bench`: the speed figures, as ratios against memcached and against a floor in the same run.
//!
//! One worker of the server under test runs on core 0, this load on core 1. The floor is a server that reads and answers a
//! fixed reply without looking, so its cost is the kernel's. Rounds alternate between the servers; medians are printed.

mod floor;
mod load;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use load::{Load, Operation, Result};

/// Keys in the cache.
const KEYS: usize = 10_000;

/// How long a round of one server and one load takes.
const ROUND: Duration = Duration::from_millis(1500);

/// Rounds of each.
const ROUNDS: usize = 5;

/// What is measured.
const LOADS: &[(&str, Load)] = &[
    (
        "get, 32 connections",
        Load {
            operation: Operation::Get,
            connections: 32,
            depth: 1,
        },
    ),
    (
        "get, 128 connections",
        Load {
            operation: Operation::Get,
            connections: 128,
            depth: 1,
        },
    ),
    (
        "set, 32 connections",
        Load {
            operation: Operation::Set,
            connections: 32,
            depth: 1,
        },
    ),
    (
        "get, depth 16",
        Load {
            operation: Operation::Get,
            connections: 32,
            depth: 16,
        },
    ),
    (
        "get, depth 100",
        Load {
            operation: Operation::Get,
            connections: 32,
            depth: 100,
        },
    ),
    (
        "set, depth 16",
        Load {
            operation: Operation::Set,
            connections: 32,
            depth: 16,
        },
    ),
];

/// A server under test.
struct Subject {
    name: &'static str,
    child: Child,
    port: u16,
}

impl Drop for Subject {
    fn drop(&mut self) {
        // It is a child of ours and nothing of it is kept.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Builds the server, runs all loads and prints the table; `false` if something could not be started.
pub fn run(words: &[&str]) -> bool {
    let built = Command::new("cargo")
        .args(["build", "--release", "--quiet", "-p", "scrubjay"])
        .status();
    if !built.is_ok_and(|status| status.success()) {
        eprintln!("bench: scrubjay does not build");
        return false;
    }
    let scrubjay = crate::target().join("release/scrubjay");
    let subjects = match start_all(&scrubjay) {
        Ok(subjects) => subjects,
        Err(why) => {
            eprintln!("bench: {why}");
            return false;
        }
    };
    load::pin(1);
    println!("machine: {} cores, {}", cores(), kernel());
    println!(
        "| load | server | requests/s | CPU us per request | throughput against memcached | CPU against the floor |"
    );
    println!("|---|---|---|---|---|---|");
    for (name, load) in LOADS
        .iter()
        .filter(|(name, _)| words.iter().all(|word| name.contains(word)))
    {
        let mut results: Vec<Vec<Result>> = subjects.iter().map(|_| Vec::new()).collect();
        for _ in 0..ROUNDS {
            for (subject, results) in subjects.iter().zip(&mut results) {
                match load::run(load, subject.port, subject.child.id(), KEYS, ROUND) {
                    Ok(result) => results.push(result),
                    Err(why) => eprintln!("bench: {name}, {}: {why}", subject.name),
                }
            }
        }
        print_rows(name, &subjects, &results);
    }
    true
}

fn print_rows(name: &str, subjects: &[Subject], results: &[Vec<Result>]) {
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    };
    let rates: Vec<f64> = results
        .iter()
        .map(|runs| median(runs.iter().map(|run| run.rate).collect()))
        .collect();
    let costs: Vec<f64> = results
        .iter()
        .map(|runs| median(runs.iter().map(|run| run.cpu_micros).collect()))
        .collect();
    for (index, subject) in subjects.iter().enumerate() {
        println!(
            "| {name} | {} | {:.0} | {:.3} | {:.2} | {:.2} |",
            subject.name,
            rates[index],
            costs[index],
            rates[index] / rates[1],
            costs[index] / costs[2],
        );
    }
}

fn start_all(scrubjay: &Path) -> std::result::Result<Vec<Subject>, String> {
    let arguments = [
        "-t",
        "1",
        "-m",
        "256",
        "-u",
        "root",
        "-U",
        "0",
        "-l",
        "127.0.0.1",
        "-c",
        "2048",
    ];
    Ok(vec![
        start("scrubjay", scrubjay, &arguments)?,
        start("memcached", Path::new("memcached"), &arguments)?,
        start(
            "floor",
            &std::env::current_exe().map_err(|why| why.to_string())?,
            &["bench-floor"],
        )?,
    ])
}

/// Starts a server on core 0 and waits until it answers.
fn start(name: &'static str, program: &Path, arguments: &[&str]) -> std::result::Result<Subject, String> {
    let port = free_port().map_err(|why| why.to_string())?;
    let child = Command::new("taskset")
        .args(["-c", "0"])
        .arg(program)
        .args(arguments)
        .args(["-p", &port.to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|why| format!("{name} does not start: {why}"))?;
    let subject = Subject { name, child, port };
    let patience = Instant::now() + Duration::from_secs(5);
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        if Instant::now() > patience {
            return Err(format!("{name} does not answer on port {port}"));
        }
        std::thread::yield_now();
    }
    Ok(subject)
}

fn free_port() -> std::io::Result<u16> {
    Ok(std::net::TcpListener::bind(("127.0.0.1", 0))?
        .local_addr()?
        .port())
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

/// Serves the fixed reply until it is killed.
pub fn floor(arguments: &[&str]) -> bool {
    let port = arguments
        .iter()
        .skip_while(|word| **word != "-p")
        .nth(1)
        .and_then(|port| port.parse().ok());
    port.is_some_and(|port| floor::serve(port).is_ok())
}
