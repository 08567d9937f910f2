//! A client's side, for tools: one blocking stream, encrypted, to a server whose certificate a file vouches for.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use scrubjay_io::file;

use crate::config::FILE_LEN_MAX;

/// Encrypts `stream`, which leads to `host`; the server's certificate must be vouched for by one in the file `authorities`
/// and name `host`. The handshake is made with the first bytes.
///
/// # Errors
/// What cannot be read or is no name, and what to do.
pub fn client<S: Read + Write + Send + 'static>(
    stream: S,
    host: &str,
    authorities: &Path,
) -> Result<impl Read + Write + Send + 'static, String> {
    let wrong = |why: String| format!("{}: {why}", authorities.display());
    let bytes = file::read(authorities, FILE_LEN_MAX).map_err(|why| wrong(why.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&bytes) {
        let certificate = certificate.map_err(|why| wrong(why.to_string()))?;
        roots.add(certificate).map_err(|why| wrong(why.to_string()))?;
    }
    if roots.is_empty() {
        let why = "holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)";
        return Err(wrong(why.to_owned()));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|why| why.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned());
    let name = name.map_err(|why| format!("{host:?}: {why}; name the server as its certificate does"))?;
    let connection = ClientConnection::new(Arc::new(config), name).map_err(|why| why.to_string())?;
    Ok(StreamOwned::new(connection, stream))
}
