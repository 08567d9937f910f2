//! A Rust file as tidy sees it: comments and literals blanked, so that a word found is a word meant.

use std::path::Path;

/// One file of Rust.
pub struct Source {
    /// Path from the root, with `/`.
    pub path: String,
    /// The text as it is.
    pub text: String,
    /// The text with comments, strings and character literals blanked, line for line.
    pub code: String,
    /// `code` without the modules that are compiled for tests only.
    pub shipped: String,
}

/// A function: its name, the line that it starts at, and how many lines it has.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// First line, from 1.
    pub line: usize,
    /// Lines from `fn` to the closing brace.
    pub lines: usize,
}

impl Source {
    /// Reads `text`.
    pub fn new(path: &Path, text: &str) -> Source {
        let code = blank(text);
        let shipped = without_test_modules(&code);
        let path = path.to_string_lossy().replace('\\', "/");
        Source {
            path,
            text: text.to_owned(),
            code,
            shipped,
        }
    }

    /// Whether the whole file is for tests, benches or chores.
    pub fn is_for_tests(&self) -> bool {
        ["tests/", "benches/", "xtask/", "fuzz/"]
            .iter()
            .any(|folder| self.path.starts_with(folder) || self.path.contains(&format!("/{folder}")))
            || self.path.ends_with("/tests.rs")
    }

    /// All functions that have a body.
    pub fn functions(&self) -> Vec<Function> {
        let bytes = self.code.as_bytes();
        let mut functions = Vec::new();
        for (start, _) in self.code.match_indices("fn ") {
            if start > 0 && is_word(bytes[start - 1]) {
                continue;
            }
            let name: String = self.code[start + 3..]
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            let Some(end) = body_end(bytes, start) else {
                continue;
            };
            if !name.is_empty() {
                let lines = count_lines(&bytes[start..end]) + 1;
                functions.push(Function {
                    name,
                    line: count_lines(&bytes[..start]) + 1,
                    lines,
                });
            }
        }
        functions
    }
}

/// Line number, from 1, of the byte at `offset`.
pub fn line_of(text: &str, offset: usize) -> usize {
    count_lines(&text.as_bytes()[..offset]) + 1
}

fn count_lines(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Where the body of what starts at `start` ends; `None` if a `;` comes first.
fn body_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut brackets = 0;
    let mut braces = 0;
    for (offset, byte) in bytes.iter().enumerate().skip(start) {
        match byte {
            b'(' | b'[' => brackets += 1,
            b')' | b']' => brackets -= 1,
            b';' if brackets == 0 && braces == 0 => return None,
            b'{' => braces += 1,
            b'}' => {
                braces -= 1;
                if braces <= 0 {
                    return Some(offset);
                }
            }
            _ => {}
        }
    }
    None
}

/// Blanks every `#[cfg(test)] mod name { ... }`.
fn without_test_modules(code: &str) -> String {
    let mut bytes = code.as_bytes().to_vec();
    for (start, mark) in code.match_indices("#[cfg(test)]") {
        let after = start + mark.len();
        let item = code[after..].trim_start();
        if !item.starts_with("mod ") {
            continue;
        }
        if let Some(end) = body_end(code.as_bytes(), after) {
            for byte in &mut bytes[start..=end] {
                if *byte != b'\n' {
                    *byte = b' ';
                }
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_default()
}

/// Blanks comments, strings and character literals; every line stays where it is.
fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let len = literal_len(bytes, at);
        for byte in &mut out[at..at + len] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at += len.max(1);
    }
    String::from_utf8(out).unwrap_or_default()
}

/// Length of the comment or literal that starts at `at`; 0 if none does.
fn literal_len(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    match rest {
        [b'/', b'/', ..] => rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()),
        [b'/', b'*', ..] => block_comment_len(rest),
        [b'"', ..] => string_len(rest),
        [b'r', b'"' | b'#', ..] if at == 0 || !is_word(bytes[at - 1]) || bytes[at - 1] == b'b' => {
            raw_len(rest)
        }
        [b'\'', b'\\', ..] => rest
            .iter()
            .skip(3)
            .position(|byte| *byte == b'\'')
            .map_or(1, |len| len + 4),
        // A lifetime has no closing quote. A character may have up to four bytes.
        [b'\'', ..] => {
            let first = rest.get(1).copied().unwrap_or(0);
            let len = match first {
                0..0x80 => 1,
                0x80..0xe0 => 2,
                0xe0..0xf0 => 3,
                _ => 4,
            };
            if rest.get(1 + len) == Some(&b'\'') {
                len + 2
            } else {
                0
            }
        }
        _ => 0,
    }
}

fn block_comment_len(rest: &[u8]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at + 1 < rest.len() {
        match &rest[at..at + 2] {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

fn string_len(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

fn raw_len(rest: &[u8]) -> usize {
    let hashes = rest[1..].iter().take_while(|byte| **byte == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return 0;
    }
    let close: Vec<u8> = std::iter::once(b'"')
        .chain(std::iter::repeat_n(b'#', hashes))
        .collect();
    let body = &rest[2 + hashes..];
    let end = body.windows(close.len()).position(|window| window == close);
    end.map_or(rest.len(), |end| 2 + hashes + end + close.len())
}

#[cfg(test)]
mod tests {
    use super::{Function, Source};
    use std::path::Path;

    fn source(text: &str) -> Source {
        Source::new(Path::new("crates/x/src/lib.rs"), text)
    }

    #[test]
    fn comments_and_literals_are_blank() {
        for text in [
            "// FIND",
            "/* a /* FIND */ b */",
            r#"let a = "FIND \" FIND";"#,
            "let a = r#\"FIND \" FIND\"#;",
            "let a = b\"FIND\";",
        ] {
            assert!(!source(text).code.contains("FIND"), "{text}");
        }
        for text in [
            "let a = 'x'; FIND",
            "fn f<'a>(x: &'a str) { FIND }",
            r"let q = '\''; FIND",
            "let r = 1; FIND",
        ] {
            assert!(source(text).code.contains("FIND"), "{text}");
        }
    }

    #[test]
    fn functions_are_measured() {
        let text = "fn a(x: [u8; 4]) {\n    b();\n}\n\ntrait T {\n    fn c();\n    fn d() {}\n}\n";
        let expected = [("a", 1, 3), ("d", 7, 1)].map(|(name, line, lines)| Function {
            name: name.to_owned(),
            line,
            lines,
        });
        assert_eq!(source(text).functions(), expected);
    }

    #[test]
    fn test_modules_are_not_shipped() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n";
        let shipped = source(text).shipped;
        assert!(shipped.contains("fn a") && shipped.contains("fn c") && !shipped.contains("fn b"));
    }
}
