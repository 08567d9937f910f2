//! A cache of typed values: what a program does with its servers day by day.
//!
//! [`Cache`] puts a [`Layout`] on a [`Client`]: values go in and come out, keys are anything that is bytes. Each method is one
//! request to one server, but for those that say otherwise. A miss is `None`, a condition that did not hold is `false`; errors are
//! what nobody could foresee. What an item that was [invalidated](Cache::invalidate), or one that somebody is about to
//! [compute](Cache::get_or_compute), holds is for leases only: to all other methods it is a miss.

mod convert;
mod error;
mod flight;
mod later;
mod lease;
mod many;
mod steps;
mod ttl;
mod typed;
mod way;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use error::{CacheError, ComputeError};
pub use lease::LeaseOptions;
pub use many::Many;
pub use ttl::{Put, Ttl};

use crate::client::{Call, Client, Route};
use crate::placement::ServerIndex;
use crate::protocol::{self, Arith, Reply, Request, Store, StoreMode};
use crate::value::{Layout, Limits, Stored, Value, profile};
use flight::Flights;
use steps::Steps;
use way::{Blocking, now};

/// How often a loop over a CAS number tries again before it gives up.
const TRIES_MAX: u32 = 64;

/// Typed values in servers. A clone shares everything.
#[derive(Clone)]
pub struct Cache {
    client: Client,
    values: Arc<Values>,
    flights: Arc<Flights>,
    timeout: Option<Duration>,
}

/// How values are written and read.
#[derive(Debug)]
struct Values {
    layout: Layout,
    limits: Limits,
}

/// What tells one state of an item from the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cas(u64);

/// What became of a change that depended on a [`Cas`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swap {
    /// It was made.
    Stored,
    /// Somebody else was first; the item is as they left it.
    Changed,
    /// There is no such item any more.
    Missing,
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}

impl Cache {
    /// Values in scrubjay's own layout, by the default limits.
    pub fn new(client: Client) -> Cache {
        Cache::with_layout(client, Layout::new(&profile::SCRUBJAY), Limits::default())
    }

    /// Values in another layout, such as that of another client whose items are shared.
    pub fn with_layout(client: Client, layout: Layout, limits: Limits) -> Cache {
        Cache {
            client,
            values: Arc::new(Values { layout, limits }),
            flights: Arc::default(),
            timeout: None,
        }
    }

    /// The same cache with another time-out, everything in a call included.
    #[must_use]
    pub fn within(&self, timeout: Duration) -> Cache {
        Cache {
            timeout: Some(timeout),
            ..self.clone()
        }
    }

    /// What it asks.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The value of a key.
    ///
    /// # Errors
    /// No reply, or a value that the layout cannot read.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>, CacheError> {
        now(self.blocking().get(key.as_ref()))
    }

    /// The value of a key, and what [`Cache::cas`] wants to replace just this one.
    ///
    /// # Errors
    /// As [`Cache::get`].
    pub fn gets(&self, key: impl AsRef<[u8]>) -> Result<Option<(Value, Cas)>, CacheError> {
        now(self.blocking().gets(key.as_ref()))
    }

    /// The value of a key, which lives on for `ttl` from now.
    ///
    /// # Errors
    /// As [`Cache::get`].
    pub fn get_and_touch(
        &self,
        key: impl AsRef<[u8]>,
        ttl: impl Into<Ttl>,
    ) -> Result<Option<Value>, CacheError> {
        now(self.blocking().get_and_touch(key.as_ref(), ttl.into()))
    }

    /// Bytes and flags as the server has them, whatever the layout makes of them.
    ///
    /// # Errors
    /// No reply.
    pub fn get_raw(&self, key: impl AsRef<[u8]>) -> Result<Option<Stored>, CacheError> {
        now(self.blocking().get_raw(key.as_ref()))
    }

    /// Stores a value. `false` only where failover says that changes are lost without an error.
    ///
    /// # Errors
    /// No reply, or a value that the layout cannot write.
    pub fn set(
        &self,
        key: impl AsRef<[u8]>,
        value: impl Into<Value>,
        put: impl Into<Put>,
    ) -> Result<bool, CacheError> {
        now(self
            .blocking()
            .store(key.as_ref(), &value.into(), StoreMode::Set, put.into()))
    }

    /// Stores a value where there is none; `false` if there is one, or one is being [computed](Cache::get_or_compute).
    ///
    /// # Errors
    /// As [`Cache::set`].
    pub fn add(
        &self,
        key: impl AsRef<[u8]>,
        value: impl Into<Value>,
        put: impl Into<Put>,
    ) -> Result<bool, CacheError> {
        now(self
            .blocking()
            .store(key.as_ref(), &value.into(), StoreMode::Add, put.into()))
    }

    /// Stores a value where there is one already; `false` if there is none.
    ///
    /// # Errors
    /// As [`Cache::set`].
    pub fn replace(
        &self,
        key: impl AsRef<[u8]>,
        value: impl Into<Value>,
        put: impl Into<Put>,
    ) -> Result<bool, CacheError> {
        now(self
            .blocking()
            .store(key.as_ref(), &value.into(), StoreMode::Replace, put.into()))
    }

    /// Stores a value if the item has not changed since [`Cache::gets`].
    ///
    /// # Errors
    /// As [`Cache::set`].
    pub fn cas(
        &self,
        key: impl AsRef<[u8]>,
        value: impl Into<Value>,
        cas: Cas,
        put: impl Into<Put>,
    ) -> Result<Swap, CacheError> {
        now(self.blocking().swap(key.as_ref(), &value.into(), cas, put.into()))
    }

    /// Stores bytes and flags as they are, whatever the layout would make of them; the `put`'s choice of compression is not
    /// looked at.
    ///
    /// # Errors
    /// No reply.
    pub fn set_raw(
        &self,
        key: impl AsRef<[u8]>,
        stored: Stored,
        put: impl Into<Put>,
    ) -> Result<bool, CacheError> {
        now(self
            .blocking()
            .store_raw(key.as_ref(), stored, StoreMode::Set, put.into()))
    }

    /// Puts bytes behind those that are there; `false` if there is no item.
    ///
    /// The server does this without a look at what is there. It is right for text and bytes that were stored with
    /// [`Choice::Raw`](crate::value::Choice::Raw), or below the threshold; what was compressed or serialized is unreadable
    /// afterwards, and says so. [`Cache::update`] changes any value.
    ///
    /// # Errors
    /// No reply.
    pub fn append(&self, key: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) -> Result<bool, CacheError> {
        now(self
            .blocking()
            .extend(key.as_ref(), bytes.as_ref(), StoreMode::Append))
    }

    /// Puts bytes before those that are there, as [`Cache::append`].
    ///
    /// # Errors
    /// No reply.
    pub fn prepend(&self, key: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) -> Result<bool, CacheError> {
        now(self
            .blocking()
            .extend(key.as_ref(), bytes.as_ref(), StoreMode::Prepend))
    }

    /// Removes an item; `false` if there is none.
    ///
    /// # Errors
    /// No reply.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<bool, CacheError> {
        now(self.blocking().delete(key.as_ref(), false))
    }

    /// Removes an item without waiting for it to happen. What goes wrong on the way is counted, not told.
    ///
    /// # Errors
    /// It could not be sent.
    pub fn delete_quietly(&self, key: impl AsRef<[u8]>) -> Result<(), CacheError> {
        now(self.blocking().delete(key.as_ref(), true)).map(drop)
    }

    /// Gives an item another life; `false` if there is none.
    ///
    /// # Errors
    /// No reply.
    pub fn touch(&self, key: impl AsRef<[u8]>, ttl: impl Into<Ttl>) -> Result<bool, CacheError> {
        now(self.blocking().touch(key.as_ref(), ttl.into()))
    }

    /// Adds to a number, and gives the sum, modulo 2^64; `None` if there is no item.
    ///
    /// # Errors
    /// No reply, or the item is no number from 0 on.
    pub fn incr(&self, key: impl AsRef<[u8]>, delta: u64) -> Result<Option<u64>, CacheError> {
        now(self.blocking().count(Arith::new(key.as_ref(), delta)))
    }

    /// Takes from a number, down to 0, and gives what is left; `None` if there is no item.
    ///
    /// # Errors
    /// As [`Cache::incr`].
    pub fn decr(&self, key: impl AsRef<[u8]>, delta: u64) -> Result<Option<u64>, CacheError> {
        now(self.blocking().count(down(key.as_ref(), delta)))
    }

    /// Adds to a number, which starts as `initial` where there is none. One request; two for the
    /// first caller, three if it loses the race to be first.
    ///
    /// # Errors
    /// As [`Cache::incr`]; or others removed the item each time it was there.
    pub fn incr_from(
        &self,
        key: impl AsRef<[u8]>,
        delta: u64,
        initial: u64,
        ttl: impl Into<Ttl>,
    ) -> Result<u64, CacheError> {
        let arith = Arith::new(key.as_ref(), delta);
        now(self.blocking().count_from(arith, initial, ttl.into()))
    }

    /// Takes from a number, which starts as `initial` where there is none, as [`Cache::incr_from`].
    ///
    /// # Errors
    /// As [`Cache::incr_from`].
    pub fn decr_from(
        &self,
        key: impl AsRef<[u8]>,
        delta: u64,
        initial: u64,
        ttl: impl Into<Ttl>,
    ) -> Result<u64, CacheError> {
        let arith = down(key.as_ref(), delta);
        now(self.blocking().count_from(arith, initial, ttl.into()))
    }

    /// Changes a value by what it is: `change` gets the value, if there is one, and gives the new one, or `None` to leave it all
    /// as it is. Called again when somebody else was faster. Gives what is there in the end.
    ///
    /// # Errors
    /// As [`Cache::get`] and [`Cache::set`]; or others were faster each of 64 times.
    pub fn update(
        &self,
        key: impl AsRef<[u8]>,
        put: impl Into<Put>,
        change: impl FnMut(Option<&Value>) -> Option<Value>,
    ) -> Result<Option<Value>, CacheError> {
        now(self.blocking().update(key.as_ref(), put.into(), change))
    }

    /// Removes all items of all servers, after so many seconds. Names the servers that did not.
    pub fn flush_all(&self, delay_secs: u32) -> Vec<(ServerIndex, CacheError)> {
        let asked = self.ask_servers(|| Request::Flush { delay_secs });
        asked
            .filter_map(|(server, reply)| reply.err().map(|error| (server, error)))
            .collect()
    }

    /// The versions of all servers, as they say them.
    pub fn versions(&self) -> Vec<(ServerIndex, Result<String, CacheError>)> {
        let text = |reply| match reply {
            Reply::Version(text) => String::from_utf8_lossy(&text).into_owned(),
            _ => String::new(),
        };
        self.ask_servers(|| Request::Version)
            .map(|(server, reply)| (server, reply.map(text)))
            .collect()
    }

    fn ask_servers<'a>(
        &'a self,
        request: impl Fn() -> Request<'static> + 'a,
    ) -> impl Iterator<Item = (ServerIndex, Result<Reply, CacheError>)> + 'a {
        self.client.servers().map(move |server| {
            let call = Call {
                route: Route::Server(server),
                timeout: self.timeout,
            };
            let reply = self.client.call(request(), call);
            (server, reply.map_err(CacheError::Call))
        })
    }

    fn call(&self) -> Call<'static> {
        Call {
            route: Route::Key,
            timeout: self.timeout,
        }
    }

    fn blocking(&self) -> Steps<Blocking<'_>> {
        Steps(Blocking(self))
    }
}

/// What an item is to everybody but leases.
struct Held {
    value: Option<Value>,
    /// There even if the value is withheld: it may be overwritten.
    cas: Option<Cas>,
}

impl Values {
    fn read(&self, reply: Reply) -> Result<Held, CacheError> {
        let Reply::Value(found) = reply else {
            return Ok(Held {
                value: None,
                cas: None,
            });
        };
        let value = match found.is_withheld() {
            true => None,
            false => Some(self.decode(&found)?),
        };
        Ok(Held {
            value,
            cas: found.cas.map(Cas),
        })
    }

    fn decode(&self, found: &protocol::Value) -> Result<Value, CacheError> {
        let value = self.layout.decode(&found.bytes, found.flags, &self.limits);
        value.map_err(CacheError::Value)
    }

    fn store<'a>(
        &self,
        key: &'a [u8],
        value: &Value,
        mode: StoreMode,
        put: Put,
    ) -> Result<Store<'a>, CacheError> {
        let stored = self.layout.encode(value, put.choice)?;
        Ok(store(key, stored, mode, &put))
    }
}

fn down(key: &[u8], delta: u64) -> Arith<'_> {
    Arith {
        decrement: true,
        ..Arith::new(key, delta)
    }
}

fn store<'a>(key: &'a [u8], stored: Stored, mode: StoreMode, put: &Put) -> Store<'a> {
    Store {
        mode,
        flags: stored.flags,
        exptime: put.ttl.exptime(),
        quiet: put.quiet,
        ..Store::new(key, stored.bytes)
    }
}

fn is_done(reply: &Reply) -> bool {
    matches!(
        reply,
        Reply::Stored | Reply::Deleted | Reply::Touched | Reply::Flushed | Reply::Alive
    )
}

fn swapped(reply: &Reply) -> Swap {
    match reply {
        Reply::Stored | Reply::Alive => Swap::Stored,
        Reply::Exists => Swap::Changed,
        _ => Swap::Missing,
    }
}

fn number(reply: Reply) -> Result<Option<u64>, CacheError> {
    Ok(match reply {
        Reply::Number(number) => Some(number),
        _ => None,
    })
}
