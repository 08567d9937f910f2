//! What is there again after an end and a start: clean ones, kill -9 under load, with a file, a keeper, a supervisor.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::kit::{Dir, PATIENCE, ask, scrubjay, signal, until, wait};
use crate::upgrade::{read_pid, upgrade};

/// Whatever was acknowledged this long before a process dies must be there again.
const SETTLED: Duration = Duration::from_secs(1);

const WRITERS: usize = 4;
const KEYS: usize = 200;

/// A server on a unix socket, which is the same after a restart.
struct Place {
    dir: Dir,
    options: String,
}

impl Place {
    fn new(options: &str) -> Place {
        let dir = Dir::in_memory();
        let line = options.replace("CACHE", &dir.path("cache").display().to_string());
        Place {
            options: format!(
                "-s {} -P {} {line}",
                dir.path("socket").display(),
                dir.path("pid").display()
            ),
            dir,
        }
    }

    fn start(&self) -> Child {
        self.start_as(scrubjay(&self.options))
    }

    fn start_as(&self, mut command: Command) -> Child {
        command.stdout(Stdio::null()).stderr(self.log());
        let child = command.spawn().expect("starts");
        self.connect();
        child
    }

    fn log(&self) -> Stdio {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.dir.path("log"));
        log.expect("writable").into()
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.dir.path("log")).unwrap_or_default()
    }

    fn connect(&self) -> UnixStream {
        let path = self.dir.path("socket");
        let stream = until(|| {
            let mut stream = UnixStream::connect(&path).ok()?;
            // One that a dying server took is no connection.
            stream.write_all(b"mn\r\n").ok()?;
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).ok()?;
            (line == "MN\r\n").then_some(stream)
        });
        let stream = stream.unwrap_or_else(|| panic!("nobody serves\n{}", self.said()));
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream
    }

    fn pid_file(&self) -> PathBuf {
        self.dir.path("pid")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.said());
        }
        if self.pid_file().exists() {
            // A keeper would start another one.
            let _ = Command::new("kill")
                .args(["-s", "TERM", &read_pid(&self.pid_file()).to_string()])
                .status();
        }
    }
}

fn stop(child: &mut Child, name: &str) {
    signal(child.id(), name);
    assert_eq!(wait(child).expect("it ends").code(), Some(0), "{name}");
}

#[test]
fn a_stop_and_a_start_bring_everything_back_and_time_goes_on() {
    let place = Place::new("-e CACHE -t 2");
    let mut child = place.start();
    let stream = place.connect();
    assert_eq!(ask(&stream, "set short 0 1 1\r\nx"), "STORED");
    assert_eq!(ask(&stream, "set long 3 1000 4\r\nkept"), "STORED");
    assert_eq!(ask(&stream, "set gone 0 0 1\r\nx"), "STORED");
    assert_eq!(ask(&stream, "delete gone"), "DELETED");
    assert_eq!(ask(&stream, "set number 0 0 1\r\n5"), "STORED");
    for number in 0..1000 {
        let value = format!("{number}").repeat(100);
        let line = format!("set key-{number} 0 0 {}\r\n{value}", value.len());
        assert_eq!(ask(&stream, &line), "STORED");
    }
    let end = Instant::now() + Duration::from_secs(2);
    stop(&mut child, "TERM");
    until(|| (Instant::now() > end).then_some(())).expect("time passes");
    let mut child = place.start();
    let stream = place.connect();
    assert_eq!(ask(&stream, "mg short v"), "EN");
    assert_eq!(ask(&stream, "mg gone v"), "EN");
    assert_eq!(ask(&stream, "mg long f s"), "HD f3 s4");
    let left: u32 = ask(&stream, "mg long t")
        .replace("HD t", "")
        .parse()
        .expect("seconds");
    assert!((900..999).contains(&left), "{left}");
    assert_eq!(ask(&stream, "incr number 2"), "7");
    for number in 0..1000 {
        let value = format!("{number}").repeat(100);
        assert_eq!(
            ask(&stream, &format!("mg key-{number} s")),
            format!("HD s{}", value.len())
        );
    }
    assert!(place.said().contains("after a clean end"), "{}", place.said());
    stop(&mut child, "USR1");
}

#[test]
fn a_cache_has_one_owner_who_is_named_to_others() {
    let place = Place::new("-e CACHE");
    let mut child = place.start();
    let line = format!("-p -1 -e {}", place.dir.path("cache").display());
    let output = scrubjay(&line).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(71), "{said}");
    assert!(said.contains(&format!("process {}", child.id())), "{said}");
    assert_eq!(ask(place.connect(), "mn"), "MN");
    stop(&mut child, "TERM");
}

#[test]
fn what_is_no_cache_is_left_alone_and_what_cannot_be_used_is_said() {
    let dir = Dir::in_memory();
    let path = dir.path("letter");
    std::fs::write(&path, "Dear reader,\n".repeat(1000)).expect("ours");
    let output = scrubjay(&format!("-p -1 -e {}", path.display()))
        .output()
        .expect("it runs");
    assert_ne!(output.status.code(), Some(0));
    assert!(std::fs::read_to_string(&path).expect("ours").starts_with("Dear"));

    let place = Place::new("-e CACHE -m 64");
    let mut child = place.start();
    assert_eq!(ask(place.connect(), "set a 0 0 1\r\nx"), "STORED");
    stop(&mut child, "TERM");
    let mut command = scrubjay(&place.options);
    command.args(["-m", "2000"]);
    let mut child = place.start_as(command);
    assert_eq!(ask(place.connect(), "mg a v"), "EN");
    assert!(
        place.said().contains("warning: the memory file was made with"),
        "{}",
        place.said()
    );
    stop(&mut child, "TERM");
}

#[test]
fn a_keeper_ends_as_its_server_and_passes_signals_on() {
    for (to_keeper, name) in [(true, "TERM"), (true, "USR1"), (false, "TERM"), (true, "INT")] {
        let place = Place::new("--keep -t 1");
        let mut keeper = place.start();
        let server = until(|| place.pid_file().exists().then(|| read_pid(&place.pid_file())));
        let server = server.expect("a pid file");
        assert_ne!(server, keeper.id());
        signal(keeper.id(), "HUP");
        assert_eq!(ask(place.connect(), "mn"), "MN");
        signal(if to_keeper { keeper.id() } else { server }, name);
        assert_eq!(wait(&mut keeper).expect("it ends").code(), Some(0), "{name}");
    }
    let output = scrubjay("--keep -p 0 -u no-such-user-here -l 0.0.0.0 -Y /nonexistent").output();
    assert_ne!(output.expect("it runs").status.code(), Some(0));
}

#[test]
fn a_keeper_follows_an_upgrade() {
    let place = Place::new("--keep -t 1");
    let mut keeper = place.start();
    until(|| place.pid_file().exists().then_some(())).expect("a pid file");
    assert_eq!(ask(place.connect(), "set a 0 0 1\r\nx"), "STORED");
    let before = read_pid(&place.pid_file());
    assert_eq!(upgrade(&place.pid_file()).status.code(), Some(0));
    let after = read_pid(&place.pid_file());
    assert_ne!(before, after);
    // Through the keeper, too.
    let output = scrubjay(&format!("upgrade --pid {}", keeper.id()))
        .output()
        .expect("it runs");
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let killed = read_pid(&place.pid_file());
    signal(killed, "KILL");
    until(|| (read_pid(&place.pid_file()) != killed).then_some(())).expect("another one");
    assert_eq!(ask(place.connect(), "mn"), "MN");
    stop(&mut keeper, "TERM");
}

/// What a writer knows of a key of its own.
#[derive(Clone, Copy, Default)]
struct Known {
    /// The last version that was sent.
    given: u32,
    /// The version that is there, as far as was acknowledged.
    current: Option<u32>,
    /// No version below may be seen any more.
    floor: u32,
    acknowledged: Option<Instant>,
    /// Something was sent and not acknowledged.
    is_pending: bool,
}

/// One of those who write, and its keys.
struct Writer {
    own: usize,
    known: Vec<Known>,
    random: StdRng,
}

fn value(key: &str, version: u32) -> Vec<u8> {
    let mut random = StdRng::seed_from_u64(
        key.bytes()
            .fold(u64::from(version), |sum, byte| sum * 31 + u64::from(byte)),
    );
    let len = random.random_range(0..3000);
    let mut value = format!("{key} version {version} ").into_bytes();
    value.extend((0..len).map(|_| random.random::<u8>()));
    value
}

impl Writer {
    fn new(own: usize, seed: u64) -> Writer {
        Writer {
            own,
            known: vec![Known::default(); KEYS],
            random: StdRng::seed_from_u64(seed + own as u64),
        }
    }

    fn name(&self, key: usize) -> String {
        format!("kill-{}-{key}", self.own)
    }

    /// Writes until the server is gone. A tenth of the keys is written in the beginning only.
    fn write(&mut self, mut stream: UnixStream, acknowledged: &AtomicU64) {
        let mut reader = BufReader::new(stream.try_clone().expect("a descriptor"));
        for turn in 0.. {
            let key = match turn {
                0..KEYS => turn,
                _ => self.random.random_range(KEYS / 10..KEYS),
            };
            let name = self.name(key);
            let is_deletion = turn >= KEYS && self.random.random_bool(0.1);
            let known = &mut self.known[key];
            known.is_pending = true;
            let mut request;
            if is_deletion {
                request = format!("delete {name}\r\n").into_bytes();
            } else {
                known.given += 1;
                let value = value(&name, known.given);
                request = format!("set {name} {} 0 {}\r\n", known.given, value.len()).into_bytes();
                request.extend_from_slice(&value);
                request.extend_from_slice(b"\r\n");
            }
            let mut line = String::new();
            if stream.write_all(&request).is_err() || !reader.read_line(&mut line).is_ok_and(|len| len > 0) {
                return;
            }
            match line.trim_end() {
                "STORED" => (known.current, known.floor) = (Some(known.given), known.given),
                "DELETED" | "NOT_FOUND" => (known.current, known.floor) = (None, known.given + 1),
                // The last line may have come in part.
                _ => return,
            }
            known.is_pending = false;
            known.acknowledged = Some(Instant::now());
            acknowledged.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Reads all keys; returns how many are there, and how many were lost that might be.
    fn check(&mut self, stream: &UnixStream, killed: Instant, seed: u64) -> (u64, u64) {
        let mut reader = BufReader::new(stream.try_clone().expect("a descriptor"));
        let (mut there, mut lost) = (0, 0);
        for key in 0..KEYS {
            let name = self.name(key);
            let known = &mut self.known[key];
            (&mut &*stream)
                .write_all(format!("mg {name} f v\r\n").as_bytes())
                .expect("writable");
            let mut line = String::new();
            reader.read_line(&mut line).expect("an answer");
            let Some(head) = line.trim_end().strip_prefix("VA ") else {
                assert_eq!(line, "EN\r\n", "seed {seed}: {name}");
                let is_settled = known.acknowledged.is_some_and(|then| then + SETTLED <= killed);
                let is_missed = known.current.is_some() && !known.is_pending;
                assert!(
                    !(is_missed && is_settled),
                    "seed {seed}: {name}, version {:?} was acknowledged {:?} before the end and is gone",
                    known.current,
                    known.acknowledged.map(|then| killed - then)
                );
                lost += u64::from(is_missed);
                (known.current, known.floor, known.is_pending) = (None, known.given + 1, false);
                continue;
            };
            let (len, version) = head.split_once(" f").expect("two numbers");
            let version: u32 = version.parse().expect("a version");
            let mut bytes = vec![0; len.parse::<usize>().expect("a length") + 2];
            std::io::Read::read_exact(&mut reader, &mut bytes).expect("a value");
            bytes.truncate(bytes.len() - 2);
            assert!(
                bytes == value(&name, version),
                "seed {seed}: {name}: not the bytes of version {version}"
            );
            assert!(
                (known.floor..=known.given).contains(&version),
                "seed {seed}: {name}: version {version}, {:?} to {} were possible",
                known.floor,
                known.given
            );
            (known.current, known.floor, known.is_pending) = (Some(version), version, false);
            there += 1;
        }
        (there, lost)
    }
}

/// Kills a server `rounds` times while it is written to, at moments drawn from `seed`.
fn kill_again_and_again(options: &str, rounds: u64, seed: u64) {
    let place = Place::new(options);
    let is_kept = options.contains("--keep");
    let mut child = place.start();
    let mut writers: Vec<Writer> = (0..WRITERS).map(|own| Writer::new(own, seed)).collect();
    let mut random = StdRng::seed_from_u64(seed);
    for round in 0..rounds {
        let acknowledged = AtomicU64::new(0);
        let begun = Instant::now();
        let target = random.random_range(1_000..4_000);
        let life = SETTLED + Duration::from_millis(random.random_range(50..400));
        let mut killed = begun;
        let server =
            until(|| place.pid_file().exists().then(|| read_pid(&place.pid_file()))).expect("a pid file");
        std::thread::scope(|scope| {
            for writer in &mut writers {
                let (stream, acknowledged) = (place.connect(), &acknowledged);
                scope.spawn(move || writer.write(stream, acknowledged));
            }
            until(|| {
                let is_enough = acknowledged.load(Ordering::Relaxed) > target && begun.elapsed() > life;
                is_enough.then_some(())
            })
            .expect("writes are acknowledged");
            killed = Instant::now();
            signal(server, "KILL");
        });
        if !is_kept {
            wait(&mut child).expect("it is dead");
            child = place.start();
        }
        let stream = place.connect();
        let back = killed.elapsed();
        let mut sums = (0, 0);
        for writer in &mut writers {
            let (there, lost) = writer.check(&stream, killed, seed);
            sums = (sums.0 + there, sums.1 + lost);
        }
        println!(
            "{options}: killed {round}, {} writes, back after {back:?}: {} items there, {} lost of the last second",
            acknowledged.load(Ordering::Relaxed),
            sums.0,
            sums.1
        );
    }
    stop(&mut child, "TERM");
}

fn rounds() -> u64 {
    std::env::var("SCRUBJAY_KILLS").map_or(2, |text| text.parse().expect("a number of kills"))
}

#[test]
fn kill_9_under_load_loses_nothing_settled_and_brings_nothing_back_that_was_gone_with_a_file() {
    kill_again_and_again("-e CACHE -t 2 -m 64", rounds(), 11);
}

#[test]
fn kill_9_under_load_loses_nothing_settled_and_brings_nothing_back_that_was_gone_with_a_keeper() {
    kill_again_and_again("--keep -t 2 -m 64", rounds(), 12);
}

/// A command that starts the server with `file` as descriptor 3, as a supervisor would.
fn activated(name: &str, file: impl Into<std::os::fd::OwnedFd>, options: &str) -> Command {
    let mut command = Command::new("sh");
    let script = "exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\"";
    command.args(["-c", script, env!("CARGO_BIN_EXE_scrubjay")]);
    command.args(options.split_whitespace());
    command
        .env("LISTEN_FDNAMES", name)
        .stdin(Stdio::from(file.into()));
    command
}

#[test]
fn sockets_of_a_supervisor_are_served_in_place_of_others() {
    let place = Place::new("");
    let listener = UnixListener::bind(place.dir.path("socket")).expect("a socket");
    let options = format!("-t 1 -p 1 -P {}", place.pid_file().display());
    let mut child = place.start_as(activated("cache", listener, &options));
    assert_eq!(ask(place.connect(), "mn"), "MN");
    assert!(
        place.said().contains("(Unix socket)") && !place.said().contains(":1 (TCP)"),
        "{}",
        place.said()
    );
    stop(&mut child, "TERM");
    assert!(place.dir.path("socket").exists(), "it is not ours to remove");

    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let mut command = activated("cache", listener, &options);
    let mut child = command
        .stdout(Stdio::null())
        .stderr(place.log())
        .spawn()
        .expect("starts");
    let stream = std::net::TcpStream::connect(address).expect("it listens already");
    assert_eq!(ask(stream, "mn"), "MN");
    stop(&mut child, "TERM");
}

#[test]
fn a_supervisor_is_told_and_gives_the_memory_back() {
    let place = Place::new("-t 1");
    let inbox_path = place.dir.path("notify");
    let inbox = UnixDatagram::bind(&inbox_path).expect("a socket");
    inbox.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let next = |inbox: &UnixDatagram| {
        let mut bytes = [0; 1000];
        let len = inbox.recv(&mut bytes).expect("a notice");
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    };
    let memory = |path: &Path| {
        let mut options = std::fs::File::options();
        options
            .read(true)
            .write(true)
            .create(true)
            .open(path)
            .expect("ours")
    };
    let path = place.dir.path("held");
    for round in 0..2 {
        let mut command = activated("memory", memory(&path), &place.options);
        command.env("NOTIFY_SOCKET", &inbox_path);
        let mut child = place.start_as(command);
        assert!(
            next(&inbox).starts_with("FDSTORE=1\nFDNAME=memory"),
            "round {round}"
        );
        assert_eq!(next(&inbox), "READY=1");
        let stream = place.connect();
        match round {
            0 => assert_eq!(ask(&stream, "set a 0 0 1\r\nx"), "STORED"),
            _ => assert_eq!(ask(&stream, "mg a v"), "VA 1"),
        }
        signal(child.id(), "HUP");
        assert!(next(&inbox).starts_with("RELOADING=1"));
        assert_eq!(next(&inbox), "READY=1");
        if round == 1 {
            assert_eq!(upgrade(&place.pid_file()).status.code(), Some(0));
            assert_eq!(next(&inbox), "READY=1");
            let after = read_pid(&place.pid_file());
            assert_eq!(next(&inbox), format!("MAINPID={after}"));
            assert_eq!(ask(place.connect(), "mg a v"), "VA 1");
            signal(after, "TERM");
        } else {
            signal(child.id(), "TERM");
        }
        assert_eq!(next(&inbox), "STOPPING=1");
        assert_eq!(wait(&mut child).expect("it ends").code(), Some(0));
    }
}
