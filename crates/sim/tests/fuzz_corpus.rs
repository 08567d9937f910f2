//! The kept inputs of the fuzz targets, replayed.

use std::path::Path;

fn replay(corpus: &str, least: usize, target: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(corpus);
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("a corpus") {
        let path = entry.expect("readable").path();
        println!("{}", path.display());
        target(&std::fs::read(path).expect("readable"));
        count += 1;
    }
    assert!(count >= least, "inputs are missing");
}

#[test]
fn kept_sessions_are_answered_however_they_are_cut() {
    replay("session", 90, |input| {
        scrubjay_protocol::fuzz::text(input);
        scrubjay_protocol::fuzz::meta(input);
        scrubjay_protocol::fuzz::binary(input);
        scrubjay_sim::fuzz::session(input);
    });
}

#[test]
fn kept_logins_are_answered_however_they_are_cut() {
    replay("login", 20, scrubjay_sim::fuzz::login);
}
