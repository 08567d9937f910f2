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
pub mod stream;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use scrubjay_base::time::Now;

use self::copies::{Copies, Fill, add};
use self::follower::Follower;
use crate::client::{Call, Client, Route};
use crate::config::Failover;
use crate::error::Error;
use crate::placement::ServerIndex;
use crate::protocol::{Get, Lease, Reply, Request, Value};

/// What a near cache is held to.
#[derive(Clone, Debug)]
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
        let clock = Clock(Instant::now());
        let is_told = settings.coherence == Coherence::Stream;
        let copies = Arc::new(Copies::new(client.servers().count(), settings.bytes_max, is_told));
        let follower = match is_told {
            true => Some(Follower::start(client.config(), &copies, clock)?),
            false => None,
        };
        Ok(NearCache(Arc::new(Shared {
            client,
            copies,
            ttl_nanos: u64::try_from(settings.ttl.as_nanos()).unwrap_or(u64::MAX / 2),
            clock,
            follower,
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
        if let Some(value) = self.0.look(key) {
            return Ok(Some(value));
        }
        let asked = self.0.begin(key);
        let reply = self.0.client.call(question(key), Call::default())?;
        Ok(match reply {
            Reply::Value(value) => Some(self.0.end(asked, key, value)),
            _ => None,
        })
    }

    /// As [`Client::call`]. A plain get is answered by a copy if there is one.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn call(&self, request: Request<'_>, call: Call<'_>) -> Result<Reply, Error> {
        self.call_all(vec![request], call)
            .pop()
            .expect("a reply to each request")
    }

    /// As [`Client::call_all`]; what has no copy is asked for in one call.
    pub fn call_all(&self, requests: Vec<Request<'_>>, call: Call<'_>) -> Vec<Result<Reply, Error>> {
        let shared = &self.0;
        let changes = shared.begin_changes(&requests);
        let plan = shared.plan(requests, call);
        let mut replies = match plan.left.is_empty() {
            true => Vec::new(),
            false => shared.client.call_all(plan.left, call),
        }
        .into_iter();
        let mut finish = |way: Way| match way {
            Way::Here(value) => Ok(Reply::Value(value)),
            Way::Through => replies.next().expect("a reply to each request"),
            Way::Kept(key, asked) => match replies.next().expect("a reply to each request") {
                Ok(Reply::Value(value)) => Ok(Reply::Value(shared.end(asked, &key, value).as_ref().clone())),
                other => other,
            },
        };
        let done = plan.ways.into_iter().map(&mut finish).collect();
        shared.change(&changes);
        done
    }

    /// As [`Client::start`].
    pub fn start(
        &self,
        request: Request<'_>,
        call: Call<'_>,
        done: impl FnOnce(Result<Reply, Error>) + Send + 'static,
    ) {
        let requests = vec![request];
        let changes = self.0.begin_changes(&requests);
        let mut plan = self.0.plan(requests, call);
        let way = plan.ways.pop().expect("one request");
        if let Way::Here(value) = way {
            return done(Ok(Reply::Value(value)));
        }
        let request = plan.left.pop().expect("what has no copy is asked for");
        let shared = Arc::clone(&self.0);
        self.0.client.start(request, call, move |reply| {
            let reply = match (way, reply) {
                (Way::Kept(key, asked), Ok(Reply::Value(value))) => {
                    Ok(Reply::Value(shared.end(asked, &key, value).as_ref().clone()))
                }
                (_, reply) => reply,
            };
            shared.change(&changes);
            done(reply);
        });
    }

    /// Whether copies of this server's values are kept now; if not, why, as far as that is known.
    ///
    /// # Errors
    /// Words for people.
    pub fn is_kept(&self, server: ServerIndex) -> Result<(), String> {
        if self.0.copies.believes(server, self.0.clock.now()) {
            return Ok(());
        }
        let follower = self.0.follower.as_ref();
        let trouble = follower.map(|follower| follower.trouble(server));
        let trouble = trouble.filter(|words| !words.is_empty());
        Err(trouble.unwrap_or_else(|| "the server has not told lately how far it is".to_owned()))
    }

    /// What it has done.
    pub fn counts(&self) -> Counts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let counts = &self.0.copies.counts;
        let (copies, bytes) = self.0.copies.held();
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

/// How requests are answered, and those of them that are asked.
struct Plan<'a> {
    ways: Vec<Way>,
    left: Vec<Request<'a>>,
}

/// The get whose answer may be kept, if it is known for how long.
fn question(key: &[u8]) -> Request<'_> {
    Request::Get(Get {
        with_ttl: true,
        ..Get::new(key)
    })
}

/// Whether it is a look-up and nothing else, of what lies at the key's own server.
fn is_plain(request: &Request<'_>, call: Call<'_>) -> bool {
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
    call.route == Route::Key
}

impl Shared {
    fn look(&self, key: &[u8]) -> Option<Arc<Value>> {
        let value = self.copies.get(key, self.clock.now())?;
        add(&self.copies.counts.hits);
        Some(value)
    }

    fn begin(&self, key: &[u8]) -> Option<Asked> {
        let (at, source) = (self.clock.now(), self.client.place(key));
        let fill = self.copies.begin(key, source, at);
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

    /// What these requests make wrong, which is so from now on. Everything but a plain get counts: what it brings may be newer.
    fn begin_changes(&self, requests: &[Request<'_>]) -> Vec<Change> {
        let of = |request: &Request<'_>| match request {
            Request::Flush { .. } => Some(Change::All),
            request if is_plain(request, Call::default()) => None,
            request => request.key().map(|key| Change::Key(key.to_vec())),
        };
        let changes: Vec<Change> = requests.iter().filter_map(of).collect();
        self.change(&changes);
        changes
    }

    fn change(&self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Key(key) => self.copies.change(key),
                Change::All => self.client.servers().for_each(|server| self.copies.flush(server)),
            }
        }
    }

    fn plan<'a>(&self, requests: Vec<Request<'a>>, call: Call<'_>) -> Plan<'a> {
        let mut plan = Plan {
            ways: Vec::with_capacity(requests.len()),
            left: Vec::new(),
        };
        for request in requests {
            let way = match request.key().filter(|_| is_plain(&request, call)) {
                None => Way::Through,
                Some(key) => match self.look(key) {
                    Some(value) => Way::Here(value.as_ref().clone()),
                    None => Way::Kept(key.to_vec(), self.begin(key)),
                },
            };
            match (&way, request) {
                (Way::Here(_), _) => {}
                (Way::Kept(..), Request::Get(get)) => plan.left.push(Request::Get(Get {
                    with_ttl: true,
                    ..get
                })),
                (_, request) => plan.left.push(request),
            }
            plan.ways.push(way);
        }
        plan
    }
}
