//! The same without waiting: futures of what is one request, or one batch. Any executor runs them, and dropping one is safe: its
//! reply is dropped when it comes.

use std::future::Future;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::{Cache, CacheError, Cas, Many, Put, Swap, Ttl, is_done, many, number, store, swapped, with_cas};
use crate::protocol::{Arith, Delete, Get, Reply, Request, Store, StoreMode, Touch};
use crate::value::{Stored, Value};

/// A reply that is on its way.
struct Later<T>(Arc<Mutex<Slot<T>>>);

struct Slot<T> {
    value: Option<T>,
    waker: Option<Waker>,
}

fn lock<T>(slot: &Mutex<Slot<T>>) -> MutexGuard<'_, Slot<T>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T: Send + 'static> Later<T> {
    /// What `start` hands to the function it is given.
    fn start(start: impl FnOnce(Box<dyn FnOnce(T) + Send>)) -> Later<T> {
        let slot = Arc::new(Mutex::new(Slot {
            value: None,
            waker: None,
        }));
        let filled = slot.clone();
        start(Box::new(move |value| {
            let waker = {
                let mut slot = lock(&filled);
                slot.value = Some(value);
                slot.waker.take()
            };
            // Not under the lock: the waker may poll at once.
            if let Some(waker) = waker {
                waker.wake();
            }
        }));
        Later(slot)
    }
}

impl<T> Future for Later<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let mut slot = lock(&self.0);
        match slot.value.take() {
            Some(value) => Poll::Ready(value),
            None => {
                slot.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Cache {
    // Not async itself: the request is sent when this is called.
    fn later(&self, request: Request<'_>) -> impl Future<Output = Result<Reply, CacheError>> + use<> {
        let reply = Later::start(|done| self.client.start(request, self.call(), done));
        async move { Ok(reply.await?) }
    }

    /// [`Cache::get`] without waiting.
    ///
    /// # Errors
    /// As there.
    pub async fn get_async(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>, CacheError> {
        let reply = self.later(Request::Get(Get::new(key.as_ref()))).await?;
        Ok(self.values.read(reply)?.value)
    }

    /// [`Cache::gets`] without waiting.
    ///
    /// # Errors
    /// As there.
    pub async fn gets_async(&self, key: impl AsRef<[u8]>) -> Result<Option<(Value, Cas)>, CacheError> {
        let reply = self.later(Request::Get(with_cas(key.as_ref()))).await?;
        let held = self.values.read(reply)?;
        Ok(held.value.zip(held.cas))
    }

    /// [`Cache::get_many`] without waiting.
    pub async fn get_many_async<K>(&self, keys: impl IntoIterator<Item = K>) -> Many<K, Value>
    where
        K: AsRef<[u8]> + Hash + Eq,
    {
        let keys: Vec<K> = keys.into_iter().collect();
        let requests = many::gets(&keys);
        let replies = Later::start(|done| self.client.start_all(requests, self.call(), done));
        let replies = replies.await;
        many::read_all(&self.values, keys, replies)
    }

    /// [`Cache::set`] without waiting.
    ///
    /// # Errors
    /// As there.
    pub async fn set_async(
        &self,
        key: impl AsRef<[u8]>,
        value: impl Into<Value>,
        put: impl Into<Put>,
    ) -> Result<bool, CacheError> {
        self.store_async(key.as_ref(), &value.into(), StoreMode::Set, put.into())
            .await
    }

    /// [`Cache::add`] without waiting.
    ///
    /// # Errors
    /// As there.
    pub async fn add_async(
        &self,
        key: impl AsRef<[u8]>,
        value: impl Into<Value>,
        put: impl Into<Put>,
    ) -> Result<bool, CacheError> {
        self.store_async(key.as_ref(), &value.into(), StoreMode::Add, put.into())
            .await
    }

    /// [`Cache::replace`] without waiting.
    ///
    /// # Errors
    /// As there.
    pub async fn replace_async(
        &self,
        key: impl AsRef<[u8]>,
        value: impl Into<Value>,
        put: impl Into<Put>,
    ) -> Result<bool, CacheError> {
        self.store_async(key.as_ref(), &value.into(), StoreMode::Replace, put.into())
            .await
    }

    /// [`Cache::cas`] without waiting.
    ///
    /// # Errors
    /// As there.
    pub async fn cas_async(
        &self,
        key: impl AsRef<[u8]>,
        value: impl Into<Value>,
        cas: Cas,
        put: impl Into<Put>,
    ) -> Result<Swap, CacheError> {
        let store = self
            .values
            .store(key.as_ref(), &value.into(), StoreMode::Set, put.into())?;
        let request = Store {
            cas: Some(cas.0),
            ..store
        };
        Ok(swapped(&self.later(Request::Store(request)).await?))
    }

    /// [`Cache::set_raw`] without waiting.
    ///
    /// # Errors
    /// As there.
    pub async fn set_raw_async(
        &self,
        key: impl AsRef<[u8]>,
        stored: Stored,
        put: impl Into<Put>,
    ) -> Result<bool, CacheError> {
        let request = store(key.as_ref(), stored, StoreMode::Set, &put.into());
        Ok(is_done(&self.later(Request::Store(request)).await?))
    }

    /// [`Cache::delete`] without waiting.
    ///
    /// # Errors
    /// As there.
    pub async fn delete_async(&self, key: impl AsRef<[u8]>) -> Result<bool, CacheError> {
        let reply = self.later(Request::Delete(Delete::new(key.as_ref()))).await?;
        Ok(is_done(&reply))
    }

    /// [`Cache::touch`] without waiting.
    ///
    /// # Errors
    /// As there.
    pub async fn touch_async(&self, key: impl AsRef<[u8]>, ttl: impl Into<Ttl>) -> Result<bool, CacheError> {
        let request = Request::Touch(Touch {
            key: key.as_ref(),
            exptime: ttl.into().exptime(),
            quiet: false,
        });
        Ok(is_done(&self.later(request).await?))
    }

    /// [`Cache::incr`] without waiting.
    ///
    /// # Errors
    /// As there.
    pub async fn incr_async(&self, key: impl AsRef<[u8]>, delta: u64) -> Result<Option<u64>, CacheError> {
        let request = Request::Arith(Arith::new(key.as_ref(), delta));
        number(self.later(request).await?)
    }

    /// [`Cache::decr`] without waiting.
    ///
    /// # Errors
    /// As there.
    pub async fn decr_async(&self, key: impl AsRef<[u8]>, delta: u64) -> Result<Option<u64>, CacheError> {
        let request = Request::Arith(Arith {
            decrement: true,
            ..Arith::new(key.as_ref(), delta)
        });
        number(self.later(request).await?)
    }

    async fn store_async(
        &self,
        key: &[u8],
        value: &Value,
        mode: StoreMode,
        put: Put,
    ) -> Result<bool, CacheError> {
        let request = self.values.store(key, value, mode, put)?;
        Ok(is_done(&self.later(Request::Store(request)).await?))
    }
}
