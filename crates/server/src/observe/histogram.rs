//! Times in classes: eighteen of equal width to each doubling, from 64 ns to 17 s, so that a class is at most 5.6 % wide.

use std::sync::atomic::{AtomicU64, Ordering};

/// Classes to a doubling.
const PER_OCTAVE: usize = 18;

/// The first doubling begins at `1 << this` nanoseconds; what took less is in a class of its own.
const FIRST_BIT: u32 = 6;

/// Doublings; what took longer than the last is in a class of its own.
const OCTAVES: usize = 28;

const CLASSES: usize = 1 + OCTAVES * PER_OCTAVE + 1;

/// Ends of doublings in nanoseconds: bounds that are bounds of classes as well, so that counts below them are exact.
pub const OCTAVE_BOUNDS: [u64; OCTAVES - 1] = {
    let mut bounds = [0; OCTAVES - 1];
    let mut number = 0;
    while number < bounds.len() {
        bounds[number] = 1 << (FIRST_BIT as usize + 1 + number);
        number += 1;
    }
    bounds
};

fn class_of(nanos: u64) -> usize {
    let bit = nanos.max(1).ilog2();
    if bit < FIRST_BIT {
        return 0;
    }
    // What is left of the number behind its highest bit, as a fraction of 2^64.
    let fraction = nanos << (63 - bit) << 1;
    let part = (u128::from(fraction) * PER_OCTAVE as u128) >> 64;
    (1 + (bit - FIRST_BIT) as usize * PER_OCTAVE + part as usize).min(CLASSES - 1)
}

/// The least number of nanoseconds in `class`.
fn bound(class: usize) -> u64 {
    let Some(number) = class.checked_sub(1) else {
        return 0;
    };
    let first = 1 << (FIRST_BIT as usize + number / PER_OCTAVE);
    first + (first * (number % PER_OCTAVE) as u64).div_ceil(PER_OCTAVE as u64)
}

/// One worker's times of one kind. One writer, any number of readers: relaxed throughout, as nothing depends on it.
#[derive(Debug)]
pub(super) struct Histogram {
    classes: Box<[AtomicU64]>,
    nanos: AtomicU64,
    most: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram {
            classes: (0..CLASSES).map(|_| AtomicU64::new(0)).collect(),
            nanos: AtomicU64::new(0),
            most: AtomicU64::new(0),
        }
    }
}

impl Histogram {
    /// There is no other writer.
    pub(super) fn add(&self, nanos: u64) {
        let raise =
            |count: &AtomicU64, by| count.store(count.load(Ordering::Relaxed) + by, Ordering::Relaxed);
        raise(&self.classes[class_of(nanos)], 1);
        raise(&self.nanos, nanos);
        if nanos > self.most.load(Ordering::Relaxed) {
            self.most.store(nanos, Ordering::Relaxed);
        }
    }
}

/// Times of all workers together.
#[derive(Clone, Debug)]
pub(super) struct Sums {
    classes: Vec<u64>,
    nanos: u64,
    most: u64,
}

impl Sums {
    pub(super) fn of<'a>(histograms: impl Iterator<Item = &'a Histogram>) -> Sums {
        let mut sums = Sums {
            classes: vec![0; CLASSES],
            nanos: 0,
            most: 0,
        };
        for histogram in histograms {
            let counts = histogram.classes.iter();
            sums.classes
                .iter_mut()
                .zip(counts)
                .for_each(|(sum, count)| *sum += count.load(Ordering::Relaxed));
            sums.nanos += histogram.nanos.load(Ordering::Relaxed);
            sums.most = sums.most.max(histogram.most.load(Ordering::Relaxed));
        }
        sums
    }

    /// What came since `before`. The longest time then is known as closely as its class says.
    pub(super) fn since(&self, before: Option<&Sums>) -> Distribution {
        let nothing = Sums {
            classes: vec![0; CLASSES],
            nanos: 0,
            most: 0,
        };
        let before = before.unwrap_or(&nothing);
        let pairs = self.classes.iter().zip(&before.classes);
        let classes: Vec<u64> = pairs.map(|(now, before)| now - before).collect();
        let last = classes.iter().rposition(|count| *count > 0);
        Distribution {
            most: last.map_or(0, |class| self.most.min(bound(class + 1))),
            nanos: self.nanos - before.nanos,
            classes,
        }
    }
}

/// Times, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Distribution {
    classes: Vec<u64>,
    nanos: u64,
    most: u64,
}

impl Distribution {
    /// How many.
    pub fn count(&self) -> u64 {
        self.classes.iter().sum()
    }

    /// Their sum.
    pub fn sum(&self) -> u64 {
        self.nanos
    }

    /// The longest; within a class if there was a `stats reset`.
    pub fn max(&self) -> u64 {
        self.most
    }

    /// Their mean; 0 if there are none.
    pub fn mean(&self) -> u64 {
        self.nanos.checked_div(self.count()).unwrap_or(0)
    }

    /// The time that a share `share` of them did not exceed, as the end of its class; 0 if there are none.
    pub fn quantile(&self, share: f64) -> u64 {
        let rank = ((self.count() as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (class, count) in self.classes.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return self.most.min(bound(class + 1));
            }
        }
        0
    }

    /// How many took less than `nanos`, which is one of [`OCTAVE_BOUNDS`].
    pub fn below(&self, nanos: u64) -> u64 {
        self.classes[..class_of(nanos)].iter().sum()
    }

    /// Classes that are not empty: their end in nanoseconds, and their count.
    pub fn classes(&self) -> impl Iterator<Item = (u64, u64)> {
        let numbered = self.classes.iter().enumerate();
        let counted = numbered.filter(|(_, count)| **count > 0);
        counted.map(|(class, count)| (bound(class + 1), *count))
    }
}

#[cfg(test)]
mod tests {
    use super::{CLASSES, Histogram, OCTAVE_BOUNDS, Sums, bound, class_of};

    #[test]
    fn classes_follow_each_other_without_a_gap_and_are_narrow() {
        for class in 1..CLASSES {
            let first = bound(class);
            assert_eq!(class_of(first), class, "{first}");
            assert_eq!(class_of(first - 1), class - 1, "{first}");
            if (2..CLASSES - 1).contains(&class) && first >= 100 {
                let width = bound(class + 1) - first;
                assert!(width as f64 <= 0.06 * first as f64 + 1.0, "{first}: {width}");
            }
        }
        assert_eq!(class_of(0), 0);
        assert_eq!(class_of(u64::MAX), CLASSES - 1);
        assert!(bound(2) <= 100 && bound(CLASSES - 1) > 10_000_000_000);
        for octave in OCTAVE_BOUNDS {
            assert_eq!(bound(class_of(octave)), octave);
        }
    }

    #[test]
    fn quantiles_are_within_a_class_of_the_truth() {
        let (one, other) = (Histogram::default(), Histogram::default());
        for nanos in 1..=10_000 {
            if nanos % 2 == 0 { &one } else { &other }.add(nanos * 100);
        }
        let all = Sums::of([&one, &other].into_iter()).since(None);
        assert_eq!((all.count(), all.max(), all.mean()), (10_000, 1_000_000, 500_050));
        for (share, truth) in [(0.5, 500_000), (0.9, 900_000), (0.999, 999_000), (1.0, 1_000_000)] {
            let found = all.quantile(share);
            assert!(
                (truth..=truth + truth * 6 / 100).contains(&found),
                "{share}: {found}"
            );
        }
        assert_eq!(all.below(1 << 17), 1310);
        assert_eq!(all.classes().map(|(_, count)| count).sum::<u64>(), 10_000);
    }

    #[test]
    fn what_was_before_is_subtracted() {
        let histogram = Histogram::default();
        histogram.add(5_000_000);
        let before = Sums::of([&histogram].into_iter());
        assert_eq!(before.since(Some(&before)).quantile(0.5), 0);
        histogram.add(300);
        let since = Sums::of([&histogram].into_iter()).since(Some(&before));
        assert_eq!((since.count(), since.sum()), (1, 300));
        assert!((300..=318).contains(&since.max()), "{}", since.max());
    }
}
