//! `scrubjay serve`: from the command line to a running cache server, and back to a clean end.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::ArgMatches;
use scrubjay_cache::Cache;
use scrubjay_io::clock::Clock;
use scrubjay_io::driver::epoll::Listener;
use scrubjay_io::entropy;
use scrubjay_io::process::{self, Launcher, PidFile, Signal};
use scrubjay_io::thread::{Bell, spawn};
use scrubjay_net::{Control, Counters, Limits, Stop};
use scrubjay_server::options::{self, EXIT_NO_USER, EXIT_OS, Environment, OptionError, Options};
use scrubjay_server::service::{CacheService, Shared};

use crate::args::VERSION;

const LICENSE: &str = include_str!("../../../../LICENSE");

/// How often the cache is looked after when nothing is urgent.
const MAINTENANCE_PERIOD: Duration = Duration::from_millis(250);

/// Files that are open besides connections: listeners, event queues, the binary's own.
const OTHER_FILES: u64 = 64;

/// How long the cache is left alone when more work is waiting.
const MAINTENANCE_PAUSE: Duration = Duration::from_millis(1);

/// Bytes that an open connection takes of the budget with nothing in flight.
const CONNECTION_BYTES: u64 = 512;

/// Connections may hold this share of the memory limit (one over it) for what is in flight, and at least this much.
const CONNECTION_SHARE: u64 = 2;
const CONNECTION_MIN: u64 = 1 << 20;

/// What a connection over the limit is told. Source: memcached 1.6.18, run.
const TOO_MANY_CONNECTIONS: &[u8] = b"ERROR Too many open connections\r\n";

/// Runs the server until it is told to stop.
pub fn run(matches: &ArgMatches) -> ExitCode {
    if matches.get_flag("license") {
        return super::generate::print(format!("scrubjay {VERSION}\n\n{LICENSE}").as_bytes());
    }
    match serve(matches) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => crate::fail(&error.message, error.exit),
    }
}

fn serve(matches: &ArgMatches) -> Result<(), OptionError> {
    let environment = Environment {
        memory_limit: scrubjay_io::cgroup::memory_limit(),
        is_root: process::is_root(),
    };
    let options = options::resolve(matches, &environment)?;
    options.notices.iter().for_each(|notice| say(notice));
    settle_limits(&options)?;
    settle_user(&options, environment.is_root)?;
    // The last moment with one thread and nothing in memory that a new process would not inherit.
    let launcher = if options.daemon {
        Some(process::detach().map_err(|error| refused("-d: cannot go into the background", error))?)
    } else {
        None
    };
    process::block_signals();
    serve_requests(options, launcher)
}

fn settle_limits(options: &Options) -> Result<(), OptionError> {
    if options.core_dumps {
        process::allow_core_dumps().map_err(|error| refused("-r: cannot allow core dumps", error))?;
    }
    let files = options.conn_limit as u64 + OTHER_FILES;
    process::raise_open_files(files).map_err(|error| {
        let what = format!(
            "-c {0}: cannot open {files} files; lower -c or raise ulimit -n",
            options.conn_limit
        );
        refused(&what, error)
    })
}

fn settle_user(options: &Options, is_root: bool) -> Result<(), OptionError> {
    let Some(name) = options.user.as_deref().filter(|_| is_root) else {
        return Ok(());
    };
    let user = process::find_user(name).ok_or_else(|| OptionError {
        message: format!("-u {name}: there is no such user; create it or name another"),
        exit: EXIT_NO_USER,
    })?;
    process::become_user(user).map_err(|error| refused(&format!("-u {name}: cannot become this user"), error))
}

fn refused(what: &str, error: impl std::fmt::Display) -> OptionError {
    OptionError {
        message: format!("{what}: {error}"),
        exit: EXIT_OS,
    }
}

fn say(text: &str) {
    eprintln!("scrubjay: {text}");
}

fn serve_requests(options: Options, launcher: Option<Launcher>) -> Result<(), OptionError> {
    let clock = Clock::start();
    let config = options.cache_config(clock.unix_millis_at_start(), entropy::seed());
    let cache = Cache::new(config).map_err(|error| {
        let memory = bytes_text(options.memory_max as u64);
        refused(&format!("cannot start with {memory}"), error)
    })?;
    let listeners = listen(&options)?;
    let tcp: Vec<SocketAddr> = listeners.iter().filter_map(Listener::address).collect();
    let pid_file = write_files(&options, &tcp);
    let background = launcher.is_some();
    if let Some(launcher) = launcher {
        let keep_output = options.verbosity > 0;
        launcher
            .release(keep_output, options.core_dumps)
            .map_err(|error| refused("-d", error))?;
    } else {
        eprintln!("{}", banner(&options, &tcp));
    }
    if options.verbosity > 1 {
        say(&layout(&cache.usage()));
    }
    let net_config = scrubjay_net::Config {
        workers: options.threads,
        limits: Limits {
            connections_max: options.conn_limit,
            refusal: options.reject_over_limit.then_some(TOO_MANY_CONNECTIONS),
            idle_timeout_secs: options.idle_timeout_secs,
        },
    };
    let shared = Shared::new(Arc::clone(&cache), options);
    let verbosity = shared.verbosity.load(Ordering::Relaxed);
    start_helpers(&cache, clock, &shared.control, &shared.net, verbosity)
        .map_err(|error| refused("cannot start a thread", error))?;
    let ran = scrubjay_net::run(
        &net_config,
        clock,
        &listeners,
        &shared.net,
        &shared.control,
        |_| CacheService::new(&shared),
    );
    drop(pid_file);
    if !background {
        say("stopped");
    }
    ran.map_err(|error| refused("the server had to stop", error))
}

/// Opens all sockets, or says which one cannot be opened.
fn listen(options: &Options) -> Result<Vec<Listener>, OptionError> {
    let mut listeners = Vec::new();
    if let Some(path) = &options.unix_socket {
        let listener = Listener::unix(Path::new(path), options.unix_mask, options.listen_backlog);
        listeners.push(listener.map_err(|error| refused(&format!("-s {path}: cannot listen there"), error))?);
    }
    for (address, is_needed) in tcp_addresses(options)? {
        match Listener::tcp(address, options.listen_backlog) {
            Ok(listener) => listeners.push(listener),
            Err(error) if is_needed => {
                let advice = match error.kind() {
                    std::io::ErrorKind::AddrInUse => {
                        "another server is there; stop it, or choose another port with -p"
                    }
                    std::io::ErrorKind::AddrNotAvailable => {
                        "it is no address of this machine; choose another with -l"
                    }
                    std::io::ErrorKind::PermissionDenied => {
                        "ports below 1024 are for root; choose another with -p"
                    }
                    _ => "choose another address with -l or port with -p",
                };
                return Err(refused(&format!("cannot listen on {address} ({advice})"), error));
            }
            Err(_) => {}
        }
    }
    Ok(listeners)
}

/// Writes pid file and port file. As in memcached the server goes on without them.
fn write_files(options: &Options, tcp: &[SocketAddr]) -> Option<PidFile> {
    // memcached writes no port file beside a Unix socket.
    if options.unix_socket.is_none()
        && let Err(error) = process::write_port_file(tcp)
    {
        say(&format!(
            "MEMCACHED_PORT_FILENAME: cannot write this file: {error}"
        ));
    }
    let path = options.pid_file.as_deref()?;
    match PidFile::write(path) {
        Ok((file, other)) => {
            if let Some(pid) = other {
                say(&format!(
                    "warning: -P {path} named another live process, {pid}; it names this one now"
                ));
            }
            Some(file)
        }
        Err(error) => {
            say(&format!("-P {path}: cannot write this file: {error}"));
            None
        }
    }
}

/// Starts the threads beside the workers: one takes signals, one looks after the cache. They end with the process.
fn start_helpers(
    cache: &Arc<Cache>,
    clock: Clock,
    control: &Arc<Control>,
    net: &Arc<Counters>,
    verbosity: u8,
) -> std::io::Result<()> {
    let stopper = Arc::clone(control);
    let control = Arc::clone(control);
    spawn("signals", move || {
        loop {
            let signal = process::wait_signal();
            let is_stopping = stopper.stop() != Stop::No;
            match signal {
                Signal::Reload => say("SIGHUP: there is nothing to read anew"),
                // Whoever asks twice is in a hurry.
                Signal::Stop if is_stopping => stopper.stop_now(),
                Signal::Stop | Signal::StopGracefully => stopper.stop_gracefully(),
            }
        }
    })?;
    let (cache, net) = (Arc::clone(cache), Arc::clone(net));
    spawn("maintenance", move || {
        let bell = Bell::default();
        let mut may_tell_of_huge_pages = verbosity > 0;
        loop {
            let held = net.memory.held() + net.curr_connections.load(Ordering::Relaxed) * CONNECTION_BYTES;
            cache.set_held_beside(held);
            net.memory
                .set_limit((cache.usage().memory_max / CONNECTION_SHARE).max(CONNECTION_MIN));
            let is_more = cache.maintain(clock.now());
            if may_tell_of_huge_pages && let Some(error) = cache.huge_page_refusal() {
                may_tell_of_huge_pages = false;
                say(&format!(
                    "no huge page to be had: {error}; tried again now and then, -o no_huge_pages ends that"
                ));
            }
            if cache.is_held_by_readers() {
                control.copy_out(&net.memory);
            }
            bell.wait(if is_more {
                MAINTENANCE_PAUSE
            } else {
                MAINTENANCE_PERIOD
            });
        }
    })
}

/// What the server says when it is up: one screen.
fn banner(options: &Options, tcp: &[SocketAddr]) -> String {
    let tcp = tcp.iter().map(|address| format!("{address} (TCP)"));
    let unix = options
        .unix_socket
        .iter()
        .map(|path| format!("{path} (Unix socket)"));
    let mut listening = tcp.chain(unix).collect::<Vec<_>>().join(", ");
    if listening.is_empty() {
        listening = "nowhere".to_owned();
    }
    let pid = std::process::id();
    let mut text = format!(
        "scrubjay {VERSION}\n\
         listens on  {listening}\n\
         memory      {} (-m), items up to {} (-I){}\n\
         work        {} threads (-t), up to {} connections (-c)\n\
         to stop     Ctrl-C or kill {pid}; kill -USR1 {pid} lets connections finish",
        bytes_text(options.memory_max as u64),
        bytes_text(options.item_size_max as u64),
        if options.evict { "" } else { ", no evictions (-M)" },
        options.threads,
        options.conn_limit,
    );
    if options.listen.is_empty() && !options.tcp_addresses().is_empty() {
        text.push_str("\nOnly this machine can connect; to serve the network, start with -l 0.0.0.0");
    }
    text
}

/// How the memory is laid out, for -vv.
fn layout(usage: &scrubjay_cache::Usage) -> String {
    format!(
        "memory layout: {} segments of {} bytes, index {} bytes, limit {} bytes",
        usage.segments_total, usage.segment_size, usage.index_bytes, usage.memory_max
    )
}

/// Bytes for people, in mebibytes or kibibytes where they are whole.
fn bytes_text(bytes: u64) -> String {
    match bytes {
        _ if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} bytes"),
    }
}

/// The socket addresses behind `-l` and `-p`, looked up, and whether the server cannot do without each.
fn tcp_addresses(options: &Options) -> Result<Vec<(SocketAddr, bool)>, OptionError> {
    let mut all = Vec::new();
    for (host, port) in options.tcp_addresses() {
        let Some(host) = host else {
            all.push((SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)), true));
            // A machine may have no IPv6.
            all.push((SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)), false));
            continue;
        };
        let what = format!("-l {host}: no such address; give one of this machine's, or 0.0.0.0 for all");
        let found = (host, port)
            .to_socket_addrs()
            .map_err(|error| refused(&what, error))?;
        all.extend(found.map(|address| (address, true)));
    }
    Ok(all)
}
