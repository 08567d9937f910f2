//! One connection under load: what is in flight on it, what is still to be sent, and what has come of a reply so far.

use std::io::ErrorKind;
use std::sync::Arc;

use scrubjay_io::driver::{Driver, Interest, Socket};

use crate::exchange::{Exchange, Outcome, Terms, Waiting};
use crate::transport::{Transport, advice};

/// A connection with its requests.
#[derive(Debug)]
pub(crate) struct Lane {
    /// None where it is closed until the next request.
    transport: Option<Transport>,
    /// What it is reported under.
    token: u64,
    pub(crate) exchange: Exchange,
    /// Requests that are not sent yet, from `sent` on.
    pub(crate) output: Vec<u8>,
    sent: usize,
    /// The beginning of a reply whose end has not come.
    input: Vec<u8>,
    interest: Interest,
    /// When something last went forward, in nanoseconds.
    pub(crate) moved: u64,
    /// It is in its thread's queue of lanes with room for a request.
    pub(crate) is_listed: bool,
}

impl Lane {
    /// A closed one.
    pub(crate) fn new(token: u64, terms: Arc<Terms>) -> Lane {
        Lane {
            transport: None,
            token,
            exchange: Exchange::new(terms),
            output: Vec::new(),
            sent: 0,
            input: Vec::new(),
            interest: Interest::Read,
            moved: 0,
            is_listed: false,
        }
    }

    /// Goes by this connection from now on, and has the driver report it.
    pub(crate) fn open(
        &mut self,
        mut transport: Transport,
        driver: &mut impl Driver<Socket = Socket>,
    ) -> Result<(), String> {
        self.interest = Interest::Read;
        let added = driver.add(transport.socket_mut(), self.token);
        self.transport = Some(transport);
        added.map_err(|why| format!("a connection cannot be watched: {why}"))
    }

    /// Whether there is no connection.
    pub(crate) fn is_closed(&self) -> bool {
        self.transport.is_none()
    }

    /// Gives up the connection, on which nothing is in flight; dropped, it is closed.
    pub(crate) fn close(&mut self) -> Option<Transport> {
        self.input.clear();
        self.transport.take()
    }

    /// Whether replies may be lost without the connection being.
    pub(crate) fn is_lossy(&self) -> bool {
        matches!(self.transport, Some(Transport::Datagrams(_)))
    }

    /// Gives up what is in flight and returns how many keys that were.
    pub(crate) fn give_up(&mut self) -> u64 {
        let lost = self.exchange.waiting().count() as u64;
        self.exchange.forget();
        self.input.clear();
        self.output.clear();
        self.sent = 0;
        lost
    }

    /// Sends what there is to send, as far as it is taken.
    pub(crate) fn send(&mut self, driver: &mut impl Driver<Socket = Socket>) -> Result<(), String> {
        let Some(transport) = &mut self.transport else {
            return Ok(());
        };
        while self.sent < self.output.len() || transport.has_unsent() {
            match transport.send(driver, &self.output[self.sent..]) {
                Ok(len) => self.sent += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.lost(&error)),
            }
        }
        let is_all_taken = self.sent == self.output.len();
        if is_all_taken {
            self.output.clear();
            self.sent = 0;
        }
        let interest = if is_all_taken && !transport.has_unsent() {
            Interest::Read
        } else {
            Interest::ReadWrite
        };
        if interest != self.interest {
            self.interest = interest;
            let changed = driver.change(transport.socket(), self.token, interest);
            changed.map_err(|why| format!("a connection cannot be watched: {why}"))?;
        }
        Ok(())
    }

    /// Receives once and takes the replies that are whole; `note` is called with each. Returns the bytes that came, 0 if none
    /// were there.
    pub(crate) fn receive(
        &mut self,
        driver: &mut impl Driver<Socket = Socket>,
        room: &mut [u8],
        note: impl FnMut(&Waiting, Outcome<'_>),
    ) -> Result<usize, String> {
        let Some(transport) = &mut self.transport else {
            return Ok(0);
        };
        let received = transport.receive(driver, room);
        if transport.has_unsent() {
            // The next step of a handshake, whatever came.
            self.send(driver)?;
        }
        let len = match received {
            Ok(0) => return Err("the server closed the connection".to_owned()),
            Ok(len) => len,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Ok(0);
            }
            Err(error) => return Err(self.lost(&error)),
        };
        if self.input.is_empty() {
            let used = self.exchange.take(&room[..len], note)?;
            self.input.extend_from_slice(&room[used..len]);
        } else {
            self.input.extend_from_slice(&room[..len]);
            let used = self.exchange.take(&self.input, note)?;
            self.input.drain(..used);
        }
        Ok(len)
    }

    fn lost(&self, error: &std::io::Error) -> String {
        let waiting = self.exchange.waiting().count();
        format!(
            "the connection was lost with {waiting} requests in flight: {error}; {}",
            advice(error)
        )
    }
}
