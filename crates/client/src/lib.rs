//! A client of servers that speak memcached's protocols: scrubjay, memcached, their proxies.
//!
//! - [`Client`]: many servers as one, for any number of threads and tasks, over few connections;
//! - [`config`]: what it is held to, one table of options;
//! - [`discovery`]: servers from a file, a name, or a cluster that knows its own;
//! - [`event`], [`statistics`]: what happens to its servers, as it happens and counted;
//! - [`placement`]: which server has a key, alike to what other clients of memcached do;
//! - [`value`]: how values are written as bytes and flags, alike to what other clients do;
//! - [`protocol`]: requests to bytes and bytes to replies, without sockets.

mod client;
pub mod config;
mod connection;
pub mod discovery;
mod error;
pub mod event;
mod failover;
mod health;
pub mod placement;
pub mod protocol;
mod server;
mod set;
mod socket;
mod standing;
pub mod statistics;
pub mod value;

pub use client::{Call, Client, Route};
pub use config::Config;
pub use error::Error;
pub use health::State;
