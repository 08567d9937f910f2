use scrubjay_net::Peer;

use super::{Auth, Check, Login, Rights, WAITING_MAX, hash_password};

const KEY: [u8; 32] = [5; 32];

/// The hash of `secret`, made with little work.
const HASHED: &str = "$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHRzYWx0$";

fn auth(text: &str, connections_max: Option<u32>) -> Auth {
    Auth::new(text.as_bytes(), connections_max, KEY).expect(text)
}

fn right(check: Check) -> Login {
    match check {
        Check::Right(login) => login,
        other => panic!("not right: {other:?}"),
    }
}

fn hashed_line(name: &str) -> String {
    format!("{name}:{}", hash_password(b"secret", [1; 16]).expect("hashes"))
}

#[test]
fn passwords_plain_and_hashed_are_checked() {
    assert!(Auth::new(HASHED.as_bytes(), None, KEY).is_err());
    let auth = auth(&format!("ann:secret\n{}", hashed_line("bob ro")), None);
    assert!(auth.has_plain_passwords());
    for _ in 0..2 {
        assert_eq!(right(auth.check(b"ann", b"secret")).rights(), Rights::Administer);
        assert_eq!(right(auth.check(b"bob", b"secret")).rights(), Rights::Read);
    }
    for (name, password) in [
        ("ann", "secre"),
        ("bob", "wrong"),
        ("bob ro", "secret"),
        ("eve", "secret"),
        ("", ""),
    ] {
        let check = auth.check(name.as_bytes(), password.as_bytes());
        assert!(matches!(check, Check::Wrong), "{name}: {check:?}");
    }
}

#[test]
fn hashes_are_verified_by_the_verifier_once() {
    let mut auth = auth(&hashed_line("bob"), None);
    let work = auth.verifier(|| {});
    let mut tickets = Vec::new();
    for _ in 0..WAITING_MAX {
        match auth.check(b"bob", if tickets.is_empty() { b"secret" } else { b"wrong!" }) {
            Check::Later(ticket) => tickets.push(ticket),
            other => panic!("{other:?}"),
        }
    }
    assert!(
        matches!(auth.check(b"bob", b"secret"), Check::Busy),
        "the queue has an end"
    );
    assert!(auth.redeem(&tickets[0]).is_none());
    // Without its sender the work ends when the queue is empty.
    auth.verifier.take();
    work();
    let mut login = right(auth.redeem(&tickets[0]).expect("verified"));
    assert!(auth.still_admits(&mut login));
    assert!(matches!(auth.redeem(&tickets[1]), Some(Check::Wrong)));
    right(auth.check(b"bob", b"secret"));
}

#[test]
fn a_new_file_counts_from_the_next_request_on() {
    let hashed = hashed_line("bob");
    let auth = auth(&format!("ann:secret\n{hashed}"), None);
    let mut ann = right(auth.check(b"ann", b"secret"));
    let mut bob = right(auth.check(b"bob", b"secret"));
    assert!(auth.replace(b"nonsense").is_err());
    assert!(auth.still_admits(&mut ann) && auth.still_admits(&mut bob));

    let text = format!("ann ro:secret\n{hashed}\neve:x");
    assert_eq!(auth.replace(text.as_bytes()), Ok(3));
    assert!(auth.still_admits(&mut ann) && auth.still_admits(&mut bob));
    assert_eq!(ann.rights(), Rights::Read);

    assert_eq!(auth.replace(b"ann ro:other\nbob:secret"), Ok(2));
    assert!(!auth.still_admits(&mut ann), "another password");
    assert!(
        !auth.still_admits(&mut bob),
        "no longer hashed: not known to be the same"
    );
    assert!(matches!(auth.check(b"ann", b"secret"), Check::Wrong));
}

#[test]
fn connections_of_a_user_are_counted_over_files() {
    let auth = auth("ann:secret\nbob:secret", Some(2));
    let first = right(auth.check(b"ann", b"secret"));
    let _second = right(auth.check(b"ann", b"secret"));
    assert!(matches!(auth.check(b"ann", b"secret"), Check::TooMany));
    right(auth.check(b"bob", b"secret"));
    auth.replace(b"ann:secret").expect("fine");
    assert!(matches!(auth.check(b"ann", b"secret"), Check::TooMany));
    drop(first);
    right(auth.check(b"ann", b"secret"));
}

#[test]
fn failures_are_told_together() {
    let auth = auth("ann:secret", None);
    assert_eq!(auth.take_failures(), None);
    auth.note_failure(b"ann\n", Peer::Unix);
    assert_eq!(
        auth.take_failures().as_deref(),
        Some("a login as \"ann\\n\" from the Unix socket failed")
    );
    let address = "192.0.2.1:5".parse().expect("an address");
    auth.note_failure(b"ann", Peer::Unix);
    auth.note_failure(&[b'x'; 100], Peer::Tcp(address));
    let told = auth.take_failures().expect("two");
    assert!(
        told.starts_with("2 logins failed, the last one as \"xxx")
            && told.ends_with("...\" from 192.0.2.1:5"),
        "{told}"
    );
    assert_eq!(auth.take_failures(), None);
}
