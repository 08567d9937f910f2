//! Bodies of the fuzz targets: whatever the bytes, parsing ends, within its input, and does not panic.

use crate::binary;
use crate::meta::{self, Gets, Verb};
use crate::text::{self, Request};

/// The classic text protocol.
pub fn text(input: &[u8]) {
    let mut rest = input;
    while let Some(line) = text::first_line(rest) {
        assert!(line.len <= rest.len(), "a line lies in its input");
        let parsed = text::parse(line.bytes);
        if let Some(set) = text::whole_set(rest) {
            assert_eq!(
                (Ok(Request::Store(set.line)), set.noreply),
                (parsed.request, parsed.noreply)
            );
            let (value, len) = (
                &rest[line.len..][..set.line.value_len],
                line.len + set.line.value_len,
            );
            assert_eq!((set.value, set.len), (value, len + 2), "read alike");
            assert!(rest[len..].starts_with(b"\r\n"));
        }
        rest = &rest[line.len..];
    }
}

/// The meta protocol.
pub fn meta(input: &[u8]) {
    let (mut gets, mut rest) = (Gets::default(), input);
    while let Some(line) = text::first_line(rest) {
        if let Some((meta, len)) = gets.read(rest) {
            let parsed = meta::parse(Verb::Get, line.bytes).map(|parsed| format!("{parsed:?}"));
            assert_eq!((Ok(format!("{meta:?}")), len), (parsed, line.len), "read alike");
        }
        for verb in [Verb::Get, Verb::Set, Verb::Delete, Verb::Arith] {
            if let Ok(meta) = meta::parse(verb, line.bytes) {
                assert!(meta.key.bytes().len() <= crate::limits::KEY_LEN_MAX);
            }
        }
        let _ = meta::parse_debug(line.bytes);
        rest = &rest[line.len..];
    }
}

/// The binary protocol.
pub fn binary(input: &[u8]) {
    let _ = binary::parse(input);
}
