//! What is told to whoever wants to know: servers that fail and come back, connections, and how long requests took.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::discovery::DiscoveryError;
use crate::error::Error;

/// What has happened to a server.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// Which server.
    pub server: &'a str,
    /// What happened.
    pub what: What<'a>,
}

/// What happens.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum What<'a> {
    /// A connection was made.
    Connected {
        /// How long that took.
        took: Duration,
    },
    /// A request was answered, be it with an error of the server's.
    Answered {
        /// From asking to the reply.
        took: Duration,
    },
    /// A request or a probe has failed, before anything is done about it.
    Failed(&'a Error),
    /// The server is held to be down.
    Down {
        /// For so long it is left alone.
        interval: Duration,
    },
    /// The server answers again.
    Up,
    /// The list of servers that is followed could not be read; [`Event::server`] says where it comes from.
    NoList(&'a DiscoveryError),
}

type OnEvent = dyn Fn(&Event<'_>) + Send + Sync;

/// What is called with every event, by whichever thread it happens to. It must be quick and must not ask the client anything.
#[derive(Clone)]
pub struct Hook(Arc<OnEvent>);

impl Hook {
    /// Calls this.
    pub fn new(on_event: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Hook {
        Hook(Arc::new(on_event))
    }

    pub(crate) fn tell(&self, server: &str, what: What<'_>) {
        (self.0)(&Event { server, what });
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}
