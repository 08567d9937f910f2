//! The address behind `-o admin`, where HTTP is answered.
//!
//! Off unless asked for, as memcached opens no such port: one that nobody knows of is one that nobody guards, and servers
//! side by side would contend for it. A port alone means loopback, because there is no login.

use super::listen::{self, Guard};
use super::{DEFAULT_HOST, Options};

/// Takes `PORT` or `ADDR:PORT`; the last one given counts.
pub(super) fn set(options: &mut Options, text: &str) -> Result<(), String> {
    let is_port = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let place = if is_port {
        listen::parse(&format!("{DEFAULT_HOST}:{text}"))?
    } else {
        listen::parse(text)?
    };
    if place.guard != Guard::AsOthers {
        return Err("HTTP is answered in the clear; leave the prefix out".to_owned());
    }
    if place.port.is_none() {
        return Err("the port is missing; give PORT or ADDR:PORT, such as 9150 or [::1]:9150".to_owned());
    }
    options.admin = Some(place);
    Ok(())
}

/// Says what whoever opens the port to a network should know.
pub(super) fn settle(options: &mut Options) {
    if options.admin.as_ref().is_some_and(|place| !place.is_loopback()) {
        let notice = "warning: whoever reaches the -o admin port may read statistics and ask about keys; there is no login and \
                      no encryption, so let only a trusted network reach it";
        options.notices.push(notice.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use crate::options::{Environment, OptionError, Options, add_to, resolve, settings};

    fn parse(line: &str) -> Result<Options, OptionError> {
        let environment = Environment {
            memory_limit: None,
            is_root: true,
        };
        let words = ["serve"].into_iter().chain(line.split_whitespace());
        let matches = add_to(clap::Command::new("serve")).try_get_matches_from(words);
        resolve(&matches.expect("options that exist"), &environment)
    }

    #[test]
    fn a_port_alone_is_of_this_machine() {
        fn check(line: &str, expected: Option<(Option<&str>, u16)>) {
            assert_eq!(parse(line).expect(line).admin_address(), expected, "{line}");
        }
        check("-u x", None);
        check("-u x -o admin=9150", Some((Some("127.0.0.1"), 9150)));
        check("-u x --admin 0", Some((Some("127.0.0.1"), 0)));
        check("-u x -o admin=[::1]:7,maxconns_fast", Some((Some("::1"), 7)));
        check("-u x -o admin=localhost:7", Some((Some("localhost"), 7)));
        check("-u x -o admin=1 -o admin=*:2", Some((None, 2)));
    }

    #[test]
    fn what_is_no_address_is_refused_with_what_to_do() {
        fn check(line: &str, part: &str) {
            let error = parse(line).expect_err(line);
            assert!(error.message.contains(part), "{line}: {error:?}");
        }
        check("-o admin=", "HOST:PORT");
        check("-o admin=65536", "65535");
        check("-o admin=10.0.0.1", "the port is missing");
        check("-o admin=btls:127.0.0.1:7", "in the clear");
        check("-o admin=0.0.0.0:7", "as root");
    }

    #[test]
    fn a_network_is_served_with_a_warning_and_settings_show_it() {
        let is_warned = |line: &str| {
            let notices = parse(line).expect(line).notices;
            notices.iter().any(|notice| notice.contains("no login"))
        };
        assert!(is_warned("-u x -o admin=0.0.0.0:7") && !is_warned("-u x -o admin=7"));
        let options = parse("-u x -o admin=7").expect("good");
        assert!(settings(&options).contains(&("admin", "127.0.0.1:7".to_owned())));
    }
}
