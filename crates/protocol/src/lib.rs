//! memcached's wire protocols: parsing and encoding, no sockets, no state.

pub mod binary;
pub mod command;
pub mod limits;
pub mod meta;
pub mod reply;
pub mod text;
mod words;

pub use words::Words;
