//! What the server has to tell about itself: found by comparing what is counted anyway with what it was a moment ago, so that
//! nothing has to be told where it happens.

use std::sync::atomic::Ordering::Relaxed;

use scrubjay_base::time::Now;

use crate::service::Shared;

/// How often it is looked, at most.
const PERIOD_NANOS: u64 = 100_000_000;

/// What is read of the server.
type Read = fn(&Reading<'_>) -> u64;

struct Reading<'a> {
    shared: &'a Shared,
    usage: scrubjay_cache::Usage,
    cache: scrubjay_cache::Counters,
}

/// Limits that were hit: the word for each, and how often that was.
const LIMITS: &[(&str, Read)] = &[
    ("connections", |now| {
        now.shared.net.rejected_connections.load(Relaxed)
    }),
    ("connections_per_address", |now| {
        now.shared.net.rejected_by_address.load(Relaxed)
    }),
    ("requests_per_address", |now| {
        now.shared.net.held_by_address.times.load(Relaxed)
    }),
    ("requests_per_user", |now| {
        now.shared.net.held_by_user.times.load(Relaxed)
    }),
    ("accepting", |now| {
        now.shared.net.listen_disabled_num.load(Relaxed)
    }),
    ("idle_timeout", |now| now.shared.net.idle_kicks.load(Relaxed)),
    ("eviction_bound", |now| now.cache.evictions_beyond_bound),
];

/// States: the word for each, and what it is now.
const STATES: &[(&str, Read)] = &[
    ("memory_limit", |now| now.usage.memory_max),
    ("index_resizing", |now| now.usage.index_is_resizing.into()),
    ("index_bytes", |now| now.usage.index_bytes),
    ("huge_pages_refused", |now| {
        now.shared.cache.huge_page_refusal().is_some().into()
    }),
    ("watchers", |now| now.shared.log.counts().watchers),
];

/// What was found last.
#[derive(Debug, Default)]
pub(super) struct Watched {
    last: Option<(Now, Vec<u64>)>,
}

impl Watched {
    /// What happens from now on until the next look is not told.
    pub(super) fn forget(&mut self) {
        self.last = None;
    }

    /// What has changed since the last look, a line each.
    pub(super) fn look(&mut self, shared: &Shared, now: Now) -> Vec<String> {
        if self
            .last
            .as_ref()
            .is_some_and(|(at, _)| now.nanos_since(*at) < PERIOD_NANOS)
        {
            return Vec::new();
        }
        let reading = Reading {
            shared,
            usage: shared.cache.usage(),
            cache: shared.cache.counters(),
        };
        let read = |(_, read): &(&str, Read)| read(&reading);
        let numbers: Vec<u64> = LIMITS.iter().chain(STATES).map(read).collect();
        let before = self.last.replace((now, numbers.clone()));
        let Some((_, before)) = before else {
            return Vec::new();
        };
        let changed = before.iter().zip(&numbers).enumerate();
        let changed = changed.filter(|(_, (before, now))| before != now);
        changed
            .map(|(row, (before, now))| match LIMITS.get(row) {
                Some((word, _)) => format!(
                    "type=limit_hit limit={word} count={}",
                    now.saturating_sub(*before)
                ),
                None => format!(
                    "type=state name={} from={before} to={now}",
                    STATES[row - LIMITS.len()].0
                ),
            })
            .collect()
    }
}
