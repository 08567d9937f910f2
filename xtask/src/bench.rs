//! `cargo xtask bench`: the speed figures, as ratios against memcached and against a floor in the same run.
//!
//! It builds scrubjay for release and has `scrubjay bench` measure each load: servers of one worker on the first core, the load
//! on the others, taking turns.

use std::path::Path;
use std::process::Command;

/// What is measured: a name, and what is said to `scrubjay bench`.
const LOADS: &[(&str, &str)] = &[
    ("get, 32 connections", "--fill --expect-hits"),
    ("get, 128 connections", "--fill --expect-hits --connections 128"),
    ("set, 32 connections", "--mix set=1"),
    ("get, depth 16", "--fill --expect-hits --pipeline 16"),
    ("get, depth 100", "--fill --expect-hits --pipeline 100"),
    ("set, depth 16", "--mix set=1 --pipeline 16"),
];

/// What is said for all of them: five rounds of a second and a half each.
const ALWAYS: &str = "--pin --floor --rounds 5 --duration 1.5 --value-size 32";

/// One worker, and room for all keys and connections.
const SERVER_OPTIONS: &str = "-t 1 -m 256 -c 2048";

/// Builds the server, runs the loads whose names contain all of `words` and prints their tables; `false` if one fails.
pub fn run(words: &[&str]) -> bool {
    let built = Command::new("cargo")
        .args(["build", "--release", "--quiet", "-p", "scrubjay"])
        .status();
    if !built.is_ok_and(|status| status.success()) {
        eprintln!("bench: scrubjay does not build");
        return false;
    }
    println!("machine: {} cores, {}", cores(), kernel());
    let scrubjay = crate::target().join("release/scrubjay");
    let mut loads = LOADS
        .iter()
        .filter(|(name, _)| words.iter().all(|word| name.contains(word)));
    loads.all(|(name, arguments)| {
        println!("\n{name}: {arguments}");
        measure(&scrubjay, arguments)
    })
}

fn measure(scrubjay: &Path, arguments: &str) -> bool {
    let status = Command::new(scrubjay)
        .arg("bench")
        .args(["--server", &format!("{} {SERVER_OPTIONS}", scrubjay.display())])
        .args(["--vs", &format!("memcached {SERVER_OPTIONS}")])
        .args(ALWAYS.split(' ').chain(arguments.split(' ')))
        .status();
    match status {
        Ok(status) => status.success(),
        Err(why) => {
            eprintln!("bench: {}: {why}", scrubjay.display());
            false
        }
    }
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
