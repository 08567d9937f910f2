//! What is asked of one server on a connection of its own, and what a near cache counts.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::types::{PyBytes, PyDict, PyDictMethods};
use pyo3::{Bound, Py, PyAny, PyRef, PyResult, Python, pyclass, pymethods};
use scrubjay_client::NearCache;
use scrubjay_client::admin::{self, Admin};
use scrubjay_client::config::Config;
use scrubjay_client::near::Counts;

use crate::failure;

/// Most bytes that an answer may have.
const ANSWER_LEN_MAX: usize = 64 << 20;

/// By what the end of an answer is known.
pub(crate) struct Ends {
    pub(crate) ends: Vec<Vec<u8>>,
    /// Whether it may be followed by something.
    pub(crate) inside: bool,
}

impl Ends {
    fn is_whole(&self, answer: &[u8]) -> bool {
        let is_there = |end: &Vec<u8>| match self.inside {
            true => end.is_empty() || answer.windows(end.len()).any(|piece| piece == end),
            false => answer.ends_with(end),
        };
        self.ends.iter().any(is_there)
    }
}

/// A server by its number, and how many milliseconds it may be silent.
type Asked = (usize, u64);

fn connect(config: &Config, (server, timeout_ms): Asked) -> PyResult<Admin> {
    let timeout = Duration::from_millis(timeout_ms);
    let config = Config {
        connect_timeout: timeout,
        read_timeout: Some(timeout),
        ..config.clone()
    };
    let server = config
        .servers
        .get(server)
        .ok_or_else(|| PyValueError::new_err(format!("there is no server {server}")))?;
    Admin::connect(server, &config).map_err(|error| failure::of_connecting(&error))
}

/// What a server answers.
pub(crate) fn command(
    py: Python<'_>,
    config: &Config,
    asked: Asked,
    command: &[u8],
    ends: &Ends,
) -> PyResult<Py<PyAny>> {
    let answer = py.detach(|| {
        let answer = connect(config, asked)?.command(command, ANSWER_LEN_MAX, |answer| ends.is_whole(answer));
        answer.map_err(|error| failure::of_admin(&error))
    })?;
    Ok(PyBytes::new(py, &answer).into_any().unbind())
}

/// The keys of a server, one after the other.
#[pyclass(frozen, module = "scrubjay._core")]
#[derive(Debug)]
pub(crate) struct Keys(Mutex<admin::Keys>);

impl Keys {
    pub(crate) fn new(py: Python<'_>, config: &Config, asked: Asked) -> PyResult<Keys> {
        let keys = py.detach(|| {
            let keys = connect(config, asked)?.dump_keys();
            keys.map_err(|error| failure::of_admin(&error))
        })?;
        Ok(Keys(Mutex::new(keys)))
    }
}

#[pymethods]
impl Keys {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let next = py.detach(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).next());
        let facts = next.transpose().map_err(|error| failure::of_admin(&error))?;
        Ok(facts.map(|facts| PyBytes::new(py, &facts.key).into_any().unbind()))
    }
}

/// What a near cache has done, by name.
pub(crate) fn counts<'py>(py: Python<'py>, near: &NearCache) -> PyResult<Bound<'py, PyDict>> {
    let Counts {
        hits,
        misses,
        passed,
        invalidations,
        flushes,
        voids,
        copies,
        bytes,
    } = near.counts();
    let dict = PyDict::new(py);
    for (name, count) in [
        ("hits", hits),
        ("misses", misses),
        ("passed", passed),
        ("invalidations", invalidations),
        ("flushes", flushes),
        ("voids", voids),
        ("copies", copies),
        ("bytes", bytes),
    ] {
        dict.set_item(name, count)?;
    }
    Ok(dict)
}
