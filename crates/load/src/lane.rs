//! One connection under load: what is in flight on it, what is still to be sent, and what has come of a reply so far.

use std::io::ErrorKind;
use std::sync::Arc;

use scrubjay_io::driver::Interest;
use scrubjay_io::driver::datagrams::Inbox;

use crate::datagrams::Datagrams;
use crate::exchange::{Exchange, Outcome, Terms, Waiting};
use crate::transport::{Room, Sockets, Transport, advice};

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
    pub(crate) fn open(&mut self, mut transport: Transport, driver: &mut impl Sockets) -> Result<(), String> {
        self.interest = Interest::Read;
        let added = transport.watch(driver, self.token);
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

    /// Gives up what was sent until that moment and is not answered, and returns how many keys that were.
    pub(crate) fn give_up(&mut self, until: u64) -> u64 {
        let Some(Transport::Datagrams(datagrams)) = &mut self.transport else {
            return 0;
        };
        let mut lost = 0;
        while datagrams.give_up(until) {
            lost += self.exchange.forget_first() as u64;
        }
        lost
    }

    /// What was put into the output is a request; over UDP a datagram of its own, sent as of now.
    pub(crate) fn end_request(&mut self, now: u64) {
        if let Some(Transport::Datagrams(datagrams)) = &mut self.transport {
            datagrams.push(&self.output, now);
            self.output.clear();
        }
    }

    /// Sends what there is to send, as far as it is taken.
    pub(crate) fn send(&mut self, driver: &mut impl Sockets) -> Result<(), String> {
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
            let changed = transport.change(driver, self.token, interest);
            changed.map_err(|why| format!("a connection cannot be watched: {why}"))?;
        }
        Ok(())
    }

    /// Receives once and takes the replies that are whole; `note` is called with each. Returns the bytes that came, 0 if none
    /// were there.
    pub(crate) fn receive(
        &mut self,
        driver: &mut impl Sockets,
        room: &mut Room,
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
        if let Some(Transport::Datagrams(datagrams)) = &mut self.transport {
            return take_replies(datagrams, &room.inbox, &mut self.exchange, note);
        }
        let received = &room.bytes[..len];
        if self.input.is_empty() {
            let used = self.exchange.take(received, note)?;
            self.input.extend_from_slice(&received[used..]);
        } else {
            self.input.extend_from_slice(received);
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

/// Takes the replies that the datagrams in `inbox` complete, and returns their bytes.
fn take_replies(
    datagrams: &mut Datagrams,
    inbox: &Inbox,
    exchange: &mut Exchange,
    mut note: impl FnMut(&Waiting, Outcome<'_>),
) -> Result<usize, String> {
    let mut len = 0;
    for index in 0..inbox.len() {
        let (datagram, _) = inbox.get(index);
        if let Some((place, reply)) = datagrams.take(datagram) {
            len += reply.len();
            if exchange.take_one(place, reply, &mut note)? {
                datagrams.end();
            }
        }
    }
    Ok(len)
}
