//! The client as a library for C and as an extension of PHP: built and tested against real servers.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::certificate::Certificate;
use crate::run::{Outcome, Steps, capture, exists, must};
use crate::server::Server;

/// How many servers the tests talk to.
const SERVERS: usize = 3;

const C_LIBRARY: &str = "C library";
const PHP_EXTENSION: &str = "PHP extension";

/// Whether any of the steps will run.
pub fn wanted(steps: &Steps<'_>) -> bool {
    steps.wants(C_LIBRARY) || steps.wants(PHP_EXTENSION)
}

/// One step each. `cargo` is how the library is built.
pub fn run(
    steps: &mut Steps<'_>,
    root: &Path,
    target: &Path,
    program: &Result<PathBuf, String>,
    cargo: fn(&Path) -> Command,
) {
    let build = || library(root, target, cargo(root));
    steps.step(C_LIBRARY, || match first_missing(&["cc"]) {
        Some(what) => Outcome::Skipped(format!("there is no {what}")),
        None => tried(build().and_then(|library| c_test(root, target, program, &library))),
    });
    steps.step(PHP_EXTENSION, || {
        match first_missing(&["cc", "make", "php", "phpize"]) {
            Some(what) => Outcome::Skipped(format!("there is no {what}")),
            None => tried(build().and_then(|library| php_test(root, target, program, &library))),
        }
    });
}

fn first_missing<'a>(programs: &[&'a str]) -> Option<&'a str> {
    programs.iter().copied().find(|program| !exists(program))
}

fn tried(outcome: Result<Outcome, String>) -> Outcome {
    outcome.unwrap_or_else(|why| Outcome::of(Err(why)))
}

/// The static library: what `SCRUBJAY_CAPI` names, or built as the other tests are, of which much is there then. It unwinds like
/// that of the profile `ffi`, which is delivered.
fn library(root: &Path, target: &Path, mut cargo: Command) -> Result<PathBuf, String> {
    if let Some(library) = std::env::var_os("SCRUBJAY_CAPI") {
        return Ok(PathBuf::from(library));
    }
    cargo.args(["build", "--quiet", "--locked", "-p", "scrubjay-capi"]);
    must(cargo.current_dir(root))?;
    Ok(target.join("debug/libscrubjay_capi.a"))
}

fn c_test(
    root: &Path,
    target: &Path,
    program: &Result<PathBuf, String>,
    library: &Path,
) -> Result<Outcome, String> {
    let folder = target.join("native");
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let test = folder.join("client");
    let mut compile = Command::new("cc");
    compile
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-I"])
        .arg(root.join("crates/capi/include"))
        .arg(root.join("crates/capi/tests/client.c"))
        .arg(library)
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&test);
    must(&mut compile)?;
    against_servers(target, program, &mut Command::new(test))
}

/// Builds the extension beside its sources' copy and runs its tests with PHP's own runner.
fn php_test(
    root: &Path,
    target: &Path,
    program: &Result<PathBuf, String>,
    library: &Path,
) -> Result<Outcome, String> {
    let folder = target.join("native/php");
    copy_changed(&root.join("php"), &folder)?;
    let here = |command: &str| {
        let mut command = Command::new(command);
        command.current_dir(&folder);
        command
    };
    if !is_newer(&folder.join("Makefile"), &folder.join("config.m4")) {
        must(&mut here("phpize"))?;
        let configure = format!("--with-scrubjay={}", root.join("crates/capi/include").display());
        must(here("./configure").args(["--quiet", &configure]))?;
    }
    // The library may be another one: make does not know of it.
    let _ = std::fs::remove_file(folder.join("scrubjay.la"));
    let mut make = here("make");
    make.arg("--quiet").arg(format!(
        "SCRUBJAY_SHARED_LIBADD={} -lpthread -ldl -lm",
        library.display()
    ));
    must(&mut make)?;
    let mut tests = here("php");
    tests
        .args(["run-tests.php", "-q", "--show-diff", "-n", "-d"])
        .arg(format!(
            "extension={}",
            folder.join("modules/scrubjay.so").display()
        ))
        .arg("tests")
        .env("NO_INTERACTION", "1");
    against_servers(target, program, &mut tests)
}

/// Whether a file is there, and was written after another.
fn is_newer(file: &Path, other: &Path) -> bool {
    let written = |path: &Path| {
        std::fs::metadata(path)
            .and_then(|metadata| metadata.modified())
            .ok()
    };
    written(file) > written(other)
}

/// Copies files that are not the same already, so that make sees what has changed.
fn copy_changed(from: &Path, to: &Path) -> Result<(), String> {
    let text = |error: std::io::Error| format!("{}: {error}", from.display());
    std::fs::create_dir_all(to).map_err(text)?;
    for entry in std::fs::read_dir(from).map_err(text)? {
        let (from, to) = {
            let entry = entry.map_err(text)?;
            (entry.path(), to.join(entry.file_name()))
        };
        if from.is_dir() {
            copy_changed(&from, &to)?;
        } else if std::fs::read(&to).ok() != Some(std::fs::read(&from).map_err(text)?) {
            std::fs::copy(&from, &to).map_err(text)?;
        }
    }
    Ok(())
}

/// Runs a test that finds its servers in `SCRUBJAY_PORTS`; one that speaks TLS in `SCRUBJAY_TLS_PORT`, and what vouches for it in
/// `SCRUBJAY_TLS_CA`.
fn against_servers(
    target: &Path,
    program: &Result<PathBuf, String>,
    test: &mut Command,
) -> Result<Outcome, String> {
    let program = program.as_ref().map_err(Clone::clone)?;
    let folder = target.join("native/servers");
    let start = |number: usize| Server::start(program, &folder, &format!("server-{number}"), &[]);
    let servers = (0..SERVERS).map(start).collect::<Result<Vec<Server>, String>>()?;
    let ports: Vec<String> = servers.iter().map(|server| server.port.to_string()).collect();
    test.env("SCRUBJAY_PORTS", ports.join(","));
    let certificate = Certificate::make("native/servers")?;
    let options = certificate.options();
    let options: Vec<&str> = options.split(' ').collect();
    let encrypted = Server::start(program, &folder, "encrypted", &options)?;
    test.env("SCRUBJAY_TLS_PORT", encrypted.port.to_string())
        .env("SCRUBJAY_TLS_CA", &certificate.chain);
    let (success, output) = capture(test);
    Ok(Outcome::counted(success, counted_by_php(output)))
}

/// What PHP's runner counts, in the words of ours.
fn counted_by_php(mut output: String) -> String {
    let number = |name: &str| {
        let line = output
            .lines()
            .find(|line| line.starts_with(name) && line.contains(" : "))?;
        line.split_once(" : ")?
            .1
            .split_whitespace()
            .next()?
            .parse::<usize>()
            .ok()
    };
    if let (Some(passed), Some(failed)) = (number("Tests passed"), number("Tests failed")) {
        let skipped = number("Tests skipped").unwrap_or(0);
        output.push_str(&format!("\n{passed} passed, {failed} failed\n"));
        if skipped > 0 {
            output.push_str(&format!(
                "NOT COVERED: {skipped} tests of PHP, for which an extension is not installed\n"
            ));
        }
    }
    output
}
