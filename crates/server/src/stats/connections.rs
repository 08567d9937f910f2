//! `stats conns`: a few lines for every socket, under memcached's names and states; the last command is beyond what it tells.

use scrubjay_base::time::Now;
use scrubjay_net::{Row, State};

/// Names of the lines of a socket, each behind its descriptor and a colon.
pub(super) const NAMES: [&str; 6] = [
    "UDP",
    "addr",
    "listen_addr",
    "state",
    "secs_since_last_cmd",
    "last_cmd",
];

/// memcached's word for a state, and one of our own for what it does not have.
fn word(state: State) -> &'static str {
    match state {
        State::Listening => "conn_listening",
        State::New => "conn_new_cmd",
        State::Datagrams | State::Waiting => "conn_read",
        State::Receiving => "conn_nread",
        State::Working => "conn_parse_cmd",
        State::HeldBack => "conn_held_back",
        State::Sending => "conn_mwrite",
        State::Closing => "conn_closing",
    }
}

/// Calls `each` with name and value of every line of a socket.
pub fn connection(row: &Row, now: Now, each: &mut dyn FnMut(&str, &str)) {
    let [udp, addr, listen_addr, state, secs, last] = NAMES;
    let mut say = |name: &str, value: &str| each(&format!("{}:{name}", row.name.descriptor), value);
    match row.state {
        State::Listening => say(addr, &row.name.here),
        State::Datagrams => {
            say(udp, "UDP");
            say(addr, &row.name.here);
        }
        _ => {
            say(addr, &row.name.there);
            say(listen_addr, &row.name.here);
        }
    }
    say(state, word(row.state));
    let idle = now.nanos_since(row.last_active) / 1_000_000_000;
    say(secs, &idle.to_string());
    if let Some(name) = crate::session::last::name(row.last_asked) {
        say(last, name);
    }
}
