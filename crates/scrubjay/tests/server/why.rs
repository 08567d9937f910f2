//! `scrubjay why` and `scrubjay mrc` against running servers.

use crate::kit::{Server, ask, run};

fn text(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn why_says_where_a_key_is_or_how_it_left() {
    let server = Server::start("-m 16");
    let address = format!("127.0.0.1:{}", server.ports[0]);
    for line in [
        "set here 0 0 5\r\nhello",
        "set gone 0 0 2\r\nno",
        "delete gone",
        "get here",
    ] {
        ask(server.connect(), line);
    }
    let output = run(&format!("why --server {address} here gone never"));
    let said = text(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(
        said.contains("here: is here:") && said.contains("read once"),
        "{said}"
    );
    assert!(said.contains("gone: is gone: deleted"), "{said}");
    assert!(said.contains("never: is not here"), "{said}");
    let said = text(&run(&format!("why --json --server {address} gone")));
    assert!(said.contains("\"cause\":\"deleted\""), "{said}");
    let refused = run(&format!("why --server {address} {}", "k".repeat(251)));
    assert_eq!(refused.status.code(), Some(2));
    let refused = run("why --server 127.0.0.1:1 k");
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn mrc_draws_the_curve_or_says_why_there_is_none() {
    let server = Server::start("-m 64");
    let address = format!("127.0.0.1:{}", server.ports[0]);
    ask(server.connect(), "get a");
    let said = text(&run(&format!("mrc --server {address}")));
    assert!(said.contains("64 MiB <") && said.contains("512 MiB"), "{said}");
    let said = text(&run(&format!("mrc --json --server {address}")));
    assert!(
        said.contains("\"curve\":[") && said.contains("\"unread_bytes\":"),
        "{said}"
    );
    let small = Server::start("-m 4");
    let refused = run(&format!("mrc --server 127.0.0.1:{}", small.ports[0]));
    assert_eq!(refused.status.code(), Some(2));
}
