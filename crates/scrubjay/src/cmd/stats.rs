//! `scrubjay stats`: what a server counts, as a table or as JSON. Any server of the text protocol has statistics.

use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::{Map, Value};

use super::connection::{Connection, Stats, server_args};
use super::generate::print;

/// Exit status when there is nothing to print.
const NONE: u8 = 1;

/// Exit status when the server cannot be asked.
const UNUSABLE: u8 = 2;

/// The subcommand.
pub fn command() -> Command {
    Command::new("stats")
        .about("Print the statistics of a server: exit status 0, 1 if it has none of the group, 2 if it cannot be asked")
        .arg(
            Arg::new("group")
                .value_name("GROUP")
                .help("settings, items, slabs, sizes, conns, mrc, ...; without it the general ones"),
        )
        .args(server_args())
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print one JSON object"),
        )
        .arg(
            Arg::new("explain")
                .long("explain")
                .action(ArgAction::SetTrue)
                .conflicts_with("json")
                .help("Print beside each what it means"),
        )
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> ExitCode {
    let group = matches.get_one::<String>("group").map_or("", String::as_str);
    match ask(matches, group) {
        Ok(stats) if stats.is_empty() => {
            eprintln!("scrubjay stats: the server has no statistics {group:?}");
            ExitCode::from(NONE)
        }
        Ok(stats) if matches.get_flag("json") => print(format!("{}\n", json(&stats)).as_bytes()),
        Ok(stats) if matches.get_flag("explain") => print(explained(group, &stats).as_bytes()),
        Ok(stats) => print(table(&stats).as_bytes()),
        Err(why) => {
            eprintln!("scrubjay stats: {why}");
            ExitCode::from(UNUSABLE)
        }
    }
}

fn ask(matches: &ArgMatches, group: &str) -> Result<Stats, String> {
    if group.bytes().any(|byte| byte <= b' ') {
        return Err(format!("{group:?} is no group: a group is a word"));
    }
    // These answer without `END`, or change what they are to show.
    if ["reset", "detail", "cachedump", "sizes_"]
        .iter()
        .any(|other| group.starts_with(other))
    {
        return Err(format!("`stats {group}` has no statistics to print"));
    }
    Connection::of(matches)?.stats(group)
}

fn table(stats: &Stats) -> String {
    let width = stats.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |(name, value): &(String, String)| format!("{name:width$}  {value}\n");
    stats.iter().map(line).collect()
}

/// The table with what each line means; memcached's lines that are always the same here say so.
fn explained(group: &str, stats: &Stats) -> String {
    let width = |side: fn(&(String, String)) -> &String| stats.iter().map(|pair| side(pair).len()).max();
    let (names, values) = (
        width(|pair| &pair.0).unwrap_or(0),
        width(|pair| &pair.1).unwrap_or(0),
    );
    let line = |(name, value): &(String, String)| {
        let meaning = scrubjay_server::stats::meaning(group, name).unwrap_or_default();
        let line = format!("{name:names$}  {value:values$}  {meaning}");
        format!("{}\n", line.trim_end())
    };
    stats.iter().map(line).collect()
}

/// One object; what is a whole number or one with a point is a number.
fn json(stats: &Stats) -> Value {
    let value = |text: &str| -> Value {
        let number = text.parse::<i64>().map(Value::from);
        let is_decimal = text.contains('.') && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        number
            .ok()
            .or_else(|| text.parse::<f64>().ok().filter(|_| is_decimal).map(Value::from))
            .unwrap_or_else(|| text.into())
    };
    let pairs = stats.iter().map(|(name, text)| (name.clone(), value(text)));
    Value::Object(pairs.collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::{json, table};

    #[test]
    fn numbers_are_numbers_and_texts_are_texts() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let stats = vec![
            pair("pid", "7"),
            pair("rusage_user", "0.25"),
            pair("version", "1.6.45"),
            pair("ssl_key", "(null)"),
        ];
        let object = json(&stats);
        assert_eq!(object["pid"], 7);
        assert_eq!(object["rusage_user"], 0.25);
        assert_eq!(object["version"], "1.6.45");
        assert_eq!(object["ssl_key"], "(null)");
        assert!(table(&stats).contains("pid          7\n"), "{}", table(&stats));
    }
}
