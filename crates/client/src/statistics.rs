//! What a client counts of each server, and how long things took. Counting is a few relaxed additions a request; the whole time
//! of every request is kept, and of one in [`SAMPLE`] also the parts it is made of, as each costs a look at the clock.

use std::time::Duration;

use scrubjay_base::sync::OwnLine;
use scrubjay_base::sync::whole::{AtomicU64, AtomicUsize, Ordering};

use crate::error::Error;
use crate::health::State;
use crate::protocol::Reply;

/// Of one request in so many the parts of its time are kept.
pub const SAMPLE: u64 = 16;

/// What is known of one server since the client was made.
#[derive(Clone, Debug)]
pub struct ServerStatistics {
    /// Which server.
    pub server: String,
    /// Whether it is asked.
    pub state: State,
    /// How often it went down.
    pub downs: u64,
    /// Numbers, as [`COUNTERS`] names them.
    pub counters: Counters,
    /// Times, as [`TIMES`] names them.
    pub times: Times,
}

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// Numbers that only grow.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters { $($(#[doc = $doc])+ pub $name: u64,)+ }

        #[derive(Debug, Default)]
        struct Live { $($name: AtomicU64,)+ }

        impl Live {
            fn add_to(&self, sum: &mut Counters) {
                $(sum.$name += self.$name.load(Ordering::Relaxed);)+
            }
        }

        /// The name of each, and where it is.
        pub static COUNTERS: &[(&str, fn(&Counters) -> u64)] = &[
            $((stringify!($name), |counters| counters.$name),)+
        ];
    };
}

counters! {
    /// Requests that were meant for it, whatever came of them.
    requests,
    /// Look-ups that found something.
    hits,
    /// Look-ups that found nothing.
    misses,
    /// Requests that could not be asked.
    refused,
    /// Requests that were not asked because it was down or offline.
    down,
    /// Requests for which no connection could be made.
    connect_errors,
    /// Requests without a reply in time.
    timeouts,
    /// Requests whose connection broke.
    broken,
    /// Requests that it answered with an error.
    server_errors,
    /// Requests for which the failover stepped in.
    failed_over,
    /// Connections that were made.
    connects,
    /// Bytes that were received.
    bytes_in,
    /// Bytes that were sent.
    bytes_out,
}

impl Counters {
    /// Requests that failed because of the server or the way there; those that were not asked are not among them.
    pub fn failures(&self) -> u64 {
        self.connect_errors + self.timeouts + self.broken
    }
}

/// How long things took.
#[derive(Clone, Debug)]
pub struct Times {
    /// Making a connection; of each.
    pub connect: Histogram,
    /// From asking to the reply or the failure; of each request that was asked.
    pub wait: Histogram,
    /// From asking until the request's first byte is given to the kernel; of some.
    pub queue: Histogram,
    /// From there until the reply's last byte has come; of some.
    pub wire: Histogram,
    /// Making bytes of requests and replies of bytes; of some.
    pub parse: Histogram,
}

/// Where a time is.
pub type TimeOf = fn(&Times) -> &Histogram;

/// The name of each, and where it is.
pub static TIMES: &[(&str, TimeOf)] = &[
    ("connect", |times| &times.connect),
    ("wait", |times| &times.wait),
    ("queue", |times| &times.queue),
    ("wire", |times| &times.wire),
    ("parse", |times| &times.parse),
];

/// Eight buckets to each doubling from a microsecond to two minutes: what is read is at most an eighth too long.
const STEPS: u32 = 3;
const LOWEST: u32 = 10;
const HIGHEST: u32 = 36;
const BUCKETS: usize = 1 + ((HIGHEST - LOWEST + 1) << STEPS) as usize;

/// How often what took how long.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Box<[u64]>,
}

impl Histogram {
    fn new() -> Histogram {
        Histogram {
            counts: [0; BUCKETS].into(),
        }
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// So large a share took no longer, 0.99 for the 99th percentile; zero if there were none.
    pub fn quantile(&self, share: f64) -> Duration {
        let wanted = ((self.count() as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (at_most, count) in self.buckets() {
            seen += count;
            if seen >= wanted {
                return at_most;
            }
        }
        Duration::ZERO
    }

    /// The longest.
    pub fn max(&self) -> Duration {
        self.quantile(1.0)
    }

    /// How many took at most so long and longer than those of the bucket before; the last bucket also has what took longer.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> {
        self.counts
            .iter()
            .enumerate()
            .map(|(bucket, count)| (at_most(bucket), *count))
    }
}

fn bucket(nanos: u64) -> usize {
    if nanos < 1 << LOWEST {
        return 0;
    }
    let doublings = 63 - nanos.leading_zeros();
    let step = nanos >> (doublings - STEPS) & ((1 << STEPS) - 1);
    (1 + (u64::from(doublings - LOWEST) << STEPS) + step).min(BUCKETS as u64 - 1) as usize
}

fn at_most(bucket: usize) -> Duration {
    let Some(bucket) = bucket.checked_sub(1) else {
        return Duration::from_nanos((1 << LOWEST) - 1);
    };
    let (doublings, step) = (
        LOWEST + (bucket >> STEPS) as u32,
        (bucket & ((1 << STEPS) - 1)) as u64,
    );
    Duration::from_nanos(((1 << STEPS) + step + 1) << (doublings - STEPS)) - Duration::from_nanos(1)
}

/// A histogram that all threads write into.
#[derive(Debug)]
struct LiveHistogram([AtomicU64; BUCKETS]);

impl LiveHistogram {
    fn new() -> LiveHistogram {
        LiveHistogram(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    fn add(&self, time: Duration) {
        self.add_many(time, 1);
    }

    fn add_many(&self, time: Duration, count: u64) {
        let nanos = time.as_nanos().min(u128::from(u64::MAX)) as u64;
        self.0[bucket(nanos)].fetch_add(count, Ordering::Relaxed);
    }

    fn add_to(&self, sum: &mut Histogram) {
        for (sum, count) in sum.counts.iter_mut().zip(&self.0) {
            *sum += count.load(Ordering::Relaxed);
        }
    }

    fn read(&self) -> Histogram {
        let mut sum = Histogram::new();
        self.add_to(&mut sum);
        sum
    }
}

/// So many parts the counts of each server have; threads that write into different parts do not slow each other.
const PARTS: usize = 8;

thread_local! {
    /// Which part this thread writes into: threads take turns.
    static PART: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed) % PARTS
    };
}

/// What every request is counted in.
#[derive(Debug)]
struct Part {
    counters: Live,
    wait: LiveHistogram,
}

/// Where what happens with one server is counted, by any thread.
///
/// Written by all who ask the server, read by whoever wants statistics; nothing is published by it, so all is relaxed.
#[derive(Debug)]
pub(crate) struct Recorder {
    parts: Box<[OwnLine<Part>]>,
    connect: LiveHistogram,
    queue: LiveHistogram,
    wire: LiveHistogram,
    parse: LiveHistogram,
    downs: AtomicU64,
}

impl Recorder {
    pub(crate) fn new() -> Recorder {
        let part = || Part {
            counters: Live::default(),
            wait: LiveHistogram::new(),
        };
        Recorder {
            parts: (0..PARTS).map(|_| OwnLine(part())).collect(),
            connect: LiveHistogram::new(),
            queue: LiveHistogram::new(),
            wire: LiveHistogram::new(),
            parse: LiveHistogram::new(),
            downs: AtomicU64::new(0),
        }
    }

    fn part(&self) -> &Part {
        &self.parts[PART.with(|part| *part)].0
    }

    fn counters(&self) -> &Live {
        &self.part().counters
    }

    /// Whether the parts of the next request's time are to be kept.
    pub(crate) fn is_sampled(&self) -> bool {
        let requests = self.counters().requests.load(Ordering::Relaxed);
        requests.is_multiple_of(SAMPLE)
    }

    /// A connection was made.
    pub(crate) fn connected(&self, took: Duration) {
        add(&self.counters().connects, 1);
        self.connect.add(took);
    }

    /// From asking until the first byte is given to the kernel.
    pub(crate) fn queued(&self, took: Duration) {
        self.queue.add(took);
    }

    /// From there until the last byte of the reply has come.
    pub(crate) fn on_wire(&self, took: Duration) {
        self.wire.add(took);
    }

    /// Making bytes of a request, and a reply of bytes.
    pub(crate) fn parsed(&self, took: Duration) {
        self.parse.add(took);
    }

    /// Bytes were sent.
    pub(crate) fn sent(&self, bytes: usize) {
        add(&self.counters().bytes_out, bytes as u64);
    }

    /// Bytes were received.
    pub(crate) fn received(&self, bytes: usize) {
        add(&self.counters().bytes_in, bytes as u64);
    }

    /// Failover has stepped in for a request.
    pub(crate) fn failed_over(&self) {
        add(&self.counters().failed_over, 1);
    }

    /// The server went down.
    pub(crate) fn went_down(&self) {
        add(&self.downs, 1);
    }

    /// What came of a request.
    pub(crate) fn ended(&self, result: &Result<Reply, Error>, took: Duration) {
        let part = self.part();
        let counters = &part.counters;
        add(&counters.requests, 1);
        let kind = match result {
            Ok(Reply::Value(_)) => Some(&counters.hits),
            Ok(Reply::Miss) => Some(&counters.misses),
            Ok(_) => None,
            Err(Error::Refused(_)) => Some(&counters.refused),
            Err(Error::Down { .. }) => Some(&counters.down),
            Err(Error::Connect { .. }) => Some(&counters.connect_errors),
            Err(Error::TimedOut { .. }) => Some(&counters.timeouts),
            Err(Error::Broken { .. }) => Some(&counters.broken),
            Err(Error::Server { .. }) => Some(&counters.server_errors),
        };
        if let Some(kind) = kind {
            add(kind, 1);
        }
        if !matches!(result, Err(Error::Refused(_) | Error::Down { .. })) {
            part.wait.add(took);
        }
    }

    /// What came of look-ups that were asked together.
    pub(crate) fn found(&self, hits: u64, misses: u64, took: Duration) {
        let part = self.part();
        add(&part.counters.requests, hits + misses);
        add(&part.counters.hits, hits);
        add(&part.counters.misses, misses);
        part.wait.add_many(took, hits + misses);
    }

    pub(crate) fn read(&self, server: String, state: State) -> ServerStatistics {
        let mut counters = Counters::default();
        let mut wait = Histogram::new();
        for OwnLine(part) in &self.parts {
            part.counters.add_to(&mut counters);
            part.wait.add_to(&mut wait);
        }
        ServerStatistics {
            server,
            state,
            downs: self.downs.load(Ordering::Relaxed),
            counters,
            times: Times {
                connect: self.connect.read(),
                wait,
                queue: self.queue.read(),
                wire: self.wire.read(),
                parse: self.parse.read(),
            },
        }
    }
}

fn add(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{BUCKETS, LiveHistogram, at_most, bucket};

    #[test]
    fn every_time_is_in_the_bucket_that_says_so() {
        for number in 0..BUCKETS - 1 {
            let last = at_most(number).as_nanos() as u64;
            assert_eq!((bucket(last), bucket(last + 1)), (number, number + 1), "{last}");
        }
        assert_eq!(bucket(0), 0);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_at_most_an_eighth_too_long() {
        let live = LiveHistogram::new();
        for micros in 1..=1000 {
            live.add(Duration::from_micros(micros));
        }
        let histogram = live.read();
        assert_eq!(histogram.count(), 1000);
        for (share, micros) in [(0.5, 500), (0.99, 990), (1.0, 1000)] {
            let read = histogram.quantile(share).as_micros();
            assert!((micros..=micros * 9 / 8 + 1).contains(&read), "{share}: {read}");
        }
        assert_eq!(LiveHistogram::new().read().max(), Duration::ZERO);
    }
}
