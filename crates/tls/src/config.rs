//! From files to what rustls needs to make connections.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig, version};
use scrubjay_io::file;

use crate::settings::{Certificate, KeyFormat, MinVersion, Settings};

/// Longest file of certificates or keys. A bundle of all public authorities has a quarter of it.
pub(crate) const FILE_LEN_MAX: usize = 1 << 20;

/// Tickets that a client of TLS 1.3 gets, each good for one connection.
const TICKETS: usize = 2;

/// Certificates or key cannot be used: which option and file, why, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CannotLoad(String);

impl fmt::Display for CannotLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CannotLoad {}

fn cannot(option: &str, path: &Path, why: impl fmt::Display) -> CannotLoad {
    CannotLoad(format!("-o {option}={}: {why}", path.display()))
}

/// What connections are made from, for each way of asking clients for certificates.
#[derive(Debug)]
pub(crate) struct Configs {
    not_asked: Arc<ServerConfig>,
    /// As asked and as required; there only if there are authorities to check clients by.
    checking: Option<(Arc<ServerConfig>, Arc<ServerConfig>)>,
}

impl Configs {
    /// Reads the files.
    pub(crate) fn load(settings: &Settings) -> Result<Configs, CannotLoad> {
        let provider = Arc::new(CryptoProvider {
            cipher_suites: settings.suites.all(),
            ..aws_lc_rs::default_provider()
        });
        let chain = read_certificates("ssl_chain_cert", &settings.chain)?;
        let key = read_key(settings)?;
        let make = |asked: Certificate| make_config(settings, &provider, &chain, &key, asked).map(Arc::new);
        let checking = match settings.authorities {
            None => None,
            Some(_) => Some((make(Certificate::Asked)?, make(Certificate::Required)?)),
        };
        Ok(Configs {
            not_asked: make(Certificate::NotAsked)?,
            checking,
        })
    }

    /// # Panics
    /// If certificates are to be checked and there are no authorities to do it by.
    pub(crate) fn of(&self, asked: Certificate) -> &Arc<ServerConfig> {
        let checking = || {
            self.checking
                .as_ref()
                .expect("who asks for certificates names authorities")
        };
        match asked {
            Certificate::NotAsked => &self.not_asked,
            Certificate::Asked => &checking().0,
            Certificate::Required => &checking().1,
        }
    }
}

fn make_config(
    settings: &Settings,
    provider: &Arc<CryptoProvider>,
    chain: &[CertificateDer<'static>],
    key: &PrivateKeyDer<'static>,
    asked: Certificate,
) -> Result<ServerConfig, CannotLoad> {
    let versions: &[_] = match settings.min_version {
        MinVersion::Tls12 => &[&version::TLS13, &version::TLS12],
        MinVersion::Tls13 => &[&version::TLS13],
    };
    let builder = ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(versions)
        .map_err(|error| CannotLoad(format!("-o ssl_ciphers: no suite fits the versions: {error}")))?;
    let builder = match (&settings.authorities, asked) {
        (Some(path), Certificate::Asked | Certificate::Required) => {
            let roots = Arc::new(read_authorities(path)?);
            let mut verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider));
            if asked == Certificate::Asked {
                verifier = verifier.allow_unauthenticated();
            }
            let verifier = verifier
                .build()
                .map_err(|error| cannot("ssl_ca_cert", path, error))?;
            builder.with_client_cert_verifier(verifier)
        }
        _ => builder.with_no_client_auth(),
    };
    let mut config = builder
        .with_single_cert(chain.to_vec(), key.clone_key())
        .map_err(|error| {
            let advice = "check that certificate and key are a pair";
            cannot("ssl_key", &settings.key, format!("{error}; {advice}"))
        })?;
    // No session is remembered here, whatever clients do: a ticket holds all that is needed to go on.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    if settings.resumption {
        config.send_tls13_tickets = TICKETS;
        config.ticketer = aws_lc_rs::Ticketer::new()
            .map_err(|error| CannotLoad(format!("-o ssl_session_cache: no keys for tickets: {error}")))?;
    }
    Ok(config)
}

fn read(option: &str, path: &Path) -> Result<Vec<u8>, CannotLoad> {
    file::read(path, FILE_LEN_MAX).map_err(|error| {
        let advice = "name a file that this user may read";
        cannot(option, path, format!("{error}; {advice}"))
    })
}

fn read_certificates(option: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, CannotLoad> {
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

fn read_authorities(path: &Path) -> Result<RootCertStore, CannotLoad> {
    let mut roots = RootCertStore::empty();
    for certificate in read_certificates("ssl_ca_cert", path)? {
        roots
            .add(certificate)
            .map_err(|error| cannot("ssl_ca_cert", path, error))?;
    }
    Ok(roots)
}

fn read_key(settings: &Settings) -> Result<PrivateKeyDer<'static>, CannotLoad> {
    let path = &settings.key;
    let bytes = read("ssl_key", path)?;
    match settings.key_format {
        KeyFormat::Pem => PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| {
            let advice = "give a private key in PEM form, without a password (openssl pkey takes it away)";
            cannot("ssl_key", path, format!("{error}; {advice}"))
        }),
        KeyFormat::Der => PrivateKeyDer::try_from(bytes).map_err(|error| {
            let advice = "give a private key in DER form, or leave out ssl_keyformat for PEM";
            cannot("ssl_key", path, format!("{error}; {advice}"))
        }),
    }
}
