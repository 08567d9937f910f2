//! The statistics as a document: which are measured, which are constants and why.

use super::classes::{ClassSource, ITEMS, SLABS};
use super::meaning;
use super::memcached::ABSENT;
use super::{GENERAL, Source, TLS, UDP, connections, keys, latency};
use crate::observe::ttl;

const NOT_BY_SIZE: &str =
    "commands are not counted by size, which would cost each look-up; `stats` has the sums";

/// Why a name is a constant, by what the name begins with, perhaps of one command; the first row that fits holds.
const REASONS: &[(&str, &str)] = &[
    ("version", "the protocol level that clients go by"),
    ("scrubjay_version", "this program's version"),
    ("pointer_size", "64-bit systems only"),
    ("response_obj_", "replies are bytes in a buffer, not objects"),
    ("read_buf_", "input is read into the worker's buffer"),
    ("slab", "there are no slab classes"),
    ("lru", "there are no LRU lists and no crawler"),
    ("crawler_", "there are no LRU lists and no crawler"),
    ("moves_", "there are no LRU lists and no crawler"),
    ("direct_reclaims", "there are no LRU lists and no crawler"),
    ("number_", "there are no LRU lists and no crawler"),
    ("hits_to_cold", NOT_BY_SIZE),
    ("hits_to_", "there are no LRU lists and no crawler"),
    ("evicted_active", "there are no LRU lists and no crawler"),
    ("tailrepairs", "there are no LRU lists and no crawler"),
    ("malloc_fails", "the heap is reserved at the start"),
    (
        "unexpected_napi_ids",
        "connections go to the worker that has fewest",
    ),
    (
        "round_robin_fallback",
        "connections go to the worker that has fewest",
    ),
    ("age", "the age of the oldest item is not kept"),
    (
        "outofmemory",
        "no class runs out; `store_no_memory` of `stats` has the sum",
    ),
    ("free_chunks_end", "a segment is filled from the start to the end"),
    ("stats slabs: ", NOT_BY_SIZE),
];

fn fits((start, _): &(&str, &str), command: &str, name: &str) -> bool {
    match start.split_once(": ") {
        Some((of, start)) => of == command && name.starts_with(start),
        None => name.starts_with(start),
    }
}

pub(super) fn reason(command: &str, name: &str) -> Option<&'static str> {
    let row = REASONS.iter().find(|row| fits(row, command, name));
    row.map(|(_, reason)| *reason)
}

/// Every statistic: its command, its name, and its value if that never changes.
pub(super) fn rows() -> impl Iterator<Item = (&'static str, String, Option<&'static str>)> {
    let constant = |source: &Source| match source {
        Source::Always(value) => Some(*value),
        _ => None,
    };
    let tables = [
        ("stats", GENERAL),
        ("stats, with -U", UDP),
        ("stats, with -Z", TLS),
    ];
    let general = tables.into_iter().flat_map(move |(command, table)| {
        table
            .iter()
            .map(move |(name, source)| (command, (*name).to_owned(), constant(source)))
    });
    let of_classes = [("stats items", ITEMS), ("stats slabs", SLABS)];
    let classes = of_classes.into_iter().flat_map(move |(command, table)| {
        table.iter().map(move |(name, source)| match source {
            ClassSource::Whole(source) => (command, (*name).to_owned(), constant(source)),
            ClassSource::Own(_) => (command, (*name).to_owned(), None),
        })
    });
    let others: [(&str, &[&str]); 5] = [
        ("stats conns", &connections::NAMES),
        ("stats hotkeys", &keys::HOT_KEY_NAMES),
        ("stats prefixes", &keys::PREFIX_NAMES),
        ("stats ttls", &ttl::NAMES),
        ("stats latency", &[latency::INTERVAL]),
    ];
    let others = others.into_iter().flat_map(|(command, names)| {
        let named = names.iter();
        named.map(move |name| (command, (*name).to_owned(), None))
    });
    let latencies = latency::names().map(|name| ("stats latency", name, None));
    general.chain(classes).chain(others).chain(latencies)
}

/// All statistics in Markdown: the measured ones with their meaning, then the constants, then memcached's that are missing.
pub fn markdown() -> String {
    let mut measured = "| command | statistic | meaning |\n|---|---|---|\n".to_owned();
    let mut constant = "| command | statistic | always | why |\n|---|---|---|---|\n".to_owned();
    for (command, name, always) in rows() {
        match always {
            // A release must not make the documents stale.
            Some(value) if !name.ends_with("version") => {
                let why = reason(command, &name).unwrap_or_default();
                constant.push_str(&format!("| `{command}` | `{name}` | {value} | {why} |\n"));
            }
            _ => {
                let meaning = meaning::of(command, &name).unwrap_or_default();
                measured.push_str(&format!("| `{command}` | `{name}` | {meaning} |\n"));
            }
        }
    }
    let mut absent = "| command | memcached's | why it is missing |\n|---|---|---|\n".to_owned();
    for (command, name, why) in ABSENT {
        absent.push_str(&format!("| `{command}` | `{name}` | {why} |\n"));
    }
    let kinds = latency::markdown();
    format!("{measured}\n{kinds}\n{constant}\n{absent}")
}

#[cfg(test)]
mod tests {
    use super::{REASONS, fits, reason, rows};

    #[test]
    fn every_constant_has_a_reason_and_every_reason_a_constant() {
        let constants = || rows().filter(|(_, _, always)| always.is_some());
        for (command, name, _) in constants() {
            assert!(
                reason(command, &name).is_some(),
                "{command}: {name} has no reason"
            );
        }
        for row in REASONS {
            let used = constants().any(|(command, name, _)| fits(row, command, &name));
            assert!(used, "no constant begins with {row:?}");
        }
    }
}
