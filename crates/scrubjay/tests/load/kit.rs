//! A server process, connections to it, and its memory.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A server on a free port, gone when dropped. `SCRUBJAY_LOAD_BIN` names another program, such as memcached;
/// `SCRUBJAY_LOAD_DRIVER` the driver that scrubjay is to use.
pub struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// Starts it with the options of `line` and waits until it listens.
    pub fn start(line: &str) -> Server {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("scrubjay-load-{}-{number}.port", std::process::id());
        let port_file = std::env::temp_dir().join(name);
        let program = std::env::var("SCRUBJAY_LOAD_BIN");
        let driver = std::env::var("SCRUBJAY_LOAD_DRIVER");
        let child = Command::new(program.as_deref().unwrap_or(env!("CARGO_BIN_EXE_scrubjay")))
            .args(["-l", "127.0.0.1", "-p", "-1", "-U", "0", "-u", "root"])
            .args(line.split_whitespace())
            .args(driver.map(|name| format!("--io-driver={name}")))
            .env("MEMCACHED_PORT_FILENAME", &port_file)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts");
        let mut server = Server { child, port: 0 };
        let end = Instant::now() + PATIENCE;
        while server.port == 0 {
            assert!(Instant::now() < end, "the server does not listen");
            assert!(server.is_alive(), "the server ended at once");
            std::thread::park_timeout(Duration::from_millis(5));
            let text = std::fs::read_to_string(&port_file).unwrap_or_default();
            let port = text
                .lines()
                .next()
                .and_then(|line| line.rsplit(' ').next()?.parse().ok());
            server.port = port.unwrap_or(0);
        }
        let _ = std::fs::remove_file(&port_file);
        server
    }

    /// Whether it still runs.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// A new connection.
    pub fn connect(&self) -> Connection {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("connects");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        Connection(BufReader::with_capacity(64 << 10, stream))
    }

    /// Bytes of its memory that are resident.
    pub fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .expect("a line of Linux");
        let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
        kib << 10
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection that reads lines and values.
pub struct Connection(pub BufReader<TcpStream>);

impl Connection {
    /// Sends everything.
    pub fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).expect("the server reads");
    }

    /// Sends as much as the server takes before it closes.
    pub fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.0.get_mut().write_all(bytes).is_ok()
    }

    /// The next line of the replies, without its end.
    pub fn line(&mut self) -> String {
        let mut line = Vec::new();
        self.0.read_until(b'\n', &mut line).expect("a reply");
        let text = line
            .strip_suffix(b"\r\n")
            .unwrap_or_else(|| panic!("no whole line: {line:?}"));
        String::from_utf8_lossy(text).into_owned()
    }

    /// The next `len` bytes and the line end behind them.
    pub fn value(&mut self, len: usize) -> Vec<u8> {
        let mut value = vec![0; len + 2];
        self.0.read_exact(&mut value).expect("a value");
        assert_eq!(value.split_off(len), b"\r\n", "a value ends with its line");
        value
    }

    /// Everything up to and without the reply to a no-op that is sent now, or up to the connection's end.
    pub fn rest(&mut self) -> String {
        self.try_send(b"mn\r\n");
        let mut text = Vec::new();
        while let Ok(1..) = self.0.read_until(b'\n', &mut text) {
            if text.ends_with(b"MN\r\n") {
                text.truncate(text.len() - 4);
                break;
            }
        }
        String::from_utf8_lossy(&text).into_owned()
    }
}
