//! `scrubjay bench`: load on any memcached-protocol server, one or two side by side, and beside a floor that no server can
//! beat.

mod measure;
mod options;
mod report;
mod sweep;
mod tls;
mod workload;

use std::process::ExitCode;

use clap::ArgMatches;

pub use self::options::command;

/// Exit status when replies were wrong, missing or errors.
const FAULTS: u8 = 1;

/// Exit status when a server or the input cannot be used.
const UNUSABLE: u8 = 2;

/// Runs it.
pub fn run(matches: &ArgMatches) -> ExitCode {
    let done = options::Bench::read(matches).and_then(|bench| {
        if matches.get_flag("sweep") || bench.rates.is_some() {
            sweep::run(&bench)
        } else {
            measure::run(&bench)
        }
    });
    match done {
        Ok(faults) if faults.is_empty() => ExitCode::SUCCESS,
        Ok(faults) => {
            for fault in faults {
                eprintln!("scrubjay bench: {fault}");
            }
            ExitCode::from(FAULTS)
        }
        Err(why) => crate::fail(&format!("bench: {why}"), UNUSABLE),
    }
}
