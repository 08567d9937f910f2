//! What the event loop calls: a session for each connection, over one cache.

use std::sync::atomic::AtomicU8;
use std::sync::{Arc, Mutex};

use scrubjay_base::time::Now;
use scrubjay_cache::{Cache, PinnedSlice, Worker};
use scrubjay_net::{Control, Counters, Handled, Output, Peer, Reason, Service, Waker};
use scrubjay_tls::Tls;

use crate::auth::{Auth, Rights};
use crate::options::Options;
use crate::session::{Context, Session};
use crate::stats::{Baseline, WorkerCounters};
use crate::watch::{Evictions, Log, Post, Stream, Told};

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
        let log = Arc::new(Log::new(&options, cache.config().workers_max));
        cache.set_observer(Box::new(Evictions(Arc::clone(&log))));
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
            log,
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
    post: Post,
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
        }
    }
}

/// Descriptors are small numbers.
fn cfd(descriptor: u64) -> u32 {
    descriptor as u32
}

impl CacheService {
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

    fn wakes_by(&mut self, waker: Option<Waker>) {
        waker
            .into_iter()
            .for_each(|waker| self.post.door.set_waker(waker));
    }

    fn has_news(&mut self) -> bool {
        self.post.door.has_rung()
    }

    fn opened(&mut self, descriptor: u64, peer: Peer) {
        let cfd = cfd(descriptor);
        self.tell_of_connection(|| Told::Opened { peer, cfd });
    }

    fn closing(&mut self, descriptor: u64, reason: Reason, peer: &dyn Fn() -> Option<Peer>) {
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
