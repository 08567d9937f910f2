//! Which server has a key.
//!
//! Two clients that place keys differently do not see each other's values, so each scheme here does exactly what one
//! known library does; the one table of them is [`Scheme::all`], the rules in words are in `docs/client/placement.md`, and
//! the libraries themselves said where 100,000 keys belong (`tests/clients/placement`).
//!
//! A [`Placement`] is built once from the servers and never changes; it knows nothing of connections, and a server that
//! fails keeps its keys: what to do then is the client's affair.

mod error;
mod hash;
mod libraries;
mod ring;
mod scheme;
mod score;
mod servers;
mod walk;

use std::sync::atomic::{AtomicU64, Ordering};

pub use error::PlacementError;
pub use hash::Hash;
use ring::{Position, Ring};
pub use scheme::{Scheme, SchemeRow, Weights};
use score::{Highest, jump};
pub use servers::{Server, ServerIndex, Servers};

/// Where keys belong: servers and a scheme, prepared for fast answers.
#[derive(Debug)]
pub struct Placement {
    rule: Rule,
    tag: Option<[u8; 2]>,
}

/// How a key leads to a server, once all that depends on the servers is computed.
#[derive(Debug)]
enum Rule {
    /// There is one server.
    Only,
    /// The hash counts through the slots.
    Slots(fn(&[u8]) -> u32, Vec<ServerIndex>),
    /// The hash is a place on a ring, and the next point's server is meant.
    Ring(Position, Ring),
    /// Every server has a score for the key, and the highest wins.
    Highest(Highest),
    /// Jump hash: an arithmetic of the number of servers.
    Jump(u32),
    /// Any server, another one each time; the state is the number of keys placed.
    Random(u32, AtomicU64),
}

impl Placement {
    /// Prepares a scheme for these servers.
    ///
    /// # Errors
    /// The scheme cannot express what the servers want: see [`PlacementError`].
    pub fn new(servers: &Servers, scheme: &Scheme) -> Result<Placement, PlacementError> {
        Ok(Placement {
            rule: scheme.rule(servers)?,
            tag: scheme.tag(),
        })
    }

    /// The server of a key.
    ///
    /// Any bytes are a key here; whether a server takes them as one is for the protocol to say.
    pub fn place(&self, key: &[u8]) -> ServerIndex {
        let key = self.hashed(key);
        match &self.rule {
            Rule::Only => ServerIndex::new(0),
            Rule::Slots(hash, slots) => slots[hash(key) as usize % slots.len()],
            Rule::Ring(position, ring) => ring.next(position.of(key)),
            Rule::Highest(highest) => highest.of(key),
            Rule::Jump(servers) => jump(key, *servers),
            Rule::Random(servers, placed) => {
                // Relaxed: two threads may see any order, that is chance as well.
                let turn = placed.fetch_add(1, Ordering::Relaxed);
                let random = xxhash_rust::xxh3::xxh3_64(&turn.to_le_bytes());
                ServerIndex::new((random % u64::from(*servers)) as u32)
            }
        }
    }

    /// What of a key is hashed.
    fn hashed<'a>(&self, key: &'a [u8]) -> &'a [u8] {
        match self.tag {
            Some(braces) => tagged(key, braces),
            None => key,
        }
    }
}

/// The part of a key between the first opening brace and the next closing one, or all of it if there is no such part.
///
/// Keys with the same part come to the same server. The rule is twemproxy's `hash_tag`.
fn tagged(key: &[u8], [open, close]: [u8; 2]) -> &[u8] {
    let Some(start) = memchr::memchr(open, key) else {
        return key;
    };
    let inside = &key[start + 1..];
    match memchr::memchr(close, inside) {
        Some(end) if end > 0 => &inside[..end],
        _ => key,
    }
}

#[cfg(test)]
mod tests {
    use super::tagged;

    #[test]
    fn tag_is_what_the_first_braces_enclose() {
        for (key, part) in [
            ("a{b}c", "b"),
            ("{b}{c}", "b"),
            ("{{b}}", "{b"),
            ("a}b{c}", "c"),
            ("plain", "plain"),
            ("a{}b{c}", "a{}b{c}"),
            ("open{", "open{"),
            ("open{b", "open{b"),
            ("", ""),
        ] {
            assert_eq!(tagged(key.as_bytes(), *b"{}"), part.as_bytes(), "{key}");
        }
    }
}
