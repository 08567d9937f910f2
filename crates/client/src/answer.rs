//! A reply as a future, for any runtime.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::driver::Driver;
use crate::error::Error;
use crate::protocol::Reply;

/// A reply that comes later. Dropped before, nobody waits for it any more; whether the request is executed is open then.
#[derive(Debug)]
pub(crate) struct Answer {
    place: Place,
    /// Who is told if nobody waits any more, and what it is called there.
    driver: Option<(Arc<Driver>, u64)>,
}

/// Where the reply is laid.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place(Arc<Mutex<Content>>);

#[derive(Debug, Default)]
enum Content {
    #[default]
    Nothing,
    Awaited(Waker),
    Reply(Result<Reply, Error>),
    Taken,
}

impl Place {
    fn lock(&self) -> MutexGuard<'_, Content> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lays the reply there.
    pub(crate) fn put(&self, reply: Result<Reply, Error>) {
        let before = mem::replace(&mut *self.lock(), Content::Reply(reply));
        if let Content::Awaited(waker) = before {
            waker.wake();
        }
    }
}

impl Answer {
    pub(crate) fn new(place: Place, driver: Option<(Arc<Driver>, u64)>) -> Answer {
        Answer { place, driver }
    }
}

impl Future for Answer {
    type Output = Result<Reply, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Reply, Error>> {
        let mut content = self.place.lock();
        match mem::replace(&mut *content, Content::Taken) {
            Content::Reply(reply) => Poll::Ready(reply),
            Content::Taken => panic!("the reply has been taken already"),
            Content::Nothing | Content::Awaited(_) => {
                *content = Content::Awaited(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        let open = matches!(*self.place.lock(), Content::Nothing | Content::Awaited(_));
        if let (true, Some((driver, id))) = (open, &self.driver) {
            driver.forget(*id);
        }
    }
}
