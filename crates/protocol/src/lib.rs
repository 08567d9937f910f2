//! memcached's wire protocols, without sockets, clock or engine: bytes to requests, replies to bytes.
//!
//! Source: memcached doc/protocol.txt (classic and meta), doc/protocol-binary.xml; where they are silent, what memcached
//! 1.6.18 answers.

pub mod binary;
pub mod command;
pub mod dump;
pub mod fuzz;
pub mod limits;
pub mod meta;
pub mod reply;
pub mod text;
pub mod tokens;
