//! What the event loop calls: a session for each connection, over one cache.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

use scrubjay_base::time::Now;
use scrubjay_cache::{Cache, PinnedSlice, Worker};
use scrubjay_net::{Control, Counters, Handled, Output, Peer, Service};
use scrubjay_tls::Tls;

use crate::auth::{Auth, Rights};
use crate::options::Options;
use crate::session::{Context, Session};
use crate::stats::detail::Switch;
use crate::stats::{Baseline, WorkerCounters};

/// What all workers of a server share.
#[derive(Debug)]
pub struct Shared {
    /// The cache.
    pub cache: Arc<Cache>,
    /// How the server was started.
    pub options: Options,
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
    /// Every worker's counts.
    pub(crate) counters: Mutex<Vec<Arc<WorkerCounters>>>,
    /// Whether requests are counted by prefix of key.
    pub detail: Switch,
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
        let detail = Switch::new(&options);
        let (net, control) = (Arc::default(), Arc::default());
        let (counters, baseline) = (Mutex::default(), Mutex::default());
        Arc::new(Shared {
            cache,
            options,
            auth,
            net,
            control,
            tls,
            verbosity,
            counters,
            detail,
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
        Arc::new(Shared {
            cache,
            options: self.options.clone(),
            auth: self.auth.clone(),
            net: Arc::clone(&self.net),
            control: Arc::clone(&self.control),
            tls: self.tls.clone(),
            verbosity: load(&self.verbosity),
            counters: Mutex::new(counters),
            detail: self.detail.copy(),
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
        CacheService {
            shared: Arc::clone(shared),
            worker: shared.cache.worker(),
            counters,
            now: Now::default(),
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
        let mut context = Context {
            worker: &mut self.worker,
            shared: &self.shared,
            counters: &self.counters,
            now: self.now,
            rights: Rights::Administer,
        };
        session.handle(&mut context, input, output)
    }
}
