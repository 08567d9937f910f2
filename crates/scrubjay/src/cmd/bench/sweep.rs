//! Latency by throughput: what the server can do as fast as it goes, then rates in steps up to that and beyond, until it does
//! not keep up.

use std::io::Write;

use scrubjay_load::run::{Load, Measured};
use serde_json::json;

use super::measure::{Subject, faults_of, fill, measure, prepare};
use super::options::Bench;
use super::report::latency;
use super::workload::Phase;
use crate::cmd::chart::{self, Axis, Chart, Series};
use crate::cmd::lab::write_svg;

/// Rates, in percent of what was reached in a closed loop. That is no bound: more may be reached with requests in flight on
/// all connections at all times.
const STEPS: [u32; 18] = [
    5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 100, 110, 120, 140, 170, 200, 250,
];

/// Share of the asked rate below which the server does not keep up.
const KEPT: f64 = 0.97;

/// Percentiles that are told of each step.
const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

/// The one that the knee goes by.
const P99: usize = 1;

/// One rate.
struct Step {
    asked: f64,
    reached: f64,
    /// Microseconds, of each of [`QUANTILES`].
    latencies: Vec<f64>,
    is_bound_by_load: bool,
}

/// All rates of one server.
struct Curve {
    server: String,
    capacity: f64,
    steps: Vec<Step>,
}

impl Curve {
    /// The fastest step up to which all keep p99 below so many microseconds.
    fn knee(&self, target_us: f64) -> Option<&Step> {
        let keeps = |step: &&Step| step.latencies[P99] <= target_us && step.reached >= step.asked * KEPT;
        self.steps.iter().take_while(keeps).last()
    }
}

/// Sweeps each server, prints the table and writes the chart. Returns what was at fault.
pub(super) fn run(bench: &Bench) -> Result<Vec<String>, String> {
    let phases = bench.workload.phases();
    let [phase] = &phases[..] else {
        return Err(
            "--sweep is for a workload of one phase, and this one stores and then gets every key".to_owned(),
        );
    };
    if bench.load.rate.is_some() || bench.load.noreply || bench.workload.requests.is_some() {
        return Err(
            "--sweep chooses rates itself, for --duration each: leave out --rate, --requests and --noreply"
                .to_owned(),
        );
    }
    if let Some(path) = &bench.svg {
        write_svg(path, "")?;
    }
    let (subjects, load) = prepare(bench)?;
    let (mut faults, mut curves) = (Vec::new(), Vec::new());
    for subject in &subjects {
        if bench.fill {
            fill(bench, subject, &load, &mut faults)?;
        }
        curves.push(sweep(subject, phase, &load, &mut faults)?);
    }
    let target_us = bench.target_p99_ms * 1e3;
    let text = if bench.json {
        json_of(&curves, target_us) + "\n"
    } else {
        table(&curves, target_us)
    };
    if let Some(path) = &bench.svg {
        write_svg(path, &svg(&curves))?;
    }
    // Nobody is left to tell if standard output is closed.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(faults)
}

fn sweep(subject: &Subject, phase: &Phase, load: &Load, faults: &mut Vec<String>) -> Result<Curve, String> {
    let mut at = |load: &Load, title: &str| -> Result<Measured, String> {
        let title = format!("{}, {title}", subject.name);
        let measured = measure(subject, phase, load, &title)?;
        faults.extend(faults_of(&title, phase, &measured));
        Ok(measured)
    };
    let capacity = at(load, "as fast as it goes")?.rate();
    let mut steps = Vec::new();
    for percent in STEPS {
        let rate = (capacity * f64::from(percent) / 100.0).max(1.0);
        let load = Load {
            rate: Some(rate),
            ..load.clone()
        };
        let measured = at(&load, &format!("{rate:.0}/s"))?;
        let reached = measured.rate();
        steps.push(Step {
            asked: rate,
            reached,
            latencies: QUANTILES
                .iter()
                .map(|(_, quantile)| latency(&measured, *quantile))
                .collect(),
            is_bound_by_load: measured.is_bound_by_load(),
        });
        if reached < rate * KEPT {
            break;
        }
    }
    Ok(Curve {
        server: subject.name.clone(),
        capacity,
        steps,
    })
}

fn table(curves: &[Curve], target_us: f64) -> String {
    let mut text = String::new();
    for curve in curves {
        text += &format!(
            "{}: {:.0} requests/s as fast as it goes\n{:>12} {:>12}",
            curve.server, curve.capacity, "asked/s", "reached/s"
        );
        for (name, _) in QUANTILES {
            text += &format!(" {:>12}", format!("{name}, us"));
        }
        text += "\n";
        for step in &curve.steps {
            text += &format!("{:>12.0} {:>12.0}", step.asked, step.reached);
            for latency in &step.latencies {
                text += &format!(" {latency:>12.1}");
            }
            text += if step.is_bound_by_load {
                "  the load generator is the bottleneck\n"
            } else {
                "\n"
            };
        }
        text += &match curve.knee(target_us) {
            Some(knee) => format!(
                "knee: {:.0} requests/s with p99 of at most {target_us:.0} us\n",
                knee.reached
            ),
            None => format!("knee: none; no rate keeps p99 at {target_us:.0} us, see --target-p99\n"),
        };
    }
    text
}

fn json_of(curves: &[Curve], target_us: f64) -> String {
    let curves: Vec<_> = curves
        .iter()
        .map(|curve| {
            let steps: Vec<_> = curve
                .steps
                .iter()
                .map(|step| {
                    json!({
                        "asked": step.asked,
                        "reached": step.reached,
                        "p50_us": step.latencies[0],
                        "p99_us": step.latencies[P99],
                        "p999_us": step.latencies[2],
                        "max_us": step.latencies[3],
                        "load_is_bottleneck": step.is_bound_by_load,
                    })
                })
                .collect();
            let knee = curve.knee(target_us).map(|knee| knee.reached);
            json!({"server": curve.server, "capacity": curve.capacity, "knee": knee, "steps": steps})
        })
        .collect();
    json!(curves).to_string()
}

/// p50 and p99 of every server over the rate that was reached.
fn svg(curves: &[Curve]) -> String {
    let mut charts = Vec::new();
    for (index, name) in [(P99, "p99"), (0, "p50")] {
        for curve in curves {
            let places = curve.steps.iter().map(|step| step.reached / 1e3).collect();
            let chart = Chart {
                title: "latency in us from when a request was due, by requests answered a second",
                axis: Axis::Places(places, "k/s"),
                values: curve.steps.iter().map(|step| step.latencies[index]).collect(),
            };
            charts.push((format!("{}, {name}", curve.server), chart));
        }
    }
    let series: Vec<_> = charts
        .iter()
        .map(|(name, chart)| Series { name, chart })
        .collect();
    chart::svg(&series)
}

#[cfg(test)]
mod tests {
    use super::{Curve, Step, svg, table};

    fn curve(p99s: &[f64]) -> Curve {
        let step = |(at, p99): (usize, &f64)| Step {
            asked: (at + 1) as f64 * 1000.0,
            reached: (at + 1) as f64 * 1000.0,
            latencies: vec![10.0, *p99, 2000.0, 3000.0],
            is_bound_by_load: false,
        };
        Curve {
            server: "a".to_owned(),
            capacity: 5000.0,
            steps: p99s.iter().enumerate().map(step).collect(),
        }
    }

    #[test]
    fn the_knee_is_the_last_rate_before_p99_first_passes_the_target() {
        let knee = |p99s: &[f64]| curve(p99s).knee(100.0).map(|step| step.reached);
        assert_eq!(knee(&[20.0, 30.0, 200.0, 50.0]), Some(2000.0));
        assert_eq!(knee(&[20.0, 30.0]), Some(2000.0));
        assert_eq!(knee(&[200.0]), None);
        let text = table(&[curve(&[20.0, 200.0])], 100.0);
        assert!(text.contains("knee: 1000 requests/s"), "{text}");
        assert!(svg(&[curve(&[20.0, 200.0])]).contains("polyline"));
    }
}
