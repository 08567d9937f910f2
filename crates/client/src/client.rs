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
use crate::config::{Config, ConfigError};
use crate::connection::{Caller, Desk, Patience};
use crate::driver::{Driver, Kept};
use crate::error::Error;
use crate::placement::{self, Placement, ServerIndex, Servers};
use crate::protocol::{Reply, Request};
use crate::server::Server;

/// Servers, and the connections to them. A clone shares them.
#[derive(Clone, Debug)]
pub struct Client(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    config: Config,
    placement: Placement,
    places: Vec<placement::Server>,
    /// What this process has. A child that was forked starts with nothing, and leaves its parent's alone.
    own: ArcSwap<Own>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // A child that has never used it leaves its parent's alone here, too.
        let own = self.own.load_full();
        if own.process != std::process::id() {
            mem::forget(own);
        }
    }
}

/// What belongs to one process.
#[derive(Debug)]
struct Own {
    process: u32,
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
        let own = Own::new(&places, &config);
        Ok(Client(Arc::new(Shared {
            config,
            placement,
            places,
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

    /// Asks, and waits for the reply. A quiet request is not waited for: its reply is [`Reply::Alive`], which says that it is
    /// on its way.
    ///
    /// # Errors
    /// [`Error`]; an error that the server answers is one, too.
    pub fn call(&self, request: Request<'_>, call: Call<'_>) -> Result<Reply, Error> {
        let patience = self.patience(call);
        let own = self.own();
        let server = &own.servers[self.route(&request, call.route).get()];
        let caller = Caller {
            desk: &Desk::of_thread(own.process),
            patience: &patience,
        };
        if self.0.config.prefix.is_empty() {
            return server.call(request, caller);
        }
        let key = self.prefixed(request.key().unwrap_or_default()).into_owned();
        server.call(request.with_key(&key), caller)
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
        let desk = Desk::of_thread(own.process);
        if self.0.config.prefix.is_empty() {
            return batch::call(&own.servers, desk, requests, &routes, patience);
        }
        let keys: Vec<Cow<'_, [u8]>> = requests
            .iter()
            .map(|request| {
                self.prefixed(request.key().unwrap_or_default())
                    .into_owned()
                    .into()
            })
            .collect();
        let requests = requests
            .into_iter()
            .zip(&keys)
            .map(|(request, key)| request.with_key(key))
            .collect();
        batch::call(&own.servers, desk, requests, &routes, patience)
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
        let new = Arc::new(Own::new(&self.0.places, &self.0.config));
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

    fn prefixed<'a>(&self, key: &'a [u8]) -> Cow<'a, [u8]> {
        match self.0.config.prefix.as_slice() {
            [] => Cow::Borrowed(key),
            prefix => Cow::Owned([prefix, key].concat()),
        }
    }
}

impl Own {
    fn new(places: &[placement::Server], config: &Config) -> Own {
        Own {
            process: std::process::id(),
            servers: places
                .iter()
                .map(|place| Arc::new(Server::new(place, config)))
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
