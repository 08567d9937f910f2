//! What a server said, cut into pieces that compare.

use super::CasPairs;
use crate::runner;
use crate::script::packet::Received;

/// A piece of a transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// Must be the same.
    Bytes(Vec<u8>),
    /// A CAS number: stands for another.
    Cas(u64),
    /// Seconds of life or of idleness: [`SECS_OFF_MAX`] more or less is the same.
    Secs(i64),
    /// A version: anything.
    Version,
}

/// How far two servers' seconds may be apart. memcached counts whole ones since a start that it rounds down, by a timer that
/// fires late on a busy machine, and the two are asked one after the other.
pub const SECS_OFF_MAX: u64 = 10;

/// Whether two transcripts say different things.
pub fn differs(ours: &[Token], theirs: &[Token]) -> bool {
    let mut pairs = CasPairs::default();
    let mut same = |(ours, theirs): (&Token, &Token)| match (ours, theirs) {
        (Token::Cas(ours), Token::Cas(theirs)) => pairs.fit(*ours, *theirs),
        (Token::Secs(ours), Token::Secs(theirs)) => secs(*ours).abs_diff(secs(*theirs)) <= SECS_OFF_MAX,
        (ours, theirs) => ours == theirs,
    };
    ours.len() != theirs.len() || !ours.iter().zip(theirs).all(&mut same)
}

/// Whether `ours` says all that `theirs` says, and then perhaps more.
pub fn starts_with(ours: &[Token], theirs: &[Token]) -> bool {
    let Some((last, before)) = theirs.split_last() else {
        return true;
    };
    let fits = match (ours.get(before.len()), last) {
        (Some(Token::Bytes(ours)), Token::Bytes(theirs)) => ours.starts_with(theirs),
        (Some(_), _) => true,
        (None, _) => false,
    };
    fits && !differs(&ours[..before.len()], before)
}

/// memcached prints what is left of a life that is over as a number near 2^32.
fn secs(printed: i64) -> i64 {
    if printed > 1 << 31 { 0 } else { printed }
}

/// Cuts a transcript.
pub fn tokens(transcript: &[u8]) -> Vec<Token> {
    let mut out = Vec::new();
    let mut rest = transcript;
    while !rest.is_empty() {
        let len = if rest[0] == 0x81 {
            packet(rest, &mut out)
        } else {
            line(rest, &mut out)
        };
        rest = &rest[len..];
    }
    out
}

fn push_bytes(out: &mut Vec<Token>, bytes: &[u8]) {
    match out.last_mut() {
        Some(Token::Bytes(last)) => last.extend_from_slice(bytes),
        _ => out.push(Token::Bytes(bytes.to_vec())),
    }
}

fn packet(rest: &[u8], out: &mut Vec<Token>) -> usize {
    let Some(packet) = Received::parse(rest) else {
        push_bytes(out, rest);
        return rest.len();
    };
    push_bytes(out, &rest[..16]);
    out.push(Token::Cas(packet.cas));
    if packet.opcode == 0x0b && packet.status == 0 {
        out.push(Token::Version);
    } else {
        push_bytes(out, &rest[24..packet.len]);
    }
    packet.len
}

/// Cuts a line, with the data block behind it; returns its length.
fn line(rest: &[u8], out: &mut Vec<Token>) -> usize {
    let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") else {
        push_bytes(out, rest);
        return rest.len();
    };
    let words: Vec<&[u8]> = rest[..end].split(|byte| *byte == b' ').collect();
    let number = |word: &[u8]| std::str::from_utf8(word).ok()?.parse::<i64>().ok();
    let data_len = match words[..] {
        [b"VALUE", _, _, len, ..] | [b"VA", len, ..] => number(len).map_or(0, |len| len as usize + 2),
        _ => 0,
    };
    let is_meta = matches!(words[0], b"VA" | b"HD" | b"EN" | b"NS" | b"EX" | b"NF");
    for (index, word) in words.iter().enumerate() {
        match *word {
            [letter @ (b't' | b'l'), digits @ ..] if is_meta && index > 0 => {
                push_bytes(out, &[*letter]);
                out.extend(number(digits).map(Token::Secs));
            }
            [b'c', digits @ ..] if is_meta && index > 0 => {
                push_bytes(out, b"c");
                out.extend(cas(digits));
            }
            digits if index == 4 && words[0] == b"VALUE" => out.extend(cas(digits)),
            _ if index == 1 && words[0] == b"VERSION" => out.push(Token::Version),
            // memcached forgets that a key is binary when it appends, or when a number grows.
            b"kZm9v" if is_meta && words.get(index + 1) == Some(&&b"b"[..]) => push_bytes(out, b"kfoo"),
            b"b" if is_meta && words[index - 1] == b"kZm9v" => continue,
            word => push_bytes(out, word),
        }
        push_bytes(out, b" ");
    }
    let len = (end + 2 + data_len).min(rest.len());
    push_bytes(out, &rest[end..len]);
    len
}

fn cas(digits: &[u8]) -> Option<Token> {
    let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(Token::Cas(number))
}

/// As a script would write it.
pub fn describe(tokens: &[Token]) -> String {
    let mut bytes = Vec::new();
    for token in tokens {
        match token {
            Token::Bytes(piece) => bytes.extend_from_slice(piece),
            Token::Cas(number) if bytes.last() == Some(&b' ') || bytes.ends_with(b" c") => {
                bytes.extend_from_slice(number.to_string().as_bytes());
            }
            Token::Cas(number) => bytes.extend_from_slice(&number.to_be_bytes()),
            Token::Secs(number) => bytes.extend_from_slice(number.to_string().as_bytes()),
            Token::Version => bytes.extend_from_slice(b"..."),
        }
    }
    runner::describe(&bytes, false)
}

#[cfg(test)]
mod tests {
    use super::{differs, tokens};

    #[test]
    fn replies_compare_but_for_what_may_differ() {
        let check = |ours: &[u8], theirs: &[u8], same: bool| {
            assert_eq!(
                !differs(&tokens(ours), &tokens(theirs)),
                same,
                "{}",
                String::from_utf8_lossy(ours)
            );
        };
        check(
            b"VALUE k 0 1 7\r\nx\r\nEND\r\n",
            b"VALUE k 0 1 9\r\nx\r\nEND\r\n",
            true,
        );
        check(
            b"VALUE k 0 1 7\r\nx\r\nEND\r\n",
            b"VALUE k 0 1 9\r\ny\r\nEND\r\n",
            false,
        );
        check(b"HD c7\r\nHD c7\r\n", b"HD c8\r\nHD c8\r\n", true);
        check(b"HD c7\r\nHD c7\r\n", b"HD c8\r\nHD c9\r\n", false);
        check(b"HD c7\r\nHD c8\r\n", b"HD c8\r\nHD c8\r\n", false);
        check(b"HD t99 Oc1\r\n", b"HD t100 Oc1\r\n", true);
        check(b"HD t89\r\n", b"HD t100\r\n", false);
        check(b"HD Ot99\r\n", b"HD Ot100\r\n", false);
        check(b"VERSION 1\r\n", b"VERSION 2\r\n", true);
        check(b"VA 6\r\nHD t99\r\n", b"VA 6\r\nHD t98\r\n", false);
        check(b"HD\r\n", b"HD\r\nHD\r\n", false);
    }
}
