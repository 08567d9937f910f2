//! Copies of values in this process, before a [`Client`]: what is asked for often is answered without asking a server.
//!
//! Nobody gets one unless he makes one. How long a copy may be older than what the server has is bounded by the server's stream
//! of invalidations ([`stream`]): at most a second, and while that cannot be promised everything is asked of the servers. Own
//! writes through the same near cache are seen at once. Servers without such a stream can be used if that is wanted
//! ([`Coherence::TtlOnly`]); a copy may then be as old as [`Settings::ttl`].
//!
//! What is kept: values that were asked for by a plain get from the server of their key, whole and without a lease. All else
//! passes through, and what may change an item or shows a newer one removes the copy.

mod copies;
mod follower;
mod front;
pub mod stream;

use std::fmt;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, Guard};
use scrubjay_base::time::Now;

use self::copies::{Copies, Fill, Place, add};
use self::follower::{Firsts, Follower};
pub use self::front::Front;
use crate::client::{Call, Client, Route};
use crate::config::Failover;
use crate::error::Error;
use crate::placement::ServerIndex;
use crate::protocol::{Get, Lease, Reply, Request, Value};

/// What a near cache is held to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Most bytes of all copies, with what keeping them takes.
    pub bytes_max: usize,
    /// How long a copy is kept, whatever is told or not told about it.
    pub ttl: Duration,
    /// What bounds how old a copy may be.
    pub coherence: Coherence,
}

/// What bounds how old a copy may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coherence {
    /// The servers tell what changes: a second.
    Stream,
    /// Nothing else: [`Settings::ttl`].
    TtlOnly,
}

impl Default for Settings {
    /// 64 MiB, ten seconds, and servers that tell.
    fn default() -> Settings {
        Settings {
            bytes_max: 64 << 20,
            ttl: Duration::from_secs(10),
            coherence: Coherence::Stream,
        }
    }
}

/// Why there is no near cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NearError {
    /// A setting is 0.
    Zero(&'static str),
    /// A server tells nothing, or not to us.
    NotTold {
        /// Which server.
        server: String,
        /// Why.
        reason: String,
    },
    /// A key may be found at more than one server.
    ManyPlaces(&'static str),
    /// There is no thread for it.
    Thread(String),
}

impl fmt::Display for NearError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NearError::Zero(name) => write!(f, "near cache: {name} is 0; give more"),
            NearError::NotTold { server, reason } => write!(
                f,
                "near cache: {server}: {reason}; use scrubjay and a user who may watch, or ask for a near cache that goes by \
                 time alone"
            ),
            NearError::ManyPlaces(what) => write!(
                f,
                "near cache: with {what} a key may be found at more than one server; use another setting, or no near cache"
            ),
            NearError::Thread(why) => {
                write!(f, "near cache: no thread: {why}; allow the process more of them")
            }
        }
    }
}

impl std::error::Error for NearError {}

/// What a near cache has done since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Gets answered by a copy.
    pub hits: u64,
    /// Gets that were asked of a server and may have become a copy.
    pub misses: u64,
    /// Gets that were passed through, as their server was not followed.
    pub passed: u64,
    /// Keys that servers told about.
    pub invalidations: u64,
    /// How often all copies of a server went.
    pub flushes: u64,
    /// Answers that were not kept, as something was told about their key meanwhile.
    pub voids: u64,
    /// Copies in memory, those that are not served any more too.
    pub copies: u64,
    /// Bytes that they take.
    pub bytes: u64,
}

/// A client with copies of what it has read. A clone shares them.
#[derive(Clone, Debug)]
pub struct NearCache(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    client: Client,
    settings: Settings,
    /// What this process has. A child that was forked starts with nothing, and leaves its parent's alone.
    here: ArcSwap<Here>,
}

/// The copies of one process, and who keeps them right.
#[derive(Debug)]
struct Here {
    process: u32,
    copies: Arc<Copies>,
    ttl_nanos: u64,
    clock: Clock,
    follower: Option<Follower>,
}

/// Where moments come from.
#[derive(Clone, Copy, Debug)]
struct Clock(Instant);

impl Clock {
    fn now(self) -> Now {
        // 0 is no moment.
        Now::from_nanos(self.0.elapsed().as_nanos() as u64 + 1)
    }
}

/// A get that is on its way to its server.
struct Asked {
    fill: Fill,
    at: Now,
}

impl NearCache {
    /// A near cache before `client`, empty. With [`Coherence::Stream`] it waits until each server that can be reached has told
    /// how far it is; one that cannot be reached is tried again and again, and meanwhile its keys pass through.
    ///
    /// # Errors
    /// A server has no stream of invalidations or refuses it; the client's settings are none for a near cache.
    pub fn new(client: Client, settings: &Settings) -> Result<NearCache, NearError> {
        if settings.bytes_max == 0 {
            return Err(NearError::Zero("bytes_max"));
        }
        if settings.ttl.is_zero() {
            return Err(NearError::Zero("ttl"));
        }
        if !client.config().scheme.finds_again() {
            return Err(NearError::ManyPlaces("a scheme that draws a server each time"));
        }
        match client.config().failover {
            Failover::Error | Failover::Miss => {}
            Failover::Next(_) => return Err(NearError::ManyPlaces("failover to the next servers")),
            Failover::Gutter { .. } => return Err(NearError::ManyPlaces("failover to a gutter")),
        }
        let (here, firsts) = Here::new(&client, settings)?;
        if let Some(firsts) = firsts {
            firsts.wait(client.config())?;
        }
        Ok(NearCache(Arc::new(Shared {
            client,
            settings: settings.clone(),
            here: ArcSwap::from_pointee(here),
        })))
    }

    /// The client behind it. What is changed there is known here as what others change: within a second.
    pub fn client(&self) -> &Client {
        &self.0.client
    }

    /// The value of a key, shared with others who read it; `None` is a miss.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Arc<Value>>, Error> {
        let here = self.0.here();
        if let Some(value) = here.look(key, None) {
            return Ok(Some(value));
        }
        let asked = here.begin(key, Place::Own(self.0.client.place(key)));
        let reply = self.0.client.call(question(key), Call::default())?;
        Ok(match reply {
            Reply::Value(value) => Some(here.end(asked, key, value)),
            _ => None,
        })
    }

    /// As [`Client::call`]. A plain get is answered by a copy if there is one.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn call(&self, request: Request<'_>, call: Call<'_>) -> Result<Reply, Error> {
        self.call_each(vec![(request, call.route)], call.timeout)
            .pop()
            .expect("a reply to each request")
    }

    /// As [`Client::call_all`]; what has no copy is asked for in one call.
    pub fn call_all(&self, requests: Vec<Request<'_>>, call: Call<'_>) -> Replies {
        let asks = requests.into_iter().map(|request| (request, call.route));
        self.call_each(asks.collect(), call.timeout)
    }

    /// As [`Client::call_each`].
    ///
    /// # Panics
    /// As there.
    pub fn call_each(&self, asks: Vec<(Request<'_>, Route<'_>)>, timeout: Option<Duration>) -> Replies {
        let (shared, here) = (&self.0, self.0.here());
        let plan = shared.plan(&here, asks);
        let mut left = plan.left;
        let replies = match left.len() {
            0 => Vec::new(),
            1 => {
                let (request, route) = left.pop().expect("one");
                vec![shared.client.call(request, Call { route, timeout })]
            }
            _ => shared.client.call_each(left, timeout),
        };
        let done = here.finish(plan.ways, replies);
        shared.change(&here, &plan.changes);
        done
    }

    /// As [`Client::start`].
    pub fn start(
        &self,
        request: Request<'_>,
        call: Call<'_>,
        done: impl FnOnce(Result<Reply, Error>) + Send + 'static,
    ) {
        let done = |mut replies: Replies| done(replies.pop().expect("a reply to each request"));
        self.start_each(vec![(request, call.route)], call.timeout, done);
    }

    /// As [`Client::start_all`].
    pub fn start_all(
        &self,
        requests: Vec<Request<'_>>,
        call: Call<'_>,
        done: impl FnOnce(Replies) + Send + 'static,
    ) {
        let asks = requests.into_iter().map(|request| (request, call.route));
        self.start_each(asks.collect(), call.timeout, done);
    }

    /// As [`Client::start_each`]. What copies answer is told before this returns.
    ///
    /// # Panics
    /// As there.
    pub fn start_each(
        &self,
        asks: Vec<(Request<'_>, Route<'_>)>,
        timeout: Option<Duration>,
        done: impl FnOnce(Replies) + Send + 'static,
    ) {
        let here = Guard::into_inner(self.0.here());
        let Plan { ways, left, changes } = self.0.plan(&here, asks);
        if left.is_empty() {
            return done(here.finish(ways, Vec::new()));
        }
        let shared = Arc::clone(&self.0);
        self.0.client.start_each(left, timeout, move |replies| {
            let replies = here.finish(ways, replies);
            shared.change(&here, &changes);
            done(replies);
        });
    }

    /// Whether copies of this server's values are kept now; if not, why, as far as that is known.
    ///
    /// # Errors
    /// Words for people.
    pub fn is_kept(&self, server: ServerIndex) -> Result<(), String> {
        let here = self.0.here();
        if here.copies.believes(server, here.clock.now()) {
            return Ok(());
        }
        let follower = here.follower.as_ref();
        let trouble = follower.map(|follower| follower.trouble(server));
        let trouble = trouble.filter(|words| !words.is_empty());
        Err(trouble.unwrap_or_else(|| "the server has not told lately how far it is".to_owned()))
    }

    /// What it has done, in this process.
    pub fn counts(&self) -> Counts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let here = self.0.here();
        let counts = &here.copies.counts;
        let (copies, bytes) = here.copies.held();
        Counts {
            hits: read(&counts.hits),
            misses: read(&counts.misses),
            passed: read(&counts.passed),
            invalidations: read(&counts.invalidations),
            flushes: read(&counts.flushes),
            voids: read(&counts.voids),
            copies,
            bytes,
        }
    }
}

type Replies = Vec<Result<Reply, Error>>;

/// What a request makes wrong here, whatever becomes of it.
#[derive(Clone, Debug)]
enum Change {
    Key(Vec<u8>),
    All,
}

/// How a request is answered.
enum Way {
    Here(Value),
    Through,
    Kept(Vec<u8>, Option<Asked>),
}

/// How requests are answered, those of them that are asked, and what they make wrong.
struct Plan<'a, 'b> {
    ways: Vec<Way>,
    left: Vec<(Request<'a>, Route<'b>)>,
    changes: Vec<Change>,
}

/// The get whose answer may be kept, if it is known for how long.
fn question(key: &[u8]) -> Request<'_> {
    Request::Get(Get {
        with_ttl: true,
        ..Get::new(key)
    })
}

/// Whether it is a look-up and nothing else.
fn is_plain(request: &Request<'_>) -> bool {
    let Request::Get(get) = request else {
        return false;
    };
    let Get {
        with_cas: false,
        touch: None,
        vivify: None,
        recache_below: None,
        ..
    } = get
    else {
        return false;
    };
    true
}

impl Here {
    /// Nothing yet, and what will tell how the first connections went.
    fn new(client: &Client, settings: &Settings) -> Result<(Here, Option<Firsts>), NearError> {
        let clock = Clock(Instant::now());
        let is_told = settings.coherence == Coherence::Stream;
        let copies = Arc::new(Copies::new(client.servers().count(), settings.bytes_max, is_told));
        let started = match is_told {
            true => Some(Follower::start(client.config(), &copies, clock)?),
            false => None,
        };
        let (follower, firsts) = started.unzip();
        let here = Here {
            process: std::process::id(),
            copies,
            ttl_nanos: u64::try_from(settings.ttl.as_nanos()).unwrap_or(u64::MAX / 2),
            clock,
            follower,
        };
        Ok((here, firsts))
    }

    /// What a child that was forked has. Nobody waits until servers are followed, or hears why there is no thread: meanwhile all
    /// passes through.
    fn of_child(client: &Client, settings: &Settings) -> Here {
        Here::new(client, settings).map_or_else(
            |_| Here {
                process: std::process::id(),
                copies: Arc::new(Copies::new(client.servers().count(), settings.bytes_max, true)),
                ttl_nanos: 0,
                clock: Clock(Instant::now()),
                follower: None,
            },
            |(here, _)| here,
        )
    }

    fn look(&self, key: &[u8], other: Option<ServerIndex>) -> Option<Arc<Value>> {
        let value = self.copies.get(key, other, self.clock.now())?;
        add(&self.copies.counts.hits);
        Some(value)
    }

    fn begin(&self, key: &[u8], from: Place) -> Option<Asked> {
        let at = self.clock.now();
        let fill = self.copies.begin(key, from, at);
        add(match fill {
            Some(_) => &self.copies.counts.misses,
            None => &self.copies.counts.passed,
        });
        fill.map(|fill| Asked { fill, at })
    }

    fn end(&self, asked: Option<Asked>, key: &[u8], value: Value) -> Arc<Value> {
        let value = Arc::new(value);
        if let Some(Asked { fill, at }) = asked
            && value.lease == Lease::default()
        {
            // Seconds are counted from before it was asked: rather too short than too long.
            let life = value
                .ttl_secs
                .map_or(u64::MAX, |secs| u64::from(secs) * 1_000_000_000);
            self.copies
                .end(fill, key, &value, at.plus_nanos(self.ttl_nanos.min(life)));
        }
        value
    }

    /// All replies, of which these are those to what was asked.
    fn finish(&self, ways: Vec<Way>, replies: Replies) -> Replies {
        let mut replies = replies.into_iter();
        let mut next = || replies.next().expect("a reply to each request");
        let finish = |way: Way| match way {
            Way::Here(value) => Ok(Reply::Value(value)),
            Way::Through => next(),
            Way::Kept(key, asked) => match next() {
                Ok(Reply::Value(value)) => {
                    let value = self.end(asked, &key, value);
                    // Nobody else may have it: then it is not copied.
                    Ok(Reply::Value(Arc::unwrap_or_clone(value)))
                }
                other => other,
            },
        };
        ways.into_iter().map(finish).collect()
    }
}

impl Shared {
    /// What this process has.
    fn here(&self) -> Guard<Arc<Here>> {
        let here = self.here.load();
        let process = std::process::id();
        if here.process == process {
            return here;
        }
        // Threads that this process does not have may have been in the middle of something: it is left as it is.
        let new = Arc::new(Here::of_child(&self.client, &self.settings));
        let before = self.here.compare_and_swap(&here, new);
        if before.process != process {
            mem::forget(Guard::into_inner(before));
        }
        mem::forget(Guard::into_inner(here));
        self.here.load()
    }

    fn change(&self, here: &Here, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Key(key) => here.copies.change(key),
                Change::All => self.client.servers().for_each(|server| here.copies.flush(server)),
            }
        }
    }

    /// What these requests make wrong is so from now on. Everything but a plain get counts: what it brings may be newer.
    fn plan<'a, 'b>(&self, here: &Here, asks: Vec<(Request<'a>, Route<'b>)>) -> Plan<'a, 'b> {
        let of = |(request, _): &(Request<'_>, Route<'_>)| match request {
            Request::Flush { .. } => Some(Change::All),
            request if is_plain(request) => None,
            request => request.key().map(|key| Change::Key(key.to_vec())),
        };
        let mut plan = Plan {
            ways: Vec::with_capacity(asks.len()),
            left: Vec::new(),
            changes: asks.iter().filter_map(of).collect(),
        };
        self.change(here, &plan.changes);
        for (request, route) in asks {
            let way = match request.key().filter(|_| is_plain(&request)) {
                None => Way::Through,
                Some(key) => self.way(here, key, route),
            };
            match (&way, request) {
                (Way::Here(_), _) => {}
                (Way::Kept(..), Request::Get(get)) => {
                    let get = Get {
                        with_ttl: true,
                        ..get
                    };
                    plan.left.push((Request::Get(get), route));
                }
                (_, request) => plan.left.push((request, route)),
            }
            plan.ways.push(way);
        }
        plan
    }

    /// How a plain get is answered.
    fn way(&self, here: &Here, key: &[u8], route: Route<'_>) -> Way {
        let other = match route {
            Route::Key => None,
            Route::As(other) => Some(self.client.place(other)),
            Route::Server(_) => return Way::Through,
        };
        match here.look(key, other) {
            Some(value) => Way::Here(value.as_ref().clone()),
            None => {
                let from = other.map_or_else(|| Place::Own(self.client.place(key)), Place::Other);
                Way::Kept(key.to_vec(), here.begin(key, from))
            }
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // A child that has never used it leaves its parent's alone here, too.
        let here = self.here.load_full();
        if here.process != std::process::id() {
            mem::forget(here);
        }
    }
}
