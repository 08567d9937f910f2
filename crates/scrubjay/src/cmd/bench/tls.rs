//! What can be said about encryption.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, value_parser};
use scrubjay_tls::{Client, ClientSettings, Trust};

/// The options.
pub(super) fn args() -> Vec<Arg> {
    let flag = |name: &'static str, help: &'static str| {
        let arg = Arg::new(name).long(name).action(ArgAction::SetTrue);
        arg.help(help)
    };
    let file = |name: &'static str, help: &'static str| {
        let arg = Arg::new(name).long(name).value_name("FILE").requires("tls");
        arg.value_parser(value_parser!(PathBuf)).help(help)
    };
    vec![
        flag(
            "tls",
            "Encrypt, to each server but the floor; needs --tls-ca or --tls-no-verify",
        ),
        file("tls-ca", "Authorities that vouch for the server, in PEM form").conflicts_with("tls-no-verify"),
        flag("tls-no-verify", "Believe any certificate").requires("tls"),
        Arg::new("tls-name")
            .long("tls-name")
            .value_name("NAME")
            .requires("tls")
            .help("Name in the server's certificate [default: the address's host, or localhost]"),
        file("tls-cert", "Certificate to show to the server, in PEM form").requires("tls-key"),
        file("tls-key", "Its private key, in PEM form").requires("tls-cert"),
        flag(
            "tls-resume",
            "Resume sessions of earlier connections; else every handshake is a full one",
        )
        .requires("tls"),
    ]
}

/// How to encrypt, and the name that is expected of every server if one was given; none if nothing is to be.
pub(super) fn read(matches: &ArgMatches) -> Result<Option<(Client, Option<String>)>, String> {
    if !matches.get_flag("tls") {
        return Ok(None);
    }
    let path = |name: &str| matches.get_one::<PathBuf>(name).cloned();
    let trust = match path("tls-ca") {
        Some(path) => Trust::Authorities(path),
        None if matches.get_flag("tls-no-verify") => Trust::Anybody,
        None => {
            return Err("--tls: say which server to believe, by --tls-ca FILE or --tls-no-verify".to_owned());
        }
    };
    let settings = ClientSettings {
        trust,
        pair: path("tls-cert").zip(path("tls-key")),
        resumption: matches.get_flag("tls-resume"),
    };
    let name = matches.get_one::<String>("tls-name").cloned();
    let client = Client::load(&settings, name.as_deref().unwrap_or("localhost"));
    Ok(Some((client.map_err(|why| why.to_string())?, name)))
}

/// The host in `HOST:PORT`, as a certificate may name it; of anything else, this one.
pub(super) fn host_of(server: &str) -> &str {
    match server.rsplit_once(':') {
        Some((host, _)) if !server.contains([' ', '/']) => host.trim_start_matches('[').trim_end_matches(']'),
        _ => "localhost",
    }
}

#[cfg(test)]
mod tests {
    use super::host_of;

    #[test]
    fn the_host_is_what_stands_before_the_port() {
        let check = |server: &str, host: &str| assert_eq!(host_of(server), host, "{server}");
        check("cache.example.org:11211", "cache.example.org");
        check("[::1]:11211", "::1");
        check("/run/cache.sock", "localhost");
        check("scrubjay -Z -l 127.0.0.1:5", "localhost");
        check("scrubjay", "localhost");
    }
}
