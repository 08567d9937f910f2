//! From files to what rustls needs to make connections.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ServerConfig, version};

use crate::files::{CannotLoad, cannot, read_authorities, read_certificates, read_key};
use crate::settings::{Certificate, MinVersion, Settings};

const CHAIN: &str = "-o ssl_chain_cert=";
const KEY: &str = "-o ssl_key=";
const AUTHORITIES: &str = "-o ssl_ca_cert=";

/// Tickets that a client of TLS 1.3 gets, each good for one connection.
const TICKETS: usize = 2;

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
        let chain = read_certificates(CHAIN, &settings.chain)?;
        let key = read_key(KEY, &settings.key, settings.key_format)?;
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
        .map_err(|error| CannotLoad::of(format!("-o ssl_ciphers: no suite fits the versions: {error}")))?;
    let builder = match (&settings.authorities, asked) {
        (Some(path), Certificate::Asked | Certificate::Required) => {
            let roots = Arc::new(read_authorities(AUTHORITIES, path)?);
            let mut verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider));
            if asked == Certificate::Asked {
                verifier = verifier.allow_unauthenticated();
            }
            let verifier = verifier
                .build()
                .map_err(|error| cannot(AUTHORITIES, path, error))?;
            builder.with_client_cert_verifier(verifier)
        }
        _ => builder.with_no_client_auth(),
    };
    let mut config = builder
        .with_single_cert(chain.to_vec(), key.clone_key())
        .map_err(|error| {
            let advice = "check that certificate and key are a pair";
            cannot(KEY, &settings.key, format!("{error}; {advice}"))
        })?;
    // No session is remembered here, whatever clients do: a ticket holds all that is needed to go on.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    if settings.resumption {
        config.send_tls13_tickets = TICKETS;
        config.ticketer = aws_lc_rs::Ticketer::new()
            .map_err(|error| CannotLoad::of(format!("-o ssl_session_cache: no keys for tickets: {error}")))?;
    }
    Ok(config)
}
