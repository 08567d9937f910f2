//! Histograms of times in OpenMetrics: one for each kind of request that was measured.

use std::fmt::Write as _;

use scrubjay_server::observe::{Distribution, Latency, OCTAVE_BOUNDS};

/// Names of the samples of the family `family`.
pub(super) fn sample_names(family: &str) -> [String; 3] {
    ["bucket", "count", "sum"].map(|suffix| format!("{family}_{suffix}"))
}

/// Appends the samples of the family `family`. A bucket ends at each doubling from 128 ns to 8.6 s.
pub(super) fn write(
    family: &str,
    latencies: &[Latency],
    times: fn(&Latency) -> &Distribution,
    text: &mut String,
) {
    for latency in latencies {
        let times = times(latency);
        let count = times.count();
        if count == 0 {
            continue;
        }
        let labels = format!("command=\"{}\",outcome=\"{}\"", latency.command, latency.outcome);
        // Writing to a string does not fail.
        for bound in OCTAVE_BOUNDS {
            let (end, below) = (bound as f64 / 1e9, times.below(bound));
            let _ = writeln!(text, "{family}_bucket{{{labels},le=\"{end}\"}} {below}");
        }
        let _ = writeln!(text, "{family}_bucket{{{labels},le=\"+Inf\"}} {count}");
        let _ = writeln!(text, "{family}_count{{{labels}}} {count}");
        let _ = writeln!(text, "{family}_sum{{{labels}}} {}", times.sum() as f64 / 1e9);
    }
}
