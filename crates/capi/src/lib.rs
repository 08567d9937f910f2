//! The client for C, and for what is built on C. `include/scrubjay.h` says what each function does and is what must not change;
//! here stands only how it is done.
//!
//! Every pointer is checked for null where it comes in; that it means what the header says is the caller's promise. No panic
//! leaves: in a build that unwinds it becomes an error ([`border`]), in others the process ends.
//!
//! - [`config`], [`client`]: one object each, made and freed;
//! - [`request`]: C's structures to the client's requests, replies to C's results;
//! - [`dialog`]: statistics and keys, for which the client has no requests;
//! - [`packing`], [`stream`]: values.

mod border;
mod client;
mod config;
mod dialog;
mod packing;
mod request;
mod stream;
