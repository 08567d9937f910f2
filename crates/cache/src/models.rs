//! Models of the lock-free protocols, checked under every interleaving by loom:
//! `RUSTFLAGS="--cfg loom" cargo test -p scrubjay-cache --lib models`.
//!
//! Not modelled is the reader that raises a frequency while a writer stores into the slot: one compare-and-swap on the
//! word that the writer stores as a whole, which succeeds only on the old word and so is overwritten. loom does not hold
//! a relaxed store and such a swap of another thread to one order and finds an outcome that no machine has.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

use crate::epoch::Epochs;
use crate::line::{Line, Location, Slot};

const TAG: u16 = 5;

fn slot(units: u64) -> Slot {
    Slot {
        location: Location::from_units(units),
        tag: TAG,
        heat: crate::line::Heat::default(),
    }
}

/// A location whose low and high parts differ in both halves, so that a torn pair is neither.
const FIRST: u64 = (1 << 32) | 10;
const SECOND: u64 = (2 << 32) | 20;

fn line_with(units: u64) -> Arc<Line> {
    let line = Arc::new(Line::new());
    let mut guard = line.lock().expect("not moved");
    guard.change(|change| change.set(0, slot(units)));
    drop(guard);
    line
}

/// What a reader finds: the location, or that it moved.
enum Seen {
    At(u64),
    Absent,
    Moved,
}

fn look(line: &Line) -> Seen {
    loop {
        let seen = line.read();
        if seen.moved() {
            return Seen::Moved;
        }
        let found = line.matches(TAG).next().map(|(_, slot)| slot.location.units());
        if line.unchanged(seen) {
            return found.map_or(Seen::Absent, Seen::At);
        }
        thread::yield_now();
    }
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

#[test]
fn reader_of_a_replaced_item_sees_the_old_or_the_new_whole() {
    check(|| {
        let line = line_with(FIRST);
        let writer = thread::spawn({
            let line = Arc::clone(&line);
            move || {
                line.lock()
                    .expect("not moved")
                    .change(|change| change.set(0, slot(SECOND)))
            }
        });
        assert!(matches!(look(&line), Seen::At(FIRST | SECOND)));
        writer.join().expect("no panic");
        assert!(matches!(look(&line), Seen::At(SECOND)));
    });
}

#[test]
fn key_that_changes_its_slot_is_never_missed() {
    check(|| {
        let line = line_with(FIRST);
        let writer = thread::spawn({
            let line = Arc::clone(&line);
            move || {
                line.lock().expect("not moved").change(|change| {
                    change.clear(0);
                    change.set(3, slot(FIRST));
                });
            }
        });
        assert!(matches!(look(&line), Seen::At(FIRST)));
        writer.join().expect("no panic");
    });
}

#[test]
fn key_of_a_line_that_moves_is_found_in_one_of_the_two() {
    check(|| {
        let (old, new) = (line_with(FIRST), Arc::new(Line::new()));
        let mover = thread::spawn({
            let (old, new) = (Arc::clone(&old), Arc::clone(&new));
            move || {
                let mut guard = old.lock().expect("not moved");
                new.lock()
                    .expect("not moved")
                    .change(|change| change.set(1, slot(FIRST)));
                guard.change(|change| {
                    change.clear(0);
                    change.mark_moved();
                });
            }
        });
        match look(&old) {
            Seen::At(FIRST) => {}
            Seen::Moved => assert!(matches!(look(&new), Seen::At(FIRST))),
            Seen::At(_) | Seen::Absent => panic!("missed"),
        }
        mover.join().expect("no panic");
        assert!(old.lock().is_none(), "writers are sent on, too");
    });
}

#[test]
fn of_two_adds_exactly_one_wins() {
    check(|| {
        let line = Arc::new(Line::new());
        let add = |line: &Line, units: u64| {
            let mut guard = line.lock().expect("not moved");
            if guard.line().matches(TAG).next().is_some() {
                return false;
            }
            let empty = guard.empty_slot().expect("room");
            guard.change(|change| change.set(empty, slot(units)));
            true
        };
        let other = thread::spawn({
            let line = Arc::clone(&line);
            move || add(&line, FIRST)
        });
        let mine = add(&line, SECOND);
        assert_ne!(mine, other.join().expect("no panic"));
        assert_eq!(line.slots().count(), 1);
    });
}

/// Memory that a slot names until it is unlinked, and that is written anew when it is recycled.
struct Segment {
    named: AtomicU32,
    pins: AtomicU32,
    bytes: UnsafeCell<u32>,
}

impl Segment {
    fn new() -> Arc<Segment> {
        Arc::new(Segment {
            named: AtomicU32::new(1),
            pins: AtomicU32::new(0),
            bytes: UnsafeCell::new(7),
        })
    }

    /// loom fails the model if this races with `recycle`.
    fn read(&self) -> u32 {
        // SAFETY: the model is about whether this is ever concurrent with a write.
        self.bytes.with(|bytes| unsafe { *bytes })
    }

    /// As the pool frees a retired segment: first the horizon, then the pins.
    fn unlink_and_recycle(&self, epochs: &Epochs) {
        self.named.store(0, Ordering::Release);
        let epoch = epochs.retire();
        if epoch <= epochs.horizon() && self.pins.load(Ordering::Acquire) == 0 {
            // SAFETY: as in `read`.
            self.bytes.with_mut(|bytes| unsafe { *bytes = 0 });
        }
    }
}

#[test]
fn memory_is_not_recycled_under_a_reader_that_wakes_up() {
    check(|| {
        let (segment, epochs) = (Segment::new(), Arc::new(Epochs::new(1)));
        let reader = thread::spawn({
            let (segment, epochs) = (Arc::clone(&segment), Arc::clone(&epochs));
            move || {
                for _ in 0..2 {
                    epochs.announce(0);
                    if segment.named.load(Ordering::Acquire) == 1 {
                        assert_eq!(segment.read(), 7);
                    }
                }
                epochs.sleep(0);
            }
        });
        segment.unlink_and_recycle(&epochs);
        reader.join().expect("no panic");
    });
}

#[test]
fn pinned_memory_is_not_recycled_after_the_turn() {
    check(|| {
        let (segment, epochs) = (Segment::new(), Arc::new(Epochs::new(1)));
        let reader = thread::spawn({
            let (segment, epochs) = (Arc::clone(&segment), Arc::clone(&epochs));
            move || {
                epochs.announce(0);
                let found = segment.named.load(Ordering::Acquire) == 1;
                if found {
                    segment.pins.fetch_add(1, Ordering::Relaxed);
                }
                epochs.sleep(0);
                if found {
                    assert_eq!(segment.read(), 7);
                    segment.pins.fetch_sub(1, Ordering::Release);
                }
            }
        });
        segment.unlink_and_recycle(&epochs);
        reader.join().expect("no panic");
    });
}
