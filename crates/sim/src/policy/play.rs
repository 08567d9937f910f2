//! One trace, one player: what it missed, and of that what it need not have missed.

use scrubjay_io::clock::thread_cpu_nanos;

use super::trace::{Act, Request, Trace};

/// Whoever can play a trace.
pub(super) trait Player {
    /// Time has come to `millis`; never goes back.
    fn advance(&mut self, millis: u64);
    /// Whether the request's object is here.
    fn get(&mut self, request: &Request) -> bool;
    /// Stores the request's object.
    fn set(&mut self, request: &Request);
    /// Deletes the request's object.
    fn delete(&mut self, request: &Request);
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outcome {
    /// Misses in a look-up.
    pub(super) miss_ratio: f64,
    /// Of these misses those of objects that had been stored, had life left and were not deleted.
    pub(super) lost_ratio: f64,
    /// Bytes relocated for each byte inserted; 0 for those who do not say.
    pub(super) relocated: f64,
    /// Evictions that broke promise P1; see docs/internals/eviction.md.
    pub(super) beyond_bound: u64,
    /// Processor time of a request in nanoseconds.
    pub(super) nanos: f64,
}

/// Plays the trace.
pub(super) fn play(trace: &Trace, player: &mut impl Player) -> Outcome {
    // For each object the millisecond at which its last version dies.
    let mut deadlines = vec![0u64; trace.objects];
    let (mut gets, mut misses, mut lost) = (0u64, 0u64, 0u64);
    let started = thread_cpu_nanos();
    for request in &trace.requests {
        player.advance(request.millis);
        let deadline = &mut deadlines[request.object as usize];
        gets += u64::from(request.act == Act::Get);
        match request.act {
            Act::Get if player.get(request) => {}
            Act::Get => {
                misses += 1;
                lost += u64::from(*deadline > request.millis);
                *deadline = request.deadline();
                player.set(request);
            }
            Act::Set => {
                *deadline = request.deadline();
                player.set(request);
            }
            Act::Delete => {
                *deadline = 0;
                player.delete(request);
            }
        }
    }
    let nanos = (thread_cpu_nanos() - started) as f64;
    let share = |count: u64, of: u64| count as f64 / of.max(1) as f64;
    Outcome {
        miss_ratio: share(misses, gets),
        lost_ratio: share(lost, gets),
        relocated: 0.0,
        beyond_bound: 0,
        nanos: nanos / trace.requests.len().max(1) as f64,
    }
}
