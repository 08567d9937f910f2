//! The admin port: HTTP for operators. `/metrics` in OpenMetrics, `/stats.json`, `/healthz`, `/readyz`, `/why?key=`, and a
//! page for people at `/`.
//!
//! Everything is read from [`Shared`], mostly through the one statistics table; nothing can be changed from here. HTTP runs
//! over the same event loop as the cache, with one worker on a thread of its own, so that connections, memory and time are
//! bounded by what is tested already, and no request of the cache waits for one of these.

mod dashboard;
mod details;
mod http;
pub mod memory;
mod metrics;
mod pages;
mod reading;
mod service;

use std::sync::Arc;

use scrubjay_io::clock::Clock;
use scrubjay_io::driver::Listener;
use scrubjay_io::driver::epoll::Epoll;
use scrubjay_net::{BusyPoll, Control, Limits};
use scrubjay_server::service::Shared;

pub use metrics::sample_names;
pub use service::Admin;

/// Most connections at a time: for a few scrapers and a few people.
pub const CONNECTIONS_MAX: usize = 32;

/// Most connections of one address, so that nobody alone can keep the others out.
const CONNECTIONS_PER_ADDRESS: usize = 16;

/// Connections that are silent for this long are closed, and so are those whose request takes longer to arrive.
const TIMEOUT_SECS: u32 = 30;

/// What is said to a connection over the limit.
const REFUSAL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// Answers on `listeners`, on this thread, until `control` says stop.
///
/// # Errors
/// What the event loop cannot recover from; the cache is not touched by that.
///
/// # Panics
/// If the cache of `shared` has no worker left: it has one more than threads where `-o admin` is given.
pub fn serve(
    shared: &Arc<Shared>,
    clock: Clock,
    listeners: &[Listener],
    control: &Arc<Control>,
) -> std::io::Result<()> {
    let limits = Limits {
        connections_max: CONNECTIONS_MAX,
        refusal: Some(REFUSAL),
        connections_per_address: CONNECTIONS_PER_ADDRESS,
        refusal_of_address: REFUSAL,
        requests_per_address: 0,
        requests_per_user: 0,
        idle_timeout_secs: TIMEOUT_SECS,
        busy_poll: BusyPoll::Micros(0),
    };
    let is_loopback = listeners
        .iter()
        .filter_map(Listener::address)
        .all(|address| address.ip().is_loopback());
    let service = Admin::new(shared, is_loopback);
    // Not the control of the cache's workers: it says "stopping" while those come to an end.
    scrubjay_net::run_here(&limits, Epoll::new(clock)?, listeners, control, service)
}
