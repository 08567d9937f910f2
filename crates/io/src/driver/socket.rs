//! Sockets of either real driver: how they are opened, accepted, read and written directly.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use super::{Name, PeerAddress};

mod adopt;

/// A socket that no driver keeps a place for.
const NO_PLACE: u32 = u32::MAX;

/// A listening socket; a unix socket's path is removed when it is dropped.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    path: Option<PathBuf>,
}

/// A connection.
#[derive(Debug)]
pub struct Socket {
    /// None while its driver has the file for itself.
    fd: Option<OwnedFd>,
    is_tcp: bool,
    /// The place that its driver keeps for it, if it keeps any.
    place: Cell<u32>,
}

/// Where both ends of a connection are.
#[derive(Debug)]
pub(super) enum Ends {
    /// Of a TCP connection.
    Tcp { here: SocketAddr, there: SocketAddr },
    /// Of one that has a name only.
    Unix(Box<Name>),
}

impl Socket {
    /// A connected, non-blocking socket.
    pub(super) fn of(fd: OwnedFd, is_tcp: bool) -> Socket {
        Socket {
            fd: Some(fd),
            is_tcp,
            place: Cell::new(NO_PLACE),
        }
    }

    /// Two connections whose other end is the other one.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn pair() -> io::Result<(Socket, Socket)> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (one, other) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        Ok((Socket::of(one, false), Socket::of(other, false)))
    }

    /// Its descriptor.
    ///
    /// # Panics
    /// If its driver has the file for itself: nobody but that driver knows of such a connection.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        let fd = self
            .fd
            .as_ref()
            .expect("its driver has the file and was not asked");
        fd.as_fd()
    }

    pub(super) fn raw_fd(&self) -> RawFd {
        self.fd().as_raw_fd()
    }

    /// The place of a connection whose driver has the file for itself.
    pub(super) fn direct_place(&self) -> Option<u32> {
        self.place().filter(|_| self.fd.is_none())
    }

    /// Both addresses, if the other end is there.
    pub(super) fn ends(&self) -> Option<Ends> {
        if !self.is_tcp {
            return Some(Ends::Unix(Box::new(Name::of(self.fd(), "tcp"))));
        }
        let here = rustix::net::getsockname(self.fd()).ok()?;
        let there = rustix::net::getpeername(self.fd()).ok()??;
        Some(Ends::Tcp {
            here: here.try_into().ok()?,
            there: there.try_into().ok()?,
        })
    }

    /// The driver has the file for itself from now on; the descriptor is closed.
    pub(super) fn close_descriptor(&mut self) {
        self.fd = None;
    }

    /// The driver gave the file back.
    pub(super) fn give_descriptor(&mut self, fd: OwnedFd) {
        self.fd = Some(fd);
    }

    pub(super) fn place(&self) -> Option<u32> {
        Some(self.place.get()).filter(|&place| place != NO_PLACE)
    }

    pub(super) fn set_place(&self, place: u32) {
        self.place.set(place);
    }

    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        receive(self.fd(), buffer)
    }

    pub(super) fn write(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        send_all(self.fd(), pieces)
    }

    pub(super) fn end_input(&self) {
        shut_down(self.fd(), Shutdown::Read);
    }

    pub(super) fn end_output(&self) {
        shut_down(self.fd(), Shutdown::Write);
    }

    /// No driver keeps a place for it any more.
    pub(super) fn leave_place(&self) {
        self.place.set(NO_PLACE);
    }

    pub(super) fn peer(&self) -> io::Result<PeerAddress> {
        if !self.is_tcp {
            return Ok(PeerAddress::Unix);
        }
        let address = rustix::net::getpeername(self.fd())?;
        let address = address.and_then(|any| SocketAddr::try_from(any).ok());
        address
            .map(PeerAddress::Tcp)
            .ok_or(io::ErrorKind::NotConnected.into())
    }

    pub(super) fn acknowledge_now(&self) {
        if self.is_tcp {
            acknowledge(self.fd());
        }
    }
}

impl Listener {
    /// Listens on a TCP address; port 0 takes a free one. An IPv6 listener takes IPv6 only.
    ///
    /// # Errors
    /// The address is taken, not ours, or not allowed.
    pub fn tcp(address: SocketAddr, backlog: u32) -> io::Result<Listener> {
        let fd = internet(&address, SocketType::STREAM)?;
        sockopt::set_socket_reuseaddr(&fd, true)?;
        if address.is_ipv6() {
            sockopt::set_ipv6_v6only(&fd, true)?;
        }
        // Connections take these over from their listener, which saves each two system calls.
        sockopt::set_tcp_nodelay(&fd, true)?;
        sockopt::set_socket_keepalive(&fd, true)?;
        rustix::net::bind(&fd, &address)?;
        rustix::net::listen(&fd, backlog.min(i32::MAX as u32) as i32)?;
        Ok(Listener { fd, path: None })
    }

    /// Listens on a unix socket whose permissions are `0777 & mode`. A socket left behind by a dead server is replaced.
    ///
    /// # Errors
    /// The path is taken by something that is no socket or by a server that answers, or not allowed.
    pub fn unix(path: &Path, mode: u32, backlog: u32) -> io::Result<Listener> {
        let address = SocketAddrUnix::new(path.as_os_str().as_bytes())?;
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = || rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
        if let Ok(stat) = rustix::fs::lstat(path)
            && rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Socket
            && rustix::net::connect(&socket()?, &address) == Err(Errno::CONNREFUSED)
        {
            rustix::fs::unlink(path)?;
        }
        let fd = socket()?;
        let old_mask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(!(mode & 0o777) & 0o777));
        let bound = rustix::net::bind(&fd, &address);
        rustix::process::umask(old_mask);
        bound?;
        rustix::net::listen(&fd, backlog.min(i32::MAX as u32) as i32)?;
        Ok(Listener {
            fd,
            path: Some(path.to_path_buf()),
        })
    }

    /// The TCP address it listens on, with the real port; `None` for a unix socket.
    pub fn address(&self) -> Option<SocketAddr> {
        rustix::net::getsockname(&self.fd)
            .ok()
            .and_then(|any| SocketAddr::try_from(any).ok())
    }

    pub(super) fn fd(&self) -> impl AsFd {
        self.fd.as_fd()
    }

    pub(super) fn accept(&self) -> io::Result<(Socket, PeerAddress)> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (fd, address) = rustix::net::acceptfrom_with(&self.fd, flags)?;
        let address = address.and_then(|any: SocketAddrAny| SocketAddr::try_from(any).ok());
        let Some(address) = address else {
            return Ok((Socket::of(fd, false), PeerAddress::Unix));
        };
        Ok((Socket::of(fd, true), PeerAddress::Tcp(address)))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // It may be gone already, or ours no more.
            let _ = rustix::fs::unlink(path);
        }
    }
}

/// A socket of the family of `address` that does not block; it is neither bound nor connected.
pub(super) fn internet(address: &SocketAddr, kind: SocketType) -> io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(rustix::net::socket_with(family, kind, flags, None)?)
}

/// Reads from a connection.
pub(super) fn receive(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    // `recv`, not `read`: a shorter way through the kernel.
    let (_, len) = rustix::net::recv(fd, buffer, rustix::net::RecvFlags::empty())?;
    Ok(len)
}

/// Writes to a connection.
pub(super) fn send_all(fd: BorrowedFd<'_>, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
    // One piece, the usual case, goes the shorter way through the kernel. A peer that went away is an error here,
    // not a signal.
    let flags = rustix::net::SendFlags::NOSIGNAL;
    if let [piece] = pieces {
        return Ok(rustix::net::send(fd, piece, flags)?);
    }
    let mut no_control = rustix::net::SendAncillaryBuffer::default();
    Ok(rustix::net::sendmsg(fd, pieces, &mut no_control, flags)?)
}

/// Ends one direction of a connection.
pub(super) fn shut_down(fd: BorrowedFd<'_>, how: Shutdown) {
    // A socket that refuses is at its end already.
    let _ = rustix::net::shutdown(fd, how);
}

/// Sends the acknowledgement of what has come.
pub(super) fn acknowledge(fd: BorrowedFd<'_>) {
    // An optimisation: a socket that refuses is about to fail anyway.
    let _ = sockopt::set_tcp_quickack(fd, true);
}

/// Writes to a socket that is known by number.
pub(super) fn send(fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: a number that means another file by now is a mistake of the caller's, but breaks no rule of memory: it is
    // borrowed for this call only, and drivers close a connection's file after they forgot its number.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    Ok(rustix::net::send(fd, bytes, rustix::net::SendFlags::NOSIGNAL)?)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpStream};

    use rustix::net::sockopt;

    use super::Listener;

    #[test]
    fn an_accepted_connection_sends_at_once_and_notices_a_peer_that_is_gone() {
        let listener = Listener::tcp((Ipv4Addr::LOCALHOST, 0).into(), 16).unwrap();
        let peer = TcpStream::connect(listener.address().unwrap()).unwrap();
        let (socket, address) = loop {
            match listener.accept() {
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                accepted => break accepted.unwrap(),
            }
        };
        assert_eq!(address, super::PeerAddress::Tcp(peer.local_addr().unwrap()));
        assert!(sockopt::tcp_nodelay(socket.fd()).unwrap());
        assert!(sockopt::socket_keepalive(socket.fd()).unwrap());
    }
}
