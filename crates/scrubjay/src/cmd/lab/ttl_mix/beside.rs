//! Part 2: short-lived small items and never-expiring larger ones fill the server together; once the small ones are dead,
//! more of the larger ones come.

use super::TTL;
use crate::cmd::chart::{Axis, Chart};
use crate::cmd::lab::client::{Client, Memory, Population};
use crate::cmd::lab::storage::calculate_size;
use crate::cmd::lab::table::{Cell, Findings, Section};
use crate::cmd::lab::{Experiment, wait};

/// The -m of the experiment.
const MEBIBYTES: u64 = 10;

/// Seconds after which the short-lived items are dead.
const WAIT: u64 = 12;

/// Bytes of never-expiring items before and after the wait, each item counted with memcached's overhead.
const FIRST_BYTES: u64 = 7_000_000;
const MORE_BYTES: u64 = 2_500_000;

const KEY_LEN: usize = 8;
const VALUE_LEN: u32 = 1_024;

/// The short-lived items: 3 MB where an item costs 22 bytes beyond key and value.
const SHORT_LIVED: Population = Population {
    prefix: 's',
    items: 80_000,
    key_len: KEY_LEN,
    value_len: 8,
    ttl: TTL,
};

pub(super) struct Beside;

impl Experiment for Beside {
    fn memory(&self) -> Memory {
        Memory::Exactly(MEBIBYTES)
    }

    fn mostly_waits(&self) -> bool {
        true
    }

    fn run(&self, client: &mut Client) -> Result<Findings, String> {
        let lasting = |prefix, bytes| Population {
            prefix,
            items: bytes / calculate_size(KEY_LEN as u64, VALUE_LEN.into()),
            key_len: KEY_LEN,
            value_len: VALUE_LEN,
            ttl: 0,
        };
        let (first, more) = (lasting('f', FIRST_BYTES), lasting('m', MORE_BYTES));
        client.say(&format!(
            "storing {} items that live {TTL} s and {} for ever",
            SHORT_LIVED.items, first.items
        ));
        let mut sections = Vec::new();
        let mut values = Vec::new();
        let mut store = |client: &mut Client, title: &str, populations: &[Population]| {
            let mut section = Section::new(title);
            for population in populations {
                let refused = client.populate(population)?;
                section.count(
                    format!("items of {} B stored", population.value_len),
                    population.items - refused,
                );
            }
            let evictions = client.evictions()?;
            section.count("evictions so far", evictions);
            section.count("items held", client.stat("curr_items")?);
            sections.push(section);
            values.push(evictions as f64);
            Ok::<(), String>(())
        };
        store(client, "never-expiring beside short-lived", &[SHORT_LIVED, first])?;
        wait(client, WAIT, "the short-lived are dead");
        store(client, "more never-expiring", &[more])?;
        let mut section = Section::new("at the end");
        let wanted = first.items + more.items;
        let (old, new) = (client.count_readable(&first)?, client.count_readable(&more)?);
        section.count("first never-expiring readable", old);
        section.count("later never-expiring readable", new);
        section.count("never-expiring lost", wanted - old - new);
        section.row("readable", Cell::percent(old + new, wanted));
        sections.push(section);
        Ok(Findings {
            server: client.server.clone(),
            sections,
            chart: Chart {
                title: "evictions so far, before and after the wait",
                axis: Axis::Names(vec!["before".to_owned(), "after".to_owned()]),
                values,
            },
        })
    }
}
