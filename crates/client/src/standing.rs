//! How one server stands with its client: whether it may be asked, what was counted of it, and who is told.
//!
//! Before each request [`Standing::admit`] is asked, after it [`Standing::note`] is told. A server that is down is probed by a
//! thread of its own, at most one a server, on a connection of its own: no caller waits for a server that is thought to be dead.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::config::Config;
use crate::connection::{Patience, open};
use crate::error::Error;
use crate::event::{Hook, What};
use crate::health::{Admission, Change, Circuit, Limits};
use crate::placement;
use crate::protocol::Reply;
use crate::statistics::{Recorder, ServerStatistics};

/// What is known of a server, shared by its callers and its prober.
#[derive(Clone, Debug)]
pub(crate) struct Standing(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: String,
    place: placement::Server,
    limits: Limits,
    config: Config,
    circuit: Circuit,
    recorder: Recorder,
    hook: Option<Hook>,
    origin: Instant,
}

impl Standing {
    /// `config` is that of this server: [`Config::of_one`].
    pub(crate) fn new(place: &placement::Server, config: &Config) -> Standing {
        let name = match place.port {
            0 => place.host.clone(),
            port => format!("{}:{port}", place.host),
        };
        let read_timeout = config.read_timeout.unwrap_or(config.timeout);
        let limits = Limits {
            failure_limit: config.failure_limit,
            connect_failure_limit: config.connect_failure_limit.unwrap_or(config.failure_limit),
            interval: config.retry_interval,
            interval_max: config.retry_interval_max,
            // A prober ends by itself within these; only one that could not say so is overtaken by another.
            probe_max: (config.connect_timeout + read_timeout) * 2,
        };
        let circuit = Circuit::new();
        if config.apart.first().is_some_and(|apart| apart.offline) {
            circuit.set_offline(true, 0);
        }
        Standing(Arc::new(Inner {
            name,
            place: place.clone(),
            limits,
            config: config.clone(),
            circuit,
            recorder: Recorder::new(),
            hook: config.on_event.clone(),
            origin: Instant::now(),
        }))
    }

    /// How messages call the server.
    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }

    /// Where connections, bytes and times are counted.
    pub(crate) fn recorder(&self) -> &Recorder {
        &self.0.recorder
    }

    /// What was counted.
    pub(crate) fn statistics(&self) -> ServerStatistics {
        self.0.recorder.read(self.0.name.clone(), self.0.circuit.state())
    }

    /// Sets the server offline: it keeps its keys and is not asked; or online again.
    pub(crate) fn set_offline(&self, offline: bool) {
        self.0.circuit.set_offline(offline, self.0.at(Instant::now()));
    }

    /// Whether the server may be asked now.
    ///
    /// # Errors
    /// [`Error::Down`], which has been counted: [`Standing::note`] need not be told.
    pub(crate) fn admit(&self, now: Instant) -> Result<(), Error> {
        let retry_after = match self.0.circuit.admit(self.0.at(now), &self.0.limits) {
            Admission::Ask => return Ok(()),
            Admission::Refuse(retry_after) => retry_after,
            Admission::Probe => {
                self.probe();
                Duration::ZERO
            }
        };
        let down = Err(Error::Down {
            server: self.0.name.clone(),
            retry_after,
        });
        self.0.recorder.ended(&down, Duration::ZERO);
        down.map(|_: Reply| ())
    }

    /// What came, `now`, of a request that was admitted; `sent` is not before the moment it was admitted at.
    pub(crate) fn note(&self, result: &Result<Reply, Error>, sent: Instant, now: Instant) {
        let took = now.saturating_duration_since(sent);
        self.0.recorder.ended(result, took);
        let change = match result {
            Ok(_) | Err(Error::Server { .. }) => {
                self.0.tell(What::Answered { took });
                self.0.circuit.succeeded(self.0.at(sent))
            }
            Err(error) if error.is_failure() => {
                self.0.tell(What::Failed(error));
                self.0.failed(error, sent, now)
            }
            Err(_) => None,
        };
        self.0.changed(change);
    }

    /// As [`Standing::note`] for look-ups that were asked together and got their replies.
    pub(crate) fn note_found(&self, hits: u64, misses: u64, sent: Instant, now: Instant) {
        let took = now.saturating_duration_since(sent);
        self.0.recorder.found(hits, misses, took);
        if self.0.hook.is_some() {
            (0..hits + misses).for_each(|_| self.0.tell(What::Answered { took }));
        }
        let change = self.0.circuit.succeeded(self.0.at(sent));
        self.0.changed(change);
    }

    /// A connection was made.
    pub(crate) fn connected(&self, took: Duration) {
        self.0.recorder.connected(took);
        self.0.tell(What::Connected { took });
    }

    /// Looks whether the server is back, on a thread of its own.
    fn probe(&self) {
        let inner = Arc::clone(&self.0);
        let thread = std::thread::Builder::new().name("scrubjay-probe".to_owned());
        if let Err(error) = thread.spawn(move || inner.probe()) {
            self.0
                .settle(Err(self.0.no_connection(error.to_string())), Instant::now());
        }
    }
}

impl Inner {
    /// A moment as the circuit counts them.
    fn at(&self, moment: Instant) -> u64 {
        moment.saturating_duration_since(self.origin).as_micros() as u64
    }

    fn tell(&self, what: What<'_>) {
        if let Some(hook) = &self.hook {
            hook.tell(&self.name, what);
        }
    }

    fn changed(&self, change: Option<Change>) {
        match change {
            Some(Change::Down(interval)) => {
                self.recorder.went_down();
                self.tell(What::Down { interval });
            }
            Some(Change::Up) => self.tell(What::Up),
            None => {}
        }
    }

    fn failed(&self, error: &Error, sent: Instant, now: Instant) -> Option<Change> {
        let unconnected = matches!(error, Error::Connect { .. });
        (self.circuit).failed(self.at(sent), self.at(now), &self.limits, unconnected)
    }

    fn no_connection(&self, reason: String) -> Error {
        Error::Connect {
            server: self.name.clone(),
            reason,
        }
    }

    fn probe(&self) {
        let started = Instant::now();
        self.settle(self.ask(), started);
    }

    fn settle(&self, probed: Result<(), Error>, started: Instant) {
        let change = match probed {
            Ok(()) => self.circuit.succeeded(self.at(started)),
            Err(error) => {
                self.tell(What::Failed(&error));
                self.failed(&error, started, Instant::now())
            }
        };
        self.changed(change);
    }

    /// Connects and asks whether anybody is there.
    fn ask(&self) -> Result<(), Error> {
        let patience = Patience::new(Instant::now(), self.limits.probe_max / 2);
        open::look(&self.place, &self.config, &patience).map_err(|reason| self.no_connection(reason))
    }
}
