//! What each measured statistic means: a sentence for people, with its unit, and what to do about it where that is known.

use super::markdown::{reason, rows};

/// Command, name, meaning.
const MEANINGS: &[(&str, &str, &str)] = &[
    ("stats", "pid", "process id; changes with a restart or an upgrade"),
    ("stats", "uptime", "seconds since the process started"),
    ("stats", "time", "Unix time by the server's clock, in seconds"),
    (
        "stats",
        "version",
        "level of memcached's protocol that clients may rely on",
    ),
    ("stats", "scrubjay_version", "version of this program"),
    ("stats", "rusage_user", "seconds of processor time in user mode"),
    (
        "stats",
        "rusage_system",
        "seconds of processor time in the kernel, most of it for sockets",
    ),
    ("stats", "max_connections", "most connections at a time (`-c`)"),
    ("stats", "curr_connections", "connections that are open"),
    (
        "stats",
        "total_connections",
        "connections accepted; a fast rise means clients that connect for every request",
    ),
    (
        "stats",
        "rejected_connections",
        "connections refused because `-c` was reached: raise it, or find who leaks them with `stats conns`",
    ),
    ("stats", "connection_structures", "as `curr_connections`"),
    (
        "stats",
        "reserved_fds",
        "descriptors kept for the process's own use",
    ),
    (
        "stats",
        "cmd_get",
        "keys looked up by any get; a multi-get of 100 keys counts 100",
    ),
    (
        "stats",
        "cmd_set",
        "stores asked for: set, add, replace, append, prepend, cas, `ms`",
    ),
    ("stats", "cmd_flush", "`flush_all` requests"),
    ("stats", "cmd_touch", "keys touched: touch, gat, `mg` with T"),
    (
        "stats",
        "cmd_meta",
        "requests of the meta protocol, counted under their kind besides",
    ),
    (
        "stats",
        "get_hits",
        "look-ups that found the key; the hit ratio is this over `cmd_get`",
    ),
    (
        "stats",
        "get_misses",
        "look-ups that did not, whatever the reason; `scrubjay why KEY` tells it for one key",
    ),
    (
        "stats",
        "get_expired",
        "of the misses, those for an item that had expired and was not removed yet, which takes 2 s at most; memcached, which waits for a \
         reader, counts most of them here",
    ),
    (
        "stats",
        "get_flushed",
        "of the misses, those for an item that `flush_all` had made unreadable and that was not removed yet",
    ),
    ("stats", "delete_misses", "deletions of keys that were not there"),
    ("stats", "delete_hits", "deletions that removed an item"),
    ("stats", "incr_misses", "incr of keys that were not there"),
    ("stats", "incr_hits", "incr that changed a number"),
    ("stats", "decr_misses", "decr of keys that were not there"),
    ("stats", "decr_hits", "decr that changed a number"),
    ("stats", "cas_misses", "cas of keys that were not there"),
    ("stats", "cas_hits", "cas that stored"),
    (
        "stats",
        "cas_badval",
        "cas that came too late: somebody else had changed the item",
    ),
    ("stats", "touch_hits", "touches that found the key"),
    ("stats", "touch_misses", "touches that did not"),
    (
        "stats",
        "store_too_large",
        "stores refused because the item was over `-I`; the old item is removed, as in memcached",
    ),
    (
        "stats",
        "store_no_memory",
        "stores refused for want of memory: with `-M`, or while all memory is held by replies being sent",
    ),
    ("stats", "auth_cmds", "attempts to log in"),
    ("stats", "auth_errors", "attempts that failed"),
    (
        "stats",
        "idle_kicks",
        "connections closed because they did nothing for the time of `-o idle_timeout`; memcached shows it only with that option",
    ),
    ("stats", "bytes_read", "bytes received from clients"),
    ("stats", "bytes_written", "bytes sent to clients"),
    (
        "stats",
        "limit_maxbytes",
        "bytes that the cache may take, index and buffers included (`-m`, `cache_memlimit`)",
    ),
    (
        "stats",
        "accepting_conns",
        "1 while new connections are accepted, 0 while `-c` keeps them waiting",
    ),
    (
        "stats",
        "listen_disabled_num",
        "times that accepting stopped because of `-c`",
    ),
    (
        "stats",
        "time_in_listen_disabled_us",
        "microseconds during which nothing was accepted",
    ),
    ("stats", "threads", "workers (`-t`)"),
    (
        "stats",
        "conn_yields",
        "times that a connection had more to do than its share of a turn and let others go first",
    ),
    (
        "stats",
        "hash_power_level",
        "logarithm to base two of `hash_bytes`",
    ),
    ("stats", "hash_bytes", "bytes of the index"),
    (
        "stats",
        "hash_is_expanding",
        "1 while the index changes its size, in small steps",
    ),
    (
        "stats",
        "log_worker_dropped",
        "events that a worker had no room for; a larger `-o worker_logbuf_size` keeps more",
    ),
    (
        "stats",
        "log_worker_written",
        "events written by workers while somebody watched",
    ),
    (
        "stats",
        "log_watcher_skipped",
        "lines that watchers did not get because they read too slowly",
    ),
    ("stats", "log_watcher_sent", "lines sent to watchers"),
    ("stats", "log_watchers", "connections that watch"),
    (
        "stats",
        "bytes",
        "bytes of the items in the cache, headers and padding included",
    ),
    (
        "stats",
        "curr_items",
        "items in the cache; expired ones count until their segment goes, within 2 s",
    ),
    (
        "stats",
        "total_items",
        "items ever stored, every new version of a key counted",
    ),
    (
        "stats",
        "expired_unfetched",
        "expired items that nobody had read: written in vain",
    ),
    ("stats", "evicted_unfetched", "evicted items that nobody had read"),
    (
        "stats",
        "evictions",
        "items removed alive for want of room; if it rises and the hit ratio falls, look at `stats mrc`",
    ),
    ("stats", "reclaimed", "expired items whose memory came back"),
    (
        "stats",
        "removed_expired",
        "items that left because their time was over",
    ),
    ("stats", "removed_evicted", "items that left for want of room"),
    (
        "stats",
        "removed_replaced",
        "items that left because a newer version of the key was stored",
    ),
    (
        "stats",
        "removed_deleted",
        "items that left because a client deleted them",
    ),
    ("stats", "removed_flushed", "items that left by `flush_all`"),
    (
        "stats",
        "removed_invalidated",
        "values dropped on request while their key stayed (`md` with x)",
    ),
    (
        "stats",
        "removed_too_large",
        "items that left because a new version was too large to store",
    ),
    (
        "stats",
        "removed_no_memory",
        "items that left because there was no room for a new version",
    ),
    (
        "stats",
        "removed_limit_lowered",
        "items that left because the memory limit was lowered",
    ),
    (
        "stats",
        "evictions_beyond_bound",
        "evictions while more than a sixteenth of the memory was dead; should stay 0",
    ),
    (
        "stats",
        "rejected_by_address",
        "connections refused by `--connections-per-address`",
    ),
    (
        "stats",
        "rejected_by_user",
        "logins refused by `--connections-per-user`",
    ),
    (
        "stats",
        "held_by_address",
        "times that a connection was not read for a while because of `--requests-per-address`",
    ),
    (
        "stats",
        "time_held_by_address_us",
        "microseconds for which connections were not read because of it, all together",
    ),
    (
        "stats",
        "held_by_user",
        "times that a connection was not read for a while because of `--requests-per-user`",
    ),
    (
        "stats",
        "time_held_by_user_us",
        "microseconds for which connections were not read because of it, all together",
    ),
    (
        "stats",
        "commands_forbidden",
        "requests refused because the user has not the right",
    ),
    ("stats", "segments_used", "segments that hold items"),
    (
        "stats",
        "segments_total",
        "segments that may be used within the limit",
    ),
    ("stats", "segment_size", "bytes of a segment"),
    (
        "stats",
        "segments_reclaimed",
        "segments that became free: all dead, compacted or evicted",
    ),
    (
        "stats",
        "relocated_bytes",
        "bytes of living items that were moved to make room",
    ),
    ("stats", "upload_bytes", "bytes of large values that are arriving"),
    (
        "stats",
        "connection_bytes",
        "bytes that connections hold for input and output in flight",
    ),
    (
        "stats",
        "connection_memory_kicks",
        "connections closed because the memory for such bytes had run out",
    ),
    ("stats", "index_bytes", "as `hash_bytes`"),
    ("stats", "huge_page_bytes", "bytes of the cache under huge pages"),
    (
        "stats",
        "huge_pages_refused",
        "times that the kernel had no huge page to give",
    ),
    (
        "stats",
        "locks_refused",
        "segments that `-k` could not lock into RAM (RLIMIT_MEMLOCK)",
    ),
    (
        "stats",
        "ledger_bytes",
        "bytes of the memory of what left, for `why` (`--ledger-size`)",
    ),
    ("stats", "eviction_bytes", "bytes that eviction keeps to judge by"),
    (
        "stats",
        "dead_bytes",
        "bytes of dead items in full segments, to be reclaimed before anything alive is",
    ),
    (
        "stats",
        "expired_bytes",
        "bytes of items whose time is over and whose memory has not come back yet",
    ),
    (
        "stats",
        "unread_bytes",
        "bytes of items that nobody has read since they were stored",
    ),
    ("stats, with -U", "udp_requests", "datagrams that held a request"),
    ("stats, with -U", "udp_replies", "datagrams sent"),
    (
        "stats, with -U",
        "udp_dropped",
        "datagrams that were no requests, or too short",
    ),
    (
        "stats, with -U",
        "udp_refused_amplification",
        "replies not sent because they were much larger than the request and the peer is unproven (`--udp-allow`)",
    ),
    (
        "stats, with -U",
        "udp_unsent",
        "datagrams that the kernel did not take",
    ),
    ("stats, with -Z", "ssl_handshake_errors", "handshakes that failed"),
    (
        "stats, with -Z",
        "ssl_proto_errors",
        "connections ended by an error of TLS after the handshake",
    ),
    ("stats, with -Z", "ssl_new_sessions", "full handshakes"),
    (
        "stats, with -Z",
        "ssl_resumed_sessions",
        "handshakes that resumed an earlier session",
    ),
    (
        "stats, with -Z",
        "time_since_server_cert_refresh",
        "seconds since the certificates were read",
    ),
    ("stats items", "number", "items of this size class"),
    ("stats items", "number_cold", "as `number`: there is one list"),
    ("stats items", "mem_requested", "bytes of these items"),
    (
        "stats items",
        "evicted",
        "evicted items of this class; the sum over classes is `evictions`",
    ),
    (
        "stats items",
        "evicted_nonzero",
        "those of them that had a time to live",
    ),
    (
        "stats items",
        "evicted_time",
        "seconds since the last access of the item evicted last, of any class",
    ),
    (
        "stats items",
        "reclaimed",
        "expired items of this class whose memory came back",
    ),
    (
        "stats items",
        "expired_unfetched",
        "those of them that nobody had read",
    ),
    (
        "stats items",
        "evicted_unfetched",
        "evicted items of this class that nobody had read",
    ),
    (
        "stats slabs",
        "chunk_size",
        "bytes of the class's mean item, rounded up",
    ),
    ("stats slabs", "chunks_per_page", "such items in a segment"),
    (
        "stats slabs",
        "total_pages",
        "segments that the class's items would fill",
    ),
    ("stats slabs", "total_chunks", "items that would fit into those"),
    ("stats slabs", "used_chunks", "items of the class"),
    (
        "stats slabs",
        "free_chunks",
        "what is left in the last of those segments, in items",
    ),
    ("stats slabs", "mem_requested", "bytes of the class's items"),
    ("stats slabs", "cmd_set", "items of the class ever stored"),
    ("stats conns", "UDP", "stands for a socket of datagrams"),
    ("stats conns", "addr", "the peer, or where the socket listens"),
    (
        "stats conns",
        "listen_addr",
        "the address that the peer connected to",
    ),
    (
        "stats conns",
        "state",
        "what the connection is doing, in memcached's words",
    ),
    (
        "stats conns",
        "secs_since_last_cmd",
        "seconds since the last request",
    ),
    (
        "stats conns",
        "last_cmd",
        "its last request, or the one that is being received: a text command, or the name of a binary one; not told before the first, nor for connections just taken over in an upgrade (not in memcached)",
    ),
    (
        "stats hotkeys",
        "key",
        "one of the keys asked for most in the last seconds, the first most",
    ),
    (
        "stats hotkeys",
        "rate",
        "requests a second for it, estimated from a sample",
    ),
    ("stats hotkeys", "error", "at most so many of them may be others'"),
    (
        "stats prefixes",
        "prefix",
        "beginning of keys up to the delimiter (`-D`); `*` stands for all that are not told apart",
    ),
    (
        "stats prefixes",
        "keys",
        "different keys with it that were stored, estimated",
    ),
    ("stats ttls", "never", "stores of items that never expire"),
    (
        "stats ttls",
        "under_1_minute",
        "stores of items with less than a minute to live",
    ),
    ("stats ttls", "under_1_hour", "stores with a minute to an hour"),
    ("stats ttls", "under_1_day", "stores with an hour to a day"),
    ("stats ttls", "under_30_days", "stores with a day to thirty days"),
    ("stats ttls", "longer", "stores with more"),
    (
        "stats ttls",
        "kept",
        "stores that leave the time as it was: append, prepend",
    ),
    (
        "stats latency",
        "sample_interval",
        "one request in so many is measured",
    ),
    (
        "stats latency",
        "count",
        "requests measured: a sample of one in `sample_interval`",
    ),
    (
        "stats latency",
        "mean_us",
        "mean time from taking a request up to its reply, in microseconds",
    ),
    (
        "stats latency",
        "p50_us",
        "half of the requests took at most so many microseconds",
    ),
    ("stats latency", "p90_us", "nine in ten took at most so many"),
    ("stats latency", "p99_us", "99 in a hundred took at most so many"),
    (
        "stats latency",
        "p999_us",
        "999 in a thousand took at most so many",
    ),
    ("stats latency", "max_us", "the longest of those measured"),
    (
        "stats latency",
        "wait_mean_us",
        "mean time from the start of the worker's turn to taking the request up, in microseconds",
    ),
    (
        "stats latency",
        "wait_p50_us",
        "half of the requests waited at most so many microseconds",
    ),
    (
        "stats latency",
        "wait_p90_us",
        "nine in ten waited at most so many",
    ),
    (
        "stats latency",
        "wait_p99_us",
        "99 in a hundred waited at most so many",
    ),
    (
        "stats latency",
        "wait_p999_us",
        "999 in a thousand waited at most so many",
    ),
    (
        "stats latency",
        "wait_max_us",
        "the longest wait of those measured",
    ),
];

/// What the statistic `name` of `command`, as the tables call it, means.
pub(super) fn of(command: &str, name: &str) -> Option<&'static str> {
    let mut rows = MEANINGS.iter();
    rows.find(|row| (row.0, row.1) == (command, name))
        .map(|row| row.2)
}

/// What a line `name` of `stats GROUP` means, or why it is always the same; names of classes and sockets come with their number.
pub fn meaning(group: &str, name: &str) -> Option<&'static str> {
    let last = name.rsplit(':').next().unwrap_or(name);
    let is_of_group = |command: &str| match group {
        "" => command == "stats" || command.starts_with("stats, "),
        _ => command.strip_prefix("stats ") == Some(group),
    };
    let mut rows = rows().filter(|row| is_of_group(row.0) && row.1 == last);
    rows.find_map(|(command, name, _)| of(command, &name).or_else(|| reason(command, &name)))
}

#[cfg(test)]
mod tests {
    use super::{MEANINGS, meaning, of, rows};

    #[test]
    fn every_measured_statistic_has_a_meaning_and_every_meaning_a_statistic() {
        for (command, name, always) in rows() {
            let is_told = always.is_some() || of(command, &name).is_some();
            assert!(is_told, "{command}: {name} has no meaning in stats/meaning.rs");
        }
        for (command, name, _) in MEANINGS {
            let mut there = rows();
            assert!(
                there.any(|row| (row.0, row.1.as_str()) == (*command, *name)),
                "{command}: {name}"
            );
        }
    }

    #[test]
    fn a_line_of_a_class_or_socket_finds_its_meaning() {
        assert!(meaning("items", "items:3:evicted").is_some_and(|text| text.contains("evictions")));
        assert!(meaning("", "udp_replies").is_some());
        assert!(meaning("", "slabs_moved").is_some_and(|text| text.contains("no slab classes")));
        assert_eq!(meaning("", "state"), None);
    }
}
