//! Placement without a table of points: rendezvous (the highest score wins) and jump hash.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::hash::Murmur3;
use super::{ServerIndex, Servers};

/// Rendezvous: what of each server enters its score.
#[derive(Debug)]
pub(super) enum Highest {
    /// Our own: the key's hash, seeded with the hash of the server's name; of two alike the first server wins.
    Seeded(Vec<u64>),
    /// pymemcache's: the hash of name, dash and key, its state after the dash; of two alike the greater name wins.
    ///
    /// In the order of the names, so that the last of the highest is the right one.
    Prefixed(Vec<(Murmur3, ServerIndex)>),
}

impl Highest {
    pub(super) fn seeded(servers: &Servers) -> Highest {
        Highest::Seeded(
            servers
                .list()
                .iter()
                .map(|server| xxh3_64(server.host_and_port().as_bytes()))
                .collect(),
        )
    }

    pub(super) fn prefixed(servers: &Servers) -> Highest {
        let mut named: Vec<_> = servers
            .indexed()
            .map(|(index, server)| (server.host_and_port(), index))
            .collect();
        named.sort();
        let state = |name: &str| Murmur3::new(0).then(name.as_bytes()).then(b"-");
        Highest::Prefixed(named.iter().map(|(name, index)| (state(name), *index)).collect())
    }

    /// The server with the highest score for the key.
    pub(super) fn of(&self, key: &[u8]) -> ServerIndex {
        match self {
            Highest::Seeded(seeds) => {
                let mut highest = (xxh3_64_with_seed(key, seeds[0]), 0);
                for (index, seed) in seeds.iter().enumerate().skip(1) {
                    let score = xxh3_64_with_seed(key, *seed);
                    if score > highest.0 {
                        highest = (score, index);
                    }
                }
                ServerIndex::new(highest.1 as u32)
            }
            Highest::Prefixed(states) => {
                let score = |(state, _): &&(Murmur3, ServerIndex)| state.then(key).finish();
                states
                    .iter()
                    .max_by_key(score)
                    .expect("Servers has at least one")
                    .1
            }
        }
    }
}

impl Highest {
    /// The score of every server for the key; of two alike the one that [`Highest::of`] prefers comes first.
    pub(super) fn scores(&self, key: &[u8]) -> Vec<(u64, ServerIndex)> {
        match self {
            Highest::Seeded(seeds) => (seeds.iter().enumerate())
                .map(|(index, seed)| (xxh3_64_with_seed(key, *seed), ServerIndex::new(index as u32)))
                .collect(),
            Highest::Prefixed(states) => (states.iter().rev())
                .map(|(state, server)| (state.then(key).finish().into(), *server))
                .collect(),
        }
    }
}

/// Jump hash by Lamping and Veach, of the key's XXH3: the last jump that stays below the number of servers.
pub(super) fn jump(key: &[u8], servers: u32) -> ServerIndex {
    let mut state = xxh3_64(key);
    let (mut here, mut next) = (0, 0);
    while next < i64::from(servers) {
        here = next;
        state = state.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        next = ((here + 1) as f64 * ((1u64 << 31) as f64 / ((state >> 33) + 1) as f64)) as i64;
    }
    ServerIndex::new(here as u32)
}
