//! The requests of callers who do not wait: until when, and who is told.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::Range;
use std::rc::Rc;
use std::time::Instant;

use super::{AllDone, Done, Kept};
use crate::answer::Place;
use crate::connection::{Asked, Asking, Patience};
use crate::error::Error;
use crate::gathering::Book;
use crate::protocol::{Reply, Request};

/// All that have no result yet.
#[derive(Default)]
pub(super) struct Entries {
    entries: HashMap<u64, Entry>,
    /// Who is to be told that a moment has come.
    alarms: HashMap<u64, Place<()>>,
    /// Of both, and of some that are done.
    deadlines: BinaryHeap<Reverse<(Instant, u64)>>,
    /// Results that nobody has been told yet.
    ready: Vec<Ready>,
}

struct Entry {
    request: Kept,
    patience: Patience,
    teller: Teller,
}

/// Who is told.
enum Teller {
    One(Done),
    /// Who waits for many, and which of them this is.
    Group(Rc<RefCell<Group>>, usize),
}

/// Requests whose results are delivered together.
struct Group {
    results: Vec<Option<Result<Reply, Error>>>,
    left: usize,
    done: Option<AllDone>,
}

enum Ready {
    One(Done, Result<Reply, Error>),
    All(AllDone, Vec<Result<Reply, Error>>),
}

impl Entries {
    pub(super) fn add(&mut self, id: u64, request: Kept, patience: Patience, done: Done) {
        self.insert(id, request, patience, Teller::One(done));
    }

    /// Adds many, and says how they are called.
    pub(super) fn add_all(
        &mut self,
        first: u64,
        requests: Vec<Kept>,
        patience: Patience,
        done: AllDone,
    ) -> Range<u64> {
        let count = requests.len();
        if count == 0 {
            self.ready.push(Ready::All(done, Vec::new()));
        } else {
            let group = Rc::new(RefCell::new(Group {
                results: requests.iter().map(|_| None).collect(),
                left: count,
                done: Some(done),
            }));
            for (index, request) in requests.into_iter().enumerate() {
                let teller = Teller::Group(group.clone(), index);
                self.insert(first + index as u64, request, patience, teller);
            }
        }
        first..first + count as u64
    }

    fn insert(&mut self, id: u64, request: Kept, patience: Patience, teller: Teller) {
        self.deadlines.push(Reverse((patience.until, id)));
        let entry = Entry {
            request,
            patience,
            teller,
        };
        self.entries.insert(id, entry);
    }

    /// Has somebody told when this moment has come.
    pub(super) fn set_alarm(&mut self, id: u64, until: Instant, place: Place<()>) {
        self.deadlines.push(Reverse((until, id)));
        self.alarms.insert(id, place);
    }

    pub(super) fn forget(&mut self, id: u64) {
        self.entries.remove(&id);
        self.alarms.remove(&id);
    }

    /// Those whose time is up. Who waited for the moment alone is told.
    pub(super) fn take_late(&mut self, now: Instant) -> Vec<u64> {
        let mut late = Vec::new();
        while let Some(Reverse((until, id))) = self.deadlines.peek().copied() {
            let is_alarm = self.alarms.contains_key(&id);
            if is_alarm || self.entries.contains_key(&id) {
                if until > now {
                    break;
                }
                match self.alarms.remove(&id) {
                    Some(place) => place.put(()),
                    None => late.push(id),
                }
            }
            self.deadlines.pop();
        }
        late
    }

    /// When the next one's time is up; at the latest, as it may be done by now.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.peek().map(|Reverse((until, _))| *until)
    }

    /// Tells who is to be told.
    pub(super) fn deliver(&mut self) {
        for ready in self.ready.drain(..) {
            match ready {
                Ready::One(done, result) => done(result),
                Ready::All(done, results) => done(results),
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl Book for Entries {
    fn find(&self, id: u64) -> Option<(usize, Patience)> {
        let entry = self.entries.get(&id)?;
        Some((entry.request.server, entry.patience))
    }

    fn ask(&mut self, id: u64, asking: &mut Asking<'_>) -> Option<Asked> {
        let entry = self.entries.get_mut(&id)?;
        let ask = |request: &mut Request<'_>| asking.ask(request, id, &entry.patience);
        Some(entry.request.with(ask))
    }

    fn done(&mut self, id: u64, result: Result<Reply, Error>) -> bool {
        let Some(entry) = self.entries.remove(&id) else {
            return false;
        };
        match entry.teller {
            Teller::One(done) => self.ready.push(Ready::One(done, result)),
            Teller::Group(group, index) => {
                let mut group = group.borrow_mut();
                group.results[index] = Some(result);
                group.left -= 1;
                if group.left == 0
                    && let Some(done) = group.done.take()
                {
                    let results = group.results.drain(..).flatten().collect();
                    self.ready.push(Ready::All(done, results));
                }
            }
        }
        true
    }
}
