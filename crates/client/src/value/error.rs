//! What can be wrong with a value.

use std::fmt;

/// Why a value was not read or not written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// Bytes that are not of their format.
    Malformed {
        /// The format.
        format: &'static str,
        /// Where, in bytes after decompression.
        offset: usize,
        /// What was found there.
        what: &'static str,
    },
    /// JSON that is none; the parser's own words.
    Json(String),
    /// More than the limits allow.
    Beyond {
        /// More of what.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// The format cannot express the value.
    Inexpressible {
        /// The format.
        format: &'static str,
        /// What it cannot express.
        what: &'static str,
    },
    /// The format is read, never written.
    ReadOnly {
        /// The format.
        format: &'static str,
    },
    /// Pickles were not allowed.
    PickleRefused,
    /// Flags that no row of the profile has.
    UnknownFlags {
        /// The profile's name.
        profile: &'static str,
        /// The flags.
        flags: u32,
    },
    /// A value and a type of the program do not fit; serde's or our words.
    Type(String),
    /// The dictionary is missing, or cannot be used.
    Dictionary(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { format, offset, what } => {
                write!(
                    f,
                    "{format}: {what} at byte {offset}; delete the item, or read it with the profile of its writer"
                )
            }
            Self::Json(message) => write!(
                f,
                "JSON: {message}; delete the item, or read it with the profile of its writer"
            ),
            Self::Beyond { what, limit } => write!(
                f,
                "more than {limit} {what}; raise the limit if the writer is trusted"
            ),
            Self::Inexpressible { format, what } => {
                write!(f, "{format} cannot express {what}; choose another serializer")
            }
            Self::ReadOnly { format } => write!(f, "{format} is only read; choose another serializer"),
            Self::PickleRefused => write!(
                f,
                "a pickle; allow pickles in the limits if every writer is trusted"
            ),
            Self::UnknownFlags { profile, flags } => {
                write!(
                    f,
                    "flags {flags:#x} mean nothing to {profile}; read the item with the profile of its writer"
                )
            }
            Self::Type(message) => write!(f, "{message}; ask for the type that was stored, or for a Value"),
            Self::Dictionary(message) => {
                write!(f, "dictionary: {message}; give the one that the writer used")
            }
        }
    }
}

impl std::error::Error for Error {}
