//! The client's own thread: asks, reads and delivers for callers who do not wait. It is started at first use, and ends when the
//! client is dropped and nothing is outstanding any more.

mod entries;

use std::io;
use std::mem;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Instant;

use crate::answer::{Answer, Place};
use crate::connection::{Desk, Patience};
use crate::error::Error;
use crate::failover::again;
use crate::gathering::Gathering;
use crate::idle::Looks;
use crate::protocol::{Reply, Request};
use crate::server::Server;
use entries::Entries;

/// What becomes of a reply.
pub(crate) type Done = Box<dyn FnOnce(Result<Reply, Error>) + Send>;
/// What becomes of many.
pub(crate) type AllDone = Box<dyn FnOnce(Vec<Result<Reply, Error>>) + Send>;

/// A request that lives as long as it has to.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    key: Box<[u8]>,
    /// All but the key.
    request: Request<'static>,
    /// Which server it goes to.
    server: usize,
}

impl Kept {
    pub(crate) fn new(key: Box<[u8]>, request: Request<'_>, server: usize) -> Kept {
        Kept {
            key,
            request: request.into_owned(),
            server,
        }
    }

    /// Looks at the whole of it.
    pub(crate) fn with_ref<T>(&self, act: impl FnOnce(&Request<'_>) -> T) -> T {
        act(&again(&self.request).with_key(&self.key))
    }

    fn with<T>(&mut self, act: impl FnOnce(&mut Request<'_>) -> T) -> T {
        let mut request = mem::replace(&mut self.request, Request::Noop).with_key(&self.key);
        let done = act(&mut request);
        self.request = request.into_owned();
        done
    }
}

/// What is asked of the thread.
enum Task {
    One(u64, Kept, Patience, Done),
    All(u64, Vec<Kept>, Patience, AllDone),
    Alarm(u64, Instant, Place<()>),
    Forget(Names),
}

/// What requests are called that are forgotten together.
#[derive(Clone, Debug)]
pub(crate) enum Names {
    InARow(Range<u64>),
    Each(Vec<u64>),
}

impl Names {
    pub(crate) fn one(id: u64) -> Names {
        Names::InARow(id..id + 1)
    }

    fn put_into(self, ids: &mut Vec<u64>) {
        match self {
            Names::InARow(range) => ids.extend(range),
            Names::Each(each) => ids.extend(each),
        }
    }
}

#[derive(Default)]
struct Inbox {
    tasks: Vec<Task>,
    stopped: bool,
}

/// The way to the thread.
pub(crate) struct Driver {
    /// A child has neither the thread nor its queue.
    process: u32,
    desk: Arc<Desk>,
    inbox: Arc<Mutex<Inbox>>,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Driver")
    }
}

impl Driver {
    /// Starts the thread.
    pub(crate) fn start(servers: &[Arc<Server>], looks: Looks) -> io::Result<Driver> {
        let inbox = Arc::<Mutex<Inbox>>::default();
        let (tell, told) = mpsc::channel();
        let (of_thread, servers) = (inbox.clone(), servers.to_vec());
        thread::Builder::new()
            .name("scrubjay-client".to_owned())
            .spawn(move || {
                let desk = Desk::new();
                // Whoever has started it waits for this.
                let _ = tell.send(desk.clone());
                run(&of_thread, &servers, desk, &looks);
            })?;
        let desk = told.recv().map_err(io::Error::other)?;
        let process = std::process::id();
        Ok(Driver { process, desk, inbox })
    }

    /// Asks; gives the name by which it can be forgotten.
    pub(crate) fn call(&self, request: Kept, patience: Patience, done: Done) -> u64 {
        let id = self.desk.next_ids(1);
        self.put(Task::One(id, request, patience, done));
        id
    }

    /// Asks many; gives the names by which they can be forgotten.
    pub(crate) fn call_all(&self, requests: Vec<Kept>, patience: Patience, done: AllDone) -> Names {
        let count = requests.len() as u64;
        let first = self.desk.next_ids(count);
        self.put(Task::All(first, requests, patience, done));
        Names::InARow(first..first + count)
    }

    /// Comes when this moment has come.
    pub(crate) fn alarm(self: &Arc<Driver>, until: Instant) -> Answer<()> {
        let (id, place) = (self.desk.next_ids(1), Place::default());
        self.put(Task::Alarm(id, until, place.clone()));
        Answer::new(place, Some((self.clone(), Names::one(id))))
    }

    /// Nobody waits for these any more, and nobody is told.
    pub(crate) fn forget(&self, names: Names) {
        self.put(Task::Forget(names));
    }

    fn put(&self, task: Task) {
        self.change(|inbox| inbox.tasks.push(task));
    }

    fn change(&self, act: impl FnOnce(&mut Inbox)) {
        if self.process == std::process::id() {
            act(&mut lock(&self.inbox));
            self.desk.wake();
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.change(|inbox| inbox.stopped = true);
    }
}

fn lock(inbox: &Mutex<Inbox>) -> MutexGuard<'_, Inbox> {
    inbox.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run(inbox: &Mutex<Inbox>, servers: &[Arc<Server>], desk: Arc<Desk>, looks: &Looks) {
    let mut gathering = Gathering::new(servers, desk, false);
    let mut entries = Entries::default();
    loop {
        gathering.look();
        let (tasks, stopped) = {
            let mut inbox = lock(inbox);
            (mem::take(&mut inbox.tasks), inbox.stopped)
        };
        take_up(tasks, &mut gathering, &mut entries);
        gathering.step(&mut entries);
        let now = Instant::now();
        let late = entries.take_late(now);
        if !late.is_empty() {
            gathering.end(&mut entries, &late);
        }
        entries.deliver();
        if stopped && entries.is_empty() {
            return;
        }
        if let Some(idle) = looks.is_time(now) {
            servers.iter().for_each(|server| server.close_idle(idle, now));
        }
        gathering.wait(entries.next_deadline().into_iter().chain(looks.next()).min());
    }
}

fn take_up(tasks: Vec<Task>, gathering: &mut Gathering, entries: &mut Entries) {
    let mut forgotten = Vec::new();
    for task in tasks {
        match task {
            Task::One(id, request, patience, done) => {
                entries.add(id, request, patience, done);
                gathering.submit(entries, id);
            }
            Task::All(first, requests, patience, done) => {
                for id in entries.add_all(first, requests, patience, done) {
                    gathering.submit(entries, id);
                }
            }
            Task::Alarm(id, until, place) => entries.set_alarm(id, until, place),
            Task::Forget(names) => names.put_into(&mut forgotten),
        }
    }
    if !forgotten.is_empty() {
        forgotten.sort_unstable();
        gathering.forget(|id| forgotten.binary_search(&id).is_ok());
        forgotten.iter().for_each(|id| entries.forget(*id));
    }
}
