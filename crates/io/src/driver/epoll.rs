//! The real driver: epoll over non-blocking sockets.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use scrubjay_base::time::Now;

use super::datagrams::{self, Inbox, Outbox};
use super::{Driver, Interest, Name, PeerAddress, Ready};
use crate::clock::Clock;

/// Events taken from the kernel at a time.
const EVENTS_MAX: usize = 512;

/// The token under which a waker reports; callers use smaller ones.
const WAKE_TOKEN: u64 = u64::MAX;

/// A listening socket; a unix socket's path is removed when it is dropped.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    path: Option<PathBuf>,
}

/// A connection.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    is_tcp: bool,
}

/// Wakes a driver's `wait` from any thread.
#[derive(Clone, Debug)]
pub struct Waker(Arc<OwnedFd>);

/// Sockets and readiness by epoll.
#[derive(Debug)]
pub struct Epoll {
    epoll: OwnedFd,
    wake: Arc<OwnedFd>,
    clock: Clock,
}

impl Waker {
    /// Makes the driver's next or present `wait` return. Safe to call in a signal handler.
    pub fn wake(&self) {
        // A full counter wakes as well.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }
}

impl Socket {
    /// A connected, non-blocking socket.
    pub(super) fn of(fd: OwnedFd, is_tcp: bool) -> Socket {
        Socket { fd, is_tcp }
    }
}

impl Epoll {
    /// A driver with nothing to watch.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn new(clock: Clock) -> io::Result<Epoll> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        epoll::add(&epoll, &*wake, EventData::new_u64(WAKE_TOKEN), EventFlags::IN)?;
        Ok(Epoll { epoll, wake, clock })
    }

    /// Something to wake this driver with.
    pub fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.wake))
    }

    /// As [`Driver::wait`], with a timeout in nanoseconds.
    ///
    /// # Errors
    /// As `wait`.
    pub fn wait_nanos(&mut self, nanos: u64, ready: &mut Vec<Ready>) -> io::Result<()> {
        // epoll itself counts milliseconds and rounds up; the queue can be waited for like any other descriptor.
        let timeout = Timespec {
            tv_sec: (nanos / 1_000_000_000) as i64,
            tv_nsec: (nanos % 1_000_000_000) as i64,
        };
        if nanos > 0 {
            let queue = &mut [PollFd::new(&self.epoll, PollFlags::IN)];
            match poll(queue, Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.wait(Some(0), ready)
    }
}

impl Listener {
    /// Listens on a TCP address; port 0 takes a free one. An IPv6 listener takes IPv6 only.
    ///
    /// # Errors
    /// The address is taken, not ours, or not allowed.
    pub fn tcp(address: SocketAddr, backlog: u32) -> io::Result<Listener> {
        let family = if address.is_ipv4() {
            AddressFamily::INET
        } else {
            AddressFamily::INET6
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_socket_reuseaddr(&fd, true)?;
        if address.is_ipv6() {
            sockopt::set_ipv6_v6only(&fd, true)?;
        }
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
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // It may be gone already, or ours no more.
            let _ = rustix::fs::unlink(path);
        }
    }
}

impl Driver for Epoll {
    type Socket = Socket;
    type Listener = Listener;
    type Datagrams = datagrams::Socket;

    fn now(&mut self) -> Now {
        self.clock.now()
    }

    fn wait(&mut self, timeout_ms: Option<u32>, ready: &mut Vec<Ready>) -> io::Result<()> {
        ready.clear();
        let timeout = timeout_ms.map(|ms| Timespec {
            tv_sec: i64::from(ms / 1000),
            tv_nsec: i64::from(ms % 1000) * 1_000_000,
        });
        let mut buffer = [MaybeUninit::uninit(); EVENTS_MAX];
        let events = match epoll::wait(&self.epoll, &mut buffer, timeout.as_ref()) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for event in events {
            let (token, flags) = (event.data.u64(), event.flags);
            if token == WAKE_TOKEN {
                let mut count = [0; 8];
                let _ = rustix::io::read(&*self.wake, &mut count);
                continue;
            }
            let gone = flags.intersects(EventFlags::HUP | EventFlags::ERR);
            ready.push(Ready {
                token,
                readable: gone || flags.contains(EventFlags::IN),
                writable: gone || flags.contains(EventFlags::OUT),
            });
        }
        Ok(())
    }

    fn add(&mut self, socket: &Socket, token: u64) -> io::Result<()> {
        Ok(epoll::add(
            &self.epoll,
            &socket.fd,
            EventData::new_u64(token),
            EventFlags::IN,
        )?)
    }

    fn change(&mut self, socket: &Socket, token: u64, interest: Interest) -> io::Result<()> {
        let flags = match interest {
            Interest::Read => EventFlags::IN,
            Interest::Write => EventFlags::OUT,
            Interest::ReadWrite => EventFlags::IN | EventFlags::OUT,
        };
        Ok(epoll::modify(
            &self.epoll,
            &socket.fd,
            EventData::new_u64(token),
            flags,
        )?)
    }

    fn add_listener(&mut self, listener: &Listener, token: u64) -> io::Result<()> {
        Ok(epoll::add(
            &self.epoll,
            &listener.fd,
            EventData::new_u64(token),
            EventFlags::IN,
        )?)
    }

    fn remove_listener(&mut self, listener: &Listener) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, &listener.fd)?)
    }

    fn add_datagrams(&mut self, socket: &datagrams::Socket, token: u64) -> io::Result<()> {
        Ok(epoll::add(
            &self.epoll,
            socket.fd(),
            EventData::new_u64(token),
            EventFlags::IN,
        )?)
    }

    fn receive(&mut self, socket: &mut datagrams::Socket, inbox: &mut Inbox) -> io::Result<()> {
        socket.receive(inbox)
    }

    fn send(&mut self, socket: &mut datagrams::Socket, outbox: &mut Outbox) -> usize {
        socket.send(outbox)
    }

    fn name(&self, socket: &Socket) -> Name {
        Name::of(&socket.fd, "tcp")
    }

    fn listener_name(&self, listener: &Listener) -> Name {
        Name::of(&listener.fd, "tcp")
    }

    fn datagrams_name(&self, socket: &datagrams::Socket) -> Name {
        Name::of(socket.fd(), "udp")
    }

    fn accept(&mut self, listener: &Listener) -> io::Result<(Socket, PeerAddress)> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (fd, address) = rustix::net::acceptfrom_with(&listener.fd, flags)?;
        let address = address.and_then(|any: SocketAddrAny| SocketAddr::try_from(any).ok());
        let Some(address) = address else {
            return Ok((Socket { fd, is_tcp: false }, PeerAddress::Unix));
        };
        sockopt::set_tcp_nodelay(&fd, true)?;
        sockopt::set_socket_keepalive(&fd, true)?;
        Ok((Socket { fd, is_tcp: true }, PeerAddress::Tcp(address)))
    }

    fn read(&mut self, socket: &Socket, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(&socket.fd, buffer)?)
    }

    fn write(&mut self, socket: &Socket, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        // One piece, the usual case, goes the shorter way through the kernel. A peer that went away is an error here,
        // not a signal.
        if let [piece] = pieces {
            return Ok(rustix::net::send(
                &socket.fd,
                piece,
                rustix::net::SendFlags::NOSIGNAL,
            )?);
        }
        let mut no_control = rustix::net::SendAncillaryBuffer::default();
        Ok(rustix::net::sendmsg(
            &socket.fd,
            pieces,
            &mut no_control,
            rustix::net::SendFlags::NOSIGNAL,
        )?)
    }

    fn end_input(&mut self, socket: &Socket) {
        // A socket that refuses is at its end already.
        let _ = rustix::net::shutdown(&socket.fd, rustix::net::Shutdown::Read);
    }

    fn acknowledge_now(&mut self, socket: &Socket) {
        if socket.is_tcp {
            // An optimisation: a socket that refuses is about to fail anyway.
            let _ = sockopt::set_tcp_quickack(socket.fd.as_fd(), true);
        }
    }
}
