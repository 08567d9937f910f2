//! The only crate that touches the operating system.

pub mod memory;
pub mod process;
