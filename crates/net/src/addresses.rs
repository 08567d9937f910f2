//! Connections of each address, and what the address may still ask, where either is limited. Looked up when a connection comes and
//! when one goes, never between: each has its address's row at hand.
//!
//! There is a row for an address while it has a connection. If it has asked for more than it may by then, its row stays until that
//! is paid for: nobody gets a new allowance by connecting anew. Of such rows there is a bound.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use scrubjay_base::allowance::Allowance;
use scrubjay_base::time::Now;
use scrubjay_io::driver::PeerAddress;

/// Addresses without a connection that are remembered for what they owe, of some 150 bytes each. Whoever has more addresses
/// than this at hand is not stopped by a limit for each of them.
const REMEMBERED_MAX: usize = 16_384;

/// The rows.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    rows: HashMap<IpAddr, Row>,
    /// Rows without a connection.
    remembered: usize,
    /// Of all who have no address.
    nowhere: Arc<Origin>,
}

#[derive(Debug, Default)]
struct Row {
    open: usize,
    origin: Arc<Origin>,
}

/// Where connections come from.
#[derive(Debug, Default)]
struct Origin {
    /// `None`: a Unix socket.
    address: Option<IpAddr>,
    allowance: Allowance,
}

/// A connection's place among those of its address, to be given back when it goes. None: it came when nothing was limited.
#[derive(Debug, Default)]
pub(crate) struct Entry(Option<Arc<Origin>>);

impl Entry {
    /// Whether it has a place.
    pub(crate) fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// By what its connection is counted.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.0.as_ref().and_then(|origin| origin.address)
    }

    /// What its address may still ask.
    pub(crate) fn allowance(&self) -> Option<&Allowance> {
        let origin = self.0.as_ref().filter(|origin| origin.address.is_some());
        origin.map(|origin| &origin.allowance)
    }
}

impl Addresses {
    /// Counts a connection that comes; `None` if its address has as many as it may, where 0 is any number. If that is not limited
    /// and `has_rate` is false, nothing is counted, then or later.
    pub(crate) fn enter(&self, peer: PeerAddress, most: usize, has_rate: bool) -> Option<Entry> {
        if most == 0 && !has_rate {
            return Some(Entry(None));
        }
        let mut known = self.known.lock().expect("nothing panics under this lock");
        let Some(address) = counted(peer) else {
            return Some(Entry(Some(Arc::clone(&known.nowhere))));
        };
        let Known { rows, remembered, .. } = &mut *known;
        let row = rows.entry(address).or_insert_with(|| {
            *remembered += 1;
            Row::of(address)
        });
        if most > 0 && row.open >= most {
            return None;
        }
        *remembered -= usize::from(row.open == 0);
        row.open += 1;
        Some(Entry(Some(Arc::clone(&row.origin))))
    }

    /// Counts one that goes.
    pub(crate) fn leave(&self, entry: Entry, now: Now) {
        let Some(address) = entry.address() else {
            return;
        };
        let mut known = self.known.lock().expect("nothing panics under this lock");
        let Some(row) = known.rows.get_mut(&address) else {
            return;
        };
        row.open -= 1;
        if row.open > 0 {
            return;
        }
        if row.origin.allowance.is_full(now) {
            known.rows.remove(&address);
            return;
        }
        known.remembered += 1;
        if known.remembered > REMEMBERED_MAX {
            known.forget(|row| row.origin.allowance.is_full(now));
            if known.remembered > REMEMBERED_MAX / 2 {
                known.forget(|_| true);
            }
        }
    }
}

impl Known {
    /// Forgets rows without a connection of which `may_go` is true.
    fn forget(&mut self, may_go: impl Fn(&Row) -> bool) {
        self.rows.retain(|_, row| row.open > 0 || !may_go(row));
        self.remembered = self.rows.values().filter(|row| row.open == 0).count();
    }
}

impl Row {
    fn of(address: IpAddr) -> Row {
        let origin = Arc::new(Origin {
            address: Some(address),
            allowance: Allowance::default(),
        });
        Row { open: 0, origin }
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
    use std::net::{IpAddr, Ipv4Addr, SocketAddr};

    use scrubjay_base::allowance::Rate;
    use scrubjay_base::time::Now;
    use scrubjay_io::driver::PeerAddress;

    use super::{Addresses, REMEMBERED_MAX};

    fn peer(text: &str) -> PeerAddress {
        of(text.parse().expect(text))
    }

    fn of(address: IpAddr) -> PeerAddress {
        PeerAddress::Tcp(SocketAddr::new(address, 5))
    }

    fn rows(addresses: &Addresses) -> usize {
        addresses.known.lock().expect("unpoisoned").rows.len()
    }

    #[test]
    fn an_address_has_so_many_connections_and_no_more() {
        let addresses = Addresses::default();
        let check = |text: &str, fits: bool| {
            let entry = addresses.enter(peer(text), 2, false);
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
        let leave = |entry| addresses.leave(entry, Now::default());
        first.into_iter().for_each(leave);
        check("192.0.2.1", true);
        assert!((0..9).all(|_| addresses.enter(PeerAddress::Unix, 2, true).is_some()));
    }

    #[test]
    fn addresses_without_connections_are_forgotten() {
        let addresses = Addresses::default();
        for host in 0..100 {
            let entry = addresses.enter(peer(&format!("192.0.2.{host}")), 1, true);
            addresses.leave(entry.expect("it has none yet"), Now::default());
        }
        assert_eq!(rows(&addresses), 0);
        let unlimited = Addresses::default();
        assert!((0..2).all(|_| unlimited.enter(peer("192.0.2.1"), 0, false).is_some()));
        assert_eq!(rows(&unlimited), 0);
    }

    #[test]
    fn who_owes_something_still_does_on_another_connection() {
        let (addresses, rate) = (Addresses::default(), Rate::new(10, 0).expect("a limit"));
        let enter = |text| addresses.enter(peer(text), 0, true).expect("any number may come");
        let now = Now::from_secs(1);
        let owes = |text| {
            let entry = enter(text);
            let opens_at = entry.allowance().expect("it is limited").opens_at(rate, now);
            addresses.leave(entry, now);
            opens_at > now
        };
        let entry = enter("2001:db8::1");
        entry.allowance().expect("it is limited").take(rate, now, 50);
        addresses.leave(entry, now);
        assert!(owes("2001:db8::2") && !owes("2001:db8:0:1::2") && !owes("192.0.2.1"));
        addresses.leave(enter("2001:db8::1"), Now::from_secs(6));
        assert_eq!(rows(&addresses), 0, "it has paid");
        let local = addresses.enter(PeerAddress::Unix, 0, true).expect("any number");
        assert!(local.is_some() && local.allowance().is_none());
    }

    #[test]
    fn what_is_remembered_of_who_has_gone_is_bounded() {
        let (addresses, rate) = (Addresses::default(), Rate::new(1, 0).expect("a limit"));
        let stays = addresses.enter(peer("192.0.2.1"), 0, true);
        let now = Now::from_secs(1);
        for host in 0..3 * REMEMBERED_MAX as u32 {
            let address = Ipv4Addr::from(0x0a00_0000 + host);
            let entry = addresses.enter(of(address.into()), 0, true).expect("any number");
            entry.allowance().expect("it is limited").take(rate, now, 100);
            addresses.leave(entry, now);
            assert!(rows(&addresses) <= REMEMBERED_MAX + 1);
        }
        let known = addresses.known.lock().expect("unpoisoned");
        assert_eq!(known.rows.len(), known.remembered + 1);
        assert!(stays.is_some() && known.rows.contains_key(&"192.0.2.1".parse().expect("an address")));
    }
}
