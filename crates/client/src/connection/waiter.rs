//! Who waits for replies.

use std::sync::Arc;

use super::{Delivered, Desk, is_taken_when_asked};
use crate::ids::Ids;
use crate::protocol::Request;
use crate::protocol::conversation::Bundled;

/// Who waits for one reply, or for those to a bundle: whose desk, and what it is called there.
#[derive(Clone, Debug)]
pub(super) struct Waiter {
    pub(super) desk: Arc<Desk>,
    ids: Named,
    /// The request cannot be asked again.
    pub(super) once: bool,
}

#[derive(Clone, Debug)]
enum Named {
    One(u64),
    /// In the order of the bundle's keys.
    Each(Arc<Ids>),
}

impl Waiter {
    pub(super) fn new(desk: &Arc<Desk>, id: u64, request: &Request<'_>) -> Waiter {
        Waiter {
            desk: desk.clone(),
            ids: Named::One(id),
            once: is_taken_when_asked(request),
        }
    }

    pub(super) fn of_bundle(desk: &Arc<Desk>, ids: Ids) -> Waiter {
        Waiter {
            desk: desk.clone(),
            ids: Named::Each(Arc::new(ids)),
            once: false,
        }
    }

    /// Whether this is so of each that is waited for.
    pub(super) fn is_all(&self, is_it: impl Fn(u64) -> bool) -> bool {
        match &self.ids {
            Named::One(id) => is_it(*id),
            Named::Each(ids) => ids.iter().all(is_it),
        }
    }

    /// Lays a reply on the desk, for each that is waited for.
    pub(super) fn deliver(&self, reply: Delivered) {
        match &self.ids {
            Named::One(id) => self.desk.deliver([(*id, reply)]),
            Named::Each(ids) => self.desk.deliver(ids.iter().map(|id| (id, reply.clone()))),
        }
    }

    /// Lays what came of a bundle there.
    pub(super) fn deliver_bundled(&self, bundled: Bundled) {
        match &self.ids {
            Named::Each(ids) => self.desk.deliver_bundled(ids.clone(), bundled),
            Named::One(_) => debug_assert!(false, "nobody waits for one reply by a bundle"),
        }
    }

    /// The desk's number.
    pub(super) fn desk(&self) -> usize {
        self.desk.number()
    }

    pub(super) fn for_room(desk: &Arc<Desk>) -> Waiter {
        Waiter {
            desk: desk.clone(),
            ids: Named::One(0),
            once: false,
        }
    }
}

/// Each desk once, if they come together.
pub(super) fn wake(waiters: Vec<Waiter>) {
    let mut last: Option<Waiter> = None;
    for waiter in waiters {
        if last
            .as_ref()
            .is_none_or(|last| !Arc::ptr_eq(&last.desk, &waiter.desk))
        {
            waiter.desk.wake();
        }
        last = Some(waiter);
    }
}
