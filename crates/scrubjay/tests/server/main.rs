//! The binary as its users see it: command lines, signals, files, exit statuses.

mod admin;
mod bench;
mod client;
mod client_tls;
mod client_udp;
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
mod statistics;
mod tls;
mod top;
mod udp;
mod upgrade;
mod watch;
mod why;
