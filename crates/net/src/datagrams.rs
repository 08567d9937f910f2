//! A worker's datagrams: received in batches, answered as a session each, sent in batches.
//!
//! A datagram is one batch of requests and its own conversation: the session is made for it and dropped with it. What was
//! received and not answered within a turn's share waits in the inbox, and nothing more is received until it is answered.

use std::net::SocketAddr;
use std::sync::Arc;

use scrubjay_io::driver::datagrams::{Inbox, Outbox};
use scrubjay_io::driver::{Driver, PeerAddress};

use crate::live::{Live, Seen};
use crate::output::Output;
use crate::service::{Next, Service};
use crate::udp::{Header, Policy, REPLY_LEN_MAX, Words, cut, sent_len};

/// Bytes received or answered in one turn before connections have theirs.
const BYTES_PER_TURN: usize = 256 << 10;

/// What a worker needs to answer datagrams.
#[derive(Clone, Debug)]
pub struct UdpConfig {
    /// Who may be sent how much.
    pub policy: Policy,
    /// What is answered instead of a reply.
    pub words: Words,
}

/// Datagrams of one worker since they were last added up.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Datagrams whose requests were handled.
    pub(crate) requests: u64,
    /// Datagrams sent.
    pub(crate) replies: u64,
    /// Received and not handled: too short, or from a server.
    pub(crate) dropped: u64,
    /// Replies that were not sent because they were longer than the peer may be sent.
    pub(crate) refused: u64,
    /// Datagrams that the socket did not take.
    pub(crate) unsent: u64,
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
}

/// A socket and the port it is bound to.
pub(crate) struct Place<T> {
    pub(crate) socket: T,
    pub(crate) port: u16,
}

/// A worker's sockets of datagrams.
pub(crate) struct Datagrams<T> {
    pub(crate) places: Vec<Place<T>>,
    shared_config: Arc<Live<UdpConfig>>,
    config: Seen<UdpConfig>,
    inbox: Inbox,
    outbox: Outbox,
    /// The place whose datagrams are in the inbox, and the first that is not handled yet.
    at: (usize, usize),
    pub(crate) counts: Counts,
}

impl<T> Datagrams<T> {
    pub(crate) fn new(places: Vec<Place<T>>, config: &Arc<Live<UdpConfig>>) -> Datagrams<T> {
        Datagrams {
            places,
            shared_config: Arc::clone(config),
            config: config.see(),
            inbox: Inbox::default(),
            outbox: Outbox::default(),
            at: (0, 0),
            counts: Counts::default(),
        }
    }

    /// Whether received datagrams wait for their turn.
    pub(crate) fn has_more_to_do(&self) -> bool {
        self.at.1 < self.inbox.len()
    }

    /// Receives from a place, unless datagrams wait already.
    pub(crate) fn receive<D: Driver<Datagrams = T>>(&mut self, driver: &mut D, place: usize) {
        if self.has_more_to_do() {
            return;
        }
        self.inbox.clear();
        self.at = (place, 0);
        // An error leaves the inbox empty; it was of a datagram, and is gone with it.
        let _ = driver.receive(&mut self.places[place].socket, &mut self.inbox);
    }

    /// One turn: answers a fair share of what was received, and sends the replies.
    pub(crate) fn turn<D: Driver<Datagrams = T>, S: Service>(
        &mut self,
        driver: &mut D,
        service: &mut S,
        output: &mut Output<S::Shared>,
    ) {
        self.config.renew(&self.shared_config);
        let (place, first) = self.at;
        let Datagrams {
            places,
            config,
            inbox,
            outbox,
            counts,
            ..
        } = self;
        let Some(Place { socket, port }) = places.get_mut(place) else {
            return;
        };
        let mut next = first;
        let mut moved = 0;
        while next < inbox.len() && moved < BYTES_PER_TURN {
            let (datagram, peer) = inbox.get(next);
            next += 1;
            counts.bytes_read += datagram.len() as u64;
            moved += datagram.len();
            // Two servers of one port that a forger introduced to each other would talk for ever.
            let parsed = Header::parse(datagram).filter(|_| peer.port() != *port);
            let Some((header, requests)) = parsed else {
                counts.dropped += 1;
                continue;
            };
            answer(config, service, header, requests, peer, output, counts);
            moved += output.len();
            cut(output, header.request, peer, outbox, |outbox| {
                send(driver, socket, outbox, counts);
            });
            output.clear();
        }
        self.at.1 = next;
        send(driver, socket, outbox, counts);
    }
}

/// Leaves in `output` what is to be sent to `peer`.
fn answer<S: Service>(
    config: &UdpConfig,
    service: &mut S,
    header: Header,
    requests: &[u8],
    peer: SocketAddr,
    output: &mut Output<S::Shared>,
    counts: &mut Counts,
) {
    counts.requests += 1;
    let words = &config.words;
    if header.is_whole() {
        handle_all(service, words, requests, peer, output);
    } else if header.sequence == 0 {
        output.bytes().extend_from_slice(words.split);
    }
    let allowed = config
        .policy
        .reply_len_max(peer.ip(), requests.len() + crate::udp::HEADER_LEN);
    if sent_len(output.len()) <= allowed {
        return;
    }
    counts.refused += 1;
    output.clear();
    let refusals = [words.not_allowed.as_bytes(), words.not_allowed_short];
    let fitting = refusals
        .into_iter()
        .find(|words| sent_len(words.len()) <= allowed);
    output.bytes().extend_from_slice(fitting.unwrap_or_default());
}

/// Handles every request of a datagram; its session ends with it.
fn handle_all<S: Service>(
    service: &mut S,
    words: &Words,
    requests: &[u8],
    peer: SocketAddr,
    output: &mut Output<S::Shared>,
) {
    let mut session = service.open(PeerAddress::Udp(peer));
    service.serves(0);
    let mut rest = requests;
    loop {
        let handled = service.handle(&mut session, rest, output);
        rest = &rest[handled.consumed..];
        if output.len() > REPLY_LEN_MAX {
            output.clear();
            output.bytes().extend_from_slice(words.too_large);
            break;
        }
        match handled.next {
            Next::Again => {}
            Next::Partial => {
                output.bytes().extend_from_slice(words.incomplete);
                break;
            }
            Next::Wait if !rest.is_empty() => {
                output.bytes().extend_from_slice(words.incomplete);
                break;
            }
            // What is answered before it is not sent: all of it belongs to a connection.
            Next::Fed => {
                output.clear();
                output.bytes().extend_from_slice(words.soon);
                break;
            }
            Next::Soon | Next::Rest => {
                output.bytes().extend_from_slice(words.soon);
                break;
            }
            // A login is worked out later; where there are any, there are no datagrams.
            Next::Wait | Next::Later | Next::Close | Next::Fail => break,
        }
    }
    service.close(session);
}

/// Sends what waits.
fn send<D: Driver>(driver: &mut D, socket: &mut D::Datagrams, outbox: &mut Outbox, counts: &mut Counts) {
    if outbox.is_empty() {
        return;
    }
    let (len, bytes) = (outbox.len() as u64, outbox.bytes().len() as u64);
    let unsent = driver.send(socket, outbox) as u64;
    counts.unsent += unsent;
    counts.replies += len - unsent;
    counts.bytes_written += bytes;
}

#[cfg(test)]
mod tests;
