//! A client of servers that speak memcached's protocols: scrubjay, memcached, their proxies.
//!
//! - [`Client`]: many servers as one, for any number of threads and tasks, over few connections;
//! - [`config`]: what it is held to, one table of options;
//! - [`near`]: copies of values in this process, before a client;
//! - [`placement`]: which server has a key, alike to what other clients of memcached do;
//! - [`value`]: how values are written as bytes and flags, alike to what other clients do;
//! - [`protocol`]: requests to bytes and bytes to replies, without sockets.

mod client;
pub mod config;
mod connection;
mod error;
pub mod near;
pub mod placement;
pub mod protocol;
mod server;
pub mod value;

pub use client::{Call, Client, Route};
pub use config::Config;
pub use error::Error;
pub use near::NearCache;
