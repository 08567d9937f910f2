//! `scrubjay plan`: how many items fit in a memory limit, or what limit a number of items needs, for scrubjay and for
//! memcached side by side. Nothing is started and nothing measured: the engine's own sizes and a model of memcached say.

mod advice;
mod measures;
mod memcached;
mod report;

use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use scrubjay_cache::plan::{Forecast, ItemMeasure, forecast, memory_for};
use scrubjay_cache::{Config, admits};
use scrubjay_server::options::parse_size;

use self::advice::{Advice, advise};
use self::measures::{Measures, Values};
use self::memcached::{Settings, SlabUse, Slabs, Version};

const MIB: u64 = 1 << 20;

/// Most that -m takes.
const MEMORY_MAX: usize = 64 << 40;

/// Exit status when what was asked for cannot be planned.
const UNUSABLE: u8 = 2;

/// What is printed.
struct Plan {
    sample: Vec<ItemMeasure>,
    /// Share of the items that are over `-I` and left out.
    too_large: f64,
    scrubjay_memory: usize,
    scrubjay: Forecast,
    memcached_memory: usize,
    memcached: SlabUse,
    settings: Settings,
    slabs: Slabs,
    advice: Option<Advice>,
}

/// The subcommand.
pub fn command() -> Command {
    let option = |name: &'static str, value_name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value_name).help(help)
    };
    Command::new("plan")
        .about("Predict how many items fit in a memory limit, or what limit items need, here and in memcached")
        .arg(option("memory-limit", "SIZE", "Memory limit in megabytes, or with a suffix k, m, g or t").short('m').default_value("64"))
        .arg(option("items", "N", "Ask for the memory limit that so many items need instead").value_parser(value_parser!(u64).range(1..)))
        .arg(option("key", "N|A..B", "Bytes of a key, 1 to 250; 16 if neither this nor a table says").value_parser(measures::parse_key))
        .arg(
            option("value", "N|A..B|lognormal:mean=N,sigma=S|table:FILE", "Bytes of a value; table: as in a CSV trace, oracleGeneral binary or workload tables (.zst too), with the keys and lives that it has")
                .required(true)
                .value_parser(measures::parse_value),
        )
        .arg(option("ttl", "none|SECS|A..B", "How long items have to live; none if neither this nor a table says").value_parser(measures::parse_ttl))
        .arg(option("flags", "0|1|2|4", "Bytes that the client flags take").default_value("0").value_parser(measures::parse_flags))
        .arg(option("max-item-size", "SIZE", "Largest item in bytes, or with a suffix k, m, g or t").short('I').default_value("1m"))
        .arg(option("slab-growth-factor", "NUM", "memcached: growth factor of slab classes").short('f').default_value("1.25").value_parser(value_parser!(f64)))
        .arg(option("slab-min-size", "BYTES", "memcached: least room for key, value and flags").short('n').default_value("48").value_parser(value_parser!(u32).range(1..=1 << 20)))
        .arg(option("memcached-version", "1.4|1.6", "Which memcached to compare with: 1.4.13 or 1.6.18").default_value("1.6").value_parser(["1.4", "1.6"]))
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print the result as JSON, with the table of slab classes"))
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> ExitCode {
    let text = plan(matches).and_then(|plan| {
        if matches.get_flag("json") {
            report::json(&plan)
        } else {
            Ok(report::table(&plan))
        }
    });
    match text {
        Ok(text) => super::generate::print(text.as_bytes()),
        Err(why) => {
            eprintln!("scrubjay plan: {why}");
            ExitCode::from(UNUSABLE)
        }
    }
}

fn plan(matches: &ArgMatches) -> Result<Plan, String> {
    let memory_max = size(matches, "memory-limit", "-m", MIB)?;
    let settings = settings(matches)?;
    let config = Config {
        item_size_max: settings.item_size_max,
        ..Config::new(memory_max)
    };
    let mut sample = measures(matches)?.sample()?;
    let all = sample.len();
    sample.retain(|item| admits(&config, item.key_len, item.flags, item.value_len as u64));
    if sample.is_empty() {
        return Err(format!(
            "every item is over -I {}; give a larger one",
            settings.item_size_max
        ));
    }
    let slabs = Slabs::new(settings);
    let (scrubjay_memory, memcached_memory) = match matches.get_one::<u64>("items") {
        None => (memory_max, memory_max),
        Some(&items) => (
            memory_for(&config, &sample, items)
                .ok_or_else(|| format!("no memory is enough for {items} items; give fewer"))?,
            slabs.memory_for(&sample, items),
        ),
    };
    let config = Config {
        memory_max: scrubjay_memory,
        ..config
    };
    let memcached = slabs.fill(memcached_memory, &sample);
    Ok(Plan {
        too_large: 1.0 - sample.len() as f64 / all as f64,
        scrubjay_memory,
        scrubjay: forecast(&config, &sample).map_err(|why| why.to_string())?,
        memcached_memory,
        advice: advise(settings, &memcached, memcached_memory, &sample),
        memcached,
        settings,
        slabs,
        sample,
    })
}

fn size(matches: &ArgMatches, name: &str, letter: &str, unit: u64) -> Result<usize, String> {
    let text = matches.get_one::<String>(name).map_or("", String::as_str);
    parse_size(text, unit)
        .and_then(|bytes| usize::try_from(bytes).ok())
        .filter(|bytes| (1..=MEMORY_MAX).contains(bytes))
        .ok_or_else(|| {
            format!("{letter} {text}: give a number from 1, with or without a suffix k, m, g or t")
        })
}

fn settings(matches: &ArgMatches) -> Result<Settings, String> {
    let factor = matches
        .get_one::<f64>("slab-growth-factor")
        .copied()
        .unwrap_or(1.25);
    if !(1.0 < factor && factor <= 1e6) {
        return Err(format!("-f {factor}: give a factor above 1, at most 1000000"));
    }
    let version = match matches.get_one::<String>("memcached-version").map(String::as_str) {
        Some("1.4") => Version::V1_4,
        _ => Version::V1_6,
    };
    let settings = Settings {
        version,
        factor,
        chunk_size: matches
            .get_one::<u32>("slab-min-size")
            .map_or(48, |&bytes| bytes as usize),
        item_size_max: size(matches, "max-item-size", "-I", 1)?,
    };
    settings.check()?;
    Ok(settings)
}

fn measures(matches: &ArgMatches) -> Result<Measures, String> {
    Ok(Measures {
        key: matches.get_one("key").copied(),
        value: matches
            .get_one::<Values>("value")
            .cloned()
            .ok_or("--value is missing; give the bytes of a value")?,
        ttl: matches.get_one("ttl").copied(),
        flags: matches.get_one("flags").copied().unwrap_or(0),
    })
}
