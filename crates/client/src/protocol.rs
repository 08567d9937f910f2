//! Requests to bytes and bytes to replies, without sockets and clocks.
//!
//! The rules by which no reply reaches the wrong caller are in `docs/internals/client.md`; [`Conversation`] holds them.
//!
//! - [`request`]: what can be asked;
//! - [`reply`]: what is answered, and why a conversation breaks;
//! - [`bundle`]: look-ups that are asked and answered as one;
//! - [`conversation`]: one connection: who waits for what;
//! - [`probe`]: which form of the protocol a server speaks;
//! - [`output`]: bytes on their way to the socket.

pub mod bundle;
pub mod conversation;
mod encode;
mod incoming;
mod line;
pub mod output;
pub mod probe;
pub mod reply;
pub mod request;

pub use bundle::Bundle;
pub use conversation::{Conversation, Order, Settings, Ticket};
pub use output::Output;
pub use probe::Probe;
pub use reply::{Broken, Lease, Reply, ServerError, Value};
pub use request::{Arith, Delete, Get, Refused, Request, Store, StoreMode, Touch};

/// How a server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The meta commands: every reply names its request.
    Meta,
    /// The commands before them: replies come in the order of the requests.
    Classic,
}
