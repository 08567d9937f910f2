//! Latency by throughput, at rates that were asked for; or at what the server can do as fast as it goes, then in steps up to that
//! and beyond, until it does not keep up.

use std::io::Write;

use scrubjay_load::run::{Load, Measured};
use serde_json::json;

use super::measure::{Subject, faults_of, fill, measure, prepare};
use super::options::Bench;
use super::report::{LATENCIES, P50, P99, latencies};
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

/// One rate.
struct Step {
    asked: f64,
    reached: f64,
    /// [`LATENCIES`] in microseconds, of gets and of sets.
    latencies: Vec<(&'static str, [f64; 5])>,
    is_bound_by_load: bool,
}

impl Step {
    /// Of the gets, or of the others if there is no get.
    fn latency(&self, index: usize) -> f64 {
        self.latencies
            .first()
            .map_or(0.0, |(_, latencies)| latencies[index])
    }
}

/// All rates of one server.
struct Curve {
    server: String,
    /// Requests a second as fast as it goes; none if rates were asked for.
    capacity: Option<f64>,
    steps: Vec<Step>,
}

impl Curve {
    /// The fastest step up to which all keep p99 below so many microseconds.
    fn knee(&self, target_us: f64) -> Option<&Step> {
        let keeps = |step: &&Step| step.latency(P99) <= target_us && step.reached >= step.asked * KEPT;
        self.steps.iter().take_while(keeps).last()
    }
}

/// Measures each server, prints the table and writes the chart. Returns what was at fault.
pub(super) fn run(bench: &Bench) -> Result<Vec<String>, String> {
    let phases = bench.workload.phases();
    let [phase] = &phases[..] else {
        return Err(
            "--sweep and --rates are for a workload of one phase, and this one stores and then gets every key"
                .to_owned(),
        );
    };
    if bench.load.rate.is_some() || bench.load.noreply || bench.workload.requests.is_some() {
        return Err(
            "--sweep and --rates say what is asked, for --duration each: leave out --rate, --requests and --noreply"
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
        curves.push(sweep(bench, subject, phase, &load, &mut faults)?);
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

fn sweep(
    bench: &Bench,
    subject: &Subject,
    phase: &Phase,
    load: &Load,
    faults: &mut Vec<String>,
) -> Result<Curve, String> {
    let mut runs = 0;
    let mut at = |load: &Load, title: &str| -> Result<Measured, String> {
        let title = format!("{}, {title}", subject.name);
        let measured = measure(subject, &phase.of_run(runs), load, &title)?;
        runs += 1;
        faults.extend(faults_of(&title, phase, &measured));
        Ok(measured)
    };
    let capacity = match bench.rates {
        Some(_) => None,
        None => Some(at(load, "as fast as it goes")?.rate()),
    };
    let of_capacity = |percent: u32| (capacity.unwrap_or_default() * f64::from(percent) / 100.0).max(1.0);
    let rates = match &bench.rates {
        Some(rates) => rates.iter().map(|rate| rate * load.connections as f64).collect(),
        None => STEPS.map(of_capacity).to_vec(),
    };
    let mut steps = Vec::new();
    for rate in rates {
        let load = Load {
            rate: Some(rate),
            ..load.clone()
        };
        let measured = at(&load, &format!("{rate:.0}/s"))?;
        let asked_for = measured.tally.requests - measured.tally.refills;
        let reached = asked_for as f64 / measured.secs;
        steps.push(Step {
            asked: rate,
            reached,
            latencies: latencies(&measured),
            is_bound_by_load: measured.is_bound_by_load(),
        });
        if bench.rates.is_none() && reached < rate * KEPT {
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
        text += &curve.server;
        if let Some(capacity) = curve.capacity {
            text += &format!(": {capacity:.0} requests/s as fast as it goes");
        }
        text += &format!("\n{:>12} {:>12}    ", "asked/s", "reached/s");
        for name in LATENCIES {
            text += &format!(" {:>12}", format!("{name}, us"));
        }
        text += "\n";
        for step in &curve.steps {
            text += &rows(step);
        }
        text += &match curve.knee(target_us) {
            _ if curve.capacity.is_none() => String::new(),
            Some(knee) => format!(
                "knee: {:.0} requests/s with p99 of at most {target_us:.0} us\n",
                knee.reached
            ),
            None => format!("knee: none; no rate keeps p99 at {target_us:.0} us, see --target-p99\n"),
        };
    }
    text
}

/// A row for gets and one for sets.
fn rows(step: &Step) -> String {
    let mut text = String::new();
    for (index, (kind, latencies)) in step.latencies.iter().enumerate() {
        text += &match index {
            0 => format!("{:>12.0} {:>12.0}", step.asked, step.reached),
            _ => format!("{:>25}", ""),
        };
        text += &format!(" {kind}");
        for latency in latencies {
            text += &format!(" {latency:>12.1}");
        }
        if index == 0 && step.is_bound_by_load {
            text += "  the load generator is the bottleneck";
        }
        text += "\n";
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
                    let mut row = json!({
                        "asked": step.asked,
                        "reached": step.reached,
                        "load_is_bottleneck": step.is_bound_by_load,
                    });
                    for (kind, latencies) in &step.latencies {
                        for (name, latency) in LATENCIES.iter().zip(latencies) {
                            row[format!("{kind}_{}_us", name.replace('.', ""))] = json!(latency);
                        }
                    }
                    row
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
    for (index, name) in [(P99, "p99"), (P50, "p50")] {
        for curve in curves {
            let places = curve.steps.iter().map(|step| step.reached / 1e3).collect();
            let chart = Chart {
                title: "latency in us from when a request was due, by requests answered a second",
                axis: Axis::Places(places, "k/s"),
                values: curve.steps.iter().map(|step| step.latency(index)).collect(),
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
            latencies: vec![("get", [12.0, 10.0, *p99, 2000.0, 3000.0])],
            is_bound_by_load: false,
        };
        Curve {
            server: "a".to_owned(),
            capacity: Some(5000.0),
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
