//! What a client is held to: servers and options. The one table of options is [`OPTIONS`]; every binding sets them by these
//! names, and the documentation is made from it.

mod options;

use std::fmt;
use std::time::Duration;

pub use options::{OPTIONS, OptionRow};

use crate::event::Hook;
use crate::near::{self, NearError};
use crate::placement::{PlacementError, Scheme, Server};
use crate::protocol::{Form, Order};
use crate::tls::{Tls, TlsError};

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
    /// How long one server may take to answer once it is connected, if not as long as the call may take.
    pub read_timeout: Option<Duration>,
    /// How long a caller looks for its reply again and again before it sleeps until it comes; zero: not at all.
    pub spin: Duration,
    /// Connections to each server, shared by all callers.
    pub connections: usize,
    /// From when on the kernel asks whether a silent connection still stands; `None`: never.
    pub keepalive: Option<Duration>,
    /// From when on a connection that nobody needs is closed; `None`: never.
    pub idle: Option<Duration>,
    /// What the servers speak; `None`: asked at the first connection.
    pub form: Option<Form>,
    /// Whether replies come in the order of the requests.
    pub order: Order,
    /// Most bytes of a value, sent or received.
    pub value_len_max: usize,
    /// From so many failures in a row a server is held to be down.
    pub failure_limit: u32,
    /// The same for connections that cannot be made; `None`: as many.
    pub connect_failure_limit: Option<u32>,
    /// How long a server that is down is left alone before it is probed.
    pub retry_interval: Duration,
    /// With every probe that fails the interval doubles up to this; if it is not longer than the interval, nothing doubles.
    pub retry_interval_max: Duration,
    /// What becomes of a request to a server that is down.
    pub failover: Failover,
    /// User and password, told at the start of each connection.
    pub login: Option<Login>,
    /// Whether connections are encrypted, and what is believed and shown.
    pub tls: Tls,
    /// What a near cache is held to that [`near::Front`] makes; of 0 bytes: it makes none.
    pub near: near::Settings,
    /// In the order of the servers: in what they differ from all that is said above. Servers beyond its end do not differ.
    pub apart: Vec<Apart>,
    /// What is told of servers that fail and come back, connections and requests.
    pub on_event: Option<Hook>,
}

/// In what one server differs from the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Apart {
    /// It keeps its keys, and is not asked: a request for it is one to a server that is down.
    pub offline: bool,
    /// How long it may take to be connected, and then to answer.
    pub timeout: Option<Duration>,
    /// How long it is left alone when it is down.
    pub retry_interval: Option<Duration>,
    /// Whether its connections are encrypted.
    pub tls: Option<bool>,
    /// What its certificate calls it.
    pub tls_name: Option<String>,
}

/// What becomes of a request whose server is down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failover {
    /// The caller gets the error.
    Error,
    /// Look-ups miss, changes are not made, and say so.
    Miss,
    /// Servers that come next in the placement's order are asked instead, at most so many.
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
            read_timeout: None,
            spin: Duration::from_micros(50),
            connections: 1,
            keepalive: Some(Duration::from_secs(60)),
            // Some load balancers forget a connection without a word after 350 seconds.
            idle: Some(Duration::from_secs(300)),
            form: None,
            order: Order::Kept,
            value_len_max: 1 << 20,
            failure_limit: 2,
            connect_failure_limit: None,
            retry_interval: Duration::from_millis(1000),
            retry_interval_max: Duration::from_millis(1000),
            failover: Failover::Error,
            login: None,
            tls: Tls::default(),
            near: near::Settings {
                bytes_max: 0,
                ..near::Settings::default()
            },
            apart: Vec::new(),
            on_event: None,
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

    /// Adds a server from text: what [`parse_server`] takes, and behind it, each after a blank, what is different with it:
    /// `offline`, `timeout_ms=N`, `retry_interval_ms=N`, `tls` or `notls`, `tls_name=NAME`.
    ///
    /// # Errors
    /// The text names no server, or says of it what cannot be said.
    pub fn add_server(&mut self, text: &str) -> Result<(), ConfigError> {
        let mut words = text.split_whitespace();
        let server = parse_server(words.next().unwrap_or_default())?;
        let mut apart = Apart::default();
        for word in words {
            let known = match word.split_once('=') {
                None if word == "offline" => {
                    apart.offline = true;
                    true
                }
                None if word == "tls" || word == "notls" => {
                    apart.tls = Some(word == "tls");
                    true
                }
                Some(("tls_name", name)) if !name.is_empty() => {
                    apart.tls_name = Some(name.to_owned());
                    true
                }
                Some(("timeout_ms", text)) => {
                    apart.timeout = options::millis(text);
                    apart.timeout.is_some()
                }
                Some(("retry_interval_ms", text)) => {
                    apart.retry_interval = options::millis(text);
                    apart.retry_interval.is_some()
                }
                _ => false,
            };
            if !known {
                return Err(ConfigError::Apart(word.to_owned()));
            }
        }
        self.apart.resize(self.servers.len(), Apart::default());
        self.servers.push(server);
        self.apart.push(apart);
        Ok(())
    }

    /// The same for one server: with what is different about it.
    pub(crate) fn of_one(&self, apart: &Apart) -> Config {
        let mut config = self.clone();
        config.apart = vec![apart.clone()];
        config.tls = self.tls.of_one(apart.tls, apart.tls_name.as_deref());
        if let Some(timeout) = apart.timeout {
            config.connect_timeout = timeout;
            config.read_timeout = Some(timeout);
        }
        if let Some(interval) = apart.retry_interval {
            config.retry_interval = interval;
        }
        config
    }

    /// The same for this server, if it is one of them.
    pub(crate) fn of_server(&self, server: &Server) -> Config {
        let is_it = |each: &Server| (&each.host, each.port) == (&server.host, server.port);
        let index = self.servers.iter().position(is_it);
        let apart = index.and_then(|index| self.apart.get(index));
        self.of_one(apart.unwrap_or(&Apart::default()))
    }

    /// Looks whether all of these could be connected to as far as TLS goes: names, certificates, keys.
    pub(crate) fn check_tls<'a>(
        &self,
        servers: impl Iterator<Item = (&'a Server, &'a Apart)>,
    ) -> Result<(), ConfigError> {
        let mut is_used = false;
        for (server, apart) in servers {
            let tls = self.tls.of_one(apart.tls, apart.tls_name.as_deref());
            if tls.is_on() {
                tls.check(server)?;
                is_used = true;
            } else if apart.tls_name.is_some() {
                return Err(TlsError::Off.into());
            }
        }
        match self.tls.says_something() && !self.tls.is_on() && !is_used {
            true => Err(TlsError::Off.into()),
            false => Ok(()),
        }
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
    let has_blanks = || host.contains(|c: char| c.is_whitespace() || c.is_control());
    if host.is_empty() || (!host.starts_with('/') && has_blanks()) {
        return Err(wrong());
    }
    Ok(Server::new(host, port).weight(weight))
}

/// A server as [`parse_server`] takes it.
pub fn show_server(server: &Server) -> String {
    let place = match server.port {
        0 => server.host.clone(),
        port if server.host.contains(':') => format!("[{}]:{port}", server.host),
        port => format!("{}:{port}", server.host),
    };
    match server.weight {
        1 => place,
        weight => format!("{place}*{weight}"),
    }
}

const DEFAULT_PORT: u16 = 11211;

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
    /// What cannot be said of a server.
    Apart(String),
    /// Connections cannot be encrypted as configured.
    Tls(TlsError),
    /// There can be no near cache.
    Near(NearError),
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
            ConfigError::Near(error) => error.fmt(f),
            ConfigError::Server(text) => {
                write!(
                    f,
                    "{text:?} is no server; give HOST, HOST:PORT, [IPV6]:PORT or a path"
                )
            }
            ConfigError::Apart(word) => {
                write!(
                    f,
                    "{word:?} cannot be said of a server; give offline, timeout_ms=N or retry_interval_ms=N with N at least 1, \
                     tls, notls or tls_name=NAME"
                )
            }
            ConfigError::Tls(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ConfigError {}

impl From<TlsError> for ConfigError {
    fn from(error: TlsError) -> ConfigError {
        ConfigError::Tls(error)
    }
}

impl From<NearError> for ConfigError {
    fn from(error: NearError) -> ConfigError {
        ConfigError::Near(error)
    }
}

impl From<PlacementError> for ConfigError {
    fn from(error: PlacementError) -> ConfigError {
        ConfigError::Placement(error)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Apart, Config, parse_server, show_server};
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
            assert_eq!(parse_server(&show_server(&server)), Ok(server), "{text}");
        }
        for text in [
            "no host", "a\tb:1", "", "a:", "a:x", "[::1", "[::1]x", "a*x", ":1",
        ] {
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

    #[test]
    fn what_is_different_with_a_server_stands_behind_it() {
        let mut config = Config::new(vec![Server::new("first", 1)]);
        config
            .add_server("a:1*3 offline timeout_ms=50 retry_interval_ms=15000 tls tls_name=cache.example")
            .expect("all is known");
        config.add_server("b").expect("all is known");
        assert_eq!(config.servers[1], Server::new("a", 1).weight(3));
        let apart = Apart {
            offline: true,
            timeout: Some(Duration::from_millis(50)),
            retry_interval: Some(Duration::from_secs(15)),
            tls: Some(true),
            tls_name: Some("cache.example".to_owned()),
        };
        assert_eq!(config.apart, [Apart::default(), apart.clone(), Apart::default()]);
        let of = config.of_server(&Server::new("a", 1));
        assert!(of.tls.is_on() && of.tls.settings().name == apart.tls_name && !config.tls.is_on());
        assert_eq!(
            (of.connect_timeout.as_millis(), of.read_timeout),
            (50, apart.timeout)
        );
        assert_eq!((of.retry_interval.as_secs(), of.apart[0].offline), (15, true));
        assert_eq!(
            config.of_one(&Apart::default()).retry_interval,
            config.retry_interval
        );
        for text in [
            "",
            "a:1 off",
            "a:1 timeout_ms=0",
            "a:1 weight=1",
            "a:1 tls_name=",
            "a:x offline",
        ] {
            assert!(config.add_server(text).is_err(), "{text}");
        }
        assert_eq!(config.servers.len(), 3, "what is wrong adds nothing");
    }
}
