//! A connected socket, encrypted or in the clear. It is written to without waiting, and read from with or without.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketAddrUnix, SocketFlags,
    SocketType,
};

use super::encrypted::Encrypted;
use super::{Desk, Patience};
use crate::config::Config;
use crate::placement::Server;
use crate::protocol::Output;

/// Pieces of one write.
const SLICES_MAX: usize = 16;
/// What a wait may be longer than asked for, so that it is one system call instead of two.
const SLACK: Duration = Duration::from_millis(1);

/// What a connection needs of its socket.
pub(crate) trait Wire {
    /// Writes what the system takes, with one call as a rule. [`ErrorKind::WouldBlock`] if it takes nothing.
    fn send(&self, output: &Output) -> Result<usize>;
    /// Reads what is there, waiting for it as long as the patience lasts; 0 if the peer has ended.
    /// [`ErrorKind::WouldBlock`] if nothing came.
    fn receive(&self, buffer: &mut [u8], patience: &Patience) -> Result<usize>;
    /// Reads what is there.
    fn receive_now(&self, buffer: &mut [u8]) -> Result<usize>;
    /// Whether nothing has come; what has may be lost. The reader asks it.
    fn is_quiet(&self) -> Quiet;
    /// Waits until something can be written, or read if that is to be waited for, too, or the desk is called. Gives
    /// whether there is something to read.
    fn wait(&self, reading: bool, desk: &Desk, patience: &Patience) -> bool;
}

/// A connected socket, and the encryption of what goes over it.
#[derive(Debug)]
pub(crate) struct Stream {
    socket: Socket,
    encrypted: Option<Box<Encrypted>>,
}

#[derive(Debug)]
struct Socket {
    fd: OwnedFd,
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
    /// Connects to one of the addresses of a name, or to a path, with the handshake if it is to be encrypted. All of it within
    /// the patience, but for the look-up of the name, which the system bounds.
    pub(crate) fn connect(place: &Server, patience: &Patience, config: &Config) -> Result<Stream> {
        let socket = Socket::connect(place, patience, config)?;
        let encrypted = match config.tls.is_on() {
            false => None,
            true => {
                let tls = config.tls.open_to(place).map_err(Error::other)?;
                let (put, take) = (
                    |bytes: &[u8]| socket.put(bytes),
                    |room: &mut [u8]| socket.take(room),
                );
                Some(Box::new(Encrypted::begin(
                    &socket.fd, tls, patience, &put, &take,
                )?))
            }
        };
        Ok(Stream { socket, encrypted })
    }
}

impl Socket {
    fn connect(place: &Server, patience: &Patience, config: &Config) -> Result<Socket> {
        let read_timeout = config.read_timeout.unwrap_or(config.timeout);
        let fd = if place.host.starts_with('/') {
            let stream = connect_unix(&place.host, patience)?;
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
        Ok(Socket {
            fd,
            process: std::process::id(),
            read_timeout,
        })
    }

    /// Writes what the system takes.
    fn put(&self, bytes: &[u8]) -> Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        Ok(rustix::io::retry_on_intr(|| {
            rustix::net::send(&self.fd, bytes, flags)
        })?)
    }

    fn put_all(&self, output: &Output) -> Result<usize> {
        let mut slices = output.slices();
        let (Some(first), second) = (slices.next(), slices.next()) else {
            return Ok(0);
        };
        let Some(second) = second else {
            return self.put(first);
        };
        let mut pieces = [IoSlice::new(&[]); SLICES_MAX];
        let mut count = 0;
        for slice in [first, second].into_iter().chain(slices).take(SLICES_MAX) {
            pieces[count] = IoSlice::new(slice);
            count += 1;
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        Ok(rustix::io::retry_on_intr(|| {
            let mut nothing = SendAncillaryBuffer::default();
            rustix::net::sendmsg(&self.fd, &pieces[..count], &mut nothing, flags)
        })?)
    }

    /// Reads what is there, waiting for it as long as the patience lasts.
    fn take_within(&self, buffer: &mut [u8], patience: &Patience) -> Result<usize> {
        let left = patience.left();
        if left + SLACK >= self.read_timeout {
            let (len, _) = rustix::net::recv(&self.fd, buffer, RecvFlags::empty()).or_else(again)?;
            return Ok(len);
        }
        let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
        poll(&mut fds, Some(left))?;
        if fds[0].revents().is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.take(buffer)
    }

    /// Reads what is there.
    fn take(&self, buffer: &mut [u8]) -> Result<usize> {
        let (len, _) = rustix::net::recv(&self.fd, buffer, RecvFlags::DONTWAIT).or_else(again)?;
        Ok(len)
    }
}

impl Wire for Stream {
    fn send(&self, output: &Output) -> Result<usize> {
        match &self.encrypted {
            None => self.socket.put_all(output),
            Some(encrypted) => encrypted.send(output, &|bytes| self.socket.put(bytes)),
        }
    }

    fn receive(&self, buffer: &mut [u8], patience: &Patience) -> Result<usize> {
        let take = |room: &mut [u8]| self.socket.take_within(room, patience);
        match &self.encrypted {
            None => take(buffer),
            Some(encrypted) => encrypted.receive(buffer, &|bytes| self.socket.put(bytes), &take),
        }
    }

    fn receive_now(&self, buffer: &mut [u8]) -> Result<usize> {
        let take = |room: &mut [u8]| self.socket.take(room);
        match &self.encrypted {
            None => take(buffer),
            Some(encrypted) => encrypted.receive(buffer, &|bytes| self.socket.put(bytes), &take),
        }
    }

    fn is_quiet(&self) -> Quiet {
        if self.encrypted.is_some() {
            // There may be what TLS has to say, and nobody asks for.
            return match self.receive_now(&mut [0]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => Quiet::Yes,
                _ => Quiet::No,
            };
        }
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match rustix::net::recv(&self.socket.fd, &mut [0u8; 1], flags) {
            Err(Errno::AGAIN | Errno::INTR) => Quiet::Yes,
            _ => Quiet::No,
        }
    }

    fn wait(&self, reading: bool, desk: &Desk, patience: &Patience) -> bool {
        if !desk.start_polling() {
            return false;
        }
        let input = if reading {
            PollFlags::IN
        } else {
            PollFlags::empty()
        };
        let bell = desk.bell();
        let mut fds = vec![PollFd::new(&self.socket.fd, PollFlags::OUT | input)];
        fds.extend(bell.as_ref().map(|bell| PollFd::new(bell, PollFlags::IN)));
        // If it cannot wait, the caller tries again until the time is up.
        let _ = poll(&mut fds, Some(patience.left()));
        let found = fds[0].revents();
        let rung = fds.get(1).is_some_and(|bell| !bell.revents().is_empty());
        desk.stop_polling(rung);
        found.intersects(PollFlags::IN | PollFlags::ERR | PollFlags::HUP)
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.fd.as_fd()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // A child that still has the socket open would keep the connection; and a child must not end its parent's.
        if self.socket.process == std::process::id() {
            if let Some(encrypted) = &self.encrypted {
                encrypted.close(&|bytes| self.socket.put(bytes));
            }
            let _ = rustix::net::shutdown(&self.socket.fd, Shutdown::Both);
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

/// As long as the other end has too many connections waiting, connecting blocks: the socket's time-out is for that as well.
fn connect_unix(path: &str, patience: &Patience) -> Result<UnixStream> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    // Sockets take 0 for forever.
    let left = patience.left().max(SLACK);
    sockopt::set_socket_timeout(&socket, Timeout::Send, Some(left))?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(UnixStream::from(socket))
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
