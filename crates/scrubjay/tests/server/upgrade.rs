//! A server hands everything to its successor: memory, sockets, connections; or serves on when that comes to nothing.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::kit::{Dir, PATIENCE, Server, ask, scrubjay, signal, until, wait};
use crate::tls::{Certificates, check};

/// Clients at work during an upgrade.
const CLIENTS: usize = 100;

/// A server started by a path of its own, so that what lies there can be replaced.
struct Replaceable {
    dir: Dir,
    server: Server,
    pid_file: PathBuf,
}

impl Replaceable {
    fn start(options: &str) -> Replaceable {
        let dir = Dir::new();
        let (path, pid_file) = (dir.path("scrubjay"), dir.path("pid"));
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_scrubjay"), &path).expect("a link");
        let mut command = Command::new(&path);
        command
            .args(["-p", "-1", "-P"])
            .arg(&pid_file)
            .args(options.split_whitespace())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let server = Server::start_command(command);
        until(|| pid_file.exists().then_some(())).expect("a pid file");
        Replaceable {
            dir,
            server,
            pid_file,
        }
    }

    fn pid(&self) -> u32 {
        read_pid(&self.pid_file)
    }

    /// What is started from now on.
    fn replace(&self, text: Option<&str>) {
        let path = self.dir.path("scrubjay");
        let _ = std::fs::remove_file(&path);
        match text {
            Some("") => {}
            Some(text) => {
                std::fs::write(&path, text).expect("ours");
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("ours");
            }
            None => std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_scrubjay"), &path).expect("a link"),
        }
    }

    fn upgrade(&self) -> Output {
        upgrade(&self.pid_file)
    }
}

impl Drop for Replaceable {
    fn drop(&mut self) {
        // The server that the test started may have handed over to another.
        if let Ok(text) = std::fs::read_to_string(&self.pid_file) {
            let _ = Command::new("kill").args(["-s", "KILL", text.trim()]).status();
        }
    }
}

pub fn read_pid(path: &Path) -> u32 {
    let text = std::fs::read_to_string(path).expect("a pid file");
    text.trim().parse().expect("a number")
}

pub fn upgrade(pid_file: &Path) -> Output {
    let output = scrubjay(&format!("upgrade -P {}", pid_file.display())).output();
    output.expect("it runs")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Sends bytes and reads as many lines as are wanted.
fn talk(stream: &mut TcpStream, bytes: &[u8], lines: usize) -> Vec<String> {
    stream.write_all(bytes).expect("writable");
    let mut reader = BufReader::new(stream);
    (0..lines)
        .map(|_| {
            let mut line = String::new();
            reader.read_line(&mut line).expect("a line");
            line.trim_end().to_owned()
        })
        .collect()
}

/// Whether `a` has what is left of the thousand seconds that it was given, which is more than half.
fn lives_on(server: &Server) -> bool {
    let answer = ask(server.connect(), "mg a t");
    let left = answer.strip_prefix("HD t").and_then(|left| left.parse().ok());
    left.is_some_and(|left: u32| (501..=1000).contains(&left))
}

#[test]
fn connections_items_and_files_go_to_the_new_process() {
    for options in ["", "-o io_driver=epoll -t 1", "-U -1 -o admin=0 -t 2", "--keep"] {
        let old = Replaceable::start(options);
        let before = old.pid();
        let mut stream = old.server.connect();
        // In the middle of a value, with a request before that is answered.
        let stored = talk(&mut stream, b"set a 5 1000 3\r\nabc\r\nset b 0 0 9\r\nbeg", 1);
        assert_eq!(stored, ["STORED"], "{options}");
        let output = old.upgrade();
        assert_eq!(output.status.code(), Some(0), "{options}: {}", stderr(&output));
        let after = old.pid();
        assert_ne!(before, after, "{options}");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains(&after.to_string()), "{said}");
        let lines = talk(&mut stream, b"inning\r\nget a b\r\n", 6);
        assert_eq!(
            lines,
            ["STORED", "VALUE a 5 3", "abc", "VALUE b 0 9", "beginning", "END"],
            "{options}"
        );
        assert!(lives_on(&old.server), "{options}");
        assert_eq!(ask(old.server.connect(), "mn"), "MN", "{options}");
        // Once more, from the new one.
        assert_eq!(old.upgrade().status.code(), Some(0), "{options}");
        assert_eq!(talk(&mut stream, b"get a\r\n", 3)[1], "abc", "{options}");
        signal(old.pid(), "TERM");
        until(|| (!old.pid_file.exists()).then_some(())).expect("the pid file goes");
    }
}

#[test]
fn a_unix_socket_goes_along_and_is_removed_by_the_last() {
    let dir = Dir::new();
    let (path, pid_file) = (dir.path("socket"), dir.path("pid"));
    let line = format!("-s {} -P {}", path.display(), pid_file.display());
    let mut command = scrubjay(&line);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("starts");
    let stream = until(|| UnixStream::connect(&path).ok()).expect("listens");
    assert_eq!(ask(&stream, "set a 0 0 1\r\nx"), "STORED");
    until(|| pid_file.exists().then_some(())).expect("a pid file");
    let output = upgrade(&pid_file);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(child.wait().expect("our child").code(), Some(0));
    assert_eq!(ask(&stream, "get a"), "VALUE a 0 1");
    let again = UnixStream::connect(&path).expect("listens");
    assert_eq!(ask(again, "mg a v"), "VA 1");
    signal(read_pid(&pid_file), "TERM");
    until(|| (!path.exists()).then_some(())).expect("the socket goes");
}

#[test]
fn a_login_goes_along() {
    let dir = Dir::new();
    let users = dir.path("users");
    std::fs::write(&users, "anna:secret\n").expect("ours");
    let old = Replaceable::start(&format!("-Y {}", users.display()));
    let mut stream = old.server.connect();
    assert_eq!(
        talk(&mut stream, b"set x 0 0 11\r\nanna secret\r\n", 1),
        ["STORED"]
    );
    assert_eq!(talk(&mut stream, b"set a 0 0 1\r\nx\r\n", 1), ["STORED"]);
    let output = old.upgrade();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(talk(&mut stream, b"get a\r\n", 3)[1], "x");
    assert!(ask(old.server.connect(), "get a").starts_with("CLIENT_ERROR"));
}

#[test]
fn an_encrypted_connection_goes_on_through_the_old_process() {
    let certificates = Certificates::new();
    let old = Replaceable::start(&certificates.options());
    let mut stream = certificates.connect(&old.server);
    check(
        &mut stream,
        b"set a 0 0 1\r\nx\r\nset b 0 0 2\r\ny",
        b"STORED\r\n",
    );
    let output = old.upgrade();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    check(&mut stream, b"z\r\nmg b v\r\n", b"STORED\r\nVA 2\r\nyz\r\n");
    check(
        &mut certificates.connect(&old.server),
        b"mg b v\r\n",
        b"VA 2\r\nyz\r\n",
    );
    drop(stream);
    let mut old = old;
    // With its last connection the old process ends.
    assert_eq!(wait(&mut old.server.child).expect("it ends").code(), Some(0));
}

#[test]
fn whatever_is_wrong_with_the_new_program_the_old_one_serves_on() {
    let dir = Dir::new();
    let users = dir.path("users");
    std::fs::write(&users, "anna:secret\n").expect("ours");
    let old = Replaceable::start("-t 2 -U -1 -o admin=0");
    let before = old.pid();
    let mut stream = old.server.connect();
    assert_eq!(
        talk(&mut stream, b"set a 0 0 1\r\nx\r\nset b 0 0 2\r\ny", 1),
        ["STORED"]
    );
    let program = env!("CARGO_BIN_EXE_scrubjay");
    let wrong_users = dir.path("wrong");
    std::fs::write(&wrong_users, "no colon\n").expect("ours");
    let cases = [
        (String::new(), "cannot be started"),
        ("#!/bin/sh\nexit 3\n".to_owned(), "exit status 3"),
        ("#!/bin/sh\nkill -9 $$\n".to_owned(), "gone"),
        (
            format!("#!/bin/sh\nexec {program} \"$@\" --nonsense\n"),
            "exit status 1",
        ),
        (
            format!(
                "#!/bin/sh\nexec {program} \"$@\" -U 0 -Y {}\n",
                wrong_users.display()
            ),
            "-Y",
        ),
        // It gets as far as the sockets: the workers have ended and begin again.
        (format!("#!/bin/sh\nexec {program} \"$@\" -t 1\n"), "-t 2"),
        // It gets as far as the memory.
        (format!("#!/bin/sh\nexec {program} \"$@\" -m 2000\n"), "-m"),
    ];
    for (script, reason) in cases {
        old.replace(Some(&script));
        let output = old.upgrade();
        assert_eq!(output.status.code(), Some(1), "{script}: {}", stderr(&output));
        assert!(stderr(&output).contains(reason), "{script}: {}", stderr(&output));
        assert_eq!(old.pid(), before, "{script}");
        assert_eq!(ask(old.server.connect(), "get a"), "VALUE a 0 1", "{script}");
    }
    assert_eq!(talk(&mut stream, b"y\r\nmg b v\r\n", 3), ["STORED", "VA 2", "yy"]);
    old.replace(None);
    assert_eq!(old.upgrade().status.code(), Some(0));
    assert_eq!(talk(&mut stream, b"mg b v\r\n", 2), ["VA 2", "yy"]);
}

/// The new process is told to go, and dies when it writes its id: it may write no byte to a file.
#[test]
fn a_new_process_that_dies_as_soon_as_it_may_go_loses_connections_and_nothing_else() {
    for options in ["-t 2", "--keep -t 1"] {
        let old = Replaceable::start(options);
        let before = old.pid();
        let mut stream = old.server.connect();
        let stored = talk(
            &mut stream,
            b"set a 5 1000 3\r\nabc\r\nset b 0 0 1\r\nb\r\ndelete b\r\n",
            3,
        );
        assert_eq!(stored, ["STORED", "STORED", "DELETED"], "{options}");
        let program = env!("CARGO_BIN_EXE_scrubjay");
        old.replace(Some(&format!(
            "#!/bin/sh\nulimit -c 0\nulimit -f 0\nexec {program} \"$@\"\n"
        )));
        let output = old.upgrade();
        assert_eq!(output.status.code(), Some(1), "{options}: {}", stderr(&output));
        assert!(stderr(&output).contains("gone"), "{options}: {}", stderr(&output));
        // Nobody can tell what the dead one had answered on it.
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).expect("it is closed in order");
        assert_eq!(rest, b"", "{options}");
        assert_eq!(old.pid(), before, "{options}");
        assert!(lives_on(&old.server), "{options}");
        assert_eq!(ask(old.server.connect(), "mg b"), "EN", "{options}");
        old.replace(None);
        assert_eq!(old.upgrade().status.code(), Some(0), "{options}");
        assert!(lives_on(&old.server), "{options}");
    }
}

#[test]
fn whoever_cannot_be_upgraded_is_told_of() {
    let output = scrubjay("upgrade").output().expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let output = scrubjay("upgrade -P /nonexistent").output().expect("it runs");
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("/nonexistent"), "{}", stderr(&output));
    let output = scrubjay("upgrade --pid 4194303").output().expect("it runs");
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

/// A client with a key of its own, who knows what must be answered.
fn client(server: &Server, own: usize, is_over: &AtomicBool, requests: &AtomicU64) -> Duration {
    let mut stream = server.connect();
    stream.set_nodelay(true).expect("a socket");
    let mut longest = Duration::ZERO;
    let mut reply = Vec::new();
    for version in 0_u64.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let value = format!("{own} {version} {}", "x".repeat((version % 700) as usize));
        let request = format!(
            "set key-{own} 7 0 {}\r\n{value}\r\nget key-{own}\r\n",
            value.len()
        );
        let expected = format!(
            "STORED\r\nVALUE key-{own} 7 {}\r\n{value}\r\nEND\r\n",
            value.len()
        );
        let sent = Instant::now();
        stream
            .write_all(request.as_bytes())
            .expect("the connection lives");
        reply.resize(expected.len(), 0);
        stream.read_exact(&mut reply).expect("an answer");
        longest = longest.max(sent.elapsed());
        assert_eq!(String::from_utf8_lossy(&reply), expected);
        requests.fetch_add(2, Ordering::Relaxed);
    }
    longest
}

#[test]
fn an_upgrade_under_load_breaks_no_connection_and_no_reply() {
    for options in ["-t 2", "-t 2 -o io_driver=epoll"] {
        let old = Replaceable::start(options);
        let (is_over, requests) = (AtomicBool::new(false), AtomicU64::new(0));
        let more = |count: u64| {
            let start = requests.load(Ordering::Relaxed);
            until(|| (requests.load(Ordering::Relaxed) > start + count).then_some(())).expect("it goes on");
        };
        let longest = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|own| {
                    let (server, is_over, requests) = (&old.server, &is_over, &requests);
                    scope.spawn(move || client(server, own, is_over, requests))
                })
                .collect();
            for _ in 0..3 {
                more(5_000);
                let output = old.upgrade();
                assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
                // New ones are as welcome as those that are there.
                assert_eq!(ask(old.server.connect(), "mn"), "MN");
            }
            more(5_000);
            is_over.store(true, Ordering::Relaxed);
            let longest = clients.into_iter().map(|client| client.join().expect("no panic"));
            longest.max().expect("there are clients")
        });
        println!(
            "{options}: {} requests of {CLIENTS} clients, 3 upgrades; the longest answer took {longest:?}",
            requests.load(Ordering::Relaxed)
        );
        assert!(longest < PATIENCE);
    }
}
