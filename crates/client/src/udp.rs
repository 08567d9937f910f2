//! Multi-gets over datagrams: many keys from many servers at once, with no connection to any of them.
//!
//! A lost datagram costs a time-out, so the point is to lose none: a window over all servers together bounds how many keys
//! are asked for at a time (`window`). What is lost all the same is fetched over the connections of the [`Client`], once. Only
//! gets go this way; a change whose reply is lost could not be told from one that was not made.
//!
//! One socket serves all servers, so that there is one buffer in which replies meet: its size is known, and the window keeps
//! their sum below it. A socket for each server would let the kernel check senders, at the price of as many descriptors, as
//! many buffers, and a bound that says nothing of their sum; senders are checked here instead.

mod fetch;
mod frame;
mod patience;
mod window;

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;

use crate::client::{Call, Client};
use crate::error::Error;
use crate::protocol::{Form, Get, Reply, Request, Value};

use fetch::{Datagram, Fetch, Learnt, Outcome, Peer};
use patience::Patience;
use window::Window;

/// Most keys that a window may have, so that ids never run out.
const WINDOW_MAX: usize = 10_000;

/// Longest datagram there is.
const ROOM: usize = 64 << 10;

/// Datagrams received before the next request is considered.
const RECEIVED_MAX: usize = 64;

/// How a [`Reader`] asks.
#[derive(Clone, Debug)]
pub struct Options {
    /// Fewest keys that may be outstanding over all servers; at least 1. As many as `window_max`: the window is fixed.
    pub window_min: usize,
    /// Most keys; up to 10,000.
    pub window_max: usize,
    /// The window also heeds how much the receive buffer holds.
    pub heed_buffer: bool,
    /// Bytes of the receive buffer, as set by `SO_RCVBUF`; `None`: the system's.
    pub receive_buffer: Option<usize>,
    /// What does not come is fetched over the client's connections.
    pub fallback: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            window_min: 1,
            window_max: 1000,
            heed_buffer: true,
            receive_buffer: None,
            fallback: true,
        }
    }
}

/// What a [`Reader`] has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests sent, each for several keys.
    pub requests: u64,
    /// Datagrams received.
    pub datagrams: u64,
    /// Datagrams and replies that were nobody's, or came too late.
    pub strangers: u64,
    /// Requests whose reply, or a part of it, did not come in time.
    pub lost_requests: u64,
    /// Keys that were asked for over a connection.
    pub fallback_keys: u64,
}

/// Why there is no [`Reader`].
#[derive(Debug)]
pub enum OpenError {
    /// The bounds of the window are none.
    Window {
        /// The least.
        min: usize,
        /// The most.
        max: usize,
    },
    /// There is not one address for each server.
    Addresses {
        /// Servers of the client.
        servers: usize,
        /// Addresses given.
        addresses: usize,
    },
    /// A server's name has no address.
    Resolve {
        /// Which server.
        server: String,
        /// Why.
        reason: io::Error,
    },
    /// There is no socket.
    Socket(io::Error),
    /// Connections to this server are encrypted, and datagrams would not be.
    Encrypted(String),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Window { min, max } => write!(
                f,
                "a window of {min} to {max} keys; use 1 to {WINDOW_MAX}, the first not above the second"
            ),
            OpenError::Addresses { servers, addresses } => {
                write!(
                    f,
                    "{addresses} addresses for {servers} servers; give one for each"
                )
            }
            OpenError::Resolve { server, reason } => {
                write!(f, "{server}: {reason}; give a host that has an address")
            }
            OpenError::Encrypted(server) => write!(
                f,
                "{server} is to be spoken to by TLS, and datagrams are in the clear; ask it over its connection, by Client, \
                 or give None in place of its address"
            ),
            OpenError::Socket(reason) => {
                write!(
                    f,
                    "no socket for datagrams: {reason}; look at the limits of this process"
                )
            }
        }
    }
}

impl std::error::Error for OpenError {}

/// One thread's multi-gets over datagrams.
#[derive(Debug)]
pub struct Reader {
    client: Client,
    options: Options,
    socket: UdpSocket,
    learnt: Learnt,
    room: Vec<u8>,
}

impl Reader {
    /// One that asks the client's servers at the numbers of their TCP ports. Servers that are paths of sockets are asked
    /// over their connections.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn new(client: &Client, options: Options) -> Result<Reader, OpenError> {
        let resolve = |server: &crate::placement::Server| {
            if server.host.starts_with('/') {
                return Ok(None);
            }
            let found = (server.host.as_str(), server.port)
                .to_socket_addrs()
                .and_then(|mut found| found.next().ok_or_else(|| ErrorKind::NotFound.into()));
            found.map(Some).map_err(|reason| OpenError::Resolve {
                server: server.host.clone(),
                reason,
            })
        };
        let addresses = client
            .config()
            .servers
            .iter()
            .map(resolve)
            .collect::<Result<_, _>>()?;
        Reader::with_addresses(client, addresses, options)
    }

    /// One that asks each of the client's servers at the address given for it, or over its connection if there is none.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn with_addresses(
        client: &Client,
        addresses: Vec<Option<SocketAddr>>,
        options: Options,
    ) -> Result<Reader, OpenError> {
        let config = client.config();
        let (min, max) = (options.window_min, options.window_max);
        if min < 1 || min > max || max > WINDOW_MAX {
            return Err(OpenError::Window { min, max });
        }
        if addresses.len() != config.servers.len() {
            return Err(OpenError::Addresses {
                servers: config.servers.len(),
                addresses: addresses.len(),
            });
        }
        for (server, _) in (config.servers.iter().zip(&addresses)).filter(|(_, address)| address.is_some()) {
            if config.of_server(server).tls.is_on() {
                return Err(OpenError::Encrypted(server.host.clone()));
            }
        }
        let addresses = of_one_family(addresses);
        let socket = open(&addresses, options.receive_buffer).map_err(OpenError::Socket)?;
        let held =
            sockopt::socket_recv_buffer_size(&socket).map_err(|errno| OpenError::Socket(errno.into()))?;
        // A part of what was taken out is given back late.
        let buffer = if options.heed_buffer {
            held / 4 * 3
        } else {
            usize::MAX
        };
        let form = config.form.filter(|form| *form == Form::Classic);
        Ok(Reader {
            learnt: Learnt {
                window: Window::new(min, max, buffer),
                patience: Patience::default(),
                peers: addresses
                    .into_iter()
                    .map(|address| Peer::new(address, form))
                    .collect(),
                counts: Counts::default(),
                next_id: chance() as u16,
                next_opaque: chance(),
                resting: HashMap::new(),
                value_len_max: config.value_len_max,
                retry_interval: config.retry_interval,
            },
            client: client.clone(),
            options,
            socket,
            room: vec![0; ROOM],
        })
    }

    /// What was done so far.
    pub fn counts(&self) -> Counts {
        self.learnt.counts
    }

    /// Keys that may be outstanding now.
    pub fn window(&self) -> usize {
        self.learnt.window.size()
    }

    /// Where replies are sent to.
    ///
    /// # Errors
    /// The system does not say.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Looks all keys up, and waits until all is known or the time is up. The results are in the order of the keys: a value,
    /// none, or why that is not known. With fallback, datagrams have half of the time, connections what is left.
    pub fn get_many<K: AsRef<[u8]>>(
        &mut self,
        keys: &[K],
        timeout: Duration,
    ) -> Vec<Result<Option<Value>, Error>> {
        let start = Instant::now();
        let share = if self.options.fallback {
            timeout / 2
        } else {
            timeout
        };
        let outcomes = self.ask(keys, start + share);
        let mut results: Vec<_> = outcomes
            .into_iter()
            .zip(keys)
            .map(|(outcome, key)| self.result(outcome, key.as_ref(), timeout))
            .collect();
        if self.options.fallback {
            let open: Vec<usize> = (0..keys.len())
                .filter(|place| !matches!(results[*place], Ok(_) | Err(Error::Refused(_))))
                .collect();
            self.learnt.counts.fallback_keys += open.len() as u64;
            let left = timeout.saturating_sub(start.elapsed());
            let keys = open.iter().map(|place| keys[*place].as_ref()).collect();
            for (place, reply) in open.into_iter().zip(self.fall_back(keys, left)) {
                results[place] = reply;
            }
        }
        results
    }

    /// Asks until all is known that can be, or the time is up.
    fn ask<K: AsRef<[u8]>>(&mut self, keys: &[K], until: Instant) -> Vec<Outcome> {
        let prefix = &self.client.config().prefix;
        let placed = |key: &'_ K| self.client.place(key.as_ref()).get();
        let keys = keys
            .iter()
            .map(|key| (with_prefix(prefix, key.as_ref()), placed(key)))
            .collect();
        let mut fetch = Fetch::new(&mut self.learnt, keys);
        let mut unsent = None;
        loop {
            let now = Instant::now();
            fetch.expire(now);
            unsent = send(&self.socket, &mut fetch, unsent, now);
            if fetch.is_done() || now >= until {
                return fetch.end(now);
            }
            let wake = fetch.wake().map_or(until, |wake| wake.min(until));
            wait(
                &self.socket,
                unsent.is_some(),
                wake.saturating_duration_since(now),
            );
            let now = Instant::now();
            for _ in 0..RECEIVED_MAX {
                match self.socket.recv_from(&mut self.room) {
                    Ok((len, from)) => fetch.receive(now, from, &self.room[..len]),
                    // Nothing more, or word of an earlier datagram that did not arrive: that one's time will be up.
                    Err(_) => break,
                }
            }
        }
    }

    fn result(&self, outcome: Outcome, key: &[u8], after: Duration) -> Result<Option<Value>, Error> {
        let index = self.client.place(key).get();
        let server = || {
            let place = &self.client.config().servers[index];
            match place.port {
                0 => place.host.clone(),
                port => format!("{}:{port}", place.host),
            }
        };
        match outcome {
            Outcome::Value(value) => Ok(value),
            Outcome::Refused(refused) => Err(Error::Refused(refused)),
            Outcome::Error(error) => Err(Error::Server {
                server: server(),
                error,
            }),
            Outcome::Missing if self.learnt.peers[index].address.is_none() => Err(Error::Connect {
                server: server(),
                reason: "it has no address for datagrams, and fallback is off".to_owned(),
            }),
            Outcome::Missing => Err(Error::TimedOut {
                server: server(),
                after,
            }),
        }
    }

    /// Asks over connections.
    fn fall_back(&self, keys: Vec<&[u8]>, timeout: Duration) -> Vec<Result<Option<Value>, Error>> {
        if keys.is_empty() {
            return Vec::new();
        }
        let requests = keys.into_iter().map(|key| Request::Get(Get::new(key)));
        let call = Call {
            timeout: Some(timeout),
            ..Call::default()
        };
        let replies = self.client.call_all(requests.collect(), call).into_iter();
        let value = |reply| match reply {
            Reply::Value(value) => Some(value),
            _ => None,
        };
        replies.map(|reply| reply.map(value)).collect()
    }
}

fn with_prefix<'a>(prefix: &[u8], key: &'a [u8]) -> Cow<'a, [u8]> {
    match prefix {
        [] => Cow::Borrowed(key),
        prefix => Cow::Owned([prefix, key].concat()),
    }
}

/// Sends what may be sent now; gives back what the socket did not take.
fn send(
    socket: &UdpSocket,
    fetch: &mut Fetch<'_>,
    mut unsent: Option<Datagram>,
    now: Instant,
) -> Option<Datagram> {
    while let Some(datagram) = unsent.take().or_else(|| fetch.next(now)) {
        match socket.send_to(&datagram.bytes, datagram.to) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Some(datagram),
            Err(_) => fetch.unsendable(now, datagram.id),
        }
    }
    None
}

/// Waits for a datagram, or for room to send one.
fn wait(socket: &UdpSocket, to_send: bool, within: Duration) {
    let mut events = PollFlags::IN;
    if to_send {
        events |= PollFlags::OUT;
    }
    let within = Timespec {
        tv_sec: within.as_secs() as i64,
        tv_nsec: within.subsec_nanos().into(),
    };
    // Interrupted, or refused for want of memory: the loop looks at the clock and comes again.
    let _ = poll(&mut [PollFd::new(&socket.as_fd(), events)], Some(&within));
}

/// All as IPv6, if one is: then one socket serves both.
fn of_one_family(addresses: Vec<Option<SocketAddr>>) -> Vec<Option<SocketAddr>> {
    if !addresses.iter().flatten().any(SocketAddr::is_ipv6) {
        return addresses;
    }
    let mapped = |address: SocketAddr| match address {
        SocketAddr::V4(v4) => SocketAddr::from((v4.ip().to_ipv6_mapped(), v4.port())),
        v6 @ SocketAddr::V6(_) => v6,
    };
    addresses.into_iter().map(|address| address.map(mapped)).collect()
}

fn open(addresses: &[Option<SocketAddr>], receive_buffer: Option<usize>) -> io::Result<UdpSocket> {
    let socket = if addresses.iter().flatten().any(SocketAddr::is_ipv6) {
        UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?
    } else {
        UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?
    };
    socket.set_nonblocking(true)?;
    if let Some(len) = receive_buffer {
        sockopt::set_socket_recv_buffer_size(&socket, len)?;
    }
    Ok(socket)
}

/// A number that nobody can foresee.
fn chance() -> u64 {
    RandomState::new().build_hasher().finish()
}
