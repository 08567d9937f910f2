//! What the server says when it is up.

use std::net::SocketAddr;

use scrubjay_server::options::Options;

use super::places::Places;
use crate::args::VERSION;
use crate::log::{self, Level};

/// Says that the server is up: to people in one screen, to machines in one line.
pub fn say_started(options: &Options, driver: &str, places: &Places) {
    let text = banner(options, driver, places);
    if log::is_terminal() && log::is_text() {
        eprintln!("{text}");
    } else if log::is_text() {
        text.lines().for_each(log::notice);
    } else {
        let admin: Vec<String> = places.admin().iter().map(SocketAddr::to_string).collect();
        let details: [log::Detail<'_>; 10] = [
            ("version", &env!("CARGO_PKG_VERSION")),
            ("pid", &std::process::id()),
            ("listens", &places.words()),
            ("admin", &admin.join(",")),
            ("memory_bytes", &options.memory_max),
            ("item_size_max", &options.item_size_max),
            ("threads", &options.threads),
            ("io_driver", &driver),
            ("connections_max", &options.conn_limit),
            ("restart", &options.holder.words()),
        ];
        log::say(Level::Notice, "started", &details);
    }
    // memcached's words, for which test harnesses wait that start it with -vv.
    log::say(Level::Debug, "server listening", &[("at", &places.words())]);
}

/// What people are told: one screen.
fn banner(options: &Options, driver: &str, places: &Places) -> String {
    let (listening, admin) = (places.words(), places.admin());
    let pages = admin
        .iter()
        .map(|address| format!("pages       http://{address}/\n"));
    let admin: String = pages.collect();
    let pid = std::process::id();
    let mut text = format!(
        "scrubjay {VERSION}\n\
         listens on  {listening}\n{admin}\
         memory      {} (-m), items up to {} (-I){}\n\
         work        {} threads (-t) by {}, up to {} connections (-c)\n\
         restart     {}\n\
         to stop     Ctrl-C or kill {pid}; kill -USR1 {pid} lets connections finish",
        bytes_text(options.memory_max as u64),
        bytes_text(options.item_size_max as u64),
        if options.evict { "" } else { ", no evictions (-M)" },
        options.threads,
        driver,
        options.conn_limit,
        options.holder.words(),
    );
    if options.listen.is_empty() && !options.tcp_addresses().is_empty() {
        text.push_str("\nOnly this machine can connect; to serve the network, start with -l 0.0.0.0");
    }
    text
}

/// Bytes for people, in mebibytes or kibibytes where they are whole.
pub fn bytes_text(bytes: u64) -> String {
    match bytes {
        _ if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} bytes"),
    }
}
