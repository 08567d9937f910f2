use super::{Environment, OptionError, add_to, explain, resolve};
use crate::options::{EXIT_NO_USER, EXIT_USAGE, Options, Protocol, ROWS, settings};
use clap::Command;

pub(in crate::options) const AS_USER: Environment = Environment {
    memory_limit: None,
    is_root: false,
};

pub(in crate::options) fn parse_in(line: &str, environment: &Environment) -> Result<Options, OptionError> {
    let words = std::iter::once("scrubjay").chain(line.split_whitespace());
    let matches = add_to(Command::new("scrubjay"))
        .try_get_matches_from(words)
        .map_err(|error| explain(&error))?;
    resolve(&matches, environment)
}

/// What a line means to somebody who is not root.
pub(in crate::options) fn parse_as_user(line: &str) -> Result<Options, OptionError> {
    parse_in(line, &AS_USER)
}

fn parse(line: &str) -> Options {
    parse_as_user(line).unwrap_or_else(|error| panic!("{line}: {error:?}"))
}

#[test]
fn the_table_makes_a_valid_command() {
    add_to(Command::new("scrubjay")).debug_assert();
    for (index, row) in ROWS.iter().enumerate() {
        for other in &ROWS[..index] {
            assert_ne!(row.long(), other.long());
            assert!(row.short.is_none() || row.short != other.short, "{}", row.name);
            assert!(row.stat.is_empty() || row.stat != other.stat, "{}", row.stat);
        }
        assert!(!row.help.ends_with('.'), "{}", row.name);
        assert_eq!(
            row.extended,
            row.name.contains('_') || ["admin", "hashpower", "modern"].contains(&row.name),
            "{}",
            row.name
        );
    }
}

#[test]
fn command_lines_come_to_what_memcached_makes_of_them() {
    fn check(line: &str, holds: fn(&Options) -> bool) {
        let options = parse(line);
        assert!(holds(&options), "{line}: {options:?}");
    }
    check("", |o| {
        o.memory_max == 64 << 20 && o.threads == 4 && o.conn_limit == 1024 && o.notices.is_empty()
    });
    check("-m64", |o| o.memory_max == 64 << 20);
    check("-m 1024 -p 11211 -t 4 -c 4096", |o| {
        o.memory_max == 1 << 30 && o.conn_limit == 4096
    });
    check("--memory-limit=2048", |o| o.memory_max == 2 << 30);
    check("--memory-l=128", |o| o.memory_max == 128 << 20);
    check("-m 1g", |o| o.memory_max == 1 << 30);
    check("-m 64M", |o| o.memory_max == 64 << 20);
    check("-m 64 -m 128", |o| o.memory_max == 128 << 20);
    check("-vvv", |o| o.verbosity == 3);
    check("-v -v", |o| o.verbosity == 2);
    check("-dvv", |o| o.daemon && o.verbosity == 2);
    check("-dm100", |o| o.daemon && o.memory_max == 100 << 20);
    check("-d -P /run/x.pid -u nobody -r -k -L", |o| {
        o.pid_file.as_deref() == Some("/run/x.pid") && o.core_dumps
    });
    check("-I 2m", |o| o.item_size_max == 2 << 20);
    check("-I 1k", |o| o.item_size_max == 1024);
    check("-I 1024m -m 2048", |o| o.item_size_max == 1 << 30);
    check("-I 1g -m 2g", |o| o.item_size_max == 1 << 30);
    check("-I 1048576", |o| o.item_size_max == 1 << 20);
    check("-C -M -A -F -X", |o| {
        !o.cas && !o.evict && o.shutdown_enabled && !o.flush_enabled && !o.dump_enabled
    });
    check("-B ascii", |o| o.protocol == Protocol::Text);
    check("-B binary", |o| o.protocol == Protocol::Binary);
    check("-a 0770 -s /tmp/s", |o| o.unix_mask == 0o770);
    check("-o idle_timeout=30,no_maxconns_fast", |o| {
        o.idle_timeout_secs == 30 && !o.reject_over_limit
    });
    check("-o no_maxconns_fast -o maxconns_fast", |o| o.reject_over_limit);
    check("-o maxconns_fast,no_maxconns_fast", |o| !o.reject_over_limit);
    check("--idle-timeout 30 --no-maxconns-fast", |o| {
        o.idle_timeout_secs == 30 && !o.reject_over_limit
    });
    check("-o idle_timeout=5 --idle-timeout=6", |o| o.idle_timeout_secs == 6);
    check("-D /", |o| {
        o.stat_delimiter == '/' && o.detail_enabled && o.notices.is_empty()
    });
    check("-o slab_automove,slab_reassign,lru_crawler,modern", |o| {
        o.notices.len() >= 3
    });
    check("-o slab_automove=2 --slab-automove", |o| o.notices.len() == 1);
    check("-U 0", |o| o.notices.is_empty());
    check("-R 5 -b 16", |o| {
        o.requests_per_turn == 5 && o.listen_backlog == 16
    });
}

#[test]
fn addresses_are_read_as_memcached_reads_them() {
    fn check(line: &str, addresses: &[(Option<&str>, u16)], loopback: bool) {
        let options = parse(line);
        assert_eq!(options.tcp_addresses(), addresses, "{line}");
        assert_eq!(options.is_loopback_only(), loopback, "{line}");
    }
    check("", &[(Some("127.0.0.1"), 11211)], true);
    check("-p 0", &[], true);
    check("-p -1", &[(Some("127.0.0.1"), 0)], true);
    check("-p0 -l 0.0.0.0:11", &[], true);
    check("-l 0.0.0.0", &[(Some("0.0.0.0"), 11211)], false);
    check("-l *", &[(None, 11211)], false);
    check("-l cache.example -p 5", &[(Some("cache.example"), 5)], false);
    check(
        "-l 127.0.0.1:11212,[::1]:11213",
        &[(Some("127.0.0.1"), 11212), (Some("::1"), 11213)],
        true,
    );
    check(
        "-l 127.0.0.1 -l 10.0.0.1:7",
        &[(Some("127.0.0.1"), 11211), (Some("10.0.0.1"), 7)],
        false,
    );
    check(
        "-l ::1 -l [::1]",
        &[(Some("::1"), 11211), (Some("::1"), 11211)],
        true,
    );
    check("-l notls:localhost:8", &[(Some("localhost"), 8)], true);
    check("-s /tmp/s", &[], true);
    check("-s /tmp/s -p 5", &[], true);
}

#[test]
fn what_is_wrong_is_refused_with_memcacheds_exit_status() {
    fn check(line: &str, exit: u8, part: &str) {
        let error = parse_as_user(line).expect_err(line);
        assert!(error.message.contains(part), "{line}: {error:?}");
        assert_eq!(error.exit, exit, "{line}");
    }
    check(
        "-m abc",
        EXIT_USAGE,
        "-m abc: not a size; takes 1m to 64t, such as 64",
    );
    check("-m 0", EXIT_USAGE, "out of range");
    check("-m -5", EXIT_USAGE, "not a size");
    check(
        "-m 1",
        EXIT_USAGE,
        "-I 1m: an item may take at most half of the memory, 512k here",
    );
    check("-I 512", EXIT_USAGE, "-I 512: out of range; takes 1k to 1g");
    check("-I 1025m", EXIT_USAGE, "out of range");
    check("-I 33m", EXIT_USAGE, "at most half");
    check("-I 99999999999999999999", EXIT_USAGE, "not a size");
    check("-t 0", 1, "-t 0: out of range; takes 1 to 1024");
    check("-t four", 1, "not a whole number");
    check("-c 0", 1, "out of range");
    check("-R 0", 1, "out of range");
    check(
        "-p 99999",
        EXIT_USAGE,
        "-p 99999: out of range; takes -1 to 65535",
    );
    check("-p abc", EXIT_USAGE, "not a whole number");
    check("-U 70000", EXIT_USAGE, "out of range");
    check("-B foo", EXIT_USAGE, "takes auto, ascii, binary");
    check("-f 1", 1, "above 1");
    check("-n 0", 1, "out of range");
    check("-a 999", 1, "octal");
    check("-l 1.2.3.4:99999", 1, "no port");
    check("-l [::1", 1, "] is missing");
    check("-l btls:0.0.0.0", EXIT_USAGE, "needs -Z");
    check("-S", EXIT_USAGE, "name a file of them with -Y");
    check("-S -Y /etc/users -B ascii", EXIT_USAGE, "leave one of them out");
    check(
        "--connections-per-user 3",
        EXIT_USAGE,
        "name a file of them with -Y",
    );
    check("--requests-per-user 3", EXIT_USAGE, "name a file of them with -Y");
    check("-Z", EXIT_USAGE, "ssl_chain_cert");
    check("-o foo", 1, "unknown option -o foo");
    check("-o idle_timout=3", 1, "did you mean idle_timeout?");
    check("-o no_lru_crowler", 1, "did you mean no_lru_crawler?");
    check("-o idle_timeout", 1, "needs a value");
    check("-o maxconns_fast=1", 1, "takes no value");
    check("-o hashpower=8", 1, "takes 12 to 32");
    check("-o tail_repair_time=1", 1, "takes 10 to");
    check("-o hash_algorithm=md5", 1, "jenkins, murmur3, xxh3");
    check("-o hot_lru_pct=99", 1, "takes 1 to 79");
    check("-o proxy_config=x", 1, "route");
    check("--memory-limt=3", 1, "did you mean --memory-limit?");
    check("-K", 1, "did you mean -k (--lock-memory)?");
    check("-x", 1, "unknown option -x; did you mean -X");
    check("-p", 1, "needs a value");
}

#[test]
fn root_serves_no_network_unless_told_so() {
    let root = Environment {
        is_root: true,
        ..AS_USER
    };
    let error = parse_in("-l 0.0.0.0", &root).expect_err("refused");
    assert_eq!(error.exit, EXIT_USAGE);
    assert!(error.message.contains("-u"), "{error:?}");
    let warned = |line| {
        parse_in(line, &root)
            .expect(line)
            .notices
            .iter()
            .any(|notice| notice.contains("root"))
    };
    assert!(warned(""));
    assert!(warned("-s /tmp/x"));
    assert!(!warned("-l 0.0.0.0 -u root"));
    assert_eq!(EXIT_NO_USER, 67);
}

#[test]
fn the_default_memory_respects_a_cgroup() {
    let small = Environment {
        memory_limit: Some(50 << 20),
        ..AS_USER
    };
    let options = parse_in("", &small).expect("fits");
    assert_eq!(options.memory_max, 40 << 20);
    assert!(options.notices[0].contains("80 %"), "{:?}", options.notices);
    let options = parse_in("-m 60", &small).expect("asked for");
    assert_eq!(options.memory_max, 60 << 20);
    assert!(
        options.notices[0].contains("more than the cgroup"),
        "{:?}",
        options.notices
    );
    let large = Environment {
        memory_limit: Some(1 << 40),
        ..AS_USER
    };
    assert!(parse_in("", &large).expect("fits").notices.is_empty());
}

#[test]
fn options_without_effect_say_so_once() {
    let options = parse("-f 1.1 -f 1.2 -n 64 -o hashpower=20");
    assert_eq!(
        options.notices,
        [
            "-f has no effect: memory is not cut into slab classes",
            "-n has no effect: memory is not cut into slab classes",
            "-o hashpower has no effect: the index grows in small steps with the items",
        ]
    );
}

#[test]
fn settings_have_memcacheds_names_and_values() {
    let names_of_1_6_18 = "maxbytes maxconns tcpport udpport inter verbosity oldest evictions domain_socket umask \
        shutdown_command growth_factor chunk_size num_threads num_threads_per_udp stat_key_prefix detail_enabled \
        reqs_per_event cas_enabled tcp_backlog binding_protocol auth_enabled_sasl auth_enabled_ascii item_size_max \
        maxconns_fast hashpower_init slab_reassign slab_automove slab_automove_ratio slab_automove_window \
        slab_chunk_max lru_crawler lru_crawler_sleep lru_crawler_tocrawl tail_repair_time flush_enabled dump_enabled \
        hash_algorithm lru_maintainer_thread lru_segmented hot_lru_pct warm_lru_pct hot_max_factor warm_max_factor \
        temp_lru temporary_ttl idle_timeout watcher_logbuf_size worker_logbuf_size read_buf_mem_limit track_sizes \
        inline_ascii_response ext_item_size ext_item_age ext_low_ttl ext_recache_rate ext_wbuf_size \
        ext_compact_under ext_drop_under ext_max_sleep ext_max_frag slab_automove_freeratio ext_drop_unread \
        ssl_enabled ssl_chain_cert ssl_key ssl_verify_mode ssl_keyformat ssl_ciphers ssl_ca_cert ssl_wbuf_size \
        ssl_session_cache ssl_kernel_tls ssl_min_version num_napi_ids memory_file";
    let lines = settings(&parse("-m 100 -f 1.5 -M"));
    for name in names_of_1_6_18.split_whitespace() {
        assert_eq!(
            lines.iter().filter(|(line, _)| *line == name).count(),
            1,
            "{name}"
        );
    }
    let value = |name: &str| {
        lines
            .iter()
            .find(|(line, _)| *line == name)
            .map(|(_, value)| value.as_str())
    };
    assert_eq!(value("maxbytes"), Some("104857600"));
    assert_eq!(value("evictions"), Some("off"));
    assert_eq!(value("growth_factor"), Some("1.5"));
    assert_eq!(value("chunk_size"), Some("48"));
    assert_eq!(value("umask"), Some("700"));
}
