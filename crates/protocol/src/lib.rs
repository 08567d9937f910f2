//! Skeleton.

pub mod binary;
