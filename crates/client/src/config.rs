//! What a client is held to: servers and options. The one table of options is [`OPTIONS`]; every binding sets them by these
//! names, and the documentation is made from it.

use std::fmt;
use std::time::Duration;

use crate::placement::{PlacementError, Scheme, Server};
use crate::protocol::Form;

/// How the servers are found, reached and given up.
#[derive(Clone, Debug)]
pub struct Config {
    /// In the order that the scheme may depend on.
    pub servers: Vec<Server>,
    /// Which server has a key.
    pub scheme: Scheme,
    /// Put before every key on the wire, and part of what is placed.
    pub prefix: Vec<u8>,
    /// How long a connection may take to be made.
    pub connect_timeout: Duration,
    /// How long a call may take, everything included.
    pub timeout: Duration,
    /// Connections to each server, shared by all callers.
    pub connections: usize,
    /// What the servers speak; `None`: asked at the first connection.
    pub form: Option<Form>,
    /// Most bytes of a value, sent or received.
    pub value_len_max: usize,
    /// From so many failures in a row a server is held to be down.
    pub failure_limit: u32,
    /// How long a server that is down is left alone before it is probed.
    pub retry_interval: Duration,
    /// What becomes of a request to a server that is down.
    pub failover: Failover,
    /// User and password, told at the start of each connection.
    pub login: Option<Login>,
}

/// What becomes of a request whose server is down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failover {
    /// The caller gets the error.
    Error,
    /// Look-ups miss, changes are not made, and say so.
    Miss,
    /// The next servers of the list are asked instead, at most so many.
    Next(u32),
    /// Another set of servers is asked instead, and keeps values for so long at most.
    Gutter {
        /// The set.
        servers: Vec<Server>,
        /// The longest life there.
        ttl: Duration,
    },
}

/// User and password.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// Who.
    pub user: String,
    /// What only they know.
    pub password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Login({})", self.user)
    }
}

impl Config {
    /// The defaults for these servers.
    pub fn new(servers: Vec<Server>) -> Config {
        Config {
            servers,
            scheme: Scheme::default(),
            prefix: Vec::new(),
            connect_timeout: Duration::from_millis(1000),
            timeout: Duration::from_millis(1000),
            connections: 1,
            form: None,
            value_len_max: 1 << 20,
            failure_limit: 2,
            retry_interval: Duration::from_millis(1000),
            failover: Failover::Error,
            login: None,
        }
    }

    /// Sets an option by its name, from text.
    ///
    /// # Errors
    /// There is no such option, or the text is no value for it.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), ConfigError> {
        let row = OPTIONS.iter().find(|row| row.name == name);
        let row = row.ok_or_else(|| ConfigError::UnknownOption(name.to_owned()))?;
        (row.set)(self, text).ok_or_else(|| ConfigError::Value {
            name: row.name,
            text: text.to_owned(),
            wanted: row.wanted,
        })
    }
}

/// A server from text: `HOST`, `HOST:PORT`, `[IPV6]:PORT` or the path of a socket, each with `*WEIGHT` behind it if its share
/// is another.
pub fn parse_server(text: &str) -> Result<Server, ConfigError> {
    let wrong = || ConfigError::Server(text.to_owned());
    let (place, weight) = match text.rsplit_once('*') {
        Some((place, weight)) => (place, weight.parse().map_err(|_| wrong())?),
        None => (text, 1),
    };
    let (host, port) = if place.starts_with('/') {
        (place, 0)
    } else if let Some(rest) = place.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or_else(wrong)?;
        match rest.strip_prefix(':') {
            Some(port) => (host, port.parse().map_err(|_| wrong())?),
            None if rest.is_empty() => (host, DEFAULT_PORT),
            None => return Err(wrong()),
        }
    } else {
        match place.split_once(':') {
            // More than one colon: a bare IPv6 address.
            Some((_, port)) if port.contains(':') => (place, DEFAULT_PORT),
            Some((host, port)) => (host, port.parse().map_err(|_| wrong())?),
            None => (place, DEFAULT_PORT),
        }
    };
    if host.is_empty() {
        return Err(wrong());
    }
    Ok(Server::new(host, port).weight(weight))
}

const DEFAULT_PORT: u16 = 11211;

/// An option, as all bindings have it.
pub struct OptionRow {
    /// Its name.
    pub name: &'static str,
    /// What values it takes.
    pub wanted: &'static str,
    /// What it does, in one sentence.
    pub help: &'static str,
    set: fn(&mut Config, &str) -> Option<()>,
}

impl fmt::Debug for OptionRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Most connections to a server.
const CONNECTIONS_MAX: usize = 1024;

/// All options.
pub static OPTIONS: &[OptionRow] = &[
    OptionRow {
        name: "scheme",
        wanted: "a scheme, or SCHEME/HASH",
        help: "Which server has a key.",
        set: |config, text| put(&mut config.scheme, text.parse().ok()),
    },
    OptionRow {
        name: "prefix",
        wanted: "any text",
        help: "Put before every key.",
        set: |config, text| put(&mut config.prefix, Some(text.into())),
    },
    OptionRow {
        name: "connect_timeout_ms",
        wanted: "milliseconds, at least 1",
        help: "How long a connection may take to be made.",
        set: |config, text| put(&mut config.connect_timeout, millis(text)),
    },
    OptionRow {
        name: "timeout_ms",
        wanted: "milliseconds, at least 1",
        help: "How long a call may take, everything included.",
        set: |config, text| put(&mut config.timeout, millis(text)),
    },
    OptionRow {
        name: "connections",
        wanted: "1 to 1024",
        help: "Connections to each server, shared by all callers.",
        set: |config, text| {
            let count = text
                .parse()
                .ok()
                .filter(|count| (1..=CONNECTIONS_MAX).contains(count));
            put(&mut config.connections, count)
        },
    },
    OptionRow {
        name: "form",
        wanted: "auto, meta or classic",
        help: "Which commands a server is sent; auto asks it at the first connection.",
        set: |config, text| {
            let form = match text {
                "auto" => Some(None),
                "meta" => Some(Some(Form::Meta)),
                "classic" => Some(Some(Form::Classic)),
                _ => None,
            };
            put(&mut config.form, form)
        },
    },
    OptionRow {
        name: "value_len_max",
        wanted: "bytes, at least 1",
        help: "Most bytes of a value, sent or received.",
        set: |config, text| {
            put(
                &mut config.value_len_max,
                text.parse().ok().filter(|len| *len > 0),
            )
        },
    },
    OptionRow {
        name: "failure_limit",
        wanted: "a number, at least 1",
        help: "From so many failures in a row a server is held to be down.",
        set: |config, text| {
            put(
                &mut config.failure_limit,
                text.parse().ok().filter(|limit| *limit > 0),
            )
        },
    },
    OptionRow {
        name: "retry_interval_ms",
        wanted: "milliseconds, at least 1",
        help: "How long a server that is down is left alone before it is probed.",
        set: |config, text| put(&mut config.retry_interval, millis(text)),
    },
    OptionRow {
        name: "failover",
        wanted: "error, miss or next:COUNT",
        help: "What becomes of a request whose server is down.",
        set: |config, text| {
            let failover = match text {
                "error" => Some(Failover::Error),
                "miss" => Some(Failover::Miss),
                _ => (text.strip_prefix("next:"))
                    .and_then(|count| count.parse().ok().filter(|count| *count > 0))
                    .map(Failover::Next),
            };
            put(&mut config.failover, failover)
        },
    },
    OptionRow {
        name: "login",
        wanted: "USER:PASSWORD",
        help: "Told at the start of each connection.",
        set: |config, text| {
            let login = text.split_once(':').map(|(user, password)| Login {
                user: user.to_owned(),
                password: password.to_owned(),
            });
            put(&mut config.login, login.map(Some))
        },
    },
];

fn put<T>(place: &mut T, value: Option<T>) -> Option<()> {
    *place = value?;
    Some(())
}

fn millis(text: &str) -> Option<Duration> {
    text.parse()
        .ok()
        .filter(|millis| *millis > 0)
        .map(Duration::from_millis)
}

/// Why a client cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// Keys cannot be placed.
    Placement(PlacementError),
    /// There is no such option.
    UnknownOption(String),
    /// Text that is no value for its option.
    Value {
        /// The option.
        name: &'static str,
        /// The text.
        text: String,
        /// What it takes.
        wanted: &'static str,
    },
    /// Text that names no server.
    Server(String),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Placement(error) => error.fmt(f),
            ConfigError::UnknownOption(name) => {
                write!(f, "there is no option {name:?}; there are:")?;
                OPTIONS.iter().try_for_each(|row| write!(f, " {}", row.name))
            }
            ConfigError::Value { name, text, wanted } => write!(f, "{name}: {text:?} is not {wanted}"),
            ConfigError::Server(text) => {
                write!(
                    f,
                    "{text:?} is no server; give HOST, HOST:PORT, [IPV6]:PORT or a path"
                )
            }
        }
    }
}

impl std::error::Error for ConfigError {}

impl From<PlacementError> for ConfigError {
    fn from(error: PlacementError) -> ConfigError {
        ConfigError::Placement(error)
    }
}

#[cfg(test)]
mod tests {
    use super::{Config, parse_server};
    use crate::placement::Server;

    #[test]
    fn servers_are_read_from_text() {
        for (text, server) in [
            ("a", Server::new("a", 11211)),
            ("a:1", Server::new("a", 1)),
            ("a:1*3", Server::new("a", 1).weight(3)),
            ("[::1]:2", Server::new("::1", 2)),
            ("[::1]", Server::new("::1", 11211)),
            ("::1", Server::new("::1", 11211)),
            ("/run/s", Server::new("/run/s", 0)),
        ] {
            assert_eq!(parse_server(text).as_ref(), Ok(&server), "{text}");
        }
        for text in ["", "a:", "a:x", "[::1", "[::1]x", "a*x", ":1"] {
            assert!(parse_server(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_no_value_changes_nothing_and_says_what_would_be_one() {
        let mut config = Config::new(Vec::new());
        let error = config.set("timeout_ms", "0").expect_err("0 is none");
        assert!(error.to_string().contains("at least 1"), "{error}");
        assert_eq!(config.timeout.as_millis(), 1000);
        config.set("timeout_ms", "20").expect("20 is one");
        assert_eq!(config.timeout.as_millis(), 20);
        assert!(config.set("tiemout", "1").is_err());
    }
}
