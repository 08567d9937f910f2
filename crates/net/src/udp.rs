//! Memcached's frames over UDP: the header of a datagram, replies cut into numbered datagrams, and who may be sent how much.
//!
//! No sockets here. The sender of a datagram may be forged, and then the reply hits somebody else: a peer whose network the
//! operator has not allowed gets at most a set factor of what it sent.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use scrubjay_io::driver::datagrams::Outbox;

use crate::output::Output;

/// Bytes of the header before each datagram's payload.
pub const HEADER_LEN: usize = 8;

/// Longest datagram that is sent, header included: as memcached, so that it fits a frame of Ethernet.
pub const SENT_LEN_MAX: usize = 1400;

/// Longest reply to one datagram: the largest item of the default `-I` with its line.
pub const REPLY_LEN_MAX: usize = (1 << 20) + (4 << 10);

/// The header of a datagram, without what is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The client's name for the request; the reply bears it too.
    pub request: u16,
    /// Place of this datagram among those of the message, from 0.
    pub sequence: u16,
    /// Datagrams of the message.
    pub total: u16,
}

impl Header {
    /// The header and what follows it; `None` if the datagram is too short for a header and a request.
    ///
    /// The reserved field is not looked at: clients that announce ports for replies there are answered where they ask.
    pub fn parse(datagram: &[u8]) -> Option<(Header, &[u8])> {
        let (header, rest) = datagram.split_first_chunk::<HEADER_LEN>()?;
        let field = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let header = Header {
            request: field(0),
            sequence: field(2),
            total: field(4),
        };
        (!rest.is_empty() && header.total > 0).then_some((header, rest))
    }

    /// Whether the message is in this datagram as a whole. Only the total tells, as in memcached.
    pub fn is_whole(&self) -> bool {
        self.total == 1
    }

    /// The header's bytes.
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let [r, s, t] = [self.request, self.sequence, self.total].map(u16::to_be_bytes);
        [r[0], r[1], s[0], s[1], t[0], t[1], 0, 0]
    }
}

/// Datagrams that a reply of `len` bytes takes.
fn datagrams_of(len: usize) -> usize {
    len.div_ceil(SENT_LEN_MAX - HEADER_LEN)
}

/// Bytes that a reply of `len` bytes takes on its way, headers included.
pub fn sent_len(len: usize) -> usize {
    len + datagrams_of(len) * HEADER_LEN
}

/// Cuts `reply` into numbered datagrams to `peer`, and calls `flush` whenever the outbox is full.
///
/// # Panics
/// If it is longer than [`REPLY_LEN_MAX`].
pub fn cut<P: AsRef<[u8]>>(
    reply: &Output<P>,
    request: u16,
    peer: SocketAddr,
    outbox: &mut Outbox,
    mut flush: impl FnMut(&mut Outbox),
) {
    assert!(reply.len() <= REPLY_LEN_MAX, "the caller has refused it");
    let total = datagrams_of(reply.len()) as u16;
    let mut sequence = 0;
    let mut room = 0;
    for mut piece in reply.pieces() {
        while !piece.is_empty() {
            if room == 0 {
                if sequence > 0 {
                    outbox.finish(peer);
                }
                if outbox.is_full() {
                    flush(outbox);
                }
                let header = Header {
                    request,
                    sequence,
                    total,
                };
                outbox.bytes().extend_from_slice(&header.encode());
                sequence += 1;
                room = SENT_LEN_MAX - HEADER_LEN;
            }
            let (now, later) = piece.split_at(piece.len().min(room));
            outbox.bytes().extend_from_slice(now);
            room -= now.len();
            piece = later;
        }
    }
    if sequence > 0 {
        outbox.finish(peer);
    }
}

/// An IP network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// Whether `ip` is in it.
    pub fn contains(&self, ip: IpAddr) -> bool {
        match (self.address, ip.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(ip)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or(0);
                (network.to_bits() ^ ip.to_bits()) & mask == 0
            }
            (IpAddr::V6(network), IpAddr::V6(ip)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix)).unwrap_or(0);
                (network.to_bits() ^ ip.to_bits()) & mask == 0
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Network, String> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let wrong = || format!("{text:?} is no network; give ADDRESS/BITS, such as 10.0.0.0/8 or fd00::/8");
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => most,
            Some(prefix) => prefix
                .parse()
                .ok()
                .filter(|bits| *bits <= most)
                .ok_or_else(wrong)?,
        };
        Ok(Network { address, prefix })
    }
}

/// Who may be sent how much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Networks without a limit, besides loopback.
    pub allowed: Vec<Network>,
    /// Others get at most this many bytes for each that they sent.
    pub factor: u32,
}

impl Policy {
    /// Bytes that a reply may have on its way to a peer that sent so many; those from networks that are not loopback and not
    /// allowed may be forged.
    pub fn reply_len_max(&self, peer: IpAddr, received: usize) -> usize {
        let peer = peer.to_canonical();
        if peer.is_loopback() || self.allowed.iter().any(|network| network.contains(peer)) {
            usize::MAX
        } else {
            received.saturating_mul(self.factor as usize)
        }
    }
}

/// What is answered instead of a reply. They come from the service's side; the loop knows no protocol.
#[derive(Clone, Debug)]
pub struct Words {
    /// The request is split over several datagrams.
    pub split: &'static [u8],
    /// The datagram ends in the middle of a request.
    pub incomplete: &'static [u8],
    /// The answer would come soon, for which a datagram does not wait.
    pub soon: &'static [u8],
    /// The reply is longer than [`REPLY_LEN_MAX`].
    pub too_large: &'static [u8],
    /// The reply is longer than the peer may be sent.
    pub not_allowed: String,
    /// The same, where that is too long itself.
    pub not_allowed_short: &'static [u8],
}

#[cfg(test)]
mod tests;
