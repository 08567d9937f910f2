//! Replies that follow on one another: look-ups of many keys are answered into room that is made for several of them at once.

use scrubjay_cache::{Hit, PinnedSlice};
use scrubjay_net::Output;
use scrubjay_protocol::reply::Line;

use super::{COPY_VALUE_LEN_MAX, push_value};

/// Room that is made beyond what is needed where more replies are to follow.
const ROOM_AHEAD: usize = 1 << 10;

/// Replies on their way into the output. When it is dropped, they are there.
#[derive(Debug)]
pub(super) struct Replies<'o> {
    output: &'o mut Output<PinnedSlice>,
    /// Where the next one goes; what the buffer holds from there on is room.
    end: usize,
    ahead: usize,
}

impl<'o> Replies<'o> {
    /// None yet, and only one to come.
    #[inline]
    pub(super) fn new(output: &'o mut Output<PinnedSlice>) -> Replies<'o> {
        Replies {
            end: output.bytes().len(),
            output,
            ahead: 0,
        }
    }

    /// More than one is to come.
    #[inline]
    pub(super) fn expect_more(&mut self) {
        self.ahead = ROOM_AHEAD;
    }

    /// Bytes waiting in the output.
    #[inline]
    pub(super) fn len(&mut self) -> usize {
        self.output.len() - (self.output.bytes().len() - self.end)
    }

    /// Appends what `write` writes, at most `room` bytes.
    ///
    /// # Panics
    /// In `write`, if there is more.
    #[inline]
    pub(super) fn write(&mut self, room: usize, write: impl for<'l> FnOnce(Line<'l>) -> Line<'l>) {
        let out = self.output.bytes();
        let end = self.end + room;
        if out.len() < end {
            out.resize(end + self.ahead, 0);
        }
        self.end = end - write(Line::new(&mut out[self.end..end])).left();
    }

    /// The value of a hit as it goes out, if it is copied.
    #[inline]
    pub(super) fn copied<'h>(hit: &'h Hit<'_>) -> Option<&'h [u8]> {
        hit.in_one().filter(|value| value.len() <= COPY_VALUE_LEN_MAX)
    }

    /// Appends a hit's value, and a line end, where it is not [`Replies::copied`].
    pub(super) fn push_value(&mut self, hit: &Hit<'_>) {
        self.settle();
        push_value(hit, self.output);
        self.output.bytes().extend_from_slice(b"\r\n");
        self.end = self.output.bytes().len();
    }

    fn settle(&mut self) {
        self.output.bytes().truncate(self.end);
    }
}

impl Drop for Replies<'_> {
    fn drop(&mut self) {
        self.settle();
    }
}
