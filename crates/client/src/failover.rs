//! What becomes of a request whose server has failed, or is known to be down. `docs/client/failover.md` has the table; [`decide`] is
//! it.
//!
//! Two things hold in every mode. A change that may have been executed is not made a second time, and its caller gets the error:
//! nobody can say more. And what carries a CAS number, or asks for one, stays with its server: numbers of two servers mean
//! nothing to each other, and two could be equal.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use std::vec::IntoIter;

use crate::config::{Config, ConfigError, Failover};
use crate::connection::Patience;
use crate::driver::{Done, Kept};
use crate::error::Error;
use crate::placement::{self, Placement, ServerIndex, Servers};
use crate::protocol::{Arith, Delete, Get, Reply, Request, Store, Touch};
use crate::set::Set;

/// What to do after a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The caller gets the error.
    Fail,
    /// The caller gets this reply, as if the server were there and empty.
    Reply(Reply),
    /// Somebody else is asked.
    Ask,
}

/// The table.
pub(crate) fn decide(failover: &Failover, request: &Request<'_>, error: &Error) -> Decision {
    if !error.is_failure() || request.key().is_none() {
        return Decision::Fail;
    }
    let is_get = matches!(request, Request::Get(_));
    if error.is_doubtful() && !is_get {
        return Decision::Fail;
    }
    match failover {
        Failover::Error => Decision::Fail,
        Failover::Miss => not_done(request).map_or(Decision::Fail, Decision::Reply),
        Failover::Next(_) | Failover::Gutter { .. } if needs_cas(request) => Decision::Fail,
        Failover::Next(_) | Failover::Gutter { .. } => Decision::Ask,
    }
}

/// The reply that says that nothing is there and nothing was done.
fn not_done(request: &Request<'_>) -> Option<Reply> {
    match request {
        Request::Get(_) => Some(Reply::Miss),
        Request::Store(Store { cas: None, .. }) => Some(Reply::NotStored),
        Request::Store(_) | Request::Delete(_) | Request::Touch(_) | Request::Arith(_) => {
            Some(Reply::NotFound)
        }
        Request::Noop | Request::Version | Request::Flush { .. } => None,
    }
}

fn needs_cas(request: &Request<'_>) -> bool {
    match request {
        Request::Get(get) => get.with_cas,
        Request::Store(store) => store.cas.is_some(),
        Request::Delete(delete) => delete.cas.is_some(),
        _ => false,
    }
}

/// The same request without owning its value, to be asked once more if need be.
pub(crate) fn again<'b>(request: &'b Request<'_>) -> Request<'b> {
    match request {
        Request::Get(get) => Request::Get(*get),
        Request::Touch(touch) => Request::Touch(*touch),
        Request::Store(store) => Request::Store(Store {
            value: Cow::Borrowed(&store.value),
            ..*store
        }),
        Request::Delete(delete) => Request::Delete(*delete),
        Request::Arith(arith) => Request::Arith(*arith),
        Request::Noop => Request::Noop,
        Request::Version => Request::Version,
        Request::Flush { delay_secs } => Request::Flush {
            delay_secs: *delay_secs,
        },
    }
}

/// Where a request began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin<'a> {
    pub(crate) set: &'a Set,
    pub(crate) failover: &'a Failover,
    /// What its server was found by.
    pub(crate) key: &'a [u8],
    /// Its server, one of the set's.
    pub(crate) own: usize,
}

/// How far a request has come that began with its own server.
#[derive(Debug, Default)]
pub(crate) struct Detour {
    /// What it got there.
    first: Option<Error>,
    others: IntoIter<usize>,
}

/// Where a request goes on.
#[derive(Debug)]
pub(crate) enum Step {
    /// To this one of the set's servers, as [`Origin::adapted`] makes it.
    Ask(usize),
    /// Nowhere: this is what the caller gets.
    End(Result<Reply, Error>),
}

impl Detour {
    /// What to do after the server that was asked last has failed; without time left nobody else is asked. If nobody else can be
    /// reached either, the caller gets the error of the request's own server.
    pub(crate) fn after(
        &mut self,
        error: Error,
        request: &Request<'_>,
        origin: Origin<'_>,
        in_time: bool,
    ) -> Step {
        let decision = decide(origin.failover, request, &error);
        let is_first = self.first.is_none();
        if is_first && decision != Decision::Fail {
            origin.set.servers[origin.own].standing().recorder().failed_over();
        }
        match decision {
            Decision::Fail => return Step::End(Err(error)),
            Decision::Reply(reply) => return Step::End(Ok(reply)),
            Decision::Ask if is_first => {
                self.first = Some(error);
                self.others = origin.others().into_iter();
            }
            Decision::Ask => {}
        }
        match self.others.next().filter(|_| in_time) {
            Some(server) => Step::Ask(server),
            None => Step::End(Err(self.first.take().expect("it has been the first"))),
        }
    }
}

impl Origin<'_> {
    /// The request as others are asked it.
    pub(crate) fn adapted<'b>(&self, request: &'b Request<'_>) -> Request<'b> {
        match &self.set.gutter {
            Some(gutter) => gutter.capped(request),
            None => again(request),
        }
    }

    /// Who is asked, one after the other.
    fn others(&self) -> Vec<usize> {
        match (self.failover, &self.set.gutter) {
            (Failover::Next(count), _) => {
                let own = ServerIndex::new(self.own as u32);
                let others = self.set.placement.others(self.key, own, *count as usize);
                others.into_iter().map(ServerIndex::get).collect()
            }
            (_, Some(gutter)) => vec![self.set.in_gutter(gutter, self.key)],
            _ => Vec::new(),
        }
    }
}

/// What the caller gets for a request that has failed with `error` on its own server; `ask` asks another one.
pub(crate) fn end(
    origin: Origin<'_>,
    request: &Request<'_>,
    mut error: Error,
    patience: &Patience,
    ask: impl Fn(usize, Request<'_>) -> Result<Reply, Error>,
) -> Result<Reply, Error> {
    let mut detour = Detour::default();
    loop {
        match detour.after(error, request, origin, !patience.is_over()) {
            Step::End(reply) => return reply,
            Step::Ask(server) => match ask(server, origin.adapted(request)) {
                Err(later) if later.is_failure() => error = later,
                reply => return reply,
            },
        }
    }
}

/// As [`end`] for many requests, whose first replies these are, failed or not: in each round all that are left are asked
/// together, each the next one of its own list.
pub(crate) fn end_all<'a>(
    requests: &[Request<'_>],
    replies: Vec<Result<Reply, Error>>,
    origin: impl Fn(usize) -> Origin<'a>,
    patience: &Patience,
    ask: impl Fn(Vec<Request<'_>>, &[usize]) -> Vec<Result<Reply, Error>>,
) -> Vec<Result<Reply, Error>> {
    let mut ends: Vec<Option<Result<Reply, Error>>> = replies.iter().map(|_| None).collect();
    let first = |(at, reply)| (at, Detour::default(), reply);
    let mut left: Vec<(usize, Detour, Result<Reply, Error>)> =
        replies.into_iter().enumerate().map(first).collect();
    while !left.is_empty() {
        let in_time = !patience.is_over();
        let mut on_way = Vec::new();
        let mut asked = Vec::new();
        let mut routes = Vec::new();
        for (at, mut detour, reply) in left {
            let step = match reply {
                Err(error) if error.is_failure() => detour.after(error, &requests[at], origin(at), in_time),
                reply => Step::End(reply),
            };
            match step {
                Step::End(reply) => ends[at] = Some(reply),
                Step::Ask(server) => {
                    asked.push(origin(at).adapted(&requests[at]));
                    routes.push(server);
                    on_way.push((at, detour));
                }
            }
        }
        let replies = ask(asked, &routes);
        let with_reply = |((at, detour), reply)| (at, detour, reply);
        left = on_way.into_iter().zip(replies).map(with_reply).collect();
    }
    ends.into_iter()
        .map(|end| end.expect("each has come to one"))
        .collect()
}

/// A request for which nobody waits, with all that is needed to ask others if its server fails.
pub(crate) struct Pursuit {
    pub(crate) set: Arc<Set>,
    pub(crate) failover: Failover,
    /// What its server was found by.
    pub(crate) placed: Vec<u8>,
    /// The index of its server.
    pub(crate) own: usize,
    pub(crate) kept: Kept,
    pub(crate) patience: Patience,
    pub(crate) detour: Detour,
}

impl Pursuit {
    /// What came of asking: `done` gets it, or somebody else is asked.
    pub(crate) fn go_on(mut self, reply: Result<Reply, Error>, done: Done) {
        let error = match reply {
            Err(error) if error.is_failure() => error,
            reply => return done(reply),
        };
        let origin = Origin {
            set: &self.set,
            failover: &self.failover,
            key: &self.placed,
            own: self.own,
        };
        let (detour, in_time) = (&mut self.detour, !self.patience.is_over());
        let step = self
            .kept
            .with_ref(|request| detour.after(error, request, origin, in_time));
        let server = match step {
            Step::End(reply) => return done(reply),
            Step::Ask(server) => server,
        };
        // It has been asked by a driver before, so there is one.
        let driver = match self.set.driver() {
            Ok(driver) => driver.clone(),
            Err(error) => return done(Err(error)),
        };
        let kept = self.kept.with_ref(|request| {
            let key = request.key().unwrap_or_default().into();
            Kept::new(key, origin.adapted(request), server)
        });
        let patience = self.set.patience_for(&[server], self.patience);
        driver.call(kept, patience, Box::new(move |reply| self.go_on(reply, done)));
    }
}

/// Servers that stand in for all others, and keep what they are given for a short time only.
#[derive(Debug)]
pub(crate) struct Gutter {
    pub(crate) placement: Placement,
    pub(crate) places: Vec<placement::Server>,
    ttl_secs: i64,
}

impl Gutter {
    /// The one that is configured, if there is one. Its keys are placed by the same scheme.
    pub(crate) fn new(config: &Config) -> Result<Option<Gutter>, ConfigError> {
        let Failover::Gutter { servers, ttl } = &config.failover else {
            return Ok(None);
        };
        let servers = Servers::new(servers.clone())?;
        let placement = Placement::new(&servers, &config.scheme)?;
        Ok(Some(Gutter {
            placement,
            places: servers.list().to_vec(),
            ttl_secs: ttl.as_secs().clamp(1, EXPTIME_RELATIVE_MAX as u64) as i64,
        }))
    }

    /// The request with no longer a life for what it stores than is allowed here.
    pub(crate) fn capped<'b>(&self, request: &'b Request<'_>) -> Request<'b> {
        let unix_now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let unix_secs = unix_now.unwrap_or(Duration::ZERO).as_secs() as i64;
        let cap = |exptime: i64| cap(exptime, self.ttl_secs, unix_secs);
        match again(request) {
            Request::Get(get) => Request::Get(Get {
                touch: get.touch.map(cap),
                vivify: get.vivify.map(cap),
                ..get
            }),
            Request::Touch(touch) => Request::Touch(Touch {
                exptime: cap(touch.exptime),
                ..touch
            }),
            Request::Store(store) => Request::Store(Store {
                exptime: cap(store.exptime),
                ..store
            }),
            Request::Delete(delete) => Request::Delete(Delete {
                invalidate: delete.invalidate.map(cap),
                ..delete
            }),
            Request::Arith(arith) => Request::Arith(Arith {
                initial: arith.initial.map(|(number, exptime)| (number, cap(exptime))),
                ..arith
            }),
            keyless => keyless,
        }
    }
}

/// Up to here an exptime is seconds from now, beyond it a moment in Unix time.
const EXPTIME_RELATIVE_MAX: i64 = 30 * 86_400;

/// The exptime, or one in `ttl` seconds if it is later; 0 is never.
fn cap(exptime: i64, ttl: i64, unix_now: i64) -> i64 {
    match exptime {
        ..=-1 => exptime,
        0 => ttl,
        1..=EXPTIME_RELATIVE_MAX => exptime.min(ttl),
        _ if exptime - unix_now > ttl => ttl,
        _ => exptime,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Decision, cap, decide};
    use crate::config::Failover;
    use crate::error::Error;
    use crate::protocol::{Arith, Broken, Delete, Get, Reply, Request, ServerError, Store, Touch, reply};

    const TTL: i64 = 60;

    fn requests() -> Vec<(&'static str, Request<'static>)> {
        let store = Store::new(b"k", b"v".as_slice());
        let with_cas = Get {
            with_cas: true,
            ..Get::new(b"k")
        };
        let touch = Touch {
            key: b"k",
            exptime: 0,
            quiet: false,
        };
        let compare = Store {
            cas: Some(1),
            ..store.clone()
        };
        vec![
            ("get", Request::Get(Get::new(b"k"))),
            ("gets", Request::Get(with_cas)),
            ("set", Request::Store(store)),
            ("cas", Request::Store(compare)),
            ("delete", Request::Delete(Delete::new(b"k"))),
            ("touch", Request::Touch(touch)),
            ("incr", Request::Arith(Arith::new(b"k", 1))),
            ("version", Request::Version),
        ]
    }

    /// The table, row by row: what was asked, and what becomes of it in which mode if nothing was sent, and if it is in doubt.
    #[test]
    fn each_row_of_the_table_is_as_documented() {
        use Decision::{Ask, Fail};
        let reply = Decision::Reply;
        let server = || "a:1".to_owned();
        let refused = Error::Connect {
            server: server(),
            reason: String::new(),
        };
        let down = Error::Down {
            server: server(),
            retry_after: Duration::ZERO,
        };
        let timed_out = Error::TimedOut {
            server: server(),
            after: Duration::ZERO,
        };
        let broken = Error::Broken {
            server: server(),
            reason: Broken::Ended,
        };
        let answered = Error::Server {
            server: server(),
            error: ServerError {
                kind: reply::ErrorKind::Server,
                words: String::new(),
            },
        };
        let gutter = Failover::Gutter {
            servers: Vec::new(),
            ttl: Duration::from_secs(1),
        };
        // miss when nothing was sent, miss when in doubt, next and gutter when nothing was sent, the same in doubt.
        let rows = [
            ("get", reply(Reply::Miss), reply(Reply::Miss), Ask, Ask),
            ("gets", reply(Reply::Miss), reply(Reply::Miss), Fail, Fail),
            ("set", reply(Reply::NotStored), Fail, Ask, Fail),
            ("cas", reply(Reply::NotFound), Fail, Fail, Fail),
            ("delete", reply(Reply::NotFound), Fail, Ask, Fail),
            ("touch", reply(Reply::NotFound), Fail, Ask, Fail),
            ("incr", reply(Reply::NotFound), Fail, Ask, Fail),
            ("version", Fail, Fail, Fail, Fail),
        ];
        for ((name, miss, miss_doubt, ask, ask_doubt), (of, request)) in rows.into_iter().zip(requests()) {
            assert_eq!(name, of);
            for error in [&refused, &down] {
                assert_eq!(decide(&Failover::Error, &request, error), Fail, "{name}");
                assert_eq!(decide(&Failover::Miss, &request, error), miss, "{name}");
                assert_eq!(decide(&Failover::Next(1), &request, error), ask, "{name}");
                assert_eq!(decide(&gutter, &request, error), ask, "{name}");
            }
            for error in [&timed_out, &broken] {
                assert_eq!(decide(&Failover::Error, &request, error), Fail, "{name}");
                assert_eq!(decide(&Failover::Miss, &request, error), miss_doubt, "{name}");
                assert_eq!(decide(&Failover::Next(1), &request, error), ask_doubt, "{name}");
                assert_eq!(decide(&gutter, &request, error), ask_doubt, "{name}");
            }
            assert_eq!(decide(&Failover::Miss, &request, &answered), Fail, "{name}");
        }
    }

    #[test]
    fn no_life_in_the_gutter_is_longer_than_allowed() {
        const NOW: i64 = 1_700_000_000;
        for (exptime, capped) in [
            (0, TTL),
            (-1, -1),
            (1, 1),
            (60, 60),
            (61, 60),
            (30 * 86_400, 60),
            (NOW - 5, NOW - 5),
            (NOW + 60, NOW + 60),
            (NOW + 61, 60),
        ] {
            assert_eq!(cap(exptime, TTL, NOW), capped, "{exptime}");
        }
    }
}
