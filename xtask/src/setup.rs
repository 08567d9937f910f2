//! What the tests need and a machine with only toolchains lacks.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{exists, must};

/// Debian packages.
const PACKAGES: &[&str] = &[
    "chromium",
    "libmemcached-tools",
    "memcached",
    "nutcracker",
    "php-cli",
    "php-dev",
    "php-igbinary",
    "php-memcache",
    "php-memcached",
    "php-msgpack",
    "python3-venv",
    "valgrind",
];

/// Whether we are root, who may install packages.
pub fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

/// Installs the Debian packages that are missing, if we are root on a Debian.
///
/// # Errors
/// apt-get failed. What cannot be installed is no error here: the steps that need it say so.
pub fn packages() -> Result<(), String> {
    let is_missing = |package: &&&str| !Path::new(&format!("/var/lib/dpkg/info/{package}.list")).exists();
    let missing: Vec<&&str> = PACKAGES.iter().filter(is_missing).collect();
    if missing.is_empty() || !is_root() || !exists("apt-get") {
        return Ok(());
    }
    must(Command::new("apt-get").args(["-qq", "update"]))?;
    let install = ["-qq", "-y", "--no-install-recommends", "install"];
    must(
        Command::new("apt-get")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(install)
            .args(missing),
    )
}

/// A Python with the pinned clients of `tests/clients/python/requirements.txt`; made once, under the target folder.
///
/// # Errors
/// The virtual environment or the packages could not be had.
pub fn python(root: &Path, target: &Path) -> Result<PathBuf, String> {
    let pins = root.join("tests/clients/python/requirements.txt");
    let environment = target.join("clients/python");
    let program = environment.join("bin/python");
    made_once(&environment, &[&pins], || {
        virtual_environment(&environment, &pins)
    })?;
    Ok(program)
}

/// A Python with the package `scrubjay`, built from this tree, and what its tests need.
///
/// # Errors
/// The virtual environment could not be had, or the package does not build.
pub fn python_package(root: &Path, target: &Path) -> Result<PathBuf, String> {
    let package = root.join("crates/python");
    let pins = package.join("tests/requirements.txt");
    let environment = target.join("clients/python-package");
    let program = environment.join("bin/python");
    made_once(&environment, &[&pins], || {
        virtual_environment(&environment, &pins)
    })?;
    // With the pinned maturin, not the newest; pip looks for it among the programs.
    let programs = std::env::var_os("PATH").unwrap_or_default();
    let programs = std::iter::once(environment.join("bin")).chain(std::env::split_paths(&programs));
    let programs = std::env::join_paths(programs).map_err(|error| error.to_string())?;
    let install =
        "-m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps --no-build-isolation";
    must(
        Command::new(&program)
            .args(install.split(' '))
            .arg(&package)
            .env("PATH", programs)
            // As the other tests are built, of which much is there then; users get the profile of pyproject.toml.
            .env("MATURIN_PEP517_ARGS", "--profile=dev")
            .env("CARGO_TARGET_DIR", target),
    )?;
    Ok(program)
}

/// An environment with pinned packages.
fn virtual_environment(environment: &Path, pins: &Path) -> Result<(), String> {
    // Debian's own Python where there is one: python3-venv belongs to it.
    let python = ["/usr/bin/python3", "python3"]
        .into_iter()
        .find(|path| exists(path));
    must(
        Command::new(python.unwrap_or("python3"))
            .args(["-m", "venv", "--clear"])
            .arg(environment),
    )?;
    let install = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "-r",
    ];
    must(
        Command::new(environment.join("bin/python"))
            .args(install)
            .arg(pins),
    )
}

/// The Go suite, compiled.
///
/// # Errors
/// It does not compile or its modules could not be had.
pub fn go(root: &Path, target: &Path) -> Result<PathBuf, String> {
    let program = target.join("clients/go-suite");
    std::fs::create_dir_all(target.join("clients")).map_err(|error| error.to_string())?;
    let build = ["build", "-mod=readonly", "-o"];
    must(
        Command::new("go")
            .args(build)
            .arg(&program)
            .arg(".")
            .current_dir(root.join("tests/clients/go")),
    )?;
    Ok(program)
}

/// The Node suite with its modules; returns the script.
///
/// # Errors
/// The modules could not be had.
pub fn node(root: &Path, target: &Path) -> Result<PathBuf, String> {
    let source = root.join("tests/clients/node");
    let folder = target.join("clients/node");
    let lock = source.join("package-lock.json");
    made_once(&folder, &[&lock], || {
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        copy(&source, &folder, &["package.json", "package-lock.json"])?;
        must(
            Command::new("npm")
                .args(["ci", "--silent", "--no-audit", "--no-fund"])
                .current_dir(&folder),
        )
    })?;
    copy(&source, &folder, &["suite.js"])?;
    Ok(folder.join("suite.js"))
}

fn copy(from: &Path, to: &Path, names: &[&str]) -> Result<(), String> {
    for name in names {
        std::fs::copy(from.join(name), to.join(name)).map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(())
}

/// Does `make` unless it was done before from the same `sources`.
fn made_once(
    folder: &Path,
    sources: &[&Path],
    make: impl FnOnce() -> Result<(), String>,
) -> Result<(), String> {
    let stamp = folder.join("made-from");
    let mut wanted = String::new();
    for source in sources {
        wanted.push_str(
            &std::fs::read_to_string(source).map_err(|error| format!("{}: {error}", source.display()))?,
        );
    }
    if std::fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        return Ok(());
    }
    make()?;
    std::fs::write(&stamp, wanted).map_err(|error| format!("{}: {error}", stamp.display()))
}
