//! Datagrams over loopback.

use std::net::{SocketAddr, UdpSocket};

use super::{Inbox, Outbox, RawAddress, Socket};

fn any() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn receive(socket: &mut Socket, inbox: &mut Inbox) {
    loop {
        match socket.receive(inbox) {
            Ok(()) => return,
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
        }
        std::thread::yield_now();
    }
}

#[test]
fn addresses_survive_the_kernels_form() {
    for text in ["127.0.0.1:1", "1.2.3.4:65535", "[::1]:11211", "[fe80::1%3]:9"] {
        let address: SocketAddr = text.parse().expect(text);
        assert_eq!(RawAddress::of(address).get(), Some(address));
    }
    assert_eq!(RawAddress::UNKNOWN.get(), None);
}

#[test]
fn every_datagram_arrives_as_it_was_whether_the_kernel_cuts_or_not() {
    let mut server = Socket::group(any(), 1).expect("a free port").remove(0);
    let address = server.address().expect("bound");
    let clients = [(), ()].map(|()| UdpSocket::bind(any()).expect("a free port"));
    let mut inbox = Inbox::default();
    let lens = [5, 5, 5, 3, 3, 7, 0, 1, 1400, 1400, 1400, 20];
    for cuts in [true, false] {
        server.cuts = cuts;
        let mut outbox = Outbox::default();
        for client in &clients {
            client.send_to(b"hello", address).expect("sent");
            receive(&mut server, &mut inbox);
            let (bytes, peer) = inbox.get(0);
            assert_eq!((bytes, inbox.len()), (&b"hello"[..], 1));
            for (number, len) in lens.into_iter().enumerate() {
                outbox.bytes().extend(std::iter::repeat_n(number as u8, len));
                outbox.finish(peer);
            }
        }
        assert_eq!(server.send(&mut outbox), 0);
        assert!(outbox.is_empty());
        for client in &clients {
            for (number, len) in lens.into_iter().enumerate() {
                let mut buffer = [0; 2000];
                let got = client.recv(&mut buffer).expect("received");
                assert_eq!(got, len);
                assert!(buffer[..got].iter().all(|byte| *byte == number as u8));
            }
        }
    }
}

#[test]
fn what_cannot_be_sent_is_counted_and_does_not_hold_up_the_rest() {
    let mut server = Socket::group(any(), 1).expect("a free port").remove(0);
    let client = UdpSocket::bind(any()).expect("a free port");
    let peer = client.local_addr().expect("bound");
    let mut outbox = Outbox::default();
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
    for (to, byte) in [(peer, 1), (nowhere, 2), (nowhere, 2), (peer, 3)] {
        outbox.bytes().push(byte);
        outbox.finish(to);
    }
    assert_eq!(server.send(&mut outbox), 2);
    for expected in [1, 3] {
        let mut buffer = [0; 10];
        assert_eq!(client.recv(&mut buffer).expect("received"), 1);
        assert_eq!(buffer[0], expected);
    }
}

#[test]
fn a_port_that_is_served_is_not_taken_twice() {
    let group = Socket::group(any(), 2).expect("a free port");
    let address = group[0].address().expect("bound");
    assert_eq!(group[1].address().expect("bound"), address);
    let error = Socket::group(address, 2).expect_err("taken");
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
}
