//! One connection.

use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::config::Config;
use crate::error::Error;
use crate::placement;
use crate::protocol::probe::Found;
use crate::protocol::{Broken, Conversation, Form, Probe, Reply, Request, Settings};

/// Bytes that are read at once.
const READ_LEN: usize = 64 * 1024;

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A connection on which one caller at a time asks.
#[derive(Debug)]
pub(crate) struct Connection {
    server: String,
    stream: Stream,
    conversation: Conversation,
    timeout: Duration,
    buffer: Vec<u8>,
}

impl Connection {
    /// Connects, and asks what the server speaks.
    pub(crate) fn open(
        server: String,
        place: &placement::Server,
        config: &Config,
        deadline: Instant,
    ) -> Result<Connection, Error> {
        let refused = |reason: String| Error::Connect {
            server: server.clone(),
            reason,
        };
        let within = config.connect_timeout.min(left(deadline));
        let stream = Stream::connect(place, within).map_err(|error| refused(error.to_string()))?;
        let mut connection = Connection {
            server: server.clone(),
            stream,
            conversation: Conversation::new(Settings::new(Form::Meta, 0)),
            timeout: config.timeout,
            buffer: vec![0; READ_LEN],
        };
        let form = match config.form {
            Some(form) => form,
            None => connection.probe(deadline)?,
        };
        let mut settings = Settings::new(form, std::process::id().into());
        settings.value_len_max = config.value_len_max;
        connection.conversation = Conversation::new(settings);
        Ok(connection)
    }

    fn probe(&mut self, deadline: Instant) -> Result<Form, Error> {
        let mut probe = Probe::default();
        self.write(&[IoSlice::new(probe.request())], deadline)?;
        loop {
            let len = self.read(deadline)?;
            match probe
                .feed(&self.buffer[..len])
                .map_err(|reason| self.broken(reason))?
            {
                None => {}
                Some(Found::Form(form)) => return Ok(form),
                Some(Found::Refused(error)) => {
                    return Err(Error::Connect {
                        server: self.server.clone(),
                        reason: error.to_string(),
                    });
                }
            }
        }
    }

    /// Asks, and waits for the reply. After an error that is a failure it must not be used again.
    pub(crate) fn call(&mut self, request: Request<'_>, deadline: Instant) -> Result<Reply, Error> {
        let quiet = request.is_quiet();
        let ticket = self.conversation.ask(request)?;
        let mut output = self.conversation.take_output();
        while !output.is_empty() {
            let slices: Vec<IoSlice<'_>> = output.slices().map(IoSlice::new).collect();
            let len = self.write(&slices, deadline)?;
            output.advance(len);
        }
        if quiet {
            return Ok(Reply::Alive);
        }
        let mut replies = Vec::new();
        loop {
            let len = self.read(deadline)?;
            let fed = self.conversation.feed(&self.buffer[..len], &mut replies);
            for (of, reply) in replies.drain(..) {
                if of == ticket {
                    return match reply.map_err(|reason| self.broken(reason))? {
                        Reply::Error(error) => Err(Error::Server {
                            server: self.server.clone(),
                            error,
                        }),
                        reply => Ok(reply),
                    };
                }
            }
            fed.map_err(|reason| self.broken(reason))?;
        }
    }

    fn write(&mut self, slices: &[IoSlice<'_>], deadline: Instant) -> Result<usize, Error> {
        self.stream.set_timeout(left(deadline));
        let written = match &mut self.stream {
            Stream::Tcp(stream) => stream.write_vectored(slices),
            Stream::Unix(stream) => stream.write_vectored(slices),
        };
        written.map_err(|error| self.failed(&error))
    }

    fn read(&mut self, deadline: Instant) -> Result<usize, Error> {
        self.stream.set_timeout(left(deadline));
        let read = match &mut self.stream {
            Stream::Tcp(stream) => stream.read(&mut self.buffer),
            Stream::Unix(stream) => stream.read(&mut self.buffer),
        };
        match read {
            Ok(0) => Err(self.broken(Broken::Ended)),
            Ok(len) => Ok(len),
            Err(error) => Err(self.failed(&error)),
        }
    }

    fn failed(&self, error: &std::io::Error) -> Error {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Error::TimedOut {
                server: self.server.clone(),
                after: self.timeout,
            },
            _ => self.broken(Broken::Ended),
        }
    }

    fn broken(&self, reason: Broken) -> Error {
        Error::Broken {
            server: self.server.clone(),
            reason,
        }
    }
}

impl Stream {
    fn connect(place: &placement::Server, within: Duration) -> std::io::Result<Stream> {
        if place.host.starts_with('/') {
            return UnixStream::connect(&place.host).map(Stream::Unix);
        }
        let mut last = ErrorKind::NotFound.into();
        for address in (place.host.as_str(), place.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, within) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(Stream::Tcp(stream));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn set_timeout(&self, within: Duration) {
        // Never refused: it is above zero.
        let _ = match self {
            Stream::Tcp(stream) => stream
                .set_read_timeout(Some(within))
                .and(stream.set_write_timeout(Some(within))),
            Stream::Unix(stream) => stream
                .set_read_timeout(Some(within))
                .and(stream.set_write_timeout(Some(within))),
        };
    }
}

/// The time until the deadline, at least a millisecond, as sockets take 0 for forever.
fn left(deadline: Instant) -> Duration {
    deadline
        .saturating_duration_since(Instant::now())
        .max(Duration::from_millis(1))
}
