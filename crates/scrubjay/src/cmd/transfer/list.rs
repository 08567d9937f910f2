//! The list of a source's keys, cut into batches.
//!
//! scrubjay is asked for a page at a time, so that its keys do not pile up here and the dump can be gone on with from any page.
//! memcached tells all at once, and holds up its own housekeeping while it does: that list is taken as fast as it comes.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::sleep;
use std::time::Duration;

use scrubjay_protocol::dump::{Facts, Filter, parse_end};

use super::block::unix_millis;
use crate::cmd::connection::Connection;

/// Items of a page.
const PAGE: usize = 2048;

/// Batches of a page that wait at most.
const WAITING_MAX: usize = 64;

/// Bytes of the items of a batch, about.
const BATCH_BYTES: u64 = 1 << 20;

/// How long somebody else's dump of a memcached is waited for, in tenths of a second.
const BUSY_TENTHS: u32 = 600;

/// A key to fetch.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) key: Vec<u8>,
    /// Unix second at which it expires.
    pub(crate) expires_at: Option<u64>,
}

/// Some keys.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Counts from 0.
    pub(crate) number: u64,
    pub(crate) keys: Vec<Wanted>,
    /// Where the list goes on behind this batch, if the source tells.
    pub(crate) cursor: Option<u64>,
}

/// What a list is of.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) filter: Filter,
    /// The cursor to go on from.
    pub(crate) from: Option<u64>,
    /// Most items of a batch.
    pub(crate) batch_max: usize,
}

/// How a source lists.
enum Kind {
    /// In pages.
    Paged,
    /// All at once.
    Whole,
}

/// Where batches go.
enum Outlet {
    Bounded(SyncSender<Batch>),
    Unbounded(Sender<Batch>),
}

/// Lists keys over a connection.
pub(crate) struct Lister {
    connection: Connection,
    plan: Plan,
    kind: Kind,
    outlet: Outlet,
    batch: Batch,
    batch_bytes: u64,
}

impl Lister {
    /// Asks the source how it lists.
    pub(crate) fn new(mut connection: Connection, plan: Plan) -> Result<(Lister, Receiver<Batch>), String> {
        let kind = kind_of(&mut connection)?;
        if let (Kind::Whole, Some(_)) = (&kind, plan.from) {
            return Err(
                "this server lists its keys all at once: there is no going on in the middle; start anew"
                    .to_owned(),
            );
        }
        let (outlet, batches) = match kind {
            Kind::Paged => {
                let (sender, batches) = sync_channel(WAITING_MAX);
                (Outlet::Bounded(sender), batches)
            }
            Kind::Whole => {
                let (sender, batches) = channel();
                (Outlet::Unbounded(sender), batches)
            }
        };
        let lister = Lister {
            connection,
            plan,
            kind,
            outlet,
            batch: Batch::default(),
            batch_bytes: 0,
        };
        Ok((lister, batches))
    }

    /// Whether a dump of this source can be gone on with.
    pub(crate) fn is_resumable(&self) -> bool {
        matches!(self.kind, Kind::Paged)
    }

    /// Sends all batches; ends early if nobody takes them.
    pub(crate) fn run(mut self) -> Result<(), String> {
        if self.is_resumable() {
            return self.read_pages();
        }
        self.order(b"lru_crawler metadump hash")?;
        let mut read = self.read_page();
        if read.as_ref().is_err_and(|why| why.contains("BADCLASS")) {
            // Older ones cannot go by their hash table. By their lists, what moves meanwhile may be missed.
            self.order(b"lru_crawler metadump all")?;
            read = self.read_page();
        }
        read?;
        self.send(None);
        Ok(())
    }

    fn read_pages(&mut self) -> Result<(), String> {
        let mut from = self.plan.from;
        loop {
            let mut order = b"lru_crawler metadump all".to_vec();
            self.plan.filter.encode(&mut order);
            order.extend_from_slice(format!(" limit={PAGE}").as_bytes());
            if let Some(from) = from {
                order.extend_from_slice(format!(" from={from:016x}").as_bytes());
            }
            self.order(&order)?;
            from = self.read_page()?;
            if !self.send(from) || from.is_none() {
                return Ok(());
            }
        }
    }

    fn order(&mut self, order: &[u8]) -> Result<(), String> {
        self.connection.put(&[order, b"\r\n"]);
        self.connection.send()
    }

    /// Reads a list to its end and returns the cursor behind it.
    fn read_page(&mut self) -> Result<Option<u64>, String> {
        let unix_secs = unix_millis() / 1000;
        loop {
            let line = self.connection.read_line()?;
            let Some(facts) = Facts::parse(line) else {
                return parse_end(line).ok_or_else(|| explain(line));
            };
            let age = unix_secs.saturating_sub(facts.accessed_at);
            let ttl = facts.expires_at.map(|at| at.saturating_sub(unix_secs));
            // A server of pages has seen to that already, and its word counts.
            let wanted = self.is_resumable() || self.plan.filter.admits(&facts.key, facts.size, age, ttl);
            if !wanted {
                continue;
            }
            self.batch_bytes += facts.size;
            self.batch.keys.push(Wanted {
                key: facts.key,
                expires_at: facts.expires_at,
            });
            let is_full = self.batch.keys.len() >= self.plan.batch_max || self.batch_bytes >= BATCH_BYTES;
            if is_full && !self.send(None) {
                return Ok(None);
            }
        }
    }

    /// Hands the batch on; `false` if nobody is there to take it.
    fn send(&mut self, cursor: Option<u64>) -> bool {
        let number = self.batch.number;
        let batch = Batch {
            cursor,
            ..std::mem::take(&mut self.batch)
        };
        self.batch.number = number + 1;
        self.batch_bytes = 0;
        match &self.outlet {
            Outlet::Bounded(sender) => sender.send(batch).is_ok(),
            Outlet::Unbounded(sender) => sender.send(batch).is_ok(),
        }
    }
}

/// Finds out by orders that cost nothing.
fn kind_of(connection: &mut Connection) -> Result<Kind, String> {
    // No item has such a size; whoever knows the words lists nothing.
    let nothing = "all size>=18446744073709551615";
    for (word, kind) in [
        (nothing, Kind::Paged),
        // A class that is empty everywhere: the largest number of one.
        ("63", Kind::Whole),
    ] {
        let mut tenths = 0;
        loop {
            let reply = connection.ask(&format!("lru_crawler metadump {word}"))?;
            match reply.as_str() {
                "END" => return Ok(kind),
                "ERROR" => break,
                busy if busy.starts_with("BUSY") && tenths < BUSY_TENTHS => {
                    tenths += 1;
                    sleep(Duration::from_millis(100));
                }
                _ => return Err(explain(reply.as_bytes())),
            }
        }
    }
    Err("this server cannot list its keys: it does not know lru_crawler metadump".to_owned())
}

fn explain(reply: &[u8]) -> String {
    let reply = String::from_utf8_lossy(reply);
    let advice = match &*reply {
        "ERROR metadump not allowed" => "it was started with -X",
        "CLIENT_ERROR lru crawler disabled" => "send it `lru_crawler enable` first",
        busy if busy.starts_with("BUSY") => "another dump of it is going on; wait until that is done",
        cursor if cursor.contains("cursor") => "it was started again since; dump anew",
        _ => "is it a server of memcached's text protocol?",
    };
    format!("the server does not list its keys: it answered {reply:?}; {advice}")
}
