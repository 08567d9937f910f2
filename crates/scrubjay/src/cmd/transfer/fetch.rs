//! Getting items from a source, many in a request: by the meta protocol, which tells everything about an item, or by `get`
//! where there is none.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::block::{Block, Item, unix_millis};
use super::list::{Batch, Wanted};
use super::tally::Tally;
use crate::cmd::connection::Connection;

/// Keys of a `get`.
const KEYS_PER_GET: usize = 64;

/// How a server understands requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    /// Meta commands; with what is behind each `mg`.
    Meta(&'static str),
    /// Classic commands only.
    Classic,
}

impl Language {
    /// Asks the server.
    pub(crate) fn of(connection: &mut Connection) -> Result<Language, String> {
        if connection.ask("mn")? != "MN" {
            return Ok(Language::Classic);
        }
        // Looks that leave no trace, where they can be had.
        let quiet = connection.ask(&format!("mg {} u", "~".repeat(250)))?;
        Ok(Language::Meta(match quiet.starts_with("CLIENT_ERROR") {
            true => " f t k v\r\n",
            false => " f t k v u\r\n",
        }))
    }
}

/// Appends a key as a line of the meta protocol says it.
pub(crate) fn put_key(out: &mut Vec<u8>, key: &[u8], is_binary: bool) {
    if is_binary || !is_word(key) {
        out.extend_from_slice(STANDARD.encode(key).as_bytes());
        out.extend_from_slice(b" b");
    } else {
        out.extend_from_slice(key);
    }
}

/// Whether a key can be said in the classic protocol.
pub(crate) fn is_word(key: &[u8]) -> bool {
    !key.iter().any(|byte| matches!(byte, b' ' | b'\r' | b'\n' | 0))
}

/// Fetches a batch; what is not there any more is counted.
pub(crate) fn fetch(
    connection: &mut Connection,
    language: Language,
    batch: &Batch,
    tally: &mut Tally,
) -> Result<Block, String> {
    let mut block = Block {
        cursor: batch.cursor,
        ..Block::default()
    };
    match language {
        Language::Meta(flags) => {
            for wanted in &batch.keys {
                connection.put(&[b"mg "]);
                put_key(connection.output(), &wanted.key, false);
                connection.put(&[flags.as_bytes()]);
            }
            connection.send()?;
            for wanted in &batch.keys {
                read_meta(connection, wanted, &mut block, tally)?;
            }
        }
        Language::Classic => {
            let (words, others): (Vec<&Wanted>, Vec<&Wanted>) =
                batch.keys.iter().partition(|wanted| is_word(&wanted.key));
            for _ in others {
                tally.fail("with keys that this server's protocol cannot say");
            }
            for wanted in words.chunks(KEYS_PER_GET) {
                get(connection, wanted, &mut block, tally)?;
            }
        }
    }
    // At the end of the batch: what is left to live is then what was told or a little less.
    block.taken_at = unix_millis();
    Ok(block)
}

/// What a reply's flags say.
#[derive(Debug, Default)]
struct Flags {
    flags: u32,
    ttl: Option<u32>,
    is_binary: bool,
    is_stale: bool,
}

impl Flags {
    fn read(words: &[u8]) -> Option<Flags> {
        let mut flags = Flags::default();
        for word in words.split(|&byte| byte == b' ').filter(|word| !word.is_empty()) {
            let number = || std::str::from_utf8(&word[1..]).ok()?.parse::<u32>().ok();
            match word[0] {
                b'f' => flags.flags = number()?,
                b't' if word == b"t-1" => {}
                b't' => flags.ttl = Some(number()?),
                b'b' => flags.is_binary = true,
                b'X' => flags.is_stale = true,
                _ => {}
            }
        }
        Some(flags)
    }
}

fn read_meta(
    connection: &mut Connection,
    wanted: &Wanted,
    block: &mut Block,
    tally: &mut Tally,
) -> Result<(), String> {
    let line = connection.read_line()?;
    let Some(rest) = line.strip_prefix(b"VA ") else {
        match line {
            // The key may stand behind it.
            [b'E', b'N', ..] => tally.skip("gone meanwhile"),
            refused if is_refusal(refused) => tally.fail(&String::from_utf8_lossy(refused)),
            other => return Err(format!("unexpected reply {:?}", String::from_utf8_lossy(other))),
        }
        return Ok(());
    };
    let end = rest.iter().position(|&byte| byte == b' ').unwrap_or(rest.len());
    let len = std::str::from_utf8(&rest[..end])
        .ok()
        .and_then(|len| len.parse::<usize>().ok());
    let read = len.zip(Flags::read(&rest[end..]));
    let (len, flags) = read.ok_or_else(|| format!("unexpected reply {:?}", String::from_utf8_lossy(line)))?;
    let value = connection.read_block(len)?;
    if flags.is_stale {
        tally.skip("stale");
        return Ok(());
    }
    push(block, tally, wanted, value, &flags);
    Ok(())
}

fn push(block: &mut Block, tally: &mut Tally, wanted: &Wanted, value: &[u8], flags: &Flags) {
    if flags.ttl == Some(0) {
        return tally.skip("expired");
    }
    tally.pass(wanted.key.len() + value.len());
    block.push(&Item {
        key: &wanted.key,
        value,
        flags: flags.flags,
        ttl: flags.ttl,
        key_is_binary: flags.is_binary,
    });
}

/// Whether a reply is one request's refusal, after which the connection goes on.
pub(crate) fn is_refusal(reply: &[u8]) -> bool {
    [&b"ERROR"[..], b"CLIENT_ERROR ", b"SERVER_ERROR "]
        .iter()
        .any(|words| reply.starts_with(words))
}

/// Gets some by one `get`. Their lives are those that the list told.
fn get(
    connection: &mut Connection,
    wanted: &[&Wanted],
    block: &mut Block,
    tally: &mut Tally,
) -> Result<(), String> {
    connection.put(&[b"get"]);
    for wanted in wanted {
        connection.put(&[b" ", &wanted.key]);
    }
    connection.put(&[b"\r\n"]);
    connection.send()?;
    let unix_secs = unix_millis() / 1000;
    let mut rest = wanted.iter();
    loop {
        let line = connection.read_line()?.to_vec();
        if line == b"END" {
            break;
        }
        let words: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
        let number = |at: usize| std::str::from_utf8(words.get(at)?).ok()?.parse::<u32>().ok();
        let (Some(flags), Some(len), true) = (number(2), number(3), words[0] == b"VALUE") else {
            return Err(format!("unexpected reply {:?}", String::from_utf8_lossy(&line)));
        };
        // They come in the order asked for.
        let found = loop {
            match rest.next() {
                Some(found) if found.key == words[1] => break found,
                Some(_) => tally.skip("gone meanwhile"),
                None => {
                    return Err(format!(
                        "a value that nobody asked for: {:?}",
                        String::from_utf8_lossy(&line)
                    ));
                }
            }
        };
        let value = connection.read_block(len as usize)?;
        let ttl = found.expires_at.map(|at| at.saturating_sub(unix_secs) as u32);
        let flags = Flags {
            flags,
            ttl,
            ..Flags::default()
        };
        push(block, tally, found, value, &flags);
    }
    rest.for_each(|_| tally.skip("gone meanwhile"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Flags, put_key};

    #[test]
    fn keys_are_said_as_words_or_as_base64() {
        let check = |key: &[u8], is_binary, said: &str| {
            let mut out = Vec::new();
            put_key(&mut out, key, is_binary);
            assert_eq!(String::from_utf8_lossy(&out), said);
        };
        check(b"key", false, "key");
        check(b"key", true, "a2V5 b");
        check(b"two words", false, "dHdvIHdvcmRz b");
        check(b"\0", false, "AA== b");
    }

    #[test]
    fn flags_of_a_reply_are_read_in_any_order() {
        let flags = Flags::read(b" f5 t-1 kb b X W").expect("flags");
        assert_eq!(
            (flags.flags, flags.ttl, flags.is_binary, flags.is_stale),
            (5, None, true, true)
        );
        let flags = Flags::read(b" t0 kt f4294967295").expect("flags");
        assert_eq!(
            (flags.flags, flags.ttl, flags.is_binary),
            (u32::MAX, Some(0), false)
        );
        assert!(Flags::read(b" fx").is_none());
    }
}
