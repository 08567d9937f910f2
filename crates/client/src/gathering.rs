//! Many requests over many connections by one thread, which asks all servers before it waits for any, and waits for all of
//! them at once. What is outstanding on a connection is bounded, so the rest follows as replies come.

use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use crate::connection::{
    Asked, Asking, Caller, Connection, Delivered, Desk, Lost, Named, Patience, Spin, Watch, look, poll,
};
use crate::error::Error;
use crate::ids::Ids;
use crate::protocol::Reply;
use crate::protocol::bundle::{Came, Part, Shared};
use crate::server::{Found, RETRIES, Server};

/// How long it is waited at most where the system has no more bells to be woken by.
const WITHOUT_BELL: Duration = Duration::from_millis(5);

/// Where the requests come from and the replies go.
pub(crate) trait Book {
    /// Which server a request goes to, and how long it may take; nothing if it has its result, or nobody wants one any more.
    fn find(&self, id: u64) -> Option<(usize, Patience)>;
    /// Asks for it; nothing if there is no such request any more.
    fn ask(&mut self, id: u64, asking: &mut Asking<'_>) -> Option<Asked>;
    /// Asks for those of these that are wanted as the one that was asked last, up to the first that cannot go with it; they are
    /// taken from the front.
    fn ask_alike(&mut self, _ids: &mut Ids, _asking: &mut Asking<'_>) {}
    /// Takes what came of it; false if there is no such request any more.
    fn done(&mut self, id: u64, result: Result<Reply, Error>) -> bool;
    /// The same of a value among these bytes.
    fn found(&mut self, id: u64, shared: Shared, bytes: &[u8]) -> bool {
        self.done(id, Ok(Reply::Value(shared.to_value(bytes))))
    }
    /// Takes what came of a bundle, which is nothing but values and misses, if these are all that it waits for; false if not.
    fn found_all(&mut self, _ids: &Ids, _came: &mut Came) -> bool {
        false
    }
    /// Takes the bytes of all values that were found since this was called last.
    fn keep(&mut self, _bytes: Vec<u8>) {}
}

/// One thread's requests under way.
#[derive(Debug)]
pub(crate) struct Gathering {
    desk: Arc<Desk>,
    queues: Vec<Queue>,
    /// Connections on which something of ours is outstanding, or has been a moment ago.
    watched: Vec<Arc<Connection>>,
    tray: Vec<(u64, Delivered)>,
    bundled: Vec<Named>,
    /// May it wait for one server alone, as long as that takes?
    blocking: bool,
}

/// What is to be asked of one server.
#[derive(Debug)]
struct Queue {
    server: Arc<Server>,
    pending: Ids,
    /// The time of the requests for which it was last found fit to be asked.
    admitted: Option<Instant>,
    /// The try to connect that is waited for.
    waited: Option<u64>,
    /// A connection ended before something was sent on it.
    again: bool,
    /// How often that was so, without a reply in between.
    lost: u32,
}

impl Gathering {
    pub(crate) fn new(servers: &[Arc<Server>], desk: Arc<Desk>, blocking: bool) -> Gathering {
        let queue = |server: &Arc<Server>| Queue {
            server: server.clone(),
            pending: Ids::default(),
            admitted: None,
            waited: None,
            again: false,
            lost: 0,
        };
        Gathering {
            desk,
            queues: servers.iter().map(queue).collect(),
            watched: Vec::new(),
            tray: Vec::new(),
            bundled: Vec::new(),
            blocking,
        }
    }

    /// Puts a request into its queue, unless its server is not to be asked.
    pub(crate) fn submit(&mut self, book: &mut impl Book, id: u64) {
        let Some((index, patience)) = book.find(id) else {
            return;
        };
        let queue = &mut self.queues[index];
        if queue.admitted == Some(patience.since) {
            return queue.pending.push(id);
        }
        match queue.server.admit(patience.since) {
            Ok(()) => {
                queue.admitted = Some(patience.since);
                queue.pending.push(id);
            }
            Err(error) => {
                book.done(id, Err(error));
            }
        }
    }

    /// Puts the requests of one call into their queues.
    pub(crate) fn submit_all(&mut self, book: &mut impl Book, mut ids: Range<u64>) {
        while let Some(id) = ids.next() {
            self.submit(book, id);
            // What holds for one of them holds for all that go to the same server.
            if let [only] = self.queues.as_mut_slice()
                && only.admitted.is_some()
            {
                return only.pending.push_run(ids);
            }
        }
    }

    /// From here on the thread looks at everything; what happens later wakes it.
    pub(crate) fn look(&self) {
        self.desk.look();
    }

    /// Hands over the replies that have come, and asks what can be asked.
    pub(crate) fn step(&mut self, book: &mut impl Book) {
        self.hand_over(book);
        for index in 0..self.queues.len() {
            if !self.queues[index].pending.is_empty() {
                self.ask(index, book);
            }
        }
    }

    fn hand_over(&mut self, book: &mut impl Book) {
        let mut tray = mem::take(&mut self.tray);
        let mut again = Vec::new();
        let mut bundled = mem::take(&mut self.bundled);
        self.desk.take_all(&mut tray, &mut bundled);
        if tray.is_empty() && bundled.is_empty() {
            (self.tray, self.bundled) = (tray, bundled);
            return;
        }
        let now = Instant::now();
        for named in bundled.drain(..) {
            self.hand_over_bundled(book, named, now);
        }
        self.bundled = bundled;
        for (id, delivered) in tray.drain(..) {
            let Some((index, patience)) = book.find(id) else {
                continue;
            };
            let queue = &mut self.queues[index];
            match delivered {
                Ok(reply) => {
                    queue.lost = 0;
                    finish(&queue.server, book, id, queue.server.result(reply), now);
                }
                Err(Lost::Unsent) => again.push((index, id)),
                Err(lost) => finish(
                    &queue.server,
                    book,
                    id,
                    Err(queue.server.error(lost, &patience)),
                    now,
                ),
            }
        }
        // Before the others of their servers, and in the order they had.
        for (index, id) in again.into_iter().rev() {
            self.queues[index].again = true;
            self.queues[index].pending.push_front(id);
        }
        self.tray = tray;
    }

    /// Its look-ups are of one server, and were asked together.
    fn hand_over_bundled(&mut self, book: &mut impl Book, (ids, mut bundled): Named, now: Instant) {
        let Some((index, patience)) = ids.iter().find_map(|id| book.find(id)) else {
            return;
        };
        let queue = &mut self.queues[index];
        if let Some((hits, misses)) = bundled.came.count()
            && book.found_all(&ids, &mut bundled.came)
        {
            queue.lost = 0;
            return queue.server.note_found(hits, misses, patience.since, now);
        }
        let (mut hits, mut misses) = (0, 0);
        let (parts, bytes) = bundled.came.into_parts();
        for (id, part) in ids.iter().zip(parts) {
            let failed = match (part, &bundled.broken) {
                (Part::Shared(shared), _) => {
                    hits += u64::from(book.found(id, shared, &bytes));
                    continue;
                }
                (Part::Miss, _) => {
                    misses += u64::from(book.done(id, Ok(Reply::Miss)));
                    continue;
                }
                (Part::Reply(reply), _) if matches!(*reply, Reply::Value(_)) => {
                    hits += u64::from(book.done(id, Ok(*reply)));
                    continue;
                }
                (Part::Reply(reply), _) => queue.server.result(*reply),
                (Part::Open, Some(broken)) => {
                    Err(queue.server.error(Lost::Broken(broken.clone()), &patience))
                }
                // It was given up: who did that knows.
                (Part::Open, None) => continue,
            };
            finish(&queue.server, book, id, failed, now);
        }
        book.keep(bytes);
        if hits + misses > 0 {
            queue.lost = 0;
            queue.server.note_found(hits, misses, patience.since, now);
        }
    }

    fn ask(&mut self, index: usize, book: &mut impl Book) {
        while let Some(connection) = self.connection(index, book) {
            let queue = &mut self.queues[index];
            let mut done = Vec::new();
            let whole = queue.ask(&connection, &self.desk, book, &mut done);
            connection.flush();
            if !done.is_empty() {
                let now = Instant::now();
                for (id, result) in done {
                    finish(&queue.server, book, id, result, now);
                }
            }
            if !self.watched.iter().any(|each| Arc::ptr_eq(each, &connection)) {
                self.watched.push(connection);
            }
            if whole {
                return;
            }
            queue.again = true;
        }
    }

    /// The connection to ask next; none while there is none.
    fn connection(&mut self, index: usize, book: &mut impl Book) -> Option<Arc<Connection>> {
        let alone = self.blocking && self.queues.len() == 1;
        let queue = &mut self.queues[index];
        queue.lost += u32::from(mem::take(&mut queue.again));
        let (_, first) = queue.pending.first().and_then(|id| book.find(id))?;
        let error = loop {
            if queue.lost > RETRIES {
                queue.lost = 0;
                break queue.server.error(Lost::Unsent, &first);
            }
            match queue.server.find(&self.desk, queue.waited) {
                Found::Connection(connection) => {
                    queue.waited = None;
                    return Some(connection);
                }
                Found::Opening(round) => {
                    queue.waited = Some(round);
                    return None;
                }
                Found::Failed(error) => break error,
                Found::Nobody(round) => {
                    queue.waited = Some(round);
                    let failed = if alone {
                        queue.server.open(&first)
                    } else {
                        open_aside(&queue.server)
                    };
                    if let Some(error) = failed {
                        break error;
                    }
                }
            }
        };
        queue.waited = None;
        let now = Instant::now();
        for id in mem::take(&mut queue.pending).iter() {
            finish(&queue.server, book, id, Err(error.clone()), now);
        }
        None
    }

    /// Waits until there may be something to do, or that time has come.
    pub(crate) fn wait(&mut self, until: Option<Instant>) {
        let alone = self.blocking && self.queues.iter().all(|queue| queue.waited.is_none());
        if let (true, [connection], Some(until)) = (alone, self.watched.as_slice(), until) {
            let patience = Patience { since: until, until };
            connection.wait(Caller {
                desk: &self.desk,
                patience: &patience,
            });
            return;
        }
        if self.watched.is_empty() {
            return self.desk.sleep(until);
        }
        if self.desk.start_polling() {
            self.poll(until);
        }
    }

    /// Waits for sockets and the bell.
    fn poll(&mut self, until: Option<Instant>) {
        let desk = &self.desk;
        let mut wanted = Vec::with_capacity(self.watched.len());
        self.watched.retain(|connection| {
            let watch = connection.start_watching(desk);
            wanted.extend(watch);
            watch.is_some()
        });
        let bell = desk.bell();
        let mut fds = Vec::with_capacity(wanted.len() + 1);
        for (connection, watch) in self.watched.iter().zip(&wanted) {
            fds.push(PollFd::new(connection, watch.flags));
        }
        fds.extend(bell.as_ref().map(|bell| PollFd::new(bell, PollFlags::IN)));
        let mut left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if bell.is_none() {
            left = Some(left.map_or(WITHOUT_BELL, |left| left.min(WITHOUT_BELL)));
        }
        if !self.look_for_any(&wanted, &mut fds) {
            // If it cannot wait, it looks around all the same.
            let _ = poll(&mut fds, left);
        }
        let found: Vec<PollFlags> = fds.iter().map(PollFd::revents).collect();
        drop(fds);
        let rung = found.get(self.watched.len());
        // Before it reads: it need not ring for itself. Whoever waits looks at everything anew afterwards.
        (self.desk).stop_polling(rung.is_some_and(|found| !found.is_empty()));
        for ((connection, wanted), found) in self.watched.iter().zip(wanted).zip(&found) {
            connection.stop_watching(wanted.flags, *found);
        }
    }

    /// Looks at all sockets again and again before it sleeps, as one call at one connection does; whether something was found. As there,
    /// nobody else may wait at any of them.
    fn look_for_any(&self, wanted: &[Watch], fds: &mut [PollFd<'_>]) -> bool {
        if !self.blocking || wanted.iter().any(|watch| watch.alone.is_none()) {
            return false;
        }
        let spins: Vec<Option<&Spin>> = (self.watched.iter())
            .map(|connection| Some(connection.spin()).filter(|spin| spin.is_time()))
            .collect();
        let spans = (spins.iter().zip(wanted)).map(|(spin, watch)| Some((*spin)?.span(watch.alone?)));
        let Some(span) = spans.flatten().max() else {
            return false;
        };
        let look = look(span, || {
            // An error is found by who sleeps.
            let _ = poll(fds, Some(Duration::ZERO));
            fds.iter().any(|fd| !fd.revents().is_empty()).then_some(())
        });
        for (spin, fd) in spins.iter().zip(fds) {
            // Where nothing came while others had something, it is not known whether it would have.
            if let Some(spin) = spin
                && (look.overrun.is_some() || !fd.revents().is_empty())
            {
                spin.note(look.overrun);
            }
        }
        look.found.is_some()
    }

    /// Gives up what `is_it` says. Its replies are dropped when they come, unless they have come already.
    pub(crate) fn forget(&mut self, is_it: impl Fn(u64) -> bool) {
        for connection in &self.watched {
            connection.forget(&self.desk, &is_it);
        }
        for queue in &mut self.queues {
            queue.pending.retain(|id| !is_it(id));
        }
    }

    /// The time of these is up: those without a result get their error.
    pub(crate) fn end(&mut self, book: &mut impl Book, ids: &[u64]) {
        let late: Vec<(u64, usize, Error)> = ids
            .iter()
            .filter_map(|id| {
                let (index, patience) = book.find(*id)?;
                let queue = &self.queues[index];
                let unopened = queue.waited.is_some() && queue.pending.iter().any(|each| each == *id);
                let error = if unopened {
                    queue.server.unopened(&patience)
                } else {
                    queue.server.error(Lost::TimedOut, &patience)
                };
                Some((*id, index, error))
            })
            .collect();
        let mut sorted = ids.to_vec();
        sorted.sort_unstable();
        self.forget(|id| sorted.binary_search(&id).is_ok());
        // What came in the last moment.
        self.hand_over(book);
        let now = Instant::now();
        for (id, index, error) in late {
            finish(&self.queues[index].server, book, id, Err(error), now);
        }
    }
}

impl Drop for Gathering {
    fn drop(&mut self) {
        for connection in &self.watched {
            connection.forget(&self.desk, |_| true);
            connection.go(&self.desk);
        }
    }
}

impl Queue {
    /// Asks what is pending, as far as there is room. False if another connection is to be asked for the rest.
    fn ask(
        &mut self,
        connection: &Connection,
        desk: &Arc<Desk>,
        book: &mut impl Book,
        done: &mut Vec<(u64, Result<Reply, Error>)>,
    ) -> bool {
        let mut asking = connection.asking(desk, Instant::now());
        while let Some(id) = self.pending.first() {
            match book.ask(id, &mut asking) {
                None | Some(Asked::Yes) => {}
                Some(Asked::Quiet) => done.push((id, Ok(Reply::Alive))),
                Some(Asked::Refused(refused)) => done.push((id, Err(Error::Refused(refused)))),
                Some(Asked::Full) => return true,
                Some(Asked::Retired) => return false,
            }
            self.pending.pop_front();
            book.ask_alike(&mut self.pending, &mut asking);
        }
        true
    }
}

/// The clock is read once for all that have come together.
fn finish(server: &Server, book: &mut impl Book, id: u64, result: Result<Reply, Error>, now: Instant) {
    if let Some((_, patience)) = book.find(id) {
        server.note(&result, patience.since, now);
        book.done(id, result);
    }
}

/// Has a connection made by a thread of its own, so that other servers are not waited for.
fn open_aside(server: &Arc<Server>) -> Option<Error> {
    let opener = server.clone();
    let spawned = thread::Builder::new()
        .name("scrubjay-connect".to_owned())
        .spawn(move || opener.open(&opener.connect_patience()));
    // Without threads it takes its time here.
    match spawned {
        Ok(_) => None,
        Err(_) => server.open(&server.connect_patience()),
    }
}
