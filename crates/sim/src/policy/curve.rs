//! What the engine's miss-ratio curve says, beside what it misses at those sizes.

use std::fmt::Write as _;

use super::Plan;
use super::engine::run_unscaled;
use super::trace::Trace;

/// Smaller capacities are played with all sizes multiplied: the engine draws no curve of small ones.
const CAPACITY_MIN: u64 = 64 << 20;

/// Points that the curve may be off.
const OFF_MAX: f64 = 2.0;

/// Plays the engine at each share with each seed of the keys' hashes, which decide who is in a sample, and again at each
/// multiple of its curve; returns a table of both.
///
/// # Errors
/// What cannot be read.
pub fn curve(plan: &Plan, progress: &mut dyn FnMut(&str)) -> Result<String, String> {
    let mut table = String::from(
        "| source | share | seed | times | curve | played | points off |\n|---|---|---|---|---|---|---|\n",
    );
    let mut offs = Vec::new();
    for source in &plan.sources {
        let trace = Trace::read(source, plan)?;
        let name = source.rsplit('/').next().unwrap_or(source);
        for &share in &plan.shares {
            progress(&format!("{name} at {share}"));
            let capacity = ((trace.footprint as f64 * share) as u64).max(1);
            let scale = CAPACITY_MIN.div_ceil(capacity);
            let (trace, capacity) = (trace.scaled(scale as u32), capacity * scale);
            for seed in 0..plan.seeds {
                for point in run_unscaled(&trace, capacity, seed).1 {
                    let Some(said) = point.miss_ratio else { continue };
                    let factor = point.factor;
                    let (outcome, _) = run_unscaled(&trace, (capacity as f64 * factor) as u64, seed);
                    let played = outcome.miss_ratio;
                    let off = 100.0 * (said - played);
                    offs.push(off.abs());
                    let _ = writeln!(
                        table,
                        "| {name} | {share} | {seed} | {factor} | {said:.4} | {played:.4} | {off:+.2} |"
                    );
                }
            }
        }
    }
    let within = offs.iter().filter(|off| **off <= OFF_MAX).count();
    let mean = offs.iter().sum::<f64>() / offs.len().max(1) as f64;
    let worst = offs.iter().copied().fold(0.0, f64::max);
    let _ = writeln!(
        table,
        "\n{within} of {} within {OFF_MAX} points, {mean:.2} off on average, {worst:.2} at most.",
        offs.len()
    );
    Ok(table)
}
