//! `scrubjay serve`: from the command line to a running cache server, and back to a clean end.

mod arrival;
mod banner;
mod home;
mod limits;
mod places;
pub mod reload;
mod round;
mod settings;
mod successor;
mod upgrade;
mod wire;

use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use clap::ArgMatches;
use scrubjay_io::clock::Clock;
use scrubjay_io::driver::choice::{self, Drivers};
use scrubjay_io::driver::epoll::Epoll;
use scrubjay_io::driver::{Listener, Socket, datagrams};
use scrubjay_io::process::{self, Launcher, PidFile, Signal};
use scrubjay_io::supervisor;
use scrubjay_io::thread as threads;
use scrubjay_net::{Live, Stop, UdpConfig};
use scrubjay_server::observe::Stopwatch;
use scrubjay_server::options::{self, EXIT_NO_USER, EXIT_OS, EXIT_USAGE, OptionError, Options};
use scrubjay_server::service::{CacheService, Shared};
use scrubjay_tls::{Secure, Tls};

use self::arrival::{Arrival, quiet};
use self::banner::{bytes_text, say_started};
use self::home::{Home, Opened};
use self::places::Places;
use self::reload::{Reloader, Source};
use self::round::{Beside, End, serve_until_told};
use self::successor::Predecessor;
use self::upgrade::Upgrade;
use super::users::UsersFile;
use crate::args::VERSION;
use crate::log::{self, Level};

pub use self::places::{advice_on_listening, look_up};
pub use self::upgrade::{DONE, FAILED, notice_name};

const LICENSE: &str = include_str!("../../../../LICENSE");

/// Files that are open besides connections: listeners, event queues, the binary's own.
const OTHER_FILES: u64 = 64;

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

/// Runs the server until it is told to stop.
pub fn run(matches: &ArgMatches) -> ExitCode {
    if matches.get_flag("license") {
        return super::generate::print(format!("scrubjay {VERSION}\n\n{LICENSE}").as_bytes());
    }
    match Arrival::find().and_then(|arrival| serve(matches, arrival)) {
        Ok(exit) => exit,
        Err(error) if log::is_started() => {
            log::error(&error.message);
            ExitCode::from(error.exit)
        }
        Err(error) => crate::fail(&error.message.replace('\n', "\nscrubjay: "), error.exit),
    }
}

fn serve(matches: &ArgMatches, mut arrival: Arrival) -> Result<ExitCode, OptionError> {
    let predecessor = arrival.predecessor.take();
    let served = serve_after(matches, arrival, predecessor.as_ref());
    if let (Err(error), Some(predecessor)) = (&served, &predecessor) {
        predecessor.refuse(&error.message);
    }
    served
}

fn serve_after(
    matches: &ArgMatches,
    arrival: Arrival,
    predecessor: Option<&Predecessor>,
) -> Result<ExitCode, OptionError> {
    let source = Source::new(matches);
    let options = source.read()?;
    log::start(options.log_format, options.verbosity);
    let is_first = arrival.keeper.is_none() && predecessor.is_none();
    // A keeper has said them already.
    if arrival.keeper.is_none() {
        options.notices.iter().for_each(|notice| log::note(notice));
    }
    // The last moment with one thread and nothing in memory that a new process would not inherit.
    let launcher = if options.daemon && is_first {
        Some(process::detach().map_err(|error| refused("-d: cannot go into the background", error))?)
    } else {
        None
    };
    if options.keep && is_first {
        return arrival.keep(&options, launcher);
    }
    settle_limits(&options)?;
    settle_cpus(&options)?;
    settle_user(&options, source.is_root())?;
    process::block_signals();
    serve_requests(source, options, launcher, arrival, predecessor)
}

pub fn settle_limits(options: &Options) -> Result<(), OptionError> {
    if options.core_dumps {
        process::allow_core_dumps().map_err(|error| refused("-r: cannot allow core dumps", error))?;
    }
    settle_files(options)?;
    if options.lock_memory {
        limits::settle_locked_bytes(options);
    }
    Ok(())
}

fn settle_files(options: &Options) -> Result<(), OptionError> {
    let admin = options
        .admin
        .as_ref()
        .map_or(0, |_| scrubjay_admin::CONNECTIONS_MAX);
    limits::settle_files(options, admin as u64 + OTHER_FILES)
}

pub fn settle_cpus(options: &Options) -> Result<(), OptionError> {
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

pub fn settle_user(options: &Options, is_root: bool) -> Result<(), OptionError> {
    let Some(name) = options.user.as_deref().filter(|_| is_root) else {
        return Ok(());
    };
    let user = process::find_user(name).ok_or_else(|| no_user(name))?;
    process::become_user(user).map_err(|error| refused(&format!("-u {name}: cannot become this user"), error))
}

/// There is no user of this name.
pub fn no_user(name: &str) -> OptionError {
    OptionError {
        message: format!("-u {name}: there is no such user; create it or name another"),
        exit: EXIT_NO_USER,
    }
}

/// The operating system refuses something.
pub fn refused(what: &str, error: impl std::fmt::Display) -> OptionError {
    OptionError {
        message: format!("{what}: {error}"),
        exit: EXIT_OS,
    }
}

/// Tells a person: what begins so is a warning.
fn say(text: &str) {
    match text.strip_prefix("warning: ") {
        Some(text) => log::warning(text),
        None => log::notice(text),
    }
}

fn serve_requests(
    source: Source,
    mut options: Options,
    launcher: Option<Launcher>,
    mut arrival: Arrival,
    predecessor: Option<&Predecessor>,
) -> Result<ExitCode, OptionError> {
    let reloader = Reloader::new(source, &options);
    let users = UsersFile::open(&options)?;
    let offered = predecessor.map(Predecessor::memory).transpose();
    let mut home = Home::find(&options, &mut arrival, offered.map_err(no_takeover)?)?;
    let tls = load_certificates(&options, home.clock())?;
    let estate = match predecessor {
        Some(predecessor) => {
            home.look().map_err(no_takeover)?;
            Some(predecessor.take_over().map_err(no_takeover)?)
        }
        None => None,
    };
    let Opened { cache, clock, words } = home.open(&options)?;
    let (places, carried) = match estate {
        Some(estate) => (Places::inherited(&options, estate.sockets)?, estate.carried),
        None => (Places::activated(&options, arrival.given)?, Vec::new()),
    };
    let (drivers, driver_words) = open_drivers(&mut options, clock)?;
    options.holder = home.holder;
    let upgrade = Upgrade::new(arrival.program, arrival.keeper, &home)?;
    if let Some(predecessor) = predecessor {
        predecessor.attach().map_err(no_takeover)?;
    }
    let pid_file = write_files(&options, &places, predecessor.is_some());
    words.iter().for_each(|words| say(words));
    let is_quiet = options.daemon;
    match is_quiet {
        true => let_go(&options, launcher)?,
        false => say_started(&options, &driver_words, &places),
    }
    if log::tells(Level::Debug) {
        log::say(Level::Debug, &layout(&cache.usage()), &[]);
    }
    let (sockets, admin) = served(places, &reloader.udp, tls.as_ref(), carried);
    let auth = users.as_ref().map(UsersFile::auth);
    let shared = Shared::new(cache, options, auth, tls);
    let _ = shared.connection_log.set(log::connection);
    shared
        .stopwatch
        .get_or_init(|| Stopwatch::new(move || clock.now()));
    let beside = Beside {
        clock,
        limits: Arc::clone(&reloader.limits),
        udp: Arc::clone(&reloader.udp),
        shared: Arc::new(Mutex::new(Arc::downgrade(&shared))),
        users: users.map(|users| Arc::new(Mutex::new(users))),
        admin: Arc::new(admin),
    };
    start_helpers(&shared, &beside, &upgrade, reloader)
        .map_err(|error| refused("cannot start a thread", error))?;
    upgrade.report();
    home.store();
    // One that does not listen is none.
    let _ = supervisor::tell("READY=1", &[]);
    if let Some(predecessor) = predecessor {
        predecessor.serving();
    }
    let ran = serve_until_told(shared, &mut home, beside, &upgrade, drivers, sockets);
    let ended = ran.map_err(|error| refused("the server had to stop", error))?;
    Ok(end(ended, pid_file))
}

/// Tidies up, unless files and sockets' paths are another process's now.
fn end(ended: End, pid_file: Option<PidFile>) -> ExitCode {
    if ended == End::HandedOver {
        process::leave(0);
    }
    drop(pid_file);
    log::notice("stopped");
    ExitCode::SUCCESS
}

/// Goes into the background for good.
fn let_go(options: &Options, launcher: Option<Launcher>) -> Result<(), OptionError> {
    let quiet = quiet(options);
    let became = launcher.map_or_else(|| quiet.become_quiet(), |launcher| launcher.release(quiet));
    became.map_err(|error| refused("-d", error))
}

fn no_takeover(why: String) -> OptionError {
    refused("cannot take over from the server before", why)
}

/// What is served by drivers of either kind.
type Served =
    scrubjay_net::Sockets<scrubjay_tls::Listener<Listener>, datagrams::Socket, scrubjay_tls::Socket<Socket>>;

/// What workers serve of `places`, and what is left for HTTP.
fn served(
    places: Places,
    config: &Arc<Live<UdpConfig>>,
    tls: Option<&Arc<Tls>>,
    carried: Vec<scrubjay_net::Carried<scrubjay_tls::Socket<Socket>>>,
) -> (Served, Vec<Listener>) {
    let datagrams = places.datagrams.into_iter();
    let sockets = Served {
        listeners: places
            .streams
            .into_iter()
            .map(|place| place.guarded(tls))
            .collect(),
        udp: udp_served(
            config,
            datagrams.map(|(address, sockets)| (address.port(), sockets)),
        ),
        carried,
    };
    (sockets, places.admin)
}

fn udp_served(
    config: &Arc<Live<UdpConfig>>,
    places: impl IntoIterator<Item = (u16, Vec<datagrams::Socket>)>,
) -> Option<scrubjay_net::Udp<datagrams::Socket>> {
    let places: Vec<_> = places.into_iter().collect();
    (!places.is_empty()).then(|| scrubjay_net::Udp {
        config: Arc::clone(config),
        places,
    })
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
    // There is less room if it is not the kind that was hoped for.
    settle_files(options)?;
    let words = match opened.refusal {
        Some(error) => format!("{kind} (io_uring cannot be used here: {error})"),
        None => kind.to_string(),
    };
    Ok((opened.drivers, words))
}

/// Reads the certificates, if connections are to be encrypted.
pub fn load_certificates(options: &Options, clock: Clock) -> Result<Option<Arc<Tls>>, OptionError> {
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

/// Writes pid file and port file. As in memcached the server goes on without them.
fn write_files(options: &Options, places: &Places, is_successor: bool) -> Option<PidFile> {
    let (tcp, udp, admin) = (places.tcp(), places.udp(), places.admin());
    // memcached writes no port file beside a Unix socket.
    if (options.unix_socket.is_none() || !admin.is_empty())
        && let Err(error) = process::write_port_file(&[("TCP", &tcp), ("UDP", &udp), ("ADMIN", &admin)])
    {
        log::warning(&format!(
            "MEMCACHED_PORT_FILENAME: cannot write this file, name one that can be written: {error}"
        ));
    }
    let path = options.pid_file.as_deref()?;
    match PidFile::write(path) {
        Ok((file, other)) => {
            // A successor finds the one before itself there.
            if let Some(pid) = other.filter(|_| !is_successor) {
                log::warning(&format!(
                    "-P {path} named another live process, {pid}; it names this one now"
                ));
            }
            Some(file)
        }
        Err(error) => {
            log::warning(&format!(
                "-P {path}: cannot write this file, name one that can be written: {error}"
            ));
            None
        }
    }
}

/// Writes the pid file again, which a successor may have written that came to nothing.
fn name_this_process(options: &Options) {
    if let Some((file, _)) = options
        .pid_file
        .as_deref()
        .and_then(|path| PidFile::write(path).ok())
    {
        // It is removed by what was returned when it was written first.
        std::mem::forget(file);
    }
}

/// Starts the threads that stay: one takes signals, one verifies passwords if there are users. They end with the process.
fn start_helpers(
    shared: &Arc<Shared>,
    beside: &Beside,
    upgrade: &Arc<Upgrade>,
    mut reloader: Reloader,
) -> std::io::Result<()> {
    let control = Arc::clone(&shared.control);
    if let Some(auth) = &shared.auth {
        let workers = Arc::clone(&control);
        threads::spawn("logins", auth.verifier(move || workers.wake_all()))?;
    }
    let (users, current, clock) = (beside.users.clone(), Arc::clone(&beside.shared), beside.clock);
    let upgrade = Arc::clone(upgrade);
    threads::spawn("signals", move || {
        loop {
            let signal = process::wait_signal();
            let is_stopping = !matches!(control.stop(), Stop::No | Stop::HandOver);
            match signal {
                Signal::Reload => {
                    // One that does not listen is none.
                    let _ = supervisor::tell_reloading();
                    let shared = current.lock().expect("nothing panics under this lock").upgrade();
                    match shared {
                        Some(shared) => reloader.reload(&shared, users.as_deref(), clock.now()),
                        None => log::warning("SIGHUP: came during a hand-over; send it again"),
                    }
                    let _ = supervisor::tell("READY=1", &[]);
                }
                Signal::Upgrade => upgrade.begin(&control),
                // What is left to do is done for others' clients, and can be broken off.
                Signal::Stop | Signal::StopGracefully if upgrade.is_over() => process::leave(0),
                // Whoever asks twice is in a hurry.
                Signal::Stop if is_stopping => control.stop_now(),
                Signal::Stop | Signal::StopGracefully => {
                    // One that does not listen is none.
                    let _ = supervisor::tell("STOPPING=1", &[]);
                    control.stop_gracefully();
                }
            }
        }
    })
}

/// How the memory is laid out, for -vv.
fn layout(usage: &scrubjay_cache::Usage) -> String {
    format!(
        "memory layout: {} segments of {} bytes, index {} bytes, limit {} bytes",
        usage.segments_total, usage.segment_size, usage.index_bytes, usage.memory_max
    )
}
