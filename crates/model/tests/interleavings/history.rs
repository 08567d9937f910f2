//! What was asked and answered when, and whether the reference model could have answered so in some order that keeps
//! what came after what: linearizability, tried for one key at a time.

use std::fmt::{Debug, Formatter};
use std::sync::Arc;

use scrubjay_base::time::Now;
use scrubjay_cache::{
    Arith, ArithOutcome, Body, Config, Delete, DeleteOutcome, Get, Store, StoreMode, StoreOutcome, Win,
};
use scrubjay_model::Model;

/// A value, printed by its beginning and length.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Bytes(pub Arc<[u8]>);

impl Debug for Bytes {
    fn fmt(&self, out: &mut Formatter<'_>) -> std::fmt::Result {
        let start = String::from_utf8_lossy(&self.0[..self.0.len().min(24)]);
        write!(out, "{start:?} of {}", self.0.len())
    }
}

/// A request with everything in it that decides its outcome.
#[derive(Clone, Debug)]
pub enum Call {
    /// Time has come to this many milliseconds.
    Time(u64),
    Flush,
    Get {
        touch: Option<i64>,
        vivify: Option<i64>,
        leases: bool,
        /// Nobody else acts and time stands, so what is left of the life is compared, too.
        alone: bool,
    },
    Store {
        mode: StoreMode,
        value: Bytes,
        exptime: i64,
        compare_cas: Option<u64>,
        vivify: Option<i64>,
        invalidate: bool,
    },
    Delete {
        compare_cas: Option<u64>,
        invalidate: bool,
        drop_value: bool,
        touch: Option<i64>,
        new_cas: Option<u64>,
    },
    Arith {
        delta: u64,
        decrement: bool,
        initial: Option<(u64, i64)>,
    },
    Refuse,
}

/// What is compared of an answer: not what reads may lose by contract (idle time, fetched).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Done,
    Found {
        value: Bytes,
        cas: u64,
        stale: bool,
        win: Win,
        created: bool,
        /// Seconds to live, of a get that is alone.
        ttl: Option<Option<u32>>,
    },
    Missed,
    Stored(StoreOutcome),
    Deleted(DeleteOutcome),
    Counted(ArithOutcome),
}

/// One request, from its call to its answer.
#[derive(Clone, Debug)]
pub struct Event {
    pub thread: usize,
    /// `None`: it concerns all keys.
    pub key: Option<usize>,
    pub call: Call,
    pub answer: Answer,
    /// Moments in the order in which threads passed them.
    pub began: u64,
    pub ended: u64,
}

/// A get as both the engine and the model take it.
pub fn get_of<'a>(key: &'a [u8], touch: Option<i64>, vivify: Option<i64>, leases: bool) -> Get<'a> {
    Get {
        touch,
        vivify,
        leases,
        note_later: !leases,
        ..Get::key(key)
    }
}

/// Without what the model counts by another clock.
pub fn counted(outcome: ArithOutcome) -> Answer {
    Answer::Counted(match outcome {
        ArithOutcome::Value {
            number, cas, created, ..
        } => ArithOutcome::Value {
            number,
            cas,
            ttl: None,
            created,
        },
        other => other,
    })
}

/// Whether the answer says no more than that there was no item, and nothing was changed.
fn is_absence(event: &Event) -> bool {
    match (&event.call, &event.answer) {
        (Call::Get { vivify, .. }, Answer::Missed) => vivify.is_none(),
        (Call::Store { mode, .. }, Answer::Stored(StoreOutcome::NotStored)) => *mode != StoreMode::Add,
        (_, Answer::Stored(StoreOutcome::NotFound) | Answer::Deleted(DeleteOutcome::NotFound)) => true,
        (_, answer) => *answer == Answer::Counted(ArithOutcome::NotFound),
    }
}

/// The engine does not hold time still: an item whose last moment passes while somebody gives it a longer life may be
/// missed by others for the rest of that operation. True of absences during a touch during a step of time.
fn is_missed_in_touch(event: &Event, all: &[&Event]) -> bool {
    let overlap = |one: &Event, other: &Event| one.began < other.ended && other.began < one.ended;
    let steps = |touch: &Event| {
        let is_step = |other: &&&Event| matches!(other.call, Call::Time(_)) && overlap(touch, other);
        all.iter().any(|other| is_step(&other))
    };
    let touches = |other: &&&Event| {
        matches!(
            other.call,
            Call::Get { touch: Some(_), .. } | Call::Delete { touch: Some(_), .. }
        ) && overlap(event, other)
            && steps(other)
    };
    is_absence(event) && all.iter().any(|other| touches(&other))
}

/// The CAS number that the engine gave; the model is told to give the same.
fn given_cas(answer: &Answer) -> Option<u64> {
    match answer {
        Answer::Stored(StoreOutcome::Stored { cas, .. })
        | Answer::Counted(ArithOutcome::Value { cas, .. })
        | Answer::Found {
            cas, created: true, ..
        } => Some(*cas),
        _ => None,
    }
}

/// The model, and the latest time it was told: threads tell it out of order.
#[derive(Clone)]
struct State {
    model: Model,
    millis: u64,
    evicted: usize,
}

/// Asks the model what the engine was asked.
fn ask(state: &mut State, key: &[u8], call: &Call, new_cas_of_answer: Option<u64>) -> Answer {
    let model = &mut state.model;
    match call {
        Call::Time(millis) => {
            state.millis = state.millis.max(*millis);
            model.begin_turn(Now::from_millis(state.millis));
            Answer::Done
        }
        Call::Flush => {
            model.flush_all(0);
            Answer::Done
        }
        Call::Get {
            touch,
            vivify,
            leases,
            alone,
        } => {
            let get = Get {
                new_cas: new_cas_of_answer,
                ..get_of(key, *touch, *vivify, *leases)
            };
            model.get(&get).map_or(Answer::Missed, |found| Answer::Found {
                value: Bytes(found.value.into()),
                cas: found.cas,
                stale: found.stale,
                win: found.win,
                created: found.created,
                ttl: alone.then_some(found.ttl),
            })
        }
        Call::Store { .. } | Call::Delete { .. } | Call::Arith { .. } => {
            ask_for_change(model, key, call, new_cas_of_answer)
        }
        Call::Refuse => {
            model.refuse(key);
            Answer::Done
        }
    }
}

/// The part of `ask` about storing, deleting and counting.
fn ask_for_change(model: &mut Model, key: &[u8], call: &Call, new_cas_of_answer: Option<u64>) -> Answer {
    match call {
        Call::Store {
            mode,
            value,
            exptime,
            compare_cas,
            vivify,
            invalidate,
        } => Answer::Stored(model.store(&Store {
            mode: *mode,
            exptime: *exptime,
            compare_cas: *compare_cas,
            invalidate: *invalidate,
            new_cas: new_cas_of_answer,
            vivify: *vivify,
            ..Store::set(key, Body::Bytes(&value.0))
        })),
        Call::Delete {
            compare_cas,
            invalidate,
            drop_value,
            touch,
            new_cas,
        } => Answer::Deleted(model.delete(&Delete {
            key,
            compare_cas: *compare_cas,
            invalidate: *invalidate,
            drop_value: *drop_value,
            touch: *touch,
            new_cas: *new_cas,
        })),
        Call::Arith {
            delta,
            decrement,
            initial,
        } => counted(model.arith(&Arith {
            initial: *initial,
            new_cas: new_cas_of_answer,
            ..Arith::key(key, *delta, *decrement)
        })),
        Call::Time(_) | Call::Flush | Call::Get { .. } | Call::Refuse => unreachable!("not a change"),
    }
}

/// A search for an order in which the model gives the same answers.
struct Search<'a> {
    key: &'a [u8],
    events: Vec<&'a Event>,
    /// How often an item of the key was evicted.
    evictions: usize,
    /// The longest order found so far.
    longest: Vec<usize>,
    order: Vec<usize>,
}

impl Search<'_> {
    fn run(&mut self, state: &State, done: u64) -> bool {
        if self.order.len() > self.longest.len() {
            self.longest.clone_from(&self.order);
        }
        if self.order.len() == self.events.len() {
            return true;
        }
        let open = |number: &usize| done & (1 << number) == 0;
        let numbers: Vec<usize> = (0..self.events.len()).filter(open).collect();
        let earliest_end = numbers.iter().map(|&number| self.events[number].ended).min();
        for number in numbers {
            if Some(self.events[number].began) < earliest_end && self.try_next(state, done, number) {
                return true;
            }
        }
        false
    }

    /// Puts event `number` next, right after an eviction if that explains it.
    fn try_next(&mut self, state: &State, done: u64, number: usize) -> bool {
        let event = self.events[number];
        for evicted in [false, true] {
            if evicted && (state.evicted == self.evictions || state.model.items() == 0) {
                continue;
            }
            let mut next = state.clone();
            if evicted {
                next.model.refuse(self.key);
                next.evicted += 1;
            }
            let fits = is_missed_in_touch(event, &self.events)
                || ask(&mut next, self.key, &event.call, given_cas(&event.answer)) == event.answer;
            if fits {
                self.order.push(number);
                if self.run(&next, done | 1 << number) {
                    return true;
                }
                self.order.pop();
            }
        }
        false
    }
}

/// Checks that what happened to `key` could have happened one after the other.
///
/// # Panics
/// With the events and the longest order that works, if there is none.
pub fn check(config: &Config, key: usize, name: &[u8], events: &[Event], evictions: usize) {
    let concerns = |event: &&Event| event.key.is_none_or(|other| other == key);
    let mut mine: Vec<&Event> = events.iter().filter(concerns).collect();
    mine.sort_by_key(|event| event.began);
    assert!(mine.len() <= 64, "{} events are too many to try", mine.len());
    let mut search = Search {
        key: name,
        events: mine,
        evictions,
        longest: Vec::new(),
        order: Vec::new(),
    };
    let start = State {
        model: Model::new(config.clone()),
        millis: 0,
        evicted: 0,
    };
    if search.run(&start, 0) {
        return;
    }
    let lines = search.events.iter().enumerate().map(|(number, event)| {
        format!(
            "{number}: {}..{} thread {} {:?} -> {:?}\n",
            event.began, event.ended, event.thread, event.call, event.answer
        )
    });
    panic!(
        "what key {key} answered, evicted {evictions} times, cannot have happened in any order:\n{}longest order: {:?}",
        lines.collect::<String>(),
        search.longest
    );
}
