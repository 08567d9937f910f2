//! What memcached tells and this server does not, and why. A test compares the two of them, name by name.

/// Statistics of memcached that have no row here: the command, the name or its beginning, and why.
pub const ABSENT: &[(&str, &str, &str)] = &[
    ("stats", "libevent", "the event loop is this program's own"),
    (
        "stats",
        "slab_reassign_evictions_nomem",
        "newer versions of memcached do not tell it either",
    ),
    (
        "stats",
        "extstore_",
        "there is no storage behind memory; memcached tells them with `-o ext_path` only",
    ),
    (
        "stats",
        "proxy_",
        "there is no proxy; memcached tells them when built with one",
    ),
    (
        "stats sizes",
        "sizes_status",
        "sizes are always counted, so that nothing says disabled",
    ),
];

/// Why the statistic `name` of `command` is missing, if that is meant.
pub fn why_absent(command: &str, name: &str) -> Option<&'static str> {
    let row = ABSENT
        .iter()
        .find(|(of, start, _)| *of == command && name.starts_with(start));
    row.map(|(_, _, why)| *why)
}
