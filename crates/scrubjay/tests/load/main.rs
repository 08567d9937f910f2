//! A server under load and under attack, over real sockets.

mod bad_input;
mod delay;
mod kit;
mod torture;
