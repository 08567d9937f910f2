//! Asks all servers again and again, a bounded number of them at a time, over connections that stay open.
//!
//! Two groups of threads take servers from a queue each: one the servers that answered last time, the other those that did
//! not. Who goes on hanging is waited for by the second group alone, so that the first is never out of threads for the others:
//! they are held up only if more servers than it has threads fall silent at once, for one time-out.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use scrubjay_base::time::Now;
use scrubjay_io::clock::Clock;
use scrubjay_io::{process, thread as threads};

use super::fleet::Reading;
use crate::cmd::connection::{Access, Connection};

/// Threads for servers that answer, and for those that do not.
const READERS_MAX: usize = 128;
const PROBERS_MAX: usize = 32;

/// Files that are open besides connections.
const OTHER_FILES: u64 = 64;

/// A server that does not answer is left alone for this long, or for an interval if that is longer.
const REST: Duration = Duration::from_secs(1);

/// Longest statistics of a server, in bytes.
const REPLY_LEN_MAX: usize = 1 << 20;

/// What is asked of whom, and how often.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) servers: Vec<String>,
    pub(super) access: Access,
    pub(super) interval: Duration,
    /// How long a server may take.
    pub(super) patience: Duration,
}

/// Starts asking; what comes of it comes out of the channel. It ends when nobody listens there any more.
///
/// # Errors
/// The operating system starts no threads.
pub(super) fn start(plan: Plan, clock: Clock) -> Result<Receiver<Reading>, String> {
    let count = plan.servers.len();
    // Where that is refused, the servers beyond the limit are shown with this very error.
    let _ = process::raise_open_files(count as u64 + OTHER_FILES);
    let (sender, receiver) = channel();
    let desk = Arc::new(Desk {
        plan,
        clock,
        answering: Queue::default(),
        silent: Queue::default(),
    });
    for server in 0..count {
        desk.answering.put(clock.now(), server, None);
    }
    let groups = [(true, READERS_MAX), (false, PROBERS_MAX)];
    for (is_reader, threads_max) in groups {
        for _ in 0..count.min(threads_max) {
            let (desk, sender) = (Arc::clone(&desk), sender.clone());
            let work = move || {
                let queue = if is_reader { &desk.answering } else { &desk.silent };
                while desk.serve(queue, &sender) {}
            };
            threads::spawn("poll", work).map_err(|why| format!("cannot start a thread: {why}"))?;
        }
    }
    Ok(receiver)
}

/// What the threads share.
struct Desk {
    plan: Plan,
    clock: Clock,
    answering: Queue,
    silent: Queue,
}

impl Desk {
    /// Asks the next server of `queue`; whether somebody still wants to know.
    fn serve(&self, queue: &Queue, readings: &Sender<Reading>) -> bool {
        let (due, server, mut connection) = queue.take(&self.clock);
        let start = self.clock.now();
        let outcome = self.ask(server, &mut connection, start);
        let at = self.clock.now();
        let (queue, next) = match outcome {
            Ok(_) => (&self.answering, due.plus_nanos(nanos(self.plan.interval)).max(at)),
            Err(_) => (&self.silent, at.plus_nanos(nanos(self.plan.interval.max(REST)))),
        };
        let reading = Reading {
            server,
            at,
            nanos: at.nanos_since(start),
            outcome,
        };
        let is_wanted = readings.send(reading).is_ok();
        queue.put(next, server, connection);
        is_wanted
    }

    /// A server's statistics, a line for each. The connection is left where it was if it can be used again.
    fn ask(&self, server: usize, kept: &mut Option<Connection>, start: Now) -> Result<String, String> {
        let patience = self.plan.patience;
        let used = kept.take();
        let is_used = used.is_some();
        let result = self.ask_over(server, used, kept);
        // A server may have closed a connection that was idle; that says nothing about the server.
        let has_time = self.clock.now().nanos_since(start) < nanos(patience);
        if result.is_err() && is_used && has_time {
            return self.ask_over(server, None, kept);
        }
        result
    }

    fn ask_over(
        &self,
        server: usize,
        used: Option<Connection>,
        kept: &mut Option<Connection>,
    ) -> Result<String, String> {
        let name = &self.plan.servers[server];
        let connect = || {
            let refusal = |why: String| why.trim_start_matches(&format!("{name}: ")).to_owned();
            self.plan.access.connect(name).map_err(refusal)
        };
        let mut connection = used.map_or_else(connect, Ok)?;
        connection.finish_within(self.plan.patience);
        let text = read(&mut connection)?;
        *kept = Some(connection);
        Ok(text)
    }
}

fn read(connection: &mut Connection) -> Result<String, String> {
    let mut text = String::new();
    let mut line = connection.ask("stats")?;
    while line != "END" {
        let Some(row) = line.strip_prefix("STAT ") else {
            return Err(format!("unexpected reply {line:?} to `stats`"));
        };
        // What a terminal would take for an order is none of a server's business.
        text.extend(row.chars().map(|char| if char.is_control() { '?' } else { char }));
        text.push('\n');
        if text.len() > REPLY_LEN_MAX {
            return Err(format!("its statistics are longer than {REPLY_LEN_MAX} bytes"));
        }
        line = String::from_utf8_lossy(connection.read_line()?).into_owned();
    }
    if text.is_empty() {
        return Err("it told no statistics".to_owned());
    }
    Ok(text)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Servers by when they are due, with the connection to each.
#[derive(Default)]
struct Queue {
    jobs: Mutex<BTreeMap<(Now, usize), Option<Connection>>>,
    changed: Condvar,
}

impl Queue {
    fn put(&self, due: Now, server: usize, connection: Option<Connection>) {
        let mut jobs = self.jobs.lock().expect("nothing panics under this lock");
        jobs.insert((due, server), connection);
        self.changed.notify_one();
    }

    /// Waits for the first that is due.
    fn take(&self, clock: &Clock) -> (Now, usize, Option<Connection>) {
        let mut jobs = self.jobs.lock().expect("nothing panics under this lock");
        loop {
            let now = clock.now();
            jobs = match jobs.first_entry() {
                Some(first) if first.key().0 <= now => {
                    let ((due, server), connection) = first.remove_entry();
                    return (due, server, connection);
                }
                Some(first) => {
                    let wait = Duration::from_nanos(first.key().0.nanos_since(now));
                    let woken = self.changed.wait_timeout(jobs, wait);
                    woken.expect("nothing panics under this lock").0
                }
                None => self.changed.wait(jobs).expect("nothing panics under this lock"),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use clap::Command;
    use scrubjay_io::clock::Clock;

    use super::{Plan, start};
    use crate::cmd::connection::{Access, access_args};

    /// How long anything may take before a test gives up.
    const PATIENCE: Duration = Duration::from_secs(60);

    fn plan(servers: &[String], patience: Duration) -> Plan {
        let matches = Command::new("top").args(access_args()).get_matches_from(["top"]);
        Plan {
            servers: servers.to_vec(),
            access: Access::of(&matches, patience),
            interval: Duration::from_millis(10),
            patience,
        }
    }

    fn address(listener: &TcpListener) -> String {
        listener.local_addr().expect("it listens").to_string()
    }

    /// Answers `stats` on each connection with `reply` as many times as `answers`, then closes it.
    fn serve(listener: TcpListener, answers: usize, reply: &'static str) {
        std::thread::spawn(move || {
            let answer = |stream: TcpStream| {
                let mut lines = BufReader::new(stream.try_clone()?).lines();
                (0..answers).try_for_each(|_| {
                    assert_eq!(lines.next().transpose()?.as_deref(), Some("stats"));
                    (&stream).write_all(reply.as_bytes())
                })
            };
            listener
                .incoming()
                .flatten()
                .for_each(|stream| drop(answer(stream)));
        });
    }

    fn listen() -> TcpListener {
        TcpListener::bind("127.0.0.1:0").expect("a free port")
    }

    #[test]
    fn who_hangs_delays_nobody() {
        let (answering, hanging) = (listen(), listen());
        let servers = [&hanging, &answering].map(address);
        serve(answering, usize::MAX, "STAT pid 1\r\nEND\r\n");
        let readings = start(plan(&servers, PATIENCE), Clock::start()).expect("threads start");
        for _ in 0..5 {
            let reading = readings.recv_timeout(PATIENCE).expect("a reading");
            assert_eq!((reading.server, reading.outcome), (1, Ok("pid 1\n".to_owned())));
        }
        drop(hanging);
    }

    #[test]
    fn who_cannot_be_asked_is_told_with_the_reason() {
        let (answering, hanging, odd) = (listen(), listen(), listen());
        let [first, second, last] = [&answering, &hanging, &odd].map(address);
        // A port that was free might be somebody else's by now; nobody is given the first one.
        let servers = [first, second, "127.0.0.1:1".to_owned(), last];
        // Closes after two answers, which is no failure.
        serve(answering, 2, "STAT pid 1\r\nSTAT version \x1b[31mred\r\nEND\r\n");
        serve(odd, 1, "HTTP/1.1 400 Bad Request\r\n");
        let plan = plan(&servers, Duration::from_millis(300));
        let readings = start(plan, Clock::start()).expect("threads start");
        let mut answers = 0;
        let mut reasons = [None, None, None, None];
        while answers < 5 || reasons.iter().flatten().count() < 3 {
            let reading = readings.recv_timeout(PATIENCE).expect("a reading");
            match reading.outcome {
                Ok(text) => {
                    assert_eq!((reading.server, text.as_str()), (0, "pid 1\nversion ?[31mred\n"));
                    answers += 1;
                }
                // A busy machine may keep the others from it, too.
                Err(why) if reading.server != 1 && why.starts_with("no answer for 0.3 s") => {}
                Err(why) => reasons[reading.server] = Some(why),
            }
        }
        let [none, silent, refused, other] = reasons;
        assert_eq!(none, None);
        assert!(silent.expect("counted").starts_with("no answer for 0.3 s"));
        assert!(refused.expect("counted").starts_with("Connection refused"));
        assert!(
            other
                .expect("counted")
                .starts_with("unexpected reply \"HTTP/1.1 400")
        );
        drop(hanging);
    }
}
