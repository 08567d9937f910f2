//! Types of the program itself, by serde.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Cache, CacheError, Put};
use crate::value::{from_value, to_value};

impl Cache {
    /// The value of a key as the type that is wanted, as [`from_value`] reads it.
    ///
    /// # Errors
    /// As [`Cache::get`], or the value is not of this type.
    pub fn get_as<T: DeserializeOwned>(&self, key: impl AsRef<[u8]>) -> Result<Option<T>, CacheError> {
        let value = self.get(key)?;
        Ok(value.map(from_value).transpose()?)
    }

    /// Stores a value of any type, as [`to_value`] writes it.
    ///
    /// # Errors
    /// As [`Cache::set`].
    pub fn set_as<T: Serialize + ?Sized>(
        &self,
        key: impl AsRef<[u8]>,
        it: &T,
        put: impl Into<Put>,
    ) -> Result<bool, CacheError> {
        self.set(key, to_value(it)?, put)
    }

    /// [`Cache::get_as`] without waiting.
    ///
    /// # Errors
    /// As there.
    pub async fn get_as_async<T: DeserializeOwned>(
        &self,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<T>, CacheError> {
        let value = self.get_async(key).await?;
        Ok(value.map(from_value).transpose()?)
    }

    /// [`Cache::set_as`] without waiting.
    ///
    /// # Errors
    /// As there.
    pub async fn set_as_async<T: Serialize + ?Sized>(
        &self,
        key: impl AsRef<[u8]>,
        it: &T,
        put: impl Into<Put>,
    ) -> Result<bool, CacheError> {
        let value = to_value(it)?;
        self.set_async(key, value, put).await
    }
}
