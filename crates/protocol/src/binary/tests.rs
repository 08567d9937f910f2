use super::{
    Command, Echo, Head, ParseError, REQUEST_LEN_MAX, Reply, Request, Status, Verb, encode_head, encode_stat,
    parse,
};

/// A request of these parts with key length, extras length and body length as they are.
fn packet(opcode: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x80, opcode];
    bytes.extend_from_slice(&(key.len() as u16).to_be_bytes());
    bytes.extend_from_slice(&[extras.len() as u8, 0, 0, 0]);
    bytes.extend_from_slice(&((extras.len() + key.len() + value.len()) as u32).to_be_bytes());
    bytes.extend_from_slice(b"abcd");
    bytes.extend_from_slice(&7_u64.to_be_bytes());
    [&bytes, extras, key, value].concat()
}

#[track_caller]
fn check(opcode: u8, extras: &[u8], key: &str, value: &str, command: Command) {
    let packet = packet(opcode, extras, key.as_bytes(), value.as_bytes());
    let len = packet.len() - value.len();
    for cut in 0..len {
        let needed = if cut < 24 { 24 } else { len };
        assert_eq!(parse(&packet[..cut]), Err(ParseError::Incomplete(needed)));
    }
    for cut in len..=packet.len() {
        let request = parse(&packet[..cut]).expect("whole but for its value");
        assert_eq!(request.command, command, "opcode {opcode:#04x}");
        assert_eq!(
            request.echo,
            Echo {
                opcode,
                opaque: *b"abcd"
            }
        );
        assert_eq!((request.cas, request.len), (7, len));
        assert_eq!(request.key, key.as_bytes());
        assert_eq!(request.value_len as usize, value.len());
    }
}

#[test]
fn requests_are_read() {
    let get = |touch, reply| Command::Get { touch, reply };
    check(0x00, b"", "key", "", get(None, Reply::Value));
    check(0x0d, b"", "key", "", get(None, Reply::KeyAndValue));
    check(0x1c, b"\0\0\x01\0", "key", "", get(Some(256), Reply::Flags));
    check(
        0x1e,
        b"\xff\xff\xff\xff",
        "key",
        "",
        get(Some(u32::MAX), Reply::Value),
    );
    let store = |verb, flags, exptime| Command::Store { verb, flags, exptime };
    check(
        0x01,
        b"\0\0\0\x05\0\0\0\x09",
        "key",
        "value",
        store(Verb::Set, 5, 9),
    );
    check(
        0x13,
        b"\0\0\0\x05\0\0\0\x09",
        "key",
        "",
        store(Verb::Replace, 5, 9),
    );
    check(0x0e, b"", "key", "value", store(Verb::Append, 0, 0));
    check(0x04, b"", "key", "", Command::Delete);
    let arithmetic = Command::Arithmetic {
        decrement: true,
        delta: 1,
        initial: 2,
        exptime: u32::MAX,
    };
    let extras = [&1_u64.to_be_bytes()[..], &2_u64.to_be_bytes(), &[0xff; 4]].concat();
    check(0x16, &extras, "key", "", arithmetic);
    check(0x08, b"", "", "", Command::Flush { exptime: 0 });
    check(0x18, b"\0\0\0\x03", "", "", Command::Flush { exptime: 3 });
    check(0x10, b"", "settings", "", Command::Stat);
    check(0x17, b"", "", "", Command::Quit);
    check(0x20, b"", "", "", Command::SaslList);
    check(0x21, b"", "PLAIN", "secret", Command::SaslAuth);
    check(0x22, b"", "PLAIN", "secret", Command::SaslStep);
}

#[test]
fn what_has_no_meaning_is_told_apart() {
    // Wrong parts.
    check(0x00, b"", "", "", Command::Invalid);
    check(0x00, b"", "key", "value", Command::Invalid);
    check(0x00, b"abcd", "key", "", Command::Invalid);
    check(0x01, b"abcd", "key", "value", Command::Invalid);
    check(0x01, b"abcdefgh", "", "value", Command::Invalid);
    check(0x05, b"abcdefgh", "key", "", Command::Invalid);
    check(0x08, b"ab", "", "", Command::Invalid);
    check(0x0a, b"", "key", "", Command::Invalid);
    check(0x20, b"", "key", "", Command::Invalid);
    check(0x21, b"", "", "value", Command::Invalid);
    check(0x00, b"", &"k".repeat(251), "", Command::Invalid);
    // No such opcode, or none that works here.
    check(0x1b, b"\0\0\0\x01", "", "", Command::Unknown);
    check(0x30, b"ab", "key", "value", Command::Unknown);
    check(0xff, b"", &"k".repeat(251), "", Command::Invalid);
}

#[test]
fn lengths_that_contradict_each_other_are_told() {
    let mut bytes = packet(0x01, b"abcdefgh", b"key", b"");
    bytes[11] = 10;
    let request = parse(&bytes).expect("whole");
    assert_eq!((request.command, request.value_len), (Command::Contradictory, 0));
    bytes[8..12].copy_from_slice(&[0xff; 4]);
    let request = parse(&bytes).expect("whole");
    assert_eq!(request.value_len, u32::MAX - 11);
    (bytes[2], bytes[3], bytes[4]) = (0xff, 0xff, 0xff);
    assert_eq!(parse(&bytes), Err(ParseError::Incomplete(REQUEST_LEN_MAX)));
    bytes[0] = 0x81;
    assert_eq!(parse(&bytes), Err(ParseError::BadMagic));
}

#[test]
fn replies_are_written() {
    let echo = Echo {
        opcode: 0x0c,
        opaque: *b"abcd",
    };
    let mut out = Vec::new();
    let head = Head {
        echo,
        status: Status::NotFound,
        cas: 0x0102,
        extras_len: 4,
        key_len: 3,
        value_len: 5,
    };
    encode_head(&head, &mut out);
    assert_eq!(
        out,
        b"\x81\x0c\0\x03\x04\0\0\x01\0\0\0\x0cabcd\0\0\0\0\0\0\x01\x02"
    );
    out.clear();
    encode_stat(echo, "pid", "17", &mut out);
    assert_eq!(out, b"\x81\x0c\0\x03\0\0\0\0\0\0\0\x05abcd\0\0\0\0\0\0\0\0pid17");
}

#[test]
fn quiet_is_read_from_the_opcode() {
    let quiet = |opcode| parse(&packet(opcode, b"", b"key", b"")).map(|Request { quiet, .. }| quiet);
    assert_eq!(quiet(0x00), Ok(false));
    assert_eq!(quiet(0x09), Ok(true));
    assert_eq!(quiet(0x24), Ok(true));
    assert_eq!(quiet(0xff), Ok(false));
}
