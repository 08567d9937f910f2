//! What the command line answers without serving.

use crate::kit::run;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn wrong_options_are_refused_with_a_way_out() {
    let check = |line: &str, exit: i32, part: &str| {
        let output = run(line);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(exit), "{line}: {said}");
        assert!(
            said.starts_with("scrubjay: ") && said.contains(part),
            "{line}: {said}"
        );
        assert!(output.stdout.is_empty());
    };
    check("--memory-limt=64", 1, "did you mean --memory-limit?");
    check("serve --memory-limt=64", 1, "did you mean --memory-limit?");
    check("-x", 1, "unknown option -x");
    check("-o no_such_thing", 1, "unknown option -o no_such_thing");
    check("-m abc", 64, "-m abc: not a size");
    check("-m 64 -I 33m", 64, "lower -I or raise -m");
    check("-p 99999", 64, "takes -1 to 65535");
    check("-t 0", 1, "takes 1 to 1024");
    check("-o worker_cpus=0:x", 64, "such as 0:2-5");
    check("-t 2 -o worker_cpus=0", 64, "1 for 2 workers");
    check(
        "-t 1 -o worker_cpus=1023",
        64,
        "cannot run on CPU 1023; it may on ",
    );
    check("-o busy_poll=10001", 1, "takes auto or 0 to 10000 microseconds");
    check("-Z", 64, "ssl_chain_cert");
    check("-Y /no/such/file", 71, "-Y /no/such/file: cannot read");
    check("-Y /dev/null", 64, "no user in it");
    check("-S", 64, "with -Y");
    check("srve", 1, "did you mean serve?");
    check("bench --io-driver kqueue", 1, "; it may be epoll, io_uring");
    check("-p 0 -s /no/such/folder/socket", 71, "/no/such/folder/socket");
    check("-u root -p -1 -l 192.0.2.1", 71, "192.0.2.1");
    check(
        "-u root -p -1 -l no-such-host.invalid",
        71,
        "no-such-host.invalid",
    );
}

#[test]
fn help_names_every_option() {
    let check = |line: &str, parts: &[&str]| {
        let output = run(line);
        assert!(output.status.success(), "{line}");
        let said = text(&output.stdout);
        for part in parts {
            assert!(said.contains(part), "{line} lacks {part}");
        }
    };
    check("-h", &["--memory-limit", "-l 0.0.0.0", "SIGUSR1", "serve"]);
    check(
        "--help",
        &[
            "--slab-growth-factor",
            "no effect: ",
            "--idle-timeout",
            "[default: 1024]",
        ],
    );
    check("-V", &["scrubjay 0.", "memcached 1.6.45"]);
    check("-i", &["Apache License"]);
    check(
        "man",
        &[
            ".TH",
            "memory\\-limit",
            "idle\\-timeout",
            "no effect: memory is not cut into slab classes",
        ],
    );
    check("completions bash", &["--memory-limit", "--idle-timeout", "serve"]);
    check("completions zsh", &["--memory-limit"]);
    check("completions fish", &["memory-limit"]);
    check("config", &["#memory-limit = 64\n", "Live.\n"]);
    check("live-options", &["| `memory-limit` | `-m` | `maxbytes` |"]);
    check("options", &["`-m`", "`-o idle_timeout`"]);
}

#[test]
fn documents_show_the_table_as_it_is() {
    let root = format!("{}/../..", env!("CARGO_MANIFEST_DIR"));
    for (name, words) in [
        ("docs/scrubjay.toml", "config"),
        ("docs/configuration.md", "live-options"),
    ] {
        let document = std::fs::read_to_string(format!("{root}/{name}")).expect(name);
        let fresh = text(&run(words).stdout);
        assert!(
            document.contains(&fresh),
            "{name} is not fresh: run `cargo xtask docs`"
        );
    }
    let table = text(&run("options").stdout);
    for name in ["COMPAT.md", "docs/options.md"] {
        let path = format!("{}/../../{name}", env!("CARGO_MANIFEST_DIR"));
        let document = std::fs::read_to_string(&path).expect(name);
        assert!(
            document.contains(&table),
            "{name} does not show what `scrubjay options` prints; put that in"
        );
    }
}
