//! Threads on one connection under many interleavings, chosen by shuttle:
//! `RUSTFLAGS="--cfg shuttle" cargo test -p scrubjay-client --lib model`. The socket is a simulated one that takes and gives bytes
//! in any portions, takes none while too many replies are unread, and may end. Nobody gets another one's reply, and nobody waits
//! for ever: shuttle finds threads that all sleep.

use std::io::{ErrorKind, Result};
use std::sync::Arc;
use std::time::{Duration, Instant};

use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::{Condvar, Mutex};
use shuttle::{Runner, scheduler::RandomScheduler, thread};

use super::stream::{Quiet, Wire};
use super::{Asked, Caller, Connection, Delivered, Desk, Lost, Patience};
use crate::config::Config;
use crate::placement;
use crate::protocol::conversation::Bundled;
use crate::protocol::{Form, Get, Output, Reply, Request, Settings};
use crate::standing::Standing;

/// From so many unread bytes of replies on the server reads no more requests.
const UNREAD_MAX: usize = 60;

/// A socket with a server behind it that answers a look-up with its key.
#[derive(Default)]
struct Simulated {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    requests: Vec<u8>,
    replies: Vec<u8>,
    /// It ends after so many requests.
    left: Option<usize>,
}

impl State {
    fn has_ended(&self) -> bool {
        self.left == Some(0)
    }

    fn serve(&mut self) {
        while let Some(at) = self.requests.windows(2).position(|pair| pair == b"\r\n")
            && !self.has_ended()
        {
            let line: Vec<u8> = self.requests.drain(..at + 2).collect();
            let line = String::from_utf8(line).expect("text");
            self.left = self.left.map(|left| left - 1);
            if let Some(keys) = line.trim_end().strip_prefix("get ") {
                let value = |key: &str| format!("VALUE {key} 0 {}\r\n{key}\r\n", key.len());
                let values: String = keys.split(' ').map(value).collect();
                self.replies.extend_from_slice(values.as_bytes());
                self.replies.extend_from_slice(b"END\r\n");
                continue;
            }
            let mut words = line.split_ascii_whitespace().skip(1);
            let key = words.next().expect("a key");
            let opaque = words.find(|word| word.starts_with('O')).expect("a number");
            let reply = format!("VA {} {opaque} k{key}\r\n{key}\r\n", key.len());
            self.replies.extend_from_slice(reply.as_bytes());
        }
    }

    fn take(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if self.replies.is_empty() {
            return if self.has_ended() {
                Ok(0)
            } else {
                Err(ErrorKind::WouldBlock.into())
            };
        }
        let len = thread_rng().gen_range(1..=self.replies.len());
        buffer[..len].copy_from_slice(&self.replies[..len]);
        self.replies.drain(..len);
        Ok(len)
    }

    fn is_readable(&self) -> bool {
        self.has_ended() || !self.replies.is_empty()
    }

    fn is_writable(&self) -> bool {
        self.has_ended() || self.replies.len() < UNREAD_MAX
    }
}

impl Wire for Simulated {
    fn send(&self, output: &Output) -> Result<usize> {
        let bytes: Vec<u8> = output.slices().flatten().copied().collect();
        let mut state = self.state.lock().expect("no panics");
        if state.has_ended() {
            return Err(ErrorKind::BrokenPipe.into());
        }
        if !state.is_writable() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let len = thread_rng().gen_range(1..=bytes.len());
        state.requests.extend_from_slice(&bytes[..len]);
        state.serve();
        drop(state);
        self.arrived.notify_all();
        Ok(len)
    }

    fn receive(&self, buffer: &mut [u8], patience: &Patience) -> Result<usize> {
        let mut state = self.state.lock().expect("no panics");
        while !state.is_readable() && !patience.is_over() {
            state = self.arrived.wait(state).expect("no panics");
        }
        state.take(buffer)
    }

    fn receive_now(&self, buffer: &mut [u8]) -> Result<usize> {
        self.state.lock().expect("no panics").take(buffer)
    }

    fn is_quiet(&self) -> Quiet {
        Quiet::Yes
    }

    fn wait(&self, reading: bool, desk: &Desk, patience: &Patience) -> bool {
        if !desk.start_polling() {
            return false;
        }
        let readable = loop {
            let state = self.state.lock().expect("no panics");
            let (readable, writable) = (state.is_readable(), state.is_writable());
            drop(state);
            if (reading && readable) || writable || desk.is_called() || patience.is_over() {
                break readable;
            }
            thread::yield_now();
        };
        desk.stop_polling(false);
        readable
    }
}

/// One call.
fn get(connection: &Connection<Simulated>, desk: &Arc<Desk>, key: &str, patient: bool) {
    let caller = Caller {
        desk,
        patience: &patience(patient),
    };
    let mut request = Request::Get(Get::new(key.as_bytes()));
    check(connection, connection.call(&mut request, caller), key, patient);
}

fn patience(patient: bool) -> Patience {
    Patience::new(
        Instant::now(),
        Duration::from_secs(if patient { 3600 } else { 0 }),
    )
}

fn check(connection: &Connection<Simulated>, delivered: Delivered, key: &str, patient: bool) {
    match delivered {
        Ok(Reply::Value(value)) => assert_eq!(value.bytes, key.as_bytes()),
        Err(Lost::TimedOut) => assert!(!patient, "{key}"),
        Err(Lost::Broken(_) | Lost::Unsent) => assert!(connection.is_retired()),
        other => panic!("{key}: {other:?}"),
    }
}

/// Three keys at once, as a gathering does it.
fn get_many(connection: &Connection<Simulated>, desk: &Arc<Desk>, name: &str, patient: bool) {
    let patience = patience(patient);
    let keys: Vec<String> = (0..3).map(|number| format!("{name}:{number}")).collect();
    let first = desk.next_ids(keys.len() as u64);
    let mut pending: Vec<u64> = (0..3).rev().collect();
    let mut open = keys.len();
    let (mut replies, mut bundled) = (Vec::new(), Vec::new());
    while open > 0 {
        desk.look();
        desk.take_all(&mut replies, &mut bundled);
        for (ids, Bundled { came, broken, .. }) in bundled.drain(..) {
            for (id, reply) in ids.iter().zip(came.into_replies()) {
                let lost = || broken.clone().map_or(Lost::TimedOut, Lost::Broken);
                replies.push((id, reply.ok_or_else(lost)));
            }
        }
        for (id, delivered) in replies.drain(..) {
            check(connection, delivered, &keys[(id - first) as usize], patient);
            open -= 1;
        }
        let mut asking = connection.asking(desk, patience.since);
        while let Some(number) = pending.last().copied() {
            let mut request = Request::Get(Get {
                plain: true,
                ..Get::new(keys[number as usize].as_bytes())
            });
            match asking.ask(&mut request, first + number, &patience) {
                Asked::Yes => drop(pending.pop()),
                Asked::Full => break,
                Asked::Retired => {
                    open -= pending.len();
                    pending.clear();
                }
                other => panic!("{other:?}"),
            }
        }
        drop(asking);
        connection.flush();
        if !patient {
            // What has come is laid there, and nothing else may come.
            connection.forget(desk, |_| true);
            break;
        }
        if open > 0 {
            let caller = Caller {
                desk,
                patience: &patience,
            };
            connection.wait(caller);
        }
    }
    connection.go(desk);
    desk.take_all(&mut replies, &mut bundled);
}

/// Three threads with two calls each, some of them without patience, some for many keys.
fn threads_on_one_connection() {
    let mut random = thread_rng();
    let wire = Simulated::default();
    if random.gen_bool(0.3) {
        wire.state.lock().expect("no panics").left = Some(random.gen_range(1..5));
    }
    let settings = Settings {
        outstanding_max: random.gen_range(1..5),
        ..Settings::new(Form::Meta, 1)
    };
    let place = placement::Server::new("simulated", 1);
    let standing = Standing::new(&place, &Config::new(vec![place.clone()]));
    let spin = Duration::from_secs(if random.gen_bool(0.5) { 3600 } else { 0 });
    let connection = Arc::new(Connection::new(wire, settings, standing, spin));
    let threads: Vec<_> = (0..3)
        .map(|thread| {
            let connection = connection.clone();
            let patient = [random.gen_bool(0.8), random.gen_bool(0.8)];
            thread::spawn(move || {
                let desk = Desk::new();
                for (number, patient) in patient.into_iter().enumerate() {
                    let key = format!("{thread}:{number}");
                    if thread_rng().gen_bool(0.4) {
                        get_many(&connection, &desk, &key, patient);
                    } else {
                        get(&connection, &desk, &key, patient);
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no panic");
    }
}

#[test]
fn each_caller_gets_its_own_reply_under_any_interleaving() {
    let number =
        |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().expect("a number"));
    let (seed, runs) = (number("SHUTTLE_SEED", 1), number("SHUTTLE_RUNS", 5_000));
    let scheduler = RandomScheduler::new_from_seed(seed, runs as usize);
    Runner::new(scheduler, shuttle::Config::new()).run(threads_on_one_connection);
}
