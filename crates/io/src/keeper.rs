//! The keeper (`--keep`): a small process that holds the memory of the server, which is its child, and starts it again when
//! it has died without having been told to.
//!
//! It has one thread, takes nothing from the network, allocates next to nothing, and does not know what the memory is for.
//! The server may hand its work to a successor; that reports itself, and as its parent is gone it becomes the keeper's child.
//! If the keeper is killed, the server goes on without.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process};

use crate::handing::{inherited, number};
use crate::process::{Launcher, Quiet, block};
use crate::program::{Program, end_text};
use crate::supervisor;

/// Where a server is told the numbers of its files.
const REPORTS: &str = "SCRUBJAY_KEEPER";
const MEMORY: &str = "SCRUBJAY_KEPT_MEMORY";

/// A server that lived for less than this is not started again at once.
const SHORT_LIFE: Duration = Duration::from_secs(1);

/// How long is waited then: twice as long each time.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// What a server has of its keeper.
#[derive(Debug)]
pub struct Kept {
    /// The memory, empty or as an earlier server left it; `None` if it is not the keeper who holds it.
    pub memory: Option<OwnedFd>,
    reports: OwnedFd,
}

impl Kept {
    /// `None` if this process has no keeper. To be called once.
    ///
    /// # Errors
    /// What the keeper announced is not open.
    pub fn find() -> io::Result<Option<Kept>> {
        let file = |name: &str| {
            let number = std::env::var(name).ok().and_then(|text| text.parse().ok());
            number.map(inherited).transpose()
        };
        let memory = file(MEMORY)?;
        Ok(file(REPORTS)?.map(|reports| Kept { memory, reports }))
    }

    /// Tells the keeper that it is this process which serves now.
    pub fn report(&self) {
        // Whoever has lost its keeper serves on.
        let _ = rustix::io::write(&self.reports, &std::process::id().to_le_bytes());
    }

    /// What a successor of this process needs to find the same keeper.
    pub fn bequest(&self) -> (Vec<(&'static str, String)>, Vec<BorrowedFd<'_>>) {
        bequest(&self.reports, self.memory.as_ref().map(AsFd::as_fd))
    }
}

fn bequest<'a>(
    reports: &'a OwnedFd,
    memory: Option<BorrowedFd<'a>>,
) -> (Vec<(&'static str, String)>, Vec<BorrowedFd<'a>>) {
    let all = [(REPORTS, Some(reports.as_fd())), (MEMORY, memory)];
    all.into_iter()
        .filter_map(|(name, fd)| fd.map(|fd| ((name, number(fd).to_string()), fd)))
        .unzip()
}

/// Whom a keeper looks after.
#[derive(Debug)]
pub struct Keeper<'a> {
    /// How it is started.
    pub program: &'a Program,
    /// What is held for it.
    pub memory: Option<BorrowedFd<'a>>,
    /// Who waits for it to serve.
    pub launcher: Option<(Launcher, Quiet)>,
    /// How people are told.
    pub say: fn(&str),
}

/// What a keeper waits for.
enum Event {
    Signal(i32),
    Serving(Pid),
    Nothing,
}

/// How a server ended.
struct End {
    exit: u8,
    words: String,
    was_told: bool,
}

/// Events, from a file each.
struct Watch {
    signals: OwnedFd,
    reports: OwnedFd,
    /// The end that servers write to.
    writer: OwnedFd,
}

impl Keeper<'_> {
    /// Starts the server, and again and again, until it is told to stop; gives its exit status, or 128 and the number of the
    /// signal that ended it. Call it while the process has one thread.
    ///
    /// # Errors
    /// The server cannot be started at all.
    pub fn keep(mut self) -> io::Result<u8> {
        let watch = Watch::open()?;
        // A successor's parent ends; this makes us its next one.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let mut has_served = false;
        let mut pause = Duration::ZERO;
        loop {
            let started = Instant::now();
            let end = match self.start(&watch) {
                Ok(pid) => self.attend(&watch, pid, &mut has_served)?,
                Err(error) if !has_served => return Err(error),
                Err(error) => End {
                    exit: 71,
                    words: format!("{} cannot be started: {error}", self.program.path()),
                    was_told: false,
                },
            };
            if end.was_told || end.exit == 0 || !has_served {
                return Ok(end.exit);
            }
            pause = match started.elapsed() {
                short if short < SHORT_LIFE => (pause * 2).clamp(PAUSE_MIN, PAUSE_MAX),
                _ => Duration::ZERO,
            };
            let when = match pause {
                Duration::ZERO => "at once".to_owned(),
                pause => format!("in {} ms, as it did not live for long", pause.as_millis()),
            };
            (self.say)(&format!(
                "keeper: the server is gone: {}; started again {when}",
                end.words
            ));
            if watch.is_stopped_within(pause)? {
                return Ok(end.exit);
            }
        }
    }

    fn start(&self, watch: &Watch) -> io::Result<Pid> {
        let (environment, files) = bequest(&watch.writer, self.memory);
        // Apart, or Ctrl-C would reach it twice.
        let child = self
            .program
            .start(&environment, &supervisor::OWN_VARIABLES, &files, true)?;
        Ok(Pid::from_child(&child))
    }

    /// Passes signals on until nobody serves any more.
    fn attend(&mut self, watch: &Watch, first: Pid, has_served: &mut bool) -> io::Result<End> {
        let mut server = first;
        let mut was_told = false;
        loop {
            match watch.next(None)? {
                Event::Serving(pid) => {
                    server = pid;
                    *has_served = true;
                    if let Some((launcher, quiet)) = self.launcher.take() {
                        launcher.release(quiet)?;
                    }
                }
                Event::Signal(libc::SIGCHLD) => {
                    // Others are successors that came to nothing.
                    while let Some((pid, status)) = gone()? {
                        if pid == server {
                            return Ok(End {
                                exit: exit(status),
                                words: words(pid, status),
                                was_told,
                            });
                        }
                    }
                }
                Event::Signal(signal) => {
                    was_told |= is_stop(signal);
                    if let Some(signal) = Signal::from_named_raw(signal) {
                        // It may have ended just now; then that is told next.
                        let _ = kill_process(server, signal);
                    }
                }
                Event::Nothing => {}
            }
        }
    }
}

impl Watch {
    fn open() -> io::Result<Watch> {
        let numbers = [
            libc::SIGTERM,
            libc::SIGINT,
            libc::SIGUSR1,
            libc::SIGUSR2,
            libc::SIGHUP,
            libc::SIGCHLD,
        ];
        let set = block(&numbers);
        // SAFETY: `set` is valid; a new descriptor is asked for.
        let signals = unsafe { libc::signalfd(-1, &set, libc::SFD_CLOEXEC) };
        if signals == -1 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made it, and nobody else knows it.
        let signals = unsafe { OwnedFd::from_raw_fd(signals) };
        let (reports, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        Ok(Watch {
            signals,
            reports,
            writer,
        })
    }

    /// The next event; reports first, so that a successor is known before its predecessor's end.
    fn next(&self, at_most: Option<Duration>) -> io::Result<Event> {
        let timeout = at_most.map(|time| Timespec {
            tv_sec: time.as_secs() as i64,
            tv_nsec: i64::from(time.subsec_nanos()),
        });
        let mut files = [
            PollFd::new(&self.reports, PollFlags::IN),
            PollFd::new(&self.signals, PollFlags::IN),
        ];
        rustix::io::retry_on_intr(|| poll(&mut files, timeout.as_ref()))?;
        let [has_report, has_signal] =
            [0, 1].map(|index: usize| files[index].revents().contains(PollFlags::IN));
        if has_report {
            let mut bytes = [0; 4];
            let len = rustix::io::read(&self.reports, &mut bytes)?;
            let pid = Pid::from_raw(i32::from_le_bytes(bytes)).filter(|_| len == bytes.len());
            return Ok(pid.map_or(Event::Nothing, Event::Serving));
        }
        if has_signal {
            return read_signal(&self.signals).map(Event::Signal);
        }
        Ok(Event::Nothing)
    }

    /// Waits; whether a signal to stop came meanwhile.
    fn is_stopped_within(&self, time: Duration) -> io::Result<bool> {
        let end = Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.next(Some(left))? {
                Event::Signal(signal) if is_stop(signal) => return Ok(true),
                Event::Nothing if Instant::now() >= end => return Ok(false),
                _ => {}
            }
        }
    }
}

fn is_stop(signal: i32) -> bool {
    [libc::SIGTERM, libc::SIGINT, libc::SIGUSR1].contains(&signal)
}

fn read_signal(signals: &OwnedFd) -> io::Result<i32> {
    // SAFETY: plain numbers, for which zero is a value.
    let mut info: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is as long as is said, and any bytes are a value of it.
    let len = unsafe {
        libc::read(
            signals.as_raw_fd(),
            (&raw mut info).cast(),
            size_of::<libc::signalfd_siginfo>(),
        )
    };
    match len {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(info.ssi_signo as i32),
    }
}

/// A child that has ended.
fn gone() -> io::Result<Option<(Pid, WaitStatus)>> {
    match rustix::process::wait(WaitOptions::NOHANG) {
        Ok(gone) => Ok(gone),
        Err(rustix::io::Errno::CHILD) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn exit(status: WaitStatus) -> u8 {
    let signal = || 128 + status.terminating_signal().unwrap_or(0);
    status.exit_status().unwrap_or_else(signal) as u8
}

fn words(pid: Pid, status: WaitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    let status = std::process::ExitStatus::from_raw(status.as_raw());
    format!("process {}, {}", pid.as_raw_nonzero(), end_text(status))
}
