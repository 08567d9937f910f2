//! The servers among which keys are placed: what a scheme may hash of them, in the order in which they were given.

use std::collections::HashSet;
use std::net::Ipv4Addr;

use super::PlacementError;

/// memcached's port, which several libraries leave out of what they hash.
const DEFAULT_PORT: u16 = 11211;

/// A server as schemes see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Host name, address or path of a socket, as the other clients write it: schemes hash the text.
    pub host: String,
    /// TCP port; 0 with a path.
    pub port: u16,
    /// Its share of the keys in relation to the other weights; at least 1.
    pub weight: u32,
    /// What is hashed instead of host and port, so that a server can move and keep its keys.
    pub name: Option<String>,
    /// The host's address, for the one scheme that hashes it besides the name.
    pub address: Option<Ipv4Addr>,
}

impl Server {
    /// A server of weight 1 without a name of its own.
    pub fn new(host: impl Into<String>, port: u16) -> Server {
        Server {
            host: host.into(),
            port,
            weight: 1,
            name: None,
            address: None,
        }
    }

    /// The same with another weight.
    #[must_use]
    pub fn weight(mut self, weight: u32) -> Server {
        self.weight = weight;
        self
    }

    /// Its name, or else host and port.
    pub(super) fn host_and_port(&self) -> String {
        self.name
            .clone()
            .unwrap_or_else(|| format!("{}:{}", self.host, self.port))
    }

    /// Its name, or else the host, with the port if that is another than memcached's.
    pub(super) fn host_and_unusual_port(&self) -> String {
        match &self.name {
            None if self.port == DEFAULT_PORT => self.host.clone(),
            _ => self.host_and_port(),
        }
    }
}

/// Which of the servers, counted from 0 in the order in which they were given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerIndex(u16);

impl ServerIndex {
    /// `index` is below [`Servers::MAX`].
    pub(crate) fn new(index: u32) -> ServerIndex {
        ServerIndex(index as u16)
    }

    /// As a number, for slices.
    pub fn get(self) -> usize {
        usize::from(self.0)
    }
}

/// At least one server, none twice, each with a weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Servers(Vec<Server>);

impl Servers {
    /// How many servers there may be.
    pub const MAX: usize = 1 << 16;

    /// Keeps the order, which several schemes depend on.
    ///
    /// # Errors
    /// There is no server, one is there twice, or one has weight 0.
    pub fn new(servers: Vec<Server>) -> Result<Servers, PlacementError> {
        if servers.is_empty() {
            return Err(PlacementError::NoServers);
        }
        if servers.len() > Servers::MAX {
            return Err(PlacementError::TooManyServers(servers.len()));
        }
        let mut seen = HashSet::new();
        for server in &servers {
            let name = server.host_and_port();
            if server.weight == 0 {
                return Err(PlacementError::NoWeight(name));
            }
            if seen.contains(&name) {
                return Err(PlacementError::Duplicate(name));
            }
            seen.insert(name);
        }
        Ok(Servers(servers))
    }

    /// All of them; a [`ServerIndex`] is an index into this.
    pub fn list(&self) -> &[Server] {
        &self.0
    }

    /// Each with its index.
    pub(super) fn indexed(&self) -> impl Iterator<Item = (ServerIndex, &Server)> {
        self.0
            .iter()
            .enumerate()
            .map(|(index, server)| (ServerIndex::new(index as u32), server))
    }

    /// How many, at least one.
    pub(super) fn count(&self) -> u32 {
        self.0.len() as u32
    }

    /// The sum of the weights.
    pub(super) fn weight(&self) -> u64 {
        self.0.iter().map(|server| u64::from(server.weight)).sum()
    }

    /// The first server with another weight than the first of all has.
    pub(super) fn first_of_other_weight(&self) -> Option<&Server> {
        self.0.iter().find(|server| server.weight != self.0[0].weight)
    }
}
