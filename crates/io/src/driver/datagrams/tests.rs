//! Datagrams over loopback.

use std::net::{SocketAddr, UdpSocket};

use super::{BATCH, DATAGRAM_LEN_MAX, Inbox, Outbox, PIECES_MAX, RawAddress, Socket};

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

/// Sends datagrams of these lengths by one call, each of bytes of its own.
fn send(socket: &mut Socket, to: SocketAddr, lens: &[usize]) {
    let mut outbox = Outbox::default();
    for (number, len) in lens.iter().enumerate() {
        outbox.bytes().extend(std::iter::repeat_n(number as u8, *len));
        outbox.finish(to);
    }
    assert_eq!(socket.send(&mut outbox), 0);
}

#[test]
fn datagrams_that_came_as_one_message_are_told_apart_with_their_senders() {
    let check = |lens: &[usize], room: usize| {
        let mut server = Socket::group(any(), 1).expect("a free port").remove(0);
        let address = server.address().expect("bound");
        let mut inbox = Inbox::for_messages(room);
        let mut clients = [(), ()].map(|()| Socket::connect(address).expect("a free port"));
        let peers = clients.each_ref().map(|client| {
            let port = client.address().expect("bound").port();
            SocketAddr::from(([127, 0, 0, 1], port))
        });
        for client in &mut clients {
            send(client, address, lens);
        }
        let mut seen = [0, 0];
        while seen != [lens.len(); 2] {
            receive(&mut server, &mut inbox);
            for index in 0..inbox.len() {
                let (bytes, from) = inbox.get(index);
                let who = peers.iter().position(|peer| *peer == from).expect("one of them");
                assert_eq!(bytes, vec![seen[who] as u8; lens[seen[who]]], "{lens:?}");
                seen[who] += 1;
            }
        }
    };
    for room in [1, BATCH] {
        check(&[5], room);
        check(&[0, 0, 1], room);
        check(&[30; 16], room);
        check(&[30, 30, 30, 7], room);
        check(&[1; 64], room);
        check(&[1; 200], room);
        check(&[1400, 1400, 1, 1400, 900, 30, 30, 40], room);
        check(&[20_000, 20_000, 19_000], room);
    }
}

#[test]
fn lengths_of_pieces_that_make_no_sense_are_survived() {
    let from = any();
    let check = |len: usize, piece_len: usize, expected: &[usize]| {
        let mut inbox = Inbox::default();
        inbox.add(BATCH - 1, len, piece_len, from);
        let lens: Vec<usize> = (0..inbox.len()).map(|index| inbox.get(index).0.len()).collect();
        assert_eq!(lens, expected, "{len} in pieces of {piece_len}");
    };
    check(0, 0, &[0]);
    check(0, 5, &[0]);
    check(10, 0, &[10]);
    check(10, 10, &[10]);
    check(10, usize::MAX, &[10]);
    check(10, 4, &[4, 4, 2]);
    check(DATAGRAM_LEN_MAX, 1, &[1; PIECES_MAX]);
    check(DATAGRAM_LEN_MAX, 0, &[DATAGRAM_LEN_MAX]);
}

#[test]
fn equal_replies_to_one_peer_are_one_message() {
    let others = SocketAddr::from(([127, 0, 0, 1], 2));
    let check = |lens: &[usize], to_others: usize, expected: &[usize]| {
        let mut outbox = Outbox::default();
        for (number, len) in lens.iter().enumerate() {
            outbox.bytes().extend(std::iter::repeat_n(0, *len));
            outbox.finish(if number < to_others { others } else { any() });
        }
        let (mut runs, mut next) = (Vec::new(), 0);
        while next < lens.len() {
            runs.push(outbox.run(next, true));
            next += runs[runs.len() - 1];
        }
        assert_eq!(runs, expected, "{lens:?}");
    };
    check(&[140; 16], 0, &[16]);
    check(&[140; 16], 5, &[5, 11]);
    check(&[140; 100], 0, &[64, 36]);
    check(&[140, 140, 13, 140], 0, &[3, 1]);
    check(&[1400, 1400, 300, 1400, 1400, 300], 0, &[3, 3]);
    check(&[1400; 50], 0, &[42, 8]);
}

#[test]
fn a_socket_that_another_process_opened_receives_as_our_own() {
    let foreign = UdpSocket::bind(any()).expect("a free port");
    let address = foreign.local_addr().expect("bound");
    let mut server = Socket::adopt(foreign.into()).expect("a socket");
    let mut client = Socket::connect(address).expect("a free port");
    let mut inbox = Inbox::for_messages(1);
    send(&mut client, address, &[9; 16]);
    receive(&mut server, &mut inbox);
    // One message of all, or of the first where the kernel has no UDP_GRO.
    assert!([1, 16].contains(&inbox.len()), "{} datagrams", inbox.len());
    assert!((0..inbox.len()).all(|index| inbox.get(index).0 == [index as u8; 9]));
}
