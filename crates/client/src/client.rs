//! Many servers as one: which server a request goes to, and what it costs to ask several at once.
//!
//! Everything that a caller can do is one of three calls: a request and its reply ([`Client::call`]), many at once
//! ([`Client::call_all`]), and one whose reply is delivered later ([`Client::start`]).

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;

use crate::config::{Apart, Config, ConfigError, Failover};
use crate::discovery::{DiscoveryError, Follower, Source};
use crate::error::Error;
use crate::failover::{Detour, Origin, Step};
use crate::placement::{self, ServerIndex};
use crate::protocol::{Reply, Request};
use crate::set::Set;
use crate::statistics::ServerStatistics;

/// Servers, and the connections to them. A clone shares them.
#[derive(Clone, Debug)]
pub struct Client(Arc<Shared>);

#[derive(Debug)]
pub(crate) struct Shared {
    config: Config,
    set: ArcSwap<Set>,
}

impl Shared {
    /// Other servers from now on. What is being asked is answered by those it was sent to.
    pub(crate) fn replace(
        &self,
        servers: Vec<placement::Server>,
        apart: Vec<Apart>,
    ) -> Result<(), ConfigError> {
        let config = Config {
            servers,
            apart,
            ..self.config.clone()
        };
        let set = Set::new(&config, Some(&self.set.load()))?;
        self.set.store(Arc::new(set));
        Ok(())
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }
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
        let set = ArcSwap::from_pointee(Set::new(&config, None)?);
        Ok(Client(Arc::new(Shared { config, set })))
    }

    /// What it was made from; its servers may have been replaced since.
    pub fn config(&self) -> &Config {
        &self.0.config
    }

    /// The server of a key, the prefix not counted by the caller.
    pub fn place(&self, key: &[u8]) -> ServerIndex {
        self.0.set.load().placement.place(&self.prefixed(key))
    }

    /// Every server, in the order of the configuration.
    pub fn servers(&self) -> impl Iterator<Item = ServerIndex> {
        (0..self.0.set.load().count as u32).map(ServerIndex::new)
    }

    /// What was counted of each server, in the order of the configuration; those of the gutter come last.
    pub fn statistics(&self) -> Vec<ServerStatistics> {
        let set = self.0.set.load();
        let servers = set.servers.iter();
        servers.map(|server| server.standing().statistics()).collect()
    }

    /// Sets a server offline, or online again: it keeps its keys, and requests for it are requests to a server that is down.
    ///
    /// # Panics
    /// There is no such server.
    pub fn set_offline(&self, server: ServerIndex, offline: bool) {
        self.0.set.load().servers[server.get()]
            .standing()
            .set_offline(offline);
    }

    /// Other servers from now on, for all who share this client. Connections to servers that stay, and what is known of these,
    /// stay too; what is being asked is answered by those it was sent to. A [`ServerIndex`] is one of the new list.
    ///
    /// # Errors
    /// Keys cannot be placed on these servers; then nothing has changed.
    pub fn reconfigure(&self, servers: Vec<placement::Server>) -> Result<(), ConfigError> {
        self.0.replace(servers, Vec::new())
    }

    /// Takes the servers from somewhere: at once, and again each time so long has passed, by a thread that ends with the returned
    /// [`Follower`] or with the client. If they cannot be read later on, they stay as they are, and the hook is told.
    ///
    /// # Errors
    /// They cannot be read now.
    pub fn follow(&self, source: Source, every: Duration) -> Result<Follower, DiscoveryError> {
        Follower::start(&self.0, source, every)
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
        let set = self.0.set.load();
        let key = match route {
            Route::As(key) => key.to_vec(),
            Route::Key | Route::Server(_) => request.key().unwrap_or_default().to_vec(),
        };
        let key = self.prefixed(&key);
        let own = match route {
            Route::Server(index) => index.get(),
            Route::Key | Route::As(_) => set.placement.place(&key).get(),
        };
        if own >= set.count {
            return Err(Error::Connect {
                server: format!("server {own}"),
                reason: format!("there are only {} servers now", set.count),
            });
        }
        let request = self.with_prefix(request);
        if self.0.config.failover == Failover::Error || matches!(route, Route::Server(_)) {
            return set.servers[own].call(request, deadline);
        }
        let origin = Origin {
            set: &set,
            failover: &self.0.config.failover,
            key: &key,
            own,
        };
        let mut detour = Detour::default();
        let mut at = own;
        loop {
            let error = match set.servers[at].call(set.fit(at, &request), deadline) {
                Err(error) if error.is_failure() => error,
                result => return result,
            };
            match detour.after(error, &request, origin, Instant::now() < deadline) {
                Step::Ask(server) => at = server,
                Step::End(result) => return result,
            }
        }
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
