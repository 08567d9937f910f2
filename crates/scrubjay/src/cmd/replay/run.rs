//! A replay: one thread reads or draws requests, one thread a connection sends them. A key is always on the same connection,
//! so that its requests stay in order.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressStyle};
use scrubjay_workload::{Draw, Format, Request, Verb};

use super::client::{Client, Known, Outcome};
use crate::cmd::connection::{Connection, Stats};
use crate::cmd::value::hash;

/// Longest latency that is told apart from longer ones: a minute.
const LATENCY_MAX_MICROS: u64 = 60_000_000;

/// Requests handed to a connection's thread at a time.
const PARCEL: usize = 512;

/// Parcels that wait for a connection's thread.
const PARCELS_WAITING: usize = 8;

/// Shortest wait for a request's time to come.
const PAUSE_MIN: Duration = Duration::from_millis(2);

/// Requests of a drawn workload when none are asked for.
const DRAWN_DEFAULT: u64 = 1_000_000;

/// How to replay.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) trace: PathBuf,
    pub(crate) format: Format,
    /// 0: the whole trace.
    pub(crate) requests: u64,
    pub(crate) connections: usize,
    pub(crate) depth: usize,
    pub(crate) draw: Draw,
    pub(crate) lives: Lives,
    pub(crate) verify: bool,
    pub(crate) flush: bool,
}

/// How time passes, and how long items live.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lives {
    /// Seconds of items of which the trace says nothing; 0: they never expire.
    pub(crate) ttl: u32,
    /// Seconds of the trace that pass in one; none: requests follow each other as fast as they can, and lives are as written.
    pub(crate) speed: Option<f64>,
}

impl Lives {
    /// Seconds that the request's item is to live; 0: for ever.
    pub(crate) fn of(&self, request: &Request) -> u32 {
        let ttl = if request.ttl > 0 { request.ttl } else { self.ttl };
        match self.speed {
            Some(speed) if ttl > 0 => ((f64::from(ttl) / speed).round() as u32).max(1),
            _ => ttl,
        }
    }
}

/// What one server did.
#[derive(Debug)]
pub(crate) struct Replayed {
    pub(crate) server: String,
    pub(crate) tally: Tally,
    pub(crate) elapsed: Duration,
    /// Name and value of the server's own statistics at the end.
    pub(crate) stats: Stats,
    /// Resident memory of a local server's process, in bytes.
    pub(crate) resident: Option<u64>,
}

/// What happened to the requests.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) requests: u64,
    pub(crate) gets: u64,
    pub(crate) hits: u64,
    /// Misses of keys that had never been asked for or stored before.
    pub(crate) first_misses: u64,
    /// Misses of keys that were deleted, or whose time was over, to the second.
    pub(crate) dead_misses: u64,
    /// Sets after a miss that the server did not store, and stores that it refused.
    pub(crate) refused: u64,
    /// Values that were not the key's.
    pub(crate) wrong: u64,
    /// Microseconds from sending to the reply.
    pub(crate) latency: Histogram<u64>,
    /// Keys seen, by their hash.
    seen: HashMap<u64, Seen>,
}

/// What is known of a key.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// What its value must be.
    known: Option<Known>,
    /// It was deleted.
    is_deleted: bool,
    /// When its time is over.
    dies: Option<Instant>,
}

impl Seen {
    fn stored(&mut self, known: Known, ttl: u32) {
        if self.known != Some(Known::Counter) {
            self.known = Some(known);
        }
        self.is_deleted = false;
        self.dies = (ttl > 0).then(|| Instant::now() + Duration::from_secs(ttl.into()));
    }

    /// Whether nobody can blame the server for a miss: servers that count whole seconds end lives up to one early.
    fn is_dead(&self) -> bool {
        self.is_deleted
            || self
                .dies
                .is_some_and(|dies| dies <= Instant::now() + Duration::from_secs(1))
    }
}

impl Tally {
    fn new() -> Tally {
        Tally {
            requests: 0,
            gets: 0,
            hits: 0,
            first_misses: 0,
            dead_misses: 0,
            refused: 0,
            wrong: 0,
            latency: Histogram::new_with_bounds(1, LATENCY_MAX_MICROS, 3).expect("three digits can be kept"),
            seen: HashMap::new(),
        }
    }

    /// What the value of `key` must be, if this replay has stored it.
    pub(crate) fn known(&self, key: &[u8]) -> Option<Known> {
        self.seen.get(&hash(key)).and_then(|seen| seen.known)
    }

    pub(crate) fn note(&mut self, request: &Request, outcome: Outcome, lives: &Lives, latency: Duration) {
        self.requests += 1;
        self.latency.saturating_record(latency.as_micros() as u64);
        let key = hash(&request.key);
        let first = !self.seen.contains_key(&key);
        let seen = self.seen.entry(key).or_default();
        match (outcome, request.verb) {
            (Outcome::Hit, _) => {
                self.gets += 1;
                self.hits += 1;
            }
            (Outcome::Miss, _) => {
                self.gets += 1;
                self.first_misses += u64::from(first);
                self.dead_misses += u64::from(seen.is_dead());
            }
            (Outcome::Stored, Verb::Store("append" | "prepend")) => seen.known = Some(Known::Joined),
            (Outcome::Stored, _) => seen.stored(Known::Stored(request.value_len), lives.of(request)),
            (Outcome::NotANumber, _) => seen.known = Some(Known::Counter),
            (Outcome::Done, Verb::Arith(_)) => seen.known = Some(Known::Counter),
            (Outcome::Done, Verb::Delete) => seen.is_deleted = true,
            (Outcome::Done, _) => {}
            (Outcome::Refused, _) => {
                self.refused += 1;
                seen.known = None;
            }
        }
    }

    pub(crate) fn note_filled(&mut self, request: &Request, lives: &Lives, stored: bool) {
        self.refused += u64::from(!stored);
        let seen = self.seen.entry(hash(&request.key)).or_default();
        if stored {
            seen.stored(Known::Stored(request.value_len), lives.of(request));
        } else if seen.known != Some(Known::Counter) {
            seen.known = None;
        }
    }

    pub(crate) fn misses(&self) -> u64 {
        self.gets - self.hits
    }

    fn add(&mut self, other: &Tally) {
        self.requests += other.requests;
        self.gets += other.gets;
        self.hits += other.hits;
        self.first_misses += other.first_misses;
        self.dead_misses += other.dead_misses;
        self.refused += other.refused;
        self.wrong += other.wrong;
        self.latency.add(&other.latency).expect("histograms of one kind");
    }
}

/// Requests and hits so far, for the progress bar.
#[derive(Debug, Default)]
struct Progress {
    requests: AtomicU64,
    gets: AtomicU64,
    hits: AtomicU64,
}

/// Replays against `server`.
pub(crate) fn run(plan: &Plan, server: &str) -> Result<Replayed, String> {
    let mut control = Connection::connect(server)?;
    if plan.flush {
        let reply = control.ask("flush_all")?;
        if reply != "OK" {
            return Err(format!(
                "{server}: flush_all answered {reply:?}; use --no-flush to replay without it"
            ));
        }
    }
    let source = source(plan)?;
    let clients = (0..plan.connections)
        .map(|_| Client::connect(server))
        .collect::<Result<Vec<_>, _>>()?;
    let progress = Progress::default();
    let bar = progress_bar(server);
    let start = Instant::now();
    let (fed, tallies) = std::thread::scope(|scope| {
        let mut senders = Vec::new();
        let mut threads = Vec::new();
        for client in clients {
            let (sender, receiver) = sync_channel(PARCELS_WAITING);
            senders.push(sender);
            let progress = &progress;
            threads.push(scope.spawn(move || serve(client, &receiver, plan, progress)));
        }
        let fed = feed(source, plan, senders, &progress, &bar);
        let tallies: Vec<_> = threads
            .into_iter()
            .map(|thread| thread.join().expect("it does not panic"))
            .collect();
        (fed, tallies)
    });
    let elapsed = start.elapsed();
    bar.finish_and_clear();
    let mut tally = Tally::new();
    let mut failure = fed.err();
    for (part, result) in tallies {
        tally.add(&part);
        failure = result.err().or(failure);
    }
    if let Some(why) = failure {
        return Err(format!("{server}: after {} requests: {why}", tally.requests));
    }
    if tally.requests == 0 {
        return Err(format!("{}: there is no request in it", plan.trace.display()));
    }
    let stats = control.stats("")?;
    let resident = resident_bytes(&stats);
    Ok(Replayed {
        server: server.to_owned(),
        tally,
        elapsed,
        stats,
        resident,
    })
}

fn source(plan: &Plan) -> Result<impl Iterator<Item = Result<Request, String>> + use<>, String> {
    let all = scrubjay_workload::open(&plan.trace, plan.format, &plan.draw)?;
    let limit = match plan.requests {
        0 if plan.format.is_drawn() => DRAWN_DEFAULT,
        0 => u64::MAX,
        requests => requests,
    };
    Ok(all.take(usize::try_from(limit).unwrap_or(usize::MAX)))
}

/// The trace's clock beside ours.
struct Pace {
    speed: f64,
    start: Instant,
    /// The trace's first second, once it is known, and its present one with the requests met in it.
    first: Option<u32>,
    second: u32,
    met: u32,
    /// Requests in the second before, by which those of the present one are spread.
    met_before: u32,
}

impl Pace {
    fn new(speed: f64) -> Pace {
        let start = Instant::now();
        Pace {
            speed,
            start,
            first: None,
            second: 0,
            met: 0,
            met_before: 0,
        }
    }

    /// How long to wait before the next request, of this second of the trace; none if it is too little to wait for.
    fn early(&mut self, time: u32) -> Option<Duration> {
        let first = *self.first.get_or_insert(time);
        if time != self.second {
            (self.second, self.met_before, self.met) = (time, self.met, 0);
        }
        self.met += 1;
        let part = f64::from(self.met) / f64::from(self.met_before.max(self.met));
        let due = Duration::from_secs_f64((f64::from(time.saturating_sub(first)) + part) / self.speed);
        let early = due.saturating_sub(self.start.elapsed());
        (early > PAUSE_MIN).then_some(early)
    }
}

/// Hands the requests to the connections' threads.
fn feed(
    source: impl Iterator<Item = Result<Request, String>>,
    plan: &Plan,
    senders: Vec<SyncSender<Vec<Request>>>,
    progress: &Progress,
    bar: &ProgressBar,
) -> Result<(), String> {
    let mut parcels: Vec<Vec<Request>> = senders.iter().map(|_| Vec::with_capacity(PARCEL)).collect();
    let mut pace = plan.lives.speed.map(Pace::new);
    for request in source {
        let request = request?;
        if let Some(pace) = &mut pace
            && let Some(early) = pace.early(request.time)
        {
            let waiting = senders.iter().zip(&mut parcels);
            for (sender, parcel) in waiting.filter(|(_, parcel)| !parcel.is_empty()) {
                if sender.send(std::mem::take(parcel)).is_err() {
                    return Ok(());
                }
            }
            show(progress, bar);
            std::thread::sleep(early);
        }
        let index = (hash(&request.key) >> 32) as usize % plan.connections;
        parcels[index].push(request);
        if parcels[index].len() == PARCEL {
            let parcel = std::mem::replace(&mut parcels[index], Vec::with_capacity(PARCEL));
            if senders[index].send(parcel).is_err() {
                // That connection ended and has its own reason to tell.
                return Ok(());
            }
            show(progress, bar);
        }
    }
    for (sender, parcel) in senders.into_iter().zip(parcels) {
        // As above.
        let _ = sender.send(parcel);
    }
    Ok(())
}

fn show(progress: &Progress, bar: &ProgressBar) {
    let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let (gets, hits) = (load(&progress.gets), load(&progress.hits));
    bar.set_position(load(&progress.requests));
    if gets > 0 {
        bar.set_message(format!("hit ratio {:.4}", hits as f64 / gets as f64));
    }
}

fn progress_bar(server: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix} {spinner} {human_pos} requests, {per_sec}, {msg}");
    let bar = ProgressBar::new_spinner().with_prefix(server.to_owned());
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// One connection's thread: batches of distinct keys, in order.
fn serve(
    mut client: Client,
    parcels: &Receiver<Vec<Request>>,
    plan: &Plan,
    progress: &Progress,
) -> (Tally, Result<(), String>) {
    let mut tally = Tally::new();
    for parcel in parcels {
        let (gets, hits) = (tally.gets, tally.hits);
        let mut rest = &parcel[..];
        while !rest.is_empty() {
            let mut keys = HashSet::new();
            let len = rest
                .iter()
                .take(plan.depth)
                .take_while(|request| keys.insert(&request.key))
                .count();
            if let Err(why) = client.replay(&rest[..len], &plan.lives, plan.verify, &mut tally) {
                return (tally, Err(why));
            }
            rest = &rest[len..];
        }
        progress
            .requests
            .fetch_add(parcel.len() as u64, Ordering::Relaxed);
        progress.gets.fetch_add(tally.gets - gets, Ordering::Relaxed);
        progress.hits.fetch_add(tally.hits - hits, Ordering::Relaxed);
    }
    (tally, Ok(()))
}

/// What a server on this machine has in RAM, by the pid that it tells.
fn resident_bytes(stats: &[(String, String)]) -> Option<u64> {
    let pid = &stats.iter().find(|(name, _)| name == "pid")?.1;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace()
        .nth(1)?
        .parse::<u64>()
        .ok()
        .map(|kib| kib * 1024)
}
