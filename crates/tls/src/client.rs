//! The client's end of TLS, for tools that talk to a server.
//!
//! A [`Client`] is read from files once and opens any number of sessions. Unlike the server's, sessions buffer: a tool has few
//! connections, and time to copy.

use std::fmt;
use std::io::{self, ErrorKind, IoSlice, Read as _, Write};
use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, HandshakeKind, SignatureScheme, StreamOwned,
};
use scrubjay_io::driver::Driver;

use crate::files::{CannotLoad, cannot, read_authorities, read_certificates, read_key};
use crate::settings::KeyFormat;

/// Servers whose sessions are remembered, to be resumed.
const SERVERS_MAX: usize = 16;

/// Ciphertext taken at a time.
const INPUT_LEN: usize = 64 << 10;

const CHAIN: &str = "--tls-cert ";
const KEY: &str = "--tls-key ";
const AUTHORITIES: &str = "--tls-ca ";

/// How a client does TLS.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// Which servers are believed.
    pub trust: Trust,
    /// Files of the certificate to show and of its key, in PEM form.
    pub pair: Option<(PathBuf, PathBuf)>,
    /// Sessions are resumed where the server allows it; else every handshake is a full one.
    pub resumption: bool,
}

/// Which servers are believed.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Those whose certificate an authority of this file, in PEM form, vouches for.
    Authorities(PathBuf),
    /// Whoever answers.
    Anybody,
}

/// Makes encrypted connections to a server of one name. A clone shares the remembered sessions.
#[derive(Clone, Debug)]
pub struct Client {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Client {
    /// Reads what is needed to connect to the server that is called `name`, a host's name or address.
    ///
    /// # Errors
    /// A file cannot be used, or the name is none.
    pub fn load(settings: &ClientSettings, name: &str) -> Result<Client, CannotLoad> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| CannotLoad::of(format!("--tls: no suite fits the versions: {error}")))?;
        let builder = match &settings.trust {
            Trust::Authorities(path) => builder.with_root_certificates(read_authorities(AUTHORITIES, path)?),
            Trust::Anybody => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Credulous(provider))),
        };
        let mut config = match &settings.pair {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => builder
                .with_client_auth_cert(
                    read_certificates(CHAIN, chain)?,
                    read_key(KEY, key, KeyFormat::Pem)?,
                )
                .map_err(|error| {
                    cannot(
                        KEY,
                        key,
                        format!("{error}; check that certificate and key are a pair"),
                    )
                })?,
        };
        config.resumption = if settings.resumption {
            Resumption::in_memory_sessions(SERVERS_MAX)
        } else {
            Resumption::disabled()
        };
        let client = Client {
            config: Arc::new(config),
            name: ServerName::try_from("localhost").expect("it is a name"),
        };
        client.named(name)
    }

    /// The same for a server of another name.
    ///
    /// # Errors
    /// It is neither a host's name nor an address.
    pub fn named(&self, name: &str) -> Result<Client, CannotLoad> {
        let name = ServerName::try_from(name.to_owned()).map_err(|_| {
            CannotLoad::of(format!(
                "{name:?} can stand in no certificate; give the server's name by --tls-name"
            ))
        })?;
        Ok(Client {
            config: Arc::clone(&self.config),
            name,
        })
    }

    /// Begins a connection. Nothing is sent yet.
    ///
    /// # Errors
    /// Keys cannot be made.
    pub fn open(&self) -> io::Result<ClientSession> {
        let rustls = ClientConnection::new(Arc::clone(&self.config), self.name.clone());
        let mut rustls = rustls.map_err(io::Error::other)?;
        // What the caller gives is taken whole; it bounds what it gives.
        rustls.set_buffer_limit(None);
        Ok(ClientSession(rustls))
    }
}

impl Client {
    /// Encrypts what goes over a blocking `stream`. The handshake is made with the first bytes.
    ///
    /// # Errors
    /// Keys cannot be made.
    pub fn stream<S: io::Read + Write>(&self, stream: S) -> io::Result<impl io::Read + Write + use<S>> {
        let rustls = ClientConnection::new(Arc::clone(&self.config), self.name.clone());
        Ok(StreamOwned::new(rustls.map_err(io::Error::other)?, stream))
    }
}

/// One encrypted connection.
pub struct ClientSession(ClientConnection);

impl fmt::Debug for ClientSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ClientSession")
            .field(&self.is_handshaking())
            .finish()
    }
}

impl ClientSession {
    /// Whether it is not established yet.
    pub fn is_handshaking(&self) -> bool {
        self.0.is_handshaking()
    }

    /// Whether it goes on with the session of a connection before.
    pub fn is_resumed(&self) -> bool {
        self.0.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Whether there is something for [`flush`](ClientSession::flush) to send.
    pub fn has_unsent(&self) -> bool {
        self.0.wants_write()
    }

    /// Takes plaintext, all of it. It goes with the next [`flush`](ClientSession::flush) once the connection is established.
    ///
    /// # Errors
    /// The connection is over.
    pub fn take(&mut self, plaintext: &[u8]) -> io::Result<()> {
        self.0.writer().write_all(plaintext)
    }

    /// Sends what there is to send.
    ///
    /// # Errors
    /// `WouldBlock` if not all of it goes; anything else ends the connection.
    pub fn flush<D: Driver>(&mut self, driver: &mut D, socket: &D::Socket) -> io::Result<()> {
        while self.0.wants_write() {
            self.0.write_tls(&mut Sink { driver, socket })?;
        }
        Ok(())
    }

    /// Receives what is there into `buffer`, of twice 64 KiB and a record at least; 0 is the end. There may be something to
    /// send afterwards.
    ///
    /// # Errors
    /// `WouldBlock` if no plaintext came; anything else ends the connection. `InvalidInput` if the peer is not believed,
    /// `PermissionDenied` if it refuses, `InvalidData` if it does not speak TLS.
    pub fn receive<D: Driver>(
        &mut self,
        driver: &mut D,
        socket: &D::Socket,
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        // Ciphertext comes into the second part; it is never shorter than what it is of.
        let (plaintext, ciphertext) = buffer.split_at_mut(buffer.len() - INPUT_LEN);
        let len = driver.read(socket, ciphertext)?;
        if len == 0 {
            return Ok(0);
        }
        let (mut rest, mut filled) = (&ciphertext[..len], 0);
        while !rest.is_empty() {
            if self.0.read_tls(&mut rest)? == 0 {
                break;
            }
            let state = match self.0.process_new_packets() {
                Ok(state) => state,
                Err(error) => {
                    // The peer is told why, if it still listens.
                    let _ = self.flush(driver, socket);
                    return Err(io::Error::new(kind_of(&error), error));
                }
            };
            let came = state.plaintext_bytes_to_read();
            self.0
                .reader()
                .read_exact(&mut plaintext[filled..filled + came])?;
            filled += came;
            if filled == 0 && state.peer_has_closed() {
                return Ok(0);
            }
        }
        match filled {
            0 => Err(ErrorKind::WouldBlock.into()),
            _ => Ok(filled),
        }
    }
}

fn kind_of(error: &Error) -> ErrorKind {
    match error {
        Error::InvalidCertificate(_) => ErrorKind::InvalidInput,
        Error::AlertReceived(_) => ErrorKind::PermissionDenied,
        _ => ErrorKind::InvalidData,
    }
}

/// A driver's socket as rustls writes to it.
struct Sink<'a, D: Driver> {
    driver: &'a mut D,
    socket: &'a D::Socket,
}

impl<D: Driver> Write for Sink<'_, D> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.driver.write(self.socket, pieces)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Believes whoever holds the key of the certificate that it shows, whatever that says.
#[derive(Debug)]
struct Credulous(Arc<CryptoProvider>);

impl ServerCertVerifier for Credulous {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
