//! What comes later as a future, for any runtime.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::driver::{Driver, Names};

/// What a driver delivers later: a reply, many, or that a moment has come. Dropped before, nobody waits for it any more; whether a
/// request is executed is open then.
#[derive(Debug)]
pub(crate) struct Answer<T> {
    place: Place<T>,
    /// Who is told if nobody waits any more, and what it is called there.
    driver: Option<(Arc<Driver>, Names)>,
}

/// Where it is laid.
#[derive(Debug)]
pub(crate) struct Place<T>(Arc<Mutex<Content<T>>>);

#[derive(Debug)]
enum Content<T> {
    Nothing,
    Awaited(Waker),
    Here(T),
    Taken,
}

impl<T> Clone for Place<T> {
    fn clone(&self) -> Place<T> {
        Place(self.0.clone())
    }
}

impl<T> Default for Place<T> {
    fn default() -> Place<T> {
        Place(Arc::new(Mutex::new(Content::Nothing)))
    }
}

impl<T> Place<T> {
    fn lock(&self) -> MutexGuard<'_, Content<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lays it there.
    pub(crate) fn put(&self, it: T) {
        let before = mem::replace(&mut *self.lock(), Content::Here(it));
        if let Content::Awaited(waker) = before {
            waker.wake();
        }
    }
}

impl<T> Answer<T> {
    pub(crate) fn new(place: Place<T>, driver: Option<(Arc<Driver>, Names)>) -> Answer<T> {
        Answer { place, driver }
    }
}

impl<T> Future for Answer<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let mut content = self.place.lock();
        match mem::replace(&mut *content, Content::Taken) {
            Content::Here(it) => Poll::Ready(it),
            Content::Taken => panic!("it has been taken already"),
            Content::Nothing | Content::Awaited(_) => {
                *content = Content::Awaited(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl<T> Drop for Answer<T> {
    fn drop(&mut self) {
        let open = matches!(*self.place.lock(), Content::Nothing | Content::Awaited(_));
        if let (true, Some((driver, names))) = (open, self.driver.take()) {
            driver.forget(names);
        }
    }
}
