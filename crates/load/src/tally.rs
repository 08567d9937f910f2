//! What became of the requests: counts and latencies of one thread, added up at the end.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use crate::exchange::{Outcome, Verb, Waiting};
use crate::transport::Transport;

/// Longest latency that is told apart from longer ones: a minute, in nanoseconds.
const LATENCY_MAX_NANOS: u64 = 60_000_000_000;

/// Different error texts that are kept; further ones are counted together.
const ERRORS_MAX: usize = 16;

/// What stands for further error texts.
const OTHER_ERRORS: &str = "other errors";

/// Counts of the requests within the measured time, and all faults whenever they were.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Keys asked for and answered, whatever with.
    pub requests: u64,
    /// Gets among them.
    pub gets: u64,
    /// Gets with a value.
    pub hits: u64,
    /// Bytes of these values.
    pub hit_bytes: u64,
    /// Stores without effect and without a reason.
    pub not_stored: u64,
    /// Gets without a value, at any time.
    pub misses: u64,
    /// Values that were not the key's, at any time.
    pub wrong: u64,
    /// Requests over UDP without a reply in time, at any time.
    pub lost: u64,
    /// Stores among the requests of what a get had not found.
    pub refills: u64,
    /// Connections that were opened for their requests and are done with.
    pub connections: u64,
    /// Encrypted ones among them with a session of their own.
    pub handshakes: u64,
    /// Encrypted ones among them that went on with an earlier session.
    pub resumptions: u64,
    /// Requests that were due within the measured time and could not be sent in it.
    pub unsent: u64,
    /// Errors by their text, at any time.
    pub errors: BTreeMap<String, u64>,
    /// Nanoseconds from sending, or from when it was to be sent, to the reply: of gets.
    pub get_latency: Histogram<u64>,
    /// The same of all other requests.
    pub other_latency: Histogram<u64>,
}

impl Default for Tally {
    fn default() -> Tally {
        let histogram =
            || Histogram::new_with_bounds(1, LATENCY_MAX_NANOS, 3).expect("three digits can be kept");
        Tally {
            requests: 0,
            gets: 0,
            hits: 0,
            hit_bytes: 0,
            not_stored: 0,
            misses: 0,
            wrong: 0,
            lost: 0,
            refills: 0,
            connections: 0,
            handshakes: 0,
            resumptions: 0,
            unsent: 0,
            errors: BTreeMap::new(),
            get_latency: histogram(),
            other_latency: histogram(),
        }
    }
}

impl Tally {
    /// Counts a request and its outcome; `is_measured` if it was within the measured time.
    pub fn note(&mut self, waiting: &Waiting, outcome: Outcome<'_>, nanos: u64, is_measured: bool) {
        let is_get = waiting.verb == Verb::Get;
        match outcome {
            Outcome::Hit(len) if is_measured => {
                self.hits += 1;
                self.hit_bytes += len as u64;
            }
            Outcome::Hit(_) | Outcome::Done => {}
            Outcome::Wrong => self.wrong += 1,
            Outcome::Miss => self.misses += u64::from(is_get),
            Outcome::NotStored => self.not_stored += 1,
            Outcome::Refused(text) => self.count_error(text, 1),
        }
        if is_measured {
            self.requests += 1;
            self.gets += u64::from(is_get);
            self.record(waiting.verb, nanos);
        }
    }

    /// Counts a connection that was opened for its requests.
    pub(crate) fn note_connection(&mut self, transport: &Transport, is_measured: bool) {
        if !is_measured {
            return;
        }
        self.connections += 1;
        match transport.is_resumed() {
            None => {}
            Some(true) => self.resumptions += 1,
            Some(false) => self.handshakes += 1,
        }
    }

    /// Records a latency.
    pub fn record(&mut self, verb: Verb, nanos: u64) {
        let latency = match verb {
            Verb::Get => &mut self.get_latency,
            Verb::Set | Verb::Delete => &mut self.other_latency,
        };
        latency.saturating_record(nanos);
    }

    fn count_error(&mut self, text: &str, count: u64) {
        let is_known = self.errors.contains_key(text);
        let text = if is_known || self.errors.len() < ERRORS_MAX {
            text
        } else {
            OTHER_ERRORS
        };
        *self.errors.entry(text.trim_end().to_owned()).or_default() += count;
    }

    /// Adds what another thread counted.
    pub fn add(&mut self, other: &Tally) {
        self.requests += other.requests;
        self.gets += other.gets;
        self.hits += other.hits;
        self.hit_bytes += other.hit_bytes;
        self.not_stored += other.not_stored;
        self.misses += other.misses;
        self.wrong += other.wrong;
        self.lost += other.lost;
        self.refills += other.refills;
        self.connections += other.connections;
        self.handshakes += other.handshakes;
        self.resumptions += other.resumptions;
        self.unsent += other.unsent;
        for (text, count) in &other.errors {
            self.count_error(text, *count);
        }
        for (own, other) in [
            (&mut self.get_latency, &other.get_latency),
            (&mut self.other_latency, &other.other_latency),
        ] {
            own.add(other).expect("histograms of one kind");
        }
    }

    /// Errors of all texts.
    pub fn errors_sum(&self) -> u64 {
        self.errors.values().sum()
    }
}
