//! The project's chores, started by `cargo xtask CHORE`.

mod bench;
mod certificate;
mod clients;
mod deb;
mod docs;
mod instructions;
mod native;
mod run;
mod server;
mod setup;
mod test;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask CHORE
  test [WORD...]     set up what the tests need and run everything, or the steps whose name contains a WORD
  ci                 test, but what has to be skipped counts as failed
  tidy               the rules that no compiler checks: crate arrows, names, calls, sizes, documents
  docs [--check]     write the generated parts of the documents, or say whether they are fresh
  clients [WORD...]  only the real clients, against the server that SCRUBJAY_BIN names
  deb                the release as a Debian package, target/deb
  bench [WORD...]    a table of speed against memcached and the floor, or the rows whose name contains each WORD
  instructions [--bless]  what requests cost in instructions against the baseline, or make that the baseline";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let success = match words[..] {
        ["test", ref filter @ ..] => {
            test::run(filter, std::env::var("CI").is_ok_and(|value| value == "true"))
        }
        ["ci"] => test::run(&[], true),
        ["tidy"] => report(tidy::run(&root())),
        ["docs"] => report(docs::write(&root())),
        ["docs", "--check"] => report(docs::check(&root())),
        ["clients", ref filter @ ..] => test::run_clients(filter),
        ["deb"] => test::build_package(),
        ["bench", ref filter @ ..] => bench::run(filter),
        ["instructions"] => test::run_instructions(false),
        ["instructions", "--bless"] => test::run_instructions(true),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(64);
        }
    };
    if success {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Prints every complaint; `true` if there is none.
fn report(complaints: Vec<String>) -> bool {
    for complaint in &complaints {
        println!("{complaint}");
    }
    complaints.is_empty()
}

/// The repository's root.
fn root() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.parent().unwrap_or(folder).to_owned()
}

/// Where cargo builds.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |folder| root().join(folder))
}
