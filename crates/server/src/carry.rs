//! Connections that go to another process, and what this one goes on doing for those that cannot.

use scrubjay_net::Carried;
use scrubjay_net::relay::Pair;
use scrubjay_tls::Socket;

/// How long encrypted connections are relayed at most, in nanoseconds.
pub const RELAY_NANOS_MAX: u64 = 60_000_000_000;

/// Connections parted by whether their sockets are all that there is of them.
#[derive(Debug)]
pub struct Parted<S> {
    /// To be handed over. In place of an encrypted connection goes one that leads here.
    pub carried: Vec<Carried<S>>,
    /// To be relayed by this process, for [`RELAY_NANOS_MAX`], while the other answers.
    pub relayed: Vec<Pair<Socket<S>>>,
    /// Encrypted connections that were closed, as there were no descriptors left to relay them.
    pub lost: usize,
}

/// Parts `carried`; `pair` makes two connections whose other end is the other one.
pub fn part<S>(
    carried: Vec<Carried<Socket<S>>>,
    mut pair: impl FnMut() -> std::io::Result<(S, S)>,
) -> Parted<S> {
    let mut parted = Parted {
        carried: Vec::with_capacity(carried.len()),
        relayed: Vec::new(),
        lost: 0,
    };
    for connection in carried {
        let (connection, socket) = connection.over(());
        let client = match socket.into_plain() {
            Ok(plain) => {
                parted.carried.push(connection.over(plain).0);
                continue;
            }
            Err(encrypted) => encrypted,
        };
        let Ok((here, there)) = pair() else {
            parted.lost += 1;
            continue;
        };
        let server = Socket::plain(here);
        parted.relayed.push(Pair { client, server });
        parted.carried.push(connection.over(there).0);
    }
    parted
}
