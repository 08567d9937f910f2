//! The one table of options: how each is read from text and shown as text. What is not text (servers, what differs between them,
//! the hook) is set in [`Config`] itself.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Config, Failover, Login, parse_server};
use crate::near::Coherence;
use crate::protocol::{Form, Order};
use crate::tls::TlsSettings;

/// An option, as all bindings have it.
pub struct OptionRow {
    /// Its name.
    pub name: &'static str,
    /// What values it takes.
    pub wanted: &'static str,
    /// What it does, in one sentence.
    pub help: &'static str,
    pub(super) set: fn(&mut Config, &str) -> Option<()>,
    show: fn(&Config) -> String,
}

impl OptionRow {
    /// Its value as text, as it can be set; a password is not shown.
    pub fn show(&self, config: &Config) -> String {
        (self.show)(config)
    }
}

impl fmt::Debug for OptionRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Longest that a caller looks for its reply before it sleeps.
const SPIN_US_MAX: u64 = 1000;
/// Most connections to a server.
const CONNECTIONS_MAX: usize = 1024;

/// Most memory that a near cache can be given: a TiB.
const MIB_MAX: u64 = 1 << 20;

/// All options.
pub static OPTIONS: &[OptionRow] = &[
    OptionRow {
        name: "scheme",
        wanted: "a scheme, or SCHEME/HASH",
        help: "Which server has a key; docs/client/placement.md lists the schemes.",
        set: |config, text| put(&mut config.scheme, text.parse().ok()),
        show: |config| config.scheme.to_string(),
    },
    OptionRow {
        name: "prefix",
        wanted: "any text",
        help: "Put before every key.",
        set: |config, text| put(&mut config.prefix, Some(text.into())),
        show: |config| String::from_utf8_lossy(&config.prefix).into_owned(),
    },
    OptionRow {
        name: "connect_timeout_ms",
        wanted: "milliseconds, at least 1",
        help: "How long a connection may take to be made.",
        set: |config, text| put(&mut config.connect_timeout, millis(text)),
        show: |config| show_millis(config.connect_timeout),
    },
    OptionRow {
        name: "timeout_ms",
        wanted: "milliseconds, at least 1",
        help: "How long a call may take, everything included: connecting, and all servers that are asked one after the other.",
        set: |config, text| put(&mut config.timeout, millis(text)),
        show: |config| show_millis(config.timeout),
    },
    OptionRow {
        name: "read_timeout_ms",
        wanted: "milliseconds, at least 1, or none",
        help: "How long one server may take to answer once it is connected; less than timeout_ms leaves time to ask another one.",
        set: |config, text| put(&mut config.read_timeout, none_or(text, millis)),
        show: |config| show_or_none(config.read_timeout, show_millis),
    },
    OptionRow {
        name: "spin_us",
        wanted: "microseconds, 0 to 1000",
        help: "How long a caller looks for its reply again and again, giving way in between, before it sleeps until it comes, as long again for each 64 keys asked at once, 8 times at most; only where replies tend to come within it. Who waits while another caller reads gives way a few times. 0: all sleep at once.",
        set: |config, text| {
            let span = text.parse().ok().filter(|span| *span <= SPIN_US_MAX);
            put(&mut config.spin, span.map(Duration::from_micros))
        },
        show: |config| config.spin.as_micros().to_string(),
    },
    OptionRow {
        name: "connections",
        wanted: "1 to 1024",
        help: "Connections to each server, shared by all callers.",
        set: |config, text| {
            let count = text
                .parse()
                .ok()
                .filter(|count| (1..=CONNECTIONS_MAX).contains(count));
            put(&mut config.connections, count)
        },
        show: |config| config.connections.to_string(),
    },
    OptionRow {
        name: "keepalive_secs",
        wanted: "seconds, at least 1, or none",
        help: "When a connection has been silent for so long, the kernel asks whether it still stands. TCP_NODELAY is always on.",
        set: |config, text| put(&mut config.keepalive, none_or(text, secs)),
        show: |config| show_or_none(config.keepalive, |time| time.as_secs().to_string()),
    },
    OptionRow {
        name: "idle_secs",
        wanted: "seconds, at least 1, or none",
        help: "When nothing was asked over a connection for so long, it is closed; the next request makes another one.",
        set: |config, text| put(&mut config.idle, none_or(text, secs)),
        show: |config| show_or_none(config.idle, |time| time.as_secs().to_string()),
    },
    OptionRow {
        name: "form",
        wanted: "auto, meta or classic",
        help: "Which commands a server is sent; auto asks it at the first connection.",
        set: |config, text| {
            let form = match text {
                "auto" => Some(None),
                "meta" => Some(Some(Form::Meta)),
                "classic" => Some(Some(Form::Classic)),
                _ => None,
            };
            put(&mut config.form, form)
        },
        show: |config| {
            let form = match config.form {
                None => "auto",
                Some(Form::Meta) => "meta",
                Some(Form::Classic) => "classic",
            };
            form.to_owned()
        },
    },
    OptionRow {
        name: "order",
        wanted: "kept or free",
        help: "Whether replies come in the order of the requests, as from servers, or in any, as from some proxies.",
        set: |config, text| {
            let order = match text {
                "kept" => Some(Order::Kept),
                "free" => Some(Order::Free),
                _ => None,
            };
            put(&mut config.order, order)
        },
        show: |config| {
            let order = match config.order {
                Order::Kept => "kept",
                Order::Free => "free",
            };
            order.to_owned()
        },
    },
    OptionRow {
        name: "value_len_max",
        wanted: "bytes, at least 1",
        help: "Most bytes of a value, sent or received.",
        set: |config, text| {
            put(
                &mut config.value_len_max,
                text.parse().ok().filter(|len| *len > 0),
            )
        },
        show: |config| config.value_len_max.to_string(),
    },
    OptionRow {
        name: "failure_limit",
        wanted: "a number, 1 to 16383",
        help: "From so many failures in a row a server is held to be down.",
        set: |config, text| put(&mut config.failure_limit, failures(text)),
        show: |config| config.failure_limit.to_string(),
    },
    OptionRow {
        name: "connect_failure_limit",
        wanted: "a number, 1 to 16383, or none",
        help: "The same for failures of which the last was that no connection could be made; none: failure_limit. Each may take connect_timeout_ms, so 1 spares the next calls that.",
        set: |config, text| put(&mut config.connect_failure_limit, none_or(text, failures)),
        show: |config| show_or_none(config.connect_failure_limit, |limit| limit.to_string()),
    },
    OptionRow {
        name: "retry_interval_ms",
        wanted: "milliseconds, at least 1",
        help: "How long a server that is down is left alone before it is probed.",
        set: |config, text| put(&mut config.retry_interval, millis(text)),
        show: |config| show_millis(config.retry_interval),
    },
    OptionRow {
        name: "retry_interval_max_ms",
        wanted: "milliseconds, at least 1",
        help: "The interval doubles with every probe that fails, up to this; not longer than the interval, it never doubles.",
        set: |config, text| put(&mut config.retry_interval_max, millis(text)),
        show: |config| show_millis(config.retry_interval_max),
    },
    OptionRow {
        name: "failover",
        wanted: "error, miss, next:COUNT or gutter:SERVER;SERVER;.../SECONDS",
        help: "What becomes of a request whose server is down; docs/client/failover.md has the table.",
        set: |config, text| put(&mut config.failover, parse_failover(text)),
        show: |config| show_failover(&config.failover),
    },
    OptionRow {
        name: "login",
        wanted: "USER:PASSWORD, or none",
        help: "Told at the start of each connection.",
        set: |config, text| {
            let login = none_or(text, |text| {
                text.split_once(':').map(|(user, password)| Login {
                    user: user.to_owned(),
                    password: password.to_owned(),
                })
            });
            put(&mut config.login, login)
        },
        show: |config| show_or_none(config.login.as_ref(), |login| format!("{}:...", login.user)),
    },
    OptionRow {
        name: "tls",
        wanted: "yes or no",
        help: "Connections are encrypted, and the server has to prove who it is; docs/client/tls.md.",
        set: |config, text| put_tls(config, yes_or_no(text), |tls, on| tls.on = on),
        show: |config| show_truth(config.tls.settings().on),
    },
    OptionRow {
        name: "tls_ca",
        wanted: "a file in PEM form, or system",
        help: "Which authorities are believed: those of this file, or those that the system believes.",
        set: |config, text| {
            put_tls(config, file_unless(text, "system"), |tls, file| {
                tls.authorities = file
            })
        },
        show: |config| show_file(config.tls.settings().authorities.as_deref(), "system"),
    },
    OptionRow {
        name: "tls_cert",
        wanted: "a file in PEM form, or none",
        help: "A certificate to show, with its chain, to servers that demand one.",
        set: |config, text| {
            put_tls(config, file_unless(text, "none"), |tls, file| {
                tls.certificate = file
            })
        },
        show: |config| show_file(config.tls.settings().certificate.as_deref(), "none"),
    },
    OptionRow {
        name: "tls_key",
        wanted: "a file in PEM form, or none",
        help: "The key of this certificate; none: it stands in the same file.",
        set: |config, text| put_tls(config, file_unless(text, "none"), |tls, file| tls.key = file),
        show: |config| show_file(config.tls.settings().key.as_deref(), "none"),
    },
    OptionRow {
        name: "tls_name",
        wanted: "a host's name or address, or none",
        help: "What the servers' certificates call them; none: each as its host is called here.",
        set: |config, text| {
            let name = none_or(text, |text| Some(text.to_owned()).filter(|name| !name.is_empty()));
            put_tls(config, name, |tls, name| tls.name = name)
        },
        show: |config| show_or_none(config.tls.settings().name.clone(), |name| name),
    },
    OptionRow {
        name: "tls_accept_any_certificate",
        wanted: "yes or no",
        help: "Whoever answers is believed: anybody on the way can read and change everything. For trials only.",
        set: |config, text| {
            put_tls(config, yes_or_no(text), |tls, any| {
                tls.accept_any_certificate = any
            })
        },
        show: |config| show_truth(config.tls.settings().accept_any_certificate),
    },
    OptionRow {
        name: "near_cache_mib",
        wanted: "MiB, or none",
        help: "What copies in this process may take, which answer instead of servers; docs/client/near_cache.md says how old they may be. Rust makes its own.",
        set: |config, text| {
            let mib = none_or(text, |text| above_zero(text).filter(|mib| *mib <= MIB_MAX));
            put(
                &mut config.near.bytes_max,
                mib.map(|mib| (mib.unwrap_or(0) as usize) << 20),
            )
        },
        show: |config| {
            let mib = Some(config.near.bytes_max >> 20).filter(|mib| *mib > 0);
            show_or_none(mib, |mib| mib.to_string())
        },
    },
    OptionRow {
        name: "near_cache_ttl_ms",
        wanted: "milliseconds, at least 1",
        help: "How long a copy is kept, whatever is told about it.",
        set: |config, text| put(&mut config.near.ttl, millis(text)),
        show: |config| show_millis(config.near.ttl),
    },
    OptionRow {
        name: "near_cache_coherence",
        wanted: "stream or ttl",
        help: "What bounds how old a copy may be: what servers tell, which scrubjay does, or near_cache_ttl_ms alone.",
        set: |config, text| {
            let coherence = match text {
                "stream" => Some(Coherence::Stream),
                "ttl" => Some(Coherence::TtlOnly),
                _ => None,
            };
            put(&mut config.near.coherence, coherence)
        },
        show: |config| {
            let coherence = match config.near.coherence {
                Coherence::Stream => "stream",
                Coherence::TtlOnly => "ttl",
            };
            coherence.to_owned()
        },
    },
];

/// Other settings make other sessions.
fn put_tls<T>(config: &mut Config, value: Option<T>, put: impl FnOnce(&mut TlsSettings, T)) -> Option<()> {
    let value = value?;
    config.tls = config.tls.changed(|settings| put(settings, value));
    Some(())
}

/// Truth, also as other languages write it as text.
fn yes_or_no(text: &str) -> Option<bool> {
    match text {
        "yes" | "true" | "True" | "1" => Some(true),
        "no" | "false" | "False" | "0" => Some(false),
        _ => None,
    }
}

fn show_truth(truth: bool) -> String {
    if truth { "yes" } else { "no" }.to_owned()
}

fn file_unless(text: &str, without: &str) -> Option<Option<PathBuf>> {
    match text {
        "" => None,
        text if text == without => Some(None),
        path => Some(Some(path.into())),
    }
}

fn show_file(file: Option<&Path>, without: &str) -> String {
    file.map_or_else(|| without.to_owned(), |file| file.display().to_string())
}

fn put<T>(place: &mut T, value: Option<T>) -> Option<()> {
    *place = value?;
    Some(())
}

pub(super) fn millis(text: &str) -> Option<Duration> {
    above_zero(text).map(Duration::from_millis)
}

fn secs(text: &str) -> Option<Duration> {
    above_zero(text).map(Duration::from_secs)
}

/// A number that deadlines and sockets can take: above 0, and below a hundred years in milliseconds.
fn above_zero(text: &str) -> Option<u64> {
    const MAX: u64 = 100 * 365 * 86_400 * 1000;
    text.parse().ok().filter(|number| (1..=MAX).contains(number))
}

fn failures(text: &str) -> Option<u32> {
    text.parse().ok().filter(|limit| (1..=16383).contains(limit))
}

fn none_or<T>(text: &str, parse: impl Fn(&str) -> Option<T>) -> Option<Option<T>> {
    match text {
        "none" => Some(None),
        text => parse(text).map(Some),
    }
}

fn show_millis(time: Duration) -> String {
    time.as_millis().to_string()
}

fn show_or_none<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "none".to_owned(), show)
}

fn parse_failover(text: &str) -> Option<Failover> {
    if let Some(count) = text.strip_prefix("next:") {
        let count = count.parse().ok().filter(|count| *count > 0);
        return count.map(Failover::Next);
    }
    if let Some(gutter) = text.strip_prefix("gutter:") {
        let (servers, ttl) = gutter.rsplit_once('/')?;
        let servers = servers.split(';').map(|server| parse_server(server).ok());
        return Some(Failover::Gutter {
            servers: servers.collect::<Option<_>>()?,
            ttl: secs(ttl)?,
        });
    }
    match text {
        "error" => Some(Failover::Error),
        "miss" => Some(Failover::Miss),
        _ => None,
    }
}

fn show_failover(failover: &Failover) -> String {
    match failover {
        Failover::Error => "error".to_owned(),
        Failover::Miss => "miss".to_owned(),
        Failover::Next(count) => format!("next:{count}"),
        Failover::Gutter { servers, ttl } => {
            let servers: Vec<String> = servers.iter().map(super::show_server).collect();
            format!("gutter:{}/{}", servers.join(";"), ttl.as_secs())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::OPTIONS;
    use crate::config::{Config, Failover};

    #[test]
    fn every_default_can_be_set_as_it_is_shown() {
        let mut config = Config::new(Vec::new());
        for row in OPTIONS {
            let shown = row.show(&config);
            assert_eq!(config.set(row.name, &shown), Ok(()), "{row:?}");
            assert_eq!(row.show(&config), shown, "{row:?}");
        }
    }

    #[test]
    fn values_are_shown_as_they_are_set() {
        for (name, texts) in [
            ("scheme", &["ketama", "libmemcached-modula/crc"][..]),
            ("prefix", &["", "p:"]),
            ("timeout_ms", &["1", "50"]),
            ("read_timeout_ms", &["none", "20"]),
            ("spin_us", &["0", "1000"]),
            ("keepalive_secs", &["none", "5"]),
            ("idle_secs", &["none", "60"]),
            ("form", &["auto", "meta", "classic"]),
            ("order", &["kept", "free"]),
            ("failure_limit", &["1", "16383"]),
            ("connect_failure_limit", &["1", "16383", "none"]),
            ("retry_interval_max_ms", &["60000"]),
            ("tls", &["no", "yes"]),
            ("tls_ca", &["system", "/etc/ca.pem"]),
            ("tls_cert", &["none", "client.pem"]),
            ("tls_key", &["none", "key.pem"]),
            ("tls_name", &["none", "cache.example"]),
            ("tls_accept_any_certificate", &["no", "yes"]),
            ("near_cache_mib", &["none", "1", "1048576"]),
            ("near_cache_ttl_ms", &["500"]),
            ("near_cache_coherence", &["stream", "ttl"]),
            (
                "failover",
                &["error", "miss", "next:3", "gutter:a:1;[::1]:2*3;/run/s/60"],
            ),
        ] {
            let row = OPTIONS.iter().find(|row| row.name == name).expect(name);
            for text in texts {
                let mut config = Config::new(Vec::new());
                assert_eq!(config.set(name, text), Ok(()));
                assert_eq!(row.show(&config), *text, "{name}");
            }
        }
        let mut config = Config::new(Vec::new());
        config.set("login", "u:secret").expect("a login");
        let row = OPTIONS.iter().find(|row| row.name == "login").expect("a row");
        assert_eq!(row.show(&config), "u:...");
    }

    #[test]
    fn what_is_no_value_is_refused() {
        let mut config = Config::new(Vec::new());
        for (name, text) in [
            ("failover", "next:0"),
            ("failover", "gutter:/60"),
            ("failover", "gutter:a"),
            ("failover", "gutter:a/0"),
            ("failure_limit", "0"),
            ("failure_limit", "16384"),
            ("connect_failure_limit", "0"),
            ("timeout_ms", "18446744073709551615"),
            ("order", "any"),
            ("connections", "1025"),
            ("spin_us", "1001"),
            ("keepalive_secs", "0"),
            ("idle_secs", "0"),
            ("tls", "maybe"),
            ("tls_ca", ""),
            ("tls_name", ""),
            ("near_cache_mib", "0"),
            ("near_cache_mib", "1048577"),
            ("near_cache_coherence", "none"),
        ] {
            assert!(config.set(name, text).is_err(), "{name} {text}");
        }
        assert_eq!(config.failover, Failover::Error);
    }
}
