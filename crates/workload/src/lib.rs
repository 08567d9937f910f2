//! Where requests come from: recorded traces, and workloads drawn from published figures.
//!
//! Every tool that needs requests takes them through [`open`], so what works for one works for all. What is done with a
//! request, over a socket, on the engine or in a simulation, is not known here.

pub mod tables;
pub mod trace;

use std::fmt;
use std::path::Path;

use rand::SeedableRng;
use rand::rngs::StdRng;

use self::tables::Tables;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Look aside: get, and set on a miss.
    Get,
    /// `set`, `add`, `replace`, `append`, `prepend` by name; `cas` is taken as `set`.
    Store(&'static str),
    /// `delete`.
    Delete,
    /// `incr` or `decr`.
    Arith(&'static str),
}

impl Verb {
    /// The verb of an operation as Twitter's traces and figures name it; none if the name is not known.
    pub fn of(operation: &str) -> Option<Verb> {
        Some(match operation {
            "get" | "gets" => Verb::Get,
            "set" | "cas" => Verb::Store("set"),
            "add" => Verb::Store("add"),
            "replace" => Verb::Store("replace"),
            "append" => Verb::Store("append"),
            "prepend" => Verb::Store("prepend"),
            "delete" => Verb::Delete,
            "incr" => Verb::Arith("incr"),
            "decr" => Verb::Arith("decr"),
            _ => return None,
        })
    }
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Seconds since the trace's own beginning of time; 0 if nothing is said of time.
    pub time: u32,
    /// As it goes over the wire, 250 bytes at most.
    pub key: Vec<u8>,
    /// Bytes of the value, also where the request does not bring it: it is what a miss is filled with.
    pub value_len: u32,
    /// What is done.
    pub verb: Verb,
    /// Seconds of life of the item; 0 if nothing is said of it.
    pub ttl: u32,
}

/// What a source of requests is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Rows as Twitter publishes its traces, see [`trace::csv`].
    Csv,
    /// libCacheSim's binary records, see [`trace::oracle_general`].
    OracleGeneral,
    /// A workload drawn from tables, see [`tables`].
    Tables,
}

impl Format {
    /// The names that users write, each with its format.
    pub const NAMES: &[(&str, Format)] = &[
        ("csv", Format::Csv),
        ("oracle-general", Format::OracleGeneral),
        ("tables", Format::Tables),
    ];

    /// The format of that name; none if there is none of it.
    pub fn named(name: &str) -> Option<Format> {
        Some(Format::NAMES.iter().find(|(known, _)| *known == name)?.1)
    }

    /// Goes by the name: `*.bin` and `*oracleGeneral*` are [`Format::OracleGeneral`], `*.tables` are
    /// [`Format::Tables`], each with `.zst` behind it or without; all others are [`Format::Csv`].
    pub fn guess(path: &Path) -> Format {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .to_lowercase();
        let bare = name.trim_end_matches(".zst");
        if name.contains("oraclegeneral") || bare.ends_with(".bin") {
            Format::OracleGeneral
        } else if bare.ends_with(".tables") {
            Format::Tables
        } else {
            Format::Csv
        }
    }

    /// Whether requests are drawn, without end, where others are recorded and come to one.
    pub fn is_drawn(self) -> bool {
        self == Format::Tables
    }
}

/// How a workload is drawn; recorded ones do not ask.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draw {
    /// Size of the key space, 1 at least.
    pub keys: u64,
    /// The same seed draws the same requests.
    pub seed: u64,
}

/// Requests, one after the other; an error names the source and the place in it, and nothing of use follows it.
pub struct Requests(Box<dyn Iterator<Item = Result<Request, String>> + Send>);

impl Iterator for Requests {
    type Item = Result<Request, String>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
}

impl fmt::Debug for Requests {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Requests")
    }
}

/// Opens a source of requests. An error names the source: it cannot be read, or what stands in it cannot be drawn from.
pub fn open(path: &Path, format: Format, draw: &Draw) -> Result<Requests, String> {
    if draw.keys == 0 {
        return Err("the key space has 0 keys; give 1 at least".to_owned());
    }
    let name = path.display().to_string();
    let in_source = move |why: String| format!("{name}: {why}");
    let input = trace::open(path)?;
    Ok(Requests(match format {
        Format::Csv => Box::new(trace::csv(input).map(move |request| request.map_err(&in_source))),
        Format::OracleGeneral => {
            Box::new(trace::oracle_general(input).map(move |request| request.map_err(&in_source)))
        }
        Format::Tables => Box::new(
            Tables::read(input)
                .map_err(in_source)?
                .draw(draw.keys, draw.seed)
                .map(Ok),
        ),
    }))
}

/// Chance that belongs to one key: whatever is drawn of it is the same at each of its requests.
fn chance_of(key: u64, seed: u64) -> StdRng {
    StdRng::seed_from_u64(key.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Draw, Format, open};

    #[test]
    fn the_format_is_guessed_by_the_name() {
        let check = |name: &str, format| assert_eq!(Format::guess(Path::new(name)), format, "{name}");
        check("a/web12.csv.zst", Format::Csv);
        check("a/anything", Format::Csv);
        check("a/cloud.oracleGeneral.zst", Format::OracleGeneral);
        check("a/cloud.bin", Format::OracleGeneral);
        check("a/cloud.BIN.zst", Format::OracleGeneral);
        check("a.bin/kvcache.tables.zst", Format::Tables);
        assert_eq!(Format::named("tables"), Some(Format::Tables));
        assert_eq!(Format::named("table"), None);
    }

    #[test]
    fn a_source_that_cannot_be_opened_is_named() {
        let draw = Draw { keys: 1, seed: 1 };
        let error = open(Path::new("/none/such.csv"), Format::Csv, &draw).expect_err("no such file");
        assert!(error.starts_with("/none/such.csv: "), "{error}");
        let draw = Draw { keys: 0, ..draw };
        let error = open(Path::new("/none/such.csv"), Format::Csv, &draw).expect_err("no keys");
        assert!(error.contains("0 keys"), "{error}");
    }
}
