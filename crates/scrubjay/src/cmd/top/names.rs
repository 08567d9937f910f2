//! The servers that are named, on the command line and in a file: each once, each with a port.

use std::path::Path;

/// memcached's port.
const PORT: u16 = 11211;

/// Most servers that are watched together: each has a connection and a few kilobytes of history.
const SERVERS_MAX: usize = 4_096;

/// Longest file of servers.
const FILE_LEN_MAX: usize = 1 << 20;

/// The servers on the command line, then those in the file.
///
/// # Errors
/// A name that is none, one that is there twice, none at all or too many, and a file that cannot be read.
pub(super) fn read<'a>(
    given: impl Iterator<Item = &'a str>,
    file: Option<&Path>,
) -> Result<Vec<String>, String> {
    let mut servers = given.map(with_port).collect::<Result<Vec<_>, _>>()?;
    if let Some(path) = file {
        let shown = path.display();
        let text = scrubjay_io::file::read(path, FILE_LEN_MAX)
            .map_err(|why| format!("--file {shown}: cannot read this file: {why}"))?;
        let text = String::from_utf8_lossy(&text);
        servers.extend(in_file(&text).map_err(|why| format!("--file {shown}: {why}"))?);
    }
    if servers.is_empty() {
        return Err("name servers: `scrubjay top HOST[:PORT]...`, or a file with --file".to_owned());
    }
    if servers.len() > SERVERS_MAX {
        let count = servers.len();
        return Err(format!(
            "{count} servers are too many to watch together; name at most {SERVERS_MAX}"
        ));
    }
    let mut sorted: Vec<&String> = servers.iter().collect();
    sorted.sort();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!(
            "{} is named twice and would count twice; name it once",
            pair[0]
        )),
        None => Ok(servers),
    }
}

/// A server a line; blank lines and what follows a `#` are left out.
fn in_file(text: &str) -> Result<Vec<String>, String> {
    let lines = text.lines().zip(1..).filter_map(|(line, number)| {
        let name = line.split('#').next().unwrap_or_default().trim();
        (!name.is_empty()).then_some((name, number))
    });
    lines
        .map(|(name, number): (&str, usize)| with_port(name).map_err(|why| format!("line {number}: {why}")))
        .collect()
}

/// `HOST`, `HOST:PORT`, an address of IPv6 with or without brackets, or the path of a Unix socket, as a name to connect to.
fn with_port(name: &str) -> Result<String, String> {
    let wrong = |what: &str| Err(format!("{name:?}: {what}; a server is HOST, HOST:PORT or a path"));
    if name.chars().any(|char| char.is_whitespace() || char.is_control()) {
        return wrong("a blank in a name");
    }
    if name.contains('/') {
        return Ok(name.to_owned());
    }
    if !name.starts_with('[') && name.matches(':').count() > 1 {
        return Ok(format!("[{name}]:{PORT}"));
    }
    let (host, port) = match name.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (name, None),
    };
    if host.is_empty() {
        return wrong("no host");
    }
    match port.map(str::parse::<u16>) {
        None => Ok(format!("{host}:{PORT}")),
        Some(Ok(port)) if port != 0 => Ok(format!("{host}:{port}")),
        Some(_) => wrong("a port is a number from 1 to 65535"),
    }
}

#[cfg(test)]
mod tests {
    use super::{in_file, read, with_port};

    #[test]
    fn a_server_has_a_port() {
        for (name, server) in [
            ("cache", "cache:11211"),
            ("cache:1", "cache:1"),
            ("10.0.0.1:11212", "10.0.0.1:11212"),
            ("::1", "[::1]:11211"),
            ("[::1]", "[::1]:11211"),
            ("[::1]:7", "[::1]:7"),
            ("/run/cache.sock", "/run/cache.sock"),
        ] {
            assert_eq!(with_port(name).as_deref(), Ok(server), "{name}");
        }
        for name in [
            "",
            ":1",
            "cache:",
            "cache:0",
            "cache:70000",
            "cache:x",
            "two words",
        ] {
            assert!(with_port(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_file_has_a_server_a_line_and_remarks() {
        let text = "# all\na\n\n  b:2  # the second\r\n";
        assert_eq!(in_file(text), Ok(vec!["a:11211".to_owned(), "b:2".to_owned()]));
        let error = in_file("a\nb:c\n").unwrap_err();
        assert!(error.starts_with("line 2: \"b:c\": "), "{error}");
    }

    #[test]
    fn a_server_is_named_once() {
        assert_eq!(
            read(["b", "a"].into_iter(), None).map(|servers| servers.len()),
            Ok(2)
        );
        assert!(
            read(["a", "b", "a:11211"].into_iter(), None)
                .unwrap_err()
                .contains("a:11211 is named twice")
        );
        assert!(read([].into_iter(), None).is_err());
    }
}
