//! A client of servers that speak memcached's protocols: scrubjay, memcached, their proxies.
//!
//! - [`Client`]: many servers as one, for any number of threads and tasks, over few connections;
//! - [`config`]: what it is held to, one table of options;
//! - [`placement`]: which server has a key, alike to what other clients of memcached do;
//! - [`value`]: how values are written as bytes and flags, alike to what other clients do;
//! - [`udp`]: multi-gets over datagrams, with a window over all servers;
//! - `tls`, a feature: encrypted connections without their sockets;
//! - [`protocol`]: requests to bytes and bytes to replies, without sockets.

mod client;
pub mod config;
mod connection;
mod error;
pub mod placement;
pub mod protocol;
mod server;
#[cfg(feature = "tls")]
pub mod tls;
pub mod udp;
pub mod value;

pub use client::{Call, Client, Route};
pub use config::Config;
pub use error::Error;
