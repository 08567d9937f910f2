//! What can go wrong between a program and its cache.

use std::fmt;

use crate::error::Error;
use crate::value;

/// Why a cache did not do what it was asked to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheError {
    /// The request has no reply.
    Call(Error),
    /// The value cannot be written or read.
    Value(value::Error),
    /// Others were faster each time.
    Contended {
        /// How often it was tried.
        tries: u32,
    },
}

impl fmt::Display for CacheError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CacheError::Call(error) => error.fmt(f),
            CacheError::Value(error) => error.fmt(f),
            CacheError::Contended { tries } => write!(
                f,
                "others changed the item {tries} times in between; try again later, or spread what changes so often over \
                 several keys"
            ),
        }
    }
}

impl std::error::Error for CacheError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            CacheError::Call(error) => Some(error),
            CacheError::Value(error) => Some(error),
            CacheError::Contended { .. } => None,
        }
    }
}

impl From<Error> for CacheError {
    fn from(error: Error) -> CacheError {
        CacheError::Call(error)
    }
}

impl From<value::Error> for CacheError {
    fn from(error: value::Error) -> CacheError {
        CacheError::Value(error)
    }
}

/// Why there is no value although it could have been computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ComputeError<E> {
    /// The cache failed.
    Cache(CacheError),
    /// The computation did.
    Compute(E),
}

impl<E: fmt::Display> fmt::Display for ComputeError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ComputeError::Cache(error) => error.fmt(f),
            ComputeError::Compute(error) => error.fmt(f),
        }
    }
}

impl<E: std::error::Error> std::error::Error for ComputeError<E> {}

impl<E> From<CacheError> for ComputeError<E> {
    fn from(error: CacheError) -> ComputeError<E> {
        ComputeError::Cache(error)
    }
}
