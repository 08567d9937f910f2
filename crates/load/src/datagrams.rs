//! Requests over UDP: a datagram each, sent together, several in flight on a socket. A reply is known by its request's number
//! and may come in any order, and so may its parts; what nobody waits for any more is dropped.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use scrubjay_io::driver::datagrams::{Outbox, Socket};

use crate::transport::Sockets;

/// Bytes before the payload of each datagram. Source: memcached doc/protocol.txt, "UDP protocol".
pub(crate) const FRAME_LEN: usize = 8;

/// Longest payload of UDP over IPv4.
const DATAGRAM_LEN_MAX: usize = 65_507;

/// A socket and what is in flight on it.
#[derive(Debug)]
pub struct Datagrams {
    pub(crate) socket: Socket,
    peer: SocketAddr,
    /// Number of the next request.
    next: u16,
    /// What is not answered, in the order in which it was asked; what has a part of its answer is before all others.
    asked: VecDeque<Asked>,
    outbox: Outbox,
    /// Something is in the outbox that no datagram can hold.
    is_too_long: bool,
    /// The last reply of several parts.
    whole: Vec<u8>,
}

/// A request in flight.
#[derive(Debug)]
struct Asked {
    id: u16,
    /// When it was sent.
    at: u64,
    /// What has come of its reply, if that has several parts.
    parts: Vec<Option<Vec<u8>>>,
}

impl Datagrams {
    /// A socket of this peer alone.
    pub(crate) fn connect(peer: SocketAddr) -> io::Result<Datagrams> {
        Ok(Datagrams {
            socket: Socket::connect(peer)?,
            peer,
            next: 0,
            asked: VecDeque::new(),
            outbox: Outbox::default(),
            is_too_long: false,
            whole: Vec::new(),
        })
    }

    /// Puts a request behind those that will be sent.
    pub(crate) fn push(&mut self, request: &[u8], at: u64) {
        let id = self.next;
        self.next = id.wrapping_add(1);
        let [high, low] = id.to_be_bytes();
        let bytes = self.outbox.bytes();
        bytes.extend_from_slice(&[high, low, 0, 0, 0, 1, 0, 0]);
        bytes.extend_from_slice(request);
        self.outbox.finish(self.peer);
        self.is_too_long |= FRAME_LEN + request.len() > DATAGRAM_LEN_MAX;
        self.asked.push_back(Asked {
            id,
            at,
            parts: Vec::new(),
        });
    }

    pub(crate) fn has_unsent(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Sends all that was put there. What the socket does not take is lost, as datagrams may be.
    pub(crate) fn send(&mut self, driver: &mut impl Sockets) -> io::Result<()> {
        if self.is_too_long {
            let why = format!("a request is longer than a datagram's {DATAGRAM_LEN_MAX} bytes");
            return Err(io::Error::other(why));
        }
        driver.send(&mut self.socket, &mut self.outbox);
        Ok(())
    }

    /// Takes a datagram. With the last part of a message it gives the whole, and the place of its request among those in flight,
    /// the oldest of which it is from then on.
    pub(crate) fn take<'a>(&'a mut self, datagram: &'a [u8]) -> Option<(usize, &'a [u8])> {
        let (frame, payload) = datagram.split_first_chunk::<FRAME_LEN>()?;
        let half = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
        let (id, number, total) = (half(0), usize::from(half(2)), usize::from(half(4)));
        let place = self.asked.iter().position(|asked| asked.id == id)?;
        if number >= total {
            return None;
        }
        let message = if total == 1 {
            payload
        } else {
            let parts = &mut self.asked[place].parts;
            parts.resize(total, None);
            parts[number] = Some(payload.to_vec());
            if parts.iter().any(Option::is_none) {
                return None;
            }
            self.whole.clear();
            parts.drain(..).flatten().for_each(|part| self.whole.extend(part));
            &self.whole
        };
        if place > 0 {
            self.asked.make_contiguous()[..=place].rotate_right(1);
        }
        Some((place, message))
    }

    /// The oldest request is answered.
    pub(crate) fn end(&mut self) {
        self.asked.pop_front();
    }

    /// Gives up the oldest request in flight if it was sent until that moment.
    pub(crate) fn give_up(&mut self, until: u64) -> bool {
        self.asked.pop_front_if(|asked| asked.at <= until).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::Datagrams;

    fn with_requests(first: u16, count: u64) -> Datagrams {
        let nobody = ([127, 0, 0, 1], 9).into();
        let mut datagrams = Datagrams::connect(nobody).expect("a socket");
        datagrams.next = first;
        (0..count).for_each(|at| datagrams.push(b"get a\r\n", at));
        datagrams
    }

    fn part(id: u16, number: u8, total: u8, text: &str) -> Vec<u8> {
        let [high, low] = id.to_be_bytes();
        let mut datagram = vec![high, low, 0, number, 0, total, 0, 0];
        datagram.extend_from_slice(text.as_bytes());
        datagram
    }

    #[test]
    fn parts_of_a_reply_are_put_in_order_and_strangers_dropped() {
        let mut datagrams = with_requests(0x0102, 1);
        let mut check = |datagram: &[u8], expected: Option<&str>| {
            let taken = datagrams.take(datagram);
            assert_eq!(taken, expected.map(|text| (0, text.as_bytes())), "{datagram:?}");
        };
        check(b"short", None);
        check(&part(0x0102, 1, 2, "END\r\n"), None);
        check(&part(0x0102, 1, 2, "END\r\n"), None);
        check(&part(0x0101, 0, 2, "old"), None);
        check(&part(0x0103, 0, 1, "not asked"), None);
        check(&part(0x0102, 9, 2, "no such part"), None);
        check(&part(0x0102, 0, 0, "no part"), None);
        check(&part(0x0102, 0, 2, "VALUE"), Some("VALUEEND\r\n"));
        check(&part(0x0102, 0, 1, "another message"), Some("another message"));
        datagrams.end();
        assert_eq!(datagrams.take(&part(0x0102, 0, 1, "again")), None);
    }

    #[test]
    fn replies_in_any_order_are_those_of_their_requests_and_lost_ones_are_given_up() {
        // The numbers begin anew on the way.
        let mut datagrams = with_requests(65_534, 5);
        let mut check = |id: u16, number: u8, total: u8, place: Option<usize>| {
            let datagram = part(id, number, total, "x");
            let taken = datagrams.take(&datagram);
            assert_eq!(taken.map(|(place, _)| place), place, "{id}, part {number}");
            if place.is_some() {
                datagrams.end();
            }
        };
        check(0, 0, 1, Some(2));
        check(0, 0, 1, None);
        check(2, 1, 2, None);
        check(65_534, 0, 1, Some(0));
        // 65,535, 1 and 2 are left.
        check(1, 0, 1, Some(1));
        assert!(!datagrams.give_up(0));
        assert!(datagrams.give_up(2));
        assert!(!datagrams.give_up(2));
        assert_eq!(datagrams.take(&part(65_535, 0, 1, "late")), None);
        assert_eq!(
            datagrams.take(&part(2, 0, 2, "whole ")),
            Some((0, &b"whole x"[..]))
        );
        datagrams.end();
        assert!(!datagrams.give_up(u64::MAX));
    }
}
