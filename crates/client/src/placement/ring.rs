//! A ring of points: each belongs to a server, and a key to the server of the point that comes next.

use super::ServerIndex;

/// How many points, slots or buckets there may be: a hundred times what a hundred servers have.
pub(super) const POINTS_MAX: u64 = 1 << 21;

/// A point or the place of a key: 48 bits say where on the ring it is, 16 whose it is.
///
/// So a ring of a hundred servers is a few hundred kilobytes, and numbers in order are points in order, those at one place in
/// the order of their servers.
pub(super) type Point = u64;

/// A point of a server at a hash of 32 bits.
pub(super) fn point(hash: u32, server: ServerIndex) -> Point {
    u64::from(hash) << 32 | server.get() as u64
}

/// A point of a server at the upper 48 of 64 bits.
pub(super) fn wide_point(hash: u64, server: ServerIndex) -> Point {
    hash & !0xffff | server.get() as u64
}

/// Whose point it is.
fn server(point: Point) -> ServerIndex {
    ServerIndex::new(point as u32 & 0xffff)
}

/// Where on a ring a key is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Position {
    /// At the hash: a point that is there too is the next.
    At(fn(&[u8]) -> u32),
    /// Right behind the hash: a point at the hash is past.
    Behind(fn(&[u8]) -> u32),
    /// At the upper 48 bits of the hash.
    Wide(fn(&[u8]) -> u64),
}

impl Position {
    /// The least point that the key may belong to.
    pub(super) fn of(self, key: &[u8]) -> Point {
        match self {
            Position::At(hash) => u64::from(hash(key)) << 32,
            Position::Behind(hash) => u64::from(hash(key)) << 32 | 1 << 16,
            Position::Wide(hash) => hash(key) & !0xffff,
        }
    }
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
/// The upper bits of a place say at once between which two points to look, of which there are one or two if the points are
/// spread evenly; if they are not, a binary search keeps the cost low.
#[derive(Debug)]
pub(super) struct Ring {
    points: Vec<Point>,
    /// For each value of the upper bits, how many points are before it; and how many there are.
    starts: Vec<u32>,
    /// By how much a point is shifted to leave the upper bits.
    shift: u32,
}

impl Ring {
    /// Of at least one point.
    pub(super) fn new(points: &[Point], tie: Tie) -> Ring {
        assert!(
            !points.is_empty(),
            "a ring has points: the heaviest server has some"
        );
        let shift = 64 - (points.len() as u64).next_power_of_two().trailing_zeros().max(1);
        let mut ring = Ring {
            points: vec![0; points.len()],
            starts: vec![0; (1 << (64 - shift)) + 2],
            shift,
        };
        ring.fill(points);
        if tie == Tie::Last {
            // All points at one place become the last one's; then it does not matter which of them is found.
            for index in (1..points.len()).rev() {
                if ring.points[index - 1] >> 16 == ring.points[index] >> 16 {
                    ring.points[index - 1] = ring.points[index];
                }
            }
        }
        ring
    }

    /// Takes the points in order: each goes to the next free place of its part, and there before those that are greater.
    ///
    /// A part has a point or two if the points are spread evenly; so this costs a third of sorting them all. Where many come
    /// into one part, as with hashes of 15 bits, those are sorted.
    fn fill(&mut self, points: &[Point]) {
        const FEW: u32 = 16;
        let part = |point: Point| (point >> self.shift) as usize;
        for point in points {
            self.starts[part(*point) + 2] += 1;
        }
        for index in 1..self.starts.len() {
            self.starts[index] += self.starts[index - 1];
        }
        // `starts` is one ahead now, and each becomes the start of the next part while its own is filled.
        for point in points {
            let mut place = self.starts[part(*point) + 1] as usize;
            self.starts[part(*point) + 1] += 1;
            let mut steps = 0;
            while steps < FEW && place > 0 && self.points[place - 1] > *point {
                self.points[place] = self.points[place - 1];
                place -= 1;
                steps += 1;
            }
            self.points[place] = *point;
        }
        self.starts.pop();
        for part in self.starts.windows(2).filter(|part| part[1] - part[0] > FEW) {
            self.points[part[0] as usize..part[1] as usize].sort_unstable();
        }
    }

    /// The server of the first point at this place or after it, around the end.
    pub(super) fn next(&self, place: Point) -> ServerIndex {
        let next = self.index(place);
        let point = self.points[if next == self.points.len() { 0 } else { next }];
        server(point)
    }

    /// The servers of all points from this place on, around the end.
    pub(super) fn onward(&self, place: Point) -> impl Iterator<Item = ServerIndex> {
        let (before, from) = self.points.split_at(self.index(place));
        from.iter().chain(before).map(|point| server(*point))
    }

    /// The first point at this place or after it; if there is none, how many there are.
    fn index(&self, place: Point) -> usize {
        let part = (place >> self.shift) as usize;
        let (start, end) = (self.starts[part] as usize, self.starts[part + 1] as usize);
        start + self.points[start..end].partition_point(|point| *point < place)
    }
}

#[cfg(test)]
mod tests {
    use super::{Position, Ring, Tie, point, wide_point};
    use crate::placement::ServerIndex;

    type ToPosition = fn(fn(&[u8]) -> u32) -> Position;

    fn check(points: &[(u32, u32)], tie: Tie, position: ToPosition, expected: &[(u32, usize)]) {
        let points: Vec<_> = points
            .iter()
            .map(|(at, server)| point(*at, ServerIndex::new(*server)))
            .collect();
        let ring = Ring::new(&points, tie);
        let hash = |key: &[u8]| u32::from_le_bytes(key.try_into().expect("four bytes"));
        for (at, server) in expected {
            assert_eq!(
                ring.next(position(hash).of(&at.to_le_bytes())).get(),
                *server,
                "at {at}"
            );
        }
    }

    #[test]
    fn key_belongs_to_the_next_point_and_around_the_end() {
        let points = [(30, 0), (10, 1), (u32::MAX - 1, 2)];
        let at = [
            (0, 1),
            (10, 1),
            (11, 0),
            (30, 0),
            (31, 2),
            (u32::MAX - 1, 2),
            (u32::MAX, 1),
        ];
        check(&points, Tie::First, Position::At, &at);
        let behind = [
            (0, 1),
            (10, 0),
            (11, 0),
            (30, 2),
            (u32::MAX - 1, 1),
            (u32::MAX, 1),
        ];
        check(&points, Tie::First, Position::Behind, &behind);
        check(
            &[(5, 0)],
            Tie::First,
            Position::At,
            &[(0, 0), (5, 0), (6, 0), (u32::MAX, 0)],
        );
    }

    #[test]
    fn points_at_one_place_belong_to_one_server() {
        let points = [(10, 0), (20, 0), (10, 1), (20, 2), (10, 2)];
        check(
            &points,
            Tie::First,
            Position::At,
            &[(9, 0), (10, 0), (11, 0), (20, 0), (21, 0)],
        );
        check(
            &points,
            Tie::Last,
            Position::At,
            &[(9, 2), (10, 2), (11, 2), (20, 2), (21, 2)],
        );
    }

    /// Spread evenly or all in one part: the ring finds what a search through sorted points finds.
    #[test]
    fn any_points_are_found_as_in_a_sorted_list() {
        let hash = |index: u64, salt: u64| xxhash_rust::xxh3::xxh3_64_with_seed(&index.to_le_bytes(), salt);
        for count in [1, 2, 3, 17, 100, 5_000] {
            for narrow in [0, 8, 17, 40] {
                let points: Vec<_> = (0..count)
                    .map(|index| wide_point(hash(index, 1) >> narrow, ServerIndex::new(index as u32)))
                    .collect();
                let ring = Ring::new(&points, Tie::First);
                let mut sorted = points;
                sorted.sort_unstable();
                assert_eq!(ring.points, sorted, "{count} points of {} bits", 64 - narrow);
                for index in 0..1_000 {
                    let place = hash(index, 2) >> narrow & !0xffff;
                    let next = sorted.partition_point(|point| *point < place) % sorted.len();
                    assert_eq!(ring.next(place).get() as u64, sorted[next] & 0xffff);
                }
            }
        }
    }
}
