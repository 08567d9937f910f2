//! The thread that follows what servers tell: one connection to each, for as long as there is the near cache.
//!
//! It never waits for one server while others have something to say: sockets do not block, and connections are made by threads
//! that live no longer than that takes.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use scrubjay_base::time::Now;

use super::copies::{Copies, add};
use super::stream::{Event, KNOWN_FOR_NANOS, Lost, Stream};
use super::{Clock, NearError};
use crate::config::Config;
use crate::connection::Patience;
use crate::connection::stream::{Stream as Socket, Wire};
use crate::placement::{Server, ServerIndex};
use crate::protocol::Output;

/// Bytes that are read at once.
const READ_LEN: usize = 64 << 10;

/// Reads of one connection before others have their turn.
const READS_PER_TURN: usize = 16;

/// Follows until it is dropped.
#[derive(Debug)]
pub(super) struct Follower {
    told: Arc<Told>,
    bell: UnixStream,
    thread: Option<JoinHandle<()>>,
    /// The process that has the thread: one that was forked from it has none, and nothing to wait for.
    process: u32,
}

/// What the thread and others share.
#[derive(Debug)]
struct Told {
    has_ended: AtomicBool,
    /// Why a server is not followed, for people.
    troubles: Box<[Mutex<String>]>,
}

/// How the first connection to a server went; what may pass by itself is all right.
type First = (usize, Result<(), Lost>);

/// Where it is told how the first connections went.
pub(super) struct Firsts(Receiver<First>);

impl Firsts {
    /// Waits until each server is followed, or cannot be reached.
    pub(super) fn wait(self, config: &Config) -> Result<(), NearError> {
        let mut heard_of = vec![false; config.servers.len()];
        // The thread tells of each server within the time-out of a connection and of a stream.
        while heard_of.contains(&false)
            && let Ok((server, went)) = self.0.recv()
        {
            heard_of[server] = true;
            if let Err(lost @ (Lost::NoStream | Lost::Refused(_))) = went {
                let server = name(&config.servers[server]);
                let reason = lost.to_string();
                return Err(NearError::NotTold { server, reason });
            }
        }
        Ok(())
    }
}

impl Follower {
    /// Starts to follow the servers of `config`.
    pub(super) fn start(
        config: &Config,
        copies: &Arc<Copies>,
        clock: Clock,
    ) -> Result<(Follower, Firsts), NearError> {
        let no_thread = |error: std::io::Error| NearError::Thread(error.to_string());
        let (bell, rung) = UnixStream::pair().map_err(no_thread)?;
        rung.set_nonblocking(true).map_err(no_thread)?;
        let told = Arc::new(Told {
            has_ended: AtomicBool::new(false),
            troubles: config.servers.iter().map(|_| Mutex::default()).collect(),
        });
        let (first, firsts) = channel();
        let mut work = Work {
            config: config.clone(),
            copies: Arc::clone(copies),
            clock,
            told: Arc::clone(&told),
            links: config
                .servers
                .iter()
                .map(|_| Link::Waiting(Now::default()))
                .collect(),
            made: channel(),
            bell: bell.try_clone().map_err(no_thread)?,
            first,
            buffer: vec![0; READ_LEN],
        };
        let thread = Builder::new().name("near cache".to_owned());
        let thread = thread.spawn(move || work.run(&rung)).map_err(no_thread)?;
        let follower = Follower {
            told,
            bell,
            thread: Some(thread),
            process: std::process::id(),
        };
        Ok((follower, Firsts(firsts)))
    }

    /// Why this server is not followed, as far as that is known.
    pub(super) fn trouble(&self, server: ServerIndex) -> String {
        locked(&self.told.troubles[server.get()]).clone()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            return;
        }
        self.told.has_ended.store(true, Ordering::Release);
        ring(&self.bell);
        // A panic there has been told of.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Ends the thread's waiting. If the bell is full of rings already, it will not wait anyway.
fn ring(mut bell: &UnixStream) {
    let _ = bell.write(b"!");
}

fn locked(text: &Mutex<String>) -> MutexGuard<'_, String> {
    text.lock().unwrap_or_else(PoisonError::into_inner)
}

fn name(server: &Server) -> String {
    match server.port {
        0 => server.host.clone(),
        port => format!("{}:{port}", server.host),
    }
}

/// A connection to one server, or when there will be one.
enum Link {
    Waiting(Now),
    Connecting,
    Up(Socket, Box<Stream>),
}

/// A connection that was made, or not.
type Made = (usize, std::io::Result<Socket>);

/// What the thread works on.
struct Work {
    config: Config,
    copies: Arc<Copies>,
    clock: Clock,
    told: Arc<Told>,
    links: Vec<Link>,
    made: (Sender<Made>, Receiver<Made>),
    bell: UnixStream,
    first: Sender<First>,
    buffer: Vec<u8>,
}

impl Work {
    fn run(&mut self, rung: &UnixStream) {
        while !self.told.has_ended.load(Ordering::Acquire) {
            let now = self.clock.now();
            for server in 0..self.links.len() {
                self.keep_up(server, now);
            }
            let readable = self.wait(rung);
            while let Ok((server, made)) = self.made.1.try_recv() {
                self.begin(server, made);
            }
            for server in readable {
                self.read(server);
            }
        }
    }

    /// Connects, or sends a number, if it is time.
    fn keep_up(&mut self, server: usize, now: Now) {
        match &mut self.links[server] {
            Link::Waiting(until) if *until <= now => self.connect(server),
            Link::Waiting(_) | Link::Connecting => {}
            Link::Up(socket, stream) => match stream.ping(now) {
                Ok(None) => {}
                Ok(Some(ping)) => {
                    if let Err(error) = send(socket, ping) {
                        self.lose(server, &error.to_string());
                    }
                }
                Err(lost) => self.give_up(server, lost),
            },
        }
    }

    /// Waits until there is something to do; the servers that have sent something.
    fn wait(&self, rung: &UnixStream) -> Vec<usize> {
        let mut servers = Vec::new();
        let mut sockets = vec![PollFd::new(rung, PollFlags::IN)];
        let mut due: Option<Now> = None;
        for (server, link) in self.links.iter().enumerate() {
            let at = match link {
                Link::Waiting(until) => *until,
                Link::Connecting => continue,
                Link::Up(socket, stream) => {
                    servers.push(server);
                    sockets.push(PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN));
                    stream.due()
                }
            };
            due = Some(due.map_or(at, |due| due.min(at)));
        }
        let now = self.clock.now();
        let left = due.map(|due| Duration::from_nanos(due.nanos_since(now)));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        if poll(&mut sockets, left.as_ref()).is_err() {
            // Interrupted: nothing is known of the sockets, and the next round asks again.
            return Vec::new();
        }
        // What was rung for is looked at anyway.
        let _ = (&*rung).read(&mut [0; 64]);
        let events = sockets[1..].iter().map(|socket| !socket.revents().is_empty());
        let ready = servers.into_iter().zip(events).filter(|(_, ready)| *ready);
        ready.map(|(server, _)| server).collect()
    }

    fn connect(&mut self, server: usize) {
        let place = self.config.servers[server].clone();
        let (config, made) = (self.config.of_server(&place), self.made.0.clone());
        let bell = self.bell.try_clone();
        let connect = move || {
            let patience = Patience::new(Instant::now(), config.connect_timeout);
            // Whoever waits for it may have ended.
            let _ = made.send((server, Socket::connect(&place, &patience, &config)));
            bell.iter().for_each(ring);
        };
        self.links[server] = Link::Connecting;
        let thread = Builder::new().name("near connect".to_owned());
        if let Err(error) = thread.spawn(connect) {
            self.lose(server, &format!("no thread to connect: {error}"));
        }
    }

    fn begin(&mut self, server: usize, made: std::io::Result<Socket>) {
        let (stream, request) = Stream::begin(self.config.login.as_ref(), self.clock.now());
        let sent = made.and_then(|socket| send(&socket, request).map(|()| socket));
        match sent {
            Ok(socket) => self.links[server] = Link::Up(socket, Box::new(stream)),
            Err(error) => self.lose(server, &format!("no connection: {error}")),
        }
    }

    fn read(&mut self, server: usize) {
        for _ in 0..READS_PER_TURN {
            let Link::Up(socket, stream) = &mut self.links[server] else {
                return;
            };
            let len = match socket.receive_now(&mut self.buffer) {
                Ok(0) => return self.lose(server, "the server has closed the connection"),
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => return self.lose(server, &error.to_string()),
            };
            let source = ServerIndex::new(server as u32);
            let (copies, first, prefix) = (&self.copies, &self.first, &self.config.prefix);
            let fed = stream.feed(&self.buffer[..len], &mut |event| match event {
                Event::Changed(key) => {
                    if let Some(key) = key.strip_prefix(prefix.as_slice()) {
                        copies.change(key);
                        add(&copies.counts.invalidations);
                    }
                }
                Event::Flush(_) => {
                    copies.flush(source);
                    add(&copies.counts.flushes);
                }
                Event::Known(at) => {
                    copies.believe(source, at.plus_nanos(KNOWN_FOR_NANOS));
                    // As in `give_up`.
                    let _ = first.send((server, Ok(())));
                }
            });
            if let Err(lost) = fed {
                return self.give_up(server, lost);
            }
        }
    }

    fn give_up(&mut self, server: usize, lost: Lost) {
        let why = lost.to_string();
        // Nobody waits for it but the first time.
        let _ = self.first.send((server, Err(lost)));
        self.lose(server, &why);
    }

    /// The server is not followed any more, and is tried again later.
    fn lose(&mut self, server: usize, why: &str) {
        if let Link::Up(..) = self.links[server] {
            add(&self.copies.counts.flushes);
        }
        // Whoever finds that it is not followed finds why.
        *locked(&self.told.troubles[server]) = why.to_owned();
        self.copies.doubt(ServerIndex::new(server as u32));
        let pause = self.config.retry_interval.as_nanos() as u64;
        self.links[server] = Link::Waiting(self.clock.now().plus_nanos(pause));
        // As in `give_up`.
        let _ = self.first.send((server, Ok(())));
    }
}

/// Sends some bytes at once. A server that has no room for them is as good as gone.
fn send(socket: &Socket, bytes: Vec<u8>) -> std::io::Result<()> {
    let mut output = Output::from(bytes);
    while !output.is_empty() {
        output.advance(socket.send(&output)?);
    }
    Ok(())
}
