//! Arguments as pymemcache takes them: numbers that are to be numbers, and what is said of those that are none.

use pyo3::types::{PyAnyMethods, PyBytes, PyBytesMethods, PyInt, PyString};
use pyo3::{Borrowed, Bound, FromPyObject, PyAny, PyErr, PyResult};

use crate::failure;

/// An exptime or a delay, as it goes to the server.
pub(crate) struct Seconds(pub(crate) i64);

impl<'py> FromPyObject<'_, 'py> for Seconds {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Seconds> {
        if !object.is_instance_of::<PyInt>() {
            let words = format!("seconds must be an int, not {}", shown(&object));
            return Err(failure::illegal(words));
        }
        let seconds = object.extract();
        let seconds =
            seconds.map_err(|_| failure::refused(format!("{} seconds are too many", shown(&object))));
        seconds.map(Seconds)
    }
}

pub(crate) fn delta(object: &Bound<'_, PyAny>) -> PyResult<u64> {
    if !object.is_instance_of::<PyInt>() {
        return Err(failure::illegal(format!(
            "value must be an int, not {}",
            shown(object)
        )));
    }
    let delta = object.extract();
    delta.map_err(|_| failure::refused(format!("value: {} is not from 0 to 2**64 - 1", shown(object))))
}

/// The flags that a caller passes go before the serializer's.
pub(crate) fn flags(passed: Option<&Bound<'_, PyAny>>, encoded: u32) -> PyResult<u32> {
    let Some(passed) = passed else {
        return Ok(encoded);
    };
    let flags = passed.extract();
    flags.map_err(|_| failure::refused(format!("flags: {} is not from 0 to 2**32 - 1", shown(passed))))
}

/// A number, or its digits as text or bytes.
pub(crate) fn cas_number(cas: &Bound<'_, PyAny>) -> PyResult<u64> {
    let digits = if let Ok(bytes) = cas.cast::<PyBytes>() {
        String::from_utf8_lossy(bytes.as_bytes()).into_owned()
    } else if cas.is_instance_of::<PyInt>() || cas.is_instance_of::<PyString>() {
        cas.str()?.to_string()
    } else {
        return Err(failure::illegal(format!(
            "cas must be an int, str or bytes, not {}",
            shown(cas)
        )));
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(failure::illegal(format!(
            "cas must be digits, not {}",
            shown(cas)
        )));
    }
    digits
        .parse()
        .map_err(|_| failure::refused(format!("cas: {digits} is greater than 2**64 - 1")))
}

fn shown(object: &Bound<'_, PyAny>) -> String {
    object
        .repr()
        .map_or_else(|_| "?".to_owned(), |text| text.to_string())
}
