//! `lab storage`: what a server needs to hold items of four kinds. memcached puts an item into a chunk of the next fitting
//! size; what of the chunk the item does not fill is wasted, and so is the end of a page that no chunk fits into.

use std::collections::BTreeMap;

use clap::{ArgMatches, Command};

use super::Experiment;
use super::client::{Class, Client, Memory, Population};
use super::table::{Cell, Findings, Section};
use crate::cmd::chart::{Axis, Chart};

/// The default -m of memcached, at which the experiment was first made.
const MEBIBYTES: u64 = 64;

const fn population(prefix: char, items: u64, key_len: usize, value_len: u32) -> Population {
    Population {
        prefix,
        items,
        key_len,
        value_len,
        ttl: 0,
    }
}

const POPULATIONS: [Population; 4] = [
    population('a', 3_000, 8, 8),
    population('b', 1_000, 8, 128),
    population('c', 500, 16, 1_024),
    population('d', 20, 32, 262_144),
];

pub(super) fn command() -> Command {
    Command::new("storage")
        .about("What items of four sizes cost: chunks, pages, requested, used and wasted bytes")
}

pub(super) fn plan(_: &ArgMatches) -> Result<Box<dyn Experiment>, String> {
    Ok(Box::new(Storage))
}

struct Storage;

impl Experiment for Storage {
    fn memory(&self) -> Memory {
        Memory::AtLeast(MEBIBYTES)
    }

    fn mostly_waits(&self) -> bool {
        false
    }

    fn run(&self, client: &mut Client) -> Result<Findings, String> {
        let (mut sections, mut names, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for (index, population) in POPULATIONS.iter().enumerate() {
            let title = format!(
                "#{}: key {}, data {}",
                index + 1,
                population.key_len,
                population.value_len
            );
            client.say(&format!("storing {} items, {title}", population.items));
            let before = client.classes()?;
            let refused = client.populate(population)?;
            let Some((id, class)) = grown(&before, &client.classes()?) else {
                return Err(format!(
                    "{}: `stats slabs` does not tell where items lie; name a server that answers it as memcached does",
                    client.server
                ));
            };
            let mut section = Section::new(title);
            report_sizes(&mut section, population);
            section.count("Slab Index", id);
            report_class(&mut section, &class, client.page);
            let payload = population.items * population.payload();
            let beyond = used(&class).saturating_sub(payload);
            section.count("Beyond key and data", beyond);
            section.row(
                "Beyond key and data, per item",
                Cell::Real(beyond as f64 / population.items as f64),
            );
            section.count("Refused", refused);
            names.push(format!("{}/{}", population.key_len, population.value_len));
            values.push(100.0 * beyond as f64 / payload as f64);
            sections.push(section);
        }
        Ok(Findings {
            server: client.server.clone(),
            sections,
            chart: Chart {
                title: "memory used beyond key and data, % of key and data",
                axis: Axis::Names(names),
                values,
            },
        })
    }
}

/// The class that has grown most, and what it has grown by: a server without size classes has all in one.
fn grown(before: &BTreeMap<u64, Class>, after: &BTreeMap<u64, Class>) -> Option<(u64, Class)> {
    let by = |(id, after): (&u64, &Class)| {
        let before = before.get(id).copied().unwrap_or_default();
        let growth = Class {
            chunk_size: after.chunk_size,
            total_pages: after.total_pages.saturating_sub(before.total_pages),
            total_chunks: after.total_chunks.saturating_sub(before.total_chunks),
            used_chunks: after.used_chunks.saturating_sub(before.used_chunks),
            mem_requested: after.mem_requested.saturating_sub(before.mem_requested),
            evicted: after.evicted.saturating_sub(before.evicted),
        };
        (*id, growth)
    };
    after.iter().map(by).max_by_key(|(_, class)| used(class))
}

fn used(class: &Class) -> u64 {
    class.chunk_size * class.used_chunks
}

fn report_sizes(section: &mut Section, population: &Population) {
    let item_size = calculate_size(population.key_len as u64, population.value_len.into());
    section.count("Item Number", population.items);
    section.count("Key Size", population.key_len as u64);
    section.count("Data Size", population.value_len.into());
    section.count("Item Size", item_size);
    section.count("Total Memory", population.items * item_size);
}

fn report_class(section: &mut Section, class: &Class, page: u64) {
    section.count("Chunk Size", class.chunk_size);
    section.count("Total Pages", class.total_pages);
    section.count("Total Chunks", class.total_chunks);
    section.count("Used Chunks", class.used_chunks);
    let chunks = class.total_chunks * class.chunk_size;
    section.count(
        "Lost at page ends",
        (class.total_pages * page).saturating_sub(chunks),
    );
    let wasted = used(class).saturating_sub(class.mem_requested);
    section.count("Requested Memory", class.mem_requested);
    section.count("Used Memory", used(class));
    section.count("Wasted", wasted);
    section.row("Wasted, % of used", Cell::percent(wasted, used(class)));
}

/// Bytes of an item in memcached 1.4 with 64-bit pointers and CAS: header, key, suffix, data, CAS. Later versions store no
/// suffix. Source: memcached 1.4.13, items.c, `item_make_header`.
pub(super) fn calculate_size(key_len: u64, value_len: u64) -> u64 {
    const HEADER: u64 = 48;
    const CAS: u64 = 8;
    let suffix = format!(" 0 {value_len}\r\n").len() as u64;
    HEADER + (key_len + 1) + suffix.min(40) + (value_len + 2) + CAS
}

#[cfg(test)]
mod tests {
    use super::calculate_size;

    #[test]
    fn item_sizes_are_memcacheds() {
        let check = |key_len, value_len, size| assert_eq!(calculate_size(key_len, value_len), size);
        check(8, 8, 81);
        check(8, 128, 203);
        check(16, 1_024, 1_108);
        check(32, 262_144, 262_246);
        check(32, 1_024, 1_124);
        check(32, 256, 355);
    }
}
