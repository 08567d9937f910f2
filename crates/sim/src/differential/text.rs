//! Random classic and meta requests.
//!
//! Left out, because memcached 1.6.18 has it wrong or forgets replies there: keys over 250 bytes in a `get` with replies
//! before it (they are lost), `ma` with a new life (the old item gets it if the number grows), and values with a `-`: before
//! it counts with a number of 2^63 or more, memcached looks for a `-` from there to the end of the string, which is wherever
//! the next 0 byte of its memory is. Its own headers may hold one all the same: such a session is held again.

use rand::Rng as _;
use rand::rngs::StdRng;

use super::session::{Request, pick};

const KEYS: [&str; 8] = [
    "a",
    "b",
    "c",
    "key",
    "foo",
    "n",
    "Zm9v",
    "a0longer0key0than0all0others0",
];
const NUMBERS: [&str; 14] = [
    "0",
    "1",
    "2",
    "9",
    "10",
    "99",
    "100",
    "255",
    "4294967295",
    "18446744073709551614",
    "18446744073709551615",
    "18446744073709551616",
    "-1",
    "abc",
];
const FLAGS: [&str; 6] = ["0", "0", "0", "5", "65535", "4294967295"];
const BAD_FLAGS: [&str; 4] = ["-1", "x", "1x", "99999999999999999999"];
/// Never, dead, or far enough away that nothing dies while a session lasts.
const EXPTIMES: [&str; 9] = [
    "0",
    "0",
    "0",
    "0",
    "100",
    "1000",
    "2000000000",
    "-1",
    "1000000000",
];
/// Numbers of 2^63 and above are left to a script: memcached 1.6.18 takes one for no number if there is a `-` in what its memory held
/// behind the item before.
const VALUES: [&str; 13] = [
    "",
    "x",
    "0",
    "1",
    "9",
    "10",
    "99 ",
    "5 abc",
    "hello",
    "9223372036854775807",
    "a\r\nb",
    "END",
    "00012",
];

/// A request, mostly valid.
pub fn request(random: &mut StdRng) -> Request {
    match random.random_range(0..100) {
        0..22 => storage(random),
        22..26 => cas(random),
        26..38 => retrieval(random),
        38..43 => line(random, &["gat", "gats"], &[exptime, key, key]),
        43..47 => line(random, &["touch"], &[key, exptime, noreply]),
        47..55 => line(random, &["incr", "decr"], &[key, number, noreply]),
        55..59 => line(random, &["delete"], &[key, noreply]),
        59 => line(random, &["flush_all"], &[noreply]),
        60 => line(random, &["verbosity"], &[level, noreply]),
        61 => Request::bytes("version\r\n"),
        62..76 => meta_get(random),
        76..88 => meta_set(random),
        88..93 => meta_delete(random),
        93..99 => meta_arithmetic(random),
        _ => nonsense(random),
    }
}

/// A line that is no command.
pub fn nonsense(random: &mut StdRng) -> Request {
    let lines = [
        "\r\n",
        "\n",
        " \r\n",
        "get\r\n",
        "set\r\n",
        "nonsense\r\n",
        "GET a\r\n",
        "mg\r\n",
        "ms a\r\n",
        "incr a\r\n",
        "quit\r\n",
        "gets\r\n",
        "cas a 0 0 1\r\n",
        "delete\r\n",
        "touch a\r\n",
        "ma\r\n",
        "md\r\n",
        "mn !\r\n",
        "delete a 0\r\n",
        "delete a 5\r\n",
        "set a 0 0 -1\r\n",
        "set a 0 0 x\r\n",
        "shutdown\r\n",
        "get a HTTP\r\n",
        "quit now\r\n",
    ];
    Request::bytes(*pick(random, &lines))
}

type Word = fn(&mut StdRng) -> String;

fn line(random: &mut StdRng, commands: &[&str], words: &[Word]) -> Request {
    let mut text = (*pick(random, commands)).to_owned();
    for word in words {
        let word = word(random);
        if !word.is_empty() {
            text.push(' ');
            text.push_str(&word);
        }
    }
    text.push_str(end(random));
    Request::bytes(text)
}

fn key(random: &mut StdRng) -> String {
    match random.random_range(0..60) {
        0 => "k".repeat(250),
        1 => "\u{1}\u{7f}ключ".to_owned(),
        _ => (*pick(random, &KEYS)).to_owned(),
    }
}

fn exptime(random: &mut StdRng) -> String {
    match random.random_range(0..80) {
        0 => "abc".to_owned(),
        1 => "99999999999999999999".to_owned(),
        _ => (*pick(random, &EXPTIMES)).to_owned(),
    }
}

fn number(random: &mut StdRng) -> String {
    (*pick(random, &NUMBERS)).to_owned()
}

fn level(random: &mut StdRng) -> String {
    (*pick(random, &["0", "1"])).to_owned()
}

fn noreply(random: &mut StdRng) -> String {
    (*pick(random, &["", "", "", "", "", "noreply", "noreply", "norepl"])).to_owned()
}

fn end(random: &mut StdRng) -> &'static str {
    if random.random_ratio(1, 15) { "\n" } else { "\r\n" }
}

fn flags(random: &mut StdRng) -> String {
    let choices: &[&str] = if random.random_ratio(1, 40) {
        &BAD_FLAGS
    } else {
        &FLAGS
    };
    (*pick(random, choices)).to_owned()
}

fn value(random: &mut StdRng) -> Vec<u8> {
    match random.random_range(0..400) {
        0 => vec![b'L'; random.random_range(1_048_300..1_048_600)],
        1..4 => vec![b'M'; random.random_range(5_000..60_000)],
        4..30 => random_bytes(random),
        30..40 => random.random_range(0..i64::MAX).to_string().into_bytes(),
        _ => pick(random, &VALUES).as_bytes().to_vec(),
    }
}

/// Up to 300 bytes, none of them `-`.
pub(super) fn random_bytes(random: &mut StdRng) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..random.random_range(0..300))
        .map(|_| random.random())
        .collect();
    bytes.retain(|byte| *byte != b'-');
    bytes
}

fn storage(random: &mut StdRng) -> Request {
    let command = pick(
        random,
        &["set", "set", "set", "add", "replace", "append", "prepend"],
    );
    let (flags, exptime) = (flags(random), exptime(random));
    let mut value = value(random);
    if flags.parse::<u32>().is_err() || exptime.parse::<i64>().is_err() {
        // A data block that nobody swallows is a line, and one that long ends the connection with a reset.
        value.truncate(100);
    }
    let len = value.len();
    let mut text = format!("{command} {} {flags} {exptime} {len}", key(random));
    if random.random_ratio(1, 5) {
        text.push_str(" noreply");
    }
    text.push_str(end(random));
    let mut request = Request::bytes(text);
    request.push(&value);
    request.push(b"\r\n");
    request
}

fn push_cas(random: &mut StdRng, request: &mut Request) {
    let plus = *pick(random, &[0, 0, 0, 1_000_000]);
    request.push_cas(random.random_range(0..6), plus, true);
}

fn cas(random: &mut StdRng) -> Request {
    let value = pick(random, &VALUES).as_bytes();
    let text = format!(
        "cas {} {} {} {} ",
        key(random),
        flags(random),
        exptime(random),
        value.len()
    );
    let mut request = Request::bytes(text);
    push_cas(random, &mut request);
    request.push(if random.random_ratio(1, 8) {
        b" noreply\r\n"
    } else {
        b"\r\n"
    });
    request.push(value);
    request.push(b"\r\n");
    request
}

fn retrieval(random: &mut StdRng) -> Request {
    let mut text = (*pick(random, &["get", "gets", "gets", "bget"])).to_owned();
    let many = random.random_ratio(1, 30);
    for _ in 0..random.random_range(1..if many { 60 } else { 4 }) {
        text.push_str(if random.random_ratio(1, 4) { "  " } else { " " });
        text.push_str(&key(random));
    }
    text.push_str(end(random));
    Request::bytes(text)
}

/// Adds flags, each at most once unless chance will have it twice. A `#` stands for a CAS number.
fn push_meta_flags(random: &mut StdRng, request: &mut Request, flags: &[&str]) {
    let mut chosen: Vec<&str> = (0..random.random_range(0..5))
        .map(|_| *pick(random, flags))
        .collect();
    // The life left is asked for last: `ma` of memcached tells it as it was before flags behind it.
    chosen.sort_by_key(|flag| *flag == "t");
    // Whether a life runs out is decided after a touch here, in memcached before it if `R` stands before `T`.
    if chosen.iter().any(|flag| flag.starts_with('R')) {
        chosen.retain(|flag| !flag.starts_with('T'));
    }
    for flag in chosen {
        request.push(b" ");
        match flag.split_once('#') {
            Some((letter, _)) => {
                request.push(letter.as_bytes());
                push_cas(random, request);
            }
            None => request.push(flag.as_bytes()),
        }
    }
    request.push(end(random).as_bytes());
}

fn meta_get(random: &mut StdRng) -> Request {
    let mut request = Request::bytes(format!("mg {}", key(random)));
    let flags = [
        "v", "v", "v", "s", "t", "f", "c", "c", "k", "h", "l", "q", "u", "b", "O1", "Oabc", "N0", "N100",
        "N200", "R0", "R50", "R200", "R-1", "T0", "T100", "T200", "P", "Lpath", "Tx", "N", "x", "!",
    ];
    push_meta_flags(random, &mut request, &flags);
    request
}

fn meta_set(random: &mut StdRng) -> Request {
    let value = value(random);
    let mut request = Request::bytes(format!("ms {} {}", key(random), value.len()));
    let flags = [
        "T0", "T100", "T-1", "F5", "F0", "Fx", "c", "k", "q", "q", "O7", "I", "I", "b", "C#", "C#", "MS",
        "ME", "MA", "MP", "MR", "Mx", "M", "S5", "x", "C0", "P",
    ];
    push_meta_flags(random, &mut request, &flags);
    request.push(&value);
    request.push(b"\r\n");
    request
}

fn meta_delete(random: &mut StdRng) -> Request {
    let mut request = Request::bytes(format!("md {}", key(random)));
    let flags = [
        "q", "k", "O2", "I", "I", "I", "T30", "T0", "T-1", "C#", "b", "C0", "Tx", "!", "v",
    ];
    push_meta_flags(random, &mut request, &flags);
    request
}

fn meta_arithmetic(random: &mut StdRng) -> Request {
    let mut request = Request::bytes(format!("ma {}", key(random)));
    let flags = [
        "v",
        "v",
        "t",
        "c",
        "k",
        "q",
        "O3",
        "N0",
        "N100",
        "J5",
        "J18446744073709551615",
        "D1",
        "D10",
        "D18446744073709551615",
        "Dx",
        "MI",
        "MD",
        "M+",
        "M-",
        "Mx",
        "C#",
        "C0",
        "b",
        "!",
    ];
    push_meta_flags(random, &mut request, &flags);
    request
}
