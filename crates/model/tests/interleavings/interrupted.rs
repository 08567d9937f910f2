//! Bounded and exhaustive: one operation is interrupted at each of its accesses to shared memory, one access a run, and
//! something else happens meanwhile.

use scrubjay_cache::StoreMode;

use crate::program::{self, Actor, Operation, Run};
use crate::{number_from_environment, perform_together, schedule};

/// Accesses from one interruption to the next in the exhaustive part, less one in so many is left out; 1 leaves out none.
const STRIDE: u64 = 13;

/// What is preempted at each of its accesses, and what happens meanwhile, all on one key.
fn pairs() -> Vec<(Operation, Vec<Operation>)> {
    use StoreMode::{Add, Append, Set};
    let key = 0;
    let store = |mode, len, compare| Operation::Store {
        key,
        mode,
        len,
        ttl: 0,
        compare,
        invalidate: false,
        vivify: false,
    };
    let delete = |invalidate, drop_value| Operation::Delete {
        key,
        compare: false,
        invalidate,
        drop_value,
        touch: None,
    };
    let get = |touch| Operation::Get {
        key,
        touch,
        vivify: None,
        leases: true,
    };
    let arith = Operation::Arith {
        key,
        decrement: false,
        initial: true,
    };
    let press = |count| Operation::Press { count, fresh: true };
    let expire = [Operation::Time { millis: 60_000 }, Operation::Idle];
    let one = [
        get(None),
        get(Some(50)),
        Operation::Hold { key },
        store(Set, 12, false),
        store(Set, 6000, true),
        store(Add, 600, false),
        store(Append, 600, false),
        arith,
        delete(false, false),
        delete(true, false),
        delete(false, true),
        Operation::Flush,
        Operation::Refuse { key },
    ];
    let mut meanwhile: Vec<Vec<Operation>> =
        one.iter().map(|operation| vec![*operation, get(None)]).collect();
    meanwhile.push([&[Operation::Flush], &[store(Set, 1900, false)][..], &[get(None)]].concat());
    // Another empties everything while the interrupted one looks for memory.
    meanwhile.push(vec![Operation::Flush, Operation::Maintain, get(None)]);
    meanwhile.push(vec![delete(false, false), store(Add, 6000, false), get(None)]);
    meanwhile.push(vec![press(30), get(None)]);
    meanwhile.push(vec![
        delete(false, false),
        press(30),
        store(Set, 600, false),
        press(60),
        get(None),
    ]);
    meanwhile.push([&expire[..], &[Operation::Maintain], &[press(30)], &[get(None)]].concat());
    let meanwhile = &meanwhile;
    // Making room is interrupted, too: it moves the key's item or evicts it.
    let interrupted = one.iter().chain([&press(6)]).copied().collect::<Vec<_>>();
    interrupted
        .iter()
        .flat_map(|first| meanwhile.iter().map(|then| (*first, then.clone())))
        .collect()
}

/// Beginnings: no item, one that can be read in place, one in pieces, a number, one that expires.
const BEGINNINGS: [Option<Operation>; 5] = [
    None,
    Some(Operation::set(0, 600, 0)),
    Some(Operation::set(0, 6000, 0)),
    Some(Operation::Arith {
        key: 0,
        decrement: false,
        initial: true,
    }),
    Some(Operation::set(0, 1900, 30)),
];

#[test]
fn an_operation_interrupted_at_any_access_answers_as_if_alone() {
    let stride = number_from_environment("SCRUBJAY_STRIDE").unwrap_or(STRIDE);
    let mut runs = 0;
    for (number, (first, then)) in pairs().into_iter().enumerate() {
        for before in BEGINNINGS {
            let shown = format!("{before:?}, then {first:?} interrupted by {then:?}");
            let program = (first, then.clone());
            // Strides start at different accesses, so that together they come to all kinds.
            let accesses = (number as u64 % stride..).step_by(stride as usize);
            runs += schedule::at_accesses(accesses, &shown, move || interrupted_run(before, &program));
        }
    }
    println!("{runs} interrupted runs");
}

fn interrupted_run(before: Option<Operation>, (first, then): &(Operation, Vec<Operation>)) {
    let run = Run::new();
    let read = Operation::Get {
        key: 0,
        touch: None,
        vivify: None,
        leases: false,
    };
    // Nearly full, so that a few values more make room at the cost of the key's segment.
    let full = Operation::Press {
        count: 75,
        fresh: true,
    };
    let dead = Operation::Press {
        count: 8,
        fresh: false,
    };
    Actor::new(&run, 0).perform(
        &before
            .into_iter()
            .chain([dead, full, dead, read])
            .collect::<Vec<_>>(),
    );
    perform_together(&run, vec![vec![read, *first, read], then.clone()]);
    program::check(&run, 1);
}
