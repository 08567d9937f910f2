//! Many servers as one: which server a request goes to, and what it costs to ask several at once.
//!
//! Everything that a caller can do is one of three calls: a request and its reply ([`Client::call`]), many at once
//! ([`Client::call_all`]), and one whose reply is delivered later ([`Client::start`]).

use std::borrow::Cow;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, Guard};

use crate::answer::{Answer, Place};
use crate::batch::Routes;
use crate::config::{Apart, Config, ConfigError, Failover};
use crate::connection::{Caller, Desk, Patience};
use crate::discovery::{DiscoveryError, Follower, Source};
use crate::driver::{AllDone, Done, Driver, Kept, Names};
use crate::error::Error;
use crate::failover::{self, Detour, Origin, Pursuit};
use crate::lookups::Found;
use crate::placement::{self, ServerIndex};
use crate::protocol::{Get, Reply, Request};
use crate::set::Set;
use crate::statistics::ServerStatistics;

mod each;

/// Servers, and the connections to them. A clone shares them.
#[derive(Clone, Debug)]
pub struct Client(Arc<Shared>);

#[derive(Debug)]
pub(crate) struct Shared {
    config: Config,
    /// What this process has. A child that was forked starts with nothing, and leaves its parent's alone.
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
        let set = self.set().replaced(&config)?;
        self.set.store(Arc::new(set));
        Ok(())
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// What this process has.
    fn set(&self) -> Guard<Arc<Set>> {
        let set = self.set.load();
        let process = std::process::id();
        if set.process == process {
            return set;
        }
        // Threads that this process does not have may have been in the middle of something: it is left as it is.
        let new = Arc::new(set.afresh(&self.config));
        let before = self.set.compare_and_swap(&set, new);
        if before.process != process {
            mem::forget(Guard::into_inner(before));
        }
        mem::forget(Guard::into_inner(set));
        self.set.load()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // A child that has never used it leaves its parent's alone here, too.
        let set = self.set.load_full();
        if set.process != std::process::id() {
            mem::forget(set);
        }
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
        let set = ArcSwap::from_pointee(Set::new(&config)?);
        Ok(Client(Arc::new(Shared { config, set })))
    }

    /// What it was made from; its servers may have been replaced since.
    pub fn config(&self) -> &Config {
        &self.0.config
    }

    /// The server of a key, the prefix not counted by the caller.
    pub fn place(&self, key: &[u8]) -> ServerIndex {
        self.0.set().placement.place(&self.prefixed(key))
    }

    /// Every server, in the order of the configuration.
    pub fn servers(&self) -> impl Iterator<Item = ServerIndex> {
        (0..self.0.set().count() as u32).map(ServerIndex::new)
    }

    /// What was counted of each server, in the order of the configuration; those of the gutter come last.
    pub fn statistics(&self) -> Vec<ServerStatistics> {
        let set = self.0.set();
        let servers = set.servers.iter();
        servers.map(|server| server.standing().statistics()).collect()
    }

    /// Sets a server offline, or online again: it keeps its keys, and requests for it are requests to a server that is down.
    ///
    /// # Panics
    /// There is no such server.
    pub fn set_offline(&self, server: ServerIndex, offline: bool) {
        self.0.set().servers[server.get()].standing().set_offline(offline);
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
        let patience = self.patience(call);
        let set = self.0.set();
        set.close_idle(patience.since);
        let index = self.route(&set, &request, call.route);
        let server = set.server(index)?;
        let caller = Caller {
            desk: &Desk::of_thread(set.process),
            patience: &patience,
        };
        let key = self.key_on_wire(&request);
        let request = with_key(request, key.as_deref());
        if !self.fails_over(call.route) {
            return server.call(request, caller);
        }
        server.call(failover::again(&request), caller).or_else(|error| {
            let placed = self.placed(&request, call.route);
            let origin = self.origin(&set, &placed, index);
            let ask = |server: usize, request: Request<'_>| set.servers[server].call(request, caller);
            failover::end(origin, &request, error, &patience, ask)
        })
    }

    /// Asks many, all servers at the same time, and waits until all replies are there or the time is up. The replies are in the
    /// order of the requests; what did not come in time says so.
    pub fn call_all(&self, requests: Vec<Request<'_>>, call: Call<'_>) -> Vec<Result<Reply, Error>> {
        self.call_by(requests, |_| call.route, call)
    }

    /// [`Client::call_all`] by the route that each request has by its place; the call's own is not looked at.
    fn call_by<'a>(
        &self,
        requests: Vec<Request<'_>>,
        route: impl Fn(usize) -> Route<'a>,
        call: Call<'_>,
    ) -> Vec<Result<Reply, Error>> {
        let patience = self.patience(call);
        let set = self.0.set();
        set.close_idle(patience.since);
        let routes = match self.routes(&set, &requests, &route) {
            Ok(routes) => routes,
            Err(error) => return requests.iter().map(|_| Err(error.clone())).collect(),
        };
        let mut keys = Vec::new();
        let mut requests = requests;
        if !self.0.config.prefix.is_empty() {
            keys.extend(requests.iter().map(|request| self.key_on_wire(request)));
            let named = requests.into_iter().zip(&keys);
            requests = named
                .map(|(request, key)| with_key(request, key.as_deref()))
                .collect();
        }
        if !(0..requests.len()).any(|at| self.fails_over(route(at))) {
            return set.ask_all(requests, &routes, patience);
        }
        let ask = |requests: Vec<Request<'_>>, routes: &[usize]| set.ask_all(requests, routes, patience);
        let replies = ask(requests.iter().map(failover::again).collect(), &routes);
        let placed = |(at, request)| self.placed(request, route(at));
        let placed: Vec<_> = requests.iter().enumerate().map(placed).collect();
        let origin = |at: usize| self.origin(&set, &placed[at], routes[at]);
        failover::end_all(&requests, replies, origin, &patience, ask)
    }

    /// Looks up many keys, as [`Client::call_all`] does. Cheaper for who has no use for replies of their own. What a lease
    /// [withholds](crate::protocol::reply::Value::is_withheld) is a miss.
    pub fn look_up(&self, keys: &[&[u8]], with_cas: bool, call: Call<'_>) -> Found {
        let get = |key| Get {
            with_cas,
            ..Get::new(key)
        };
        let set = self.0.set();
        if !self.0.config.prefix.is_empty() || self.fails_over(call.route) {
            let requests = keys.iter().map(|key| Request::Get(get(key)));
            return Found::of_replies(self.call_all(requests.collect(), call));
        }
        let patience = self.patience(call);
        set.close_idle(patience.since);
        let placed: Vec<usize>;
        let routes = match call.route {
            Route::Server(index) => set.server(index.get()).map(|_| Routes::All(index.get())),
            Route::As(key) => Ok(Routes::All(set.placement.place(key).get())),
            Route::Key if set.count() == 1 => Ok(Routes::All(0)),
            Route::Key => {
                placed = keys.iter().map(|key| set.placement.place(key).get()).collect();
                Ok(Routes::Each(&placed))
            }
        };
        match routes {
            Ok(routes) => set.look_up(keys, with_cas, routes, patience),
            Err(error) => Found::of_replies(keys.iter().map(|_| Err(error.clone())).collect()),
        }
    }

    /// Asks, and does not wait: `done` gets the reply, exactly once, from a thread of the client's own or before this
    /// returns. It must not block, and must not panic.
    pub fn start(
        &self,
        request: Request<'_>,
        call: Call<'_>,
        done: impl FnOnce(Result<Reply, Error>) + Send + 'static,
    ) {
        let set = self.0.set();
        let index = self.route(&set, &request, call.route);
        // That there is none is told once, below.
        let _ = self.begin(&set, index, request, call, Box::new(done));
    }

    /// [`Client::call_all`] as [`Client::start`].
    pub fn start_all(
        &self,
        requests: Vec<Request<'_>>,
        call: Call<'_>,
        done: impl FnOnce(Vec<Result<Reply, Error>>) + Send + 'static,
    ) {
        // That there is nothing to forget is told once, below.
        let _ = self.begin_all(requests, |_| call.route, call, Box::new(done));
    }

    /// [`Client::start`] as a future, for any runtime. Dropped before its time, it is waited for no more.
    pub fn call_async(
        &self,
        request: Request<'_>,
        call: Call<'_>,
    ) -> impl Future<Output = Result<Reply, Error>> + Send + use<> {
        let place = Place::default();
        let set = self.0.set();
        let index = self.route(&set, &request, call.route);
        let to = place.clone();
        let id = self.begin(&set, index, request, call, Box::new(move |reply| to.put(reply)));
        let known = id.and_then(|id| Some((set.driver().ok()?.clone(), Names::one(id))));
        Answer::new(place, known)
    }

    /// [`Client::call_all`] as [`Client::call_async`].
    pub fn call_all_async(
        &self,
        requests: Vec<Request<'_>>,
        call: Call<'_>,
    ) -> impl Future<Output = Vec<Result<Reply, Error>>> + Send + use<> {
        let place = Place::default();
        let to = place.clone();
        let done = Box::new(move |replies| to.put(replies));
        let known = self.begin_all(requests, |_| call.route, call, done);
        Answer::new(place, known)
    }

    /// Comes when this moment has come; at once if there can be no thread that waits for it.
    pub(crate) fn alarm(&self, until: Instant) -> Answer<()> {
        match self.0.set().driver() {
            Ok(driver) => driver.alarm(until),
            Err(_) => {
                let place = Place::default();
                place.put(());
                Answer::new(place, None)
            }
        }
    }

    /// Asks many by the driver; gives the names by which they can be forgotten, if there is anything to forget.
    fn begin_all<'a>(
        &self,
        requests: Vec<Request<'_>>,
        route: impl Fn(usize) -> Route<'a>,
        call: Call<'_>,
        done: AllDone,
    ) -> Option<(Arc<Driver>, Names)> {
        let set = self.0.set();
        let routed = self.routes(&set, &requests, &route);
        let (routes, driver) = match routed.and_then(|routes| Ok((routes, set.driver()?))) {
            Ok(found) => found,
            Err(error) => {
                done(requests.iter().map(|_| Err(error.clone())).collect());
                return None;
            }
        };
        let fails_over = (0..requests.len()).any(|at| self.fails_over(route(at)));
        let asked = requests.into_iter().zip(routes.iter().copied());
        if !fails_over {
            let patience = set.patience_for(&routes, self.patience(call));
            let kept = asked.map(|(request, index)| self.keep(request, index)).collect();
            return Some((driver.clone(), driver.call_all(kept, patience, done)));
        }
        let all = All::new(asked.len(), done);
        let names = asked.enumerate().filter_map(|(at, (request, index))| {
            let all = all.clone();
            let done = Box::new(move |reply| all.put(at, reply));
            let (route, timeout) = (route(at), call.timeout);
            self.begin(&set, index, request, Call { route, timeout }, done)
        });
        Some((driver.clone(), Names::Each(names.collect())))
    }

    /// Asks by the driver; gives the name by which it can be forgotten, if there is anything to forget.
    fn begin(
        &self,
        set: &Arc<Set>,
        index: usize,
        request: Request<'_>,
        call: Call<'_>,
        done: Done,
    ) -> Option<u64> {
        let patience = self.patience(call);
        let driver = match set.server(index).and_then(|_| set.driver()) {
            Ok(driver) => driver,
            Err(error) => {
                done(Err(error));
                return None;
            }
        };
        let kept = self.keep(request, index);
        let of_server = set.patience_for(&[index], patience);
        if !self.fails_over(call.route) {
            return Some(driver.call(kept, of_server, done));
        }
        let pursuit = Pursuit {
            set: set.clone(),
            failover: self.0.config.failover.clone(),
            placed: kept.with_ref(|request| self.placed(request, call.route).into_owned()),
            own: index,
            kept: kept.clone(),
            patience,
            detour: Detour::default(),
        };
        let done = Box::new(move |reply| pursuit.go_on(reply, done));
        Some(driver.call(kept, of_server, done))
    }

    /// A request that outlives the call, with the key that goes over the wire.
    fn keep(&self, request: Request<'_>, server: usize) -> Kept {
        let key = request.key().map(|key| self.prefixed(key).into());
        Kept::new(key.unwrap_or_default(), request, server)
    }

    fn patience(&self, call: Call<'_>) -> Patience {
        Patience::new(Instant::now(), call.timeout.unwrap_or(self.0.config.timeout))
    }

    fn route(&self, set: &Set, request: &Request<'_>, route: Route<'_>) -> usize {
        match (route, request.key()) {
            (Route::Server(index), _) => index.get(),
            (Route::As(key), _) | (Route::Key, Some(key)) => set.placement.place(&self.prefixed(key)).get(),
            (Route::Key, None) => 0,
        }
    }

    /// The server of each; an error if there is none.
    fn routes<'a>(
        &self,
        set: &Set,
        requests: &[Request<'_>],
        route: impl Fn(usize) -> Route<'a>,
    ) -> Result<Vec<usize>, Error> {
        let of = |(at, request)| {
            let index = self.route(set, request, route(at));
            set.server(index).map(|_| index)
        };
        requests.iter().enumerate().map(of).collect()
    }

    /// What the server of a request that has its key on the wire was found by.
    fn placed<'a>(&self, request: &'a Request<'_>, route: Route<'a>) -> Cow<'a, [u8]> {
        match route {
            Route::As(key) => self.prefixed(key),
            Route::Key | Route::Server(_) => request.key().unwrap_or_default().into(),
        }
    }

    /// Whether somebody else may answer for a server that fails.
    fn fails_over(&self, route: Route<'_>) -> bool {
        self.0.config.failover != Failover::Error && !matches!(route, Route::Server(_))
    }

    fn origin<'a>(&'a self, set: &'a Set, key: &'a [u8], own: usize) -> Origin<'a> {
        Origin {
            set,
            failover: &self.0.config.failover,
            key,
            own,
        }
    }

    fn prefixed<'a>(&self, key: &'a [u8]) -> Cow<'a, [u8]> {
        match self.0.config.prefix.as_slice() {
            [] => Cow::Borrowed(key),
            prefix => Cow::Owned([prefix, key].concat()),
        }
    }

    /// The request's key behind the prefix, if there is one.
    fn key_on_wire(&self, request: &Request<'_>) -> Option<Vec<u8>> {
        let key = request.key().filter(|_| !self.0.config.prefix.is_empty())?;
        Some([&self.0.config.prefix, key].concat())
    }
}

fn with_key<'a>(request: Request<'a>, key: Option<&'a [u8]>) -> Request<'a> {
    match key {
        Some(key) => request.with_key(key),
        None => request,
    }
}

/// Replies of many requests that come one by one.
struct All(Mutex<AllState>);

struct AllState {
    replies: Vec<Option<Result<Reply, Error>>>,
    left: usize,
    done: Option<AllDone>,
}

impl All {
    fn new(count: usize, done: AllDone) -> Arc<All> {
        let all = Arc::new(All(Mutex::new(AllState {
            replies: (0..count).map(|_| None).collect(),
            left: count,
            done: Some(done),
        })));
        all.deliver();
        all
    }

    fn put(&self, at: usize, reply: Result<Reply, Error>) {
        {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            state.left -= usize::from(state.replies[at].replace(reply).is_none());
        }
        self.deliver();
    }

    /// Tells once, when nothing is left.
    fn deliver(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.left > 0 {
            return;
        }
        let replies = mem::take(&mut state.replies);
        let done = state.done.take();
        drop(state);
        if let Some(done) = done {
            done(replies.into_iter().flatten().collect());
        }
    }
}
