//! Many requests, each with its own way to a server: asked at the same time, answered together.

use std::sync::{Arc, Mutex, PoisonError, mpsc};

use scrubjay_client::protocol::{Reply, Request};
use scrubjay_client::{Call, Client, Error, Route};

type Replies = Vec<Result<Reply, Error>>;

/// Replies that have come, and what is done when all have.
struct Gathered<F> {
    replies: Vec<Option<Result<Reply, Error>>>,
    missing: usize,
    done: Option<F>,
}

/// Asks; `done` gets the replies in the order of the requests.
pub(crate) fn start<F>(client: &Client, asks: Vec<(Request<'_>, Route<'_>)>, done: F)
where
    F: FnOnce(Replies) + Send + 'static,
{
    if asks.is_empty() {
        return done(Vec::new());
    }
    let gathered = Arc::new(Mutex::new(Gathered {
        replies: vec![None; asks.len()],
        missing: asks.len(),
        done: Some(done),
    }));
    for (index, (request, route)) in asks.into_iter().enumerate() {
        let gathered = Arc::clone(&gathered);
        let call = Call { route, timeout: None };
        client.start(request, call, move |reply| take(&gathered, index, reply));
    }
}

fn take<F: FnOnce(Replies)>(gathered: &Mutex<Gathered<F>>, index: usize, reply: Result<Reply, Error>) {
    let mut state = gathered.lock().unwrap_or_else(PoisonError::into_inner);
    state.replies[index] = Some(reply);
    state.missing -= 1;
    if state.missing > 0 {
        return;
    }
    let replies = state.replies.drain(..).flatten().collect();
    let done = state.done.take();
    drop(state);
    if let Some(done) = done {
        done(replies);
    }
}

/// Asks, and waits.
pub(crate) fn call(client: &Client, asks: Vec<(Request<'_>, Route<'_>)>) -> Replies {
    let (sender, receiver) = mpsc::channel();
    start(client, asks, move |replies| {
        // The receiver waits below.
        let _ = sender.send(replies);
    });
    receiver.recv().unwrap_or_default()
}
