//! The only crate that touches the operating system. Each module is a door; what passes through has a simulated twin.

pub mod cgroup;
pub mod child;
pub mod clock;
pub mod driver;
pub mod entropy;
pub mod file;
pub mod handing;
pub mod keeper;
pub mod memory;
pub mod notices;
pub mod process;
pub mod program;
pub mod supervisor;
pub mod syscalls;
pub mod terminal;
pub mod thread;
pub mod usage;
