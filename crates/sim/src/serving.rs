//! The cache service as the binary builds it, without its sockets and threads.

use std::path::Path;
use std::sync::Arc;

use scrubjay_base::time::Now;
use scrubjay_cache::Cache;
use scrubjay_io::file;
use scrubjay_server::auth::{Auth, FILE_LEN_MAX};
use scrubjay_server::options::{self, Environment};
use scrubjay_server::service::{CacheService, Shared};

/// The moment at which simulated time starts.
pub const START: Now = Now::from_secs(10);

/// Unix time at the clock's start, in milliseconds.
const UNIX_MILLIS_AT_START: u64 = 1_800_000_000_000;

/// Key of the digests of passwords.
const LOGIN_KEY: [u8; 32] = [7; 32];

/// Seed of the key hash.
const HASH_SEED: u64 = 1;

/// A cache, and services over it.
#[derive(Debug)]
pub struct Serving {
    shared: Arc<Shared>,
}

impl Serving {
    /// What these arguments of the command line make.
    ///
    /// # Errors
    /// They are wrong, or there is no memory.
    pub fn new(arguments: &[String]) -> Result<Serving, String> {
        let environment = Environment {
            memory_limit: None,
            is_root: false,
        };
        let program = "scrubjay".to_owned();
        let matches = options::add_to(clap::Command::new("scrubjay"))
            .try_get_matches_from([&program].into_iter().chain(arguments))
            .map_err(|error| error.to_string())?;
        let options = options::resolve(&matches, &environment).map_err(|error| error.message)?;
        let cache = Cache::new(options.cache_config(UNIX_MILLIS_AT_START, HASH_SEED))
            .map_err(|error| format!("{error:?}"))?;
        let auth = match &options.auth_file {
            Some(path) => {
                let text =
                    file::read(Path::new(path), FILE_LEN_MAX).map_err(|error| format!("{path}: {error}"))?;
                Some(Arc::new(Auth::new(
                    &text,
                    options.connections_per_user,
                    LOGIN_KEY,
                )?))
            }
            None => None,
        };
        Ok(Serving {
            shared: Shared::new(cache, options, auth, None),
        })
    }

    /// One worker's service.
    pub fn service(&self) -> CacheService {
        CacheService::new(&self.shared)
    }

    /// Another server over the same cache, for the same users: what this one's connections are handed over to.
    pub fn successor(&self) -> Serving {
        let Shared {
            cache, options, auth, ..
        } = &*self.shared;
        Serving {
            shared: Shared::new(Arc::clone(cache), options.clone(), auth.clone(), None),
        }
    }

    /// What its workers share.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The cache.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.shared.cache
    }
}
