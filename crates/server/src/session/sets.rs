//! Sets that a client sends one behind the other, without waiting: each line is read once, and what many will write is fetched
//! while the processor would wait for the first.

use scrubjay_cache::{Body, FETCH_AHEAD_MAX, PinnedSlice};
use scrubjay_net::Output;
use scrubjay_protocol::text::{WholeSet, whole_set};

use super::text::Order;
use super::{Context, OUTPUT_PER_CALL, Run};
use crate::watch::Stream;

/// What a set starts with.
pub(super) const SET: &[u8; 4] = b"set ";

/// Does the sets that `input` starts with, at most `most`, up to one that is unusual, has not come wholly or is too large. `None`: it
/// starts with none, or with one alone before something else, and that is better looked ahead for together.
#[inline(never)]
pub(super) fn run(
    context: &mut Context<'_>,
    input: &[u8],
    output: &mut Output<PinnedSlice>,
    most: usize,
) -> Option<Run> {
    let first = whole_set(input)?;
    if context.is_restricted() || context.is_told(Stream::RawCommands.bit()) || !is_admitted(context, &first)
    {
        return None;
    }
    if input[first.len..].starts_with(SET) {
        return Some(run_of_many(context, first, input, output, most));
    }
    if first.len < input.len() && context.worker.is_fetching_worth_it() {
        return None;
    }
    store(context, &first, output);
    Some(Run {
        count: 1,
        len: first.len,
        ..Run::default()
    })
}

#[inline(never)]
fn run_of_many<'i>(
    context: &mut Context<'_>,
    first: WholeSet<'i>,
    input: &'i [u8],
    output: &mut Output<PinnedSlice>,
    most: usize,
) -> Run {
    let mut run = Run::default();
    let mut sets = [first; FETCH_AHEAD_MAX];
    let (mut count, mut at) = (1, first.len);
    loop {
        for place in sets.iter_mut().take(most - run.count).skip(count) {
            let Some(set) = whole_set(&input[at..]) else {
                break;
            };
            if !is_admitted(context, &set) {
                break;
            }
            *place = set;
            at += set.len;
            count += 1;
        }
        let sets = &sets[..count];
        context.worker.fetch_ahead(sets.iter().map(|set| set.line.key));
        for set in sets {
            store(context, set, output);
            run.last = run.len;
            run.len += set.len;
            run.fetched = run.len;
            run.count += 1;
            if output.len() >= OUTPUT_PER_CALL {
                return run;
            }
        }
        if count < FETCH_AHEAD_MAX || run.count == most {
            return run;
        }
        count = 0;
    }
}

/// Whether the cache takes an item of this size.
#[inline]
fn is_admitted(context: &Context<'_>, set: &WholeSet<'_>) -> bool {
    let WholeSet { line, value, .. } = set;
    context
        .worker
        .admits(line.key.len(), line.flags, value.len() as u64)
}

#[inline(always)]
fn store(context: &mut Context<'_>, set: &WholeSet<'_>, output: &mut Output<PinnedSlice>) {
    let is_measured = context.is_due();
    if is_measured {
        context.counters.observed.take_up(context.shared);
    }
    let order = Order::of(&set.line, set.noreply);
    order.store(context, set.line.key, Body::Bytes(set.value), output.bytes());
    if is_measured {
        context.counters.observed.answered(context.shared, context.now);
    }
}
