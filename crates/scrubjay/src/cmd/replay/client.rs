//! One blocking connection with requests in flight; replies come in order.

use std::time::Instant;

use scrubjay_workload::{Request, Verb};

use super::run::{Lives, Tally};
use crate::cmd::connection::{Connection, exptime};
use crate::cmd::value::{append_value, is_value};

/// A connection to the server under test.
pub(crate) struct Client {
    connection: Connection,
}

/// What happened to one request of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Hit,
    Miss,
    Stored,
    /// Counted on a value that is no number: it is set to one.
    NotANumber,
    Done,
    Refused,
}

/// What a key's value must be, from what this replay has stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// Its own bytes, so many.
    Stored(u32),
    /// A number.
    Counter,
    /// Something was put before or behind it.
    Joined,
}

/// Digits of a number that is stored to be counted on.
const COUNTER_LEN_MAX: u32 = 18;

impl Client {
    /// Connects to `HOST:PORT` or the path of a Unix socket.
    pub(crate) fn connect(server: &str) -> Result<Client, String> {
        Connection::connect(server).map(|connection| Client { connection })
    }

    /// Sends all of `batch`, reads all replies, and sets what was missed. Every key occurs once.
    pub(crate) fn replay(
        &mut self,
        batch: &[Request],
        lives: &Lives,
        verify: bool,
        tally: &mut Tally,
    ) -> Result<(), String> {
        for request in batch {
            match request.verb {
                Verb::Get => self.connection.put(&[b"get ", &request.key, b"\r\n"]),
                Verb::Delete => self.connection.put(&[b"delete ", &request.key, b"\r\n"]),
                Verb::Arith(verb) => self
                    .connection
                    .put(&[verb.as_bytes(), b" ", &request.key, b" 1\r\n"]),
                Verb::Store(verb) => self.put_store(verb, request, lives, tally),
            }
        }
        let start = Instant::now();
        self.connection.send()?;
        let mut missed = Vec::new();
        for request in batch {
            let outcome = self.read_reply(request, verify, tally)?;
            tally.note(request, outcome, lives, start.elapsed());
            if matches!(outcome, Outcome::Miss | Outcome::NotANumber) {
                missed.push(request);
            }
        }
        for request in &missed {
            self.put_store("set", request, lives, tally);
        }
        self.connection.send()?;
        for request in &missed {
            let stored = self.connection.read_line()? == b"STORED";
            tally.note_filled(request, lives, stored);
        }
        Ok(())
    }

    fn put_store(&mut self, verb: &str, request: &Request, lives: &Lives, tally: &Tally) {
        let exptime = exptime(lives.of(request));
        let value_len = if tally.known(&request.key) == Some(Known::Counter) {
            request.value_len.clamp(1, COUNTER_LEN_MAX)
        } else {
            request.value_len
        };
        let numbers = format!(" 0 {exptime} {value_len}\r\n");
        self.connection
            .put(&[verb.as_bytes(), b" ", &request.key, numbers.as_bytes()]);
        if tally.known(&request.key) == Some(Known::Counter) {
            let output = self.connection.output();
            output.resize(output.len() + value_len as usize, b'1');
        } else {
            append_value(&request.key, value_len, self.connection.output());
        }
        self.connection.put(&[b"\r\n"]);
    }

    fn read_reply(&mut self, request: &Request, verify: bool, tally: &mut Tally) -> Result<Outcome, String> {
        if request.verb != Verb::Get {
            return Ok(match (request.verb, self.connection.read_line()?) {
                (_, b"STORED") => Outcome::Stored,
                (Verb::Arith(_), [b'C', ..]) => Outcome::NotANumber,
                (_, [b'S' | b'C' | b'E', rest @ ..]) if rest.contains(&b'_') || rest == b"RROR" => {
                    Outcome::Refused
                }
                _ => Outcome::Done,
            });
        }
        let Some((key, value)) = self.connection.read_value()? else {
            return Ok(Outcome::Miss);
        };
        let right_value = match tally.known(&request.key) {
            Some(Known::Stored(len)) => value.len() == len as usize && is_value(&request.key, value),
            Some(Known::Counter | Known::Joined) => true,
            None => is_value(&request.key, value),
        };
        if verify && !(key == request.key && right_value) {
            tally.wrong += 1;
        }
        self.connection.read_line()?;
        Ok(Outcome::Hit)
    }
}
