//! THE metrics table: every family that `/metrics` shows in OpenMetrics 1.0, and which statistics it is made of.
//!
//! Names are those of Prometheus' memcached_exporter where they mean the same, so that dashboards and alerts made for it
//! go on working; what only scrubjay knows begins with `scrubjay_`. OpenMetrics wants counters to end in `_total`:
//! `memcached_uptime_seconds` is a gauge therefore.

mod times;
mod worked;

use std::fmt::Write as _;

use scrubjay_server::observe::{Distribution, Latency};

use self::worked::{
    commands, curve_limits, curve_ratios, escaped, labelled, listener_disabled, memory_parts, started,
    version,
};
use crate::reading::Reading;

/// Content type of the text. Source: OpenMetrics 1.0.0.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// One family.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// The family's name, without a counter's `_total`; a unit stands at its end.
    pub name: &'static str,
    kind: Kind,
    samples: Samples,
    help: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
    Info,
}

/// Where samples come from. Statistics that are not told, as UDP's without UDP, make none.
#[derive(Clone, Copy, Debug)]
enum Samples {
    /// A statistic.
    Of(&'static str),
    /// Statistics, each with its labels.
    Each(&'static [(&'static str, &'static str)]),
    /// Every statistic whose name begins so; the rest of it is the value of the label.
    Prefixed(&'static str, &'static str),
    /// How long requests took or waited.
    Times(fn(&Latency) -> &Distribution),
    /// Anything else: labels and value.
    Worked(fn(&Reading) -> Vec<(String, String)>),
}

use Samples::{Each, Of, Prefixed, Times, Worked};

const fn counter(name: &'static str, samples: Samples, help: &'static str) -> Metric {
    let kind = Kind::Counter;
    Metric {
        name,
        kind,
        samples,
        help,
    }
}

const fn gauge(name: &'static str, samples: Samples, help: &'static str) -> Metric {
    let kind = Kind::Gauge;
    Metric {
        name,
        kind,
        samples,
        help,
    }
}

const fn histogram(name: &'static str, times: fn(&Latency) -> &Distribution, help: &'static str) -> Metric {
    let (kind, samples) = (Kind::Histogram, Times(times));
    Metric {
        name,
        kind,
        samples,
        help,
    }
}

/// Units that a name may end with.
const UNITS: [&str; 3] = ["bytes", "seconds", "ratio"];

const METRICS: &[Metric] = &[
    gauge(
        "memcached_up",
        Worked(|_| vec![(String::new(), "1".to_owned())]),
        "1: the server answers",
    ),
    gauge("memcached_uptime_seconds", Of("uptime"), "Time since the start"),
    gauge("memcached_time_seconds", Of("time"), "Unix time"),
    gauge(
        "process_start_time_seconds",
        Worked(started),
        "Unix time of the start",
    ),
    gauge(
        "memcached_version",
        Worked(|reading| version(reading, "version")),
        "Level of memcached's protocol, as a label",
    ),
    Metric {
        name: "scrubjay_build",
        kind: Kind::Info,
        samples: Worked(|reading| version(reading, "scrubjay_version")),
        help: "Version of scrubjay",
    },
    counter(
        "memcached_process_user_cpu_seconds",
        Of("rusage_user"),
        "Processor time in user mode",
    ),
    counter(
        "memcached_process_system_cpu_seconds",
        Of("rusage_system"),
        "Processor time in system mode",
    ),
    gauge("scrubjay_threads", Of("threads"), "Worker threads"),
    // Commands.
    counter(
        "memcached_commands",
        Worked(commands),
        "Requests by command and what came of them; a set that was carried out is a hit",
    ),
    counter(
        "scrubjay_meta_commands",
        Of("cmd_meta"),
        "Requests of the meta protocol, which are counted by command as well",
    ),
    counter(
        "memcached_item_too_large",
        Of("store_too_large"),
        "Stores refused because the item was over the size limit",
    ),
    counter(
        "memcached_item_no_memory",
        Of("store_no_memory"),
        "Stores refused for want of memory",
    ),
    histogram(
        "scrubjay_request_service_seconds",
        |latency| &latency.service,
        "Time from taking a request up to its reply, of the requests that were measured: one in -o sample_interval",
    ),
    histogram(
        "scrubjay_request_wait_seconds",
        |latency| &latency.wait,
        "Time from the start of the worker's turn until the request was taken up, of the same requests",
    ),
    counter(
        "scrubjay_sets_by_ttl",
        Worked(|reading| labelled("ttl", &reading.ttls)),
        "Stores by the life that they gave their item; kept: append and prepend",
    ),
    gauge(
        "scrubjay_prefix_keys",
        Worked(|reading| labelled("prefix", &reading.prefixes)),
        "Different keys that were stored under a prefix, about; *: without one, or under others",
    ),
    // Connections.
    gauge(
        "memcached_max_connections",
        Of("max_connections"),
        "Most connections at a time",
    ),
    gauge(
        "memcached_current_connections",
        Of("curr_connections"),
        "Open connections",
    ),
    gauge(
        "memcached_accepting_connections",
        Of("accepting_conns"),
        "1 while connections are accepted",
    ),
    counter(
        "memcached_connections",
        Of("total_connections"),
        "Connections accepted",
    ),
    counter(
        "memcached_connections_rejected",
        Of("rejected_connections"),
        "Connections refused because of the limit",
    ),
    counter(
        "scrubjay_connections_rejected_by_address",
        Of("rejected_by_address"),
        "Connections refused because their address had as many as it may",
    ),
    counter(
        "scrubjay_connections_rejected_by_user",
        Of("rejected_by_user"),
        "Logins refused because the user had as many connections as it may",
    ),
    counter(
        "scrubjay_connections_held_by_address",
        Of("held_by_address"),
        "Times that a connection was not read for a while because its address asked too much",
    ),
    counter(
        "scrubjay_connections_held_by_user",
        Of("held_by_user"),
        "Times that a connection was not read for a while because its user asked too much",
    ),
    counter(
        "scrubjay_connections_closed_for_memory",
        Of("connection_memory_kicks"),
        "Connections closed because together they held too much",
    ),
    counter(
        "memcached_connections_listener_disabled",
        Of("listen_disabled_num"),
        "Times that accepting stopped because of the limit",
    ),
    counter(
        "scrubjay_listener_disabled_seconds",
        Worked(listener_disabled),
        "Time during which accepting was stopped",
    ),
    counter(
        "memcached_connections_yielded",
        Of("conn_yields"),
        "Times that a connection with more to do had to let others go first",
    ),
    counter("memcached_read_bytes", Of("bytes_read"), "Bytes received"),
    counter("memcached_written_bytes", Of("bytes_written"), "Bytes sent"),
    counter("scrubjay_logins", Of("auth_cmds"), "Logins tried"),
    counter("scrubjay_login_errors", Of("auth_errors"), "Logins that failed"),
    counter(
        "scrubjay_commands_forbidden",
        Of("commands_forbidden"),
        "Requests that their user may not make",
    ),
    counter(
        "scrubjay_udp_datagrams",
        Each(&[
            ("direction=\"in\",outcome=\"answered\"", "udp_requests"),
            ("direction=\"in\",outcome=\"dropped\"", "udp_dropped"),
            ("direction=\"out\",outcome=\"sent\"", "udp_replies"),
            ("direction=\"out\",outcome=\"unsent\"", "udp_unsent"),
        ]),
        "Datagrams, where UDP is served",
    ),
    counter(
        "scrubjay_udp_refused_amplification",
        Of("udp_refused_amplification"),
        "Replies over UDP that were too long for their peer",
    ),
    counter(
        "scrubjay_tls_sessions",
        Each(&[
            ("kind=\"new\"", "ssl_new_sessions"),
            ("kind=\"resumed\"", "ssl_resumed_sessions"),
        ]),
        "TLS sessions begun",
    ),
    counter(
        "scrubjay_tls_errors",
        Each(&[
            ("during=\"handshake\"", "ssl_handshake_errors"),
            ("during=\"session\"", "ssl_proto_errors"),
        ]),
        "TLS connections that failed",
    ),
    gauge(
        "scrubjay_tls_certificate_load_age_seconds",
        Of("time_since_server_cert_refresh"),
        "Time since the certificates were read",
    ),
    // Items.
    gauge("memcached_current_items", Of("curr_items"), "Items in the cache"),
    counter("memcached_items", Of("total_items"), "Items created"),
    counter(
        "memcached_items_evicted",
        Of("evictions"),
        "Live items removed for want of room",
    ),
    counter(
        "memcached_items_reclaimed",
        Of("reclaimed"),
        "Items that died of age",
    ),
    counter(
        "scrubjay_items_removed",
        Prefixed("cause", "removed_"),
        "Items that left, each under one cause",
    ),
    counter(
        "scrubjay_items_evicted_unfetched",
        Of("evicted_unfetched"),
        "Live items removed for want of room that nobody had read",
    ),
    counter(
        "scrubjay_items_expired_unfetched",
        Of("expired_unfetched"),
        "Items that died of age and that nobody had read",
    ),
    counter(
        "scrubjay_evictions_beyond_bound",
        Of("evictions_beyond_bound"),
        "Live items evicted while more than a sixteenth of the memory was dead; should stay 0",
    ),
    // Memory.
    gauge("memcached_limit_bytes", Of("limit_maxbytes"), "The memory limit"),
    gauge(
        "memcached_current_bytes",
        Of("bytes"),
        "Bytes of items: header, key, value",
    ),
    gauge(
        "scrubjay_memory_bytes",
        Worked(memory_parts),
        "Where the memory limit goes: live, expired and dead items, segments not filled yet, what the cache keeps beside items, free",
    ),
    gauge(
        "scrubjay_index_is_resizing",
        Of("hash_is_expanding"),
        "1 while the index grows or shrinks",
    ),
    gauge(
        "scrubjay_unread_bytes",
        Of("unread_bytes"),
        "Bytes of items that nobody has read yet",
    ),
    gauge(
        "scrubjay_upload_bytes",
        Of("upload_bytes"),
        "Bytes of values that are still arriving",
    ),
    gauge("scrubjay_segments_used", Of("segments_used"), "Segments in use"),
    gauge(
        "scrubjay_segments_allowed",
        Of("segments_total"),
        "Segments that the memory limit allows",
    ),
    gauge(
        "scrubjay_segment_size_bytes",
        Of("segment_size"),
        "Size of a segment",
    ),
    counter(
        "scrubjay_segments_reclaimed",
        Of("segments_reclaimed"),
        "Segments emptied, by any means",
    ),
    counter(
        "scrubjay_relocated_bytes",
        Of("relocated_bytes"),
        "Live bytes copied to empty segments",
    ),
    gauge(
        "scrubjay_huge_page_bytes",
        Of("huge_page_bytes"),
        "Bytes of index and segments under huge pages",
    ),
    counter(
        "scrubjay_huge_pages_refused",
        Of("huge_pages_refused"),
        "Huge pages that the operating system refused",
    ),
    counter(
        "scrubjay_locks_refused",
        Of("locks_refused"),
        "Segments that -k could not lock into RAM",
    ),
    // What other limits would miss.
    gauge(
        "scrubjay_curve_miss_ratio",
        Worked(curve_ratios),
        "Share of look-ups since the start that a cache with this multiple of the memory would have missed",
    ),
    gauge(
        "scrubjay_curve_limit_bytes",
        Worked(curve_limits),
        "The memory limit of that point of the curve",
    ),
];

impl Metric {
    fn samples(&self, reading: &Reading) -> Vec<(String, String)> {
        let plain = |labels: &str, name: &str| {
            let value = reading.get(name)?;
            Some((labels.to_owned(), value.to_owned()))
        };
        match self.samples {
            Of(name) => plain("", name).into_iter().collect(),
            Each(rows) => rows
                .iter()
                .filter_map(|(labels, name)| plain(labels, name))
                .collect(),
            Prefixed(label, prefix) => {
                let rest =
                    |name: &String| Some(format!("{label}=\"{}\"", escaped(name.strip_prefix(prefix)?)));
                let found = reading.general.iter();
                found
                    .filter_map(|(name, value)| Some((rest(name)?, value.clone())))
                    .collect()
            }
            Worked(samples) => samples(reading),
            Times(_) => Vec::new(),
        }
    }

    /// The names of its samples; but for a histogram there is one.
    fn sample_names(&self) -> Vec<String> {
        let suffix = match self.kind {
            Kind::Counter => "_total",
            Kind::Gauge => "",
            Kind::Info => "_info",
            Kind::Histogram => return times::sample_names(self.name).into(),
        };
        vec![format!("{}{suffix}", self.name)]
    }

    fn write(&self, reading: &Reading, text: &mut String) {
        let mut lines = String::new();
        if let Times(of) = self.samples {
            times::write(self.name, &reading.latencies, of, &mut lines);
        }
        for (labels, value) in self.samples(reading) {
            let labels = if labels.is_empty() {
                labels
            } else {
                format!("{{{labels}}}")
            };
            // Writing to a string does not fail.
            let _ = writeln!(lines, "{}{labels} {value}", self.sample_names()[0]);
        }
        if lines.is_empty() {
            return;
        }
        let kind = match self.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
            Kind::Info => "info",
        };
        let name = self.name;
        let _ = writeln!(text, "# TYPE {name} {kind}");
        let unit = name.rsplit('_').next().filter(|last| UNITS.contains(last));
        if let Some(unit) = unit {
            let _ = writeln!(text, "# UNIT {name} {unit}");
        }
        let _ = writeln!(text, "# HELP {name} {}", escaped(self.help));
        text.push_str(&lines);
    }
}

/// The whole text of `/metrics`.
pub fn text(reading: &Reading) -> String {
    let mut text = String::with_capacity(16 << 10);
    METRICS.iter().for_each(|metric| metric.write(reading, &mut text));
    text.push_str("# EOF\n");
    text
}

/// Names of all samples that `/metrics` may show.
pub fn sample_names() -> Vec<String> {
    METRICS.iter().flat_map(Metric::sample_names).collect()
}

#[cfg(test)]
mod tests {
    use super::worked::OUTCOMES;
    use super::{METRICS, Samples, text};
    use crate::reading::Reading;

    fn reading(general: &[(&str, &str)]) -> Reading {
        Reading {
            general: general
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            started_unix_millis: 1_500_000_000_042,
            ..Reading::default()
        }
    }

    #[test]
    fn families_are_written_with_type_unit_help_and_end() {
        let text = text(&reading(&[
            ("bytes_read", "7"),
            ("removed_expired", "3"),
            ("cmd_set", "9"),
            ("cas_hits", "4"),
        ]));
        for line in [
            "# TYPE memcached_read_bytes counter",
            "# UNIT memcached_read_bytes bytes",
            "memcached_read_bytes_total 7",
            "scrubjay_items_removed_total{cause=\"expired\"} 3",
            "memcached_commands_total{command=\"set\",status=\"hit\"} 5",
            "process_start_time_seconds 1500000000.042",
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line} is not in\n{text}"
            );
        }
        assert!(text.ends_with("\n# EOF\n"));
        assert!(!text.contains("udp"), "what is not told makes no family");
    }

    #[test]
    fn no_family_is_there_twice() {
        let mut names: Vec<_> = METRICS.iter().map(|metric| metric.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), METRICS.len());
        assert!(names.iter().all(|name| !name.ends_with("_total")));
    }

    /// The names of statistics in the table are names of the statistics table.
    #[test]
    fn every_statistic_of_the_table_exists() {
        let known = scrubjay_server::stats::markdown();
        let named = METRICS.iter().flat_map(|metric| match metric.samples {
            Samples::Of(name) => vec![name],
            Samples::Each(rows) => rows.iter().map(|(_, name)| *name).collect(),
            Samples::Prefixed(..) | Samples::Times(_) | Samples::Worked(_) => Vec::new(),
        });
        for name in named.chain(OUTCOMES.iter().map(|(.., name)| *name)) {
            assert!(
                known.contains(&format!("`{name}`")),
                "there is no statistic {name}"
            );
        }
    }
}
