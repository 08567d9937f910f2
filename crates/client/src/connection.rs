//! One connection.

use std::io::{ErrorKind, IoSlice, Read, Write};
use std::time::{Duration, Instant};

use crate::config::Config;
use crate::error::Error;
use crate::placement;
use crate::protocol::probe::Found;
use crate::protocol::{Broken, Conversation, Form, Probe, Reply, Request, Settings};
use crate::socket::Stream;
use crate::standing::Standing;

/// Bytes that are read at once.
const READ_LEN: usize = 64 * 1024;

/// A connection on which one caller at a time asks.
#[derive(Debug)]
pub(crate) struct Connection {
    standing: Standing,
    stream: Stream,
    conversation: Conversation,
    timeout: Duration,
    read_timeout: Option<Duration>,
    buffer: Vec<u8>,
}

impl Connection {
    /// Connects, and asks what the server speaks.
    pub(crate) fn open(
        standing: &Standing,
        place: &placement::Server,
        config: &Config,
        deadline: Instant,
    ) -> Result<Connection, Error> {
        let refused = |error: std::io::Error| Error::Connect {
            server: standing.name().to_owned(),
            reason: error.to_string(),
        };
        let start = Instant::now();
        let within = config.connect_timeout.min(left(deadline));
        let stream = Stream::connect(place, within).map_err(refused)?;
        stream.keep_alive(config.keepalive).map_err(refused)?;
        standing.connected(start.elapsed());
        let mut connection = Connection {
            standing: standing.clone(),
            stream,
            conversation: Conversation::new(Settings::new(Form::Meta, 0)),
            timeout: config.timeout,
            read_timeout: config.read_timeout,
            buffer: vec![0; READ_LEN],
        };
        let form = match config.form {
            Some(form) => form,
            None => connection.probe(connection.sooner(deadline))?,
        };
        let mut settings = Settings::new(form, std::process::id().into());
        settings.order = config.order;
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
                        server: self.standing.name().to_owned(),
                        reason: error.to_string(),
                    });
                }
            }
        }
    }

    /// Asks, and waits for the reply. After an error that is a failure it must not be used again.
    pub(crate) fn call(
        &mut self,
        request: Request<'_>,
        start: Instant,
        deadline: Instant,
    ) -> Result<Reply, Error> {
        let deadline = self.sooner(deadline);
        let sampled = self.standing.recorder().is_sampled();
        let clock = || sampled.then(Instant::now);
        let quiet = request.is_quiet();
        let began = clock();
        let ticket = self.conversation.ask(request)?;
        let mut output = self.conversation.take_output();
        let written = clock();
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
            let came = clock();
            let fed = self.conversation.feed(&self.buffer[..len], &mut replies);
            for (of, reply) in replies.drain(..) {
                if of == ticket {
                    if let (Some(began), Some(written), Some(came)) = (began, written, came) {
                        let recorder = self.standing.recorder();
                        recorder.queued(written - start);
                        recorder.on_wire(came - written);
                        recorder.parsed((written - began) + came.elapsed());
                    }
                    return match reply.map_err(|reason| self.broken(reason))? {
                        Reply::Error(error) => Err(Error::Server {
                            server: self.standing.name().to_owned(),
                            error,
                        }),
                        reply => Ok(reply),
                    };
                }
            }
            fed.map_err(|reason| self.broken(reason))?;
        }
    }

    /// The deadline, or when this server must have answered.
    fn sooner(&self, deadline: Instant) -> Instant {
        match self.read_timeout {
            Some(timeout) => deadline.min(Instant::now() + timeout),
            None => deadline,
        }
    }

    fn write(&mut self, slices: &[IoSlice<'_>], deadline: Instant) -> Result<usize, Error> {
        self.stream.set_timeout(self.left(deadline)?);
        let len = self
            .stream
            .write_vectored(slices)
            .map_err(|error| self.failed(&error))?;
        self.standing.recorder().sent(len);
        Ok(len)
    }

    fn read(&mut self, deadline: Instant) -> Result<usize, Error> {
        self.stream.set_timeout(self.left(deadline)?);
        match self.stream.read(&mut self.buffer) {
            Ok(0) => Err(self.broken(Broken::Ended)),
            Ok(len) => {
                self.standing.recorder().received(len);
                Ok(len)
            }
            Err(error) => Err(self.failed(&error)),
        }
    }

    fn left(&self, deadline: Instant) -> Result<Duration, Error> {
        let left = left(deadline);
        if left.is_zero() {
            return Err(self.failed(&ErrorKind::TimedOut.into()));
        }
        Ok(left)
    }

    fn failed(&self, error: &std::io::Error) -> Error {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Error::TimedOut {
                server: self.standing.name().to_owned(),
                after: self.timeout,
            },
            _ => self.broken(Broken::Ended),
        }
    }

    fn broken(&self, reason: Broken) -> Error {
        Error::Broken {
            server: self.standing.name().to_owned(),
            reason,
        }
    }
}

/// The time until the deadline.
fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}
