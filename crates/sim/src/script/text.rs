//! Text of scripts: escapes, repetitions, named numbers in what is sent, placeholders in what comes back.

use super::{Match, Names};
use crate::differential::transcript::SECS_OFF_MAX;

/// A piece of text in a script.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    /// These bytes.
    Bytes(Vec<u8>),
    /// The number under this name, with something added to it: `\(cas)`, `\(cas+1)`.
    Name(String, i64),
    /// Decimal digits: `\(number)`, or `\(number:name)` to name them.
    Number(Option<String>),
    /// A number of seconds of life, a few more or less allowed, as in `differential`: `\(ttl 30)`.
    Ttl(u64),
    /// Anything up to the end of the line: `\(any)`.
    Any,
    /// Any number of whole lines: `\(lines)`.
    Lines,
}

/// Text to send.
#[derive(Clone, Debug)]
pub struct Template(Vec<Piece>);

/// Text that must come back.
#[derive(Clone, Debug)]
pub struct Pattern(Vec<Piece>);

impl Template {
    /// Reads a request line; unless it ends in a lone `\`, the line's end is added.
    ///
    /// # Errors
    /// A bad escape, or a placeholder.
    pub fn parse_line(source: &str) -> Result<Template, String> {
        let pieces = parse_line(source)?;
        match pieces.iter().find(|piece| !piece.can_be_sent()) {
            Some(piece) => Err(format!("{piece:?} cannot be sent")),
            None => Ok(Template(pieces)),
        }
    }

    /// Reads text without adding a line's end.
    ///
    /// # Errors
    /// As [`Template::parse_line`].
    pub fn parse(source: &str) -> Result<Template, String> {
        Template::parse_line(&format!("{source}\\"))
    }

    /// The named numbers in it.
    pub fn names(&self) -> Vec<String> {
        let name = |piece: &Piece| match piece {
            Piece::Name(name, _) => Some(name.clone()),
            _ => None,
        };
        self.0.iter().filter_map(name).collect()
    }

    /// Appends the bytes.
    ///
    /// # Errors
    /// A name not set yet.
    pub fn encode(&self, names: &Names, out: &mut Vec<u8>) -> Result<(), String> {
        for piece in &self.0 {
            match piece {
                Piece::Bytes(bytes) => out.extend_from_slice(bytes),
                Piece::Name(name, plus) => {
                    let number = named(names, name, *plus).ok_or_else(|| format!("{name} is not set"))?;
                    out.extend_from_slice(number.to_string().as_bytes());
                }
                _ => return Err(format!("{piece:?} cannot be sent")),
            }
        }
        Ok(())
    }
}

impl Pattern {
    /// Reads a reply line; unless it ends in a lone `\`, the line's end is added.
    ///
    /// # Errors
    /// A bad escape.
    pub fn parse_line(source: &str) -> Result<Pattern, String> {
        parse_line(source).map(Pattern)
    }

    /// Reads text without adding a line's end.
    ///
    /// # Errors
    /// A bad escape.
    pub fn parse(source: &str) -> Result<Pattern, String> {
        parse_line(&format!("{source}\\")).map(Pattern)
    }

    /// The single placeholder for anything.
    pub fn is_any(&self) -> bool {
        self.0 == [Piece::Any]
    }

    /// Compares the start of `bytes`; sets the names it contains on a full match.
    pub fn matches(&self, bytes: &[u8], names: &mut Names) -> Match {
        let mut found = Vec::new();
        let outcome = match_pieces(&self.0, bytes, 0, names, &mut found);
        if let Match::Full(_) = outcome {
            names.extend(found);
        }
        outcome
    }
}

impl Piece {
    fn can_be_sent(&self) -> bool {
        matches!(self, Piece::Bytes(_) | Piece::Name(..))
    }
}

/// The number under `name` plus `plus`, wrapping.
pub(super) fn named(names: &Names, name: &str, plus: i64) -> Option<u64> {
    names.get(name).map(|number| number.wrapping_add_signed(plus))
}

fn match_pieces(
    pieces: &[Piece],
    bytes: &[u8],
    at: usize,
    names: &Names,
    found: &mut Vec<(String, u64)>,
) -> Match {
    let Some((piece, rest)) = pieces.split_first() else {
        return Match::Full(at);
    };
    let input = &bytes[at..];
    let literal = |expected: &[u8]| {
        let len = expected.len().min(input.len());
        match expected[..len] == input[..len] {
            false => Match::Different,
            true if len < expected.len() => Match::Partial,
            true => Match::Full(len),
        }
    };
    let digits = || {
        let len = input.iter().position(|byte| !byte.is_ascii_digit());
        match len {
            Some(0) => Match::Different,
            None => Match::Partial,
            Some(len) => Match::Full(len),
        }
    };
    let step = match piece {
        Piece::Bytes(expected) => literal(expected),
        Piece::Name(name, plus) => match named(names, name, *plus) {
            Some(number) => literal(number.to_string().as_bytes()),
            None => Match::Different,
        },
        Piece::Number(_) | Piece::Ttl(_) => digits(),
        Piece::Any => match input.iter().position(|byte| *byte == b'\r') {
            Some(len) => Match::Full(len),
            None => Match::Partial,
        },
        Piece::Lines => return match_lines(rest, bytes, at, names, found),
    };
    let Match::Full(len) = step else {
        return step;
    };
    let number = || std::str::from_utf8(&input[..len]).ok()?.parse::<u64>().ok();
    match piece {
        Piece::Number(Some(name)) => found.extend(number().map(|number| (name.clone(), number))),
        Piece::Ttl(secs) if number().is_none_or(|number| number.abs_diff(*secs) > SECS_OFF_MAX) => {
            return Match::Different;
        }
        _ => {}
    }
    match_pieces(rest, bytes, at + len, names, found)
}

/// Tries the rest of the pattern at the start of each line.
fn match_lines(
    rest: &[Piece],
    bytes: &[u8],
    mut at: usize,
    names: &Names,
    found: &mut Vec<(String, u64)>,
) -> Match {
    loop {
        let outcome = match_pieces(rest, bytes, at, names, found);
        if outcome != Match::Different {
            return outcome;
        }
        match bytes[at..].windows(2).position(|pair| pair == b"\r\n") {
            Some(len) => at += len + 2,
            None => return Match::Partial,
        }
    }
}

fn parse_line(source: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut bytes = Vec::new();
    let mut rest = source;
    loop {
        let Some(at) = rest.find('\\') else {
            bytes.extend_from_slice(rest.as_bytes());
            bytes.extend_from_slice(b"\r\n");
            break;
        };
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        rest = &rest[at + 1..];
        let Some(escape) = rest.chars().next() else {
            break;
        };
        if escape == '(' {
            let (inside, after) = rest[1..]
                .split_once(')')
                .ok_or_else(|| format!("unfinished \\({rest}"))?;
            rest = after;
            match parse_placeholder(inside)? {
                Piece::Bytes(repeated) => bytes.extend(repeated),
                piece => {
                    pieces.push(Piece::Bytes(std::mem::take(&mut bytes)));
                    pieces.push(piece);
                }
            }
            continue;
        }
        let (byte, len) = unescape(escape, rest)?;
        bytes.push(byte);
        rest = &rest[len..];
    }
    if !bytes.is_empty() || pieces.is_empty() {
        pieces.push(Piece::Bytes(bytes));
    }
    pieces.retain(|piece| *piece != Piece::Bytes(Vec::new()));
    Ok(pieces)
}

/// The byte that `\` and the start of `rest` stand for, and how much of `rest` that takes.
fn unescape(escape: char, rest: &str) -> Result<(u8, usize), String> {
    Ok(match escape {
        'r' => (b'\r', 1),
        'n' => (b'\n', 1),
        't' => (b'\t', 1),
        's' => (b' ', 1),
        '0' => (0, 1),
        '\\' => (b'\\', 1),
        'x' => {
            let byte = rest
                .get(1..3)
                .and_then(|digits| u8::from_str_radix(digits, 16).ok());
            (byte.ok_or_else(|| format!("bad escape \\{rest}"))?, 3)
        }
        _ => return Err(format!("bad escape \\{rest}")),
    })
}

fn parse_placeholder(inside: &str) -> Result<Piece, String> {
    if let Some((unit, times)) = inside.rsplit_once('*') {
        let times: usize = times.parse().map_err(|_| format!("bad repetition {inside}"))?;
        let mut bytes = Vec::new();
        Template::parse(unit)?.encode(&Names::new(), &mut bytes)?;
        return Ok(Piece::Bytes(bytes.repeat(times)));
    }
    if let Some(secs) = inside.strip_prefix("ttl ") {
        let secs = secs.parse().map_err(|_| format!("bad ttl {inside}"))?;
        return Ok(Piece::Ttl(secs));
    }
    Ok(match inside {
        "any" => Piece::Any,
        "lines" => Piece::Lines,
        "number" => Piece::Number(None),
        _ => match inside.strip_prefix("number:") {
            Some(name) => Piece::Number(Some(name.to_owned())),
            None => {
                let (name, plus) = parse_name(inside)?;
                Piece::Name(name, plus)
            }
        },
    })
}

/// `name`, `name+1` or `name-1`.
pub(super) fn parse_name(source: &str) -> Result<(String, i64), String> {
    let at = source.find(['+', '-']).unwrap_or(source.len());
    let (name, plus) = source.split_at(at);
    let plus = match plus {
        "" => 0,
        plus => plus.parse().map_err(|_| format!("bad sum {source}"))?,
    };
    Ok((name.to_owned(), plus))
}

/// Writes bytes as a script does, all on one line.
pub fn escape(bytes: &[u8]) -> String {
    let mut out = String::new();
    let mut rest = bytes;
    while let Some(byte) = rest.first() {
        let run = rest.iter().take_while(|other| *other == byte).count();
        if run > 20 && byte.is_ascii_alphanumeric() {
            out.push_str(&format!("\\({}*{run})", char::from(*byte)));
            rest = &rest[run..];
            continue;
        }
        match byte {
            b'\r' => out.push_str("\\r"),
            b'\n' => out.push_str("\\n"),
            b'\\' => out.push_str("\\\\"),
            b' '..=b'~' => out.push(char::from(*byte)),
            _ => out.push_str(&format!("\\x{byte:02x}")),
        }
        rest = &rest[1..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{Names, Pattern, Template, escape};
    use crate::script::Match;

    #[test]
    fn requests_are_escaped_text() {
        let check = |source: &str, bytes: &[u8]| {
            let names = Names::from([("cas".to_owned(), 7)]);
            let mut out = Vec::new();
            let template = Template::parse_line(source).unwrap();
            template.encode(&names, &mut out).unwrap();
            assert_eq!(out, bytes, "{source}");
        };
        check("get k", b"get k\r\n");
        check("get k\\n\\", b"get k\n");
        check("", b"\r\n");
        check("\\(ab*3)", b"ababab\r\n");
        check("\\x00\\\\\\s", b"\0\\ \r\n");
        check("cas k 0 0 1 \\(cas) \\(cas+1)", b"cas k 0 0 1 7 8\r\n");
    }

    #[test]
    fn replies_are_patterns() {
        let check = |source: &str, bytes: &[u8], expected: Match| {
            let pattern = Pattern::parse_line(source).unwrap();
            assert_eq!(pattern.matches(bytes, &mut Names::new()), expected, "{source}");
        };
        check("END", b"END\r\n", Match::Full(5));
        check("END", b"EN", Match::Partial);
        check("END", b"ERROR\r\n", Match::Different);
        check("HD c\\(number)", b"HD c123\r\nHD", Match::Full(9));
        check("HD t\\(ttl 30)", b"HD t29\r\n", Match::Full(8));
        check("HD t\\(ttl 30)", b"HD t19\r\n", Match::Different);
        check("VERSION \\(any)", b"VERSION 1.2\r\n", Match::Full(13));
        check(
            "\\(lines)END",
            b"STAT a 1\r\nSTAT b 2\r\nEND\r\n",
            Match::Full(25),
        );
        check("\\(lines)END", b"STAT a 1\r\nSTAT b 2\r\nE", Match::Partial);
    }

    #[test]
    fn bytes_are_written_back_as_they_are_read() {
        let bytes = [&b"a b\r\n\\\0"[..], &[b'x'; 30], &[0xff]].concat();
        let mut out = Vec::new();
        let template = Template::parse(&escape(&bytes)).unwrap();
        template.encode(&Names::new(), &mut out).unwrap();
        assert_eq!(out, bytes);
    }
}
