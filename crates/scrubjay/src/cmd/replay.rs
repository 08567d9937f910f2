//! `scrubjay replay`: a trace or a drawn workload against any memcached-protocol server, as a look-aside cache in front of
//! it would: get; on a miss, set.

mod client;
mod report;
mod run;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use scrubjay_workload::{Draw, Format};

use self::run::{Lives, Plan};
use super::connection::server_arg;

/// Exit status when a value came back that nobody stored.
const WRONG_VALUES: u8 = 1;

/// Exit status when the input or a server cannot be used.
const UNUSABLE: u8 = 2;

/// The subcommand.
pub fn command() -> Command {
    let number = |name: &'static str, default: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name("N")
            .value_parser(value_parser!(u64))
            .default_value(default)
            .help(help)
    };
    Command::new("replay")
        .about("Replay a trace against a memcached-protocol server as a look-aside cache, and measure it")
        .arg(Arg::new("trace").required(true).value_name("TRACE").value_parser(value_parser!(PathBuf)).help(
            "CSV (timestamp,key,key_size,value_size,client_id,operation,ttl), oracleGeneral binary or workload tables; \
             a name that ends with .zst is decompressed. Or twitter:cluster1 to twitter:cluster54: requests drawn to a cluster's \
             published figures",
        ))
        .arg(
            Arg::new("format")
                .long("format")
                .value_parser(["auto"].into_iter().chain(Format::NAMES.iter().map(|(name, _)| *name)).collect::<Vec<_>>())
                .default_value("auto")
                .help("What TRACE is; auto goes by its name: twitter:*, *.tables, *.bin or *oracleGeneral*, else CSV"),
        )
        .arg(server_arg())
        .arg(
            Arg::new("vs")
                .long("vs")
                .value_name("HOST:PORT|PATH")
                .help("Replay against this second server too and print both side by side"),
        )
        .arg(number("requests", "0", "Stop after this many requests; 0: the whole trace, or 1,000,000 drawn ones"))
        .arg(number("connections", "4", "Connections, each with a thread; a key is always on the same one"))
        .arg(number("depth", "16", "Requests in flight on a connection; 1 waits for each reply"))
        .arg(number("keys", "600000", "Size of the key space of a drawn workload"))
        .arg(number("seed", "1", "Seed of a drawn workload"))
        .arg(number("ttl", "0", "Exptime in seconds of items whose trace row has none; 0: they never expire"))
        .arg(number("rate", "0", "Requests in a second of a drawn workload's own time; 0: as published, or 10,000"))
        .arg(
            Arg::new("speed")
                .long("speed")
                .value_name("F")
                .value_parser(speed)
                .help("Send requests at their time, with F seconds of the trace in one, and let items live by as much less [default: as fast as it goes, with lives as they are]"),
        )
        .arg(Arg::new("no-verify").long("no-verify").action(ArgAction::SetTrue).help("Do not check the values read"))
        .arg(Arg::new("no-flush").long("no-flush").action(ArgAction::SetTrue).help("Do not empty the server first"))
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print the result as JSON"))
}

/// How many times faster than in the trace time passes.
fn speed(text: &str) -> Result<f64, String> {
    let speed = text
        .parse::<f64>()
        .ok()
        .filter(|speed| (0.001..=1e6).contains(speed));
    speed.ok_or_else(|| "give a number from 0.001 to 1000000; 1 is the trace's own speed".to_owned())
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> ExitCode {
    match replay(matches) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(wrong) => {
            eprintln!("scrubjay replay: {wrong} values were not what had been stored");
            ExitCode::from(WRONG_VALUES)
        }
        Err(why) => {
            eprintln!("scrubjay replay: {why}");
            ExitCode::from(UNUSABLE)
        }
    }
}

fn replay(matches: &ArgMatches) -> Result<u64, String> {
    let number = |name: &str| matches.get_one::<u64>(name).copied().unwrap_or_default();
    let text = |name: &str| matches.get_one::<String>(name).cloned();
    let trace = matches.get_one::<PathBuf>("trace").cloned().unwrap_or_default();
    let format = text("format").and_then(|name| Format::named(&name));
    let format = format.unwrap_or_else(|| Format::guess(&trace));
    if number("rate") > 0 && !format.is_drawn() {
        return Err(format!(
            "--rate is of drawn workloads, and {} is a trace with times of its own; use --speed",
            trace.display()
        ));
    }
    let plan = Plan {
        format,
        trace,
        requests: number("requests"),
        connections: number("connections").clamp(1, 256) as usize,
        depth: number("depth").clamp(1, 1024) as usize,
        draw: Draw {
            keys: number("keys").max(1),
            seed: number("seed"),
            rate: number("rate") as f64,
        },
        lives: Lives {
            ttl: u32::try_from(number("ttl")).unwrap_or(u32::MAX),
            speed: matches.get_one::<f64>("speed").copied(),
        },
        verify: !matches.get_flag("no-verify"),
        flush: !matches.get_flag("no-flush"),
    };
    let servers: Vec<String> = text("server").into_iter().chain(text("vs")).collect();
    let mut results = Vec::new();
    for server in &servers {
        match run::run(&plan, server) {
            Ok(result) => results.push(result),
            Err(why) => {
                // What the first server did is not lost.
                report::print_table(&results);
                return Err(why);
            }
        }
    }
    if matches.get_flag("json") {
        report::print_json(&results)?;
    } else {
        report::print_table(&results);
    }
    Ok(results.iter().map(|result| result.tally.wrong).sum())
}
