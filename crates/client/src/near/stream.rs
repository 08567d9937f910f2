//! One server's stream of invalidations, without its socket: bytes and moments in; keys, flushes and "everything is known up
//! to here" out.
//!
//! The reader sends a number four times a second, and the server's beats bear the last one. A beat with the number that was
//! sent at some moment proves that everything answered before that moment has been told: moments of one clock are compared, ours.
//! When the last such moment is more than [`KNOWN_FOR`] ago the stream is of no use, and is to be given up. Lines: docs/watch.md.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use scrubjay_base::time::Now;

use crate::config::Login;

/// How long what is known at a moment is believed: copies are at most so much older than they may be.
pub const KNOWN_FOR_NANOS: u64 = 1_000_000_000;

/// How often a number is sent.
const PING_NANOS: u64 = 250_000_000;

/// Longest line: a beat of some thousands of workers.
const LINE_LEN_MAX: usize = 64 << 10;

/// What a stream tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A copy of this key is wrong.
    Changed(&'a [u8]),
    /// Any copy may be wrong.
    Flush(Why),
    /// All that was answered before this moment has been told.
    Known(Now),
}

/// Why any copy may be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Everything was flushed at the server.
    Flushed,
    /// Numbers are missing.
    Gap,
    /// The server says that lines are missing.
    Skipped,
}

/// Why a stream is of no use any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The server has no such stream.
    NoStream,
    /// The server does not let us watch, in its words.
    Refused(String),
    /// As many watch as may; places become free.
    Full,
    /// A line is none of the stream.
    Unreadable(String),
    /// Nothing new was known for too long.
    Silent,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lost::NoStream => f.write_str("the server knows no `watch invalidations`"),
            Lost::Refused(words) => write!(f, "the server refuses `watch invalidations`: {words}"),
            Lost::Full => f.write_str("the server has no place for one more watcher"),
            Lost::Unreadable(line) => write!(
                f,
                "the server sent what is no line of `watch invalidations`: {line}"
            ),
            Lost::Silent => f.write_str("the server was silent for too long"),
        }
    }
}

/// What the server is to say next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// That the login is good.
    Login,
    /// That we watch.
    Welcome,
    /// Lines of the stream; whether a beat has come.
    Lines { has_beaten: bool },
}

/// The stream of one connection. After an error it is over.
#[derive(Debug)]
pub struct Stream {
    step: Step,
    /// The beginning of a line.
    incoming: Vec<u8>,
    /// The last number of each worker.
    seen: BTreeMap<u32, u64>,
    /// Numbers that were sent and not echoed, with when; the last one that was.
    pings: VecDeque<(u64, Now)>,
    echoed: u64,
    pinged: u64,
    next_ping: Now,
    known: Now,
}

impl Stream {
    /// The stream of a connection that is made now, and what to send first.
    pub fn begin(login: Option<&Login>, now: Now) -> (Stream, Vec<u8>) {
        let mut request = Vec::new();
        if let Some(Login { user, password }) = login {
            let words = format!("{user} {password}");
            request.extend_from_slice(format!("set auth 0 0 {}\r\n{words}\r\n", words.len()).as_bytes());
        }
        request.extend_from_slice(b"watch invalidations\r\n");
        let stream = Stream {
            step: if login.is_some() {
                Step::Login
            } else {
                Step::Welcome
            },
            incoming: Vec::new(),
            seen: BTreeMap::new(),
            pings: VecDeque::new(),
            echoed: 0,
            pinged: 0,
            next_ping: now,
            known: now,
        };
        (stream, request)
    }

    /// The number to send now, if it is time: with its line end.
    ///
    /// # Errors
    /// [`Lost::Silent`]
    pub fn ping(&mut self, now: Now) -> Result<Option<Vec<u8>>, Lost> {
        if now.nanos_since(self.known) > KNOWN_FOR_NANOS {
            return Err(Lost::Silent);
        }
        if !matches!(self.step, Step::Lines { .. }) || now < self.next_ping {
            return Ok(None);
        }
        self.pinged += 1;
        self.pings.push_back((self.pinged, now));
        self.next_ping = now.plus_nanos(PING_NANOS);
        Ok(Some(format!("{}\n", self.pinged).into_bytes()))
    }

    /// When [`Stream::ping`] is to be called at the latest.
    pub fn due(&self) -> Now {
        let end = self.known.plus_nanos(KNOWN_FOR_NANOS + 1);
        match self.step {
            Step::Lines { .. } => end.min(self.next_ping),
            Step::Login | Step::Welcome => end,
        }
    }

    /// Takes what was received; `each` gets what it tells, in order.
    ///
    /// # Errors
    /// [`Lost`]; what was told before it stays told.
    pub fn feed(&mut self, mut bytes: &[u8], each: &mut dyn FnMut(Event<'_>)) -> Result<(), Lost> {
        while let Some(at) = memchr::memchr(b'\n', bytes) {
            let (line, rest) = bytes.split_at(at + 1);
            bytes = rest;
            if self.incoming.is_empty() {
                self.take(&line[..at], each)?;
            } else {
                let mut whole = std::mem::take(&mut self.incoming);
                whole.extend_from_slice(&line[..at]);
                self.take(&whole, each)?;
            }
        }
        if self.incoming.len() + bytes.len() > LINE_LEN_MAX {
            return Err(unreadable(bytes));
        }
        self.incoming.extend_from_slice(bytes);
        Ok(())
    }

    fn take(&mut self, line: &[u8], each: &mut dyn FnMut(Event<'_>)) -> Result<(), Lost> {
        if line.len() > LINE_LEN_MAX {
            return Err(unreadable(line));
        }
        match (self.step, line) {
            (Step::Login, b"STORED\r") => self.step = Step::Welcome,
            (Step::Welcome, b"OK\r") => self.step = Step::Lines { has_beaten: false },
            (Step::Welcome, b"ERROR\r") => return Err(Lost::NoStream),
            (Step::Welcome, words) if words.starts_with(b"WATCHER_TOO_MANY") => return Err(Lost::Full),
            (Step::Login | Step::Welcome, words) => {
                return Err(Lost::Refused(words.trim_ascii_end().escape_ascii().to_string()));
            }
            (Step::Lines { .. }, line) => {
                return self
                    .take_line(line, each)
                    .unwrap_or_else(|| Err(unreadable(line)));
            }
        }
        Ok(())
    }

    /// `None` if it is no line.
    fn take_line(&mut self, line: &[u8], each: &mut dyn FnMut(Event<'_>)) -> Option<Result<(), Lost>> {
        let (name, rest) = line.split_at(memchr::memchr(b'=', line)? + 1);
        match name {
            b"at=" => {
                let (place, key) = rest.split_at(memchr::memchr(b' ', rest)?);
                let key = unescape(key.strip_prefix(b" key=")?)?;
                let (worker, number) = parse_place(place)?;
                if self.count(worker, number)? {
                    each(Event::Flush(Why::Gap));
                }
                each(Event::Changed(&key));
            }
            b"beat=" => {
                let (echo, places) = rest.split_at(memchr::memchr(b' ', rest)?);
                self.take_beat(number(echo)?, places.strip_prefix(b" at=")?, each)?;
            }
            b"all=" => {
                number(rest)?;
                each(Event::Flush(Why::Flushed));
            }
            b"skipped=" => {
                number(rest)?;
                each(Event::Flush(Why::Skipped));
            }
            _ => return None,
        }
        Some(Ok(()))
    }

    /// A worker has told its `number`-th change: whether some before it are missing. `None` if it was told before.
    fn count(&mut self, worker: u32, number: u64) -> Option<bool> {
        let has_beaten = self.step == Step::Lines { has_beaten: true };
        // Whoever is not in a beat had told nothing; before the first beat nobody knows.
        let before = self.seen.get(&worker).copied().or(has_beaten.then_some(0));
        let missing = match before {
            None => false,
            Some(before) if number <= before => return None,
            Some(before) => number - before > 1,
        };
        self.seen.insert(worker, number);
        Some(missing)
    }

    fn take_beat(&mut self, echo: u64, places: &[u8], each: &mut dyn FnMut(Event<'_>)) -> Option<()> {
        if echo < self.echoed || echo > self.pinged {
            return None;
        }
        let mut has_gap = false;
        for place in places
            .split(|byte| *byte == b',')
            .filter(|place| !place.is_empty())
        {
            let (worker, number) = parse_place(place)?;
            let seen = self.seen.entry(worker).or_insert(match self.step {
                Step::Lines { has_beaten: true } => 0,
                _ => number,
            });
            has_gap |= *seen < number;
            *seen = number.max(*seen);
        }
        if has_gap {
            each(Event::Flush(Why::Gap));
        }
        self.step = Step::Lines { has_beaten: true };
        self.echoed = echo;
        while let Some((number, sent)) = self.pings.front().copied().filter(|(number, _)| *number <= echo) {
            self.pings.pop_front();
            if number == echo {
                self.known = sent;
                each(Event::Known(sent));
            }
        }
        Some(())
    }
}

fn unreadable(line: &[u8]) -> Lost {
    const SHOWN_MAX: usize = 100;
    Lost::Unreadable(line[..line.len().min(SHOWN_MAX)].escape_ascii().to_string())
}

/// `WORKER:NUMBER`
fn parse_place(place: &[u8]) -> Option<(u32, u64)> {
    let (worker, rest) = place.split_at(memchr::memchr(b':', place)?);
    Some((number(worker)?.try_into().ok()?, number(&rest[1..])?))
}

/// Digits and nothing else.
fn number(text: &[u8]) -> Option<u64> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    is_number.then(|| std::str::from_utf8(text).ok()?.parse().ok())?
}

/// A key with `%` and two hexadecimal digits for some of its bytes.
fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut key = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            key.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        key.push((digit(digits[0])? << 4 | digit(digits[1])?) as u8);
        rest = after;
    }
    (!key.is_empty()).then_some(key)
}

#[cfg(test)]
mod tests;
