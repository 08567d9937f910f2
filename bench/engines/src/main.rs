//! The engine beside other caches for Rust, in one process and without sockets: gets, sets and both, keys drawn evenly and
//! by Zipf's law, one thread and two. Rounds alternate between the caches; medians count.

mod chart;
mod engines;
mod load;

use std::sync::Barrier;
use std::time::{Duration, Instant};

use engines::Engine;
use load::{Draw, Found, Request, draw};

/// Bytes for each key of a cache in which all fit: a key of 16, a value of 64, and what keeps them.
const BYTES_PER_KEY: usize = 144;

/// One part in so many of that, for the cache in which they do not fit.
const SHARE: usize = 4;

/// What is measured: its name, sets in a hundred requests, and whether all keys fit.
pub const KINDS: [(&str, u32, bool); 5] = [
    ("get", 0, true),
    ("set", 100, true),
    ("mixed 90/10", 10, true),
    ("mixed 90/10, a quarter fits", 10, false),
    ("mixed 50/50, a quarter fits", 50, false),
];

/// What the command line may say.
struct Options {
    keys: u32,
    rounds: usize,
    /// Requests of a thread in a round.
    requests: usize,
    svg: Option<String>,
    /// Parts of the names of caches and of kinds of requests that are to be measured; none: all.
    caches: Vec<String>,
    kinds: Vec<String>,
}

/// Whether a name has one of these parts, if there are any.
fn selects(parts: &[String], name: &str) -> bool {
    parts.is_empty() || parts.iter().any(|part| name.contains(part.as_str()))
}

/// The result of one cache in one cell of the tables.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Index into [`KINDS`].
    pub kind: usize,
    /// Which keys were asked for.
    pub draw: Draw,
    /// Threads that asked.
    pub threads: usize,
    /// The cache's name.
    pub engine: &'static str,
    /// Million requests a second by the clock on the wall: the median of the rounds.
    pub rate: f64,
    /// Processor time for each, in ns: the median.
    pub cpu: f64,
    /// Gets that found a value.
    pub hit_ratio: f64,
}

fn main() {
    let options = match options(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(why) => {
            eprintln!("{why}");
            std::process::exit(2);
        }
    };
    let requests: Vec<(Draw, Vec<Vec<Request>>)> = [Draw::Uniform, Draw::Zipf]
        .into_iter()
        .map(|how| {
            let of = |seed| draw(options.keys, how, 2 * options.requests, seed);
            (how, (0..2).map(of).collect())
        })
        .collect();
    let mut cells = Vec::new();
    for fits in [true, false] {
        let bytes = options.keys as usize * BYTES_PER_KEY / if fits { 1 } else { SHARE };
        // Segcache wants whole segments.
        let bytes = bytes.next_multiple_of(engines::SEGMENT);
        let keys = options.keys as usize / if fits { 1 } else { SHARE };
        let kinds = || {
            let kinds = KINDS.iter().enumerate();
            kinds.filter(|(_, kind)| kind.2 == fits && selects(&options.kinds, kind.0))
        };
        if kinds().count() == 0 {
            continue;
        }
        let all = engines::all(bytes, keys, &options.caches);
        for engine in &all {
            fill(engine.as_ref(), options.keys);
        }
        for (kind, _) in kinds() {
            for (how, requests) in &requests {
                for threads in [1, 2] {
                    let row = rounds(&all, kind, *how, &requests[..threads], options.rounds);
                    print(&row);
                    cells.extend(row);
                    draw_chart(&options, &cells);
                }
            }
        }
    }
}

/// Writes the chart of what there is so far.
fn draw_chart(options: &Options, cells: &[Cell]) {
    if let Some(path) = &options.svg
        && let Err(error) = std::fs::write(path, chart::svg(cells, options.keys))
    {
        eprintln!("{path}: {error}; give a place that can be written");
        std::process::exit(1);
    }
}

fn options(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options {
        keys: 10_000_000,
        rounds: 7,
        requests: 500_000,
        svg: None,
        caches: Vec::new(),
        kinds: Vec::new(),
    };
    while let Some(word) = words.next() {
        let mut number = || {
            let given = words.next().unwrap_or_default();
            let number = given.parse::<u32>().ok().filter(|number| *number > 0);
            number.ok_or_else(|| format!("{word} {given:?} is not a number above 0; give one"))
        };
        match word.as_str() {
            "--quick" => (options.keys, options.rounds) = (1_000_000, 3),
            "--keys" => options.keys = number()?,
            "--rounds" => options.rounds = number()? as usize,
            "--requests" => options.requests = number()? as usize,
            "--svg" => options.svg = words.next(),
            "--cache" => options.caches.extend(words.next()),
            "--kind" => options.kinds.extend(words.next()),
            _ => {
                return Err(format!(
                    "no option {word:?}; there are --quick, --keys N, --rounds N, --requests N, --cache PART, \
                     --kind PART, --svg FILE"
                ));
            }
        }
    }
    Ok(options)
}

/// Stores every key once, by two threads, and says what memory that took.
fn fill(engine: &dyn Engine, keys: u32) {
    const STEP: u32 = 100_000;
    if engine.is_same_cache() {
        return;
    }
    let (before, start) = (resident_mib(), Instant::now());
    std::thread::scope(|scope| {
        for thread in 0..2 {
            scope.spawn(move || {
                for from in (thread * STEP..keys).step_by(2 * STEP as usize) {
                    let numbers = from..(from + STEP).min(keys);
                    let requests: Vec<Request> = numbers.map(|number| Request::of(number, 0)).collect();
                    engine.drive(thread as usize, &requests, 100);
                }
            });
        }
    });
    engine.settle();
    eprintln!(
        "{}: filled in {:.1} s, {} MiB resident",
        engine.name(),
        start.elapsed().as_secs_f64(),
        resident_mib() - before
    );
}

/// Measures every cache in turn, several times; the medians.
fn rounds(
    all: &[Box<dyn Engine>],
    kind: usize,
    how: Draw,
    requests: &[Vec<Request>],
    rounds: usize,
) -> Vec<Cell> {
    let mut seen: Vec<Vec<Round>> = vec![Vec::new(); all.len()];
    for number in 0..=rounds {
        for (engine, seen) in all.iter().zip(&mut seen) {
            let round = measure(engine.as_ref(), KINDS[kind].1, requests, number % 2);
            // The first round is for the caches to get used to it.
            if number > 0 {
                seen.push(round);
            }
        }
    }
    let cell = |(engine, seen): (&Box<dyn Engine>, &Vec<Round>)| Cell {
        kind,
        draw: how,
        threads: requests.len(),
        engine: engine.name(),
        rate: median(
            seen.iter()
                .map(|round| round.requests as f64 / round.wall.as_secs_f64() / 1e6),
        ),
        cpu: median(
            seen.iter()
                .map(|round| round.cpu.as_nanos() as f64 / round.requests as f64),
        ),
        hit_ratio: median(
            seen.iter()
                .map(|round| round.found.hits as f64 / round.found.gets.max(1) as f64),
        ),
    };
    all.iter().zip(&seen).map(cell).collect()
}

/// What one round of one cache took.
#[derive(Clone, Copy, Debug)]
struct Round {
    requests: u64,
    wall: Duration,
    cpu: Duration,
    found: Found,
}

/// Each thread makes the given half of its requests.
fn measure(engine: &dyn Engine, sets: u32, requests: &[Vec<Request>], half: usize) -> Round {
    let barrier = Barrier::new(requests.len() + 1);
    std::thread::scope(|scope| {
        let running: Vec<_> = requests
            .iter()
            .enumerate()
            .map(|(thread, requests)| {
                let barrier = &barrier;
                scope.spawn(move || {
                    let middle = requests.len() / 2;
                    let requests = [&requests[..middle], &requests[middle..]][half];
                    barrier.wait();
                    let before = cpu_time();
                    let found = engine.drive(thread, requests, sets);
                    (requests.len() as u64, cpu_time() - before, found)
                })
            })
            .collect();
        barrier.wait();
        let start = Instant::now();
        let mut round = Round {
            requests: 0,
            wall: Duration::ZERO,
            cpu: Duration::ZERO,
            found: Found::default(),
        };
        for thread in running {
            let (requests, cpu, found) = thread.join().expect("requests do not panic");
            round.requests += requests;
            round.cpu += cpu;
            round.found.gets += found.gets;
            round.found.hits += found.hits;
        }
        round.wall = start.elapsed();
        round
    })
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn print(row: &[Cell]) {
    let Some(first) = row.first() else { return };
    println!(
        "\n{}; {}; {} thread{}",
        KINDS[first.kind].0,
        first.draw.name(),
        first.threads,
        if first.threads > 1 { "s" } else { "" }
    );
    for cell in row {
        println!(
            "{:24} {:7.2} M/s {:7.0} ns of CPU  hits {:.4}  {:.2} times",
            cell.engine,
            cell.rate,
            cell.cpu,
            cell.hit_ratio,
            cell.rate / first.rate
        );
    }
}

/// What this thread has had of a processor; others may run beside it.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split(' ').next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

fn resident_mib() -> i64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<i64>().ok());
    pages.unwrap_or(0) >> 8
}
