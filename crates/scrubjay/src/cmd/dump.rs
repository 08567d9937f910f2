//! `scrubjay dump`: everything that a server holds, or a part of it, into a file or straight into another server.
//!
//! One thread lists, several fetch; what they fetched is put into the list's order again, so that a dump that breaks off can be
//! gone on with behind its last block.

mod sink;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use clap::{Arg, ArgMatches, Command};
use scrubjay_protocol::dump::{Filter, parse_cursor};

use self::sink::{FileSink, Sink};
use super::connection::{Target, server_args};
use super::transfer::fetch::{Language, fetch};
use super::transfer::file::{Packed, pack};
use super::transfer::list::{Batch, Lister, Plan};
use super::transfer::options::{FAILED, UNUSABLE, age_args, common_args, connections_of, filter_of, flag};
use super::transfer::pace::{Pace, Progress};
use super::transfer::store::{Store, Terms};
use super::transfer::tally::Tally;

/// Most items of a batch.
const BATCH_MAX: usize = 256;

/// Batches that are done and wait to be written, for each connection.
const DONE_WAITING_MAX: usize = 4;

/// The subcommand.
pub fn command() -> Command {
    let text = |name: &'static str, long: &'static str| Arg::new(name).long(long);
    Command::new("dump")
        .about("Dump the items of a server into a file or another server: exit status 0, 1 if items failed, 2 if it could not be done")
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .required_unless_present("to")
                .conflicts_with("to")
                .help("The file to write, or - for standard output"),
        )
        .arg(
            text("to", "to")
                .value_name("HOST:PORT|PATH")
                .help("Store the items in this server instead"),
        )
        .args(server_args())
        .arg(
            text("to_login", "to-login")
                .value_name("FILE")
                .requires("to")
                .help("As --login, at the server of --to"),
        )
        .arg(
            text("to_tls_ca", "to-tls-ca")
                .value_name("FILE")
                .requires("to")
                .help("As --tls-ca, for the server of --to"),
        )
        .args(common_args())
        .args(age_args())
        .arg(
            text("from", "from")
                .value_name("CURSOR")
                .help("Go on where a dump broke off that told this cursor"),
        )
        .arg(flag("resume", "Go on with FILE, which was not finished; the server may not have been started again since").conflicts_with_all(["to", "from", "force"]))
        .arg(flag("force", "Write over FILE if it is there"))
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> ExitCode {
    let start = Instant::now();
    let mut job = match Job::prepare(matches) {
        Ok(job) => job,
        Err(why) => return crate::fail(&format!("dump: {why}"), UNUSABLE),
    };
    let mut tally = Tally::default();
    let done = job.transfer(&mut tally).and_then(|()| job.sink.finish());
    let told = format!(
        "{} in {:.1} s",
        tally.tell(job.sink.verb()),
        start.elapsed().as_secs_f64()
    );
    match done {
        Ok(()) => {
            eprintln!("scrubjay dump: {told}");
            ExitCode::from(if tally.failures() > 0 { FAILED } else { 0 })
        }
        Err(why) => {
            let advice = job.sink.how_to_go_on();
            crate::fail(&format!("dump: {why}; {told}{advice}"), UNUSABLE)
        }
    }
}

/// A batch that is done with.
pub(super) struct Done {
    number: u64,
    tally: Tally,
    cursor: Option<u64>,
    /// What goes into the file, if there is one.
    packed: Option<Packed>,
}

/// What is to be done.
struct Job {
    source: Target,
    destination: Option<(Target, Terms)>,
    plan: Plan,
    connections: usize,
    pace: Pace,
    sink: Sink,
}

impl Job {
    fn prepare(matches: &ArgMatches) -> Result<Job, String> {
        let source = Target::of(matches, ["server", "login", "tls_ca"]);
        let pace = Pace::new(matches.get_one::<u64>("rate").copied());
        let given = matches.get_one::<String>("from");
        let from = given.map(|text| {
            let cursor = parse_cursor(text.as_bytes());
            cursor.ok_or_else(|| format!("--from {text}: a cursor is a hexadecimal number that a dump told"))
        });
        let mut from = from.transpose()?;
        let terms = Terms {
            keep_existing: matches.get_flag("keep-existing"),
            keep_ttl: matches.get_flag("keep-ttl"),
            filter: Filter::default(),
        };
        let destination = matches
            .contains_id("to")
            .then(|| (Target::of(matches, ["to", "to_login", "to_tls_ca"]), terms));
        // Asked before a file is made for it.
        source.connect()?;
        let sink = match matches.get_one::<String>("file") {
            None => Sink::Server { cursor: from },
            Some(path) if matches.get_flag("resume") => {
                let (sink, resumed) = FileSink::resume(path)?;
                from = Some(resumed);
                Sink::File(sink)
            }
            Some(path) => Sink::File(FileSink::create(path, matches.get_flag("force"))?),
        };
        Ok(Job {
            source,
            destination,
            plan: Plan {
                filter: filter_of(matches),
                from,
                batch_max: pace.batch_max(BATCH_MAX),
            },
            connections: connections_of(matches),
            pace,
            sink,
        })
    }

    /// Moves everything, and counts it.
    fn transfer(&mut self, tally: &mut Tally) -> Result<(), String> {
        let mut connection = self.source.connect()?;
        let is_all = self.plan.filter == Filter::default() && self.plan.from.is_none();
        let items = connection
            .stats("")?
            .into_iter()
            .find(|(name, _)| name == "curr_items");
        let items = items.and_then(|(_, items)| items.parse().ok()).filter(|_| is_all);
        let (lister, batches) = Lister::new(connection, self.plan.clone())?;
        if !lister.is_resumable() {
            self.sink.forget_cursors();
        }
        let progress = Progress::new(items);
        let (sender, done) = sync_channel(self.connections * DONE_WAITING_MAX);
        let stop = AtomicBool::new(false);
        let (sink, connections) = (&mut self.sink, self.connections);
        let fetcher = Fetcher {
            source: &self.source,
            destination: self.destination.as_ref(),
            pace: &self.pace,
            stop: &stop,
        };
        let result = std::thread::scope(|scope| {
            let listing = scope.spawn(|| lister.run());
            // When the last fetcher ends, so does the lister, who finds nobody to take its batches.
            let batches = Arc::new(Mutex::new(batches));
            let fetchers: Vec<_> = (0..connections)
                .map(|_| {
                    let (batches, sender, fetcher) = (Arc::clone(&batches), sender.clone(), &fetcher);
                    scope.spawn(move || fetcher.run(&batches, &sender))
                })
                .collect();
            drop((batches, sender));
            let mut result = collect(done, sink, tally, &progress);
            stop.store(result.is_err(), Ordering::Relaxed);
            for thread in fetchers.into_iter().chain([listing]) {
                let ended = thread.join().expect("a thread of ours does not panic");
                result = result.and(ended);
            }
            result
        });
        progress.clear();
        result
    }
}

/// Takes what is done, in the list's order.
fn collect(
    done: Receiver<Done>,
    sink: &mut Sink,
    tally: &mut Tally,
    progress: &Progress,
) -> Result<(), String> {
    let (mut early, mut next) = (std::collections::BTreeMap::new(), 0);
    for done in done {
        early.insert(done.number, done);
        while let Some(done) = early.remove(&next) {
            sink.take(&done)?;
            tally.add(&done.tally);
            next += 1;
        }
        progress.note(tally.seen(), tally.bytes);
    }
    // Behind a batch that failed: they went through, but the dump is to be gone on with from before.
    early.values().for_each(|done| tally.add(&done.tally));
    Ok(())
}

/// What a thread that fetches needs.
struct Fetcher<'j> {
    source: &'j Target,
    destination: Option<&'j (Target, Terms)>,
    pace: &'j Pace,
    /// Somebody failed.
    stop: &'j AtomicBool,
}

impl Fetcher<'_> {
    fn run(&self, batches: &Mutex<Receiver<Batch>>, done: &SyncSender<Done>) -> Result<(), String> {
        let ended = self.fetch_all(batches, done);
        if ended.is_err() {
            self.stop.store(true, Ordering::Relaxed);
        }
        ended
    }

    fn fetch_all(&self, batches: &Mutex<Receiver<Batch>>, done: &SyncSender<Done>) -> Result<(), String> {
        let mut source = self.source.connect()?;
        let language = Language::of(&mut source)?;
        let mut store = self
            .destination
            .map(|(target, terms)| Store::new(target.connect()?, terms.clone()))
            .transpose()?;
        while !self.stop.load(Ordering::Relaxed) {
            let batch = batches.lock().expect("nothing panics under it").recv();
            let Ok(batch) = batch else { break };
            self.pace.wait(batch.keys.len());
            let mut tally = Tally::default();
            let block = fetch(&mut source, language, &batch, &mut tally)?;
            let packed = match &mut store {
                Some(store) => {
                    // What counts is what was stored.
                    (tally.items, tally.bytes) = (0, 0);
                    store.store(&block, &mut tally)?;
                    None
                }
                None => Some(pack(&block)?),
            };
            let batch_done = Done {
                number: batch.number,
                tally,
                cursor: batch.cursor,
                packed,
            };
            if done.send(batch_done).is_err() {
                break;
            }
        }
        Ok(())
    }
}
