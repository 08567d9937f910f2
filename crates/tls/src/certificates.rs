//! The certificates in use, and how they change while the server runs.
//!
//! New files are read whole and checked before anything changes; what cannot be used leaves in use what was. Connections
//! keep what they were made with. Tickets die with the certificates they were given under, so that no client resumes what
//! its certificate would not be good for any more.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rustls::ServerConfig;
use scrubjay_base::time::Now;
use scrubjay_io::file::{Stamp, absolute};

use crate::config::Configs;
use crate::files::CannotLoad;
use crate::settings::{Certificate, Settings};

/// What happened on TLS connections. Raised at most once a connection.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections that ended before they were established.
    pub handshake_errors: AtomicU64,
    /// Sessions made anew, those resumed left out.
    pub new_sessions: AtomicU64,
    /// Sessions resumed by a ticket.
    pub resumed_sessions: AtomicU64,
    /// Established connections that ended with a breach of the protocol.
    pub protocol_errors: AtomicU64,
}

/// TLS of one server: shared by its workers, and by whoever changes the certificates.
#[derive(Debug)]
pub struct Tls {
    settings: Settings,
    in_use: Mutex<Configs>,
    /// The files as they were when last read. Locked as long as they are read.
    seen: Mutex<[Option<Stamp>; 3]>,
    /// When what is in use was read. Written under `seen`, read by statistics.
    loaded_at_nanos: AtomicU64,
    /// What happened.
    pub counters: Counters,
}

impl Tls {
    /// Reads certificates and key for the first time.
    ///
    /// # Errors
    /// A file cannot be used.
    pub fn load(mut settings: Settings, now: Now) -> Result<Arc<Tls>, CannotLoad> {
        // A server in the background leaves its directory, and reads these again later.
        for path in [&mut settings.chain, &mut settings.key] {
            *path = absolute(path).unwrap_or_default();
        }
        if let Some(path) = &mut settings.authorities {
            *path = absolute(path).unwrap_or_default();
        }
        let seen = Mutex::new(stamps(&settings));
        Ok(Arc::new(Tls {
            in_use: Mutex::new(Configs::load(&settings)?),
            settings,
            seen,
            loaded_at_nanos: AtomicU64::new(now.nanos()),
            counters: Counters::default(),
        }))
    }

    /// Reads the files again; new connections use what they hold.
    ///
    /// # Errors
    /// A file cannot be used; nothing has changed.
    pub fn reload(&self, now: Now) -> Result<(), CannotLoad> {
        let mut seen = self.seen.lock().expect("nothing panics under this lock");
        // Looked at first: what changes while it is read is read again.
        *seen = stamps(&self.settings);
        let configs = Configs::load(&self.settings)?;
        *self.in_use.lock().expect("nothing panics under this lock") = configs;
        self.loaded_at_nanos.store(now.nanos(), Ordering::Relaxed);
        Ok(())
    }

    /// As [`Tls::reload`] if a file has changed since it was read last; `None` if not. Cost: a system call a file.
    pub fn reload_if_changed(&self, now: Now) -> Option<Result<(), CannotLoad>> {
        let has_changed =
            stamps(&self.settings) != *self.seen.lock().expect("nothing panics under this lock");
        has_changed.then(|| self.reload(now))
    }

    /// Seconds since what is in use was read.
    pub fn secs_since_load(&self, now: Now) -> u64 {
        let loaded_at = Now::from_nanos(self.loaded_at_nanos.load(Ordering::Relaxed));
        now.nanos_since(loaded_at) / 1_000_000_000
    }

    /// Whether clients may resume sessions.
    pub fn has_resumption(&self) -> bool {
        self.settings.resumption
    }

    /// What a new connection is made from.
    pub(crate) fn config(&self, asked: Certificate) -> Arc<ServerConfig> {
        let in_use = self.in_use.lock().expect("nothing panics under this lock");
        Arc::clone(in_use.of(asked))
    }
}

fn stamps(settings: &Settings) -> [Option<Stamp>; 3] {
    let authorities = settings.authorities.as_deref();
    let paths: [Option<&Path>; 3] = [Some(&settings.chain), Some(&settings.key), authorities];
    paths.map(|path| path.and_then(Stamp::of))
}
