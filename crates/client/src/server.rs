//! One server: its connections, and whether it is worth asking.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::config::Config;
use crate::connection::Connection;
use crate::error::Error;
use crate::placement;
use crate::protocol::{Reply, Request};

/// A server that may or may not be connected.
#[derive(Debug)]
pub(crate) struct Server {
    place: placement::Server,
    config: Config,
    connection: Mutex<Option<Connection>>,
}

impl Server {
    pub(crate) fn new(place: &placement::Server, config: &Config) -> Server {
        Server {
            place: place.clone(),
            config: config.clone(),
            connection: Mutex::new(None),
        }
    }

    /// How messages call it.
    pub(crate) fn name(&self) -> String {
        match self.place.port {
            0 => self.place.host.clone(),
            port => format!("{}:{port}", self.place.host),
        }
    }

    pub(crate) fn call(&self, request: Request<'_>, deadline: Instant) -> Result<Reply, Error> {
        let mut slot = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let mut connection = match slot.take() {
            Some(connection) => connection,
            None => Connection::open(self.name(), &self.place, &self.config, deadline)?,
        };
        let reply = connection.call(request, deadline);
        if !reply.as_ref().is_err_and(Error::is_failure) {
            *slot = Some(connection);
        }
        reply
    }
}
