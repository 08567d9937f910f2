//! `scrubjay top`: many servers at a glance, live on a terminal or once as text. It asks for plain `stats`, which any server
//! of memcached's text protocol has.
//!
//! [`poll`] asks, [`sums`] works out what the answers mean, [`fleet`] remembers them; [`view`] is what the user has chosen to
//! see of that, [`screen`] and [`detail`] draw it, and [`plain`] prints it where there is no terminal.

mod columns;
mod detail;
mod fleet;
mod live;
mod names;
mod plain;
mod poll;
mod screen;
mod sums;
mod view;

use std::io::{IsTerminal, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use scrubjay_io::clock::Clock;
use scrubjay_io::process;

use self::fleet::Fleet;
use self::poll::Plan;
use super::connection::{Access, access_args};
use super::generate::print;

/// Exit status when a server could not be asked.
const INCOMPLETE: u8 = 1;

/// Exit status when nothing can be shown.
const UNUSABLE: u8 = 2;

/// Shortest and longest time that can be given.
const TIME_MIN: Duration = Duration::from_millis(100);
const TIME_MAX: Duration = Duration::from_secs(3_600);

/// The subcommand.
pub fn command() -> Command {
    let time = |name: &'static str, default: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name("TIME")
            .default_value(default)
            .value_parser(parse_time)
            .help(help)
    };
    let flag = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    Command::new("top")
        .about("Watch many servers: rates, hit ratios, memory, of each and of all together")
        .arg(
            Arg::new("servers")
                .value_name("HOST[:PORT]")
                .num_args(0..)
                .help("Servers, or paths of Unix sockets; the port is 11211 if none is given"),
        )
        .arg(
            Arg::new("file")
                .long("file")
                .value_name("SERVERS")
                .value_parser(value_parser!(PathBuf))
                .help("A file with a server a line; what follows a # is left out"),
        )
        .arg(time("interval", "1s", "How often to ask, as 500ms, 1s or 2m"))
        .arg(time("timeout", "2s", "How long a server may take before it is shown as down"))
        .args(access_args())
        .arg(flag(
            "once",
            "Print one table over one interval, as without a terminal: exit status 0, 1 if a server is down, 2 if nothing can be shown",
        ))
        .arg(flag("json", "Print that table as JSON"))
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> ExitCode {
    watch(matches).unwrap_or_else(|why| {
        eprintln!("scrubjay top: {why}");
        ExitCode::from(UNUSABLE)
    })
}

fn watch(matches: &ArgMatches) -> Result<ExitCode, String> {
    let given = matches.get_many::<String>("servers").unwrap_or_default();
    let file = matches.get_one::<PathBuf>("file").map(PathBuf::as_path);
    let servers = names::read(given.map(String::as_str), file)?;
    let time = |name: &str| *matches.get_one::<Duration>(name).expect("it has a default");
    let plan = Plan {
        servers,
        access: Access::of(matches, time("timeout")),
        interval: time("interval"),
        patience: time("timeout"),
    };
    let is_json = matches.get_flag("json");
    let clock = Clock::start();
    let interval = plan.interval;
    let mut fleet = Fleet::new(&plan.servers);
    let is_live = !is_json && !matches.get_flag("once") && stdout().is_terminal();
    if is_live {
        process::block_signals();
    }
    let readings = poll::start(plan, clock)?;
    if is_live {
        live::run(&mut fleet, &readings, clock, interval)?;
        return Ok(ExitCode::SUCCESS);
    }
    plain::fill(&mut fleet, &readings);
    let text = if is_json {
        format!("{}\n", plain::json(&fleet, interval.as_secs_f64()))
    } else {
        plain::table(&fleet)
    };
    let printed = print(text.as_bytes());
    let (up, _) = fleet.up_and_down();
    Ok(if up < fleet.servers.len() {
        ExitCode::from(INCOMPLETE)
    } else {
        printed
    })
}

/// A time with its unit: `500ms`, `1s`, `2m`; without one it is seconds.
fn parse_time(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|char: char| char.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" => 60.0,
        _ => return Err("a time is a number and ms, s or m, as 500ms".to_owned()),
    };
    let number: f64 = digits
        .parse()
        .map_err(|_| "a time is a number and ms, s or m, as 500ms".to_owned())?;
    Duration::try_from_secs_f64(number * unit)
        .ok()
        .filter(|time| (TIME_MIN..=TIME_MAX).contains(time))
        .ok_or_else(|| "it is to be from 100ms to 60m".to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::parse_time;

    #[test]
    fn a_time_has_a_unit_and_bounds() {
        for (text, millis) in [
            ("1s", 1_000),
            ("500ms", 500),
            ("0.5", 500),
            ("2m", 120_000),
            ("60m", 3_600_000),
        ] {
            assert_eq!(parse_time(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "s", "1h", "-1s", "99ms", "61m", "nan", "inf", "1 s", "é"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }
}
