//! Connections, workers and the event loop. Moves bytes between sockets and a [`Service`]; knows no protocol.

mod addresses;
mod carried;
mod connection;
pub mod counters;
mod datagrams;
mod live;
mod memory;
pub mod output;
pub mod relay;
mod roll;
pub mod server;
pub mod service;
mod table;
pub mod udp;
mod worker;

pub use carried::{Carried, Ended};
pub use connection::resting_len;
pub use counters::{Control, Counters, Stop, UdpCounts};
pub use datagrams::UdpConfig;
pub use live::Live;
pub use memory::Memory;
pub use output::Output;
pub use roll::{Roll, RollCall, Row, State};
pub use server::{Config, EndedBy, Sockets, Udp, run, run_here};
pub use service::{Handled, Next, Peer, Reason, Service, Waker};
pub use worker::{BusyPoll, Limits};
