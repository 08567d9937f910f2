//! Options of UDP: networks that are trusted with large replies, and what UDP does not go with.

use scrubjay_net::udp::Network;

use super::{EXIT_USAGE, OptionError, Options};

/// Options that demand a login, which belongs to a connection; datagrams have none.
const LOGINS: [(&str, &str); 2] = [("auth-file", "-Y"), ("enable-sasl", "-S")];

/// Adds the networks of one `--udp-allow`.
pub(super) fn set_allowed(options: &mut Options, list: &str) -> Result<(), String> {
    for text in list.split(',') {
        options.udp_allowed.push(text.parse::<Network>()?);
    }
    Ok(())
}

/// A port of UDP alone is TCP's, too. Source: memcached.c.
pub(super) fn share_port(options: &mut Options) {
    if options.udp_port != 0 && options.given("port").is_none() {
        options.port = options.udp_port;
    }
}

/// Checks that what was given makes sense together.
pub(super) fn settle(options: &mut Options) -> Result<(), OptionError> {
    if options.udp_port == 0 {
        let given = |name: &&str| options.given(name).is_some();
        if let Some(name) = ["udp-allow", "udp-amplification"].iter().find(|name| given(name)) {
            options.notices.push(format!("--{name} has no effect without -U"));
        }
        return Ok(());
    }
    if let Some((_, letter)) = LOGINS.iter().find(|(name, _)| options.given(name).is_some()) {
        let message =
            format!("-U cannot serve beside {letter}: a datagram has no login; leave one of them out");
        return Err(OptionError::new(EXIT_USAGE, message));
    }
    if options.unix_socket.is_some() {
        let notice = "-s turns UDP off, as in memcached; -U has no effect beside it";
        options.notices.push(notice.to_owned());
    }
    if options.tls.enabled {
        let notice = "warning: what goes over UDP (-U) is not encrypted, -Z notwithstanding";
        options.notices.push(notice.to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::options::parse::tests::parse_as_user as parse;
    use crate::options::{EXIT_USAGE, Options, settings};

    #[test]
    fn a_port_of_datagrams_alone_is_that_of_connections_too() {
        let check = |line: &str, port| assert_eq!(parse(line).expect(line).port, port, "{line}");
        check("", 11211);
        check("-U 0", 11211);
        check("-U 7", 7);
        check("-U -1", -1);
        check("-U 7 -p 11211", 11211);
        check("-p 0 -U 7", 0);
    }

    #[test]
    fn datagrams_are_served_where_connections_are() {
        fn check(line: &str, expected: &[(Option<&str>, u16)]) {
            assert_eq!(parse(line).expect(line).udp_addresses(), expected, "{line}");
        }
        check("", &[]);
        check("-U 0", &[]);
        check("-U 7", &[(Some("127.0.0.1"), 7)]);
        check("-U -1", &[(Some("127.0.0.1"), 0)]);
        check("-U 7 -p 0 -l ::1,*", &[(Some("::1"), 7), (None, 7)]);
        check("-U 7 -l 127.0.0.1:8", &[(Some("127.0.0.1"), 8)]);
        check("-U 7 -s /tmp/socket", &[]);
    }

    #[test]
    fn what_does_not_fit_is_refused_with_what_to_do() {
        fn check(line: &str, part: &str) {
            let error = parse(line).expect_err(line);
            assert!(error.message.contains(part), "{line}: {error:?}");
        }
        check("-U 65536", "out of range");
        check("-U 7 --udp-allow 10.0.0.0/33", "10.0.0.0/8");
        check("-U 7 --udp-amplification 0", "takes 1 to 1000");
        let given = vec![("auth-file", "users".to_owned())];
        let (udp_port, plain) = (7, Options::default());
        let mut options = Options {
            udp_port,
            given,
            ..plain
        };
        let error = super::settle(&mut options).expect_err("no login");
        assert_eq!(error.exit, EXIT_USAGE);
        assert!(error.message.contains("leave one of them out"));
    }

    #[test]
    fn what_has_no_effect_or_is_dangerous_is_said() {
        fn check(line: &str, part: &str) {
            let notices = parse(line).expect(line).notices;
            assert!(
                notices.iter().any(|notice| notice.contains(part)),
                "{line}: {notices:?}"
            );
        }
        check("--udp-allow 10.0.0.0/8", "no effect without -U");
        check("-U 7 -s /tmp/socket", "turns UDP off");
        check("-U 7 -Z -o ssl_chain_cert=c,ssl_key=k", "not encrypted");
        assert!(parse("-U 7 -p 0").expect("good").notices.is_empty());
        let options = parse("-U 7 --udp-allow 10.0.0.0/8,fd00::/8 --udp-allow 1.2.3.4").expect("good");
        assert_eq!(options.udp_allowed.len(), 3);
        assert!(settings(&options).contains(&("udpport", "7".to_owned())));
    }
}
