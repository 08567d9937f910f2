//! Steps: what one is, how it ends, and the sum at the end.

use std::collections::BTreeSet;
use std::io;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How a step ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// How many tests passed and failed, and what to show if any failed.
    Done {
        /// Tests that passed.
        passed: usize,
        /// Tests that failed.
        failed: usize,
        /// What was printed meanwhile.
        output: String,
    },
    /// It could not be run here, and why.
    Skipped(String),
}

impl Outcome {
    /// A step of one test.
    pub fn of(result: Result<(), String>) -> Outcome {
        match result {
            Ok(()) => Outcome::Done {
                passed: 1,
                failed: 0,
                output: String::new(),
            },
            Err(output) => Outcome::Done {
                passed: 0,
                failed: 1,
                output,
            },
        }
    }

    /// A step whose output counts its tests, in the words of `cargo test` or in ours: `N passed, M failed`.
    pub fn counted(success: bool, output: String) -> Outcome {
        let (passed, failed) = count(&output);
        // A crash between two tests fails nothing that was counted.
        let failed = if success { failed } else { failed.max(1) };
        // Nothing counted is one test: the step as a whole.
        let passed = if passed + failed == 0 { 1 } else { passed };
        Outcome::Done {
            passed,
            failed,
            output,
        }
    }
}

/// Sums up the lines that count tests.
fn count(output: &str) -> (usize, usize) {
    let number = |line: &str, word: &str| {
        let before = line.split_once(word)?.0.trim_end();
        before.rsplit(' ').next()?.parse::<usize>().ok()
    };
    output
        .lines()
        .filter_map(|line| Some((number(line, "passed")?, number(line, "failed")?)))
        .fold((0, 0), |sum, line| (sum.0 + line.0, sum.1 + line.1))
}

/// Runs steps one after the other and keeps the score.
pub struct Steps<'a> {
    filter: &'a [&'a str],
    skips_fail: bool,
    passed: usize,
    failed: usize,
    start: Instant,
}

impl<'a> Steps<'a> {
    /// Only steps whose name contains a word of `filter` will run, or all if it is empty.
    pub fn new(filter: &'a [&'a str], skips_fail: bool) -> Steps<'a> {
        Steps {
            filter,
            skips_fail,
            passed: 0,
            failed: 0,
            start: Instant::now(),
        }
    }

    /// Whether a step of this name will run.
    pub fn wants(&self, name: &str) -> bool {
        self.filter.is_empty() || self.filter.iter().any(|word| name.contains(word))
    }

    /// Runs one step and says how it went.
    pub fn step(&mut self, name: &str, work: impl FnOnce() -> Outcome) {
        if !self.wants(name) {
            return;
        }
        println!("== {name}");
        let start = Instant::now();
        let outcome = work();
        let time = seconds(start.elapsed());
        match outcome {
            Outcome::Done {
                passed,
                failed,
                output,
            } => {
                self.passed += passed;
                self.failed += failed;
                if failed > 0 {
                    println!("{}", output.trim_end());
                    println!("FAILED: {name} ({time})");
                } else {
                    println!("   {passed} passed ({time})");
                    // A test that could not do all it is for says so.
                    let gaps = output.lines().filter_map(|line| line.split_once("NOT COVERED: "));
                    let gaps: BTreeSet<&str> = gaps.map(|(_, gap)| gap).collect();
                    gaps.iter().for_each(|gap| println!("   NOT COVERED: {gap}"));
                }
            }
            Outcome::Skipped(why) => {
                println!("SKIPPED: {name} ({why})");
                self.failed += usize::from(self.skips_fail);
            }
        }
    }

    /// Prints the sum; `true` if nothing failed.
    pub fn finish(self) -> bool {
        println!("all steps took {}", seconds(self.start.elapsed()));
        println!("{} passed, {} failed", self.passed, self.failed);
        self.failed == 0
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// A command that runs, beside others perhaps.
pub struct Started {
    words: String,
    child: io::Result<Child>,
}

/// Starts a command.
pub fn start(command: &mut Command) -> Started {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    let words = words.join(" ");
    (command.stdin(Stdio::null()).stdout(Stdio::piped())).stderr(Stdio::piped());
    let child = command.spawn();
    Started { words, child }
}

impl Started {
    /// Waits for its end; whether it succeeded, and all that it printed.
    fn end(self) -> (bool, String) {
        match self.child.and_then(Child::wait_with_output) {
            Ok(output) => {
                let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
                text.push_str(&String::from_utf8_lossy(&output.stderr));
                (output.status.success(), text)
            }
            Err(error) => (false, format!("{}: {error}", self.words)),
        }
    }

    /// Waits for the end of what must succeed.
    ///
    /// # Errors
    /// With what it printed.
    pub fn must(self) -> Result<(), String> {
        let words = self.words.clone();
        match self.end() {
            (true, _) => Ok(()),
            (false, output) => Err(format!("{words}:\n{output}")),
        }
    }
}

/// Runs a command to its end; whether it succeeded, and all that it printed.
pub fn capture(command: &mut Command) -> (bool, String) {
    start(command).end()
}

/// Runs a command that must succeed.
///
/// # Errors
/// With what it printed.
pub fn must(command: &mut Command) -> Result<(), String> {
    start(command).must()
}

/// Whether a program of this name can be started.
pub fn exists(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).is_file()))
}

#[cfg(test)]
mod tests {
    use super::{Outcome, count};

    #[test]
    fn counts_of_cargo_and_of_suites_are_summed() {
        let output = "test result: ok. 3 passed; 1 failed; 0 ignored\nnoise\n12 passed, 0 failed\n";
        assert_eq!(count(output), (15, 1));
    }

    #[test]
    fn a_crash_is_a_failure() {
        let Outcome::Done { failed, .. } = Outcome::counted(false, "5 passed, 0 failed".to_owned()) else {
            panic!("not done");
        };
        assert_eq!(failed, 1);
    }
}
