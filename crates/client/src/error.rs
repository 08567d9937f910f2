//! Why a request has no reply.

use std::fmt;
use std::time::Duration;

use crate::protocol::{Broken, Refused, ServerError};

/// What went wrong, and whether the request may have been executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The request cannot be asked; nothing was sent.
    Refused(Refused),
    /// The connection could not be made; nothing was sent.
    Connect {
        /// Which server.
        server: String,
        /// Why, in words, and what to do.
        reason: String,
    },
    /// The server is held to be down, and is not asked before it is probed again; nothing was sent.
    Down {
        /// Which server.
        server: String,
        /// When it is probed at the earliest; [`Duration::MAX`] if it was set offline.
        retry_after: Duration,
    },
    /// No reply in time. It is not known what became of the request.
    TimedOut {
        /// Which server.
        server: String,
        /// How long was waited.
        after: Duration,
    },
    /// The connection had to be closed. It is not known what became of the request.
    Broken {
        /// Which server.
        server: String,
        /// Why.
        reason: Broken,
    },
    /// The server answered with an error.
    Server {
        /// Which server.
        server: String,
        /// What it said.
        error: ServerError,
    },
}

impl Error {
    /// Whether the server, or the way there, is at fault: such errors count towards its failure limit, and failover is tried.
    pub fn is_failure(&self) -> bool {
        match self {
            Error::Refused(_) | Error::Server { .. } => false,
            Error::Connect { .. } | Error::Down { .. } | Error::TimedOut { .. } | Error::Broken { .. } => {
                true
            }
        }
    }

    /// Whether the request may have been executed although there is no reply.
    pub fn is_doubtful(&self) -> bool {
        matches!(self, Error::TimedOut { .. } | Error::Broken { .. })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Refused(refused) => refused.fmt(f),
            Error::Connect { server, reason } => {
                write!(f, "{server}: no connection: {reason}")
            }
            Error::Down {
                server,
                retry_after: Duration::MAX,
            } => write!(f, "{server}: it was set offline"),
            Error::Down { server, retry_after } => {
                write!(
                    f,
                    "{server}: held to be down, to be tried again in {} ms",
                    retry_after.as_millis()
                )
            }
            Error::TimedOut { server, after } => write!(
                f,
                "{server}: no reply in {} ms; it is not known what became of the request",
                after.as_millis()
            ),
            Error::Broken { server, reason } => write!(f, "{server}: {reason}"),
            Error::Server { server, error } => write!(f, "{server}: {error}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Error {
        Error::Refused(refused)
    }
}
