//! Sessions by rustls, and what its errors mean to whoever has to do something about them.

use std::fmt;
use std::io::{IoSlice, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error,
    HandshakeKind, RootCertStore, SignatureScheme,
};

use super::files::Files;
use super::{TlsError, TlsSettings};

/// Most servers whose sessions are remembered, to be resumed.
const SERVERS_MAX: usize = 1024;

/// Opens streams and remembers their sessions. A clone shares them.
#[derive(Clone)]
pub(super) struct Sessions(Arc<ClientConfig>);

impl Sessions {
    pub(super) fn new(settings: &TlsSettings, files: &Files) -> Result<Sessions, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Failed(error.to_string()))?;
        let builder = if settings.accept_any_certificate {
            let believer = Arc::new(Credulous(provider));
            builder.dangerous().with_custom_certificate_verifier(believer)
        } else {
            builder.with_root_certificates(roots(files.authorities.as_deref())?)
        };
        let mut config = match (&files.certificate, &files.key) {
            (Some(chain), Some(key)) => {
                let chain = certificates("tls_cert", chain)?;
                let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| unusable("tls_key", error))?;
                let built = builder.with_client_auth_cert(chain, key);
                built.map_err(|error| unusable("tls_cert and tls_key", error))?
            }
            _ => builder.with_no_client_auth(),
        };
        config.resumption = Resumption::in_memory_sessions(SERVERS_MAX);
        Ok(Sessions(Arc::new(config)))
    }

    pub(super) fn open(&self, name: &str) -> Result<TlsStream, TlsError> {
        let server = ServerName::try_from(name.to_owned()).map_err(|_| TlsError::Name(name.to_owned()))?;
        let rustls = ClientConnection::new(Arc::clone(&self.0), server);
        let mut rustls = rustls.map_err(|error| TlsError::Failed(error.to_string()))?;
        // What the caller gives is taken whole; it bounds what it gives.
        rustls.set_buffer_limit(None);
        Ok(TlsStream {
            rustls,
            name: name.into(),
            ended: false,
        })
    }
}

/// Whether a certificate can bear this name.
pub(super) fn check_name(name: &str) -> Result<(), TlsError> {
    let read = ServerName::try_from(name).map(|_| ());
    read.map_err(|_| TlsError::Name(name.to_owned()))
}

fn unusable(what: &str, reason: impl fmt::Display) -> TlsError {
    TlsError::Unusable(what.to_owned(), reason.to_string())
}

/// The authorities in PEM form, or those of the system.
fn roots(pem: Option<&[u8]>) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    if let Some(pem) = pem {
        for certificate in certificates("tls_ca", pem)? {
            roots
                .add(certificate)
                .map_err(|error| unusable("tls_ca", error))?;
        }
        return Ok(roots);
    }
    let found = rustls_native_certs::load_native_certs();
    // Some of the system's may be of kinds that are not understood; the others do.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let reason = match found.errors.first() {
            Some(error) => format!("the system's authorities cannot be read: {error}"),
            None => "the system has no authorities".to_owned(),
        };
        return Err(unusable("tls_ca", reason));
    }
    Ok(roots)
}

fn certificates(what: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let read = read.map_err(|error| unusable(what, error))?;
    match read.is_empty() {
        true => Err(unusable(what, "there is no certificate in it")),
        false => Ok(read),
    }
}

/// One encrypted connection. The handshake is made with the first bytes.
pub struct TlsStream {
    rustls: ClientConnection,
    /// What the server's certificate has to call it.
    name: Box<str>,
    ended: bool,
}

impl fmt::Debug for TlsStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TlsStream({})", self.name)
    }
}

impl TlsStream {
    /// Takes plaintext, all of it, as one record if it is not more than 16 KiB; it is encrypted when the handshake is over.
    ///
    /// # Errors
    /// [`TlsError::Failed`] after [`feed`](TlsStream::feed) has failed: nothing of it will be sent.
    pub fn write(&mut self, plaintext: &[IoSlice<'_>]) -> Result<(), TlsError> {
        let len: usize = plaintext.iter().map(|piece| piece.len()).sum();
        let written = self.rustls.writer().write_vectored(plaintext);
        let written = written.map_err(|error| TlsError::Failed(error.to_string()))?;
        assert_eq!(written, len, "its buffer has no limit");
        Ok(())
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
            let failed = |error: std::io::Error| TlsError::Failed(error.to_string());
            self.rustls.read_tls(&mut ciphertext).map_err(failed)?;
            let state = self.rustls.process_new_packets();
            let state = state.map_err(|error| TlsError::Failed(explain(&error, &self.name)))?;
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

    /// Tells the server that nothing follows, with the next output.
    pub fn close(&mut self) {
        self.rustls.send_close_notify();
    }

    /// Whether the server has said that nothing follows. A connection that ends without it was cut.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// Whether the server has proved who it is.
    pub fn is_established(&self) -> bool {
        !self.rustls.is_handshaking()
    }

    /// Whether it goes on with the session of a connection before.
    pub fn is_resumed(&self) -> bool {
        self.rustls.handshake_kind() == Some(HandshakeKind::Resumed)
    }
}

/// What went wrong, and what to do.
fn explain(error: &Error, name: &str) -> String {
    match error {
        Error::InvalidCertificate(error) => explain_certificate(error, name),
        Error::AlertReceived(alert) => explain_alert(*alert),
        Error::InvalidMessage(_) => {
            format!(
                "what came is no TLS ({error}); give the server's port for TLS, or set tls to no if it has none"
            )
        }
        Error::PeerIncompatible(reason) => {
            format!("the server can do none of what this client can ({reason:?}); have it do TLS 1.2 or 1.3")
        }
        error => error.to_string(),
    }
}

fn explain_certificate(error: &CertificateError, name: &str) -> String {
    use CertificateError as Wrong;
    const RENEW: &str = "have it renewed";
    const CLOCKS: &str = "compare the clocks of both machines";
    let since = |from: UnixTime, to: UnixTime| {
        Duration::from_secs(to.as_secs().saturating_sub(from.as_secs())).as_secs() / 3600
    };
    match error {
        Wrong::Expired => format!("the server's certificate has expired; {RENEW}"),
        Wrong::ExpiredContext { time, not_after } => format!(
            "the server's certificate has expired {} hours ago; {RENEW}",
            since(*not_after, *time)
        ),
        Wrong::NotValidYet => format!("the server's certificate is not valid yet; {CLOCKS}"),
        Wrong::NotValidYetContext { time, not_before } => format!(
            "the server's certificate is not valid for {} hours yet; {CLOCKS}",
            since(*time, *not_before)
        ),
        Wrong::NotValidForName => {
            format!(
                "the server's certificate is not for {name:?}; give the name that stands in it by tls_name"
            )
        }
        Wrong::NotValidForNameContext { presented, .. } => format!(
            "the server's certificate is not for {name:?} but for {}; give a name that stands in it by tls_name",
            presented.join(", ")
        ),
        // The second is what an authority of the same name leads to.
        Wrong::UnknownIssuer | Wrong::BadSignature => {
            "nobody who is believed vouches for the server's certificate (unknown issuer); \
             give the certificate of its authority by tls_ca"
                .to_owned()
        }
        error => format!("the server's certificate is not believed ({error}); have it issued anew"),
    }
}

fn explain_alert(alert: AlertDescription) -> String {
    use AlertDescription as Alert;
    match alert {
        Alert::CertificateRequired => {
            "the server wants a certificate of this client; give one by tls_cert and tls_key".to_owned()
        }
        Alert::UnknownCA
        | Alert::BadCertificate
        | Alert::CertificateUnknown
        | Alert::CertificateExpired
        | Alert::CertificateRevoked
        | Alert::UnsupportedCertificate
        | Alert::AccessDenied
        | Alert::DecryptError => format!(
            "the server does not believe this client's certificate ({alert:?}); give one by tls_cert and tls_key that \
             the server's authorities vouch for"
        ),
        // TLS 1.2 says no more than this to a client without a certificate.
        Alert::HandshakeFailure => {
            "the server refuses the handshake; if it wants a certificate of this client, give one \
             by tls_cert and tls_key, else compare versions and cipher suites"
                .to_owned()
        }
        Alert::UnrecognisedName => {
            "the server does not go by this name; give its name by tls_name".to_owned()
        }
        alert => format!("the server refuses ({alert:?}); see its log"),
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
