//! The client's end of TLS, without sockets: plaintext and ciphertext in, ciphertext and plaintext out.
//!
//! [`Tls`] is made once, of certificates in PEM form, and opens any number of [`TlsStream`]s; sessions are resumed where the
//! server allows it. rustls does the rest. Whoever owns the socket sends what [`TlsStream::take_output`] gives, and feeds what
//! it receives.

use std::fmt;
use std::io::{Read, Write};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

/// Most servers whose sessions are remembered, to be resumed.
const SERVERS_MAX: usize = 1024;

/// What encrypted connections need, in PEM form.
#[derive(Clone)]
pub struct TlsSettings {
    /// Certificates of the authorities that are believed.
    pub authorities: Vec<u8>,
    /// A certificate to show, with its chain, and its key.
    pub pair: Option<(Vec<u8>, Vec<u8>)>,
}

impl fmt::Debug for TlsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TlsSettings(pair: {})", self.pair.is_some())
    }
}

/// Why there is no encrypted connection.
#[derive(Clone, Debug, PartialEq)]
pub enum TlsError {
    /// This cannot be used, for this reason.
    Unusable(&'static str, String),
    /// A server cannot be called so.
    Name(String),
    /// The connection is over: one side does not believe the other, or what came is no TLS.
    Failed(rustls::Error),
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsError::Unusable(what, reason) => write!(f, "{what}: {reason}; give them in PEM form"),
            TlsError::Name(name) => write!(
                f,
                "{name:?} can stand in no certificate; give the name or address that stands in the server's"
            ),
            TlsError::Failed(error) => {
                write!(
                    f,
                    "TLS: {error}; check authorities, name and certificates of both sides"
                )
            }
        }
    }
}

impl std::error::Error for TlsError {}

impl From<rustls::Error> for TlsError {
    fn from(error: rustls::Error) -> TlsError {
        TlsError::Failed(error)
    }
}

/// Opens encrypted connections. A clone shares the remembered sessions.
#[derive(Clone, Debug)]
pub struct Tls(Arc<ClientConfig>);

impl Tls {
    /// Prepares everything.
    ///
    /// # Errors
    /// [`TlsError::Unusable`]: a certificate or key cannot be read, or they are no pair.
    pub fn new(settings: &TlsSettings) -> Result<Tls, TlsError> {
        const AUTHORITIES: &str = "the authorities' certificates";
        let mut roots = RootCertStore::empty();
        for certificate in certificates(AUTHORITIES, &settings.authorities)? {
            let added = roots.add(certificate);
            added.map_err(|error| TlsError::Unusable(AUTHORITIES, error.to_string()))?;
        }
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let mut config = match &settings.pair {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => {
                const PAIR: &str = "the client's certificate and key";
                let unusable = |error: String| TlsError::Unusable(PAIR, error);
                let chain = certificates(PAIR, chain)?;
                let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| unusable(error.to_string()))?;
                let built = builder.with_client_auth_cert(chain, key);
                built.map_err(|error| unusable(error.to_string()))?
            }
        };
        config.resumption = Resumption::in_memory_sessions(SERVERS_MAX);
        Ok(Tls(Arc::new(config)))
    }

    /// Begins a connection to the server that its certificate calls `name`, a host's name or address.
    ///
    /// # Errors
    /// [`TlsError::Name`], or no keys can be made.
    pub fn open(&self, name: &str) -> Result<TlsStream, TlsError> {
        let server = ServerName::try_from(name.to_owned()).map_err(|_| TlsError::Name(name.to_owned()))?;
        let mut rustls = ClientConnection::new(Arc::clone(&self.0), server)?;
        // What the caller gives is taken whole; it bounds what it gives.
        rustls.set_buffer_limit(None);
        Ok(TlsStream { rustls, ended: false })
    }
}

fn certificates(what: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let read = read.map_err(|error| TlsError::Unusable(what, error.to_string()))?;
    if read.is_empty() {
        return Err(TlsError::Unusable(what, "there is none".to_owned()));
    }
    Ok(read)
}

/// One encrypted connection. The handshake is made with the first bytes.
#[derive(Debug)]
pub struct TlsStream {
    rustls: ClientConnection,
    ended: bool,
}

impl TlsStream {
    /// Takes plaintext, all of it; it is encrypted when the handshake is over.
    pub fn write(&mut self, plaintext: &[u8]) {
        let written = self.rustls.writer().write_all(plaintext);
        written.expect("its buffer has no limit, and we end no connection");
    }

    /// Appends what is to be sent. While the handshake goes on, there is something each time that bytes were fed.
    pub fn take_output(&mut self, ciphertext: &mut Vec<u8>) {
        while self.rustls.wants_write() {
            let written = self.rustls.write_tls(ciphertext);
            written.expect("a vector takes everything");
        }
    }

    /// Takes received bytes, cut anywhere, and appends what they say.
    ///
    /// # Errors
    /// [`TlsError::Failed`]. What there is to send, an alert, is to be sent all the same.
    pub fn feed(&mut self, mut ciphertext: &[u8], plaintext: &mut Vec<u8>) -> Result<(), TlsError> {
        while !ciphertext.is_empty() && !self.ended {
            let full = |error: std::io::Error| rustls::Error::General(error.to_string());
            self.rustls.read_tls(&mut ciphertext).map_err(full)?;
            let state = self.rustls.process_new_packets()?;
            let start = plaintext.len();
            plaintext.resize(start + state.plaintext_bytes_to_read(), 0);
            if start < plaintext.len() {
                let taken = self.rustls.reader().read_exact(&mut plaintext[start..]);
                taken.expect("rustls has so many");
            }
            self.ended |= state.peer_has_closed();
        }
        Ok(())
    }

    /// Whether the server has said that nothing follows. A connection that ends without it was cut.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// Whether the server has proved who it is.
    pub fn is_established(&self) -> bool {
        !self.rustls.is_handshaking()
    }
}
