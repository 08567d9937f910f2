//! Where requests come from: recorded traces, and workloads drawn from published figures.
//!
//! Every tool that needs requests takes them through [`open`], so what works for one works for all. What is done with a
//! request, over a socket, on the engine or in a simulation, is not known here.

pub mod tables;
pub mod trace;
pub mod twitter;

use std::fmt;
use std::path::Path;

use rand::SeedableRng;
use rand::rngs::StdRng;

use self::tables::Tables;
use self::twitter::Cluster;

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
    /// A workload drawn to published figures of a cluster, whose name stands in the path's place; see [`twitter`].
    Twitter,
}

impl Format {
    /// The names that users write, each with its format.
    pub const NAMES: &[(&str, Format)] = &[
        ("csv", Format::Csv),
        ("oracle-general", Format::OracleGeneral),
        ("tables", Format::Tables),
        ("twitter", Format::Twitter),
    ];

    /// The format of that name; none if there is none of it.
    pub fn named(name: &str) -> Option<Format> {
        Some(Format::NAMES.iter().find(|(known, _)| *known == name)?.1)
    }

    /// Goes by the name: `twitter:*` is [`Format::Twitter`], `*.bin` and `*oracleGeneral*` are [`Format::OracleGeneral`], `*.tables` are
    /// [`Format::Tables`], each with `.zst` behind it or without; all others are [`Format::Csv`].
    pub fn guess(path: &Path) -> Format {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .to_lowercase();
        let bare = name.trim_end_matches(".zst");
        if path.to_string_lossy().starts_with(twitter::PREFIX) {
            Format::Twitter
        } else if name.contains("oraclegeneral") || bare.ends_with(".bin") {
            Format::OracleGeneral
        } else if bare.ends_with(".tables") {
            Format::Tables
        } else {
            Format::Csv
        }
    }

    /// Whether requests are drawn, without end, where others are recorded and come to one.
    pub fn is_drawn(self) -> bool {
        matches!(self, Format::Tables | Format::Twitter)
    }
}

/// How a workload is drawn; recorded ones do not ask.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draw {
    /// Size of the key space, 1 at least.
    pub keys: u64,
    /// The same seed draws the same requests.
    pub seed: u64,
    /// Requests in a second of the workload's own time; 0: as published, or 10,000 where no rate is.
    pub rate: f64,
}

impl Draw {
    fn check(&self) -> Result<(), String> {
        if self.keys == 0 {
            return Err("the key space has 0 keys; give 1 at least".to_owned());
        }
        if !(self.rate.is_finite() && self.rate >= 0.0) {
            return Err(format!(
                "the rate is {} requests a second; give 0 or more",
                self.rate
            ));
        }
        Ok(())
    }
}

/// Requests, one after the other; an error names the source and the place in it, and nothing of use follows it.
pub struct Requests {
    name: String,
    requests: Box<dyn Iterator<Item = Result<Request, String>> + Send>,
}

impl Iterator for Requests {
    type Item = Result<Request, String>;

    fn next(&mut self) -> Option<Self::Item> {
        let request = self.requests.next()?;
        Some(request.map_err(|why| format!("{}: {why}", self.name)))
    }
}

impl fmt::Debug for Requests {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Requests({:?})", self.name)
    }
}

/// Opens a source of requests. An error names the source: it cannot be read, or what stands in it cannot be drawn from.
pub fn open(path: &Path, format: Format, draw: &Draw) -> Result<Requests, String> {
    draw.check()?;
    let name = path.display().to_string();
    let in_source = |why: String| format!("{name}: {why}");
    let requests: Box<dyn Iterator<Item = Result<Request, String>> + Send> = match format {
        Format::Csv => Box::new(trace::csv(trace::open(path)?)),
        Format::OracleGeneral => Box::new(trace::oracle_general(trace::open(path)?)),
        Format::Tables => {
            let tables = Tables::read(trace::open(path)?).map_err(in_source)?;
            Box::new(tables.draw(draw.keys, draw.seed).map(Ok))
        }
        Format::Twitter => {
            let cluster = name.strip_prefix(twitter::PREFIX).unwrap_or(&name);
            Box::new(Cluster::named(cluster).map_err(in_source)?.draw(draw).map(Ok))
        }
    };
    Ok(Requests { name, requests })
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
        check("twitter:cluster12", Format::Twitter);
        check("a/twitter:cluster12", Format::Csv);
        check("a.bin/kvcache.tables.zst", Format::Tables);
        assert_eq!(Format::named("tables"), Some(Format::Tables));
        assert_eq!(Format::named("table"), None);
    }

    #[test]
    fn what_cannot_be_opened_or_drawn_is_told() {
        let check = |draw: Draw, says: &str| {
            let error = open(Path::new("/none/such.csv"), Format::Csv, &draw).expect_err("no such file");
            assert!(error.contains(says), "{error}");
        };
        let draw = Draw {
            keys: 1,
            seed: 1,
            rate: 0.0,
        };
        check(draw, "/none/such.csv: ");
        check(Draw { keys: 0, ..draw }, "0 keys");
        check(Draw { rate: -1.0, ..draw }, "-1 requests");
        check(
            Draw {
                rate: f64::NAN,
                ..draw
            },
            "NaN requests",
        );
    }
}
