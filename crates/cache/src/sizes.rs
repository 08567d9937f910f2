//! Items by size, as classes: how many there are, their bytes, and what became of those that left.
//!
//! Nothing in the engine goes by these classes. Each worker counts what it stores and removes on a line of its own for each
//! class; a look-up counts nothing, and whoever asks adds up the workers without stopping anyone. A walk over the segments
//! on request would need no counts, but would take seconds in a large cache and be old when it is done.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::api::Cause;
use crate::counters::SizeClass;

/// Classes: four to each doubling from [`SMALLEST`] up; the last one holds what is larger still.
pub(crate) const CLASSES: usize = 4 * 26 + 1;

/// Bytes of the largest item of the first class.
const SMALLEST: u64 = 32;

/// The class of an item that takes `bytes`.
pub(crate) fn class_of(bytes: u64) -> usize {
    if bytes <= SMALLEST {
        return 0;
    }
    let doublings = (bytes - 1).ilog2() - SMALLEST.ilog2();
    let quarter = ((bytes - 1) >> (doublings + SMALLEST.ilog2() - 2)) & 3;
    (4 * doublings as usize + quarter as usize + 1).min(CLASSES - 1)
}

/// Bytes of the largest item of `class`.
pub(crate) fn bytes_max(class: usize) -> u64 {
    (SMALLEST << (class / 4)) / 4 * (4 + class as u64 % 4)
}

/// One worker's counts.
#[derive(Debug)]
pub(crate) struct Sizes(Box<[Counts; CLASSES]>);

/// A class: a line of memory. Written by one worker, read by whoever asks. No model checker needs to see these: nothing
/// depends on them.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Counts {
    created: AtomicU64,
    /// What this worker created less what it removed, wrapping: only the sum over workers means something.
    items: AtomicU64,
    bytes: AtomicU64,
    evicted: AtomicU64,
    evicted_expiring: AtomicU64,
    evicted_unfetched: AtomicU64,
    expired: AtomicU64,
    expired_unfetched: AtomicU64,
}

const _: () = assert!(size_of::<Counts>() == 64);

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes(Box::new(std::array::from_fn(|_| Counts::default())))
    }
}

/// What is noted of an item that left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    pub(crate) cause: Cause,
    pub(crate) bytes: u64,
    pub(crate) expires: bool,
    pub(crate) fetched: bool,
}

/// There is no other writer.
fn add(count: &AtomicU64, by: u64) {
    count.store(count.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}

impl Sizes {
    #[inline]
    pub(crate) fn note_created(&self, bytes: u64) {
        let counts = self.of(bytes);
        add(&counts.created, 1);
        counts.put(1, bytes);
    }

    /// The same item now takes `to` bytes.
    pub(crate) fn note_resized(&self, from: u64, to: u64) {
        self.of(from).put(u64::MAX, from.wrapping_neg());
        self.of(to).put(1, to);
    }

    #[inline]
    pub(crate) fn note_left(&self, left: &Left) {
        let counts = self.of(left.bytes);
        counts.put(u64::MAX, left.bytes.wrapping_neg());
        let unfetched = u64::from(!left.fetched);
        match left.cause {
            Cause::Evicted | Cause::LimitLowered => {
                add(&counts.evicted, 1);
                add(&counts.evicted_expiring, u64::from(left.expires));
                add(&counts.evicted_unfetched, unfetched);
            }
            Cause::Expired => {
                add(&counts.expired, 1);
                add(&counts.expired_unfetched, unfetched);
            }
            _ => {}
        }
    }

    /// So many items, and bytes of them, are there from the start, by class.
    pub(crate) fn begin_with(&self, found: &[(u64, u64)]) {
        for (counts, (items, bytes)) in self.0.iter().zip(found) {
            counts.put(*items, *bytes);
        }
    }

    #[inline]
    fn of(&self, bytes: u64) -> &Counts {
        &self.0[class_of(bytes)]
    }
}

impl Counts {
    #[inline]
    fn put(&self, items: u64, bytes: u64) {
        add(&self.items, items);
        add(&self.bytes, bytes);
    }
}

/// Items and bytes of each class.
pub(crate) fn per_class(classes: &[SizeClass]) -> Vec<(u64, u64)> {
    classes.iter().map(|class| (class.items, class.bytes)).collect()
}

/// The classes of all workers together, smallest first.
pub(crate) fn sum<'a>(workers: impl Iterator<Item = &'a Sizes>) -> Vec<SizeClass> {
    let empty = |class| SizeClass {
        bytes_max: bytes_max(class),
        ..SizeClass::default()
    };
    let mut classes: Vec<SizeClass> = (0..CLASSES).map(empty).collect();
    for worker in workers {
        for (class, counts) in classes.iter_mut().zip(worker.0.iter()) {
            let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
            class.items = class.items.wrapping_add(of(&counts.items));
            class.bytes = class.bytes.wrapping_add(of(&counts.bytes));
            class.created += of(&counts.created);
            class.evicted += of(&counts.evicted);
            class.evicted_expiring += of(&counts.evicted_expiring);
            class.evicted_unfetched += of(&counts.evicted_unfetched);
            class.expired += of(&counts.expired);
            class.expired_unfetched += of(&counts.expired_unfetched);
        }
    }
    // An item may have moved from one worker's count to another's between two looks.
    for class in &mut classes {
        class.items = (class.items as i64).max(0) as u64;
        class.bytes = (class.bytes as i64).max(0) as u64;
    }
    classes
}

#[cfg(test)]
mod tests {
    use super::{CLASSES, Left, Sizes, bytes_max, class_of, sum};
    use crate::api::Cause;

    #[test]
    fn each_size_is_in_the_smallest_class_that_holds_it() {
        for bytes in (1..100_000).chain([1 << 20, (1 << 20) + 1, 1 << 30]) {
            let class = class_of(bytes);
            assert!(bytes <= bytes_max(class), "{bytes} in class {class}");
            assert!(
                class == 0 || bytes > bytes_max(class - 1),
                "{bytes} in class {class}"
            );
        }
        assert_eq!(
            (0..6).map(bytes_max).collect::<Vec<_>>(),
            [32, 40, 48, 56, 64, 80]
        );
        assert_eq!(class_of(u64::MAX), CLASSES - 1);
    }

    #[test]
    fn what_one_worker_stores_another_may_remove() {
        let (one, other) = (Sizes::default(), Sizes::default());
        one.note_created(100);
        one.note_created(30);
        other.note_resized(100, 200);
        other.note_left(&Left {
            cause: Cause::Evicted,
            bytes: 200,
            expires: true,
            fetched: false,
        });
        let classes = sum([&one, &other].into_iter());
        let of = |bytes| classes[class_of(bytes)];
        assert_eq!((of(30).items, of(30).bytes, of(30).created), (1, 30, 1));
        assert_eq!((of(100).items, of(100).bytes, of(100).created), (0, 0, 1));
        assert_eq!((of(200).items, of(200).bytes, of(200).evicted), (0, 0, 1));
        assert_eq!((of(200).evicted_expiring, of(200).evicted_unfetched), (1, 1));
    }
}
