//! The one table of schemes: their names, what they are compatible with, and how they are built.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::AtomicU64;

use super::hash::{self, Hash};
use super::ring::{POINTS_MAX, Position};
use super::score::Highest;
use super::{PlacementError, Rule, ServerIndex, Servers, libraries};

type HashOf = fn(&[u8]) -> u32;

/// A scheme as the table has it.
#[derive(Debug)]
pub struct SchemeRow {
    /// What configurations call it.
    pub name: &'static str,
    /// Which clients place keys so.
    pub like: &'static str,
    /// Whether it heeds weights.
    pub weights: Weights,
    /// The hash functions to choose from as `NAME/HASH`, the default first; none where it is fixed.
    pub hashes: &'static [Hash],
    build: fn(&Servers, HashOf) -> Result<Rule, PlacementError>,
}

/// What becomes of the servers' weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weights {
    /// Keys are shared in proportion to them.
    Counted,
    /// They change nothing, as in the library, which takes them too.
    Ignored,
    /// Different ones are an error: the library has none.
    Refused,
}

use Weights::{Counted, Ignored, Refused};

/// The default comes first.
static ROWS: &[SchemeRow] = &[
    SchemeRow {
        name: "ring",
        like: "scrubjay's own: adding a server moves few keys, weights cost nothing, shares are even",
        weights: Counted,
        hashes: &[],
        build: |servers, _| Ok(libraries::ring(servers)),
    },
    SchemeRow {
        name: "rendezvous",
        like: "scrubjay's own: the most even shares, at a cost that grows with the number of servers",
        weights: Refused,
        hashes: &[],
        build: |servers, _| Ok(Rule::Highest(Highest::seeded(servers))),
    },
    SchemeRow {
        name: "jump",
        like: "scrubjay's own: servers come and go at the end of the list only",
        weights: Refused,
        hashes: &[],
        build: |servers, _| Ok(Rule::Jump(servers.count())),
    },
    SchemeRow {
        name: "ketama",
        like: "libmemcached with KETAMA_WEIGHTED, pylibmc with ketama_weighted, php-memcached with LIBKETAMA_COMPATIBLE",
        weights: Counted,
        hashes: hash::LIBMEMCACHED_MD5,
        build: libraries::ketama,
    },
    SchemeRow {
        name: "libmemcached-consistent",
        like: "libmemcached, pylibmc and php-memcached with DISTRIBUTION_CONSISTENT; with KETAMA as /md5",
        weights: Counted,
        hashes: hash::LIBMEMCACHED,
        build: libraries::consistent,
    },
    SchemeRow {
        name: "libmemcached-modula",
        like: "libmemcached, pylibmc and php-memcached as they are if nothing is set",
        weights: Ignored,
        hashes: hash::LIBMEMCACHED,
        build: |servers, hash| Ok(libraries::slots(servers, hash)),
    },
    SchemeRow {
        name: "vbucket",
        like: "libmemcached with memcached_bucket_set, moxi: a map says which server has which of the buckets",
        weights: Ignored,
        hashes: hash::LIBMEMCACHED_CRC,
        build: |_, _| Err(PlacementError::NoBuckets),
    },
    SchemeRow {
        name: "twemproxy-ketama",
        like: "twemproxy as it is if nothing is set",
        weights: Counted,
        hashes: hash::TWEMPROXY,
        build: libraries::ketama,
    },
    SchemeRow {
        name: "twemproxy-modula",
        like: "twemproxy with distribution modula",
        weights: Counted,
        hashes: hash::TWEMPROXY,
        build: libraries::twemproxy_modula,
    },
    SchemeRow {
        name: "twemproxy-random",
        like: "twemproxy with distribution random: another server each time, for caches that need not find anything again",
        weights: Ignored,
        hashes: &[],
        build: |servers, _| Ok(Rule::Random(servers.count(), AtomicU64::new(0))),
    },
    SchemeRow {
        name: "php-memcache-standard-crc32",
        like: "php-memcache as it is if nothing is set",
        weights: Counted,
        hashes: &[],
        build: |servers, _| libraries::slots_by_weight(servers, |key| php_standard(crc32fast::hash(key))),
    },
    SchemeRow {
        name: "php-memcache-standard-fnv",
        like: "php-memcache with hash_function fnv",
        weights: Counted,
        hashes: &[],
        build: |servers, _| libraries::slots_by_weight(servers, |key| php_standard(hash::fnv1a_32(key))),
    },
    SchemeRow {
        name: "php-memcache-consistent-crc32",
        like: "php-memcache with hash_strategy consistent",
        weights: Counted,
        hashes: &[],
        build: |servers, _| libraries::php_consistent(servers, crc32fast::hash, hash::crc32_with),
    },
    SchemeRow {
        name: "php-memcache-consistent-fnv",
        like: "php-memcache with hash_strategy consistent and hash_function fnv",
        weights: Counted,
        hashes: &[],
        build: |servers, _| libraries::php_consistent(servers, hash::fnv1a_32, hash::fnv1a_32_with),
    },
    SchemeRow {
        name: "pymemcache",
        like: "pymemcache's HashClient",
        weights: Refused,
        hashes: &[],
        build: |servers, _| Ok(Rule::Highest(Highest::prefixed(servers))),
    },
    SchemeRow {
        name: "spymemcached",
        like: "spymemcached's KetamaConnectionFactory",
        weights: Counted,
        hashes: &[],
        build: |servers, _| libraries::spymemcached(servers),
    },
    SchemeRow {
        name: "hash-ring",
        like: "hash_ring for Python, LightCloud",
        weights: Counted,
        hashes: &[],
        build: |servers, _| libraries::hash_ring(servers),
    },
];

/// Of 32 bits the standard strategy takes 15, and 1 for 0.
fn php_standard(hash: u32) -> u32 {
    (hash >> 16 & 0x7fff).max(1)
}

/// A row of the table with what may be chosen besides.
#[derive(Debug, Clone)]
pub struct Scheme {
    row: &'static SchemeRow,
    hash: HashOf,
    /// The name of the hash, if it was chosen.
    chosen: Option<&'static str>,
    /// The hash of the ring's points, if it is another: libmemcached leaves a ring as it is when the hash is set later.
    points: Option<&'static Hash>,
    tag: Option<[u8; 2]>,
    buckets: Option<Vec<u32>>,
}

impl Scheme {
    /// Every scheme, the default first.
    pub fn all() -> &'static [SchemeRow] {
        ROWS
    }

    /// The same, but of a key with a part between these two bytes only that part is hashed: `*b"{}"`.
    #[must_use]
    pub fn with_tag(mut self, braces: [u8; 2]) -> Scheme {
        self.tag = Some(braces);
        self
    }

    /// The same with a map for `vbucket`: the index of the server of each bucket.
    #[must_use]
    pub fn with_buckets(mut self, servers: Vec<u32>) -> Scheme {
        self.buckets = Some(servers);
        self
    }

    /// Whether a key's server is the same each time.
    pub fn finds_again(&self) -> bool {
        self.row.name != "twemproxy-random"
    }

    pub(super) fn tag(&self) -> Option<[u8; 2]> {
        self.tag
    }

    /// The rule of the scheme for these servers.
    pub(super) fn rule(&self, servers: &Servers) -> Result<Rule, PlacementError> {
        if let (Refused, Some(server)) = (self.row.weights, servers.first_of_other_weight()) {
            return Err(PlacementError::WeightsUnknown(
                self.row.name,
                server.host_and_port(),
            ));
        }
        match &self.buckets {
            Some(_) if self.row.name != "vbucket" => Err(PlacementError::BucketsUnknown(self.row.name)),
            Some(buckets) => Ok(Rule::Slots(self.hash, mapped(servers, buckets)?)),
            // What all schemes agree about needs no table; but what is wrong is said all the same.
            None => {
                let of_points = self.points.map_or(self.hash, |points| points.of);
                Ok(match (self.row.build)(servers, of_points)? {
                    _ if servers.count() == 1 => Rule::Only,
                    Rule::Ring(_, ring) if self.points.is_some() => Rule::Ring(Position::At(self.hash), ring),
                    rule => rule,
                })
            }
        }
    }
}

/// The servers of the buckets, or what is wrong with the map.
fn mapped(servers: &Servers, buckets: &[u32]) -> Result<Vec<ServerIndex>, PlacementError> {
    if !buckets.len().is_power_of_two() || buckets.len() as u64 > POINTS_MAX {
        return Err(PlacementError::BucketCount(buckets.len()));
    }
    let known = |(bucket, server): (usize, &u32)| match *server < servers.count() {
        true => Ok(ServerIndex::new(*server)),
        false => Err(PlacementError::BucketServer(bucket, *server, servers.count())),
    };
    buckets.iter().enumerate().map(known).collect()
}

impl Default for Scheme {
    fn default() -> Scheme {
        Scheme {
            row: &ROWS[0],
            hash: hash::md5_first,
            chosen: None,
            points: None,
            tag: None,
            buckets: None,
        }
    }
}

impl fmt::Display for Scheme {
    /// As it is read from text; tag and buckets have none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row.name)?;
        self.chosen.map_or(Ok(()), |hash| write!(f, "/{hash}"))?;
        self.points.map_or(Ok(()), |points| write!(f, "/{}", points.name))
    }
}

impl FromStr for Scheme {
    type Err = PlacementError;

    /// `NAME`, `NAME/HASH`, or `libmemcached-consistent/HASH/HASH`, where the second is that of the ring's points.
    fn from_str(text: &str) -> Result<Scheme, PlacementError> {
        let (name, wanted) = text
            .split_once('/')
            .map_or((text, None), |(name, hash)| (name, Some(hash)));
        let row = ROWS.iter().find(|row| row.name == name);
        let row = row.ok_or_else(|| PlacementError::UnknownScheme(name.to_owned()))?;
        let mut scheme = Scheme {
            row,
            ..Scheme::default()
        };
        if let Some(default) = row.hashes.first() {
            scheme.hash = default.of;
        }
        let find = |wanted: &str| {
            let hash = row.hashes.iter().find(|hash| hash.name == wanted);
            hash.ok_or_else(|| PlacementError::UnknownHash(row.name, wanted.to_owned()))
        };
        if let Some(wanted) = wanted {
            let (of_keys, of_points) = match wanted.split_once('/') {
                Some((of_keys, of_points)) if row.name == "libmemcached-consistent" => {
                    (of_keys, Some(of_points))
                }
                _ => (wanted, None),
            };
            let hash = find(of_keys)?;
            scheme.hash = hash.of;
            scheme.chosen = Some(hash.name);
            scheme.points = of_points.map(find).transpose()?;
        }
        Ok(scheme)
    }
}

#[cfg(test)]
mod tests {
    use super::Scheme;
    use crate::placement::{Placement, Server, Servers};

    /// Asked of php-memcached 3.2: `OPT_DISTRIBUTION`, the servers, and in the second row `OPT_HASH` after them.
    #[test]
    fn a_ring_keeps_the_hash_that_it_was_made_with() {
        let ports = [31411, 31412, 31413];
        let servers = Servers::new(ports.map(|port| Server::new("127.0.0.1", port)).to_vec()).unwrap();
        for (scheme, expected) in [
            ("libmemcached-consistent", "020101100001220212101111"),
            (
                "libmemcached-consistent/one_at_a_time/one_at_a_time",
                "020101100001220212101111",
            ),
            (
                "libmemcached-consistent/md5/one_at_a_time",
                "012010221002011122220020",
            ),
        ] {
            let parsed: Scheme = scheme.parse().unwrap();
            assert_eq!(parsed.to_string(), scheme);
            let placement = Placement::new(&servers, &parsed).unwrap();
            let place = |number: i32| {
                placement
                    .place(format!("key{number}").as_bytes())
                    .get()
                    .to_string()
            };
            assert_eq!((0..24).map(place).collect::<String>(), expected, "{scheme}");
        }
        for unknown in [
            "libmemcached-consistent/md5/none",
            "libmemcached-consistent/md5/md5/md5",
            "ketama/md5/md5",
        ] {
            assert!(unknown.parse::<Scheme>().is_err(), "{unknown}");
        }
    }
}
