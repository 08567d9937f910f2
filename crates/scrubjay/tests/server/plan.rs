//! `scrubjay plan` against what running servers really hold, Debian's memcached and this one: within 3 %.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::kit::{Dir, PATIENCE, printed_by, said_by, until};

/// Bytes of requests after which replies are waited for.
const BATCH: usize = 256 << 10;

/// A server on a socket in a folder of its own.
struct Server {
    child: Child,
    stream: BufReader<UnixStream>,
    _dir: Dir,
}

impl Server {
    fn memcached(options: &str) -> Server {
        let program = std::env::var("MEMCACHED_BIN").unwrap_or_else(|_| "memcached".to_owned());
        Server::start(&program, options)
    }

    fn start(program: &str, options: &str) -> Server {
        let dir = Dir::new();
        let socket = dir.path("socket");
        let child = Command::new(program)
            .args(["-u", "root", "-U", "0", "-t", "1", "-s"])
            .arg(&socket)
            .args(options.split_whitespace())
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|why| panic!("{program} does not start: {why}"));
        let stream = until(|| UnixStream::connect(&socket).ok()).expect("listens in time");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Server {
            child,
            stream: BufReader::new(stream),
            _dir: dir,
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("an answer");
        line.trim_end().to_owned()
    }

    /// Sends requests without replies and waits until they are worked off.
    fn send(&mut self, requests: &[u8]) {
        let stream = self.stream.get_mut();
        stream
            .write_all(requests)
            .and_then(|()| stream.write_all(b"mn\r\n"))
            .expect("writable");
        let reply = self.line();
        assert_eq!(reply, "MN");
    }

    fn stats(&mut self, what: &str) -> HashMap<String, f64> {
        write!(self.stream.get_mut(), "stats {what}\r\n").expect("writable");
        let mut stats = HashMap::new();
        loop {
            let line = self.line();
            let mut words = line.split(' ').skip(1);
            let (Some(name), Some(value)) = (words.next(), words.next()) else {
                return stats;
            };
            if let Ok(value) = value.parse() {
                stats.insert(name.to_owned(), value);
            }
        }
    }

    fn evictions(&mut self) -> f64 {
        self.stats("")["evictions"]
    }

    /// Stores these numbers' items, each with the lengths that `lengths` gives.
    fn store(&mut self, numbers: std::ops::Range<u64>, lengths: impl Fn(u64) -> (usize, usize)) {
        let mut requests = Vec::new();
        for number in numbers {
            let (key, value) = lengths(number);
            write!(requests, "set {number:0key$} 0 0 {value} noreply\r\n").expect("memory takes all");
            requests.resize(requests.len() + value, b'v');
            requests.extend_from_slice(b"\r\n");
            if requests.len() > BATCH {
                self.send(&requests);
                requests.clear();
            }
        }
        self.send(&requests);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn plan(line: &str) -> Value {
    serde_json::from_str(&printed_by(&format!("plan {line} --json"), 0)).expect("JSON")
}

/// Fills a server with 3 % less than planned, which must not evict, then up to 3 % more, which must.
fn check_fill(server: &mut Server, planned: &Value, lengths: impl Fn(u64) -> (usize, usize)) {
    let planned = planned.as_f64().expect("a number");
    let (most, least) = ((planned * 0.97) as u64, (planned * 1.03).ceil() as u64);
    server.store(0..most, &lengths);
    assert_eq!(server.evictions(), 0.0, "{most} of {planned} planned items");
    server.store(most..least, &lengths);
    assert!(server.evictions() > 0.0, "{least} of {planned} planned items");
}

#[test]
fn planned_items_fit_in_memcached_and_no_more() {
    for (mebibytes, key, value) in [
        (16, 8, 8),
        (16, 8, 128),
        (16, 16, 1024),
        (16, 32, 262_144),
        // In several chunks.
        (128, 20, 700_000),
    ] {
        let planned = plan(&format!("-m {mebibytes} --key {key} --value {value}"));
        let mut memcached = Server::memcached(&format!("-m {mebibytes}"));
        check_fill(&mut memcached, &planned["memcached"]["items"], |_| (key, value));
    }
}

#[test]
fn planned_items_fit_in_scrubjay_and_no_more() {
    for (key, value) in [(8, 128), (16, 1024), (32, 262_144)] {
        let planned = plan(&format!("-m 16 --key {key} --value {value}"));
        let mut scrubjay = Server::start(env!("CARGO_BIN_EXE_scrubjay"), "-m 16");
        check_fill(&mut scrubjay, &planned["scrubjay"]["items"], |_| (key, value));
    }
}

#[test]
fn what_the_advice_promises_fits_and_wastes_as_little() {
    let planned = plan("-m 16 --key 16 --value 1117");
    let advice = &planned["advice"];
    let number = |name: &str| advice[name].as_f64().expect("advice is needed");
    assert!(number("items") > 1.2 * planned["memcached"]["items"].as_f64().expect("a number"));
    let mut memcached = Server::memcached(&format!(
        "-m 16 -f {} -n {}",
        number("slab_growth_factor"),
        number("slab_min_size")
    ));
    check_fill(&mut memcached, &advice["items"], |_| (16, 1117));
    let waste = 1.0 - memcached.stats("")["bytes"] / memcached.stats("slabs")["total_malloced"];
    assert!((waste - number("waste")).abs() < 0.03, "{waste} wasted, {advice}");
}

/// splitmix64's mixing step.
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Keys of any length, values of any order of magnitude.
fn random_lengths(number: u64) -> (usize, usize) {
    let random = mixed(number);
    (
        4 + (random & 0x7f) as usize,
        1 + (random >> 32) as usize % (2 << (random >> 8 & 15)),
    )
}

#[test]
fn a_thousand_random_sizes_are_planned_into_the_classes_that_memcached_puts_them() {
    let dir = Dir::new();
    let mut rows = String::new();
    for number in 0..1000 {
        let (key, value) = random_lengths(number);
        writeln!(rows, "0,{number:0key$},{key},{value},0,set,0").expect("memory takes all");
    }
    let trace = dir.path("sizes.csv");
    std::fs::write(&trace, rows).expect("writes");
    for options in ["-m 1024", "-m 1024 -f 1.07 -n 100", "-m 1024 -f 1.5 -I 2m"] {
        let planned = plan(&format!("{options} --value table:{}", trace.display()));
        let mut memcached = Server::memcached(options);
        memcached.store(0..1000, random_lengths);
        let (items, slabs) = (memcached.stats("items"), memcached.stats("slabs"));
        let classes = planned["memcached"]["classes"].as_array().expect("a list");
        for (at, class) in classes.iter().enumerate() {
            let planned = class["items_of_sample"].as_f64().expect("a number");
            let stored = items.get(&format!("items:{}:number", at + 1)).copied();
            assert_eq!(
                stored.unwrap_or(0.0),
                planned,
                "{options}: class {}, {class}",
                at + 1
            );
            for (stat, field) in [
                ("chunk_size", "chunk_size"),
                ("chunks_per_page", "chunks_per_page"),
            ] {
                if let Some(is) = slabs.get(&format!("{}:{stat}", at + 1)) {
                    assert_eq!(class[field].as_f64(), Some(*is), "{options}: class {}", at + 1);
                }
            }
        }
    }
}

#[test]
fn mixed_sizes_are_planned_within_three_percent_of_memcached() {
    // Uniform lengths, as the plan is told: only the order differs.
    let lengths = |number: u64| (16, 100 + (mixed(number) % 1901) as usize);
    let planned = plan("-m 32 --key 16 --value 100..2000");
    let mut memcached = Server::memcached("-m 32");
    check_fill(&mut memcached, &planned["memcached"]["items"], lengths);
}

#[test]
fn needed_memory_holds_what_was_asked_for_in_memcached() {
    let planned = plan("--items 50000 --key 16 --value 300");
    let mebibytes = planned["memcached"]["memory_limit_mib"]
        .as_f64()
        .expect("a number");
    let mut memcached = Server::memcached(&format!("-m {mebibytes}"));
    memcached.store(0..48_500, |_| (16, 300));
    assert_eq!(memcached.evictions(), 0.0);
    let mut smaller = Server::memcached(&format!("-m {}", (mebibytes * 0.97).floor()));
    smaller.store(0..50_000, |_| (16, 300));
    assert!(smaller.evictions() > 0.0);
}

#[test]
fn what_cannot_be_planned_is_refused_with_the_way_out() {
    let check = |line: &str, status: i32, says: &str| {
        let told = said_by(&format!("plan {line}"), status);
        assert!(told.contains(says), "{line}: {told}");
    };
    check("--value 2000000", 2, "over -I 1048576");
    check("--value table:/nowhere", 2, "name a trace file");
    check("-m 1 --value 10", 2, "larger -m");
    check("-I 700k --value 10", 2, "multiple");
    check("-f 1 --value 10", 2, "above 1");
    check("--value 9..8", 1, "A..B");
}
