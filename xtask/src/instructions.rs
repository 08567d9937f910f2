//! `cargo xtask instructions`: what requests cost in processor instructions, against `bench/baseline.tsv`.
//!
//! Times differ from run to run by more than a change costs; instructions hardly do. What they do not show is waiting for
//! memory: `scrubjay-sim gets` does.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::run::{capture, exists, must};

const BASELINE: &str = "bench/baseline.tsv";

/// A row may be so much above its baseline, in percent.
const OVER_PERCENT_MAX: f64 = 5.0;

/// Why the counts cannot be had here, if so.
pub fn obstacle() -> Option<String> {
    if !cfg!(target_arch = "x86_64") {
        return Some(format!("{BASELINE} is for x86_64"));
    }
    (!exists("valgrind")).then(|| "valgrind is not installed".to_owned())
}

/// Counts, prints and compares; with `bless` what was counted becomes the baseline.
///
/// # Errors
/// A row costs more than its baseline allows, or has none; valgrind or the build failed.
pub fn run(root: &Path, target: &Path, mut cargo: Command, bless: bool) -> Result<(), String> {
    if let Some(why) = obstacle() {
        return Err(why);
    }
    must(cargo.args([
        "build",
        "--quiet",
        "--locked",
        "--release",
        "--package",
        "scrubjay-sim",
    ]))?;
    let program = target.join("release/scrubjay-sim");
    let (success, names) = capture(Command::new(&program).arg("instructions"));
    if !success {
        return Err(names);
    }
    let path = root.join(BASELINE);
    let baseline = read(&path)?;
    let (mut table, mut complaints) = (String::from("request\tinstructions\n"), Vec::new());
    for name in names.lines() {
        let count = count(&program, target, name)?;
        table.push_str(&format!("{name}\t{count}\n"));
        let over = |base: &u64| (count as f64 / *base as f64 - 1.0) * 100.0;
        let Some(over) = baseline.get(name).map(over) else {
            println!("{name:24} {count:7}");
            complaints.push(format!("{name}: {count} instructions, and no baseline"));
            continue;
        };
        println!("{name:24} {count:7} {over:+6.1} %");
        if over > OVER_PERCENT_MAX {
            complaints.push(format!(
                "{name}: {count} instructions, {over:.1} % above the baseline"
            ));
        }
    }
    if bless {
        return std::fs::write(&path, table).map_err(|error| format!("{}: {error}", path.display()));
    }
    if complaints.is_empty() {
        return Ok(());
    }
    complaints.push(format!(
        "make it cheaper, or say in the commit why it is worth that and run `cargo xtask instructions --bless`, \
         which writes {BASELINE}"
    ));
    Err(complaints.join("\n"))
}

/// Instructions for one request of the row.
fn count(program: &Path, target: &Path, name: &str) -> Result<u64, String> {
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--toggle-collect=*instructions*measured*"])
        .arg(format!(
            "--callgrind-out-file={}",
            target.join("callgrind.out").display()
        ))
        .arg(program)
        .args(["instructions", name]);
    let (success, output) = capture(&mut command);
    let number = |word: &str| {
        let line = output.lines().find_map(|line| line.split_once(word))?;
        line.1.trim().parse::<u64>().ok()
    };
    match (number("Collected :"), number("requests:")) {
        (Some(instructions @ 1..), Some(requests @ 1..)) if success => Ok(instructions / requests),
        _ => Err(format!("valgrind counted nothing for {name:?}:\n{output}")),
    }
}

fn read(path: &Path) -> Result<BTreeMap<String, u64>, String> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(format!("{}: {error}", path.display())),
    };
    let row = |line: &str| {
        let (name, count) = line.split_once('\t')?;
        Some((name.to_owned(), count.parse().ok()?))
    };
    text.lines()
        .skip(1)
        .map(|line| {
            row(line).ok_or_else(|| format!("{}: not a name, a tab and a number: {line}", path.display()))
        })
        .collect()
}
