//! The two ways to wait: as a thread, and as a future. What a cache does is written once, in [`Steps`](super::steps::Steps), and
//! takes its replies by either.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use super::flight::{Flight, Outcome};
use super::{Cache, CacheError};
use crate::error::Error;
use crate::protocol::{Reply, Request};

/// How a cache waits.
pub(super) trait Way {
    fn cache(&self) -> &Cache;
    fn ask(&self, request: Request<'_>) -> impl Future<Output = Result<Reply, CacheError>> + Send;
    fn ask_all(&self, requests: Vec<Request<'_>>) -> impl Future<Output = Vec<Result<Reply, Error>>> + Send;
    /// Asks where nobody can wait for a future any more. What comes of it is not told.
    fn ask_last(&self, request: Request<'_>);
    fn pause(&self, pause: Duration) -> impl Future<Output = ()> + Send;
    /// Until the flight has ended, at most so long.
    fn wait(&self, flight: &Flight, within: Duration) -> impl Future<Output = Outcome> + Send;
}

/// The thread waits: its futures are ready when they are looked at first.
pub(super) struct Blocking<'a>(pub(super) &'a Cache);

/// Whoever awaits is woken.
pub(super) struct Later<'a>(pub(super) &'a Cache);

/// What comes of steps whose way is [`Blocking`].
pub(super) fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("a way that blocks has nothing to wait for afterwards"),
    }
}

impl Way for Blocking<'_> {
    fn cache(&self) -> &Cache {
        self.0
    }

    async fn ask(&self, request: Request<'_>) -> Result<Reply, CacheError> {
        Ok(self.0.client.call(request, self.0.call())?)
    }

    async fn ask_all(&self, requests: Vec<Request<'_>>) -> Vec<Result<Reply, Error>> {
        self.0.client.call_all(requests, self.0.call())
    }

    fn ask_last(&self, request: Request<'_>) {
        let _ = self.0.client.call(request, self.0.call());
    }

    async fn pause(&self, pause: Duration) {
        thread::sleep(pause);
    }

    async fn wait(&self, flight: &Flight, within: Duration) -> Outcome {
        flight.wait(within)
    }
}

impl Way for Later<'_> {
    fn cache(&self) -> &Cache {
        self.0
    }

    async fn ask(&self, request: Request<'_>) -> Result<Reply, CacheError> {
        Ok(self.0.client.call_async(request, self.0.call()).await?)
    }

    async fn ask_all(&self, requests: Vec<Request<'_>>) -> Vec<Result<Reply, Error>> {
        self.0.client.call_all_async(requests, self.0.call()).await
    }

    fn ask_last(&self, request: Request<'_>) {
        self.0.client.start(request, self.0.call(), drop);
    }

    async fn pause(&self, pause: Duration) {
        self.0.client.alarm(Instant::now() + pause).await;
    }

    async fn wait(&self, flight: &Flight, within: Duration) -> Outcome {
        let mut alarm = pin!(self.0.client.alarm(Instant::now() + within));
        poll_fn(|context| match flight.poll(context) {
            Poll::Ready(outcome) => Poll::Ready(outcome),
            Poll::Pending => alarm.as_mut().poll(context).map(|()| Outcome::Late),
        })
        .await
    }
}
