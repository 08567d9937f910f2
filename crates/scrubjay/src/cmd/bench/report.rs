//! What the rounds showed, as a table with a column for each server, or as JSON.

use hdrhistogram::Histogram;
use indicatif::HumanFloatCount;
use scrubjay_load::run::Measured;
use serde_json::{Map, Value, json};

use super::measure::Rounds;

/// A figure of one round; none if there is nothing to say.
type Figure = fn(&Measured) -> Option<f64>;

const NANOS_PER_MICRO: f64 = 1e3;

/// Every figure: its name in JSON, in the table, its decimals there, and where it comes from.
const FIGURES: &[(&str, &str, usize, Figure)] = &[
    ("requests_per_second", "requests/s", 0, |one| Some(one.rate())),
    ("connections_per_second", "connections opened/s", 0, |one| {
        per_second(one.tally.connections, one)
    }),
    ("full_handshakes_per_second", "full handshakes/s", 0, |one| {
        per_second(one.tally.handshakes, one)
    }),
    (
        "resumed_handshakes_per_second",
        "resumed handshakes/s",
        0,
        |one| per_second(one.tally.resumptions, one),
    ),
    ("hit_ratio", "hit ratio", 4, |one| {
        share(one.tally.hits, one.tally.gets)
    }),
    ("value_mib_per_second", "values read, MiB/s", 1, |one| {
        share(one.tally.hit_bytes, 1 << 20)
            .map(|mib| mib / one.secs)
            .filter(|mib| *mib > 0.0)
    }),
    ("get_mean_us", "get mean, us", 1, |one| {
        mean(&one.tally.get_latency)
    }),
    ("get_p50_us", "get p50, us", 1, |one| {
        at(&one.tally.get_latency, 0.5)
    }),
    ("get_p90_us", "get p90, us", 1, |one| {
        at(&one.tally.get_latency, 0.9)
    }),
    ("get_p99_us", "get p99, us", 1, |one| {
        at(&one.tally.get_latency, 0.99)
    }),
    ("get_p999_us", "get p99.9, us", 1, |one| {
        at(&one.tally.get_latency, 0.999)
    }),
    ("get_p9999_us", "get p99.99, us", 1, |one| {
        at(&one.tally.get_latency, 0.9999)
    }),
    ("get_max_us", "get max, us", 1, |one| {
        at(&one.tally.get_latency, 1.0)
    }),
    ("set_mean_us", "set mean, us", 1, |one| {
        mean(&one.tally.other_latency)
    }),
    ("set_p50_us", "set p50, us", 1, |one| {
        at(&one.tally.other_latency, 0.5)
    }),
    ("set_p90_us", "set p90, us", 1, |one| {
        at(&one.tally.other_latency, 0.9)
    }),
    ("set_p99_us", "set p99, us", 1, |one| {
        at(&one.tally.other_latency, 0.99)
    }),
    ("set_p999_us", "set p99.9, us", 1, |one| {
        at(&one.tally.other_latency, 0.999)
    }),
    ("set_p9999_us", "set p99.99, us", 1, |one| {
        at(&one.tally.other_latency, 0.9999)
    }),
    ("set_max_us", "set max, us", 1, |one| {
        at(&one.tally.other_latency, 1.0)
    }),
    ("server_cpu_us", "server CPU, us/request", 3, |one| {
        let usage = one.server.as_ref()?;
        Some(share(usage.cpu_nanos_sum(), one.tally.requests)? / NANOS_PER_MICRO)
    }),
    ("server_syscalls", "server system calls/request", 3, |one| {
        share(one.syscalls?, one.tally.requests)
    }),
    (
        "server_reads_writes",
        "server read+write calls/request *",
        3,
        |one| match one.syscalls {
            Some(_) => None,
            None => share(one.server.as_ref()?.reads_and_writes, one.tally.requests),
        },
    ),
    (
        "server_context_switches",
        "server context switches/request",
        3,
        |one| share(one.server.as_ref()?.switches, one.tally.requests),
    ),
    ("server_busy", "server's busiest thread, %", 0, |one| {
        Some(one.server_busy()? * 100.0)
    }),
    ("load_busy", "load's busiest thread, %", 0, |one| {
        Some(one.busy * 100.0)
    }),
    ("lost", "requests lost", 0, |one| some_if_any(one.tally.lost)),
    ("unsent", "due but not sent in time", 0, |one| {
        some_if_any(one.tally.unsent)
    }),
    ("not_stored", "not stored", 0, |one| {
        some_if_any(one.tally.not_stored)
    }),
    ("errors", "errors", 0, |one| some_if_any(one.tally.errors_sum())),
    ("wrong_values", "wrong values", 0, |one| {
        some_if_any(one.tally.wrong)
    }),
];

const NOTE: &str = "* as /proc counts them: read and write, not recv and send, so of most servers the reads; --syscalls counts all\n";

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn per_second(count: u64, one: &Measured) -> Option<f64> {
    Some(some_if_any(count)? / one.secs)
}

fn some_if_any(count: u64) -> Option<f64> {
    (count > 0).then_some(count as f64)
}

/// A percentile in microseconds, if anything was recorded.
fn at(latency: &Histogram<u64>, quantile: f64) -> Option<f64> {
    (!latency.is_empty()).then(|| latency.value_at_quantile(quantile) as f64 / NANOS_PER_MICRO)
}

/// The mean in microseconds, if anything was recorded.
fn mean(latency: &Histogram<u64>) -> Option<f64> {
    (!latency.is_empty()).then(|| latency.mean() / NANOS_PER_MICRO)
}

/// Mean and percentiles that are told of a step.
pub(super) const LATENCIES: [&str; 5] = ["mean", "p50", "p99", "p99.9", "max"];

/// Where the median is among them.
pub(super) const P50: usize = 1;

/// Where the one is that a knee goes by.
pub(super) const P99: usize = 2;

/// [`LATENCIES`] in microseconds, of the gets and of the others, as far as there were any.
pub(super) fn latencies(one: &Measured) -> Vec<(&'static str, [f64; 5])> {
    let kinds = [("get", &one.tally.get_latency), ("set", &one.tally.other_latency)];
    let of = |(name, latency)| {
        let at = |quantile| at(latency, quantile);
        Some((name, [mean(latency)?, at(0.5)?, at(0.99)?, at(0.999)?, at(1.0)?]))
    };
    kinds.into_iter().filter_map(of).collect()
}

fn median(rounds: &[Measured], figure: Figure) -> Option<f64> {
    let mut values: Vec<f64> = rounds.iter().filter_map(figure).collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        len if len % 2 == 0 => Some((values[middle - 1] + values[middle]) / 2.0),
        _ => Some(values[middle]),
    }
}

/// All phases as tables.
pub(super) fn text(results: &[(&str, Vec<Rounds>)], has_floor: bool) -> String {
    let mut text = String::new();
    for (title, all) in results {
        text += &table(title, all, has_floor);
    }
    if text.contains(" *") {
        text += NOTE;
    }
    text
}

fn table(title: &str, all: &[Rounds], has_floor: bool) -> String {
    let width = 14.max(all.iter().map(|one| one.server.len()).max().unwrap_or(0));
    let compared = all.len() - usize::from(has_floor && all.len() > 1);
    let mut text = format!("{title:<34}");
    for one in all {
        text += &format!(" {:>width$}", one.server);
    }
    // The first beside the second; each beside the floor.
    let mut ratios: Vec<(usize, usize)> = Vec::new();
    if compared > 1 {
        ratios.push((0, 1));
    }
    if has_floor {
        ratios.extend((0..compared).map(|index| (index, all.len() - 1)));
    }
    for (one, other) in &ratios {
        text += &format!("  {:>7}", format!("{}:{}", one + 1, other + 1));
    }
    text += "\n";
    for (_, name, decimals, figure) in FIGURES {
        let values: Vec<_> = all.iter().map(|one| median(&one.rounds, *figure)).collect();
        if values.iter().all(Option::is_none) {
            continue;
        }
        text += &format!("{name:<34}");
        for value in &values {
            text += &format!(
                " {:>width$}",
                value.map_or("-".to_owned(), |value| number(value, *decimals))
            );
        }
        for (one, other) in &ratios {
            let ratio = values[*one].zip(values[*other]).map(|(one, other)| one / other);
            let ratio = ratio.filter(|ratio| ratio.is_finite());
            text += &format!(
                "  {:>7}",
                ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"))
            );
        }
        text += "\n";
    }
    if all.iter().any(|one| one.rounds.len() > 1) {
        text += &format!("{:<34}", "requests/s, least to most");
        for one in all {
            let rates = || one.rounds.iter().map(Measured::rate);
            let (least, most) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
            text += &format!(" {:>width$}", format!("{:.0}k-{:.0}k", least / 1e3, most / 1e3));
        }
        text += "\n";
    }
    text += &format!("{:<34}", "the load waits by");
    for one in all {
        let driver = one.rounds.first().map_or("", |round| round.driver.name());
        text += &format!(" {driver:>width$}");
    }
    text += "\n";
    for one in all {
        if one.rounds.iter().any(Measured::is_bound_by_load) {
            text += &format!(
                "{}: the load generator is the bottleneck; give it more --threads, or more --pipeline\n",
                one.server
            );
        }
    }
    text
}

fn number(value: f64, decimals: usize) -> String {
    if decimals > 0 {
        return format!("{value:.decimals$}");
    }
    HumanFloatCount(value.round()).to_string()
}

/// All phases as JSON: medians and every round.
pub(super) fn json(results: &[(&str, Vec<Rounds>)]) -> String {
    let phases: Vec<Value> = results
        .iter()
        .map(|(title, all)| {
            let servers: Vec<Value> = all
                .iter()
                .map(|one| {
                    let rounds: Vec<Value> = one.rounds.iter().map(round).collect();
                    json!({"server": one.server, "median": figures(|figure| median(&one.rounds, figure)), "rounds": rounds})
                })
                .collect();
            json!({"phase": title, "servers": servers})
        })
        .collect();
    json!(phases).to_string()
}

/// One round as JSON.
fn round(one: &Measured) -> Value {
    let mut round = figures(|figure| figure(one));
    round.insert("requests".to_owned(), json!(one.tally.requests));
    round.insert("seconds".to_owned(), json!(one.secs));
    round.insert("hits".to_owned(), json!(one.tally.hits));
    round.insert("misses".to_owned(), json!(one.tally.misses));
    round.insert("load_is_bottleneck".to_owned(), json!(one.is_bound_by_load()));
    round.insert("load_driver".to_owned(), json!(one.driver.name()));
    round.insert("error_texts".to_owned(), json!(one.tally.errors));
    Value::Object(round)
}

fn figures(value_of: impl Fn(Figure) -> Option<f64>) -> Map<String, Value> {
    let value = |(name, _, _, figure): &(&str, &str, usize, Figure)| {
        Some(((*name).to_owned(), json!(value_of(*figure)?)))
    };
    FIGURES.iter().filter_map(value).collect()
}
