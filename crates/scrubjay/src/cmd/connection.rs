//! A blocking connection of the tools to any server that speaks the classic text protocol. Commands are collected and go out
//! together; replies are read in their order by whoever knows what was asked.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Arg, ArgMatches};
use scrubjay_tls::{Client, ClientSettings, Trust};

/// Longest wait for a byte from a server, or until it takes one.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a server with users answers to everything but a login.
const UNAUTHENTICATED: &str = "CLIENT_ERROR unauthenticated";

/// Longest file of a login.
const LOGIN_LEN_MAX: usize = 64 << 10;

/// Longest value that a server may announce.
const VALUE_LEN_MAX: usize = 1 << 30;

/// Longer lives than this are told to a server as a moment. Source: memcached doc/protocol.txt, "Expiration times".
const RELATIVE_MAX: u32 = 60 * 60 * 24 * 30;

/// Longest line that a server may send.
const LINE_LEN_MAX: usize = 1 << 20;

/// Name and value of each statistic, in the server's order.
pub(crate) type Stats = Vec<(String, String)>;

/// What a reply to `get` holds of an item.
pub(crate) type KeyAndValue<'a> = (&'a [u8], &'a [u8]);

/// Bytes there and back, encrypted or not.
trait Stream: Read + Write + Send {}

impl<S: Read + Write + Send> Stream for S {}

/// How servers are reached: what [`server_args`] say besides the server's name.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    /// A file of the certificates that vouch for a server; without, nothing is encrypted.
    authorities: Option<PathBuf>,
    /// A file with a user and its password.
    login: Option<String>,
    /// Longest wait for a byte, or until the server takes one.
    patience: Duration,
}

impl Access {
    /// As the options of [`server_args`] say.
    pub(crate) fn of(matches: &ArgMatches, patience: Duration) -> Access {
        let text = |name: &str| matches.get_one::<String>(name);
        Access {
            authorities: text("tls_ca").map(PathBuf::from),
            login: text("login").cloned(),
            patience,
        }
    }

    /// Connects to `server`, and logs in.
    pub(crate) fn connect(&self, server: &str) -> Result<Connection, String> {
        let stream = open(server, self.authorities.as_deref(), self.patience)?;
        let mut connection = Connection::over(stream, self.patience);
        if let Some(path) = &self.login {
            connection.finish_within(self.patience);
            connection.log_in(path)?;
            connection.deadline = None;
        }
        Ok(connection)
    }
}

/// A connection to a server.
pub(crate) struct Connection {
    stream: BufReader<Box<dyn Stream>>,
    line: Vec<u8>,
    key: Vec<u8>,
    value: Vec<u8>,
    output: Vec<u8>,
    patience: Duration,
    /// No line is begun or gone on with after this.
    deadline: Option<Instant>,
}

impl Connection {
    /// Connects to `HOST:PORT` or the path of a Unix socket.
    pub(crate) fn connect(server: &str) -> Result<Connection, String> {
        Connection::connect_with(server, PATIENCE)
    }

    /// As [`Connection::connect`], with the longest wait for a byte, or until the server takes one.
    pub(crate) fn connect_with(server: &str, patience: Duration) -> Result<Connection, String> {
        Ok(Connection::over(open(server, None, patience)?, patience))
    }

    /// Connects to the server that the options of [`server_args`] name, and logs in if they say so.
    pub(crate) fn of(matches: &ArgMatches) -> Result<Connection, String> {
        Target::of(matches, ["server", "login", "tls_ca"]).connect()
    }

    fn over(stream: Box<dyn Stream>, patience: Duration) -> Connection {
        Connection {
            stream: BufReader::with_capacity(64 << 10, stream),
            line: Vec::new(),
            key: Vec::new(),
            value: Vec::new(),
            output: Vec::new(),
            patience,
            deadline: None,
        }
    }

    /// Bounds what is read from now on by a time for all of it; a server that sends a byte now and then does not escape.
    pub(crate) fn finish_within(&mut self, time: Duration) {
        self.deadline = Instant::now().checked_add(time);
    }

    /// Proves to be the user whom the file's first line names, as `NAME:PASSWORD`.
    fn log_in(&mut self, path: &str) -> Result<(), String> {
        let text = scrubjay_io::file::read(Path::new(path), LOGIN_LEN_MAX);
        let text = text.map_err(|why| format!("--login {path}: cannot read this file: {why}"))?;
        let line = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let colon = line.iter().position(|&byte| byte == b':');
        let colon = colon.ok_or_else(|| format!("--login {path}: its first line is to be NAME:PASSWORD"))?;
        let head = format!("set login 0 0 {}\r\n", line.len());
        self.put(&[head.as_bytes(), &line[..colon], b" ", &line[colon + 1..], b"\r\n"]);
        self.send()?;
        match self.read_line()? {
            b"STORED" => Ok(()),
            reply => Err(format!(
                "--login {path}: the server answered {:?}",
                String::from_utf8_lossy(reply)
            )),
        }
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
        let stream = self.stream.get_mut();
        let sent = stream.write_all(&self.output).and_then(|()| stream.flush());
        sent.map_err(|why| lost(&why, self.patience))?;
        self.output.clear();
        Ok(())
    }

    /// Reads a line and returns it without its end.
    pub(crate) fn read_line(&mut self) -> Result<&[u8], String> {
        self.line.clear();
        while self.line.last() != Some(&b'\n') {
            if self.deadline.is_some_and(|deadline| Instant::now() > deadline) {
                return Err(lost(&ErrorKind::TimedOut.into(), self.patience));
            }
            let available = self.stream.fill_buf().map_err(|why| lost(&why, self.patience))?;
            if available.is_empty() {
                return Err("the server closed the connection".to_owned());
            }
            if self.line.len() > LINE_LEN_MAX {
                return Err(format!(
                    "the server sent a line of more than {LINE_LEN_MAX} bytes"
                ));
            }
            let end = available.iter().position(|&byte| byte == b'\n');
            let len = end.map_or(available.len(), |end| end + 1);
            self.line.extend_from_slice(&available[..len]);
            self.stream.consume(len);
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
        self.key.clear();
        self.key.extend_from_slice(words[1]);
        self.fill_value(len)?;
        Ok(Some((&self.key, &self.value[..len])))
    }

    /// Reads a value of `len` bytes and the end of its line.
    pub(crate) fn read_block(&mut self, len: usize) -> Result<&[u8], String> {
        self.fill_value(len)?;
        Ok(&self.value[..len])
    }

    fn fill_value(&mut self, len: usize) -> Result<(), String> {
        if len > VALUE_LEN_MAX {
            return Err(format!("the server announces a value of {len} bytes"));
        }
        self.value.resize(len + 2, 0);
        self.stream
            .read_exact(&mut self.value)
            .map_err(|why| lost(&why, self.patience))
    }

    /// Sends one command line and returns its one-line reply.
    pub(crate) fn ask(&mut self, command: &str) -> Result<String, String> {
        self.put(&[command.as_bytes(), b"\r\n"]);
        self.send()?;
        let reply = String::from_utf8_lossy(self.read_line()?).into_owned();
        if reply == UNAUTHENTICATED {
            return Err("the server answers users only: name a file with a login, --login FILE".to_owned());
        }
        Ok(reply)
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

/// A server, and how it is reached: for several connections to it.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) server: String,
    access: Access,
}

impl Target {
    /// What the options of these names say: of the server, the login and the authorities.
    pub(crate) fn of(matches: &ArgMatches, names: [&str; 3]) -> Target {
        let [server, login, authorities] = names.map(|name| matches.get_one::<String>(name).cloned());
        let access = Access {
            authorities: authorities.map(PathBuf::from),
            login,
            patience: PATIENCE,
        };
        Target {
            server: server.unwrap_or_default(),
            access,
        }
    }

    /// Connects and logs in.
    pub(crate) fn connect(&self) -> Result<Connection, String> {
        self.access.connect(&self.server)
    }
}

fn open(server: &str, authorities: Option<&Path>, patience: Duration) -> Result<Box<dyn Stream>, String> {
    let explain = |why: std::io::Error| format!("{server}: {why}; is a server listening there?");
    if server.contains('/') {
        let stream = UnixStream::connect(server).map_err(explain)?;
        stream.set_read_timeout(Some(patience)).map_err(explain)?;
        stream.set_write_timeout(Some(patience)).map_err(explain)?;
        return encrypt(stream, "localhost", authorities);
    }
    let stream = reach(server, patience).map_err(explain)?;
    stream.set_nodelay(true).map_err(explain)?;
    stream.set_read_timeout(Some(patience)).map_err(explain)?;
    stream.set_write_timeout(Some(patience)).map_err(explain)?;
    let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
    encrypt(stream, host.trim_matches(['[', ']']), authorities)
}

/// Connects to the first of the server's addresses that answers, each for `patience` at most.
fn reach(server: &str, patience: Duration) -> std::io::Result<TcpStream> {
    let mut error = std::io::Error::new(ErrorKind::NotFound, "its name has no address");
    for address in server.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, patience) {
            Ok(stream) => return Ok(stream),
            Err(why) => error = why,
        }
    }
    Err(error)
}

fn encrypt(
    stream: impl Read + Write + Send + 'static,
    host: &str,
    authorities: Option<&Path>,
) -> Result<Box<dyn Stream>, String> {
    Ok(match authorities {
        Some(authorities) => {
            let settings = ClientSettings {
                trust: Trust::Authorities(authorities.to_owned()),
                pair: None,
                resumption: false,
            };
            let client = Client::load(&settings, host).map_err(|why| why.to_string())?;
            Box::new(client.stream(stream).map_err(|why| why.to_string())?)
        }
        None => Box::new(stream),
    })
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
        .env("SCRUBJAY_SERVER")
        .hide_env_values(true)
        .value_name("HOST:PORT|PATH")
        .default_value("127.0.0.1:11211")
        .help("The server, or the path of its Unix socket")
}

/// The options that name the server to talk to and say how: for [`Connection::of`].
pub(crate) fn server_args() -> [Arg; 3] {
    let [login, authorities] = access_args();
    [server_arg(), login, authorities]
}

/// The options that say how servers are reached: for [`Access::of`].
pub(crate) fn access_args() -> [Arg; 2] {
    [
        Arg::new("login")
            .long("login")
            .value_name("FILE")
            .help("Log in as the user in the first line of FILE, NAME:PASSWORD"),
        Arg::new("tls_ca")
            .long("tls-ca")
            .value_name("FILE")
            .help("Encrypt, and believe a server that the certificates in FILE vouch for"),
    ]
}
