//! A login that another server goes by: the user's name, looked up there among those who may connect.

use scrubjay_net::Peer;

use super::Guard;
use crate::auth::Auth;
use crate::session::carry::{Reader, Writer};

impl Guard {
    /// Whether nothing has happened at it yet. What is being verified has not happened: it begins again.
    pub(in crate::session) fn is_fresh(&self) -> bool {
        self.login.is_none() && self.failures == 0 && !self.sasl_begun
    }

    pub(in crate::session) fn pack(&self, writer: &mut Writer) {
        writer.number(self.failures.into());
        writer.flag(self.sasl_begun);
        writer.option(self.login.as_ref(), |writer, login| writer.bytes(login.name()));
    }

    /// `None` if the user is unknown to `auth` or has as many connections as it may. Without users nobody is asked for.
    pub(in crate::session) fn unpack(
        reader: &mut Reader<'_>,
        auth: Option<&Auth>,
        peer: Peer,
    ) -> Option<Guard> {
        let mut guard = Guard::new(peer);
        guard.failures = u32::try_from(reader.number()?).ok()?;
        guard.sasl_begun = reader.flag()?;
        let name = reader.option(Reader::bytes)?;
        if let (Some(name), Some(auth)) = (name, auth) {
            guard.login = Some(auth.readmit(name)?);
        }
        Some(guard)
    }
}
