//! What each method of a cache does, step by step, whichever way it waits.

use super::way::Way;
use super::{
    Cache, CacheError, Cas, Held, Put, Swap, TRIES_MAX, Ttl, Values, is_done, number, store, swapped,
};
use crate::protocol::{Arith, Delete, Get, Reply, Request, Store, StoreMode, Touch};
use crate::value::{Choice, Stored, Value};

/// A cache, and how it waits.
pub(super) struct Steps<W>(pub(super) W);

impl<W: Way> Steps<W> {
    pub(super) fn cache(&self) -> &Cache {
        self.0.cache()
    }

    pub(super) fn values(&self) -> &Values {
        &self.cache().values
    }

    pub(super) async fn get(&self, key: &[u8]) -> Result<Option<Value>, CacheError> {
        let reply = self.0.ask(Request::Get(Get::new(key))).await?;
        Ok(self.values().read(reply)?.value)
    }

    pub(super) async fn gets(&self, key: &[u8]) -> Result<Option<(Value, Cas)>, CacheError> {
        let held = self.held(key).await?;
        Ok(held.value.zip(held.cas))
    }

    pub(super) async fn get_and_touch(&self, key: &[u8], ttl: Ttl) -> Result<Option<Value>, CacheError> {
        let get = Get {
            touch: Some(ttl.exptime()),
            ..Get::new(key)
        };
        let reply = self.0.ask(Request::Get(get)).await?;
        Ok(self.values().read(reply)?.value)
    }

    pub(super) async fn get_raw(&self, key: &[u8]) -> Result<Option<Stored>, CacheError> {
        Ok(match self.0.ask(Request::Get(Get::new(key))).await? {
            Reply::Value(value) if !value.is_withheld() => Some(Stored {
                flags: value.flags,
                bytes: value.bytes,
            }),
            _ => None,
        })
    }

    pub(super) async fn store(
        &self,
        key: &[u8],
        value: &Value,
        mode: StoreMode,
        put: Put,
    ) -> Result<bool, CacheError> {
        let request = self.values().store(key, value, mode, put)?;
        Ok(is_done(&self.0.ask(Request::Store(request)).await?))
    }

    pub(super) async fn swap(
        &self,
        key: &[u8],
        value: &Value,
        cas: Cas,
        put: Put,
    ) -> Result<Swap, CacheError> {
        let request = Store {
            cas: Some(cas.0),
            ..self.values().store(key, value, StoreMode::Set, put)?
        };
        Ok(swapped(&self.0.ask(Request::Store(request)).await?))
    }

    pub(super) async fn store_raw(
        &self,
        key: &[u8],
        stored: Stored,
        mode: StoreMode,
        put: Put,
    ) -> Result<bool, CacheError> {
        let request = store(key, stored, mode, &put);
        Ok(is_done(&self.0.ask(Request::Store(request)).await?))
    }

    pub(super) async fn extend(&self, key: &[u8], bytes: &[u8], mode: StoreMode) -> Result<bool, CacheError> {
        let request = Store {
            mode,
            ..Store::new(key, bytes)
        };
        Ok(is_done(&self.0.ask(Request::Store(request)).await?))
    }

    pub(super) async fn delete(&self, key: &[u8], quiet: bool) -> Result<bool, CacheError> {
        let request = Delete {
            quiet,
            ..Delete::new(key)
        };
        Ok(is_done(&self.0.ask(Request::Delete(request)).await?))
    }

    pub(super) async fn touch(&self, key: &[u8], ttl: Ttl) -> Result<bool, CacheError> {
        let request = Touch {
            key,
            exptime: ttl.exptime(),
            quiet: false,
        };
        Ok(is_done(&self.0.ask(Request::Touch(request)).await?))
    }

    pub(super) async fn count(&self, arith: Arith<'_>) -> Result<Option<u64>, CacheError> {
        number(self.0.ask(Request::Arith(arith)).await?)
    }

    // The meta command would store the first number itself, but without flags that say that it is one.
    pub(super) async fn count_from(
        &self,
        arith: Arith<'_>,
        initial: u64,
        ttl: Ttl,
    ) -> Result<u64, CacheError> {
        let flags = self.values().layout.encode(&Value::Int(0), Choice::Raw)?.flags;
        for _ in 0..TRIES_MAX {
            if let Some(number) = self.count(arith).await? {
                return Ok(number);
            }
            let stored = Stored {
                flags,
                bytes: initial.to_string().into_bytes(),
            };
            if self
                .store_raw(arith.key, stored, StoreMode::Add, ttl.into())
                .await?
            {
                return Ok(initial);
            }
        }
        Err(CacheError::Contended { tries: TRIES_MAX })
    }

    pub(super) async fn update(
        &self,
        key: &[u8],
        put: Put,
        mut change: impl FnMut(Option<&Value>) -> Option<Value>,
    ) -> Result<Option<Value>, CacheError> {
        let put = Put { quiet: false, ..put };
        for _ in 0..TRIES_MAX {
            let held = self.held(key).await?;
            let Some(new) = change(held.value.as_ref()) else {
                return Ok(held.value);
            };
            let stored = match held.cas {
                Some(cas) => self.swap(key, &new, cas, put).await? == Swap::Stored,
                None => self.store(key, &new, StoreMode::Add, put).await?,
            };
            if stored {
                return Ok(Some(new));
            }
        }
        Err(CacheError::Contended { tries: TRIES_MAX })
    }

    async fn held(&self, key: &[u8]) -> Result<Held, CacheError> {
        let get = Get {
            with_cas: true,
            ..Get::new(key)
        };
        let reply = self.0.ask(Request::Get(get)).await?;
        self.values().read(reply)
    }
}
