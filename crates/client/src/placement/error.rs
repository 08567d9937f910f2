//! Why keys cannot be placed, and what to do about it.

use std::fmt;

use super::ring::POINTS_MAX;
use super::{Scheme, Servers};

/// A scheme cannot do what was asked of it, or there is nothing to place keys on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlacementError {
    /// There is nowhere to place keys.
    NoServers,
    /// More servers than an index has room for.
    TooManyServers(usize),
    /// Two servers that a ring could not tell apart.
    Duplicate(String),
    /// A server that shall have no keys.
    NoWeight(String),
    /// A scheme that knows no weights, and a server whose weight is not the first one's.
    WeightsUnknown(&'static str, String),
    /// Weights that would fill the memory with so many points.
    TooManyPoints(u64),
    /// A host name for a scheme that hashes addresses.
    NoAddress(String),
    /// A name that no scheme has.
    UnknownScheme(String),
    /// A scheme, and a hash function that its library does not have.
    UnknownHash(&'static str, String),
    /// A scheme of virtual buckets without a map of them.
    NoBuckets,
    /// A map for a scheme that has no virtual buckets.
    BucketsUnknown(&'static str),
    /// So many buckets, which is no power of two or too many.
    BucketCount(usize),
    /// A bucket, and the index of a server that does not exist, of so many.
    BucketServer(usize, u32, u32),
}

impl fmt::Display for PlacementError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        use PlacementError as E;
        match self {
            E::NoServers => write!(out, "there are no servers; give at least one"),
            E::TooManyServers(count) => {
                write!(
                    out,
                    "there are {count} servers, at most {} are possible; give fewer",
                    Servers::MAX
                )
            }
            E::Duplicate(server) => {
                write!(
                    out,
                    "{server} is listed twice; list it once, with a higher weight if it shall have more keys"
                )
            }
            E::NoWeight(server) => write!(out, "{server} has weight 0; give it at least 1 or leave it out"),
            E::WeightsUnknown(scheme, server) => {
                write!(
                    out,
                    "scheme {scheme} knows no weights, but {server} has another than the first server; "
                )?;
                write!(out, "give all the same or use scheme ring")
            }
            E::TooManyPoints(points) => {
                write!(
                    out,
                    "the weights make {points} points, at most {POINTS_MAX} are possible; "
                )?;
                write!(out, "divide all weights by the same")
            }
            E::NoAddress(server) => {
                write!(
                    out,
                    "scheme spymemcached hashes the IPv4 address of {server} too; give the address"
                )
            }
            E::UnknownScheme(name) => {
                let known: Vec<_> = Scheme::all().iter().map(|row| row.name).collect();
                write!(
                    out,
                    "there is no scheme {name:?}; use one of {}",
                    known.join(", ")
                )
            }
            E::UnknownHash(scheme, name) => unknown_hash(out, scheme, name),
            E::NoBuckets => write!(out, "scheme vbucket needs a map of its buckets; give one"),
            E::BucketsUnknown(scheme) => write!(
                out,
                "scheme {scheme} has no buckets; use scheme vbucket or no map"
            ),
            E::BucketCount(count) => {
                write!(
                    out,
                    "the map has {count} buckets; give a power of two, at most {POINTS_MAX}"
                )
            }
            E::BucketServer(bucket, server, count) => {
                let last = count - 1;
                write!(
                    out,
                    "bucket {bucket} is on server {server}, but the last of {count} is {last}; correct it"
                )
            }
        }
    }
}

fn unknown_hash(out: &mut fmt::Formatter<'_>, scheme: &str, name: &str) -> fmt::Result {
    let row = Scheme::all().iter().find(|row| row.name == scheme);
    let mut known: Vec<_> = row
        .iter()
        .flat_map(|row| row.hashes)
        .map(|hash| hash.name)
        .collect();
    if known.is_empty() {
        return write!(
            out,
            "scheme {scheme} has one hash function only; leave /{name} out"
        );
    }
    // The default is there twice: first and in its place.
    known.sort_unstable();
    known.dedup();
    write!(
        out,
        "scheme {scheme} has no hash function {name:?}; use one of {}",
        known.join(", ")
    )
}

impl std::error::Error for PlacementError {}
