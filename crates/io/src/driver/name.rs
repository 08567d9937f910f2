//! What sockets are called when somebody lists them, in memcached's way.

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};

use rustix::net::{SocketAddrAny, SocketAddrUnix};

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

fn say(protocol: &str, address: &SocketAddrAny) -> String {
    if let Ok(address) = SocketAddr::try_from(address.clone()) {
        let six = if address.is_ipv6() { "6" } else { "" };
        return format!("{protocol}{six}:{address}");
    }
    let unix = SocketAddrUnix::try_from(address.clone()).ok();
    let path = unix.as_ref().and_then(SocketAddrUnix::path_bytes);
    format!("unix:{}", String::from_utf8_lossy(path.unwrap_or_default()))
}
