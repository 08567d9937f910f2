//! The same without waiting. Any executor runs these futures; they do nothing before they are polled. Dropped, they are waited for
//! no more: whether a request under way is executed is open then.

use std::future::Future;
use std::hash::Hash;
use std::time::Duration;

use super::steps::Steps;
use super::way::Later;
use super::{Cache, CacheError, Cas, ComputeError, LeaseOptions, Many, Put, Swap, Ttl, down};
use crate::protocol::{Arith, StoreMode};
use crate::value::{Stored, Value};

impl Cache {
    fn later(&self) -> Steps<Later<'_>> {
        Steps(Later(self))
    }

    /// [`Cache::get`] without waiting.
    ///
    /// # Errors
    /// As there.
    pub async fn get_async(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>, CacheError> {
        self.later().get(key.as_ref()).await
    }

    /// [`Cache::gets`] without waiting.
    ///
    /// # Errors
    /// As there.
    pub async fn gets_async(&self, key: impl AsRef<[u8]>) -> Result<Option<(Value, Cas)>, CacheError> {
        self.later().gets(key.as_ref()).await
    }

    /// [`Cache::get_and_touch`] without waiting.
    ///
    /// # Errors
    /// As there.
    pub async fn get_and_touch_async(
        &self,
        key: impl AsRef<[u8]>,
        ttl: impl Into<Ttl>,
    ) -> Result<Option<Value>, CacheError> {
        self.later().get_and_touch(key.as_ref(), ttl.into()).await
    }

    /// [`Cache::get_raw`] without waiting.
    ///
    /// # Errors
    /// As there.
    pub async fn get_raw_async(&self, key: impl AsRef<[u8]>) -> Result<Option<Stored>, CacheError> {
        self.later().get_raw(key.as_ref()).await
    }

    /// [`Cache::get_many`] without waiting.
    pub async fn get_many_async<K>(&self, keys: impl IntoIterator<Item = K>) -> Many<K, Value>
    where
        K: AsRef<[u8]> + Hash + Eq,
    {
        self.later().get_many(keys.into_iter().collect()).await
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
        self.later()
            .store(key.as_ref(), &value.into(), StoreMode::Set, put.into())
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
        self.later()
            .store(key.as_ref(), &value.into(), StoreMode::Add, put.into())
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
        self.later()
            .store(key.as_ref(), &value.into(), StoreMode::Replace, put.into())
            .await
    }

    /// [`Cache::set_many`] without waiting.
    #[must_use = "values that are not stored are told here only"]
    pub async fn set_many_async<K, V>(
        &self,
        pairs: impl IntoIterator<Item = (K, V)>,
        put: impl Into<Put>,
    ) -> Vec<(K, CacheError)>
    where
        K: AsRef<[u8]>,
        V: Into<Value>,
    {
        self.later()
            .set_many(pairs.into_iter().collect(), put.into())
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
        self.later()
            .swap(key.as_ref(), &value.into(), cas, put.into())
            .await
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
        self.later()
            .store_raw(key.as_ref(), stored, StoreMode::Set, put.into())
            .await
    }

    /// [`Cache::append`] without waiting.
    ///
    /// # Errors
    /// As there.
    pub async fn append_async(
        &self,
        key: impl AsRef<[u8]>,
        bytes: impl AsRef<[u8]>,
    ) -> Result<bool, CacheError> {
        self.later()
            .extend(key.as_ref(), bytes.as_ref(), StoreMode::Append)
            .await
    }

    /// [`Cache::prepend`] without waiting.
    ///
    /// # Errors
    /// As there.
    pub async fn prepend_async(
        &self,
        key: impl AsRef<[u8]>,
        bytes: impl AsRef<[u8]>,
    ) -> Result<bool, CacheError> {
        self.later()
            .extend(key.as_ref(), bytes.as_ref(), StoreMode::Prepend)
            .await
    }

    /// [`Cache::delete`] without waiting.
    ///
    /// # Errors
    /// As there.
    pub async fn delete_async(&self, key: impl AsRef<[u8]>) -> Result<bool, CacheError> {
        self.later().delete(key.as_ref(), false).await
    }

    /// [`Cache::delete_many`] without waiting.
    pub async fn delete_many_async<K>(&self, keys: impl IntoIterator<Item = K>) -> Many<K, ()>
    where
        K: AsRef<[u8]> + Hash + Eq,
    {
        self.later().delete_many(keys.into_iter().collect()).await
    }

    /// [`Cache::touch`] without waiting.
    ///
    /// # Errors
    /// As there.
    pub async fn touch_async(&self, key: impl AsRef<[u8]>, ttl: impl Into<Ttl>) -> Result<bool, CacheError> {
        self.later().touch(key.as_ref(), ttl.into()).await
    }

    /// [`Cache::incr`] without waiting.
    ///
    /// # Errors
    /// As there.
    pub async fn incr_async(&self, key: impl AsRef<[u8]>, delta: u64) -> Result<Option<u64>, CacheError> {
        self.later().count(Arith::new(key.as_ref(), delta)).await
    }

    /// [`Cache::decr`] without waiting.
    ///
    /// # Errors
    /// As there.
    pub async fn decr_async(&self, key: impl AsRef<[u8]>, delta: u64) -> Result<Option<u64>, CacheError> {
        self.later().count(down(key.as_ref(), delta)).await
    }

    /// [`Cache::incr_from`] without waiting.
    ///
    /// # Errors
    /// As there.
    pub async fn incr_from_async(
        &self,
        key: impl AsRef<[u8]>,
        delta: u64,
        initial: u64,
        ttl: impl Into<Ttl>,
    ) -> Result<u64, CacheError> {
        self.later()
            .count_from(Arith::new(key.as_ref(), delta), initial, ttl.into())
            .await
    }

    /// [`Cache::decr_from`] without waiting.
    ///
    /// # Errors
    /// As there.
    pub async fn decr_from_async(
        &self,
        key: impl AsRef<[u8]>,
        delta: u64,
        initial: u64,
        ttl: impl Into<Ttl>,
    ) -> Result<u64, CacheError> {
        self.later()
            .count_from(down(key.as_ref(), delta), initial, ttl.into())
            .await
    }

    /// [`Cache::update`] without waiting.
    ///
    /// # Errors
    /// As there.
    pub async fn update_async(
        &self,
        key: impl AsRef<[u8]>,
        put: impl Into<Put>,
        change: impl FnMut(Option<&Value>) -> Option<Value>,
    ) -> Result<Option<Value>, CacheError> {
        self.later().update(key.as_ref(), put.into(), change).await
    }

    /// [`Cache::invalidate`] without waiting.
    ///
    /// # Errors
    /// As there.
    pub async fn invalidate_async(&self, key: impl AsRef<[u8]>, keep: Duration) -> Result<bool, CacheError> {
        self.later().invalidate(key.as_ref(), keep).await
    }

    /// [`Cache::get_or_compute`] without waiting: `compute` is polled only if this caller is to compute. All callers of this process, tasks
    /// and threads alike, get what one of them computes. Dropped while it computes, it makes room for the next one.
    ///
    /// # Errors
    /// As there.
    pub async fn get_or_compute_async<V: Into<Value>, E>(
        &self,
        key: impl AsRef<[u8]>,
        put: impl Into<Put>,
        options: LeaseOptions,
        compute: impl Future<Output = Result<V, E>>,
    ) -> Result<Value, ComputeError<E>> {
        let compute = async { compute.await.map(Into::into) };
        self.later()
            .get_or_compute(key.as_ref(), put.into(), options, compute)
            .await
    }
}
