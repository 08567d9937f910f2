//! One run of a load against one server: connects, starts the threads, watches, and puts together what they found.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use scrubjay_io::clock::Clock;
use scrubjay_io::driver::choice::{self, Drivers, Kind};
use scrubjay_io::syscalls::Syscalls;
use scrubjay_io::thread::{Bell, run_beside};
use scrubjay_io::usage::{Usage, Whose};

use crate::exchange::Terms;
use crate::source::{Plan, Source};
use crate::tally::Tally;
use crate::thread::{Common, Done, LoadThread, Manner, Window};
use crate::transport::{Address, Route, Sockets, Transport};

/// How often who watches is told of progress.
const GLANCE: Duration = Duration::from_millis(200);

const NANOS: f64 = 1e9;

/// How load is put on a server.
#[derive(Clone, Debug)]
pub struct Load {
    /// Threads, 1 at least.
    pub threads: usize,
    /// Connections of all threads together, as many as threads at least.
    pub connections: usize,
    /// Requests in flight on a connection, 1 at least.
    pub pipeline: usize,
    /// Stores are not answered one by one.
    pub noreply: bool,
    /// What a get did not find is stored, on the same connection.
    pub refill: bool,
    /// Connections are opened for what is in flight together, and closed with its last reply.
    pub reconnect: bool,
    /// Requests a second of all threads together; none: a closed loop, as fast as it goes.
    pub rate: Option<f64>,
    /// How long is measured; none: until the plan's requests are done.
    pub duration: Option<Duration>,
    /// How long before that load runs unmeasured.
    pub warmup: Duration,
    /// Longest wait for a connection or a reply.
    pub timeout: Duration,
    /// Whether the server's system calls are counted.
    pub counts_syscalls: bool,
    /// Cores for the threads.
    pub cores: Option<Vec<usize>>,
    /// What the threads wait by; none: by the better one that can be had. It is epoll for connections that do not stay, are encrypted,
    /// by UDP or have a rate.
    pub driver: Option<Kind>,
}

/// What a run showed.
#[derive(Clone, Debug)]
pub struct Measured {
    /// What became of the requests.
    pub tally: Tally,
    /// Seconds that were measured.
    pub secs: f64,
    /// What the server used in that time, if it could be looked at.
    pub server: Option<Usage>,
    /// System calls of the server in that time, if they were counted.
    pub syscalls: Option<u64>,
    /// Share of the time that the busiest thread of the load was on a processor.
    pub busy: f64,
    /// What the load's threads waited by.
    pub driver: Kind,
}

impl Measured {
    /// Requests a second.
    pub fn rate(&self) -> f64 {
        self.tally.requests as f64 / self.secs
    }

    /// Share of the time that the server's busiest thread was on a processor.
    pub fn server_busy(&self) -> Option<f64> {
        let usage = self.server.as_ref()?;
        Some(usage.cpu_nanos_max() as f64 / NANOS / self.secs)
    }

    /// Whether the load's threads had no time left while the server's had, as far as is known: the figures are then not the
    /// server's.
    pub fn is_bound_by_load(&self) -> bool {
        const ALL: f64 = 0.9;
        self.busy > ALL && self.server_busy().is_none_or(|share| share < ALL)
    }
}

/// Requests so far.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Since the beginning.
    pub elapsed: Duration,
    /// Keys answered within the measured time.
    pub requests: u64,
    /// Hits among them.
    pub hits: u64,
}

/// Puts `load` on the server at `route`, whose process or thread is `whose`; `watch` is called now and then meanwhile.
///
/// # Errors
/// The server cannot be reached, goes away, does not answer in time, or does not speak the protocol.
pub fn run(
    route: &Route,
    whose: Option<Whose>,
    terms: &Arc<Terms>,
    plan: &Plan,
    load: &Load,
    watch: &mut dyn FnMut(Progress),
) -> Result<Measured, String> {
    let in_context = |why: String| format!("{}: {why}", route.address);
    let transports = connect(route, load)?;
    let syscalls = count_syscalls(load, whose).map_err(in_context)?;
    let clock = Clock::start();
    let drivers = open_drivers(route, load, clock).map_err(in_context)?;
    let run = Run {
        route,
        terms,
        plan,
        load,
        clock,
        window: window(load, clock.now().nanos()),
        look: &|| Seen {
            usage: whose.and_then(Whose::usage),
            syscalls: syscalls.as_ref().map(Syscalls::count),
        },
    };
    let driver = drivers.kind();
    let done = match drivers {
        Drivers::Epoll(drivers) => run.threads(drivers, transports, watch),
        Drivers::Uring(drivers) => run.threads(drivers, transports, watch),
    };
    done.and_then(|(threads, server)| sum_up(threads, run.window, server, driver))
        .map_err(in_context)
}

fn window(load: &Load, begin: u64) -> Window {
    let measured = begin + nanos(load.warmup);
    let end = load.duration.map(|duration| measured + nanos(duration));
    Window {
        begin,
        measured,
        end: end.unwrap_or(u64::MAX),
    }
}

/// What the threads wait by.
fn open_drivers(route: &Route, load: &Load, clock: Clock) -> Result<Drivers, String> {
    let may_be_uring = load.rate.is_none()
        && !load.reconnect
        && route.tls.is_none()
        && !matches!(route.address, Address::Udp(_));
    let asked = if may_be_uring {
        load.driver
    } else {
        Some(Kind::Epoll)
    };
    let opened = choice::open(asked, load.threads, clock);
    let opened = opened.map_err(|why| format!("nothing to wait for replies by: {why}"))?;
    Ok(opened.drivers)
}

/// What the threads of a run have in common.
struct Run<'a> {
    route: &'a Route,
    terms: &'a Arc<Terms>,
    plan: &'a Plan,
    load: &'a Load,
    clock: Clock,
    window: Window,
    look: &'a dyn Fn() -> Seen,
}

impl Run<'_> {
    /// Runs a thread for each driver, on its share of the connections, and watches.
    fn threads<D: Sockets + Send>(
        &self,
        drivers: Vec<D>,
        mut transports: Vec<Option<Transport>>,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<(Vec<Done>, Seen), String> {
        let common = Arc::new(Common::default());
        let bell = Bell::default();
        let running = AtomicU64::new(drivers.len() as u64);
        let taken = Arc::new(AtomicU64::new(0));
        let mut tasks = Vec::new();
        for (number, driver) in drivers.into_iter().enumerate() {
            // As even as can be: what is left of the connections goes to the first threads.
            let left = self.load.threads - number;
            let own = transports.split_off(transports.len() - transports.len() / left);
            let source = Source::new(self.plan, number as u64, Arc::clone(&taken));
            let manner = manner(self.load, self.route, self.plan, number);
            let times = (self.window, self.clock);
            let thread = LoadThread::new(
                driver,
                own,
                self.terms,
                source,
                manner,
                times,
                Arc::clone(&common),
            )?;
            let (bell, running) = (&bell, &running);
            let task = move || {
                let done = thread.run();
                if running.fetch_sub(1, Ordering::Relaxed) == 1 {
                    bell.ring();
                }
                done
            };
            tasks.push((format!("load-{number}"), task));
        }
        let own = || watch_until_done(&self.clock, self.window, &common, &bell, self.look, watch);
        Ok(run_beside(tasks, own))
    }
}

/// What a look at the server shows.
struct Seen {
    usage: Option<Usage>,
    syscalls: Option<u64>,
}

fn count_syscalls(load: &Load, whose: Option<Whose>) -> Result<Option<Syscalls>, String> {
    if !load.counts_syscalls {
        return Ok(None);
    }
    let whose = whose.ok_or("system calls are counted of a server on this machine only; name it by --pid")?;
    let counted = Syscalls::watch(whose);
    counted
        .map(Some)
        .map_err(|why| format!("system calls cannot be counted: {why}"))
}

/// Opens the connections, or tries one and leaves them closed where each is opened for its requests.
fn connect(route: &Route, load: &Load) -> Result<Vec<Option<Transport>>, String> {
    // Files that are open besides the connections.
    const OTHER_FILES: u64 = 64;
    let wanted = load.connections as u64 + OTHER_FILES;
    scrubjay_io::process::raise_open_files(wanted).map_err(|why| {
        format!(
            "{} connections: {why}; allow more open files (ulimit -n)",
            load.connections
        )
    })?;
    if load.reconnect {
        route.connect(load.timeout)?;
        return Ok((0..load.connections).map(|_| None).collect());
    }
    (0..load.connections)
        .map(|_| route.connect(load.timeout).map(Some))
        .collect()
}

fn manner(load: &Load, route: &Route, plan: &Plan, number: usize) -> Manner {
    let pace = load.rate.map(|rate| {
        let interval = NANOS * plan.multiget as f64 / rate;
        (interval * load.threads as f64, interval * number as f64)
    });
    Manner {
        pipeline: load.pipeline,
        multiget: plan.multiget,
        noreply: load.noreply,
        refill: load.refill,
        reconnect: load.reconnect.then(|| route.clone()),
        pace,
        patience: load.timeout,
        cores: load.cores.clone(),
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Looks at the server when measuring begins and when it ends, and tells of progress in between.
fn watch_until_done(
    clock: &Clock,
    window: Window,
    common: &Common,
    bell: &Bell,
    look: &dyn Fn() -> Seen,
    watch: &mut dyn FnMut(Progress),
) -> Seen {
    let wait_until = |moment: u64| {
        let left = Duration::from_nanos(moment.saturating_sub(clock.now().nanos()));
        bell.wait(left.min(GLANCE))
    };
    let mut is_done = false;
    while !is_done && clock.now().nanos() < window.measured {
        is_done = wait_until(window.measured);
    }
    let before = look();
    while !is_done && clock.now().nanos() < window.end {
        is_done = wait_until(window.end);
        watch(Progress {
            elapsed: Duration::from_nanos(clock.now().nanos() - window.begin),
            requests: common.requests.load(Ordering::Relaxed),
            hits: common.hits.load(Ordering::Relaxed),
        });
    }
    let after = look();
    let usage = after.usage.zip(before.usage);
    let syscalls = after.syscalls.zip(before.syscalls);
    Seen {
        usage: usage.map(|(after, before)| after.since(&before)),
        syscalls: syscalls.map(|(after, before)| after - before),
    }
}

fn sum_up(threads: Vec<Done>, window: Window, server: Seen, driver: Kind) -> Result<Measured, String> {
    let mut tally = Tally::default();
    let (mut busy, mut last, mut failure) = (0, window.measured, None);
    let is_exhausted = threads.iter().any(|done| done.is_exhausted);
    for done in threads {
        tally.add(&done.tally);
        busy = busy.max(done.busy);
        last = last.max(done.last);
        failure = done.result.err().or(failure);
    }
    if let Some(why) = failure {
        return Err(format!("after {} requests: {why}", tally.requests));
    }
    if tally.requests + tally.unsent == 0 {
        return Err(
            "nothing was answered within the measured time; give it longer, or a shorter --warmup".to_owned(),
        );
    }
    // Replies may come late; the measured time was as long as was said, unless there was nothing left to ask.
    let end = if is_exhausted { last } else { window.end };
    let secs = end.saturating_sub(window.measured).max(1) as f64 / NANOS;
    Ok(Measured {
        tally,
        secs,
        server: server.usage,
        syscalls: server.syscalls,
        busy: busy as f64 / NANOS / secs,
        driver,
    })
}

#[cfg(test)]
mod tests {
    use scrubjay_io::driver::choice::Kind;
    use scrubjay_io::usage::Usage;

    use super::Measured;
    use crate::tally::Tally;

    #[test]
    fn the_load_is_the_bottleneck_when_it_had_no_time_left_and_the_server_had() {
        let check = |busy: f64, server: Option<f64>, is_bound: bool| {
            let usage = |share: f64| Usage {
                cpu_nanos: [(1, (share * 2e9) as u64)].into(),
                ..Usage::default()
            };
            let measured = Measured {
                tally: Tally::default(),
                secs: 2.0,
                server: server.map(usage),
                syscalls: None,
                busy,
                driver: Kind::Epoll,
            };
            assert_eq!(measured.is_bound_by_load(), is_bound, "{busy} {server:?}");
        };
        check(0.99, Some(0.4), true);
        check(0.99, None, true);
        check(0.99, Some(0.98), false);
        check(0.5, Some(0.4), false);
        check(0.5, None, false);
    }
}
