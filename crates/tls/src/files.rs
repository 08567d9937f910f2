//! Certificates and keys as they lie in files. What cannot be used is told with the option that named it.

use std::fmt;
use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use scrubjay_io::file;

use crate::settings::KeyFormat;

/// Longest file of certificates or keys. A bundle of all public authorities has a quarter of it.
const FILE_LEN_MAX: usize = 1 << 20;

/// Certificates or key cannot be used: which option and file, why, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CannotLoad(String);

impl CannotLoad {
    pub(crate) fn of(why: String) -> CannotLoad {
        CannotLoad(why)
    }
}

impl fmt::Display for CannotLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CannotLoad {}

/// What is wrong with the file that `option`, written as it is up to its value, has named.
pub(crate) fn cannot(option: &str, path: &Path, why: impl fmt::Display) -> CannotLoad {
    CannotLoad(format!("{option}{}: {why}", path.display()))
}

fn read(option: &str, path: &Path) -> Result<Vec<u8>, CannotLoad> {
    file::read(path, FILE_LEN_MAX).map_err(|error| {
        let advice = "name a file that this user may read";
        cannot(option, path, format!("{error}; {advice}"))
    })
}

/// Certificates of a file in PEM form, one at least.
pub(crate) fn read_certificates(
    option: &str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, CannotLoad> {
    let bytes = read(option, path)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => {
            let why = "holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)";
            Err(cannot(option, path, why))
        }
        Err(error) => Err(cannot(
            option,
            path,
            format!("is no proper PEM file: {error}; write it anew"),
        )),
    }
}

/// Authorities to check the other side by.
pub(crate) fn read_authorities(option: &str, path: &Path) -> Result<RootCertStore, CannotLoad> {
    let mut roots = RootCertStore::empty();
    for certificate in read_certificates(option, path)? {
        roots
            .add(certificate)
            .map_err(|error| cannot(option, path, error))?;
    }
    Ok(roots)
}

/// A private key.
pub(crate) fn read_key(
    option: &str,
    path: &Path,
    format: KeyFormat,
) -> Result<PrivateKeyDer<'static>, CannotLoad> {
    let bytes = read(option, path)?;
    match format {
        KeyFormat::Pem => {
            let key = PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| {
                let advice =
                    "give a private key in PEM form, without a password (openssl pkey takes it away)";
                cannot(option, path, format!("{error}; {advice}"))
            })?;
            // Some tools write one kind of key under the name of another, which OpenSSL lets pass: the bytes tell.
            Ok(PrivateKeyDer::try_from(key.secret_der().to_vec()).unwrap_or(key))
        }
        KeyFormat::Der => PrivateKeyDer::try_from(bytes).map_err(|error| {
            let advice = "give a private key in DER form, or leave out ssl_keyformat for PEM";
            cannot(option, path, format!("{error}; {advice}"))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::{KeyFormat, PrivateKeyDer, read_key};

    #[test]
    fn a_key_is_what_its_bytes_say_whatever_its_label_says() {
        let pem = rcgen::KeyPair::generate().expect("a key").serialize_pem();
        let path = std::env::temp_dir().join(format!("scrubjay-tls-key-{}.pem", std::process::id()));
        for label in ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"] {
            std::fs::write(&path, pem.replace("PRIVATE KEY", label)).expect("a file");
            let key = read_key("ssl_key", &path, KeyFormat::Pem).expect("a key");
            assert!(matches!(key, PrivateKeyDer::Pkcs8(_)), "{label}");
        }
        std::fs::remove_file(&path).expect("it is there");
    }
}
