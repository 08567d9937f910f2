//! Options that `scrubjay dump` and `scrubjay load` have in common.

use std::ffi::OsString;
use std::ops::RangeInclusive;

use clap::{Arg, ArgAction, ArgMatches, value_parser};
use scrubjay_protocol::dump::Filter;

/// Exit status when some items should have gone through and did not.
pub(crate) const FAILED: u8 = 1;

/// Exit status when a server or a file cannot be used.
pub(crate) const UNUSABLE: u8 = 2;

fn number(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name("N")
        .value_parser(value_parser!(u64))
        .help(help)
}

/// A flag.
pub(crate) fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

/// Options of both.
pub(crate) fn common_args() -> Vec<Arg> {
    vec![
        Arg::new("prefix")
            .long("prefix")
            .value_name("KEY")
            .value_parser(value_parser!(OsString))
            .help("Only items whose keys begin so"),
        number("size-min", "Only items of so many bytes at least"),
        number("size-max", "Only items of so many bytes at most"),
        number("ttl-min", "Only items that live so many seconds yet, or for ever"),
        number(
            "ttl-max",
            "Only items that have so many seconds left to live at most",
        ),
        number(
            "rate",
            "So many items a second at most [default: as fast as it goes]",
        )
        .value_parser(value_parser!(u64).range(1..)),
        Arg::new("connections")
            .long("connections")
            .value_name("N")
            .value_parser(value_parser!(u16).range(1..=64))
            .default_value("2")
            .help("Connections to a server, each with a thread"),
        flag(
            "keep-existing",
            "Leave items alone that the server that is written to has already",
        ),
        flag(
            "keep-ttl",
            "Let items live as long as they had left when they were dumped, however long ago that was",
        ),
    ]
}

/// Options of what only a server tells.
pub(crate) fn age_args() -> [Arg; 2] {
    [
        number(
            "age-min",
            "Only items that were not read or stored for so many seconds",
        ),
        number(
            "age-max",
            "Only items that were read or stored in the last so many seconds",
        ),
    ]
}

/// The filter that the options say.
pub(crate) fn filter_of(matches: &ArgMatches) -> Filter {
    let bound = |name: &str| matches.try_get_one::<u64>(name).ok().flatten().copied();
    let range = |least: &str, most: &str| -> RangeInclusive<u64> {
        bound(least).unwrap_or(0)..=bound(most).unwrap_or(u64::MAX)
    };
    let prefix = matches.get_one::<OsString>("prefix");
    Filter {
        prefix: prefix.map_or(Vec::new(), |prefix| prefix.as_encoded_bytes().to_vec()),
        size: range("size-min", "size-max"),
        age: range("age-min", "age-max"),
        ttl: range("ttl-min", "ttl-max"),
    }
}

/// How many connections.
pub(crate) fn connections_of(matches: &ArgMatches) -> usize {
    matches
        .get_one::<u16>("connections")
        .map_or(1, |&count| count.into())
}
