//! TLS: a driver over a driver, so that the event loop and what it serves know nothing of it.
//!
//! [`Secure`] encrypts what passes through a driver of sockets; [`Tls`] keeps the certificates that new connections use and
//! changes them while connections go on. The protocol and its arithmetic are rustls's; here is only what moves bytes.

mod certificates;
mod client;
mod config;
mod driver;
mod session;
mod settings;

pub use certificates::{Counters, Tls};
pub use client::client;
pub use config::CannotLoad;
pub use driver::{Listener, Secure, Socket};
pub use settings::{Certificate, KeyFormat, MinVersion, Settings, Suites};
