//! The classic text protocol.

use super::{Exchange, Outcome, Terms, Verb, Waiting, append_number, line, number, unexpected};

/// How the first line of a found item begins.
const VALUE: &[u8] = b"VALUE ";

pub(super) fn append_get(terms: &Terms, keys: &[u64], out: &mut Vec<u8>) {
    out.extend_from_slice(b"get");
    for key in keys {
        out.push(b' ');
        terms.items.append_key(*key, out);
    }
    out.extend_from_slice(b"\r\n");
}

pub(super) fn append_set(terms: &Terms, key: u64, version: u32, quiet: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(b"set ");
    terms.items.append_key(key, out);
    for number in [version, terms.items.ttl_of(key), terms.items.value_len_of(key)] {
        out.push(b' ');
        append_number(number, out);
    }
    out.extend_from_slice(if quiet { b" noreply\r\n" } else { b"\r\n" });
    append_value(terms, key, version, out);
}

pub(super) fn append_delete(terms: &Terms, key: u64, out: &mut Vec<u8>) {
    append_line(b"delete ", terms, key, out);
}

/// A command with a key and nothing else.
pub(super) fn append_line(command: &[u8], terms: &Terms, key: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(command);
    terms.items.append_key(key, out);
    out.extend_from_slice(b"\r\n");
}

/// The value behind a command that stores.
pub(super) fn append_value(terms: &Terms, key: u64, version: u32, out: &mut Vec<u8>) {
    terms.items.append_value(key, version, out);
    out.extend_from_slice(b"\r\n");
}

/// A question that every server knows and whose answer is told from all others.
pub(super) fn append_close(out: &mut Vec<u8>) {
    out.extend_from_slice(b"version\r\n");
}

impl Exchange {
    /// Takes one reply, or one value of it; 0 bytes if there is no whole one.
    pub(super) fn take_text(
        &mut self,
        input: &[u8],
        note: &mut impl FnMut(&Waiting, Outcome<'_>),
    ) -> Result<usize, String> {
        let Some((line, line_len)) = line(input) else {
            return Ok(0);
        };
        if let Some(rest) = line.strip_prefix(VALUE) {
            let (key, version, len) = value_line(rest).ok_or_else(|| unexpected(line))?;
            return self.take_value(input, line_len, (Some(key), version, len), note);
        }
        let outcome = match line {
            b"END" => return self.close(note).map(|()| line_len),
            b"STORED" | b"DELETED" => Outcome::Done,
            b"NOT_STORED" => Outcome::NotStored,
            b"NOT_FOUND" => Outcome::Miss,
            line if line.starts_with(b"VERSION ") => return self.close(note).map(|()| line_len),
            line if is_error(line) => return self.refuse(line, note).map(|()| line_len),
            line => return Err(unexpected(line)),
        };
        if self.front()?.quiet {
            return Err(unexpected(line));
        }
        self.answer(outcome, note)?;
        Ok(line_len)
    }

    /// Takes the value of so many bytes behind its line, of that key if it is told; 0 bytes if it is not whole.
    pub(super) fn take_value(
        &mut self,
        input: &[u8],
        line_len: usize,
        (key, version, len): (Option<&[u8]>, u32, usize),
        note: &mut impl FnMut(&Waiting, Outcome<'_>),
    ) -> Result<usize, String> {
        let end = line_len + len + 2;
        let Some(value) = input.get(line_len..end) else {
            return Ok(0);
        };
        self.hit(key, version, &value[..len], note)?;
        Ok(end)
    }

    /// An error is the whole reply of a get. What is not answered may be refused all the same; the first row that waits stands
    /// for it, whichever it was.
    pub(super) fn refuse(
        &mut self,
        line: &[u8],
        note: &mut impl FnMut(&Waiting, Outcome<'_>),
    ) -> Result<(), String> {
        let text = String::from_utf8_lossy(line);
        let Ok(front) = self.front() else {
            return Err(format!("the server said {text:?} unasked"));
        };
        let is_whole_reply = front.verb == Verb::Get && front.quiet;
        if !is_whole_reply {
            return self.answer(Outcome::Refused(&text), note);
        }
        loop {
            let front = self.front()?;
            if !front.answered {
                note(&front, Outcome::Refused(&text));
            }
            self.pop(&front);
            if front.closes {
                return Ok(());
            }
        }
    }
}

pub(super) fn is_error(line: &[u8]) -> bool {
    line == b"ERROR"
        || [&b"SERVER_ERROR"[..], b"CLIENT_ERROR", b"ERROR "]
            .iter()
            .any(|beginning| line.starts_with(beginning))
}

/// Key, flags and length of a line behind its `VALUE`.
fn value_line(rest: &[u8]) -> Option<(&[u8], u32, usize)> {
    let mut words = rest.splitn(4, |byte| *byte == b' ');
    let key = words.next()?;
    let flags = number(words.next()?)?;
    let len = number(words.next()?)?;
    Some((key, u32::try_from(flags).ok()?, usize::try_from(len).ok()?))
}
