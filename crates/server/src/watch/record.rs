//! What is told: as a record of some words, which a worker writes, and as a line, which the scribe makes of it.
//!
//! The lines are memcached's. What follows the last of its fields is this server's own.

use std::io::Write;
use std::net::IpAddr;

use scrubjay_base::ring::HEAD_WORDS;
use scrubjay_cache::{Cause, Departure};
use scrubjay_net::{Peer, Reason};

use super::Stream;

/// Longest command line that is told; of longer ones it is the beginning. As memcached's records.
const COMMAND_LEN_MAX: usize = 512;

/// Something that happened, with what is told of it. Sizes are of values, in bytes; `cfd` is the connection's descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Told<'a> {
    /// A key was looked up.
    Get {
        key: &'a [u8],
        status: Status,
        size: usize,
        cfd: u32,
    },
    /// A value was stored, or was not.
    Store {
        key: &'a [u8],
        status: Status,
        command: Command,
        ttl: i64,
        size: usize,
        cfd: u32,
    },
    /// An item was deleted.
    Deleted {
        key: &'a [u8],
        is_meta: bool,
        size: usize,
        cfd: u32,
    },
    /// An item left for want of room.
    Evicted(Departure<'a>),
    /// A connection was accepted.
    Opened { peer: Peer, cfd: u32 },
    /// A connection is closed.
    Closed {
        peer: Option<Peer>,
        reason: Reason,
        cfd: u32,
    },
    /// A command line.
    Raw { line: &'a [u8], cfd: u32 },
    /// An order to the server, in words that are told as they are.
    System { words: &'a str },
    /// What was under a key is not what it was; `number` counts them, those of one book.
    Changed { key: &'a [u8], number: u64 },
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($item:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name { $(#[doc = $word] $item,)* }

        impl $name {
            const WORDS: &[&str] = &[$($word,)*];
        }
    };
}

words! {
    /// How a look-up or a store ended.
    Status {
        NotStored = "not_stored",
        Stored = "stored",
        Exists = "exists",
        NotFound = "not_found",
        TooLarge = "too_large",
        NoMemory = "no_memory",
        Found = "found",
        Flushed = "flushed",
        Expired = "expired",
    }
}

words! {
    /// What kind of store it was.
    Command {
        Add = "add",
        Set = "set",
        Replace = "replace",
        Append = "append",
        Prepend = "prepend",
        Cas = "cas",
    }
}

/// Kinds of records, as their first word names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    Get,
    Store,
    Deleted,
    Evicted,
    Opened,
    Closed,
    Raw,
    System,
    Changed,
}

const KINDS: [Kind; 9] = [
    Kind::Get,
    Kind::Store,
    Kind::Deleted,
    Kind::Evicted,
    Kind::Opened,
    Kind::Closed,
    Kind::Raw,
    Kind::System,
    Kind::Changed,
];

impl Kind {
    fn stream(self) -> Stream {
        match self {
            Kind::Get => Stream::Fetchers,
            Kind::Store => Stream::Mutations,
            Kind::Deleted => Stream::Deletions,
            Kind::Evicted => Stream::Evictions,
            Kind::Opened | Kind::Closed => Stream::ConnectionEvents,
            Kind::Raw => Stream::RawCommands,
            Kind::System => Stream::SystemEvents,
            Kind::Changed => Stream::Invalidations,
        }
    }
}

impl Told<'_> {
    fn kind(&self) -> Kind {
        match self {
            Told::Get { .. } => Kind::Get,
            Told::Store { .. } => Kind::Store,
            Told::Deleted { .. } => Kind::Deleted,
            Told::Evicted(_) => Kind::Evicted,
            Told::Opened { .. } => Kind::Opened,
            Told::Closed { .. } => Kind::Closed,
            Told::Raw { .. } => Kind::Raw,
            Told::System { .. } => Kind::System,
            Told::Changed { .. } => Kind::Changed,
        }
    }

    pub(super) fn stream(&self) -> Stream {
        self.kind().stream()
    }
}

/// What lies in a record.
/// ```text
/// word 0   0:16 (the ring's) | kind:8 | what:8 | sequence:32
/// word 1   nanoseconds of the clock
/// word 2   size, or port:32 | cfd, or seconds idle:32; or number:64
/// word 3   ttl, all ones: none:32 | seconds where it lay:32
/// bytes    key, address or words
/// ```
#[derive(Clone, Copy, Debug)]
struct Words {
    what: u8,
    low: u32,
    high: u32,
    ttl: u32,
    placed: u32,
}

/// Passes the words and bytes of a record to `push`, whose word on it is returned.
pub(super) fn encode(
    told: &Told<'_>,
    sequence: u32,
    now: u64,
    push: impl FnOnce([u64; HEAD_WORDS], &[u8]) -> bool,
) -> bool {
    let mut octets = [0; 16];
    let words = |what: u8, low: usize, high: u32| Words {
        what,
        // A value is shorter than 2^32 bytes.
        low: low as u32,
        high,
        ttl: 0,
        placed: 0,
    };
    let (words, bytes) = match *told {
        Told::Get {
            key,
            status,
            size,
            cfd,
        } => (words(status as u8, size, cfd), key),
        Told::Store {
            key,
            status,
            command,
            ttl,
            size,
            cfd,
        } => {
            let ttl = ttl.clamp(-1, i64::from(i32::MAX)) as u32;
            let words = words(status as u8 | (command as u8) << 4, size, cfd);
            (Words { ttl, ..words }, key)
        }
        Told::Deleted {
            key,
            is_meta,
            size,
            cfd,
        } => (words(is_meta.into(), size, cfd), key),
        Told::Evicted(item) => {
            let is_lowered = item.cause == Cause::LimitLowered;
            let reads = (u16::BITS - item.reads.leading_zeros()) as u8;
            let what = u8::from(item.fetched) | u8::from(is_lowered) << 1 | reads << 2;
            let words = words(what, item.value_len, item.idle_secs);
            let (ttl, placed) = (item.ttl.unwrap_or(u32::MAX), item.placed_secs);
            (Words { ttl, placed, ..words }, item.key)
        }
        Told::Opened { peer, cfd } => {
            let (port, octets) = split(Some(peer), &mut octets);
            (words(0, port, cfd), octets)
        }
        Told::Closed { peer, reason, cfd } => {
            let (port, octets) = split(peer, &mut octets);
            (words(reason as u8, port, cfd), octets)
        }
        Told::Raw { line, cfd } => (words(0, 0, cfd), &line[..line.len().min(COMMAND_LEN_MAX)]),
        Told::System { words: text } => (words(0, 0, 0), text.as_bytes()),
        Told::Changed { key, number } => (words(0, number as u32 as usize, (number >> 32) as u32), key),
    };
    let kind = told.kind() as u64;
    let head = [
        kind << 16 | u64::from(words.what) << 24 | u64::from(sequence) << 32,
        now,
        u64::from(words.low) | u64::from(words.high) << 32,
        u64::from(words.ttl) | u64::from(words.placed) << 32,
    ];
    push(head, bytes)
}

/// The port of a peer that is not known any more.
const UNKNOWN: u32 = u32::MAX;

/// Port and octets of a peer; of one on a Unix socket, and of one that is not known any more, there are no octets.
fn split(peer: Option<Peer>, octets: &mut [u8; 16]) -> (usize, &[u8]) {
    let address = match peer {
        Some(Peer::Tcp(address) | Peer::Udp(address)) => address,
        Some(Peer::Unix) => return (0, &[]),
        None => return (UNKNOWN as usize, &[]),
    };
    let len = match address.ip() {
        IpAddr::V4(ip) => {
            octets[..4].copy_from_slice(&ip.octets());
            4
        }
        IpAddr::V6(ip) => {
            *octets = ip.octets();
            16
        }
    };
    (address.port().into(), &octets[..len])
}

/// A record that was taken out of a book.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'a> {
    kind: Kind,
    words: Words,
    /// Nanoseconds of the clock.
    now: u64,
    bytes: &'a [u8],
}

impl<'a> Record<'a> {
    pub(super) fn decode(head: [u64; HEAD_WORDS], bytes: &'a [u8]) -> Record<'a> {
        let kind = KINDS[(head[0] >> 16 & 0xff) as usize];
        let words = Words {
            what: (head[0] >> 24) as u8,
            low: head[2] as u32,
            high: (head[2] >> 32) as u32,
            ttl: head[3] as u32,
            placed: (head[3] >> 32) as u32,
        };
        Record {
            kind,
            words,
            now: head[1],
            bytes,
        }
    }

    pub(super) fn stream(&self) -> Stream {
        self.kind.stream()
    }

    /// Appends its line to `out`, if it is of a key that has changed, as one of this book.
    pub(super) fn write_change(&self, book: usize, out: &mut Vec<u8>) -> bool {
        if self.kind != Kind::Changed {
            return false;
        }
        let number = u64::from(self.words.low) | u64::from(self.words.high) << 32;
        put(out, format_args!("at={book}:{number} key="));
        escape(self.bytes, out);
        out.push(b'\n');
        true
    }

    /// Appends its line to `out`. `unix_micros` is when the clock started, `gid` the line's number.
    pub(super) fn write(&self, unix_micros: u64, gid: u64, out: &mut Vec<u8>) {
        write_start(unix_micros + self.now / 1000, gid, out);
        let Words {
            what,
            low,
            high,
            ttl,
            placed,
        } = self.words;
        match self.kind {
            Kind::Get => {
                self.write_key("type=item_get", out);
                let status = Status::WORDS[usize::from(what)];
                let class = u32::from(what == Status::Found as u8);
                put(
                    out,
                    format_args!(" status={status} clsid={class} cfd={high} size={low}"),
                );
            }
            Kind::Store => {
                self.write_key("type=item_store", out);
                let (status, command) = (usize::from(what & 0xf), usize::from(what >> 4));
                let (status, command) = (Status::WORDS[status], Command::WORDS[command]);
                let ttl = ttl as i32;
                put(
                    out,
                    format_args!(" status={status} cmd={command} ttl={ttl} clsid=1 cfd={high} size={low}"),
                );
            }
            Kind::Deleted => {
                self.write_key("type=deleted", out);
                let command = if what == 0 { "delete" } else { "md" };
                put(out, format_args!(" cmd={command} clsid=1 size={low}"));
            }
            Kind::Evicted => {
                self.write_key("type=eviction", out);
                let fetched = if what & 1 == 0 { "no" } else { "yes" };
                let ttl = ttl as i32;
                put(
                    out,
                    format_args!(" fetch={fetched} ttl={ttl} la={high} clsid=1 size={low}"),
                );
                let cause = if what & 2 == 0 {
                    Cause::Evicted
                } else {
                    Cause::LimitLowered
                };
                let reads = 1u32 << (what >> 2) >> 1;
                put(
                    out,
                    format_args!(" cause={} age={placed} reads={reads}", cause.word()),
                );
            }
            Kind::Opened => self.write_peer("type=conn_new", out),
            Kind::Closed => self.write_peer("type=conn_close", out),
            Kind::Raw => {
                put(out, format_args!("<{high} "));
                out.extend_from_slice(self.bytes);
            }
            Kind::System => out.extend_from_slice(self.bytes),
            Kind::Changed => unreachable!("it has a line of its own"),
        }
        out.push(b'\n');
    }

    fn write_key(&self, kind: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(kind.as_bytes());
        out.extend_from_slice(b" key=");
        escape(self.bytes, out);
    }

    fn write_peer(&self, kind: &str, out: &mut Vec<u8>) {
        let port = self.words.low;
        let ip = match (<[u8; 4]>::try_from(self.bytes), <[u8; 16]>::try_from(self.bytes)) {
            (Ok(octets), _) => Some(IpAddr::from(octets)),
            (_, Ok(octets)) => Some(IpAddr::from(octets)),
            _ => None,
        };
        match ip {
            Some(ip) => put(out, format_args!("{kind} rip={ip} rport={port} transport=tcp")),
            None if port == UNKNOWN => put(out, format_args!("{kind} rip=unknown rport=0 transport=tcp")),
            None => put(out, format_args!("{kind} rip=unix rport=0 transport=local")),
        }
        if self.kind == Kind::Closed {
            let reason = REASONS[usize::from(self.words.what)];
            put(out, format_args!(" reason={reason}"));
        }
        put(out, format_args!(" cfd={}", self.words.high));
    }
}

/// The words for reasons, in their order. Source: memcached, logger.c.
const REASONS: [&str; 4] = ["error", "normal", "idle_timeout", "shutdown"];

const _: () = assert!(Reason::Error as u8 == 0 && Reason::Stop as u8 == 3);

/// Appends when it happened, in microseconds of Unix time, and the number of the line.
pub(super) fn write_start(unix_micros: u64, gid: u64, out: &mut Vec<u8>) {
    let (secs, micros) = (unix_micros / 1_000_000, unix_micros % 1_000_000);
    put(out, format_args!("ts={secs}.{micros:06} gid={gid} "));
}

fn put(out: &mut Vec<u8>, words: std::fmt::Arguments<'_>) {
    out.write_fmt(words).expect("a vector takes every byte");
}

/// Appends a key with everything but letters, digits and `-._~` as `%` and two hexadecimal digits.
fn escape(key: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in key {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte);
        } else {
            out.extend_from_slice(&[
                b'%',
                DIGITS[usize::from(byte >> 4)],
                DIGITS[usize::from(byte & 15)],
            ]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use scrubjay_base::ring::Ring;
    use scrubjay_cache::{Cause, Departure};
    use scrubjay_net::{Peer, Reason};

    use super::{Command, Record, Status, Told, encode};

    #[track_caller]
    fn check(told: &Told<'_>, line: &str) {
        let ring = Ring::new(4096);
        assert!(encode(told, 7, 1_234_567_000, |head, bytes| ring.push(head, bytes)));
        let mut text = Vec::new();
        ring.take(|_, head, bytes| {
            assert_eq!(head[0] >> 32, 7);
            let record = Record::decode(head, bytes);
            assert_eq!(record.stream(), told.stream());
            record.write(1_700_000_000_000_000, 9, &mut text);
        });
        let text = String::from_utf8(text).expect("text");
        assert_eq!(text, format!("ts=1700000001.234567 gid=9 {line}\n"));
    }

    #[test]
    fn each_record_becomes_its_line() {
        let (key, cfd, size) = (&b"a/b%\xe4"[..], 12, 3);
        let get = |status| Told::Get {
            key,
            status,
            size,
            cfd,
        };
        let (found, expired) = (get(Status::Found), get(Status::Expired));
        check(
            &found,
            "type=item_get key=a%2Fb%25%E4 status=found clsid=1 cfd=12 size=3",
        );
        check(
            &expired,
            "type=item_get key=a%2Fb%25%E4 status=expired clsid=0 cfd=12 size=3",
        );
        let store = |ttl| Told::Store {
            key: b"k",
            status: Status::NoMemory,
            command: Command::Cas,
            ttl,
            size,
            cfd,
        };
        let start = "type=item_store key=k status=no_memory cmd=cas";
        check(&store(0), &format!("{start} ttl=0 clsid=1 cfd=12 size=3"));
        check(&store(-5), &format!("{start} ttl=-1 clsid=1 cfd=12 size=3"));
        check(
            &store(i64::MAX),
            &format!("{start} ttl=2147483647 clsid=1 cfd=12 size=3"),
        );
        let deleted = Told::Deleted {
            key: b"k",
            is_meta: true,
            size,
            cfd,
        };
        check(&deleted, "type=deleted key=k cmd=md clsid=1 size=3");
        check(&Told::Raw { line: b"get a", cfd }, "<12 get a");
        check(&Told::System { words: "type=x y=1" }, "type=x y=1");
    }

    #[test]
    fn an_eviction_tells_all_that_was_known_of_the_item() {
        let item = Departure {
            key: b"k",
            cause: Cause::LimitLowered,
            value_len: 100,
            ttl: Some(60),
            idle_secs: 5,
            placed_secs: 7,
            fetched: true,
            reads: 32,
        };
        let line =
            "type=eviction key=k fetch=yes ttl=60 la=5 clsid=1 size=100 cause=limit_lowered age=7 reads=32";
        check(&Told::Evicted(item), line);
        for reads in [0, 1, 2, 16] {
            let item = Departure {
                ttl: None,
                fetched: false,
                cause: Cause::Evicted,
                reads,
                ..item
            };
            let line = "type=eviction key=k fetch=no ttl=-1 la=5 clsid=1 size=100 cause=evicted age=7";
            check(&Told::Evicted(item), &format!("{line} reads={reads}"));
        }
    }

    #[test]
    fn peers_are_told_by_address_or_as_what_is_known_of_them() {
        let peer = |text: &str| Peer::Tcp(text.parse::<SocketAddr>().expect(text));
        let check = |peer, reason, line: &str| check(&Told::Closed { peer, reason, cfd: 9 }, line);
        let line = "type=conn_close rip=192.0.2.1 rport=99 transport=tcp reason=normal cfd=9";
        check(Some(peer("192.0.2.1:99")), Reason::Normal, line);
        let line = "type=conn_close rip=2001:db8::1 rport=65535 transport=tcp reason=idle_timeout cfd=9";
        check(Some(peer("[2001:db8::1]:65535")), Reason::Idle, line);
        let line = "type=conn_close rip=unix rport=0 transport=local reason=shutdown cfd=9";
        check(Some(Peer::Unix), Reason::Stop, line);
        let line = "type=conn_close rip=unknown rport=0 transport=tcp reason=error cfd=9";
        check(None, Reason::Error, line);
    }

    #[test]
    fn of_a_long_command_line_the_beginning_is_told() {
        let long = [b'x'; 2000];
        check(
            &Told::Raw { line: &long, cfd: 1 },
            &format!("<1 {}", "x".repeat(512)),
        );
    }
}
