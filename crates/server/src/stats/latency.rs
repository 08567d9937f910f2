//! `stats latency`: how long requests take by command and outcome, and how long they wait before.

use crate::observe::{Distribution, KINDS, Latency, latencies};
use crate::service::Shared;

/// A measure of a distribution: its name, its value in nanoseconds, and what it says.
type Measure = (&'static str, fn(&Distribution) -> u64);

const MEASURES: &[Measure] = &[
    ("mean_us", Distribution::mean),
    ("p50_us", |times| times.quantile(0.5)),
    ("p90_us", |times| times.quantile(0.9)),
    ("p99_us", |times| times.quantile(0.99)),
    ("p999_us", |times| times.quantile(0.999)),
    ("max_us", Distribution::max),
];

/// Name of the first line: one request in so many is measured.
pub(super) const INTERVAL: &str = "sample_interval";

/// Names of the lines of a kind of request that was measured, each behind the kind and a colon.
pub(super) fn names() -> impl Iterator<Item = String> {
    let service = MEASURES.iter().map(|(name, _)| (*name).to_owned());
    let wait = MEASURES.iter().map(|(name, _)| format!("wait_{name}"));
    std::iter::once("count".to_owned()).chain(service).chain(wait)
}

fn micros(nanos: u64) -> String {
    format!("{}.{:03}", nanos / 1000, nanos % 1000)
}

/// Calls `each` with every line. Kinds of which none was measured are left out.
pub(super) fn report(shared: &Shared, each: &mut dyn FnMut(&str, &str)) {
    each(INTERVAL, &shared.options.sample_interval.to_string());
    for latency in latencies(shared) {
        let Latency {
            command,
            outcome,
            service,
            wait,
        } = &latency;
        if service.count() == 0 {
            continue;
        }
        let mut say = |name: &str, value: &str| each(&format!("{command}_{outcome}:{name}"), value);
        say("count", &service.count().to_string());
        for (name, value) in MEASURES {
            say(name, &micros(value(service)));
        }
        for (name, value) in MEASURES {
            say(&format!("wait_{name}"), &micros(value(wait)));
        }
    }
}

/// The kinds of requests in Markdown.
pub(super) fn markdown() -> String {
    let mut text = "| kind | requests |\n|---|---|\n".to_owned();
    for (_, command, outcome, requests) in KINDS {
        text.push_str(&format!("| `{command}_{outcome}` | {requests} |\n"));
    }
    text
}
