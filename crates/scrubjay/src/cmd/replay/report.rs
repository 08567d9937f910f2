//! What a replay prints.

use std::io::Write;

use serde_json::json;

use super::run::Replayed;

/// A line of the table.
struct Row {
    name: &'static str,
    value: fn(&Replayed) -> Option<f64>,
    decimals: usize,
}

const fn row(name: &'static str, decimals: usize, value: fn(&Replayed) -> Option<f64>) -> Row {
    Row {
        name,
        value,
        decimals,
    }
}

/// The server's own word for something.
fn stat(replayed: &Replayed, name: &str) -> Option<f64> {
    replayed
        .stats
        .iter()
        .find(|(stat, _)| stat == name)?
        .1
        .parse()
        .ok()
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn percentile(replayed: &Replayed, percent: f64) -> Option<f64> {
    Some(replayed.tally.latency.value_at_percentile(percent) as f64)
}

const ROWS: &[Row] = &[
    row("requests", 0, |r| Some(r.tally.requests as f64)),
    row("hit ratio", 4, |r| share(r.tally.hits, r.tally.gets)),
    row("miss ratio", 4, |r| share(r.tally.misses(), r.tally.gets)),
    row("misses, first requests", 0, |r| Some(r.tally.first_misses as f64)),
    row("misses, expired or deleted", 0, |r| {
        Some(r.tally.dead_misses as f64)
    }),
    row("misses, others", 0, |r| {
        Some((r.tally.misses() - r.tally.first_misses - r.tally.dead_misses) as f64)
    }),
    row("requests per second", 0, |r| {
        Some(r.tally.requests as f64 / r.elapsed.as_secs_f64())
    }),
    row("latency p50, us", 0, |r| percentile(r, 50.0)),
    row("latency p90, us", 0, |r| percentile(r, 90.0)),
    row("latency p99, us", 0, |r| percentile(r, 99.0)),
    row("latency p99.9, us", 0, |r| percentile(r, 99.9)),
    row("latency max, us", 0, |r| Some(r.tally.latency.max() as f64)),
    row("refused", 0, |r| Some(r.tally.refused as f64)),
    row("wrong values", 0, |r| Some(r.tally.wrong as f64)),
    row("server: memory limit, MiB", 1, |r| {
        stat(r, "limit_maxbytes").map(|bytes| bytes / 1_048_576.0)
    }),
    row("server: resident, MiB", 1, |r| {
        r.resident.map(|bytes| bytes as f64 / 1_048_576.0)
    }),
    row("server: items", 0, |r| stat(r, "curr_items")),
    row("server: evictions", 0, |r| stat(r, "evictions")),
];

/// Prints the table, with the ratio of the first to the second if there are two.
pub(crate) fn print_table(results: &[Replayed]) {
    if results.is_empty() {
        return;
    }
    let mut text = format!("{:<26}", "");
    for result in results {
        text += &format!(" {:>22}", result.server);
    }
    text += if results.len() == 2 { "    ratio\n" } else { "\n" };
    for row in ROWS {
        text += &format!("{:<26}", row.name);
        let values: Vec<Option<f64>> = results.iter().map(row.value).collect();
        for value in &values {
            let shown = value.map_or("-".to_owned(), |value| format!("{value:.*}", row.decimals));
            text += &format!(" {shown:>22}");
        }
        if let [Some(first), Some(second)] = values[..]
            && second != 0.0
        {
            text += &format!(" {:>8.3}", first / second);
        }
        text += "\n";
    }
    // Nobody is left to tell if standard output is closed.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Prints one JSON array, an object a server.
pub(crate) fn print_json(results: &[Replayed]) -> Result<(), String> {
    let objects: Vec<_> = results
        .iter()
        .map(|result| {
            let mut object = serde_json::Map::new();
            object.insert("server".to_owned(), json!(result.server));
            for row in ROWS {
                let name = row
                    .name
                    .replace(": ", "_")
                    .replace(", ", "_")
                    .replace([' ', '.'], "_");
                object.insert(name, json!((row.value)(result)));
            }
            serde_json::Value::Object(object)
        })
        .collect();
    let text = serde_json::to_string_pretty(&objects).map_err(|why| why.to_string())?;
    let _ = writeln!(std::io::stdout(), "{text}");
    Ok(())
}
