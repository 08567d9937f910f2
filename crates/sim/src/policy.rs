//! Eviction policies over traces and drawn workloads, in process and in virtual time.
//!
//! Each source is played at shares of its footprint (the sum of its objects' sizes, key and value) by
//! - exact policies at item granularity: LRU, FIFO, S3-FIFO, GDSF ([`exact`]);
//! - the cache's own policy alone, without any overhead: its [`Shadow`], once with fixed ageing and once choosing on line
//!   as the cache does ([`adaptive`]);
//! - the real engine with values shortened by what an item's header takes, and with all else that it keeps beside its
//!   segments added to its limit ([`engine`]).
//!
//! All take every request for a look-up that is followed by a store when it missed.

mod adaptive;
mod engine;
mod exact;

use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;

use scrubjay_cache::{Ageing, Shadow};
use scrubjay_workload::{Draw, Format};

/// Ageing that does not change. Source: docs/internals/eviction.md.
const FIXED: Ageing = Ageing::slow(0.03);

/// One request: the object's number and its size.
pub type Request = (u32, u32);

/// A source of requests, read whole.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Its requests in order.
    pub requests: Vec<Request>,
    /// Distinct objects.
    pub objects: usize,
    /// Sum of the objects' sizes at their first request.
    pub footprint: u64,
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
}

impl Trace {
    /// Reads a source and all that are joined to it.
    ///
    /// # Errors
    /// What cannot be read, with the path.
    pub fn read(source: &str, plan: &Plan) -> Result<Trace, String> {
        let draw = Draw {
            keys: plan.keys,
            seed: 1,
            rate: 0.0,
        };
        let mut numbers = HashMap::new();
        let mut trace = Trace {
            requests: Vec::new(),
            objects: 0,
            footprint: 0,
        };
        let parts = source.split('+').map(Path::new);
        let opened = parts.map(|path| {
            let requests = scrubjay_workload::open(path, Format::guess(path), &draw)?;
            Ok(requests.take(plan.requests))
        });
        let opened = opened.collect::<Result<Vec<_>, String>>()?;
        for request in opened.into_iter().flatten() {
            let request = request.map_err(|why| format!("{source}: {why}"))?;
            let size = (request.key.len() as u32 + request.value_len).max(1);
            let next = numbers.len() as u32;
            let number = *numbers.entry(request.key).or_insert_with(|| {
                trace.footprint += u64::from(size);
                next
            });
            trace.requests.push((number, size));
        }
        trace.objects = numbers.len();
        Ok(trace)
    }

    /// The same with all sizes multiplied.
    fn scaled(&self, factor: u32) -> Trace {
        let scale = |&(object, size): &Request| (object, size * factor);
        Trace {
            requests: self.requests.iter().map(scale).collect(),
            objects: self.objects,
            footprint: self.footprint * u64::from(factor),
        }
    }

    fn miss_ratio(&self, misses: u64) -> f64 {
        misses as f64 / self.requests.len().max(1) as f64
    }
}

/// A hash of an object's number, spread as the engine's are.
fn hash(object: u32) -> u64 {
    (u64::from(object) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The cache's policy alone, with ageing that does not change.
fn fixed(trace: &Trace, capacity: u64) -> f64 {
    let mut shadow = Shadow::new(capacity, FIXED, trace.objects);
    let mut misses = 0;
    for &(object, size) in &trace.requests {
        if !shadow.read(hash(object), 0) {
            misses += 1;
            shadow.store(hash(object), size, u32::MAX, 0);
        }
    }
    trace.miss_ratio(misses)
}

/// Plays the plan and returns the table, a row for each source and share; ends with the geometric means against the best
/// exact policy of each row.
///
/// # Errors
/// What cannot be read.
pub fn run(plan: &Plan, progress: &mut dyn FnMut(&str)) -> Result<String, String> {
    let mut table = String::from(
        "| source | share | LRU | FIFO | S3-FIFO | GDSF | policy, fixed | policy, adaptive | engine | relocated |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    let mut logs = [0.0; 3];
    let mut worst = [0.0f64; 3];
    let mut rows = 0;
    for source in &plan.sources {
        let trace = Trace::read(source, plan)?;
        let name = source.rsplit('/').next().unwrap_or(source);
        for &share in &plan.shares {
            progress(&format!("{name} at {share}"));
            let capacity = ((trace.footprint as f64 * share) as u64).max(1);
            let exact = [
                exact::lru(&trace, capacity),
                exact::fifo(&trace, capacity),
                exact::s3_fifo(&trace, capacity),
                exact::gdsf(&trace, capacity),
            ];
            let best = exact.iter().copied().fold(f64::INFINITY, f64::min);
            let played = engine::play(&trace, capacity);
            let ours = [
                fixed(&trace, capacity),
                adaptive::play(&trace, capacity),
                played.miss_ratio,
            ];
            for (at, miss_ratio) in ours.iter().enumerate() {
                logs[at] += (miss_ratio / best).ln();
                worst[at] = worst[at].max(miss_ratio / best);
            }
            rows += 1;
            let cells = exact.iter().chain(&ours).map(|ratio| format!("{ratio:.4} | "));
            let cells: String = cells.collect();
            let _ = writeln!(table, "| {name} | {share} | {cells}{:.2} |", played.relocated);
        }
    }
    for (at, name) in ["policy, fixed", "policy, adaptive", "engine"].iter().enumerate() {
        let mean = (logs[at] / f64::from(rows.max(1))).exp();
        let _ = writeln!(
            table,
            "{name}: geometric mean {mean:.3} of the best exact policy, worst row {:.3}",
            worst[at]
        );
    }
    Ok(table)
}

/// Smaller capacities are played with all sizes multiplied: the engine draws no curve of small ones.
const CURVE_CAPACITY_MIN: u64 = 64 << 20;

/// Plays the engine at each share and at the multiples of its curve, and sets what the curve says beside what was missed.
///
/// # Errors
/// What cannot be read.
pub fn curve(plan: &Plan, progress: &mut dyn FnMut(&str)) -> Result<String, String> {
    let mut table =
        String::from("| source | share | times | curve | played | points off |\n|---|---|---|---|---|---|\n");
    let mut worst = 0.0f64;
    for source in &plan.sources {
        let trace = Trace::read(source, plan)?;
        let name = source.rsplit('/').next().unwrap_or(source);
        for &share in &plan.shares {
            progress(&format!("{name} at {share}"));
            let capacity = ((trace.footprint as f64 * share) as u64).max(1);
            let scale = CURVE_CAPACITY_MIN.div_ceil(capacity);
            let (trace, capacity) = (trace.scaled(scale as u32), capacity * scale);
            for point in engine::run(&trace, capacity).curve {
                let Some(said) = point.miss_ratio else { continue };
                let factor = point.factor;
                let played = engine::run(&trace, (capacity as f64 * factor) as u64).miss_ratio;
                let off = 100.0 * (said - played);
                worst = worst.max(off.abs());
                let _ = writeln!(
                    table,
                    "| {name} | {share} | {factor} | {said:.4} | {played:.4} | {off:+.2} |"
                );
            }
        }
    }
    let _ = writeln!(table, "\nAt most {worst:.2} points off.");
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::{Plan, run};

    #[test]
    fn policy_is_no_worse_than_the_best_exact_one_on_a_drawn_workload() {
        let plan = Plan {
            sources: vec!["twitter:cluster22".to_owned()],
            shares: vec![0.1],
            requests: 100_000,
            keys: 30_000,
        };
        let table = run(&plan, &mut |_| {}).expect("drawn");
        let mean = table.lines().find(|line| line.starts_with("policy, adaptive:"));
        let mean: f64 = mean
            .and_then(|line| line.split(' ').nth(4))
            .and_then(|word| word.parse().ok())
            .expect("a mean");
        assert!(mean < 1.05, "{table}");
    }
}
