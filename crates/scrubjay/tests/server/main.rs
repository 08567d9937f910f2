//! The binary as its users see it: command lines, signals, files, exit statuses.

mod admin;
mod bench;
mod client;
mod hands;
mod kit;
mod lab;
mod login;
mod options;
mod plan;
mod process;
mod replay;
mod statistics;
mod tls;
mod udp;
mod why;
