//! Servers and rounds: who is measured, in which order, and what was at fault.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use scrubjay_io::usage::Whose;
use scrubjay_load::exchange::Terms;
use scrubjay_load::floor;
use scrubjay_load::run::{Load, Measured, Progress, run as run_load};
use scrubjay_load::server::Server;
use scrubjay_load::transport::{Address, Route};

use super::options::Bench;
use super::report;
use super::tls::host_of;
use super::workload::Phase;
use crate::cmd::connection::Connection;

/// Requests in flight on a connection while the server is filled.
const FILL_PIPELINE: usize = 64;

/// Bytes that they may be together.
const FILL_BYTES: usize = 1 << 20;

/// A server under test.
pub(super) struct Subject {
    pub(super) name: String,
    route: Route,
    whose: Option<Whose>,
    terms: Arc<Terms>,
    /// What is stored there can be asked for; the floor keeps nothing.
    keeps: bool,
    /// Kept running.
    _server: Option<Server>,
}

/// What one server did in all rounds of one phase.
#[derive(Debug)]
pub(super) struct Rounds {
    pub(super) server: String,
    pub(super) rounds: Vec<Measured>,
}

/// Runs all rounds and prints what they showed. Returns what was at fault, in words.
pub(super) fn run(bench: &Bench) -> Result<Vec<String>, String> {
    let (subjects, load) = prepare(bench)?;
    let mut faults = Vec::new();
    if bench.fill {
        for subject in &subjects {
            fill(bench, subject, &load, &mut faults)?;
        }
    }
    let mut results = Vec::new();
    for phase in bench.workload.phases() {
        let mut all: Vec<Rounds> = Vec::new();
        for round in 0..bench.rounds {
            for (index, subject) in subjects.iter().enumerate() {
                let title = format!("{} {}, round {}", subject.name, phase.title, round + 1);
                let measured = measure(subject, &phase.of_run(round), &load, &title)?;
                faults.extend(faults_of(&title, &phase, &measured));
                if all.len() <= index {
                    all.push(Rounds {
                        server: subject.name.clone(),
                        rounds: Vec::new(),
                    });
                }
                all[index].rounds.push(measured);
            }
        }
        results.push((phase.title, all));
    }
    let text = if bench.json {
        report::json(&results) + "\n"
    } else {
        report::text(&results, bench.floor)
    };
    // Nobody is left to tell if standard output is closed.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(faults)
}

/// Starts or finds the servers, and settles which cores are whose.
pub(super) fn prepare(bench: &Bench) -> Result<(Vec<Subject>, Load), String> {
    let mut load = bench.load.clone();
    let mut server_cores = None;
    if bench.pin {
        let cores = scrubjay_io::thread::cores();
        let [first, others @ ..] = &cores[..] else {
            return Err("--pin: no cores are known; leave it out".to_owned());
        };
        if others.is_empty() {
            return Err(
                "--pin: there is one core only, and server and load need one each; leave it out".to_owned(),
            );
        }
        server_cores = Some(vec![*first]);
        load.cores = Some(others.to_vec());
    }
    let mut subjects = Vec::new();
    for (text, pid) in [(Some(&bench.server), bench.pid), (bench.vs.as_ref(), None)] {
        if let Some(text) = text {
            let cores = server_cores.as_deref();
            subjects.push(Subject::open(text, pid, cores, bench)?);
        }
    }
    if let [first, second] = &mut subjects[..]
        && first.name == second.name
    {
        first.name += " (1)";
        second.name += " (2)";
    }
    if bench.floor {
        let by_udp = matches!(subjects[0].route.address, Address::Udp(_));
        let value_len = bench.workload.value_len.mean().round() as u32;
        let started = floor::start(value_len, by_udp, server_cores);
        let (address, whose) = started.map_err(|why| format!("--floor: {why}"))?;
        subjects.push(Subject {
            name: "floor".to_owned(),
            route: Route { address, tls: None },
            whose: Some(whose),
            terms: terms(bench, false),
            keeps: false,
            _server: None,
        });
    }
    Ok((subjects, load))
}

fn terms(bench: &Bench, verify: bool) -> Arc<Terms> {
    Arc::new(Terms {
        protocol: bench.protocol,
        items: bench.workload.items(),
        verify,
    })
}

impl Subject {
    fn open(text: &str, pid: Option<u32>, cores: Option<&[usize]>, bench: &Bench) -> Result<Subject, String> {
        let tls = match &bench.tls {
            None => None,
            Some((client, Some(_))) => Some(client.clone()),
            Some((client, None)) => Some(client.named(host_of(text)).map_err(|why| why.to_string())?),
        };
        let terms = terms(bench, bench.verify);
        if is_command(text) {
            let server = Server::start(text, bench.listen, cores)?;
            let program = text.split_whitespace().next().unwrap_or_default();
            let name = Path::new(program).file_name().unwrap_or_default();
            let address = server.address().clone();
            return Ok(Subject {
                name: name.to_string_lossy().into_owned(),
                route: Route { address, tls },
                whose: Some(server.whose()),
                terms,
                keeps: true,
                _server: Some(server),
            });
        }
        let address = Address::parse(text)?;
        let ask = || match tls {
            // The way to ask is not encrypted.
            Some(_) => None,
            None => pid_of(&address.in_order(), bench.load.timeout),
        };
        let pid = pid.or_else(ask);
        Ok(Subject {
            name: text.to_owned(),
            route: Route { address, tls },
            whose: pid.map(Whose::Process),
            terms,
            keeps: true,
            _server: None,
        })
    }
}

/// Whether it is something to start; else it is an address.
fn is_command(text: &str) -> bool {
    text.contains(' ') || Path::new(text).is_file() || !text.contains([':', '/'])
}

/// The process of a server on this machine, by its own word.
fn pid_of(address: &Address, patience: Duration) -> Option<u32> {
    let is_here = match address {
        Address::Tcp(address) => address.ip().is_loopback(),
        Address::Unix(_) => true,
        Address::Udp(_) => false,
    };
    if !is_here {
        return None;
    }
    // A server that cannot be asked has no figures of its own; that it cannot be reached shows at once.
    let stats = Connection::connect_with(&address.to_string(), patience)
        .ok()?
        .stats("")
        .ok()?;
    stats.iter().find(|(name, _)| name == "pid")?.1.parse().ok()
}

pub(super) fn fill(
    bench: &Bench,
    subject: &Subject,
    load: &Load,
    faults: &mut Vec<String>,
) -> Result<(), String> {
    if !subject.keeps {
        return Ok(());
    }
    let phase = bench.workload.fill();
    let fits = FILL_BYTES / (bench.workload.value_len.max() as usize + 1);
    let load = Load {
        pipeline: fits.clamp(1, FILL_PIPELINE),
        noreply: false,
        reconnect: false,
        rate: None,
        ..load.clone()
    };
    let title = format!("{}, fill", subject.name);
    // What is not stored would be missed by whoever asks: it goes where nothing is lost.
    let route = Route {
        address: subject.route.address.in_order(),
        ..subject.route.clone()
    };
    let measured = measure_by(&route, subject, &phase, &load, &title)?;
    faults.extend(faults_of(&title, &phase, &measured));
    Ok(())
}

/// Puts one round of load on one server, with a line of progress for a terminal.
pub(super) fn measure(
    subject: &Subject,
    phase: &Phase,
    load: &Load,
    title: &str,
) -> Result<Measured, String> {
    measure_by(&subject.route, subject, phase, load, title)
}

fn measure_by(
    route: &Route,
    subject: &Subject,
    phase: &Phase,
    load: &Load,
    title: &str,
) -> Result<Measured, String> {
    let mut load = load.clone();
    if phase.is_counted {
        load.duration = None;
        load.warmup = Duration::ZERO;
    }
    let sets_only = phase.plan.mix.get + phase.plan.mix.delete == 0.0;
    load.noreply &= sets_only;
    let is_terminal = std::io::stderr().is_terminal();
    let mut last = (0, Duration::ZERO);
    let mut watch = |progress: Progress| {
        let secs = (progress.elapsed - last.1).as_secs_f64();
        if is_terminal && secs > 0.0 {
            let rate = (progress.requests - last.0) as f64 / secs;
            let total = progress.requests;
            eprint!(
                "\r\x1b[K{title}: {:.0} s, {total} requests, {rate:.0}/s",
                progress.elapsed.as_secs_f64()
            );
        }
        last = (progress.requests, progress.elapsed);
    };
    let measured = run_load(
        route,
        subject.whose,
        &subject.terms,
        &phase.plan,
        &load,
        &mut watch,
    );
    if is_terminal {
        eprint!("\r\x1b[K");
    }
    measured.map_err(|why| format!("{title}: {why}"))
}

/// What must not be, in words with numbers.
pub(super) fn faults_of(title: &str, phase: &Phase, measured: &Measured) -> Vec<String> {
    let tally = &measured.tally;
    let mut faults: Vec<String> = tally
        .errors
        .iter()
        .map(|(text, count)| format!("{title}: {count} times {text}"))
        .collect();
    if tally.wrong > 0 {
        faults.push(format!(
            "{title}: {} values were not those of their keys",
            tally.wrong
        ));
    }
    if phase.expect_hits && tally.misses > 0 {
        faults.push(format!(
            "{title}: {} gets found nothing where all must",
            tally.misses
        ));
    } else if phase.expect_hits && phase.is_counted && tally.hits != phase.plan.requests {
        faults.push(format!(
            "{title}: {} hits where there must be {}",
            tally.hits, phase.plan.requests
        ));
    }
    let answered = tally.requests - tally.refills;
    if phase.is_counted && answered != phase.plan.requests {
        faults.push(format!(
            "{title}: {answered} requests were answered of {}",
            phase.plan.requests
        ));
    }
    faults
}
