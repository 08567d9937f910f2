//! The client's side of a socket: connections that are opened here instead of accepted.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use super::socket::{Socket, internet};

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

    /// Begins to connect to a TCP server. It can be written to when it is connected; that it could not be shows with the first
    /// write or read.
    ///
    /// # Errors
    /// No descriptors or ports left, or unreachable.
    pub fn begin_tcp(address: SocketAddr) -> io::Result<Socket> {
        let fd = internet(&address, SocketType::STREAM)?;
        sockopt::set_tcp_nodelay(&fd, true)?;
        match rustix::net::connect(&fd, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(Socket::of(fd, true)),
            Err(error) => Err(error.into()),
        }
    }

    /// Connects to a server's unix socket.
    ///
    /// # Errors
    /// There is none, nobody listens, or its backlog stays full for `patience`.
    pub fn connect_unix(path: &Path, patience: Duration) -> io::Result<Socket> {
        let address = SocketAddrUnix::new(path.as_os_str().as_bytes())?;
        let fd = rustix::net::socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        // Blocking, it waits in the kernel for room in the backlog; the time to send bounds that too. None at all would mean
        // any time.
        let patience = patience.max(Duration::from_micros(1));
        sockopt::set_socket_timeout(&fd, sockopt::Timeout::Send, Some(patience))?;
        match rustix::io::retry_on_intr(|| rustix::net::connect(&fd, &address)) {
            Err(Errno::AGAIN) => return Err(io::ErrorKind::TimedOut.into()),
            connected => connected?,
        }
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Socket::of(fd, false))
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::time::Duration;

    use super::Socket;
    use crate::driver::Listener;

    #[test]
    fn a_unix_server_that_does_not_accept_is_waited_for_in_vain() {
        let name = format!("scrubjay-connect-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let patience = Duration::from_millis(5);
        let refused = |path| {
            Socket::connect_unix(path, patience)
                .expect_err("nobody is there")
                .kind()
        };
        assert_eq!(refused(&path), ErrorKind::NotFound);
        let listener = Listener::unix(&path, 0o700, 1).unwrap();
        let mut waiting = Vec::new();
        let error = loop {
            match Socket::connect_unix(&path, patience) {
                Ok(socket) => waiting.push(socket),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(!waiting.is_empty());
        drop(listener);
        assert_eq!(refused(&path), ErrorKind::NotFound);
    }
}
