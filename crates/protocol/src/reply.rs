//! Every reply of the text protocols: fixed texts and the lines that are put together.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

/// A reply that is always the same, `\r\n` included. Source: memcached 1.6.18.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text(pub &'static str);

macro_rules! texts {
    ($($name:ident = $text:literal;)*) => {
        $(#[doc = concat!("`", $text, "`")] pub const $name: Text = Text(concat!($text, "\r\n"));)*
    };
}

texts! {
    OK = "OK";
    END = "END";
    RESET = "RESET";
    STORED = "STORED";
    NOT_STORED = "NOT_STORED";
    EXISTS = "EXISTS";
    NOT_FOUND = "NOT_FOUND";
    DELETED = "DELETED";
    TOUCHED = "TOUCHED";
    META_NOOP = "MN";
    META_MISS = "EN";
    ERROR = "ERROR";
    BAD_LINE = "CLIENT_ERROR bad command line format";
    BAD_STATS_LINE = "CLIENT_ERROR bad command line";
    BAD_DELETE = "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]";
    BAD_CHUNK = "CLIENT_ERROR bad data chunk";
    BAD_EXPTIME = "CLIENT_ERROR invalid exptime argument";
    BAD_DELTA = "CLIENT_ERROR invalid numeric delta argument";
    NON_NUMERIC = "CLIENT_ERROR cannot increment or decrement non-numeric value";
    BAD_TOKEN = "CLIENT_ERROR bad token in command line format";
    BAD_FLAG = "CLIENT_ERROR invalid flag";
    BAD_OR_DUPLICATE_FLAG = "CLIENT_ERROR invalid or duplicate flag";
    DUPLICATE_FLAG = "CLIENT_ERROR duplicate flag";
    BAD_KEY_CODE = "CLIENT_ERROR error decoding key";
    BAD_MODE_LEN = "CLIENT_ERROR incorrect length for M token";
    BAD_STORE_MODE = "CLIENT_ERROR invalid mode for ms M token";
    BAD_ARITH_MODE = "CLIENT_ERROR invalid mode for ma M token";
    BAD_META_INITIAL = "CLIENT_ERROR invalid numeric initial value";
    BAD_META_DELTA = "CLIENT_ERROR invalid numeric delta value";
    LONG_OPAQUE = "CLIENT_ERROR opaque token too long";
    MANY_FLAGS_TO_GET = "CLIENT_ERROR options flags are too long";
    MANY_FLAGS = "CLIENT_ERROR options flags too long";
    TOO_LARGE = "SERVER_ERROR object too large for cache";
    NO_MEMORY_TO_STORE = "SERVER_ERROR out of memory storing object";
    NO_MEMORY_TO_COUNT = "SERVER_ERROR out of memory in incr";
    NO_MEMORY = "SERVER_ERROR out of memory";
    FLUSH_DISABLED = "CLIENT_ERROR flush_all not allowed";
    SHUTDOWN_DISABLED = "ERROR: shutdown not enabled";
    BAD_SHUTDOWN_MODE = "CLIENT_ERROR invalid shutdown mode";
    LIMIT_TOO_SMALL = "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m";
    LIMIT_NOT_IN_MEGABYTES = "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes";
    LIMIT_OUT_OF_BOUNDS = "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust";
    SAME_CLASS = "SAME src and dst class are identical";
    BAD_CLASSES = "BADCLASS invalid src or dst class id";
    BAD_CLASS = "BADCLASS invalid class id";
    NO_SPARE = "NOSPARE source class has no spare pages";
    LRU_SHARES_TOO_LARGE = "ERROR hot and warm pcts must not exceed 80";
    CRAWLER_SLEEP_TOO_LONG = "CLIENT_ERROR sleep must be one second or less";
    NO_DUMP = "ERROR dumps of keys are not available";
    NO_WATCH = "ERROR watching is not available";
    NO_TLS = "Error TLS not enabled";
    DETAIL_USAGE = "CLIENT_ERROR usage: stats detail on|off|dump";
    ILLEGAL_CLASS = "CLIENT_ERROR Illegal slab id";
}

/// Appends `text`.
#[inline]
pub fn encode_text(text: Text, out: &mut Vec<u8>) {
    out.extend_from_slice(text.0.as_bytes());
}

/// Appends `number` in decimal.
#[inline]
pub fn encode_number(number: u64, out: &mut Vec<u8>) {
    const DIGITS_MAX: usize = 20;
    let mut digits = [0; DIGITS_MAX];
    let mut start = DIGITS_MAX;
    let mut rest = number;
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

/// Appends the line before a value of a classic get.
#[inline]
pub fn encode_value_line(key: &[u8], flags: u32, value_len: usize, cas: Option<u64>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"VALUE ");
    out.extend_from_slice(key);
    out.push(b' ');
    encode_number(u64::from(flags), out);
    out.push(b' ');
    encode_number(value_len as u64, out);
    if let Some(cas) = cas {
        out.push(b' ');
        encode_number(cas, out);
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends one number and a line end: the reply of `incr` and `decr`.
pub fn encode_number_line(number: u64, out: &mut Vec<u8>) {
    encode_number(number, out);
    out.extend_from_slice(b"\r\n");
}

/// Appends one line of statistics.
pub fn encode_stat(name: &str, value: &str, out: &mut Vec<u8>) {
    for part in ["STAT ", name, " ", value, "\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
}

/// Appends the reply of `version`.
pub fn encode_version(version: &str, out: &mut Vec<u8>) {
    for part in ["VERSION ", version, "\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
}

/// How a meta request ended: the first word of its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done, without a value.
    Done,
    /// Done; a value of so many bytes follows the line.
    Value(usize),
    /// A look-up missed.
    Miss,
    /// No such item.
    NotFound,
    /// Another CAS number.
    Exists,
    /// The mode's condition did not hold.
    NotStored,
}

/// Appends the first word of a meta reply.
#[inline]
pub fn encode_outcome(outcome: Outcome, out: &mut Vec<u8>) {
    let word: &[u8; 2] = match outcome {
        Outcome::Done => b"HD",
        Outcome::Value(_) => b"VA",
        Outcome::Miss => b"EN",
        Outcome::NotFound => b"NF",
        Outcome::Exists => b"EX",
        Outcome::NotStored => b"NS",
    };
    out.extend_from_slice(word);
    if let Outcome::Value(len) = outcome {
        out.push(b' ');
        encode_number(len as u64, out);
    }
}

/// Appends ` ` and a letter.
#[inline]
pub fn encode_flag(letter: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(&[b' ', letter]);
}

/// Appends a flag and its number.
#[inline]
pub fn encode_number_flag(letter: u8, number: u64, out: &mut Vec<u8>) {
    encode_flag(letter, out);
    encode_number(number, out);
}

/// Appends the flag that tells the rest of life, -1 for no end.
pub fn encode_ttl_flag(ttl: Option<u32>, out: &mut Vec<u8>) {
    match ttl {
        Some(secs) => encode_number_flag(b't', u64::from(secs), out),
        None => out.extend_from_slice(b" t-1"),
    }
}

/// Appends the flag that repeats the key: in base64 if it is binary, or could not stand in a line.
pub fn encode_key_flag(key: &[u8], is_binary: bool, out: &mut Vec<u8>) {
    encode_flag(b'k', out);
    if encode_key(key, is_binary, out) {
        encode_flag(b'b', out);
    }
}

/// Appends a key; `true` if it is in base64.
fn encode_key(key: &[u8], is_binary: bool, out: &mut Vec<u8>) -> bool {
    let fits_in_line = !key.iter().any(|byte| matches!(byte, b' ' | b'\r' | b'\n' | 0));
    if !is_binary && fits_in_line {
        out.extend_from_slice(key);
        return false;
    }
    out.extend_from_slice(BASE64_STANDARD.encode(key).as_bytes());
    true
}

/// What `me` tells.
#[derive(Clone, Copy, Debug)]
pub struct Debug<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The key was stored in binary form.
    pub key_is_binary: bool,
    /// Seconds of life left; `None` never expires.
    pub ttl: Option<u32>,
    /// Seconds since the last access.
    pub idle_secs: u32,
    /// CAS number.
    pub cas: u64,
    /// Read since it was stored.
    pub fetched: bool,
    /// Bytes by memcached's sum.
    pub size: usize,
}

/// Appends the reply of `me`.
pub fn encode_debug(debug: &Debug<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"ME ");
    encode_key(debug.key, debug.key_is_binary, out);
    let ttl = debug.ttl.map_or(-1, i64::from);
    let fetched = if debug.fetched { "yes" } else { "no" };
    let (idle_secs, cas, size) = (debug.idle_secs, debug.cas, debug.size);
    let rest = format!(" exp={ttl} la={idle_secs} cas={cas} fetch={fetched} cls=1 size={size}\r\n");
    out.extend_from_slice(rest.as_bytes());
}
