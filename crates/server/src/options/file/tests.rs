use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
use proptest::sample::select;

use super::{File, has_place};
use crate::options::parse::tests::{AS_USER, parse_as_user, parse_in};
use crate::options::row::{Effect, Kind, Row, size_text};
use crate::options::{
    Environment, OptionError, Options, ROWS, add_to, in_force, origins, resolve_with, settings,
};

fn parse_both(text: &str, line: &str) -> Result<Options, OptionError> {
    let words = std::iter::once("scrubjay").chain(line.split_whitespace());
    let matches = add_to(clap::Command::new("scrubjay")).try_get_matches_from(words);
    let file = File::parse("s.toml", text.as_bytes())?;
    resolve_with(&matches.expect(line), Some(&file), &AS_USER)
}

fn parse(text: &str) -> Options {
    parse_both(text, "").unwrap_or_else(|error| panic!("{text}: {}", error.message))
}

/// A value of `row` that is not its default: as the command line has it, and as a file has it.
fn sample(row: &Row) -> (String, String) {
    let quoted = |text: &str| (text.to_owned(), format!("\"{text}\""));
    match row.kind {
        Kind::Number { min, max, .. } => {
            let text = (min + 1).min(max).max(3).to_string();
            (text.clone(), text)
        }
        Kind::Size { .. } => quoted("2m"),
        Kind::Real { max, .. } => (format!("{max:?}"), format!("{max:?}")),
        Kind::Choice { words, .. } => quoted(words[words.len() - 1]),
        Kind::Text { .. } => quoted(match row.name {
            "udp-allow" => "10.0.0.0/8",
            "listen" => "127.0.0.2:7",
            "unix-mask" => "770",
            "stat-delimiter" => "/",
            "busy_poll" => "50",
            "worker_cpus" => "0-9",
            "admin" => "127.0.0.1:9150",
            "ssl_keyformat" => "DER",
            "ssl_min_version" => "3",
            "ssl_ciphers" => "TLS_AES_128_GCM_SHA256",
            "slab_automove" => "2",
            _ => "/some/text",
        }),
        Kind::Flag(_) | Kind::Count(_) | Kind::Extended | Kind::Print => (String::new(), "true".to_owned()),
    }
}

#[test]
fn each_option_comes_to_the_same_from_a_file_a_flag_and_both() {
    for row in ROWS.iter().filter(|row| has_place(row)) {
        if matches!(row.effect, Effect::Refused(_)) || matches!(row.kind, Kind::Count(_)) {
            continue;
        }
        let (given, written) = sample(row);
        let flag = match given.as_str() {
            "" => format!("--{}", row.long()),
            given => format!("--{}={given}", row.long()),
        };
        // What cannot stand alone has company.
        let (flags, lines) = match row.name {
            "enable-sasl" | "connections-per-user" | "requests-per-user" => ("-Y u", "auth-file = \"u\""),
            "enable-ssl" => (
                "-o ssl_chain_cert=c,ssl_key=k",
                "ssl-chain-cert = \"c\"\nssl_key = \"k\"",
            ),
            _ => ("", ""),
        };
        let line = format!("{flags} {flag}");
        let text = format!("{} = {written}\n{lines}", row.long());
        let by_flag = parse_as_user(&line).unwrap_or_else(|error| panic!("{line}: {}", error.message));
        let by_file = parse(&text);
        let both = parse_both(&text, &line).expect("as each of them");
        assert_eq!(settings(&by_flag), settings(&by_file), "{text}");
        assert_eq!(settings(&by_flag), settings(&both), "{text} and {line}");
        assert_eq!(by_file.texts(row), by_flag.texts(row), "{text}");
        let flag_origin = format!("flag {}", row.spelling());
        assert_eq!(by_flag.origin(row.name).text(row), flag_origin);
        assert_eq!(both.origin(row.name).text(row), flag_origin);
        assert_eq!(by_file.origin(row.name).text(row), "file s.toml:1");
    }
}

#[test]
fn values_are_written_as_toml_has_them() {
    fn check(text: &str, holds: fn(&Options) -> bool) {
        let options = parse(text);
        assert!(holds(&options), "{text}: {options:?}");
    }
    check("", |o| o.memory_max == 64 << 20 && o.notices.is_empty());
    check("memory-limit = 128", |o| o.memory_max == 128 << 20);
    check("memory_limit = \"1g\"", |o| o.memory_max == 1 << 30);
    check("max-item-size = 0x100_000", |o| o.item_size_max == 1 << 20);
    check("disable-cas = true", |o| !o.cas);
    check("disable-cas = false", |o| o.cas);
    check("maxconns_fast = false", |o| !o.reject_over_limit);
    check("idle-timeout = 30 # seconds", |o| o.idle_timeout_secs == 30);
    check("verbose = 2", |o| o.verbosity == 2);
    check("listen = \"127.0.0.1:1,[::1]:2\"", |o| o.listen.len() == 2);
    check("listen = [\n  \"127.0.0.1:1\",\n  \"[::1]:2\",\n]", |o| {
        o.listen.len() == 2
    });
    check("listen = []", |o| o.listen.is_empty());
    check("admin = 9150", |o| {
        o.admin_address() == Some((Some("127.0.0.1"), 9150))
    });
    check("unix-mask = 770", |o| o.unix_mask == 0o770);
    check("slab-automove = false", |o| o.notices.is_empty());
    check("slab-automove = 2", |o| {
        o.notices[0].starts_with("slab-automove has no effect")
    });
    check("protocol = \"binary\"\nlog-format = 'json'", |o| {
        o.protocol == crate::options::Protocol::Binary && o.log_format == crate::options::LogFormat::Json
    });
}

#[test]
fn the_command_line_goes_before_the_file() {
    fn check(text: &str, line: &str, holds: fn(&Options) -> bool) {
        let options = parse_both(text, line).unwrap_or_else(|error| panic!("{text}: {}", error.message));
        assert!(holds(&options), "{text} and {line}: {options:?}");
    }
    check("threads = 2\nconn-limit = 5", "-t 3", |o| {
        o.threads == 3 && o.conn_limit == 5
    });
    check("listen = \"10.0.0.1\"", "-l ::1", |o| o.listen.len() == 1);
    check(
        "udp-allow = \"10.0.0.0/8\"\nudp-port = 7",
        "--udp-allow fd00::/8",
        |o| o.udp_allowed.len() == 1,
    );
    check("idle-timeout = 3", "-o idle_timeout=4", |o| {
        o.idle_timeout_secs == 4
    });
    check("maxconns-fast = true", "-o no_maxconns_fast", |o| {
        !o.reject_over_limit
    });
    check("maxconns-fast = false", "--maxconns-fast", |o| {
        o.reject_over_limit
    });
    check("verbose = 1", "-vv", |o| o.verbosity == 2);
    check("verbose = 3", "-v", |o| o.verbosity == 1);
}

#[test]
fn mistakes_are_told_with_their_place_and_what_to_do() {
    fn check(text: &str, expected: &str) {
        let error = parse_both(text, "-t 1").expect_err(text);
        assert!(error.message.contains(expected), "{text}: {}", error.message);
        assert_eq!(error.exit, 64, "{text}");
    }
    check(
        "\n memory-limt = 5",
        "s.toml:2:2: memory-limt: unknown option; did you mean memory-limit?",
    );
    check("xyzzy = 1", "`scrubjay config` lists them all");
    check("m = 5", "did you mean memory-limit?");
    check("no_maxconns_fast = true", "did you mean maxconns-fast = false?");
    check("extended = \"maxconns_fast\"", "options of their own");
    check("config = \"other\"", "s.toml:1:1: config: a file names no other");
    check("version = true", "unknown option");
    check("[server]\nport = 1", "there are no sections");
    check("port = 1\nport = 2", "s.toml:2:1: not TOML: duplicate key");
    check(
        "idle-timeout = 1\nidle_timeout = 2",
        "s.toml:2:1: idle_timeout: stands in line 1 too",
    );
    check("port = ", "s.toml:1:8: not TOML");
    check(
        "port = \"11211\"",
        "s.toml:1:8: port: takes a whole number, -1 to 65535, not a value of type string",
    );
    check(
        "port = 65536",
        "s.toml:1:8: port: out of range; takes -1 to 65535",
    );
    check("threads = 0", "threads: out of range");
    check(
        "memory-limit = \"much\"",
        "s.toml:1:16: memory-limit: not a size; takes 1m to 64t",
    );
    check(
        "memory-limit = true",
        "takes a size such as \"64m\" or a number of megabytes, 1m to 64t",
    );
    check(
        "disable-cas = 1",
        "takes true or false, not a value of type integer",
    );
    check("verbose = 9", "a number, 0 to 3");
    check("protocol = \"foo\"", "takes auto, ascii, binary");
    check("listen = [1]", "a string (addr) or a list");
    check("user = [\"a\"]", "takes a string (user)");
    check("unix-mask = 0o700", "octal digits");
    check("proxy-config = \"x\"", "route");
    check("idle-timeout = -1", "out of range; takes 0 to 4294967295");
    let both = parse_both("port = 65536\nthreds = 1", "").expect_err("two mistakes");
    assert_eq!(both.message.lines().count(), 2, "{}", both.message);
    let error = File::parse("s.toml", b"port = 1\n\"\xff\"").expect_err("no text");
    assert_eq!(error.message, "s.toml:2:2: this is not UTF-8 text");
    // What only shows when everything is together.
    check("max-item-size = \"33m\"", "at most half of the memory");
}

#[test]
fn settings_tell_where_each_value_came_from() {
    let environment = Environment {
        memory_limit: Some(50 << 20),
        is_root: false,
    };
    let options = parse_in("-c 5 -o idle_timeout=3", &environment).expect("good");
    let all: Vec<_> = origins(&options).collect();
    let of = |name: &str| {
        let found = all.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, text)| text.as_str())
    };
    assert_eq!(of("origin_maxconns"), "flag -c");
    assert_eq!(of("origin_idle_timeout"), "flag -o idle_timeout");
    assert_eq!(of("origin_maxbytes"), "machine cgroup");
    assert_eq!(of("origin_num_threads"), "default");
    let mut options = parse("verbose = 1\nthreads = 2");
    options.note_command("verbose", "verbosity");
    let all: Vec<_> = origins(&options).collect();
    let has = |name: &str, text: &str| all.contains(&(name.to_owned(), text.to_owned()));
    assert!(has("origin_verbosity", "runtime command verbosity"));
    assert!(has("origin_num_threads", "file s.toml:2"));
}

/// A value that a row takes, as the command line has it.
fn value_of(row: &'static Row) -> impl Strategy<Value = (&'static Row, String)> {
    let text = match row.kind {
        Kind::Number { min, max, .. } => (min..=max).prop_map(|number| number.to_string()).boxed(),
        Kind::Size { unit, min, max, .. } => {
            let plain = (min.div_ceil(unit)..=max / unit).prop_map(|number| number.to_string());
            prop_oneof![
                plain,
                (min..=max)
                    .prop_map(|bytes| size_text(bytes & !1023))
                    .prop_filter("in range", move |text| super::super::parse_size(text, unit)
                        .is_some_and(|bytes| bytes >= min))
            ]
            .boxed()
        }
        Kind::Real { above, max } => any::<u32>()
            .prop_map(move |part| {
                let part = (f64::from(part) + 1.0) / (f64::from(u32::MAX) + 1.0);
                format!("{:?}", above + part * (max - above))
            })
            .boxed(),
        Kind::Choice { words, .. } => select(words).prop_map(str::to_owned).boxed(),
        _ => Just(sample(row).0).boxed(),
    };
    text.prop_map(move |text| (row, text))
}

proptest! {
    /// Whatever stands in a file, it is read or refused with a place in it.
    #[test]
    fn any_text_is_read_or_refused_with_its_place(
        text in r#"([a-z_-]{0,12}|port|listen|memory-limit|threads)[ =\[\]"'.x0-9\n#é]{0,20}(\n[a-z-]{1,9} ?= ?[0-9"x]{0,4}){0,3}"#
    ) {
        if let Err(error) = File::parse("f", text.as_bytes()) {
            for line in error.message.lines() {
                let mut parts = line.split(':').skip(1);
                let mut number = || parts.next().and_then(|part| part.parse::<usize>().ok());
                let (row, column) = (number(), number());
                assert!(row.is_some_and(|row| row > 0 && row <= text.split('\n').count() + 1), "{line}");
                assert!(column.is_some_and(|column| column > 0), "{line}");
            }
        }
    }

    /// What `scrubjay check` prints is a file that comes to the same.
    #[test]
    fn what_is_in_force_reads_back_as_itself(
        values in proptest::collection::vec(select(alone()).prop_flat_map(value_of), 0..6)
    ) {
        let line: Vec<String> = values
            .iter()
            .map(|(row, text)| match text.as_str() {
                "" => format!("--{}", row.long()),
                text => format!("--{}={text}", row.long()),
            })
            .collect();
        // Some do not go together; those are refused, and tested elsewhere.
        if let Ok(options) = parse_as_user(&line.join(" ")) {
            let text = in_force(&options);
            let again = parse(&text);
            assert_eq!(settings(&options), settings(&again), "{text}");
            assert!(super::super::changed(&options, &again).is_empty(), "{text}");
        }
    }
}

/// The rows whose values need no company.
fn alone() -> Vec<&'static Row> {
    let refused = |row: &&Row| matches!(row.effect, Effect::Refused(_)) || matches!(row.kind, Kind::Count(_));
    ROWS.iter()
        .filter(|row| has_place(row) && !refused(row))
        .collect()
}
