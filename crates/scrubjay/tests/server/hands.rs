//! `scrubjay get`, `set`, `delete`, `touch` and `stats` against running servers, memcached among them.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::process::{Output, Stdio};

use crate::kit::{Dir, Server, ask, run, scrubjay};

/// Runs `line` with `server` and what arguments cannot say in a line, with `input` on standard input.
fn hand(server: &Server, line: &str, words: &[&[u8]], input: &[u8]) -> (Option<i32>, Vec<u8>, String) {
    let mut command = scrubjay(line);
    command.args(["--server", &address(server)]);
    command.args(words.iter().map(|word| OsStr::from_bytes(word)));
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    // Whoever does not read it may have ended.
    let _ = child.stdin.take().expect("piped").write_all(input);
    let Output {
        status,
        stdout,
        stderr,
    } = child.wait_with_output().expect("ends");
    let said = String::from_utf8_lossy(&stderr).into_owned();
    (status.code(), stdout, said)
}

fn address(server: &Server) -> String {
    format!("127.0.0.1:{}", server.ports[0])
}

fn check_items(server: &Server) {
    let check = |line: &str, words: &[&[u8]], input: &[u8], exit: i32, out: &[u8]| {
        let (code, stdout, said) = hand(server, line, words, input);
        assert_eq!(code, Some(exit), "{line}: {said}");
        assert_eq!(
            String::from_utf8_lossy(&stdout),
            String::from_utf8_lossy(out),
            "{line}"
        );
        assert_eq!(exit == 0, said.is_empty(), "{line}: {said}");
    };
    check("get k", &[], b"", 1, b"");
    check("delete k", &[], b"", 1, b"");
    check("touch k 10", &[], b"", 1, b"");
    check("set k hello", &[], b"", 0, b"");
    check("get k", &[], b"", 0, b"hello");
    check("set bytes --flags 7 --ttl 500", &[], b"\r\n\0\xff", 0, b"");
    check("get bytes", &[], b"", 0, b"\r\n\0\xff");
    check("set empty -", &[], b"", 0, b"");
    check("get k never empty", &[], b"", 1, b"hello\n\n");
    check("set", &[b"two words\xff", b"here"], b"", 0, b"");
    check("get", &[b"two words\xff"], b"", 0, b"here");
    check("get --json", &[b"two words"], b"", 1, b"");
    check("touch k 100", &[], b"", 0, b"");
    check_json(server);
    check("delete k bytes", &[], b"", 0, b"");
    check("get k bytes", &[], b"", 1, b"");
    let large = vec![b'x'; 900_000];
    check("set large", &[], &large, 0, b"");
    check("get large", &[], b"", 0, &large);
    check("set larger", &[], &vec![b'x'; 2_000_000], 2, b"");
    check("get", &[&[b'k'; 251]], b"", 2, b"");
}

/// Of the lives some seconds may be over.
fn check_json(server: &Server) {
    let (code, stdout, said) = hand(server, "get --json k bytes", &[], b"");
    assert_eq!(code, Some(0), "{said}");
    let text = String::from_utf8(stdout).expect("text");
    let expected = [
        (100, r#"{"flags":0,"key":"k","ttl":TTL,"value":"hello"}"#),
        (
            500,
            r#"{"flags":7,"key":"bytes","ttl":TTL,"value_base64":"DQoA/w=="}"#,
        ),
    ];
    assert_eq!(text.lines().count(), expected.len(), "{text}");
    for (line, (given, expected)) in text.lines().zip(expected) {
        let row: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let ttl = row["ttl"].as_u64().expect(line);
        assert!((given - 60..=given).contains(&ttl), "{line}");
        assert_eq!(line, expected.replace("TTL", &ttl.to_string()));
    }
}

#[test]
fn items_are_read_and_changed_from_the_command_line() {
    check_items(&Server::start("-m 16"));
}

#[test]
fn other_servers_of_the_meta_protocol_understand_too() {
    check_items(&Server::start_memcached("-m 64"));
}

#[test]
fn statistics_are_printed_as_a_table_or_as_json() {
    let server = Server::start("-m 16");
    let out = |line: &str| {
        let (code, stdout, said) = hand(&server, line, &[], b"");
        (code, String::from_utf8(stdout).expect("text"), said)
    };
    let (code, said, _) = out("stats");
    assert_eq!(code, Some(0));
    assert!(
        said.lines()
            .any(|line| line.starts_with("curr_items ") && line.ends_with("  0"))
    );
    let (code, said, _) = out("stats settings --json");
    assert_eq!(code, Some(0));
    assert!(said.contains("\"maxbytes\":16777216"), "{said}");
    assert_eq!(out("stats nonsense").0, Some(1));
    let (code, _, said) = out("stats reset");
    assert_eq!(code, Some(2));
    assert!(said.contains("no statistics to print"), "{said}");
    assert_eq!(run("stats --server 127.0.0.1:1").status.code(), Some(2));
}

#[test]
fn a_login_opens_a_server_with_users() {
    let dir = Dir::new();
    let (users, login, wrong) = (dir.path("users"), dir.path("login"), dir.path("wrong"));
    std::fs::write(&users, "ann:my secret\nbob ro:other\n").expect("writable");
    std::fs::write(&login, "ann:my secret\n").expect("writable");
    std::fs::write(&wrong, "bob:secret\n").expect("writable");
    let server = Server::start(&format!("-Y {}", users.display()));
    let code = |line: &str| hand(&server, line, &[], b"").0;
    for line in ["get k", "set k v", "stats", "why k", "mrc"] {
        let (code, _, said) = hand(&server, line, &[], b"");
        assert_eq!(code, Some(2), "{line}: {said}");
        assert!(said.contains("--login FILE"), "{line}: {said}");
    }
    let as_user = |path: &std::path::Path, line: &str| code(&format!("{line} --login {}", path.display()));
    assert_eq!(as_user(&wrong, "get k"), Some(2));
    assert_eq!(as_user(&dir.path("none"), "get k"), Some(2));
    assert_eq!(as_user(&login, "set k v"), Some(0));
    assert_eq!(as_user(&login, "get k"), Some(0));
    assert_eq!(as_user(&login, "why k"), Some(0));
    let top = format!(
        "top 127.0.0.1:{} --once --interval 100ms --timeout 20s",
        server.ports[0]
    );
    assert_eq!(
        run(&format!("{top} --login {}", login.display())).status.code(),
        Some(0)
    );
    assert_eq!(
        run(&format!("{top} --login {}", wrong.display())).status.code(),
        Some(1)
    );
    assert_eq!(run(&top).status.code(), Some(1));
    assert_eq!(ask(server.connect(), "get k"), "CLIENT_ERROR unauthenticated");
}
