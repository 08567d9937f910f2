//! The servers of a client as they are at one moment, with what depends on all of them. A set never changes; another one takes
//! its place, and what both have stays: connections, counters, and what is known of failures.

use std::sync::Arc;

use crate::config::{Apart, Config, ConfigError};
use crate::failover::{Gutter, again};
use crate::placement::{self, Placement, Servers};
use crate::protocol::Request;
use crate::server::Server;

/// Servers, and where keys belong among them.
#[derive(Debug)]
pub(crate) struct Set {
    /// What the servers were made from.
    list: Vec<(placement::Server, Apart)>,
    pub(crate) placement: Placement,
    /// Those of the list, and behind them those of the gutter.
    pub(crate) servers: Vec<Arc<Server>>,
    /// How many the list has.
    pub(crate) count: usize,
    pub(crate) gutter: Option<Gutter>,
}

impl Set {
    /// The servers of `config`; those that are in `before` as well, and do not differ, are taken from there.
    pub(crate) fn new(config: &Config, before: Option<&Set>) -> Result<Set, ConfigError> {
        let servers = Servers::new(config.servers.clone())?;
        let placement = Placement::new(&servers, &config.scheme)?;
        let gutter = Gutter::new(config)?;
        let apart = |index: usize| config.apart.get(index).copied().unwrap_or_default();
        let gutter_list = gutter.iter().flat_map(|gutter| gutter.servers.list());
        let list: Vec<_> = (servers.list().iter().enumerate())
            .map(|(index, server)| (server.clone(), apart(index)))
            .chain(gutter_list.map(|server| (server.clone(), Apart::default())))
            .collect();
        let count = servers.list().len();
        let servers = list.iter().enumerate().map(|(index, (place, apart))| {
            // A server may be in the gutter besides: it is asked as two.
            let known = before.and_then(|before| before.find(place, apart, index >= count));
            known.unwrap_or_else(|| Arc::new(Server::new(place, &config.of_server(*apart))))
        });
        Ok(Set {
            servers: servers.collect(),
            list,
            placement,
            count,
            gutter,
        })
    }

    /// A server that is reached in the same way and does not differ otherwise; another share of the keys is no difference.
    fn find(&self, place: &placement::Server, apart: &Apart, in_gutter: bool) -> Option<Arc<Server>> {
        let is_same = |(index, (known, known_apart)): (usize, &(placement::Server, Apart))| {
            (index >= self.count) == in_gutter
                && (&known.host, known.port, known_apart) == (&place.host, place.port, apart)
        };
        let index = self.list.iter().enumerate().position(is_same)?;
        Some(self.servers[index].clone())
    }

    /// A request as this server is to be asked it: in the gutter, nothing lives longer than it may there.
    pub(crate) fn fit<'b>(&self, server: usize, request: &'b Request<'_>) -> Request<'b> {
        match &self.gutter {
            Some(gutter) if server >= self.count => gutter.capped(request),
            _ => again(request),
        }
    }
}
