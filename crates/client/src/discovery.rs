//! Where a list of servers comes from if it is not given once for all: a file, a name with several addresses, or a server of a cluster
//! that knows the others. Reading and understanding are apart, so that what is understood is tested without files and sockets.

use std::fmt;
use std::io::ErrorKind;
use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use crate::client::Shared;
use crate::config::{Apart, Config, ConfigError, show_server};
use crate::connection::{
    Patience,
    stream::{Stream, Wire},
};
use crate::event::What;
use crate::placement::Server;
use crate::protocol::Output;

/// Where to look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file with a server a line as [`Config::add_server`] takes it; `#` begins a comment.
    File(PathBuf),
    /// All addresses of a name, each with this port.
    Dns {
        /// The name.
        host: String,
        /// The port of all of them.
        port: u16,
    },
    /// What this server answers to `config get cluster`, as those of AWS' ElastiCache do; from those that do not know the command, what is
    /// stored as `AmazonElastiCache:cluster`.
    Cluster(Server),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::File(path) => path.display().fmt(f),
            Source::Dns { host, port } => write!(f, "{host}:{port}"),
            Source::Cluster(server) => f.write_str(&show_server(server)),
        }
    }
}

/// Why there is no list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiscoveryError {
    /// It could not be read.
    Unread {
        /// Where it was to come from.
        source: String,
        /// Why not.
        reason: String,
    },
    /// It was read, and is no list of servers.
    NoList {
        /// Where it came from.
        source: String,
        /// The first part that is wrong.
        text: String,
    },
    /// A client cannot have these servers.
    Config(ConfigError),
}

impl fmt::Display for DiscoveryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiscoveryError::Unread { source, reason } => {
                write!(
                    f,
                    "no list of servers from {source}: {reason}; the servers stay as they are"
                )
            }
            DiscoveryError::NoList { source, text } => write!(
                f,
                "what {source} says is no list of servers, from {text:?} on; the servers stay as they are"
            ),
            DiscoveryError::Config(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for DiscoveryError {}

impl From<ConfigError> for DiscoveryError {
    fn from(error: ConfigError) -> DiscoveryError {
        DiscoveryError::Config(error)
    }
}

/// Most bytes of a list.
const LIST_LEN_MAX: u64 = 1 << 20;

impl Source {
    /// The servers as they are now: `config` with these instead of its own. A socket is waited for as long as `config` says.
    ///
    /// Addresses of a name come in no particular order, and are sorted, as schemes may depend on it.
    ///
    /// # Errors
    /// [`DiscoveryError`]; a list without a server is an error, too.
    pub fn read(&self, config: &Config) -> Result<Config, DiscoveryError> {
        let unread = |error: std::io::Error| DiscoveryError::Unread {
            source: self.to_string(),
            reason: error.to_string(),
        };
        let mut found = Config {
            servers: Vec::new(),
            apart: Vec::new(),
            ..config.clone()
        };
        match self {
            Source::File(path) => {
                let text = std::fs::read_to_string(path).map_err(unread)?;
                for line in lines(&text) {
                    found.add_server(line)?;
                }
            }
            Source::Dns { host, port } => {
                let addresses = (host.as_str(), *port).to_socket_addrs().map_err(unread)?;
                let mut hosts: Vec<_> = addresses.map(|address| address.ip()).collect();
                hosts.sort();
                hosts.dedup();
                let server = |host: std::net::IpAddr| Server::new(host.to_string(), *port);
                found.servers.extend(hosts.into_iter().map(server));
            }
            Source::Cluster(server) => {
                let reply = ask_cluster(server, config).map_err(unread)?;
                found.servers = parse_cluster(&reply).map_err(|text| DiscoveryError::NoList {
                    source: self.to_string(),
                    text: text.chars().take(100).collect(),
                })?;
            }
        }
        if found.servers.is_empty() {
            return Err(DiscoveryError::NoList {
                source: self.to_string(),
                text: String::new(),
            });
        }
        Ok(found)
    }
}

/// The lines that say something.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim())
        .filter(|line| !line.is_empty())
}

/// Asks both ways; a server that does not know the first answers `ERROR`.
fn ask_cluster(server: &Server, config: &Config) -> std::io::Result<String> {
    let to_connect = Patience::new(Instant::now(), config.connect_timeout);
    let stream = Stream::connect(server, &to_connect, config)?;
    let patience = Patience::new(Instant::now(), config.read_timeout.unwrap_or(config.timeout));
    let mut reply = exchange(&stream, "config get cluster\r\n", &patience)?;
    if reply.starts_with("ERROR") {
        reply = exchange(&stream, "get AmazonElastiCache:cluster\r\n", &patience)?;
    }
    Ok(reply)
}

/// Sends a line; gives what comes until `END`, or one line if that is something else than the head of a value.
fn exchange(stream: &Stream, line: &str, patience: &Patience) -> std::io::Result<String> {
    let mut output = Output::from(line.as_bytes().to_vec());
    while !output.is_empty() {
        let len = stream.send(&output)?;
        output.advance(len);
    }
    let mut reply = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let head = &reply[..reply.len().min(6)];
        let has_value = head == b"CONFIG" || head == b"VALUE ";
        let is_whole = if has_value {
            reply.ends_with(b"\nEND\r\n")
        } else {
            reply.ends_with(b"\r\n")
        };
        if is_whole {
            return Ok(String::from_utf8_lossy(&reply).into_owned());
        }
        if reply.len() as u64 > LIST_LEN_MAX {
            return Err(std::io::Error::other(format!(
                "a list of more than {LIST_LEN_MAX} bytes"
            )));
        }
        match stream.receive(&mut buffer, patience) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(len) => reply.extend_from_slice(&buffer[..len]),
            Err(error) if error.kind() == ErrorKind::WouldBlock && !patience.is_over() => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(ErrorKind::TimedOut.into()),
            Err(error) => return Err(error),
        }
    }
}

/// The servers of a reply: a head, the list's version, then `HOST|ADDRESS|PORT` with blanks between; the address may be missing, and
/// stands in for a host that is.
///
/// In error the first part that does not fit.
fn parse_cluster(reply: &str) -> Result<Vec<Server>, String> {
    let mut lines = reply.lines();
    let head = lines.next().unwrap_or_default();
    if !head.starts_with("CONFIG cluster ") && !head.starts_with("VALUE AmazonElastiCache:cluster ") {
        return Err(head.to_owned());
    }
    let version = lines.next().unwrap_or_default();
    if version.parse::<u64>().is_err() {
        return Err(version.to_owned());
    }
    let list = lines.next().unwrap_or_default();
    list.split_whitespace()
        .map(|node| parse_node(node).ok_or_else(|| node.to_owned()))
        .collect()
}

fn parse_node(node: &str) -> Option<Server> {
    let mut parts = node.split('|');
    let (host, address, port) = (parts.next()?, parts.next()?, parts.next()?);
    let host = if host.is_empty() { address } else { host };
    let port = port.parse().ok().filter(|port| *port > 0)?;
    (!host.is_empty() && parts.next().is_none()).then(|| Server::new(host, port))
}

/// Keeps a client's servers as its source has them, until it is dropped.
#[derive(Debug)]
pub struct Follower {
    /// Its end ends the thread.
    _stop: Sender<()>,
}

impl Follower {
    pub(crate) fn start(
        shared: &Arc<Shared>,
        source: Source,
        every: Duration,
    ) -> Result<Follower, DiscoveryError> {
        let mut known = Known::default();
        known.renew(shared, &source)?;
        let (stop, stopped) = mpsc::channel();
        // Held weakly, or the client would live as long as the thread.
        let shared = Arc::downgrade(shared);
        let name = source.to_string();
        let follow = move || {
            while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let Some(shared) = shared.upgrade() else {
                    return;
                };
                if let (Err(error), Some(hook)) = (known.renew(&shared, &source), &shared.config().on_event) {
                    hook.tell(&source.to_string(), What::NoList(&error));
                }
            }
        };
        let thread = std::thread::Builder::new().name("scrubjay-follow".to_owned());
        thread.spawn(follow).map_err(|error| DiscoveryError::Unread {
            source: name,
            reason: error.to_string(),
        })?;
        Ok(Follower { _stop: stop })
    }
}

/// What was read last.
#[derive(Default)]
struct Known(Option<(Vec<Server>, Vec<Apart>)>);

impl Known {
    fn renew(&mut self, shared: &Shared, source: &Source) -> Result<(), DiscoveryError> {
        let found = source.read(shared.config())?;
        let list = (found.servers, found.apart);
        if self.0.as_ref() != Some(&list) {
            shared.replace(list.0.clone(), list.1.clone())?;
            self.0 = Some(list);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{lines, parse_cluster};
    use crate::placement::Server;

    #[test]
    fn list_of_a_cluster_is_read() {
        let servers = vec![
            Server::new("one.example", 11211),
            Server::new("10.0.0.2", 11212),
            Server::new("three.example", 11211),
        ];
        let list = "12\none.example|10.0.0.1|11211 |10.0.0.2|11212 three.example||11211\n\r\nEND\r\n";
        for head in ["CONFIG cluster 0 100", "VALUE AmazonElastiCache:cluster 0 100"] {
            assert_eq!(parse_cluster(&format!("{head}\r\n{list}")), Ok(servers.clone()));
        }
    }

    #[test]
    fn what_is_no_list_is_refused_with_the_part_that_does_not_fit() {
        for (reply, part) in [
            ("ERROR\r\n", "ERROR"),
            ("END\r\n", "END"),
            ("CONFIG other 0 1\r\n1\na|b|1\n\r\nEND\r\n", "CONFIG other 0 1"),
            ("CONFIG cluster 0 1\r\nx\na|b|1\n\r\nEND\r\n", "x"),
            ("CONFIG cluster 0 1\r\n1\na|b|1 a|b\n\r\nEND\r\n", "a|b"),
            ("CONFIG cluster 0 1\r\n1\na|b|0\n\r\nEND\r\n", "a|b|0"),
            ("CONFIG cluster 0 1\r\n1\n||1\n\r\nEND\r\n", "||1"),
            ("CONFIG cluster 0 1\r\n1\na|b|1|2\n\r\nEND\r\n", "a|b|1|2"),
        ] {
            assert_eq!(parse_cluster(reply), Err(part.to_owned()), "{reply:?}");
        }
    }

    #[test]
    fn comments_and_empty_lines_are_left_out() {
        let text = "# servers\n\na:1*2 offline # at night\n   \n/run/s\n";
        assert_eq!(lines(text).collect::<Vec<_>>(), ["a:1*2 offline", "/run/s"]);
    }
}
