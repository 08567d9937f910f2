//! `cargo xtask deb`: the Debian package, put together from what is built and what lies in `deploy`, and the test of it.
//!
//! dpkg-deb does the work; the manual page and the completions are what the program prints. A packaging tool would bring
//! little more than another manifest of the same files.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{Outcome, capture, exists, must};

/// Files that are copied as they are: from where, to where.
const COPIES: [(&str, &str); 7] = [
    (
        "deploy/systemd/scrubjay.service",
        "usr/lib/systemd/system/scrubjay.service",
    ),
    (
        "deploy/systemd/scrubjay.socket",
        "usr/lib/systemd/system/scrubjay.socket",
    ),
    (
        "deploy/systemd/scrubjay.sysusers",
        "usr/lib/sysusers.d/scrubjay.conf",
    ),
    ("deploy/systemd/scrubjay.default", "etc/default/scrubjay"),
    ("LICENSE", "usr/share/doc/scrubjay/copyright"),
    ("COMPAT.md", "usr/share/doc/scrubjay/COMPAT.md"),
    ("docs/restart.md", "usr/share/doc/scrubjay/restart.md"),
];

/// What the program prints itself: its words, and where that goes.
const PRINTED: [(&[&str], &str); 4] = [
    (&["man"], "usr/share/man/man1/scrubjay.1"),
    (
        &["completions", "bash"],
        "usr/share/bash-completion/completions/scrubjay",
    ),
    (
        &["completions", "zsh"],
        "usr/share/zsh/vendor-completions/_scrubjay",
    ),
    (
        &["completions", "fish"],
        "usr/share/fish/vendor_completions.d/scrubjay.fish",
    ),
];

/// Files of `deploy/debian`, and whether they are run.
const CONTROL: [(&str, u32); 5] = [
    ("control", 0o644),
    ("conffiles", 0o644),
    ("postinst", 0o755),
    ("prerm", 0o755),
    ("postrm", 0o755),
];

/// Builds the release and the package; prints where it is.
pub fn run(root: &Path, target: &Path, mut cargo: Command) -> bool {
    cargo.args(["build", "--locked", "--release", "--package", "scrubjay"]);
    let built = must(&mut cargo).and_then(|()| build(root, target, &target.join("release/scrubjay")));
    match &built {
        Ok(package) => println!("{}", package.display()),
        Err(why) => println!("{why}"),
    }
    built.is_ok()
}

/// Builds the package around `program`.
fn build(root: &Path, target: &Path, program: &Path) -> Result<PathBuf, String> {
    let stage = target.join("deb/stage");
    // Nothing of an earlier package may be left.
    let _ = std::fs::remove_dir_all(&stage);
    let read = |from: &Path| std::fs::read(from).map_err(|error| format!("{}: {error}", from.display()));
    write(&stage.join("usr/bin/scrubjay"), &read(program)?, 0o755)?;
    for (from, to) in COPIES {
        write(&stage.join(to), &read(&root.join(from))?, 0o644)?;
    }
    for (words, to) in PRINTED {
        let output = Command::new(program).args(words).output();
        let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
        write(&stage.join(to), &output.stdout, 0o644)?;
    }
    must(Command::new("gzip").args(["-9n"]).arg(stage.join(PRINTED[0].1)))?;
    let (version, architecture) = (env!("CARGO_PKG_VERSION"), architecture()?);
    for (name, mode) in CONTROL {
        let text = read(&root.join("deploy/debian").join(name))?;
        let text = String::from_utf8_lossy(&text)
            .replace("@VERSION@", version)
            .replace("@ARCHITECTURE@", &architecture);
        write(&stage.join("DEBIAN").join(name), text.as_bytes(), mode)?;
    }
    let package = target.join(format!("deb/scrubjay_{version}_{architecture}.deb"));
    must(
        Command::new("dpkg-deb")
            .args(["--build", "--root-owner-group", "-Zxz"])
            .args([&stage, &package]),
    )?;
    Ok(package)
}

fn architecture() -> Result<String, String> {
    match capture(Command::new("dpkg").arg("--print-architecture")) {
        (true, text) => Ok(text.trim().to_owned()),
        (false, why) => Err(why),
    }
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), String> {
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(path, bytes))
        .and_then(|()| std::fs::set_permissions(path, Permissions::from_mode(mode)))
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// Builds the package around `program`, and looks into it: everything is there, belongs to root, and systemd understands its
/// units.
pub fn test(root: &Path, target: &Path, program: &Path) -> Outcome {
    if !exists("dpkg-deb") {
        return Outcome::Skipped("there is no dpkg-deb".to_owned());
    }
    let tested = build(root, target, program).and_then(|package| {
        look_inside(&package)?;
        check_units(root, target, program)
    });
    match tested {
        Ok(gap) => Outcome::counted(
            true,
            gap.map_or_else(String::new, |gap| format!("NOT COVERED: {gap}\n")),
        ),
        Err(why) => Outcome::of(Err(why)),
    }
}

fn look_inside(package: &Path) -> Result<(), String> {
    let (true, list) = capture(Command::new("dpkg-deb").arg("--contents").arg(package)) else {
        return Err(format!("{}: dpkg-deb cannot read it", package.display()));
    };
    let program = ["usr/bin/scrubjay", "usr/share/man/man1/scrubjay.1.gz"];
    let copies = COPIES.iter().map(|(_, to)| *to);
    let printed = PRINTED[1..].iter().map(|(_, to)| *to);
    for path in program.into_iter().chain(copies).chain(printed) {
        let line = list.lines().find(|line| line.ends_with(&format!(" ./{path}")));
        let line = line.ok_or_else(|| format!("{path} is not in the package:\n{list}"))?;
        if !line.contains("root/root") || line.split_whitespace().nth(2) == Some("0") {
            return Err(format!("it is empty or not root's: {line}"));
        }
    }
    let (true, control) = capture(Command::new("dpkg-deb").arg("--field").arg(package)) else {
        return Err("dpkg-deb finds no fields".to_owned());
    };
    if control.contains('@') && control.contains("@VERSION@") || !control.contains("Package: scrubjay") {
        return Err(control);
    }
    Ok(())
}

/// Has systemd read the units, with the program where it is; what could not be checked, if anything.
fn check_units(root: &Path, target: &Path, program: &Path) -> Result<Option<String>, String> {
    if !exists("systemd-analyze") {
        return Ok(Some("systemd units, there is no systemd-analyze".to_owned()));
    }
    let folder = target.join("deb/units");
    for name in ["scrubjay.service", "scrubjay.socket"] {
        let path = root.join("deploy/systemd").join(name);
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let text = text.replace("/usr/bin/scrubjay", &program.display().to_string());
        // Whoever runs the test may have no such user.
        let text = text
            .replace("User=scrubjay", "User=root")
            .replace("Group=scrubjay", "Group=root");
        write(&folder.join(name), text.as_bytes(), 0o644)?;
    }
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no"]);
    verify.args(["scrubjay.service", "scrubjay.socket"].map(|name| folder.join(name)));
    let (success, said) = capture(&mut verify);
    let complaints: Vec<&str> = said.lines().filter(|line| line.contains("scrubjay")).collect();
    match complaints[..] {
        [] if success => Ok(None),
        // A container has no systemd to ask.
        [] => Ok(Some(format!(
            "systemd units, systemd-analyze cannot run here: {}",
            said.trim()
        ))),
        _ => Err(complaints.join("\n")),
    }
}
