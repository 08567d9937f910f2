//! Look-ups of many keys for one thread, which waits for all of them. Their values stay where they were put together as they came,
//! and are looked at there: who makes something else of each at once pays for no memory in between.

use std::mem;
use std::sync::Arc;

use crate::batch::{Ending, Queues, Routes, finish, spread};
use crate::connection::{Asked, Asking, Desk, Patience};
use crate::error::Error;
use crate::gathering::{Book, Gathering};
use crate::ids::Ids;
use crate::protocol::bundle::{Came, Shared};
use crate::protocol::{Get, Reply};
use crate::server::Server;
use crate::spare;

/// What came of looking up many keys, in their order.
#[derive(Debug, Default)]
pub struct Found {
    parts: Vec<Part>,
    /// Where values lie.
    bytes: Vec<Vec<u8>>,
    /// Instead of both where all were one bundle, as it came: values and misses.
    came: Option<Came>,
}

#[derive(Debug)]
enum Part {
    Open,
    Miss,
    Seen(Place),
    Failed(Box<Error>),
}

/// A value, and where its bytes are.
#[derive(Debug)]
struct Place {
    bytes: usize,
    start: usize,
    len: usize,
    flags: u32,
    cas: Option<u64>,
}

/// A value, where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// The client's flags.
    pub flags: u32,
    /// The CAS number, if it was asked for.
    pub cas: Option<u64>,
}

impl Found {
    /// What came of each key: a value, nothing, or the error.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Result<Option<Seen<'_>>, &Error>> {
        let len = self.came.as_ref().map_or(self.parts.len(), Came::len);
        (0..len).map(|at| match &self.came {
            Some(came) => Ok(seen_in(came, at)),
            None => self.part_at(at),
        })
    }

    /// As `iter`, in less time: tells it and which key it is of, up to the first for which `tell` fails.
    ///
    /// # Errors
    /// That of `tell`.
    #[inline]
    pub fn try_each<E>(
        &self,
        mut tell: impl FnMut(usize, Result<Option<Seen<'_>>, &Error>) -> Result<(), E>,
    ) -> Result<(), E> {
        // A loop each: an iterator over either would put every value together in memory first.
        let Some(came) = &self.came else {
            return (0..self.parts.len()).try_for_each(|at| tell(at, self.part_at(at)));
        };
        (0..came.len()).try_for_each(|at| tell(at, Ok(seen_in(came, at))))
    }

    fn part_at(&self, at: usize) -> Result<Option<Seen<'_>>, &Error> {
        match &self.parts[at] {
            Part::Open | Part::Miss => Ok(None),
            Part::Seen(place) => Ok(Some(Seen {
                bytes: &self.bytes[place.bytes][place.start..place.start + place.len],
                flags: place.flags,
                cas: place.cas,
            })),
            Part::Failed(error) => Err(&**error),
        }
    }

    /// What came, from replies.
    pub(crate) fn of_replies(replies: Vec<Result<Reply, Error>>) -> Found {
        let mut found = Found::default();
        for reply in replies {
            let part = found.part(reply);
            found.parts.push(part);
        }
        found
    }

    fn part(&mut self, reply: Result<Reply, Error>) -> Part {
        match reply {
            Ok(Reply::Value(value)) if !value.is_withheld() => {
                let place = Place {
                    bytes: self.bytes.len(),
                    start: 0,
                    len: value.bytes.len(),
                    flags: value.flags,
                    cas: value.cas,
                };
                self.bytes.push(value.bytes);
                Part::Seen(place)
            }
            Ok(_) => Part::Miss,
            Err(error) => Part::Failed(Box::new(error)),
        }
    }
}

impl Drop for Found {
    fn drop(&mut self) {
        if let Some(came) = self.came.take() {
            spare::keep(came);
        }
    }
}

/// A value of a bundle; `None` if it is a miss.
#[inline]
fn seen_in(came: &Came, at: usize) -> Option<Seen<'_>> {
    let (shared, bytes) = came.shared(at)?;
    Some(Seen {
        bytes,
        flags: shared.flags,
        cas: shared.cas,
    })
}

/// The keys and what has come of them.
struct Lookups<'a> {
    keys: &'a [&'a [u8]],
    with_cas: bool,
    queues: Queues,
    found: Found,
    /// Which place is kept for the bytes of values that have just been found.
    kept: Option<usize>,
    /// Without a result.
    left: usize,
    patience: Patience,
    /// What the first one is called.
    first: u64,
}

/// Asks for all keys, each at its server of `routes`, and waits until all replies are there or the time is up.
pub(crate) fn look_up(
    servers: &[Arc<Server>],
    desk: Arc<Desk>,
    keys: &[&[u8]],
    with_cas: bool,
    routes: Routes<'_>,
    patience: Patience,
) -> Found {
    let (queues, used) = spread(servers, routes);
    let mut lookups = Lookups {
        with_cas,
        queues,
        found: Found::default(),
        kept: None,
        left: keys.len(),
        patience,
        first: desk.next_ids(keys.len() as u64),
        keys,
    };
    let ids = lookups.first..lookups.first + keys.len() as u64;
    finish(Gathering::new(&used, desk, true), &mut lookups, ids, patience);
    if lookups.found.came.is_none() {
        lookups.begin();
    }
    lookups.found
}

impl Lookups<'_> {
    /// Which one this is, if it has no result.
    #[inline]
    fn index(&self, id: u64) -> Option<usize> {
        let index = usize::try_from(id.checked_sub(self.first)?).ok()?;
        let is_open = match self.found.parts.get(index) {
            Some(part) => matches!(part, Part::Open),
            None => index < self.keys.len() && self.left == self.keys.len(),
        };
        is_open.then_some(index)
    }

    /// From here on each has its own part. Most never get that far: they are one bundle.
    fn begin(&mut self) {
        (self.found.parts).resize_with(self.keys.len(), || Part::Open);
    }
}

impl Ending for Lookups<'_> {
    fn has_ended(&self) -> bool {
        self.left == 0
    }
}

impl Book for Lookups<'_> {
    #[inline]
    fn find(&self, id: u64) -> Option<(usize, Patience)> {
        Some((self.queues.of(self.index(id)?), self.patience))
    }

    #[inline]
    fn ask(&mut self, id: u64, asking: &mut Asking<'_>) -> Option<Asked> {
        let get = Get {
            with_cas: self.with_cas,
            ..Get::new(self.keys[self.index(id)?])
        };
        Some(asking.look_up(&get, id, &self.patience))
    }

    fn ask_alike(&mut self, ids: &mut Ids, asking: &mut Asking<'_>) {
        // As long as none has a result none of these has.
        while self.found.parts.is_empty()
            && let Some(run) = ids.first_run()
        {
            let keys = &self.keys[(run.start - self.first) as usize..(run.end - self.first) as usize];
            if asking.look_up_alike(ids, keys) < keys.len() {
                return;
            }
        }
    }

    fn done(&mut self, id: u64, result: Result<Reply, Error>) -> bool {
        let Some(index) = self.index(id) else {
            return false;
        };
        self.begin();
        self.found.parts[index] = self.found.part(result);
        self.left -= 1;
        true
    }

    #[inline]
    fn found(&mut self, id: u64, shared: Shared, _bytes: &[u8]) -> bool {
        let Some(index) = self.index(id) else {
            return false;
        };
        self.begin();
        let place = shared.place();
        let all = &mut self.found.bytes;
        let bytes = *self.kept.get_or_insert_with(|| {
            all.push(Vec::new());
            all.len() - 1
        });
        self.found.parts[index] = Part::Seen(Place {
            bytes,
            start: place.start,
            len: place.len(),
            flags: shared.flags,
            cas: shared.cas,
        });
        self.left -= 1;
        true
    }

    fn found_all(&mut self, ids: &Ids, came: &mut Came) -> bool {
        let is_all = self.left == self.keys.len() && ids.is_run(&(self.first..self.first + self.left as u64));
        if is_all {
            self.found.came = Some(mem::take(came));
            self.left = 0;
        }
        is_all
    }

    fn keep(&mut self, bytes: Vec<u8>) {
        if let Some(kept) = self.kept.take() {
            self.found.bytes[kept] = bytes;
        }
    }
}
