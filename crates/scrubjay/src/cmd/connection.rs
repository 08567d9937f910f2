//! A blocking connection of the tools to any server that speaks the classic text protocol. Commands are collected and go out
//! together; replies are read in their order by whoever knows what was asked.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use clap::Arg;

/// Longest wait for a byte from a server, or until it takes one.
const PATIENCE: Duration = Duration::from_secs(60);

/// Longest value that a server may announce.
const VALUE_LEN_MAX: usize = 1 << 30;

/// Longer lives than this are told to a server as a moment. Source: memcached doc/protocol.txt, "Expiration times".
const RELATIVE_MAX: u32 = 60 * 60 * 24 * 30;

/// Name and value of each statistic, in the server's order.
pub(crate) type Stats = Vec<(String, String)>;

/// What a reply to `get` holds of an item.
pub(crate) type KeyAndValue<'a> = (&'a [u8], &'a [u8]);

/// A connection to a server under test.
pub(crate) struct Connection {
    reader: BufReader<Box<dyn Read + Send>>,
    writer: Box<dyn Write + Send>,
    line: Vec<u8>,
    key: Vec<u8>,
    value: Vec<u8>,
    output: Vec<u8>,
    patience: Duration,
}

impl Connection {
    /// Connects to `HOST:PORT` or the path of a Unix socket.
    pub(crate) fn connect(server: &str) -> Result<Connection, String> {
        Connection::connect_with(server, PATIENCE)
    }

    /// As [`Connection::connect`], with the longest wait for a byte, or until the server takes one.
    pub(crate) fn connect_with(server: &str, patience: Duration) -> Result<Connection, String> {
        let explain = |why: std::io::Error| format!("{server}: {why}; is a server listening there?");
        let (reader, writer): (Box<dyn Read + Send>, Box<dyn Write + Send>) = if server.contains('/') {
            let stream = UnixStream::connect(server).map_err(explain)?;
            stream.set_read_timeout(Some(patience)).map_err(explain)?;
            stream.set_write_timeout(Some(patience)).map_err(explain)?;
            (Box::new(stream.try_clone().map_err(explain)?), Box::new(stream))
        } else {
            let stream = TcpStream::connect(server).map_err(explain)?;
            stream.set_nodelay(true).map_err(explain)?;
            stream.set_read_timeout(Some(patience)).map_err(explain)?;
            stream.set_write_timeout(Some(patience)).map_err(explain)?;
            (Box::new(stream.try_clone().map_err(explain)?), Box::new(stream))
        };
        Ok(Connection {
            reader: BufReader::with_capacity(64 << 10, reader),
            writer,
            line: Vec::new(),
            key: Vec::new(),
            value: Vec::new(),
            output: Vec::new(),
            patience,
        })
    }

    /// Adds to what [`Connection::send`] will send.
    pub(crate) fn put(&mut self, parts: &[&[u8]]) {
        parts.iter().for_each(|part| self.output.extend_from_slice(part));
    }

    /// What will be sent, to write into it.
    pub(crate) fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Sends what was put.
    pub(crate) fn send(&mut self) -> Result<(), String> {
        self.writer
            .write_all(&self.output)
            .map_err(|why| lost(&why, self.patience))?;
        self.output.clear();
        Ok(())
    }

    /// Reads a line and returns it without its end.
    pub(crate) fn read_line(&mut self) -> Result<&[u8], String> {
        self.line.clear();
        let len = self
            .reader
            .read_until(b'\n', &mut self.line)
            .map_err(|why| lost(&why, self.patience))?;
        if len == 0 {
            return Err("the server closed the connection".to_owned());
        }
        while matches!(self.line.last(), Some(b'\n' | b'\r')) {
            self.line.pop();
        }
        Ok(&self.line)
    }

    /// Reads the next value of a reply to `get`, as key and value; `None` at its `END`.
    pub(crate) fn read_value(&mut self) -> Result<Option<KeyAndValue<'_>>, String> {
        self.read_line()?;
        if self.line == b"END" {
            return Ok(None);
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
        if len > VALUE_LEN_MAX {
            return Err(format!("the server announces a value of {len} bytes"));
        }
        self.key.clear();
        self.key.extend_from_slice(words[1]);
        self.value.resize(len + 2, 0);
        self.reader
            .read_exact(&mut self.value)
            .map_err(|why| lost(&why, self.patience))?;
        Ok(Some((&self.key, &self.value[..len])))
    }

    /// Sends one command line and returns its one-line reply.
    pub(crate) fn ask(&mut self, command: &str) -> Result<String, String> {
        self.put(&[command.as_bytes(), b"\r\n"]);
        self.send()?;
        Ok(String::from_utf8_lossy(self.read_line()?).into_owned())
    }

    /// The statistics of `group`; the general ones if it is empty. A server that does not know the group has none.
    pub(crate) fn stats(&mut self, group: &str) -> Result<Stats, String> {
        let mut stats = Vec::new();
        let mut line = self.ask(format!("stats {group}").trim_end())?;
        while line != "END" {
            if stats.is_empty() && line.contains("ERROR") {
                return Ok(stats);
            }
            if !line.starts_with("STAT ") {
                return Err(format!("stats {group}: unexpected reply {line:?}"));
            }
            let mut words = line.splitn(3, ' ').skip(1).map(str::to_owned);
            stats.extend(words.next().zip(words.next()));
            line = String::from_utf8_lossy(self.read_line()?).into_owned();
        }
        Ok(stats)
    }
}

fn lost(why: &std::io::Error, patience: Duration) -> String {
    if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) {
        return format!(
            "no answer for {} s; is it a server of memcached's text protocol?",
            patience.as_secs_f64()
        );
    }
    format!("the connection was lost: {why}")
}

/// A life of `ttl` seconds as it is told to a server; 0 is without end.
pub(crate) fn exptime(ttl: u32) -> u64 {
    if ttl <= RELATIVE_MAX {
        return ttl.into();
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs() + u64::from(ttl))
}

/// The option that names the server to talk to.
pub(crate) fn server_arg() -> Arg {
    Arg::new("server")
        .long("server")
        .value_name("HOST:PORT|PATH")
        .default_value("127.0.0.1:11211")
        .help("The server, or the path of its Unix socket")
}
