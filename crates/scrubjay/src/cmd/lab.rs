//! `scrubjay lab`: experiments that show what a cache server does with its memory, against any server that speaks
//! memcached's classic text protocol. Each fills the server in its way, reads back, and prints what became of the items
//! beside the server's own accounting.

mod client;
mod drift;
mod evict;
mod expire;
mod storage;
mod table;
mod ttl_mix;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use self::client::{Client, Leave, Memory};
use self::table::Findings;
use crate::cmd::chart::{self, Series};

/// Exit status when a server cannot be used or an experiment could not end.
const UNUSABLE: u8 = 2;

/// One experiment with its own options.
trait Experiment: Sync {
    /// The memory limit that it is made for.
    fn memory(&self) -> Memory;

    /// Whether it mostly waits, so that two servers do not disturb each other.
    fn mostly_waits(&self) -> bool;

    /// Does it.
    ///
    /// # Errors
    /// The server went away or answered what it must not.
    fn run(&self, client: &mut Client) -> Result<Findings, String>;
}

/// The subcommand.
pub fn command() -> Command {
    let server = |name: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name("HOST:PORT|PATH")
            .global(true)
    };
    let flag = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue).global(true);
    Command::new("lab")
        .about("Experiments with the memory of a memcached-protocol server")
        .subcommand(storage::command())
        .subcommand(expire::command())
        .subcommand(evict::command())
        .subcommand(drift::command())
        .subcommand(ttl_mix::command())
        .arg(
            server("server")
                .default_value("127.0.0.1:11211")
                .help("The server, or the path of its Unix socket; it is emptied"),
        )
        .arg(server("vs").help("Do the same with this second server and print both side by side"))
        .arg(
            Arg::new("svg")
                .long("svg")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .global(true)
                .help("Write a chart of the main series to FILE"),
        )
        .arg(flag("flush").help("Empty a server that holds items"))
        .arg(
            flag("any-size")
                .help("Go on though the server's -m is not the one that the experiment is made for"),
        )
        .arg(flag("json").help("Print the result as JSON"))
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> ExitCode {
    let Some((name, matches)) = matches.subcommand() else {
        return crate::fail(
            "lab: name an experiment; `scrubjay lab --help` lists them",
            UNUSABLE,
        );
    };
    let experiment = match name {
        "storage" => storage::plan(matches),
        "expire" => expire::plan(matches),
        "evict" => evict::plan(matches),
        "drift" => drift::plan(matches),
        _ => ttl_mix::plan(matches),
    };
    match experiment.and_then(|experiment| carry_out(experiment.as_ref(), matches)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => crate::fail(&format!("lab {name}: {why}"), UNUSABLE),
    }
}

fn carry_out(experiment: &dyn Experiment, matches: &ArgMatches) -> Result<(), String> {
    let text = |name: &str| matches.get_one::<String>(name).cloned();
    let leave = Leave {
        flush: matches.get_flag("flush"),
        any_size: matches.get_flag("any-size"),
    };
    if text("vs") == text("server") {
        return Err("--vs and --server name the same server; start a second one to compare with".to_owned());
    }
    // All are looked at before the first is worked on for minutes.
    let names = text("server").into_iter().chain(text("vs"));
    let mut clients = names
        .map(|server| Client::open(&server, experiment.memory(), leave))
        .collect::<Result<Vec<_>, _>>()?;
    let svg = matches.get_one::<PathBuf>("svg");
    if let Some(path) = svg {
        write_svg(path, "")?;
    }
    for client in &mut clients {
        client.empty()?;
    }
    let all = if experiment.mostly_waits() {
        at_the_same_time(experiment, &mut clients)?
    } else {
        let one_by_one = clients.iter_mut().map(|client| experiment.run(client));
        one_by_one.collect::<Result<_, _>>()?
    };
    let charts: Vec<Series<'_>> = all.iter().map(Findings::series).collect();
    if let Some(path) = svg {
        write_svg(path, &chart::svg(&charts))?;
    }
    let text = if matches.get_flag("json") {
        table::json(&all) + "\n"
    } else {
        table::text(&all) + "\n" + &chart::blocks(&charts)
    };
    // Nobody is left to tell if standard output is closed.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(())
}

/// Writes a chart. An error names the file.
pub(crate) fn write_svg(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text)
        .map_err(|why| format!("--svg {}: {why}; name a file that can be written", path.display()))
}

fn at_the_same_time(experiment: &dyn Experiment, clients: &mut [Client]) -> Result<Vec<Findings>, String> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = clients
            .iter_mut()
            .map(|client| scope.spawn(|| experiment.run(client)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("it does not panic"))
            .collect()
    })
}

/// A number option with its range.
fn number(name: &'static str, range: std::ops::RangeInclusive<u64>, default: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name("N")
        .value_parser(value_parser!(u64).range(range))
        .default_value(default)
}

/// The value of a number option.
fn number_of(matches: &ArgMatches, name: &str) -> u64 {
    matches.get_one::<u64>(name).copied().unwrap_or_default()
}

/// Sleeps until `moment`; does not if that is past.
fn sleep_until(moment: Instant) {
    std::thread::sleep(moment.saturating_duration_since(Instant::now()));
}

/// Waits `seconds`, and says so each few of them.
fn wait(client: &Client, seconds: u64, what_for: &str) {
    const SAY_EVERY: u64 = 3;
    let start = Instant::now();
    for second in 0..seconds {
        if second % SAY_EVERY == 0 {
            client.say(&format!("waiting until {what_for}: {} of {seconds} s", second));
        }
        sleep_until(start + Duration::from_secs(second + 1));
    }
}
