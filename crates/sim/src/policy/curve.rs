//! What the engine's miss-ratio curve says, beside what it misses at those sizes.

use std::fmt::Write as _;

use super::Plan;
use super::engine::run_unscaled;
use super::trace::Trace;

/// Smaller capacities are played with all sizes multiplied: the engine draws no curve of small ones.
const CAPACITY_MIN: u64 = 64 << 20;

/// Plays the engine at each share, and again at each multiple of its curve; returns a table of both.
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
            let scale = CAPACITY_MIN.div_ceil(capacity);
            let (trace, capacity) = (trace.scaled(scale as u32), capacity * scale);
            for point in run_unscaled(&trace, capacity).1 {
                let Some(said) = point.miss_ratio else { continue };
                let factor = point.factor;
                let played = run_unscaled(&trace, (capacity as f64 * factor) as u64)
                    .0
                    .miss_ratio;
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
