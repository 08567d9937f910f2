//! Leases: of all who miss a value, in all processes, one computes it.
//!
//! A server that speaks meta puts an empty item where a value is missed, and tells one asker that it has won: it
//! computes, and stores its value if that item is still there as it was, so that nothing that was invalidated meanwhile comes back.
//! The others wait: for the winner, if it is in this process, else they ask again, at growing intervals. Where there is a
//! value that was invalidated, or is about to expire, one has won as well, and the others get that value at once.

use std::future::Future;
use std::time::{Duration, Instant};

use super::flight::{Outcome, Role};
use super::steps::Steps;
use super::way::{Way, now};
use super::{Cache, CacheError, ComputeError, Put, Ttl};
use crate::error::Error;
use crate::protocol::{Delete, Get, Refused, Reply, Request, Store, StoreMode};
use crate::value::Value;

/// How long those who wait for another process pause at first, and at most.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// How a value that many miss is computed by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseOptions {
    /// How long the winner may take. If it dies, others wait so long before the next one wins; if it takes longer, its value is
    /// not stored. Whole seconds, rounded up; 30 s if not said.
    pub lease: Duration,
    /// How long the others wait before they compute for themselves; what they compute is not stored. 5 s if not said.
    pub wait_max: Duration,
    /// One caller computes anew, while others still get the value, once it has less than this left to live. Whole
    /// seconds, rounded up.
    pub recache_below: Option<Duration>,
}

impl Default for LeaseOptions {
    fn default() -> LeaseOptions {
        LeaseOptions {
            lease: Duration::from_secs(30),
            wait_max: Duration::from_secs(5),
            recache_below: None,
        }
    }
}

/// What a look-up finds.
enum Look {
    /// A value to be used, stale or not.
    Found(Value),
    /// This caller is to compute.
    Won {
        /// The item that stands for the lease.
        cas: u64,
        /// It has no value yet.
        placeholder: bool,
    },
    /// Somebody else is to compute for this item.
    Taken { cas: u64 },
    /// Nothing, and no lease.
    Missed,
    /// This cannot be asked for with a lease.
    Leaseless,
}

impl Cache {
    /// The value of a key; where there is none, `compute` makes it, once among all callers in all processes.
    ///
    /// - Others wait for that one value, as the options say. If `compute` fails or panics, the next one wins at once.
    /// - A value that was [invalidated](Cache::invalidate), or that is to be refreshed early, is computed anew by one caller and given to the
    ///   others meanwhile. If that fails, it is given to all until it expires.
    /// - What others change or remove while `compute` runs is not overwritten: the computed value is returned, not stored.
    /// - With a server that does not speak meta, and for keys with blanks, it is once among the callers in this process, on
    ///   this cache and its clones; early refresh and stale values do not exist there.
    ///
    /// # Errors
    /// The look-up failed; the layout cannot write the value; or `compute` failed, whose error it is. If storing fails, the
    /// value is returned all the same.
    pub fn get_or_compute<V: Into<Value>, E>(
        &self,
        key: impl AsRef<[u8]>,
        put: impl Into<Put>,
        options: LeaseOptions,
        compute: impl FnOnce() -> Result<V, E>,
    ) -> Result<Value, ComputeError<E>> {
        let compute = async { compute().map(Into::into) };
        now(self
            .blocking()
            .get_or_compute(key.as_ref(), put.into(), options, compute))
    }

    /// The value is not to be used any more, but by those who wait for a new one: [`Cache::get_or_compute`] gives it to all but
    /// one for `keep` at most. To everything else it is gone. `false` if there is none.
    ///
    /// With a server that does not speak meta the item is removed.
    ///
    /// # Errors
    /// No reply.
    pub fn invalidate(&self, key: impl AsRef<[u8]>, keep: Duration) -> Result<bool, CacheError> {
        now(self.blocking().invalidate(key.as_ref(), keep))
    }
}

impl<W: Way> Steps<W> {
    pub(super) async fn get_or_compute<E>(
        &self,
        key: &[u8],
        put: Put,
        options: LeaseOptions,
        compute: impl Future<Output = Result<Value, E>>,
    ) -> Result<Value, ComputeError<E>> {
        let flights = &self.cache().flights;
        let deadline = Instant::now() + options.wait_max;
        let left = || deadline.saturating_duration_since(Instant::now());
        let compute = async { compute.await.map_err(ComputeError::Compute) };
        let mut pause = PAUSE_MIN;
        loop {
            match self.look(key, options).await? {
                Look::Found(value) => return Ok(value),
                Look::Won { cas, placeholder } => {
                    return self.refill(key, put, cas, placeholder, compute).await;
                }
                Look::Taken { .. } if left().is_zero() => return compute.await,
                Look::Taken { cas } => match flights.find(key, cas) {
                    Some(flight) => {
                        if let Outcome::Landed(value) = self.0.wait(&flight, left()).await {
                            return Ok(value);
                        }
                    }
                    None => {
                        self.0.pause(pause.min(left())).await;
                        pause = (pause * 2).min(PAUSE_MAX);
                    }
                },
                Look::Missed | Look::Leaseless => match flights.enter(key, 0) {
                    Role::Lead(pilot) => {
                        // Somebody may have landed between the look and now.
                        if let Some(value) = self.get(key).await? {
                            pilot.land(&value);
                            return Ok(value);
                        }
                        let value = compute.await?;
                        self.keep(self.values().store(key, &value, StoreMode::Set, put)?)
                            .await;
                        pilot.land(&value);
                        return Ok(value);
                    }
                    Role::Follow(flight) => match self.0.wait(&flight, left()).await {
                        Outcome::Landed(value) => return Ok(value),
                        Outcome::Lost => {}
                        Outcome::Late => return compute.await,
                    },
                },
            }
        }
    }

    pub(super) async fn invalidate(&self, key: &[u8], keep: Duration) -> Result<bool, CacheError> {
        self.cache().flights.forget(key);
        let delete = Delete {
            invalidate: Some(Ttl::After(keep).exptime()),
            ..Delete::new(key)
        };
        match self.0.ask(Request::Delete(delete)).await {
            Err(CacheError::Call(Error::Refused(Refused::NeedsMeta))) => self.delete(key, false).await,
            reply => Ok(reply? == Reply::Deleted),
        }
    }

    async fn look(&self, key: &[u8], options: LeaseOptions) -> Result<Look, CacheError> {
        let secs = |duration: Duration| duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
        let get = Get {
            with_cas: true,
            vivify: Some(Ttl::After(options.lease).exptime()),
            recache_below: options
                .recache_below
                .map(|below| u32::try_from(secs(below)).unwrap_or(u32::MAX)),
            ..Get::new(key)
        };
        let found = match self.0.ask(Request::Get(get)).await {
            Ok(Reply::Value(found)) => found,
            Ok(_) => return Ok(Look::Missed),
            Err(CacheError::Call(Error::Refused(Refused::NeedsMeta | Refused::EchoedKey))) => {
                let value = self.get(key).await?;
                return Ok(value.map_or(Look::Leaseless, Look::Found));
            }
            Err(error) => return Err(error),
        };
        let cas = found.cas.unwrap_or_default();
        let placeholder = found.is_placeholder();
        Ok(match (found.lease.won, placeholder) {
            (true, _) => Look::Won { cas, placeholder },
            (false, true) => Look::Taken { cas },
            (false, false) => Look::Found(self.values().decode(&found)?),
        })
    }

    async fn refill<E>(
        &self,
        key: &[u8],
        put: Put,
        cas: u64,
        placeholder: bool,
        compute: impl Future<Output = Result<Value, ComputeError<E>>>,
    ) -> Result<Value, ComputeError<E>> {
        // Dropped after the lease: who wakes finds that it can be won.
        let pilot = match self.cache().flights.enter(key, cas) {
            Role::Lead(pilot) => Some(pilot),
            Role::Follow(_) => None,
        };
        // One that is made and not needed would be given up.
        let lease = placeholder.then(|| Lease {
            steps: self,
            key,
            cas,
        });
        let value = compute.await?;
        let store = Store {
            cas: Some(cas),
            ..self.values().store(key, &value, StoreMode::Set, put)?
        };
        if self.keep(store).await {
            // It is fulfilled.
            std::mem::forget(lease);
        }
        if let Some(pilot) = pilot {
            pilot.land(&value);
        }
        Ok(value)
    }

    /// Stores, and says whether there was a reply. An error is not told: the caller has the value, and the next one will see to
    /// the cache.
    async fn keep(&self, store: Store<'_>) -> bool {
        self.0.ask(Request::Store(store)).await.is_ok()
    }
}

/// A lease without a value. Dropped, it is given up: the next one who asks wins.
struct Lease<'a, W: Way> {
    steps: &'a Steps<W>,
    key: &'a [u8],
    cas: u64,
}

impl<W: Way> Drop for Lease<'_, W> {
    fn drop(&mut self) {
        let delete = Delete {
            cas: Some(self.cas),
            ..Delete::new(self.key)
        };
        // If this fails, the lease ends by its own time.
        self.steps.0.ask_last(Request::Delete(delete));
    }
}
