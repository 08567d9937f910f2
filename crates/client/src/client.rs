//! Many servers as one: which server a request goes to, and what it costs to ask several at once.
//!
//! Everything that a caller can do is one of three calls: a request and its reply ([`Client::call`]), many at once
//! ([`Client::call_all`]), and one whose reply is delivered later ([`Client::start`]).

use std::borrow::Cow;
use std::mem;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, Guard};

use crate::answer::{Answer, Place};
use crate::batch;
use crate::config::{Config, ConfigError, Failover};
use crate::connection::{Caller, Desk, Patience};
use crate::driver::{Driver, Kept};
use crate::error::Error;
use crate::failover::{self, Gutter, Search};
use crate::placement::{self, Placement, ServerIndex, Servers};
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
    places: Vec<placement::Server>,
    gutter: Option<Gutter>,
    /// What this process has. A child that was forked starts with nothing, and leaves its parent's alone.
    own: ArcSwap<Own>,
}

/// What belongs to one process.
#[derive(Debug)]
struct Own {
    process: u32,
    /// Those of the gutter come last.
    servers: Vec<Arc<Server>>,
    /// Started at first use.
    driver: OnceLock<Arc<Driver>>,
    starting: Mutex<()>,
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
        let places = servers.list().to_vec();
        let gutter = Gutter::new(&config, places.len())?;
        let own = Own::new(&places, gutter.as_ref(), &config);
        Ok(Client(Arc::new(Shared {
            config,
            placement,
            places,
            gutter,
            own: ArcSwap::from_pointee(own),
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
        (0..self.0.places.len() as u32).map(ServerIndex::new)
    }

    /// What was counted of each server, in the order of the configuration; those of the gutter come last.
    pub fn statistics(&self) -> Vec<ServerStatistics> {
        let own = self.own();
        own.servers
            .iter()
            .map(|server| server.standing().statistics())
            .collect()
    }

    /// Sets a server offline, or online again: it keeps its keys, and requests for it are requests to a server that is down.
    pub fn set_offline(&self, server: ServerIndex, offline: bool) {
        self.own().servers[server.get()].standing().set_offline(offline);
    }

    /// Asks, and waits for the reply. A quiet request is not waited for: its reply is [`Reply::Alive`], which says that it is
    /// on its way.
    ///
    /// # Errors
    /// [`Error`]; an error that the server answers is one, too.
    pub fn call(&self, request: Request<'_>, call: Call<'_>) -> Result<Reply, Error> {
        let patience = self.patience(call);
        let own = self.own();
        let index = self.route(&request, call.route);
        let server = &own.servers[index.get()];
        let caller = Caller {
            desk: &Desk::of_thread(own.process),
            patience: &patience,
        };
        let key = self.prefixed_owned(&request);
        let request = match &key {
            Some(key) => request.with_key(key),
            None => request,
        };
        if !self.fails_over(call.route) {
            return server.call(request, caller);
        }
        server.call(failover::again(&request), caller).or_else(|error| {
            let placed = self.placed(&request, call.route);
            self.search(&own, &placed, index)
                .end(&request, error, |server, request| server.call(request, caller))
        })
    }

    /// Asks many, all servers at the same time, and waits until all replies are there or the time is up. The replies are in the
    /// order of the requests; what did not come in time says so.
    pub fn call_all(&self, requests: Vec<Request<'_>>, call: Call<'_>) -> Vec<Result<Reply, Error>> {
        let patience = self.patience(call);
        let own = self.own();
        let routes: Vec<usize> = requests
            .iter()
            .map(|request| self.route(request, call.route).get())
            .collect();
        let keys: Vec<Option<Vec<u8>>> = requests
            .iter()
            .map(|request| self.prefixed_owned(request))
            .collect();
        let requests: Vec<Request<'_>> = requests
            .into_iter()
            .zip(&keys)
            .map(|(request, key)| match key {
                Some(key) => request.with_key(key),
                None => request,
            })
            .collect();
        if !self.fails_over(call.route) {
            return own.ask_all(requests, &routes, patience);
        }
        let mut replies = own.ask_all(requests.iter().map(failover::again).collect(), &routes, patience);
        let placed: Vec<Cow<'_, [u8]>> = requests
            .iter()
            .map(|request| self.placed(request, call.route))
            .collect();
        let searches: Vec<_> = (0..requests.len())
            .filter(|at| replies[*at].as_ref().is_err_and(Error::is_failure))
            .map(|at| {
                (
                    at,
                    self.search(&own, &placed[at], ServerIndex::new(routes[at] as u32)),
                )
            })
            .collect();
        failover::end_all(
            &requests,
            &mut replies,
            &searches,
            &patience,
            |requests, routes| own.ask_all(requests, routes, patience),
        );
        replies
    }

    /// Asks, and does not wait: `done` gets the reply, exactly once, from a thread of the client's own or before this
    /// returns. It must not block, and must not panic.
    pub fn start(
        &self,
        request: Request<'_>,
        call: Call<'_>,
        done: impl FnOnce(Result<Reply, Error>) + Send + 'static,
    ) {
        let own = self.own();
        match own.driver() {
            Ok(driver) => {
                driver.call(self.keep(request, call), self.patience(call), Box::new(done));
            }
            Err(error) => done(Err(error)),
        }
    }

    /// [`Client::call_all`] as [`Client::start`].
    pub fn start_all(
        &self,
        requests: Vec<Request<'_>>,
        call: Call<'_>,
        done: impl FnOnce(Vec<Result<Reply, Error>>) + Send + 'static,
    ) {
        let own = self.own();
        match own.driver() {
            Ok(driver) => {
                let keep = |request| self.keep(request, call);
                let kept = requests.into_iter().map(keep).collect();
                driver.call_all(kept, self.patience(call), Box::new(done));
            }
            Err(error) => done(requests.iter().map(|_| Err(error.clone())).collect()),
        }
    }

    /// [`Client::start`] as a future, for any runtime. Dropped before its time, it is waited for no more.
    pub fn call_async(
        &self,
        request: Request<'_>,
        call: Call<'_>,
    ) -> impl Future<Output = Result<Reply, Error>> + Send + use<> {
        let place = Place::default();
        let own = self.own();
        let known = match own.driver() {
            Ok(driver) => {
                let to = place.clone();
                let done = move |reply| to.put(reply);
                let id = driver.call(self.keep(request, call), self.patience(call), Box::new(done));
                Some((driver.clone(), id))
            }
            Err(error) => {
                place.put(Err(error));
                None
            }
        };
        Answer::new(place, known)
    }

    /// A request that outlives the call, with the key that goes over the wire.
    fn keep(&self, request: Request<'_>, call: Call<'_>) -> Kept {
        let server = self.route(&request, call.route).get();
        let key = request.key().map(|key| self.prefixed(key).into());
        Kept::new(key.unwrap_or_default(), request, server)
    }

    fn patience(&self, call: Call<'_>) -> Patience {
        Patience::new(Instant::now(), call.timeout.unwrap_or(self.0.config.timeout))
    }

    /// What this process has.
    fn own(&self) -> Guard<Arc<Own>> {
        let own = self.0.own.load();
        let process = std::process::id();
        if own.process == process {
            return own;
        }
        // Threads that this process does not have may have been in the middle of something: it is left as it is.
        let new = Arc::new(Own::new(&self.0.places, self.0.gutter.as_ref(), &self.0.config));
        let before = self.0.own.compare_and_swap(&own, new);
        if before.process != process {
            mem::forget(Guard::into_inner(before));
        }
        mem::forget(Guard::into_inner(own));
        self.0.own.load()
    }

    fn route(&self, request: &Request<'_>, route: Route<'_>) -> ServerIndex {
        match (route, request.key()) {
            (Route::Server(index), _) => index,
            (Route::As(key), _) | (Route::Key, Some(key)) => self.place(key),
            (Route::Key, None) => ServerIndex::new(0),
        }
    }

    /// What the server is found by.
    fn placed<'a>(&self, request: &'a Request<'_>, route: Route<'a>) -> Cow<'a, [u8]> {
        match route {
            Route::As(key) => self.prefixed(key),
            // The prefix is in front of it already.
            Route::Key | Route::Server(_) => request.key().unwrap_or_default().into(),
        }
    }

    /// Whether somebody else may answer for a server that fails.
    fn fails_over(&self, route: Route<'_>) -> bool {
        self.0.config.failover != Failover::Error && !matches!(route, Route::Server(_))
    }

    fn search<'a>(&'a self, own: &'a Own, key: &'a [u8], server: ServerIndex) -> Search<'a> {
        Search {
            failover: &self.0.config.failover,
            gutter: self.0.gutter.as_ref(),
            placement: &self.0.placement,
            servers: &own.servers,
            key,
            own: server,
        }
    }

    fn prefixed<'a>(&self, key: &'a [u8]) -> Cow<'a, [u8]> {
        match self.0.config.prefix.as_slice() {
            [] => Cow::Borrowed(key),
            prefix => Cow::Owned([prefix, key].concat()),
        }
    }

    /// The request's key behind the prefix, if there is one.
    fn prefixed_owned(&self, request: &Request<'_>) -> Option<Vec<u8>> {
        let key = request.key().filter(|_| !self.0.config.prefix.is_empty())?;
        Some([&self.0.config.prefix, key].concat())
    }
}

impl Own {
    fn ask_all(
        &self,
        requests: Vec<Request<'_>>,
        routes: &[usize],
        patience: Patience,
    ) -> Vec<Result<Reply, Error>> {
        // As long as the slowest of them may take, if each may take less than the call.
        let slowest = routes
            .iter()
            .map(|server| self.servers[*server].read_timeout())
            .max_by_key(|time| time.unwrap_or(Duration::MAX))
            .flatten();
        let patience = patience.at_most(slowest);
        batch::call(
            &self.servers,
            Desk::of_thread(self.process),
            requests,
            routes,
            patience,
        )
    }

    fn new(places: &[placement::Server], gutter: Option<&Gutter>, config: &Config) -> Own {
        let own = places
            .iter()
            .enumerate()
            .map(|(index, place)| Arc::new(Server::new(place, &config.of_server(index))));
        // None of them is set apart.
        let alike = config.of_server(usize::MAX);
        let gutter = gutter.into_iter().flat_map(|gutter| &gutter.places);
        Own {
            process: std::process::id(),
            servers: own
                .chain(gutter.map(|place| Arc::new(Server::new(place, &alike))))
                .collect(),
            driver: OnceLock::new(),
            starting: Mutex::default(),
        }
    }

    /// The thread for callers who do not wait.
    fn driver(&self) -> Result<&Arc<Driver>, Error> {
        if let Some(driver) = self.driver.get() {
            return Ok(driver);
        }
        let _one = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(driver) = self.driver.get() {
            return Ok(driver);
        }
        let started = Driver::start(&self.servers).map_err(|error| Error::Connect {
            server: "the client".to_owned(),
            reason: format!("no thread for it: {error}"),
        })?;
        Ok(self.driver.get_or_init(|| Arc::new(started)))
    }
}
