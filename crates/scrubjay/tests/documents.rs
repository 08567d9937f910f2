//! The examples of the documents: every command of a block marked `console` is run, and prints what stands below it.
//!
//! A command begins with `$ `, and goes on in the next line after a `\`. What it prints is compared line by line; `...` in a line
//! stands for any text, a line of `...` for any lines. The blocks of a document are run in order, in one empty folder. Ports of
//! the documents are replaced by free ones, alike in command and output. A server is started with `-d -P NAME.pid`, so that the
//! next command finds it ready; what is still running at the end is stopped.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// Ports that documents may name.
const PORTS: std::ops::RangeInclusive<u16> = 11211..=11219;

/// Of the admin port, likewise.
const ADMIN_PORT: u16 = 9150;

/// One command and what it should print.
#[derive(Debug, Default)]
struct Example {
    line: usize,
    command: String,
    expected: Vec<String>,
}

/// The examples of a document, in order.
fn examples(text: &str) -> Vec<Example> {
    let mut all: Vec<Example> = Vec::new();
    let (mut is_inside, mut goes_on) = (false, false);
    for (index, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            is_inside = line == "```console";
            goes_on = false;
        } else if !is_inside {
            continue;
        } else if let Some(command) = line.strip_prefix("$ ") {
            let command = command.to_owned();
            goes_on = command.ends_with('\\');
            all.push(Example {
                line: index + 1,
                command,
                expected: Vec::new(),
            });
        } else {
            let example = all.last_mut().expect("a block begins with a command");
            if goes_on {
                goes_on = line.ends_with('\\');
                example.command = format!("{}\n{line}", example.command);
            } else {
                example.expected.push(line.to_owned());
            }
        }
    }
    all
}

/// Whether `line` is `pattern`, in which `...` stands for anything.
fn line_fits(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split("...");
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Whether `lines` are `patterns`, in which a line of `...` stands for any lines.
fn fits(patterns: &[String], lines: &[&str]) -> bool {
    match patterns.split_first() {
        None => lines.is_empty(),
        Some((any, patterns)) if any.trim() == "..." => {
            (0..=lines.len()).any(|skipped| fits(patterns, &lines[skipped..]))
        }
        Some((pattern, patterns)) => lines
            .split_first()
            .is_some_and(|(line, lines)| line_fits(pattern, line) && fits(patterns, lines)),
    }
}

/// A folder in which a document's commands are run, with ports of its own.
struct Place {
    folder: PathBuf,
    /// Ports of the documents and those that stand for them.
    ports: Vec<(u16, u16)>,
}

impl Place {
    fn new(name: &str) -> Place {
        let folder = std::env::temp_dir().join(format!("scrubjay-doc-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder of our own");
        let listeners: Vec<(u16, TcpListener)> = PORTS
            .chain([ADMIN_PORT])
            .map(|port| (port, TcpListener::bind(("127.0.0.1", 0)).expect("a free port")))
            .collect();
        let free = |listener: &TcpListener| listener.local_addr().expect("bound").port();
        let ports = listeners
            .iter()
            .map(|(port, listener)| (*port, free(listener)))
            .collect();
        Place { folder, ports }
    }

    /// The port that stands for `port` of the documents.
    fn port(&self, port: u16) -> Option<u16> {
        let pair = self.ports.iter().find(|pair| pair.0 == port);
        pair.map(|pair| pair.1)
    }

    /// `text` with each number that is a port of the documents replaced.
    fn with_ports(&self, text: &str) -> String {
        let is_digit = |symbol: char| symbol.is_ascii_digit();
        let mut replaced = String::new();
        let mut rest = text;
        while let Some(start) = rest.find(is_digit) {
            let len = rest[start..].find(|symbol| !is_digit(symbol));
            let (number, after) = rest[start..].split_at(len.unwrap_or(rest.len() - start));
            replaced.push_str(&rest[..start]);
            match number.parse().ok().and_then(|port| self.port(port)) {
                Some(free) => replaced.push_str(&free.to_string()),
                None => replaced.push_str(number),
            }
            rest = after;
        }
        replaced + rest
    }

    /// Runs a command; returns how it ended and what it printed up to then. A server that it leaves behind may go on printing, so that
    /// its output goes to a file.
    fn run(&self, command: &str) -> (ExitStatus, String) {
        let program = Path::new(env!("CARGO_BIN_EXE_scrubjay"));
        let programs = program.parent().expect("in a folder").display().to_string();
        let path = std::env::var("PATH").unwrap_or_default();
        let server = self.port(*PORTS.start()).expect("one of them");
        let status = Command::new("timeout")
            .args(["60", "bash", "-c", &format!("exec > .printed 2>&1\n{command}")])
            .current_dir(&self.folder)
            .env("PATH", format!("{programs}:{path}"))
            .env("NO_COLOR", "1")
            .env("SCRUBJAY_SERVER", format!("127.0.0.1:{server}"))
            .stdin(Stdio::null())
            .status()
            .expect("bash runs");
        let printed = std::fs::read(self.folder.join(".printed")).expect("bash made it");
        (status, String::from_utf8_lossy(&printed).replace('\r', ""))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.run("for file in *.pid; do [ -e \"$file\" ] && kill $(cat \"$file\"); done");
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Runs all examples of a document; says which did not print what it should.
fn check(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).expect("a document");
    let examples = examples(&text);
    if examples.is_empty() {
        return Vec::new();
    }
    let name = path.file_stem().expect("a file").to_string_lossy();
    let place = Place::new(&name);
    let mut complaints = Vec::new();
    for example in examples {
        let (status, printed) = place.run(&place.with_ports(&example.command));
        // The documents are for people, who are not root.
        let is_for_root = |line: &&str| line.contains("warning: running as root");
        let lines: Vec<&str> = printed
            .lines()
            .map(str::trim_end)
            .filter(|line| !is_for_root(line))
            .collect();
        let expected: Vec<String> = example
            .expected
            .iter()
            .map(|line| place.with_ports(line))
            .collect();
        let expected: Vec<String> = expected.iter().map(|line| line.trim_end().to_owned()).collect();
        if !fits(&expected, &lines) {
            complaints.push(format!(
                "{}:{}: $ {}\nprinted, with {}:\n{printed}\nshould be:\n{}",
                path.display(),
                example.line,
                example.command,
                status,
                expected.join("\n")
            ));
        }
    }
    complaints
}

#[test]
fn every_example_of_the_documents_prints_what_stands_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let in_docs = std::fs::read_dir(root.join("docs")).expect("the documents");
    let mut documents: Vec<PathBuf> = in_docs
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .chain([root.join("README.md")])
        .collect();
    documents.sort();
    let complaints: Vec<String> = documents.iter().flat_map(|path| check(path)).collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n\n"));
}

#[test]
fn what_stands_for_anything_does_and_the_rest_is_compared() {
    assert!(line_fits("a ... c", "a b c"));
    assert!(line_fits("...", ""));
    assert!(!line_fits("a ... c", "a b d"));
    assert!(!line_fits("ab...ba", "aba"));
    let patterns = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    assert!(fits(&patterns(&["a", "...", "d"]), &["a", "b", "c", "d"]));
    assert!(fits(&patterns(&["a", "..."]), &["a"]));
    assert!(!fits(&patterns(&["a", "..."]), &["b"]));
    let [first, second] =
        &examples("```console\n$ one \\\n  two\nprinted\n$ three\n```\n```\n$ no\n```\n")[..]
    else {
        panic!("two examples");
    };
    assert_eq!((first.line, first.command.as_str()), (2, "one \\\n  two"));
    assert_eq!((first.expected.len(), second.expected.len()), (1, 0));
}
