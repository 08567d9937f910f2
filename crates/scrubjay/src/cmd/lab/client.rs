//! A server under test: opened with care for what it holds, then filled, read and asked for its accounting.

use std::collections::BTreeMap;

use crate::cmd::connection::{Connection, Stats, exptime};
use crate::cmd::value::{append_value, is_value};

/// Bytes of requests that are sent together; their replies are far fewer.
const BATCH_BYTES: usize = 128 << 10;

/// Keys of one `get`.
const KEYS_OF_A_GET: usize = 50;

/// Bytes of a page of a server that does not say so. Source: memcached -h, "-I".
const PAGE_DEFAULT: u64 = 1 << 20;

/// What an experiment asks of the server's memory limit, in MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    Exactly(u64),
    AtLeast(u64),
}

/// What the user has allowed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leave {
    /// To empty a server that holds items.
    pub(crate) flush: bool,
    /// To run with another memory limit than the experiment's.
    pub(crate) any_size: bool,
}

/// Items alike but for the number in their keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Population {
    /// What their keys begin with, so that two populations share none.
    pub(crate) prefix: char,
    pub(crate) items: u64,
    pub(crate) key_len: usize,
    pub(crate) value_len: u32,
    /// Seconds; 0: they never expire.
    pub(crate) ttl: u32,
}

impl Population {
    /// Key number `index`.
    pub(crate) fn key(&self, index: u64) -> Vec<u8> {
        format!("{}{index:0width$}", self.prefix, width = self.key_len - 1).into_bytes()
    }

    pub(crate) fn keys(&self) -> Vec<Vec<u8>> {
        (0..self.items).map(|index| self.key(index)).collect()
    }

    /// Bytes of key and value of one item.
    pub(crate) fn payload(&self) -> u64 {
        self.key_len as u64 + u64::from(self.value_len)
    }
}

/// What `stats slabs` and `stats items` say of one size class. A server without classes tells of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Class {
    pub(crate) chunk_size: u64,
    pub(crate) total_pages: u64,
    pub(crate) total_chunks: u64,
    pub(crate) used_chunks: u64,
    pub(crate) mem_requested: u64,
    pub(crate) evicted: u64,
}

/// The server under test.
pub(crate) struct Client {
    /// As it was named on the command line.
    pub(crate) server: String,
    connection: Connection,
    /// The memory limit in bytes.
    pub(crate) limit: u64,
    /// Bytes of a page, or of a segment where there are no pages.
    pub(crate) page: u64,
    evictions_before: u64,
    /// Items were stored before it was opened.
    used_before: bool,
}

impl Client {
    /// Connects, and looks whether the server may be used.
    ///
    /// # Errors
    /// It cannot be reached, its memory limit is not the experiment's, or it holds items; unless `leave` allows that.
    pub(crate) fn open(server: &str, memory: Memory, leave: Leave) -> Result<Client, String> {
        let mut connection = Connection::connect(server)?;
        let at = |why: String| format!("{server}: {why}");
        let general = connection.stats("").map_err(at)?;
        let settings = connection.stats("settings").map_err(at)?;
        let limit = number(&settings, "maxbytes").or(number(&general, "limit_maxbytes"));
        let Some(limit) = limit else {
            return Err(at(
                "`stats` tells no memory limit; this is no server that speaks memcached's protocol"
                    .to_owned(),
            ));
        };
        if !leave.any_size {
            check_memory(memory, limit).map_err(at)?;
        }
        let items = number(&general, "curr_items").unwrap_or(0);
        if items > 0 && !leave.flush {
            return Err(at(format!(
                "it holds {items} items and would be emptied; name a server for tests, or say --flush"
            )));
        }
        Ok(Client {
            server: server.to_owned(),
            connection,
            limit,
            page: number(&general, "segment_size")
                .or(number(&settings, "item_size_max"))
                .unwrap_or(PAGE_DEFAULT),
            evictions_before: number(&general, "evictions").unwrap_or(0),
            used_before: number(&general, "total_items").is_some_and(|total| total > 0),
        })
    }

    /// Removes everything.
    pub(crate) fn empty(&mut self) -> Result<(), String> {
        let reply = self.connection.ask("flush_all").map_err(|why| self.at(why))?;
        if reply != "OK" {
            return Err(self.at(format!(
                "flush_all answered {reply:?}; name a server that allows it"
            )));
        }
        self.say("emptied");
        if self.used_before {
            self.say("it was used before, and memory that is bound to a size class stays so; better take a fresh server");
        }
        Ok(())
    }

    /// Tells the user how it goes on.
    pub(crate) fn say(&self, what: &str) {
        eprintln!("{}: {what}", self.server);
    }

    fn at(&self, why: String) -> String {
        format!("{}: {why}", self.server)
    }

    /// Stores items of key, value length and ttl; returns how many the server refused.
    pub(crate) fn store(
        &mut self,
        items: impl IntoIterator<Item = (Vec<u8>, u32, u32)>,
    ) -> Result<u64, String> {
        let (mut waiting, mut refused) = (0, 0);
        for (key, value_len, ttl) in items {
            let numbers = format!(" 0 {} {value_len}\r\n", exptime(ttl));
            self.connection.put(&[b"set ", &key, numbers.as_bytes()]);
            append_value(&key, value_len, self.connection.output());
            self.connection.put(&[b"\r\n"]);
            waiting += 1;
            if self.connection.output().len() >= BATCH_BYTES {
                refused += self.finish(waiting)?;
                waiting = 0;
            }
        }
        Ok(refused + self.finish(waiting)?)
    }

    /// Stores a whole population.
    pub(crate) fn populate(&mut self, population: &Population) -> Result<u64, String> {
        let item = |index| (population.key(index), population.value_len, population.ttl);
        self.store((0..population.items).map(item))
    }

    fn finish(&mut self, waiting: u64) -> Result<u64, String> {
        self.connection.send().map_err(|why| self.at(why))?;
        let mut refused = 0;
        for _ in 0..waiting {
            match self.connection.read_line() {
                Ok(line) => refused += u64::from(line != b"STORED"),
                Err(why) => return Err(self.at(why)),
            }
        }
        Ok(refused)
    }

    /// Reads keys; returns for each whether it was there.
    ///
    /// # Errors
    /// A value is not the one that belongs to its key.
    pub(crate) fn read(&mut self, keys: &[Vec<u8>]) -> Result<Vec<bool>, String> {
        let mut found = vec![false; keys.len()];
        for (keys, found) in keys.chunks(KEYS_OF_A_GET).zip(found.chunks_mut(KEYS_OF_A_GET)) {
            self.read_some(keys, found)
                .map_err(|why| format!("{}: {why}", self.server))?;
        }
        Ok(found)
    }

    fn read_some(&mut self, keys: &[Vec<u8>], found: &mut [bool]) -> Result<(), String> {
        self.connection.put(&[b"get"]);
        for key in keys {
            self.connection.put(&[b" ", key]);
        }
        self.connection.put(&[b"\r\n"]);
        self.connection.send()?;
        // Values come in the order of the keys; what is not there is left out.
        let mut asked = keys.iter().zip(found);
        while let Some((key, value)) = self.connection.read_value()? {
            let name = String::from_utf8_lossy(key).into_owned();
            if !is_value(key, value) {
                return Err(format!("the value of {name} is not what was stored"));
            }
            match asked.find(|(asked, _)| *asked == key) {
                Some((_, found)) => *found = true,
                None => return Err(format!("{name} was answered but not asked for")),
            }
        }
        Ok(())
    }

    /// How many of a population can be read.
    pub(crate) fn count_readable(&mut self, population: &Population) -> Result<u64, String> {
        let found = self.read(&population.keys())?;
        Ok(found.iter().filter(|found| **found).count() as u64)
    }

    /// A general statistic; 0 if the server has none of that name.
    pub(crate) fn stat(&mut self, name: &str) -> Result<u64, String> {
        let general = self.connection.stats("").map_err(|why| self.at(why))?;
        Ok(number(&general, name).unwrap_or(0))
    }

    /// Evictions since the experiment began.
    pub(crate) fn evictions(&mut self) -> Result<u64, String> {
        Ok(self.stat("evictions")?.saturating_sub(self.evictions_before))
    }

    /// The size classes in use, by their numbers.
    pub(crate) fn classes(&mut self) -> Result<BTreeMap<u64, Class>, String> {
        let mut classes = BTreeMap::new();
        for group in ["slabs", "items"] {
            let stats = self.connection.stats(group).map_err(|why| self.at(why))?;
            for (name, value) in &stats {
                note(&mut classes, name.trim_start_matches("items:"), value);
            }
        }
        Ok(classes)
    }
}

/// Enters `ID:NAME` into the class.
fn note(classes: &mut BTreeMap<u64, Class>, name: &str, value: &str) {
    let Some((Ok(id), name)) = name.split_once(':').map(|(id, name)| (id.parse(), name)) else {
        return;
    };
    let Ok(value) = value.parse() else {
        return;
    };
    let class: &mut Class = classes.entry(id).or_default();
    match name {
        "chunk_size" => class.chunk_size = value,
        "total_pages" => class.total_pages = value,
        "total_chunks" => class.total_chunks = value,
        "used_chunks" => class.used_chunks = value,
        "mem_requested" => class.mem_requested = value,
        "evicted" => class.evicted = value,
        _ => {}
    }
}

fn number(stats: &Stats, name: &str) -> Option<u64> {
    stats.iter().find(|(stat, _)| stat == name)?.1.parse().ok()
}

fn check_memory(memory: Memory, limit: u64) -> Result<(), String> {
    let (fits, needed, mebibytes) = match memory {
        Memory::Exactly(mebibytes) => (limit == mebibytes << 20, "", mebibytes),
        Memory::AtLeast(mebibytes) => (limit >= mebibytes << 20, "at least ", mebibytes),
    };
    if fits {
        return Ok(());
    }
    Err(format!(
        "it runs with -m {}, this experiment needs {needed}-m {mebibytes}; start one with `scrubjay -m {mebibytes} -p PORT` or \
         `memcached -m {mebibytes} -p PORT`, or say --any-size",
        limit >> 20
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Class, Memory, Population, check_memory, note};

    #[test]
    fn keys_have_their_length_and_are_distinct() {
        let population = Population {
            prefix: 'a',
            items: 3,
            key_len: 8,
            value_len: 1,
            ttl: 0,
        };
        assert_eq!(population.keys(), [b"a0000000", b"a0000001", b"a0000002"]);
    }

    #[test]
    fn classes_are_read_from_both_groups() {
        let mut classes = BTreeMap::new();
        for (name, value) in [
            ("5:chunk_size", "240"),
            ("5:used_chunks", "7"),
            ("5:evicted", "3"),
        ] {
            note(&mut classes, name, value);
        }
        note(&mut classes, "active_slabs", "1");
        let class = Class {
            chunk_size: 240,
            used_chunks: 7,
            evicted: 3,
            ..Class::default()
        };
        assert_eq!(classes, BTreeMap::from([(5, class)]));
    }

    #[test]
    fn a_wrong_memory_limit_is_told_with_the_way_out() {
        assert_eq!(check_memory(Memory::Exactly(16), 16 << 20), Ok(()));
        assert_eq!(check_memory(Memory::AtLeast(16), 64 << 20), Ok(()));
        let why = check_memory(Memory::Exactly(16), 64 << 20).expect_err("too much");
        assert!(
            why.contains("runs with -m 64") && why.contains("scrubjay -m 16") && why.contains("--any-size")
        );
        assert!(check_memory(Memory::AtLeast(16), 8 << 20).is_err());
    }
}
