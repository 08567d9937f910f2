//! The servers of a client as they are at one moment, with what depends on all of them. A set never changes; another one takes
//! its place, and what both have stays: connections, counters, and what is known of failures.

use std::sync::Arc;

use crate::config::{Apart, Config, ConfigError};
use crate::failover::Gutter;
use crate::placement::{self, Placement, Servers};
use crate::server::Server;

/// Servers, and where keys belong among them.
#[derive(Debug)]
pub(crate) struct Set {
    list: Vec<(placement::Server, Apart)>,
    pub(crate) placement: Placement,
    pub(crate) servers: Vec<Arc<Server>>,
    pub(crate) gutter: Option<Arc<Gutter>>,
}

impl Set {
    /// The servers of `config`.
    pub(crate) fn new(config: &Config) -> Result<Set, ConfigError> {
        let gutter = Gutter::new(config)?.map(Arc::new);
        Set::of(config, gutter, |_| None)
    }

    /// The servers of `config`, which differs from this set's in them alone.
    pub(crate) fn replaced(&self, config: &Config) -> Result<Set, ConfigError> {
        let same = |(place, apart): &(placement::Server, Apart)| {
            let is_same = |(old, old_apart): &(placement::Server, Apart)| {
                (&old.host, old.port, old_apart) == (&place.host, place.port, apart)
            };
            let index = self.list.iter().position(is_same)?;
            Some(Arc::clone(&self.servers[index]))
        };
        Set::of(config, self.gutter.clone(), same)
    }

    fn of(
        config: &Config,
        gutter: Option<Arc<Gutter>>,
        known: impl Fn(&(placement::Server, Apart)) -> Option<Arc<Server>>,
    ) -> Result<Set, ConfigError> {
        let servers = Servers::new(config.servers.clone())?;
        let placement = Placement::new(&servers, &config.scheme)?;
        let apart = |index: usize| config.apart.get(index).copied().unwrap_or_default();
        let list: Vec<_> = (servers.list().iter().cloned().enumerate())
            .map(|(index, server)| (server, apart(index)))
            .collect();
        let server = |(index, entry): (usize, &(placement::Server, Apart))| {
            known(entry).unwrap_or_else(|| Arc::new(Server::new(&entry.0, &config.of_server(index))))
        };
        Ok(Set {
            servers: list.iter().enumerate().map(server).collect(),
            list,
            placement,
            gutter,
        })
    }
}
