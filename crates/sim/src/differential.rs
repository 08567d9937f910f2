//! Differential fuzzing: the same random sessions to scrubjay and to memcached, replies compared byte for byte.
//!
//! Left out is what they answer differently on purpose or by nature: `stats`, `me`, delayed `flush_all`, exptimes of a few
//! seconds, and what the notes in `differential/text.rs` and `differential/binary.rs` name. CAS numbers need only stand
//! for each other one to one, lives may differ by some seconds, versions by anything.

pub mod binary;
pub mod session;
pub mod text;
pub mod transcript;

use std::collections::HashMap;
use std::fmt;

use rand::SeedableRng as _;
use rand::rngs::StdRng;

use self::session::{Protocol, Session};
use self::transcript::{Token, differs, starts_with, tokens};
use crate::server::{Connection, PATIENCE, Server};

/// Two servers that should answer the same.
#[derive(Debug)]
pub struct Pair {
    ours: Server,
    theirs: Server,
}

/// What both servers are started with: room enough that neither evicts.
pub fn arguments() -> Vec<String> {
    ["-m", "1024", "-I", "1m"].map(str::to_owned).to_vec()
}

/// Random sessions until `requests` requests were sent; returns how many sessions that took.
///
/// # Errors
/// The first difference, cut down to few requests, with the seed of its session.
pub fn run(pair: &Pair, seed: u64, requests: usize) -> Result<usize, String> {
    let mut sent = 0;
    let mut sessions = 0;
    while sent < requests {
        let session_seed = seed + sessions as u64;
        sent += run_one(pair, session_seed)?;
        sessions += 1;
    }
    Ok(sessions)
}

/// The one session of this seed; returns how many requests it has.
///
/// # Errors
/// The difference, cut down to few requests.
pub fn run_one(pair: &Pair, session_seed: u64) -> Result<usize, String> {
    let session = Session::random(&mut StdRng::seed_from_u64(session_seed));
    if let Some(first) = pair.difference(&session)?
        && !is_by_chance(pair, &session, &first)?
    {
        let small = shrink(pair, session.clone())?;
        let why = match pair.difference(&small)? {
            Some(why) => why.to_string(),
            None => format!("not every time; the whole session's first difference:\n{first}"),
        };
        return Err(format!(
            "session {session_seed}, cut down:\n{}{why}",
            small.describe()
        ));
    }
    Ok(session.len())
}

/// Whether this is memcached counting, or not, with a number of 2^63 or more by what happens to lie behind it in its memory: see
/// `differential/text.rs`. What lies there is another thing soon.
fn is_by_chance(pair: &Pair, session: &Session, first: &Difference) -> Result<bool, String> {
    const TRIES: usize = 20;
    let refusals = |said: &str| said.matches("on-numeric").count();
    if refusals(&first.ours) >= refusals(&first.theirs) {
        return Ok(false);
    }
    for _ in 0..TRIES {
        if pair.difference(session)?.is_none() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Leaves out requests as long as the difference stays.
fn shrink(pair: &Pair, mut session: Session) -> Result<Session, String> {
    let mut step = session.len().div_ceil(2);
    while step > 0 {
        let mut from = 0;
        while from < session.len() {
            let candidate = session.without(from, from + step);
            if !candidate.is_empty() && pair.difference(&candidate)?.is_some() {
                session = candidate;
            } else {
                from += step;
            }
        }
        step = if step == 1 { 0 } else { step.div_ceil(2) };
    }
    Ok(session)
}

/// What both said to a session that they do not answer alike.
struct Difference {
    ours: String,
    theirs: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ours:\n{}theirs:\n{}", self.ours, self.theirs)
    }
}

impl Pair {
    /// Two running servers.
    pub fn new(ours: Server, theirs: Server) -> Pair {
        Pair { ours, theirs }
    }

    /// Runs a session on both; says how the replies differ.
    fn difference(&self, session: &Session) -> Result<Option<Difference>, String> {
        let ours = converse(&self.ours, session)?;
        let theirs = converse(&self.theirs, session)?;
        let is_same = if session.may_lose_replies {
            starts_with(&ours, &theirs)
        } else {
            !differs(&ours, &theirs)
        };
        Ok((!is_same).then(|| Difference {
            ours: transcript::describe(&ours),
            theirs: transcript::describe(&theirs),
        }))
    }
}

/// Runs a session on an emptied server; returns what came back.
fn converse(server: &Server, session: &Session) -> Result<Vec<Token>, String> {
    let connect = || {
        server
            .connect()
            .map_err(|error| format!("no connection: {error}"))
    };
    let mut flush = connect()?;
    flush.send(b"flush_all\r\n");
    while flush.received.len() < 4 && flush.receive(PATIENCE) && !flush.closed {}
    if flush.received != b"OK\r\n" {
        return Err("flush_all does not answer".to_owned());
    }

    let mut connection = connect()?;
    let mut seen = Vec::new();
    let mut done = 0;
    for (index, batch) in session.batches.iter().enumerate() {
        let last = index + 1 == session.batches.len();
        let mut bytes = Vec::new();
        for request in batch {
            request.encode(&seen, &mut bytes);
        }
        if !last || !session.may_lose_replies {
            session.protocol.encode_barrier(index, &mut bytes);
        }
        connection.send(&bytes);
        if last {
            connection.finish();
            while !connection.closed {
                if !connection.receive(PATIENCE) {
                    return Ok(vec![Token::Bytes(b"no reply in time".to_vec())]);
                }
            }
        } else if !wait_for_barrier(&mut connection, session.protocol, index, done) {
            break;
        }
        done = connection.received.len();
        seen = cas_numbers(&tokens(&connection.received));
    }
    Ok(tokens(&connection.received))
}

/// Waits for the reply to the barrier of batch `index`; `false` if the connection closed first.
fn wait_for_barrier(connection: &mut Connection, protocol: Protocol, index: usize, from: usize) -> bool {
    while !protocol.ends_with_barrier(index, &connection.received[from..]) {
        if connection.closed || !connection.receive(PATIENCE) {
            return false;
        }
    }
    true
}

fn cas_numbers(tokens: &[Token]) -> Vec<u64> {
    let cas = |token: &Token| match token {
        Token::Cas(cas) => Some(*cas),
        _ => None,
    };
    tokens.iter().filter_map(cas).collect()
}

/// A one-to-one relation between two servers' CAS numbers.
#[derive(Debug, Default)]
struct CasPairs {
    ours: HashMap<u64, u64>,
    theirs: HashMap<u64, u64>,
}

impl CasPairs {
    fn fit(&mut self, ours: u64, theirs: u64) -> bool {
        if ours == 0 || theirs == 0 {
            return ours == theirs;
        }
        *self.ours.entry(ours).or_insert(theirs) == theirs
            && *self.theirs.entry(theirs).or_insert(ours) == ours
    }
}
