//! The workers, and what works beside them for as long as they do: one thread looks after the cache and the files, one answers
//! HTTP.
//!
//! All of them end together, because a cache is handed over only when nobody uses it; and begin again together if that came
//! to nothing.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use scrubjay_base::time::Now;
use scrubjay_io::clock::Clock;
use scrubjay_io::driver::choice::{self, Drivers};
use scrubjay_io::driver::epoll::Epoll;
use scrubjay_io::driver::{Driver, Listener, Socket, datagrams};
use scrubjay_io::supervisor;
use scrubjay_io::thread::{self, Bell, spawn};
use scrubjay_net::relay::{self, Pair};
use scrubjay_net::{Control, Limits, Live, Stop, UdpConfig};
use scrubjay_server::service::{CacheService, Shared};
use scrubjay_server::watch;
use scrubjay_tls::Secure;

use super::super::users::UsersFile;
use super::home::Home;
use super::limits;
use super::reload::{locked, say_certificates};
use super::upgrade::{Candidate, Left, Upgrade};
use super::{CONNECTION_BYTES, CONNECTION_MIN, CONNECTION_SHARE, Served, say, udp_served};
use crate::log::{self, Level};

/// How often the cache is looked after when nothing is urgent.
const MAINTENANCE_PERIOD: Duration = Duration::from_millis(250);

/// How long the cache is left alone when more work is waiting.
const MAINTENANCE_PAUSE: Duration = Duration::from_millis(1);

/// How often the files of certificates are looked at.
const CERTIFICATES_PERIOD: Duration = Duration::from_secs(1);

/// How long encrypted connections go on through the process that had them before an upgrade.
const RELAY_MAX: Duration = Duration::from_secs(60);

/// How long a thread may take to end; one that is in the middle of something long is left behind.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// What is the same in every round.
pub struct Beside {
    pub clock: Clock,
    /// Limits of connections, as they are now.
    pub limits: Arc<Live<Limits>>,
    /// How datagrams are answered now.
    pub udp: Arc<Live<UdpConfig>>,
    /// What is served now, for those who may not keep it.
    pub shared: Arc<Mutex<Weak<Shared>>>,
    pub users: Option<Arc<Mutex<UsersFile>>>,
    /// Where HTTP is answered.
    pub admin: Arc<Vec<Listener>>,
}

/// Why nothing is served any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The server was told to stop.
    Stopped,
    /// Another process serves.
    HandedOver,
}

/// Serves `sockets` until the server is told to stop or another process serves in its place; then the cache is closed.
///
/// # Errors
/// What the event loop cannot recover from.
pub fn serve_until_told(
    mut shared: Arc<Shared>,
    home: &mut Home,
    beside: Beside,
    upgrade: &Upgrade,
    mut drivers: Drivers,
    mut sockets: Served,
) -> std::io::Result<End> {
    loop {
        let round = Round::start(&shared, &beside)?;
        let ran = match drivers {
            Drivers::Epoll(drivers) => run_workers(drivers, sockets, &shared, &beside),
            Drivers::Uring(drivers) => run_workers(drivers, sockets, &shared, &beside),
        };
        round.end();
        let mut left = ran?;
        home.close(&shared.cache, beside.clock);
        let Some(candidate) = upgrade.candidate() else {
            return Ok(End::Stopped);
        };
        let why = match hand_over(&candidate, &mut left, &beside, &shared.control) {
            Ok(ends) => {
                upgrade.done(&candidate);
                drop(shared);
                pass_on(left, ends, beside)?;
                return Ok(End::HandedOver);
            }
            Err(why) => candidate.end(&why),
        };
        if !shared.control.serve_again() {
            upgrade.failed(&why);
            return Ok(End::Stopped);
        }
        let cache = home.open_again(&shared.options, beside.clock);
        let cache = cache.map_err(|error| std::io::Error::other(error.message))?;
        shared = shared.over(cache);
        *beside.shared.lock().expect("nothing panics under this lock") = Arc::downgrade(&shared);
        let options = &shared.options;
        drivers = choice::open(options.io_driver, options.threads, beside.clock)?.drivers;
        sockets = Served {
            listeners: left.listeners,
            udp: udp_served(&beside.udp, left.udp),
            carried: left.carried,
        };
        // The other one may have made itself known before it ended.
        super::name_this_process(&shared.options);
        upgrade.report();
        upgrade.failed(&why);
    }
}

/// Gives everything to another process; an error means that this one may go on, with what is left.
fn hand_over(
    candidate: &Candidate,
    left: &mut Left,
    beside: &Beside,
    control: &Control,
) -> Result<Vec<Socket>, String> {
    if control.stop() != Stop::HandOver {
        return Err("this server was told to stop".to_owned());
    }
    let ends = candidate.give(left, &beside.admin)?;
    match candidate.go() {
        Ok(()) => Ok(ends),
        Err(why) => {
            // It may have answered some of what they asked: nobody can tell how the conversations go on.
            left.carried.clear();
            Err(why)
        }
    }
}

/// Closes what another process has now, and passes on what encrypted connections and that process say to each other over
/// `ends`, until they have ended.
fn pass_on(left: Left, ends: Vec<Socket>, beside: Beside) -> std::io::Result<()> {
    for listener in left.listeners {
        // Its path is the other one's.
        listener.into_below().leave_path();
    }
    drop((left.udp, beside.admin));
    let encrypted = left
        .carried
        .into_iter()
        .filter(|carried| carried.socket.below().is_none());
    let pairs: Vec<_> = encrypted
        .zip(ends)
        .map(|(carried, end)| Pair {
            client: carried.socket,
            server: scrubjay_tls::Socket::plain(end),
        })
        .collect();
    if pairs.is_empty() {
        return Ok(());
    }
    say(&format!(
        "{} encrypted connections go through this process, {} s at most",
        pairs.len(),
        RELAY_MAX.as_secs()
    ));
    let driver = Secure::new(Epoll::new(beside.clock)?);
    // Nobody stops it: whoever is told to, ends.
    relay::run(driver, pairs, RELAY_MAX.as_nanos() as u64, &Control::default())
}

fn run_workers<D>(
    drivers: Vec<D>,
    sockets: Served,
    shared: &Arc<Shared>,
    beside: &Beside,
) -> std::io::Result<Left>
where
    D: Driver<Listener = Listener, Socket = Socket, Datagrams = datagrams::Socket> + Send,
{
    let config = scrubjay_net::Config {
        cores: shared.options.cpus.clone(),
        limits: Arc::clone(&beside.limits),
    };
    let drivers = drivers.into_iter().map(Secure::new).collect();
    scrubjay_net::run(&config, drivers, sockets, &shared.net, &shared.control, |_| {
        CacheService::new(shared)
    })
}

/// The threads of one round.
struct Round {
    /// Rung to end the maintenance, and by it when it has ended.
    maintenance: [Arc<Bell>; 2],
    /// Told to end, and rung when those who watch are told no more.
    watch: (Arc<watch::Log>, Arc<Bell>),
    admin: Option<(Arc<Control>, Arc<Bell>)>,
}

impl Round {
    /// Starts them.
    ///
    /// # Errors
    /// The operating system starts no more threads.
    fn start(shared: &Arc<Shared>, beside: &Beside) -> std::io::Result<Round> {
        let maintenance = [Arc::<Bell>::default(), Arc::<Bell>::default()];
        let [stop, ended] = maintenance.clone();
        let (for_maintenance, users, clock) = (Arc::clone(shared), beside.users.clone(), beside.clock);
        spawn("maintenance", move || {
            maintain(&for_maintenance, users.as_deref(), clock, &stop);
            drop(for_maintenance);
            ended.ring();
        })?;
        let (log, told) = (Arc::clone(&shared.log), Arc::<Bell>::default());
        let (for_watch, rung) = (Arc::clone(shared), Arc::clone(&told));
        spawn("watch", move || {
            // Lines are dropped before a worker has to wait for its core.
            thread::give_way();
            watch::run(&for_watch, || clock.now());
            drop(for_watch);
            rung.ring();
        })?;
        let admin = match beside.admin.is_empty() {
            true => None,
            false => Some(start_admin(shared, beside)?),
        };
        Ok(Round {
            maintenance,
            watch: (log, told),
            admin,
        })
    }

    /// Ends them, and waits for that.
    fn end(self) {
        let [stop, ended] = self.maintenance;
        stop.ring();
        let (log, told) = self.watch;
        log.end();
        if let Some((control, _)) = &self.admin {
            control.stop_now();
        }
        let others = self.admin.map(|(_, ended)| ended);
        for bell in [Some(ended), Some(told), others].into_iter().flatten() {
            bell.wait(END_PATIENCE);
        }
    }
}

/// Looks after the cache and the files until it is told to stop.
fn maintain(shared: &Shared, users: Option<&Mutex<UsersFile>>, clock: Clock, stop: &Bell) {
    let Shared {
        cache,
        net,
        control,
        tls,
        log,
        ..
    } = shared;
    let mut looked_at = clock.now();
    let mut beaten_at = clock.now();
    let watchdog = supervisor::watchdog_period();
    let is_due =
        |since: Now, now: Now, period: Duration| u128::from(now.nanos_since(since)) >= period.as_nanos();
    let mut may_tell_of_huge_pages = true;
    let mut limits = limits::Watch::default();
    loop {
        let held = net.memory.held() + net.curr_connections.load(Ordering::Relaxed) * CONNECTION_BYTES;
        cache.set_held_beside(held + log.held());
        net.memory
            .set_limit((cache.usage().memory_max / CONNECTION_SHARE).max(CONNECTION_MIN));
        let now = clock.now();
        log.begin_turn(cache.config().workers_max, now);
        let is_more = cache.maintain(now);
        log::set_verbosity(shared.verbosity.load(Ordering::Relaxed));
        log::tell_repeated();
        limits.look(shared);
        if may_tell_of_huge_pages && let Some(error) = cache.huge_page_refusal() {
            may_tell_of_huge_pages = false;
            let text = format!(
                "no huge page to be had: {error}; tried again now and then, -o no_huge_pages ends that"
            );
            log::say(Level::Info, &text, &[]);
        }
        if cache.is_held_by_readers() {
            control.copy_out(&net.memory);
        }
        if let Some(users) = users {
            locked(users).look(now);
        }
        if is_due(looked_at, now, CERTIFICATES_PERIOD) {
            looked_at = now;
            let reloaded = tls.as_ref().and_then(|tls| tls.reload_if_changed(now));
            reloaded
                .iter()
                .for_each(|outcome| say_certificates("files changed", outcome));
        }
        if watchdog.is_some_and(|period| is_due(beaten_at, now, period)) {
            beaten_at = now;
            // A supervisor that does not listen will say so by itself.
            let _ = supervisor::tell("WATCHDOG=1", &[]);
        }
        let pause = if is_more {
            MAINTENANCE_PAUSE
        } else {
            MAINTENANCE_PERIOD
        };
        if stop.wait(pause) {
            return;
        }
    }
}

/// Starts the thread that answers HTTP. Whatever becomes of it, the cache is served on.
fn start_admin(shared: &Arc<Shared>, beside: &Beside) -> std::io::Result<(Arc<Control>, Arc<Bell>)> {
    let (control, ended) = (Arc::<Control>::default(), Arc::<Bell>::default());
    let (stop, rung) = (Arc::clone(&control), Arc::clone(&ended));
    let (shared, listeners, clock) = (Arc::clone(shared), Arc::clone(&beside.admin), beside.clock);
    spawn("admin", move || {
        if let Err(error) = scrubjay_admin::serve(&shared, clock, &listeners, &stop) {
            log::error(&format!(
                "-o admin: HTTP is answered no more, until the next start: {error}"
            ));
        }
        drop(shared);
        rung.ring();
    })?;
    Ok((control, ended))
}
