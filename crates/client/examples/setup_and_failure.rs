//! What it costs to begin with four servers, and to lose one: `cargo run --release --example setup_and_failure -- PATH_OF_SCRUBJAY`
//!
//! Starts four servers, prints percentiles of many rounds. Nothing is asserted: the numbers depend on the machine.

use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use scrubjay_client::config::{Failover, parse_server};
use scrubjay_client::placement::Server;
use scrubjay_client::protocol::{Get, Reply, Request};
use scrubjay_client::{Call, Client, Config, Error, State};

const ROUNDS: usize = 1000;

/// Four servers on TCP ports, and one on a socket that stays when it is started again.
struct Fleet {
    program: PathBuf,
    folder: PathBuf,
    children: Vec<Child>,
    ports: Vec<u16>,
}

impl Fleet {
    fn start(program: &str) -> Fleet {
        let folder = std::env::temp_dir().join(format!("scrubjay-costs-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let mut fleet = Fleet {
            program: program.into(),
            folder,
            children: Vec::new(),
            ports: Vec::new(),
        };
        let child = fleet.start_on_socket();
        fleet.children.push(child);
        for number in 0..4 {
            let file = fleet.folder.join(format!("port{number}"));
            let mut command = fleet.command();
            command.args(["-p", "-1"]).env("MEMCACHED_PORT_FILENAME", &file);
            fleet
                .children
                .push(command.spawn().expect("the path of a scrubjay"));
            fleet.ports.push(wait_for(|| port(&file)));
        }
        fleet
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["-t", "1", "-m", "64"]).stderr(Stdio::null());
        command
    }

    fn socket(&self) -> String {
        self.folder.join("socket").display().to_string()
    }

    fn start_on_socket(&self) -> Child {
        let mut command = self.command();
        let child = command.args(["-s", &self.socket()]).spawn();
        wait_for(|| UnixStream::connect(self.socket()).ok());
        child.expect("the path of a scrubjay")
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn wait_for<T>(ask: impl Fn() -> Option<T>) -> T {
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The port of the file's first line, once it is written.
fn port(file: &Path) -> Option<u16> {
    let text = std::fs::read_to_string(file).ok()?;
    text.lines().next()?.rsplit(' ').next()?.parse().ok()
}

fn get(client: &Client, key: &str) -> Result<Reply, Error> {
    client.call(Request::Get(Get::new(key.as_bytes())), Call::default())
}

fn tell(what: &str, times: &mut [Duration]) -> Duration {
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    println!(
        "{what:44} p50 {:>10.1?}  p99 {:>10.1?}  max {:>10.1?}",
        at(0.5),
        at(0.99),
        at(1.0)
    );
    at(0.5)
}

fn main() {
    let program = std::env::args().nth(1).expect("the path of a scrubjay");
    let mut fleet = Fleet::start(&program);
    set_up(&fleet);
    first_and_steady(&fleet);
    shares(&fleet);
    silence();
    death(&mut fleet);
}

/// K01, K03, K06: a client from text, and its first get.
fn set_up(fleet: &Fleet) {
    let round = |weight: u32, scheme: &str, servers: usize| {
        let start = Instant::now();
        let mut config = Config::new(Vec::new());
        for port in &fleet.ports[..servers] {
            let server = parse_server(&format!("127.0.0.1:{port}*{weight}")).expect("a server");
            config.servers.push(server);
        }
        config.set("scheme", scheme).expect("a scheme");
        let client = Client::new(config).expect("servers");
        get(&client, "first").expect("a reply");
        start.elapsed()
    };
    for (servers, scheme) in [
        (1, "ring"),
        (4, "ring"),
        (4, "ketama"),
        (4, "php-memcache-consistent-crc32"),
    ] {
        for weight in [1, 2, 10, 50, 100] {
            let mut times: Vec<_> = (0..ROUNDS).map(|_| round(weight, scheme, servers)).collect();
            tell(
                &format!("set-up and first get, {servers} x {weight}, {scheme}"),
                &mut times,
            );
        }
    }
}

/// K08: connected, the first get is as quick as the others.
fn first_and_steady(fleet: &Fleet) {
    let (mut first, mut steady) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let servers = fleet.ports.iter().map(|port| Server::new("127.0.0.1", *port));
        let client = Client::new(Config::new(servers.collect())).expect("four servers");
        for number in 0..40 {
            get(&client, &format!("warm{number}")).expect("a reply");
        }
        // Another request, as it were: it has the client from the one before.
        let client = client.clone();
        for number in 0..10 {
            let start = Instant::now();
            get(&client, &format!("k{number}")).expect("a reply");
            let times = if number == 0 { &mut first } else { &mut steady };
            times.push(start.elapsed());
        }
    }
    let first = tell("first get, connected before", &mut first);
    let steady = tell("steady get", &mut steady);
    println!(
        "first / steady: {:.2}",
        first.as_secs_f64() / steady.as_secs_f64()
    );
}

/// K07: what each server got of 100,000 keys, by the client's own count.
fn shares(fleet: &Fleet) {
    let servers = fleet.ports.iter().map(|port| Server::new("127.0.0.1", *port));
    let client = Client::new(Config::new(servers.collect())).expect("four servers");
    for number in 0..100_000 {
        get(&client, &format!("key:{number}")).expect("a reply");
    }
    for server in client.statistics() {
        let counters = server.counters;
        println!(
            "{} got {} requests, {:.1} %; wait p50 {:?} p99 {:?}, wire p50 {:?}, parse p50 {:?}",
            server.server,
            counters.requests,
            counters.requests as f64 / 1000.0,
            server.times.wait.quantile(0.5),
            server.times.wait.quantile(0.99),
            server.times.wire.quantile(0.5),
            server.times.parse.quantile(0.5),
        );
    }
}

/// K04: how long a call takes beyond its time-out, with a server that says nothing and with one that drops SYN.
fn silence() {
    const TIMEOUT: Duration = Duration::from_millis(50);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let round = || {
        let mut config = Config::new(vec![Server::new("127.0.0.1", address.port())]);
        config.timeout = TIMEOUT;
        config.failure_limit = 1;
        config.retry_interval = Duration::from_secs(60);
        let client = Client::new(config).expect("one server");
        let start = Instant::now();
        get(&client, "k").expect_err("no reply");
        let first = start.elapsed();
        let start = Instant::now();
        get(&client, "k").expect_err("no reply");
        (first.saturating_sub(TIMEOUT), start.elapsed())
    };
    let (mut beyond, mut skipped): (Vec<_>, Vec<_>) = (0..40).map(|_| round()).unzip();
    tell("never answers: beyond the time-out", &mut beyond);
    tell("and then skipped, a call", &mut skipped);
    rustix::net::listen(&listener, 0).expect("a shorter queue");
    let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(100));
    let _waiting: Vec<_> = std::iter::from_fn(|| connect().ok()).collect();
    let (mut beyond, mut skipped): (Vec<_>, Vec<_>) = (0..40).map(|_| round()).unzip();
    tell("drops SYN: beyond the time-out", &mut beyond);
    tell("and then skipped, a call", &mut skipped);
}

/// K12: one of four is killed and started again while its keys are asked for.
fn death(fleet: &mut Fleet) {
    let mut servers = vec![Server::new(fleet.socket(), 0)];
    servers.extend(
        fleet.ports[..3]
            .iter()
            .map(|port| Server::new("127.0.0.1", *port)),
    );
    let mut config = Config::new(servers);
    config.failover = Failover::Miss;
    let interval = config.retry_interval;
    let client = Client::new(config).expect("four servers");
    let failures = || client.statistics()[0].counters.failures();
    let state = || client.statistics()[0].state;
    let ask_all = || (0..100).for_each(|number| drop(get(&client, &format!("k{number}"))));
    ask_all();
    fleet.children[0].kill().expect("our child");
    fleet.children[0].wait().expect("our child");
    let start = Instant::now();
    let mut last_failure = start;
    while start.elapsed() < interval / 2 {
        let before = failures();
        ask_all();
        if failures() > before {
            last_failure = Instant::now();
        }
    }
    println!(
        "killed: {} failures, the last after {:?}",
        failures(),
        last_failure - start
    );
    let key = (0..).map(|number| format!("k{number}"));
    let key = key
        .into_iter()
        .find(|key| client.place(key.as_bytes()).get() == 0)
        .expect("it has keys");
    let mut misses: Vec<_> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            get(&client, &key).expect("a miss");
            start.elapsed()
        })
        .collect();
    tell("a miss of a dead server's key", &mut misses);
    fleet.children[0] = fleet.start_on_socket();
    let there = Instant::now();
    while state() != State::Up {
        get(&client, &key).expect("a miss");
    }
    println!(
        "up again {:?} after its death, {:?} after it was there; the interval is {interval:?}",
        start.elapsed(),
        there.elapsed()
    );
}
