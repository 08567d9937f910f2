//! Logging in over text: `set KEY FLAGS EXPTIME LENGTH` with `NAME PASSWORD` as its data block. Key, flags and exptime mean
//! nothing. Source: memcached doc/protocol.txt, "Authentication", and memcached 1.6.18, run.

use scrubjay_base::number::parse_u64;
use scrubjay_protocol::reply;
use scrubjay_protocol::text::first_line;
use scrubjay_protocol::tokens::Tokens;

use super::{Guard, LOGIN_LEN_MAX, Step, Verdict};
use crate::auth::Auth;
use crate::session::Context;

/// Longest line before the login, in bytes with its end. Where memcached gives up a line that does not end.
const LINE_LEN_MAX: usize = 2048;

impl Guard {
    pub(super) fn handle_line(
        &mut self,
        auth: &Auth,
        context: &Context<'_>,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Step {
        let line = match first_line(input) {
            Some(line) if line.len <= LINE_LEN_MAX => line,
            None if input.len() < LINE_LEN_MAX => return Step::Incomplete,
            _ => return Step::Close,
        };
        let Some(login_len) = login_len(line.bytes) else {
            reply::line(out, reply::UNAUTHENTICATED);
            return Step::Answered(line.len);
        };
        if login_len > LOGIN_LEN_MAX as u64 {
            // As memcached 1.6.45: the block, if it comes, is taken for lines, of which none but a login does anything.
            self.fail(auth, context, b"");
            reply::line(out, reply::AUTH_TOO_LONG);
            return self.after(Verdict::Wrong, line.len);
        }
        let (start, end) = (line.len, line.len + login_len as usize);
        let Some(ending) = input.get(end..end + 2) else {
            return Step::Incomplete;
        };
        let login = &input[start..end];
        let len = end + 2;
        if ending != b"\r\n" {
            reply::line(out, reply::AUTH_BAD_END);
            return Step::Answered(len);
        }
        let Some(blank) = login.iter().position(|&byte| byte == b' ') else {
            reply::line(out, reply::AUTH_BAD_TOKEN);
            return Step::Answered(len);
        };
        let Some(verdict) = self.decide(auth, context, &login[..blank], &login[blank + 1..]) else {
            return Step::Later;
        };
        let words = match verdict {
            Verdict::Right => "STORED",
            Verdict::Wrong => reply::AUTH_FAILURE,
            Verdict::TooMany => reply::TOO_MANY_OF_USER,
            Verdict::Busy => reply::LOGINS_BUSY,
        };
        reply::line(out, words);
        self.after(verdict, len)
    }
}

/// Bytes of the data block, if this is the line of a login.
fn login_len(line: &[u8]) -> Option<u64> {
    let tokens = Tokens::cut(line);
    let is_login = tokens.get(0) == b"set" && tokens.count() >= 5;
    is_login
        .then(|| parse_u64(tokens.get(4)))
        .flatten()
        .filter(|&len| len <= u32::MAX.into())
}
