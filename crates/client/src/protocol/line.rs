//! Lines that servers answer, read strictly: what is no reply of the protocol is none.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::reply::{ErrorKind, Lease, ServerError};

/// A line of a reply, of either form.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// A reply to a meta command.
    Meta(Status, Flags<'a>),
    /// `VALUE`, before the data block.
    Value {
        key: &'a [u8],
        flags: u32,
        len: usize,
        cas: Option<u64>,
    },
    End,
    Stored,
    NotStored,
    Exists,
    NotFound,
    Deleted,
    Touched,
    Done,
    Alive,
    Number(u64),
    Version(&'a [u8]),
    Error(ServerError),
}

/// How a meta command went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// With a data block of this length.
    Value(usize),
    Done,
    Miss,
    NotFound,
    NotStored,
    Exists,
}

/// What came back with it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Flags<'a> {
    pub(super) opaque: Option<u64>,
    pub(super) key: Option<Cow<'a, [u8]>>,
    pub(super) client_flags: u32,
    pub(super) cas: Option<u64>,
    pub(super) ttl_secs: Option<u32>,
    pub(super) lease: Lease,
}

/// Reads a line without its end; `None` if it is no reply.
pub(super) fn parse(line: &[u8]) -> Option<Line<'_>> {
    if let Some(rest) = line.strip_prefix(b"VALUE ") {
        return parse_value(rest);
    }
    let (first, rest) = match memchr::memchr(b' ', line) {
        Some(at) => (&line[..at], &line[at + 1..]),
        None => (line, [].as_slice()),
    };
    let alone = |parsed| (first.len() == line.len()).then_some(parsed);
    match first {
        b"HD" => meta(Status::Done, rest),
        b"EN" => meta(Status::Miss, rest),
        b"NF" => meta(Status::NotFound, rest),
        b"NS" => meta(Status::NotStored, rest),
        b"EX" => meta(Status::Exists, rest),
        b"VA" => {
            let (len, rest) = match memchr::memchr(b' ', rest) {
                Some(at) => (&rest[..at], &rest[at + 1..]),
                None => (rest, [].as_slice()),
            };
            meta(Status::Value(number(len)?.try_into().ok()?), rest)
        }
        b"MN" => alone(Line::Alive),
        b"END" => alone(Line::End),
        b"STORED" => alone(Line::Stored),
        b"NOT_STORED" => alone(Line::NotStored),
        b"EXISTS" => alone(Line::Exists),
        b"NOT_FOUND" => alone(Line::NotFound),
        b"DELETED" => alone(Line::Deleted),
        b"TOUCHED" => alone(Line::Touched),
        b"OK" => alone(Line::Done),
        b"VERSION" => Some(Line::Version(rest)),
        b"ERROR" | b"ERROR:" => Some(error(ErrorKind::Unknown, rest)),
        b"CLIENT_ERROR" => Some(error(ErrorKind::Client, rest)),
        b"SERVER_ERROR" => Some(error(ErrorKind::Server, rest)),
        // Behind a number that has become shorter there may be blanks.
        _ if rest.iter().all(|byte| *byte == b' ') => number(first).map(Line::Number),
        _ => None,
    }
}

fn parse_value(rest: &[u8]) -> Option<Line<'_>> {
    let mut words = rest.split(|byte| *byte == b' ');
    let key = words.next().filter(|key| !key.is_empty())?;
    let flags = number(words.next()?)?.try_into().ok()?;
    let len = number(words.next()?)?.try_into().ok()?;
    // Some servers have a blank at the end.
    let cas = match words.next() {
        Some(word) if !word.is_empty() => Some(number(word)?),
        _ => None,
    };
    words
        .next()
        .is_none()
        .then_some(Line::Value { key, flags, len, cas })
}

fn meta(status: Status, rest: &[u8]) -> Option<Line<'_>> {
    let mut flags = Flags::default();
    let mut binary = false;
    for flag in rest.split(|byte| *byte == b' ') {
        let Some((letter, token)) = flag.split_first() else {
            continue;
        };
        match letter {
            b'O' => set_once(&mut flags.opaque, number(token)?)?,
            b'k' => set_once(&mut flags.key, Cow::Borrowed(token))?,
            b'c' => set_once(&mut flags.cas, number(token)?)?,
            b'f' => flags.client_flags = number(token)?.try_into().ok()?,
            // -1 is for ever.
            b't' => flags.ttl_secs = number(token).and_then(|secs| secs.try_into().ok()),
            b'b' => binary = true,
            b'W' => flags.lease.won = true,
            b'Z' => flags.lease.taken = true,
            b'X' => flags.lease.stale = true,
            // Not asked for; a proxy may have reasons.
            _ => {}
        }
    }
    if binary && let Some(key) = &flags.key {
        flags.key = Some(Cow::Owned(STANDARD.decode(key).ok()?));
    }
    Some(Line::Meta(status, flags))
}

/// A flag that comes twice is none to be believed.
fn set_once<T>(place: &mut Option<T>, value: T) -> Option<()> {
    place.replace(value).is_none().then_some(())
}

fn error<'a>(kind: ErrorKind, words: &[u8]) -> Line<'a> {
    Line::Error(ServerError {
        kind,
        words: String::from_utf8_lossy(words).into_owned(),
    })
}

/// Digits and nothing else.
fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |number, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        number.checked_mul(10)?.checked_add(digit.into())
    })
}

/// A number that came as a value.
pub(super) fn parse_number(value: &[u8]) -> Option<u64> {
    number(value)
}

#[cfg(test)]
mod tests {
    use super::{Flags, Line, Status, parse};
    use crate::protocol::reply::Lease;

    #[test]
    fn lines_are_read_strictly() {
        let check =
            |line: &str, expected: Option<Line<'_>>| assert_eq!(parse(line.as_bytes()), expected, "{line}");
        let flags = |opaque| Flags {
            opaque,
            ..Flags::default()
        };
        check("HD", Some(Line::Meta(Status::Done, flags(None))));
        check("HD O7", Some(Line::Meta(Status::Done, flags(Some(7)))));
        check("HD O7 t-1", Some(Line::Meta(Status::Done, flags(Some(7)))));
        check("HD O7 O7", None);
        check("HD Ox", None);
        check("HD O99999999999999999999", None);
        check("HDO7", None);
        check("VA x O7", None);
        check("VA", None);
        check("VA -1 O7", None);
        let all = Flags {
            opaque: Some(7),
            key: Some(b"a b".as_slice().into()),
            client_flags: 3,
            cas: Some(9),
            ttl_secs: Some(5),
            lease: Lease {
                won: true,
                taken: false,
                stale: true,
            },
        };
        check(
            "VA 2 f3 kYSBi c9 t5 O7 W X b",
            Some(Line::Meta(Status::Value(2), all)),
        );
        check("VA 2 k!!! O7 b", None);
        let value = |cas| {
            Some(Line::Value {
                key: b"k",
                flags: 1,
                len: 2,
                cas,
            })
        };
        check("VALUE k 1 2", value(None));
        check("VALUE k 1 2 ", value(None));
        check("VALUE k 1 2 3", value(Some(3)));
        check("VALUE k 1 2 3 4", None);
        check("VALUE k 1", None);
        check("VALUE  1 2", None);
        check("STORED x", None);
        check("END", Some(Line::End));
        check("12", Some(Line::Number(12)));
        check("12  ", Some(Line::Number(12)));
        check("12 a", None);
        check("", None);
        check("hello", None);
    }
}
