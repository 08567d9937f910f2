//! Addresses behind `-l`.

use scrubjay_tls::Certificate;

use super::Options;

/// One address to listen on, not yet looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Host name or address; `None` is every address of this machine.
    pub host: Option<String>,
    /// Port, if it was given here; else `-p` holds.
    pub port: Option<u16>,
    /// Whether it is encrypted.
    pub guard: Guard,
}

/// What stands before an address about TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Guard {
    /// Nothing: as `-Z` and `-o ssl_verify_mode` say.
    #[default]
    AsOthers,
    /// `notls:`, never encrypted.
    Plain,
    /// `btls:` or `mtls:`, encrypted, and clients are asked for this.
    Tls(Certificate),
}

/// Each prefix with what it means.
const GUARDS: &[(&str, Guard)] = &[
    ("notls:", Guard::Plain),
    ("btls:", Guard::Tls(Certificate::NotAsked)),
    ("mtls:", Guard::Tls(Certificate::Required)),
];

impl Listen {
    /// Whether only this machine can reach it, as far as can be told without asking a name server.
    pub fn is_loopback(&self) -> bool {
        let Some(host) = &self.host else { return false };
        host.eq_ignore_ascii_case("localhost")
            || host
                .parse::<std::net::IpAddr>()
                .is_ok_and(|address| address.is_loopback())
    }
}

/// Adds the addresses of one `-l`.
pub(super) fn set(options: &mut Options, list: &str) -> Result<(), String> {
    for text in list.split([',', ';']) {
        options.listen.push(parse(text)?);
    }
    Ok(())
}

/// The addresses as `-l` takes them.
pub(super) fn text(list: &[Listen]) -> String {
    let one = |listen: &Listen| {
        let host = listen.host.as_deref().unwrap_or("*");
        let prefix = GUARDS
            .iter()
            .find(|(_, guard)| *guard == listen.guard)
            .map_or("", |(prefix, _)| *prefix);
        let address = match listen.port {
            Some(port) if host.contains(':') => format!("[{host}]:{port}"),
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        format!("{prefix}{address}")
    };
    list.iter().map(one).collect::<Vec<_>>().join(",")
}

pub(super) fn parse(text: &str) -> Result<Listen, String> {
    let guarded = GUARDS
        .iter()
        .find_map(|(prefix, guard)| Some((text.strip_prefix(prefix)?, *guard)));
    let (address, guard) = guarded.unwrap_or((text, Guard::AsOthers));
    for (prefix, why) in [
        ("proto[", "the protocol is set by -B for all addresses"),
        ("tag[", "tags are for the proxy"),
    ] {
        if address.starts_with(prefix) {
            return Err(format!("{why}; leave out {prefix}..."));
        }
    }
    let (host, port) = if let Some(rest) = address.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or("the ] is missing")?;
        match rest.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None if rest.is_empty() => (host, None),
            None => return Err("after ] comes :PORT or nothing".to_owned()),
        }
    } else {
        match address.split_once(':') {
            // More than one colon is an IPv6 address without a port.
            Some((_, rest)) if rest.contains(':') => (address, None),
            Some((host, port)) => (host, Some(port)),
            None => (address, None),
        }
    };
    if host.is_empty() {
        return Err("give HOST, HOST:PORT or [IPv6]:PORT, such as 0.0.0.0 or [::1]:11211".to_owned());
    }
    let port = port
        .map(|port| {
            port.parse::<u16>()
                .map_err(|_| format!("{port:?} is no port, they go from 0 to 65535"))
        })
        .transpose()?;
    let host = (host != "*").then(|| host.to_owned());
    Ok(Listen { host, port, guard })
}
