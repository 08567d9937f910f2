//! Dashboards and alerts that operators take from `deploy` ask for metrics that exist.

use std::path::Path;

const FILES: &[&str] = &[
    "deploy/grafana/scrubjay.json",
    "deploy/prometheus/scrubjay.rules.yml",
];

/// Names of metrics in a text: words that begin as ours do. What has a colon is a rule's own name.
fn metrics(text: &str) -> Vec<&str> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let words = text.split(|c| !is_of_name(c));
    let prefixes = ["memcached_", "scrubjay_", "process_"];
    words
        .filter(|word| prefixes.iter().any(|prefix| word.starts_with(prefix)))
        .collect()
}

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    std::fs::read_to_string(&path).expect("a file of the tree")
}

#[test]
fn every_metric_that_is_asked_for_exists() {
    let known = scrubjay_admin::sample_names();
    for file in FILES {
        let text = read(file);
        let asked = metrics(&text);
        assert!(asked.len() > 5, "{file}: asks for nothing");
        for name in asked {
            assert!(
                known.iter().any(|known| known == name),
                "{file}: there is no metric {name}"
            );
        }
    }
}

#[test]
fn every_rule_that_is_asked_for_is_recorded() {
    let text = read("deploy/prometheus/scrubjay.rules.yml");
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    for name in text
        .split(|c| !is_of_name(c))
        .filter(|word| word.starts_with("scrubjay:"))
    {
        assert!(
            text.contains(&format!("record: {name}\n")),
            "nothing records {name}"
        );
    }
}

#[test]
fn the_dashboard_is_json_and_its_panels_have_numbers_of_their_own() {
    let board: serde_json::Value = serde_json::from_str(&read(FILES[0])).expect("JSON");
    let panels = board["panels"].as_array().expect("panels");
    let mut ids: Vec<u64> = panels.iter().filter_map(|panel| panel["id"].as_u64()).collect();
    ids.dedup();
    assert_eq!(ids.len(), panels.len());
    for panel in panels {
        assert!(
            panel["targets"]
                .as_array()
                .is_some_and(|targets| !targets.is_empty()),
            "{panel}"
        );
    }
}
