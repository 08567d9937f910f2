//! What was read from files, and the sessions that were made of it, for one process.
//!
//! Files are read when the client is made, and again when a connection is made after they have changed, so that a renewed certificate
//! is used without a restart. If what they hold then is of no use, what was read before is.

use std::fmt;
use std::mem;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwapOption;

use super::session::{self, Sessions, TlsStream};
use super::{TlsError, TlsSettings};

/// What was made of the files.
#[derive(Default)]
pub(super) struct Made(ArcSwapOption<OfProcess>);

impl fmt::Debug for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Made")
    }
}

/// What one process has: a child must not use locks that threads of its parent may hold.
struct OfProcess {
    process: u32,
    stamps: Stamps,
    files: Arc<Files>,
    sessions: Sessions,
}

/// When the files were changed; their lengths.
type Stamps = [Option<(SystemTime, u64)>; 3];

/// What stands in the files, as far as there are any.
pub(super) struct Files {
    pub(super) authorities: Option<Vec<u8>>,
    pub(super) certificate: Option<Vec<u8>>,
    pub(super) key: Option<Vec<u8>>,
}

impl Made {
    /// Looks whether a connection to a server of this name could be opened.
    pub(super) fn check(&self, settings: &TlsSettings, name: &str) -> Result<(), TlsError> {
        session::check_name(name)?;
        self.sessions(settings).map(|_| ())
    }

    /// Begins a connection to a server of this name.
    pub(super) fn open(&self, settings: &TlsSettings, name: &str) -> Result<TlsStream, TlsError> {
        self.sessions(settings)?.open(name)
    }

    /// What this process has, made anew if the files have changed.
    fn sessions(&self, settings: &TlsSettings) -> Result<Sessions, TlsError> {
        let process = std::process::id();
        let known = self.0.load_full();
        let stamps = settings.stamps();
        let files = match &known {
            Some(known) if known.stamps == stamps => known.files.clone(),
            known => match (settings.read(), known) {
                (Ok(files), _) => Arc::new(files),
                // They may be being replaced just now.
                (Err(_), Some(known)) => known.files.clone(),
                (Err(error), None) => return Err(error),
            },
        };
        if let Some(known) = &known
            && known.process == process
            && Arc::ptr_eq(&known.files, &files)
        {
            return Ok(known.sessions.clone());
        }
        let sessions = match (Sessions::new(settings, &files), &known) {
            (Ok(sessions), _) => sessions,
            (Err(_), Some(known)) if known.process == process => return Ok(known.sessions.clone()),
            (Err(error), _) => return Err(error),
        };
        let made = Arc::new(OfProcess {
            process,
            stamps,
            files,
            sessions: sessions.clone(),
        });
        let before = self.0.swap(Some(made));
        // A parent's may have been left in the middle of something: it is not even dropped.
        for of_parent in [before, known].into_iter().flatten() {
            if of_parent.process != process {
                mem::forget(of_parent);
            }
        }
        Ok(sessions)
    }
}

impl TlsSettings {
    /// The file of the key.
    fn key(&self) -> Option<&Path> {
        self.key.as_deref().or(self.certificate.as_deref())
    }

    fn paths(&self) -> [Option<&Path>; 3] {
        [
            self.authorities.as_deref(),
            self.certificate.as_deref(),
            self.key(),
        ]
    }

    fn stamps(&self) -> Stamps {
        self.paths().map(|path| {
            let facts = std::fs::metadata(path?).ok()?;
            Some((facts.modified().ok()?, facts.len()))
        })
    }

    fn read(&self) -> Result<Files, TlsError> {
        if self.key.is_some() && self.certificate.is_none() {
            let words = "there is no certificate for it, which tls_cert names".to_owned();
            return Err(TlsError::Unusable("tls_key".to_owned(), words));
        }
        let read = |what: &str, path: Option<&Path>| {
            let unreadable = |path: &Path, error| {
                TlsError::Unusable(
                    format!("{what} {}", path.display()),
                    format!("it cannot be read: {error}"),
                )
            };
            path.map(|path| std::fs::read(path).map_err(|error| unreadable(path, error)))
                .transpose()
        };
        let [authorities, certificate, key] = self.paths();
        Ok(Files {
            authorities: read("tls_ca", authorities)?,
            certificate: read("tls_cert", certificate)?,
            key: read("tls_key", key)?,
        })
    }
}
