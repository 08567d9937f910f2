//! The cache service: protocol married to engine, with its options and statistics.

pub mod commands;
pub mod options;
pub mod service;
pub mod session;
pub mod stats;
