//! The old server's side of an upgrade: it starts its successor, gives it everything, and takes everything back if that comes
//! to nothing.

use std::os::fd::{AsFd, AsRawFd};
use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use scrubjay_io::driver::{Listener, Socket, datagrams};
use scrubjay_io::handing::{Channel, FDS_MAX};
use scrubjay_io::keeper;
use scrubjay_io::memory::MemoryFile;
use scrubjay_io::program::{Program, end_text};
use scrubjay_io::thread as threads;
use scrubjay_io::{notices, process, supervisor};
use scrubjay_net::{Control, Stop};
use scrubjay_server::options::OptionError;

use super::home::Home;
use super::places;
use super::say;
use super::successor::VARIABLE;
use super::wire::{Conversation, Message, VERSION, receive, send, unexpected};

/// How long a successor may take to start: it reads its files, and looks addresses up.
const START_PATIENCE: Duration = Duration::from_secs(15);

/// How long it may take for each step while nobody serves.
const PAUSE_PATIENCE: Duration = Duration::from_secs(5);

/// Bytes of connections in one message, about.
const BATCH_BYTES: usize = 1 << 20;

/// What a server leaves when its workers have ended.
pub type Left =
    scrubjay_net::Ended<scrubjay_tls::Listener<Listener>, scrubjay_tls::Socket<Socket>, datagrams::Socket>;

/// Where a command waits to hear what came of the upgrade that it asked this process for.
pub fn notice_name(pid: u32) -> String {
    format!("scrubjay-upgrade-{pid}")
}

/// First word of a notice of success; the new server's process id follows.
pub const DONE: &str = "done ";

/// First word of a notice of failure; the reason follows.
pub const FAILED: &str = "failed ";

/// A new server that is ready to take over.
#[derive(Debug)]
pub struct Candidate {
    child: Child,
    channel: Channel,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Idle,
    Starting,
    Ready(Candidate),
    /// Another process serves.
    Over,
}

/// How this server is upgraded.
#[derive(Debug)]
pub struct Upgrade {
    program: Program,
    keeper: Option<keeper::Kept>,
    memory: MemoryFile,
    state: Mutex<State>,
}

impl Upgrade {
    /// By starting `program`, under the same keeper and with the same memory.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn new(
        program: Program,
        keeper: Option<keeper::Kept>,
        home: &Home,
    ) -> Result<Arc<Upgrade>, OptionError> {
        let memory = home.file().try_clone();
        Ok(Arc::new(Upgrade {
            program,
            keeper,
            memory: memory.map_err(|error| super::refused("cannot keep hold of the memory", error))?,
            state: Mutex::default(),
        }))
    }

    /// Tells the keeper, if there is one, that it is this process which serves now.
    pub fn report(&self) {
        self.keeper.iter().for_each(keeper::Kept::report);
    }

    /// Starts a successor, on a thread of its own; when it is ready the workers are told to hand over.
    pub fn begin(self: &Arc<Upgrade>, control: &Arc<Control>) {
        let mut state = self.state();
        if !matches!(*state, State::Idle) {
            return say("SIGUSR2: this server is being upgraded already");
        }
        if control.stop() != Stop::No {
            drop(state);
            return self.failed("it is being stopped");
        }
        *state = State::Starting;
        drop(state);
        let (upgrade, workers) = (Arc::clone(self), Arc::clone(control));
        let started = threads::spawn("upgrade", move || match upgrade.prepare() {
            Ok(candidate) => {
                *upgrade.state() = State::Ready(candidate);
                workers.hand_over();
            }
            Err(why) => upgrade.failed(&why),
        });
        if let Err(error) = started {
            self.failed(&format!("no thread can be started: {error}"));
        }
    }

    /// The successor that the workers were told to hand over to.
    pub fn candidate(&self) -> Option<Candidate> {
        let mut state = self.state();
        match std::mem::take(&mut *state) {
            State::Ready(candidate) => Some(candidate),
            other => {
                *state = other;
                None
            }
        }
    }

    /// Says that it came to nothing and this process goes on; another one may be tried.
    pub fn failed(&self, why: &str) {
        *self.state() = State::Idle;
        say(&format!(
            "the upgrade failed, process {} goes on: {why}",
            std::process::id()
        ));
        self.post(&format!("{FAILED}{why}"));
    }

    /// Whether another process serves in this one's place.
    pub fn is_over(&self) -> bool {
        matches!(*self.state(), State::Over)
    }

    fn post(&self, text: &str) {
        notices::post(&notice_name(std::process::id()), text);
        // Whoever asked the keeper waits there.
        if self.keeper.is_some() {
            notices::post(&notice_name(process::parent()), text);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }

    fn prepare(&self) -> Result<Candidate, String> {
        let no_channel = |error: std::io::Error| format!("no channel to a new process: {error}");
        let (channel, other) = Channel::pair().map_err(no_channel)?;
        channel.set_patience(START_PATIENCE).map_err(no_channel)?;
        let mut environment = vec![(VARIABLE, other.as_fd().as_raw_fd().to_string())];
        let mut files = vec![other.as_fd()];
        if let Some(keeper) = &self.keeper {
            let (more, more_files) = keeper.bequest();
            environment.extend(more);
            files.extend(more_files);
        }
        let started = self
            .program
            .start(&environment, &supervisor::OWN_VARIABLES, &files, false);
        let child = started.map_err(|error| format!("{} cannot be started: {error}", self.program.path()))?;
        drop(other);
        let candidate = Candidate { child, channel };
        say(&format!("upgrade: process {} starts", candidate.child.id()));
        let offer = Message::Offer { version: VERSION };
        let answer = send(&candidate.channel, &offer, &[self.memory.as_fd()])
            .and_then(|()| receive(&candidate.channel))
            .and_then(|(message, _)| match message {
                Message::Ready => Ok(()),
                other => Err(unexpected(other)),
            });
        match answer {
            Ok(()) => Ok(candidate),
            Err(why) => Err(candidate.end(&why)),
        }
    }

    /// Everything is the successor's: says so to whoever should know.
    pub fn done(&self, candidate: &Candidate) {
        let pid = candidate.child.id();
        *self.state() = State::Over;
        say(&format!("upgraded: process {pid} serves"));
        // Nobody there to be told is nobody who needs to know.
        let _ = supervisor::tell(&format!("MAINPID={pid}"), &[]);
        self.post(&format!("{DONE}{pid}"));
    }
}

impl Candidate {
    /// Makes sure that it touches nothing any more; what to tell people.
    pub fn end(mut self, why: &str) -> String {
        // It ends by itself if it could say why.
        let ended = self.child.try_wait().ok().flatten();
        let status = ended.map(Ok).unwrap_or_else(|| {
            let _ = self.child.kill();
            self.child.wait()
        });
        match status {
            Ok(status) if status.code().is_some() => {
                format!("process {}: {why} ({})", self.child.id(), end_text(status))
            }
            _ => format!("process {}: {why}", self.child.id()),
        }
    }

    /// Sends it everything that `left` and `admin` hold, of which nothing is touched. Encrypted connections stay here, as their
    /// keys do: it gets another one in place of each, whose other ends are returned in the same order.
    ///
    /// # Errors
    /// It does not take it: see that it [`end`](Candidate::end)s.
    pub fn give(&self, left: &Left, admin: &[Listener]) -> Result<Vec<Socket>, String> {
        self.channel
            .set_patience(PAUSE_PATIENCE)
            .map_err(|error| error.to_string())?;
        let (roles, files): (Vec<_>, Vec<_>) = places::bequest(&left.listeners, &left.udp, admin)
            .into_iter()
            .unzip();
        if files.len() > FDS_MAX {
            return Err(format!(
                "{} sockets are listened on, more than {FDS_MAX} cannot be passed on",
                files.len()
            ));
        }
        send(&self.channel, &Message::Sockets(roles), &files)?;
        let (own, theirs) = replacements(left)?;
        let mut replacements = theirs.iter();
        let (mut batch, mut batch_files, mut len) = (Vec::new(), Vec::new(), 0);
        for carried in &left.carried {
            let socket = carried.socket.below().or_else(|| replacements.next());
            let conversation = Conversation::of(carried);
            len += conversation.len();
            batch.push(conversation);
            batch_files.push(socket.expect("one for each that is encrypted").as_fd());
            if batch.len() == FDS_MAX || len >= BATCH_BYTES {
                let message = Message::Connections(std::mem::take(&mut batch));
                send(&self.channel, &message, &batch_files)?;
                batch_files.clear();
                len = 0;
            }
        }
        send(&self.channel, &Message::Connections(batch), &batch_files)?;
        send(&self.channel, &Message::End, &[])?;
        match receive(&self.channel)?.0 {
            Message::Attached => Ok(own),
            other => Err(unexpected(other)),
        }
    }

    /// Gives it away for good; nothing of it may be touched after. Returns when the successor has made itself known, or why it
    /// has not.
    pub fn go(&self) -> Result<(), String> {
        send(&self.channel, &Message::Go, &[])?;
        match receive(&self.channel)?.0 {
            Message::Serving => Ok(()),
            other => Err(unexpected(other)),
        }
    }
}

/// A pair of connections for each that is encrypted: ends of this process, ends of the other.
fn replacements(left: &Left) -> Result<(Vec<Socket>, Vec<Socket>), String> {
    let encrypted = left
        .carried
        .iter()
        .filter(|carried| carried.socket.below().is_none());
    let pairs: Result<Vec<_>, _> = encrypted.map(|_| Socket::pair()).collect();
    let pairs = pairs.map_err(|error| format!("encrypted connections cannot be relayed: {error}"))?;
    Ok(pairs.into_iter().unzip())
}
