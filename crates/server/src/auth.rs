//! Who may connect: users and their passwords, checked without holding up anybody else.
//!
//! A password that is known, which is every one that stands in the file as it is and every hashed one that was right once,
//! is recognised by its digest at once. Any other may cost tens of milliseconds, so it goes to a thread of its own, through
//! a queue with a bound; the connection waits meanwhile. Without that thread, as in simulations, it is checked in place.

mod secret;
mod users;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use scrubjay_base::allowance::Allowance;
use scrubjay_net::Peer;

use self::secret::{Digest, Key};
use self::users::{User, Users, shown};

pub use self::secret::hash_password;
pub use self::users::Rights;

/// Logins that may wait for the thread that verifies them.
const WAITING_MAX: usize = 64;

/// Longest users file, in bytes.
pub const FILE_LEN_MAX: usize = 1 << 20;

/// The users of a server.
#[derive(Debug)]
pub struct Auth {
    key: Key,
    users: RwLock<Arc<Users>>,
    /// Raised when `users` is replaced, after it; sessions compare it with what they saw.
    generation: AtomicU64,
    /// Most connections of one user; 0: no limit. Whoever logs in looks once.
    connections_max: AtomicU32,
    /// The way to the thread that verifies, once there is one.
    verifier: OnceLock<SyncSender<Job>>,
    failures: Mutex<Failures>,
    /// The first user of whom a connection was held back since somebody last asked.
    held: Mutex<Option<String>>,
}

/// Failed logins that nobody was told of yet.
#[derive(Debug, Default)]
struct Failures {
    count: u64,
    /// Name and address of the last one.
    last: Option<(String, Peer)>,
}

/// A password to be verified.
#[derive(Debug)]
struct Job {
    users: Arc<Users>,
    name: Vec<u8>,
    password: Vec<u8>,
    digest: Digest,
    ticket: Arc<Ticket>,
}

/// What a connection asks for its answer that takes time.
#[derive(Debug, Default)]
pub(crate) struct Ticket(OnceLock<Option<Arc<User>>>);

/// What comes of a name and a password.
#[derive(Debug)]
pub(crate) enum Check {
    /// They are right.
    Right(Login),
    /// They are not.
    Wrong,
    /// They are, but the user has too many connections.
    TooMany,
    /// It will turn out.
    Later(Arc<Ticket>),
    /// Too many others wait already.
    Busy,
}

/// A connection's hold on its user.
#[derive(Debug)]
pub(crate) struct Login {
    user: Arc<User>,
    generation: u64,
}

impl Login {
    pub(crate) fn name(&self) -> &[u8] {
        &self.user.name
    }

    pub(crate) fn rights(&self) -> Rights {
        self.user.rights
    }

    /// What the user may still ask, over all connections.
    pub(crate) fn allowance(&self) -> &Allowance {
        &self.user.usage.allowance
    }
}

impl Drop for Login {
    fn drop(&mut self) {
        self.user.usage.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Auth {
    /// The users of a file's `text`, of whom each may have so many connections. `key` is drawn by chance.
    ///
    /// # Errors
    /// What is wrong with the text, and in which line.
    pub fn new(text: &[u8], connections_max: Option<u32>, key: [u8; 32]) -> Result<Auth, String> {
        let key = Key::new(key);
        let users = Users::parse(text, &key, &Users::default())?;
        Ok(Auth {
            key,
            users: RwLock::new(Arc::new(users)),
            generation: AtomicU64::new(0),
            connections_max: AtomicU32::new(connections_max.unwrap_or(0)),
            verifier: OnceLock::new(),
            failures: Mutex::default(),
            held: Mutex::default(),
        })
    }

    /// Takes the users of `text` instead, and returns how many they are. Whoever is gone, or has another password, is cut
    /// off at the next request; rights are those of the new file.
    ///
    /// # Errors
    /// What is wrong with the text; the old users stay then.
    pub fn replace(&self, text: &[u8]) -> Result<usize, String> {
        let users = Users::parse(text, &self.key, &self.users())?;
        let count = users.count();
        *self.users.write().expect("nothing panics under this lock") = Arc::new(users);
        self.generation.fetch_add(1, Ordering::Release);
        Ok(count)
    }

    /// Whether some password stands in the file as it is.
    pub fn has_plain_passwords(&self) -> bool {
        self.users().has_plain
    }

    /// Most connections of one user from now on; those who are there stay.
    pub fn set_connections_max(&self, most: Option<u32>) {
        self.connections_max.store(most.unwrap_or(0), Ordering::Relaxed);
    }

    /// The work of a thread that verifies passwords; after each it calls `done`, which wakes who waits. Returns when nobody
    /// can ask any more.
    ///
    /// # Panics
    /// If there is such a thread already.
    pub fn verifier(&self, done: impl Fn() + Send + 'static) -> impl FnOnce() + Send + 'static {
        let (sender, receiver): (_, Receiver<Job>) = sync_channel(WAITING_MAX);
        self.verifier.set(sender).expect("there is one verifier");
        move || {
            for job in receiver {
                job.run();
                done();
            }
        }
    }

    /// What happened since the last call, if some login failed.
    pub fn take_failures(&self) -> Option<String> {
        let Failures { count, last } =
            std::mem::take(&mut *self.failures.lock().expect("nothing panics under this lock"));
        let (name, peer) = last?;
        let peer = match peer {
            Peer::Tcp(address) | Peer::Udp(address) => address.to_string(),
            Peer::Unix => "the Unix socket".to_owned(),
        };
        Some(match count {
            1 => format!("a login as \"{name}\" from {peer} failed"),
            _ => format!("{count} logins failed, the last one as \"{name}\" from {peer}"),
        })
    }

    pub(crate) fn note_failure(&self, name: &[u8], peer: Peer) {
        let mut failures = self.failures.lock().expect("nothing panics under this lock");
        failures.count += 1;
        failures.last = Some((shown(name), peer));
    }

    /// A user of whom a connection was held back since the last call of this.
    pub fn take_held(&self) -> Option<String> {
        self.held.lock().expect("nothing panics under this lock").take()
    }

    pub(crate) fn note_held(&self, name: &[u8]) {
        let mut held = self.held.lock().expect("nothing panics under this lock");
        held.get_or_insert_with(|| shown(name));
    }

    fn users(&self) -> Arc<Users> {
        Arc::clone(&self.users.read().expect("nothing panics under this lock"))
    }

    pub(crate) fn check(&self, name: &[u8], password: &[u8]) -> Check {
        let generation = self.generation.load(Ordering::Acquire);
        let users = self.users();
        let digest = self.key.digest(name, password);
        if let Some(user) = users.recognise(&digest) {
            return self.admit(Arc::clone(user), generation);
        }
        if !users.has_hashes() {
            return Check::Wrong;
        }
        let ticket = Arc::<Ticket>::default();
        let job = Job {
            users,
            name: name.to_vec(),
            password: password.to_vec(),
            digest,
            ticket: Arc::clone(&ticket),
        };
        let Some(verifier) = self.verifier.get() else {
            job.run();
            return self.redeem(&ticket).unwrap_or(Check::Wrong);
        };
        match verifier.try_send(job) {
            Ok(()) => Check::Later(ticket),
            Err(_) => Check::Busy,
        }
    }

    /// The answer that was not there at once; `None` if it is not there yet.
    pub(crate) fn redeem(&self, ticket: &Ticket) -> Option<Check> {
        let verdict = ticket.0.get()?;
        // The file may have been read anew meanwhile: no generation has this number, so that the next request looks.
        Some(match verdict {
            Some(user) => self.admit(Arc::clone(user), u64::MAX),
            None => Check::Wrong,
        })
    }

    fn admit(&self, user: Arc<User>, generation: u64) -> Check {
        let open = user.usage.connections.fetch_add(1, Ordering::Relaxed) + 1;
        let login = Login { user, generation };
        match self.connections_max.load(Ordering::Relaxed) {
            most if most > 0 && open > most => Check::TooMany,
            _ => Check::Right(login),
        }
    }

    /// Admits a connection that has logged in to another server as the user of this name; `None` if there is none here, or it
    /// has too many connections.
    pub(crate) fn readmit(&self, name: &[u8]) -> Option<Login> {
        let generation = self.generation.load(Ordering::Acquire);
        let user = Arc::clone(self.users().find(name)?);
        match self.admit(user, generation) {
            Check::Right(login) => Some(login),
            _ => None,
        }
    }

    /// Whether the user of a connection is still one, with the same password; then its rights are those of today.
    #[inline]
    pub(crate) fn still_admits(&self, login: &mut Login) -> bool {
        let generation = self.generation.load(Ordering::Acquire);
        login.generation == generation || self.renew(login, generation)
    }

    #[cold]
    fn renew(&self, login: &mut Login, generation: u64) -> bool {
        let users = self.users();
        let Some(user) = users
            .find(&login.user.name)
            .filter(|user| user.has_secret_of(&login.user))
        else {
            return false;
        };
        // Both count in the same place.
        login.user = Arc::clone(user);
        login.generation = generation;
        true
    }
}

impl Job {
    fn run(self) {
        let user = self.users.verify(&self.name, &self.password);
        if let Some(user) = &user {
            user.remember(self.digest);
        }
        let _ = self.ticket.0.set(user);
    }
}

#[cfg(test)]
mod tests;
