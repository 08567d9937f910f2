//! What the event loop is told of the options, at the start and when they change.

use scrubjay_net::udp::{Policy, Words};
use scrubjay_net::{Limits, UdpConfig};
use scrubjay_server::options::Options;

/// What a connection over the limit is told. Source: memcached 1.6.18, run.
const TOO_MANY_CONNECTIONS: &[u8] = b"ERROR Too many open connections\r\n";

/// What a connection over the limit of its address is told.
const TOO_MANY_OF_ADDRESS: &[u8] = b"ERROR Too many open connections from this address\r\n";

/// What is answered to datagrams instead of a reply. Source of the first: memcached's protocol.txt; 1.6.18 makes it and
/// sends nothing.
const SPLIT_REQUEST: &[u8] = b"SERVER_ERROR multi-packet request not supported\r\n";
const INCOMPLETE_REQUEST: &[u8] = b"CLIENT_ERROR the datagram ends in the middle of a request\r\n";
const CONNECTION_NEEDED: &[u8] = b"CLIENT_ERROR this is answered by TCP only\r\n";
const REPLY_TOO_LARGE: &[u8] = b"SERVER_ERROR reply too large for UDP; ask for less at a time, or by TCP\r\n";
const REPLY_NOT_ALLOWED: &[u8] = b"SERVER_ERROR reply too large\r\n";

/// Limits of connections.
pub fn limits(options: &Options) -> Limits {
    Limits {
        connections_max: options.conn_limit,
        refusal: options.reject_over_limit.then_some(TOO_MANY_CONNECTIONS),
        connections_per_address: options.connections_per_address,
        refusal_of_address: TOO_MANY_OF_ADDRESS,
        requests_per_address: options.requests_per_address,
        requests_per_user: options.requests_per_user,
        idle_timeout_secs: options.idle_timeout_secs,
        busy_poll: options.busy_poll,
    }
}

/// How datagrams are answered.
pub fn udp(options: &Options) -> UdpConfig {
    let factor = options.udp_amplification;
    UdpConfig {
        policy: Policy {
            allowed: options.udp_allowed.clone(),
            factor,
        },
        words: Words {
            split: SPLIT_REQUEST,
            incomplete: INCOMPLETE_REQUEST,
            soon: CONNECTION_NEEDED,
            too_large: REPLY_TOO_LARGE,
            not_allowed: format!(
                "SERVER_ERROR reply larger than {factor} times the request; allow this network with --udp-allow\r\n"
            ),
            not_allowed_short: REPLY_NOT_ALLOWED,
        },
    }
}
