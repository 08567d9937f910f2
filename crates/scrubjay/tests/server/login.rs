//! Users and their passwords in a running server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;

use crate::kit::{Dir, Server, ask, scrubjay, signal, until};

/// Runs `scrubjay passwd` with a password on standard input.
fn passwd(line: &str, password: &str) -> (bool, String) {
    let mut child = scrubjay(&format!("passwd {line}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut stdin = child.stdin.take().expect("piped");
    // A wrong command line is refused before anything is read.
    let _ = stdin.write_all(password.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().expect("ends");
    let said = if output.status.success() {
        output.stdout
    } else {
        output.stderr
    };
    let said = String::from_utf8(said).expect("text");
    (output.status.success(), said)
}

/// Puts another file in the place of an older one.
fn replace(path: &Path, text: &str) {
    let beside = path.with_extension("new");
    std::fs::write(&beside, text).expect("writable");
    std::fs::rename(&beside, path).expect("same folder");
}

fn login(server: &Server, name: &str, password: &str) -> (TcpStream, String) {
    let stream = server.connect();
    let login = format!("{name} {password}");
    let said = ask(&stream, &format!("set login 0 0 {}\r\n{login}", login.len()));
    (stream, said)
}

const FAILURE: &str = "CLIENT_ERROR authentication failure";

#[test]
fn passwd_makes_lines_that_the_server_takes() {
    let (is_fine, line) = passwd("bob ro", "two words\n");
    assert!(is_fine && line.starts_with("bob ro:$argon2id$"), "{line}");
    assert!(!line.contains("two words"));
    let check = |line: &str, password: &str, part: &str| {
        let (is_fine, said) = passwd(line, password);
        assert!(!is_fine && said.contains(part), "{line}: {said}");
    };
    check("bob", "", "no password on standard input");
    check("bob ro admin", "x", "choose one");
    check("bob or", "x", "or");
    check("b:ob", "x", "colons");
    check("bob", &"x".repeat(600), "more than 512 bytes");
}

#[test]
fn hashed_passwords_open_connections_that_go_on_at_once() {
    let dir = Dir::new();
    let path = dir.path("users");
    let line = passwd("bob", "two words").1;
    std::fs::write(&path, format!("ann:secret\n{line}")).expect("writable");
    let server = Server::start(&format!("-t 2 -Y {}", path.display()));
    // All of them wait for the verifier at the same time; what they have sent behind the login waits with them.
    let mut waiting: Vec<TcpStream> = (0..12).map(|_| server.connect()).collect();
    for (index, stream) in waiting.iter_mut().enumerate() {
        let password = if index % 4 == 3 { "two fishy" } else { "two words" };
        let text = format!("set x 0 0 13\r\nbob {password}\r\nversion\r\nmn\r\n");
        let (first, rest) = text.as_bytes().split_at(index * 2 + 1);
        stream.write_all(first).expect("connected");
        stream.write_all(rest).expect("connected");
    }
    assert_eq!(login(&server, "ann", "secret").1, "STORED");
    for (index, stream) in waiting.iter_mut().enumerate() {
        let expected = match index % 4 {
            3 => format!("{FAILURE}\r\n{0}{0}", "CLIENT_ERROR unauthenticated\r\n"),
            _ => "STORED\r\nVERSION 1.6.45\r\nMN\r\n".to_owned(),
        };
        let mut said = vec![0; expected.len()];
        stream.read_exact(&mut said).expect("answers");
        assert_eq!(String::from_utf8_lossy(&said), expected, "{index}");
    }
    // One who does not wait for the answer does no harm.
    for _ in 0..5 {
        let mut stream = server.connect();
        stream
            .write_all(b"set x 0 0 6\r\nbob no\r\nversion\r\n")
            .expect("connected");
    }
    let (stream, said) = login(&server, "bob", "two words");
    assert_eq!(said, "STORED");
    assert_eq!(ask(&stream, "mg k"), "EN");
    let (exit, said) = server.stop("TERM");
    assert_eq!(exit, Some(0), "{said}");
    assert!(!said.contains("fishy"), "passwords are not told: {said}");
}

#[test]
fn the_file_is_read_again_when_it_changes_and_on_hangup() {
    let dir = Dir::new();
    let path = dir.path("users");
    std::fs::write(&path, "ann:one\nbob:secret").expect("writable");
    let server = Server::start(&format!("-Y {}", path.display()));
    let (ann, said) = login(&server, "ann", "one");
    assert_eq!(said, "STORED");
    let (bob, said) = login(&server, "bob", "secret");
    assert_eq!(said, "STORED");

    replace(&path, "ann:two\nbob ro:secret");
    until(|| (login(&server, "ann", "two").1 == "STORED").then_some(())).expect("noticed");
    assert_eq!(login(&server, "ann", "one").1, FAILURE);
    // Who has another password now is cut off; other rights hold at once.
    assert_eq!(ask(&ann, "mn"), "");
    assert_eq!(ask(&bob, "delete k"), "CLIENT_ERROR this user may only read");

    replace(&path, "ann:three\nnonsense");
    signal(server.child.id(), "HUP");
    replace(&path, "ann:four");
    until(|| (login(&server, "ann", "four").1 == "STORED").then_some(())).expect("noticed");
    assert_eq!(ask(&bob, "mn"), "");
    let (_, said) = server.stop("TERM");
    assert!(said.contains("read again, 2 users"), "{said}");
    assert!(said.contains("read again, 1 users"), "{said}");
    assert!(
        said.contains("a login as \"ann\" from 127.0.0.1:") || said.contains("logins failed"),
        "{said}"
    );
}

#[test]
fn a_wrong_new_file_leaves_the_old_users() {
    let dir = Dir::new();
    let path = dir.path("users");
    std::fs::write(&path, "ann:one").expect("writable");
    let server = Server::start(&format!("-Y {}", path.display()));
    replace(&path, "ann:two\nnonsense");
    signal(server.child.id(), "HUP");
    assert_eq!(login(&server, "ann", "one").1, "STORED");
    let pid = server.child.id();
    assert_eq!(login(&server, "ann", "two").1, FAILURE);
    signal(pid, "HUP");
    let (_, said) = server.stop("TERM");
    assert!(said.contains("line 2: there is no colon"), "{said}");
    assert!(said.contains("the users stay as they were"), "{said}");
}

#[test]
fn connections_of_an_address_and_of_a_user_are_limited() {
    let dir = Dir::new();
    let path = dir.path("users");
    std::fs::write(&path, "ann:secret\nbob:secret").expect("writable");
    let limits = "--connections-per-address 4 --connections-per-user 2";
    let server = Server::start(&format!("{limits} -Y {}", path.display()));
    let ann = [login(&server, "ann", "secret"), login(&server, "ann", "secret")];
    assert!(ann.iter().all(|(_, said)| said == "STORED"));
    let (mut third, said) = login(&server, "ann", "secret");
    assert_eq!(said, "ERROR Too many open connections of this user");
    assert_eq!(third.read(&mut [0; 9]).expect("an end"), 0);
    let bob = login(&server, "bob", "secret");
    assert_eq!(bob.1, "STORED");
    // Connections that the server has closed are given back before the next one comes, or soon after.
    let fourth = until(|| Some(login(&server, "bob", "secret")).filter(|(_, said)| said == "STORED"));
    let fourth = fourth.expect("there is room for it");
    let mut said = String::new();
    server.connect().read_to_string(&mut said).expect("an end");
    assert_eq!(said, "ERROR Too many open connections from this address\r\n");
    drop(ann);
    until(|| (login(&server, "ann", "secret").1 == "STORED").then_some(())).expect("room again");
    drop(fourth);
    let mut bob = bob.0;
    bob.write_all(b"stats\r\n").expect("connected");
    let mut stats = Vec::new();
    while !stats.ends_with(b"END\r\n") {
        let mut piece = [0; 4096];
        let len = bob.read(&mut piece).expect("statistics");
        stats.extend_from_slice(&piece[..len]);
    }
    let stats = String::from_utf8(stats).expect("text");
    for name in ["rejected_by_address 0", "rejected_by_user 0", "auth_cmds 0"] {
        assert!(!stats.contains(&format!("STAT {name}\r\n")), "{name}");
    }
    assert!(stats.contains("STAT auth_errors 0\r\n"), "{stats}");
}
