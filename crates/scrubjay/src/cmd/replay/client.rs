//! One blocking connection with requests in flight; replies come in order.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use scrubjay_workload::{Request, Verb};

use super::run::Tally;

/// A connection to the server under test.
pub(crate) struct Client {
    reader: BufReader<Box<dyn Read + Send>>,
    writer: Box<dyn Write + Send>,
    line: Vec<u8>,
    value: Vec<u8>,
    output: Vec<u8>,
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

/// Longest value that a server may announce.
const VALUE_LEN_MAX: usize = 1 << 30;

/// Digits of a number that is stored to be counted on.
const COUNTER_LEN_MAX: u32 = 18;

/// Longer lives than this are told to a server as a moment. Source: memcached doc/protocol.txt, "Expiration times".
const RELATIVE_MAX: u32 = 60 * 60 * 24 * 30;

fn exptime(ttl: u32) -> u64 {
    if ttl <= RELATIVE_MAX {
        return ttl.into();
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs() + u64::from(ttl))
}

impl Client {
    /// Connects to `HOST:PORT` or the path of a Unix socket.
    pub(crate) fn connect(server: &str) -> Result<Client, String> {
        let explain = |why: std::io::Error| format!("{server}: {why}; is a server listening there?");
        let (reader, writer): (Box<dyn Read + Send>, Box<dyn Write + Send>) = if server.contains('/') {
            let stream = UnixStream::connect(server).map_err(explain)?;
            (Box::new(stream.try_clone().map_err(explain)?), Box::new(stream))
        } else {
            let stream = TcpStream::connect(server).map_err(explain)?;
            stream.set_nodelay(true).map_err(explain)?;
            (Box::new(stream.try_clone().map_err(explain)?), Box::new(stream))
        };
        let reader = BufReader::with_capacity(64 << 10, reader);
        Ok(Client {
            reader,
            writer,
            line: Vec::new(),
            value: Vec::new(),
            output: Vec::new(),
        })
    }

    /// Sends one command line and returns its one-line reply.
    pub(crate) fn ask(&mut self, command: &str) -> Result<String, String> {
        self.output.extend_from_slice(command.as_bytes());
        self.output.extend_from_slice(b"\r\n");
        self.send()?;
        self.read_line()?;
        Ok(String::from_utf8_lossy(&self.line).into_owned())
    }

    /// Name and value of every general statistic.
    pub(crate) fn stats(&mut self) -> Result<Vec<(String, String)>, String> {
        let mut stats = Vec::new();
        let mut line = self.ask("stats")?;
        while line != "END" {
            let mut words = line.splitn(3, ' ').skip(1).map(str::to_owned);
            stats.extend(words.next().zip(words.next()));
            self.read_line()?;
            line = String::from_utf8_lossy(&self.line).into_owned();
        }
        Ok(stats)
    }

    /// Sends all of `batch`, reads all replies, and sets what was missed. Every key occurs once.
    pub(crate) fn replay(
        &mut self,
        batch: &[Request],
        ttl: u32,
        verify: bool,
        tally: &mut Tally,
    ) -> Result<(), String> {
        for request in batch {
            match request.verb {
                Verb::Get => self.put(&[b"get ", &request.key, b"\r\n"]),
                Verb::Delete => self.put(&[b"delete ", &request.key, b"\r\n"]),
                Verb::Arith(verb) => self.put(&[verb.as_bytes(), b" ", &request.key, b" 1\r\n"]),
                Verb::Store(verb) => self.put_store(verb, request, ttl, tally),
            }
        }
        let start = Instant::now();
        self.send()?;
        let mut missed = Vec::new();
        for request in batch {
            let outcome = self.read_reply(request, verify, tally)?;
            tally.note(request, outcome, start.elapsed());
            if matches!(outcome, Outcome::Miss | Outcome::NotANumber) {
                missed.push(request);
            }
        }
        for request in &missed {
            self.put_store("set", request, ttl, tally);
        }
        self.send()?;
        for request in &missed {
            self.read_line()?;
            tally.note_filled(request, self.line == b"STORED");
        }
        Ok(())
    }

    fn put(&mut self, parts: &[&[u8]]) {
        parts.iter().for_each(|part| self.output.extend_from_slice(part));
    }

    fn put_store(&mut self, verb: &str, request: &Request, ttl: u32, tally: &Tally) {
        let exptime = exptime(if request.ttl > 0 { request.ttl } else { ttl });
        let value_len = if tally.known(&request.key) == Some(Known::Counter) {
            request.value_len.clamp(1, COUNTER_LEN_MAX)
        } else {
            request.value_len
        };
        let numbers = format!(" 0 {exptime} {value_len}\r\n");
        self.put(&[verb.as_bytes(), b" ", &request.key, numbers.as_bytes()]);
        if tally.known(&request.key) == Some(Known::Counter) {
            self.output.resize(self.output.len() + value_len as usize, b'1');
        } else {
            append_value(&request.key, value_len, &mut self.output);
        }
        self.put(&[b"\r\n"]);
    }

    fn read_reply(&mut self, request: &Request, verify: bool, tally: &mut Tally) -> Result<Outcome, String> {
        self.read_line()?;
        if request.verb != Verb::Get {
            return Ok(match (request.verb, self.line.as_slice()) {
                (_, b"STORED") => Outcome::Stored,
                (Verb::Arith(_), [b'C', ..]) => Outcome::NotANumber,
                (_, [b'S' | b'C' | b'E', rest @ ..]) if rest.contains(&b'_') || rest == b"RROR" => {
                    Outcome::Refused
                }
                _ => Outcome::Done,
            });
        }
        if self.line == b"END" {
            return Ok(Outcome::Miss);
        }
        let words: Vec<&[u8]> = self.line.split(|&byte| byte == b' ').collect();
        let len = words
            .get(3)
            .and_then(|word| std::str::from_utf8(word).ok()?.parse::<usize>().ok());
        let (Some(len), true) = (len, words[0] == b"VALUE") else {
            return Err(format!(
                "unexpected reply {:?}",
                String::from_utf8_lossy(&self.line)
            ));
        };
        let right_key = words[1] == request.key;
        if len > VALUE_LEN_MAX {
            return Err(format!("the server announces a value of {len} bytes"));
        }
        self.value.resize(len + 2, 0);
        self.reader.read_exact(&mut self.value).map_err(lost)?;
        self.value.truncate(len);
        self.read_line()?;
        let right_value = match tally.known(&request.key) {
            Some(Known::Stored(stored)) => len == stored as usize && is_value(&request.key, &self.value),
            Some(Known::Counter | Known::Joined) => true,
            None => is_value(&request.key, &self.value),
        };
        if verify && !(right_key && right_value) {
            tally.wrong += 1;
        }
        Ok(Outcome::Hit)
    }

    fn send(&mut self) -> Result<(), String> {
        self.writer.write_all(&self.output).map_err(lost)?;
        self.output.clear();
        Ok(())
    }

    fn read_line(&mut self) -> Result<(), String> {
        self.line.clear();
        let len = self.reader.read_until(b'\n', &mut self.line).map_err(lost)?;
        if len == 0 {
            return Err("the server closed the connection".to_owned());
        }
        while matches!(self.line.last(), Some(b'\n' | b'\r')) {
            self.line.pop();
        }
        Ok(())
    }
}

fn lost(why: std::io::Error) -> String {
    format!("the connection was lost: {why}")
}

/// The value that belongs to a key: whatever its length, a wrong, shifted or mixed one is noticed.
fn append_value(key: &[u8], len: u32, out: &mut Vec<u8>) {
    let seed = seed_of(key);
    let end = out.len() + len as usize;
    let mut at = 0u64;
    while out.len() + 8 <= end {
        out.extend_from_slice(&(seed ^ at).to_le_bytes());
        at += 1;
    }
    let rest = end - out.len();
    out.extend_from_slice(&(seed ^ at).to_le_bytes()[..rest]);
}

/// Whether `value` is the start of `key`'s bytes; its length is checked by what was stored.
fn is_value(key: &[u8], value: &[u8]) -> bool {
    let seed = seed_of(key);
    value
        .chunks(8)
        .enumerate()
        .all(|(at, chunk)| chunk == &(seed ^ at as u64).to_le_bytes()[..chunk.len()])
}

fn seed_of(key: &[u8]) -> u64 {
    key.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::{append_value, is_value};

    #[test]
    fn a_value_of_another_key_or_with_a_changed_byte_is_noticed() {
        for len in [8, 9, 15, 16, 1000] {
            let mut value = Vec::new();
            append_value(b"one", len, &mut value);
            assert_eq!(value.len(), len as usize);
            assert!(is_value(b"one", &value));
            assert!(!is_value(b"two", &value));
            value[len as usize / 2] ^= 1;
            assert!(!is_value(b"one", &value));
        }
        assert!(is_value(b"any", b""));
    }
}
