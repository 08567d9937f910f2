//! Differential fuzzing: the same random sessions to scrubjay and to memcached, replies compared byte for byte.
//!
//! Left out is what they answer differently on purpose or by nature: `stats`, `me`, delayed `flush_all`, exptimes of a few
//! seconds, and what the notes in `differential/text.rs` and `differential/binary.rs` name. CAS numbers need only stand
//! for each other one to one, lives may differ by some seconds, versions by anything.

pub mod binary;
pub mod session;
pub mod text;
pub mod transcript;

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

use rand::SeedableRng as _;
use rand::rngs::StdRng;

use self::session::{Protocol, Session};
use self::transcript::{Token, differs, starts_with, tokens};
use crate::server::{Connection, PATIENCE, Server};

/// Lengths of values that go where numbers go, under the keys of sessions, in memcached.
const FILLER_LENS: Range<usize> = 1..400;

/// Two servers that should answer the same.
#[derive(Debug)]
pub struct Pair {
    ours: Server,
    theirs: Server,
    are_both_memcached: bool,
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
/// `differential/text.rs`. Once its free memory has been used for something else, another thing lies there.
fn is_by_chance(pair: &Pair, session: &Session, first: &Difference) -> Result<bool, String> {
    const TRIES: usize = 20;
    let refusals = |said: &str| said.matches("on-numeric").count();
    let may_be = match refusals(&first.ours).cmp(&refusals(&first.theirs)) {
        Ordering::Less => true,
        Ordering::Equal => false,
        Ordering::Greater => pair.are_both_memcached,
    };
    if !may_be {
        return Ok(false);
    }
    for _ in 0..TRIES {
        pair.use_free_memory()?;
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
    /// Two running servers, the second of them memcached.
    pub fn new(ours: Server, theirs: Server) -> Pair {
        Pair {
            ours,
            theirs,
            are_both_memcached: false,
        }
    }

    /// Two running memcacheds: what befalls one by chance may befall the other.
    pub fn of_memcached(one: Server, other: Server) -> Pair {
        Pair {
            are_both_memcached: true,
            ..Pair::new(one, other)
        }
    }

    /// Stores items of the sizes that numbers have, so that the next ones lie elsewhere.
    fn use_free_memory(&self) -> Result<(), String> {
        for server in [&self.ours, &self.theirs] {
            let mut connection = connect(server)?;
            for len in FILLER_LENS {
                let value = "f".repeat(len);
                connection.send(format!("set filler{len} 0 0 {len} noreply\r\n{value}\r\n").as_bytes());
            }
            connection.send(b"version\r\n");
            while !connection.received.ends_with(b"\n") && !connection.closed {
                if !connection.receive(PATIENCE) {
                    return Err("version does not answer".to_owned());
                }
            }
        }
        Ok(())
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

fn connect(server: &Server) -> Result<Connection, String> {
    server
        .connect()
        .map_err(|error| format!("no connection: {error}"))
}

/// Runs a session on an emptied server; returns what came back.
fn converse(server: &Server, session: &Session) -> Result<Vec<Token>, String> {
    let mut flush = connect(server)?;
    flush.send(b"flush_all\r\n");
    while flush.received.len() < 4 && flush.receive(PATIENCE) && !flush.closed {}
    if flush.received != b"OK\r\n" {
        return Err("flush_all does not answer".to_owned());
    }

    let mut connection = connect(server)?;
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
