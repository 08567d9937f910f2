//! Every socket that is served: opened as the options say, or given by a supervisor, or by the server before.
//!
//! Whoever is given sockets opens none of that kind itself: what they are is decided where they were opened.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use scrubjay_io::driver::{Listener, datagrams};
use scrubjay_io::supervisor::{Given, Kind};
use scrubjay_server::options::{self, OptionError, Options};
use scrubjay_tls::{Certificate, Tls};

use super::refused;
use super::wire::Role;

/// The name of a socket of a supervisor where HTTP is answered.
const ADMIN: &str = "admin";

/// A socket that is listened on, and how its connections are guarded.
pub struct Place {
    pub socket: Listener,
    pub guard: Option<Certificate>,
}

/// Sockets of datagrams on one address, one for each worker.
pub type Datagrams = (SocketAddr, Vec<datagrams::Socket>);

/// All of them.
#[derive(Default)]
pub struct Places {
    pub streams: Vec<Place>,
    pub datagrams: Vec<Datagrams>,
    pub admin: Vec<Listener>,
}

impl Place {
    pub fn guarded(self, tls: Option<&Arc<Tls>>) -> scrubjay_tls::Listener<Listener> {
        match (self.guard, tls) {
            (Some(certificate), Some(tls)) => scrubjay_tls::Listener::secure(self.socket, tls, certificate),
            _ => scrubjay_tls::Listener::plain(self.socket),
        }
    }

    /// What is spoken there, for people.
    fn transport(&self) -> &'static str {
        match self.guard {
            None => "TCP",
            Some(Certificate::NotAsked) => "TLS",
            Some(Certificate::Asked) => "TLS, client certificates checked",
            Some(Certificate::Required) => "TLS, client certificates required",
        }
    }
}

impl Places {
    /// What a supervisor has opened; what it has not is opened here.
    pub fn activated(options: &Options, given: Vec<Given>) -> Result<Places, OptionError> {
        let mut places = Places::default();
        for Given { name, kind, fd } in given {
            let cannot = |error| {
                refused(
                    &format!("the socket {name} of the supervisor is of no use"),
                    error,
                )
            };
            match kind {
                Kind::Tcp if name == ADMIN => places.admin.push(Listener::adopt(fd, None).map_err(cannot)?),
                Kind::Tcp => {
                    let socket = Listener::adopt(fd, None).map_err(cannot)?;
                    let guard = socket.address().and_then(|address| guard_of(options, address));
                    places.streams.push(Place { socket, guard });
                }
                Kind::Unix => {
                    let socket = Listener::adopt(fd, None).map_err(cannot)?;
                    places.streams.push(Place { socket, guard: None });
                }
                Kind::Udp => {
                    let socket = datagrams::Socket::adopt(fd).map_err(cannot)?;
                    places
                        .datagrams
                        .push(for_all(options, vec![socket]).map_err(cannot)?);
                }
                Kind::Other => {
                    super::say(&format!(
                        "warning: the supervisor gave a file named {name}, which is no socket to serve"
                    ));
                }
            }
        }
        if places.streams.is_empty() && places.datagrams.is_empty() {
            places.streams = listen(options)?;
            places.datagrams = open_datagrams(options)?;
        }
        if places.admin.is_empty() {
            places.admin = open_admin(options)?;
        }
        Ok(places)
    }

    /// What the server before has sent.
    pub fn inherited(options: &Options, sockets: Vec<(Role, OwnedFd)>) -> Result<Places, OptionError> {
        let cannot = |error| refused("a socket of the server before is of no use", error);
        let mut places = Places::default();
        let mut groups: Vec<Vec<datagrams::Socket>> = Vec::new();
        for (role, fd) in sockets {
            match role {
                Role::Stream { guard, path } => places.streams.push(Place {
                    socket: Listener::adopt(fd, path).map_err(cannot)?,
                    guard: guard.map(Certificate::from),
                }),
                Role::Admin => places.admin.push(Listener::adopt(fd, None).map_err(cannot)?),
                Role::Datagrams => {
                    let socket = datagrams::Socket::adopt(fd).map_err(cannot)?;
                    let address = socket.address().map_err(cannot)?;
                    match groups.last_mut() {
                        Some(group) if group[0].address().ok() == Some(address) => group.push(socket),
                        _ => groups.push(vec![socket]),
                    }
                }
            }
        }
        for group in groups {
            places.datagrams.push(for_all(options, group).map_err(cannot)?);
        }
        Ok(places)
    }

    /// TCP addresses of the cache.
    pub fn tcp(&self) -> Vec<SocketAddr> {
        self.streams
            .iter()
            .filter_map(|place| place.socket.address())
            .collect()
    }

    /// UDP addresses of the cache.
    pub fn udp(&self) -> Vec<SocketAddr> {
        self.datagrams.iter().map(|(address, _)| *address).collect()
    }

    /// Addresses where HTTP is answered.
    pub fn admin(&self) -> Vec<SocketAddr> {
        self.admin.iter().filter_map(Listener::address).collect()
    }

    /// Where the cache is served, for people.
    pub fn words(&self) -> String {
        let streams = self.streams.iter().map(|place| match place.socket.address() {
            Some(address) => format!("{address} ({})", place.transport()),
            None => format!(
                "{} (Unix socket)",
                place.socket.path().unwrap_or_default().display()
            ),
        });
        let udp = self
            .datagrams
            .iter()
            .map(|(address, _)| format!("{address} (UDP)"));
        let words = streams.chain(udp).collect::<Vec<_>>().join(", ");
        if words.is_empty() {
            "nowhere".to_owned()
        } else {
            words
        }
    }
}

/// What a successor is sent: sockets and what they are for.
pub fn bequest<'a>(
    listeners: &'a [scrubjay_tls::Listener<Listener>],
    udp: &'a [(u16, Vec<datagrams::Socket>)],
    admin: &'a [Listener],
) -> Vec<(Role, BorrowedFd<'a>)> {
    let streams = listeners.iter().map(|listener| {
        let role = Role::Stream {
            guard: listener.asked().map(Into::into),
            path: listener.below().own_path().map(PathBuf::from),
        };
        (role, listener.below().as_fd())
    });
    let datagrams = udp.iter().flat_map(|(_, sockets)| sockets);
    streams
        .chain(datagrams.map(|socket| (Role::Datagrams, socket.as_fd())))
        .chain(admin.iter().map(|listener| (Role::Admin, listener.as_fd())))
        .collect()
}

/// How connections of an address are guarded that somebody else opened.
fn guard_of(options: &Options, address: SocketAddr) -> Option<Certificate> {
    let listeners = options.tcp_listeners();
    let same = listeners.iter().find(|((host, port), _)| {
        let is_host =
            host.is_none_or(|host| host.parse().is_ok_and(|ip: std::net::IpAddr| ip == address.ip()));
        is_host && *port == address.port()
    });
    same.map_or_else(
        || options.tls.guard(options::Guard::AsOthers),
        |(_, guard)| *guard,
    )
}

/// One socket of the group for each worker: the same ones again where there are too few.
fn for_all(options: &Options, mut group: Vec<datagrams::Socket>) -> std::io::Result<Datagrams> {
    let address = group[0].address()?;
    let there = group.len();
    if there > options.threads {
        let what = format!(
            "{there} UDP sockets share {address}, and -t {} leaves some without a worker; give -t {there}",
            options.threads
        );
        return Err(std::io::Error::other(what));
    }
    for index in there..options.threads {
        group.push(group[index % there].try_clone()?);
    }
    Ok((address, group))
}

/// Opens all sockets, or says which one cannot be opened.
fn listen(options: &Options) -> Result<Vec<Place>, OptionError> {
    let mut places = Vec::new();
    if let Some(path) = &options.unix_socket {
        let opened = Listener::unix(Path::new(path), options.unix_mask, options.listen_backlog);
        let socket = opened.map_err(|error| refused(&format!("-s {path}: cannot listen there"), error))?;
        places.push(Place { socket, guard: None });
    }
    for (address, guard, is_needed) in tcp_addresses(options)? {
        match Listener::tcp(address, options.listen_backlog) {
            Ok(socket) => places.push(Place { socket, guard }),
            Err(error) if is_needed => {
                let advice = advice_on_listening(error.kind());
                return Err(refused(&format!("cannot listen on {address} ({advice})"), error));
            }
            Err(_) => {}
        }
    }
    Ok(places)
}

/// Opens the sockets of datagrams: for each address one for every worker.
fn open_datagrams(options: &Options) -> Result<Vec<(SocketAddr, Vec<datagrams::Socket>)>, OptionError> {
    let mut all = Vec::new();
    let asked = options.udp_addresses().into_iter().map(|address| (address, ()));
    for (address, (), is_needed) in look_up("-l", asked)? {
        let opened = datagrams::Socket::group(address, options.threads)
            .and_then(|sockets| Ok((sockets[0].address()?, sockets)));
        match opened {
            Ok(opened) => all.push(opened),
            Err(error) if is_needed => {
                let advice = advice_on_listening(error.kind()).replace("-p", "-U");
                return Err(refused(
                    &format!("cannot serve UDP on {address} ({advice})"),
                    error,
                ));
            }
            Err(_) => {}
        }
    }
    Ok(all)
}

/// Opens the sockets where HTTP is answered, if that is asked for.
fn open_admin(options: &Options) -> Result<Vec<Listener>, OptionError> {
    let mut listeners = Vec::new();
    let asked = options.admin_address().into_iter().map(|address| (address, ()));
    for (address, (), is_needed) in look_up("-o admin", asked)? {
        match Listener::tcp(address, options.listen_backlog) {
            Ok(listener) => listeners.push(listener),
            Err(error) if is_needed => {
                let what = format!("-o admin: cannot listen on {address} (choose another address or port)");
                return Err(refused(&what, error));
            }
            Err(_) => {}
        }
    }
    Ok(listeners)
}

/// What to do where it cannot be listened.
pub fn advice_on_listening(error: std::io::ErrorKind) -> &'static str {
    match error {
        std::io::ErrorKind::AddrInUse => "another server is there; stop it, or choose another port with -p",
        std::io::ErrorKind::AddrNotAvailable => "it is no address of this machine; choose another with -l",
        std::io::ErrorKind::PermissionDenied => "ports below 1024 are for root; choose another with -p",
        _ => "choose another address with -l or port with -p",
    }
}

/// The socket addresses behind `-l` and `-p`, looked up, how each is guarded, and whether the server cannot do without it.
fn tcp_addresses(options: &Options) -> Result<Vec<(SocketAddr, Option<Certificate>, bool)>, OptionError> {
    look_up("-l", options.tcp_listeners())
}

/// Looks addresses up that `option` gave, each with what belongs to it, and whether the server cannot do without it.
///
/// # Errors
/// There is no such address.
pub fn look_up<'a, T: Copy>(
    option: &str,
    asked: impl IntoIterator<Item = (options::Address<'a>, T)>,
) -> Result<Vec<(SocketAddr, T, bool)>, OptionError> {
    let mut all = Vec::new();
    for ((host, port), with) in asked {
        let Some(host) = host else {
            all.push((SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)), with, true));
            // A machine may have no IPv6.
            all.push((SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)), with, false));
            continue;
        };
        let what =
            format!("{option} {host}: no such address; give one of this machine's, or 0.0.0.0 for all");
        let found = (host, port)
            .to_socket_addrs()
            .map_err(|error| refused(&what, error))?;
        all.extend(found.map(|address| (address, with, true)));
    }
    Ok(all)
}
