//! The roles of the binary and its small helpers, one module each.

pub mod generate;
pub mod plan;
pub mod replay;
pub mod serve;
