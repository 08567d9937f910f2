//! Rules for single files of Rust: names, calls, unsafe, globs, sizes.

use std::collections::BTreeMap;
use std::path::Path;

use super::source::{Source, line_of};

/// Most lines of a file and of a function; more needs a row in the ratchet.
const FILE_LINES_MAX: usize = 1000;
const FUNCTION_LINES_MAX: usize = 70;

/// Names that say nothing about what is inside.
const BANNED_NAMES: &[&str] = &[
    "common", "utils", "util", "misc", "helpers", "helper", "prelude", "manager",
];

/// Calls that reach the world; only `crates/io` makes them.
const BANNED_CALLS: &[&str] = &[
    "thread::sleep",
    "thread::spawn",
    "thread::Builder",
    "SystemTime",
    "Instant::now",
    "std::fs",
    "net::TcpStream",
    "net::TcpListener",
    "net::UdpSocket",
    "UnixStream",
    "UnixListener",
];

/// Where `unsafe` may stand.
const UNSAFE_ALLOWED: &[&str] = &["crates/io/", "crates/cache/", "crates/capi/"];

/// Where the world may be touched: `io`; the simulator starts real servers to compare with and is never shipped.
const CALLS_ALLOWED: &[&str] = &["crates/io/", "crates/sim/"];

/// What is over a limit today, with its number, which may only fall; and calls allowed by name, with the reason.
#[derive(Debug, Default)]
pub struct Ratchet {
    files: BTreeMap<String, usize>,
    functions: BTreeMap<String, usize>,
    calls: BTreeMap<String, String>,
}

impl Ratchet {
    /// Reads the ratchet's file.
    ///
    /// # Errors
    /// It cannot be read or has a value of the wrong type.
    pub fn read(path: &Path) -> Result<Ratchet, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let table = text
            .parse::<toml::Table>()
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let section = |name: &str| {
            table
                .get(name)
                .and_then(toml::Value::as_table)
                .cloned()
                .unwrap_or_default()
        };
        let numbers = |name: &str| {
            section(name)
                .into_iter()
                .map(|(key, value)| {
                    let number = value.as_integer().and_then(|number| usize::try_from(number).ok());
                    Ok((key, number.ok_or("ratchet.toml: a number of lines is no number")?))
                })
                .collect::<Result<BTreeMap<_, _>, String>>()
        };
        let calls = section("calls").into_iter();
        Ok(Ratchet {
            files: numbers("files")?,
            functions: numbers("functions")?,
            calls: calls.map(|(path, reason)| (path, reason.to_string())).collect(),
        })
    }

    /// Complains about rows of files that are gone.
    pub fn check_that_all_is_needed(&self, root: &Path, complaints: &mut Vec<String>) {
        let of_functions = self.functions.keys().filter_map(|key| key.split("::").next());
        for path in self.files.keys().map(String::as_str).chain(of_functions) {
            if !root.join(path).exists() {
                complaints.push(format!(
                    "xtask/ratchet.toml: {path} does not exist, remove its row"
                ));
            }
        }
    }

    fn allows_call(&self, path: &str) -> bool {
        self.calls.keys().any(|allowed| path.starts_with(allowed))
    }
}

/// Checks the names of a Rust file and its folders.
pub fn check_name(file: &Path, complaints: &mut Vec<String>) {
    for part in file.iter().map(|part| part.to_string_lossy()) {
        let stem = part.split('.').next().unwrap_or_default();
        if BANNED_NAMES.contains(&stem) {
            complaints.push(format!("{}: {stem} names nothing", file.display()));
        }
    }
    if file.file_name().is_some_and(|name| name == "mod.rs") {
        complaints.push(format!(
            "{}: write foo.rs beside foo/, not foo/mod.rs",
            file.display()
        ));
    }
}

/// Checks one file of Rust.
pub fn check(source: &Source, ratchet: &Ratchet, complaints: &mut Vec<String>) {
    let mut complain = |line: usize, what: String| complaints.push(format!("{}:{line}: {what}", source.path));
    for mark in ["FIXME", "XXX"] {
        // Not in the rule itself.
        if let Some(offset) = source
            .text
            .find(mark)
            .filter(|_| !source.path.starts_with("xtask/src/tidy/"))
        {
            complain(line_of(&source.text, offset), format!("{mark} must not land"));
        }
    }
    for offset in words(&source.code, "#[ignore") {
        complain(
            line_of(&source.code, offset),
            "a test that is ignored is no test".to_owned(),
        );
    }
    for offset in words(&source.code, "::*;") {
        complain(line_of(&source.code, offset), "name what you import".to_owned());
    }
    check_identifiers(source, &mut complain);
    if !UNSAFE_ALLOWED
        .iter()
        .any(|folder| source.path.starts_with(folder))
    {
        for offset in words(&source.code, "unsafe") {
            complain(
                line_of(&source.code, offset),
                "unsafe is for crates/io, crates/cache and crates/capi".to_owned(),
            );
        }
    }
    let exempt = source.is_for_tests()
        || CALLS_ALLOWED.iter().any(|folder| source.path.starts_with(folder))
        || ratchet.allows_call(&source.path);
    for call in BANNED_CALLS.iter().filter(|_| !exempt) {
        for offset in words(&source.shipped, call) {
            complain(
                line_of(&source.shipped, offset),
                format!("{call} is for crates/io"),
            );
        }
    }
    // Nobody waits by the clock, tests least of all.
    if source.is_for_tests() {
        for offset in words(&source.code, "thread::sleep") {
            complain(line_of(&source.code, offset), "no sleeping in tests".to_owned());
        }
    }
    check_sizes(source, ratchet, &mut complain);
}

fn check_identifiers(source: &Source, complain: &mut impl FnMut(usize, String)) {
    for name in BANNED_NAMES {
        for keyword in ["mod", "struct", "enum", "trait", "fn"] {
            for offset in words(&source.code, &format!("{keyword} {name}")) {
                complain(line_of(&source.code, offset), format!("{name} names nothing"));
            }
        }
    }
    for offset in source.code.match_indices("Manager").map(|(offset, _)| offset) {
        complain(
            line_of(&source.code, offset),
            "a manager of what? Name what it does".to_owned(),
        );
    }
}

fn check_sizes(source: &Source, ratchet: &Ratchet, complain: &mut impl FnMut(usize, String)) {
    let lines = source.text.lines().count();
    let allowed = ratchet.files.get(&source.path).copied().unwrap_or(FILE_LINES_MAX);
    if lines > allowed {
        complain(
            1,
            format!("{lines} lines, more than {allowed}: split it (or see xtask/ratchet.toml)"),
        );
    }
    for function in source.functions() {
        let key = format!("{}::{}", source.path, function.name);
        let allowed = ratchet.functions.get(&key).copied().unwrap_or(FUNCTION_LINES_MAX);
        if function.lines > allowed {
            let what = format!(
                "fn {} has {} lines, more than {allowed}",
                function.name, function.lines
            );
            complain(function.line, what);
        }
    }
}

/// Offsets of `word` in `code` where it is not part of a longer name.
fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_word = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let bytes = code.as_bytes();
    code.match_indices(word)
        .map(|(offset, _)| offset)
        .filter(move |offset| {
            let begins = offset
                .checked_sub(1)
                .is_none_or(|before| !is_word(bytes.get(before)))
                || !is_word(word.as_bytes().first());
            let ends = !is_word(bytes.get(offset + word.len())) || !is_word(word.as_bytes().last());
            begins && ends
        })
}

#[cfg(test)]
mod tests {
    use super::{Ratchet, check};
    use crate::tidy::source::Source;
    use std::path::Path;

    /// How many complaints there are about `text` as a file of `path`.
    fn count(path: &str, text: &str) -> usize {
        let mut complaints = Vec::new();
        check(
            &Source::new(Path::new(path), text),
            &Ratchet::default(),
            &mut complaints,
        );
        complaints.len()
    }

    #[test]
    fn each_rule_finds_its_offence() {
        let long = format!("fn long() {{\n{}}}\n", "    x();\n".repeat(80));
        for (path, text, expected) in [
            ("crates/net/src/a.rs", "let a = std::time::Instant::now();", 1),
            ("crates/net/src/a.rs", "// Instant::now", 0),
            ("crates/io/src/a.rs", "let a = std::time::Instant::now();", 0),
            ("crates/net/src/a.rs", "unsafe { a() }", 1),
            ("crates/net/src/a.rs", "#![deny(unsafe_op_in_unsafe_fn)]", 0),
            ("crates/cache/src/a.rs", "unsafe { a() }", 0),
            ("crates/net/src/a.rs", "use super::*;", 1),
            ("crates/net/src/a.rs", "#[ignore = \"slow\"]", 1),
            ("crates/net/tests/a.rs", "std::thread::sleep(x);", 1),
            ("crates/net/tests/a.rs", "std::fs::read(x);", 0),
            ("crates/net/src/a.rs", "struct ConnectionManager;", 1),
            ("crates/net/src/a.rs", "mod utils;", 1),
            ("crates/net/src/a.rs", long.as_str(), 1),
        ] {
            assert_eq!(count(path, text), expected, "{path}: {text}");
        }
    }
}
