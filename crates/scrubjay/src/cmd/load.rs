//! `scrubjay load`: a dump's items into a server.
//!
//! The file is read twice: once to know that it is whole, and once to load it. What is damaged is not loaded in part without
//! being told to.

use std::fs::File;
use std::io::{BufReader, Read};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use clap::{Arg, ArgMatches, Command, value_parser};
use indicatif::{HumanBytes, HumanCount, HumanDuration};

use super::connection::{Target, server_args};
use super::transfer::block::{Block, unix_millis};
use super::transfer::file::{Reader, Sums};
use super::transfer::options::{FAILED, UNUSABLE, common_args, connections_of, filter_of, flag};
use super::transfer::pace::{Pace, Progress};
use super::transfer::store::{Store, Terms};
use super::transfer::tally::Tally;

/// Blocks that wait to be stored, for each connection.
const WAITING_MAX: usize = 2;

/// Bytes that are read together.
const READ_TOGETHER: usize = 1 << 20;

/// The subcommand.
pub fn command() -> Command {
    Command::new("load")
        .about("Load a dump into a server: exit status 0, 1 if items failed or the dump is damaged, 2 if it could not be done")
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .required(true)
                .help("The dump, or - for standard input, which is not checked first"),
        )
        .args(server_args())
        .args(common_args())
        .arg(flag("check", "Only say what is in FILE and whether it is whole"))
        .arg(flag("salvage", "Load the whole blocks of a damaged FILE"))
        .arg(
            Arg::new("skip")
                .long("skip")
                .value_name("BLOCKS")
                .default_value("0")
                .value_parser(value_parser!(u64))
                .help("Pass over so many blocks: to go on where a load broke off that told the number"),
        )
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> ExitCode {
    let start = Instant::now();
    let path = matches.get_one::<String>("file").map_or("-", String::as_str);
    let (salvages, checks) = (matches.get_flag("salvage"), matches.get_flag("check"));
    let mut known = None;
    if checks || path != "-" {
        let found = match survey(path) {
            Ok(found) => found,
            Err(why) => return crate::fail(&format!("load: {why}"), UNUSABLE),
        };
        let whole = format!(
            "{} items in {} whole blocks",
            HumanCount(found.sums.items),
            found.sums.blocks
        );
        match (&found.damage, checks) {
            (damage, true) => return tell_survey(path, &found, damage.as_deref()),
            (Some(damage), false) if !salvages => {
                let advice = format!("{whole} can be loaded with --salvage");
                return crate::fail(
                    &format!("load: {path} {damage}; nothing was loaded; {advice}"),
                    UNUSABLE,
                );
            }
            _ => known = Some(found.sums.items),
        }
    }
    let job = Job {
        path,
        salvages,
        skip: matches.get_one::<u64>("skip").copied().unwrap_or(0),
        target: Target::of(matches, ["server", "login", "tls_ca"]),
        terms: Terms {
            keep_existing: matches.get_flag("keep-existing"),
            keep_ttl: matches.get_flag("keep-ttl"),
            filter: filter_of(matches),
        },
        pace: Pace::new(matches.get_one::<u64>("rate").copied()),
    };
    let mut result = Loaded::default();
    let done = job.load(connections_of(matches), known, &mut result);
    let told = format!(
        "{} in {:.1} s",
        result.tally.tell("loaded"),
        start.elapsed().as_secs_f64()
    );
    if let Err(why) = done {
        let advice = format!("go on with --skip {}", job.skip + result.blocks);
        return crate::fail(&format!("load: {why}; {told}; {advice}"), UNUSABLE);
    }
    eprintln!("scrubjay load: {told}");
    for damage in &result.damages {
        eprintln!("scrubjay load: {path} {damage}");
    }
    let is_whole = result.damages.is_empty() && result.tally.failures() == 0;
    ExitCode::from(if is_whole { 0 } else { FAILED })
}

/// What a look through a file found.
struct Survey {
    sums: Sums,
    /// When its first and its last block were taken.
    taken_at: Option<(u64, u64)>,
    damage: Option<String>,
}

fn open(path: &str) -> Result<Reader<BufReader<Box<dyn Read + Send>>>, String> {
    let input: Box<dyn Read + Send> = match path {
        "-" => Box::new(std::io::stdin()),
        _ => Box::new(File::open(path).map_err(|why| format!("cannot read {path}: {why}"))?),
    };
    let input = BufReader::with_capacity(READ_TOGETHER, input);
    Reader::begin(input).map_err(|why| format!("{path} {why}"))
}

/// Reads a whole file; the first damage is told.
fn survey(path: &str) -> Result<Survey, String> {
    let mut reader = open(path)?;
    let (mut taken_at, mut damage) = (None, None);
    loop {
        match reader.next() {
            Ok(Some(block)) => {
                let (first, _) = taken_at.unwrap_or((block.taken_at, 0));
                taken_at = Some((first, block.taken_at));
            }
            Ok(None) => break,
            Err(why) => damage = damage.or(Some(why.to_string())),
        }
    }
    Ok(Survey {
        sums: reader.sums(),
        taken_at,
        damage,
    })
}

fn tell_survey(path: &str, found: &Survey, damage: Option<&str>) -> ExitCode {
    let age = found.taken_at.map_or(String::new(), |(_, last)| {
        let secs = unix_millis().saturating_sub(last) / 1000;
        format!(
            ", taken {} ago",
            HumanDuration(std::time::Duration::from_secs(secs))
        )
    });
    let sums = found.sums;
    println!(
        "{path}: {} items in {} blocks, {}{age}",
        HumanCount(sums.items),
        sums.blocks,
        HumanBytes(sums.items_len)
    );
    match damage {
        None => ExitCode::SUCCESS,
        Some(damage) => crate::fail(&format!("load: {path} {damage}"), FAILED),
    }
}

/// What a load has done.
#[derive(Default)]
struct Loaded {
    tally: Tally,
    /// Blocks from the beginning that are stored without a gap.
    blocks: u64,
    damages: Vec<String>,
}

struct Job<'a> {
    path: &'a str,
    salvages: bool,
    skip: u64,
    target: Target,
    terms: Terms,
    pace: Pace,
}

/// A block's number, and what became of its items.
type Done = (u64, Tally);

impl Job<'_> {
    fn load(&self, connections: usize, known: Option<u64>, loaded: &mut Loaded) -> Result<(), String> {
        let progress = Progress::new(known);
        let (to_store, blocks) = sync_channel(connections * WAITING_MAX);
        let (sender, done) = sync_channel(connections * WAITING_MAX);
        let stop = AtomicBool::new(false);
        let result = std::thread::scope(|scope| {
            let reading = scope.spawn(|| self.read(to_store));
            let blocks = Arc::new(Mutex::new(blocks));
            let storing: Vec<_> = (0..connections)
                .map(|_| {
                    let (blocks, sender, stop) = (Arc::clone(&blocks), sender.clone(), &stop);
                    scope.spawn(move || {
                        let ended = self.store(&blocks, &sender, stop);
                        stop.fetch_or(ended.is_err(), Ordering::Relaxed);
                        ended
                    })
                })
                .collect();
            drop((blocks, sender));
            let mut others = std::collections::BTreeSet::new();
            for (number, tally) in done {
                loaded.tally.add(&tally);
                others.insert(number);
                while others.remove(&loaded.blocks) {
                    loaded.blocks += 1;
                }
                progress.note(loaded.tally.seen(), loaded.tally.bytes);
            }
            let mut result = Ok(());
            for thread in storing {
                result = result.and(thread.join().expect("a thread of ours does not panic"));
            }
            loaded.damages = reading.join().expect("a thread of ours does not panic")?;
            result
        });
        progress.clear();
        result
    }

    /// Reads the file and hands its blocks on, numbered from 0; returns what was damaged.
    fn read(&self, to_store: SyncSender<(u64, Block)>) -> Result<Vec<String>, String> {
        let mut reader = open(self.path)?;
        let (mut damages, mut number) = (Vec::new(), 0);
        loop {
            match reader.next() {
                Ok(None) => return Ok(damages),
                Ok(Some(_)) if number < self.skip => number += 1,
                Ok(Some(block)) => {
                    if to_store.send((number - self.skip, block)).is_err() {
                        return Ok(damages);
                    }
                    number += 1;
                }
                Err(why) if self.salvages => damages.push(why.to_string()),
                Err(why) => return Err(format!("{} {why}", self.path)),
            }
        }
    }

    fn store(
        &self,
        blocks: &Mutex<Receiver<(u64, Block)>>,
        done: &SyncSender<Done>,
        stop: &AtomicBool,
    ) -> Result<(), String> {
        let mut store = Store::new(self.target.connect()?, self.terms.clone())?;
        while !stop.load(Ordering::Relaxed) {
            let next = blocks.lock().expect("nothing panics under it").recv();
            let Ok((number, block)) = next else { break };
            self.pace.wait(block.items as usize);
            let mut tally = Tally::default();
            store.store(&block, &mut tally)?;
            if done.send((number, tally)).is_err() {
                break;
            }
        }
        Ok(())
    }
}
