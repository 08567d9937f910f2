//! The binary as its users see it: command lines, signals, files, exit statuses.

mod admin;
mod bench;
mod cache;
mod client;
mod config;
mod dump;
mod hands;
mod kit;
mod lab;
mod lease;
mod login;
mod observe;
mod options;
mod plan;
mod process;
mod replay;
mod restart;
mod statistics;
mod steps;
mod tls;
mod top;
mod udp;
mod upgrade;
mod watch;
mod why;
