//! The servers of a client as they are at one moment in one process, with what depends on all of them. Another set takes its
//! place when the servers change, and what both have stays: connections, counters, and what is known of failures. A child that
//! was forked begins with one of its own.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::batch::{self, Routes};
use crate::config::{Apart, Config, ConfigError};
use crate::connection::{Desk, Patience};
use crate::driver::Driver;
use crate::error::Error;
use crate::failover::Gutter;
use crate::idle::Looks;
use crate::lookups::{self, Found};
use crate::placement::{self, Placement, Servers};
use crate::protocol::{Reply, Request};
use crate::server::Server;

/// Servers, and where keys belong among them.
#[derive(Debug)]
pub(crate) struct Set {
    /// Whose it is.
    pub(crate) process: u32,
    list: Vec<(placement::Server, Apart)>,
    pub(crate) placement: Arc<Placement>,
    pub(crate) gutter: Option<Arc<Gutter>>,
    /// Those of the list, then those of the gutter.
    pub(crate) servers: Vec<Arc<Server>>,
    looks: Looks,
    driver: OnceLock<Arc<Driver>>,
    /// Held by who starts the driver.
    starting: Mutex<()>,
}

impl Set {
    /// The servers of `config`.
    pub(crate) fn new(config: &Config) -> Result<Set, ConfigError> {
        let gutter = Gutter::new(config)?.map(Arc::new);
        let servers = Servers::new(config.servers.clone())?;
        let placement = Arc::new(Placement::new(&servers, &config.scheme)?);
        let list = listed(servers.list(), config);
        let alike = Apart::default();
        let of_gutter = gutter.iter().flat_map(|gutter| &gutter.places);
        let all = list.iter().map(|(server, apart)| (server, apart));
        config.check_tls(all.chain(of_gutter.map(|server| (server, &alike))))?;
        Ok(Set::of(config, list, placement, gutter, |_| None))
    }

    /// The servers of `config`, which differs from this set's in them alone.
    pub(crate) fn replaced(&self, config: &Config) -> Result<Set, ConfigError> {
        let servers = Servers::new(config.servers.clone())?;
        let placement = Arc::new(Placement::new(&servers, &config.scheme)?);
        let list = listed(servers.list(), config);
        config.check_tls(list.iter().map(|(server, apart)| (server, apart)))?;
        let known = |(place, apart): &(placement::Server, Apart)| {
            let is_same = |(old, old_apart): &(placement::Server, Apart)| {
                (&old.host, old.port, old_apart) == (&place.host, place.port, apart)
            };
            let index = self.list.iter().position(is_same)?;
            Some(Arc::clone(&self.servers[index]))
        };
        let mut set = Set::of(config, list, placement, self.gutter.clone(), known);
        let of_gutter = &self.servers[self.list.len()..];
        set.servers.splice(set.list.len().., of_gutter.iter().cloned());
        Ok(set)
    }

    /// The same servers, of which this process has no connection and knows nothing.
    pub(crate) fn afresh(&self, config: &Config) -> Set {
        Set::of(
            config,
            self.list.clone(),
            self.placement.clone(),
            self.gutter.clone(),
            |_| None,
        )
    }

    fn of(
        config: &Config,
        list: Vec<(placement::Server, Apart)>,
        placement: Arc<Placement>,
        gutter: Option<Arc<Gutter>>,
        known: impl Fn(&(placement::Server, Apart)) -> Option<Arc<Server>>,
    ) -> Set {
        let server = |entry: &(placement::Server, Apart)| {
            known(entry).unwrap_or_else(|| Arc::new(Server::new(&entry.0, &config.of_one(&entry.1))))
        };
        let alike = config.of_one(&Apart::default());
        let of_gutter = gutter.iter().flat_map(|gutter| &gutter.places);
        Set {
            process: std::process::id(),
            servers: (list.iter().map(server))
                .chain(of_gutter.map(|place| Arc::new(Server::new(place, &alike))))
                .collect(),
            list,
            placement,
            gutter,
            looks: Looks::new(config.idle, Instant::now()),
            driver: OnceLock::new(),
            starting: Mutex::default(),
        }
    }

    /// Closes connections that nobody has needed for long, if it is time to look for such.
    pub(crate) fn close_idle(&self, now: Instant) {
        if let Some(idle) = self.looks.is_time(now) {
            self.servers
                .iter()
                .for_each(|server| server.close_idle(idle, now));
        }
    }

    /// How many servers have keys.
    pub(crate) fn count(&self) -> usize {
        self.list.len()
    }

    /// The server of this index, if there is one now.
    pub(crate) fn server(&self, index: usize) -> Result<&Arc<Server>, Error> {
        self.servers[..self.count()]
            .get(index)
            .ok_or_else(|| Error::Connect {
                server: format!("server {index}"),
                reason: format!("there are only {} servers now", self.count()),
            })
    }

    /// The index among all servers of the gutter's server for a key.
    pub(crate) fn in_gutter(&self, gutter: &Gutter, key: &[u8]) -> usize {
        self.count() + gutter.placement.place(key).get()
    }

    /// How long these servers are waited for: as the slowest of them may take, if each may take less than the call.
    pub(crate) fn patience_for(&self, routes: &[usize], patience: Patience) -> Patience {
        let mut slowest = Duration::ZERO;
        for server in routes {
            match self.servers[*server].read_timeout() {
                Some(time) => slowest = slowest.max(time),
                None => return patience,
            }
        }
        match routes {
            [] => patience,
            _ => patience.at_most(Some(slowest)),
        }
    }

    /// Asks all, each its server of `routes`, and waits until all replies are there or the time is up.
    pub(crate) fn ask_all(
        &self,
        requests: Vec<Request<'_>>,
        routes: &[usize],
        patience: Patience,
    ) -> Vec<Result<Reply, Error>> {
        let desk = Desk::of_thread(self.process);
        batch::call(
            &self.servers,
            desk,
            requests,
            routes,
            self.patience_for(routes, patience),
        )
    }

    /// The same for look-ups of these keys.
    pub(crate) fn look_up(
        &self,
        keys: &[&[u8]],
        with_cas: bool,
        routes: Routes<'_>,
        patience: Patience,
    ) -> Found {
        let patience = self.patience_for(routes.servers(), patience);
        let desk = Desk::of_thread(self.process);
        lookups::look_up(&self.servers, desk, keys, with_cas, routes, patience)
    }

    /// The thread for callers who do not wait.
    pub(crate) fn driver(&self) -> Result<&Arc<Driver>, Error> {
        if let Some(driver) = self.driver.get() {
            return Ok(driver);
        }
        let _one = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(driver) = self.driver.get() {
            return Ok(driver);
        }
        let started = Driver::start(&self.servers, self.looks.afresh()).map_err(|error| Error::Connect {
            server: "the client".to_owned(),
            reason: format!("no thread for it: {error}"),
        })?;
        Ok(self.driver.get_or_init(|| Arc::new(started)))
    }
}

fn listed(servers: &[placement::Server], config: &Config) -> Vec<(placement::Server, Apart)> {
    let apart = |index: usize| config.apart.get(index).cloned().unwrap_or_default();
    let servers = servers.iter().cloned().enumerate();
    servers.map(|(index, server)| (server, apart(index))).collect()
}
