//! `cargo xtask test`: everything that must hold before a change lands.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{Outcome, Started, Steps, capture, exists, must, start};
use crate::{clients, deb, docs, instructions, native, root, setup, target, tidy};

/// How long the torture test runs here; by itself it takes a few seconds.
const TORTURE_SECS: &str = "30";

const PYTHON_PACKAGE: &str = "python package";
const RELEASE: &str = "release build";

/// Runs all steps, or those whose name contains a word of `filter`.
pub fn run(filter: &[&str], skips_fail: bool) -> bool {
    let (root, target) = (root(), target());
    let mut steps = Steps::new(filter, skips_fail);
    steps.step("packages", || Outcome::of(setup::packages()));
    steps.step("format", || {
        Outcome::of(must(cargo(&root).args(["fmt", "--all", "--check"])))
    });
    steps.step("tidy", || Outcome::of(complaints(tidy::run(&root))));
    // They share nothing that they build, and the end of a release takes one processor only.
    let release = Release::start(&steps, &root, &target);
    steps.step("clippy", || {
        let arguments = "clippy --quiet --locked --workspace --all-targets -- -D warnings";
        Outcome::of(must(cargo(&root).args(arguments.split(' '))))
    });
    let program = release.finish(&mut steps);
    steps.step("cargo test", || {
        let mut command = cargo(&root);
        command.args(["test", "--locked", "--workspace", "--no-fail-fast"]);
        command.env("SCRUBJAY_TORTURE_SECS", TORTURE_SECS);
        if let Ok(program) = &program {
            command.env("SCRUBJAY_BIN", program);
        }
        let (success, output) = capture(&mut command);
        Outcome::counted(success, output)
    });
    steps.step("load by epoll", || load_by_epoll(&root));
    steps.step("interleavings", || {
        let mut command = cargo(&root);
        command.args(
            "test --locked -p scrubjay-base -p scrubjay-cache -p scrubjay-client --lib models".split(' '),
        );
        // Built apart: everything is another program when atomics are modelled.
        command
            .env("RUSTFLAGS", "--cfg loom")
            .env("CARGO_TARGET_DIR", target.join("loom"));
        let (success, output) = capture(&mut command);
        Outcome::counted(success, output)
    });
    steps.step("interleavings of the engine", || {
        let arguments = ["-p", "scrubjay-model", "--test", "interleavings"];
        interleavings(&root, &target, &arguments)
    });
    steps.step("interleavings on a connection", || {
        let arguments = ["-p", "scrubjay-client", "--lib", "model"];
        interleavings(&root, &target, &arguments)
    });
    steps.step("instructions", || match instructions::obstacle() {
        Some(why) => Outcome::Skipped(why),
        None => Outcome::of(instructions::run(&root, &target, cargo(&root), false)),
    });
    clients::run(&mut steps, &root, &target, &program);
    native::run(&mut steps, &root, &target, &program, cargo);
    steps.step(PYTHON_PACKAGE, || python_package(&root, &target, &program));
    if let Ok(program) = &program {
        steps.step("docs", || Outcome::of(complaints(docs::check(&root))));
        steps.step("debian package", || deb::test(&root, &target, program));
    }
    steps.finish()
}

/// Tests under random interleavings.
fn interleavings(root: &Path, target: &Path, arguments: &[&str]) -> Outcome {
    let mut command = cargo(root);
    command
        .args(["test", "--locked"])
        .args(arguments)
        .env("RUSTFLAGS", "--cfg shuttle")
        .env("CARGO_TARGET_DIR", target.join("shuttle"));
    let (success, output) = capture(&mut command);
    Outcome::counted(success, output)
}

/// The Python package as its users get it but for the profile: installed from this tree, then its tests and its types.
fn python_package(root: &Path, target: &Path, program: &Result<PathBuf, String>) -> Outcome {
    let program = match program {
        Ok(program) => program,
        Err(why) => return Outcome::of(Err(why.clone())),
    };
    if !exists("python3") {
        return Outcome::Skipped("there is no python3".to_owned());
    }
    let python = match setup::python_package(root, target) {
        Ok(python) => python,
        Err(why) => return Outcome::of(Err(why)),
    };
    let package = root.join("crates/python");
    let mut types = Command::new(&python);
    // In isolation: what is tested is what is installed.
    types
        .args([
            "-I",
            "-m",
            "mypy",
            "--cache-dir",
            "/dev/null",
            "--package",
            "scrubjay",
        ])
        .current_dir(&package);
    if let Err(why) = must(&mut types) {
        return Outcome::of(Err(why));
    }
    let mut tests = Command::new(&python);
    tests
        .args(["-I", "-B", "-m", "pytest", "tests"])
        .current_dir(&package)
        .env("SCRUBJAY_BIN", program);
    let (success, output) = capture(&mut tests);
    // pytest says nothing of failures where there are none.
    Outcome::counted(success, output.replace(" passed", " passed, 0 failed"))
}

/// Builds the release and its Debian package.
pub fn build_package() -> bool {
    let (root, target) = (root(), target());
    deb::run(&root, &target, cargo(&root))
}

/// The load tests by the driver for machines without io_uring; all others use the one that is better here.
fn load_by_epoll(root: &Path) -> Outcome {
    let mut command = cargo(root);
    command
        .args(["test", "--locked", "-p", "scrubjay", "--test", "load"])
        .env("SCRUBJAY_LOAD_DRIVER", "epoll");
    let (success, output) = capture(&mut command);
    Outcome::counted(success, output)
}

/// Runs only the count of instructions; with `bless` it becomes the baseline.
pub fn run_instructions(bless: bool) -> bool {
    let (root, target) = (root(), target());
    let counted = setup::packages().and_then(|()| instructions::run(&root, &target, cargo(&root), bless));
    counted.inspect_err(|why| println!("{why}")).is_ok()
}

/// Runs only the real clients, against the server that is named or built.
pub fn run_clients(filter: &[&str]) -> bool {
    let (root, target) = (root(), target());
    let mut steps = Steps::new(filter, false);
    let program = Release::start(&steps, &root, &target).finish(&mut steps);
    clients::run(&mut steps, &root, &target, &program);
    steps.finish()
}

/// The server under test: what `SCRUBJAY_BIN` names, or the release build.
struct Release {
    program: PathBuf,
    /// None if nobody wants it.
    build: Option<Started>,
}

impl Release {
    /// Begins to build it, if it is to be.
    fn start(steps: &Steps<'_>, root: &Path, target: &Path) -> Release {
        if let Some(program) = std::env::var_os("SCRUBJAY_BIN") {
            let program = PathBuf::from(program);
            return Release { program, build: None };
        }
        let wanted = steps.wants(RELEASE)
            || clients::wanted(steps)
            || native::wanted(steps)
            || steps.wants(PYTHON_PACKAGE);
        let arguments = "build --quiet --locked --release --package scrubjay";
        Release {
            program: target.join("release/scrubjay"),
            build: wanted.then(|| start(cargo(root).args(arguments.split(' ')))),
        }
    }

    /// Waits until it is there.
    fn finish(self, steps: &mut Steps<'_>) -> Result<PathBuf, String> {
        let mut built = Ok(());
        if let Some(build) = self.build {
            built = build.must();
            steps.step(RELEASE, || Outcome::of(built.clone()));
        }
        match built {
            Ok(()) if self.program.is_file() => Ok(self.program),
            Ok(()) => Err(format!("there is no {} yet", self.program.display())),
            Err(_) => Err("the release build failed".to_owned()),
        }
    }
}

fn complaints(list: Vec<String>) -> Result<(), String> {
    if list.is_empty() {
        Ok(())
    } else {
        Err(list.join("\n"))
    }
}

fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    // What cargo set for this program would make the inner cargo believe that its environment changed.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST") || text == "CARGO_CRATE_NAME"
        {
            command.env_remove(&name);
        }
    }
    command
}
