//! A connected socket. It is written to without waiting, and read from with or without.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, sockopt};

use super::Patience;
use crate::config::Config;
use crate::placement::Server;
use crate::protocol::Output;

/// Pieces of one write.
const SLICES_MAX: usize = 16;
/// What a wait may be longer than asked for, so that it is one system call instead of two.
const SLACK: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(crate) struct Stream {
    socket: OwnedFd,
    /// Whose it is: a child that has inherited it must not end it.
    process: u32,
    /// How long the system lets a read wait by itself.
    read_timeout: Duration,
}

/// How an idle connection is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quiet {
    /// Nothing has come.
    Yes,
    /// It has ended, or something has come that nobody has asked for.
    No,
}

impl Stream {
    /// Connects to one of the addresses of a name, or to a path. All of it within the patience, but for the look-up of the
    /// name, which the system bounds.
    pub(crate) fn connect(place: &Server, patience: &Patience, config: &Config) -> Result<Stream> {
        let read_timeout = config.read_timeout.unwrap_or(config.timeout);
        let socket = if place.host.starts_with('/') {
            let stream = UnixStream::connect(&place.host)?;
            stream.set_read_timeout(Some(read_timeout))?;
            OwnedFd::from(stream)
        } else {
            let addresses: Vec<SocketAddr> = (place.host.as_str(), place.port).to_socket_addrs()?.collect();
            let stream = connect_to_one(&addresses, patience)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(read_timeout))?;
            if let Some(from) = config.keepalive {
                sockopt::set_socket_keepalive(&stream, true)?;
                sockopt::set_tcp_keepidle(&stream, from)?;
            }
            OwnedFd::from(stream)
        };
        Ok(Stream {
            socket,
            process: std::process::id(),
            read_timeout,
        })
    }

    /// Writes what the system takes, with one call as a rule. [`ErrorKind::WouldBlock`] if it takes nothing.
    pub(crate) fn send(&self, output: &Output) -> Result<usize> {
        let mut slices = output.slices();
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let (Some(first), second) = (slices.next(), slices.next()) else {
            return Ok(0);
        };
        let Some(second) = second else {
            return Ok(rustix::io::retry_on_intr(|| {
                rustix::net::send(&self.socket, first, flags)
            })?);
        };
        let mut pieces = [IoSlice::new(&[]); SLICES_MAX];
        let mut count = 0;
        for slice in [first, second].into_iter().chain(slices).take(SLICES_MAX) {
            pieces[count] = IoSlice::new(slice);
            count += 1;
        }
        Ok(rustix::io::retry_on_intr(|| {
            let mut nothing = SendAncillaryBuffer::default();
            rustix::net::sendmsg(&self.socket, &pieces[..count], &mut nothing, flags)
        })?)
    }

    /// Reads what is there, waiting for it as long as the patience lasts; 0 if the peer has ended.
    /// [`ErrorKind::WouldBlock`] if nothing came.
    pub(crate) fn receive(&self, buffer: &mut [u8], patience: &Patience) -> Result<usize> {
        let left = patience.left();
        if left + SLACK >= self.read_timeout {
            let (len, _) = rustix::net::recv(&self.socket, buffer, RecvFlags::empty()).or_else(again)?;
            return Ok(len);
        }
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        poll(&mut fds, Some(left))?;
        if fds[0].revents().is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.receive_now(buffer)
    }

    /// Reads what is there.
    pub(crate) fn receive_now(&self, buffer: &mut [u8]) -> Result<usize> {
        let (len, _) = rustix::net::recv(&self.socket, buffer, RecvFlags::DONTWAIT).or_else(again)?;
        Ok(len)
    }

    /// Whether nothing has come, without taking it.
    pub(crate) fn is_quiet(&self) -> Quiet {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match rustix::net::recv(&self.socket, &mut [0u8; 1], flags) {
            Err(Errno::AGAIN | Errno::INTR) => Quiet::Yes,
            _ => Quiet::No,
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // A child that still has the socket open would keep the connection; and a child must not end its parent's.
        if self.process == std::process::id() {
            let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
        }
    }
}

/// Interrupted is the same as nothing: the caller looks at the time and comes again.
fn again<T>(error: Errno) -> Result<T> {
    match error {
        Errno::INTR => Err(ErrorKind::WouldBlock.into()),
        error => Err(error.into()),
    }
}

/// Waits for one of them, or until the time is up; an interruption counts as that.
pub(crate) fn poll(fds: &mut [PollFd<'_>], left: Option<Duration>) -> Result<()> {
    let left = left.map(|left| Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: left.subsec_nanos().into(),
    });
    match rustix::event::poll(fds, left.as_ref()) {
        Ok(_) => Ok(()),
        Err(Errno::INTR) => {
            fds.iter_mut().for_each(PollFd::clear_revents);
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// Tries one after the other, each with a fair share of the time that is left.
fn connect_to_one(addresses: &[SocketAddr], patience: &Patience) -> Result<TcpStream> {
    let mut last = Error::new(ErrorKind::NotFound, "the name has no address");
    for (index, address) in addresses.iter().enumerate() {
        let share = patience.left() / (addresses.len() - index) as u32;
        match TcpStream::connect_timeout(address, share.max(SLACK)) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}
