//! Whatever a server sends: an error at worst.

use proptest::prelude::{Just, Strategy, any, prop, prop_assert_eq, prop_oneof, proptest};
use scrubjay_client::value::profile::PROFILES;
use scrubjay_client::value::{Body, Choice, Error, Format, Key, Layout, Limits, Object, Value};

use crate::cases::cases;

const FORMATS: [Format; 7] = [
    Format::Json,
    Format::Msgpack,
    Format::Igbinary,
    Format::Php,
    Format::Fb,
    Format::Pickle,
    Format::Marshal,
];

fn limits() -> Limits {
    Limits {
        pickle_allowed: true,
        bytes_max: 1 << 20,
        values_max: 10_000,
        ..Limits::default()
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        any::<f64>()
            .prop_filter("NaN equals nothing", |float| float.is_finite())
            .prop_map(Value::Float),
        ".{0,20}".prop_map(Value::Text),
    ];
    leaf.prop_recursive(4, 64, 8, |inner| {
        let key = prop_oneof![
            (1000..i64::MAX).prop_map(Key::Int),
            "[a-z]{1,8}".prop_map(Key::Text)
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::List),
            prop::collection::vec((key, inner), 1..8).prop_map(Value::Map),
        ]
    })
}

proptest! {
    #[test]
    fn any_value_comes_back(value in any_value()) {
        for format in [Format::Msgpack, Format::Igbinary, Format::Php, Format::Fb] {
            let bytes = format.write(&value).unwrap();
            let read = format.read(&bytes, &Limits::default());
            prop_assert_eq!(read.as_ref(), Ok(&value), "{:?}", format);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(flags in any::<u32>(), bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for format in FORMATS {
            let _ = format.read(&bytes, &limits());
        }
        let framed = [&[0, 0, 0, 2], bytes.as_slice()].concat();
        let _ = Format::Igbinary.read(&framed, &limits());
        let _ = Format::Marshal.read(&[&[4, 8], bytes.as_slice()].concat(), &limits());
        for profile in PROFILES {
            for flags in [flags, flags & 0x0fff, flags & 0xff | 0x5c00_0000] {
                let _ = Layout::new(profile).decode(&bytes, flags, &limits());
            }
        }
    }

    #[test]
    fn damaged_values_are_read_or_refused(at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>()) {
        for (_, case) in cases() {
            for format in FORMATS {
                let Ok(mut bytes) = format.write(&case) else { continue };
                if bytes.is_empty() || bytes.len() > 5_000 { continue }
                let _ = format.read(&bytes[..cut.index(bytes.len())], &limits());
                let at = at.index(bytes.len());
                bytes[at] = byte;
                let _ = format.read(&bytes, &limits());
            }
        }
    }

    #[test]
    fn damaged_compression_is_read_or_refused(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let text = Value::Text("松鸦记得 acorns ".repeat(200));
        for profile in PROFILES {
            for flags in [0x10, 0x20, 0x30, 0x50, 0x90, 2, 8] {
                let layout = Layout::new(profile);
                let mut stored = layout.encode(&text, Choice::Compress).unwrap();
                let at = at.index(stored.bytes.len());
                stored.bytes[at] = byte;
                let _ = layout.decode(&stored.bytes, stored.flags, &limits());
                let _ = layout.decode(&stored.bytes, flags, &limits());
                let _ = layout.decode(&stored.bytes, 0x5c00_0000 | flags, &limits());
            }
        }
    }
}

#[test]
fn truncated_values_are_refused() {
    for (name, case) in cases() {
        for format in [Format::Msgpack, Format::Igbinary, Format::Php, Format::Fb] {
            let Ok(bytes) = format.write(&case) else { continue };
            for len in (0..bytes.len()).take(300) {
                assert!(
                    format.read(&bytes[..len], &limits()).is_err(),
                    "{format:?}, {name}, {len} bytes"
                );
            }
        }
    }
}

#[test]
fn depth_is_bounded() {
    const LEVELS: usize = 100_000;
    let rows: [(Format, Vec<u8>); 6] = [
        (Format::Json, b"[".repeat(LEVELS)),
        (Format::Msgpack, vec![0x91; LEVELS]),
        (
            Format::Igbinary,
            [&[0, 0, 0, 2][..], &[0x14, 1, 6, 0].repeat(LEVELS)].concat(),
        ),
        (Format::Php, b"a:1:{i:0;".repeat(LEVELS)),
        (Format::Fb, [10, 2, 0].repeat(LEVELS)),
        (Format::Marshal, [&[4, 8][..], &[b'[', 6].repeat(LEVELS)].concat()),
    ];
    for (format, bytes) in rows {
        let limits = Limits {
            depth_max: usize::MAX,
            ..limits()
        };
        let refused = format.read(&bytes, &limits);
        assert!(
            matches!(refused, Err(Error::Beyond { .. } | Error::Json(_))),
            "{format:?}: {refused:?}"
        );
    }
    let pickle = [b"]".repeat(LEVELS), b"a".repeat(LEVELS - 1), b".".to_vec()].concat();
    assert!(matches!(
        Format::Pickle.read(&pickle, &limits()),
        Err(Error::Beyond { .. })
    ));
}

#[test]
fn announced_lengths_are_not_believed() {
    let rows: [(Format, &[u8]); 6] = [
        (Format::Msgpack, &[0xdd, 0xff, 0xff, 0xff, 0xff]),
        (Format::Msgpack, &[0xdf, 0xff, 0xff, 0xff, 0xff]),
        (Format::Igbinary, &[0, 0, 0, 2, 0x16, 0xff, 0xff, 0xff, 0xff]),
        (Format::Php, b"a:18446744073709551615:{"),
        (Format::Php, b"s:18446744073709551615:\"x"),
        (
            Format::Pickle,
            &[0x8d, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        ),
    ];
    for (format, bytes) in rows {
        let refused = format.read(bytes, &limits());
        assert!(
            matches!(refused, Err(Error::Malformed { .. })),
            "{format:?}: {refused:?}"
        );
    }
}

/// Each level repeats the one before it: 2 to the power of 40 values.
#[test]
fn references_do_not_multiply_without_end() {
    let mut php = "a:41:{i:0;i:1;".to_owned();
    let mut pickle = b"K\x01q\x00".to_vec();
    for level in 1..=40 {
        let slot = if level == 1 { 2 } else { level + 1 };
        php += &format!("i:{level};a:2:{{i:0;R:{slot};i:1;R:{slot};}}");
        pickle.extend([b'h', level - 1, b'h', level - 1, 0x86, b'q', level]);
    }
    php += "}";
    pickle.push(b'.');
    for (format, bytes) in [(Format::Php, php.into_bytes()), (Format::Pickle, pickle)] {
        let refused = format.read(&bytes, &limits());
        assert!(
            matches!(refused, Err(Error::Beyond { .. })),
            "{format:?}: {refused:?}"
        );
    }
}

/// One long text, and so many places that repeat it.
#[test]
fn repeated_texts_do_not_fill_memory() {
    const LEN: u16 = 5_000;
    const TIMES: u16 = 1_000;
    let text = b"x".repeat(usize::from(LEN));
    let times = TIMES.to_be_bytes();
    let igbinary: Vec<u8> = (1..TIMES)
        .flat_map(|key| [&[8][..], &key.to_be_bytes(), &[0x0e, 0]].concat())
        .collect();
    let header = [0, 0, 0, 2, 0x15, times[0], times[1], 6, 0, 0x12];
    let igbinary = [&header, LEN.to_be_bytes().as_slice(), &text, &igbinary].concat();
    let php: String = (1..TIMES).map(|key| format!("i:{key};R:2;")).collect();
    let php = [
        format!("a:{TIMES}:{{i:0;s:{LEN}:\"").as_bytes(),
        &text,
        b"\";",
        php.as_bytes(),
        b"}",
    ]
    .concat();
    let repeats = b"h\0".repeat(usize::from(TIMES));
    let pickle = [
        b"(B",
        u32::from(LEN).to_le_bytes().as_slice(),
        &text,
        b"q\0",
        &repeats,
        b"l.",
    ]
    .concat();
    let links = b"@\x06".repeat(usize::from(TIMES) - 1);
    let lens = (TIMES.to_le_bytes(), LEN.to_le_bytes());
    let marshal = [&[4, 8, b'[', 2][..], &lens.0, &[b'"', 2], &lens.1, &text, &links].concat();
    let rows = [
        (Format::Igbinary, igbinary),
        (Format::Php, php),
        (Format::Pickle, pickle),
        (Format::Marshal, marshal),
    ];
    for (format, bytes) in rows {
        let refused = format.read(&bytes, &limits());
        let limit = limits().bytes_max;
        assert_eq!(
            refused,
            Err(Error::Beyond {
                what: "bytes in one",
                limit
            }),
            "{format:?}"
        );
        let allowed = Limits {
            bytes_max: 8 << 20,
            ..limits()
        };
        assert!(format.read(&bytes, &allowed).is_ok(), "{format:?}");
    }
}

/// `[[], &$x, &$x, &$y, &$y, "s", $o, $o]` as PHP 8.2 writes it, where `$x` is 5, `$y` [1] and `$o` an empty object.
#[test]
fn references_count_as_in_php() {
    let php =
        r#"a:8:{i:0;a:0:{}i:1;i:5;i:2;R:3;i:3;a:1:{i:0;i:1;}i:4;R:4;i:5;s:1:"s";i:6;O:1:"P":0:{}i:7;r:7;}"#;
    let igbinary = [
        &[
            0, 0, 0, 2, 0x14, 8, 6, 0, 0x14, 0, 6, 1, 0x25, 6, 5, 6, 2, 0x25, 1, 2, 6, 3, 0x25, 0x14, 1, 6,
            0, 6, 1,
        ][..],
        &[
            6, 4, 0x25, 1, 3, 6, 5, 0x11, 1, b's', 6, 6, 0x17, 1, b'P', 0x14, 0, 6, 7, 0x22, 4,
        ],
    ];
    let one = Value::List(vec![Value::Int(1)]);
    let object = Object {
        class: "P".to_owned(),
        body: Body::Properties(Vec::new()),
    };
    let object = Value::Object(Box::new(object));
    let text = Value::Text("s".to_owned());
    let list = vec![
        Value::List(vec![]),
        Value::Int(5),
        Value::Int(5),
        one.clone(),
        one,
        text,
        object.clone(),
        object,
    ];
    assert_eq!(
        Format::Php.read(php.as_bytes(), &limits()),
        Ok(Value::List(list.clone()))
    );
    assert_eq!(
        Format::Igbinary.read(&igbinary.concat(), &limits()),
        Ok(Value::List(list))
    );
}

#[test]
fn references_are_read_as_copies_and_cycles_refused() {
    let one = Value::List(vec![Value::Int(5), Value::Int(5)]);
    let same = |text: &str| Format::Php.read(text.as_bytes(), &limits());
    assert_eq!(same("a:2:{i:0;i:5;i:1;R:2;}"), Ok(one.clone()));
    assert!(same("a:1:{i:0;R:1;}").is_err());
    assert!(same("a:1:{i:0;r:9;}").is_err());
    let igbinary = |bytes: &[u8]| Format::Igbinary.read(&[&[0, 0, 0, 2], bytes].concat(), &limits());
    assert_eq!(igbinary(&[0x14, 2, 6, 0, 0x25, 6, 5, 6, 1, 0x25, 1, 1]), Ok(one));
    assert!(igbinary(&[0x14, 1, 6, 0, 0x25, 1, 0]).is_err());
    // an array that PHP shares between two places is written once, without any mark of a reference
    let five = Value::List(vec![Value::Int(5)]);
    let shared = igbinary(&[0x14, 2, 6, 0, 0x14, 1, 6, 0, 6, 5, 6, 1, 1, 1]);
    assert_eq!(shared, Ok(Value::List(vec![five.clone(), five])));
}
