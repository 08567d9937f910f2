//! The door of a server that knows its users: what is answered before a login, and the login itself.
//!
//! One request a call, so that whoever sends many of them before a login has many turns between which others have theirs.
//! What a login needs is waited for as a whole and has a small bound; nothing is kept for a peer that has not logged in but
//! this.

mod binary;
mod carry;
mod text;

use std::sync::Arc;

use scrubjay_net::{Handled, Next, Peer};

use super::{Context, Protocol};
use crate::auth::{Auth, Check, Login, Ticket};
use crate::stats::Counter;

/// Longest name and password together, in bytes.
const LOGIN_LEN_MAX: usize = 2048;

/// With this many failed logins a connection is closed.
const FAILURES_MAX: u32 = 3;

/// One connection's guard.
#[derive(Debug)]
pub(super) struct Guard {
    peer: Peer,
    login: Option<Login>,
    /// Where the answer to the login at the start of the input will be.
    pending: Option<Arc<Ticket>>,
    failures: u32,
    /// SASL: the mechanism was named, its data comes with the next step.
    sasl_begun: bool,
}

/// How a request before the login ended.
enum Step {
    /// It is answered; so many bytes are done with.
    Answered(usize),
    /// It is not all there.
    Incomplete,
    /// Its answer will be there later.
    Later,
    /// The last answer is given.
    Close,
}

/// What became of a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Right,
    Wrong,
    TooMany,
    Busy,
}

impl Guard {
    pub(super) fn new(peer: Peer) -> Guard {
        Guard {
            peer,
            login: None,
            pending: None,
            failures: 0,
            sasl_begun: false,
        }
    }

    pub(super) fn login(&self) -> Option<&Login> {
        self.login.as_ref()
    }

    /// Lets a user who has logged in pass, with the rights that it has: `None`. Else handles one request.
    pub(super) fn stop(
        &mut self,
        context: &mut Context<'_>,
        protocol: &Protocol,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Option<Handled> {
        let auth = context.shared.auth.as_deref()?;
        if let Some(login) = &mut self.login {
            if !auth.still_admits(login) {
                return Some(Handled {
                    consumed: 0,
                    next: Next::Close,
                });
            }
            context.rights = login.rights();
            return None;
        }
        let step = match protocol {
            Protocol::Binary(_) => self.handle_packet(auth, context, input, out),
            Protocol::Text(_) | Protocol::Unknown => self.handle_line(auth, context, input, out),
        };
        let (consumed, next) = match step {
            Step::Answered(len) if len < input.len() => (len, Next::Again),
            Step::Answered(len) => (len, Next::Wait),
            Step::Incomplete if input.is_empty() => (0, Next::Wait),
            Step::Incomplete => (0, Next::Partial),
            Step::Later => (0, Next::Later),
            Step::Close => (0, Next::Fail),
        };
        Some(Handled { consumed, next })
    }

    /// Checks a login; `None` if its answer is not there yet, to be asked for again with the same name and password.
    fn decide(
        &mut self,
        auth: &Auth,
        context: &Context<'_>,
        name: &[u8],
        password: &[u8],
    ) -> Option<Verdict> {
        let check = match self.pending.take() {
            Some(ticket) => auth.redeem(&ticket).unwrap_or(Check::Later(ticket)),
            None => auth.check(name, password),
        };
        let verdict = match check {
            Check::Later(ticket) => {
                self.pending = Some(ticket);
                return None;
            }
            Check::Right(login) => {
                self.login = Some(login);
                Verdict::Right
            }
            Check::Wrong => {
                self.fail(auth, context, name);
                return Some(Verdict::Wrong);
            }
            Check::TooMany => {
                context.counters.add(Counter::RejectedByUser);
                Verdict::TooMany
            }
            Check::Busy => Verdict::Busy,
        };
        context.counters.add(Counter::AuthCmds);
        Some(verdict)
    }

    /// Counts and reports a failed login; who knows of no name gives an empty one.
    fn fail(&mut self, auth: &Auth, context: &Context<'_>, name: &[u8]) {
        context.counters.add(Counter::AuthCmds);
        context.counters.add(Counter::AuthErrors);
        auth.note_failure(name, self.peer);
        self.failures += 1;
    }

    /// The step behind an answer: the peer may go on unless that was its last chance.
    fn after(&self, verdict: Verdict, len: usize) -> Step {
        match verdict {
            Verdict::TooMany => Step::Close,
            Verdict::Wrong if self.failures >= FAILURES_MAX => Step::Close,
            _ => Step::Answered(len),
        }
    }
}
