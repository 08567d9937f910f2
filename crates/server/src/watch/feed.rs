//! A watcher's feed: lines between the scribe, who makes them, and the worker that sends them. Neither waits for the other.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, TryLockError};

use scrubjay_net::Waker;

use super::Stream;

/// How the scribe says to a worker that there is something in a feed of one of its connections.
#[derive(Debug, Default)]
pub(crate) struct Door {
    has_rung: AtomicBool,
    waker: OnceLock<Waker>,
}

impl Door {
    /// The worker behind it is woken so.
    pub(crate) fn set_waker(&self, waker: Waker) {
        // A worker has one waker, and keeps it.
        let _ = self.waker.set(waker);
    }

    /// Release pairs with `has_rung`: what was published before is found.
    pub(super) fn ring(&self) {
        self.has_rung.store(true, Ordering::Release);
        self.waker.get().into_iter().for_each(Waker::wake);
    }

    /// Whether it has rung since the last call. Read-mostly.
    pub(crate) fn has_rung(&self) -> bool {
        self.has_rung.load(Ordering::Relaxed) && self.has_rung.swap(false, Ordering::Acquire)
    }
}

/// The lines of one watcher.
#[derive(Debug)]
pub(crate) struct Feed {
    /// What it wants, bits of streams.
    pub(super) streams: u32,
    /// Where its first record would be, by book.
    pub(super) starts: Box<[u64]>,
    /// Records of its streams that had been dropped before it came.
    pub(super) dropped_before: u64,
    /// Most bytes that wait for its connection.
    limit: usize,
    /// The last number that it sent, for a beat to bear. The session writes it, the scribe reads it.
    heard: AtomicU64,
    /// Bytes in `ready` that nobody took.
    held: AtomicUsize,
    /// The scribe locks it to add, the worker tries to: whoever is first, the other comes again.
    ready: Mutex<Ready>,
    door: Arc<Door>,
}

#[derive(Debug, Default)]
struct Ready {
    bytes: Vec<u8>,
    /// Bytes that were taken.
    taken: usize,
}

impl Feed {
    pub(super) fn new(
        streams: u32,
        starts: Box<[u64]>,
        dropped_before: u64,
        limit: usize,
        door: &Arc<Door>,
    ) -> Feed {
        Feed {
            streams,
            starts,
            dropped_before,
            limit,
            heard: AtomicU64::new(0),
            held: AtomicUsize::new(0),
            ready: Mutex::default(),
            door: Arc::clone(door),
        }
    }

    /// Whether it is of this stream.
    pub(crate) fn wants(&self, stream: Stream) -> bool {
        self.streams & stream.bit() != 0
    }

    /// Its watcher has sent a number.
    pub(crate) fn hear(&self, number: u64) {
        self.heard.store(number, Ordering::Release);
    }

    /// The last number that its watcher sent. What anybody was told before that number was sent is seen after this call:
    /// acquire pairs with [`Feed::hear`].
    pub(super) fn heard(&self) -> u64 {
        self.heard.load(Ordering::Acquire)
    }

    /// Bytes that may be published beside what waits already.
    pub(super) fn room(&self) -> usize {
        self.limit.saturating_sub(self.held.load(Ordering::Relaxed))
    }

    /// Publishes `lines`, which are empty afterwards, and rings.
    pub(super) fn publish(&self, lines: &mut Vec<u8>) {
        if lines.is_empty() {
            return;
        }
        self.held.fetch_add(lines.len(), Ordering::Relaxed);
        let mut ready = self.ready.lock().expect("nothing panics under this lock");
        if ready.bytes.is_empty() {
            std::mem::swap(&mut ready.bytes, lines);
        } else {
            let taken = std::mem::take(&mut ready.taken);
            ready.bytes.drain(..taken);
            ready.bytes.append(lines);
        }
        drop(ready);
        self.door.ring();
    }

    /// Appends what is ready to `out`, at most `most` bytes; whether there is more.
    pub(crate) fn take(&self, out: &mut Vec<u8>, most: usize) -> bool {
        let mut ready = match self.ready.try_lock() {
            Ok(ready) => ready,
            // The scribe is adding; it rings when it is done.
            Err(TryLockError::WouldBlock) => return false,
            Err(TryLockError::Poisoned(_)) => unreachable!("nothing panics under this lock"),
        };
        let rest = &ready.bytes[ready.taken..];
        let len = rest.len().min(most);
        out.extend_from_slice(&rest[..len]);
        let is_more = len < rest.len();
        ready.taken += len;
        if !is_more {
            ready.bytes.clear();
            ready.taken = 0;
        }
        self.held.fetch_sub(len, Ordering::Relaxed);
        is_more
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Door, Feed};

    #[test]
    fn what_is_published_is_taken_once_in_order_and_within_the_limit() {
        let door = Arc::new(Door::default());
        let feed = Feed::new(1, Box::default(), 0, 100, &door);
        assert!(!door.has_rung());
        feed.publish(&mut Vec::new());
        assert!(!door.has_rung(), "there was nothing to publish");
        feed.publish(&mut b"one\ntwo\n".to_vec());
        assert!(door.has_rung() && !door.has_rung());
        assert_eq!(feed.room(), 92);
        let mut out = Vec::new();
        assert!(feed.take(&mut out, 5));
        feed.publish(&mut b"three\n".to_vec());
        assert_eq!(feed.room(), 91);
        assert!(!feed.take(&mut out, 100));
        assert_eq!(out, b"one\ntwo\nthree\n");
        assert_eq!(feed.room(), 100);
        assert!(!feed.take(&mut out, 100) && out.len() == 14);
    }
}
