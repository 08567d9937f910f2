//! The core of the Python package `scrubjay`: a client whose methods take and give objects of Python.
//!
//! - [`core`]: the methods, the same for callers who wait and for an event loop;
//! - [`keys`]: what is a key;
//! - [`values`] and [`convert`]: objects to bytes and flags, and back;
//! - [`finish`]: replies to what the methods promise;
//! - [`completions`]: replies on their way to an event loop;
//! - [`failure`]: errors to exceptions.
//!
//! What is done once and needs no speed is written in Python, in the folder `python` beside this one.

mod completions;
mod convert;
mod core;
mod failure;
mod finish;
mod keys;
mod spread;
mod values;

use pyo3::pymodule;

/// What the package imports as `scrubjay._core`.
#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::core::Core;
}
