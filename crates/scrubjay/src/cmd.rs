//! The roles of the binary and its small helpers, one module each.

pub mod bench;
mod chart;
mod connection;
pub mod generate;
pub mod item;
pub mod lab;
pub mod mrc;
pub mod passwd;
pub mod plan;
pub mod replay;
pub mod serve;
pub mod stats;
pub mod upgrade;
mod users;
mod value;
pub mod why;
