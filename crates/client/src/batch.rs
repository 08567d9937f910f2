//! Many requests of one thread, which waits for all replies.

use std::ops::Range;
use std::slice;
use std::sync::Arc;

use crate::connection::{Asked, Asking, Desk, Patience};
use crate::error::Error;
use crate::gathering::{Book, Gathering};
use crate::protocol::{Reply, Request};
use crate::server::Server;

/// The requests and what has come of them, in order.
struct Batch<'a> {
    requests: Vec<Request<'a>>,
    queues: Queues,
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
    let (queues, used) = spread(servers, Routes::Each(routes));
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

/// Which server each request goes to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Routes<'a> {
    /// All to this one.
    All(usize),
    /// Each to its own.
    Each(&'a [usize]),
}

impl Routes<'_> {
    /// The servers.
    pub(crate) fn servers(&self) -> &[usize] {
        match self {
            Routes::All(server) => slice::from_ref(server),
            Routes::Each(servers) => servers,
        }
    }
}

/// Which queue each request has.
#[derive(Debug)]
pub(crate) enum Queues {
    /// There is one only.
    First,
    /// Each its own.
    Each(Vec<usize>),
}

impl Queues {
    #[inline]
    pub(crate) fn of(&self, request: usize) -> usize {
        match self {
            Queues::First => 0,
            Queues::Each(queues) => queues[request],
        }
    }
}

/// Which queue each request has, and whose they are.
pub(crate) fn spread(servers: &[Arc<Server>], routes: Routes<'_>) -> (Queues, Vec<Arc<Server>>) {
    let routes = match (servers, routes) {
        // With one server there is nothing to be found out for each.
        ([only], _) => return (Queues::First, vec![only.clone()]),
        (_, Routes::All(server)) => return (Queues::First, vec![servers[server].clone()]),
        (_, Routes::Each(routes)) => routes,
    };
    let mut queue_of = vec![None; servers.len()];
    let mut used = Vec::new();
    let queue = |route: &usize| {
        *queue_of[*route].get_or_insert_with(|| {
            used.push(servers[*route].clone());
            used.len() - 1
        })
    };
    (Queues::Each(routes.iter().map(queue).collect()), used)
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
        open.then(|| (self.queues.of(index), self.patience))
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
