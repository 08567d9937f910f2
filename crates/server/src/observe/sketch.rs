//! How many different keys came, told from a kilobyte: HyperLogLog with 1,024 registers, whose standard error is 3.3 %.

use std::sync::atomic::{AtomicU8, Ordering};

/// A register is chosen by so many bits of the hash.
const INDEX_BITS: u32 = 10;

const REGISTERS: usize = 1 << INDEX_BITS;

/// Bits of a hash that decide what a register is raised to.
const RANK_BITS: u32 = 64 - INDEX_BITS;

/// Registers of one writer.
#[derive(Debug)]
pub(super) struct Sketch(Box<[AtomicU8]>);

impl Default for Sketch {
    fn default() -> Sketch {
        Sketch((0..REGISTERS).map(|_| AtomicU8::new(0)).collect())
    }
}

impl Sketch {
    /// A key with this hash came.
    #[inline]
    pub(super) fn note(&self, hash: u64) {
        let register = &self.0[(hash >> RANK_BITS) as usize];
        // The bit that is set ends the count where all others are 0.
        let rank = (hash << INDEX_BITS | 1 << (INDEX_BITS - 1)).leading_zeros() as u8 + 1;
        if register.load(Ordering::Relaxed) < rank {
            register.store(rank, Ordering::Relaxed);
        }
    }

    pub(super) fn forget(&self) {
        self.0
            .iter()
            .for_each(|register| register.store(0, Ordering::Relaxed));
    }
}

/// Different keys that came to any of these sketches.
///
/// Source: Ertl, "New cardinality estimation algorithms for HyperLogLog sketches", 2017, 2.3: without the corrections by
/// tables that the first estimators need where few keys came.
pub(super) fn count<'a>(sketches: impl Iterator<Item = &'a Sketch>) -> u64 {
    let mut highest = [0; REGISTERS];
    for sketch in sketches {
        let registers = sketch.0.iter().map(|register| register.load(Ordering::Relaxed));
        highest
            .iter_mut()
            .zip(registers)
            .for_each(|(most, rank)| *most = rank.max(*most));
    }
    let mut with_rank = [0_u32; RANK_BITS as usize + 2];
    highest.iter().for_each(|&rank| with_rank[usize::from(rank)] += 1);
    let registers = REGISTERS as f64;
    let share = |rank: usize| f64::from(with_rank[rank]) / registers;
    let mut sum = registers * tau(1.0 - share(RANK_BITS as usize + 1));
    for rank in (1..=RANK_BITS as usize).rev() {
        sum = 0.5 * (sum + f64::from(with_rank[rank]));
    }
    sum += registers * sigma(share(0));
    let estimate = registers * registers / (2.0 * std::f64::consts::LN_2 * sum);
    if estimate.is_finite() {
        estimate.round() as u64
    } else {
        0
    }
}

fn sigma(share: f64) -> f64 {
    if share >= 1.0 {
        return f64::INFINITY;
    }
    let (mut power, mut weight, mut sum) = (share, 1.0, share);
    loop {
        power *= power;
        let before = sum;
        sum += power * weight;
        weight += weight;
        if sum == before {
            return sum;
        }
    }
}

fn tau(share: f64) -> f64 {
    if share <= 0.0 || share >= 1.0 {
        return 0.0;
    }
    let (mut root, mut weight, mut sum) = (share, 1.0, 1.0 - share);
    loop {
        root = root.sqrt();
        let before = sum;
        weight *= 0.5;
        sum -= (1.0 - root) * (1.0 - root) * weight;
        if sum == before {
            return sum / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::key_hash::key_hash;
    use super::{Sketch, count};

    #[test]
    fn counts_are_within_a_few_percent_however_many_came() {
        for wanted in [0_u64, 1, 10, 100, 1_000, 3_000, 30_000, 300_000] {
            let sketches = [Sketch::default(), Sketch::default()];
            for number in 0..wanted {
                // Each comes to both, and again.
                for _ in 0..2 {
                    let hash = key_hash(format!("user:{number}").as_bytes(), 1);
                    sketches.iter().for_each(|sketch| sketch.note(hash));
                }
            }
            let found = count(sketches.iter()) as f64;
            let is_near = (found - wanted as f64).abs() <= 0.1 * wanted as f64;
            assert!(is_near, "{wanted}: {found}");
        }
    }

    #[test]
    fn any_hash_has_its_register() {
        let sketch = Sketch::default();
        [0, u64::MAX, 1, 1 << 63]
            .into_iter()
            .for_each(|hash| sketch.note(hash));
        assert_eq!(
            count([&sketch].into_iter()),
            3,
            "0 and 1 differ in nothing that counts"
        );
        sketch.forget();
        assert_eq!(count([&sketch].into_iter()), 0);
    }
}
