//! `cargo run -p scrubjay-sim -- COMMAND`: conformance scripts by hand.

use scrubjay_sim::differential::{self, Pair};
use scrubjay_sim::policy::{self, Plan};
use scrubjay_sim::runner::{self, Deviations, Remote};
use scrubjay_sim::script::Script;
use scrubjay_sim::server::Server;
use scrubjay_sim::{expiry, fill, gets, instructions, restart, sets};

const USAGE: &str = "usage: scrubjay-sim COMMAND
  script FILE...            run conformance scripts against scrubjay
  script --memcached FILE...  run them against memcached, with deviations.tsv
  record FILE...            write the replies that memcached really gives into scripts
  corpus FOLDER SCRIPT...   write what each connection of the scripts sends into a file of the folder, for fuzzing
  differential [--requests N] [--seed S] [--memcached]
                            random sessions to scrubjay (or a second memcached) and memcached, replies compared
  policy [--shares 0.05,0.1] [--requests N] [--keys N] [--engine-only] [--svg FILE] SOURCE...
                            miss ratios of eviction policies and of the engine, at shares of each source's footprint
  curve [--shares ...] [--requests N] [--keys N] [--seeds N] SOURCE...
                            what the engine's miss-ratio curve says beside what it misses at those sizes
  expiry                    what it costs to get the bytes of expired items back
  fill [MIB]                what the bytes of a full cache of so many MiB (16 if not said) are for
  restart [MIB [LENGTH]]    what it costs to take up a cache of so many MiB (1,024 if not said) in values of so many bytes (75
                            if not said), closed or left by the dead
  gets [ITEMS]              what a look-up costs, in processor time, among so many items (20 million if not said)
  sets [KEYS]               what a set costs, in processor time, where so many keys are stored over and over (10,000 if not said)
  instructions [ROW]        make the requests that `cargo xtask instructions` counts, or list them";

fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["script", "--memcached", ref files @ ..] => run_scripts(files, true),
        ["script", ref files @ ..] => run_scripts(files, false),
        ["record", ref files @ ..] => files.iter().try_for_each(|file| record(file)),
        ["corpus", folder, ref files @ ..] => files.iter().try_for_each(|file| write_corpus(folder, file)),
        ["differential", ref options @ ..] => run_differential(options),
        ["policy", ref options @ ..] => run_policy(options),
        ["curve", ref options @ ..] => run_curve(options),
        ["expiry"] => {
            print!("{}", expiry::run());
            Ok(())
        }
        ["fill"] => run_fill("16"),
        ["fill", mebibytes] => run_fill(mebibytes),
        ["instructions"] => {
            print!("{}", instructions::names());
            Ok(())
        }
        ["instructions", row] => instructions::run(row).map(|requests| println!("requests: {requests}")),
        ["restart"] => run_restart("1024", "75"),
        ["restart", mebibytes] => run_restart(mebibytes, "75"),
        ["restart", mebibytes, value_len] => run_restart(mebibytes, value_len),
        ["gets"] => run_gets("20000000"),
        ["gets", items] => run_gets(items),
        ["sets"] => run_sets("10000"),
        ["sets", keys] => run_sets(keys),
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn run_restart(mebibytes: &str, value_len: &str) -> Result<(), String> {
    let number = mebibytes
        .parse()
        .ok()
        .filter(|number| (1..1 << 20).contains(number));
    let number = number.ok_or_else(|| format!("restart takes MiB from 1 to 1,048,575, not {mebibytes:?}"))?;
    let lens = 1..=restart::VALUE_LEN_MAX;
    let value_len = value_len.parse().ok().filter(|len| lens.contains(len));
    let value_len = value_len.ok_or("restart takes values of 1 to 1,000 bytes")?;
    print!("{}", restart::run(number, value_len)?);
    Ok(())
}

fn run_fill(mebibytes: &str) -> Result<(), String> {
    let number = mebibytes
        .parse()
        .ok()
        .filter(|number| (1..1 << 20).contains(number));
    let number = number.ok_or_else(|| format!("fill takes MiB from 1 to 1,048,575, not {mebibytes:?}"))?;
    print!("{}", fill::run(number)?);
    Ok(())
}

fn run_gets(items: &str) -> Result<(), String> {
    let number = items.parse().ok().filter(|items| *items > 0);
    let items = number.ok_or_else(|| format!("gets takes a number of items from 1 on, not {items:?}"))?;
    print!("{}", gets::run(items)?);
    Ok(())
}

fn run_sets(keys: &str) -> Result<(), String> {
    let number = keys.parse().ok().filter(|keys| *keys > 0);
    let keys = number.ok_or_else(|| format!("sets takes a number of keys from 1 on, not {keys:?}"))?;
    print!("{}", sets::run(keys)?);
    Ok(())
}

fn run_policy(options: &[&str]) -> Result<(), String> {
    let (plan, svg) = plan(options)?;
    let report = policy::run(&plan, &mut |step| eprintln!("{step}"))?;
    print!("{}", report.tables());
    match svg {
        Some(path) => std::fs::write(path, report.svg()).map_err(|error| format!("{path}: {error}")),
        None => Ok(()),
    }
}

fn run_curve(options: &[&str]) -> Result<(), String> {
    let (plan, _) = plan(options)?;
    print!("{}", policy::curve(&plan, &mut |step| eprintln!("{step}"))?);
    Ok(())
}

/// What to play, and the file to draw it in.
fn plan<'a>(options: &[&'a str]) -> Result<(Plan, Option<&'a str>), String> {
    let mut plan = Plan {
        sources: Vec::new(),
        shares: vec![0.05, 0.1, 0.25, 0.5],
        requests: 4_000_000,
        keys: 600_000,
        seeds: 1,
        engine_only: false,
    };
    let mut svg = None;
    let mut words = options.iter();
    while let Some(&word) = words.next() {
        let mut number = || {
            let value = words.next().copied().unwrap_or_default();
            value
                .parse::<u64>()
                .map_err(|_| format!("{word} takes a number, not {value:?}"))
        };
        match word {
            "--requests" => plan.requests = number()? as usize,
            "--keys" => plan.keys = number()?,
            "--seeds" => plan.seeds = number()?.max(1),
            "--engine-only" => plan.engine_only = true,
            "--svg" => svg = Some(*words.next().ok_or("--svg takes the name of a file to write")?),
            "--shares" => {
                let list = words.next().copied().unwrap_or_default();
                let share = |text: &str| {
                    let share = text.parse::<f64>().ok().filter(|share| *share > 0.0);
                    share.ok_or_else(|| format!("--shares takes numbers above 0, not {text:?}"))
                };
                plan.shares = list.split(',').map(share).collect::<Result<_, _>>()?;
            }
            source => plan.sources.push(source.to_owned()),
        }
    }
    Ok((plan, svg))
}

fn read(file: &str) -> Result<(String, Script), String> {
    let source = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let name = file
        .rsplit('/')
        .next()
        .unwrap_or(file)
        .trim_end_matches(".script");
    let script = Script::parse(name, &source)?;
    Ok((source, script))
}

fn run_scripts(files: &[&str], memcached: bool) -> Result<(), String> {
    let start = if memcached {
        Server::start_memcached
    } else {
        Server::start_scrubjay
    };
    let deviations = match memcached {
        true => Some(Deviations::parse(
            &std::fs::read_to_string("tests/conformance/deviations.tsv").unwrap_or_default(),
        )?),
        false => None,
    };
    let mut failures = 0;
    for file in files {
        let (_, script) = read(file)?;
        let server = start(&script.arguments)?;
        if let Err(why) = runner::run(&script, &mut Remote::new(server), deviations.as_ref()) {
            println!("{why}");
            failures += 1;
        }
    }
    println!("{} scripts, {failures} differ", files.len());
    if failures == 0 {
        Ok(())
    } else {
        Err("replies differ".to_owned())
    }
}

fn record(file: &str) -> Result<(), String> {
    let (source, script) = read(file)?;
    let server = Server::start_memcached(&script.arguments)?;
    let text = runner::record(&source, &script, &mut Remote::new(server))?;
    std::fs::write(file, text).map_err(|error| format!("{file}: {error}"))
}

fn run_differential(options: &[&str]) -> Result<(), String> {
    let (mut requests, mut seed) = (200_000, 1);
    let mut start: fn(&[String]) -> Result<Server, String> = Server::start_scrubjay;
    let mut pair: fn(Server, Server) -> Pair = Pair::new;
    let mut options = options.iter();
    while let Some(option) = options.next() {
        let mut number = || {
            let word = options.next().ok_or_else(|| USAGE.to_owned())?;
            word.parse::<u64>().map_err(|_| format!("no number: {word}"))
        };
        match *option {
            "--requests" => requests = number()? as usize,
            "--seed" => seed = number()?,
            "--memcached" => (start, pair) = (Server::start_memcached, Pair::of_memcached),
            _ => return Err(USAGE.to_owned()),
        }
    }
    let arguments = differential::arguments();
    let pair = pair(start(&arguments)?, Server::start_memcached(&arguments)?);
    let sessions = differential::run(&pair, seed, requests)?;
    println!("{requests} requests in {sessions} sessions: no difference");
    Ok(())
}

/// Longest input worth keeping.
const CORPUS_FILE_LEN_MAX: usize = 4096;

fn write_corpus(folder: &str, file: &str) -> Result<(), String> {
    let (_, script) = read(file)?;
    for (connection, bytes) in script.streams() {
        if bytes.len() <= CORPUS_FILE_LEN_MAX {
            let path = format!("{folder}/{}-{connection}", script.name);
            std::fs::write(&path, bytes).map_err(|error| format!("{path}: {error}"))?;
        }
    }
    Ok(())
}
