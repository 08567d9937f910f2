//! Logging in over the binary protocol: SASL with the mechanism PLAIN. Source: memcached doc/protocol-binary.txt, "SASL
//! Auth Operations", RFC 4616, and memcached 1.6.18, run.

use scrubjay_protocol::binary::{
    Command, Opcode, ParseError, Request, Shape, Status, encode_error, encode_value, encode_with_status,
    parse,
};

use super::{Guard, LOGIN_LEN_MAX, Step, Verdict};
use crate::auth::Auth;
use crate::session::{Context, VERSION};

/// The one mechanism.
const MECHANISM: &[u8] = b"PLAIN";

/// Longest name of a mechanism, in bytes; as memcached.
const MECHANISM_LEN_MAX: usize = 32;

/// What is said of a login that is right.
const AUTHENTICATED: &[u8] = b"Authenticated";

impl Guard {
    pub(super) fn handle_packet(
        &mut self,
        auth: &Auth,
        context: &Context<'_>,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Step {
        let request = match parse(input) {
            Ok(request) => request,
            Err(ParseError::Incomplete(_)) => return Step::Incomplete,
            Err(ParseError::BadMagic) => return Step::Close,
        };
        let status = match request.command {
            Command::Version => {
                encode_value(request.echo, 0, VERSION.as_bytes(), out);
                return Step::Answered(request.len);
            }
            Command::SaslList => {
                encode_value(request.echo, 0, MECHANISM, out);
                return Step::Answered(request.len);
            }
            Command::SaslAuth | Command::SaslStep => {
                return self.handle_sasl(auth, context, &request, input, out);
            }
            Command::Contradictory => Status::UnknownCommand,
            Command::Invalid if is_for_all(&request) => Status::InvalidArguments,
            _ => Status::AuthFailure,
        };
        encode_error(request.echo, status, status.text(), out);
        Step::Close
    }

    fn handle_sasl(
        &mut self,
        auth: &Auth,
        context: &Context<'_>,
        request: &Request<'_>,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Step {
        let value_len = request.value_len as usize;
        let len = request.len + value_len;
        let fail = |status: Status, out: &mut Vec<u8>| encode_error(request.echo, status, status.text(), out);
        if value_len > LOGIN_LEN_MAX {
            self.fail(auth, context, b"");
            fail(Status::AuthFailure, out);
            return Step::Close;
        }
        let Some(message) = input.get(request.len..len) else {
            return Step::Incomplete;
        };
        if request.key.len() > MECHANISM_LEN_MAX {
            fail(Status::InvalidArguments, out);
            return Step::Answered(len);
        }
        let is_step = request.command == Command::SaslStep;
        if request.key == MECHANISM && message.is_empty() && !is_step {
            self.sasl_begun = true;
            encode_with_status(request.echo, Status::AuthContinue, b"", out);
            return Step::Answered(len);
        }
        let login = plain(message).filter(|_| request.key == MECHANISM && (!is_step || self.sasl_begun));
        let Some((name, password)) = login else {
            self.fail(auth, context, b"");
            fail(Status::AuthFailure, out);
            return self.after(Verdict::Wrong, len);
        };
        let Some(verdict) = self.decide(auth, context, name, password) else {
            return Step::Later;
        };
        self.sasl_begun = false;
        match verdict {
            Verdict::Right => encode_value(request.echo, 0, AUTHENTICATED, out),
            Verdict::Wrong => fail(Status::AuthFailure, out),
            Verdict::TooMany => {
                let text = "Too many open connections of this user";
                encode_error(request.echo, Status::AuthFailure, text, out);
            }
            Verdict::Busy => fail(Status::TemporaryFailure, out),
        }
        self.after(verdict, len)
    }
}

/// Whether an opcode's shape is one that needs no login.
fn is_for_all(request: &Request<'_>) -> bool {
    Opcode::find(request.echo.opcode).is_some_and(|opcode| {
        matches!(
            opcode.shape,
            Shape::Version | Shape::SaslList | Shape::SaslAuth | Shape::SaslStep
        )
    })
}

/// Name and password of a message of the mechanism: `[NAME] 0 NAME 0 PASSWORD`. Nobody may act for another.
fn plain(message: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut parts = message.split(|&byte| byte == 0);
    let (acting, name, password) = (parts.next()?, parts.next()?, parts.next()?);
    let is_plain = parts.next().is_none() && (acting.is_empty() || acting == name) && !name.is_empty();
    is_plain.then_some((name, password))
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn a_plain_message_has_three_parts() {
        let bob: Option<(&[u8], &[u8])> = Some((b"bob", b"secret"));
        assert_eq!(plain(b"\0bob\0secret"), bob);
        assert_eq!(plain(b"bob\0bob\0secret"), bob);
        for wrong in [
            &b""[..],
            b"bob",
            b"\0bob",
            b"ann\0bob\0secret",
            b"\0bob\0secret\0",
            b"\0\0secret",
        ] {
            assert_eq!(plain(wrong), None, "{}", wrong.escape_ascii());
        }
    }
}
