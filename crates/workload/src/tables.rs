//! Workloads drawn from tables of popularity and value size, as CacheLib's cachebench publishes them.
//!
//! ```text
//! number of rows, then rows of `weight keys`:         so many keys share the weight
//! number of rows, then rows of `weight lower-bound`:  values from this length up to the next row's
//! ```

use std::io::BufRead;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rand_distr::Distribution;
use rand_distr::weighted::WeightedIndex;

use super::{Request, Verb, chance_of};

/// Bytes of a drawn key.
const KEY_LEN: usize = 16;

/// Both tables.
#[derive(Debug)]
pub struct Tables {
    popularity: WeightedIndex<u64>,
    /// First rank of each row, and the number of keys as the last one.
    ranks: Vec<u64>,
    sizes: WeightedIndex<u64>,
    bounds: Vec<u32>,
}

impl Tables {
    /// Reads the tables. An error names the line, or the table that is short.
    pub fn read(input: impl BufRead) -> Result<Tables, String> {
        let mut numbers = Vec::new();
        for (index, line) in input.lines().enumerate() {
            let line = line.map_err(|why| format!("line {}: {why}", index + 1))?;
            for word in line.split_whitespace() {
                let number = word
                    .parse::<u64>()
                    .map_err(|_| format!("line {}: {word:?} is no number", index + 1))?;
                numbers.push(number);
            }
        }
        let (popularity, rest) = rows(&numbers, "popularity")?;
        let (sizes, _) = rows(rest, "value size")?;
        let mut ranks = vec![0];
        for (_, keys) in &popularity {
            ranks.push(ranks.last().copied().unwrap_or(0) + keys);
        }
        let weights = |rows: &[(u64, u64)]| {
            WeightedIndex::new(rows.iter().map(|(weight, _)| *weight))
                .map_err(|why| format!("weights: {why}"))
        };
        let bounds = sizes
            .iter()
            .map(|(_, bound)| u32::try_from(*bound).unwrap_or(u32::MAX))
            .collect();
        Ok(Tables {
            popularity: weights(&popularity)?,
            ranks,
            sizes: weights(&sizes)?,
            bounds,
        })
    }

    /// Draws requests over a space of `keys` keys, without end; the same for the same seed. A key's value length is
    /// always the same.
    pub fn draw(self, keys: u64, seed: u64) -> impl Iterator<Item = Request> {
        let mut random = StdRng::seed_from_u64(seed);
        std::iter::from_fn(move || {
            let key = self.draw_key(keys, &mut random);
            let name = format!("{key:0KEY_LEN$}").into_bytes();
            Some(Request {
                time: 0,
                key: name,
                value_len: self.value_len(key, seed),
                verb: Verb::Get,
                ttl: 0,
            })
        })
    }

    /// Draws one of `keys` keys, counted from 0.
    pub fn draw_key(&self, keys: u64, random: &mut impl Rng) -> u64 {
        let all = self.ranks.last().copied().unwrap_or(1).max(1);
        let row = self.popularity.sample(random);
        let rank = random.random_range(self.ranks[row]..self.ranks[row + 1].max(self.ranks[row] + 1));
        // The tables' key space is stretched or squeezed to the one asked for.
        let key = (u128::from(rank) * u128::from(keys) / u128::from(all)) as u64;
        if all >= keys {
            key
        } else {
            key + random.random_range(0..keys.div_ceil(all)).min(keys - 1 - key)
        }
    }

    /// Bytes of the value of a key.
    pub fn value_len(&self, key: u64, seed: u64) -> u32 {
        let mut random = chance_of(key, seed);
        let row = self.sizes.sample(&mut random);
        let low = self.bounds[row];
        let high = self.bounds.get(row + 1).copied().unwrap_or(low + 1).max(low + 1);
        random.random_range(low..high)
    }
}

/// A table's rows, and what comes behind it.
type Rows<'a> = (Vec<(u64, u64)>, &'a [u64]);

/// Takes one table off the numbers.
fn rows<'a>(numbers: &'a [u64], name: &str) -> Result<Rows<'a>, String> {
    let Some((&count, rest)) = numbers.split_first() else {
        return Err(format!(
            "the {name} table is missing; its number of rows comes first"
        ));
    };
    let len = usize::try_from(count)
        .ok()
        .and_then(|count| count.checked_mul(2))
        .filter(|len| *len <= rest.len());
    let Some(len) = len.filter(|len| *len > 0) else {
        return Err(format!(
            "the {name} table says {count} rows but {} follow",
            rest.len() / 2
        ));
    };
    Ok((
        rest[..len]
            .chunks_exact(2)
            .map(|pair| (pair[0], pair[1]))
            .collect(),
        &rest[len..],
    ))
}

#[cfg(test)]
mod tests {
    use super::Tables;

    const TEXT: &str = "2\n90 1\n10 9\n2\n1 10\n1 20\n";

    fn tables() -> Tables {
        Tables::read(TEXT.as_bytes()).expect("good tables")
    }

    #[test]
    fn drawing_follows_the_weights_and_repeats_with_the_seed() {
        let drawn: Vec<_> = tables().draw(10, 5).take(20_000).collect();
        let again: Vec<_> = tables().draw(10, 5).take(20_000).collect();
        assert_eq!(drawn, again);
        let first = drawn
            .iter()
            .filter(|request| request.key == b"0000000000000000")
            .count();
        assert!(
            (17_600..18_400).contains(&first),
            "{first} of 20,000 where 90 % are expected"
        );
        assert!(drawn.iter().all(|request| (10..=20).contains(&request.value_len)));
        for request in &drawn {
            let same = drawn
                .iter()
                .find(|other| other.key == request.key)
                .expect("itself");
            assert_eq!(same.value_len, request.value_len, "a key keeps its length");
        }
    }

    #[test]
    fn broken_tables_are_told() {
        let check = |text: &str, says: &str| {
            let error = Tables::read(text.as_bytes()).expect_err("broken");
            assert!(error.contains(says), "{error}");
        };
        check("", "missing");
        check("3\n1 1\n", "3 rows");
        check("1\n1 1\n", "value size");
        check("1\nx 1\n", "line 2");
    }
}
