//! What the event loop calls: a session for each connection, over one cache.

use std::sync::Arc;
use std::sync::atomic::AtomicU8;

use scrubjay_base::time::Now;
use scrubjay_cache::{Cache, PinnedSlice, Worker};
use scrubjay_net::{Control, Counters, Handled, Next, Output, Peer, Service};

use crate::options::Options;

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
    /// How much is said on standard error; `verbosity` changes it.
    pub verbosity: AtomicU8,
}

impl Shared {
    /// Ready to serve `cache`.
    pub fn new(cache: Arc<Cache>, options: Options) -> Arc<Shared> {
        let verbosity = AtomicU8::new(options.verbosity);
        let (net, control) = (Arc::default(), Arc::default());
        Arc::new(Shared {
            cache,
            options,
            net,
            control,
            verbosity,
        })
    }
}

/// One worker's service.
#[derive(Debug)]
pub struct CacheService {
    shared: Arc<Shared>,
    worker: Worker,
}

impl CacheService {
    /// A worker's service; at most as many as the cache has workers.
    pub fn new(shared: &Arc<Shared>) -> CacheService {
        CacheService {
            shared: Arc::clone(shared),
            worker: shared.cache.worker(),
        }
    }
}

impl Service for CacheService {
    type Session = ();
    type Shared = PinnedSlice;

    fn open(&mut self, _peer: Peer) {}

    fn begin_turn(&mut self, now: Now) {
        self.worker.begin_turn(now);
    }

    fn go_idle(&mut self) {
        self.worker.go_idle();
    }

    // Only `version` and `shutdown` until sessions take over.
    fn handle(&mut self, (): &mut (), input: &[u8], output: &mut Output<PinnedSlice>) -> Handled {
        let Some(len) = input.iter().position(|byte| *byte == b'\n') else {
            let next = if input.len() > 2048 {
                Next::Close
            } else {
                Next::Wait
            };
            return Handled { consumed: 0, next };
        };
        let reply: &[u8] = match input[..len].trim_ascii_end() {
            b"version" => b"VERSION 1.6.45\r\n",
            b"shutdown" if self.shared.options.shutdown_enabled => {
                self.shared.control.stop_gracefully();
                b""
            }
            _ => b"ERROR\r\n",
        };
        output.bytes().extend_from_slice(reply);
        Handled {
            consumed: len + 1,
            next: Next::Again,
        }
    }
}
