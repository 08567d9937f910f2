//! Answers in JSON beside `/stats.json`, for what is too long to be asked for every second: `/latency.json`,
//! `/segments.json`, `/connections.json`.

use std::sync::Arc;

use scrubjay_base::time::Now;
use scrubjay_cache::SegmentView;
use scrubjay_net::Roll;
use scrubjay_server::observe::{Distribution, latencies};
use scrubjay_server::service::Shared;
use scrubjay_server::stats;
use serde_json::{Map, Value, json};

/// Cells of the map of segments; where there are more segments, neighbours share one.
const CELLS_MAX: usize = 2_000;

/// Connections that are listed.
const CONNECTIONS_MAX: usize = 200;

/// How long requests took, class by class, as ends of classes in nanoseconds and counts. Whoever asks twice can tell what
/// came in between.
pub fn latency(shared: &Shared) -> Value {
    let classes = |times: &Distribution| -> Vec<(u64, u64)> { times.classes().collect() };
    let kinds = latencies(shared)
        .into_iter()
        .filter(|kind| kind.service.count() > 0);
    let kinds = kinds.map(|kind| {
        json!({
            "kind": format!("{}_{}", kind.command, kind.outcome),
            "service": classes(&kind.service),
            "wait": classes(&kind.wait),
        })
    });
    json!({ "sample_interval": shared.options.sample_interval, "kinds": kinds.collect::<Vec<_>>() })
}

/// The segments by number, `per_cell` to a cell: how many are used, their mean age in seconds, and their bytes by state.
pub fn segments(shared: &Shared) -> Value {
    let segments = shared.cache.segments();
    let usage = shared.cache.usage();
    let per_cell = segments.len().div_ceil(CELLS_MAX).max(1);
    let cells: Vec<[u64; 5]> = segments.chunks(per_cell).map(cell).collect();
    json!({
        "segment_size": usage.segment_size,
        "segments_total": usage.segments_total,
        "segments_used": usage.segments_used,
        "per_cell": per_cell,
        "cell": ["used", "age_secs", "live", "expired", "dead"],
        "cells": cells,
    })
}

fn cell(segments: &[SegmentView]) -> [u64; 5] {
    let sum = |of: fn(&SegmentView) -> u64| segments.iter().map(of).sum::<u64>();
    let used = sum(|segment| segment.is_used.into());
    let ages = sum(|segment| segment.age_secs.into());
    [
        used,
        ages.checked_div(used).unwrap_or(0),
        sum(|segment| segment.live),
        sum(|segment| segment.expired),
        sum(|segment| segment.dead),
    ]
}

/// The list of sockets that was asked for last, and when.
#[derive(Debug, Default)]
pub struct Listing(Option<(Arc<Roll>, Now)>);

impl Listing {
    /// The sockets as they were at the question before, as nobody waits here until the workers have answered; null if they
    /// have not, or nobody has asked within the last ten seconds.
    pub fn json(&mut self, shared: &Shared, now: Now) -> Value {
        const KEPT_NANOS: u64 = 10_000_000_000;
        let call = &shared.net.roll_call;
        let held = self.0.take();
        let is_fresh = |asked: Now| now.nanos_since(asked) <= KEPT_NANOS;
        match held.filter(|(_, asked)| is_fresh(*asked)) {
            Some((roll, asked)) if call.is_complete(&roll) => {
                let value = list(&roll, asked, now);
                self.0 = Some((call.call(&shared.control), now));
                value
            }
            Some(waiting) => {
                self.0 = Some(waiting);
                json!({ "connections": null })
            }
            None => {
                self.0 = Some((call.call(&shared.control), now));
                json!({ "connections": null })
            }
        }
    }
}

fn list(roll: &Roll, asked: Now, now: Now) -> Value {
    let mut rows = Vec::new();
    let more = roll.read(0, CONNECTIONS_MAX, |row| {
        let mut facts = Map::new();
        facts.insert("descriptor".to_owned(), json!(row.name.descriptor));
        stats::connection(row, asked, &mut |name, value| {
            let name = name.split_once(':').map_or(name, |(_, name)| name);
            let value = value
                .parse::<u64>()
                .map_or_else(|_| json!(value), |number| json!(number));
            facts.insert(name.to_owned(), value);
        });
        rows.push(Value::Object(facts));
    });
    json!({
        "secs_ago": now.nanos_since(asked) / 1_000_000_000,
        "connections": rows,
        "is_complete": more.is_none(),
    })
}
