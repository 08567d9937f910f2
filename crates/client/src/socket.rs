//! A socket to a server: connected in time, without Nagle's delay, and looked after by the kernel when it is silent.

use std::io::{IoSlice, Read, Result, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::placement;

/// A connected socket.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// Connects to the first of the host's addresses that can be reached, within this time for all of them.
    pub(crate) fn connect(place: &placement::Server, within: Duration) -> Result<Stream> {
        if place.host.starts_with('/') {
            return connect_unix(&place.host, within).map(Stream::Unix);
        }
        let deadline = Instant::now() + within;
        let mut last = std::io::Error::other("the host has no address");
        for address in (place.host.as_str(), place.port).to_socket_addrs()? {
            let left = deadline.saturating_duration_since(Instant::now());
            match TcpStream::connect_timeout(&address, at_least_a_moment(left)) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(Stream::Tcp(stream));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Has the kernel ask whether the other end is still there, from so long a silence on.
    pub(crate) fn keep_alive(&self, from: Option<Duration>) -> Result<()> {
        let (Stream::Tcp(stream), Some(from)) = (self, from) else {
            return Ok(());
        };
        sockopt::set_socket_keepalive(stream, true)?;
        sockopt::set_tcp_keepidle(stream, from)?;
        Ok(())
    }

    /// How long a read or write may block.
    pub(crate) fn set_timeout(&self, within: Duration) {
        let within = Some(at_least_a_moment(within));
        // Never refused: it is above zero.
        let _ = match self {
            Stream::Tcp(stream) => stream
                .set_read_timeout(within)
                .and(stream.set_write_timeout(within)),
            Stream::Unix(stream) => stream
                .set_read_timeout(within)
                .and(stream.set_write_timeout(within)),
        };
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write_vectored(slices),
            Stream::Unix(stream) => stream.write_vectored(slices),
        }
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

/// As long as the other end has too many connections waiting, connecting blocks: the socket's time-out is for that as well.
fn connect_unix(path: &str, within: Duration) -> Result<UnixStream> {
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    sockopt::set_socket_timeout(&socket, Timeout::Send, Some(at_least_a_moment(within)))?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(UnixStream::from(socket))
}

/// Sockets take 0 for forever.
fn at_least_a_moment(time: Duration) -> Duration {
    time.max(Duration::from_millis(1))
}
