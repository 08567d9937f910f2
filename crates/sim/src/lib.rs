//! Reference models, conformance scripts and simulations: what scrubjay is checked against. Never shipped.

pub mod differential;
pub mod expiry;
pub mod fill;
pub mod fuzz;
pub mod gets;
pub mod in_process;
pub mod instructions;
pub mod policy;
pub mod restart;
pub mod runner;
pub mod script;
pub mod server;
pub mod serving;
pub mod sets;
pub mod simulation;
