//! The generated parts of documents: between `<!-- generated: WORDS -->` and `<!-- end -->` stands what
//! `scrubjay WORDS` prints.

use std::path::Path;
use std::process::{Command, Stdio};

/// Documents with generated parts.
const DOCUMENTS: &[&str] = &["COMPAT.md", "README.md", "docs/options.md"];

const START: &str = "<!-- generated: ";
const END: &str = "<!-- end -->";

/// Writes the generated parts anew. Returns what went wrong.
pub fn write(root: &Path) -> Vec<String> {
    each(root, |path, _, new| {
        std::fs::write(path, new).err().map(|error| error.to_string())
    })
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

/// What the scrubjay at hand prints.
fn print(words: &str) -> Result<String, String> {
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
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    String::from_utf8(output.stdout).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_generated_part_is_replaced_and_the_rest_kept() {
        let print = |words: &str| Ok(format!("[{words}]\n"));
        let old = "a\n<!-- generated: x y -->\nold\n<!-- end -->\nb\n";
        let new = super::renew(old, &print).unwrap();
        assert_eq!(new, "a\n<!-- generated: x y -->\n[x y]\n<!-- end -->\nb\n");
        assert_eq!(super::renew(&new, &print).unwrap(), new);
    }
}
