//! Requests to be counted in processor instructions, by a tool that watches [`measured`] only.
//!
//! Everything is drawn from fixed seeds, time stands still and no sockets are used, so a count comes out again to some
//! instructions.

use scrubjay_net::{Output, Peer, Service};

use crate::serving::{START, Serving};

/// Keys in the cache, and how often a row's requests are made.
const KEYS: usize = 1000;

/// Keys beside those: as in a cache that is in use for a while, few of all are played by its shadows.
const KEYS_BESIDE: usize = 20_000;

/// A kind of request: how the `number`-th is written.
type Write = fn(number: usize) -> Vec<u8>;

/// The rows: their names, how many requests are written at a time, and how.
const ROWS: &[(&str, usize, Write)] = &[
    ("get hit", 1, |n| format!("get {}\r\n", key(n)).into()),
    ("get miss", 1, |n| format!("get un{}\r\n", key(n)).into()),
    ("get hit, 16 at a time", 16, |n| {
        lines(16, |m| format!("get {}\r\n", key(n * 16 + m)))
    }),
    ("get of 100 keys", 1, |n| {
        let keys = lines(100, |m| format!(" {}", key(n * 100 + m)));
        [b"get".as_slice(), &keys, b"\r\n"].concat()
    }),
    ("set", 1, |n| {
        format!("set {} 0 0 100\r\n{}\r\n", key(n), "y".repeat(100)).into()
    }),
    ("set, 16 at a time", 16, |n| {
        lines(16, |m| set(&key(n * 16 + m), ""))
    }),
    ("set noreply, 100 at a time", 100, |n| {
        lines(100, |m| set(&key(n * 100 + m), " noreply"))
    }),
    ("delete", 1, |n| format!("delete {}\r\n", key(n)).into()),
    ("incr", 1, |n| format!("incr number:{n} 1\r\n").into()),
    ("mg hit", 1, |n| format!("mg {} v f t\r\n", key(n)).into()),
    // As our client asks for many keys.
    ("mg hit, 100 at a time", 100, |n| {
        lines(100, |m| format!("mg {} v f k O{n}\r\n", key(n * 100 + m)))
    }),
    ("mg hit, 100 at a time, numbered", 100, |n| {
        let line = |m| format!("mg {} f v k q O{m}\r\n", key(n * 100 + m));
        [lines(100, line).as_slice(), b"mn\r\n"].concat()
    }),
    ("ms", 1, |n| {
        format!("ms {} 100 T60\r\n{}\r\n", key(n), "y".repeat(100)).into()
    }),
    ("binary get hit", 1, |n| {
        let key = key(n);
        let mut packet = vec![0x80, 0, 0, key.len() as u8, 0, 0, 0, 0, 0, 0, 0, key.len() as u8];
        packet.resize(24, 0);
        packet.extend_from_slice(key.as_bytes());
        packet
    }),
];

/// The names of the rows, a line each.
pub fn names() -> String {
    ROWS.iter().map(|(name, ..)| format!("{name}\n")).collect()
}

/// Makes the requests of a row; returns how many were made under watch.
///
/// # Errors
/// There is no such row.
pub fn run(name: &str) -> Result<usize, String> {
    let row = ROWS.iter().find(|row| row.0 == name);
    let (_, at_a_time, write) = row.ok_or_else(|| format!("no row {name:?}; there are:\n{}", names()))?;
    let serving = Serving::new(&["--memory-limit=64".to_owned()])?;
    serving.start_stopwatch();
    let mut service = serving.service();
    let stores = (0..KEYS).map(|n| {
        let value = "x".repeat(100);
        let (key, number) = (key(n), n);
        format!("set {key} 0 0 100\r\n{value}\r\nset number:{number} 0 0 3\r\n100\r\n").into_bytes()
    });
    let beside = (0..KEYS_BESIDE).map(|n| format!("set beside:{n} 0 0 3\r\n100\r\n").into_bytes());
    ask(&mut service, &beside.chain(stores).collect::<Vec<_>>());
    // Code and tables that are used the first time are not to be counted.
    ask(&mut service, &[write(KEYS)]);
    let inputs: Vec<Vec<u8>> = (0..KEYS).map(write).collect();
    measured(&mut service, &inputs);
    Ok(KEYS * at_a_time)
}

/// What is watched, by this name.
#[inline(never)]
fn measured(service: &mut impl Service, inputs: &[Vec<u8>]) {
    ask(service, inputs);
}

fn ask(service: &mut impl Service, inputs: &[Vec<u8>]) {
    let mut session = service.open(Peer::Unix);
    let mut output = Output::default();
    for input in inputs {
        service.begin_turn(START);
        let mut rest = input.as_slice();
        while !rest.is_empty() {
            let handled = service.handle(&mut session, rest, &mut output);
            rest = &rest[handled.consumed..];
            output.clear();
        }
    }
}

fn set(key: &str, noreply: &str) -> String {
    format!("set {key} 0 0 32{noreply}\r\n{}\r\n", "y".repeat(32))
}

fn key(number: usize) -> String {
    format!("key:{:010}", number % KEYS)
}

fn lines(count: usize, line: impl Fn(usize) -> String) -> Vec<u8> {
    (0..count).flat_map(|number| line(number).into_bytes()).collect()
}
