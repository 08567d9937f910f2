//! One server: its connections, and whether it is worth asking.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;

use crate::config::Config;
use crate::connection::{Caller, Connection, Desk, Lost, Patience, open};
use crate::error::Error;
use crate::placement;
use crate::protocol::{Form, Reply, Request};
use crate::standing::Standing;

/// How often a request whose connection ended before it was sent is asked again on another one.
pub(crate) const RETRIES: u32 = 2;

/// A server that may or may not be connected.
#[derive(Debug)]
pub(crate) struct Server {
    place: placement::Server,
    config: Config,
    /// Those in use, and some that are no longer.
    connections: ArcSwap<Vec<Arc<Connection>>>,
    opening: Mutex<Opening>,
    standing: Standing,
}

/// Who makes a connection, and who waits for that.
#[derive(Debug, Default)]
struct Opening {
    busy: bool,
    /// Which try it is.
    round: u64,
    /// The last try that failed, and why.
    failed: Option<(u64, Error)>,
    waiting: Vec<Arc<Desk>>,
    /// What the server is known to speak.
    form: Option<Form>,
}

/// What there is instead of a connection, or one.
pub(crate) enum Found {
    Connection(Arc<Connection>),
    /// Somebody makes one; the desk is going to be woken. With the number of the try.
    Opening(u64),
    /// The asker is to make one, by [`Server::open`].
    Nobody(u64),
    /// It was waited for, and could not be made.
    Failed(Error),
}

impl Server {
    /// `config` is that of this server: [`Config::of_one`].
    pub(crate) fn new(place: &placement::Server, config: &Config) -> Server {
        Server {
            standing: Standing::new(place, config),
            place: place.clone(),
            config: config.clone(),
            connections: ArcSwap::default(),
            opening: Mutex::default(),
        }
    }

    /// How messages call it.
    fn name(&self) -> String {
        self.standing.name().to_owned()
    }

    /// Whether it may be asked, what was counted of it, who is told.
    pub(crate) fn standing(&self) -> &Standing {
        &self.standing
    }

    /// Asks, and waits for the reply.
    pub(crate) fn call(&self, mut request: Request<'_>, caller: Caller<'_>) -> Result<Reply, Error> {
        self.admit(caller.patience.since)?;
        let result = self.attempt(&mut request, caller);
        self.note(&result, caller.patience.since, Instant::now());
        result
    }

    fn attempt(&self, request: &mut Request<'_>, caller: Caller<'_>) -> Result<Reply, Error> {
        let mut retries = 0;
        loop {
            let connection = self.connection(caller)?;
            let patience = &caller.patience.at_most(self.config.read_timeout);
            match connection.call(request, Caller { patience, ..caller }) {
                Err(Lost::Unsent) if retries < RETRIES => retries += 1,
                Ok(reply) => return self.result(reply),
                Err(lost) => return Err(self.error(lost, caller.patience)),
            }
        }
    }

    /// What the caller gets.
    pub(crate) fn result(&self, reply: Reply) -> Result<Reply, Error> {
        match reply {
            Reply::Error(error) => Err(Error::Server {
                server: self.name(),
                error,
            }),
            reply => Ok(reply),
        }
    }

    pub(crate) fn error(&self, lost: Lost, patience: &Patience) -> Error {
        let server = self.name();
        match lost {
            Lost::Refused(refused) => Error::Refused(refused),
            Lost::Unsent => Error::Connect {
                server,
                reason: "it ended each time before the request was sent".to_owned(),
            },
            Lost::Broken(reason) => Error::Broken { server, reason },
            Lost::TimedOut => Error::TimedOut {
                server,
                after: patience.total(),
            },
        }
    }

    /// A connection, waiting for it if need be.
    fn connection(&self, caller: Caller<'_>) -> Result<Arc<Connection>, Error> {
        let mut waited = None;
        loop {
            match self.find(caller.desk, waited) {
                Found::Connection(connection) => return Ok(connection),
                Found::Failed(error) => return Err(error),
                Found::Nobody(_) => {
                    if let Some(error) = self.open(caller.patience) {
                        return Err(error);
                    }
                }
                Found::Opening(_) if caller.patience.is_over() => return Err(self.unopened(caller.patience)),
                Found::Opening(round) => {
                    waited = Some(round);
                    caller.desk.sleep(Some(caller.patience.until));
                }
            }
        }
    }

    /// The time was up before there was a connection.
    pub(crate) fn unopened(&self, patience: &Patience) -> Error {
        Error::Connect {
            server: self.name(),
            reason: format!("none in {} ms", patience.total().as_millis()),
        }
    }

    /// Looks for a connection, after having `waited` for that try to make one.
    pub(crate) fn find(&self, desk: &Arc<Desk>, waited: Option<u64>) -> Found {
        if let Some(connection) = self.choose(false) {
            return Found::Connection(connection);
        }
        let mut opening = self.opening();
        if let Some(connection) = self.choose(opening.busy) {
            return Found::Connection(connection);
        }
        match (waited, &opening.failed) {
            (Some(waited), Some((failed, error))) if *failed >= waited => {
                return Found::Failed(error.clone());
            }
            _ => {}
        }
        if opening.busy {
            if !opening.waiting.iter().any(|each| Arc::ptr_eq(each, desk)) {
                opening.waiting.push(desk.clone());
            }
            return Found::Opening(opening.round);
        }
        opening.busy = true;
        opening.round += 1;
        Found::Nobody(opening.round)
    }

    /// The connection with the least outstanding. None if there should be another one, unless it has to `suffice`.
    fn choose(&self, suffice: bool) -> Option<Arc<Connection>> {
        let connections = self.connections.load();
        let usable = || connections.iter().filter(|each| !each.is_retired());
        if self.config.connections <= 1 {
            return usable().next().cloned();
        }
        let (outstanding, least) = usable()
            .map(|each| (each.outstanding(), each))
            .min_by_key(|(outstanding, _)| *outstanding)?;
        let good = suffice || outstanding == 0 || usable().count() >= self.config.connections;
        good.then(|| least.clone())
    }

    /// Makes a connection. Whoever waits for one is woken, and is told what went wrong if it was not for want of this
    /// caller's own time.
    pub(crate) fn open(&self, patience: &Patience) -> Option<Error> {
        let known = self.opening().form;
        let now = Instant::now();
        let own = patience.until.saturating_duration_since(now);
        let short = own < self.config.connect_timeout;
        let patience = Patience::new(now, own.min(self.config.connect_timeout));
        let opened = open::open(&self.place, &self.config, known, &self.standing, &patience);
        let mut opening = self.opening();
        opening.busy = false;
        let error = match opened {
            Ok((connection, form)) => {
                opening.form = Some(form);
                let mut connections: Vec<_> = self.connections.load().iter().cloned().collect();
                connections.retain(|each| !each.is_retired());
                connections.push(Arc::new(connection));
                self.connections.store(Arc::new(connections));
                None
            }
            Err(reason) => {
                opening.form = None;
                let server = self.name();
                let error = Error::Connect { server, reason };
                let told = !(short && patience.is_over());
                opening.failed = told.then(|| (opening.round, error.clone()));
                Some(error)
            }
        };
        let waiting = std::mem::take(&mut opening.waiting);
        drop(opening);
        waiting.iter().for_each(|desk| desk.wake());
        error
    }

    /// Closes connections that have been idle for so long.
    pub(crate) fn close_idle(&self, idle: Duration, now: Instant) {
        let mut closed = false;
        for connection in self.connections.load().iter() {
            closed |= connection.close_if_idle(idle, now);
        }
        if closed {
            // Held against who puts another one beside them.
            let _opening = self.opening();
            let connections = self.connections.load();
            let left = connections.iter().filter(|each| !each.is_retired()).cloned();
            self.connections.store(Arc::new(left.collect()));
        }
    }

    fn opening(&self) -> MutexGuard<'_, Opening> {
        self.opening.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long a connection may take to be made.
    pub(crate) fn connect_patience(&self) -> Patience {
        Patience::new(Instant::now(), self.config.connect_timeout)
    }

    /// How long it may take to answer, if not as long as the call may.
    pub(crate) fn read_timeout(&self) -> Option<Duration> {
        self.config.read_timeout
    }

    /// See [`Standing::admit`].
    pub(crate) fn admit(&self, now: Instant) -> Result<(), Error> {
        self.standing.admit(now)
    }

    /// See [`Standing::note_found`].
    pub(crate) fn note_found(&self, hits: u64, misses: u64, sent: Instant, now: Instant) {
        self.standing.note_found(hits, misses, sent, now);
    }

    /// See [`Standing::note`].
    pub(crate) fn note(&self, result: &Result<Reply, Error>, sent: Instant, now: Instant) {
        self.standing.note(result, sent, now);
    }
}
