//! Servers that are started for a measurement: on a free port or a unix socket, on cores of their own, stopped when dropped.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use scrubjay_io::driver::Listener;
use scrubjay_io::thread::{Bell, cores, stay_on};
use scrubjay_io::usage::Whose;

use crate::transport::{Address, Route};

/// Longest wait until a server that was started takes connections.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often it is asked.
const RETRY: Duration = Duration::from_millis(5);

/// What a started server listens on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A free TCP port.
    Tcp,
    /// A unix socket in the folder for temporary files.
    Unix,
    /// A free port, by UDP and TCP.
    Udp,
}

/// A server that was started here.
#[derive(Debug)]
pub struct Server {
    child: Child,
    address: Address,
    socket: Option<PathBuf>,
}

impl Server {
    /// Starts `command`, words with blanks between, and waits until it takes connections. `{port}` and `{socket}` in it are
    /// replaced; without them memcached's options for the address are put behind.
    ///
    /// # Errors
    /// It does not start, ends at once, or does not listen.
    pub fn start(command: &str, listen: Listen, on_cores: Option<&[usize]>) -> Result<Server, String> {
        let explain = |why: String| format!("--server {command:?}: {why}");
        let free = Listener::tcp(([127, 0, 0, 1], 0).into(), 1);
        let port = free
            .ok()
            .and_then(|listener| listener.address())
            .map_or(0, |address| address.port());
        let path = std::env::temp_dir().join(format!("scrubjay-bench-{}-{port}.sock", std::process::id()));
        let has_place = command.contains("{port}") || command.contains("{socket}");
        let mut line = command
            .replace("{port}", &port.to_string())
            .replace("{socket}", &path.display().to_string());
        if !has_place {
            line += &match listen {
                Listen::Tcp => format!(" -l 127.0.0.1 -p {port} -U 0"),
                Listen::Udp => format!(" -l 127.0.0.1 -p {port} -U {port}"),
                Listen::Unix => format!(" -s {}", path.display()),
            };
            // memcached serves as root only when told to.
            if scrubjay_io::process::is_root() && !command.contains(" -u ") {
                line += " -u root";
            }
        }
        let is_unix = if has_place {
            command.contains("{socket}")
        } else {
            listen == Listen::Unix
        };
        let address = match listen {
            _ if is_unix => Address::Unix(path.clone()),
            Listen::Udp => Address::Udp(([127, 0, 0, 1], port).into()),
            _ => Address::Tcp(([127, 0, 0, 1], port).into()),
        };
        let child = spawn(&line, on_cores).map_err(explain)?;
        let mut server = Server {
            child,
            address,
            socket: is_unix.then_some(path),
        };
        server.wait_until_it_listens().map_err(explain)?;
        Ok(server)
    }

    /// Where it listens.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Whose time it takes.
    pub fn whose(&self) -> Whose {
        Whose::Process(self.child.id())
    }

    fn wait_until_it_listens(&mut self) -> Result<(), String> {
        // UDP itself does not tell; such a server takes TCP too.
        let address = self.address.in_order();
        let mut waited = Duration::ZERO;
        // A handshake is not needed to know.
        let route = Route { address, tls: None };
        loop {
            let Err(why) = route.connect(PATIENCE) else {
                return Ok(());
            };
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!(
                    "it ended with {status} instead of listening; run it by hand to see why"
                ));
            }
            if waited > PATIENCE {
                return Err(why);
            }
            Bell::default().wait(RETRY);
            waited += RETRY;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It is a child of ours, and nothing of it is kept.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(path) = &self.socket {
            // A listener takes the path over and removes it with itself; it may be gone already.
            let _ = Listener::unix(path, 0o700, 1);
        }
    }
}

/// Starts a command line; the child inherits the cores that this thread is on meanwhile.
fn spawn(line: &str, on_cores: Option<&[usize]>) -> Result<Child, String> {
    let mut words = line.split_whitespace();
    let program = words.next().ok_or("the command is empty")?;
    let mut command = Command::new(program);
    command
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let before = cores();
    if let Some(cores) = on_cores {
        stay_on(cores).map_err(|why| format!("cannot use cores {cores:?}: {why}"))?;
    }
    let child = command.spawn().map_err(|why| why.to_string());
    if on_cores.is_some() {
        stay_on(&before).map_err(|why| format!("cannot go back to cores {before:?}: {why}"))?;
    }
    child
}
