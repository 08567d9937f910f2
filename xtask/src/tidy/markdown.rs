//! Documents name only what exists: paths and options between backticks. What cannot be decided is let be.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Checks every Markdown file of `files`.
pub fn check(root: &Path, files: &[PathBuf], complaints: &mut Vec<String>) {
    let options = known_options(root, files);
    for file in files
        .iter()
        .filter(|file| file.extension().is_some_and(|ending| ending == "md"))
    {
        let Ok(text) = std::fs::read_to_string(root.join(file)) else {
            continue;
        };
        for (line, quote) in quotes(&text) {
            for why in check_quote(root, file, &options, quote) {
                complaints.push(format!("{}:{line}: {why}", file.display()));
            }
        }
    }
}

/// What stands between backticks, with its line number; also the lines of fenced blocks.
fn quotes(text: &str) -> Vec<(usize, &str)> {
    let mut quotes = Vec::new();
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if fenced {
            quotes.push((index + 1, line));
        } else {
            quotes.extend(line.split('`').skip(1).step_by(2).map(|quote| (index + 1, quote)));
        }
    }
    quotes
}

fn check_quote(root: &Path, file: &Path, options: &BTreeSet<String>, quote: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    for word in quote.split([' ', ',', '|']) {
        if looks_like_a_path(root, word) && !path_exists(root, file, word) {
            complaints.push(format!("`{word}` does not exist"));
        }
    }
    // Other programs have options that we do not know.
    let first = quote.split(' ').next().unwrap_or_default();
    if first.starts_with("--") || first.ends_with("scrubjay") || quote.starts_with("cargo xtask") {
        for word in quote
            .split([' ', ',', '[', ']'])
            .filter(|word| word.starts_with("--") && word.len() > 2)
        {
            let name = word.split('=').next().unwrap_or(word);
            if !options.contains(&name[2..]) {
                complaints.push(format!("`{name}` is no option"));
            }
        }
    }
    complaints
}

/// A word with a slash that begins with a folder of ours.
fn looks_like_a_path(root: &Path, word: &str) -> bool {
    let plain = word
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
    let Some((first, _)) = word.split_once('/') else {
        return false;
    };
    let built = first == "target" || word.contains("...");
    plain && !first.is_empty() && !first.starts_with("..") && !built && root.join(first).is_dir()
}

fn path_exists(root: &Path, file: &Path, word: &str) -> bool {
    let beside = root.join(file).parent().map(|folder| folder.join(word));
    root.join(word).exists() || beside.is_some_and(|path| path.exists())
}

/// Names of options: every string in the sources of programs that could be one. Tables say `idle_timeout` or
/// `idle-timeout` for `--idle-timeout`.
fn known_options(root: &Path, files: &[PathBuf]) -> BTreeSet<String> {
    let programs = [
        "crates/scrubjay/src",
        "crates/server/src/options",
        "crates/sim/src/main.rs",
        "xtask/src",
    ];
    let mut options: BTreeSet<String> = ["help", "version"].map(str::to_owned).into();
    for file in files {
        let path = file.to_string_lossy();
        if !programs.iter().any(|program| path.starts_with(program)) {
            continue;
        }
        let text = std::fs::read_to_string(root.join(file)).unwrap_or_default();
        for string in text.lines().flat_map(|line| line.split('"').skip(1).step_by(2)) {
            for word in string.split([' ', '[', ']', '=', ',']) {
                let name = word.trim_start_matches("--").replace('_', "-");
                options.insert(format!("no-{name}"));
                options.insert(name);
            }
        }
        // Usage texts run over several lines.
        for word in text.split([' ', '[', ']', '=', '\n', '"', '`']) {
            options.extend(word.strip_prefix("--").map(str::to_owned));
        }
    }
    options
}

#[cfg(test)]
mod tests {
    use super::{check_quote, quotes};
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn what_does_not_exist_is_named() {
        let root = crate::root();
        let options: BTreeSet<String> = ["memory".to_owned()].into();
        for (quote, expected) in [
            ("xtask/src/main.rs", 0),
            ("xtask/src/nothing.rs", 1),
            ("xtask/src/*.rs", 0),
            ("text/html", 0),
            ("scrubjay --memory 5", 0),
            ("--memory", 0),
            ("--nothing", 1),
            ("git push --force", 0),
        ] {
            let complaints = check_quote(&root, Path::new("README.md"), &options, quote);
            assert_eq!(complaints.len(), expected, "{quote}: {complaints:?}");
        }
    }

    #[test]
    fn quotes_and_fences_are_read() {
        assert_eq!(
            quotes("a `b` c `d`\n```\ne\n```\n"),
            [(1, "b"), (1, "d"), (3, "e")]
        );
    }
}
