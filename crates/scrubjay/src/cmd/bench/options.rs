//! What can be said on the command line, and what it means.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use scrubjay_io::driver::choice::Kind;
use scrubjay_load::exchange::Protocol;
use scrubjay_load::item::Amount;
use scrubjay_load::run::Load;
use scrubjay_load::server::Listen;
use scrubjay_load::source::{Mix, Popularity, Shape};
use scrubjay_tls::Client;

use super::tls;
use super::workload::{self, Workload};

/// Rounds when several servers take turns.
const ROUNDS_OF_SEVERAL: u64 = 5;

/// How long is measured if nothing is said.
const SECS_DEFAULT: f64 = 10.0;

/// Longest life that is told to a server in seconds from now. Source: memcached doc/protocol.txt, "Expiration times".
const TTL_MAX: u32 = 60 * 60 * 24 * 30;

/// Longest value that servers can be told to take.
const VALUE_LEN_MAX: u32 = 1 << 30;

/// Most requests a second that can be asked for.
const RATE_MAX: f64 = 1e9;

/// Requests in flight on a socket of UDP: more than these overrun the buffers that kernels usually give.
const UDP_PIPELINE_MAX: usize = 256;

const PROTOCOLS: &[(&str, Protocol)] = &[
    ("text", Protocol::Text),
    ("meta", Protocol::Meta),
    ("binary", Protocol::Binary),
];

const LISTENS: &[(&str, Listen)] = &[("tcp", Listen::Tcp), ("unix", Listen::Unix), ("udp", Listen::Udp)];

/// All that was asked for.
#[derive(Clone, Debug)]
pub(super) struct Bench {
    pub(super) server: String,
    pub(super) vs: Option<String>,
    pub(super) floor: bool,
    pub(super) pid: Option<u32>,
    pub(super) listen: Listen,
    /// How to encrypt, and the name to expect of every server.
    pub(super) tls: Option<(Client, Option<String>)>,
    pub(super) pin: bool,
    pub(super) rounds: usize,
    pub(super) protocol: Protocol,
    pub(super) verify: bool,
    pub(super) load: Load,
    pub(super) fill: bool,
    pub(super) workload: Workload,
    /// Requests a second of each connection, one rate after the other.
    pub(super) rates: Option<Vec<f64>>,
    /// Milliseconds of p99 that the knee of a sweep must keep.
    pub(super) target_p99_ms: f64,
    pub(super) svg: Option<PathBuf>,
    pub(super) json: bool,
}

fn names<What>(table: &[(&'static str, What)]) -> Vec<&'static str> {
    table.iter().map(|(name, _)| *name).collect()
}

fn named<What: Copy>(table: &[(&str, What)], name: &str) -> Option<What> {
    Some(table.iter().find(|(known, _)| *known == name)?.1)
}

/// The subcommand.
pub fn command() -> Command {
    Command::new("bench")
        .about("Put load on a memcached-protocol server and measure throughput, latency and what it costs the server")
        .args(under("Servers", server_args()))
        .args(under("Load", load_args()))
        .args(under("Workload", workload_args()))
        .args(under("Encryption", tls::args()))
        .args(under("Results", result_args()))
        .after_help(format!("Workloads:\n{}\n{AFTER_HELP}", workload::table()))
}

const AFTER_HELP: &str = "\
The value of a key follows from the key, so each that comes back is compared with what it must be.
Several rounds and servers take turns; medians are printed.
Exit status: 0 all as it must be, 1 wrong or missing replies or errors, 2 a server or the input cannot be used.";

fn under(heading: &'static str, args: Vec<Arg>) -> impl Iterator<Item = Arg> {
    args.into_iter().map(move |arg| arg.help_heading(heading))
}

fn number(name: &'static str, range: std::ops::RangeInclusive<u64>, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name("N")
        .value_parser(value_parser!(u64).range(range))
        .help(help)
}

fn text(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

fn seconds(name: &'static str, help: &'static str) -> Arg {
    text(name, "SECONDS", help).value_parser(value_parser!(f64))
}

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

fn server_args() -> Vec<Arg> {
    vec![
        text(
            "server",
            "ADDRESS|COMMAND",
            "HOST:PORT, udp://HOST:PORT or the path of a Unix socket; or a command that is started on a free port, with \
             {port} or {socket} in it or memcached's options put behind",
        )
        .default_value("127.0.0.1:11211"),
        text("vs", "ADDRESS|COMMAND", "A second server that takes turns with the first"),
        flag("floor", "Measure a built-in server too that answers without looking"),
        text("listen", "WHERE", "What a started server listens on")
            .value_parser(names(LISTENS))
            .default_value("tcp"),
        number("pid", 1..=u32::MAX.into(), "Process of the first server, to see what it uses; else it is asked")
            .value_name("PID"),
        flag("pin", "Keep started servers on the first core and the load on the others"),
        number("rounds", 1..=1000, "Rounds of each server [default: 1, several servers: 5]"),
    ]
}

fn load_args() -> Vec<Arg> {
    vec![
        text("protocol", "NAME", "What is spoken")
            .value_parser(names(PROTOCOLS))
            .default_value("text"),
        number("threads", 1..=256, "Threads of the load").default_value("1"),
        number("connections", 1..=100_000, "Connections of all threads together [default: 32]"),
        number("pipeline", 1..=10_000, "Requests in flight on a connection").default_value("1"),
        number("multiget", 1..=1000, "Keys of a get").default_value("1"),
        flag("connect", "Open a connection for every request, or for --pipeline of them, and close it after the reply; latency counts from opening"),
        text("rate", "N", "Requests a second, each at its moment, from which its latency counts [default: as fast as it goes]")
            .value_parser(value_parser!(f64)),
        number("requests", 1..=u64::MAX, "Stop after this many requests"),
        seconds("duration", "Measure this long [default: 10, or until --requests are done]"),
        seconds("warmup", "Load before measuring").default_value("0"),
        seconds("timeout", "Longest wait for a connection or a reply").default_value("10"),
        text("io-driver", "NAME", "What the load waits by [default: io_uring where it can be had; with --rate, --connect, --tls and UDP epoll]")
            .value_parser([Kind::Epoll.name(), Kind::Uring.name()]),
    ]
}

fn workload_args() -> Vec<Arg> {
    vec![
        text(
            "workload",
            "NAME",
            "One of those below, twitter:cluster1 to twitter:cluster54, or a file of workload tables. Other options change it",
        ),
        text(
            "scale",
            "FACTOR",
            "So many times the workload's keys [default: 1]",
        )
        .value_parser(value_parser!(f64)),
        number("keys", 1..=10_000_000_000, "Keys [default: 10000]"),
        number("key-size", 1..=250, "Bytes of a key [default: 11]"),
        text(
            "value-size",
            "N|MIN-MAX|NAME",
            "Bytes of a value, or those of a cluster or a file of tables [default: 100]",
        ),
        text(
            "popularity",
            "uniform|zipf:ALPHA|NAME",
            "How often a key is asked for, or as in a cluster or a file of tables [default: uniform]",
        ),
        text(
            "mix",
            "get=N,set=N,delete=N",
            "Shares of the operations, a get of several keys being one [default: get=1]",
        ),
        text(
            "ttl",
            "N|MIN-MAX",
            "Seconds of life of an item; 0: for ever [default: 0]",
        ),
        flag("noreply", "Stores are not answered one by one"),
        flag("refill", "Store what a get does not find, on the same connection"),
        flag("fill", "Store every key first"),
        number("seed", 0..=u64::MAX, "Seed of what is drawn").default_value("1"),
        flag("expect-hits", "Fail if a get finds nothing"),
        flag("no-verify", "Do not compare values with what they must be"),
    ]
}

fn result_args() -> Vec<Arg> {
    vec![
        flag(
            "sweep",
            "Rates in steps up to what the server can do: latency by throughput, and the knee",
        ),
        text(
            "rates",
            "N,N,...",
            "Latency at these requests a second of each connection, one rate after the other",
        )
        .value_delimiter(',')
        .value_parser(value_parser!(f64))
        .conflicts_with_all(["sweep", "rate"]),
        flag(
            "syscalls",
            "Count the system calls of servers on this machine; needs root, and slows them",
        ),
        text(
            "target-p99",
            "MILLISECONDS",
            "p99 that the knee of a sweep must keep",
        )
        .value_parser(value_parser!(f64))
        .default_value("1"),
        Arg::new("svg")
            .long("svg")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .requires("sweep")
            .help("Write the chart of a sweep to FILE"),
        flag("json", "Print the result as JSON"),
    ]
}

impl Bench {
    /// Reads what was asked for; an error names the option, the value and what it may be.
    pub(super) fn read(matches: &ArgMatches) -> Result<Bench, String> {
        let text = |name: &str| matches.get_one::<String>(name).cloned();
        let number = |name: &str| matches.get_one::<u64>(name).copied();
        let workload = read_workload(matches)?;
        let is_several = text("vs").is_some() || matches.get_flag("floor");
        let default_rounds = if is_several { ROUNDS_OF_SEVERAL } else { 1 };
        let bench = Bench {
            server: text("server").unwrap_or_default(),
            vs: text("vs"),
            floor: matches.get_flag("floor"),
            pid: number("pid").and_then(|pid| u32::try_from(pid).ok()),
            listen: text("listen")
                .and_then(|name| named(LISTENS, &name))
                .unwrap_or(Listen::Tcp),
            tls: tls::read(matches)?,
            pin: matches.get_flag("pin"),
            rounds: number("rounds").unwrap_or(default_rounds) as usize,
            protocol: text("protocol")
                .and_then(|name| named(PROTOCOLS, &name))
                .unwrap_or(Protocol::Text),
            verify: !matches.get_flag("no-verify"),
            load: read_load(matches, &workload)?,
            fill: matches.get_flag("fill"),
            workload,
            rates: read_rates(matches)?,
            target_p99_ms: positive(matches, "target-p99")?.unwrap_or_default(),
            svg: matches.get_one::<PathBuf>("svg").cloned(),
            json: matches.get_flag("json"),
        };
        bench.check()?;
        Ok(bench)
    }

    /// Refuses what does not go together.
    fn check(&self) -> Result<(), String> {
        let uses_udp = self.listen == Listen::Udp
            || self.server.starts_with("udp://")
            || self.vs.as_ref().is_some_and(|vs| vs.starts_with("udp://"));
        let load = &self.load;
        if load.connections < load.threads {
            return Err(format!(
                "--connections {} for --threads {}: each thread needs one at least",
                load.connections, load.threads
            ));
        }
        if load.noreply && load.rate.is_some() {
            return Err("--noreply does not go with --rate: what is not answered has no latency".to_owned());
        }
        if load.noreply
            && self.workload.mix.get + self.workload.mix.delete > 0.0
            && !self.workload.is_phased()
        {
            return Err("--noreply is for --mix set=1: what is asked for is answered".to_owned());
        }
        if uses_udp && (self.workload.mix != Mix::GETS || self.workload.is_phased()) {
            return Err("over UDP there are gets only; --fill goes by TCP to the same port".to_owned());
        }
        if uses_udp && (self.tls.is_some() || load.reconnect || load.refill) {
            return Err("over UDP there is no --tls, --connect or --refill".to_owned());
        }
        let is_for_uring =
            load.rate.is_none() && self.rates.is_none() && !load.reconnect && self.tls.is_none() && !uses_udp;
        if load.driver == Some(Kind::Uring) && !is_for_uring {
            return Err(
                "--io-driver io_uring is for connections that stay: leave it out with --rate, --rates, --connect, --tls and UDP".to_owned(),
            );
        }
        if load.reconnect && load.pipeline > 1 && (load.rate.is_some() || self.rates.is_some()) {
            return Err(format!(
                "--pipeline {}: with --connect at a rate, each request has a connection of its own",
                load.pipeline
            ));
        }
        if uses_udp && load.pipeline > UDP_PIPELINE_MAX {
            return Err(format!(
                "--pipeline {}: over UDP at most {UDP_PIPELINE_MAX} requests are in flight on a socket",
                load.pipeline
            ));
        }
        Ok(())
    }
}

fn read_load(matches: &ArgMatches, workload: &Workload) -> Result<Load, String> {
    let number = |name: &str| matches.get_one::<u64>(name).copied();
    let secs = |name: &str| Ok::<_, String>(positive(matches, name)?.map(Duration::from_secs_f64));
    let has_end = number("requests").is_some() || workload.is_phased() || workload.requests.is_some();
    let duration = match secs("duration")? {
        None if !has_end => Some(Duration::from_secs_f64(SECS_DEFAULT)),
        given => given,
    };
    let connections = number("connections").unwrap_or(workload.connections);
    Ok(Load {
        threads: number("threads").unwrap_or(1) as usize,
        connections: connections as usize,
        pipeline: number("pipeline").unwrap_or(1) as usize,
        noreply: matches.get_flag("noreply"),
        refill: matches.get_flag("refill") || workload.refill,
        reconnect: matches.get_flag("connect"),
        rate: positive(matches, "rate")?,
        duration,
        warmup: secs("warmup")?.unwrap_or_default(),
        timeout: secs("timeout")?.unwrap_or_default(),
        counts_syscalls: matches.get_flag("syscalls"),
        cores: None,
        driver: matches
            .get_one::<String>("io-driver")
            .and_then(|name| Kind::of_name(name)),
    })
}

fn read_workload(matches: &ArgMatches) -> Result<Workload, String> {
    let text = |name: &str| matches.get_one::<String>(name);
    let number = |name: &str| matches.get_one::<u64>(name).copied();
    let mut workload = match text("workload") {
        Some(name) => Workload::named(name)?,
        None => Workload::default(),
    };
    if let Some(keys) = number("keys") {
        workload.keys = keys;
    }
    if let Some(&factor) = matches.get_one::<f64>("scale") {
        workload.scale(factor)?;
    }
    if let Some(len) = number("key-size") {
        workload.set_key_len(len as u32)?;
    }
    if let Some(value) = text("value-size") {
        workload.value_len = match parse_amount(value) {
            Some(amount) if amount.max() <= VALUE_LEN_MAX => amount,
            Some(_) => return Err(format!("--value-size {value}: at most {VALUE_LEN_MAX} bytes")),
            None => {
                Shape::open(value)
                    .map_err(|why| format!("--value-size {why}"))?
                    .value_len
            }
        };
    }
    if let Some(value) = text("popularity") {
        workload.popularity = parse_popularity(value)?;
    }
    if let Some(value) = text("mix") {
        workload.mix = parse_mix(value)?;
    }
    if let Some(value) = text("ttl") {
        let amount = parse_amount(value).filter(|amount| amount.max() <= TTL_MAX);
        workload.ttl =
            amount.ok_or_else(|| format!("--ttl {value}: give seconds from 0 to {TTL_MAX}, or MIN-MAX"))?;
    }
    workload.multiget = number("multiget").unwrap_or(1) as usize;
    workload.requests = number("requests").or(workload.requests);
    workload.seed = number("seed").unwrap_or(1);
    workload.expect_hits |= matches.get_flag("expect-hits");
    Ok(workload)
}

fn read_rates(matches: &ArgMatches) -> Result<Option<Vec<f64>>, String> {
    let Some(rates) = matches.get_many::<f64>("rates") else {
        return Ok(None);
    };
    let rates: Vec<f64> = rates.copied().collect();
    match rates.iter().find(|rate| !(**rate > 0.0 && **rate <= RATE_MAX)) {
        Some(rate) => Err(format!(
            "--rates {rate}: give numbers above 0, at most {RATE_MAX}"
        )),
        None => Ok(Some(rates)),
    }
}

/// A number above 0, where `warmup` may be 0 too.
fn positive(matches: &ArgMatches, name: &str) -> Result<Option<f64>, String> {
    // A year is longer than anybody measures, and no clock ends there.
    const MAX: f64 = 31_536_000.0;
    let Some(&value) = matches.get_one::<f64>(name) else {
        return Ok(None);
    };
    let max = if name == "rate" { RATE_MAX } else { MAX };
    let is_good = value > 0.0 || (name == "warmup" && value == 0.0);
    if !is_good || value > max {
        return Err(format!("--{name} {value}: give a number above 0, at most {max}"));
    }
    Ok(Some(value))
}

/// Reads `N` or `MIN-MAX`; none if it is neither.
fn parse_amount(text: &str) -> Option<Amount> {
    if let Ok(amount) = text.parse() {
        return Some(Amount::Fixed(amount));
    }
    let (low, high) = text.split_once('-')?;
    let (low, high) = (low.parse().ok()?, high.parse().ok()?);
    (low <= high).then_some(Amount::Between(low, high))
}

fn parse_popularity(text: &str) -> Result<Popularity, String> {
    if text == "uniform" {
        return Ok(Popularity::Uniform);
    }
    let Some(alpha) = text.strip_prefix("zipf:") else {
        return Ok(Shape::open(text)
            .map_err(|why| format!("--popularity {why}"))?
            .popularity);
    };
    let alpha = f64::from_str(alpha)
        .ok()
        .filter(|alpha| (0.0..=10.0).contains(alpha));
    alpha
        .map(Popularity::Zipf)
        .ok_or_else(|| format!("--popularity {text}: give an alpha from 0 to 10, such as zipf:0.99"))
}

fn parse_mix(text: &str) -> Result<Mix, String> {
    let explain = || format!("--mix {text}: write shares such as get=90,set=10,delete=0");
    let mut mix = Mix {
        get: 0.0,
        set: 0.0,
        delete: 0.0,
    };
    for part in text.split(',') {
        let (name, share) = part.split_once('=').ok_or_else(explain)?;
        let share = share
            .parse::<f64>()
            .ok()
            .filter(|share| share.is_finite() && *share >= 0.0);
        let share = share.ok_or_else(explain)?;
        match name {
            "get" => mix.get = share,
            "set" => mix.set = share,
            "delete" => mix.delete = share,
            _ => return Err(explain()),
        }
    }
    if mix.get + mix.set + mix.delete == 0.0 {
        return Err(explain());
    }
    Ok(mix)
}

#[cfg(test)]
mod tests {
    use super::{Bench, command};

    fn read(line: &str) -> Result<Bench, String> {
        let words = std::iter::once("bench").chain(line.split_whitespace());
        let matches = command()
            .try_get_matches_from(words)
            .map_err(|error| error.to_string())?;
        Bench::read(&matches)
    }

    #[test]
    fn what_is_said_changes_the_workload_that_is_named() {
        let bench = read("--workload queue --value-size 10-20 --scale 0.5").expect("good");
        assert_eq!((bench.load.connections, bench.workload.keys), (8, 40_000));
        assert_eq!(bench.workload.value_len.mean(), 15.0);
        assert_eq!(
            read("--connections 3 --workload queue")
                .expect("good")
                .load
                .connections,
            3
        );
        assert!(read("").expect("good").load.duration.is_some());
        assert!(read("--requests 5").expect("good").load.duration.is_none());
        assert_eq!(
            (
                read("--floor").expect("good").rounds,
                read("").expect("good").rounds
            ),
            (5, 1)
        );
    }

    #[test]
    fn what_does_not_go_together_or_is_out_of_range_is_refused_with_its_value() {
        let check = |line: &str, says: &str| {
            let why = read(line).expect_err(line);
            assert!(why.contains(says), "{line}: {why}");
        };
        check("--threads 4 --connections 3", "--connections 3 for --threads 4");
        check("--noreply --rate 5", "--noreply does not go with --rate");
        check(
            "--io-driver io_uring --connect",
            "--io-driver io_uring is for connections that stay",
        );
        check("--noreply", "--mix set=1");
        check("--server udp://127.0.0.1:1 --mix set=1", "gets only");
        check(
            "--server udp://127.0.0.1:1 --pipeline 257",
            "at most 256 requests",
        );
        check("--mix get=x", "--mix get=x");
        check("--mix put=1", "--mix put=1");
        check("--mix get=0", "--mix get=0");
        check("--ttl 9999999", "--ttl 9999999");
        check("--value-size 9-5", "9-5");
        check("--value-size 2000000000", "at most 1073741824 bytes");
        check("--popularity zipf:x", "zipf:0.99");
        check("--duration 0", "--duration 0");
        check("--rate nan", "--rate NaN");
        check("--workload article-test1 --scale 0", "--scale 0");
        check("--rates 1,0", "--rates 0");
        check("--rates 1,2 --rate 3", "cannot be used with");
        check("--tls", "--tls-ca FILE or --tls-no-verify");
        check("--tls-ca file", "--tls");
        check("--tls --tls-ca /no/such.pem", "--tls-ca /no/such.pem: ");
        check("--tls --tls-no-verify --tls-name a/b", "--tls-name");
        check("--tls --tls-no-verify --server udp://127.0.0.1:1", "no --tls");
        check("--connect --pipeline 2 --rate 5", "--pipeline 2");
        check("--workload nothing", "nothing");
        check("--key-size 3 --workload article-test1", "--key-size 3");
        check("--protocol http", "http");
    }
}
