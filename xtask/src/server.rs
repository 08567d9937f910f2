//! A server for clients to talk to.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for the server to listen.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server on a free port of the loopback, until it is dropped.
pub struct Server {
    child: Child,
    /// Where it listens.
    pub port: u16,
    /// Where it answers HTTP, if it was asked to.
    pub admin_port: Option<u16>,
    log: PathBuf,
}

impl Server {
    /// Starts `program` with flags that memcached and scrubjay share, and `options` besides. Its files go to `folder`.
    ///
    /// # Errors
    /// It does not start, or does not listen in time.
    pub fn start(program: &Path, folder: &Path, name: &str, options: &[&str]) -> Result<Server, String> {
        let text = |error: std::io::Error| format!("{}: {error}", program.display());
        std::fs::create_dir_all(folder).map_err(text)?;
        let port_file = folder.join(format!("{name}.port"));
        let log = folder.join(format!("{name}.log"));
        let _ = std::fs::remove_file(&port_file);
        let mut command = Command::new(program);
        command
            .args(options)
            .args(["-l", "127.0.0.1", "-p", "-1", "-U", "0", "-m", "256", "-t", "2"])
            .env("MEMCACHED_PORT_FILENAME", &port_file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).map_err(text)?);
        if crate::setup::is_root() {
            command.args(["-u", "root"]);
        }
        let child = command.spawn().map_err(text)?;
        let mut server = Server {
            child,
            port: 0,
            admin_port: None,
            log,
        };
        let ports = server.wait_for_ports(&port_file)?;
        server.port = ports[0];
        server.admin_port = ports.get(1).copied();
        Ok(server)
    }

    /// What it wrote to standard error.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Whether it still runs.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// All ports, at least one.
    fn wait_for_ports(&mut self, file: &Path) -> Result<Vec<u16>, String> {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            let ports: Option<Vec<u16>> = text
                .lines()
                .map(|line| line.rsplit(' ').next()?.trim().parse().ok())
                .collect();
            if let Some(ports) = ports.filter(|ports| !ports.is_empty()) {
                return Ok(ports);
            }
            if !self.is_alive() {
                return Err(format!("the server ended at once:\n{}", self.log()));
            }
            std::thread::park_timeout(Duration::from_millis(5));
        }
        Err(format!("the server does not listen:\n{}", self.log()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
