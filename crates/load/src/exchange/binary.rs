//! The binary protocol. Each request carries its row's number as opaque, so that a reply tells which rows before it had none.

use super::{Exchange, Outcome, Terms, Verb, Waiting, unexpected};

const HEADER_LEN: usize = 24;
const REQUEST: u8 = 0x80;
const REPLY: u8 = 0x81;

const GET: u8 = 0x00;
const GET_QUIETLY: u8 = 0x09;
const SET: u8 = 0x01;
const SET_QUIETLY: u8 = 0x11;
const DELETE: u8 = 0x04;
const NOOP: u8 = 0x0a;

const STATUS_OK: u16 = 0;
const STATUS_NOT_FOUND: u16 = 1;
const STATUS_NOT_STORED: u16 = 5;

/// Longest body that a reply may announce.
const BODY_LEN_MAX: usize = 1 << 30;

fn append_header(opcode: u8, lens: (usize, usize, usize), opaque: u32, out: &mut Vec<u8>) {
    let (extras_len, key_len, value_len) = lens;
    out.extend_from_slice(&[REQUEST, opcode]);
    out.extend_from_slice(&(key_len as u16).to_be_bytes());
    out.extend_from_slice(&[extras_len as u8, 0, 0, 0]);
    out.extend_from_slice(&((extras_len + key_len + value_len) as u32).to_be_bytes());
    out.extend_from_slice(&opaque.to_be_bytes());
    out.extend_from_slice(&[0; 8]);
}

/// Renders a key into `room`.
fn key_bytes<'a>(terms: &Terms, key: u64, room: &'a mut Vec<u8>) -> &'a [u8] {
    room.clear();
    terms.items.append_key(key, room);
    room
}

pub(super) fn append_get(terms: &Terms, keys: &[u64], opaque: u32, room: &mut Vec<u8>, out: &mut Vec<u8>) {
    let opcode = if keys.len() > 1 { GET_QUIETLY } else { GET };
    for (number, key) in (0u32..).zip(keys) {
        let key = key_bytes(terms, *key, room);
        append_header(opcode, (0, key.len(), 0), opaque.wrapping_add(number), out);
        out.extend_from_slice(key);
    }
    if keys.len() > 1 {
        append_close(opaque.wrapping_add(keys.len() as u32 - 1), out);
    }
}

pub(super) fn append_set(
    terms: &Terms,
    key: u64,
    version: u32,
    (quiet, opaque): (bool, u32),
    room: &mut Vec<u8>,
    out: &mut Vec<u8>,
) {
    let bytes = key_bytes(terms, key, room);
    let value_len = terms.items.value_len_of(key) as usize;
    let opcode = if quiet { SET_QUIETLY } else { SET };
    append_header(opcode, (8, bytes.len(), value_len), opaque, out);
    out.extend_from_slice(&version.to_be_bytes());
    out.extend_from_slice(&terms.items.ttl_of(key).to_be_bytes());
    out.extend_from_slice(bytes);
    terms.items.append_value(key, version, out);
}

pub(super) fn append_delete(terms: &Terms, key: u64, opaque: u32, room: &mut Vec<u8>, out: &mut Vec<u8>) {
    let key = key_bytes(terms, key, room);
    append_header(DELETE, (0, key.len(), 0), opaque, out);
    out.extend_from_slice(key);
}

/// Closes the group whose last row has the number `opaque`.
pub(super) fn append_close(opaque: u32, out: &mut Vec<u8>) {
    append_header(NOOP, (0, 0, 0), opaque, out);
}

impl Exchange {
    /// Takes one reply; 0 bytes if there is no whole one.
    pub(super) fn take_binary(
        &mut self,
        input: &[u8],
        note: &mut impl FnMut(&Waiting, Outcome<'_>),
    ) -> Result<usize, String> {
        if input[0] != REPLY {
            return Err(unexpected(input));
        }
        let Some(header) = input.first_chunk::<HEADER_LEN>() else {
            return Ok(0);
        };
        let word =
            |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let half = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let (body_len, opaque, status) = (word(8) as usize, word(12), half(6));
        if body_len > BODY_LEN_MAX {
            return Err(format!("the server announces a reply of {body_len} bytes"));
        }
        let Some(body) = input.get(HEADER_LEN..HEADER_LEN + body_len) else {
            return Ok(0);
        };
        // What was quiet and is before this one was as usual.
        loop {
            let front = self.front()?;
            if front.number == opaque {
                break;
            }
            if !front.quiet || front.closes {
                return Err(format!(
                    "the server answered request {opaque} where {} is next",
                    front.number
                ));
            }
            self.pass(&front, note);
        }
        if header[1] == NOOP {
            self.close(note)?;
            return Ok(HEADER_LEN + body_len);
        }
        let verb = self.front()?.verb;
        match (status, verb) {
            (STATUS_OK, Verb::Get) => {
                let behind = usize::from(header[4]) + usize::from(half(2));
                let value = body.get(behind..).ok_or_else(|| unexpected(input))?;
                let version = body.first_chunk().map_or(0, |flags| u32::from_be_bytes(*flags));
                self.hit(None, version, value, note)?;
            }
            (STATUS_OK, _) => self.answer(Outcome::Done, note)?,
            (STATUS_NOT_FOUND, Verb::Get | Verb::Delete) => self.answer(Outcome::Miss, note)?,
            (STATUS_NOT_STORED, Verb::Set) => self.answer(Outcome::NotStored, note)?,
            _ => {
                let text = format!("status {status:#06x} {}", String::from_utf8_lossy(body));
                self.answer(Outcome::Refused(&text), note)?;
            }
        }
        Ok(HEADER_LEN + body_len)
    }
}
