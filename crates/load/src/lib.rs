//! Load on a memcached-protocol server: threads with many connections each, closed loop or at a fixed rate.
//!
//! [`exchange`] speaks the protocols and touches nothing; [`item`] says what belongs to a key, so that every value that comes
//! back can be told right or wrong; [`source`] draws what is asked. [`run`] puts it on a server's sockets and counts.
//! What is measured in which order, and how it is printed, is for the command above.

mod datagrams;
pub mod exchange;
pub mod floor;
pub mod item;
mod lane;
pub mod run;
pub mod server;
pub mod source;
pub mod tally;
mod thread;
pub mod transport;
