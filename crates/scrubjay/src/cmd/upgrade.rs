//! `scrubjay upgrade`: asks a running server to start its program anew and hand everything to it, and tells what came of it.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, ArgMatches, Command};
use scrubjay_io::notices::Inbox;
use scrubjay_io::process;

use super::serve::{DONE, FAILED, notice_name};

/// Exit status when the server serves on as it was.
const FAILED_EXIT: u8 = 1;

/// Exit status when the server cannot be asked.
const UNUSABLE: u8 = 2;

/// The subcommand.
pub fn command() -> Command {
    Command::new("upgrade")
        .about(
            "Have a running server start its program anew and hand over items, connections and sockets: exit status 0, \
             1 if the old one serves on, 2 if it cannot be asked",
        )
        .arg(
            Arg::new("pid")
                .long("pid")
                .value_name("N")
                .value_parser(clap::value_parser!(u32).range(1..))
                .help("Process id of the server, or of its keeper (--keep)")
                .conflicts_with("pidfile")
                .required_unless_present("pidfile"),
        )
        .arg(
            Arg::new("pidfile")
                .short('P')
                .long("pidfile")
                .value_name("FILE")
                .help("The file that the server was given with -P"),
        )
        .arg(
            Arg::new("wait")
                .long("wait")
                .value_name("SECONDS")
                .value_parser(clap::value_parser!(u64).range(1..=3600))
                .default_value("60")
                .help("How long to wait for the outcome"),
        )
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> ExitCode {
    match upgrade(matches) {
        Ok(said) => {
            println!("{said}");
            ExitCode::SUCCESS
        }
        Err((why, exit)) => {
            eprintln!("scrubjay upgrade: {why}");
            ExitCode::from(exit)
        }
    }
}

fn upgrade(matches: &ArgMatches) -> Result<String, (String, u8)> {
    let unusable = |why: String| (why, UNUSABLE);
    let pid = match matches.get_one::<String>("pidfile") {
        Some(path) => process::named_by(path)
            .map_err(|error| unusable(format!("-P {path}: {error}; is the server running?")))?,
        None => *matches.get_one("pid").expect("clap asks for one of the two"),
    };
    let inbox = Inbox::open(&notice_name(pid))
        .map_err(|error| unusable(format!("another upgrade of process {pid} is waited for: {error}")))?;
    process::ask_to_upgrade(pid)
        .map_err(|error| unusable(format!("process {pid} cannot be asked (SIGUSR2): {error}")))?;
    let wait = matches.get_one("wait").copied().unwrap_or(60);
    let notice = inbox.next(Duration::from_secs(wait)).map_err(|_| {
        let why =
            format!("process {pid} has not said within {wait} seconds what came of it; look at its log");
        unusable(why)
    })?;
    if let Some(new) = notice.strip_prefix(DONE) {
        return Ok(format!("process {new} serves in place of process {pid}"));
    }
    let why = notice.strip_prefix(FAILED).unwrap_or(&notice);
    Err((format!("process {pid} serves on as before: {why}"), FAILED_EXIT))
}
