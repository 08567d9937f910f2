//! Samples that are worked out from several statistics, or from more than those.

use crate::memory;
use crate::reading::Reading;

/// Commands with the statistics of what came of them. Source of the labels: memcached_exporter.
pub(super) const OUTCOMES: &[(&str, &str, &str)] = &[
    ("get", "hit", "get_hits"),
    ("get", "miss", "get_misses"),
    ("delete", "hit", "delete_hits"),
    ("delete", "miss", "delete_misses"),
    ("incr", "hit", "incr_hits"),
    ("incr", "miss", "incr_misses"),
    ("decr", "hit", "decr_hits"),
    ("decr", "miss", "decr_misses"),
    ("cas", "hit", "cas_hits"),
    ("cas", "miss", "cas_misses"),
    ("cas", "badval", "cas_badval"),
    ("touch", "hit", "touch_hits"),
    ("touch", "miss", "touch_misses"),
    ("flush", "hit", "cmd_flush"),
];

pub(super) fn commands(reading: &Reading) -> Vec<(String, String)> {
    let labels = |command: &str, status: &str| format!("command=\"{command}\",status=\"{status}\"");
    // Each cas is counted as a set, too.
    let cas = ["cas_hits", "cas_misses", "cas_badval"].map(|name| reading.number(name));
    let sets = reading.number("cmd_set").saturating_sub(cas.iter().sum());
    let others = OUTCOMES.iter().map(|(command, status, name)| {
        let value = reading.number(name).to_string();
        (labels(command, status), value)
    });
    std::iter::once((labels("set", "hit"), sets.to_string()))
        .chain(others)
        .collect()
}

pub(super) fn memory_parts(reading: &Reading) -> Vec<(String, String)> {
    let parts = memory::parts(reading).into_iter();
    parts
        .map(|part| (format!("state=\"{}\"", part.name), part.bytes.to_string()))
        .collect()
}

pub(super) fn curve_ratios(reading: &Reading) -> Vec<(String, String)> {
    let points = reading.curve.iter();
    points
        .filter_map(|point| {
            Some((
                format!("factor=\"{}\"", point.factor),
                format!("{:.4}", point.miss_ratio?),
            ))
        })
        .collect()
}

pub(super) fn curve_limits(reading: &Reading) -> Vec<(String, String)> {
    let points = reading.curve.iter();
    points
        .map(|point| {
            (
                format!("factor=\"{}\"", point.factor),
                point.memory_max.to_string(),
            )
        })
        .collect()
}

/// Names and counts as samples, the names as values of `label`.
pub(super) fn labelled(label: &str, rows: &[(String, u64)]) -> Vec<(String, String)> {
    let sample =
        |(name, count): &(String, u64)| (format!("{label}=\"{}\"", escaped(name)), count.to_string());
    rows.iter().map(sample).collect()
}

pub(super) fn listener_disabled(reading: &Reading) -> Vec<(String, String)> {
    let micros = reading.number("time_in_listen_disabled_us");
    vec![(
        String::new(),
        format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000),
    )]
}

pub(super) fn started(reading: &Reading) -> Vec<(String, String)> {
    let millis = reading.started_unix_millis;
    vec![(String::new(), format!("{}.{:03}", millis / 1000, millis % 1000))]
}

pub(super) fn version(reading: &Reading, name: &str) -> Vec<(String, String)> {
    let version = escaped(reading.get(name).unwrap_or_default());
    vec![(format!("version=\"{version}\""), "1".to_owned())]
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
