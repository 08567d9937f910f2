//! Bytes passed on between pairs of connections.
//!
//! What cannot be handed over is relayed: the keys of an encrypted connection stay in this process, while another goes on with
//! the conversation over a connection to this one. Each pair ends when the client does and has its last replies, when the
//! server closes, or when the time is over. For each direction of a pair at most [`HELD_MAX`] bytes are held.

use std::io::{self, ErrorKind, IoSlice};

use scrubjay_base::time::Now;
use scrubjay_io::driver::{Driver, Interest, Ready};

use crate::counters::{Control, Stop};

/// Most bytes that wait in one direction: what one read brings. Who encrypts needs room for a record.
pub const HELD_MAX: usize = 64 << 10;

/// Reads of one direction before others have their turn.
const READS_PER_TURN: usize = 4;

/// How long servers may take for their last replies when the time is over.
const GRACE_NANOS: u64 = 1_000_000_000;

/// How often the time is looked at.
const LOOK_MS: u32 = 100;

/// Two connections between which bytes are passed on.
#[derive(Debug)]
pub struct Pair<T> {
    /// Whoever asks; it may be encrypted.
    pub client: T,
    /// The way to whoever answers.
    pub server: T,
}

/// Passes bytes on between the two of each pair until all have ended, `nanos_max` have passed or `control`, which may be that of
/// the server that has handed over, says stop. A pair
/// that is cut off by the time is told so as if its client had ended: what was asked before is still answered.
///
/// # Errors
/// What the driver cannot recover from.
pub fn run<D: Driver>(
    driver: D,
    pairs: Vec<Pair<D::Socket>>,
    nanos_max: u64,
    control: &Control,
) -> io::Result<()> {
    driver.waker().into_iter().for_each(|waker| control.add(waker));
    let mut relay = Relay::new(driver, pairs, nanos_max);
    while matches!(control.stop(), Stop::No | Stop::HandOver) && relay.turn()? {}
    relay.close();
    Ok(())
}

/// All pairs, and what is to be done for them.
struct Relay<D: Driver> {
    driver: D,
    links: Vec<Option<Link<D::Socket>>>,
    due: Vec<usize>,
    /// Links that are open.
    open: usize,
    until: Now,
    ready: Vec<Ready>,
    buffer: Box<[u8]>,
}

impl<D: Driver> Relay<D> {
    fn new(mut driver: D, pairs: Vec<Pair<D::Socket>>, nanos_max: u64) -> Relay<D> {
        let until = driver.now().plus_nanos(nanos_max);
        let tokens = (0..).step_by(2);
        let open = |(pair, token)| Link::open(&mut driver, pair, token);
        let links: Vec<_> = pairs.into_iter().zip(tokens).map(open).collect();
        Relay {
            driver,
            // What had come before the pair was made is passed on at once.
            due: (0..links.len()).collect(),
            open: links.iter().flatten().count(),
            links,
            until,
            ready: Vec::new(),
            buffer: vec![0; HELD_MAX].into_boxed_slice(),
        }
    }

    /// Passes on what there is, and waits for more; `false` if nothing is left to be done.
    fn turn(&mut self) -> io::Result<bool> {
        let mut again = Vec::new();
        for index in std::mem::take(&mut self.due) {
            let Some(link) = &mut self.links[index] else {
                continue;
            };
            match link.turn(&mut self.driver, &mut self.buffer) {
                Ok(Turn::Wait) => {}
                Ok(Turn::Again) => again.push(index),
                // Whoever broke off is not waited for by the other.
                Ok(Turn::Over) | Err(_) => {
                    self.open -= 1;
                    let link = self.links[index].take();
                    link.into_iter().for_each(|link| link.close(&mut self.driver));
                }
            }
        }
        if self.open == 0 {
            return Ok(false);
        }
        let timeout_ms = if again.is_empty() { LOOK_MS } else { 0 };
        self.driver.wait(Some(timeout_ms), &mut self.ready)?;
        self.due = note(&mut self.links, &self.ready, again);
        let now = self.driver.now();
        if now > self.until {
            let links = self.links.iter_mut().flatten();
            links.for_each(|link| link.up.has_ended = true);
            self.due = (0..self.links.len()).collect();
        }
        Ok(now <= self.until.plus_nanos(GRACE_NANOS))
    }

    fn close(mut self) {
        let links = self.links.into_iter().flatten();
        links.for_each(|link| link.close(&mut self.driver));
    }
}

/// Notes what is ready; returns the links that have something to do.
fn note<T>(links: &mut [Option<Link<T>>], ready: &[Ready], again: Vec<usize>) -> Vec<usize> {
    let mut due = again;
    for ready in ready {
        let index = ready.token as usize / 2;
        let Some(link) = &mut links[index] else {
            continue;
        };
        let lane = match ready.token % 2 {
            0 => &mut link.up,
            _ => &mut link.down,
        };
        lane.may_read |= ready.readable;
        due.push(index);
    }
    due.sort_unstable();
    due.dedup();
    due
}

/// A pair, and what is on its way.
struct Link<T> {
    pair: Pair<T>,
    /// From the client to the server.
    up: Lane,
    /// From the server to the client.
    down: Lane,
    /// What each side is watched for.
    client_interest: Interest,
    server_interest: Interest,
    token: u64,
    /// The server knows that nothing more comes.
    server_knows: bool,
}

/// One direction.
#[derive(Default)]
struct Lane {
    /// Read and not written.
    waiting: Vec<u8>,
    /// There may be something to read.
    may_read: bool,
    /// Nothing more is to be read.
    has_ended: bool,
    /// The driver has taken the last bytes and not sent them.
    owes: bool,
}

/// How a link's turn ended.
enum Turn {
    Wait,
    Again,
    Over,
}

impl<T> Link<T> {
    /// `None` if it cannot be watched; it is closed then.
    fn open<D: Driver<Socket = T>>(driver: &mut D, mut pair: Pair<T>, token: u64) -> Option<Link<T>> {
        let lane = || Lane {
            may_read: true,
            ..Lane::default()
        };
        let added = driver
            .add(&mut pair.client, token)
            .and_then(|()| driver.add(&mut pair.server, token + 1));
        added.ok()?;
        Some(Link {
            pair,
            up: lane(),
            down: lane(),
            client_interest: Interest::Read,
            server_interest: Interest::Read,
            token,
            server_knows: false,
        })
    }

    fn turn<D: Driver<Socket = T>>(&mut self, driver: &mut D, buffer: &mut [u8]) -> io::Result<Turn> {
        let Pair { client, server } = &self.pair;
        let down_goes_on = self.down.pass(driver, server, client, buffer)?;
        // As from anybody: who does not take replies is not read from.
        let takes_replies = self.down.waiting.is_empty() && !self.down.owes;
        let up_goes_on = takes_replies && self.up.pass(driver, client, server, buffer)?;
        if self.down.is_over() {
            return Ok(Turn::Over);
        }
        if self.up.is_over() && !self.server_knows {
            self.server_knows = true;
            driver.end_output(server);
        }
        self.watch(driver)?;
        Ok(match down_goes_on || up_goes_on {
            true => Turn::Again,
            false => Turn::Wait,
        })
    }

    fn watch<D: Driver<Socket = T>>(&mut self, driver: &mut D) -> io::Result<()> {
        let (up, down) = (&self.up, &self.down);
        // An encrypted connection waits for one at a time.
        let client = interest(up.wants_input() && !down.wants_room(), down.wants_room());
        let server = interest(down.wants_input(), up.wants_room());
        if client != self.client_interest {
            driver.change(&self.pair.client, self.token, client)?;
            self.client_interest = client;
        }
        if server != self.server_interest {
            driver.change(&self.pair.server, self.token + 1, server)?;
            self.server_interest = server;
        }
        Ok(())
    }

    fn close<D: Driver<Socket = T>>(self, driver: &mut D) {
        driver.close(self.pair.client);
        driver.close(self.pair.server);
    }
}

fn interest(reads: bool, writes: bool) -> Interest {
    match (reads, writes) {
        (true, true) => Interest::ReadWrite,
        (true, false) => Interest::Read,
        (false, true) => Interest::Write,
        (false, false) => Interest::Neither,
    }
}

impl Lane {
    /// Passes on a fair share of what there is; whether there may be more.
    fn pass<D: Driver>(
        &mut self,
        driver: &mut D,
        from: &D::Socket,
        to: &D::Socket,
        buffer: &mut [u8],
    ) -> io::Result<bool> {
        if !self.waiting.is_empty() {
            let len = blocked(driver.write(to, &[IoSlice::new(&self.waiting)]))?.unwrap_or(0);
            self.waiting.drain(..len);
            if !self.waiting.is_empty() {
                return Ok(false);
            }
            self.waiting = Vec::new();
        }
        for _ in 0..READS_PER_TURN {
            if self.has_ended || !self.may_read {
                break;
            }
            let Some(len) = blocked(driver.read(from, buffer))? else {
                self.may_read = false;
                break;
            };
            if len == 0 {
                self.has_ended = true;
                break;
            }
            let sent = blocked(driver.write(to, &[IoSlice::new(&buffer[..len])]))?.unwrap_or(0);
            if sent < len {
                self.waiting = buffer[sent..len].to_vec();
                return Ok(false);
            }
        }
        if self.has_ended {
            self.owes = blocked(driver.flush(to))?.is_none();
            return Ok(false);
        }
        Ok(self.may_read)
    }

    fn wants_input(&self) -> bool {
        !self.has_ended && self.waiting.is_empty()
    }

    fn wants_room(&self) -> bool {
        !self.waiting.is_empty() || self.owes
    }

    /// Everything has gone, and nothing more comes.
    fn is_over(&self) -> bool {
        self.has_ended && !self.wants_room()
    }
}

/// `None` where it would have had to wait.
fn blocked<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
