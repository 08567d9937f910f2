//! The roles of the binary and its small helpers, one module each.

pub mod bench;
mod chart;
pub mod check;
mod connection;
pub mod dump;
pub mod generate;
pub mod item;
pub mod lab;
pub mod load;
pub mod mrc;
pub mod passwd;
pub mod plan;
pub mod replay;
pub mod serve;
pub mod stats;
pub mod top;
mod transfer;
pub mod upgrade;
mod users;
mod value;
pub mod why;
