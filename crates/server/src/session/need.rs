//! What a request needs its user to be allowed to. Asked only where some user may not do everything.

use scrubjay_protocol::binary::{Command, Request as Packet};
use scrubjay_protocol::command::Shape;
use scrubjay_protocol::reply::{self, Words};
use scrubjay_protocol::text::Request;
use scrubjay_protocol::tokens::Tokens;

use super::Context;
use crate::auth::Rights;
use crate::stats::Counter;

/// A command line's, but of those with a data block: they are refused where it is known how long that is.
#[cold]
pub(super) fn of_line(request: Request<'_>, line: &[u8]) -> Rights {
    match request {
        Request::Get { touch: Some(_), .. }
        | Request::Delete { .. }
        | Request::Arith { .. }
        | Request::Touch { .. }
        | Request::Meta(Shape::MetaDelete | Shape::MetaArith) => Rights::Write,
        Request::Meta(Shape::MetaGet) if changes_item(line) => Rights::Write,
        Request::FlushAll { .. }
        | Request::Verbosity { .. }
        | Request::CacheMemlimit { .. }
        | Request::Shutdown { .. }
        | Request::Insides(..) => Rights::Administer,
        Request::Stats(words) => of_statistics(&Tokens::cut(words)),
        _ => Rights::Read,
    }
}

/// A packet's.
#[cold]
pub(super) fn of_packet(request: &Packet<'_>) -> Rights {
    match request.command {
        Command::Store { .. }
        | Command::Delete
        | Command::Arithmetic { .. }
        | Command::Get { touch: Some(_), .. } => Rights::Write,
        Command::Flush { .. } => Rights::Administer,
        Command::Stat => of_statistics(&Tokens::cut(request.key)),
        _ => Rights::Read,
    }
}

/// Reading is for all; what is counted, and since when, is not, and neither are others' keys.
fn of_statistics(words: &Tokens<'_>) -> Rights {
    match (words.get(0), words.get(1)) {
        (b"reset" | b"cachedump", _) | (b"detail", b"on" | b"off") => Rights::Administer,
        _ => Rights::Read,
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
        self.rights != Rights::Administer
    }

    /// Why the user may not do what needs this, if so.
    #[inline]
    pub(super) fn refusal(&self, need: Rights) -> Option<Words> {
        (need > self.rights).then(|| self.forbid(need))
    }

    #[cold]
    fn forbid(&self, need: Rights) -> Words {
        self.counters.add(Counter::CommandsForbidden);
        match need {
            Rights::Administer => reply::MAY_NOT_ADMINISTER,
            Rights::Write | Rights::Read => reply::MAY_ONLY_READ,
        }
    }
}
