//! A client as its options want it, with a near cache before it or without: what bindings ask.

use std::time::Duration;

use super::{NearCache, Replies};
use crate::client::{Call, Client, Route};
use crate::config::{Config, ConfigError};
use crate::error::Error;
use crate::protocol::{Reply, Request};

/// A client, and the near cache before it if [`Config::near`] wants one. A clone shares both.
#[derive(Clone, Debug)]
pub enum Front {
    /// Everything is asked of the servers.
    Plain(Client),
    /// What there is a copy of is not.
    Near(NearCache),
}

impl Front {
    /// Prepares everything. With a near cache it waits as [`NearCache::new`] does.
    ///
    /// # Errors
    /// As [`Client::new`] and [`NearCache::new`].
    pub fn new(config: Config) -> Result<Front, ConfigError> {
        let near = config.near.clone();
        let client = Client::new(config)?;
        Ok(match near.bytes_max {
            0 => Front::Plain(client),
            _ => Front::Near(NearCache::new(client, &near)?),
        })
    }

    /// The client.
    pub fn client(&self) -> &Client {
        match self {
            Front::Plain(client) => client,
            Front::Near(near) => near.client(),
        }
    }

    /// The near cache, if there is one.
    pub fn near(&self) -> Option<&NearCache> {
        match self {
            Front::Plain(_) => None,
            Front::Near(near) => Some(near),
        }
    }

    /// As [`Client::call`].
    ///
    /// # Errors
    /// As there.
    pub fn call(&self, request: Request<'_>, call: Call<'_>) -> Result<Reply, Error> {
        match self {
            Front::Plain(client) => client.call(request, call),
            Front::Near(near) => near.call(request, call),
        }
    }

    /// As [`Client::call_all`].
    pub fn call_all(&self, requests: Vec<Request<'_>>, call: Call<'_>) -> Replies {
        match self {
            Front::Plain(client) => client.call_all(requests, call),
            Front::Near(near) => near.call_all(requests, call),
        }
    }

    /// As [`Client::call_each`].
    ///
    /// # Panics
    /// As there.
    pub fn call_each(&self, asks: Vec<(Request<'_>, Route<'_>)>, timeout: Option<Duration>) -> Replies {
        match self {
            Front::Plain(client) => client.call_each(asks, timeout),
            Front::Near(near) => near.call_each(asks, timeout),
        }
    }

    /// As [`Client::start`].
    pub fn start(
        &self,
        request: Request<'_>,
        call: Call<'_>,
        done: impl FnOnce(Result<Reply, Error>) + Send + 'static,
    ) {
        match self {
            Front::Plain(client) => client.start(request, call, done),
            Front::Near(near) => near.start(request, call, done),
        }
    }

    /// As [`Client::start_each`].
    ///
    /// # Panics
    /// As there.
    pub fn start_each(
        &self,
        asks: Vec<(Request<'_>, Route<'_>)>,
        timeout: Option<Duration>,
        done: impl FnOnce(Replies) + Send + 'static,
    ) {
        match self {
            Front::Plain(client) => client.start_each(asks, timeout, done),
            Front::Near(near) => near.start_each(asks, timeout, done),
        }
    }
}
