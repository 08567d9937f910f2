//! The core of the Python package `scrubjay`: a client whose methods take and give objects of Python.
//!
//! - [`core`]: the methods, the same for callers who wait and for an event loop;
//! - [`keys`]: what is a key;
//! - [`values`] and [`convert`]: objects to bytes and flags, and back;
//! - [`arguments`]: numbers, as pymemcache takes them;
//! - [`finish`]: replies to what the methods promise;
//! - [`completions`]: replies on their way to an event loop;
//! - [`admin`]: answers and keys of one server;
//! - [`failure`]: errors to exceptions.
//!
//! What is done once and needs no speed is written in Python, in the folder `python` beside this one.

mod admin;
mod arguments;
mod completions;
mod convert;
mod core;
mod failure;
mod finish;
mod keys;
mod values;

use pyo3::pymodule;

/// What the package imports as `scrubjay._core`.
#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::admin::Keys;
    #[pymodule_export]
    use crate::core::Core;
}
