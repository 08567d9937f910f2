//! The cache service: protocol married to engine, with its options, users and statistics.

pub mod auth;
pub mod commands;
pub mod options;
pub mod service;
pub mod session;
pub mod stats;
pub mod watch;
