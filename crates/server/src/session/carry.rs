//! A session on its way to another server, in words that both understand.
//!
//! Only what cannot be told from the input is said: the protocol, who has logged in, and what the session is in the middle of.
//! A request that is not answered goes as input, from its start: the other server parses it anew. A login that is being
//! verified begins again, and so does a list of connections where it was.

use scrubjay_net::Peer;

use super::guard::Guard;
use super::{Protocol, Session, binary, text};
use crate::service::Shared;

/// How sessions are packed; of another format nothing is unpacked.
const FORMAT: u8 = 1;

/// What is packed, first byte first.
#[derive(Debug, Default)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub(super) fn flag(&mut self, flag: bool) {
        self.byte(flag.into());
    }

    pub(super) fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// Whether there is something, to be written next.
    pub(super) fn option<T>(&mut self, option: Option<T>, write: impl FnOnce(&mut Writer, T)) {
        self.flag(option.is_some());
        if let Some(there) = option {
            write(self, there);
        }
    }
}

/// What is unpacked: every read takes from the front, and is `None` where there is no such thing.
#[derive(Debug)]
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(super) fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*first))
    }

    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.number()?).ok()?;
        let (first, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(first)
    }

    /// What may be there; `None` if it cannot be read.
    pub(super) fn option<T>(&mut self, read: impl FnOnce(&mut Reader<'a>) -> Option<T>) -> Option<Option<T>> {
        match self.flag()? {
            false => Some(None),
            true => read(self).map(Some),
        }
    }
}

impl Session {
    /// What another server is to know of it; nothing if it is as at its beginning. What it has used of an unanswered request
    /// goes to the front of `input`. `None` if that is lost.
    pub(crate) fn pack(self, input: &mut Vec<u8>) -> Option<Vec<u8>> {
        let is_fresh = self.guard.as_ref().is_none_or(|guard| guard.is_fresh());
        if matches!(self.protocol, Protocol::Unknown) && is_fresh {
            return Some(Vec::new());
        }
        let mut writer = Writer::default();
        writer.byte(FORMAT);
        writer.option(self.guard.as_deref(), |writer, guard| guard.pack(writer));
        match self.protocol {
            Protocol::Unknown => writer.byte(0),
            Protocol::Text(state) => {
                writer.byte(1);
                state.pack(&mut writer, input)?;
            }
            Protocol::Binary(state) => {
                writer.byte(2);
                state.pack(&mut writer, input)?;
            }
        }
        Some(writer.0)
    }

    /// The session that was packed so. `None` if it is told otherwise than here, its user may not connect any more, or
    /// somebody has to log in now who did not.
    pub(crate) fn unpack(shared: &Shared, peer: Peer, packed: &[u8]) -> Option<Session> {
        let mut reader = Reader(packed);
        if reader.byte()? != FORMAT {
            return None;
        }
        let guard = reader.option(|reader| Guard::unpack(reader, shared.auth.as_deref(), peer))?;
        if guard.is_none() && shared.auth.is_some() {
            return None;
        }
        let protocol = match reader.byte()? {
            0 => Protocol::Unknown,
            1 => Protocol::Text(text::TextState::unpack(&mut reader, shared)?),
            2 => Protocol::Binary(binary::BinaryState::unpack(&mut reader, shared)?),
            _ => return None,
        };
        reader.0.is_empty().then_some(Session {
            protocol,
            guard: guard.filter(|_| shared.auth.is_some()).map(Box::new),
        })
    }
}

impl super::Listing {
    /// A new list, told from this descriptor on.
    pub(super) fn from(shared: &Shared, next: u64) -> super::Listing {
        let roll = shared.net.roll_call.call(&shared.control);
        super::Listing { roll, next }
    }
}

#[cfg(test)]
mod tests {
    use super::{Reader, Writer};

    #[test]
    fn what_is_written_is_read_and_nothing_shorter_is() {
        let mut writer = Writer::default();
        writer.byte(7);
        writer.option(Some(-2_i64), |writer, number| writer.number(number as u64));
        writer.option(None::<u64>, Writer::number);
        writer.bytes(b"bytes");
        let read = |packed: &[u8]| {
            let reader = &mut Reader(packed);
            let (byte, there) = (reader.byte()?, reader.option(Reader::number)?);
            let missing = reader.option(Reader::number)?;
            Some((byte, there, missing, reader.bytes()?.to_vec()))
        };
        let whole = Some((7, Some(-2_i64 as u64), None, b"bytes".to_vec()));
        assert_eq!(read(&writer.0), whole);
        for len in 0..writer.0.len() {
            assert_eq!(read(&writer.0[..len]), None, "{len} bytes");
        }
    }
}
