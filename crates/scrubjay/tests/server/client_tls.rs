//! The client's end of TLS with a real server at the other.

use std::io::{IoSlice, Read, Write};
use std::net::TcpStream;

use scrubjay_client::protocol::{Conversation, Form, Get, Reply, Request, Settings, Store};
use scrubjay_client::tls::{Tls, TlsError, TlsSettings, TlsStream};

use crate::kit::Server;
use crate::tls::Certificates;

fn settings(certificates: &Certificates) -> TlsSettings {
    TlsSettings {
        on: true,
        authorities: Some(certificates.path("chain")),
        ..TlsSettings::default()
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
            self.tls.write(&[IoSlice::new(slice)]).expect("it is open");
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
    let tls = Tls::new(settings(&certificates));
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

/// One thread may write while another has just read what breaks the connection.
#[test]
fn what_is_written_after_the_connection_broke_is_refused() {
    let certificates = Certificates::new();
    let server = Server::start(&certificates.options());
    let mut line = Line::new(&server, &Tls::new(settings(&certificates)), 40_000);
    let get = || Request::Get(Get::new(b"nothing"));
    assert_eq!(line.ask(get()), Ok(Reply::Miss));
    let record_of_nobody = [&[23, 3, 3, 0, 32][..], &[0; 32]].concat();
    let fed = line.tls.feed(&record_of_nobody, &mut Vec::new());
    assert!(matches!(fed, Err(TlsError::Failed(_))), "{fed:?}");
    line.send();
    let written = line.tls.write(&[IoSlice::new(b"mn\r\n")]);
    assert!(matches!(written, Err(TlsError::Failed(_))), "{written:?}");
    let mut ciphertext = Vec::new();
    line.tls.take_output(&mut ciphertext);
    assert!(ciphertext.is_empty(), "only the alert went: {ciphertext:?}");
}
