//! The driver for every Linux: epoll over non-blocking sockets.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use scrubjay_base::time::Now;

use super::datagrams::{self, Inbox, Outbox};
use super::socket::{Listener, Socket};
use super::waker::Waker;
use super::{Driver, Interest, Name, PeerAddress, Ready, Released};
use crate::clock::Clock;
use crate::process;

/// Events taken from the kernel at a time.
const EVENTS_MAX: usize = 512;

/// The token under which a waker reports; callers use smaller ones.
const WAKE_TOKEN: u64 = u64::MAX;

/// Sockets and readiness by epoll.
#[derive(Debug)]
pub struct Epoll {
    epoll: OwnedFd,
    waker: Waker,
    clock: Clock,
}

impl Epoll {
    /// A driver with nothing to watch.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn new(clock: Clock) -> io::Result<Epoll> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let waker = Waker::new()?;
        let new = Epoll { epoll, waker, clock };
        new.watch(new.waker.fd(), WAKE_TOKEN)?;
        Ok(new)
    }

    /// From now on it is told when there is something to read.
    fn watch(&self, file: impl AsFd, token: u64) -> io::Result<()> {
        Ok(epoll::add(
            &self.epoll,
            file,
            EventData::new_u64(token),
            EventFlags::IN,
        )?)
    }

    pub(super) fn raw_fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }
}

impl Driver for Epoll {
    type Socket = Socket;
    type Listener = Listener;
    type Datagrams = datagrams::Socket;

    fn waker(&self) -> Option<Waker> {
        Some(self.waker.clone())
    }

    fn now(&mut self) -> Now {
        self.clock.now()
    }

    fn processor_nanos(&self) -> u64 {
        process::thread_nanos()
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
                self.waker.clear();
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

    fn wait_nanos(&mut self, nanos: u64, ready: &mut Vec<Ready>) -> io::Result<()> {
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

    fn add(&mut self, socket: &mut Socket, token: u64) -> io::Result<()> {
        self.watch(socket.fd(), token)
    }

    fn change(&mut self, socket: &Socket, token: u64, interest: Interest) -> io::Result<()> {
        let flags = match interest {
            Interest::Read => EventFlags::IN,
            Interest::Write => EventFlags::OUT,
            Interest::ReadWrite => EventFlags::IN | EventFlags::OUT,
            // That it was broken off is reported in any case: once, or whoever does not want to read would be woken for ever.
            Interest::Neither => EventFlags::ET,
        };
        Ok(epoll::modify(
            &self.epoll,
            socket.fd(),
            EventData::new_u64(token),
            flags,
        )?)
    }

    fn add_listener(&mut self, listener: &Listener, token: u64) -> io::Result<()> {
        self.watch(listener.fd(), token)
    }

    fn remove_listener(&mut self, listener: &Listener) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, listener.fd())?)
    }

    fn add_datagrams(&mut self, socket: &datagrams::Socket, token: u64) -> io::Result<()> {
        self.watch(socket.fd(), token)
    }

    fn receive(&mut self, socket: &mut datagrams::Socket, inbox: &mut Inbox) -> io::Result<()> {
        socket.receive(inbox)
    }

    fn send(&mut self, socket: &mut datagrams::Socket, outbox: &mut Outbox) -> usize {
        socket.send(outbox)
    }

    fn descriptor(&self, socket: &Socket) -> u64 {
        socket.fd().as_fd().as_raw_fd() as u64
    }

    fn last_peer(&self, socket: &Socket) -> Option<PeerAddress> {
        super::name::peer(socket.fd())
    }

    fn name(&self, socket: &Socket) -> Name {
        Name::of(socket.fd(), "tcp")
    }

    fn listener_name(&self, listener: &Listener) -> Name {
        Name::of(listener.fd(), "tcp")
    }

    fn datagrams_name(&self, socket: &datagrams::Socket) -> Name {
        Name::of(socket.fd(), "udp")
    }

    fn accept(&mut self, listener: &Listener) -> io::Result<(Socket, PeerAddress)> {
        listener.accept()
    }

    fn read(&mut self, socket: &Socket, buffer: &mut [u8]) -> io::Result<usize> {
        socket.read(buffer)
    }

    fn write(&mut self, socket: &Socket, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        socket.write(pieces)
    }

    fn end_input(&mut self, socket: &Socket) {
        socket.end_input();
    }

    fn end_output(&mut self, socket: &Socket) {
        socket.end_output();
    }

    fn release(&mut self, socket: Socket) -> io::Result<Released<Socket>> {
        epoll::delete(&self.epoll, socket.fd())?;
        let (input, output) = (Vec::new(), Vec::new());
        Ok(Released {
            socket,
            input,
            output,
            owed: 0,
        })
    }

    fn peer(&self, socket: &Socket) -> io::Result<PeerAddress> {
        socket.peer()
    }

    fn acknowledge_now(&mut self, socket: &Socket) {
        socket.acknowledge_now();
    }
}
