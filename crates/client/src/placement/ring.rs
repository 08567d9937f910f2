//! A ring of points: each belongs to a server, and a key to the server of the point that comes next.

use super::ServerIndex;

/// How many points, slots or buckets there may be: a hundred times what a hundred servers have.
pub(super) const POINTS_MAX: u64 = 1 << 21;

/// Where a key is on a ring. Hashes of 32 bits are the upper half of a position.
#[derive(Debug, Clone, Copy)]
pub(super) enum Positions {
    /// At the hash: a point that is there too is the next.
    At(fn(&[u8]) -> u32),
    /// Right behind the hash: a point at the hash is past.
    Behind(fn(&[u8]) -> u32),
    /// At a hash of 64 bits.
    Wide(fn(&[u8]) -> u64),
}

impl Positions {
    /// The position of a key.
    pub(super) fn of(self, key: &[u8]) -> u64 {
        match self {
            Positions::At(hash) => position(hash(key)),
            Positions::Behind(hash) => position(hash(key)) + 1,
            Positions::Wide(hash) => hash(key),
        }
    }
}

/// The position of a hash of 32 bits.
pub(super) fn position(hash: u32) -> u64 {
    u64::from(hash) << 32
}

/// Whose point it is if several are at one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tie {
    /// That of the server which comes first in the list.
    First,
    /// That of the server which comes last.
    Last,
}

/// Points in order, and where in them to begin looking.
///
/// The upper bits of a position say at once between which two points to look, of which there are one or two if the points
/// are spread evenly; if they are not, a binary search keeps the cost low.
#[derive(Debug)]
pub(super) struct Ring {
    positions: Vec<u64>,
    servers: Vec<ServerIndex>,
    /// For each value of the upper bits, the first point that has it or more; one more for the end.
    starts: Vec<u32>,
    /// By how much a position is shifted to leave the upper bits.
    shift: u32,
}

impl Ring {
    /// Of points in the order of the servers, at least one.
    pub(super) fn new(points: &[(u64, ServerIndex)], tie: Tie) -> Ring {
        assert!(
            !points.is_empty(),
            "a ring has points: the heaviest server has some"
        );
        let shift = 64 - (points.len() as u64).next_power_of_two().trailing_zeros().max(1);
        let starts = starts(points, shift);
        let mut ordered = scattered(points, &starts, shift);
        for part in starts.windows(2) {
            // Stable, for points at one place are to stay in the order of the servers.
            ordered[part[0] as usize..part[1] as usize].sort_by_key(|point| point.0);
        }
        if tie == Tie::Last {
            // All points at one place become the last one's; then it does not matter which of them is found.
            for index in (1..ordered.len()).rev() {
                if ordered[index - 1].0 == ordered[index].0 {
                    ordered[index - 1].1 = ordered[index].1;
                }
            }
        }
        let (positions, servers) = ordered.into_iter().unzip();
        Ring {
            positions,
            servers,
            starts,
            shift,
        }
    }

    /// The server of the first point at this position or after it, around the end.
    pub(super) fn next(&self, position: u64) -> ServerIndex {
        let part = (position >> self.shift) as usize;
        let (start, end) = (self.starts[part] as usize, self.starts[part + 1] as usize);
        let next = start + self.positions[start..end].partition_point(|point| *point < position);
        self.servers[if next == self.servers.len() { 0 } else { next }]
    }
}

/// How many points come before each value of the upper bits.
fn starts(points: &[(u64, ServerIndex)], shift: u32) -> Vec<u32> {
    let mut starts = vec![0; (1 << (64 - shift)) + 1];
    for (position, _) in points {
        starts[(position >> shift) as usize + 1] += 1;
    }
    for index in 1..starts.len() {
        starts[index] += starts[index - 1];
    }
    starts
}

/// The points ordered by their upper bits: each goes to the next free place of its part.
fn scattered(points: &[(u64, ServerIndex)], starts: &[u32], shift: u32) -> Vec<(u64, ServerIndex)> {
    let mut free = starts.to_vec();
    let mut ordered = vec![points[0]; points.len()];
    for point in points {
        let place = &mut free[(point.0 >> shift) as usize];
        ordered[*place as usize] = *point;
        *place += 1;
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::{Ring, Tie};
    use crate::placement::ServerIndex;

    fn ring(points: &[(u64, u32)], tie: Tie) -> Ring {
        let points: Vec<_> = points
            .iter()
            .map(|(at, server)| (*at, ServerIndex::new(*server)))
            .collect();
        Ring::new(&points, tie)
    }

    fn check(ring: &Ring, expected: &[(u64, usize)]) {
        for (position, server) in expected {
            assert_eq!(ring.next(*position).get(), *server, "at {position}");
        }
    }

    #[test]
    fn key_belongs_to_the_next_point_and_around_the_end() {
        check(
            &ring(&[(30, 0), (10, 1), (u64::MAX - 1, 2)], Tie::First),
            &[
                (0, 1),
                (10, 1),
                (11, 0),
                (30, 0),
                (31, 2),
                (u64::MAX - 1, 2),
                (u64::MAX, 1),
            ],
        );
        check(
            &ring(&[(5, 0)], Tie::First),
            &[(0, 0), (5, 0), (6, 0), (u64::MAX, 0)],
        );
    }

    #[test]
    fn points_at_one_place_belong_to_one_server() {
        let points = [(10, 0), (20, 0), (10, 1), (20, 2), (10, 2)];
        check(
            &ring(&points, Tie::First),
            &[(9, 0), (10, 0), (11, 0), (20, 0), (21, 0)],
        );
        check(
            &ring(&points, Tie::Last),
            &[(9, 2), (10, 2), (11, 2), (20, 2), (21, 2)],
        );
    }
}
