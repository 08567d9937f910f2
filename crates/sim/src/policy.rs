//! Eviction policies over traces and drawn workloads, in process and in virtual time.
//!
//! Each source is played at shares of its footprint (the most bytes of keys and values that are alive at a time) by
//! - exact policies at item granularity: LRU, FIFO, S3-FIFO, GDSF ([`exact`]); what expires leaves them at once;
//! - the cache's own policy alone, without any overhead ([`own`]);
//! - the real engine with values shortened by what an item's header takes, and with all else that it keeps beside its
//!   segments added to its limit ([`engine`]).

mod chart;
mod curve;
mod engine;
mod exact;
mod own;
mod play;
mod trace;

pub use self::curve::curve;

use std::fmt::Write;

use exact::{ByOrder, Expiring, Gdsf, S3Fifo};
use own::{Adaptive, Fixed};
use play::{Outcome, play};
use trace::Trace;

/// Plays a trace in so many bytes.
type Play = fn(&Trace, u64) -> Outcome;

/// Exact policies.
const EXACT: [(&str, Play); 4] = [
    ("LRU", |trace, capacity| by(trace, ByOrder::new(capacity, true))),
    ("FIFO", |trace, capacity| by(trace, ByOrder::new(capacity, false))),
    ("S3-FIFO", |trace, capacity| by(trace, S3Fifo::new(capacity))),
    ("GDSF", |trace, capacity| by(trace, Gdsf::new(capacity))),
];

/// The cache's own.
const OWN: [(&str, Play); 2] = [
    ("policy, fixed", |trace, capacity| {
        play(trace, &mut Fixed::new(trace, capacity))
    }),
    ("policy, adaptive", |trace, capacity| {
        play(trace, &mut Adaptive::new(trace, capacity))
    }),
];

/// Real engines; the first is the one that is served with.
const ENGINES: [(&str, Play); 1] = [("engine", engine::run)];

fn by(trace: &Trace, policy: impl exact::Policy) -> Outcome {
    play(trace, &mut Expiring::new(policy, trace))
}

/// What to play.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Paths of traces, or names of drawn workloads; several joined by `+` are played one after the other.
    pub sources: Vec<String>,
    /// Sizes of the cache as shares of each footprint.
    pub shares: Vec<f64>,
    /// Requests taken of each source at most; drawn ones have no end of their own.
    pub requests: usize,
    /// Key space of drawn workloads.
    pub keys: u64,
    /// Curves are asked for with so many seeds of the keys' hashes.
    pub seeds: u64,
    /// Leave out all but the engine.
    pub engine_only: bool,
}

/// One source at one share: what came of each player.
#[derive(Clone, Debug)]
struct Row {
    source: String,
    share: f64,
    outcomes: Vec<(&'static str, Outcome)>,
}

impl Row {
    fn outcome(&self, name: &str) -> Option<&Outcome> {
        let found = self.outcomes.iter().find(|(known, _)| *known == name)?;
        Some(&found.1)
    }
}

/// What was played, to be shown as tables or as a chart.
#[derive(Debug)]
pub struct Report {
    rows: Vec<Row>,
}

/// Plays the plan, telling `progress` of each step.
///
/// # Errors
/// What cannot be read.
pub fn run(plan: &Plan, progress: &mut dyn FnMut(&str)) -> Result<Report, String> {
    let compared: &[(&str, Play)] = if plan.engine_only { &[] } else { &EXACT };
    let own: &[(&str, Play)] = if plan.engine_only { &[] } else { &OWN };
    let mut rows = Vec::new();
    for source in &plan.sources {
        let trace = Trace::read(source, plan)?;
        let name = source.rsplit('/').next().unwrap_or(source);
        let name = name.rsplit("twitter:").next().unwrap_or(name);
        for &share in &plan.shares {
            progress(&format!("{name} at {share}"));
            let capacity = ((trace.footprint as f64 * share) as u64).max(1);
            let players = compared.iter().chain(own).chain(&ENGINES);
            rows.push(Row {
                source: name.split('.').next().unwrap_or(name).to_owned(),
                share,
                outcomes: players
                    .map(|(name, play)| (*name, play(&trace, capacity)))
                    .collect(),
            });
        }
    }
    Ok(Report { rows })
}

impl Report {
    /// Miss ratios of all, then the engines' figures, then geometric means against the best exact policy of each row.
    pub fn tables(&self) -> String {
        let mut text = self.miss_ratios();
        text.push('\n');
        text += &self.engines();
        text + &self.summary()
    }

    /// Misses of all others relative to the engine's.
    pub fn svg(&self) -> String {
        chart::svg(&self.rows, ENGINES[0].0)
    }

    fn miss_ratios(&self) -> String {
        let names: Vec<&str> = self.rows.first().map_or(Vec::new(), |row| {
            row.outcomes.iter().map(|(name, _)| *name).collect()
        });
        let mut table = format!("| source | share | {} |\n", names.join(" | "));
        table += &format!("|---|---|{}\n", "---|".repeat(names.len()));
        for row in &self.rows {
            let cells = row.outcomes.iter();
            let cells: String = cells
                .map(|(_, one)| format!(" {:.4} |", one.miss_ratio))
                .collect();
            let _ = writeln!(table, "| {} | {} |{cells}", row.source, row.share);
        }
        table
    }

    fn engines(&self) -> String {
        let mut table =
            "| source | share | | misses | of these lost | relocated | ns a request | beyond P1 |\n|---|---|---|---|---|---|---|---|\n"
                .to_owned();
        for row in &self.rows {
            for (name, _) in ENGINES {
                let Some(one) = row.outcome(name) else { continue };
                let _ = writeln!(
                    table,
                    "| {} | {} | {name} | {:.4} | {:.4} | {:.2} | {:.0} | {} |",
                    row.source,
                    row.share,
                    one.miss_ratio,
                    one.lost_ratio,
                    one.relocated,
                    one.nanos,
                    one.beyond_bound
                );
            }
        }
        table
    }

    /// Geometric means and worst rows: against the best exact policy, and of the other engines against the first.
    fn summary(&self) -> String {
        let best = |row: &Row| {
            let exact = EXACT.iter().filter_map(|(name, _)| row.outcome(name));
            exact.map(|one| one.miss_ratio).reduce(f64::min)
        };
        let first = |row: &Row| row.outcome(ENGINES[0].0).map(|one| one.miss_ratio);
        let mut text = String::new();
        for (name, _) in OWN.iter().chain(&ENGINES) {
            self.compare(&mut text, name, "the best exact policy", best);
        }
        for (name, _) in &ENGINES[1..] {
            self.compare(&mut text, name, ENGINES[0].0, first);
        }
        text
    }

    fn compare(&self, text: &mut String, name: &str, with: &str, base: impl Fn(&Row) -> Option<f64>) {
        let ratios = self.rows.iter().filter_map(|row| {
            let ratio = row.outcome(name)?.miss_ratio / base(row)?;
            (ratio > 0.0 && ratio.is_finite()).then_some(ratio)
        });
        let ratios: Vec<f64> = ratios.collect();
        if ratios.is_empty() {
            return;
        }
        let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let most = ratios.iter().copied().fold(0.0, f64::max);
        let _ = writeln!(
            text,
            "{name}: geometric mean {mean:.3} of {with}, rows from {least:.3} to {most:.3}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::{Plan, run};

    fn plan(source: &str) -> Plan {
        Plan {
            sources: vec![source.to_owned()],
            shares: vec![0.1],
            requests: 100_000,
            keys: 30_000,
            seeds: 1,
            engine_only: false,
        }
    }

    #[test]
    fn policy_is_no_worse_than_the_best_exact_one_on_a_drawn_workload() {
        let report = run(&plan("twitter:cluster22"), &mut |_| {}).expect("drawn");
        let row = &report.rows[0];
        let exact = super::EXACT.iter().filter_map(|(name, _)| row.outcome(name));
        let best = exact.map(|one| one.miss_ratio).fold(f64::INFINITY, f64::min);
        let ours = row.outcome("policy, adaptive").expect("played").miss_ratio;
        assert!(ours < 1.05 * best, "{}", report.tables());
    }

    #[test]
    fn nothing_is_lost_where_all_that_is_alive_fits() {
        let plan = Plan {
            shares: vec![2.0],
            ..plan("twitter:cluster23")
        };
        let report = run(&plan, &mut |_| {}).expect("drawn");
        for (name, one) in &report.rows[0].outcomes {
            assert!(one.miss_ratio > 0.0, "{name}: first requests miss");
            assert_eq!(one.lost_ratio, 0.0, "{name}: {}", report.tables());
        }
    }
}
