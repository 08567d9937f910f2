//! The client's side of a socket: connections that are opened here instead of accepted.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::socket::Socket;

/// How often a unix server whose backlog is full is asked again.
const RETRY: Duration = Duration::from_millis(1);

impl Socket {
    /// Connects to a TCP server; small requests are sent at once.
    ///
    /// # Errors
    /// Refused, unreachable, or no answer within `patience`.
    pub fn connect_tcp(address: SocketAddr, patience: Duration) -> io::Result<Socket> {
        let stream = TcpStream::connect_timeout(&address, patience)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Socket::of(OwnedFd::from(stream), true))
    }

    /// Connects to a server's unix socket.
    ///
    /// # Errors
    /// There is none, nobody listens, or its backlog stays full for `patience`.
    pub fn connect_unix(path: &Path, patience: Duration) -> io::Result<Socket> {
        let address = SocketAddrUnix::new(path.as_os_str().as_bytes())?;
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        let mut waited = Duration::ZERO;
        loop {
            match rustix::net::connect(&fd, &address) {
                Ok(()) => return Ok(Socket::of(fd, false)),
                Err(Errno::AGAIN) if waited < patience => std::thread::sleep(RETRY),
                Err(Errno::AGAIN) => return Err(io::ErrorKind::TimedOut.into()),
                Err(error) => return Err(error.into()),
            }
            waited += RETRY;
        }
    }

    /// A UDP socket that sends to `address` and receives from it alone; each read and write is one datagram.
    ///
    /// # Errors
    /// No descriptors or ports left. That nobody listens shows with the first read.
    pub fn connect_udp(address: SocketAddr) -> io::Result<Socket> {
        let any: SocketAddr = if address.is_ipv4() {
            (Ipv4Addr::UNSPECIFIED, 0).into()
        } else {
            (Ipv6Addr::UNSPECIFIED, 0).into()
        };
        let socket = UdpSocket::bind(any)?;
        socket.connect(address)?;
        socket.set_nonblocking(true)?;
        Ok(Socket::of(OwnedFd::from(socket), false))
    }
}
