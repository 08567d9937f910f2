//! When values are compressed.

use std::sync::Arc;

use scrubjay_client::value::profile;
use scrubjay_client::value::{Choice, Codec, Compression, Dictionary, Error, Layout, Limits, Value};

use crate::cases::random;

/// `len` bytes of which about `percent` can be saved.
fn compressible(len: usize, percent: usize) -> Value {
    let mut bytes = random(len);
    let zeros = len * percent / 100;
    bytes[..zeros].fill(0);
    Value::Bytes(bytes)
}

#[test]
fn what_saves_too_little_is_stored_as_it_is() {
    let php_memcache = Layout::new(&profile::PHP_MEMCACHE);
    let list = Value::List((1000..1500).map(Value::Int).collect());
    let rows = [
        ("1,999 bytes", compressible(1_999, 100), 0),
        ("2,000 bytes", compressible(2_000, 100), 2),
        ("9,000 random bytes", compressible(9_000, 0), 0),
        ("a tenth saved", compressible(9_000, 10), 0),
        ("three tenths saved", compressible(9_000, 30), 2),
        ("an array of 500", list, 3),
    ];
    for (name, value, flags) in rows {
        let stored = php_memcache.encode(&value, Choice::ByThreshold).unwrap();
        assert_eq!(stored.flags, flags, "{name}");
        let read = php_memcache
            .decode(&stored.bytes, stored.flags, &Limits::default())
            .unwrap();
        let alike = match (&read, &value) {
            (Value::Text(text), Value::Bytes(bytes)) => text.as_bytes() == bytes,
            (read, value) => read == value,
        };
        assert!(alike, "{name} does not come back");
    }
}

#[test]
fn threshold_wins_unless_a_call_overrides_it() {
    const LENGTHS: [usize; 2] = [1_999, 2_000];
    let rows = [
        // choice, what can be saved, compressed below and from the threshold on
        (Choice::ByThreshold, 10, [false, false]),
        (Choice::ByThreshold, 30, [false, true]),
        (Choice::Compress, 10, [true, true]),
        (Choice::Compress, 30, [true, true]),
        (Choice::Raw, 10, [false, false]),
        (Choice::Raw, 30, [false, false]),
    ];
    let layout = Layout::new(&profile::SCRUBJAY);
    for (choice, percent, expected) in rows {
        for (len, expected) in LENGTHS.into_iter().zip(expected) {
            let value = compressible(len, percent);
            let stored = layout.encode(&value, choice).unwrap();
            assert_eq!(
                stored.flags & 0x70 != 0,
                expected,
                "{choice:?}, {len} bytes, {percent} %"
            );
            assert_eq!(
                layout.decode(&stored.bytes, stored.flags, &Limits::default()),
                Ok(value)
            );
        }
    }
}

#[test]
fn no_choice_makes_a_value_grow() {
    let stored = Layout::new(&profile::SCRUBJAY)
        .encode(&compressible(3_000, 0), Choice::Compress)
        .unwrap();
    assert_eq!((stored.flags & 0x70, stored.bytes.len()), (0, 3_000));
}

#[test]
fn both_numbers_are_settable() {
    let with = |threshold, saving_min| Layout {
        compression: Some(Compression {
            threshold,
            saving_min,
            ..Compression::new(Codec::Lz4)
        }),
        ..Layout::new(&profile::SCRUBJAY)
    };
    let codec =
        |layout: Layout, value: &Value| layout.encode(value, Choice::ByThreshold).unwrap().flags & 0x70;
    let value = compressible(900, 50);
    assert_eq!(codec(with(900, 0.4), &value), 0x20);
    assert_eq!(codec(with(901, 0.4), &value), 0);
    assert_eq!(codec(with(900, 0.6), &value), 0);
}

#[test]
fn decompression_stops_at_the_limit() {
    let bomb = Value::Bytes(vec![0; 1 << 20]);
    let limits = |bytes_max| Limits {
        bytes_max,
        ..Limits::default()
    };
    let rows = [
        (&profile::SCRUBJAY, Codec::Zstd),
        (&profile::SCRUBJAY, Codec::Lz4),
        (&profile::SCRUBJAY, Codec::Zlib),
        (&profile::PHP_MEMCACHED, Codec::Zlib),
        (&profile::SPYMEMCACHED, Codec::Gzip),
    ];
    for (profile, codec) in rows {
        let layout = Layout {
            compression: Some(Compression::new(codec)),
            ..Layout::new(profile)
        };
        let stored = layout.encode(&bomb, Choice::ByThreshold).unwrap();
        let refused = layout.decode(&stored.bytes, stored.flags, &limits((1 << 20) - 1));
        let limit = (1 << 20) - 1;
        let expected = matches!(refused, Err(Error::Beyond { limit: found, .. }) if found == limit);
        assert!(expected, "{codec:?}: {refused:?}");
        assert!(
            layout
                .decode(&stored.bytes, stored.flags, &limits(1 << 20))
                .is_ok(),
            "{codec:?}"
        );
    }
}

#[test]
fn dictionary_makes_small_values_small_and_is_asked_for() {
    let row = |id: usize| {
        format!(
            "{{\"id\":{id},\"name\":\"jay {}\",\"kind\":\"scrubjay\",\"found\":\"under an oak\",\"acorns\":{}}}",
            id * 7,
            id % 13
        )
    };
    let samples: Vec<Vec<u8>> = (0..2_000).map(|id| row(id).into_bytes()).collect();
    let dictionary = Dictionary::new(&Dictionary::train(&samples, 4_096).unwrap()).unwrap();
    let with = |dictionary| Layout {
        compression: Some(Compression {
            threshold: 0,
            dictionary,
            ..Compression::new(Codec::Zstd)
        }),
        ..Layout::new(&profile::SCRUBJAY)
    };
    let (ours, others) = (with(Some(Arc::new(dictionary))), with(None));
    let value = Value::Text(row(3_000));
    let stored = ours.encode(&value, Choice::ByThreshold).unwrap();
    assert!(
        stored.bytes.len() * 2 < row(3_000).len(),
        "{} bytes",
        stored.bytes.len()
    );
    assert_eq!(
        ours.decode(&stored.bytes, stored.flags, &Limits::default()),
        Ok(value)
    );
    let refused = others.decode(&stored.bytes, stored.flags, &Limits::default());
    assert!(matches!(refused, Err(Error::Dictionary(_))), "{refused:?}");
}
