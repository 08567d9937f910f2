//! One connection under load: what is in flight on it, what is still to be sent, and what has come of a reply so far.

use std::io::ErrorKind;
use std::sync::Arc;

use scrubjay_io::driver::epoll::Epoll;
use scrubjay_io::driver::{Driver, Interest};

use crate::exchange::{Exchange, Outcome, Terms, Waiting};
use crate::transport::Transport;

/// A connection with its requests.
#[derive(Debug)]
pub(crate) struct Lane {
    transport: Transport,
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
    pub(crate) fn new(transport: Transport, terms: Arc<Terms>) -> Lane {
        Lane {
            transport,
            exchange: Exchange::new(terms),
            output: Vec::new(),
            sent: 0,
            input: Vec::new(),
            interest: Interest::Read,
            moved: 0,
            is_listed: false,
        }
    }

    /// Has the driver report this lane under `token`.
    pub(crate) fn watch(&self, driver: &mut Epoll, token: u64) -> Result<(), String> {
        let added = driver.add(self.transport.socket(), token);
        added.map_err(|why| format!("a connection cannot be watched: {why}"))
    }

    /// Whether replies may be lost without the connection being.
    pub(crate) fn is_lossy(&self) -> bool {
        matches!(self.transport, Transport::Datagrams(_))
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
    pub(crate) fn send(&mut self, driver: &mut Epoll, token: u64) -> Result<(), String> {
        while self.sent < self.output.len() {
            match self.transport.send(driver, &self.output[self.sent..]) {
                Ok(len) => self.sent += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.lost(&error)),
            }
        }
        let interest = if self.sent < self.output.len() {
            Interest::ReadWrite
        } else {
            self.output.clear();
            self.sent = 0;
            Interest::Read
        };
        if interest != self.interest {
            self.interest = interest;
            let changed = driver.change(self.transport.socket(), token, interest);
            changed.map_err(|why| format!("a connection cannot be watched: {why}"))?;
        }
        Ok(())
    }

    /// Receives once and takes the replies that are whole; `note` is called with each. Returns the bytes that came, 0 if none
    /// were there.
    pub(crate) fn receive(
        &mut self,
        driver: &mut Epoll,
        room: &mut [u8],
        note: impl FnMut(&Waiting, Outcome<'_>),
    ) -> Result<usize, String> {
        let len = match self.transport.receive(driver, room) {
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
        format!("the connection was lost with {waiting} requests in flight: {error}")
    }
}
