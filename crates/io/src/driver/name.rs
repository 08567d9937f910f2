//! What sockets are called when somebody lists them, in memcached's way.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};

use rustix::net::{SocketAddrAny, SocketAddrUnix};

use super::PeerAddress;
use super::socket::Ends;

/// A socket's number and addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Name {
    /// Its descriptor in this process.
    pub descriptor: u64,
    /// Its own address, such as `tcp:127.0.0.1:11211`, `tcp6:[::1]:11211` or `unix:/path`.
    pub here: String,
    /// The address at the other end; of a Unix socket it is mostly without a path. Empty if there is no other end.
    pub there: String,
}

impl Name {
    /// Of a connection that has no descriptor, by a number that stands for one.
    pub(super) fn of_direct(number: u64, ends: &Ends) -> Name {
        let (here, there) = match ends {
            Ends::Tcp { here, there } => (say_internet("tcp", *here), say_internet("tcp", *there)),
            Ends::Unix(name) => (name.here.clone(), name.there.clone()),
        };
        Name {
            descriptor: number,
            here,
            there,
        }
    }

    pub(super) fn of(fd: impl AsFd, protocol: &str) -> Name {
        let text = |address: rustix::io::Result<SocketAddrAny>| {
            address.map_or(String::new(), |address| say(protocol, &address))
        };
        Name {
            descriptor: fd.as_fd().as_raw_fd() as u64,
            here: text(rustix::net::getsockname(&fd)),
            there: match rustix::net::getpeername(&fd) {
                Ok(Some(address)) => say(protocol, &address),
                // An unnamed peer has no address of any family.
                Ok(None) => "unix:".to_owned(),
                Err(_) => String::new(),
            },
        }
    }
}

/// Who is at the other end of a connection, or was: of one that was reset, `getpeername` would not tell any more.
pub(super) fn peer(fd: impl AsFd) -> Option<PeerAddress> {
    const SO_PEERNAME: libc::c_int = 28;
    let mut bytes = [0u8; 128];
    let mut len = bytes.len() as libc::socklen_t;
    // SAFETY: the descriptor is borrowed and so open; the kernel writes at most `len` bytes to `bytes`, which has so many, and
    // `len` itself; both outlive the call.
    let status = unsafe {
        libc::getsockopt(
            fd.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PEERNAME,
            bytes.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if status != 0 {
        return peer_if_connected(fd);
    }
    let port = u16::from_be_bytes([bytes[2], bytes[3]]);
    let ip: IpAddr = match i32::from(u16::from_ne_bytes([bytes[0], bytes[1]])) {
        libc::AF_INET => Ipv4Addr::from(*bytes[4..].first_chunk::<4>()?).into(),
        libc::AF_INET6 => Ipv6Addr::from(*bytes[8..].first_chunk::<16>()?).into(),
        _ => return Some(PeerAddress::Unix),
    };
    Some(PeerAddress::Tcp(SocketAddr::new(ip, port)))
}

/// As [`peer`], where the kernel does not know that question.
fn peer_if_connected(fd: impl AsFd) -> Option<PeerAddress> {
    let address = rustix::net::getpeername(fd).ok()?;
    let ip = address.and_then(|address| SocketAddr::try_from(address).ok());
    Some(ip.map_or(PeerAddress::Unix, PeerAddress::Tcp))
}

fn say_internet(protocol: &str, address: SocketAddr) -> String {
    let six = if address.is_ipv6() { "6" } else { "" };
    format!("{protocol}{six}:{address}")
}

fn say(protocol: &str, address: &SocketAddrAny) -> String {
    if let Ok(address) = SocketAddr::try_from(address.clone()) {
        return say_internet(protocol, address);
    }
    let unix = SocketAddrUnix::try_from(address.clone()).ok();
    let path = unix.as_ref().and_then(SocketAddrUnix::path_bytes);
    format!("unix:{}", String::from_utf8_lossy(path.unwrap_or_default()))
}
