//! Reads that are still to be noted: where the caller allows it, some are noted together.
//!
//! Noting a read takes a locked instruction at the item and one in the index, and no load that follows on one begins before it is
//! done. Without them a processor waits for the memory of several look-ups at once. What a worker has not noted yet it
//! notes before it says that it holds nothing, so that the items are still there.

use std::cell::Cell;

use crate::index::Mark;
use crate::worker::Worker;

/// Reads that are noted together.
const READS_MAX: usize = 16;

/// What one worker has not noted yet.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    count: Cell<usize>,
    marks: [Cell<Mark>; READS_MAX],
}

impl Reads {
    /// Remembers a read; `false` if there is no room.
    #[inline]
    pub(crate) fn push(&self, mark: Mark) -> bool {
        let count = self.count.get();
        let cell = self.marks.get(count);
        if let Some(cell) = cell {
            cell.set(mark);
            self.count.set(count + 1);
        }
        cell.is_some()
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.count.get() == READS_MAX
    }
}

impl Worker {
    /// Notes what there is to be noted. Call it before others are told that this worker holds nothing.
    #[inline]
    pub(crate) fn note_reads(&self) {
        if self.reads.count.get() > 0 {
            self.note_marked();
        }
    }

    #[inline(never)]
    fn note_marked(&self) {
        let cache = self.member.cache();
        let marks = &self.reads.marks[..self.reads.count.take()];
        for mark in marks {
            // An item that left or moved meanwhile has been read in vain.
            if let Some(found) = cache.index.find_again(&cache.heap, &mark.get()) {
                self.note_read(&found);
            }
        }
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use scrubjay_base::time::Now;

    use super::READS_MAX;
    use crate::api::{Body, Config, Delete, Get, Store, StoreOutcome, Why};
    use crate::cache::Cache;
    use crate::departure::Peek;
    use crate::worker::Worker;

    fn later(key: &[u8]) -> Get<'_> {
        Get {
            note_later: true,
            ..Get::key(key)
        }
    }

    fn fetched(worker: &Worker, key: &[u8]) -> bool {
        matches!(worker.why(key), Why::Present(present) if present.fetched && present.reads > 0)
    }

    #[test]
    fn a_read_is_noted_before_the_worker_does_anything_else() {
        let cache = Cache::new(Config::new(8 << 20)).expect("memory");
        let (mut worker, other) = (cache.worker(), cache.worker());
        worker.begin_turn(Now::from_millis(0));
        let anything: [fn(&mut Worker); 6] = [
            |worker| assert!(worker.get(&Get::key(b"absent")).is_none()),
            |worker| worker.begin_turn(Now::from_millis(1)),
            |worker| {
                let outcome = worker.store(Store::set(b"other", Body::Bytes(b"value")));
                assert!(matches!(outcome, StoreOutcome::Stored { .. }));
            },
            |worker| assert_eq!(worker.peek(b"absent"), Peek::Absent),
            Worker::go_idle,
            |worker| (0..READS_MAX).for_each(|_| assert!(worker.get(&later(b"other")).is_some())),
        ];
        for act in anything {
            worker.store(Store::set(b"key", Body::Bytes(b"value")));
            assert!(worker.get(&later(b"key")).is_some());
            assert!(!fetched(&other, b"key"));
            act(&mut worker);
            assert!(fetched(&other, b"key"));
        }
    }

    #[test]
    fn what_left_meanwhile_is_not_noted() {
        let cache = Cache::new(Config::new(8 << 20)).expect("memory");
        let (mut worker, mut other) = (cache.worker(), cache.worker());
        other.begin_turn(Now::from_millis(0));
        worker.begin_turn(Now::from_millis(0));
        worker.store(Store::set(b"key", Body::Bytes(b"value")));
        assert!(worker.get(&later(b"key")).is_some());
        other.delete(&Delete::key(b"key"));
        other.store(Store::set(b"key", Body::Bytes(b"another")));
        worker.go_idle();
        assert!(!fetched(&other, b"key"));
        cache.audit();
    }
}
