//! Storing blocks in a server.

use scrubjay_protocol::dump::Filter;

use super::block::{Block, Item, unix_millis};
use super::fetch::{Language, is_refusal, is_word, put_key};
use super::tally::Tally;
use crate::cmd::connection::{Connection, exptime};

/// How items are stored.
#[derive(Clone, Debug, Default)]
pub(crate) struct Terms {
    /// Others are passed over.
    pub(crate) filter: Filter,
    /// What is there already stays.
    pub(crate) keep_existing: bool,
    /// Lives are as long as they were when the block was taken; else what has passed since is taken off.
    pub(crate) keep_ttl: bool,
}

/// A server that takes items.
pub(crate) struct Store {
    connection: Connection,
    language: Language,
    terms: Terms,
}

impl Store {
    /// Asks the server how it wants them.
    pub(crate) fn new(mut connection: Connection, terms: Terms) -> Result<Store, String> {
        Ok(Store {
            language: Language::of(&mut connection)?,
            connection,
            terms,
        })
    }

    /// Stores the items of `block` and counts what becomes of them.
    pub(crate) fn store(&mut self, block: &Block, tally: &mut Tally) -> Result<(), String> {
        let age = if self.terms.keep_ttl {
            0
        } else {
            block.age_secs(unix_millis())
        };
        let mut sent = Vec::with_capacity(block.items as usize);
        for item in block.items() {
            let item = item?;
            let life = match item.ttl {
                None => Some(0),
                Some(ttl) => ttl.checked_sub(age).filter(|&left| left > 0),
            };
            let (bytes, ttl) = (item.key.len() + item.value.len(), item.ttl.zip(life));
            let ttl = ttl.map(|(_, left)| u64::from(left));
            let is_wanted = self.terms.filter.admits(item.key, bytes as u64, 0, ttl);
            match life {
                None => tally.skip("expired"),
                Some(_) if !is_wanted => tally.skip("not wanted"),
                Some(_) if self.language == Language::Classic && !is_word(item.key) => {
                    tally.fail("with keys that the server's protocol cannot say");
                }
                Some(life) => {
                    self.put(&item, life);
                    sent.push(bytes);
                }
            }
        }
        self.connection.send()?;
        for bytes in sent {
            match self.connection.read_line()? {
                b"HD" | b"STORED" => tally.pass(bytes),
                b"NS" | b"NOT_STORED" if self.terms.keep_existing => tally.skip("there already"),
                refused if is_refusal(refused) || matches!(refused, b"NS" | b"NOT_STORED") => {
                    tally.fail(&String::from_utf8_lossy(refused));
                }
                other => return Err(format!("unexpected reply {:?}", String::from_utf8_lossy(other))),
            }
        }
        Ok(())
    }

    fn put(&mut self, item: &Item<'_>, life: u32) {
        let (len, life, flags) = (item.value.len(), exptime(life), item.flags);
        match self.language {
            Language::Meta(_) => {
                self.connection.put(&[b"ms "]);
                // A flag of the key stands behind the length.
                let (mut word, out) = (Vec::with_capacity(item.key.len()), self.connection.output());
                put_key(&mut word, item.key, item.key_is_binary);
                let (key, flag) = match word.strip_suffix(b" b") {
                    Some(key) => (key, " b"),
                    None => (&word[..], ""),
                };
                out.extend_from_slice(key);
                let mode = if self.terms.keep_existing { " ME" } else { "" };
                out.extend_from_slice(format!(" {len}{flag} F{flags} T{life}{mode}\r\n").as_bytes());
            }
            Language::Classic => {
                let verb = if self.terms.keep_existing { "add " } else { "set " };
                self.connection.put(&[verb.as_bytes(), item.key]);
                let head = format!(" {flags} {life} {len}\r\n");
                self.connection.put(&[head.as_bytes()]);
            }
        }
        self.connection.put(&[item.value, b"\r\n"]);
    }
}
