//! `scrubjay serve`: from the command line to a running cache server, and back to a clean end.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use clap::ArgMatches;
use scrubjay_cache::Cache;
use scrubjay_io::clock::Clock;
use scrubjay_io::driver::choice::{self, Drivers};
use scrubjay_io::driver::epoll::Epoll;
use scrubjay_io::driver::{Driver, Listener, Socket, datagrams};
use scrubjay_io::entropy;
use scrubjay_io::process::{self, Launcher, PidFile, Signal};
use scrubjay_io::thread::{Bell, spawn};
use scrubjay_net::udp::{Policy, Words};
use scrubjay_net::{Limits, Stop, UdpConfig};
use scrubjay_server::options::{self, EXIT_NO_USER, EXIT_OS, EXIT_USAGE, Environment, OptionError, Options};
use scrubjay_server::service::{CacheService, Shared};
use scrubjay_server::watch;
use scrubjay_tls::{Certificate, Secure, Tls};

use super::users::UsersFile;
use crate::args::VERSION;

const LICENSE: &str = include_str!("../../../../LICENSE");

/// How often the cache is looked after when nothing is urgent.
const MAINTENANCE_PERIOD: Duration = Duration::from_millis(250);

/// Files that are open besides connections: listeners, event queues, the binary's own.
const OTHER_FILES: u64 = 64;

/// How often the files of certificates are looked at.
const CERTIFICATES_PERIOD: Duration = Duration::from_secs(1);

/// How long the cache is left alone when more work is waiting.
const MAINTENANCE_PAUSE: Duration = Duration::from_millis(1);

/// Bytes that an open connection takes of the budget with nothing in flight: itself, and as much again for its part of chunks and
/// lists.
const CONNECTION_BYTES: u64 = 2 * scrubjay_net::resting_len::<Secure<Epoll>, CacheService>() as u64;

const _: () = assert!(
    CONNECTION_BYTES <= 2 * 96,
    "there may be a hundred thousand idle ones"
);

/// Connections may hold this share of the memory limit (one over it) for what is in flight, and at least this much.
const CONNECTION_SHARE: u64 = 2;
const CONNECTION_MIN: u64 = 1 << 20;

/// What a connection over the limit is told. Source: memcached 1.6.18, run.
const TOO_MANY_CONNECTIONS: &[u8] = b"ERROR Too many open connections\r\n";

/// What a connection over the limit of its address is told.
const TOO_MANY_OF_ADDRESS: &[u8] = b"ERROR Too many open connections from this address\r\n";

/// What is answered to datagrams instead of a reply. Source of the first: memcached's protocol.txt; 1.6.18 makes it and
/// sends nothing.
const SPLIT_REQUEST: &[u8] = b"SERVER_ERROR multi-packet request not supported\r\n";
const INCOMPLETE_REQUEST: &[u8] = b"CLIENT_ERROR the datagram ends in the middle of a request\r\n";
const CONNECTION_NEEDED: &[u8] = b"CLIENT_ERROR this is answered by TCP only\r\n";
const REPLY_TOO_LARGE: &[u8] = b"SERVER_ERROR reply too large for UDP; ask for less at a time, or by TCP\r\n";
const REPLY_NOT_ALLOWED: &[u8] = b"SERVER_ERROR reply too large\r\n";

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
    settle_cpus(&options)?;
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
    let admin = options
        .admin
        .as_ref()
        .map_or(0, |_| scrubjay_admin::CONNECTIONS_MAX);
    let files = (options.conn_limit + admin) as u64 + OTHER_FILES;
    process::raise_open_files(files).map_err(|error| {
        let what = format!(
            "-c {0}: cannot open {files} files; lower -c or raise ulimit -n",
            options.conn_limit
        );
        refused(&what, error)
    })
}

fn settle_cpus(options: &Options) -> Result<(), OptionError> {
    let there = scrubjay_io::thread::cores();
    let Some(missing) = options.cpus.iter().find(|cpu| !there.contains(cpu)) else {
        return Ok(());
    };
    let list = options::cpus_text(&options.cpus);
    let there = options::cpus_text(&there);
    Err(OptionError {
        message: format!(
            "-o worker_cpus={list}: this process cannot run on CPU {missing}; it may on {there} (nproc, taskset and cpuset say so)"
        ),
        exit: EXIT_USAGE,
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

fn serve_requests(mut options: Options, launcher: Option<Launcher>) -> Result<(), OptionError> {
    let users = UsersFile::open(&options)?;
    let clock = Clock::start();
    let tls = load_certificates(&options, clock)?;
    let config = options.cache_config(clock.unix_millis_at_start(), entropy::seed());
    let cache = Cache::new(config).map_err(|error| {
        let memory = bytes_text(options.memory_max as u64);
        refused(&format!("cannot start with {memory}"), error)
    })?;
    let places = listen(&options)?;
    let tcp: Vec<SocketAddr> = places.iter().filter_map(|place| place.socket.address()).collect();
    let datagrams = open_datagrams(&options)?;
    let udp: Vec<SocketAddr> = datagrams.iter().map(|(address, _)| *address).collect();
    let admin = open_admin(&options)?;
    let admin_places: Vec<SocketAddr> = admin.iter().filter_map(Listener::address).collect();
    let (drivers, driver_words) = open_drivers(&mut options, clock)?;
    let pid_file = write_files(&options, &tcp, &udp, &admin_places);
    let background = launcher.is_some();
    if let Some(launcher) = launcher {
        let keep_output = options.verbosity > 0;
        launcher
            .release(keep_output, options.core_dumps)
            .map_err(|error| refused("-d", error))?;
    } else {
        eprintln!(
            "{}",
            banner(&options, &driver_words, &places, &udp, &admin_places)
        );
    }
    if options.verbosity > 1 {
        say(&layout(&cache.usage()));
    }
    let listeners: Vec<_> = places
        .into_iter()
        .map(|place| place.guarded(tls.as_ref()))
        .collect();
    let udp = (!datagrams.is_empty()).then(|| scrubjay_net::Udp {
        config: udp_config(&options),
        places: datagrams
            .into_iter()
            .map(|(address, sockets)| (address.port(), sockets))
            .collect(),
    });
    let auth = users.as_ref().map(UsersFile::auth);
    let config = net_config(&options);
    let shared = Shared::new(Arc::clone(&cache), options, auth, tls);
    start_helpers(&shared, clock, users)
        .and_then(|()| start_watch(&shared, clock))
        .and_then(|()| start_admin(&shared, clock, admin))
        .map_err(|error| refused("cannot start a thread", error))?;
    let sockets = scrubjay_net::Sockets { listeners, udp };
    let ran = match drivers {
        Drivers::Epoll(drivers) => run_workers(&config, drivers, sockets, &shared),
        Drivers::Uring(drivers) => run_workers(&config, drivers, sockets, &shared),
    };
    drop(pid_file);
    if !background {
        say("stopped");
    }
    ran.map_err(|error| refused("the server had to stop", error))
}

/// What is served by drivers of either kind.
type Served = scrubjay_net::Sockets<scrubjay_tls::Listener<Listener>, datagrams::Socket>;

fn run_workers<D>(
    config: &scrubjay_net::Config,
    drivers: Vec<D>,
    sockets: Served,
    shared: &Arc<Shared>,
) -> std::io::Result<()>
where
    D: Driver<Listener = Listener, Socket = Socket, Datagrams = datagrams::Socket> + Send,
{
    let drivers = drivers.into_iter().map(Secure::new).collect();
    scrubjay_net::run(config, drivers, sockets, &shared.net, &shared.control, |_| {
        CacheService::new(shared)
    })
}

fn net_config(options: &Options) -> scrubjay_net::Config {
    scrubjay_net::Config {
        cores: options.cpus.clone(),
        limits: Limits {
            connections_max: options.conn_limit,
            refusal: options.reject_over_limit.then_some(TOO_MANY_CONNECTIONS),
            connections_per_address: options.connections_per_address,
            refusal_of_address: TOO_MANY_OF_ADDRESS,
            idle_timeout_secs: options.idle_timeout_secs,
            busy_poll_micros: options.busy_poll_micros,
        },
    }
}

/// Opens a driver for each worker, and notes in the options of which kind they are; and in words, for people.
fn open_drivers(options: &mut Options, clock: Clock) -> Result<(Drivers, String), OptionError> {
    let opened = choice::open(options.io_driver, options.threads, clock).map_err(|error| {
        let what = match options.io_driver {
            Some(kind) => {
                format!("-o io_driver={kind}: it cannot be used here; leave it out to get what works")
            }
            None => "cannot wait for connections".to_owned(),
        };
        refused(&what, error)
    })?;
    let kind = opened.drivers.kind();
    options.io_driver = Some(kind);
    let words = match opened.refusal {
        Some(error) => format!("{kind} (io_uring cannot be used here: {error})"),
        None => kind.to_string(),
    };
    Ok((opened.drivers, words))
}

/// Reads the certificates, if connections are to be encrypted.
fn load_certificates(options: &Options, clock: Clock) -> Result<Option<Arc<Tls>>, OptionError> {
    if !options.tls.enabled {
        return Ok(None);
    }
    let settings = options.tls.settings.clone();
    let loaded = Tls::load(settings, clock.now());
    loaded.map(Some).map_err(|error| OptionError {
        message: error.to_string(),
        exit: EXIT_USAGE,
    })
}

/// A socket that is listened on, and how its connections are guarded.
struct Place {
    socket: Listener,
    guard: Option<Certificate>,
}

impl Place {
    fn guarded(self, tls: Option<&Arc<Tls>>) -> scrubjay_tls::Listener<Listener> {
        match (self.guard, tls) {
            (Some(certificate), Some(tls)) => scrubjay_tls::Listener::secure(self.socket, tls, certificate),
            _ => scrubjay_tls::Listener::plain(self.socket),
        }
    }

    /// What is spoken there, for people.
    fn transport(&self) -> &'static str {
        match self.guard {
            None => "TCP",
            Some(Certificate::NotAsked) => "TLS",
            Some(Certificate::Asked) => "TLS, client certificates checked",
            Some(Certificate::Required) => "TLS, client certificates required",
        }
    }
}

/// Opens all sockets, or says which one cannot be opened.
fn listen(options: &Options) -> Result<Vec<Place>, OptionError> {
    let mut places = Vec::new();
    if let Some(path) = &options.unix_socket {
        let opened = Listener::unix(Path::new(path), options.unix_mask, options.listen_backlog);
        let socket = opened.map_err(|error| refused(&format!("-s {path}: cannot listen there"), error))?;
        places.push(Place { socket, guard: None });
    }
    for (address, guard, is_needed) in tcp_addresses(options)? {
        match Listener::tcp(address, options.listen_backlog) {
            Ok(socket) => places.push(Place { socket, guard }),
            Err(error) if is_needed => {
                let advice = advice_on_listening(error.kind());
                return Err(refused(&format!("cannot listen on {address} ({advice})"), error));
            }
            Err(_) => {}
        }
    }
    Ok(places)
}

/// Opens the sockets of datagrams: for each address one for every worker.
fn open_datagrams(options: &Options) -> Result<Vec<(SocketAddr, Vec<datagrams::Socket>)>, OptionError> {
    let mut all = Vec::new();
    let asked = options.udp_addresses().into_iter().map(|address| (address, ()));
    for (address, (), is_needed) in look_up("-l", asked)? {
        let opened = datagrams::Socket::group(address, options.threads)
            .and_then(|sockets| Ok((sockets[0].address()?, sockets)));
        match opened {
            Ok(opened) => all.push(opened),
            Err(error) if is_needed => {
                let advice = advice_on_listening(error.kind()).replace("-p", "-U");
                return Err(refused(
                    &format!("cannot serve UDP on {address} ({advice})"),
                    error,
                ));
            }
            Err(_) => {}
        }
    }
    Ok(all)
}

/// Opens the sockets where HTTP is answered, if that is asked for.
fn open_admin(options: &Options) -> Result<Vec<Listener>, OptionError> {
    let mut listeners = Vec::new();
    let asked = options.admin_address().into_iter().map(|address| (address, ()));
    for (address, (), is_needed) in look_up("-o admin", asked)? {
        match Listener::tcp(address, options.listen_backlog) {
            Ok(listener) => listeners.push(listener),
            Err(error) if is_needed => {
                let what = format!("-o admin: cannot listen on {address} (choose another address or port)");
                return Err(refused(&what, error));
            }
            Err(_) => {}
        }
    }
    Ok(listeners)
}

/// How datagrams are answered.
fn udp_config(options: &Options) -> UdpConfig {
    let factor = options.udp_amplification;
    UdpConfig {
        policy: Policy {
            allowed: options.udp_allowed.clone(),
            factor,
        },
        words: Words {
            split: SPLIT_REQUEST,
            incomplete: INCOMPLETE_REQUEST,
            soon: CONNECTION_NEEDED,
            too_large: REPLY_TOO_LARGE,
            not_allowed: format!(
                "SERVER_ERROR reply larger than {factor} times the request; allow this network with --udp-allow\r\n"
            ),
            not_allowed_short: REPLY_NOT_ALLOWED,
        },
    }
}

fn advice_on_listening(error: std::io::ErrorKind) -> &'static str {
    match error {
        std::io::ErrorKind::AddrInUse => "another server is there; stop it, or choose another port with -p",
        std::io::ErrorKind::AddrNotAvailable => "it is no address of this machine; choose another with -l",
        std::io::ErrorKind::PermissionDenied => "ports below 1024 are for root; choose another with -p",
        _ => "choose another address with -l or port with -p",
    }
}

/// Writes pid file and port file. As in memcached the server goes on without them.
fn write_files(
    options: &Options,
    tcp: &[SocketAddr],
    udp: &[SocketAddr],
    admin: &[SocketAddr],
) -> Option<PidFile> {
    // memcached writes no port file beside a Unix socket.
    if (options.unix_socket.is_none() || !admin.is_empty())
        && let Err(error) = process::write_port_file(&[("TCP", tcp), ("UDP", udp), ("ADMIN", admin)])
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

/// Starts the threads beside the workers: one takes signals, one looks after the cache and the files, one verifies
/// passwords if there are users. They end with the process.
fn start_helpers(shared: &Arc<Shared>, clock: Clock, users: Option<UsersFile>) -> std::io::Result<()> {
    let for_signals = Arc::clone(shared);
    if let Some(users) = &users {
        let workers = Arc::clone(&shared.control);
        spawn("logins", users.auth().verifier(move || workers.wake_all()))?;
    }
    let users = users.map(|users| Arc::new(Mutex::new(users)));
    let reloader = users.clone();
    spawn("signals", move || {
        let Shared { control, tls, .. } = &*for_signals;
        loop {
            let signal = process::wait_signal();
            let is_stopping = control.stop() != Stop::No;
            match signal {
                Signal::Reload => reload(reloader.as_deref(), tls.as_deref(), clock),
                // Whoever asks twice is in a hurry.
                Signal::Stop if is_stopping => control.stop_now(),
                Signal::Stop | Signal::StopGracefully => control.stop_gracefully(),
            }
        }
    })?;
    let shared = Arc::clone(shared);
    spawn("maintenance", move || {
        let Shared {
            cache,
            net,
            control,
            tls,
            log,
            ..
        } = &*shared;
        let bell = Bell::default();
        let mut looked_at = clock.now();
        let mut may_tell_of_huge_pages = shared.verbosity.load(Ordering::Relaxed) > 0;
        loop {
            let held = net.memory.held() + net.curr_connections.load(Ordering::Relaxed) * CONNECTION_BYTES;
            cache.set_held_beside(held + log.held());
            net.memory
                .set_limit((cache.usage().memory_max / CONNECTION_SHARE).max(CONNECTION_MIN));
            let now = clock.now();
            log.begin_turn(cache.config().workers_max, now);
            let is_more = cache.maintain(now);
            if may_tell_of_huge_pages && let Some(error) = cache.huge_page_refusal() {
                may_tell_of_huge_pages = false;
                say(&format!(
                    "no huge page to be had: {error}; tried again now and then, -o no_huge_pages ends that"
                ));
            }
            if cache.is_held_by_readers() {
                control.copy_out(&net.memory);
            }
            if let Some(users) = &users {
                locked(users).look(now);
            }
            if u128::from(now.nanos_since(looked_at)) >= CERTIFICATES_PERIOD.as_nanos() {
                looked_at = now;
                let reloaded = tls.as_ref().and_then(|tls| tls.reload_if_changed(now));
                reloaded
                    .iter()
                    .for_each(|outcome| say_reloaded("files changed", outcome));
            }
            bell.wait(if is_more {
                MAINTENANCE_PAUSE
            } else {
                MAINTENANCE_PERIOD
            });
        }
    })
}

/// Starts the thread that tells watchers what the workers do.
fn start_watch(shared: &Arc<Shared>, clock: Clock) -> std::io::Result<()> {
    let shared = Arc::clone(shared);
    spawn("watch", move || watch::run(&shared, || clock.now()))
}

/// Starts the thread that answers HTTP, if that is asked for. Whatever becomes of it, the cache is served on.
fn start_admin(shared: &Arc<Shared>, clock: Clock, listeners: Vec<Listener>) -> std::io::Result<()> {
    if listeners.is_empty() {
        return Ok(());
    }
    let shared = Arc::clone(shared);
    spawn("admin", move || {
        if let Err(error) = scrubjay_admin::serve(&shared, clock, &listeners) {
            say(&format!(
                "-o admin: HTTP is answered no more, until the next start: {error}"
            ));
        }
    })
}

/// SIGHUP: the files of users and of certificates are read anew.
fn reload(users: Option<&Mutex<UsersFile>>, tls: Option<&Tls>, clock: Clock) {
    if users.is_none() && tls.is_none() {
        say("SIGHUP: there is nothing to read anew");
    }
    if let Some(users) = users {
        locked(users).reload();
    }
    if let Some(tls) = tls {
        say_reloaded("SIGHUP", &tls.reload(clock.now()));
    }
}

fn locked(users: &Mutex<UsersFile>) -> MutexGuard<'_, UsersFile> {
    users.lock().expect("nothing panics under this lock")
}

/// Says what became of certificates that were read again.
fn say_reloaded(why: &str, outcome: &Result<(), scrubjay_tls::CannotLoad>) {
    match outcome {
        Ok(()) => say(&format!(
            "{why}: new connections use the certificates as they are now"
        )),
        Err(error) => say(&format!("{why}: the certificates in use stay: {error}")),
    }
}

/// What the server says when it is up: one screen.
fn banner(
    options: &Options,
    driver: &str,
    places: &[Place],
    udp: &[SocketAddr],
    admin: &[SocketAddr],
) -> String {
    let tcp = places.iter().filter_map(|place| {
        let address = place.socket.address()?;
        Some(format!("{address} ({})", place.transport()))
    });
    let udp = udp.iter().map(|address| format!("{address} (UDP)"));
    let unix = options
        .unix_socket
        .iter()
        .map(|path| format!("{path} (Unix socket)"));
    let mut listening = tcp.chain(udp).chain(unix).collect::<Vec<_>>().join(", ");
    if listening.is_empty() {
        listening = "nowhere".to_owned();
    }
    let pages = admin
        .iter()
        .map(|address| format!("pages       http://{address}/\n"));
    let admin: String = pages.collect();
    let pid = std::process::id();
    let mut text = format!(
        "scrubjay {VERSION}\n\
         listens on  {listening}\n{admin}\
         memory      {} (-m), items up to {} (-I){}\n\
         work        {} threads (-t) by {}, up to {} connections (-c)\n\
         to stop     Ctrl-C or kill {pid}; kill -USR1 {pid} lets connections finish",
        bytes_text(options.memory_max as u64),
        bytes_text(options.item_size_max as u64),
        if options.evict { "" } else { ", no evictions (-M)" },
        options.threads,
        driver,
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

/// The socket addresses behind `-l` and `-p`, looked up, how each is guarded, and whether the server cannot do without it.
fn tcp_addresses(options: &Options) -> Result<Vec<(SocketAddr, Option<Certificate>, bool)>, OptionError> {
    look_up("-l", options.tcp_listeners())
}

/// Looks addresses up that `option` gave, each with what belongs to it, and whether the server cannot do without it.
fn look_up<'a, T: Copy>(
    option: &str,
    asked: impl IntoIterator<Item = (options::Address<'a>, T)>,
) -> Result<Vec<(SocketAddr, T, bool)>, OptionError> {
    let mut all = Vec::new();
    for ((host, port), with) in asked {
        let Some(host) = host else {
            all.push((SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)), with, true));
            // A machine may have no IPv6.
            all.push((SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)), with, false));
            continue;
        };
        let what =
            format!("{option} {host}: no such address; give one of this machine's, or 0.0.0.0 for all");
        let found = (host, port)
            .to_socket_addrs()
            .map_err(|error| refused(&what, error))?;
        all.extend(found.map(|address| (address, with, true)));
    }
    Ok(all)
}
