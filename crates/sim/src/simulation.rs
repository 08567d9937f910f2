//! The server simulated: workers over one cache, clients that send in pieces and vanish, time that jumps, memory that is
//! short. All of it follows from a seed.
//!
//! The checker knows what was stored. Under pressure any item may be gone at any moment, so a miss is always believed;
//! a hit must be the value stored last, and never one that expired, was deleted, replaced or flushed.

use std::collections::HashMap;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use scrubjay_base::time::Now;
use scrubjay_net::Service;

use crate::in_process::{Cuts, InProcess};
use crate::runner::{Target as _, describe};

/// Keys in play.
const KEYS: usize = 200;

/// Clients at a time.
const CLIENTS: usize = 8;

/// Longest value.
const VALUE_LEN_MAX: usize = 20_000;

/// What one simulation did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Requests answered and checked.
    pub requests: u64,
    /// Look-ups that found something.
    pub hits: u64,
    /// Connections that vanished.
    pub vanished: u64,
}

#[derive(Clone, Copy, Debug)]
enum Verb {
    Set,
    Add,
    Replace,
    Append,
    Cas,
    Get,
    Delete,
    Increment,
    Touch,
    FlushAll,
}

/// A request on its way.
#[derive(Clone, Debug)]
struct Request {
    verb: Verb,
    key: String,
    value: Vec<u8>,
    exptime: i64,
    cas: u64,
    noreply: bool,
    /// Bytes of it that the server has not got yet.
    missing: usize,
}

/// What the checker believes of a key.
#[derive(Clone, Debug)]
struct Known {
    value: Vec<u8>,
    deadline: Option<u64>,
    cas: Option<u64>,
}

struct Client {
    worker: usize,
    connection: usize,
    /// Sent by the client, not yet arrived.
    in_flight: Vec<u8>,
    requests: Vec<Request>,
}

struct World<S: Service> {
    random: StdRng,
    now: Now,
    workers: Vec<InProcess<S>>,
    opened: Vec<usize>,
    clients: Vec<Client>,
    known: HashMap<String, Known>,
    /// A CAS number last read of a key.
    read_cas: HashMap<String, u64>,
    serial: u64,
    tally: Tally,
}

/// Simulates `steps` steps of clients on these workers, which share one cache; `maintain` is its background work.
///
/// # Errors
/// The first reply that is wrong.
pub fn run<S: Service>(
    seed: u64,
    steps: usize,
    workers: Vec<S>,
    start: Now,
    mut maintain: impl FnMut(Now),
) -> Result<Tally, String> {
    let mut world = World {
        random: StdRng::seed_from_u64(seed),
        now: start,
        opened: vec![0; workers.len()],
        workers: workers
            .into_iter()
            .map(|service| InProcess::new(service, start, Cuts::None))
            .collect(),
        clients: Vec::new(),
        known: HashMap::new(),
        read_cas: HashMap::new(),
        serial: 0,
        tally: Tally::default(),
    };
    for _ in 0..steps {
        match world.random.random_range(0..100) {
            0 => world.pass_time(&mut maintain),
            1 => world.vanish(),
            2..10 => world.connect()?,
            10..40 => world.ask(),
            _ => world.deliver()?,
        }
    }
    Ok(world.tally)
}

impl<S: Service> World<S> {
    fn connect(&mut self) -> Result<(), String> {
        if self.clients.len() == CLIENTS {
            return Ok(());
        }
        let worker = self.random.random_range(0..self.workers.len());
        self.workers[worker].open()?;
        self.clients.push(Client {
            worker,
            connection: self.opened[worker],
            in_flight: Vec::new(),
            requests: Vec::new(),
        });
        self.opened[worker] += 1;
        Ok(())
    }

    fn pass_time(&mut self, maintain: &mut impl FnMut(Now)) {
        let millis = *[1, 250, 1_000, 3_000, 60_000]
            .get(self.random.random_range(0..5))
            .unwrap_or(&1);
        self.now = self.now.plus_nanos(millis * 1_000_000);
        self.workers
            .iter_mut()
            .for_each(|worker| worker.set_now(self.now));
        maintain(self.now);
    }

    /// A client goes away; what had not arrived never will.
    fn vanish(&mut self) {
        if self.clients.is_empty() {
            return;
        }
        let index = self.random.random_range(0..self.clients.len());
        let client = self.clients.swap_remove(index);
        self.workers[client.worker].finish(client.connection);
        self.tally.vanished += 1;
    }

    /// A client sends some requests.
    fn ask(&mut self) {
        if self.clients.is_empty() {
            return;
        }
        let index = self.random.random_range(0..self.clients.len());
        for _ in 0..self.random.random_range(1..4) {
            let (request, bytes) = self.request();
            let client = &mut self.clients[index];
            client.in_flight.extend_from_slice(&bytes);
            client.requests.push(request);
        }
    }

    fn request(&mut self) -> (Request, Vec<u8>) {
        let verb = match self.random.random_range(0..200) {
            0..60 => Verb::Set,
            60..70 => Verb::Add,
            70..80 => Verb::Replace,
            80..90 => Verb::Append,
            90..100 => Verb::Cas,
            100..160 => Verb::Get,
            160..180 => Verb::Delete,
            180..190 => Verb::Increment,
            190..199 => Verb::Touch,
            _ => Verb::FlushAll,
        };
        let key = format!("key-{}", self.random.random_range(0..KEYS));
        self.serial += 1;
        let value = if self.random.random_ratio(1, 5) {
            self.serial.to_string().into_bytes()
        } else {
            let padding = match self.random.random_range(0..20) {
                0 => self.random.random_range(0..VALUE_LEN_MAX),
                _ => self.random.random_range(0..300),
            };
            format!("{key}:{}:{}", self.serial, "x".repeat(padding)).into_bytes()
        };
        let exptime = *[0, 0, 0, 1, 2, 5, 60, -1]
            .get(self.random.random_range(0..8))
            .unwrap_or(&0);
        let noreply = self.random.random_ratio(1, 10) && !matches!(verb, Verb::Get);
        let cas = self.read_cas.get(&key).copied().unwrap_or(1);
        let mut request = Request {
            verb,
            key,
            value,
            exptime,
            cas,
            noreply,
            missing: 0,
        };
        let bytes = request.encode();
        request.missing = bytes.len();
        (request, bytes)
    }

    /// Some of what a client sent arrives; replies to what is complete are checked.
    fn deliver(&mut self) -> Result<(), String> {
        if self.clients.is_empty() {
            return Ok(());
        }
        let index = self.random.random_range(0..self.clients.len());
        let client = &mut self.clients[index];
        let all = client.in_flight.len();
        if all == 0 {
            return Ok(());
        }
        let len = if self.random.random_bool(0.5) {
            all
        } else {
            self.random.random_range(1..=all)
        };
        let bytes: Vec<u8> = client.in_flight.drain(..len).collect();
        let (worker, connection) = (client.worker, client.connection);
        let mut left = len;
        let mut complete = Vec::new();
        while left > 0 {
            let request = &mut client.requests[0];
            let part = left.min(request.missing);
            request.missing -= part;
            left -= part;
            if request.missing == 0 {
                complete.push(client.requests.remove(0));
            }
        }
        self.workers[worker].send(connection, &bytes);
        let replies = std::mem::take(self.workers[worker].received(connection));
        let mut rest = &replies[..];
        for request in complete {
            let len = self.check(&request, rest).map_err(|why| {
                format!(
                    "{why}\n{request:?}\n{}",
                    describe(&rest[..rest.len().min(500)], false)
                )
            })?;
            rest = &rest[len..];
            self.tally.requests += 1;
        }
        if rest.is_empty() {
            Ok(())
        } else {
            Err(format!("too many replies:\n{}", describe(rest, false)))
        }
    }

    fn deadline(&self, exptime: i64) -> Option<u64> {
        let now = self.now.millis();
        match exptime {
            0 => None,
            ..0 => Some(now),
            secs => Some(now + secs as u64 * 1000),
        }
    }

    /// The item that may be there.
    fn live(&self, key: &str) -> Option<&Known> {
        let now = self.now.millis();
        self.known
            .get(key)
            .filter(|known| known.deadline.is_none_or(|deadline| deadline > now))
    }

    fn remember(&mut self, request: &Request, value: Vec<u8>, deadline: Option<u64>) {
        let known = Known {
            value,
            deadline,
            cas: None,
        };
        self.known.insert(request.key.clone(), known);
    }

    /// Checks the reply at the start of `rest` and returns its length.
    fn check(&mut self, request: &Request, rest: &[u8]) -> Result<usize, String> {
        if let Verb::Get = request.verb {
            return self.check_get(request, rest);
        }
        if request.noreply {
            self.assume(request);
            return Ok(0);
        }
        let end = rest
            .windows(2)
            .position(|pair| pair == b"\r\n")
            .ok_or("no reply")?;
        let known = self.live(&request.key).cloned();
        self.check_line(request, &rest[..end], known)?;
        Ok(end + 2)
    }

    fn check_get(&mut self, request: &Request, rest: &[u8]) -> Result<usize, String> {
        if rest.starts_with(b"END\r\n") {
            self.known.remove(&request.key);
            return Ok(5);
        }
        let known = self.live(&request.key).cloned().ok_or("a hit on nothing")?;
        let header = format!("VALUE {} 0 {} ", request.key, known.value.len());
        let after = rest.strip_prefix(header.as_bytes()).ok_or("another item")?;
        let end = after
            .iter()
            .position(|byte| *byte == b'\r')
            .ok_or("no end of the line")?;
        let cas = std::str::from_utf8(&after[..end])
            .ok()
            .and_then(|digits| digits.parse::<u64>().ok())
            .ok_or("no CAS number")?;
        if known.cas.is_some_and(|known| known != cas) {
            return Err("another CAS number".to_owned());
        }
        let body = [b"\r\n", &known.value[..], b"\r\nEND\r\n"].concat();
        if !after[end..].starts_with(&body) {
            return Err("another value".to_owned());
        }
        self.read_cas.insert(request.key.clone(), cas);
        self.known.insert(
            request.key.clone(),
            Known {
                cas: Some(cas),
                ..known
            },
        );
        self.tally.hits += 1;
        Ok(header.len() + end + body.len())
    }

    fn check_line(&mut self, request: &Request, line: &[u8], known: Option<Known>) -> Result<(), String> {
        let deadline = self.deadline(request.exptime);
        match (request.verb, line) {
            (Verb::Set | Verb::Add, b"STORED") => {
                self.remember(request, request.value.clone(), deadline);
            }
            (Verb::Add, b"NOT_STORED") if known.is_some() => {}
            (Verb::Replace, b"STORED") if known.is_some() => {
                self.remember(request, request.value.clone(), deadline);
            }
            (Verb::Append, b"STORED") => {
                let known = known.ok_or("appended to nothing")?;
                let value = [&known.value[..], &request.value].concat();
                self.remember(request, value, known.deadline);
            }
            (Verb::Replace | Verb::Append, b"NOT_STORED") => drop(self.known.remove(&request.key)),
            (Verb::Cas, b"STORED") => {
                let known = known.ok_or("cas over nothing")?;
                if known.cas.is_some_and(|cas| cas != request.cas) {
                    return Err("cas over another version".to_owned());
                }
                self.remember(request, request.value.clone(), deadline);
            }
            (Verb::Cas, b"EXISTS") if known.as_ref().is_some_and(|known| known.cas != Some(request.cas)) => {}
            (Verb::Cas | Verb::Delete | Verb::Increment | Verb::Touch, b"NOT_FOUND") => {
                self.known.remove(&request.key);
            }
            (Verb::Delete, b"DELETED") if known.is_some() => drop(self.known.remove(&request.key)),
            (Verb::Touch, b"TOUCHED") if known.is_some() => {
                if let Some(known) = self.known.get_mut(&request.key) {
                    known.deadline = deadline;
                }
            }
            (Verb::FlushAll, b"OK") => self.known.clear(),
            (Verb::Increment, reply) => self.check_increment(request, reply, known)?,
            _ => return Err("not what was to be expected".to_owned()),
        }
        Ok(())
    }

    fn check_increment(
        &mut self,
        request: &Request,
        reply: &[u8],
        known: Option<Known>,
    ) -> Result<(), String> {
        let known = known.ok_or("counted nothing")?;
        let number = std::str::from_utf8(&known.value)
            .ok()
            .and_then(|text| text.trim_end().parse::<u64>().ok());
        match number {
            None if reply.starts_with(b"CLIENT_ERROR cannot increment") => Ok(()),
            Some(number) if reply == (number + 1).to_string().as_bytes() => {
                self.remember(request, reply.to_vec(), known.deadline);
                Ok(())
            }
            _ => Err("counted wrong".to_owned()),
        }
    }

    /// What a request without reply may have done; where that cannot be known, the key is forgotten by deleting it.
    fn assume(&mut self, request: &Request) {
        let deadline = self.deadline(request.exptime);
        match request.verb {
            Verb::Set => self.remember(request, request.value.clone(), deadline),
            Verb::Delete => drop(self.known.remove(&request.key)),
            Verb::FlushAll => self.known.clear(),
            _ => unreachable!("these are sent with reply"),
        }
    }
}

impl Request {
    /// The request's bytes. Requests whose effect only their reply tells are sent with reply.
    fn encode(&mut self) -> Vec<u8> {
        self.noreply &= matches!(self.verb, Verb::Set | Verb::Delete | Verb::FlushAll);
        let noreply = if self.noreply { " noreply" } else { "" };
        let Request {
            key,
            exptime,
            value,
            cas,
            ..
        } = self;
        let len = value.len();
        let line = match self.verb {
            Verb::Set => format!("set {key} 0 {exptime} {len}{noreply}\r\n"),
            Verb::Add => format!("add {key} 0 {exptime} {len}\r\n"),
            Verb::Replace => format!("replace {key} 0 {exptime} {len}\r\n"),
            Verb::Append => format!("append {key} 0 0 {len}\r\n"),
            Verb::Cas => format!("cas {key} 0 {exptime} {len} {cas}\r\n"),
            Verb::Get => format!("gets {key}\r\n"),
            Verb::Delete => format!("delete {key}{noreply}\r\n"),
            Verb::Increment => format!("incr {key} 1\r\n"),
            Verb::Touch => format!("touch {key} {exptime}\r\n"),
            Verb::FlushAll => format!("flush_all{noreply}\r\n"),
        };
        let mut bytes = line.into_bytes();
        if matches!(
            self.verb,
            Verb::Set | Verb::Add | Verb::Replace | Verb::Append | Verb::Cas
        ) {
            bytes.extend_from_slice(value);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes
    }
}
