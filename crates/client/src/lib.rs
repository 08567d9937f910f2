//! A client of servers that speak memcached's protocols: scrubjay, memcached, their proxies.
//!
//! - [`Client`]: many servers as one, for any number of threads and tasks, over few connections;
//! - [`Cache`]: typed values on it: what a program uses day by day;
//! - [`admin`]: keys and statistics of one server;
//! - [`config`]: what it is held to, one table of options;
//! - [`discovery`]: servers from a file, a name, or a cluster that knows its own;
//! - [`event`], [`statistics`]: what happens to its servers, as it happens and counted;
//! - [`near`]: copies of values in this process, before a client;
//! - [`placement`]: which server has a key, alike to what other clients of memcached do;
//! - [`value`]: how values are written as bytes and flags, alike to what other clients do;
//! - [`udp`]: multi-gets over datagrams, with a window over all servers;
//! - [`tls`], with the feature of this name: encrypted connections;
//! - [`protocol`]: requests to bytes and bytes to replies, without sockets.

pub mod admin;
mod answer;
mod batch;
pub mod cache;
mod client;
pub mod config;
mod connection;
pub mod discovery;
mod driver;
mod error;
pub mod event;
mod failover;
mod gathering;
mod health;
mod idle;
mod ids;
mod lookups;
pub mod near;
pub mod placement;
pub mod protocol;
mod server;
mod set;
mod spare;
mod standing;
pub mod statistics;
pub mod tls;
pub mod udp;
pub mod value;

pub use cache::{Cache, CacheError, ComputeError, LeaseOptions, Many, Put, Ttl};
pub use client::{Call, Client, Route};
pub use config::Config;
pub use error::Error;
pub use health::State;
pub use lookups::{Found, Seen};

// The examples of the page for newcomers are built with the documentation's tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/client/rust.md")]
mod page {}
pub use near::NearCache;
