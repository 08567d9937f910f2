//! `mg` lines that come together. Whoever asks for many keys at once asks for the same of each, so their flags are read once. It
//! leaves out what is written in any other way: that is read as any line is.

use scrubjay_base::bytes;

use super::{Meta, Verb, parse};
use crate::limits::{KEY_LEN_MAX, LINE_LEN_MAX, OPAQUE_LEN_MAX};
use crate::text::first_line;

/// What these lines start with.
pub const GET: &[u8] = b"mg ";

/// What is behind the key may have so many bytes, so that a line that is made of it, with another opaque, is not too long.
const BEHIND_KEY_MAX: usize = LINE_LEN_MAX - GET.len() - KEY_LEN_MAX - OPAQUE_LEN_MAX;

/// The `mg` lines of an input.
#[derive(Debug, Default)]
pub struct Gets<'a> {
    mold: Option<Mold<'a>>,
}

/// The line that was read last, as a mold for the next.
#[derive(Debug)]
struct Mold<'a> {
    meta: Meta<'a>,
    /// What was behind the key, to the end of the line.
    behind_key: &'a [u8],
    /// The same to the letter of its opaque, if that was the last flag.
    before_opaque: Option<&'a [u8]>,
}

impl<'a> Gets<'a> {
    /// Reads the line that `input` starts with; returns its length, too. `None`: it has not come wholly, is no `mg`, is to be refused or
    /// is not written as nearly all are; [`parse`] reads it. Cost: a line like the one before is not cut into tokens.
    #[inline(always)]
    pub fn read(&mut self, input: &'a [u8]) -> Option<(&Meta<'a>, usize)> {
        let rest = input.strip_prefix(GET)?;
        // Another control character can be a part of the key, or what ends the line.
        let key_len = bytes::find_at_most(rest, b' ').filter(|at| rest[*at] == b' ')?;
        if key_len == 0 || key_len > KEY_LEN_MAX {
            return None;
        }
        let (key, behind) = rest.split_at(key_len);
        let len = match self.fit(behind) {
            Some(len) => GET.len() + key_len + len,
            None => self.read_anew(input, behind)?,
        };
        let meta = &mut self.mold.as_mut()?.meta;
        (meta.key, meta.raw_key) = (super::Key::Plain(key), key);
        Some((meta, len))
    }

    /// The length of what is behind the key, if it is like that of the line before.
    #[inline(always)]
    fn fit(&mut self, behind: &'a [u8]) -> Option<usize> {
        let mold = self.mold.as_mut()?;
        // Most often it is the same, opaque and all.
        let same = behind.split_at_checked(mold.behind_key.len());
        if same.is_some_and(|(same, _)| bytes::same(same, mold.behind_key)) {
            return Some(mold.behind_key.len());
        }
        let before_opaque = mold.before_opaque?;
        let (before, rest) = behind.split_at_checked(before_opaque.len())?;
        if !bytes::same(before, before_opaque) {
            return None;
        }
        let opaque_len = bytes::find_at_most(rest, b' ').filter(|len| *len < OPAQUE_LEN_MAX)?;
        let end_len = match &rest[opaque_len..] {
            [b'\r', b'\n', ..] => 2,
            [b'\n', ..] => 1,
            _ => return None,
        };
        let end = before.len() + opaque_len;
        mold.meta.opaque = &behind[before.len() - 1..end];
        mold.behind_key = &behind[..end + end_len];
        Some(end + end_len)
    }

    /// Reads a line word by word, and what is `behind` its key becomes the mold.
    #[inline(never)]
    fn read_anew(&mut self, input: &'a [u8], behind: &'a [u8]) -> Option<usize> {
        let line = first_line(input)?;
        let behind = &behind[..behind.len() - (input.len() - line.len)];
        if behind.len() > BEHIND_KEY_MAX {
            return None;
        }
        let meta = parse(Verb::Get, line.bytes)
            .ok()
            .filter(|meta| !meta.key.is_binary())?;
        let before_opaque = line.bytes.strip_suffix(meta.opaque);
        let before_opaque = before_opaque.filter(|before| !meta.opaque.is_empty() && before.ends_with(b" "));
        let before_len = before_opaque.map(|before| before.len() - (line.len - behind.len()));
        self.mold = Some(Mold {
            meta,
            behind_key: behind,
            before_opaque: before_len.map(|len| &behind[..=len]),
        });
        Some(line.len)
    }
}

#[cfg(test)]
mod tests {
    use super::Gets;
    use crate::limits::LINE_LEN_MAX;
    use crate::meta::{Verb, parse};
    use crate::text::first_line;

    /// Reads all lines, each as [`parse`] does or not at all; returns how many were read.
    fn read_all(input: &[u8]) -> usize {
        let (mut gets, mut rest, mut count) = (Gets::default(), input, 0);
        while let Some(line) = first_line(rest) {
            if let Some((meta, len)) = gets.read(rest) {
                let wanted = parse(Verb::Get, line.bytes).unwrap();
                assert_eq!((format!("{meta:?}"), len), (format!("{wanted:?}"), line.len));
                assert!(len <= LINE_LEN_MAX);
                count += 1;
            }
            rest = &rest[line.len..];
        }
        assert!(gets.read(rest).is_none(), "what has not come wholly is not read");
        count
    }

    #[test]
    fn lines_are_read_alike_whatever_was_before_them() {
        let behind = [
            "",
            " ",
            " v",
            " v f k O1",
            " v f k O23",
            " v f k O",
            " v  f",
            " f v O1 q",
            " f v O1 ",
            " v v",
            " O1 v O1",
            " T60 t N5 R3",
            " t T60",
            " b v",
            " !",
            " v\0 f",
            " O1\0 f",
            " O\t1",
            " O\u{1}",
            " O1\r",
            " O1234567890123456789012345678901",
            " O12345678901234567890123456789012",
            " s f c h l t T1 O1 k E3 C4 I u q v x",
            " a b c d e f g h i j k l m n o p q r s t u v",
        ];
        let keys = [
            "k",
            "key:1",
            "",
            " k",
            "k\t1",
            "k\r",
            "\u{e4}",
            &"k".repeat(250),
            &"k".repeat(251),
        ];
        for first in behind {
            for second in behind {
                for end in ["\n", "\r\n"] {
                    for key in keys {
                        read_all(
                            format!("mg k{first}{end}mg {key}{second}{end}mg k{first}\r\nmg k{second}")
                                .as_bytes(),
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn lines_that_only_look_alike_are_not_taken_for_such() {
        assert_eq!(
            read_all(b"mg a v O1\r\nmg b v O2 q\r\nmg c v O3\nmg d v O4\r\nmg e v O55\r\n"),
            5
        );
        assert_eq!(
            read_all(b"mg a v\r\nmg b v\nmg c v f\r\nmg Zm9v v b\r\nmg d v f\r\nget a\r\nmg e\r\n"),
            4
        );
        let long = " ".repeat(LINE_LEN_MAX);
        assert_eq!(
            read_all(format!("mg a v{long}\r\nmg b v{long}\r\n").as_bytes()),
            0
        );
    }

    #[test]
    fn nothing_is_read_of_a_line_that_is_cut() {
        let input = b"mg a v f k O1\r\nmg b v f k O1\r\nmg c v f k O2\r\n";
        for end in 0..=input.len() {
            let lines = input[..end].iter().filter(|byte| **byte == b'\n').count();
            assert_eq!(read_all(&input[..end]), lines);
        }
    }
}
