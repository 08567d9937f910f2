//! What the real clients have stored is read, and written again as they do.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use scrubjay_client::value::profile::{self, Profile};
use scrubjay_client::value::{Choice, Error, Format, Key, Layout, Limits, Stored, Value};

use crate::cases::cases;

/// What one client stored.
struct Set {
    layout: Layout,
    vectors: &'static str,
    /// What the format does not tell apart: how a case reads then.
    reads_as: fn(Value) -> Value,
    /// Whether what is not compressed must be written again byte for byte.
    exact: bool,
}

macro_rules! vectors {
    ($name:literal) => {
        include_str!(concat!(
            "../../../../tests/clients/values/vectors/",
            $name,
            ".tsv"
        ))
    };
}

fn layout(profile: &'static Profile, format: Format) -> Layout {
    Layout {
        format: Some(format),
        ..Layout::new(profile)
    }
}

fn set(profile: &'static Profile, format: Format, vectors: &'static str) -> Set {
    Set {
        layout: layout(profile, format),
        vectors,
        reads_as: |value| value,
        exact: true,
    }
}

fn allowed() -> Limits {
    Limits {
        pickle_allowed: true,
        ..Limits::default()
    }
}

fn stored(flags: &str, bytes: &str) -> Option<Stored> {
    let bytes = STANDARD.decode(bytes).ok()?;
    Some(Stored {
        flags: flags.parse().unwrap(),
        bytes,
    })
}

/// The checksum by which long bytes are named in the vectors.
fn named(bytes: &[u8]) -> String {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    format!("crc32:{:08x}:{}", crc.sum(), bytes.len())
}

fn check(
    Set {
        layout,
        vectors,
        reads_as,
        exact,
    }: &Set,
) {
    let cases = cases();
    for row in vectors.lines() {
        let [name, flags, bytes] = row.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let (_, case) = cases.iter().find(|(case, _)| case == name).unwrap();
        let at = format!("{}, {name}", layout.profile.name);
        let written = layout.encode(case, Choice::Raw);
        let Some(theirs) = stored(flags, bytes) else {
            let ours = written.unwrap_or_else(|error| panic!("{at}: {error}"));
            assert_eq!(
                (ours.flags.to_string().as_str(), named(&ours.bytes).as_str()),
                (flags, bytes),
                "{at}"
            );
            continue;
        };
        let read = layout.decode(&theirs.bytes, theirs.flags, &allowed());
        if matches!(
            read,
            Err(Error::Inexpressible {
                format: "Java's serialization",
                ..
            })
        ) {
            continue;
        }
        assert_eq!(read, Ok(reads_as(case.clone())), "{at}");
        let small = layout.encode(case, Choice::Compress);
        match written {
            Ok(ours) if *exact && ours.flags == theirs.flags => assert_eq!(ours, theirs, "{at}"),
            Ok(ours) => {
                for ours in [ours, small.unwrap()] {
                    let back = layout.decode(&ours.bytes, ours.flags, &allowed()).map(reads_as);
                    assert_eq!(back, read, "{at}, written by us");
                }
            }
            Err(error) => {
                let read_only = matches!(error, Error::ReadOnly { .. } | Error::Inexpressible { .. });
                assert!(read_only && exact_is_impossible(layout), "{at}: {error}");
            }
        }
    }
}

/// Whether the profile's serializer is only read.
fn exact_is_impossible(layout: &Layout) -> bool {
    matches!(layout.format, Some(Format::Pickle | Format::Marshal) | None)
}

/// JSON has one kind of key, and whole doubles are written by PHP like whole numbers.
fn through_json(value: Value) -> Value {
    fn inner(value: Value) -> Value {
        match value {
            Value::Float(float) if float.fract() == 0.0 && float.abs() < 1e17 => Value::Int(float as i64),
            other => through_json(other),
        }
    }
    keys_as_text(value, inner)
}

/// A list or map with `inner` made of each value in it, and keys as JSON has them.
fn keys_as_text(value: Value, inner: fn(Value) -> Value) -> Value {
    let key_as_text = |key| match key {
        Key::Int(int) => Key::Text(int.to_string()),
        key => key,
    };
    match value {
        Value::List(list) => Value::List(list.into_iter().map(inner).collect()),
        Value::Map(map) => {
            let pairs = map.into_iter();
            Value::Map(
                pairs
                    .map(|(key, value)| (key_as_text(key), inner(value)))
                    .collect(),
            )
        }
        other => other,
    }
}

#[test]
fn values_of_php_memcached_are_read_and_written_alike() {
    check(&set(
        &profile::PHP_MEMCACHED,
        Format::Php,
        vectors!("php-memcached-php"),
    ));
    check(&set(
        &profile::PHP_MEMCACHED,
        Format::Php,
        vectors!("php-memcached-zlib"),
    ));
    check(&set(
        &profile::PHP_MEMCACHED,
        Format::Igbinary,
        vectors!("php-memcached-igbinary"),
    ));
    check(&set(
        &profile::PHP_MEMCACHED,
        Format::PhpMsgpack,
        vectors!("php-memcached-msgpack"),
    ));
    let json = set(
        &profile::PHP_MEMCACHED,
        Format::Json,
        vectors!("php-memcached-json"),
    );
    check(&Set {
        reads_as: through_json,
        exact: false,
        ..json
    });
}

#[test]
fn values_of_php_memcache_are_read_and_written_alike() {
    check(&set(
        &profile::PHP_MEMCACHE,
        Format::Php,
        vectors!("php-memcache"),
    ));
}

#[test]
fn values_of_pylibmc_are_read() {
    let bools_as_numbers = |value| {
        if let Value::Bool(bool) = value {
            Value::Int(i64::from(bool))
        } else {
            value
        }
    };
    let pylibmc = set(&profile::PYLIBMC, Format::Pickle, vectors!("pylibmc"));
    check(&Set {
        reads_as: bools_as_numbers,
        ..pylibmc
    });
}

#[test]
fn values_of_pymemcache_are_read() {
    check(&set(&profile::PYMEMCACHE, Format::Pickle, vectors!("pymemcache")));
}

#[test]
fn values_of_python_memcached_are_read() {
    check(&set(
        &profile::PYTHON_MEMCACHED,
        Format::Pickle,
        vectors!("python-memcached"),
    ));
}

#[test]
fn values_of_dalli_are_read() {
    check(&set(&profile::DALLI, Format::Marshal, vectors!("dalli")));
}

#[test]
fn values_of_spymemcached_are_read() {
    check(&set(
        &profile::SPYMEMCACHED,
        Format::Marshal,
        vectors!("spymemcached"),
    ));
}

#[test]
fn own_layout_stays_as_documented() {
    check(&set(&profile::SCRUBJAY, Format::Msgpack, vectors!("scrubjay")));
}

#[test]
fn own_layout_reads_what_it_writes() {
    let formats = [
        Format::Msgpack,
        Format::Json,
        Format::Igbinary,
        Format::Php,
        Format::Fb,
    ];
    for format in formats {
        let layout = layout(&profile::SCRUBJAY, format);
        for (name, case) in cases() {
            for choice in [Choice::ByThreshold, Choice::Compress, Choice::Raw] {
                let Ok(stored) = layout.encode(&case, choice) else {
                    let refused = name.starts_with("object") || name == "list of bytes";
                    assert!(refused, "{format:?}, {name} is refused");
                    continue;
                };
                let read = layout
                    .decode(&stored.bytes, stored.flags, &Limits::default())
                    .unwrap();
                let case = if format == Format::Json {
                    through_own_json(case.clone())
                } else {
                    case.clone()
                };
                assert_eq!(read, case, "{format:?}, {name}");
            }
        }
    }
}

fn through_own_json(value: Value) -> Value {
    keys_as_text(value, through_own_json)
}

#[test]
fn pickles_are_refused_unless_allowed() {
    let layout = layout(&profile::PYLIBMC, Format::Pickle);
    assert_eq!(
        layout.decode(b"N.", 1, &Limits::default()),
        Err(Error::PickleRefused)
    );
    assert_eq!(layout.decode(b"N.", 1, &allowed()), Ok(Value::Null));
}

#[test]
fn flags_of_others_are_refused() {
    let rows = [
        (&profile::SCRUBJAY, 4),
        (&profile::SCRUBJAY, 0x10),
        (&profile::SCRUBJAY, 0x5c00_0080),
        (&profile::PHP_MEMCACHED, 9),
        (&profile::DALLI, 8),
    ];
    for (profile, flags) in rows {
        let read = Layout::new(profile).decode(b"1", flags, &Limits::default());
        assert_eq!(
            read,
            Err(Error::UnknownFlags {
                profile: profile.name,
                flags
            })
        );
    }
}
