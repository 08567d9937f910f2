//! scrubjay: one binary for the cache server and the tools around it.

mod args;
mod cmd;
mod log;

use std::process::ExitCode;

fn main() -> ExitCode {
    let matches = match args::parse() {
        Ok(Some(matches)) => matches,
        Ok(None) => return ExitCode::SUCCESS,
        Err(error) => return fail(&error.message, error.exit),
    };
    match matches.subcommand() {
        None => cmd::serve::run(&matches),
        Some(("serve", matches)) => cmd::serve::run(matches),
        Some(("check", matches)) => cmd::check::run(matches),
        Some(("plan", matches)) => cmd::plan::run(matches),
        Some(("replay", matches)) => cmd::replay::run(matches),
        Some(("bench", matches)) => cmd::bench::run(matches),
        Some(("lab", matches)) => cmd::lab::run(matches),
        Some(("stats", matches)) => cmd::stats::run(matches),
        Some(("top", matches)) => cmd::top::run(matches),
        Some((name @ ("get" | "set" | "delete" | "touch"), matches)) => cmd::item::run(name, matches),
        Some(("dump", matches)) => cmd::dump::run(matches),
        Some(("load", matches)) => cmd::load::run(matches),
        Some(("why", matches)) => cmd::why::run(matches),
        Some(("mrc", matches)) => cmd::mrc::run(matches),
        Some(("upgrade", matches)) => cmd::upgrade::run(matches),
        Some(("passwd", matches)) => cmd::passwd::run(matches),
        Some((name, matches)) => cmd::generate::run(name, matches),
    }
}

/// Says what went wrong, and gives the exit status to end with.
pub(crate) fn fail(message: &str, exit: u8) -> ExitCode {
    eprintln!("scrubjay: {message}");
    ExitCode::from(exit)
}
