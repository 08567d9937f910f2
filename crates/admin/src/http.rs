//! HTTP/1.1 as far as reading pages needs it: heads of requests in, replies out, no sockets.
//!
//! Only GET and HEAD, and no request has a body; whatever else comes is refused and the connection closed, so there is no
//! doubt where the next request begins.

use std::net::IpAddr;

/// Longest head of a request, in bytes.
pub const HEAD_LEN_MAX: usize = 8 << 10;

/// Most fields in it.
const FIELDS_MAX: usize = 64;

/// A request, borrowed from the input.
#[derive(Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Asked for the head of the reply only.
    pub is_head: bool,
    /// Path, still encoded.
    pub path: &'a str,
    /// What stands behind the question mark; empty if there is none.
    pub query: &'a str,
    /// The name by which the server was called, port included.
    pub host: Option<&'a str>,
    /// Whether the connection stays open.
    pub keeps_alive: bool,
}

/// What the input begins with.
#[derive(Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// The beginning of a head.
    Partial,
    /// A request of so many bytes.
    Request(Request<'a>, usize),
    /// Something that is not served.
    Refused(Status),
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// With what was asked for.
    Ok,
    /// It is no HTTP, or not as it must be.
    BadRequest,
    /// What is asked for is for others.
    Forbidden,
    /// There is no such page.
    NotFound,
    /// Neither GET nor HEAD.
    MethodNotAllowed,
    /// It took too long to arrive.
    Timeout,
    /// It has a body.
    ContentTooLarge,
    /// It names another server.
    Misdirected,
    /// Its head is too long.
    HeadTooLarge,
    /// The server is stopping.
    Unavailable,
    /// It wants another version.
    VersionNotSupported,
}

impl Status {
    /// Number and reason.
    pub fn line(self) -> &'static str {
        match self {
            Status::Ok => "200 OK",
            Status::BadRequest => "400 Bad Request",
            Status::Forbidden => "403 Forbidden",
            Status::NotFound => "404 Not Found",
            Status::MethodNotAllowed => "405 Method Not Allowed",
            Status::Timeout => "408 Request Timeout",
            Status::ContentTooLarge => "413 Content Too Large",
            Status::Misdirected => "421 Misdirected Request",
            Status::HeadTooLarge => "431 Request Header Fields Too Large",
            Status::Unavailable => "503 Service Unavailable",
            Status::VersionNotSupported => "505 HTTP Version Not Supported",
        }
    }
}

/// Reads one request from the beginning of `input`.
pub fn parse(input: &[u8]) -> Parsed<'_> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut head = httparse::Request::new(&mut fields);
    let consumed = match head.parse(&input[..input.len().min(HEAD_LEN_MAX)]) {
        Ok(httparse::Status::Complete(consumed)) => consumed,
        Ok(httparse::Status::Partial) if input.len() < HEAD_LEN_MAX => return Parsed::Partial,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return Parsed::Refused(Status::HeadTooLarge);
        }
        Err(httparse::Error::Version) => return Parsed::Refused(Status::VersionNotSupported),
        Err(_) => return Parsed::Refused(Status::BadRequest),
    };
    match request(&head) {
        Ok(request) => Parsed::Request(request, consumed),
        Err(status) => Parsed::Refused(status),
    }
}

fn request<'a>(head: &httparse::Request<'_, 'a>) -> Result<Request<'a>, Status> {
    let (Some(method), Some(target), Some(version)) = (head.method, head.path, head.version) else {
        return Err(Status::BadRequest);
    };
    let is_head = match method {
        "GET" => false,
        "HEAD" => true,
        _ => return Err(Status::MethodNotAllowed),
    };
    let (mut host, mut keeps_alive) = (None, version == 1);
    for field in head.headers.iter() {
        let value = std::str::from_utf8(field.value)
            .map_err(|_| Status::BadRequest)?
            .trim();
        match field.name {
            name if name.eq_ignore_ascii_case("host") && host.replace(value).is_some() => {
                return Err(Status::BadRequest);
            }
            name if name.eq_ignore_ascii_case("transfer-encoding") => return Err(Status::ContentTooLarge),
            name if name.eq_ignore_ascii_case("content-length") && value != "0" => {
                return Err(Status::ContentTooLarge);
            }
            name if name.eq_ignore_ascii_case("connection") => {
                let mut words = value.split(',').map(str::trim);
                keeps_alive &= !words.any(|word| word.eq_ignore_ascii_case("close"));
            }
            _ => {}
        }
    }
    if version == 1 && host.is_none() {
        return Err(Status::BadRequest);
    }
    let (authority, target) = cut_target(target)?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    Ok(Request {
        is_head,
        path,
        query,
        // A name in the target itself counts, whatever the field says. Source: RFC 9112, 3.2.2.
        host: authority.or(host),
        keeps_alive,
    })
}

/// The server's name, if the target has it, and the rest.
fn cut_target(target: &str) -> Result<(Option<&str>, &str), Status> {
    if target.starts_with('/') {
        return Ok((None, target));
    }
    let rest = target.strip_prefix("http://").ok_or(Status::BadRequest)?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, target) = rest.split_at(end);
    Ok((Some(authority), if target.is_empty() { "/" } else { target }))
}

/// Whether `host` is a name that only this machine has for itself. A page from elsewhere can have its own name point to
/// 127.0.0.1, but the name stays what it is. The port is not compared: it may be forwarded.
pub fn names_loopback(host: Option<&str>) -> bool {
    let Some(host) = host else { return true };
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, "")) => (name, None),
        Some((name, rest)) => (name, Some(rest.strip_prefix(':').unwrap_or("-"))),
        None => match host.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (host, None),
        },
    };
    let is_port = port.is_none_or(|port| port.parse::<u16>().is_ok());
    let is_loopback = name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    is_port && (is_loopback || name.eq_ignore_ascii_case("localhost"))
}

/// The value of `name` in a query, decoded.
///
/// # Errors
/// A percent sign without two digits behind it.
pub fn query_value(query: &str, name: &str) -> Result<Option<Vec<u8>>, Status> {
    let mut pairs = query
        .split('&')
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let found = pairs.find(|(key, _)| *key == name);
    found.map(|(_, value)| decode(value)).transpose()
}

fn decode(text: &str) -> Result<Vec<u8>, Status> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    let digit = |byte: Option<u8>| {
        let digit = char::from(byte?).to_digit(16)?;
        u8::try_from(digit).ok()
    };
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let high = digit(bytes.next()).ok_or(Status::BadRequest)?;
                let low = digit(bytes.next()).ok_or(Status::BadRequest)?;
                high << 4 | low
            }
            b'+' => b' ',
            other => other,
        });
    }
    Ok(decoded)
}

#[cfg(test)]
mod tests {
    use super::{HEAD_LEN_MAX, Parsed, Request, Status, names_loopback, parse, query_value};

    const PLAIN: &str = "GET /why?key=a HTTP/1.1\r\nHost: localhost:1\r\nAccept: */*\r\n\r\n";

    #[test]
    fn a_request_is_read_wherever_it_is_cut() {
        let expected = Request {
            is_head: false,
            path: "/why",
            query: "key=a",
            host: Some("localhost:1"),
            keeps_alive: true,
        };
        assert_eq!(parse(PLAIN.as_bytes()), Parsed::Request(expected, PLAIN.len()));
        for end in 0..PLAIN.len() {
            assert_eq!(parse(&PLAIN.as_bytes()[..end]), Parsed::Partial, "{end}");
        }
    }

    #[test]
    fn what_is_not_served_is_refused() {
        fn check(input: &str, expected: Status) {
            assert_eq!(parse(input.as_bytes()), Parsed::Refused(expected), "{input}");
        }
        check("POST / HTTP/1.1\r\nHost: a\r\n\r\n", Status::MethodNotAllowed);
        check("GET / HTTP/1.1\r\n\r\n", Status::BadRequest);
        check("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", Status::BadRequest);
        check(
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n",
            Status::ContentTooLarge,
        );
        check(
            "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
            Status::ContentTooLarge,
        );
        check("GET example.org HTTP/1.1\r\nHost: a\r\n\r\n", Status::BadRequest);
        check("GET / HTTP/2.0\r\n\r\n", Status::VersionNotSupported);
        check("get k\r\n", Status::BadRequest);
        check("\x01\x02\r\n\r\n", Status::BadRequest);
        check(
            &format!("GET /{} HTTP/1.1\r\n", "a".repeat(HEAD_LEN_MAX)),
            Status::HeadTooLarge,
        );
        check(
            &format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(65)),
            Status::HeadTooLarge,
        );
    }

    #[test]
    fn the_connection_stays_open_where_both_want_it() {
        fn check(head: &str, expected: bool) {
            let text = format!("{head}\r\n\r\n");
            let Parsed::Request(request, _) = parse(text.as_bytes()) else {
                panic!("{head}: refused");
            };
            assert_eq!(request.keeps_alive, expected, "{head}");
        }
        check("GET / HTTP/1.1\r\nHost: a", true);
        check("GET / HTTP/1.1\r\nHost: a\r\nConnection: x, Close", false);
        check("GET / HTTP/1.0", false);
        check("HEAD http://b/?x HTTP/1.1\r\nHost: a", true);
    }

    #[test]
    fn only_names_of_this_machine_are_loopback() {
        for (host, expected) in [
            ("localhost", true),
            ("LocalHost:80", true),
            ("127.0.0.1:9150", true),
            ("127.8.9.1", true),
            ("[::1]:9150", true),
            ("[::1]", true),
            ("example.org", false),
            ("127.0.0.1.example.org:9150", false),
            ("localhost.example.org", false),
            ("10.0.0.1:9150", false),
            ("[::1].example.org", false),
            ("localhost:x", false),
            ("", false),
        ] {
            assert_eq!(names_loopback(Some(host)), expected, "{host}");
        }
        assert!(
            names_loopback(None),
            "HTTP/1.0 without a name: no browser sends that"
        );
    }

    #[test]
    fn queries_are_decoded() {
        let value = |query| query_value(query, "key");
        assert_eq!(value("key=a%20b%2Bc+d"), Ok(Some(b"a b+c d".to_vec())));
        assert_eq!(value("x=1&key=%ff&key=2"), Ok(Some(vec![0xff])));
        assert_eq!(value("key"), Ok(Some(Vec::new())));
        assert_eq!(value("keys=1"), Ok(None));
        for bad in ["key=%", "key=%2", "key=%zz", "key=%+1"] {
            assert_eq!(value(bad), Err(Status::BadRequest), "{bad}");
        }
    }
}
