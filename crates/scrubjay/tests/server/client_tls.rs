//! The client's end of TLS with a real server at the other.

use std::io::{Read, Write};
use std::net::TcpStream;

use scrubjay_client::protocol::{Conversation, Form, Get, Reply, Request, Settings, Store};
use scrubjay_client::tls::{Tls, TlsError, TlsSettings, TlsStream};

use crate::kit::Server;
use crate::tls::Certificates;

fn settings(certificates: &Certificates) -> TlsSettings {
    TlsSettings {
        authorities: std::fs::read(certificates.path("chain")).expect("readable"),
        pair: None,
    }
}

/// A conversation over an encrypted connection.
struct Line {
    socket: TcpStream,
    tls: TlsStream,
    conversation: Conversation,
    /// Bytes that are handed over at a time.
    piece: usize,
}

impl Line {
    fn new(server: &Server, tls: &Tls, piece: usize) -> Line {
        Line {
            socket: server.connect(),
            tls: tls.open("localhost").expect("a name"),
            conversation: Conversation::new(Settings::new(Form::Meta, 7)),
            piece,
        }
    }

    fn send(&mut self) {
        let mut ciphertext = Vec::new();
        self.tls.take_output(&mut ciphertext);
        self.socket.write_all(&ciphertext).expect("writable");
    }

    fn ask(&mut self, request: Request<'_>) -> Result<Reply, TlsError> {
        self.conversation.ask(request).expect("it can be asked");
        for slice in self.conversation.take_output().slices() {
            self.tls.write(slice);
        }
        let (mut replies, mut buffer) = (Vec::new(), [0; 40_000]);
        while replies.is_empty() {
            self.send();
            let len = self.socket.read(&mut buffer).expect("readable");
            assert_ne!(len, 0, "the server ended the connection");
            for piece in buffer[..len].chunks(self.piece) {
                let mut plaintext = Vec::new();
                let fed = self.tls.feed(piece, &mut plaintext);
                self.send();
                fed?;
                self.conversation.feed(&plaintext, &mut replies).expect("replies");
            }
        }
        Ok(replies.remove(0).1.expect("a reply"))
    }
}

#[test]
fn requests_are_answered_over_tls_wherever_bytes_are_cut() {
    let certificates = Certificates::new();
    let server = Server::start(&certificates.options());
    let tls = Tls::new(&settings(&certificates)).expect("certificates");
    for piece in [1, 7, 1000, 40_000] {
        let mut line = Line::new(&server, &tls, piece);
        let value = vec![b'v'; 300_000];
        let stored = line.ask(Request::Store(Store::new(b"k", value.clone())));
        assert_eq!(stored, Ok(Reply::Stored));
        assert!(line.tls.is_established() && !line.tls.is_ended());
        match line.ask(Request::Get(Get::new(b"k"))) {
            Ok(Reply::Value(found)) => assert!(found.bytes == value, "{piece}"),
            reply => panic!("{reply:?}"),
        }
        assert_eq!(line.ask(Request::Get(Get::new(b"none"))), Ok(Reply::Miss));
    }
}

#[test]
fn a_server_that_nobody_vouches_for_is_refused_and_so_is_one_of_another_name() {
    let certificates = Certificates::new();
    let server = Server::start(&certificates.options());
    let others = Tls::new(&settings(&Certificates::new())).expect("certificates");
    let refused = Line::new(&server, &others, 1000).ask(Request::Noop);
    assert!(matches!(refused, Err(TlsError::Failed(_))), "{refused:?}");
    let tls = Tls::new(&settings(&certificates)).expect("certificates");
    let mut line = Line::new(&server, &tls, 1000);
    line.tls = tls.open("elsewhere").expect("a name");
    let refused = line.ask(Request::Noop);
    assert!(matches!(refused, Err(TlsError::Failed(_))), "{refused:?}");
    assert!(matches!(tls.open("no name"), Err(TlsError::Name(_))));
}

#[test]
fn a_server_that_wants_a_certificate_is_shown_one() {
    let certificates = Certificates::new();
    let authorities = certificates.path("chain").display().to_string();
    let options = certificates.options();
    let server = Server::start(&format!(
        "{options} -o ssl_verify_mode=2,ssl_ca_cert={authorities}"
    ));
    let read = |name| std::fs::read(certificates.path(name)).expect("readable");
    let shown = TlsSettings {
        pair: Some((read("chain"), read("key"))),
        ..settings(&certificates)
    };
    let tls = Tls::new(&shown).expect("a pair");
    assert_eq!(
        Line::new(&server, &tls, 1000).ask(Request::Noop),
        Ok(Reply::Alive)
    );
    let without = Tls::new(&settings(&certificates)).expect("certificates");
    let refused = Line::new(&server, &without, 1000).ask(Request::Noop);
    assert!(matches!(refused, Err(TlsError::Failed(_))), "{refused:?}");
}

#[test]
fn what_is_no_certificate_is_refused_in_words() {
    let certificates = Certificates::new();
    let check = |settings: TlsSettings, words: &str| {
        let error = Tls::new(&settings).expect_err("unusable").to_string();
        assert!(error.contains(words), "{error}");
    };
    let good = settings(&certificates);
    let nothing = TlsSettings {
        authorities: b"no certificate".to_vec(),
        ..good.clone()
    };
    check(nothing, "the authorities' certificates: there is none");
    let read = |certificates: &Certificates, name| std::fs::read(certificates.path(name)).expect("readable");
    let no_pair = TlsSettings {
        pair: Some((read(&certificates, "chain"), read(&Certificates::new(), "key"))),
        ..good
    };
    check(no_pair, "the client's certificate and key");
}
