//! What clients speak over: sockets as they are, or TLS.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::Rng as _;
use rand::rngs::StdRng;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use scrubjay_base::time::Now;
use scrubjay_tls::{Settings, Tls};

use crate::servers::PATIENCE;

/// A server's certificates, and what its clients believe.
pub struct Identity {
    pub tls: Arc<Tls>,
    config: Arc<ClientConfig>,
}

impl Identity {
    pub fn new(name: &str) -> Identity {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let path = |ending: &str| {
            let name = format!("scrubjay-hand-over-{}-{name}.{ending}", std::process::id());
            std::env::temp_dir().join(name)
        };
        let settings = Settings {
            chain: path("crt"),
            key: path("key"),
            ..Settings::default()
        };
        std::fs::write(&settings.chain, made.cert.pem()).unwrap();
        std::fs::write(&settings.key, made.signing_key.serialize_pem()).unwrap();
        let tls = Tls::load(settings.clone(), Now::default()).unwrap();
        std::fs::remove_file(&settings.chain).unwrap();
        std::fs::remove_file(&settings.key).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let config = Arc::new(config);
        Identity { tls, config }
    }

    /// Speaks TLS over `socket`; the handshake comes with the first bytes.
    pub fn encrypt(&self, socket: TcpStream) -> Stream {
        let name = ServerName::try_from("localhost").unwrap();
        let tls = ClientConnection::new(Arc::clone(&self.config), name).unwrap();
        Stream::Encrypted(Box::new(StreamOwned::new(tls, socket)))
    }
}

/// A client's end of a connection.
pub enum Stream {
    Plain(TcpStream),
    Encrypted(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Encrypted(stream) => stream.get_ref(),
        }
    }

    /// Sends everything; what comes meanwhile waits.
    pub fn send(&mut self, bytes: &[u8]) {
        match self {
            Stream::Plain(socket) => socket.write_all(bytes).unwrap(),
            Stream::Encrypted(stream) => {
                stream.write_all(bytes).unwrap();
                stream.flush().unwrap();
            }
        }
    }

    /// Says that nothing more will be sent.
    pub fn finish(&mut self) {
        if let Stream::Encrypted(stream) = self {
            stream.conn.send_close_notify();
            stream.flush().unwrap();
        }
        self.socket().shutdown(Shutdown::Write).unwrap();
    }

    /// Everything that comes until the server closes.
    pub fn read_to_end(&mut self) -> Vec<u8> {
        let mut received = Vec::new();
        let mut buffer = vec![0; 64 << 10];
        loop {
            match self.read(&mut buffer) {
                Ok(0) => return received,
                Ok(len) => received.extend_from_slice(&buffer[..len]),
                // It was closed without a goodbye.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return received,
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.read(buffer),
            Stream::Encrypted(stream) => stream.read(buffer),
        }
    }

    /// How many of `bytes` are on their way; none if they would have to wait. With no bytes, those before have gone.
    fn try_write(&mut self, bytes: &[u8]) -> Option<usize> {
        let written = match (&mut *self, bytes) {
            (Stream::Encrypted(stream), []) => stream.flush().map(|()| 0),
            (Stream::Encrypted(stream), bytes) => stream.write(bytes),
            (Stream::Plain(socket), bytes) => socket.write(bytes),
        };
        match written {
            Ok(len) => Some(len),
            Err(error) if is_timeout(&error) => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Adds what comes within a while to `received`.
    fn try_read(&mut self, buffer: &mut [u8], received: &mut Vec<u8>) {
        match self.read(buffer) {
            Ok(len) => {
                assert!(len > 0, "closed early, after {} bytes", received.len());
                received.extend_from_slice(&buffer[..len]);
            }
            Err(error) => assert!(is_timeout(&error), "{error}"),
        }
    }

    /// Sends pieces, and reads in others whenever it cannot send; returns as much as is expected.
    pub fn converse(&mut self, bytes: &[u8], expected: usize, random: &mut StdRng) -> Vec<u8> {
        let short = Some(Duration::from_millis(2));
        self.socket().set_write_timeout(short).unwrap();
        self.socket().set_read_timeout(short).unwrap();
        let (mut received, mut buffer) = (Vec::new(), vec![0; 70_000]);
        let mut rest = bytes;
        while !rest.is_empty() {
            let most = if random.random_bool(0.5) { 40 } else { 100_000 };
            let piece = &rest[..random.random_range(1..=rest.len().min(most))];
            match self.try_write(piece) {
                Some(len) => rest = &rest[len..],
                None => {
                    let most = random.random_range(1..buffer.len());
                    self.try_read(&mut buffer[..most], &mut received);
                }
            }
        }
        while self.try_write(b"").is_none() {
            self.try_read(&mut buffer, &mut received);
        }
        let began = Instant::now();
        while received.len() < expected {
            assert!(began.elapsed() < PATIENCE, "{} bytes have come", received.len());
            let most = random.random_range(1..buffer.len());
            self.try_read(&mut buffer[..most], &mut received);
        }
        received
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
