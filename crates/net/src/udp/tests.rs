//! Frames, networks and the rule about amplification.

use std::net::SocketAddr;

use scrubjay_io::driver::datagrams::Outbox;

use super::{HEADER_LEN, Header, Network, Policy, REPLY_LEN_MAX, SENT_LEN_MAX, cut, sent_len};
use crate::output::Output;

#[test]
fn a_header_is_read_as_it_was_written_and_nothing_else_passes() {
    let header = Header {
        request: 0x1234,
        sequence: 0x5678,
        total: 0x9abc,
    };
    let mut bytes = header.encode().to_vec();
    assert_eq!(bytes, [0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0, 0]);
    for len in 0..=HEADER_LEN {
        assert_eq!(Header::parse(&bytes[..len]), None, "{len} bytes");
    }
    bytes.extend_from_slice(b"get a\r\n");
    assert_eq!(Header::parse(&bytes), Some((header, &b"get a\r\n"[..])));
    bytes[6] = 1;
    assert_eq!(Header::parse(&bytes), Some((header, &b"get a\r\n"[..])));
    bytes[4..6].fill(0);
    assert_eq!(Header::parse(&bytes), None, "no datagrams at all");
}

/// A reply of copied and shared pieces in turn.
fn reply(len: usize, step: usize) -> (Output<Vec<u8>>, Vec<u8>) {
    let bytes: Vec<u8> = (0..len).map(|at| ((at * 31) >> 3) as u8).collect();
    let mut output = Output::default();
    for (number, piece) in bytes.chunks(step).enumerate() {
        match number % 2 {
            0 => output.bytes().extend_from_slice(piece),
            _ => output.push_shared(piece.to_vec()),
        }
    }
    (output, bytes)
}

#[test]
fn a_reply_is_whole_again_from_its_numbered_datagrams() {
    let peer = SocketAddr::from(([127, 0, 0, 1], 9));
    let payload = SENT_LEN_MAX - HEADER_LEN;
    let lens = [
        0,
        1,
        2,
        payload - 1,
        payload,
        payload + 1,
        2 * payload,
        10_000,
        300_000,
        REPLY_LEN_MAX,
    ];
    for len in lens {
        for step in [1, 7, payload, payload + 1, 100_000] {
            if len / step > 10_000 {
                continue;
            }
            let (output, expected) = reply(len, step);
            let mut outbox = Outbox::default();
            let (mut whole, mut count, mut sent) = (Vec::new(), 0, 0);
            let mut take = |outbox: &mut Outbox| {
                for (datagram, to) in outbox.iter() {
                    assert!(datagram.len() <= SENT_LEN_MAX);
                    assert_eq!(to, peer);
                    let (header, rest) = Header::parse(datagram).expect("a datagram");
                    assert_eq!((header.request, header.sequence), (77, count));
                    assert_eq!(usize::from(header.total), len.div_ceil(payload));
                    whole.extend_from_slice(rest);
                    count += 1;
                    sent += datagram.len();
                }
                outbox.clear();
            };
            cut(&output, 77, peer, &mut outbox, &mut take);
            take(&mut outbox);
            assert_eq!(whole, expected, "{len} bytes in steps of {step}");
            assert_eq!(usize::from(count), len.div_ceil(payload));
            assert_eq!(sent, sent_len(len));
        }
    }
}

#[test]
fn a_network_holds_what_its_bits_say() {
    for (network, inside, outside) in [
        ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
        ("10.1.2.3", "10.1.2.3", "10.1.2.2"),
        ("10.1.2.3/31", "10.1.2.2", "10.1.2.4"),
        ("0.0.0.0/0", "255.1.1.1", "::1"),
        ("::/0", "fe80::1", "1.2.3.4"),
        ("fd00::/8", "fdff::1", "fe00::1"),
        ("2001:db8::1/128", "2001:db8::1", "2001:db8::2"),
        ("192.168.0.0/16", "::ffff:192.168.1.1", "::ffff:192.169.1.1"),
    ] {
        let parsed: Network = network.parse().expect(network);
        assert!(
            parsed.contains(inside.parse().expect(inside)),
            "{network} {inside}"
        );
        assert!(
            !parsed.contains(outside.parse().expect(outside)),
            "{network} {outside}"
        );
    }
    for wrong in [
        "",
        "10",
        "10.0.0.0/33",
        "::/129",
        "10.0.0.0/-1",
        "10.0.0.0/",
        "host/8",
        "1.2.3.4/8/8",
    ] {
        let error = wrong.parse::<Network>().expect_err(wrong);
        assert!(error.contains("10.0.0.0/8"), "{error}");
    }
}

#[test]
fn only_proven_peers_are_sent_more_than_the_factor() {
    let policy = Policy {
        allowed: vec!["10.0.0.0/8".parse().expect("a network")],
        factor: 3,
    };
    for (peer, expected) in [
        ("127.0.0.1", usize::MAX),
        ("127.9.9.9", usize::MAX),
        ("::1", usize::MAX),
        ("::ffff:127.0.0.1", usize::MAX),
        ("10.2.3.4", usize::MAX),
        ("::ffff:10.2.3.4", usize::MAX),
        ("11.2.3.4", 300),
        ("fe80::1", 300),
    ] {
        let peer = peer.parse().expect(peer);
        assert_eq!(policy.reply_len_max(peer, 100), expected, "{peer}");
    }
}
