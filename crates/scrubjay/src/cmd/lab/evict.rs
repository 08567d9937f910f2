//! `lab evict`: whether items that never expire survive among many that do. A few are stored and read once; then each
//! second brings a thousand new ones that live three seconds.

use std::time::{Duration, Instant};

use clap::{ArgMatches, Command};

use super::client::{Client, Memory, Population};
use super::table::{Cell, Findings, Section};
use super::{Experiment, number, number_of, sleep_until};
use crate::cmd::chart::{Axis, Chart};

/// The -m of the experiment.
const MEBIBYTES: u64 = 8;

/// Bytes of all keys and values, so that all items are of one size class.
const KEY_LEN: usize = 20;
const VALUE_LEN: u32 = 100;

/// What comes each second, and how long it lives.
const NEW_ITEMS: u64 = 1_000;
const TTL: u32 = 3;

pub(super) fn command() -> Command {
    Command::new("evict")
        .about("Whether items that never expire survive among a thousand short-lived ones a second, at -m 8")
        .arg(number("items", 1..=1_000_000, "50").help("Items that never expire"))
        .arg(number("seconds", 1..=86_400, "70").help("How long new items come"))
}

pub(super) fn plan(matches: &ArgMatches) -> Result<Box<dyn Experiment>, String> {
    Ok(Box::new(Evict {
        lasting: Population {
            prefix: 'n',
            items: number_of(matches, "items"),
            key_len: KEY_LEN,
            value_len: VALUE_LEN,
            ttl: 0,
        },
        seconds: number_of(matches, "seconds"),
    }))
}

struct Evict {
    /// The items that never expire.
    lasting: Population,
    seconds: u64,
}

impl Experiment for Evict {
    fn memory(&self) -> Memory {
        Memory::Exactly(MEBIBYTES)
    }

    fn mostly_waits(&self) -> bool {
        true
    }

    fn run(&self, client: &mut Client) -> Result<Findings, String> {
        client.populate(&self.lasting)?;
        client.count_readable(&self.lasting)?;
        let mut values = Vec::new();
        let mut unread = 0;
        let start = Instant::now();
        for second in 0..self.seconds {
            let new = |index| format!("{second:08}-{index:0width$}", width = KEY_LEN - 9).into_bytes();
            let keys: Vec<Vec<u8>> = (0..NEW_ITEMS).map(new).collect();
            client.store(keys.iter().map(|key| (key.clone(), VALUE_LEN, TTL)))?;
            let found = client.read(&keys)?;
            unread += found.iter().filter(|found| !**found).count() as u64;
            let (evictions, items) = (client.evictions()?, client.stat("curr_items")?);
            client.say(&format!(
                "{} of {} s: {evictions} evictions, {items} items",
                second + 1,
                self.seconds
            ));
            values.push(items as f64);
            sleep_until(start + Duration::from_secs(second + 1));
        }
        let mut section = Section::new("at the end");
        section.count("evictions", client.evictions()?);
        section.count("items held", client.stat("curr_items")?);
        section.count(
            "most items held",
            values.iter().copied().fold(0.0, f64::max) as u64,
        );
        section.count("new items not found at once", unread);
        let readable = client.count_readable(&self.lasting)?;
        section.count("never-expiring items", self.lasting.items);
        section.count("never-expiring items readable", readable);
        section.row("readable", Cell::percent(readable, self.lasting.items));
        Ok(Findings {
            server: client.server.clone(),
            sections: vec![section],
            chart: Chart {
                title: "items held, each second",
                axis: Axis::Seconds(1.0),
                values,
            },
        })
    }
}
