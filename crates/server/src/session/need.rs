//! What a request needs its user to be allowed to. Asked only where some user may not do everything.

use scrubjay_protocol::binary::{Command, Request as Packet};
use scrubjay_protocol::command::Shape;
use scrubjay_protocol::reply::{self, Words};
use scrubjay_protocol::text::Request;
use scrubjay_protocol::tokens::Tokens;

use super::Context;
use crate::auth::Rights;
use crate::stats::Counter;

/// What must be allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Nothing: reading is always allowed.
    Read,
    /// Changing items, their exptimes and leases too.
    Write,
    /// Emptying, stopping or tuning the server, for everybody.
    Administer,
}

impl Need {
    /// A command line's, but of those with a data block: they are refused where it is known how long that is.
    pub(super) fn of_line(request: &Request<'_>, line: &[u8]) -> Need {
        match request {
            Request::Get { touch: Some(_), .. }
            | Request::Delete { .. }
            | Request::Arith { .. }
            | Request::Touch { .. }
            | Request::Meta(Shape::MetaDelete | Shape::MetaArith) => Need::Write,
            Request::Meta(Shape::MetaGet) if changes_item(line) => Need::Write,
            Request::FlushAll { .. }
            | Request::Verbosity { .. }
            | Request::CacheMemlimit { .. }
            | Request::Shutdown { .. }
            | Request::Insides(..) => Need::Administer,
            Request::Stats(words) if Tokens::cut(words).get(0) == b"reset" => Need::Administer,
            _ => Need::Read,
        }
    }

    /// A packet's.
    pub(super) fn of_packet(request: &Packet<'_>) -> Need {
        match request.command {
            Command::Store { .. }
            | Command::Delete
            | Command::Arithmetic { .. }
            | Command::Get { touch: Some(_), .. } => Need::Write,
            Command::Flush { .. } => Need::Administer,
            Command::Stat if request.key == b"reset" => Need::Administer,
            _ => Need::Read,
        }
    }
}

/// Whether an `mg` does more than to read: new exptime, creation of what is missed, a lease.
fn changes_item(line: &[u8]) -> bool {
    let tokens = Tokens::cut(line);
    let flags = tokens.all().iter().skip(2);
    flags.into_iter().any(|flag| b"TNR".contains(&flag[0]))
}

impl Context<'_> {
    /// Whether there may be something that the user may not do.
    #[inline]
    pub(super) fn is_restricted(&self) -> bool {
        self.rights != Rights::ALL
    }

    /// Why the user may not do what needs this, if so.
    pub(super) fn refusal(&self, need: Need) -> Option<Words> {
        let words = match need {
            Need::Write if !self.rights.write => reply::MAY_ONLY_READ,
            Need::Administer if !self.rights.administer => reply::MAY_NOT_ADMINISTER,
            _ => return None,
        };
        self.counters.add(Counter::CommandsForbidden);
        Some(words)
    }
}
