//! How many connections each address has, where that is limited. Asked when one comes and when one goes, never between.
//!
//! There is a row for an address while it has a connection, so there are never more rows than connections.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;

use scrubjay_io::driver::PeerAddress;

/// The counts.
#[derive(Debug)]
pub(crate) struct Addresses {
    /// Most connections of one address; 0: any number, and nothing is counted.
    most: usize,
    open: Mutex<HashMap<IpAddr, usize>>,
}

/// A connection's place among those of its address, to be given back when it goes. Boxed: mostly nothing is counted.
#[derive(Debug)]
pub(crate) struct Entry(Option<Box<IpAddr>>);

impl Addresses {
    pub(crate) fn new(most: usize) -> Addresses {
        let open = Mutex::default();
        Addresses { most, open }
    }

    /// Counts a connection that comes; `None` if its address has as many as it may.
    pub(crate) fn enter(&self, peer: PeerAddress) -> Option<Entry> {
        let Some(address) = self.counted(peer) else {
            return Some(Entry(None));
        };
        let mut open = self.open.lock().expect("nothing panics under this lock");
        let count = open.entry(address).or_default();
        if *count >= self.most {
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

    /// By what a peer is counted: an IPv4 address, or the 64 bits of an IPv6 address that name a network, of which one
    /// machine has all the rest. Peers on Unix sockets have none.
    fn counted(&self, peer: PeerAddress) -> Option<IpAddr> {
        let PeerAddress::Tcp(address) = peer else {
            return None;
        };
        if self.most == 0 {
            return None;
        }
        Some(match address.ip().to_canonical() {
            IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
            address @ IpAddr::V4(_) => address,
        })
    }
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
        let addresses = Addresses::new(2);
        let check = |text: &str, fits: bool| {
            let entry = addresses.enter(peer(text));
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
        assert!((0..9).all(|_| addresses.enter(PeerAddress::Unix).is_some()));
    }

    #[test]
    fn addresses_without_connections_are_forgotten() {
        let addresses = Addresses::new(1);
        for host in 0..100 {
            let entry = addresses.enter(peer(&format!("192.0.2.{host}")));
            addresses.leave(entry.expect("it has none yet"));
        }
        assert!(addresses.open.lock().expect("unpoisoned").is_empty());
        let unlimited = Addresses::new(0);
        assert!((0..2).all(|_| unlimited.enter(peer("192.0.2.1")).is_some()));
        assert!(unlimited.open.lock().expect("unpoisoned").is_empty());
    }
}
