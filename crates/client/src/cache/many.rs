//! Many keys at once: all servers are asked at the same time, and one that fails takes nothing from the others.

use std::collections::HashMap;
use std::hash::Hash;

use super::steps::Steps;
use super::way::{Way, now};
use super::{Cache, CacheError, Put, is_done};
use crate::protocol::{Delete, Get, Reply, Request, StoreMode};
use crate::value::Value;

/// What came of a batch, by key. A key that was given twice is here once.
#[derive(Clone, Debug)]
pub struct Many<K, T> {
    /// What there is.
    pub found: HashMap<K, T>,
    /// Keys for which it is not known, and why. Keys that are neither here nor there are misses.
    pub failed: Vec<(K, CacheError)>,
}

impl<K, T> Many<K, T> {
    /// What there is, if nothing failed.
    ///
    /// # Errors
    /// The first thing that failed.
    pub fn complete(self) -> Result<HashMap<K, T>, CacheError> {
        match self.failed.into_iter().next() {
            Some((_, error)) => Err(error),
            None => Ok(self.found),
        }
    }
}

impl<K: Hash + Eq, T> Many<K, T> {
    fn collect(outcomes: impl Iterator<Item = (K, Result<Option<T>, CacheError>)>) -> Many<K, T> {
        let mut many = Many {
            found: HashMap::with_capacity(outcomes.size_hint().0),
            failed: Vec::new(),
        };
        for (key, outcome) in outcomes {
            match outcome {
                Ok(Some(found)) => drop(many.found.insert(key, found)),
                Ok(None) => {}
                Err(error) => many.failed.push((key, error)),
            }
        }
        many
    }
}

impl<W: Way> Steps<W> {
    pub(super) async fn get_many<K>(&self, keys: Vec<K>) -> Many<K, Value>
    where
        K: AsRef<[u8]> + Hash + Eq,
    {
        let gets = keys.iter().map(|key| Request::Get(Get::new(key.as_ref())));
        let replies = self.0.ask_all(gets.collect()).await;
        let read = |reply: Result<Reply, _>| Ok(self.values().read(reply?)?.value);
        Many::collect(keys.into_iter().zip(replies.into_iter().map(read)))
    }

    pub(super) async fn set_many<K, V>(&self, pairs: Vec<(K, V)>, put: Put) -> Vec<(K, CacheError)>
    where
        K: AsRef<[u8]>,
        V: Into<Value>,
    {
        let (keys, values): (Vec<K>, Vec<V>) = pairs.into_iter().unzip();
        let mut failed = Vec::new();
        let (mut asked, mut requests) = (Vec::new(), Vec::new());
        for (index, value) in values.into_iter().enumerate() {
            let key = keys[index].as_ref();
            match self.values().store(key, &value.into(), StoreMode::Set, put) {
                Ok(store) => {
                    asked.push(index);
                    requests.push(Request::Store(store));
                }
                Err(error) => failed.push((index, error)),
            }
        }
        let replies = self.0.ask_all(requests).await;
        for (index, reply) in asked.into_iter().zip(replies) {
            if let Err(error) = reply {
                failed.push((index, CacheError::Call(error)));
            }
        }
        let mut keys: Vec<Option<K>> = keys.into_iter().map(Some).collect();
        failed
            .into_iter()
            .filter_map(|(index, error)| Some((keys[index].take()?, error)))
            .collect()
    }

    pub(super) async fn delete_many<K>(&self, keys: Vec<K>) -> Many<K, ()>
    where
        K: AsRef<[u8]> + Hash + Eq,
    {
        let deletes = keys.iter().map(|key| Request::Delete(Delete::new(key.as_ref())));
        let replies = self.0.ask_all(deletes.collect()).await;
        let gone = |reply: Result<Reply, _>| Ok(is_done(&reply?).then_some(()));
        Many::collect(keys.into_iter().zip(replies.into_iter().map(gone)))
    }
}

impl Cache {
    /// The values of many keys. What is not there, and what could not be asked or read, is told apart.
    pub fn get_many<K>(&self, keys: impl IntoIterator<Item = K>) -> Many<K, Value>
    where
        K: AsRef<[u8]> + Hash + Eq,
    {
        now(self.blocking().get_many(keys.into_iter().collect()))
    }

    /// Stores many values; gives the keys of those that are not, or may not be, stored, and why.
    #[must_use = "values that are not stored are told here only"]
    pub fn set_many<K, V>(
        &self,
        pairs: impl IntoIterator<Item = (K, V)>,
        put: impl Into<Put>,
    ) -> Vec<(K, CacheError)>
    where
        K: AsRef<[u8]>,
        V: Into<Value>,
    {
        now(self.blocking().set_many(pairs.into_iter().collect(), put.into()))
    }

    /// Removes many items; found are those that were there.
    pub fn delete_many<K>(&self, keys: impl IntoIterator<Item = K>) -> Many<K, ()>
    where
        K: AsRef<[u8]> + Hash + Eq,
    {
        now(self.blocking().delete_many(keys.into_iter().collect()))
    }
}
