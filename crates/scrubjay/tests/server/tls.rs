//! TLS with real clients: all protocols, both kinds of listeners, certificates that change.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::kit::{Dir, PATIENCE, Server, ask, run, said_by, signal, until};

type Encrypted = StreamOwned<ClientConnection, TcpStream>;

/// A folder with a certificate that vouches for itself, and its key.
pub struct Certificates {
    folder: Dir,
}

impl Certificates {
    pub fn new() -> Certificates {
        let certificates = Certificates { folder: Dir::new() };
        certificates.renew();
        certificates
    }

    /// Makes other ones.
    pub fn renew(&self) {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
        self.write("key", &made.signing_key.serialize_pem());
        self.write("chain", &made.cert.pem());
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path(name)
    }

    /// Under another name first, so that nobody reads half of it.
    fn write(&self, name: &str, text: &str) {
        let beside = self.path("beside");
        std::fs::write(&beside, text).expect("writable");
        std::fs::rename(beside, self.path(name)).expect("our folder");
    }

    /// The options that make a server use them.
    pub fn options(&self) -> String {
        let [chain, key] = ["chain", "key"].map(|name| self.path(name).display().to_string());
        format!("-Z -o ssl_chain_cert={chain},ssl_key={key}")
    }

    /// Connects to the first port, believing what is in the folder now.
    pub fn connect(&self, server: &Server) -> Encrypted {
        let mut roots = RootCertStore::empty();
        let certificate = CertificateDer::from_pem_file(self.path("chain")).expect("a certificate");
        roots.add(certificate).expect("a certificate");
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("suites for all versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = "localhost".try_into().expect("a name");
        let tls = ClientConnection::new(Arc::new(config), name).expect("a client");
        StreamOwned::new(tls, server.connect())
    }
}

fn read_exactly(stream: &mut impl Read, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    stream.read_exact(&mut bytes).expect("an answer");
    bytes
}

/// Sends `request` and expects `reply`.
pub fn check(stream: &mut (impl Read + Write), request: &[u8], reply: &[u8]) {
    stream.write_all(request).expect("writable");
    let got = read_exactly(stream, reply.len());
    assert!(
        got == reply,
        "{:?} was answered {:?}",
        String::from_utf8_lossy(&request[..request.len().min(80)]),
        String::from_utf8_lossy(&got[..got.len().min(200)])
    );
}

fn stat(stream: &mut (impl Read + Write), name: &str) -> Option<u64> {
    stream.write_all(b"stats\r\n").expect("writable");
    let mut text = String::new();
    while !text.ends_with("END\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("an answer");
        text.push(char::from(byte[0]));
    }
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
    line.map(|value| value.parse().expect("a number"))
}

#[test]
fn commands_for_hands_speak_it_to_servers_they_can_believe() {
    let certificates = Certificates::new();
    let server = Server::start(&certificates.options());
    let port = server.ports[0];
    let authorities = certificates.path("chain").display().to_string();
    let encrypted = format!("--server localhost:{port} --tls-ca {authorities}");
    assert_eq!(run(&format!("set k value {encrypted}")).status.code(), Some(0));
    assert_eq!(run(&format!("get k {encrypted}")).stdout, b"value");
    let top = format!("top localhost:{port} --tls-ca {authorities} --once --interval 100ms --timeout 20s");
    assert_eq!(run(&top).status.code(), Some(0));
    // The server would soon show new ones if they were put in the place of its own.
    let others = Certificates::new();
    let stranger = |line: &str| line.replace(&authorities, &others.path("chain").display().to_string());
    assert_eq!(run(&stranger(&top)).status.code(), Some(1));
    let said = said_by(&stranger(&format!("get k {encrypted}")), 2);
    assert!(said.contains("invalid peer certificate"), "{said}");
}

#[test]
fn every_protocol_is_spoken_encrypted() {
    let certificates = Certificates::new();
    let server = Server::start(&format!("{} -I 2m", certificates.options()));
    let mut text = certificates.connect(&server);
    check(&mut text, b"set a 5 0 3\r\nabc\r\n", b"STORED\r\n");
    check(
        &mut text,
        b"get a\r\nmg a v f\r\n",
        b"VALUE a 5 3\r\nabc\r\nEND\r\nVA 3 f5\r\nabc\r\n",
    );
    check(&mut text, b"ms m 2\r\nhi\r\n", b"HD\r\n");
    let mut binary = certificates.connect(&server);
    let noop = |magic: u8| [&[magic, 10][..], &[0; 22]].concat();
    check(&mut binary, &noop(0x80), &noop(0x81));

    let value: Vec<u8> = (0..1_500_000u32)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let set = [
        format!("set large 0 0 {}\r\n", value.len()).as_bytes(),
        &value,
        b"\r\n",
    ]
    .concat();
    check(&mut text, &set, b"STORED\r\n");
    let found = [
        format!("VALUE large 0 {}\r\n", value.len()).as_bytes(),
        &value,
        b"\r\nEND\r\n",
    ]
    .concat();
    check(&mut text, b"get large\r\n", &found);

    // More replies than sockets take: the rest waits until the client reads.
    check(&mut text, &b"get large\r\n".repeat(8), &found.repeat(8));
    check(
        &mut text,
        &b"get a\r\n".repeat(20_000),
        &b"VALUE a 5 3\r\nabc\r\nEND\r\n".repeat(20_000),
    );

    // What is left to say is said before the connection ends, and the end is a proper one.
    text.write_all(b"get large\r\nquit\r\n").expect("writable");
    let mut rest = Vec::new();
    text.read_to_end(&mut rest).expect("a goodbye");
    assert!(rest == found, "{} bytes", rest.len());
}

#[test]
fn listeners_with_and_without_tls_serve_one_cache() {
    let certificates = Certificates::new();
    let line = format!("{} -l 127.0.0.1,notls:127.0.0.2", certificates.options());
    let server = Server::start(&line);
    let mut encrypted = certificates.connect(&server);
    check(&mut encrypted, b"set a 0 0 1\r\nx\r\n", b"STORED\r\n");
    let plain = || TcpStream::connect(("127.0.0.2", server.ports[1])).expect("connects");
    check(&mut plain(), b"get a\r\n", b"VALUE a 0 1\r\nx\r\nEND\r\n");
    // Either spoken where the other is expected.
    let mut wrong = server.connect();
    wrong.write_all(b"get a\r\n").expect("writable");
    let mut said = Vec::new();
    let _ = wrong.read_to_end(&mut said);
    assert!(said.is_empty() || said[0] == 21, "an alert: {said:?}");
    assert_eq!(stat(&mut plain(), "ssl_handshake_errors"), Some(1));
    assert_eq!(stat(&mut plain(), "ssl_new_sessions"), Some(1));
    let ports = server.ports.clone();
    let (_, said) = server.stop("TERM");
    assert!(said.contains(&format!("127.0.0.1:{} (TLS)", ports[0])), "{said}");
    assert!(said.contains(&format!("127.0.0.2:{} (TCP)", ports[1])), "{said}");
    let without = Server::start("");
    assert_eq!(stat(&mut without.connect(), "ssl_handshake_errors"), None);
}

#[test]
fn certificates_change_by_command_signal_or_by_themselves() {
    let certificates = Certificates::new();
    let server = Server::start(&certificates.options());
    let mut old = certificates.connect(&server);
    check(&mut old, b"set a 0 0 1\r\nx\r\n", b"STORED\r\n");
    let serves_new = || {
        let mut stream = certificates.connect(&server);
        let asked = stream.write_all(b"get a\r\n");
        let mut reply = [0; 11];
        (asked.is_ok() && stream.read_exact(&mut reply).is_ok()).then_some(reply)
    };
    certificates.renew();
    assert_eq!(ask(&mut old, "refresh_certs"), "OK");
    assert_eq!(serves_new().as_ref(), Some(b"VALUE a 0 1"));

    certificates.renew();
    signal(server.child.id(), "HUP");
    assert!(until(serves_new).is_some(), "not read at SIGHUP");

    certificates.renew();
    assert!(until(serves_new).is_some(), "not read when the files changed");

    let chain = std::fs::read_to_string(certificates.path("chain")).expect("readable");
    certificates.write("chain", "no certificate");
    let refused = ask(&mut old, "refresh_certs");
    assert!(
        refused.starts_with("SERVER_ERROR -o ssl_chain_cert="),
        "{refused}"
    );
    signal(server.child.id(), "HUP");
    certificates.write("chain", &chain);
    assert!(serves_new().is_some(), "the old one stays in use");
    check(&mut old, b"get a\r\n", b"VALUE a 0 1\r\nx\r\nEND\r\n");
    let (exit, said) = server.stop("TERM");
    assert_eq!(exit, Some(0));
    assert!(said.contains("SIGHUP: "), "{said}");
    assert!(said.contains("files changed: "), "{said}");
}

#[test]
fn files_that_cannot_be_used_are_named_at_the_start() {
    fn check(line: &str, exit: i32, part: &str) {
        let said = said_by(line, exit);
        assert!(said.contains(part), "{line}: {said}");
    }
    let certificates = Certificates::new();
    let path = |name: &str| certificates.path(name).display().to_string();
    let (chain, key) = (path("chain"), path("key"));
    let none = path("none");
    let advice = "name a file that this user may read";
    check(&format!("-Z -o ssl_chain_cert={none},ssl_key={key}"), 64, advice);
    check(&format!("-Z -o ssl_chain_cert={chain},ssl_key={none}"), 64, &none);
    let swapped = format!("-Z -o ssl_chain_cert={key},ssl_key={chain}");
    check(&swapped, 64, "holds no certificate in PEM form");
    let as_der = format!("{},ssl_keyformat=DER", certificates.options());
    check(&as_der, 64, "leave out ssl_keyformat");
    let authorities = format!("{},ssl_ca_cert={none}", certificates.options());
    check(&authorities, 64, "ssl_ca_cert");
    let other = Certificates::new();
    let unlike = format!(
        "-Z -o ssl_chain_cert={chain},ssl_key={}",
        other.path("key").display()
    );
    check(&unlike, 64, "are a pair");
}

/// What a program says that is given `input`; `None` if there is no such program here.
fn converse(program: &str, arguments: &[&str], input: &[u8]) -> Option<String> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(input).expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    Some(String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr))
}

/// OpenSSL, if it is installed: both versions, and a client that wants to begin anew in the middle.
#[test]
fn openssl_is_served() {
    let certificates = Certificates::new();
    let server = Server::start(&certificates.options());
    let address = format!("127.0.0.1:{}", server.ports[0]);
    let chain = certificates.path("chain").display().to_string();
    for version in ["-tls1_2", "-tls1_3"] {
        let arguments = ["s_client", "-connect", &address, version, "-CAfile"];
        let arguments = [&arguments[..], &[&chain[..]]].concat();
        let verifying = [&arguments[..], &["-verify_return_error", "-quiet"]].concat();
        let Some(said) = converse("openssl", &verifying, b"version\r\nquit\r\n") else {
            return;
        };
        assert!(said.contains("VERSION 1.6.45"), "{version}: {said}");
    }
    // R at the beginning of a line asks for a new handshake. It is not given, and the server lives on.
    let arguments = ["s_client", "-connect", &address, "-tls1_2"];
    let said = converse("openssl", &arguments, b"R\nversion\r\nquit\r\n").expect("installed");
    assert!(said.contains("RENEGOTIATING"), "{said}");
    let mut stream = certificates.connect(&server);
    stream.sock.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    assert_eq!(ask(&mut stream, "version"), "VERSION 1.6.45");
}

/// Python's client, if it is installed: a session resumed, a value of a megabyte.
#[test]
fn python_is_served() {
    const PROGRAM: &str = "
import socket, ssl, sys
context = ssl.create_default_context(cafile=sys.argv[2])
context.maximum_version = getattr(ssl.TLSVersion, sys.argv[3])
def connect(session=None):
    plain = socket.create_connection(('127.0.0.1', int(sys.argv[1])), timeout=20)
    return context.wrap_socket(plain, server_hostname='localhost', session=session)
def ask(stream, request, end):
    stream.sendall(request)
    reply = b''
    while not reply.endswith(end):
        piece = stream.recv(1 << 16)
        assert piece, reply
        reply += piece
    return reply
first = connect()
value = bytes(range(256)) * 4000
ask(first, b'set v 0 0 %d\\r\\n%s\\r\\n' % (len(value), value), b'STORED\\r\\n')
second = connect(first.session)
assert second.session_reused
assert value in ask(second, b'get v\\r\\n', b'END\\r\\n')
assert second.unwrap() is not None
print('served', second.version())
";
    let certificates = Certificates::new();
    let server = Server::start(&format!("{},ssl_session_cache", certificates.options()));
    for version in ["TLSv1_2", "TLSv1_3"] {
        let [port, chain] = [
            server.ports[0].to_string(),
            certificates.path("chain").display().to_string(),
        ];
        let Some(said) = converse("python3", &["-c", PROGRAM, &port, &chain, version], b"") else {
            return;
        };
        assert!(said.starts_with("served"), "{version}: {said}");
    }
    let mut stream = certificates.connect(&server);
    assert_eq!(stat(&mut stream, "ssl_resumed_sessions"), Some(2));
}
