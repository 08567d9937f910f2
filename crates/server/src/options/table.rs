//! The option table. A row here makes an option; everything else follows from it.
//!
//! Names, letters, defaults and exit statuses are memcached's. Source: memcached 1.6.18 `-h` and `stats settings`, run
//! case by case, and the option list of 1.6.45.

use scrubjay_io::driver::choice as driver;

use super::row::{Kind, Row};
use super::{
    EXIT_USAGE, LogFormat, Options, Protocol, admin, busy_poll, cpus, listen, memory_file, tls, udp,
};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

const NO_SLABS: &str = "memory is not cut into slab classes";
const NO_LRU: &str = "there are no LRU lists to tune; what goes first is decided per segment";
const NO_CRAWLER: &str = "expired items are found by their deadline, no crawler is needed";
const NO_FLASH: &str = "items are kept in memory only";
const NO_PROXY: &str = "this server does not route requests to others";

/// Every option, in the order of the help.
pub const ROWS: &[Row] = &[
    // What it listens on.
    Row::number("port", -1, 65535, |o, n| o.port = n as i32, "TCP port; 0 is off, -1 takes any free port")
        .short('p').default("11211").exit(EXIT_USAGE)
        .shows("tcpport", |o| o.port.to_string())
        .differs("a value that is no number is refused instead of read as 0"),
    Row::number("udp-port", -1, 65535, |o, n| o.udp_port = n as i32, "UDP port, and TCP's unless -p is given; 0 is off, -1 takes any free port")
        .short('U').default("0").exit(EXIT_USAGE)
        .shows("udpport", |o| o.udp_port.to_string())
        .differs("a value that is no number is refused instead of read as 0; large replies go to allowed networks only (--udp-allow)"),
    Row::text("udp-allow", "cidr", udp::set_allowed, "Networks whose peers get replies of any length over UDP, such as 10.0.0.0/8, several with commas; this machine always does. Addresses of datagrams are easily forged, so allow only networks that forged ones cannot reach you from")
        .stat("udp_allow")
        .many()
        .live(|o, new| o.udp_allowed.clone_from(&new.udp_allowed)),
    Row::number("udp-amplification", 1, 1000, |o, n| o.udp_amplification = n as u32, "Other peers get at most this many bytes over UDP for each that they sent; a longer reply is refused in a short one")
        .default("3")
        .shows("udp_amplification", |o| o.udp_amplification.to_string())
        .live(|o, new| o.udp_amplification = new.udp_amplification),
    Row::text("unix-socket", "file", set_unix_socket, "Unix socket to listen on, instead of TCP")
        .short('s')
        .shows("domain_socket", |o| o.unix_socket.clone().unwrap_or_else(|| "NULL".to_owned())),
    Row::text("unix-mask", "mask", set_unix_mask, "Access mask of the Unix socket, in octal")
        .short('a').default("700")
        .shows("umask", |o| format!("{:o}", o.unix_mask))
        .differs("a mask that is not octal is refused"),
    Row::text("listen", "addr", listen::set, "Address to listen on: HOST, HOST:PORT, [IPv6]:PORT, * for all; several with commas, or by giving it again. Beside -Z, notls: before one leaves it in the clear, mtls: demands a client certificate there, btls: does not")
        .short('l').default("127.0.0.1")
        .shows("inter", |o| if o.listen.is_empty() { "NULL".to_owned() } else { listen::text(&o.listen) })
        .differs("without it, only this machine is served (127.0.0.1); memcached serves every network")
        .many(),
    Row::number("listen-backlog", 1, 1 << 20, |o, n| o.listen_backlog = n as u32, "Connections the kernel may queue before they are accepted")
        .short('b').default("1024")
        .shows("tcp_backlog", |o| o.listen_backlog.to_string()),
    Row::number("conn-limit", 1, 1 << 24, |o, n| o.conn_limit = n as usize, "Most connections at a time")
        .short('c').default("1024")
        .shows("maxconns", |o| o.conn_limit.to_string())
        .live(|o, new| o.conn_limit = new.conn_limit),
    Row::number("connections-per-address", 0, 1 << 24, |o, n| o.connections_per_address = n as usize, "Most connections of one IP address (of IPv6, of one /64) at a time; 0 any number")
        .default("0")
        .shows("connections_per_address", |o| o.connections_per_address.to_string())
        .live(|o, new| o.connections_per_address = new.connections_per_address),
    Row::number("connections-per-user", 0, 1 << 24, |o, n| o.connections_per_user = u32::try_from(n).ok().filter(|most| *most > 0), "Most connections of one user of -Y at a time; 0 any number")
        .default("0").exit(EXIT_USAGE)
        .shows("connections_per_user", |o| o.connections_per_user.unwrap_or(0).to_string())
        .live(|o, new| o.connections_per_user = new.connections_per_user),
    Row::number("requests-per-address", 0, 1 << 24, |o, n| o.requests_per_address = n as u32, "Requests a second of one IP address (of IPv6, of one /64), over all its connections; what is more waits; 0 any number")
        .default("0")
        .shows("requests_per_address", |o| o.requests_per_address.to_string())
        .live(|o, new| o.requests_per_address = new.requests_per_address),
    Row::number("requests-per-user", 0, 1 << 24, |o, n| o.requests_per_user = n as u32, "Requests a second of one user of -Y, over all connections; what is more waits; 0 any number")
        .default("0").exit(EXIT_USAGE)
        .shows("requests_per_user", |o| o.requests_per_user.to_string())
        .live(|o, new| o.requests_per_user = new.requests_per_user),
    Row::choice("protocol", &["auto", "ascii", "binary"], |o, word| o.protocol = Protocol::from_word(word), "Protocol spoken: told from the first byte (auto), or only one")
        .short('B').default("auto").exit(EXIT_USAGE)
        .shows("binding_protocol", |o| o.protocol.setting().to_owned()),

    // Memory.
    Row::size("memory-limit", MIB, MIB, 64 * TIB, |o, n| o.memory_max = n as usize, "Memory for everything the cache keeps, in megabytes, or with a suffix k, m, g or t")
        .short('m').default("64").exit(EXIT_USAGE)
        .shows("maxbytes", |o| o.memory_max.to_string())
        .differs("covers index and buffers too; takes suffixes; the default is lowered to 80 % of a cgroup's memory limit")
        .live(|o, new| o.memory_max = new.memory_max),
    Row::size("max-item-size", 1, KIB, GIB, |o, n| o.item_size_max = n as usize, "Largest item, in bytes, or with a suffix k, m or g; at most half of the memory limit")
        .short('I').default("1m").exit(EXIT_USAGE)
        .shows("item_size_max", |o| o.item_size_max.to_string())
        .differs("takes the suffix g, and values below 512k, which memcached refuses with its default slab_chunk_max"),
    Row::flag("disable-evictions", |o, _| o.evict = false, "Answer an error when memory is exhausted, instead of evicting")
        .short('M')
        .shows("evictions", |o| if o.evict { "on" } else { "off" }.to_owned()),
    Row::flag("disable-cas", |o, _| o.cas = false, "Keep no CAS numbers")
        .short('C')
        .shows("cas_enabled", |o| yes_no(o.cas)),
    Row::flag("lock-memory", |o, _| o.lock_memory = true, "Lock the memory in use into RAM")
        .short('k')
        .differs("locks the segments in use, not every page of the process"),
    Row::size("ledger-size", 1, 64, TIB, |o, n| o.ledger_bytes = Some(n as usize), "Memory, out of that limit, for what left the cache and why (the command `why`), 16 bytes an item; without it 1 % of the limit")
        .shows("ledger_size", |o| o.ledger_bytes.unwrap_or(o.memory_max / 100).to_string()),
    Row::flag("enable-largepages", |o, _| o.huge_pages = true, "Map the memory with huge pages, if there are any")
        .short('L'),
    Row::text("memory-file", "file", memory_file::set, "File on tmpfs that the items live in: they are there again after a restart or a crash, until the next boot")
        .short('e').exit(EXIT_USAGE)
        .shows("memory_file", |o| o.memory_file.clone().unwrap_or_else(|| "(null)".to_owned()))
        .differs("items survive a crash and kill -9 too; there is no second file beside it; a file of another boot or layout is emptied, and that is said"),
    Row::real("slab-growth-factor", 1.0, 1e6, "Growth factor of slab classes")
        .short('f').default("1.25").stat("growth_factor").no_effect(NO_SLABS),
    Row::number("slab-min-size", 1, 1 << 20, |_, _| {}, "Least room for key, value and flags")
        .short('n').unit("bytes").default("48").stat("chunk_size").no_effect(NO_SLABS),

    // Work.
    Row::number("threads", 1, 1024, |o, n| o.threads = n as usize, "Worker threads")
        .short('t').default("4")
        .shows("num_threads", |o| o.threads.to_string()),
    Row::number("max-reqs-per-event", 1, 1 << 20, |o, n| o.requests_per_turn = n as usize, "Requests of one connection that are answered before others have their turn")
        .short('R').default("1024")
        .differs("memcached's default is 20; here what was read together is answered with one write, and a turn is bounded by bytes as well")
        .shows("reqs_per_event", |o| o.requests_per_turn.to_string())
        .live(|o, new| o.requests_per_turn = new.requests_per_turn),
    Row::text("napi-ids", "num", ignore_text, "Number of NAPI ids to spread connections by")
        .short('N').stat("num_napi_ids")
        .no_effect("connections are spread over the workers without looking at network queues"),

    // What clients may do.
    Row::flag("enable-shutdown", |o, _| o.shutdown_enabled = true, "Allow the `shutdown` command")
        .short('A')
        .shows("shutdown_command", |o| yes_no(o.shutdown_enabled))
        .live(|o, new| o.shutdown_enabled = new.shutdown_enabled),
    Row::flag("disable-flush-all", |o, _| o.flush_enabled = false, "Refuse the `flush_all` command")
        .short('F')
        .shows("flush_enabled", |o| yes_no(o.flush_enabled))
        .live(|o, new| o.flush_enabled = new.flush_enabled),
    Row::flag("disable-dumping", |o, _| o.dump_enabled = false, "Refuse `stats cachedump` and `lru_crawler metadump`")
        .short('X')
        .shows("dump_enabled", |o| yes_no(o.dump_enabled))
        .live(|o, new| o.dump_enabled = new.dump_enabled),
    Row::flag("disable-watch", |o, _| o.watch_enabled = false, "Refuse the `watch` command")
        .short('W')
        .live(|o, new| o.watch_enabled = new.watch_enabled),
    Row::text("stat-delimiter", "char", set_stat_delimiter, "Character that ends the prefix of a key in `stats detail`, which it turns on")
        .short('D').default(":")
        .shows("stat_key_prefix", |o| o.stat_delimiter.to_string())
        .live(|o, new| (o.stat_delimiter, o.detail_enabled) = (new.stat_delimiter, new.detail_enabled)),
    Row::flag("enable-sasl", |o, _| o.sasl = true, "Let users log in by SASL PLAIN over the binary protocol: needs -Y, which does that by itself; -B binary leaves text out")
        .short('S').exit(EXIT_USAGE)
        .shows("auth_enabled_sasl", |o| yes_no(o.sasl))
        .differs("users are those of -Y, not of SASL's own database, so it adds nothing to -Y; memcached given both speaks text only, given -S alone binary only"),
    Row::text("auth-file", "file", set_auth_file, "File of users, a line each: NAME:PASSWORD; without a login nothing else is answered")
        .short('Y').exit(EXIT_USAGE)
        .shows("auth_enabled_ascii", |o| o.auth_file.clone().unwrap_or_else(|| yes_no(false)))
        .differs("holds for the binary protocol too, by SASL PLAIN; knows hashed passwords and rights; is read again when it changes")
        .live(|o, new| o.auth_file.clone_from(&new.auth_file)),
    Row::flag("enable-ssl", |o, _| o.tls.enabled = true, "Encrypt TCP connections with TLS; needs -o ssl_chain_cert and ssl_key")
        .short('Z').exit(EXIT_USAGE)
        .shows("ssl_enabled", |o| yes_no(o.tls.enabled)),

    // The process.
    Row::flag("daemon", |o, _| o.daemon = true, "Run in the background")
        .short('d')
        .differs("the command returns when the server listens, and fails if it does not"),
    Row::flag("keep", |o, _| o.keep = true, "A small parent process holds the memory and starts the server again if it dies without having been told to; the items are there again")
        .shows("restart_survives", |o| o.holder.survives().to_owned()),
    Row::text("pidfile", "file", set_pid_file, "File to write the process id to; removed at the end")
        .short('P'),
    Row::text("user", "user", set_user, "User to run as, when started by root")
        .short('u').exit(super::EXIT_NO_USER)
        .differs("root need not give it when only loopback or a Unix socket is served"),
    Row::flag("enable-coredumps", |o, _| o.core_dumps = true, "Allow core dumps of any size")
        .short('r'),
    Row::count("verbose", |o| o.verbosity = o.verbosity.saturating_add(1), "Say more: -v what the server does by itself, -vv connections too; without it warnings, errors, start and stop")
        .short('v')
        .shows("verbosity", |o| o.verbosity.to_string())
        .live(|o, new| o.verbosity = new.verbosity),
    Row::text("config", "file", ignore_text, "File of options, in TOML: each by its long name, such as memory-limit = \"1g\". What the command line says goes before it; SIGHUP reads it again. `scrubjay check` looks for mistakes")
        .exit(EXIT_USAGE),
    Row::choice("log-format", &["text", "logfmt", "json"], |o, word| o.log_format = LogFormat::from_word(word), "How lines on standard error look: for people, as key=value, or a JSON object each")
        .default("text")
        .shows("log_format", |o| o.log_format.word().to_owned())
        .live(|o, new| o.log_format = new.log_format),
    Row::special("help", Kind::Print, "Print help: -h the options that do something, --help all").short('h'),
    Row::special("license", Kind::Print, "Print the licence").short('i'),
    Row::special("version", Kind::Print, "Print the version").short('V'),
    Row::special("extended", Kind::Extended, "The options below, as a list with commas; each has a long name too")
        .short('o'),

    // Behind -o.
    Row::flag("maxconns_fast", |o, on| o.reject_over_limit = on, "Refuse connections over the limit at once; no_maxconns_fast lets them wait")
        .extended().negatable().default("on")
        .shows("maxconns_fast", |o| yes_no(o.reject_over_limit))
        .live(|o, new| o.reject_over_limit = new.reject_over_limit),
    Row::flag("huge_pages", |o, on| o.collapse = on, "Put huge pages under memory in full use as time goes by, from -m 512 up, where the kernel can (Linux 6.1)")
        .extended().negatable().default("yes")
        .shows("huge_pages", |o| yes_no(o.collapse)),
    Row::choice("io_driver", &["auto", "epoll", "io_uring"], |o, word| o.io_driver = driver::Kind::of_name(word), "How the kernel is asked about connections: io_uring (Linux 6.1, where it is not forbidden), epoll, or what is faster here (auto)")
        .extended().default("auto")
        .shows("io_driver", |o| o.io_driver.map_or("auto", driver::Kind::name).to_owned()),
    Row::number("idle_timeout", 0, u32::MAX as i64, |o, n| o.idle_timeout_secs = n as u32, "Close connections that were silent for this long; 0 never")
        .extended().unit("seconds").default("0")
        .shows("idle_timeout", |o| o.idle_timeout_secs.to_string())
        .differs("a value that is no number is refused instead of read as 0")
        .live(|o, new| o.idle_timeout_secs = new.idle_timeout_secs),
    Row::text("busy_poll", "auto|microseconds", busy_poll::set, "A worker looks for requests before it sleeps: for a while, wherever that takes less processor time than sleeping at once (auto); for so many microseconds, 10000 at most, as long as some come in such a time, which makes answers faster and cores busier; not at all (0)")
        .extended().default("auto")
        .shows("busy_poll", |o| busy_poll::text(o.busy_poll))
        .live(|o, new| o.busy_poll = new.busy_poll),
    Row::text("worker_cpus", "list", cpus::set, "CPUs that the workers stay on, the first on the first of the list and so on, such as 0:2-5; as many as workers (-t) at least")
        .extended().exit(EXIT_USAGE)
        .shows("worker_cpus", |o| if o.cpus.is_empty() { "any".to_owned() } else { cpus::text(&o.cpus) }),
    Row::text("admin", "[addr:]port", admin::set, "Answer HTTP there: a page for people at /, /metrics for Prometheus, /stats.json, /healthz, /readyz, /why?key=. A port alone is of 127.0.0.1; 0 takes any free one. There is no login")
        .extended().exit(EXIT_USAGE)
        .shows("admin", |o| o.admin.as_ref().map_or_else(|| "NULL".to_owned(), |place| listen::text(std::slice::from_ref(place)))),
    Row::number("sample_interval", 0, 1 << 20, |o, n| o.sample_interval = n as u32, "One request in so many, drawn by chance, is measured for `stats latency` and `stats hotkeys`: 1 is all, 0 is none, nor are keys counted for `stats prefixes` then")
        .extended().default("32")
        .shows("sample_interval", |o| o.sample_interval.to_string()),
    Row::number("hashpower", 12, 32, |_, _| {}, "Power of two that the hash table starts with")
        .extended().default("0").stat("hashpower_init")
        .no_effect("the index grows in small steps with the items"),
    Row::flag("no_hashexpand", |_, _| {}, "Do not grow the hash table")
        .extended().no_effect("the index grows in small steps with the items"),
    Row::choice("hash_algorithm", &["jenkins", "murmur3", "xxh3"], |_, _| {}, "Hash of the keys")
        .extended().default("murmur3").shows("hash_algorithm", |_| "xxh3".to_owned())
        .no_effect("keys are always hashed by xxh3 with a secret seed"),
    Row::flag("slab_reassign", |_, _| {}, "Move memory between slab classes")
        .extended().negatable().default("yes").stat("slab_reassign").no_effect(NO_SLABS),
    Row::text("slab_automove", "0|1|2", ignore_text, "Move memory between slab classes by itself")
        .extended().negatable().default("1").stat("slab_automove").no_effect(NO_SLABS),
    Row::real("slab_automove_ratio", 0.0, 1.0, "Age ratio for moving slab pages")
        .extended().default("0.80").stat("slab_automove_ratio").no_effect(NO_SLABS),
    Row::number("slab_automove_window", 3, 1800, |_, _| {}, "Samples before slab pages move")
        .extended().default("30").stat("slab_automove_window").no_effect(NO_SLABS),
    Row::real("slab_automove_freeratio", 0.0, 1.0, "Part of memory kept free")
        .extended().default("0.010").stat("slab_automove_freeratio").no_effect(NO_SLABS),
    Row::text("slab_sizes", "n-n-n", ignore_text, "Sizes of the slab classes")
        .extended().no_effect(NO_SLABS),
    Row::number("slab_chunk_max", 1, 1 << 20, |_, _| {}, "Largest slab chunk")
        .extended().unit("KiB").default("512").shows("slab_chunk_max", |_| "524288".to_owned()).no_effect(NO_SLABS),
    Row::flag("no_chunked_items", |_, _| {}, "Do not cut large items into chunks")
        .extended().no_effect(NO_SLABS),
    Row::number("tail_repair_time", 10, i64::MAX, |_, _| {}, "Seconds before a stuck item is evicted by force")
        .extended().unit("seconds").default("0").stat("tail_repair_time")
        .no_effect("items cannot get stuck"),
    Row::flag("lru_crawler", |_, _| {}, "Look for expired items in the background")
        .extended().negatable().default("yes").stat("lru_crawler").no_effect(NO_CRAWLER),
    Row::number("lru_crawler_sleep", 0, 1_000_000, |_, _| {}, "Pause between items")
        .extended().unit("microseconds").default("100").stat("lru_crawler_sleep").no_effect(NO_CRAWLER),
    Row::number("lru_crawler_tocrawl", 0, u32::MAX as i64, |_, _| {}, "Items looked at per run; 0 all")
        .extended().default("0").stat("lru_crawler_tocrawl").no_effect(NO_CRAWLER),
    Row::flag("lru_maintainer", |_, _| {}, "Keep LRU lists in order in the background")
        .extended().negatable().default("yes").stat("lru_maintainer_thread").no_effect(NO_LRU),
    Row::number("hot_lru_pct", 1, 79, |_, _| {}, "Share of the hot LRU list")
        .extended().unit("percent").default("20").stat("hot_lru_pct").no_effect(NO_LRU),
    Row::number("warm_lru_pct", 1, 79, |_, _| {}, "Share of the warm LRU list")
        .extended().unit("percent").default("40").stat("warm_lru_pct").no_effect(NO_LRU),
    Row::real("hot_max_factor", 0.0, 1e6, "Age at which items leave the hot LRU list")
        .extended().default("0.20").stat("hot_max_factor").no_effect(NO_LRU),
    Row::real("warm_max_factor", 0.0, 1e6, "Age at which items leave the warm LRU list")
        .extended().default("2.00").stat("warm_max_factor").no_effect(NO_LRU),
    Row::number("temporary_ttl", 0, u32::MAX as i64, |_, _| {}, "TTL below which items get a list of their own")
        .extended().unit("seconds").default("61").stat("temporary_ttl")
        .no_effect("items are grouped by TTL always"),
    Row::number("watcher_logbuf_size", 1, 1 << 20, |o, n| o.watcher_logbuf_len = (n as usize) << 10, "Buffer of a watcher")
        .extended().unit("KiB").default("256").shows("watcher_logbuf_size", |o| o.watcher_logbuf_len.to_string()),
    Row::number("worker_logbuf_size", 1, 1 << 20, |o, n| o.worker_logbuf_len = (n as usize) << 10, "Log buffer of a worker, for watchers; taken when the first one comes")
        .extended().unit("KiB").default("64").shows("worker_logbuf_size", |o| o.worker_logbuf_len.to_string()),
    Row::number("read_buf_mem_limit", 0, u32::MAX as i64, |_, _| {}, "Memory for connection buffers; 0 no limit")
        .extended().unit("MiB").default("0").stat("read_buf_mem_limit")
        .no_effect("each connection's buffer is bounded by itself"),
    Row::number("resp_obj_mem_limit", 0, u32::MAX as i64, |_, _| {}, "Memory for replies; 0 no limit")
        .extended().unit("MiB").default("0")
        .no_effect("the replies waiting on each connection are bounded by themselves"),
    Row::flag("track_sizes", |_, _| {}, "Keep the histogram for `stats sizes`")
        .extended().default("no").shows("track_sizes", |_| yes_no(true))
        .no_effect("items are always counted by size"),
    Row::flag("inline_ascii_resp", |_, _| {}, "Keep reply headers with the items")
        .extended().negatable().default("no").stat("inline_ascii_response")
        .no_effect("memcached ignores it as well"),
    Row::flag("drop_privileges", |_, _| {}, "Filter system calls after the start")
        .extended().negatable().no_effect("system calls are not filtered"),
    Row::flag("relaxed_privileges", |_, _| {}, "Filter system calls after the start, for tests")
        .extended().no_effect("system calls are not filtered"),
    Row::flag("modern", |_, _| {}, "Options that will be default in future")
        .extended().negatable().no_effect("there is one set of defaults"),
    Row::number("sock_cookie_id", 0, u32::MAX as i64, |_, _| {}, "Mark on the sockets for packet filters")
        .extended().default("0").no_effect("sockets are not marked"),
    // Flash.
    Row::text("ext_path", "file:size", ignore_text, "File for items that leave memory").extended().no_effect(NO_FLASH),
    Row::number("ext_page_size", 1, 1 << 20, |_, _| {}, "Page of that file").extended().unit("MiB").default("64").no_effect(NO_FLASH),
    Row::number("ext_wbuf_size", 1, 1 << 20, |_, _| {}, "Write buffer of that file").extended().unit("MiB").default("4")
        .shows("ext_wbuf_size", |_| "4194304".to_owned()).no_effect(NO_FLASH),
    Row::number("ext_threads", 1, 1024, |_, _| {}, "Threads that read and write it").extended().default("1").no_effect(NO_FLASH),
    Row::number("ext_io_depth", 1, 1 << 20, |_, _| {}, "Requests waiting for it").extended().default("1").no_effect(NO_FLASH),
    Row::number("ext_item_size", 1, u32::MAX as i64, |_, _| {}, "Least item that goes there").extended().unit("bytes").default("512").stat("ext_item_size").no_effect(NO_FLASH),
    Row::number("ext_item_age", 0, u32::MAX as i64, |_, _| {}, "Least idle time of an item that goes there").extended().unit("seconds").default("4294967295").stat("ext_item_age").no_effect(NO_FLASH),
    Row::number("ext_low_ttl", 0, u32::MAX as i64, |_, _| {}, "TTL that counts as low").extended().unit("seconds").default("0").stat("ext_low_ttl").no_effect(NO_FLASH),
    Row::flag("ext_drop_unread", |_, _| {}, "Drop what was not read when compacting").extended().default("no").stat("ext_drop_unread").no_effect(NO_FLASH),
    Row::number("ext_recache_rate", 0, u32::MAX as i64, |_, _| {}, "Reads before an item comes back to memory").extended().default("2000").stat("ext_recache_rate").no_effect(NO_FLASH),
    Row::number("ext_compact_under", 0, u32::MAX as i64, |_, _| {}, "Free pages below which it is compacted").extended().default("0").stat("ext_compact_under").no_effect(NO_FLASH),
    Row::number("ext_drop_under", 0, u32::MAX as i64, |_, _| {}, "Free pages below which cold items are dropped").extended().default("0").stat("ext_drop_under").no_effect(NO_FLASH),
    Row::number("ext_max_sleep", 0, u32::MAX as i64, |_, _| {}, "Longest pause of its threads").extended().unit("microseconds").default("1000000").stat("ext_max_sleep").no_effect(NO_FLASH),
    Row::real("ext_max_frag", 0.0, 1.0, "Fragmentation borne").extended().default("0.80").stat("ext_max_frag").no_effect(NO_FLASH),
    // TLS.
    Row::text("ssl_chain_cert", "file", tls::set_chain, "Certificate of the server and those between it and its root, in PEM form; read again at SIGHUP, at `refresh_certs` and when it changes")
        .extended().stat("ssl_chain_cert"),
    Row::text("ssl_key", "file", tls::set_key, "Private key of the certificate, without a password; read again with it")
        .extended().stat("ssl_key"),
    Row::number("ssl_verify_mode", 0, 3, tls::set_verify_mode, "Client certificates: 0 none, 1 checked if one comes, 2 and 3 required")
        .extended().default("0").stat("ssl_verify_mode")
        .differs("3 is the same as 2, as nobody is asked twice"),
    Row::text("ssl_keyformat", "PEM|DER", tls::set_key_format, "Format of the private key")
        .extended().default("PEM").shows("ssl_keyformat", tls::key_format_text)
        .differs("ENGINE is refused"),
    Row::text("ssl_ciphers", "list", tls::set_ciphers, "Cipher suites, with colons, by OpenSSL's names or the standard's; without it all that are offered")
        .extended().default("NULL").stat("ssl_ciphers")
        .differs("only suites with forward secrecy and authenticated encryption are known; the error lists them. TLS 1.3's are named here too"),
    Row::text("ssl_ca_cert", "file", tls::set_authorities, "Authorities that client certificates are checked by, in PEM form; read again with the certificate")
        .extended().default("NULL").stat("ssl_ca_cert"),
    Row::number("ssl_wbuf_size", 1, 1 << 20, |_, _| {}, "Output buffer of a worker").extended().unit("KiB").default("16")
        .shows("ssl_wbuf_size", |_| "16384".to_owned())
        .no_effect("records have 16 KiB, and four of them are encrypted and sent at a time"),
    Row::flag("ssl_session_cache", |o, _| o.tls.settings.resumption = true, "Let clients resume sessions")
        .extended().default("no").shows("ssl_session_cache", |o| yes_no(o.tls.settings.resumption))
        .differs("by tickets, so nothing is cached; their keys change every six hours and with the certificates"),
    Row::flag("ssl_kernel_tls", |_, _| {}, "Leave encryption to the kernel").extended().default("no").stat("ssl_kernel_tls")
        .no_effect("the server encrypts by itself"),
    Row::text("ssl_min_version", "2|3", tls::set_min_version, "Lowest version: 2 TLS 1.2, 3 TLS 1.3")
        .extended().default("2").shows("ssl_min_version", tls::min_version_text)
        .differs("0 and 1, TLS 1.0 and 1.1, are refused"),
    // Proxy.
    Row::text("proxy_config", "file", ignore_text, "Routes of a proxy").extended()
        .refused("a server that was meant to route requests must not answer them itself; start it without this"),
    Row::text("proxy_arg", "text", ignore_text, "Argument of the proxy's configuration").extended().no_effect(NO_PROXY),
    Row::flag("proxy_uring", |_, _| {}, "Let the proxy use io_uring").extended().no_effect(NO_PROXY),
    Row::flag("proxy_memprofile", |_, _| {}, "Profile the proxy's memory").extended().no_effect(NO_PROXY),
];

/// A line of `stats settings`: its name and how its value is made.
type FixedSetting = (&'static str, fn(&Options) -> String);

/// Settings that `stats settings` shows although no option sets them.
pub const FIXED_SETTINGS: &[FixedSetting] = &[
    ("oldest", |_| "0".to_owned()),
    ("num_threads_per_udp", |o| o.threads.to_string()),
    ("detail_enabled", |o| yes_no(o.detail_enabled)),
    ("lru_segmented", |_| yes_no(true)),
    ("temp_lru", |_| yes_no(false)),
];

fn yes_no(on: bool) -> String {
    if on { "yes" } else { "no" }.to_owned()
}

fn ignore_text(_: &mut Options, _: &str) -> Result<(), String> {
    Ok(())
}

fn set_unix_socket(options: &mut Options, path: &str) -> Result<(), String> {
    // sun_path of sockaddr_un holds 108 bytes with the terminating zero.
    const PATH_LEN_MAX: usize = 107;
    if path.is_empty() || path.len() > PATH_LEN_MAX {
        return Err(format!("a socket's path has 1 to {PATH_LEN_MAX} bytes"));
    }
    options.unix_socket = Some(path.to_owned());
    Ok(())
}

fn set_auth_file(options: &mut Options, path: &str) -> Result<(), String> {
    if path.is_empty() {
        return Err("give the name of a file".to_owned());
    }
    options.auth_file = Some(path.to_owned());
    Ok(())
}

fn set_unix_mask(options: &mut Options, mask: &str) -> Result<(), String> {
    options.unix_mask = u32::from_str_radix(mask, 8)
        .ok()
        .filter(|mask| *mask <= 0o777)
        .ok_or("give three octal digits, such as 700 or 770")?;
    Ok(())
}

fn set_stat_delimiter(options: &mut Options, text: &str) -> Result<(), String> {
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some(delimiter), None) if delimiter.is_ascii_graphic() => {
            options.stat_delimiter = delimiter;
            options.detail_enabled = true;
            Ok(())
        }
        _ => Err("give one visible ASCII character, such as :".to_owned()),
    }
}

fn set_pid_file(options: &mut Options, path: &str) -> Result<(), String> {
    options.pid_file = Some(path.to_owned());
    Ok(())
}

fn set_user(options: &mut Options, user: &str) -> Result<(), String> {
    if user.is_empty() {
        return Err("give the name of a user".to_owned());
    }
    options.user = Some(user.to_owned());
    Ok(())
}
