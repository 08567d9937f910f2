//! The client's side of TLS: a certificate made for one server, and connections that believe it.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// The name that certificates are for.
const NAME: &str = "localhost";

/// A server's certificate and key, in files that go with it.
#[derive(Debug)]
pub(super) struct Identity {
    certificate: PathBuf,
    key: PathBuf,
    config: Arc<ClientConfig>,
}

impl Identity {
    pub(super) fn new() -> Result<Identity, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = |ending: &str| {
            let name = format!("scrubjay-sim-{}-{number}.{ending}", std::process::id());
            std::env::temp_dir().join(name)
        };
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let made = rcgen::generate_simple_self_signed(vec![NAME.to_owned()]).map_err(|error| text(&error))?;
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).map_err(|error| text(&error))?;
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| text(&error))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let identity = Identity {
            certificate: path("crt"),
            key: path("key"),
            config: Arc::new(config),
        };
        std::fs::write(&identity.certificate, made.cert.pem()).map_err(|error| text(&error))?;
        std::fs::write(&identity.key, made.signing_key.serialize_pem()).map_err(|error| text(&error))?;
        Ok(identity)
    }

    /// What the server is told.
    pub(super) fn arguments(&self) -> Vec<String> {
        let files = format!(
            "ssl_chain_cert={},ssl_key={},ssl_session_cache",
            self.certificate.display(),
            self.key.display()
        );
        ["-Z", "-o", &files].map(str::to_owned).to_vec()
    }

    /// Speaks TLS over `stream`; the handshake comes with the first bytes.
    pub(super) fn encrypt(&self, stream: TcpStream) -> io::Result<Stream> {
        let name = ServerName::try_from(NAME).map_err(io::Error::other)?;
        let tls = ClientConnection::new(Arc::clone(&self.config), name).map_err(io::Error::other)?;
        Ok(Stream::Encrypted(Box::new(StreamOwned::new(tls, stream))))
    }
}

impl Drop for Identity {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.certificate);
        let _ = std::fs::remove_file(&self.key);
    }
}

/// A connection to a server.
#[derive(Debug)]
pub(super) enum Stream {
    Plain(TcpStream),
    Encrypted(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    pub(super) fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Encrypted(stream) => stream.get_ref(),
        }
    }

    /// Says that nothing more will be sent.
    pub(super) fn finish(&mut self) {
        if let Stream::Encrypted(stream) = self {
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
        let _ = self.socket().shutdown(Shutdown::Write);
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.read(buffer),
            Stream::Encrypted(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.write(bytes),
            Stream::Encrypted(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(socket) => socket.flush(),
            Stream::Encrypted(stream) => stream.flush(),
        }
    }
}
