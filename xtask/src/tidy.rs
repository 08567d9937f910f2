//! The rules that no compiler checks. Each complaint is one line: file, line, what is wrong.

mod arrows;
mod markdown;
mod rules;
mod source;

use std::path::{Path, PathBuf};
use std::process::Command;

use source::Source;

/// Largest file that may be kept here, in bytes.
const FILE_LEN_MAX: u64 = 256 << 10;

/// All complaints about the tree at `root`.
pub fn run(root: &Path) -> Vec<String> {
    let files = files(root);
    let ratchet = match rules::Ratchet::read(&root.join("xtask/ratchet.toml")) {
        Ok(ratchet) => ratchet,
        Err(why) => return vec![why],
    };
    let mut complaints = arrows::check(root);
    for file in &files {
        let path = root.join(file);
        if std::fs::metadata(&path).is_ok_and(|metadata| metadata.len() > FILE_LEN_MAX) {
            complaints.push(format!("{}: larger than 256 KiB", file.display()));
        }
        if file.extension().is_some_and(|ending| ending == "rs")
            && let Ok(text) = std::fs::read_to_string(&path)
        {
            rules::check_name(file, &mut complaints);
            rules::check(&Source::new(file, &text), &ratchet, &mut complaints);
        }
    }
    ratchet.check_that_all_is_needed(root, &mut complaints);
    markdown::check(root, &files, &mut complaints);
    complaints
}

/// Files that git knows or would take, relative to `root`.
fn files(root: &Path) -> Vec<PathBuf> {
    let list = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output();
    let list = list.map(|output| output.stdout).unwrap_or_default();
    let mut files: Vec<PathBuf> = String::from_utf8_lossy(&list)
        .lines()
        .map(PathBuf::from)
        .filter(|file| root.join(file).is_file())
        .collect();
    files.sort();
    files.dedup();
    files
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_tree_is_tidy() {
        let root = crate::root();
        assert!(!super::files(&root).is_empty(), "git lists no files");
        let complaints = super::run(&root);
        assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    }
}
