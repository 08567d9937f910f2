//! Connections, workers and the event loop. Moves bytes between sockets and a [`Service`]; knows no protocol.

mod addresses;
mod connection;
pub mod counters;
mod memory;
pub mod output;
pub mod server;
pub mod service;
mod worker;

pub use counters::{Control, Counters, Stop};
pub use memory::Memory;
pub use output::Output;
pub use server::{Config, run};
pub use service::{Handled, Next, Peer, Service};
pub use worker::Limits;
