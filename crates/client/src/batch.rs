//! Many requests of one thread, which waits for all replies.

use std::sync::Arc;

use crate::connection::{Desk, Patience};
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
    // Which queue each server has, if it is asked at all.
    let mut queue_of = vec![None; servers.len()];
    let mut used = Vec::new();
    let mut queue = |route: &usize| {
        *queue_of[*route].get_or_insert_with(|| {
            used.push(servers[*route].clone());
            used.len() - 1
        })
    };
    let mut batch = Batch {
        first: desk.next_ids(requests.len() as u64),
        results: requests.iter().map(|_| None).collect(),
        left: requests.len(),
        queues: routes.iter().map(&mut queue).collect(),
        requests,
        patience,
    };
    let mut gathering = Gathering::new(&used, desk, true);
    for id in batch.ids() {
        gathering.submit(&mut batch, id);
    }
    loop {
        gathering.look();
        gathering.step(&mut batch);
        if batch.left == 0 {
            break;
        }
        if patience.is_over() {
            let ids: Vec<u64> = batch.ids().collect();
            gathering.end(&mut batch, &ids);
            break;
        }
        gathering.wait(Some(patience.until));
    }
    batch
        .results
        .into_iter()
        .map(|result| result.expect("each has one now"))
        .collect()
}

impl Batch<'_> {
    fn ids(&self) -> std::ops::Range<u64> {
        self.first..self.first + self.requests.len() as u64
    }
}

impl Book for Batch<'_> {
    fn find(&self, id: u64) -> Option<(usize, Patience)> {
        let index = usize::try_from(id.checked_sub(self.first)?).ok()?;
        let open = self.results.get(index)?.is_none();
        open.then(|| (self.queues[index], self.patience))
    }

    fn with_request<T>(&mut self, id: u64, act: impl FnOnce(&mut Request<'_>) -> T) -> Option<T> {
        self.find(id)?;
        Some(act(&mut self.requests[(id - self.first) as usize]))
    }

    fn done(&mut self, id: u64, result: Result<Reply, Error>) {
        if self.find(id).is_some() {
            self.results[(id - self.first) as usize] = Some(result);
            self.left -= 1;
        }
    }
}
