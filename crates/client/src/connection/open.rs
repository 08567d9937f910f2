//! How a connection is made: connect, log in, ask what the server speaks.

use std::io::ErrorKind;
use std::time::Instant;

use super::stream::{Stream, Wire};
use super::{Connection, Patience};
use crate::config::{Config, Login};
use crate::placement::Server;
use crate::protocol::probe::Found;
use crate::protocol::{Form, Output, Probe, Settings};
use crate::standing::Standing;

/// Bytes of an answer that are read at once.
const ANSWER_LEN: usize = 512;
/// A login's answer is one line.
const LINE_LEN_MAX: usize = 2048;

/// How the answer of a server begins that expects TLS and was asked in the clear.
const TLS_ALERT: &[u8] = b"\x15\x03";
/// What to do if there is no connection at all.
const REACH: &str = "check that the server runs and can be reached";

/// A connection that is not in use yet.
struct Fresh<'a> {
    stream: Stream,
    patience: &'a Patience,
}

/// Makes a connection; gives what the server speaks, too. What it is known to speak is not asked again.
///
/// # Errors
/// Why not, in words. Nothing has been asked.
pub(crate) fn open(
    place: &Server,
    config: &Config,
    known: Option<Form>,
    standing: &Standing,
    patience: &Patience,
) -> Result<(Connection, Form), String> {
    let start = Instant::now();
    let mut fresh = Fresh::connect_and_log_in(place, config, patience)?;
    let form = match config.form.or(known) {
        Some(form) => {
            // With TLS 1.3 a server looks at our certificate when for us the handshake is over; a login would tell.
            if form == Form::Meta && config.tls.is_on() && config.login.is_none() {
                let answer = fresh.ask()?;
                answer.ok_or("the server ended the connection after the handshake; see its log")?;
            }
            form
        }
        None => match fresh.probe()? {
            Some(form) => form,
            None => {
                fresh = Fresh::connect_and_log_in(place, config, patience)?;
                Probe::default().ended()
            }
        },
    };
    let mut settings = Settings::new(form, first_ticket());
    settings.value_len_max = config.value_len_max;
    settings.order = config.order;
    standing.connected(start.elapsed());
    let connection = Connection::new(fresh.stream, settings, standing.clone(), config.spin);
    Ok((connection, form))
}

/// Connects and asks whether anybody is there. Whatever a server says, even that it wants a login, it is there.
///
/// # Errors
/// Why not, in words.
pub(crate) fn look(place: &Server, config: &Config, patience: &Patience) -> Result<(), String> {
    let fresh = Fresh::connect(place, config, patience)?;
    match fresh.ask()? {
        Some(_) => Ok(()),
        None => Err("it ended the connection".to_owned()),
    }
}

/// By chance, and far from where numbers end.
fn first_ticket() -> u64 {
    let mut bytes = [0; 8];
    let flags = rustix::rand::GetRandomFlags::empty();
    let drawn = rustix::rand::getrandom(&mut bytes, flags);
    // A system without chance still has a clock.
    let number = match drawn {
        Ok(8) => u64::from_ne_bytes(bytes),
        _ => std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(1, |time| time.as_nanos() as u64),
    };
    number >> 8
}

impl Fresh<'_> {
    fn connect<'a>(place: &Server, config: &Config, patience: &'a Patience) -> Result<Fresh<'a>, String> {
        let stream = Stream::connect(place, patience, config).map_err(|error| match error.kind() {
            ErrorKind::TimedOut => format!("no answer in {} ms; {REACH}", patience.total().as_millis()),
            // What TLS says says what to do.
            ErrorKind::Other => error.to_string(),
            _ => format!("{error}; {REACH}"),
        })?;
        Ok(Fresh { stream, patience })
    }

    fn connect_and_log_in<'a>(
        place: &Server,
        config: &Config,
        patience: &'a Patience,
    ) -> Result<Fresh<'a>, String> {
        let fresh = Fresh::connect(place, config, patience)?;
        if let Some(login) = &config.login {
            fresh.log_in(login)?;
        }
        Ok(fresh)
    }

    /// The login of memcached's text protocol: a `set` whose value is user and password.
    fn log_in(&self, login: &Login) -> Result<(), String> {
        let value = format!("{} {}", login.user, login.password);
        let request = format!("set login 0 0 {}\r\n{value}\r\n", value.len());
        self.send(request.as_bytes())?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n") && answer.len() < LINE_LEN_MAX {
            let mut buffer = [0; ANSWER_LEN];
            match self.receive(&mut buffer)? {
                0 => return Err("the server ended the connection at the login".to_owned()),
                len => answer.extend_from_slice(&buffer[..len]),
            }
        }
        match answer.as_slice() {
            b"STORED\r\n" => Ok(()),
            other => Err(format!(
                "the login of {:?} was refused: {}",
                login.user,
                String::from_utf8_lossy(other).trim_end()
            )),
        }
    }

    /// What the server speaks; none if it ended the connection at the question.
    fn probe(&self) -> Result<Option<Form>, String> {
        match self.ask()? {
            Some(Found::Form(form)) => Ok(Some(form)),
            Some(Found::Refused(error)) => Err(error.to_string()),
            None => Ok(None),
        }
    }

    fn ask(&self) -> Result<Option<Found>, String> {
        let mut probe = Probe::default();
        self.send(probe.request())?;
        loop {
            let mut buffer = [0; ANSWER_LEN];
            let len = match self.receive(&mut buffer)? {
                0 => return Ok(None),
                len => len,
            };
            if buffer.starts_with(TLS_ALERT) {
                return Err(
                    "the server speaks TLS on this port; set tls to yes, or give another port".to_owned(),
                );
            }
            if let Some(found) = probe.feed(&buffer[..len]).map_err(|broken| broken.to_string())? {
                return Ok(Some(found));
            }
        }
    }

    /// A few bytes, which a fresh socket always takes.
    fn send(&self, bytes: &[u8]) -> Result<(), String> {
        let output = Output::from(bytes.to_vec());
        match self.stream.send(&output) {
            Ok(len) if len == bytes.len() => Ok(()),
            Ok(_) => Err("the socket takes no bytes".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn receive(&self, buffer: &mut [u8]) -> Result<usize, String> {
        loop {
            match self.stream.receive(buffer, self.patience) {
                Ok(len) => return Ok(len),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if self.patience.is_over() {
                        let waited = self.patience.total().as_millis();
                        return Err(format!("connected, but no answer in {waited} ms"));
                    }
                }
                // Some end a connection so, at a question that they do not know.
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(0),
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}
