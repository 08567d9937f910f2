//! Bounded and exhaustive where moves race with writers: an item is moved, for each reason that there is, and at every
//! access up to its move, and some beyond, somebody else changes that item.

use std::iter::once;
use std::sync::{Arc, Mutex};

use scrubjay_cache::StoreMode;

use crate::program::{self, Actor, BESIDE, Operation, Run};
use crate::{perform_together, schedule};

/// Accesses before and after the move at which it is interrupted: from before the item is locked for the first time.
const BEFORE: u64 = 100;
const AFTER: u64 = 10;

/// More accesses than any move is away from the beginning.
const ACCESSES_MAX: u64 = 1 << 16;

/// How an item comes to be moved.
#[derive(Clone, Debug)]
struct Move {
    why: &'static str,
    before: Vec<Operation>,
    moves: Vec<Operation>,
}

const fn get(touch: Option<i64>) -> Operation {
    Operation::Get {
        key: 0,
        touch,
        vivify: None,
        leases: true,
    }
}

const fn delete(invalidate: bool, drop_value: bool) -> Operation {
    Operation::Delete {
        key: 0,
        compare: false,
        invalidate,
        drop_value,
        touch: None,
    }
}

const ARITH: Operation = Operation::Arith {
    key: 0,
    decrement: false,
    initial: true,
};

const fn fillers(count: u64, fresh: bool) -> Operation {
    Operation::Press { count, fresh }
}

/// The reasons for which items are moved, with items that are.
fn moves() -> Vec<Move> {
    let (forever, mortal) = (Operation::set(0, 1900, 0), Operation::set(0, 1900, 30));
    let in_pieces = [Operation::set(0, 6000, 0), Operation::set(0, 6000, 30)];
    let mut moves: Vec<Move> = in_pieces
        .iter()
        .chain([&forever, &mortal])
        .map(|item| kept(*item))
        .collect();
    moves.push(Move {
        why: "compacted, because its neighbours are dead",
        before: vec![fillers(4, false), forever, fillers(8, false), fillers(70, true)],
        moves: vec![fillers(40, true)],
    });
    let less = Operation::Beside {
        bytes: BESIDE - (192 << 10),
    };
    moves.push(Move {
        why: "kept, because it was read, while memory is given away",
        before: vec![less, forever, fillers(170, true), get(None)],
        moves: vec![Operation::Beside { bytes: BESIDE }, Operation::Maintain],
    });
    let neighbours = (1..6).map(|key| Operation::set(key, 1900, 1));
    let next_segment = (1..6).map(|key| Operation::set(6 + key % 2, 1900, 1));
    let item = [Operation::set(0, 1900, 1), get(Some(60))];
    moves.push(Move {
        why: "moved, because most beside it has expired",
        before: neighbours.chain(item).chain(next_segment).collect(),
        moves: vec![Operation::Time { millis: 9_000 }, Operation::Maintain],
    });
    let compared = Operation::Delete {
        key: 0,
        compare: true,
        invalidate: true,
        drop_value: false,
        touch: Some(50),
    };
    let touches = [
        (forever, get(Some(50))),
        (ARITH, get(Some(50))),
        (forever, compared),
    ];
    moves.extend(touches.map(|(item, touch)| Move {
        why: "written anew for a longer header",
        before: vec![item],
        moves: vec![get(None), touch],
    }));
    moves
}

fn kept(item: Operation) -> Move {
    Move {
        why: "kept by eviction, because it was read",
        // Read twice: one read is not enough after much has been moved.
        before: vec![item, fillers(75, true), get(None), get(None)],
        moves: vec![fillers(40, true)],
    }
}

/// What happens to the item meanwhile; two times with an explicit number that fits in place, or not.
fn changes() -> Vec<Vec<Operation>> {
    let compare = |mode| Operation::Store {
        key: 0,
        mode,
        len: 600,
        ttl: 0,
        compare: true,
        invalidate: false,
        vivify: false,
    };
    let touched = Operation::Delete {
        key: 0,
        compare: false,
        invalidate: true,
        drop_value: false,
        touch: Some(0),
    };
    vec![
        vec![get(Some(40))],
        vec![get(Some(0))],
        vec![delete(true, false)],
        vec![Operation::set(1, 12, 0), delete(true, false)],
        vec![delete(true, false), get(None)],
        vec![touched],
        vec![Operation::set(1, 12, 0), delete(true, false), get(Some(40))],
        vec![delete(false, false)],
        vec![delete(false, true)],
        vec![delete(false, false), Operation::set(0, 600, 0)],
        vec![Operation::set(0, 1900, 20)],
        vec![get(None), compare(StoreMode::Set)],
        vec![compare(StoreMode::Append)],
        vec![ARITH],
        vec![Operation::Refuse { key: 0 }],
        vec![Operation::Flush],
        vec![Operation::Flush, Operation::set(0, 12, 0)],
    ]
}

/// A cache in which the item lies where it will be moved from.
fn prepared(before: &[Operation]) -> Arc<Run> {
    let run = Run::new();
    Actor::new(&run, 0).perform(before);
    run
}

/// Whether the item has been moved when the mover makes its access number `access`.
fn is_moved(how: &Move, access: u64) -> bool {
    let located: Arc<Mutex<Vec<Option<u32>>>> = Arc::default();
    let (noted, how) = (Arc::clone(&located), how.clone());
    let shown = how.why;
    schedule::at_accesses(once(access), shown, move || {
        let locate = Operation::Locate { key: 0 };
        let run = prepared(&[&how.before[..], &[locate]].concat());
        perform_together(&run, vec![how.moves.clone(), vec![locate]]);
        *noted.lock().expect("nothing panics under it") = run.located();
    });
    let located = located.lock().expect("nothing panics under it");
    assert!(
        located.iter().all(Option::is_some),
        "{shown}: the item was to be moved, not removed: {located:?}"
    );
    located[0] != located[1]
}

/// The first access of the mover at which the item lies in its new place.
fn access_of_move(how: &Move) -> u64 {
    let (mut before, mut after) = (0, ACCESSES_MAX);
    assert!(is_moved(how, after), "not {}", how.why);
    while before < after {
        let middle = (before + after) / 2;
        if is_moved(how, middle) {
            after = middle;
        } else {
            before = middle + 1;
        }
    }
    after
}

#[test]
fn an_item_that_is_changed_while_it_is_moved_keeps_the_change() {
    let mut runs = 0;
    for how in moves() {
        let at = access_of_move(&how);
        for change in changes() {
            let shown = format!("{how:?}, meanwhile {change:?}");
            let accesses = at.saturating_sub(BEFORE)..at + AFTER;
            let how = how.clone();
            runs += schedule::at_accesses(accesses, &shown, move || {
                let run = prepared(&how.before);
                let then = [&change[..], &[get(None)]].concat();
                perform_together(&run, vec![how.moves.clone(), then]);
                program::check(&run, 1);
            });
        }
    }
    println!("{runs} interrupted moves");
}
