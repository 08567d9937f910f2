//! The options of TLS: how their words are read, and whether they fit each other.

use std::path::Path;

use scrubjay_tls::{Certificate, KeyFormat, MinVersion, Settings, Suites};

use super::listen::Guard;
use super::{EXIT_USAGE, OptionError, Options};

/// What TLS options come to.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// TCP listeners are encrypted (`-Z`), those with `notls:` excepted.
    pub enabled: bool,
    /// What clients are asked for (`-o ssl_verify_mode`), where a listener does not say.
    pub certificate: Certificate,
    /// Files, suites, versions.
    pub settings: Settings,
}

/// The files that TLS cannot do without.
const NEEDED: [&str; 2] = ["ssl_chain_cert", "ssl_key"];

impl TlsOptions {
    /// How the connections of a listener are guarded: `None`, they are not.
    pub fn guard(&self, guard: Guard) -> Option<Certificate> {
        let certificate = match guard {
            Guard::AsOthers => self.certificate,
            Guard::Plain => return None,
            Guard::Tls(certificate) => certificate,
        };
        self.enabled.then_some(certificate)
    }
}

pub(super) fn set_chain(options: &mut Options, path: &str) -> Result<(), String> {
    options.tls.settings.chain = file(path)?;
    Ok(())
}

pub(super) fn set_key(options: &mut Options, path: &str) -> Result<(), String> {
    options.tls.settings.key = file(path)?;
    Ok(())
}

pub(super) fn set_authorities(options: &mut Options, path: &str) -> Result<(), String> {
    options.tls.settings.authorities = Some(file(path)?);
    Ok(())
}

fn file(path: &str) -> Result<std::path::PathBuf, String> {
    match path {
        "" => Err("give the path of a file".to_owned()),
        _ => Ok(Path::new(path).to_path_buf()),
    }
}

pub(super) fn set_key_format(options: &mut Options, word: &str) -> Result<(), String> {
    options.tls.settings.key_format = match word.to_ascii_uppercase().as_str() {
        "1" | "PEM" => KeyFormat::Pem,
        "2" | "DER" => KeyFormat::Der,
        "ENGINE" => return Err("keys in an OpenSSL engine cannot be used; give the key as a file".to_owned()),
        _ => return Err("takes PEM or DER".to_owned()),
    };
    Ok(())
}

/// As `stats settings` shows it: OpenSSL's number.
pub(super) fn key_format_text(options: &Options) -> String {
    match options.tls.settings.key_format {
        KeyFormat::Pem => "1",
        KeyFormat::Der => "2",
    }
    .to_owned()
}

pub(super) fn set_verify_mode(options: &mut Options, mode: i64) {
    options.tls.certificate = match mode {
        0 => Certificate::NotAsked,
        1 => Certificate::Asked,
        _ => Certificate::Required,
    };
}

pub(super) fn set_ciphers(options: &mut Options, list: &str) -> Result<(), String> {
    options.tls.settings.suites = Suites::parse(list)?;
    Ok(())
}

pub(super) fn set_min_version(options: &mut Options, word: &str) -> Result<(), String> {
    options.tls.settings.min_version = match word {
        "2" | "tlsv1.2" => MinVersion::Tls12,
        "3" | "tlsv1.3" => MinVersion::Tls13,
        "0" | "1" | "tlsv1.0" | "tlsv1.1" => {
            return Err("TLS 1.0 and 1.1 are broken and not spoken; give 2 for TLS 1.2".to_owned());
        }
        _ => return Err("takes 2 (tlsv1.2) or 3 (tlsv1.3)".to_owned()),
    };
    Ok(())
}

/// As `stats settings` shows it.
pub(super) fn min_version_text(options: &Options) -> String {
    match options.tls.settings.min_version {
        MinVersion::Tls12 => "tlsv1.2",
        MinVersion::Tls13 => "tlsv1.3",
    }
    .to_owned()
}

/// Checks that what was given makes sense together.
pub(super) fn settle(options: &mut Options) -> Result<(), OptionError> {
    let asks_here = |listen: &super::Listen| matches!(listen.guard, Guard::Tls(_));
    if !options.tls.enabled {
        if options.listen.iter().any(asks_here) {
            let message = "-l with btls: or mtls: needs -Z, a certificate and its key";
            return Err(OptionError::new(EXIT_USAGE, message));
        }
        if super::ROWS
            .iter()
            .any(|row| row.name.starts_with("ssl_") && options.given(row.name).is_some())
        {
            let notice = "the ssl_ options have no effect without -Z";
            options.notices.push(notice.to_owned());
        }
        return Ok(());
    }
    if let Some(missing) = NEEDED.iter().find(|name| options.given(name).is_none()) {
        let message =
            format!("-Z needs a certificate and its key: give -o {missing}=FILE too (both in PEM form)");
        return Err(OptionError::new(EXIT_USAGE, message));
    }
    let asks = options
        .tcp_listeners()
        .iter()
        .any(|(_, guard)| guard.is_some_and(|certificate| certificate != Certificate::NotAsked));
    if asks && options.tls.settings.authorities.is_none() {
        let message = "-o ssl_verify_mode or -l mtls: asks clients for certificates; give the authorities to check \
                       them by with -o ssl_ca_cert=FILE";
        return Err(OptionError::new(EXIT_USAGE, message));
    }
    if options.unix_socket.is_some() {
        let notice = "-Z has no effect beside -s: a Unix socket is not encrypted";
        options.notices.push(notice.to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use scrubjay_tls::Certificate::{Asked, NotAsked, Required};

    use crate::options::parse::tests::parse_as_user as parse;
    use crate::options::{EXIT_USAGE, settings};

    const FILES: &str = "-Z -o ssl_chain_cert=c,ssl_key=k";

    #[test]
    fn every_listener_is_guarded_as_it_was_told() {
        fn check(line: &str, expected: &[Option<scrubjay_tls::Certificate>]) {
            let options = parse(line).expect(line);
            let guards: Vec<_> = options.tcp_listeners().iter().map(|(_, guard)| *guard).collect();
            assert_eq!(guards, expected, "{line}");
        }
        check("", &[None]);
        check("-l notls:127.0.0.1", &[None]);
        check(FILES, &[Some(NotAsked)]);
        check(
            &format!("{FILES} -l notls:127.0.0.1:1,127.0.0.1:2,btls:127.0.0.1:3"),
            &[None, Some(NotAsked), Some(NotAsked)],
        );
        let checked = format!("{FILES},ssl_ca_cert=a");
        check(
            &format!("{checked} -l 127.0.0.1:1,mtls:127.0.0.1:2"),
            &[Some(NotAsked), Some(Required)],
        );
        check(
            &format!("{checked},ssl_verify_mode=1 -l 127.0.0.1:1,btls:127.0.0.1:2"),
            &[Some(Asked), Some(NotAsked)],
        );
        check(&format!("{checked},ssl_verify_mode=2"), &[Some(Required)]);
        check(&format!("{checked},ssl_verify_mode=3"), &[Some(Required)]);
    }

    #[test]
    fn what_does_not_fit_is_refused_with_what_to_do() {
        fn check(line: &str, exit: u8, part: &str) {
            let error = parse(line).expect_err(line);
            assert!(error.message.contains(part), "{line}: {error:?}");
            assert_eq!(error.exit, exit, "{line}");
        }
        check("-Z", EXIT_USAGE, "ssl_chain_cert=FILE");
        check("-Z -o ssl_chain_cert=c", EXIT_USAGE, "ssl_key=FILE");
        check("-l mtls:127.0.0.1", EXIT_USAGE, "needs -Z");
        let asks = "asks clients for certificates";
        check(&format!("{FILES} -l mtls:127.0.0.1"), EXIT_USAGE, asks);
        check(&format!("{FILES},ssl_verify_mode=1"), EXIT_USAGE, asks);
        check(&format!("{FILES},ssl_verify_mode=4"), 1, "takes 0 to 3");
        check(&format!("{FILES},ssl_keyformat=ENGINE"), 1, "engine");
        check(&format!("{FILES},ssl_keyformat=3"), 1, "PEM or DER");
        check(&format!("{FILES},ssl_min_version=1"), 1, "not spoken");
        check(&format!("{FILES},ssl_min_version=9"), 1, "tlsv1.3");
        check(
            &format!("{FILES},ssl_ciphers=RC4-MD5"),
            1,
            "ECDHE-RSA-AES128-GCM-SHA256",
        );
        check("-o ssl_key=", 1, "path of a file");
    }

    #[test]
    fn settings_show_what_was_given() {
        let line =
            "-Z -o ssl_chain_cert=c,ssl_key=k,ssl_keyformat=der,ssl_min_version=tlsv1.3,ssl_session_cache";
        let options = parse(line).expect("good");
        let shown = settings(&options);
        for (name, value) in [
            ("ssl_enabled", "yes"),
            ("ssl_chain_cert", "c"),
            ("ssl_keyformat", "2"),
            ("ssl_min_version", "tlsv1.3"),
            ("ssl_session_cache", "yes"),
            ("ssl_ca_cert", "NULL"),
        ] {
            assert!(shown.contains(&(name, value.to_owned())), "{name}: {shown:?}");
        }
        assert!(options.notices.is_empty(), "{:?}", options.notices);
        let without = parse("-o ssl_key=k").expect("accepted");
        assert!(
            without.notices.iter().any(|notice| notice.contains("without -Z")),
            "{:?}",
            without.notices
        );
    }
}
