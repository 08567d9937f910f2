//! Many servers as one: which server a request goes to, and what it costs to ask several at once.
//!
//! Everything that a caller can do is one of three calls: a request and its reply ([`Client::call`]), many at once
//! ([`Client::call_all`]), and one whose reply is delivered later ([`Client::start`]).

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::config::{Config, ConfigError};
use crate::error::Error;
use crate::placement::{Placement, ServerIndex, Servers};
use crate::protocol::{Reply, Request};
use crate::server::Server;

/// Servers, and the connections to them. A clone shares them.
#[derive(Clone, Debug)]
pub struct Client(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    config: Config,
    placement: Placement,
    servers: Vec<Server>,
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
            .map(|server| Server::new(server, &config))
            .collect();
        Ok(Client(Arc::new(Shared {
            config,
            placement,
            servers,
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

    /// Asks, and waits for the reply. A quiet request is not waited for: its reply is [`Reply::Alive`], which says that it is
    /// on its way.
    ///
    /// # Errors
    /// [`Error`]; an error that the server answers is one, too.
    pub fn call(&self, request: Request<'_>, call: Call<'_>) -> Result<Reply, Error> {
        let deadline = self.deadline(call);
        let server = self.route(&request, call.route);
        server.call(self.with_prefix(request), deadline)
    }

    /// Asks many, all servers at the same time, and waits until all replies are there or the time is up. The replies are in the
    /// order of the requests; what did not come in time says so.
    pub fn call_all(&self, requests: Vec<Request<'_>>, call: Call<'_>) -> Vec<Result<Reply, Error>> {
        let deadline = self.deadline(call);
        let asked = |request: Request<'_>| {
            let server = self.route(&request, call.route);
            server.call(self.with_prefix(request), deadline)
        };
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

    fn route(&self, request: &Request<'_>, route: Route<'_>) -> &Server {
        let index = match route {
            Route::Server(index) => index,
            Route::As(key) => self.place(key),
            Route::Key => self.place(request.key().unwrap_or_default()),
        };
        &self.0.servers[index.get()]
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
