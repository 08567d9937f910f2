//! Requests as bytes, and replies cut at every place.

use std::sync::Arc;

use super::{Exchange, Outcome, Protocol, Terms, Verb};
use crate::item::{Amount, Items};

const PROTOCOLS: [Protocol; 3] = [Protocol::Text, Protocol::Meta, Protocol::Binary];

fn terms(protocol: Protocol) -> Arc<Terms> {
    let amount = Amount::Fixed;
    Arc::new(Terms {
        protocol,
        items: Items::new("k", amount(3), amount(4), amount(0)),
        verify: true,
    })
}

fn value(key: u64, version: u32) -> String {
    let mut bytes = Vec::new();
    terms(Protocol::Text).items.append_value(key, version, &mut bytes);
    String::from_utf8(bytes).expect("letters")
}

/// What was noted of a request, in short.
fn in_short(verb: Verb, key: u64, outcome: Outcome<'_>) -> String {
    match outcome {
        Outcome::Refused(text) => format!("{verb:?} {key} Refused {}", text.trim_end()),
        outcome => format!("{verb:?} {key} {outcome:?}"),
    }
}

/// Asks with `ask`, hands over `replies` cut into two at every place and byte by byte, and complains if what is noted differs from
/// `expected`.
fn check(protocol: Protocol, ask: impl Fn(&mut Exchange, &mut Vec<u8>), replies: &[u8], expected: &[&str]) {
    let whole = [replies.len()];
    let cuts = (0..=replies.len()).map(|cut| vec![cut, replies.len()]);
    let singly = (1..=replies.len()).collect::<Vec<_>>();
    for ends in cuts.chain([whole.to_vec(), singly]) {
        let mut exchange = Exchange::new(terms(protocol));
        ask(&mut exchange, &mut Vec::new());
        let mut noted = Vec::new();
        let mut used = 0;
        for end in &ends {
            let note = |waiting: &super::Waiting, outcome: Outcome<'_>| {
                noted.push(in_short(waiting.verb, waiting.key, outcome));
            };
            used += exchange.take(&replies[used..*end], note).expect("good replies");
        }
        assert_eq!(noted, expected, "{protocol:?} cut at {ends:?}");
        assert_eq!(
            (used, exchange.units()),
            (replies.len(), 0),
            "{protocol:?} cut at {ends:?}"
        );
    }
}

fn packet(opcode: u8, status: u16, opaque: u32, extras: &[u8], value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x81, opcode, 0, 0, extras.len() as u8, 0];
    bytes.extend_from_slice(&status.to_be_bytes());
    bytes.extend_from_slice(&((extras.len() + value.len()) as u32).to_be_bytes());
    bytes.extend_from_slice(&opaque.to_be_bytes());
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(extras);
    bytes.extend_from_slice(value);
    bytes
}

#[test]
fn requests_are_as_the_protocols_want_them() {
    let check = |protocol, ask: fn(&mut Exchange, &mut Vec<u8>), expected: &str| {
        let mut out = Vec::new();
        ask(&mut Exchange::new(terms(protocol)), &mut out);
        assert_eq!(String::from_utf8_lossy(&out), expected);
    };
    let value = value(1, 2);
    check(
        Protocol::Text,
        |one, out| one.get(&[1, 22], 0, out),
        "get k01 k22\r\n",
    );
    check(
        Protocol::Text,
        |one, out| one.set(1, 2, 0, out),
        &format!("set k01 2 0 4\r\n{value}\r\n"),
    );
    check(
        Protocol::Text,
        |one, out| one.set_quietly(&[1], 2, 0, out),
        &format!("set k01 2 0 4 noreply\r\n{value}\r\nversion\r\n"),
    );
    check(Protocol::Text, |one, out| one.delete(1, 0, out), "delete k01\r\n");
    check(Protocol::Meta, |one, out| one.get(&[1], 0, out), "mg k01 v f\r\n");
    check(
        Protocol::Meta,
        |one, out| one.get(&[1, 2], 0, out),
        "mg k01 v f k q\r\nmg k02 v f k q\r\nmn\r\n",
    );
    check(
        Protocol::Meta,
        |one, out| one.set(1, 2, 0, out),
        &format!("ms k01 4 F2\r\n{value}\r\n"),
    );
    check(Protocol::Meta, |one, out| one.delete(1, 0, out), "md k01\r\n");
    let mut out = Vec::new();
    let mut exchange = Exchange::new(terms(Protocol::Binary));
    exchange.set(1, 2, 0, &mut out);
    let mut expected = vec![0x80, 1, 0, 3, 8, 0, 0, 0, 0, 0, 0, 15];
    expected.resize(24, 0);
    expected.extend_from_slice(&[0, 0, 0, 2, 0, 0, 0, 0]);
    expected.extend_from_slice(format!("k01{value}").as_bytes());
    assert_eq!(out, expected);
    out.clear();
    exchange.get(&[1], 0, &mut out);
    assert_eq!((out[1], out[15], &out[24..]), (0, 1, &b"k01"[..]));
}

#[test]
fn single_replies_are_told_apart_wherever_they_are_cut() {
    let ask = |exchange: &mut Exchange, out: &mut Vec<u8>| {
        exchange.get(&[1], 0, out);
        exchange.get(&[2], 0, out);
        exchange.set(3, 1, 0, out);
        exchange.set(4, 1, 0, out);
        exchange.delete(5, 0, out);
        exchange.delete(6, 0, out);
        exchange.get(&[7], 0, out);
        exchange.set(8, 1, 0, out);
    };
    let expected = |error| {
        [
            "Get 1 Hit(4)".to_owned(),
            "Get 2 Miss".to_owned(),
            "Set 3 Done".to_owned(),
            "Set 4 NotStored".to_owned(),
            "Delete 5 Done".to_owned(),
            "Delete 6 Miss".to_owned(),
            "Get 7 Wrong".to_owned(),
            format!("Set 8 Refused {error}"),
        ]
    };
    let (one, seven) = (value(1, 9), value(7, 3));
    let text = format!(
        "VALUE k01 9 4\r\n{one}\r\nEND\r\nEND\r\nSTORED\r\nNOT_STORED\r\nDELETED\r\nNOT_FOUND\r\n\
         VALUE k07 4 4\r\n{seven}\r\nEND\r\nSERVER_ERROR out of memory\r\n"
    );
    let says = expected("SERVER_ERROR out of memory");
    let says: Vec<&str> = says.iter().map(String::as_str).collect();
    check(Protocol::Text, ask, text.as_bytes(), &says);
    let meta = format!(
        "VA 4 f9\r\n{one}\r\nEN\r\nHD\r\nNS\r\nHD\r\nNF\r\nVA 4 f4\r\n{seven}\r\nSERVER_ERROR out of memory\r\n"
    );
    check(Protocol::Meta, ask, meta.as_bytes(), &says);
    let binary = [
        packet(0, 0, 0, &[0, 0, 0, 9], one.as_bytes()),
        packet(0, 1, 1, &[], b"Not found"),
        packet(1, 0, 2, &[], &[]),
        packet(1, 5, 3, &[], b"Not stored"),
        packet(4, 0, 4, &[], &[]),
        packet(4, 1, 5, &[], b"Not found"),
        packet(0, 0, 6, &[0, 0, 0, 4], seven.as_bytes()),
        packet(1, 0x82, 7, &[], b"Out of memory"),
    ];
    let says = expected("status 0x0082 Out of memory");
    let says: Vec<&str> = says.iter().map(String::as_str).collect();
    check(Protocol::Binary, ask, &binary.concat(), &says);
}

#[test]
fn of_several_keys_those_that_do_not_come_are_misses() {
    let ask = |exchange: &mut Exchange, out: &mut Vec<u8>| {
        exchange.get(&[1, 2, 3, 4], 0, out);
        exchange.get(&[5, 6], 0, out);
        exchange.get(&[7, 8], 0, out);
    };
    let expected = [
        "Get 1 Miss",
        "Get 2 Hit(4)",
        "Get 3 Miss",
        "Get 4 Hit(4)",
        "Get 5 Hit(4)",
        "Get 6 Miss",
        "Get 7 Miss",
        "Get 8 Miss",
    ];
    let of = |key| value(key, 0);
    let (two, four, five) = (of(2), of(4), of(5));
    let text = format!(
        "VALUE k02 0 4\r\n{two}\r\nVALUE k04 0 4\r\n{four}\r\nEND\r\nVALUE k05 0 4\r\n{five}\r\nEND\r\nEND\r\n"
    );
    check(Protocol::Text, ask, text.as_bytes(), &expected);
    let meta = format!(
        "VA 4 f0 kk02\r\n{two}\r\nVA 4 f0 kk04\r\n{four}\r\nMN\r\nVA 4 f0 kk05\r\n{five}\r\nMN\r\nMN\r\n"
    );
    check(Protocol::Meta, ask, meta.as_bytes(), &expected);
    let binary = [
        packet(9, 0, 1, &[0; 4], two.as_bytes()),
        packet(9, 0, 3, &[0; 4], four.as_bytes()),
        packet(0x0a, 0, 3, &[], &[]),
        packet(9, 0, 4, &[0; 4], five.as_bytes()),
        packet(0x0a, 0, 5, &[], &[]),
        packet(0x0a, 0, 7, &[], &[]),
    ];
    check(Protocol::Binary, ask, &binary.concat(), &expected);
}

#[test]
fn stores_without_answers_are_done_when_the_next_question_is_answered() {
    let ask = |exchange: &mut Exchange, out: &mut Vec<u8>| {
        exchange.set_quietly(&[1, 2, 3], 1, 0, out);
        exchange.get(&[4], 0, out);
    };
    let good = ["Set 1 Done", "Set 2 Done", "Set 3 Done", "Get 4 Miss"];
    check(Protocol::Text, ask, b"VERSION 1\r\nEND\r\n", &good);
    check(Protocol::Meta, ask, b"MN\r\nEN\r\n", &good);
    let binary = [packet(0x0a, 0, 2, &[], &[]), packet(0, 1, 3, &[], b"Not found")];
    check(Protocol::Binary, ask, &binary.concat(), &good);
    let refused = [
        "Set 1 Refused SERVER_ERROR no",
        "Set 2 Done",
        "Set 3 Done",
        "Get 4 Miss",
    ];
    check(
        Protocol::Text,
        ask,
        b"SERVER_ERROR no\r\nVERSION 1\r\nEND\r\n",
        &refused,
    );
    check(Protocol::Meta, ask, b"SERVER_ERROR no\r\nMN\r\nEN\r\n", &refused);
    let last = [
        "Set 1 Done",
        "Set 2 Done",
        "Set 3 Refused status 0x0082 no",
        "Get 4 Miss",
    ];
    let binary = [packet(0x11, 0x82, 2, &[], b"no"), binary.concat()];
    check(Protocol::Binary, ask, &binary.concat(), &last);
}

#[test]
fn an_error_is_the_whole_reply_to_a_get() {
    let ask = |exchange: &mut Exchange, out: &mut Vec<u8>| {
        exchange.get(&[1, 2], 0, out);
        exchange.get(&[3], 0, out);
    };
    let expected = [
        "Get 1 Refused SERVER_ERROR busy",
        "Get 2 Refused SERVER_ERROR busy",
        "Get 3 Miss",
    ];
    check(Protocol::Text, ask, b"SERVER_ERROR busy\r\nEND\r\n", &expected);
}

#[test]
fn what_is_no_reply_or_was_not_asked_for_is_an_error() {
    let check = |protocol, ask: fn(&mut Exchange, &mut Vec<u8>), replies: &[u8], says: &str| {
        let mut exchange = Exchange::new(terms(protocol));
        ask(&mut exchange, &mut Vec::new());
        let why = exchange.take(replies, |_, _| {}).expect_err("no reply");
        assert!(why.contains(says), "{why}");
    };
    for protocol in PROTOCOLS {
        check(
            protocol,
            |one, out| one.get(&[1], 0, out),
            b"HTTP/1.1 400 Bad Request\r\n",
            "HTTP/1.1 400",
        );
    }
    check(Protocol::Text, |_, _| {}, b"STORED\r\n", "nothing was asked for");
    check(
        Protocol::Text,
        |_, _| {},
        b"SERVER_ERROR too many\r\n",
        "SERVER_ERROR too many",
    );
    check(
        Protocol::Text,
        |one, out| one.get(&[1], 0, out),
        b"STORED\r\n",
        "STORED",
    );
    check(
        Protocol::Text,
        |one, out| one.set(1, 0, 0, out),
        b"END\r\n",
        "has not come",
    );
    check(
        Protocol::Text,
        |one, out| one.get(&[1], 0, out),
        b"VALUE k01 0\r\n",
        "VALUE k01 0",
    );
    check(Protocol::Meta, |one, out| one.set(1, 0, 0, out), b"EN\r\n", "EN");
    check(
        Protocol::Binary,
        |one, out| one.get(&[1], 0, out),
        &packet(0, 0, 9, &[], &[]),
        "request 9 where 0",
    );
}

/// The reply to a get of these keys, whose first row has the number `opaque`.
fn hits(protocol: Protocol, keys: &[u64], opaque: u32) -> Vec<u8> {
    let is_alone = keys.len() == 1;
    let mut reply = Vec::new();
    for (index, key) in keys.iter().enumerate() {
        let value = value(*key, 0);
        reply.extend(match protocol {
            Protocol::Text => format!("VALUE k{key:02} 0 4\r\n{value}\r\n").into_bytes(),
            Protocol::Meta if is_alone => format!("VA 4 f0\r\n{value}\r\n").into_bytes(),
            Protocol::Meta => format!("VA 4 f0 kk{key:02}\r\n{value}\r\n").into_bytes(),
            Protocol::Binary => packet(0, 0, opaque + index as u32, &[0; 4], value.as_bytes()),
        });
    }
    match protocol {
        Protocol::Text => reply.extend(b"END\r\n"),
        Protocol::Meta if !is_alone => reply.extend(b"MN\r\n"),
        Protocol::Binary if !is_alone => {
            reply.extend(packet(10, 0, opaque + keys.len() as u32 - 1, &[], &[]));
        }
        Protocol::Meta | Protocol::Binary => {}
    }
    reply
}

#[test]
fn replies_are_taken_in_any_order_and_what_is_lost_is_forgotten() {
    for protocol in PROTOCOLS {
        let mut exchange = Exchange::new(terms(protocol));
        let mut out = Vec::new();
        // Numbers of the rows: 0, 1 to 3, 4, 5, 6 and 7.
        for keys in [&[1][..], &[2, 3, 4], &[5], &[6], &[7, 8]] {
            exchange.get(keys, 0, &mut out);
        }
        let mut noted = Vec::new();
        let mut take = |exchange: &mut Exchange, place: usize, reply: &[u8]| {
            exchange.take_one(place, reply, |row, outcome| {
                noted.push((row.key, outcome == Outcome::Hit(4)));
            })
        };
        assert_eq!(take(&mut exchange, 2, &hits(protocol, &[5], 4)), Ok(true));
        let several = hits(protocol, &[2, 3, 4], 1);
        let first_len = several.len() - hits(protocol, &[3, 4], 2).len();
        let (one, others) = several.split_at(first_len);
        assert_eq!(take(&mut exchange, 1, one), Ok(false));
        // It is the oldest now.
        assert_eq!(take(&mut exchange, 0, others), Ok(true));
        assert_eq!((exchange.forget_first(), exchange.units()), (1, 2));
        assert_eq!(take(&mut exchange, 1, &hits(protocol, &[7, 8], 6)), Ok(true));
        let both = [hits(protocol, &[6], 5), hits(protocol, &[7], 6)].concat();
        take(&mut exchange, 0, &both).expect_err("two replies");
        assert_eq!((exchange.forget_first(), exchange.units()), (0, 0));
        exchange.get(&[9], 0, &mut out);
        let reply = hits(protocol, &[9], 8);
        take(&mut exchange, 0, &reply[..reply.len() - 1]).expect_err("half a reply");
        let keys = [5, 2, 3, 4, 7, 8, 6];
        assert_eq!(noted[..7], keys.map(|key| (key, true)), "{protocol:?}");
    }
}
