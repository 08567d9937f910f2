//! The generated parts of documents: between `<!-- generated: WORDS -->` and `<!-- end -->` stands what
//! `scrubjay WORDS` prints, as it stands if that is `--help`; for `deviations`, the table of the conformance scripts' known deviations.

use std::path::Path;
use std::process::{Command, Stdio};

/// Documents with generated parts.
const DOCUMENTS: &[&str] = &[
    "COMPAT.md",
    "README.md",
    "docs/bench.md",
    "docs/configuration.md",
    "docs/options.md",
    "docs/stats.md",
];

/// Files that are generated as a whole, each with what prints it.
const WHOLE: &[(&str, &str)] = &[("docs/scrubjay.toml", "config")];

const START: &str = "<!-- generated: ";
const END: &str = "<!-- end -->";

/// Writes the generated parts anew. Returns what went wrong.
pub fn write(root: &Path) -> Vec<String> {
    let mut complaints = each(root, |path, _, new| {
        std::fs::write(path, new).err().map(|error| error.to_string())
    });
    complaints.extend(write_client(root));
    complaints
}

/// The client's options: a test of the client, which nothing here may depend on, writes them, and is what checks them too.
fn write_client(root: &Path) -> Option<String> {
    let status = Command::new("cargo")
        .args("test --quiet --package scrubjay-client --test options".split(' '))
        .current_dir(root)
        .env("SCRUBJAY_WRITE_DOCS", "1")
        .stdout(Stdio::null())
        .status();
    match status {
        Ok(status) if status.success() => None,
        Ok(status) => Some(format!("docs/client/options.md: its test failed ({status})")),
        Err(error) => Some(format!("docs/client/options.md: cargo does not run: {error}")),
    }
}

/// Complains about generated parts that are not fresh.
pub fn check(root: &Path) -> Vec<String> {
    each(root, |_, old, new| {
        (old != new).then(|| "a generated part is not fresh: run `cargo xtask docs`".to_owned())
    })
}

fn each(root: &Path, act: impl Fn(&Path, &str, &str) -> Option<String>) -> Vec<String> {
    let mut complaints = Vec::new();
    for name in DOCUMENTS {
        let path = root.join(name);
        let Ok(old) = std::fs::read_to_string(&path) else {
            continue;
        };
        let outcome = renew(&old, &print).map(|new| act(&path, &old, &new));
        match outcome {
            Ok(None) => {}
            Ok(Some(why)) | Err(why) => complaints.push(format!("{name}: {why}")),
        }
    }
    for (name, words) in WHOLE {
        let path = root.join(name);
        // A file that is not there is one to be written.
        let old = std::fs::read_to_string(&path).unwrap_or_default();
        match print(words).map(|new| act(&path, &old, &new)) {
            Ok(None) => {}
            Ok(Some(why)) | Err(why) => complaints.push(format!("{name}: {why}")),
        }
    }
    complaints
}

/// `old` with every generated part as `print` gives it.
fn renew(old: &str, print: &dyn Fn(&str) -> Result<String, String>) -> Result<String, String> {
    let mut new = String::new();
    let mut rest = old;
    while let Some((before, after)) = rest.split_once(START) {
        let (words, after) = after.split_once(" -->").ok_or("a mark is not closed")?;
        let (_, after) = after.split_once(END).ok_or_else(|| format!("{END} is missing"))?;
        let text = print(words)?;
        new.push_str(&format!("{before}{START}{words} -->\n{}\n{END}", text.trim_end()));
        rest = after;
    }
    new.push_str(rest);
    Ok(new)
}

/// The known deviations from memcached's answers as a table.
fn deviations(table: &str) -> String {
    let mut text =
        "| script | step | scrubjay | memcached 1.6.18 | why |\n|---|---|---|---|---|\n".to_owned();
    for row in table.lines().skip(1).filter(|row| !row.is_empty()) {
        let mut cells: Vec<String> = row.split('\t').map(|cell| cell.replace(" | ", " ⏎ ")).collect();
        // What goes over the wire is quoted; the last column is prose.
        for cell in cells.iter_mut().skip(2).take(2).filter(|cell| *cell != "-") {
            *cell = format!("`{cell}`");
        }
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    text
}

/// What the scrubjay at hand prints, or this program.
fn print(words: &str) -> Result<String, String> {
    if words == "deviations" {
        let table = std::fs::read_to_string(crate::root().join("tests/conformance/deviations.tsv"));
        return table
            .map(|table| deviations(&table))
            .map_err(|error| error.to_string());
    }
    let built = crate::target().join("release/scrubjay");
    let mut command = if built.is_file() {
        Command::new(built)
    } else {
        let mut command = Command::new("cargo");
        command.args(["run", "--quiet", "--package", "scrubjay", "--"]);
        command
    };
    let output = command
        .args(words.split(' '))
        .current_dir(crate::root())
        .env_remove("COLUMNS")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let text = String::from_utf8(output.stdout).map_err(|error| error.to_string())?;
    if words.ends_with("--help") {
        return Ok(format!("```\n{}\n```", text.trim_end()));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_deviation_is_one_row_with_the_wire_quoted() {
        let text = super::deviations("script\tlabel\tours\ttheirs\twhy\nma\tx\t< A | < B\t-\tbecause\n");
        assert_eq!(
            text.lines().last(),
            Some("| ma | x | `< A ⏎ < B` | - | because |")
        );
    }

    #[test]
    fn a_generated_part_is_replaced_and_the_rest_kept() {
        let print = |words: &str| Ok(format!("[{words}]\n"));
        let old = "a\n<!-- generated: x y -->\nold\n<!-- end -->\nb\n";
        let new = super::renew(old, &print).unwrap();
        assert_eq!(new, "a\n<!-- generated: x y -->\n[x y]\n<!-- end -->\nb\n");
        assert_eq!(super::renew(&new, &print).unwrap(), new);
    }
}
