//! Looking ahead: what the next requests of a connection will look up is fetched while the processor would wait for the first.
//!
//! Nothing here decides anything: a key that is read wrongly is fetched in vain. So lines are read by their first bytes only,
//! and the search ends at the first that is not a plain look-up or a plain `set`, which looks for the item that it replaces.

use memchr::memchr;
use scrubjay_cache::{FETCH_AHEAD_MAX, Worker};
use scrubjay_protocol::text::whole_set;
use scrubjay_protocol::tokens::next_token;

use super::BINARY_MAGIC;

/// Verbs whose next word is a key.
const VERBS: [&[u8]; 3] = [b"get ", b"mg ", b"gets "];

/// Bytes of a binary request's header.
const BINARY_HEAD_LEN: usize = 24;

/// Fetches for the look-ups that `input`, which starts with a line, starts with; returns how many bytes those have.
#[inline]
pub(super) fn fetch_lines(worker: &Worker, input: &[u8]) -> usize {
    match worker.is_fetching_worth_it() {
        true => fetch(worker, input, cut_line),
        false => 0,
    }
}

/// As [`fetch_lines`] for input that starts with a look-up.
#[inline]
pub(super) fn fetch_gets(worker: &Worker, input: &[u8]) -> usize {
    #[inline(never)]
    fn fetch_far(worker: &Worker, input: &[u8]) -> usize {
        fetch(worker, input, cut_line)
    }
    match worker.is_fetching_worth_it() {
        true => fetch_far(worker, input),
        false => 0,
    }
}

/// Fetches for the binary requests that `input` starts with; returns how many bytes those have.
#[inline]
pub(super) fn fetch_packets(worker: &Worker, input: &[u8]) -> usize {
    if !worker.is_fetching_worth_it() {
        return input.len();
    }
    fetch(worker, input, cut_packet)
}

/// Fetches for the first of a multi-get's keys; returns for how many.
#[inline]
pub(super) fn fetch_keys(worker: &Worker, keys: &[u8]) -> usize {
    if !worker.is_fetching_worth_it() {
        return keys.len();
    }
    let mut count = 0;
    fetch(worker, keys, |rest| {
        let (key, after) = next_token(rest)?;
        count += 1;
        Some((key, rest.len() - after.len()))
    });
    count.max(1)
}

/// Fetches for the first look-up of each of several connections' `inputs`.
pub(crate) fn fetch_firsts(worker: &Worker, inputs: &mut dyn Iterator<Item = &[u8]>) {
    let (mut keys, mut count) = ([b"".as_slice(); FETCH_AHEAD_MAX], 0);
    for input in inputs {
        if let Some((key, _)) = cut_line(input).or_else(|| cut_packet(input))
            && count < FETCH_AHEAD_MAX
        {
            keys[count] = key;
            count += 1;
        }
    }
    worker.fetch_ahead(keys[..count].iter().copied());
}

/// Cuts keys off `input` with `cut`, which returns a key and the length of what it cut off, and fetches for them.
#[inline]
fn fetch<'i>(
    worker: &Worker,
    input: &'i [u8],
    mut cut: impl FnMut(&'i [u8]) -> Option<(&'i [u8], usize)>,
) -> usize {
    let (mut keys, mut count, mut at) = ([b"".as_slice(); FETCH_AHEAD_MAX], 0, 0);
    while count < FETCH_AHEAD_MAX {
        // What has not come wholly may end behind what has.
        let Some((key, len)) = input.get(at..).and_then(&mut cut) else {
            break;
        };
        keys[count] = key;
        count += 1;
        at += len;
    }
    // One alone would be waited for at once.
    if count > 1 {
        worker.fetch_ahead(keys[..count].iter().copied());
    }
    at
}

/// The key of the look-up or `set` that `input` starts with, and the request's length.
#[inline]
fn cut_line(input: &[u8]) -> Option<(&[u8], usize)> {
    let Some(verb) = VERBS.iter().find(|verb| input.starts_with(verb)) else {
        return whole_set(input).map(|set| (set.line.key, set.len));
    };
    let end = memchr(b'\n', input)?;
    let key = input.get(verb.len()..end)?;
    let key_len = key.iter().position(|&byte| byte <= b' ').unwrap_or(key.len());
    Some((&key[..key_len], end + 1))
}

/// The key of the binary request that `input` starts with, and the request's length.
#[inline]
fn cut_packet(input: &[u8]) -> Option<(&[u8], usize)> {
    let (head, body) = input.split_first_chunk::<BINARY_HEAD_LEN>()?;
    if head[0] != BINARY_MAGIC {
        return None;
    }
    let key_len = usize::from(u16::from_be_bytes([head[2], head[3]]));
    let body_len = u32::from_be_bytes([head[8], head[9], head[10], head[11]]) as usize;
    let start = usize::from(head[4]);
    let key = body.get(..body_len)?.get(start..start + key_len)?;
    Some((key, BINARY_HEAD_LEN + body_len))
}

#[cfg(test)]
mod tests {
    use super::{BINARY_HEAD_LEN, cut_line, cut_packet};

    #[test]
    fn a_line_gives_its_first_key_or_nothing() {
        let check = |input: &str, wanted: Option<(&str, usize)>| {
            let wanted = wanted.map(|(key, len)| (key.as_bytes(), len));
            assert_eq!(cut_line(input.as_bytes()), wanted, "{input:?}");
        };
        check("get a\r\nget b\r\n", Some(("a", 7)));
        check("gets abc d\n", Some(("abc", 11)));
        check("mg k v t\r\n", Some(("k", 10)));
        check("get \n", Some(("", 5)));
        check("get a", None);
        check("set a 0 0 1\r\nx\r\n", Some(("a", 16)));
        check("set a 0 0 x\r\nx\r\n", None);
        check("", None);
    }

    #[test]
    fn a_packet_gives_its_key_if_it_is_there_wholly() {
        let packet = |key_len: u8, extras_len: u8, body_len: u8, body: &[u8]| {
            let mut bytes = vec![0x80, 0, 0, key_len, extras_len, 0, 0, 0, 0, 0, 0, body_len];
            bytes.resize(BINARY_HEAD_LEN, 0);
            bytes.extend_from_slice(body);
            bytes
        };
        assert_eq!(
            cut_packet(&packet(3, 2, 6, b"..abcv")),
            Some((b"abc".as_slice(), 30))
        );
        assert_eq!(cut_packet(&packet(0, 0, 0, b"next")), Some((b"".as_slice(), 24)));
        assert_eq!(cut_packet(&packet(3, 2, 6, b"..abc")), None);
        // A key beyond its body.
        assert_eq!(cut_packet(&packet(9, 2, 6, b"..abcv.......")), None);
        assert_eq!(cut_packet(b"get a\r\n"), None);
    }
}
