//! A server process and a folder of its own for tests; both gone when dropped.

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up: far more than it does on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A folder that is removed when dropped.
pub struct Dir(PathBuf);

impl Dir {
    pub fn new() -> Dir {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "scrubjay-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("temporary folder");
        // Servers that give up root write there too.
        std::fs::set_permissions(&path, Permissions::from_mode(0o777)).expect("our folder");
        Dir(path)
    }

    /// One whose files lie in memory, where there is such a place.
    pub fn in_memory() -> Dir {
        let dir = Dir::new();
        let memory = Path::new("/dev/shm");
        let there = memory.join(dir.0.file_name().expect("it has a name"));
        if !memory.is_dir() || std::fs::create_dir(&there).is_err() {
            return dir;
        }
        std::fs::set_permissions(&there, Permissions::from_mode(0o777)).expect("our folder");
        Dir(there)
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The program, with `line` split at spaces as its arguments.
pub fn scrubjay(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scrubjay"));
    command.args(line.split_whitespace()).stdin(Stdio::null());
    command
}

/// Runs the program to its end; fails if that does not come.
pub fn run(line: &str) -> Output {
    run_within(line, PATIENCE)
}

/// As [`run`], for what takes its time.
pub fn run_within(line: &str, patience: Duration) -> Output {
    let mut child = scrubjay(line)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    // Its output fits the pipes' buffers but for help and man page, hence the thread.
    let mut stdout = child.stdout.take().expect("piped");
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stdout.read_to_end(&mut bytes).map(|_| bytes)
    });
    let Some(status) = until_within(|| child.try_wait().expect("our child"), patience) else {
        let _ = child.kill();
        panic!("scrubjay {line} does not end");
    };
    let mut stderr = Vec::new();
    child
        .stderr
        .take()
        .expect("piped")
        .read_to_end(&mut stderr)
        .expect("readable");
    Output {
        status,
        stdout: reader.join().expect("no panic").expect("readable"),
        stderr,
    }
}

/// Runs the program, which must end with this exit status; what it tells people.
#[track_caller]
pub fn said_by(line: &str, exit: i32) -> String {
    ended(&run(line), line, exit)
}

/// The same; what it prints for programs.
#[track_caller]
pub fn printed_by(line: &str, exit: i32) -> String {
    let output = run(line);
    ended(&output, line, exit);
    String::from_utf8(output.stdout).expect("text")
}

/// Fails unless the program ended with this exit status; what it told people.
#[track_caller]
pub fn ended(output: &Output, line: &str, exit: i32) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(exit), "{line}: {said}");
    said
}

/// The exit status, if it comes in time.
pub fn wait(child: &mut Child) -> Option<ExitStatus> {
    until(|| child.try_wait().expect("our child"))
}

/// Asks again and again until there is an answer; `None` when patience ends.
pub fn until<T>(ask: impl FnMut() -> Option<T>) -> Option<T> {
    until_within(ask, PATIENCE)
}

fn until_within<T>(mut ask: impl FnMut() -> Option<T>, patience: Duration) -> Option<T> {
    let end = Instant::now() + patience;
    loop {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        if Instant::now() > end {
            return None;
        }
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// Sends a signal by its name, such as `TERM`.
pub fn signal(pid: u32, name: &str) {
    let status = Command::new("kill")
        .args(["-s", name, &pid.to_string()])
        .status()
        .expect("kill runs");
    assert!(status.success());
}

/// A server on a free port.
pub struct Server {
    pub child: Child,
    pub ports: Vec<u16>,
    stderr: Option<std::thread::JoinHandle<String>>,
    _dir: Dir,
}

impl Server {
    /// A number of `stats`.
    pub fn statistic(&self, name: &str) -> u64 {
        let mut stream = self.connect();
        stream.write_all(b"stats\r\nquit\r\n").expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("answered");
        let start = format!("STAT {name} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&start));
        line.and_then(|value| value.parse().ok()).expect(name)
    }

    /// Starts `scrubjay -p -1` and the options of `line`, and waits until it listens.
    pub fn start(line: &str) -> Server {
        Server::start_as(&format!("-p -1 {line}"))
    }

    /// Starts Debian's memcached, or the one that `MEMCACHED_BIN` names, with the options of `line`, and waits until it
    /// listens.
    pub fn start_memcached(line: &str) -> Server {
        let program = std::env::var("MEMCACHED_BIN").unwrap_or_else(|_| "memcached".to_owned());
        let mut command = Command::new(program);
        command
            .args(["-u", "root", "-U", "0", "-l", "127.0.0.1", "-p", "-1"])
            .args(line.split_whitespace())
            .stdin(Stdio::null());
        Server::start_command(command)
    }

    /// Starts the program with the options of `line` and waits until it has written its port file.
    pub fn start_as(line: &str) -> Server {
        Server::start_command(scrubjay(line))
    }

    /// Runs `command`, a server, and waits until it has written its port file.
    pub fn start_command(mut command: Command) -> Server {
        let dir = Dir::new();
        let port_file = dir.path("ports");
        command
            .env("MEMCACHED_PORT_FILENAME", &port_file)
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("starts");
        let mut pipe = child.stderr.take().expect("piped");
        let stderr = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = pipe.read_to_string(&mut text);
            text
        });
        let mut server = Server {
            child,
            ports: Vec::new(),
            stderr: Some(stderr),
            _dir: dir,
        };
        server.ports = server.read_ports(&port_file);
        server
    }

    fn read_ports(&mut self, port_file: &Path) -> Vec<u16> {
        let text = until(|| {
            if let Some(status) = self.child.try_wait().expect("our child") {
                panic!("the server ended: {status}\n{}", self.output());
            }
            std::fs::read_to_string(port_file).ok()
        });
        let text = text.expect("the server listens in time");
        text.lines()
            .map(|line| {
                line.rsplit(' ')
                    .next()
                    .and_then(|port| port.parse().ok())
                    .expect(line)
            })
            .collect()
    }

    /// A new connection.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.ports[0])).expect("connects");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream
    }

    /// What it wrote to standard error, once it has ended.
    pub fn output(&mut self) -> String {
        self.stderr
            .take()
            .map_or(String::new(), |thread| thread.join().expect("no panic"))
    }

    /// Sends it a signal and waits for its end: exit status and what it said.
    pub fn stop(mut self, name: &str) -> (Option<i32>, String) {
        signal(self.child.id(), name);
        let status = wait(&mut self.child).expect("the server ends");
        (status.code(), self.output())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a line, at once, as a server may end the connection at its beginning, and gives the line that comes back.
pub fn ask(stream: impl Read + Write, line: &str) -> String {
    let mut stream = BufReader::new(stream);
    let request = format!("{line}\r\n");
    stream.get_mut().write_all(request.as_bytes()).expect("writable");
    let mut reply = String::new();
    stream.read_line(&mut reply).expect("an answer");
    reply.trim_end().to_owned()
}
