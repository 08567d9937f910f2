//! `lab expire`: whether the room of expired items can be used by items of another size. Four populations follow each
//! other; the first has expired before the second comes.

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, ArgMatches, Command};

use super::client::{Class, Client, Memory, Population};
use super::table::{Cell, Findings, Section};
use super::{Experiment, wait};
use crate::cmd::chart::{Axis, Chart};

/// The -m of the experiment.
const MEBIBYTES: u64 = 16;

/// Seconds that the first population lives, and that are waited for its end.
const TTL: u32 = 10;
const WAIT: u64 = 12;

const fn population(prefix: char, items: u64, value_len: u32, ttl: u32) -> Population {
    Population {
        prefix,
        items,
        key_len: 32,
        value_len,
        ttl,
    }
}

const STAGES: [Population; 4] = [
    population('a', 9_950, 1_024, TTL),
    population('b', 31_506, 256, 0),
    population('c', 9_950, 1_024, 0),
    population('d', 9_950, 1_024, 0),
];

pub(super) fn command() -> Command {
    Command::new("expire")
        .about("Whether the room of expired items serves items of other sizes: four populations at -m 16")
        .arg(
            Arg::new("read-last")
                .long("read-last")
                .action(ArgAction::SetTrue)
                .help("Read back after the last stage only, so that no item is in use before"),
        )
}

pub(super) fn plan(matches: &ArgMatches) -> Result<Box<dyn Experiment>, String> {
    Ok(Box::new(Expire {
        read_last: matches.get_flag("read-last"),
    }))
}

struct Expire {
    read_last: bool,
}

impl Experiment for Expire {
    fn memory(&self) -> Memory {
        Memory::Exactly(MEBIBYTES)
    }

    fn mostly_waits(&self) -> bool {
        true
    }

    fn run(&self, client: &mut Client) -> Result<Findings, String> {
        let (mut sections, mut values) = (Vec::new(), Vec::new());
        let before = client.classes()?;
        for (index, population) in STAGES.iter().enumerate() {
            let stage = index + 1;
            client.say(&format!(
                "stage {stage} of {}: {} items of {} bytes",
                STAGES.len(),
                population.items,
                population.value_len
            ));
            let refused = client.populate(population)?;
            let mut section = Section::new(format!(
                "stage {stage}: {} x {}, ttl {}",
                population.items, population.value_len, population.ttl
            ));
            let evictions = client.evictions()?;
            section.count("evicted", evictions);
            section.count("refused", refused);
            report_classes(&mut section, &client.classes()?, &before);
            // Asking for an expired item would remove it: the first population is left alone once it is dead.
            let alive = if index == 0 { 0..1 } else { 1..stage };
            if !self.read_last || stage == STAGES.len() {
                report_readable(&mut section, client, alive)?;
            }
            sections.push(section);
            values.push(evictions as f64);
            if index == 0 {
                wait(client, WAIT, "all of it has expired");
                let mut section = Section::new(format!("after {WAIT} s without a request"));
                section.count("items still counted", client.stat("curr_items")?);
                section.count("bytes still counted", client.stat("bytes")?);
                sections.push(section);
            }
        }
        Ok(Findings {
            server: client.server.clone(),
            sections,
            chart: Chart {
                title: "evictions so far, after each stage",
                axis: Axis::Names((1..=STAGES.len()).map(|stage| format!("stage {stage}")).collect()),
                values,
            },
        })
    }
}

/// One set of rows for each class that holds items.
fn report_classes(section: &mut Section, classes: &BTreeMap<u64, Class>, before: &BTreeMap<u64, Class>) {
    for (id, class) in classes.iter().filter(|(_, class)| class.used_chunks > 0) {
        let evicted_before = before.get(id).map_or(0, |class| class.evicted);
        section.count(format!("slab {id}: requested memory"), class.mem_requested);
        section.count(
            format!("slab {id}: used memory"),
            class.chunk_size * class.used_chunks,
        );
        section.count(
            format!("slab {id}: held memory"),
            class.chunk_size * class.total_chunks,
        );
        section.count(
            format!("slab {id}: evicted"),
            class.evicted.saturating_sub(evicted_before),
        );
    }
}

/// Reads everything that should be there, and says how much of the limit that is.
fn report_readable(
    section: &mut Section,
    client: &mut Client,
    stages: std::ops::Range<usize>,
) -> Result<(), String> {
    let mut bytes = 0;
    for index in stages {
        let readable = client.count_readable(&STAGES[index])?;
        bytes += readable * STAGES[index].payload();
        section.count(format!("readable of stage {}", index + 1), readable);
    }
    section.count("readable key and data bytes", bytes);
    section.row("readable, % of the limit", Cell::percent(bytes, client.limit));
    Ok(())
}
