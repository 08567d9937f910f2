//! A source of requests read whole, as policies play it.
//!
//! Every verb is one of three: a look-up that is followed by a store when it missed (`get`, and `add`, which stores what is
//! not there), a store (the other stores, and arithmetic, which makes a new version), a deletion.

use std::collections::HashMap;
use std::path::Path;

use scrubjay_workload::{Draw, Format, Verb};

use super::Plan;
use super::exact::{Expiring, Unbounded};
use super::play::play;

/// Requests a second where the source knows no lives: then time means nothing.
const REQUESTS_PER_SEC: u64 = 50_000;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// A look-up, and a store if it missed.
    Get,
    Set,
    Delete,
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) object: u32,
    /// Bytes of key and value.
    pub(super) size: u32,
    /// Seconds of life of what is stored; 0: for ever.
    pub(super) ttl: u32,
    pub(super) act: Act,
    /// Milliseconds since the start.
    pub(super) millis: u64,
}

impl Request {
    /// The millisecond at which what is stored by it dies.
    pub(super) fn deadline(&self) -> u64 {
        match self.ttl {
            0 => u64::MAX,
            ttl => self.millis + u64::from(ttl) * 1000,
        }
    }
}

/// A source's requests.
#[derive(Clone, Debug)]
pub(super) struct Trace {
    /// In order.
    pub(super) requests: Vec<Request>,
    /// Distinct objects.
    pub(super) objects: usize,
    /// The most bytes of keys and values that are alive at a time in a cache without bounds.
    pub(super) footprint: u64,
}

impl Trace {
    /// Reads a source and all that are joined to it by `+`.
    ///
    /// # Errors
    /// What cannot be read, with the path.
    pub(super) fn read(source: &str, plan: &Plan) -> Result<Trace, String> {
        let draw = Draw {
            keys: plan.keys,
            seed: 1,
            rate: 0.0,
        };
        let mut numbers = HashMap::new();
        let mut requests = Vec::new();
        for part in source.split('+').map(Path::new) {
            let start = requests.last().map_or(0, |last: &Request| last.millis);
            let mut first = None;
            let read = scrubjay_workload::open(part, Format::guess(part), &draw)?;
            for request in read.take(plan.requests) {
                let request = request.map_err(|why| format!("{source}: {why}"))?;
                let first = *first.get_or_insert(request.time);
                let size = (request.key.len() as u32 + request.value_len).max(1);
                let next = numbers.len() as u32;
                let act = match request.verb {
                    Verb::Get | Verb::Store("add") => Act::Get,
                    Verb::Store(_) | Verb::Arith(_) => Act::Set,
                    Verb::Delete => Act::Delete,
                };
                requests.push(Request {
                    object: *numbers.entry(request.key).or_insert(next),
                    size,
                    ttl: request.ttl,
                    act,
                    millis: start + u64::from(request.time.saturating_sub(first)) * 1000,
                });
            }
        }
        if requests.iter().all(|request| request.ttl == 0) {
            let numbered = requests.iter_mut().zip(0u64..);
            numbered.for_each(|(request, at)| request.millis = at * 1000 / REQUESTS_PER_SEC);
        }
        let mut trace = Trace {
            requests,
            objects: numbers.len(),
            footprint: 0,
        };
        let mut unbounded = Expiring::new(Unbounded::default(), &trace);
        play(&trace, &mut unbounded);
        trace.footprint = unbounded.policy.most;
        Ok(trace)
    }

    /// The same with all sizes multiplied.
    pub(super) fn scaled(&self, factor: u32) -> Trace {
        let scale = |request: &Request| Request {
            size: request.size * factor,
            ..*request
        };
        Trace {
            requests: self.requests.iter().map(scale).collect(),
            objects: self.objects,
            footprint: self.footprint * u64::from(factor),
        }
    }
}
