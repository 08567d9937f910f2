//! Datagrams: memcached's frame before each, and a reply put together from several in whatever order they come.
//! Source: memcached doc/protocol.txt, "UDP protocol".

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Bytes before each payload.
pub(super) const FRAME_LEN: usize = 8;

/// Longest datagram that is sent, its frame included: it passes every network in one piece.
pub(super) const DATAGRAM_LEN_MAX: usize = 1400;

/// Most bytes of a reply. scrubjay and memcached send no more than a value of 1 MiB and its line; what is longer goes over TCP.
const MESSAGE_LEN_MAX: usize = (1 << 20) + (64 << 10);

/// What the kernel counts of a datagram in the receive buffer besides its bytes: its own records, and what it rounds up. A
/// datagram of 1,400 bytes counts for 2,304 on loopback.
const OVERHEAD: usize = 1024;

/// The frame: four numbers of two bytes, the highest first. The fourth is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// The request's; its reply bears it, too.
    pub(super) id: u16,
    /// Place of the datagram in its message, from 0.
    pub(super) number: u16,
    /// Datagrams of the message.
    pub(super) total: u16,
}

impl Frame {
    /// A request is one datagram.
    pub(super) fn of_request(id: u16) -> Frame {
        Frame {
            id,
            number: 0,
            total: 1,
        }
    }

    pub(super) fn encode(self) -> [u8; FRAME_LEN] {
        let [[i, d], [n, o], [t, l]] = [self.id, self.number, self.total].map(u16::to_be_bytes);
        [i, d, n, o, t, l, 0, 0]
    }

    /// The frame and the payload; `None` if it is no part of a message.
    pub(super) fn parse(datagram: &[u8]) -> Option<(Frame, &[u8])> {
        let (frame, payload) = datagram.split_first_chunk::<FRAME_LEN>()?;
        let half = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
        let frame = Frame {
            id: half(0),
            number: half(2),
            total: half(4),
        };
        (frame.number < frame.total).then_some((frame, payload))
    }
}

/// Parts of a reply. Memory is taken as they arrive, never by the total that they announce.
#[derive(Debug, Default)]
pub(super) struct Message {
    total: u16,
    parts: BTreeMap<u16, Vec<u8>>,
    len: usize,
}

/// What a part has made of a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// Others are missing.
    Part,
    /// It was the last one; these are all their bytes.
    Whole(Vec<u8>),
    /// It was there already, or announces another total than those before.
    Stranger,
    /// There are more bytes than a message may have.
    TooLong,
}

impl Message {
    pub(super) fn add(&mut self, frame: Frame, payload: &[u8]) -> Added {
        if self.parts.is_empty() {
            self.total = frame.total;
        }
        if frame.total != self.total {
            return Added::Stranger;
        }
        let Entry::Vacant(place) = self.parts.entry(frame.number) else {
            return Added::Stranger;
        };
        place.insert(payload.to_vec());
        self.len += payload.len();
        if self.len > MESSAGE_LEN_MAX {
            return Added::TooLong;
        }
        if self.parts.len() < usize::from(self.total) {
            return Added::Part;
        }
        let mut whole = Vec::with_capacity(self.len);
        for part in self.parts.values() {
            whole.extend_from_slice(part);
        }
        Added::Whole(whole)
    }

    /// The bytes before the first part that is missing.
    pub(super) fn beginning(&self) -> Vec<u8> {
        let mut beginning = Vec::new();
        for (number, part) in (0..).zip(&self.parts) {
            if *part.0 != number {
                break;
            }
            beginning.extend_from_slice(part.1);
        }
        beginning
    }

    /// What its datagrams have taken of the receive buffer.
    pub(super) fn cost(&self) -> usize {
        self.len + self.parts.len() * (FRAME_LEN + OVERHEAD)
    }
}

/// What a datagram full of bytes takes of the receive buffer.
pub(super) const DATAGRAM_COST: usize = DATAGRAM_LEN_MAX + OVERHEAD;

#[cfg(test)]
mod tests {
    use proptest::prelude::{Just, Strategy, any, prop, prop_assert, prop_assert_eq, proptest};

    use super::{Added, Frame, MESSAGE_LEN_MAX, Message};

    /// A message cut at random, and the order in which its parts come, some more than once.
    fn shuffled() -> impl Strategy<Value = (Vec<Vec<u8>>, Vec<usize>)> {
        prop::collection::vec(prop::collection::vec(any::<u8>(), 0..30), 1..20).prop_flat_map(|parts| {
            let order: Vec<usize> = (0..parts.len()).chain(0..parts.len()).collect();
            (Just(parts), Just(order).prop_shuffle())
        })
    }

    proptest! {
        #[test]
        fn parts_in_any_order_and_twice_make_the_message_once((parts, order) in shuffled()) {
            let frame = |number: usize| Frame { id: 1, number: number as u16, total: parts.len() as u16 };
            let mut message = Message::default();
            let mut seen = vec![false; parts.len()];
            for number in order {
                let stranger = Frame { total: parts.len() as u16 + 1, ..frame(number) };
                if seen.contains(&true) {
                    prop_assert_eq!(message.add(stranger, b"x"), Added::Stranger);
                }
                let added = message.add(frame(number), &parts[number]);
                if seen[number] {
                    prop_assert_eq!(added, Added::Stranger);
                    continue;
                }
                seen[number] = true;
                if seen.contains(&false) {
                    prop_assert_eq!(added, Added::Part);
                } else {
                    prop_assert_eq!(added, Added::Whole(parts.concat()));
                    return Ok(());
                }
            }
            prop_assert!(false, "the message was never whole");
        }

        #[test]
        fn frames_read_as_they_were_written(id: u16, number: u16, total: u16, payload: [u8; 3]) {
            let frame = Frame { id, number, total };
            let datagram = [&frame.encode()[..], &payload].concat();
            let expected = (number < total).then_some((frame, &payload[..]));
            prop_assert_eq!(Frame::parse(&datagram), expected);
            prop_assert_eq!(Frame::parse(&datagram[..7]), None);
        }
    }

    #[test]
    fn a_message_has_an_end_whatever_it_announces() {
        let mut message = Message::default();
        let part = vec![0; 60_000];
        let fits = MESSAGE_LEN_MAX / part.len();
        for number in 0..=fits {
            let frame = Frame {
                id: 0,
                number: number as u16,
                total: u16::MAX,
            };
            let expected = if number < fits {
                Added::Part
            } else {
                Added::TooLong
            };
            assert_eq!(message.add(frame, &part), expected, "{number}");
        }
    }
}
