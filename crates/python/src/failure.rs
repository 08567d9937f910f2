//! Errors to exceptions, in pymemcache's classes.

use std::io;

use pyo3::PyErr;
use scrubjay_client::Error;
use scrubjay_client::admin::AdminError;
use scrubjay_client::config::ConfigError;
use scrubjay_client::protocol::reply::ErrorKind;
use scrubjay_client::protocol::{Broken, Refused};

mod classes {
    #![allow(missing_docs, reason = "what they are for is said in scrubjay/exceptions.py")]
    use pyo3::import_exception;
    import_exception!(scrubjay.exceptions, MemcacheClientError);
    import_exception!(scrubjay.exceptions, MemcacheConnectError);
    import_exception!(scrubjay.exceptions, MemcacheIllegalInputError);
    import_exception!(scrubjay.exceptions, MemcacheServerError);
    import_exception!(scrubjay.exceptions, MemcacheTimeoutError);
    import_exception!(scrubjay.exceptions, MemcacheUnexpectedCloseError);
    import_exception!(scrubjay.exceptions, MemcacheUnknownCommandError);
    import_exception!(scrubjay.exceptions, MemcacheUnknownError);
    import_exception!(scrubjay.exceptions, MemcacheValueError);
}
use classes::{
    MemcacheClientError, MemcacheConnectError, MemcacheIllegalInputError, MemcacheServerError,
    MemcacheTimeoutError, MemcacheUnexpectedCloseError, MemcacheUnknownCommandError, MemcacheUnknownError,
    MemcacheValueError,
};

/// A request without a reply.
pub(crate) fn of_request(error: &Error) -> PyErr {
    let words = error.to_string();
    match error {
        Error::Refused(Refused::NeedsMeta) => MemcacheUnknownCommandError::new_err(words),
        Error::Refused(Refused::Full | Refused::Closing) => MemcacheServerError::new_err(words),
        Error::Refused(_) => MemcacheIllegalInputError::new_err(words),
        Error::Server { error, .. } => match error.kind {
            ErrorKind::Unknown => MemcacheUnknownCommandError::new_err(words),
            ErrorKind::Client => MemcacheClientError::new_err(words),
            ErrorKind::Server => MemcacheServerError::new_err(words),
        },
        Error::TimedOut { .. } => MemcacheTimeoutError::new_err(words),
        Error::Broken {
            reason: Broken::Ended,
            ..
        } => MemcacheUnexpectedCloseError::new_err(words),
        Error::Broken { .. } => MemcacheUnknownError::new_err(words),
        _ => MemcacheConnectError::new_err(words),
    }
}

/// No connection to a server that is to be asked alone.
pub(crate) fn of_connecting(error: &AdminError) -> PyErr {
    match error {
        AdminError::Connection { .. } => MemcacheConnectError::new_err(error.to_string()),
        _ => of_admin(error),
    }
}

/// No answer of a server that was asked alone.
pub(crate) fn of_admin(error: &AdminError) -> PyErr {
    let words = error.to_string();
    match error {
        AdminError::Connection { kind, .. } => match kind {
            io::ErrorKind::TimedOut => MemcacheTimeoutError::new_err(words),
            io::ErrorKind::FileTooLarge => MemcacheServerError::new_err(words),
            _ => MemcacheUnexpectedCloseError::new_err(words),
        },
        AdminError::Refused { .. } => MemcacheClientError::new_err(words),
        AdminError::Unreadable { .. } => MemcacheUnknownError::new_err(words),
    }
}

/// A reply that is none to its request.
pub(crate) fn unfit(reply: &scrubjay_client::protocol::Reply) -> PyErr {
    MemcacheUnknownError::new_err(format!("the server sent what is no answer to this: {reply:?}"))
}

/// Options that cannot be.
pub(crate) fn of_config(error: &ConfigError) -> PyErr {
    pyo3::exceptions::PyValueError::new_err(error.to_string())
}

/// A key, flags or a number that no server would take.
pub(crate) fn illegal(words: String) -> PyErr {
    MemcacheIllegalInputError::new_err(words)
}

/// A number that a server would refuse as being none.
pub(crate) fn refused(words: String) -> PyErr {
    MemcacheClientError::new_err(words)
}

/// A value that cannot be written or read.
pub(crate) fn of_value(words: String) -> PyErr {
    MemcacheValueError::new_err(words)
}
