//! A client of servers that speak memcached's protocols: scrubjay, memcached, their proxies.
//!
//! - [`placement`]: which server has a key, alike to what other clients of memcached do;
//! - [`value`]: how values are written as bytes and flags, alike to what other clients do;
//! - [`protocol`]: requests to bytes and bytes to replies, without sockets;
//! - the client itself, which brings them together over shared connections.

pub mod placement;
pub mod protocol;
pub mod value;
