//! The client's side of the protocols, without input and output: requests are appended to bytes that somebody sends, replies
//! are taken from bytes that somebody received. Where the input is cut makes no difference.
//!
//! What was asked waits in a queue, a row a key. Several keys asked for together, or stores that are not answered one by one,
//! are a group: its rows are answered by one closing reply, whatever came for some of them before.

mod binary;
mod meta;
mod text;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::item::{Items, write_digits};

/// Protocols that can be spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// The classic text protocol.
    Text,
    /// Meta commands.
    Meta,
    /// The binary protocol.
    Binary,
}

/// What is asked of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Its value.
    Get,
    /// To store its value.
    Set,
    /// To delete it.
    Delete,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// The value came, of so many bytes, and is right or was not looked at.
    Hit(usize),
    /// A value came that is not the key's.
    Wrong,
    /// There is none: of a get or a delete.
    Miss,
    /// Stored or deleted.
    Done,
    /// The server did not store and gives no reason.
    NotStored,
    /// An error, in the server's words.
    Refused(&'a str),
}

/// One key of a request that waits for its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// What is asked.
    pub verb: Verb,
    /// Of which key.
    pub key: u64,
    /// When it was to be sent, in the caller's nanoseconds.
    pub at: u64,
    /// Its place among all that was ever asked; the binary protocol's opaque.
    number: u32,
    /// The usual outcome is not told: it follows from the reply that closes the group.
    quiet: bool,
    /// The last of a group.
    closes: bool,
    /// It had its reply, and only the closing one is missing.
    answered: bool,
}

impl Waiting {
    /// Whether it is the last row of its request.
    fn ends_unit(&self) -> bool {
        self.closes || !self.quiet
    }
}

/// What is the same for all connections of a load.
#[derive(Clone, Debug)]
pub struct Terms {
    /// What is spoken.
    pub protocol: Protocol,
    /// What the keys and values are.
    pub items: Items,
    /// Whether values are compared with what they must be.
    pub verify: bool,
}

/// The requests in flight on one connection, and what their replies mean.
#[derive(Debug)]
pub struct Exchange {
    terms: Arc<Terms>,
    waiting: VecDeque<Waiting>,
    /// Requests in flight, a group being one.
    units: usize,
    /// Number of the row that comes next.
    next: u32,
    /// Room to render a key in.
    key: Vec<u8>,
}

impl Exchange {
    /// Nothing is in flight.
    pub fn new(terms: Arc<Terms>) -> Exchange {
        Exchange {
            terms,
            waiting: VecDeque::new(),
            units: 0,
            next: 0,
            key: Vec::new(),
        }
    }

    /// Requests in flight; those that go together count once.
    pub fn units(&self) -> usize {
        self.units
    }

    /// What waits, the oldest first.
    pub fn waiting(&self) -> impl Iterator<Item = &Waiting> {
        self.waiting.iter()
    }

    /// Forgets the oldest request in flight, whose reply will not come, and returns how many keys that were.
    pub fn forget_first(&mut self) -> usize {
        let Some(end) = self.ends().next() else {
            return 0;
        };
        self.waiting.drain(..end);
        self.units -= 1;
        end
    }

    /// Where each request in flight ends among the rows.
    fn ends(&self) -> impl Iterator<Item = usize> {
        let rows = self.waiting.iter().enumerate();
        rows.filter(|(_, row)| row.ends_unit())
            .map(|(index, _)| index + 1)
    }

    /// Asks for the values of `keys`, one at least, together.
    pub fn get(&mut self, keys: &[u64], at: u64, out: &mut Vec<u8>) {
        let opaque = self.next;
        match self.terms.protocol {
            Protocol::Text => text::append_get(&self.terms, keys, out),
            Protocol::Meta => meta::append_get(&self.terms, keys, out),
            Protocol::Binary => binary::append_get(&self.terms, keys, opaque, &mut self.key, out),
        }
        // The text protocol ends every reply with a line of its own.
        let is_group = keys.len() > 1 || self.terms.protocol == Protocol::Text;
        for (index, key) in keys.iter().enumerate() {
            let closes = is_group && index + 1 == keys.len();
            self.wait_for(Verb::Get, *key, at, is_group, closes);
        }
    }

    /// Stores the value of `key` in that version.
    pub fn set(&mut self, key: u64, version: u32, at: u64, out: &mut Vec<u8>) {
        self.append_set(key, version, false, out);
        self.wait_for(Verb::Set, key, at, false, false);
    }

    /// Deletes `key`.
    pub fn delete(&mut self, key: u64, at: u64, out: &mut Vec<u8>) {
        let opaque = self.next;
        match self.terms.protocol {
            Protocol::Text => text::append_delete(&self.terms, key, out),
            Protocol::Meta => meta::append_delete(&self.terms, key, out),
            Protocol::Binary => binary::append_delete(&self.terms, key, opaque, &mut self.key, out),
        }
        self.wait_for(Verb::Delete, key, at, false, false);
    }

    /// Stores the value of each of `keys` in that version without an answer to each: one question behind them all tells when
    /// they are done.
    pub fn set_quietly(&mut self, keys: &[u64], version: u32, at: u64, out: &mut Vec<u8>) {
        for (index, key) in keys.iter().enumerate() {
            self.append_set(*key, version, true, out);
            self.wait_for(Verb::Set, *key, at, true, index + 1 == keys.len());
        }
        match self.terms.protocol {
            Protocol::Text => text::append_close(out),
            Protocol::Meta => meta::append_close(out),
            Protocol::Binary => binary::append_close(self.next.wrapping_sub(1), out),
        }
    }

    fn append_set(&mut self, key: u64, version: u32, quiet: bool, out: &mut Vec<u8>) {
        let opaque = self.next;
        match self.terms.protocol {
            Protocol::Text => text::append_set(&self.terms, key, version, quiet, out),
            Protocol::Meta => meta::append_set(&self.terms, key, version, quiet, out),
            Protocol::Binary => {
                binary::append_set(&self.terms, key, version, (quiet, opaque), &mut self.key, out)
            }
        }
    }

    fn wait_for(&mut self, verb: Verb, key: u64, at: u64, quiet: bool, closes: bool) {
        let row = Waiting {
            verb,
            key,
            at,
            number: self.next,
            quiet,
            closes,
            answered: false,
        };
        self.units += usize::from(row.ends_unit());
        self.next = self.next.wrapping_add(1);
        self.waiting.push_back(row);
    }

    /// Takes as many replies as there are whole ones, calls `note` with each request and what became of it, and returns the
    /// bytes used.
    ///
    /// # Errors
    /// A reply that nothing was asked for, or none of the protocol's.
    pub fn take(
        &mut self,
        input: &[u8],
        mut note: impl FnMut(&Waiting, Outcome<'_>),
    ) -> Result<usize, String> {
        let mut used = 0;
        while used < input.len() {
            let taken = match self.terms.protocol {
                Protocol::Text => self.take_text(&input[used..], &mut note)?,
                Protocol::Meta => self.take_meta(&input[used..], &mut note)?,
                Protocol::Binary => self.take_binary(&input[used..], &mut note)?,
            };
            if taken == 0 {
                break;
            }
            used += taken;
        }
        Ok(used)
    }

    /// Takes a message of the reply to one request in flight, whichever: the oldest is at `place` 0. It is the oldest from then
    /// on, or was answered, of which it returns whether that is so: memcached sends each value of several as a message.
    ///
    /// # Errors
    /// As of [`take`](Exchange::take), or something in it is not whole or of another request.
    ///
    /// # Panics
    /// If there is no such request.
    pub fn take_one(
        &mut self,
        place: usize,
        reply: &[u8],
        note: impl FnMut(&Waiting, Outcome<'_>),
    ) -> Result<bool, String> {
        assert!(place < self.units, "the caller knows what is in flight");
        if place > 0 {
            let mut ends = self.ends().skip(place - 1);
            let start = ends.next().unwrap_or_default();
            let end = ends.next().unwrap_or(start);
            drop(ends);
            self.waiting.make_contiguous()[..end].rotate_right(end - start);
        }
        let before = self.units;
        let is_whole = self.take(reply, note)? == reply.len();
        match before - self.units {
            answered @ (0 | 1) if is_whole => Ok(answered == 1),
            _ => Err(unexpected(reply)),
        }
    }

    fn front(&self) -> Result<Waiting, String> {
        let front = self.waiting.front().copied();
        front.ok_or_else(|| "the server sent a reply that nothing was asked for".to_owned())
    }

    fn pop(&mut self, front: &Waiting) {
        self.units -= usize::from(front.ends_unit());
        self.waiting.pop_front();
    }

    /// The front row has had its own reply; if it closes a group, the closing reply is still to come.
    fn answer(
        &mut self,
        outcome: Outcome<'_>,
        note: &mut impl FnMut(&Waiting, Outcome<'_>),
    ) -> Result<(), String> {
        let front = self.front()?;
        if front.answered {
            return Err("the server answered one request twice".to_owned());
        }
        note(&front, outcome);
        if front.closes {
            self.waiting[0].answered = true;
        } else {
            self.pop(&front);
        }
        Ok(())
    }

    /// The front row had no reply of its own.
    fn pass(&mut self, front: &Waiting, note: &mut impl FnMut(&Waiting, Outcome<'_>)) {
        if !front.answered {
            let outcome = match front.verb {
                Verb::Get => Outcome::Miss,
                Verb::Set | Verb::Delete => Outcome::Done,
            };
            note(front, outcome);
        }
        self.pop(front);
    }

    /// The reply that closes a group has come.
    fn close(&mut self, note: &mut impl FnMut(&Waiting, Outcome<'_>)) -> Result<(), String> {
        loop {
            let front = self.front()?;
            if !front.quiet {
                return Err("the server closed a reply that has not come".to_owned());
            }
            self.pass(&front, note);
            if front.closes {
                return Ok(());
            }
        }
    }

    /// A value came. In a group its key tells which row it is of; those before it are misses.
    fn hit(
        &mut self,
        key: Option<&[u8]>,
        version: u32,
        value: &[u8],
        note: &mut impl FnMut(&Waiting, Outcome<'_>),
    ) -> Result<(), String> {
        loop {
            let front = self.front()?;
            if front.verb != Verb::Get {
                return Err("the server sent a value where none was asked for".to_owned());
            }
            let is_its_own = self.is_key(front.key, key, front.closes);
            if !is_its_own && front.quiet && !front.closes {
                self.pass(&front, note);
                continue;
            }
            let terms = &self.terms;
            let is_right = is_its_own && (!terms.verify || terms.items.is_value(front.key, version, value));
            let outcome = if is_right {
                Outcome::Hit(value.len())
            } else {
                Outcome::Wrong
            };
            return self.answer(outcome, note);
        }
    }

    /// Whether `found` is the key of that number; not looked at where only one is possible and nothing is verified.
    fn is_key(&mut self, key: u64, found: Option<&[u8]>, is_last: bool) -> bool {
        let Some(found) = found.filter(|_| self.terms.verify || !is_last) else {
            return true;
        };
        self.key.clear();
        self.terms.items.append_key(key, &mut self.key);
        self.key == found
    }
}

/// The line at the beginning of `input` without its end, and its length with it.
fn line(input: &[u8]) -> Option<(&[u8], usize)> {
    let end = memchr::memchr(b'\n', input)?;
    let line = &input[..end];
    Some((line.strip_suffix(b"\r").unwrap_or(line), end + 1))
}

/// The number that `digits` are.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 19 {
        return None;
    }
    digits.iter().try_fold(0u64, |number, digit| {
        digit
            .is_ascii_digit()
            .then(|| number * 10 + u64::from(digit - b'0'))
    })
}

fn append_number(number: u32, out: &mut Vec<u8>) {
    let mut digits = [b'0'; 20];
    let first = write_digits(number.into(), &mut digits);
    out.extend_from_slice(&digits[first..]);
}

/// Says that `reply` is none of the protocol's, with its beginning.
fn unexpected(reply: &[u8]) -> String {
    const SHOWN: usize = 80;
    let shown = String::from_utf8_lossy(&reply[..reply.len().min(SHOWN)]);
    format!("unexpected reply {shown:?}; is it a server of this protocol?")
}

#[cfg(test)]
mod tests;
