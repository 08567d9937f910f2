//! Real servers as child processes: scrubjay, in the clear or over TLS, and the memcached it is compared with.

mod encrypted;

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use encrypted::{Identity, Stream};

/// Longest wait for a server to listen, and for a reply.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A server that runs until it is dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    address: SocketAddr,
    /// What it shows to those who connect, if it is to be spoken to over TLS.
    identity: Option<Identity>,
}

impl Server {
    /// Starts Debian's memcached, or the one that `MEMCACHED_BIN` names. Its background threads are off: an item that one
    /// of them looks at is not changed in place, and its padding and flags then differ from run to run.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start_memcached(arguments: &[String]) -> Result<Server, String> {
        let program = std::env::var("MEMCACHED_BIN").unwrap_or_else(|_| "memcached".to_owned());
        let quiet = ["-o", "no_lru_crawler,no_lru_maintainer,no_slab_automove"].map(str::to_owned);
        Server::start(&program, &[&quiet, arguments].concat())
    }

    /// Starts the scrubjay under test.
    ///
    /// # Errors
    /// As [`Server::start`], and if there is none.
    pub fn start_scrubjay(arguments: &[String]) -> Result<Server, String> {
        Server::start(&scrubjay_program()?, arguments)
    }

    /// As [`Server::start_scrubjay`]; connections to it are encrypted.
    ///
    /// # Errors
    /// As [`Server::start_scrubjay`].
    pub fn start_scrubjay_tls(arguments: &[String]) -> Result<Server, String> {
        let identity = Identity::new()?;
        let mut server = Server::start_scrubjay(&[&identity.arguments(), arguments].concat())?;
        server.identity = Some(identity);
        Ok(server)
    }

    /// Starts `program` on a free port of the loopback with memcached's options plus `arguments`.
    ///
    /// # Errors
    /// The program does not start or does not listen in time.
    pub fn start(program: &str, arguments: &[String]) -> Result<Server, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let port_file =
            std::env::temp_dir().join(format!("scrubjay-sim-{}-{number}.port", std::process::id()));
        let child = Command::new(program)
            .args(["-u", "root", "-U", "0", "-l", "127.0.0.1", "-p", "-1", "-t", "2"])
            .args(arguments)
            .env("MEMCACHED_PORT_FILENAME", &port_file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("{program} does not start: {error}"))?;
        let mut server = Server {
            child,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            identity: None,
        };
        let port = server.wait_for_port(&port_file);
        let _ = std::fs::remove_file(&port_file);
        server
            .address
            .set_port(port.map_err(|why| format!("{program}: {why}"))?);
        Ok(server)
    }

    /// The server's process id, for looking at its memory.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn connect(&self) -> io::Result<Connection> {
        let stream = TcpStream::connect(self.address)?;
        stream.set_nodelay(true)?;
        // A write that does not go on lets us read, so that neither side waits for the other.
        stream.set_write_timeout(Some(Duration::from_millis(20)))?;
        let stream = match &self.identity {
            None => Stream::Plain(stream),
            Some(identity) => identity.encrypt(stream)?,
        };
        Ok(Connection {
            stream,
            received: Vec::new(),
            closed: false,
        })
    }

    fn wait_for_port(&mut self, file: &PathBuf) -> Result<u16, String> {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            let port = std::fs::read_to_string(file)
                .ok()
                .and_then(|text| text.lines().next()?.rsplit(' ').next()?.trim().parse().ok());
            if let Some(port) = port {
                return Ok(port);
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("ended at once, {status}"));
            }
            std::thread::park_timeout(Duration::from_millis(1));
        }
        Err("does not listen".to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection to a server, with what arrived and was not looked at yet.
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    /// Bytes that arrived.
    pub received: Vec<u8>,
    /// The server closed.
    pub closed: bool,
}

impl Connection {
    /// Sends everything, taking in replies when the server does not read on.
    pub fn send(&mut self, mut bytes: &[u8]) {
        let start = Instant::now();
        while !bytes.is_empty() && !self.closed && start.elapsed() < PATIENCE {
            match self.stream.write(bytes) {
                Ok(len) => bytes = &bytes[len..],
                Err(error) if is_timeout(&error) => {
                    self.receive(Duration::from_millis(1));
                }
                // The server closed; what it said before is still to be read.
                Err(_) => return,
            }
        }
    }

    /// Says that nothing more will be sent.
    pub fn finish(&mut self) {
        self.stream.finish();
    }

    /// Takes in more bytes or the end; `false` if neither came within `timeout`.
    pub fn receive(&mut self, timeout: Duration) -> bool {
        let mut buffer = vec![0; 64 << 10];
        let _ = self.stream.socket().set_read_timeout(Some(timeout));
        match self.stream.read(&mut buffer) {
            Ok(0) => self.closed = true,
            Ok(len) => self.received.extend_from_slice(&buffer[..len]),
            Err(error) if is_timeout(&error) => return false,
            Err(_) => self.closed = true,
        }
        true
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// What `SCRUBJAY_BIN` names, or the scrubjay built beside the running test or tool.
fn scrubjay_program() -> Result<String, String> {
    if let Ok(program) = std::env::var("SCRUBJAY_BIN") {
        return Ok(program);
    }
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    own.ancestors()
        .skip(1)
        .take(2)
        .map(|folder| folder.join("scrubjay"))
        .find(|program| program.is_file())
        .map(|program| program.to_string_lossy().into_owned())
        .ok_or_else(|| "no scrubjay beside this program: run `cargo build -p scrubjay` first".to_owned())
}
