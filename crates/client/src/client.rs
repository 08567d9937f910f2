//! Many servers as one: which server a request goes to, and what it costs to ask several at once.
//!
//! Everything that a caller can do is one of three calls: a request and its reply ([`Client::call`]), many at once
//! ([`Client::call_all`]), and one whose reply is delivered later ([`Client::start`]).

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::config::{Config, ConfigError, Failover};
use crate::error::Error;
use crate::failover::{self, Gutter, Search};
use crate::placement::{Placement, ServerIndex, Servers};
use crate::protocol::{Reply, Request};
use crate::server::Server;
use crate::statistics::ServerStatistics;

/// Servers, and the connections to them. A clone shares them.
#[derive(Clone, Debug)]
pub struct Client(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    config: Config,
    placement: Placement,
    servers: Vec<Server>,
    gutter: Option<Gutter>,
}

/// Where a request goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Route<'a> {
    /// To the server of its key; without a key to the first one.
    #[default]
    Key,
    /// To the server of another key, so that what belongs together lies together.
    As(&'a [u8]),
    /// To this server.
    Server(ServerIndex),
}

/// How a call differs from others.
#[derive(Clone, Copy, Debug, Default)]
pub struct Call<'a> {
    /// Where to.
    pub route: Route<'a>,
    /// How long it may take, everything included, if not as long as configured.
    pub timeout: Option<Duration>,
}

impl Client {
    /// Prepares everything; connections are made when they are needed.
    ///
    /// # Errors
    /// Keys cannot be placed on these servers as the scheme wants it.
    pub fn new(config: Config) -> Result<Client, ConfigError> {
        let servers = Servers::new(config.servers.clone())?;
        let placement = Placement::new(&servers, &config.scheme)?;
        let servers = servers
            .list()
            .iter()
            .enumerate()
            .map(|(index, server)| Server::new(server, &config.of_server(index)))
            .collect();
        let gutter = Gutter::new(&config)?;
        Ok(Client(Arc::new(Shared {
            config,
            placement,
            servers,
            gutter,
        })))
    }

    /// What it was made from.
    pub fn config(&self) -> &Config {
        &self.0.config
    }

    /// The server of a key, the prefix not counted by the caller.
    pub fn place(&self, key: &[u8]) -> ServerIndex {
        self.0.placement.place(&self.prefixed(key))
    }

    /// Every server, in the order of the configuration.
    pub fn servers(&self) -> impl Iterator<Item = ServerIndex> {
        (0..self.0.servers.len() as u32).map(ServerIndex::new)
    }

    /// What was counted of each server, in the order of the configuration; those of the gutter come last.
    pub fn statistics(&self) -> Vec<ServerStatistics> {
        let gutter = self.0.gutter.iter().flat_map(|gutter| &gutter.servers);
        let servers = self.0.servers.iter().chain(gutter);
        servers.map(|server| server.standing().statistics()).collect()
    }

    /// Sets a server offline, or online again: it keeps its keys, and requests for it are requests to a server that is down.
    pub fn set_offline(&self, server: ServerIndex, offline: bool) {
        self.0.servers[server.get()].standing().set_offline(offline);
    }

    /// Asks, and waits for the reply. A quiet request is not waited for: its reply is [`Reply::Alive`], which says that it is
    /// on its way.
    ///
    /// # Errors
    /// [`Error`]; an error that the server answers is one, too.
    pub fn call(&self, request: Request<'_>, call: Call<'_>) -> Result<Reply, Error> {
        self.call_until(request, call.route, self.deadline(call))
    }

    /// Asks many, all servers at the same time, and waits until all replies are there or the time is up. The replies are in the
    /// order of the requests; what did not come in time says so.
    pub fn call_all(&self, requests: Vec<Request<'_>>, call: Call<'_>) -> Vec<Result<Reply, Error>> {
        let deadline = self.deadline(call);
        let asked = |request: Request<'_>| self.call_until(request, call.route, deadline);
        requests.into_iter().map(asked).collect()
    }

    /// Asks, and does not wait: `done` gets the reply, exactly once, from a thread of the client's own or before this
    /// returns. It must not block.
    pub fn start(
        &self,
        request: Request<'_>,
        call: Call<'_>,
        done: impl FnOnce(Result<Reply, Error>) + Send + 'static,
    ) {
        done(self.call(request, call));
    }

    /// [`Client::call_all`] as [`Client::start`].
    pub fn start_all(
        &self,
        requests: Vec<Request<'_>>,
        call: Call<'_>,
        done: impl FnOnce(Vec<Result<Reply, Error>>) + Send + 'static,
    ) {
        done(self.call_all(requests, call));
    }

    fn deadline(&self, call: Call<'_>) -> Instant {
        Instant::now() + call.timeout.unwrap_or(self.0.config.timeout)
    }

    fn call_until(&self, request: Request<'_>, route: Route<'_>, deadline: Instant) -> Result<Reply, Error> {
        let shared = &*self.0;
        let key = match route {
            Route::As(key) => key.to_vec(),
            Route::Key | Route::Server(_) => request.key().unwrap_or_default().to_vec(),
        };
        let key = self.prefixed(&key);
        let own = match route {
            Route::Server(index) => index,
            Route::Key | Route::As(_) => shared.placement.place(&key),
        };
        let server = &shared.servers[own.get()];
        let request = self.with_prefix(request);
        if shared.config.failover == Failover::Error || matches!(route, Route::Server(_)) {
            return server.call(request, deadline);
        }
        let search = Search {
            failover: &shared.config.failover,
            gutter: shared.gutter.as_ref(),
            placement: &shared.placement,
            servers: &shared.servers,
            key: &key,
            own,
            deadline,
        };
        server
            .call(failover::again(&request), deadline)
            .or_else(|error| search.end(&request, error, |server, request| server.call(request, deadline)))
    }

    fn prefixed<'a>(&self, key: &'a [u8]) -> Cow<'a, [u8]> {
        match self.0.config.prefix.as_slice() {
            [] => Cow::Borrowed(key),
            prefix => Cow::Owned([prefix, key].concat()),
        }
    }

    fn with_prefix<'a>(&self, request: Request<'a>) -> Request<'a> {
        request
    }
}
