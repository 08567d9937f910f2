//! Part 1: writes go on steadily, and a sample of the items is read shortly before its end. An item dies early only if
//! room was taken from the living, as the server has room for all that live at a time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::TTL;
use crate::cmd::chart::{Axis, Chart};
use crate::cmd::lab::client::{Client, Memory};
use crate::cmd::lab::table::{Cell, Findings, Section};
use crate::cmd::lab::{Experiment, sleep_until};

/// The -m of the experiment.
const MEBIBYTES: u64 = 100;

/// Bytes of keys and values written a second: ten seconds of them, with overhead, are less than the limit.
const BYTES_PER_SECOND: u64 = 6_000_000;

/// Lengths of values are drawn evenly on a logarithmic scale, between these.
const VALUE_LEN_MIN: f64 = 64.0;
const VALUE_LEN_MAX: f64 = 65_536.0;

const KEY_LEN: usize = 16;

/// Parts of a second in which items are written together.
const SLOTS: u64 = 50;

/// Samples of a slot, for each age.
const SAMPLES: usize = 4;

/// The ages at which samples are read. A clock that counts whole seconds ends a life of ten up to one second early, so that
/// the second age finds some gone that were not evicted.
const AGES: [(Duration, &str); 2] = [
    (Duration::from_millis(8_900), "readable at 8.9 s"),
    (Duration::from_millis(9_500), "readable at 9.5 s"),
];

/// How much older than wanted a sample may be when it is missed: later its life may have ended, by a coarse clock.
const LATE_MAX: Duration = Duration::from_millis(200);

pub(super) struct Steady {
    pub(super) seconds: u64,
    pub(super) seed: u64,
}

/// Keys to read at an age.
struct Sample {
    due: Instant,
    /// Before the first of them was sent.
    sent: Instant,
    keys: Vec<Vec<u8>>,
}

/// What the samples of one age showed.
#[derive(Debug, Default)]
struct Seen {
    readable: u64,
    gone: u64,
    /// Gone, but it was asked for too late.
    untold: u64,
    /// The age of the youngest that was gone.
    youngest: Option<Duration>,
}

impl Experiment for Steady {
    fn memory(&self) -> Memory {
        Memory::AtLeast(MEBIBYTES)
    }

    fn mostly_waits(&self) -> bool {
        true
    }

    fn run(&self, client: &mut Client) -> Result<Findings, String> {
        let mut random = StdRng::seed_from_u64(self.seed);
        let mut waiting: [VecDeque<Sample>; AGES.len()] = Default::default();
        let mut seen: [Seen; AGES.len()] = Default::default();
        let (mut values, mut written, mut refused, mut items) = (Vec::new(), 0, 0, 0);
        let start = Instant::now();
        for second in 0..self.seconds {
            let value_len = VALUE_LEN_MIN * (VALUE_LEN_MAX / VALUE_LEN_MIN).powf(random.random::<f64>());
            let value_len = value_len as u32;
            for slot in 0..SLOTS {
                // The slots' shares add up to the second's bytes whatever the length is.
                let share = (second * SLOTS + slot + 1) * BYTES_PER_SECOND / SLOTS;
                let mut keys = Vec::new();
                while written < share {
                    keys.push(format!("{items:0KEY_LEN$}").into_bytes());
                    items += 1;
                    written += KEY_LEN as u64 + u64::from(value_len);
                }
                let before = Instant::now();
                refused += client.store(keys.iter().map(|key| (key.clone(), value_len, TTL)))?;
                note_samples(&mut waiting, keys, before, slot as usize);
                sleep_until(
                    start + Duration::from_secs_f64((second * SLOTS + slot + 1) as f64 / SLOTS as f64),
                );
                read_due(client, &mut waiting, &mut seen)?;
            }
            let evictions = client.evictions()?;
            client.say(&format!(
                "{} of {} s: values of {value_len} B, {evictions} evictions, {} of {} samples gone",
                second + 1,
                self.seconds,
                seen[1].gone,
                seen[1].gone + seen[1].readable
            ));
            values.push(evictions as f64);
        }
        let mut section = Section::new(format!("{} s, ttl {TTL} s", self.seconds));
        section.row(
            "MB/s written",
            Cell::Real(written as f64 / 1e6 / start.elapsed().as_secs_f64()),
        );
        section.count("items written", items);
        section.count("refused", refused);
        section.count("evictions", client.evictions()?);
        for ((_, name), seen) in AGES.iter().zip(&seen) {
            section.count(format!("sampled, {name}"), seen.readable);
            section.count(format!("sampled, not {name}"), seen.gone);
            section.row(*name, Cell::percent(seen.readable, seen.readable + seen.gone));
        }
        if let Some(age) = seen.iter().filter_map(|seen| seen.youngest).min() {
            section.row("youngest sample gone, s", Cell::Real(age.as_secs_f64()));
        }
        section.count(
            "samples read too late to tell",
            seen.iter().map(|seen| seen.untold).sum(),
        );
        Ok(Findings {
            server: client.server.clone(),
            sections: vec![section],
            chart: Chart {
                title: "evictions so far, each second",
                axis: Axis::Seconds(1.0),
                values,
            },
        })
    }
}

/// Takes samples out of the keys written since `before`, and deals them out to the ages, `first` being served first: of
/// large values a slot has few.
fn note_samples(waiting: &mut [VecDeque<Sample>], keys: Vec<Vec<u8>>, before: Instant, first: usize) {
    let step = (keys.len() / (SAMPLES * AGES.len())).max(1);
    let mut dealt: [Vec<Vec<u8>>; AGES.len()] = Default::default();
    let chosen = keys.into_iter().step_by(step).take(SAMPLES * AGES.len());
    for (at, key) in chosen.enumerate() {
        dealt[(first + at) % AGES.len()].push(key);
    }
    for ((waiting, (age, _)), keys) in waiting.iter_mut().zip(AGES).zip(dealt) {
        waiting.push_back(Sample {
            due: Instant::now() + age,
            sent: before,
            keys,
        });
    }
}

/// Reads the samples whose age has come.
fn read_due(client: &mut Client, waiting: &mut [VecDeque<Sample>], seen: &mut [Seen]) -> Result<(), String> {
    for ((waiting, seen), (wanted, _)) in waiting.iter_mut().zip(seen).zip(AGES) {
        while let Some(sample) = waiting.pop_front_if(|sample| sample.due <= Instant::now()) {
            let found = client.read(&sample.keys)?;
            let readable = found.iter().filter(|found| **found).count() as u64;
            let rest = found.len() as u64 - readable;
            seen.readable += readable;
            let age = sample.sent.elapsed();
            if rest > 0 && age < wanted + LATE_MAX {
                seen.gone += rest;
                seen.youngest = Some(seen.youngest.map_or(age, |youngest| youngest.min(age)));
            } else {
                seen.untold += rest;
            }
        }
    }
    Ok(())
}
