//! What the event loop calls: a session for each connection, over one cache.

use std::sync::atomic::AtomicU8;
use std::sync::{Arc, Mutex};

use scrubjay_base::time::Now;
use scrubjay_cache::{Cache, PinnedSlice, Worker};
use scrubjay_net::{Control, Counters, Handled, Output, Peer, Service};
use scrubjay_tls::Tls;

use crate::options::Options;
use crate::session::{Context, Session};
use crate::stats::{Baseline, WorkerCounters};

/// What all workers of a server share.
#[derive(Debug)]
pub struct Shared {
    /// The cache.
    pub cache: Arc<Cache>,
    /// How the server was started.
    pub options: Options,
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
    /// What `stats reset` found and subtracts since.
    pub(crate) baseline: Mutex<Baseline>,
}

impl Shared {
    /// Ready to serve `cache`.
    pub fn new(cache: Arc<Cache>, options: Options) -> Arc<Shared> {
        Shared::with_tls(cache, options, None)
    }

    /// As [`Shared::new`], with the certificates of encrypted connections.
    pub fn with_tls(cache: Arc<Cache>, options: Options, tls: Option<Arc<Tls>>) -> Arc<Shared> {
        let verbosity = AtomicU8::new(options.verbosity);
        let (net, control) = (Arc::default(), Arc::default());
        let (counters, baseline) = (Mutex::default(), Mutex::default());
        Arc::new(Shared {
            cache,
            options,
            net,
            control,
            tls,
            verbosity,
            counters,
            baseline,
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

    fn open(&mut self, _peer: Peer) -> Session {
        Session::default()
    }

    fn begin_turn(&mut self, now: Now) {
        self.now = now;
        self.worker.begin_turn(now);
    }

    fn go_idle(&mut self) {
        self.worker.go_idle();
    }

    fn handle(&mut self, session: &mut Session, input: &[u8], output: &mut Output<PinnedSlice>) -> Handled {
        let mut context = Context {
            worker: &mut self.worker,
            shared: &self.shared,
            counters: &self.counters,
            now: self.now,
        };
        session.handle(&mut context, input, output)
    }
}
