//! `lab ttl-mix`: two thought experiments on room that comes back by expiry. The first writes steadily what lives ten
//! seconds, in sizes that change each second, into a server that has room for more than ten seconds of it. The second
//! puts items that never expire beside short-lived ones, and more of them when those are dead.

mod beside;
mod steady;

use clap::{ArgMatches, Command};

use super::{Experiment, number, number_of};

/// Seconds that short-lived items live.
const TTL: u32 = 10;

pub(super) fn command() -> Command {
    Command::new("ttl-mix")
        .about("Whether the room of expired items comes back: steady writing at -m 100, or never-expiring beside short-lived items at -m 10")
        .arg(number("part", 1..=2, "1").help(
            "1: 6 MB/s that live 10 s, at -m 100; 2: items that never expire beside short-lived ones, at -m 10",
        ))
        .arg(number("seconds", 11..=86_400, "120").help("How long part 1 writes"))
        .arg(number("seed", 0..=u64::MAX, "1").help("Seed of the sizes of part 1"))
}

pub(super) fn plan(matches: &ArgMatches) -> Result<Box<dyn Experiment>, String> {
    if number_of(matches, "part") == 2 {
        return Ok(Box::new(beside::Beside));
    }
    Ok(Box::new(steady::Steady {
        seconds: number_of(matches, "seconds"),
        seed: number_of(matches, "seed"),
    }))
}
