//! One server: its connections, and whether it is worth asking.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::config::Config;
use crate::connection::Connection;
use crate::error::Error;
use crate::placement;
use crate::protocol::{Reply, Request};
use crate::standing::Standing;

/// A server that may or may not be connected.
#[derive(Debug)]
pub(crate) struct Server {
    place: placement::Server,
    config: Config,
    connection: Mutex<Option<Connection>>,
    standing: Standing,
}

impl Server {
    pub(crate) fn new(place: &placement::Server, config: &Config) -> Server {
        Server {
            place: place.clone(),
            config: config.clone(),
            connection: Mutex::new(None),
            standing: Standing::new(place, config),
        }
    }

    pub(crate) fn call(&self, request: Request<'_>, deadline: Instant) -> Result<Reply, Error> {
        let sent = Instant::now();
        self.admit(sent)?;
        let reply = self.ask(request, sent, deadline);
        self.note(&reply, sent);
        reply
    }

    fn ask(&self, request: Request<'_>, start: Instant, deadline: Instant) -> Result<Reply, Error> {
        let mut slot = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let mut connection = match slot.take() {
            Some(connection) => connection,
            None => Connection::open(&self.standing, &self.place, &self.config, deadline)?,
        };
        let reply = connection.call(request, start, deadline);
        if !reply.as_ref().is_err_and(Error::is_failure) {
            *slot = Some(connection);
        }
        reply
    }

    /// Whether it may be asked, what was counted of it, who is told.
    pub(crate) fn standing(&self) -> &Standing {
        &self.standing
    }

    /// See [`Standing::admit`].
    pub(crate) fn admit(&self, now: Instant) -> Result<(), Error> {
        self.standing.admit(now)
    }

    /// See [`Standing::note`].
    pub(crate) fn note(&self, result: &Result<Reply, Error>, sent: Instant) {
        self.standing.note(result, sent);
    }
}
