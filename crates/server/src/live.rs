//! Options that change while the server runs: by a client's command, or because the configuration file was read again.
//!
//! What requests look at is an atomic each, and costs them a plain load. All options as they are now are kept together for those
//! who tell them. Limits of connections are not here: they belong to the event loop.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use scrubjay_base::allowance::Rate;

use crate::options::Options;
use crate::service::Shared;
use crate::watch::DETAIL;

/// How far the memory limit may go from what it was at the start. Source: the cache reserves addresses for so much.
const MEMORY_FACTOR: usize = 8;

/// The options as they are now. All written by [`Shared::change`] only; each stands for itself, nothing is published by it.
#[derive(Debug)]
pub struct LiveOptions {
    pub(crate) requests_per_turn: AtomicUsize,
    pub(crate) flush_enabled: AtomicBool,
    pub(crate) shutdown_enabled: AtomicBool,
    all: Mutex<Arc<Options>>,
}

impl LiveOptions {
    /// As the server was started.
    pub(crate) fn new(options: &Options) -> LiveOptions {
        LiveOptions {
            requests_per_turn: AtomicUsize::new(requests_per_turn(options)),
            flush_enabled: AtomicBool::new(options.flush_enabled),
            shutdown_enabled: AtomicBool::new(options.shutdown_enabled),
            all: Mutex::new(Arc::new(options.clone())),
        }
    }
}

/// Requests of one connection in a turn: no more than a burst where their rate is limited, so that a connection waits often and
/// shortly rather than now and then and long.
fn requests_per_turn(options: &Options) -> usize {
    let rates = [options.requests_per_address, options.requests_per_user];
    let rates = rates.into_iter().filter_map(|rate| Rate::new(rate, 0));
    let least = rates.map(Rate::burst).min();
    let burst = least.and_then(|burst| usize::try_from(burst).ok());
    options.requests_per_turn.min(burst.unwrap_or(usize::MAX))
}

impl Shared {
    /// The options as they are now.
    pub fn options_now(&self) -> Arc<Options> {
        let all = self.live.all.lock();
        Arc::clone(&all.expect("nothing panics under this lock"))
    }

    /// Changes options, as far as they are live, and makes it hold from now on. What belongs to the event loop is left to who
    /// runs that.
    pub fn change(&self, change: impl FnOnce(&mut Options)) {
        let mut all = self.live.all.lock().expect("nothing panics under this lock");
        let memory_before = all.memory_max;
        let options = Arc::make_mut(&mut all);
        change(options);
        let live = &self.live;
        live.requests_per_turn
            .store(requests_per_turn(options), Ordering::Relaxed);
        live.flush_enabled.store(options.flush_enabled, Ordering::Relaxed);
        live.shutdown_enabled
            .store(options.shutdown_enabled, Ordering::Relaxed);
        self.verbosity.store(options.verbosity, Ordering::Relaxed);
        self.delimiter
            .store(options.stat_delimiter as u8, Ordering::Relaxed);
        self.log
            .noted
            .set(DETAIL, if options.detail_enabled { DETAIL } else { 0 });
        if options.memory_max != memory_before {
            self.cache.set_memory_max(options.memory_max);
        }
        if let Some(auth) = &self.auth {
            auth.set_connections_max(options.connections_per_user);
        }
    }

    /// Between which bounds the memory limit may be moved without a new start.
    pub fn memory_bounds(&self) -> RangeInclusive<usize> {
        let Options {
            memory_max,
            item_size_max,
            ..
        } = self.options;
        (memory_max / MEMORY_FACTOR).max(2 * item_size_max)..=memory_max * MEMORY_FACTOR
    }
}
