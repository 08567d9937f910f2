//! What the event loop calls: a session for each connection, over one cache.

use std::cell::Cell;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use scrubjay_base::allowance::Allowance;
use scrubjay_base::time::Now;
use scrubjay_cache::{Cache, PinnedSlice, Worker};
use scrubjay_net::{Control, Counters, Handled, Output, Peer, Reason, Service, Waker};
use scrubjay_tls::Tls;

use crate::auth::{Auth, Login, Rights};
use crate::live::LiveOptions;
use crate::observe::Stopwatch;
use crate::options::Options;
use crate::session::{Context, Session};
use crate::stats::{Baseline, Counter, WorkerCounters};
use crate::watch::{Evictions, Log, Post, Stream, Told};

/// How often `-v` has to be given for the log to tell of connections.
const VERBOSITY_OF_CONNECTIONS: u8 = 2;

/// Tells of a connection by its descriptor: who is at its other end, and why it is closed, if it is.
pub type ConnectionLog = fn(u64, Option<Peer>, Option<Reason>);

/// What all workers of a server share.
#[derive(Debug)]
pub struct Shared {
    /// The cache.
    pub cache: Arc<Cache>,
    /// How the server was started.
    pub options: Options,
    /// What of the options may change meanwhile.
    pub live: LiveOptions,
    /// Who may connect; `None`: everybody.
    pub auth: Option<Arc<Auth>>,
    /// Counts of connections and bytes; the event loop writes them.
    pub net: Arc<Counters>,
    /// Tells the event loop to stop.
    pub control: Arc<Control>,
    /// Certificates, if connections are encrypted.
    pub tls: Option<Arc<Tls>>,
    /// How much is said on standard error; `verbosity` changes it.
    pub verbosity: AtomicU8,
    /// Is told of each connection that comes and goes, from a verbosity of 2 up.
    pub connection_log: OnceLock<ConnectionLog>,
    /// Every worker's counts.
    pub(crate) counters: Mutex<Vec<Arc<WorkerCounters>>>,
    /// Ends the prefix of a key, while requests are counted by it.
    pub(crate) delimiter: AtomicU8,
    /// Where requests are measured; set once, before the first.
    pub stopwatch: OnceLock<Stopwatch>,
    /// What those who watch are told, and for whom requests are noted.
    pub log: Arc<Log>,
    /// What `stats reset` found and subtracts since.
    pub(crate) baseline: Mutex<Baseline>,
}

impl Shared {
    /// Ready to serve `cache` to the users of `auth`, or to everybody; encrypted connections use the certificates of `tls`.
    pub fn new(
        cache: Arc<Cache>,
        options: Options,
        auth: Option<Arc<Auth>>,
        tls: Option<Arc<Tls>>,
    ) -> Arc<Shared> {
        let verbosity = AtomicU8::new(options.verbosity);
        let delimiter = AtomicU8::new(options.stat_delimiter as u8);
        let live = LiveOptions::new(&options);
        let log = Arc::new(Log::new(&options, cache.config().workers_max));
        cache.set_observer(Box::new(Evictions(Arc::clone(&log))));
        let (net, control) = (Arc::default(), Arc::default());
        let (counters, baseline) = (Mutex::default(), Mutex::default());
        Arc::new(Shared {
            cache,
            options,
            live,
            auth,
            net,
            control,
            tls,
            verbosity,
            connection_log: OnceLock::new(),
            counters,
            delimiter,
            stopwatch: OnceLock::new(),
            log,
            baseline,
        })
    }

    /// The same server over a cache that was closed and opened again, with nobody at work: what is counted goes on, but for what
    /// the cache itself counts.
    pub fn over(&self, cache: Arc<Cache>) -> Arc<Shared> {
        let load = |flag: &AtomicU8| AtomicU8::new(flag.load(Ordering::Relaxed));
        let counters = self
            .counters
            .lock()
            .expect("nothing panics under this lock")
            .clone();
        let baseline = self
            .baseline
            .lock()
            .expect("nothing panics under this lock")
            .clone();
        let options = self.options_now();
        // Who watched is not connected any more.
        let log = Arc::new(Log::new(&options, cache.config().workers_max));
        cache.set_observer(Box::new(Evictions(Arc::clone(&log))));
        Arc::new(Shared {
            cache,
            options: self.options.clone(),
            live: LiveOptions::new(&options),
            auth: self.auth.clone(),
            net: Arc::clone(&self.net),
            control: Arc::clone(&self.control),
            tls: self.tls.clone(),
            verbosity: load(&self.verbosity),
            counters: Mutex::new(counters),
            connection_log: self.connection_log.clone(),
            delimiter: load(&self.delimiter),
            stopwatch: self.stopwatch.clone(),
            log,
            baseline: Mutex::new(baseline.of_a_new_cache()),
        })
    }
}

/// One worker's service.
#[derive(Debug)]
pub struct CacheService {
    shared: Arc<Shared>,
    worker: Worker,
    counters: Arc<WorkerCounters>,
    now: Now,
    post: Post,
    /// Look-ups that were counted when somebody last asked how many requests there were.
    gets_taken: Cell<u64>,
}

impl CacheService {
    /// A worker's service; at most as many as the cache has workers.
    pub fn new(shared: &Arc<Shared>) -> CacheService {
        let counters = Arc::<WorkerCounters>::default();
        shared
            .counters
            .lock()
            .expect("nothing panics under this lock")
            .push(Arc::clone(&counters));
        let worker = shared.cache.worker();
        let post = Post {
            number: worker.number(),
            ..Post::default()
        };
        CacheService {
            shared: Arc::clone(shared),
            worker,
            counters,
            now: Now::default(),
            post,
            gets_taken: Cell::new(0),
        }
    }
}

/// Descriptors are small numbers.
fn cfd(descriptor: u64) -> u32 {
    descriptor as u32
}

impl CacheService {
    fn log_connection(&self, descriptor: u64, peer: impl Fn() -> Option<Peer>, closed: Option<Reason>) {
        let log = self.shared.connection_log.get();
        let is_told = self.shared.verbosity.load(Ordering::Relaxed) >= VERBOSITY_OF_CONNECTIONS;
        if let Some(log) = log.filter(|_| is_told) {
            log(descriptor, peer(), closed);
        }
    }

    fn tell_of_connection(&self, told: impl FnOnce() -> Told<'static>) {
        let log = &self.shared.log;
        if log.noted.bits() & Stream::ConnectionEvents.bit() != 0 {
            log.begin_turn(self.post.number, self.now);
            log.tell(self.post.number, &told());
        }
    }
}

impl Service for CacheService {
    type Session = Session;
    type Shared = PinnedSlice;

    fn open(&mut self, peer: Peer) -> Session {
        match self.shared.auth {
            Some(_) => Session::guarded(peer),
            None => Session::default(),
        }
    }

    fn pack(&mut self, session: Session, input: &mut Vec<u8>) -> Option<Vec<u8>> {
        session.pack(input)
    }

    fn unpack(&mut self, peer: Peer, packed: &[u8]) -> Option<Session> {
        Session::unpack(&self.shared, peer, packed)
    }

    fn wakes_by(&mut self, waker: Option<Waker>) {
        waker
            .into_iter()
            .for_each(|waker| self.post.door.set_waker(waker));
    }

    fn has_news(&mut self) -> bool {
        self.post.door.has_rung()
    }

    fn opened(&mut self, descriptor: u64, peer: Peer) {
        self.log_connection(descriptor, || Some(peer), None);
        let cfd = cfd(descriptor);
        self.tell_of_connection(|| Told::Opened { peer, cfd });
    }

    fn closing(&mut self, descriptor: u64, reason: Reason, peer: &dyn Fn() -> Option<Peer>) {
        self.log_connection(descriptor, peer, Some(reason));
        let cfd = cfd(descriptor);
        self.tell_of_connection(|| Told::Closed {
            peer: peer(),
            reason,
            cfd,
        });
    }

    fn serves(&mut self, descriptor: u64) {
        self.post.descriptor.set(cfd(descriptor));
    }

    fn last_asked(&self) -> u8 {
        self.post.last.replace(0)
    }

    /// Commands, or the keys that they look up if these are more: a get of a hundred keys is as much work as a hundred gets.
    fn take_asked(&self) -> u64 {
        let gets = self.counters.count(Counter::CmdGet);
        let looked_up = gets - self.gets_taken.replace(gets);
        self.post.asked.take().max(looked_up)
    }

    fn allowance<'a>(&self, session: &'a Session) -> Option<&'a Allowance> {
        session.login().map(Login::allowance)
    }

    fn held_back(&self, session: &Session) {
        if let (Some(auth), Some(login)) = (&self.shared.auth, session.login()) {
            auth.note_held(login.name());
        }
    }

    fn begin_turn(&mut self, now: Now) {
        self.now = now;
        self.worker.begin_turn(now);
    }

    fn go_idle(&mut self) {
        self.worker.go_idle();
    }

    fn look_ahead(&mut self, inputs: &mut dyn Iterator<Item = &[u8]>) {
        crate::session::look_ahead(&self.worker, inputs);
    }

    fn handle(&mut self, session: &mut Session, input: &[u8], output: &mut Output<PinnedSlice>) -> Handled {
        let noted = self.shared.log.noted.bits();
        if noted != 0 {
            self.shared.log.begin_turn(self.post.number, self.now);
        }
        let mut context = Context {
            worker: &mut self.worker,
            shared: &self.shared,
            counters: &self.counters,
            now: self.now,
            rights: Rights::Administer,
            noted,
            post: &self.post,
        };
        session.handle(&mut context, input, output)
    }
}
