//! Many requests at once, each with a route of its own, as bindings need it whose prefixes have no say in the placement.

use std::time::Duration;

use super::{Call, Client, Route};
use crate::error::Error;
use crate::protocol::{Reply, Request};

type Replies = Vec<Result<Reply, Error>>;

/// Requests and their routes, which are all to servers or all by keys: what fails over does so together.
fn split<'a, 'b>(asks: Vec<(Request<'a>, Route<'b>)>) -> (Vec<Request<'a>>, Vec<Route<'b>>) {
    let names_one = |(_, route): &&(Request<'_>, Route<'_>)| matches!(route, Route::Server(_));
    let count = asks.iter().filter(names_one).count();
    assert!(
        count == 0 || count == asks.len(),
        "requests to servers and by keys are two calls"
    );
    asks.into_iter().unzip()
}

fn within<'a>(timeout: Option<Duration>) -> Call<'a> {
    Call {
        timeout,
        ..Call::default()
    }
}

impl Client {
    /// [`Client::call_all`] with a route each.
    ///
    /// # Panics
    /// Some, but not all, go to a server that is named.
    pub fn call_each(&self, asks: Vec<(Request<'_>, Route<'_>)>, timeout: Option<Duration>) -> Replies {
        let (requests, routes) = split(asks);
        self.call_by(requests, |at| routes[at], within(timeout))
    }

    /// [`Client::start_all`] with a route each.
    ///
    /// # Panics
    /// As [`Client::call_each`].
    pub fn start_each(
        &self,
        asks: Vec<(Request<'_>, Route<'_>)>,
        timeout: Option<Duration>,
        done: impl FnOnce(Replies) + Send + 'static,
    ) {
        let (requests, routes) = split(asks);
        // That there is nothing to forget is told once, by `done`.
        let _ = self.begin_all(requests, |at| routes[at], within(timeout), Box::new(done));
    }
}
