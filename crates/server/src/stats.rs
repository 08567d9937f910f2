//! THE statistics table: every name that `stats` answers, in memcached's order, and where its value comes from.
//!
//! Counts of commands belong to each worker and are added up when asked. Names that stand for parts which this server
//! does not have (slabs, LRU, crawler, watchers) are constants, so that tools which read them go on working.

mod classes;
mod connections;
pub mod detail;
mod keys;
mod latency;
mod markdown;
mod meaning;
mod memcached;

pub use connections::connection;
pub use markdown::markdown;
pub use meaning::meaning;
pub use memcached::why_absent;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use scrubjay_base::time::Now;
use scrubjay_cache::{Counters as CacheCounters, SizeClass, Usage};
use scrubjay_net::UdpCounts;

use crate::observe::{self, Observed};
use crate::options;
use crate::service::Shared;
use crate::session::VERSION;

/// What each worker counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is named as in `stats` and explained in its row")]
pub enum Counter {
    CmdGet,
    CmdSet,
    CmdFlush,
    CmdTouch,
    CmdMeta,
    GetHits,
    GetMisses,
    DeleteMisses,
    DeleteHits,
    IncrMisses,
    IncrHits,
    DecrMisses,
    DecrHits,
    CasMisses,
    CasHits,
    CasBadval,
    TouchHits,
    TouchMisses,
    StoreTooLarge,
    StoreNoMemory,
    AuthCmds,
    AuthErrors,
    RejectedByUser,
    CommandsForbidden,
}

const COUNTERS: usize = Counter::CommandsForbidden as usize + 1;

/// One worker's counts: written by that worker only, on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct WorkerCounters {
    commands: [AtomicU64; COUNTERS],
    /// By prefix of key, while that is wanted.
    pub(crate) detail: detail::Detail,
    /// Latencies, hot keys, and what else is not a plain count.
    pub(crate) observed: Observed,
}

impl WorkerCounters {
    /// Counts one. A load and a store: there is no other writer.
    #[inline]
    pub fn add(&self, counter: Counter) {
        self.add_many(counter, 1);
    }

    /// Counts so many. Inlined: a count is two moves.
    #[inline]
    pub(crate) fn add_many(&self, counter: Counter, times: u64) {
        let count = &self.commands[counter as usize];
        count.store(count.load(Ordering::Relaxed) + times, Ordering::Relaxed);
    }

    /// What has been counted so far.
    pub(crate) fn count(&self, counter: Counter) -> u64 {
        self.commands[counter as usize].load(Ordering::Relaxed)
    }
}

/// Sums at the last `stats reset`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Baseline {
    commands: [u64; COUNTERS],
    cache: CacheCounters,
    net: [u64; 4],
    udp: UdpCounts,
    classes: Vec<SizeClass>,
    pub(crate) observed: Arc<observe::Before>,
}

/// The sums at the last `stats reset`.
pub(crate) fn baseline(shared: &Shared) -> Baseline {
    let baseline = shared.baseline.lock();
    baseline.expect("nothing panics under this lock").clone()
}

impl Baseline {
    /// The same, but for what a cache counts: that begins anew.
    pub(crate) fn of_a_new_cache(self) -> Baseline {
        Baseline {
            commands: self.commands,
            net: self.net,
            udp: self.udp,
            ..Baseline::default()
        }
    }
}

/// Everything that `stats` is computed from, read once.
struct Reading<'a> {
    shared: &'a Shared,
    now: Now,
    commands: [u64; COUNTERS],
    cache: CacheCounters,
    usage: Usage,
    /// Connections accepted and refused, bytes read and written.
    net: [u64; 4],
    udp: UdpCounts,
    classes_before: Vec<SizeClass>,
}

fn command_sums(shared: &Shared) -> [u64; COUNTERS] {
    let mut sums = [0; COUNTERS];
    let counters = shared.counters.lock().expect("nothing panics under this lock");
    for worker in counters.iter().map(Arc::as_ref) {
        sums.iter_mut()
            .zip(&worker.commands)
            .for_each(|(sum, count)| *sum += count.load(Ordering::Relaxed));
    }
    sums
}

fn net_sums(shared: &Shared) -> [u64; 4] {
    let net = &shared.net;
    let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
    [
        load(&net.total_connections),
        load(&net.rejected_connections),
        net.bytes_read(),
        net.bytes_written(),
    ]
}

/// Starts the counts anew, as `stats reset` does.
pub(crate) fn reset(shared: &Shared) {
    let baseline = Baseline {
        commands: command_sums(shared),
        cache: shared.cache.counters(),
        net: net_sums(shared),
        udp: shared.net.udp(),
        classes: shared.cache.size_classes(),
        observed: Arc::new(observe::reset(shared)),
    };
    detail::reset(shared);
    *shared.baseline.lock().expect("nothing panics under this lock") = baseline;
}

impl<'a> Reading<'a> {
    fn take(shared: &'a Shared, now: Now) -> Reading<'a> {
        let baseline = baseline(shared);
        let mut commands = command_sums(shared);
        commands
            .iter_mut()
            .zip(baseline.commands)
            .for_each(|(sum, before)| *sum -= before);
        let mut net = net_sums(shared);
        net.iter_mut()
            .zip(baseline.net)
            .for_each(|(sum, before)| *sum -= before);
        let mut cache = shared.cache.counters();
        cache.created -= baseline.cache.created;
        cache.removed = cache.removed.since(&baseline.cache.removed);
        cache.expired_misses -= baseline.cache.expired_misses;
        cache.flushed_misses -= baseline.cache.flushed_misses;
        cache.evicted_unfetched -= baseline.cache.evicted_unfetched;
        cache.expired_unfetched -= baseline.cache.expired_unfetched;
        Reading {
            shared,
            now,
            commands,
            cache,
            usage: shared.cache.usage(),
            net,
            udp: shared.net.udp().since(&baseline.udp),
            classes_before: baseline.classes,
        }
    }

    fn command(&self, counter: Counter) -> u64 {
        self.commands[counter as usize]
    }

    fn tls(&self, count: fn(&scrubjay_tls::Counters) -> &AtomicU64) -> u64 {
        let tls = self.shared.tls.as_ref();
        tls.map_or(0, |tls| count(&tls.counters).load(Ordering::Relaxed))
    }

    /// Numbers of the classes of sizes and what is in them.
    fn classes(&self) -> impl Iterator<Item = (usize, SizeClass)> {
        classes::since(self.shared.cache.size_classes(), &self.classes_before)
    }

    fn evictions(&self) -> u64 {
        self.cache.removed.evicted + self.cache.removed.limit_lowered
    }
}

/// Where a value comes from.
enum Source {
    /// A worker's count.
    Count(Counter),
    /// Always this, for a part that is not here.
    Always(&'static str),
    /// A number.
    Number(fn(&Reading<'_>) -> u64),
    /// Anything else.
    Text(fn(&Reading<'_>) -> String),
}

use Source::{Always, Count, Number, Text};

impl Source {
    fn value(&self, reading: &Reading<'_>) -> String {
        match self {
            Count(counter) => reading.command(*counter).to_string(),
            Always(value) => (*value).to_owned(),
            Number(number) => number(reading).to_string(),
            Text(text) => text(reading),
        }
    }
}

/// `stats`
const GENERAL: &[(&str, Source)] = &[
    ("pid", Number(|_| std::process::id().into())),
    (
        "uptime",
        Number(|reading| reading.now.nanos_since(reading.shared.cache.opened()) / 1_000_000_000),
    ),
    (
        "time",
        Number(|reading| (reading.shared.cache.config().unix_millis_at_start + reading.now.millis()) / 1000),
    ),
    ("version", Always(VERSION)),
    ("scrubjay_version", Always(env!("CARGO_PKG_VERSION"))),
    ("pointer_size", Always("64")),
    ("rusage_user", Text(|_| scrubjay_io::process::cpu_seconds().0)),
    ("rusage_system", Text(|_| scrubjay_io::process::cpu_seconds().1)),
    (
        "max_connections",
        Number(|reading| reading.shared.options_now().conn_limit as u64),
    ),
    (
        "curr_connections",
        Number(|reading| reading.shared.net.curr_connections.load(Ordering::Relaxed)),
    ),
    ("total_connections", Number(|reading| reading.net[0])),
    ("rejected_connections", Number(|reading| reading.net[1])),
    (
        "connection_structures",
        Number(|reading| reading.shared.net.curr_connections.load(Ordering::Relaxed)),
    ),
    ("response_obj_oom", Always("0")),
    ("response_obj_count", Always("0")),
    ("response_obj_bytes", Always("0")),
    ("read_buf_count", Always("0")),
    ("read_buf_bytes", Always("0")),
    ("read_buf_bytes_free", Always("0")),
    ("read_buf_oom", Always("0")),
    (
        "reserved_fds",
        Number(|reading| 5 * reading.shared.options.threads as u64),
    ),
    ("cmd_get", Count(Counter::CmdGet)),
    ("cmd_set", Count(Counter::CmdSet)),
    ("cmd_flush", Count(Counter::CmdFlush)),
    ("cmd_touch", Count(Counter::CmdTouch)),
    ("cmd_meta", Count(Counter::CmdMeta)),
    ("get_hits", Count(Counter::GetHits)),
    ("get_misses", Count(Counter::GetMisses)),
    ("get_expired", Number(|reading| reading.cache.expired_misses)),
    ("get_flushed", Number(|reading| reading.cache.flushed_misses)),
    ("delete_misses", Count(Counter::DeleteMisses)),
    ("delete_hits", Count(Counter::DeleteHits)),
    ("incr_misses", Count(Counter::IncrMisses)),
    ("incr_hits", Count(Counter::IncrHits)),
    ("decr_misses", Count(Counter::DecrMisses)),
    ("decr_hits", Count(Counter::DecrHits)),
    ("cas_misses", Count(Counter::CasMisses)),
    ("cas_hits", Count(Counter::CasHits)),
    ("cas_badval", Count(Counter::CasBadval)),
    ("touch_hits", Count(Counter::TouchHits)),
    ("touch_misses", Count(Counter::TouchMisses)),
    ("store_too_large", Count(Counter::StoreTooLarge)),
    ("store_no_memory", Count(Counter::StoreNoMemory)),
    ("auth_cmds", Count(Counter::AuthCmds)),
    ("auth_errors", Count(Counter::AuthErrors)),
    (
        "idle_kicks",
        Number(|reading| reading.shared.net.idle_kicks.load(Ordering::Relaxed)),
    ),
    ("bytes_read", Number(|reading| reading.net[2])),
    ("bytes_written", Number(|reading| reading.net[3])),
    ("limit_maxbytes", Number(|reading| reading.usage.memory_max)),
    (
        "accepting_conns",
        Number(|reading| {
            1 - reading
                .shared
                .net
                .accepting_stopped
                .load(Ordering::Relaxed)
                .min(1)
        }),
    ),
    (
        "listen_disabled_num",
        Number(|reading| reading.shared.net.listen_disabled_num.load(Ordering::Relaxed)),
    ),
    (
        "time_in_listen_disabled_us",
        Number(|reading| reading.shared.net.listen_disabled_micros.load(Ordering::Relaxed)),
    ),
    ("threads", Number(|reading| reading.shared.options.threads as u64)),
    (
        "conn_yields",
        Number(|reading| reading.shared.net.conn_yields.load(Ordering::Relaxed)),
    ),
    (
        "hash_power_level",
        Number(|reading| u64::from(reading.usage.index_bytes.max(1).ilog2())),
    ),
    ("hash_bytes", Number(|reading| reading.usage.index_bytes)),
    (
        "hash_is_expanding",
        Number(|reading| reading.usage.index_is_resizing.into()),
    ),
    ("slab_reassign_rescues", Always("0")),
    ("slab_reassign_chunk_rescues", Always("0")),
    ("slab_reassign_inline_reclaim", Always("0")),
    ("slab_reassign_busy_items", Always("0")),
    ("slab_reassign_busy_deletes", Always("0")),
    ("slab_reassign_busy_nomem", Always("0")),
    ("slab_reassign_last_busy_status", Always("0")),
    ("slab_reassign_running", Always("0")),
    ("slabs_moved", Always("0")),
    ("lru_crawler_running", Always("0")),
    ("lru_crawler_starts", Always("0")),
    ("lru_maintainer_juggles", Always("0")),
    ("malloc_fails", Always("0")),
    (
        "log_worker_dropped",
        Number(|reading| reading.shared.log.counts().dropped),
    ),
    (
        "log_worker_written",
        Number(|reading| reading.shared.log.counts().written),
    ),
    (
        "log_watcher_skipped",
        Number(|reading| reading.shared.log.counts().skipped),
    ),
    (
        "log_watcher_sent",
        Number(|reading| reading.shared.log.counts().sent),
    ),
    (
        "log_watchers",
        Number(|reading| reading.shared.log.counts().watchers),
    ),
    ("unexpected_napi_ids", Always("0")),
    ("round_robin_fallback", Always("0")),
    ("bytes", Number(|reading| reading.usage.item_bytes)),
    ("curr_items", Number(|reading| reading.usage.items)),
    ("total_items", Number(|reading| reading.cache.created)),
    ("slab_global_page_pool", Always("0")),
    (
        "expired_unfetched",
        Number(|reading| reading.cache.expired_unfetched),
    ),
    (
        "evicted_unfetched",
        Number(|reading| reading.cache.evicted_unfetched),
    ),
    ("evicted_active", Always("0")),
    ("evictions", Number(|reading| reading.evictions())),
    ("reclaimed", Number(|reading| reading.cache.removed.expired)),
    ("crawler_reclaimed", Always("0")),
    ("crawler_items_checked", Always("0")),
    ("lrutail_reflocked", Always("0")),
    ("moves_to_cold", Always("0")),
    ("moves_to_warm", Always("0")),
    ("moves_within_lru", Always("0")),
    ("direct_reclaims", Always("0")),
    ("lru_bumps_dropped", Always("0")),
    ("removed_expired", Number(|reading| reading.cache.removed.expired)),
    ("removed_evicted", Number(|reading| reading.cache.removed.evicted)),
    (
        "removed_replaced",
        Number(|reading| reading.cache.removed.replaced),
    ),
    ("removed_deleted", Number(|reading| reading.cache.removed.deleted)),
    ("removed_flushed", Number(|reading| reading.cache.removed.flushed)),
    (
        "removed_invalidated",
        Number(|reading| reading.cache.removed.invalidated),
    ),
    (
        "removed_too_large",
        Number(|reading| reading.cache.removed.too_large),
    ),
    (
        "removed_no_memory",
        Number(|reading| reading.cache.removed.no_memory),
    ),
    (
        "removed_limit_lowered",
        Number(|reading| reading.cache.removed.limit_lowered),
    ),
    (
        "evictions_beyond_bound",
        Number(|reading| reading.cache.evictions_beyond_bound),
    ),
    (
        "rejected_by_address",
        Number(|reading| reading.shared.net.rejected_by_address.load(Ordering::Relaxed)),
    ),
    ("rejected_by_user", Count(Counter::RejectedByUser)),
    (
        "held_by_address",
        Number(|reading| reading.shared.net.held_by_address.times.load(Ordering::Relaxed)),
    ),
    (
        "time_held_by_address_us",
        Number(|reading| reading.shared.net.held_by_address.micros.load(Ordering::Relaxed)),
    ),
    (
        "held_by_user",
        Number(|reading| reading.shared.net.held_by_user.times.load(Ordering::Relaxed)),
    ),
    (
        "time_held_by_user_us",
        Number(|reading| reading.shared.net.held_by_user.micros.load(Ordering::Relaxed)),
    ),
    ("commands_forbidden", Count(Counter::CommandsForbidden)),
    ("segments_used", Number(|reading| reading.usage.segments_used)),
    ("segments_total", Number(|reading| reading.usage.segments_total)),
    ("segment_size", Number(|reading| reading.usage.segment_size)),
    (
        "segments_reclaimed",
        Number(|reading| reading.cache.segments_reclaimed),
    ),
    ("relocated_bytes", Number(|reading| reading.cache.relocated_bytes)),
    ("upload_bytes", Number(|reading| reading.usage.upload_bytes)),
    (
        "connection_bytes",
        Number(|reading| reading.shared.net.memory.held()),
    ),
    (
        "connection_memory_kicks",
        Number(|reading| reading.shared.net.memory.kicks()),
    ),
    ("index_bytes", Number(|reading| reading.usage.index_bytes)),
    ("huge_page_bytes", Number(|reading| reading.usage.huge_page_bytes)),
    (
        "huge_pages_refused",
        Number(|reading| reading.usage.huge_pages_refused),
    ),
    ("locks_refused", Number(|reading| reading.usage.locks_refused)),
    ("ledger_bytes", Number(|reading| reading.usage.ledger_bytes)),
    ("eviction_bytes", Number(|reading| reading.usage.eviction_bytes)),
    ("dead_bytes", Number(|reading| reading.usage.dead_bytes)),
    ("expired_bytes", Number(|reading| reading.usage.expired_bytes)),
    ("unread_bytes", Number(|reading| reading.usage.unread_bytes)),
];

/// `stats`, where datagrams are served.
const UDP: &[(&str, Source)] = &[
    ("udp_requests", Number(|reading| reading.udp.requests)),
    ("udp_replies", Number(|reading| reading.udp.replies)),
    ("udp_dropped", Number(|reading| reading.udp.dropped)),
    (
        "udp_refused_amplification",
        Number(|reading| reading.udp.refused_amplification),
    ),
    ("udp_unsent", Number(|reading| reading.udp.unsent)),
];

/// `stats`, where connections are encrypted.
const TLS: &[(&str, Source)] = &[
    (
        "ssl_handshake_errors",
        Number(|reading| reading.tls(|counters| &counters.handshake_errors)),
    ),
    (
        "ssl_proto_errors",
        Number(|reading| reading.tls(|counters| &counters.protocol_errors)),
    ),
    (
        "ssl_new_sessions",
        Number(|reading| reading.tls(|counters| &counters.new_sessions)),
    ),
    (
        "ssl_resumed_sessions",
        Number(|reading| reading.tls(|counters| &counters.resumed_sessions)),
    ),
    (
        "time_since_server_cert_refresh",
        Number(|reading| {
            let tls = reading.shared.tls.as_ref();
            tls.map_or(0, |tls| tls.secs_since_load(reading.now))
        }),
    ),
];

/// Calls `each` with name and value of every statistic of `group` (empty: the general ones); `false` if there is no such
/// group.
pub fn report(shared: &Shared, now: Now, group: &[u8], each: &mut dyn FnMut(&str, &str)) -> bool {
    let reading = Reading::take(shared, now);
    match group {
        b"" => {
            report_table(&reading, GENERAL, each);
            if shared.options.udp_port != 0 {
                report_table(&reading, UDP, each);
            }
            if shared.tls.is_some() {
                report_table(&reading, TLS, each);
            }
        }
        b"settings" => {
            let options = shared.options_now();
            options::settings(&options)
                .iter()
                .for_each(|(name, value)| each(name, value));
            options::origins(&options).for_each(|(name, origin)| each(&name, &origin));
        }
        b"items" => classes::items(&reading, each),
        b"slabs" => classes::slabs(&reading, each),
        b"sizes" => classes::sizes(&reading, each),
        // Sizes are always counted: that costs no look-up anything.
        b"sizes_enable" | b"sizes_disable" => each("sizes_status", "enabled"),
        b"mrc" => report_curve(shared, each),
        b"latency" => latency::report(shared, each),
        b"hotkeys" => keys::report_hot_keys(shared, now, each),
        b"prefixes" => keys::report_prefixes(shared, each),
        b"ttls" => keys::report_ttls(shared, each),
        // As memcached where no such storage is named.
        b"extstore" => {}
        _ => return false,
    }
    true
}

/// `stats mrc`: what other memory limits would have missed since the start.
fn report_curve(shared: &Shared, each: &mut dyn FnMut(&str, &str)) {
    for point in shared.cache.miss_ratio_curve() {
        let name = |what: &str| format!("{}x:{what}", point.factor);
        each(&name("limit_maxbytes"), &point.memory_max.to_string());
        if let Some(ratio) = point.miss_ratio {
            each(&name("miss_ratio"), &format!("{ratio:.4}"));
        }
        each(&name("sampled_keys"), &point.keys.to_string());
        each(&name("one_key_in"), &point.sample.to_string());
    }
}

fn report_table(reading: &Reading<'_>, table: &[(&str, Source)], each: &mut dyn FnMut(&str, &str)) {
    for (name, source) in table {
        each(name, &source.value(reading));
    }
}
