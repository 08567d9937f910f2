//! How each scheme turns servers into points or slots.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::hash::{md5_first, md5_quarters};
use super::ring::{POINTS_MAX, Point, Position, Ring, Tie, point, wide_point};
use super::{PlacementError, Rule, Server, ServerIndex, Servers};

type HashOf = fn(&[u8]) -> u32;
type Points = Vec<Point>;

/// Points of a server of average weight on our own ring.
///
/// The share of a server differs from what its weight says by a part of 1/sqrt(points) as standard deviation: 4.4 % here,
/// which keeps the fullest of a hundred servers below 1.15 of the mean. With libmemcached's 160 points it has 1.26.
const RING_POINTS: u64 = 512;

/// Points of a server of average weight on ketama rings, four of one MD5.
const KETAMA_POINTS: u32 = 160;

/// Points of a server on libmemcached's ring without weights.
const CONSISTENT_POINTS: u64 = 100;

/// Points of a unit of weight in php-memcache, and the slots that its ring is sampled into.
const PHP_POINTS: u64 = 160;
const PHP_SLOTS: u32 = 1024;

/// Our own ring.
pub(super) fn ring(servers: &Servers) -> Rule {
    let (count, total) = (u64::from(servers.count()), servers.weight());
    let mut points = Points::with_capacity((RING_POINTS * count) as usize);
    for (index, server) in servers.indexed() {
        let name = server.host_and_port();
        // u128: the weights of all servers may fill 48 bits.
        let share = u128::from(RING_POINTS * count) * u128::from(server.weight) / u128::from(total);
        let own = (share as u64).max(1);
        points.extend((0..own).map(|number| wide_point(xxh3_64_with_seed(name.as_bytes(), number), index)));
    }
    Rule::Ring(Position::Wide(xxh3_64), Ring::new(&points, Tie::First))
}

/// How many MD5s a server has on a weighted ketama ring: computed in single precision, whose rounding is part of the scheme.
fn ketama_digests(server: &Server, servers: &Servers) -> u32 {
    let share = server.weight as f32 / servers.weight() as f32;
    (share * KETAMA_POINTS as f32 / 4.0 * servers.count() as f32 + 1e-10).floor() as u32
}

/// The points of a ring on which every MD5 of `NAME-NUMBER` gives some.
fn md5_points(
    servers: &Servers,
    digests: impl Fn(&Server) -> u32,
    name: impl Fn(&Server) -> Result<String, PlacementError>,
    quarters: usize,
) -> Result<Points, PlacementError> {
    let mut points = Points::with_capacity((servers.count() * KETAMA_POINTS) as usize);
    for (index, server) in servers.indexed() {
        let mut text = name(server)? + "-";
        for number in 0..digests(server) {
            let hashes = md5_quarters(numbered(&mut text, number.into()));
            points.extend(hashes[..quarters].iter().map(|hash| point(*hash, index)));
        }
    }
    Ok(points)
}

/// libmemcached with KETAMA_WEIGHTED, and twemproxy's ketama.
pub(super) fn ketama(servers: &Servers, hash: HashOf) -> Result<Rule, PlacementError> {
    let digests = |server: &Server| ketama_digests(server, servers);
    let points = md5_points(servers, digests, |server| Ok(server.host_and_unusual_port()), 4)?;
    Ok(Rule::Ring(Position::At(hash), Ring::new(&points, Tie::First)))
}

/// libmemcached with DISTRIBUTION_CONSISTENT, which becomes ketama as soon as a server has a weight above 1.
pub(super) fn consistent(servers: &Servers, hash: HashOf) -> Result<Rule, PlacementError> {
    if servers.list().iter().any(|server| server.weight > 1) {
        return ketama(servers, hash);
    }
    let mut points = Points::with_capacity(servers.list().len() * CONSISTENT_POINTS as usize);
    for (index, server) in servers.indexed() {
        let mut name = server.host_and_unusual_port() + "-";
        points.extend((0..CONSISTENT_POINTS).map(|number| point(hash(numbered(&mut name, number)), index)));
    }
    Ok(Rule::Ring(Position::At(hash), Ring::new(&points, Tie::First)))
}

/// spymemcached: 160 points, or libmemcached's number of them once weights differ from 1; addresses in the names.
pub(super) fn spymemcached(servers: &Servers) -> Result<Rule, PlacementError> {
    let weighted = servers.list().iter().any(|server| server.weight > 1);
    let digests = |server: &Server| {
        if weighted {
            ketama_digests(server, servers)
        } else {
            KETAMA_POINTS / 4
        }
    };
    let name = |server: &Server| match (&server.name, server.address) {
        (Some(name), _) => Ok(name.clone()),
        (None, Some(address)) if address.to_string() != server.host => {
            Ok(format!("{}/{address}:{}", server.host, server.port))
        }
        (None, Some(_)) => Ok(server.host_and_port()),
        (None, None) if server.host.parse::<std::net::Ipv4Addr>().is_ok() => Ok(server.host_and_port()),
        (None, None) => Err(PlacementError::NoAddress(server.host_and_port())),
    };
    let points = md5_points(servers, digests, name, 4)?;
    Ok(Rule::Ring(Position::At(md5_first), Ring::new(&points, Tie::Last)))
}

/// hash_ring: three of the four points that an MD5 could give.
pub(super) fn hash_ring(servers: &Servers) -> Result<Rule, PlacementError> {
    let (count, total) = (u64::from(servers.count()), servers.weight());
    let digests =
        |server: &Server| (u128::from(40 * count) * u128::from(server.weight) / u128::from(total)) as u32;
    let points = md5_points(servers, digests, |server| Ok(server.host_and_port()), 3)?;
    Ok(Rule::Ring(
        Position::Behind(md5_first),
        Ring::new(&points, Tie::Last),
    ))
}

/// php-memcache's consistent strategy: a ring of which 1024 places are remembered.
///
/// Only the least point behind each of those places counts, and so there is nothing to sort. `with` gives the hash of a text and a
/// byte more from that of the text.
pub(super) fn php_consistent(
    servers: &Servers,
    hash: HashOf,
    with: impl Fn(u32, u8) -> u32,
) -> Result<Rule, PlacementError> {
    bounded(servers.weight() * PHP_POINTS)?;
    let step = u32::MAX / PHP_SLOTS;
    // One more for the points behind the last place, which is a little before the end of the ring.
    let mut least = vec![None; PHP_SLOTS as usize + 1];
    let mut points = Vec::new();
    for (index, server) in servers.indexed() {
        let name = hash((server.host_and_port() + "-").as_bytes());
        hash_numbered(&mut points, name, u64::from(server.weight) * PHP_POINTS, &with);
        for point in points.iter().copied() {
            let best = &mut least[(point / step) as usize];
            // At one place the first server stays.
            if best.is_none_or(|(known, _)| point < known) {
                *best = Some((point, index));
            }
        }
    }
    let first = least.iter().flatten().next().expect("every server has points").1;
    let mut slots = Vec::with_capacity(least.len());
    for best in least.iter().rev() {
        let next = slots.last().copied().unwrap_or(first);
        slots.push(best.map_or(next, |(_, server)| server));
    }
    slots.reverse();
    slots.truncate(PHP_SLOTS as usize);
    Ok(Rule::Slots(hash, slots))
}

/// The hashes of the text that has this one with each number behind it: that of a number from that of its tenth.
fn hash_numbered(hashes: &mut Vec<u32>, text: u32, count: u64, with: impl Fn(u32, u8) -> u32) {
    hashes.clear();
    for number in 0..count as usize {
        let digit = b'0' + (number % 10) as u8;
        let before = if number < 10 { text } else { hashes[number / 10] };
        hashes.push(with(before, digit));
    }
}

/// `text` up to its last dash with this number behind it.
fn numbered(text: &mut String, number: u64) -> &[u8] {
    use std::fmt::Write as _;
    text.truncate(text.rfind('-').expect("what is numbered ends with a dash") + 1);
    write!(text, "{number}").expect("a String takes everything");
    text.as_bytes()
}

/// A slot for each unit of weight: php-memcache's standard strategy.
pub(super) fn slots_by_weight(servers: &Servers, hash: HashOf) -> Result<Rule, PlacementError> {
    bounded(servers.weight())?;
    let slots = servers
        .indexed()
        .flat_map(|(index, server)| (0..server.weight).map(move |_| index));
    Ok(Rule::Slots(hash, slots.collect()))
}

/// twemproxy's modula: a slot for each unit of weight, the servers in the order in which it sorts their names.
pub(super) fn twemproxy_modula(servers: &Servers, hash: HashOf) -> Result<Rule, PlacementError> {
    bounded(servers.weight())?;
    let mut named: Vec<_> = servers
        .indexed()
        .map(|(index, server)| (server.host_and_unusual_port(), index))
        .collect();
    named.sort_by(|(one, _), (other, _)| one.len().cmp(&other.len()).then(one.cmp(other)));
    let weight = |index: ServerIndex| servers.list()[index.get()].weight;
    let slots = named
        .iter()
        .flat_map(|(_, index)| (0..weight(*index)).map(|_| *index));
    Ok(Rule::Slots(hash, slots.collect()))
}

/// A slot for each server.
pub(super) fn slots(servers: &Servers, hash: HashOf) -> Rule {
    Rule::Slots(hash, servers.indexed().map(|(index, _)| index).collect())
}

fn bounded(points: u64) -> Result<(), PlacementError> {
    if points > POINTS_MAX {
        return Err(PlacementError::TooManyPoints(points));
    }
    Ok(())
}
