//! What a plan prints.

use serde_json::{Map, Value, json};

use super::Plan;

const MIB: f64 = 1_048_576.0;

/// A line of the table: what it is called, in JSON, and both servers' values.
struct Row {
    name: &'static str,
    field: &'static str,
    values: [f64; 2],
    decimals: usize,
}

fn rows(plan: &Plan) -> Vec<Row> {
    let (ours, theirs) = (&plan.scrubjay.memory, &plan.memcached);
    let items = [plan.scrubjay.items as f64, theirs.items as f64];
    let row = |name, field, values, decimals| Row {
        name,
        field,
        values,
        decimals,
    };
    let per_item = |name, field, ours: f64, theirs: f64| {
        let share = |bytes: f64, items: f64| if items > 0.0 { bytes / items } else { 0.0 };
        row(name, field, [share(ours, items[0]), share(theirs, items[1])], 1)
    };
    let (ours_max, theirs_max) = (plan.scrubjay_memory as f64, plan.memcached_memory as f64);
    let theirs_used = theirs.memory as f64;
    vec![
        row(
            "memory limit -m, MiB",
            "memory_limit_mib",
            [ours_max / MIB, theirs_max / MIB],
            0,
        ),
        row("items that fit", "items", items, 0),
        per_item(
            "bytes an item",
            "bytes_per_item",
            ours_max,
            theirs_used + theirs.hash_table,
        ),
        per_item("  key", "key", ours.keys, theirs.keys),
        per_item("  value", "value", ours.values, theirs.values),
        per_item("  header", "header", ours.item_headers, theirs.headers),
        per_item("  padding", "padding", ours.padding, theirs.padding),
        per_item("  index *", "index", ours.index, theirs.hash_table),
        per_item("  segment or page ends", "tails", ours.tails, theirs.tails),
        per_item("  eviction's memory", "eviction", ours.eviction, 0.0),
        per_item("  segment headers", "segment_headers", ours.segment_headers, 0.0),
        per_item("  reserve and unused", "kept_back", ours.kept_back, theirs.unused),
    ]
}

fn with_commas(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The standard deviation of the sum of as many values as fit, relative to it.
fn spread(plan: &Plan) -> f64 {
    let count = plan.sample.len() as f64;
    let mean = plan.sample.iter().map(|item| item.value_len).sum::<usize>() as f64 / count;
    let squares = plan
        .sample
        .iter()
        .map(|item| (item.value_len as f64 - mean).powi(2));
    let fewest = plan.scrubjay.items.min(plan.memcached.items).max(1) as f64;
    (squares.sum::<f64>() / count / fewest).sqrt() / mean.max(1.0)
}

/// The table, the notes and the advice.
pub(super) fn table(plan: &Plan) -> String {
    let theirs = format!("memcached {}", plan.settings.version.name());
    let mut text = format!("{:<24}{:>16}{theirs:>16}{:>9}\n", "", "scrubjay", "ratio");
    for row in rows(plan) {
        text += &format!("{:<24}", row.name);
        for value in row.values {
            let shown = if row.decimals == 0 {
                with_commas(value)
            } else {
                format!("{value:.*}", row.decimals)
            };
            text += &format!("{shown:>16}");
        }
        let [ours, theirs] = row.values;
        text += &if theirs > 0.0 && !row.name.starts_with(' ') {
            format!("{:>9.2}\n", ours / theirs)
        } else {
            "\n".to_owned()
        };
    }
    text += "* memcached keeps it beside -m\n";
    let beyond = plan.memcached.memory - plan.memcached_memory;
    if beyond > 0 {
        text += &format!(
            "memcached takes {:.0} MiB more than -m: each slab class has a page of its own\n",
            beyond as f64 / MIB
        );
    }
    if plan.too_large > 0.0 {
        text += &format!(
            "{:.2} % of the items are over -I and left out\n",
            100.0 * plan.too_large
        );
    }
    let spread = 100.0 * spread(plan);
    if spread >= 1.0 {
        text += &format!("values differ so much that with other keys {spread:.0} % more or less may fit\n");
    }
    let waste = 100.0 * plan.memcached.waste_share();
    text += &match &plan.advice {
        None => format!("memcached's -f and -n: none needed; {waste:.1} % of -m is wasted\n"),
        Some(advice) => format!(
            "memcached's -f and -n: with -f {} -n {} it would hold {} items and waste {:.1} % of -m, not {waste:.1} %\n",
            advice.settings.factor,
            advice.settings.chunk_size,
            with_commas(advice.fill.items as f64),
            100.0 * advice.fill.waste_share(),
        ),
    };
    text
}

/// The same as JSON, with memcached's slab classes and how many items of the sample belong to each.
pub(super) fn json(plan: &Plan) -> Result<String, String> {
    let rows = rows(plan);
    let side = |at: usize| -> Map<String, Value> {
        rows.iter()
            .map(|row| (row.field.to_owned(), json!(row.values[at])))
            .collect()
    };
    let classes: Vec<Value> = plan
        .slabs
        .classes
        .iter()
        .zip(plan.slabs.items_by_class(&plan.sample))
        .map(|(class, items)| {
            json!({
                "chunk_size": class.chunk_size,
                "chunks_per_page": class.chunks_per_page,
                "items_of_sample": items,
            })
        })
        .collect();
    let mut memcached = side(1);
    memcached.insert("version".to_owned(), json!(plan.settings.version.name()));
    memcached.insert("waste".to_owned(), json!(plan.memcached.waste_share()));
    memcached.insert("classes".to_owned(), json!(classes));
    let advice = plan.advice.map(|advice| {
        json!({
            "slab_growth_factor": advice.settings.factor,
            "slab_min_size": advice.settings.chunk_size,
            "items": advice.fill.items,
            "waste": advice.fill.waste_share(),
        })
    });
    let whole = json!({
        "scrubjay": side(0),
        "memcached": memcached,
        "advice": advice,
        "items_of_sample": plan.sample.len(),
        "too_large": plan.too_large,
        "spread": spread(plan),
    });
    serde_json::to_string_pretty(&whole)
        .map(|text| text + "\n")
        .map_err(|why| why.to_string())
}
