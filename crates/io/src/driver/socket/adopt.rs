//! Sockets that another process opened, and how they get to another one.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::net::{AddressFamily, SocketAddrUnix, sockopt};

use super::{Listener, Socket};

impl Listener {
    /// A listening socket that another process opened. `path` is removed when this is dropped.
    ///
    /// # Errors
    /// It is no stream socket that listens.
    pub fn adopt(fd: OwnedFd, path: Option<PathBuf>) -> io::Result<Listener> {
        if !sockopt::socket_acceptconn(&fd)? {
            let what = "a socket that does not listen";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        rustix::io::ioctl_fionbio(&fd, true)?;
        if sockopt::socket_domain(&fd)? != AddressFamily::UNIX {
            sockopt::set_tcp_nodelay(&fd, true)?;
            sockopt::set_socket_keepalive(&fd, true)?;
        }
        Ok(Listener { fd, path })
    }

    /// The path that it is bound to; `None` for TCP.
    pub fn path(&self) -> Option<PathBuf> {
        let address = SocketAddrUnix::try_from(rustix::net::getsockname(&self.fd).ok()?).ok()?;
        let path = address.path_bytes()?;
        Some(Path::new(std::ffi::OsStr::from_bytes(path)).to_owned())
    }

    /// The path that is removed when this is dropped.
    pub fn own_path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Closes the socket here and leaves its path, which somebody else has now.
    pub fn leave_path(mut self) {
        self.path = None;
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Socket {
    /// A connected socket that another process accepted.
    ///
    /// # Errors
    /// It is no socket.
    pub fn adopt(fd: OwnedFd) -> io::Result<Socket> {
        let is_tcp = sockopt::socket_domain(&fd)? != AddressFamily::UNIX;
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Socket::of(fd, is_tcp))
    }
}

impl AsFd for Socket {
    /// # Panics
    /// If it is with a driver that has the file for itself; [`release`](crate::driver::Driver::release) gives it back.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpStream};
    use std::os::fd::AsFd;

    use super::{Listener, Socket};

    #[test]
    fn a_listener_is_adopted_with_its_address_and_other_sockets_are_refused() {
        let listener = Listener::tcp((Ipv4Addr::LOCALHOST, 0).into(), 16).unwrap();
        let address = listener.address().unwrap();
        let copy = listener.as_fd().try_clone_to_owned().unwrap();
        let adopted = Listener::adopt(copy, None).unwrap();
        drop(listener);
        let peer = TcpStream::connect(address).unwrap();
        assert_eq!((adopted.address(), adopted.path()), (Some(address), None));
        assert!(Listener::adopt(peer.as_fd().try_clone_to_owned().unwrap(), None).is_err());
        assert!(Socket::adopt(peer.into()).is_ok());
    }

    #[test]
    fn a_path_stays_when_its_listener_was_given_away() {
        let path = std::env::temp_dir().join(format!("scrubjay-adopt-{}", std::process::id()));
        let listener = Listener::unix(&path, 0o700, 16).unwrap();
        assert_eq!(listener.path().as_ref(), Some(&path));
        let copy = listener.as_fd().try_clone_to_owned().unwrap();
        listener.leave_path();
        assert!(path.exists());
        drop(Listener::adopt(copy, Some(path.clone())).unwrap());
        assert!(!path.exists());
    }
}
