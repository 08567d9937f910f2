//! Runs a script against a server, real or in process, and says where the replies differ.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use crate::script::packet::Received;
use crate::script::text::escape;
use crate::script::{Event, Exchange, Match, Names, Reply, Script};
use crate::server::{Connection, PATIENCE, Server};

/// Something to run scripts against.
pub trait Target {
    /// Opens the connection with this number, counted from 0.
    fn open(&mut self) -> Result<(), String>;
    /// Sends on a connection.
    fn send(&mut self, connection: usize, bytes: &[u8]);
    /// What arrived on a connection and was not taken yet.
    fn received(&mut self, connection: usize) -> &mut Vec<u8>;
    /// Waits for more to arrive; `false` if nothing more comes for now.
    fn receive(&mut self, connection: usize) -> bool;
    /// Whether the server closed the connection.
    fn is_closed(&self, connection: usize) -> bool;
    /// Says that nothing more is sent on a connection.
    fn finish(&mut self, connection: usize);
    /// Lets time pass; `false` if that would take too long.
    fn wait(&mut self, secs: u64, cheap: bool) -> bool;
}

/// Replies that a server is known to give instead of those in the scripts, by script and label.
#[derive(Debug, Default)]
pub struct Deviations {
    rows: HashMap<(String, String), Deviation>,
}

#[derive(Debug)]
struct Deviation {
    ours: String,
    theirs: Vec<Reply>,
}

impl Deviations {
    /// Reads `deviations.tsv`: script, label, our replies, their replies, reason; several replies are parted by ` | `.
    ///
    /// # Errors
    /// A row that cannot be read.
    pub fn parse(source: &str) -> Result<Deviations, String> {
        let mut rows = HashMap::new();
        for (index, line) in source.lines().enumerate().skip(1) {
            let columns: Vec<&str> = line.split('\t').collect();
            let [script, label, ours, theirs, why] = columns[..] else {
                return Err(format!("deviations.tsv:{}: not five columns", index + 1));
            };
            if why.len() < 10 {
                return Err(format!("deviations.tsv:{}: no reason given", index + 1));
            }
            let theirs = theirs
                .split(" | ")
                .filter(|reply| *reply != "-")
                .map(Reply::parse)
                .collect::<Result<_, _>>()
                .map_err(|why| format!("deviations.tsv:{}: {why}", index + 1))?;
            let deviation = Deviation {
                ours: ours.to_owned(),
                theirs,
            };
            if rows
                .insert((script.to_owned(), label.to_owned()), deviation)
                .is_some()
            {
                return Err(format!("deviations.tsv:{}: twice", index + 1));
            }
        }
        Ok(Deviations { rows })
    }

    /// Whether the script as a whole is not for the other server: its label is `*`.
    pub fn skips(&self, script: &Script) -> bool {
        self.rows.contains_key(&(script.name.clone(), "*".to_owned()))
    }

    /// Rows that name no exchange of these scripts, or tell our replies differently.
    pub fn idle_rows(&self, scripts: &[Script]) -> Vec<String> {
        let mut left: HashMap<_, _> = self.rows.iter().collect();
        for script in scripts {
            left.remove(&(script.name.clone(), "*".to_owned()));
            for event in &script.events {
                if let Event::Exchange(exchange) = event
                    && let Some(label) = &exchange.label
                {
                    let key = (script.name.clone(), label.clone());
                    if self
                        .rows
                        .get(&key)
                        .is_some_and(|row| row.ours == sources(&exchange.replies))
                    {
                        left.remove(&key);
                    }
                }
            }
        }
        left.keys()
            .map(|(script, label)| format!("{script} {label}"))
            .collect()
    }

    fn of(&self, script: &Script, exchange: &Exchange) -> Option<&Deviation> {
        let label = exchange.label.clone()?;
        self.rows.get(&(script.name.clone(), label))
    }
}

fn sources(replies: &[Reply]) -> String {
    if replies.is_empty() {
        return "-".to_owned();
    }
    let sources: Vec<&str> = replies.iter().map(|reply| reply.source.as_str()).collect();
    sources.join(" | ")
}

/// Runs `script`. Where `deviations` are given, they hold instead of the script's replies.
///
/// # Errors
/// Where and how the first reply differs.
pub fn run(script: &Script, target: &mut impl Target, deviations: Option<&Deviations>) -> Result<(), String> {
    let mut run = Run {
        script,
        target,
        names: Names::new(),
        connections: HashMap::new(),
    };
    for event in &script.events {
        match event {
            Event::Exchange(exchange) => run.exchange(exchange, deviations)?,
            Event::Wait { secs, cheap } if !run.target.wait(*secs, *cheap) => break,
            Event::Wait { .. } => {}
        }
    }
    run.nothing_is_left()
}

/// Runs a script that is one stream by sending all requests before looking at any reply.
///
/// # Errors
/// Where and how the first reply differs.
pub fn run_pipelined(
    script: &Script,
    target: &mut impl Target,
    deviations: Option<&Deviations>,
) -> Result<(), String> {
    let mut run = Run {
        script,
        target,
        names: Names::new(),
        connections: HashMap::new(),
    };
    let exchanges = || {
        script.events.iter().filter_map(|event| match event {
            Event::Exchange(exchange) => Some(exchange),
            Event::Wait { .. } => None,
        })
    };
    let mut bytes = Vec::new();
    for request in exchanges().flat_map(|exchange| &exchange.requests) {
        request.encode(&run.names, &mut bytes)?;
    }
    let connection = run.connection("a")?;
    run.target.send(connection, &bytes);
    for exchange in exchanges() {
        run.replies(exchange, connection, deviations)?;
    }
    run.nothing_is_left()
}

struct Run<'a, T> {
    script: &'a Script,
    target: &'a mut T,
    names: Names,
    connections: HashMap<String, usize>,
}

impl<T: Target> Run<'_, T> {
    fn connection(&mut self, name: &str) -> Result<usize, String> {
        if let Some(connection) = self.connections.get(name) {
            return Ok(*connection);
        }
        self.target.open()?;
        let connection = self.connections.len();
        self.connections.insert(name.to_owned(), connection);
        Ok(connection)
    }

    fn exchange(&mut self, exchange: &Exchange, deviations: Option<&Deviations>) -> Result<(), String> {
        let connection = self.connection(&exchange.connection)?;
        let mut bytes = Vec::new();
        for request in &exchange.requests {
            request
                .encode(&self.names, &mut bytes)
                .map_err(|why| format!("{}.script:{}: {why}", self.script.name, exchange.line))?;
        }
        self.target.send(connection, &bytes);
        self.replies(exchange, connection, deviations)
    }

    fn replies(
        &mut self,
        exchange: &Exchange,
        connection: usize,
        deviations: Option<&Deviations>,
    ) -> Result<(), String> {
        let replies = match deviations.and_then(|deviations| deviations.of(self.script, exchange)) {
            Some(deviation) => &deviation.theirs,
            None => &exchange.replies,
        };
        for reply in replies {
            self.reply(reply, connection).map_err(|got| {
                format!(
                    "{}.script:{}: expected {}\n{got}",
                    self.script.name, exchange.line, reply.source
                )
            })?;
        }
        Ok(())
    }

    fn reply(&mut self, reply: &Reply, connection: usize) -> Result<(), String> {
        loop {
            let closed = self.target.is_closed(connection);
            let received = self.target.received(connection);
            match reply.pattern.matches(received, closed, &mut self.names) {
                Match::Full(len) => {
                    received.drain(..len);
                    return Ok(());
                }
                Match::Different => return Err(excerpt(received, closed)),
                Match::Partial => {}
            }
            if !self.target.receive(connection) {
                return Err(excerpt(self.target.received(connection), false));
            }
        }
    }

    /// Ends every connection; what still comes was not expected.
    fn nothing_is_left(&mut self) -> Result<(), String> {
        for (name, connection) in self.connections.clone() {
            self.target.finish(connection);
            while self.target.receive(connection) && !self.target.is_closed(connection) {}
            let received = self.target.received(connection);
            if !received.is_empty() {
                let got = excerpt(received, true);
                return Err(format!(
                    "{}.script: connection {name}: expected nothing more\n{got}",
                    self.script.name
                ));
            }
        }
        Ok(())
    }
}

/// The start of what arrived, for a message.
fn excerpt(received: &[u8], closed: bool) -> String {
    describe(&received[..received.len().min(4096)], closed)
}

/// What arrived, as a script would write it.
pub fn describe(received: &[u8], closed: bool) -> String {
    let mut out = String::new();
    let mut rest = received;
    while !rest.is_empty() {
        if let Some(packet) = (rest[0] == 0x81).then(|| Received::parse(rest)).flatten() {
            let _ = writeln!(out, "<< {}", packet.describe());
            rest = &rest[packet.len..];
            continue;
        }
        let end = rest.windows(2).position(|pair| pair == b"\r\n");
        let len = end.unwrap_or(rest.len());
        let lone = if end.is_none() { "\\" } else { "" };
        let _ = writeln!(out, "< {}{lone}", escape(&rest[..len]));
        rest = &rest[end.map_or(len, |len| len + 2)..];
    }
    if closed {
        out.push_str("< closed\n");
    }
    out
}

/// A server process as a target.
#[derive(Debug)]
pub struct Remote {
    server: Server,
    connections: Vec<Connection>,
}

impl Remote {
    /// Runs scripts against `server`.
    pub fn new(server: Server) -> Remote {
        Remote {
            server,
            connections: Vec::new(),
        }
    }
}

impl Target for Remote {
    fn open(&mut self) -> Result<(), String> {
        let connection = self.server.connect().map_err(|error| error.to_string())?;
        self.connections.push(connection);
        Ok(())
    }

    fn send(&mut self, connection: usize, bytes: &[u8]) {
        self.connections[connection].send(bytes);
    }

    fn received(&mut self, connection: usize) -> &mut Vec<u8> {
        &mut self.connections[connection].received
    }

    fn receive(&mut self, connection: usize) -> bool {
        self.connections[connection].receive(PATIENCE)
    }

    fn is_closed(&self, connection: usize) -> bool {
        self.connections[connection].closed
    }

    fn finish(&mut self, connection: usize) {
        self.connections[connection].finish();
    }

    /// Waits by listening: meanwhile the server has nothing to say.
    fn wait(&mut self, secs: u64, cheap: bool) -> bool {
        if let (true, Some(connection)) = (cheap, self.connections.first_mut()) {
            connection.receive(Duration::from_secs(secs));
        }
        cheap
    }
}

/// Sends a script's requests to a server and writes the script again with the replies that really came, keeping those
/// written replies that hold. A tool for writing scripts; what it wrote is to be judged, not believed.
///
/// # Errors
/// The script cannot be sent.
pub fn record(source: &str, script: &Script, target: &mut Remote) -> Result<String, String> {
    let mut run = Run {
        script,
        target,
        names: Names::new(),
        connections: HashMap::new(),
    };
    let lines: Vec<&str> = source.lines().collect();
    let mut out = String::new();
    let mut done = 0;
    for event in &script.events {
        let exchange = match event {
            Event::Exchange(exchange) => exchange,
            Event::Wait { secs, cheap } => {
                run.target.wait(*secs, *cheap);
                continue;
            }
        };
        let last = exchange.line - 1 + last_request(&lines[exchange.line - 1..]);
        for line in lines[done..=last].iter().filter(|line| !line.starts_with('<')) {
            let _ = writeln!(out, "{line}");
        }
        done = last + 1;
        let connection = run.connection(&exchange.connection)?;
        let mut bytes = Vec::new();
        for request in &exchange.requests {
            request.encode(&run.names, &mut bytes)?;
        }
        run.target.send(connection, &bytes);
        let peer = &mut run.target.connections[connection];
        let mut patience = Duration::from_millis(100);
        while !peer.closed && peer.receive(patience) {
            patience = Duration::from_millis(20);
        }
        let mut received = std::mem::take(&mut peer.received);
        for reply in &exchange.replies {
            let closed = run.target.connections[connection].closed;
            let Match::Full(len) = reply.pattern.matches(&received, closed, &mut run.names) else {
                break;
            };
            received.drain(..len);
            let _ = writeln!(out, "{}", reply.source);
        }
        let closed = run.target.connections[connection].closed && !out.ends_with("< closed\n");
        out.push_str(&describe(&received, closed));
    }
    for line in &lines[done..] {
        if !line.starts_with('<') {
            let _ = writeln!(out, "{line}");
        }
    }
    Ok(out)
}

/// Index of the last line of the requests that start at the first of `lines` and go out together.
fn last_request(lines: &[&str]) -> usize {
    let mut last = 0;
    for (index, line) in lines.iter().enumerate() {
        match line.as_bytes().first() {
            Some(b'>') => last = index,
            Some(b'#') => {}
            _ => break,
        }
    }
    last
}
