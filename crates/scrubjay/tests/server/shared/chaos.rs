//! A relay between clients and a server that muddles replies: late, doubled, swapped with the next one or with another
//! connection's, cut in two, or cut off for good. Its pieces are whole replies, as what changes bytes within one is no business
//! of a client that runs over TCP.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Numbers by chance, from a seed.
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
}

/// A relay in front of a server.
pub struct Relay {
    pub port: u16,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    streams: Mutex<Vec<TcpStream>>,
    /// A reply on its way from one connection to another.
    pocket: Mutex<Option<Vec<u8>>>,
}

impl Relay {
    /// Relays to the server on `port`; muddles if there is a seed.
    pub fn start(port: u16, seed: Option<u64>) -> Relay {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let relay = Relay {
            port: listener.local_addr().expect("bound").port(),
            shared: Arc::default(),
        };
        let shared = relay.shared.clone();
        thread::spawn(move || {
            for (number, client) in listener.incoming().enumerate() {
                let client = client.expect("a connection");
                let server = TcpStream::connect(("127.0.0.1", port)).expect("the server is there");
                client
                    .set_nodelay(true)
                    .and(server.set_nodelay(true))
                    .expect("settable");
                let mut streams = shared.streams.lock().expect("no panics");
                streams.push(client.try_clone().expect("cloned"));
                let (from, to) = (
                    client.try_clone().expect("cloned"),
                    server.try_clone().expect("cloned"),
                );
                thread::spawn(move || pass_requests(from, to));
                let chance = seed.map(|seed| Chance::new(seed.wrapping_add(number as u64)));
                let shared = shared.clone();
                thread::spawn(move || {
                    let _ = pass_replies(&server, &client, chance, &shared);
                    let _ = client.shutdown(Shutdown::Both);
                    let _ = server.shutdown(Shutdown::Both);
                });
            }
        });
        relay
    }

    /// Ends all connections.
    pub fn end_all(&self) {
        for stream in self.shared.streams.lock().expect("no panics").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn pass_requests(mut from: TcpStream, mut to: TcpStream) {
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Both);
}

fn pass_replies(
    mut from: &TcpStream,
    to: &TcpStream,
    mut chance: Option<Chance>,
    shared: &Shared,
) -> std::io::Result<()> {
    let mut input = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    let mut held = None;
    loop {
        let len = from.read(&mut buffer)?;
        if len == 0 {
            return Ok(());
        }
        let Some(chance) = &mut chance else {
            let mut to = to;
            to.write_all(&buffer[..len])?;
            continue;
        };
        input.extend_from_slice(&buffer[..len]);
        while let Some(len) = reply_len(&input) {
            let reply: Vec<u8> = input.drain(..len).collect();
            muddle(reply, to, chance, shared, &mut held)?;
        }
        // What is held back waits for the next one, but not for ever.
        if let (None, Some(held)) = (input.first(), held.take()) {
            send(&held, to, chance)?;
        }
    }
}

fn muddle(
    mut reply: Vec<u8>,
    to: &TcpStream,
    chance: &mut Chance,
    shared: &Shared,
    held: &mut Option<Vec<u8>>,
) -> std::io::Result<()> {
    match chance.below(3000) {
        // Late.
        0..60 => thread::park_timeout(Duration::from_millis(chance.below(25))),
        // Twice.
        60..62 => send(&reply, to, chance)?,
        // Behind the next one.
        62..64 if held.is_none() => {
            *held = Some(reply);
            return Ok(());
        }
        // On another connection.
        64..68 => {
            let mut pocket = shared.pocket.lock().expect("no panics");
            match pocket.replace(std::mem::take(&mut reply)) {
                Some(other) => reply = other,
                None => return Ok(()),
            }
        }
        // Half of it, and no more.
        68..70 => {
            let half = chance.below(reply.len() as u64) as usize;
            send(&reply[..half], to, chance)?;
            return Err(std::io::ErrorKind::ConnectionAborted.into());
        }
        _ => {}
    }
    send(&reply, to, chance)?;
    match held.take() {
        Some(held) => send(&held, to, chance),
        None => Ok(()),
    }
}

/// Sends it, sometimes in two parts.
fn send(bytes: &[u8], mut to: &TcpStream, chance: &mut Chance) -> std::io::Result<()> {
    if chance.below(4) == 0 && !bytes.is_empty() {
        let (first, second) = bytes.split_at(chance.below(bytes.len() as u64) as usize);
        to.write_all(first)?;
        thread::yield_now();
        return to.write_all(second);
    }
    to.write_all(bytes)
}

/// Bytes of the reply at the front, if it is whole.
fn reply_len(input: &[u8]) -> Option<usize> {
    let line = input.windows(2).position(|pair| pair == b"\r\n")? + 2;
    let text = String::from_utf8_lossy(&input[..line]);
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let value = match words.as_slice() {
        ["VA", len, ..] | ["VALUE", _, _, len, ..] => {
            len.parse::<usize>().expect("a server without faults") + 2
        }
        _ => 0,
    };
    (input.len() >= line + value).then_some(line + value)
}
