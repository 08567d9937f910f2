//! The meta commands.

use super::text::{append_line, append_value, is_error};
use super::{Exchange, Outcome, Terms, Verb, Waiting, append_number, line, number, unexpected};

pub(super) fn append_get(terms: &Terms, keys: &[u64], out: &mut Vec<u8>) {
    for key in keys {
        out.extend_from_slice(b"mg ");
        terms.items.append_key(*key, out);
        out.extend_from_slice(if keys.len() > 1 {
            b" v f k q\r\n"
        } else {
            b" v f\r\n"
        });
    }
    if keys.len() > 1 {
        append_close(out);
    }
}

pub(super) fn append_set(terms: &Terms, key: u64, version: u32, quiet: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(b"ms ");
    terms.items.append_key(key, out);
    out.push(b' ');
    append_number(terms.items.value_len_of(key), out);
    out.extend_from_slice(b" F");
    append_number(version, out);
    let ttl = terms.items.ttl_of(key);
    if ttl > 0 {
        out.extend_from_slice(b" T");
        append_number(ttl, out);
    }
    out.extend_from_slice(if quiet { b" q\r\n" } else { b"\r\n" });
    append_value(terms, key, version, out);
}

pub(super) fn append_delete(terms: &Terms, key: u64, out: &mut Vec<u8>) {
    append_line(b"md ", terms, key, out);
}

pub(super) fn append_close(out: &mut Vec<u8>) {
    out.extend_from_slice(b"mn\r\n");
}

impl Exchange {
    /// Takes one reply; 0 bytes if there is no whole one.
    pub(super) fn take_meta(
        &mut self,
        input: &[u8],
        note: &mut impl FnMut(&Waiting, Outcome<'_>),
    ) -> Result<usize, String> {
        let Some((line, line_len)) = line(input) else {
            return Ok(0);
        };
        if let Some(rest) = line.strip_prefix(b"VA ") {
            let value = value_line(rest).ok_or_else(|| unexpected(line))?;
            return self.take_value(input, line_len, value, note);
        }
        match (line, self.front()?.verb) {
            (b"MN", _) => self.close(note)?,
            (b"HD", Verb::Set | Verb::Delete) => self.answer(Outcome::Done, note)?,
            (b"EN", Verb::Get) | (b"NF", Verb::Delete) => self.answer(Outcome::Miss, note)?,
            (b"NS", Verb::Set) => self.answer(Outcome::NotStored, note)?,
            (line, _) if is_error(line) => {
                let text = String::from_utf8_lossy(line);
                self.answer(Outcome::Refused(&text), note)?;
            }
            (line, _) => return Err(unexpected(line)),
        }
        Ok(line_len)
    }
}

/// Key, flags and length of a line behind its `VA`.
fn value_line(rest: &[u8]) -> Option<(Option<&[u8]>, u32, usize)> {
    let mut words = rest.split(|byte| *byte == b' ');
    let len = usize::try_from(number(words.next()?)?).ok()?;
    let (mut key, mut version) = (None, 0);
    for word in words {
        match word {
            [b'k', rest @ ..] => key = Some(rest),
            [b'f', rest @ ..] => version = u32::try_from(number(rest)?).ok()?,
            _ => {}
        }
    }
    Some((key, version, len))
}
