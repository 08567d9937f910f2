//! Configuration files: checked, read at the start, read again while the server runs; where values came from; the log.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;

use crate::kit::{Dir, Server, ask, run, signal, until};

fn check(line: &str) -> (Option<i32>, String, String) {
    let output = run(&format!("check {line}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn write(path: &Path, text: &str) -> String {
    std::fs::write(path, text).expect("writable");
    path.to_str().expect("a plain name").to_owned()
}

/// The lines of `stats settings`.
fn settings(server: &Server) -> Vec<(String, String)> {
    let mut stream = server.connect();
    stream.write_all(b"stats settings\r\n").expect("writable");
    let lines = BufReader::new(stream).lines().map(|line| line.expect("a line"));
    lines
        .take_while(|line| line != "END")
        .map(|line| {
            let (name, value) = line
                .strip_prefix("STAT ")
                .and_then(|rest| rest.split_once(' '))
                .expect("STAT NAME VALUE");
            assert!(
                name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'),
                "{line}"
            );
            (name.to_owned(), value.to_owned())
        })
        .collect()
}

fn setting(server: &Server, name: &str) -> String {
    let all = settings(server);
    let found = all.into_iter().find(|(known, _)| known == name);
    found.expect("it is there").1
}

/// Sends SIGHUP and waits until a setting is so.
fn reload_until(server: &Server, name: &str, value: &str) {
    signal(server.child.id(), "HUP");
    let changed = until(|| (setting(server, name) == value).then_some(()));
    assert!(changed.is_some(), "{name} is {}", setting(server, name));
}

fn is_closed(mut stream: &TcpStream) -> bool {
    matches!(stream.read(&mut [0; 64]), Ok(0))
}

#[test]
fn check_says_what_would_be_in_force_and_starts_nothing() {
    let dir = Dir::new();
    let file = write(
        &dir.path("good.toml"),
        "memory-limit = \"1g\"\nthreads = 2\nlisten = [\"127.0.0.1\"]\n",
    );
    let (code, printed, said) = check(&format!("{file} -u root -t 3"));
    assert_eq!(code, Some(0), "{said}");
    assert!(
        printed.contains(&format!("memory-limit = \"1g\"  # file {file}:1\n")),
        "{printed}"
    );
    assert!(printed.contains("threads = 3  # flag -t\n"), "{printed}");
    assert!(printed.contains("# conn-limit = 1024  # default\n"), "{printed}");
    // What is printed is a file that says the same.
    let again = write(&dir.path("again.toml"), &printed);
    let (code, printed_again, said) = check(&again);
    assert_eq!(code, Some(0), "{said}");
    let values = |text: &str| {
        let lines = text
            .lines()
            .map(|line| line.split("  # ").next().unwrap_or_default());
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(values(&printed), values(&printed_again));
    let (code, default, _) = check("--print-default");
    assert_eq!(code, Some(0));
    assert_eq!(check(&write(&dir.path("default.toml"), &default)).0, Some(0));
}

#[test]
fn check_refuses_what_a_start_would_refuse_with_place_and_fix() {
    let dir = Dir::new();
    let refused = |text: &str, flags: &str, parts: &[&str]| {
        let file = write(&dir.path("bad.toml"), text);
        let (code, _, said) = check(&format!("{file} -u root {flags}"));
        assert_eq!(code, Some(64), "{text} {flags}: {said}");
        for part in parts {
            let part = part.replace("FILE", &file);
            assert!(said.contains(&part), "{text} {flags} lacks {part}: {said}");
        }
    };
    refused(
        "port = -1\n  memory-limt = 5\nthreads = \"2\"",
        "",
        &[
            "FILE:2:3: memory-limt: unknown option; did you mean memory-limit?",
            "FILE:3:11: threads: takes a whole number",
        ],
    );
    refused("max-item-size = \"33m\"", "", &["at most half"]);
    refused(
        "listen = \"192.0.2.1\"",
        "",
        &["192.0.2.1", "no address of this machine"],
    );
    refused(
        "auth-file = \"/no/such/file\"",
        "",
        &["-Y /no/such/file: cannot read"],
    );
    refused(
        "enable-ssl = true\nssl_chain_cert = \"/no/cert\"\nssl_key = \"/no/key\"",
        "",
        &["/no/cert"],
    );
    refused("", "-u no-such-user-here", &["there is no such user"]);
    refused("", "-t 2 -o worker_cpus=1022:1023", &["cannot run on CPU 1022"]);
    let (code, _, said) = check("/no/such/file.toml");
    assert!(
        code == Some(64) && said.contains("/no/such/file.toml: cannot read"),
        "{said}"
    );
    let refused = run("--config /no/such/file.toml");
    assert_eq!(refused.status.code(), Some(71));
}

#[test]
fn a_file_is_read_again_and_what_is_live_changes_at_once() {
    let dir = Dir::new();
    let path = dir.path("s.toml");
    let file = write(&path, "memory-limit = 64\nthreads = 2\nconn-limit = 50\n");
    let server = Server::start(&format!("--config {file} -R 100"));
    assert_eq!(setting(&server, "maxbytes"), (64 << 20).to_string());
    assert_eq!(setting(&server, "origin_maxbytes"), format!("file {file}:1"));
    assert_eq!(setting(&server, "origin_reqs_per_event"), "flag -R");
    assert_eq!(setting(&server, "origin_tcpport"), "flag -p");
    assert_eq!(setting(&server, "origin_idle_timeout"), "default");
    assert_eq!(ask(server.connect(), "flush_all"), "OK");

    let silent = server.connect();
    assert_eq!(ask(&silent, "version"), "VERSION 1.6.45");
    write(
        &path,
        "# moved\nmemory-limit = 128\nthreads = 3\nconn-limit = 51\nmax-reqs-per-event = 7\nidle-timeout = 1\n\
         disable-flush-all = true\nverbose = 2\nstat-delimiter = \"/\"\nbusy-poll = 20\n",
    );
    reload_until(&server, "maxbytes", &(128 << 20).to_string());
    assert_eq!(setting(&server, "maxconns"), "51");
    assert_eq!(
        setting(&server, "reqs_per_event"),
        "100",
        "the command line goes before the file"
    );
    assert_eq!(setting(&server, "num_threads"), "2", "at the next start");
    assert_eq!(setting(&server, "idle_timeout"), "1");
    assert_eq!(setting(&server, "verbosity"), "2");
    assert_eq!(setting(&server, "stat_key_prefix"), "/");
    assert_eq!(setting(&server, "detail_enabled"), "yes");
    assert_eq!(setting(&server, "origin_maxbytes"), format!("file {file}:2"));
    assert_eq!(
        setting(&server, "origin_num_threads"),
        format!("file {file}:2"),
        "as it was started"
    );
    assert_eq!(
        ask(server.connect(), "flush_all"),
        "CLIENT_ERROR flush_all not allowed"
    );
    assert!(
        is_closed(&silent),
        "it was idle, with a limit that it did not begin with"
    );
    drop(server.connect());

    let (code, said) = server.stop("TERM");
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("now conn-limit = 51, memory-limit = 128, disable-flush-all = true, "),
        "{said}"
    );
    assert!(
        said.contains("warning: SIGHUP: ") && said.contains("threads takes effect at the next start"),
        "{said}"
    );
    assert!(!said.contains("ledger-size takes effect"), "{said}");
    assert!(
        said.contains("debug: connection opened from=tcp:127.0.0.1:"),
        "{said}"
    );
    assert!(
        said.contains("debug: connection closed from=tcp:127.0.0.1:"),
        "{said}"
    );
}

#[test]
fn a_file_that_is_wrong_changes_nothing_and_says_why() {
    let dir = Dir::new();
    let path = dir.path("s.toml");
    let file = write(&path, "idle-timeout = 5\n");
    let server = Server::start(&format!("--config {file}"));
    write(&path, "idle-timeout = 6\nconn-limt = 7\n");
    signal(server.child.id(), "HUP");
    // Signals are taken one after the other, this one first.
    assert_eq!(setting(&server, "idle_timeout"), "5");
    let (_, said) = server.stop("TERM");
    let why = format!("{file}:2:1: conn-limt: unknown option; did you mean conn-limit?");
    assert!(
        said.contains("error: SIGHUP: everything stays as it was") && said.contains(&why),
        "{said}"
    );
}

#[test]
fn what_a_command_changed_stays_until_the_file_changes_it() {
    let dir = Dir::new();
    let path = dir.path("s.toml");
    let file = write(&path, "memory-limit = 64\nverbose = 0\n");
    let server = Server::start(&format!("--config {file}"));
    assert_eq!(ask(server.connect(), "cache_memlimit 100"), "OK");
    assert_eq!(ask(server.connect(), "verbosity 1"), "OK");
    assert_eq!(setting(&server, "maxbytes"), (100 << 20).to_string());
    assert_eq!(
        setting(&server, "origin_maxbytes"),
        "runtime command cache_memlimit"
    );
    assert_eq!(setting(&server, "origin_verbosity"), "runtime command verbosity");
    write(&path, "memory-limit = 64\nverbose = 0\nidle-timeout = 99\n");
    reload_until(&server, "idle_timeout", "99");
    assert_eq!(setting(&server, "maxbytes"), (100 << 20).to_string());
    write(&path, "memory-limit = 80\nverbose = 0\n");
    reload_until(&server, "maxbytes", &(80 << 20).to_string());
    assert_eq!(setting(&server, "idle_timeout"), "0", "its line is gone");
    assert_eq!(setting(&server, "origin_idle_timeout"), "default");
    // Further than the addresses that were reserved.
    write(&path, "memory-limit = 1000\nidle-timeout = 3\n");
    reload_until(&server, "idle_timeout", "3");
    assert_eq!(setting(&server, "maxbytes"), (80 << 20).to_string());
    let (_, said) = server.stop("TERM");
    assert!(
        said.contains(
            "memory-limit takes effect at the next start; while this server runs it can be 8m to 512m"
        ),
        "{said}"
    );
}

#[test]
fn limits_of_connections_and_users_follow_the_file() {
    let dir = Dir::new();
    let (path, ann, bob) = (dir.path("s.toml"), dir.path("ann"), dir.path("bob"));
    let (ann, bob) = (write(&ann, "ann:secret\n"), write(&bob, "bob:secret\n"));
    let lines = |users: &str, most: u32| format!("auth-file = \"{users}\"\nconnections-per-user = {most}\n");
    let file = write(&path, &lines(&ann, 9));
    let server = Server::start(&format!("--config {file}"));
    let log_in = |name: &str| {
        let stream = server.connect();
        let words = format!("{name} secret");
        let reply = ask(&stream, &format!("set x 0 0 {}\r\n{words}", words.len()));
        (stream, reply)
    };
    let (admin, reply) = log_in("ann");
    assert_eq!(reply, "STORED");
    let now = |name: &str| {
        let mut stream = &admin;
        stream.write_all(b"stats settings\r\n").expect("writable");
        let lines = BufReader::new(stream).lines().map(|line| line.expect("a line"));
        let mut all = lines.take_while(|line| line != "END" && !line.starts_with("CLIENT_ERROR"));
        let found = all
            .by_ref()
            .find(|line| line.starts_with(&format!("STAT {name} ")));
        all.for_each(drop);
        found
    };
    assert_eq!(
        now("connections_per_user").as_deref(),
        Some("STAT connections_per_user 9")
    );
    write(&path, &lines(&bob, 1));
    signal(server.child.id(), "HUP");
    // Ann is no user any more, bob is.
    let (_first, reply) =
        until(|| Some(log_in("bob")).filter(|(_, reply)| reply == "STORED")).expect("the other file");
    assert_eq!(reply, "STORED");
    // The users are read before the limits are set.
    let is_one_too_many = || log_in("bob").1 == "ERROR Too many open connections of this user";
    until(|| is_one_too_many().then_some(())).expect("the other limit");
    assert_ne!(log_in("ann").1, "STORED");
}

#[test]
fn each_line_of_the_log_has_time_and_level() {
    let stamped = |line: &str| {
        let time = line.get(..24).unwrap_or_default();
        time.starts_with("20") && time.ends_with('Z') && time.as_bytes()[10] == b'T'
    };
    let (_, said) = Server::start("").stop("TERM");
    for line in said.lines() {
        let rest = line.strip_prefix("scrubjay: ").expect(line);
        assert!(stamped(rest) && rest.contains(": "), "{line}");
    }
    assert!(said.contains(" notice: stopped"), "{said}");
    let (_, said) = Server::start("--log-format logfmt").stop("TERM");
    for line in said.lines() {
        let rest = line.strip_prefix("time=").expect(line);
        assert!(
            stamped(rest) && rest.contains(" level=") && rest.contains(" msg="),
            "{line}"
        );
    }
    assert!(said.contains("level=notice msg=started version="), "{said}");
    let (_, said) = Server::start("--log-format=json").stop("TERM");
    let lines: Vec<serde_json::Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).expect(line))
        .collect();
    assert!(
        lines
            .iter()
            .all(|line| line["time"].as_str().is_some_and(stamped) && line["level"].is_string())
    );
    let started = lines
        .iter()
        .find(|line| line["message"] == "started")
        .expect("it says so");
    assert_eq!(started["threads"], 4);
}

#[test]
fn the_journal_gets_levels_in_place_of_times() {
    use std::os::unix::fs::MetadataExt;
    let dir = Dir::new();
    let log = std::fs::File::create(dir.path("log")).expect("ours");
    let metadata = log.metadata().expect("open");
    let mut command = crate::kit::scrubjay("-p -1 -u root -l 192.0.2.1");
    command
        .env("JOURNAL_STREAM", format!("{}:{}", metadata.dev(), metadata.ino()))
        .stderr(log);
    assert_eq!(command.status().expect("starts").code(), Some(71));
    let said = std::fs::read_to_string(dir.path("log")).expect("ours");
    assert!(said.starts_with("<3>cannot listen on 192.0.2.1:"), "{said}");
}

#[test]
fn replies_over_udp_follow_the_file() {
    let dir = Dir::new();
    let path = dir.path("s.toml");
    let file = write(&path, "udp-port = -1\n");
    let server = Server::start(&format!("--config {file}"));
    assert_eq!(setting(&server, "udp_amplification"), "3");
    assert_eq!(setting(&server, "udp_allow"), "(null)");
    write(
        &path,
        "udp-port = -1\nudp-amplification = 9\nudp-allow = [\"10.0.0.0/8\", \"fd00::/8\"]\n",
    );
    reload_until(&server, "udp_amplification", "9");
    assert_eq!(setting(&server, "udp_allow"), "10.0.0.0/8,fd00::/8");
}

#[test]
fn limits_that_are_reached_are_told_once_with_what_to_do() {
    let server = Server::start("-c 1");
    let only = server.connect();
    assert_eq!(ask(&only, "version"), "VERSION 1.6.45");
    for _ in 0..3 {
        let mut reply = String::new();
        let read = BufReader::new(server.connect()).read_line(&mut reply);
        assert!(read.is_ok() && reply.starts_with("ERROR Too many"), "{reply}");
    }
    // The keeper of the log looks between two of its rounds.
    let told = until(|| {
        let mut stream = &only;
        stream.write_all(b"stats\r\n").expect("writable");
        let lines = BufReader::new(stream).lines().map(|line| line.expect("a line"));
        let uptime = lines
            .take_while(|line| line != "END")
            .find_map(|line| line.strip_prefix("STAT uptime ")?.parse::<u64>().ok());
        uptime.filter(|secs| *secs >= 2)
    });
    assert!(told.is_some());
    let (_, said) = server.stop("TERM");
    assert_eq!(
        said.matches("as many connections as -c allows, 1").count(),
        1,
        "{said}"
    );
}
