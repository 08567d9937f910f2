//! Input that nobody wants: the data block of a store that was refused, the rest of a line that is too long.

use std::borrow::Cow;

use scrubjay_cache::PinnedSlice;
use scrubjay_net::Output;
use scrubjay_protocol::reply::{self, Words};
use scrubjay_protocol::text::first_line;

use super::{Progress, Step};

/// What is left of a data block, and what is answered then, if anything.
#[derive(Debug)]
pub(super) struct Unwanted {
    pub(super) left: usize,
    pub(super) words: Option<Cow<'static, str>>,
}

impl Step {
    pub(super) fn swallow(left: usize, words: Option<Words>) -> Step {
        let words = words.map(Cow::Borrowed);
        Step::Swallow(Box::new(Unwanted { left, words }))
    }
}

/// Passes over what nobody wants.
pub(super) fn swallow(step: &mut Step, input: &[u8], output: &mut Output<PinnedSlice>) -> Progress {
    match step {
        Step::Swallow(unwanted) => {
            let len = input.len().min(unwanted.left);
            unwanted.left -= len;
            if unwanted.left > 0 {
                return Progress::Partial(len);
            }
            if let Some(words) = &unwanted.words {
                reply::line(output.bytes(), words);
            }
            *step = Step::Line;
            Progress::Consumed(len)
        }
        _ => match memchr_newline(input) {
            Some(at) => {
                *step = Step::Line;
                Progress::Consumed(at + 1)
            }
            None => Progress::Partial(input.len()),
        },
    }
}

fn memchr_newline(input: &[u8]) -> Option<usize> {
    first_line(input).map(|line| line.len - 1)
}
