//! How many connections each address has, where that is limited. Asked when one comes and when one goes, never between.
//!
//! There is a row for an address while it has a connection, so there are never more rows than connections.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;

use scrubjay_io::driver::PeerAddress;

/// The counts.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    open: Mutex<HashMap<IpAddr, usize>>,
}

/// A connection's place among those of its address, to be given back when it goes. Boxed: mostly nothing is counted.
#[derive(Debug)]
pub(crate) struct Entry(Option<Box<IpAddr>>);

impl Addresses {
    /// Counts a connection that comes; `None` if its address has as many as it may. With 0 it may have any number, and nothing is
    /// counted, then or later.
    pub(crate) fn enter(&self, peer: PeerAddress, most: usize) -> Option<Entry> {
        let Some(address) = counted(peer).filter(|_| most > 0) else {
            return Some(Entry(None));
        };
        let mut open = self.open.lock().expect("nothing panics under this lock");
        let count = open.entry(address).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Entry(Some(Box::new(address))))
    }

    /// Counts one that goes.
    pub(crate) fn leave(&self, entry: Entry) {
        let Entry(Some(address)) = entry else {
            return;
        };
        let mut open = self.open.lock().expect("nothing panics under this lock");
        if let Some(count) = open.get_mut(&*address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&*address);
            }
        }
    }
}

/// By what a peer is counted: an IPv4 address, or the 64 bits of an IPv6 address that name a network, of which one machine
/// has all the rest. Peers on Unix sockets have none.
fn counted(peer: PeerAddress) -> Option<IpAddr> {
    let PeerAddress::Tcp(address) = peer else {
        return None;
    };
    Some(match address.ip().to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
        address @ IpAddr::V4(_) => address,
    })
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use scrubjay_io::driver::PeerAddress;

    use super::Addresses;

    fn peer(text: &str) -> PeerAddress {
        PeerAddress::Tcp(SocketAddr::new(text.parse().expect(text), 5))
    }

    #[test]
    fn an_address_has_so_many_connections_and_no_more() {
        let addresses = Addresses::default();
        let check = |text: &str, fits: bool| {
            let entry = addresses.enter(peer(text), 2);
            assert_eq!(entry.is_some(), fits, "{text}");
            entry
        };
        let first = check("192.0.2.1", true);
        check("::ffff:192.0.2.1", true);
        check("192.0.2.1", false);
        check("192.0.2.2", true);
        check("2001:db8::1", true);
        check("2001:db8::2", true);
        check("2001:db8::3", false);
        check("2001:db8:0:1::3", true);
        first.into_iter().for_each(|entry| addresses.leave(entry));
        check("192.0.2.1", true);
        assert!((0..9).all(|_| addresses.enter(PeerAddress::Unix, 2).is_some()));
    }

    #[test]
    fn addresses_without_connections_are_forgotten() {
        let addresses = Addresses::default();
        for host in 0..100 {
            let entry = addresses.enter(peer(&format!("192.0.2.{host}")), 1);
            addresses.leave(entry.expect("it has none yet"));
        }
        assert!(addresses.open.lock().expect("unpoisoned").is_empty());
        let unlimited = Addresses::default();
        assert!((0..2).all(|_| unlimited.enter(peer("192.0.2.1"), 0).is_some()));
        assert!(unlimited.open.lock().expect("unpoisoned").is_empty());
    }
}
