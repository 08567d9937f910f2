//! A build without TLS: nothing can be opened, and nobody can ask a stream for anything.

use super::{TlsError, TlsSettings};

/// Nothing is made.
#[derive(Debug, Default)]
pub(super) struct Made;

impl Made {
    pub(super) fn check(&self, _: &TlsSettings, _: &str) -> Result<(), TlsError> {
        Err(TlsError::Absent)
    }

    pub(super) fn open(&self, _: &TlsSettings, _: &str) -> Result<TlsStream, TlsError> {
        Err(TlsError::Absent)
    }
}

/// There is none.
#[derive(Debug)]
pub enum TlsStream {}

impl TlsStream {
    /// Nobody can call this.
    ///
    /// # Errors
    /// None.
    pub fn write(&mut self, _: &[std::io::IoSlice<'_>]) -> Result<(), TlsError> {
        match *self {}
    }

    /// Nobody can call this.
    pub fn take_output(&mut self, _: &mut Vec<u8>) {
        match *self {}
    }

    /// Nobody can call this.
    ///
    /// # Errors
    /// None.
    pub fn feed(&mut self, _: &[u8], _: &mut Vec<u8>) -> Result<(), TlsError> {
        match *self {}
    }

    /// Nobody can call this.
    pub fn close(&mut self) {
        match *self {}
    }

    /// Nobody can call this.
    pub fn is_ended(&self) -> bool {
        match *self {}
    }

    /// Nobody can call this.
    pub fn is_established(&self) -> bool {
        match *self {}
    }

    /// Nobody can call this.
    pub fn is_resumed(&self) -> bool {
        match *self {}
    }
}
