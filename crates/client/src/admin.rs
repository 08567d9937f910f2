//! Keys and statistics of one server, over a connection of its own: such answers are long, have no key, and would hold up whoever
//! shares a connection with them.
//!
//! It asks what any server of memcached's text protocol understands. Lines and keys are read one at a time, so that a list of all
//! keys takes the memory of one.

use std::fmt;
use std::io::{BufRead, BufReader, Error, ErrorKind, Read};
use std::thread;
use std::time::{Duration, Instant};

use crate::config::{Config, Login};
use crate::connection::Patience;
use crate::connection::stream::{Stream, Wire};
use crate::placement::Server;
use crate::protocol::Output;

/// No line of such an answer is longer.
const LINE_LEN_MAX: usize = 8 * 1024;

/// How often a server that is busy with another list is asked again, and how long after.
const BUSY_TRIES_MAX: u32 = 50;
const BUSY_PAUSE: Duration = Duration::from_millis(100);

/// A connection for questions about one server.
pub struct Admin {
    name: String,
    stream: BufReader<Waiting>,
    line: Vec<u8>,
}

/// A socket on which the server's next bytes are waited for, but not for ever.
#[derive(Debug)]
struct Waiting {
    stream: Stream,
    wait: Duration,
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Admin({})", self.name)
    }
}

/// A key, and what the server says about its item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFacts {
    /// The key as the server has it, with the client's prefix.
    pub key: Vec<u8>,
    /// When it expires, in seconds since 1970; `None`: never.
    pub expires_at: Option<u64>,
    /// When it was last asked for or stored, in seconds since 1970.
    pub accessed_at: u64,
    /// Its CAS number.
    pub cas: u64,
    /// Whether it was asked for since it was stored.
    pub fetched: bool,
    /// Its slab class, or what the server says in its place.
    pub class: u32,
    /// Bytes that it takes.
    pub size: u64,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminError {
    /// No connection, or it failed.
    Connection {
        /// Which server.
        server: String,
        /// What happened.
        kind: ErrorKind,
        /// Why, in words.
        reason: String,
    },
    /// The server did not do it; what it said.
    Refused {
        /// Which server.
        server: String,
        /// What it said.
        words: String,
    },
    /// A line that is no part of such an answer.
    Unreadable {
        /// Which server.
        server: String,
        /// The line.
        line: String,
    },
}

impl fmt::Display for AdminError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AdminError::Connection { server, reason, .. } => {
                write!(
                    f,
                    "{server}: {reason}; check that the server runs and can be reached"
                )
            }
            AdminError::Refused { server, words } => {
                let advice = match words.as_str() {
                    "ERROR metadump not allowed" => "it was started with -X",
                    "CLIENT_ERROR lru crawler disabled" => "send it `lru_crawler enable` first",
                    busy if busy.starts_with("BUSY") => {
                        "another list is being made; try again when it is done"
                    }
                    _ => "see what the server's version can do",
                };
                write!(f, "{server} answered {words:?}; {advice}")
            }
            AdminError::Unreadable { server, line } => write!(
                f,
                "{server} sent what is no part of the answer: {line:?}; is it a server of memcached's text protocol?"
            ),
        }
    }
}

impl std::error::Error for AdminError {}

impl Admin {
    /// Connects to one server of the configuration, whose time-outs and login hold here too: each wait for the
    /// server's next bytes may take the time-out of a call.
    ///
    /// # Errors
    /// No connection, or the login was refused.
    pub fn connect(server: &Server, config: &Config) -> Result<Admin, AdminError> {
        let name = match server.port {
            0 => server.host.clone(),
            port => format!("{}:{port}", server.host),
        };
        let config = &config.of_server(server);
        let stream = open(server, config).map_err(|error| AdminError::Connection {
            server: name.clone(),
            kind: error.kind(),
            reason: error.to_string(),
        })?;
        let mut admin = Admin {
            name,
            stream: BufReader::new(stream),
            line: Vec::new(),
        };
        if let Some(login) = &config.login {
            admin.login(login)?;
        }
        Ok(admin)
    }

    // The first line must be a `set` of user and password, with any key.
    fn login(&mut self, login: &Login) -> Result<(), AdminError> {
        let secret = format!("{} {}", login.user, login.password);
        self.send(&format!("set login 0 0 {}\r\n{secret}", secret.len()))?;
        match self.read()? {
            b"STORED" => Ok(()),
            _ => Err(self.refused()),
        }
    }

    /// The server's version.
    ///
    /// # Errors
    /// The connection failed, or the answer was none.
    pub fn version(&mut self) -> Result<String, AdminError> {
        self.send("version")?;
        match self.read()?.strip_prefix(b"VERSION ") {
            Some(version) => Ok(String::from_utf8_lossy(version).into_owned()),
            None => Err(self.refused()),
        }
    }

    /// A table of statistics in the server's order: the general one, or the one that `argument` names, such as `items`.
    ///
    /// # Errors
    /// The connection failed, or there is no such table, or the argument is more than a line.
    pub fn stats(&mut self, argument: &str) -> Result<Vec<(String, String)>, AdminError> {
        if argument.bytes().any(|byte| byte.is_ascii_control()) {
            return Err(AdminError::Refused {
                server: self.name.clone(),
                words: format!("{argument:?} (not asked: an argument has no control characters)"),
            });
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.send(format!("stats {argument}").trim_end())?;
        let mut rows = Vec::new();
        loop {
            let line = self.read()?;
            if matches!(line, b"END" | b"RESET" | b"OK") {
                return Ok(rows);
            }
            let Some(row) = line.strip_prefix(b"STAT ") else {
                return Err(self.refused());
            };
            let space = row.iter().position(|byte| *byte == b' ').unwrap_or(row.len());
            let value = row.get(space + 1..).unwrap_or_default();
            rows.push((text(&row[..space]), text(value)));
        }
    }

    /// All keys of the server. What is stored, moved or removed meanwhile may be in the list or not.
    ///
    /// memcached makes one list at a time, and goes over its items by itself now and then: if it is busy, it is asked again for
    /// some seconds. Ends after an error. One who stops early has to connect anew.
    ///
    /// # Errors
    /// The connection failed, or the server does not list its keys.
    pub fn dump_keys(mut self) -> Result<Keys, AdminError> {
        for _ in 0..BUSY_TRIES_MAX {
            self.send("lru_crawler metadump all")?;
            match self.read()? {
                b"END" => return Ok(Keys::ENDED),
                busy if busy.starts_with(b"BUSY") => thread::sleep(BUSY_PAUSE),
                line if line.starts_with(b"key=") => {
                    let next = Some(self.facts());
                    return Ok(Keys {
                        admin: Some(self),
                        next,
                    });
                }
                _ => break,
            }
        }
        Err(self.refused())
    }

    /// What the server answers to any command, as it came: up to where `is_whole` says of everything so far that it is whole, or
    /// to the line of an error. Not more than `len_max` bytes and what one read brings.
    ///
    /// # Errors
    /// The connection failed, or the answer is longer. Connect anew then.
    pub fn command(
        &mut self,
        command: &[u8],
        len_max: usize,
        is_whole: impl Fn(&[u8]) -> bool,
    ) -> Result<Vec<u8>, AdminError> {
        self.send_bytes([command, b"\r\n"].concat())?;
        let mut answer = Vec::new();
        while !is_whole(&answer) && !is_error(&answer) {
            if answer.len() > len_max {
                let words = format!("an answer of more than {len_max} bytes; ask for less");
                return Err(self.failed(Error::new(ErrorKind::FileTooLarge, words)));
            }
            let came = self.stream.fill_buf().map(|bytes| {
                answer.extend_from_slice(bytes);
                bytes.len()
            });
            match came {
                Ok(0) => return Err(self.failed(ended())),
                Ok(len) => self.stream.consume(len),
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(answer)
    }

    /// What the last line says.
    fn facts(&self) -> Result<KeyFacts, AdminError> {
        parse_facts(self.line.trim_ascii_end()).ok_or_else(|| self.unreadable())
    }

    fn send(&mut self, line: &str) -> Result<(), AdminError> {
        self.send_bytes(format!("{line}\r\n").into_bytes())
    }

    fn send_bytes(&mut self, bytes: Vec<u8>) -> Result<(), AdminError> {
        let mut output = Output::from(bytes);
        while !output.is_empty() {
            // A few bytes, which a socket takes when everything before them was answered.
            let sent = self.stream.get_ref().stream.send(&output);
            output.advance(sent.map_err(|error| self.failed(error))?);
        }
        Ok(())
    }

    /// A line without its end.
    fn read(&mut self) -> Result<&[u8], AdminError> {
        self.line.clear();
        let mut bounded = (&mut self.stream).take(LINE_LEN_MAX as u64);
        match bounded.read_until(b'\n', &mut self.line) {
            Err(error) => Err(self.failed(error)),
            Ok(0) => Err(self.failed(ended())),
            Ok(_) => match self.line.strip_suffix(b"\n") {
                Some(line) => Ok(line.strip_suffix(b"\r").unwrap_or(line)),
                None => Err(self.unreadable()),
            },
        }
    }

    fn failed(&self, error: Error) -> AdminError {
        AdminError::Connection {
            server: self.name.clone(),
            kind: error.kind(),
            reason: error.to_string(),
        }
    }

    fn refused(&self) -> AdminError {
        AdminError::Refused {
            server: self.name.clone(),
            words: self.shown(),
        }
    }

    fn unreadable(&self) -> AdminError {
        AdminError::Unreadable {
            server: self.name.clone(),
            line: self.shown(),
        }
    }

    fn shown(&self) -> String {
        const SHOWN_MAX: usize = 200;
        let line = self.line.trim_ascii_end();
        String::from_utf8_lossy(&line[..line.len().min(SHOWN_MAX)]).into_owned()
    }
}

fn ended() -> Error {
    Error::new(ErrorKind::UnexpectedEof, "it ended the connection")
}

/// Whether a server refuses what it was asked.
fn is_error(answer: &[u8]) -> bool {
    let starts = [b"ERROR".as_slice(), b"CLIENT_ERROR", b"SERVER_ERROR"];
    answer.ends_with(b"\r\n") && starts.iter().any(|start| answer.starts_with(start))
}

fn open(server: &Server, config: &Config) -> std::io::Result<Waiting> {
    let patience = Patience::new(Instant::now(), config.connect_timeout);
    Ok(Waiting {
        stream: Stream::connect(server, &patience, config)?,
        wait: config.read_timeout.unwrap_or(config.timeout),
    })
}

impl Read for Waiting {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let patience = Patience::new(Instant::now(), self.wait);
        loop {
            match self.stream.receive(buffer, &patience) {
                Err(error) if error.kind() == ErrorKind::WouldBlock && !patience.is_over() => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let words = format!("nothing came in {} ms", self.wait.as_millis());
                    return Err(Error::new(ErrorKind::TimedOut, words));
                }
                read => return read,
            }
        }
    }
}

/// The keys of a server, one after the other.
#[derive(Debug)]
pub struct Keys {
    /// Until the list ends.
    admin: Option<Admin>,
    next: Option<Result<KeyFacts, AdminError>>,
}

impl Keys {
    const ENDED: Keys = Keys {
        admin: None,
        next: None,
    };
}

impl Iterator for Keys {
    type Item = Result<KeyFacts, AdminError>;

    fn next(&mut self) -> Option<Self::Item> {
        let this = self.next.take()?;
        match (&this, &mut self.admin) {
            (Ok(_), Some(admin)) => {
                self.next = match admin.read() {
                    Ok(b"END") => None,
                    Ok(_) => Some(admin.facts()),
                    Err(error) => Some(Err(error)),
                };
            }
            _ => *self = Keys::ENDED,
        }
        Some(this)
    }
}

/// `key=KEY exp=-1 la=1 cas=1 fetch=no cls=1 size=1`, and whatever else later servers may add.
fn parse_facts(line: &[u8]) -> Option<KeyFacts> {
    let mut facts = KeyFacts {
        key: Vec::new(),
        expires_at: None,
        accessed_at: 0,
        cas: 0,
        fetched: false,
        class: 0,
        size: 0,
    };
    let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<u64>().ok();
    for word in line.trim_ascii_end().split(|byte| *byte == b' ') {
        let equals = word.iter().position(|byte| *byte == b'=')?;
        let (name, value) = (&word[..equals], &word[equals + 1..]);
        match name {
            b"key" => facts.key = decode_key(value)?,
            b"exp" if value == b"-1" => {}
            b"exp" => facts.expires_at = Some(number(value)?),
            b"la" => facts.accessed_at = number(value)?,
            b"cas" => facts.cas = number(value)?,
            b"fetch" => facts.fetched = value == b"yes",
            b"cls" => facts.class = u32::try_from(number(value)?).ok()?,
            b"size" => facts.size = number(value)?,
            _ => {}
        }
    }
    (!facts.key.is_empty()).then_some(facts)
}

/// A key from the form of URLs.
fn decode_key(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    let mut key = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        key.push(match byte {
            b'%' => digit(*bytes.next()?)? << 4 | digit(*bytes.next()?)?,
            byte => *byte,
        });
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::{KeyFacts, decode_key, parse_facts};

    #[test]
    fn lines_about_keys_are_read() {
        let line = b"key=a%20b exp=1700000000 la=1600000000 cas=7 fetch=yes cls=3 size=99 new=1 ";
        let facts = KeyFacts {
            key: b"a b".to_vec(),
            expires_at: Some(1_700_000_000),
            accessed_at: 1_600_000_000,
            cas: 7,
            fetched: true,
            class: 3,
            size: 99,
        };
        assert_eq!(parse_facts(line), Some(facts));
        let forever = parse_facts(b"key=k exp=-1 la=1 cas=1 fetch=no cls=1 size=1").expect("a line");
        assert_eq!(forever.expires_at, None);
        for line in [
            b"END".as_slice(),
            b"ERROR",
            b"key= exp=1",
            b"exp=1 la=2",
            b"key=k exp=x",
            b"key=k exp=-2",
            b"key=%2",
            b"key=%zz",
        ] {
            assert_eq!(parse_facts(line), None, "{}", line.escape_ascii());
        }
        assert_eq!(decode_key(b"%00%fF"), Some(vec![0, 255]));
    }
}
