//! Which crate may use which: ARCHITECTURE.md's picture, as a table.

use std::path::Path;

/// Each crate with the crates of ours that it may depend on; `tests` may use more only where it says so.
const ARROWS: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("io", &["base"]),
    ("protocol", &["base"]),
    ("cache", &["io", "base"]),
    ("model", &["cache", "io", "base"]),
    ("net", &["io", "base"]),
    ("tls", &["io", "base"]),
    ("server", &["tls", "net", "protocol", "cache", "io", "base"]),
    ("admin", &["server", "net", "cache", "io", "base"]),
    ("workload", &[]),
    ("load", &["workload", "tls", "io", "base"]),
    ("client", &["base"]),
    ("capi", &["client", "base"]),
    ("python", &["client", "base"]),
    (
        "scrubjay",
        &[
            "admin", "client", "load", "workload", "server", "tls", "net", "protocol", "cache", "io", "base",
        ],
    ),
    (
        "sim",
        &[
            "server", "tls", "net", "protocol", "cache", "workload", "io", "base",
        ],
    ),
    ("xtask", &[]),
];

const PREFIX: &str = "scrubjay-";

/// Complains about every manifest that draws an arrow of its own.
pub fn check(root: &Path) -> Vec<String> {
    let mut complaints = Vec::new();
    for (name, allowed) in ARROWS {
        let folder = if *name == "xtask" {
            root.join(name)
        } else {
            root.join("crates").join(name)
        };
        match std::fs::read_to_string(folder.join("Cargo.toml")) {
            Ok(text) => complaints.extend(check_manifest(name, allowed, &text)),
            Err(error) => complaints.push(format!("crate {name}: {error}")),
        }
    }
    let folders = std::fs::read_dir(root.join("crates"))
        .into_iter()
        .flatten()
        .flatten();
    for folder in folders {
        let name = folder.file_name().to_string_lossy().into_owned();
        if !ARROWS.iter().any(|(known, _)| *known == name) {
            complaints.push(format!("crates/{name}: has no row in xtask/src/tidy/arrows.rs"));
        }
    }
    complaints
}

fn check_manifest(name: &str, allowed: &[&str], text: &str) -> Vec<String> {
    let manifest = match text.parse::<toml::Table>() {
        Ok(manifest) => manifest,
        Err(error) => return vec![format!("crate {name}: {error}")],
    };
    let mut complaints = Vec::new();
    for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
        let table = manifest.get(section).and_then(toml::Value::as_table);
        for dependency in table.into_iter().flat_map(toml::Table::keys) {
            let Some(other) = dependency.strip_prefix(PREFIX) else {
                continue;
            };
            if !allowed.contains(&other) {
                complaints.push(format!("crate {name}: must not use {other} ([{section}])"));
            }
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::check_manifest;

    #[test]
    fn an_arrow_that_points_up_is_seen() {
        let manifest = "[dependencies]\nscrubjay-base.workspace = true\nscrubjay-net.workspace = true\n";
        assert_eq!(check_manifest("cache", &["base"], manifest).len(), 1);
        assert!(check_manifest("server", &["base", "net"], manifest).is_empty());
    }
}
