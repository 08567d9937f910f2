//! Connections, workers and the event loop. Moves bytes between sockets and a [`Service`]; knows no protocol.

pub mod output;
pub mod service;

pub use output::Output;
pub use service::{Handled, Next, Peer, Service};
