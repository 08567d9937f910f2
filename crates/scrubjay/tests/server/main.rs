//! The binary as its users see it: command lines, signals, files, exit statuses.

mod admin;
mod bench;
mod client;
mod config;
mod dump;
mod hands;
mod kit;
mod lab;
mod login;
mod observe;
mod options;
mod plan;
mod process;
mod replay;
mod restart;
mod shared;
mod statistics;
mod tls;
mod top;
mod udp;
mod upgrade;
mod watch;
mod why;
