//! `lab drift`: what a change of the values' mean size does to the hit ratio. A program changes what it caches: all keys
//! are new, the values have another size, and the load goes on. Memory that is bound to the old size serves nobody.

use std::time::{Duration, Instant};

use clap::{Arg, ArgMatches, Command, value_parser};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, Zipf};

use super::client::{Client, Memory};
use super::table::{Cell, Findings, Section};
use super::{Experiment, number, number_of, sleep_until};
use crate::cmd::chart::{Axis, Chart};
use crate::cmd::value::hash;

/// The -m of the experiment: all keys fit with values of 200 bytes, less than half of them with 800.
const MEBIBYTES: u64 = 16;

/// Parts of a second in which requests go out together.
const SLOTS: u64 = 50;

/// Which last part of a phase counts as its tail.
const TAIL: u64 = 4;

/// Largest mean length of values.
const MEAN_MAX: u64 = 100_000;

pub(super) fn command() -> Command {
    Command::new("drift")
        .about("What a shift of the mean value size does to the hit ratio, look-aside at -m 16")
        .arg(number("seconds", 1..=86_400, "20").help("Length of a phase"))
        .arg(number("rate", SLOTS..=1_000_000, "50000").help("Requests a second"))
        .arg(number("keys", 1..=10_000_000, "50000").help("Size of the key space of a phase"))
        .arg(number("seed", 0..=u64::MAX, "1").help("Seed of the draws"))
        .arg(
            Arg::new("phases")
                .long("phases")
                .value_name("BYTES,...")
                .value_delimiter(',')
                .value_parser(value_parser!(u64).range(2..=MEAN_MAX))
                .default_value("200,800,200")
                .help("Mean value sizes; a single one shows what a fresh server reaches"),
        )
}

pub(super) fn plan(matches: &ArgMatches) -> Result<Box<dyn Experiment>, String> {
    let keys = number_of(matches, "keys");
    Ok(Box::new(Drift {
        seconds: number_of(matches, "seconds"),
        rate: number_of(matches, "rate"),
        ranks: Zipf::new(keys as f64, 1.0).map_err(|why| format!("--keys {keys}: {why}"))?,
        seed: number_of(matches, "seed"),
        means: matches
            .get_many::<u64>("phases")
            .unwrap_or_default()
            .copied()
            .collect(),
    }))
}

struct Drift {
    seconds: u64,
    rate: u64,
    ranks: Zipf<f64>,
    seed: u64,
    means: Vec<u64>,
}

/// Requests and how many of them were hits.
#[derive(Clone, Copy, Debug, Default)]
struct Hits {
    requests: u64,
    hits: u64,
}

impl Hits {
    fn add(&mut self, other: Hits) {
        self.requests += other.requests;
        self.hits += other.hits;
    }

    fn cell(self) -> Cell {
        Cell::percent(self.hits, self.requests)
    }
}

impl Experiment for Drift {
    fn memory(&self) -> Memory {
        Memory::Exactly(MEBIBYTES)
    }

    fn mostly_waits(&self) -> bool {
        false
    }

    fn run(&self, client: &mut Client) -> Result<Findings, String> {
        let (mut sections, mut values) = (Vec::new(), Vec::new());
        let mut random = StdRng::seed_from_u64(self.seed);
        for (phase, &mean) in self.means.iter().enumerate() {
            let title = format!("phase {}: mean value {mean} B", phase + 1);
            client.say(&format!("{title}, {} s", self.seconds));
            let (mut all, mut tail) = (Hits::default(), Hits::default());
            let start = Instant::now();
            for second in 0..self.seconds {
                let mut hits = Hits::default();
                for slot in 0..SLOTS {
                    hits.add(self.slot(client, phase, mean, &mut random)?);
                    let due = second * SLOTS + slot + 1;
                    sleep_until(start + Duration::from_secs_f64(due as f64 / SLOTS as f64));
                }
                all.add(hits);
                if second >= self.seconds - self.seconds.div_ceil(TAIL) {
                    tail.add(hits);
                }
                values.push(100.0 * hits.hits as f64 / hits.requests as f64);
            }
            let rate = all.requests as f64 / start.elapsed().as_secs_f64();
            let mut section = Section::new(title);
            section.row("hit ratio", all.cell());
            section.row(format!("hit ratio in the last 1/{TAIL}"), tail.cell());
            section.count("requests per second", rate as u64);
            section.count("items held", client.stat("curr_items")?);
            section.count("evictions so far", client.evictions()?);
            sections.push(section);
        }
        Ok(Findings {
            server: client.server.clone(),
            sections,
            chart: Chart {
                title: "hit ratio in percent, each second",
                axis: Axis::Seconds(1.0),
                values,
            },
        })
    }
}

impl Drift {
    /// A slot's requests: gets, and sets of what was missed.
    fn slot(
        &self,
        client: &mut Client,
        phase: usize,
        mean: u64,
        random: &mut StdRng,
    ) -> Result<Hits, String> {
        let draw = |_| format!("{phase:02}-{:010}", self.ranks.sample(random) as u64).into_bytes();
        let keys: Vec<Vec<u8>> = (0..self.rate / SLOTS).map(draw).collect();
        let found = client.read(&keys)?;
        let missed: Vec<_> = keys.iter().zip(&found).filter(|(_, found)| !**found).collect();
        let fill = |(key, _): &(&Vec<u8>, &bool)| ((*key).clone(), value_len(key, mean), 0);
        client.store(missed.iter().map(fill))?;
        Ok(Hits {
            requests: keys.len() as u64,
            hits: (keys.len() - missed.len()) as u64,
        })
    }
}

/// A key's value length: half to one and a half times the mean, always the same for the key.
fn value_len(key: &[u8], mean: u64) -> u32 {
    let mut random = StdRng::seed_from_u64(hash(key));
    random.random_range(mean / 2..=mean + mean / 2) as u32
}

#[cfg(test)]
mod tests {
    use super::value_len;

    #[test]
    fn lengths_have_their_mean_and_belong_to_the_key() {
        let keys: Vec<String> = (0..10_000).map(|number| format!("{number}")).collect();
        let sum: u64 = keys
            .iter()
            .map(|key| u64::from(value_len(key.as_bytes(), 200)))
            .sum();
        assert!((198..=202).contains(&(sum / 10_000)), "{}", sum / 10_000);
        assert_eq!(value_len(b"key", 800), value_len(b"key", 800));
    }
}
