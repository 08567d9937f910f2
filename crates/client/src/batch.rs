//! Many requests of one thread, which waits for all replies.

use std::ops::Range;
use std::sync::Arc;

use crate::connection::{Asked, Asking, Desk, Patience};
use crate::error::Error;
use crate::gathering::{Book, Gathering};
use crate::protocol::{Reply, Request};
use crate::server::Server;

/// The requests and what has come of them, in order.
struct Batch<'a> {
    requests: Vec<Request<'a>>,
    queues: Vec<usize>,
    results: Vec<Option<Result<Reply, Error>>>,
    /// Without a result.
    left: usize,
    patience: Patience,
    /// What the first one is called.
    first: u64,
}

/// Asks all, each its server of `routes`, and waits until all replies are there or the time is up.
pub(crate) fn call(
    servers: &[Arc<Server>],
    desk: Arc<Desk>,
    requests: Vec<Request<'_>>,
    routes: &[usize],
    patience: Patience,
) -> Vec<Result<Reply, Error>> {
    let (queues, used) = spread(servers, routes);
    let mut batch = Batch {
        first: desk.next_ids(requests.len() as u64),
        results: requests.iter().map(|_| None).collect(),
        left: requests.len(),
        queues,
        requests,
        patience,
    };
    let ids = batch.first..batch.first + batch.requests.len() as u64;
    finish(Gathering::new(&used, desk, true), &mut batch, ids, patience);
    batch
        .results
        .into_iter()
        .map(|result| result.expect("each has one now"))
        .collect()
}

/// A book that ends.
pub(crate) trait Ending: Book {
    /// Whether everything in it has its result.
    fn has_ended(&self) -> bool;
}

/// Which queue each request has, and whose they are.
pub(crate) fn spread(servers: &[Arc<Server>], routes: &[usize]) -> (Vec<usize>, Vec<Arc<Server>>) {
    // With one server there is nothing to be found out for each.
    if let [server] = servers {
        return (vec![0; routes.len()], vec![server.clone()]);
    }
    let mut queue_of = vec![None; servers.len()];
    let mut used = Vec::new();
    let queue = |route: &usize| {
        *queue_of[*route].get_or_insert_with(|| {
            used.push(servers[*route].clone());
            used.len() - 1
        })
    };
    (routes.iter().map(queue).collect(), used)
}

/// Asks everything, and waits until all has its result or the time is up.
pub(crate) fn finish(mut gathering: Gathering, book: &mut impl Ending, ids: Range<u64>, patience: Patience) {
    gathering.submit_all(book, ids.clone());
    loop {
        gathering.look();
        gathering.step(book);
        if book.has_ended() {
            return;
        }
        if patience.is_over() {
            let ids: Vec<u64> = ids.collect();
            return gathering.end(book, &ids);
        }
        gathering.wait(Some(patience.until));
    }
}

impl Ending for Batch<'_> {
    fn has_ended(&self) -> bool {
        self.left == 0
    }
}

impl Book for Batch<'_> {
    fn find(&self, id: u64) -> Option<(usize, Patience)> {
        let index = usize::try_from(id.checked_sub(self.first)?).ok()?;
        let open = self.results.get(index)?.is_none();
        open.then(|| (self.queues[index], self.patience))
    }

    fn ask(&mut self, id: u64, asking: &mut Asking<'_>) -> Option<Asked> {
        self.find(id)?;
        let request = &mut self.requests[(id - self.first) as usize];
        Some(asking.ask(request, id, &self.patience))
    }

    fn done(&mut self, id: u64, result: Result<Reply, Error>) -> bool {
        let is_open = self.find(id).is_some();
        if is_open {
            self.results[(id - self.first) as usize] = Some(result);
            self.left -= 1;
        }
        is_open
    }
}
