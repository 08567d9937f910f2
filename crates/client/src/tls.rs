//! The client's end of TLS: what is believed and shown, and the sessions of one process.
//!
//! [`TlsSettings`] say what encrypted connections need. A [`Tls`] opens any number of [`TlsStream`]s, which have no socket: plaintext
//! and ciphertext in, ciphertext and plaintext out. rustls does the rest; without the feature `tls` there is none, and nothing
//! can be opened.

#[cfg(not(feature = "tls"))]
mod absent;
#[cfg(feature = "tls")]
mod files;
#[cfg(feature = "tls")]
mod session;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

#[cfg(not(feature = "tls"))]
use absent::Made;
#[cfg(not(feature = "tls"))]
pub use absent::TlsStream;
#[cfg(feature = "tls")]
use files::Made;
#[cfg(feature = "tls")]
pub use session::TlsStream;

use crate::placement::Server;

/// What encrypted connections need. Files are in PEM form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// Connections are encrypted.
    pub on: bool,
    /// Certificates of the authorities that are believed; `None`: those that the system believes.
    pub authorities: Option<PathBuf>,
    /// A certificate to show, with its chain.
    pub certificate: Option<PathBuf>,
    /// Its key; `None`: it stands in the same file.
    pub key: Option<PathBuf>,
    /// What the server's certificate calls it; `None`: as its host is called.
    pub name: Option<String>,
    /// Whoever answers is believed, whatever certificate is shown: anybody on the way can read and change everything.
    pub accept_any_certificate: bool,
}

/// Why there is no encrypted connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsError {
    /// Something was said about TLS, which is off.
    Off,
    /// This program was built without TLS.
    Absent,
    /// This cannot be used, for this reason.
    Unusable(String, String),
    /// A server cannot be called so.
    Name(String),
    /// The connection is over: one side does not believe the other, or what came is no TLS. With what to do.
    Failed(String),
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsError::Off => {
                f.write_str("there are options of TLS, but tls is no; set it to yes, or leave them out")
            }
            TlsError::Absent => f.write_str(
                "this client was built without TLS; build it with the feature tls, or set tls to no",
            ),
            TlsError::Unusable(what, reason) => {
                write!(f, "{what}: {reason}; give what is needed in PEM form")
            }
            TlsError::Name(name) => write!(
                f,
                "{name:?} can stand in no certificate; give the name or address that stands in the server's by tls_name, \
                 or have this server in the clear by notls"
            ),
            TlsError::Failed(reason) => write!(f, "TLS: {reason}"),
        }
    }
}

impl std::error::Error for TlsError {}

/// Opens encrypted connections, or says that there are to be none. A clone shares the remembered sessions.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    settings: TlsSettings,
    made: Arc<Made>,
}

impl Tls {
    /// Prepares nothing yet.
    pub fn new(settings: TlsSettings) -> Tls {
        Tls {
            settings,
            made: Arc::default(),
        }
    }

    /// What it was made from.
    pub fn settings(&self) -> &TlsSettings {
        &self.settings
    }

    /// The same settings but for what `change` does; nothing that was read is kept.
    pub(crate) fn changed(&self, change: impl FnOnce(&mut TlsSettings)) -> Tls {
        let mut settings = self.settings.clone();
        change(&mut settings);
        Tls::new(settings)
    }

    /// The same for a server that differs from others.
    pub(crate) fn of_one(&self, on: Option<bool>, name: Option<&str>) -> Tls {
        let mut tls = self.clone();
        tls.settings.on = on.unwrap_or(tls.settings.on);
        tls.settings.name = name.map(str::to_owned).or(tls.settings.name);
        tls
    }

    /// Whether connections are encrypted.
    pub fn is_on(&self) -> bool {
        self.settings.on
    }

    /// Whether anything but the defaults was said.
    pub(crate) fn says_something(&self) -> bool {
        self.settings != TlsSettings::default()
    }

    /// Looks whether connections to this server could be opened.
    ///
    /// # Errors
    /// As [`Tls::open`].
    pub(crate) fn check(&self, server: &Server) -> Result<(), TlsError> {
        self.made.check(&self.settings, self.name_of(server))
    }

    /// Begins a connection to the server that its certificate calls `name`, a host's name or address.
    ///
    /// # Errors
    /// A file cannot be used, the name is none, or no keys can be made.
    pub fn open(&self, name: &str) -> Result<TlsStream, TlsError> {
        self.made.open(&self.settings, name)
    }

    /// Begins a connection to this server.
    pub(crate) fn open_to(&self, server: &Server) -> Result<TlsStream, TlsError> {
        self.open(self.name_of(server))
    }

    fn name_of<'a>(&'a self, server: &'a Server) -> &'a str {
        self.settings.name.as_deref().unwrap_or(&server.host)
    }
}
