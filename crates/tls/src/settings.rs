//! What a server is told about TLS, and how its words are read.

use std::path::PathBuf;

use rustls::crypto::aws_lc_rs::cipher_suite as suites;
use rustls::{ProtocolVersion, SupportedCipherSuite};

/// How TLS is to be done.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// File of the server's certificate and those between it and its root, in PEM form.
    pub chain: PathBuf,
    /// File of the private key.
    pub key: PathBuf,
    /// How the key is written.
    pub key_format: KeyFormat,
    /// File of the authorities that clients' certificates are checked by, in PEM form.
    pub authorities: Option<PathBuf>,
    /// Cipher suites offered.
    pub suites: Suites,
    /// Oldest version spoken.
    pub min_version: MinVersion,
    /// Clients may resume sessions, by tickets.
    pub resumption: bool,
}

/// How a private key is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyFormat {
    /// Text, between `-----BEGIN` and `-----END`.
    #[default]
    Pem,
    /// The bytes themselves.
    Der,
}

/// What is asked of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Certificate {
    /// No certificate.
    #[default]
    NotAsked,
    /// A certificate; one that comes must be good, but none need come.
    Asked,
    /// A good certificate, or the connection is refused.
    Required,
}

/// Oldest version of TLS that is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MinVersion {
    /// TLS 1.2
    #[default]
    Tls12,
    /// TLS 1.3
    Tls13,
}

/// Cipher suites, in the order of the list that named them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Suites(Vec<SupportedCipherSuite>);

/// A suite with its names in OpenSSL and in the standards.
type Named = (&'static str, &'static str, SupportedCipherSuite);

/// All suites there are. Of TLS 1.2 only those with forward secrecy and authenticated encryption.
const NAMES: &[Named] = &[
    (
        "TLS_AES_256_GCM_SHA384",
        "TLS_AES_256_GCM_SHA384",
        suites::TLS13_AES_256_GCM_SHA384,
    ),
    (
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_128_GCM_SHA256",
        suites::TLS13_AES_128_GCM_SHA256,
    ),
    (
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS_CHACHA20_POLY1305_SHA256",
        suites::TLS13_CHACHA20_POLY1305_SHA256,
    ),
    (
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        suites::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        suites::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        suites::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "ECDHE-RSA-AES256-GCM-SHA384",
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        suites::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "ECDHE-RSA-AES128-GCM-SHA256",
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        suites::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "ECDHE-RSA-CHACHA20-POLY1305",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        suites::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
];

impl Suites {
    /// Reads a list of names with colons. As in OpenSSL, a list that names no suite of TLS 1.3 leaves those as they are.
    ///
    /// # Errors
    /// A name is unknown; the text lists those that are known.
    pub fn parse(list: &str) -> Result<Suites, String> {
        let mut found = Vec::new();
        for name in list.split([':', ',', ' ']).filter(|name| !name.is_empty()) {
            let named = NAMES.iter().find(|(openssl, standard, _)| {
                openssl.eq_ignore_ascii_case(name) || standard.eq_ignore_ascii_case(name)
            });
            let (.., suite) = named.ok_or_else(|| {
                let known: Vec<_> = NAMES.iter().map(|(openssl, ..)| *openssl).collect();
                format!(
                    "{name} is not among the cipher suites offered: {}",
                    known.join(":")
                )
            })?;
            found.push(*suite);
        }
        if found.is_empty() {
            return Err("names no cipher suite".to_owned());
        }
        let is_tls13 = |suite: &SupportedCipherSuite| suite.version().version == ProtocolVersion::TLSv1_3;
        if !found.iter().any(is_tls13) {
            found.extend(NAMES.iter().map(|(.., suite)| *suite).filter(is_tls13));
        }
        Ok(Suites(found))
    }

    /// The suites, all of them where no list was given.
    pub(crate) fn all(&self) -> Vec<SupportedCipherSuite> {
        if self.0.is_empty() {
            return NAMES.iter().map(|(.., suite)| *suite).collect();
        }
        self.0.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::{NAMES, Suites, suites};

    fn check(list: &str, expected: &[rustls::SupportedCipherSuite]) {
        assert_eq!(
            Suites::parse(list).map(|found| found.all()),
            Ok(expected.to_vec())
        );
    }

    #[test]
    fn suites_are_known_by_both_their_names() {
        let tls12 = suites::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256;
        let tls13 = suites::TLS13_AES_128_GCM_SHA256;
        for (openssl, standard, _) in NAMES {
            assert_eq!(Suites::parse(openssl), Suites::parse(standard));
        }
        check("TLS_AES_128_GCM_SHA256", &[tls13]);
        check(
            "ecdhe-rsa-aes128-gcm-sha256:TLS_AES_128_GCM_SHA256",
            &[tls12, tls13],
        );
        let all13: Vec<_> = NAMES[..3].iter().map(|(.., suite)| *suite).collect();
        check("ECDHE-RSA-AES128-GCM-SHA256", &[&[tls12][..], &all13].concat());
        assert_eq!(Suites::default().all().len(), NAMES.len());
    }

    #[test]
    fn a_suite_that_nobody_knows_is_answered_with_those_that_are_known() {
        let why = Suites::parse("ECDHE-RSA-AES128-GCM-SHA256:RC4-MD5").expect_err("unknown");
        assert!(why.contains("RC4-MD5 is not"), "{why}");
        assert!(why.contains("ECDHE-ECDSA-CHACHA20-POLY1305"), "{why}");
        Suites::parse(":").expect_err("nothing named");
    }
}
