//! The statistics as a document: which are measured, which are constants and why.

use super::{GENERAL, ITEMS, SLABS, Source, TLS, UDP};

/// Why a name is a constant, by what the name begins with; the first row that fits holds.
const REASONS: &[(&str, &str)] = &[
    ("version", "the protocol level that clients go by"),
    ("scrubjay_version", "this program's version"),
    ("pointer_size", "64-bit systems only"),
    ("response_obj_", "replies are bytes in a buffer, not objects"),
    ("read_buf_", "input is read into the worker's buffer"),
    (
        "get_expired",
        "a miss is counted in `get_misses` whatever its cause",
    ),
    (
        "get_flushed",
        "a miss is counted in `get_misses` whatever its cause",
    ),
    ("time_in_listen_disabled_us", "not measured"),
    ("hash_is_expanding", "not told: the index grows page by page"),
    ("slab", "there are no slab classes"),
    ("lru", "there are no LRU lists and no crawler"),
    ("crawler_", "there are no LRU lists and no crawler"),
    ("moves_", "there are no LRU lists and no crawler"),
    ("direct_reclaims", "there are no LRU lists and no crawler"),
    ("number_", "there are no LRU lists and no crawler"),
    ("hits_to_", "there are no LRU lists and no crawler"),
    ("evicted_active", "there are no LRU lists and no crawler"),
    ("tailrepairs", "there are no LRU lists and no crawler"),
    ("malloc_fails", "the heap is reserved at the start"),
    ("log_", "the `watch` command is not offered"),
    (
        "unexpected_napi_ids",
        "connections go to the worker that has fewest",
    ),
    (
        "round_robin_fallback",
        "connections go to the worker that has fewest",
    ),
    ("age", "the age of the oldest item is not kept"),
    ("evicted_nonzero", "evictions are not told apart by exptime"),
    ("free_chunks_end", "a segment is filled from the start to the end"),
];

fn reason(name: &str) -> Option<&'static str> {
    let row = REASONS.iter().find(|(start, _)| name.starts_with(start));
    row.map(|(_, reason)| *reason)
}

/// All statistics of the tables in Markdown: the measured ones of each group, then the constants.
pub fn markdown() -> String {
    let groups = [
        ("stats", GENERAL),
        ("stats, with -U", UDP),
        ("stats, with -Z", TLS),
        ("stats items", ITEMS),
        ("stats slabs", SLABS),
    ];
    let mut measured = "| command | measured |\n|---|---|\n".to_owned();
    let mut constant = "| command | statistic | always | why |\n|---|---|---|---|\n".to_owned();
    for (command, table) in groups {
        let mut names = Vec::new();
        for (name, source) in table {
            match source {
                // A release must not make the documents stale.
                Source::Always(value) if !name.ends_with("version") => {
                    let why = reason(name).unwrap_or_default();
                    constant.push_str(&format!("| `{command}` | `{name}` | {value} | {why} |\n"));
                }
                _ => names.push(format!("`{name}`")),
            }
        }
        measured.push_str(&format!("| `{command}` | {} |\n", names.join(", ")));
    }
    format!("{measured}\n{constant}")
}

#[cfg(test)]
mod tests {
    use super::{GENERAL, ITEMS, REASONS, SLABS, Source, reason};

    #[test]
    fn every_constant_has_a_reason_and_every_reason_a_constant() {
        let rows = || [GENERAL, ITEMS, SLABS].into_iter().flatten();
        let constants = || rows().filter(|(_, source)| matches!(source, Source::Always(_)));
        for (name, _) in constants() {
            assert!(reason(name).is_some(), "{name} has no reason");
        }
        for (start, _) in REASONS {
            let used = constants().any(|(name, _)| name.starts_with(start));
            assert!(used, "no constant begins with {start}");
        }
    }
}
