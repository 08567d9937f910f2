//! The cache service: protocol married to engine, with its options, users and statistics.

pub mod auth;
pub mod carry;
pub mod commands;
pub mod options;
pub mod service;
pub mod session;
pub mod stats;
