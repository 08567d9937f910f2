//! Bodies of the fuzz targets: any input will do.

use crate::in_process::{Cuts, InProcess};
use crate::runner::Target as _;
use crate::serving::{START, Serving};

/// Little memory, so that inputs meet its end.
const ARGUMENTS: [&str; 2] = ["-m", "4"];

/// Users of different rights.
const USERS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/conformance/files/rights"
);

/// Sends `input` to a fresh server, as a whole and in pieces: neither may panic or grow without bound, and both must say
/// the same.
///
/// # Panics
/// If not.
pub fn session(input: &[u8]) {
    check(&ARGUMENTS, input);
}

/// As [`session`], to a server whose users log in.
///
/// # Panics
/// As there.
pub fn login(input: &[u8]) {
    check(&[ARGUMENTS[0], ARGUMENTS[1], "-Y", USERS], input);
}

fn check(arguments: &[&str], input: &[u8]) {
    let whole = replies(arguments, input, Cuts::None);
    let (first, step) = (input.len() % 7, 1 + input.len() % 5);
    let pieces = replies(arguments, input, Cuts::Every { first, step });
    // General statistics count pieces and processor time.
    let has_statistics = |replies: &[u8]| replies.windows(11).any(|window| window == b"rusage_user");
    if !has_statistics(&whole) && !has_statistics(&pieces) {
        assert_eq!(
            String::from_utf8_lossy(&whole),
            String::from_utf8_lossy(&pieces),
            "replies depend on how the input is cut"
        );
    }
}

fn replies(arguments: &[&str], input: &[u8], cuts: Cuts) -> Vec<u8> {
    let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
    let serving = Serving::new(&arguments).expect("these options are right");
    let mut target = InProcess::new(serving.service(), START, cuts);
    target.open().expect("connections are without number");
    target.send(0, input);
    std::mem::take(target.received(0))
}
