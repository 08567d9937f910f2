//! Conformance scripts: what is sent to a server and what must come back. The notation is told in
//! `tests/conformance/README.md`.

pub mod packet;
pub mod text;

use std::collections::{BTreeMap, HashMap};

use self::packet::{Packet, PacketPattern};
use self::text::{Pattern, Template};

/// The folder of files that scripts name in their arguments, as `{files}`.
const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/conformance/files");

/// Numbers that a script named, by name: a CAS number to be sent back, for instance.
pub type Names = HashMap<String, u64>;

/// One script: steps in order, over one or more connections to one fresh server.
#[derive(Clone, Debug)]
pub struct Script {
    /// File name without its ending.
    pub name: String,
    /// Arguments of the server's command line.
    pub arguments: Vec<String>,
    /// What happens, in order.
    pub events: Vec<Event>,
}

/// One thing that happens in a script.
#[derive(Clone, Debug)]
pub enum Event {
    /// Bytes are sent and replies expected.
    Exchange(Exchange),
    /// Time passes.
    Wait {
        /// How long.
        secs: u64,
        /// Short enough to be waited for in real time too.
        cheap: bool,
    },
}

/// Requests sent together on one connection, and the replies to them.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// Line of its first request in the script file, counted from 1.
    pub line: usize,
    /// Name under which `deviations.tsv` knows it.
    pub label: Option<String>,
    /// Which of the script's connections.
    pub connection: String,
    /// What is sent.
    pub requests: Vec<Request>,
    /// What must come back.
    pub replies: Vec<Reply>,
}

/// Something to send.
#[derive(Clone, Debug)]
pub enum Request {
    /// Text, or any bytes.
    Text(Template),
    /// A packet of the binary protocol.
    Packet(Box<Packet>),
}

/// Something to come back.
#[derive(Clone, Debug)]
pub struct Reply {
    /// As written in the script.
    pub source: String,
    /// What it stands for.
    pub pattern: ReplyPattern,
}

/// What a reply must be.
#[derive(Clone, Debug)]
pub enum ReplyPattern {
    /// A line of text, or any bytes.
    Text(Pattern),
    /// A packet of the binary protocol.
    Packet(Box<PacketPattern>),
    /// The server closes the connection.
    Closed,
}

/// How bytes that arrived compare with what must come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Match {
    /// The reply is there and this many bytes long.
    Full(usize),
    /// So far so good, more must come.
    Partial,
    /// Something else came.
    Different,
}

impl Request {
    /// Appends the bytes to send.
    ///
    /// # Errors
    /// A name that no reply has set yet.
    pub fn encode(&self, names: &Names, out: &mut Vec<u8>) -> Result<(), String> {
        match self {
            Request::Text(template) => template.encode(names, out),
            Request::Packet(packet) => packet.encode(names, out),
        }
    }
}

impl Request {
    /// The named numbers in it.
    fn names(&self) -> Vec<String> {
        match self {
            Request::Text(template) => template.names(),
            Request::Packet(packet) => packet.names(),
        }
    }
}

impl Reply {
    /// Reads the right side of a `<` or `<<` line.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(line: &str) -> Result<Reply, String> {
        let pattern = if line == "< closed" {
            ReplyPattern::Closed
        } else if let Some(rest) = line.strip_prefix("<< ") {
            ReplyPattern::Packet(Box::new(PacketPattern::parse(rest)?))
        } else if let Some(rest) = line.strip_prefix("< ").or((line == "<").then_some("")) {
            ReplyPattern::Text(Pattern::parse_line(rest)?)
        } else {
            return Err(format!("no reply line: {line}"));
        };
        Ok(Reply {
            source: line.to_owned(),
            pattern,
        })
    }
}

impl ReplyPattern {
    /// Compares the bytes that arrived; `closed` says that no more will come.
    pub fn matches(&self, bytes: &[u8], closed: bool, names: &mut Names) -> Match {
        let outcome = match self {
            ReplyPattern::Text(pattern) => pattern.matches(bytes, names),
            ReplyPattern::Packet(pattern) => pattern.matches(bytes, names),
            ReplyPattern::Closed if !bytes.is_empty() => Match::Different,
            ReplyPattern::Closed if closed => Match::Full(0),
            ReplyPattern::Closed => Match::Partial,
        };
        if outcome == Match::Partial && closed {
            Match::Different
        } else {
            outcome
        }
    }
}

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    /// The line and what is wrong with it.
    pub fn parse(name: &str, source: &str) -> Result<Script, String> {
        let mut reader = Reader {
            connection: "a".to_owned(),
            ..Reader::default()
        };
        for (index, line) in source.lines().enumerate() {
            reader
                .line(index + 1, line)
                .map_err(|why| format!("{name}.script:{}: {why}", index + 1))?;
        }
        Ok(Script {
            name: name.to_owned(),
            arguments: reader.arguments,
            events: reader.events,
        })
    }

    /// All that each connection sends, with 1 for every named number.
    pub fn streams(&self) -> BTreeMap<String, Vec<u8>> {
        let mut streams = BTreeMap::new();
        for event in &self.events {
            let Event::Exchange(exchange) = event else {
                continue;
            };
            let names: Names = exchange
                .requests
                .iter()
                .flat_map(Request::names)
                .map(|name| (name, 1))
                .collect();
            let stream: &mut Vec<u8> = streams.entry(exchange.connection.clone()).or_default();
            for request in &exchange.requests {
                request.encode(&names, stream).expect("every name is set");
            }
        }
        streams
    }

    /// Whether all of it can be sent at once: one connection, no time steps, nothing that depends on replies.
    pub fn is_one_stream(&self) -> bool {
        let mut connections = self.events.iter().map(|event| match event {
            Event::Exchange(exchange) => Some((&exchange.connection, exchange)),
            Event::Wait { .. } => None,
        });
        let depends = |request: &Request| !request.names().is_empty();
        connections.all(|event| {
            event.is_some_and(|(name, exchange)| name == "a" && !exchange.requests.iter().any(depends))
        })
    }
}

#[derive(Default)]
struct Reader {
    connection: String,
    label: Option<String>,
    arguments: Vec<String>,
    events: Vec<Event>,
    /// A blank line came: the next request does not go out with the one before.
    apart: bool,
}

impl Reader {
    fn line(&mut self, number: usize, line: &str) -> Result<(), String> {
        if line.is_empty() {
            self.apart = true;
        }
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        match line.split_once(' ').unwrap_or((line, "")) {
            ("!", arguments) => {
                let arguments = arguments.split(' ');
                self.arguments = arguments.map(|word| word.replace("{files}", FILES)).collect();
            }
            ("*", connection) => self.connection = connection.to_owned(),
            ("~", label) => self.label = Some(label.to_owned()),
            ("@", time) => self.events.push(parse_wait(time)?),
            (">", text) => self.request(number, Request::Text(Template::parse_line(text)?)),
            (">>", packet) => self.request(number, Request::Packet(Box::new(Packet::parse(packet)?))),
            ("<" | "<<", _) => {
                let reply = Reply::parse(line)?;
                let Some(Event::Exchange(exchange)) = self.events.last_mut() else {
                    return Err("a reply to nothing".to_owned());
                };
                exchange.replies.push(reply);
            }
            _ => return Err(format!("what is this? {line}")),
        }
        Ok(())
    }

    /// Requests without replies or blank lines between them go out together.
    fn request(&mut self, line: usize, request: Request) {
        let label = self.label.take();
        let apart = std::mem::take(&mut self.apart);
        if let Some(Event::Exchange(exchange)) = self.events.last_mut()
            && exchange.replies.is_empty()
            && exchange.connection == self.connection
            && label.is_none()
            && !apart
        {
            exchange.requests.push(request);
            return;
        }
        self.events.push(Event::Exchange(Exchange {
            line,
            label,
            connection: self.connection.clone(),
            requests: vec![request],
            replies: Vec::new(),
        }));
    }
}

fn parse_wait(text: &str) -> Result<Event, String> {
    let (time, cheap) = match text.strip_suffix(" cheap") {
        Some(time) => (time, true),
        None => (text, false),
    };
    let secs = time
        .strip_suffix('s')
        .and_then(|secs| secs.parse().ok())
        .ok_or_else(|| format!("no time: {text}"))?;
    Ok(Event::Wait { secs, cheap })
}
