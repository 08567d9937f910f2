//! The kept inputs of the fuzz targets, replayed.

use std::path::Path;

#[test]
fn kept_sessions_are_answered_however_they_are_cut() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/session");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        let input = std::fs::read(path).unwrap();
        scrubjay_protocol::fuzz::text(&input);
        scrubjay_protocol::fuzz::meta(&input);
        scrubjay_protocol::fuzz::binary(&input);
        scrubjay_sim::fuzz::session(&input);
        count += 1;
    }
    assert!(count >= 90, "inputs are missing");
}
