//! A random session: what one connection sends.

use rand::Rng as _;
use rand::rngs::StdRng;

use super::{binary, text};
use crate::script::text::escape;

/// Longer requests are not broken: what is left of one may be a line that ends the connection with a reset, or a key over
/// 250 bytes, and memcached forgets the replies before that.
const MUTATED_LEN_MAX: usize = 200;

/// From here on memcached keeps values in chunks.
const CHUNKED_LEN_MIN: usize = 512 << 10;

/// Lines up to this long are answered however they arrive.
const LINE_LEN_MAX: usize = 1000;

/// One request, or something that is nearly one.
#[derive(Clone, Debug, Default)]
pub struct Request {
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
enum Part {
    Bytes(Vec<u8>),
    /// A CAS number that came back earlier, with something added: decimal or 8 bytes.
    Cas {
        back: usize,
        plus: u64,
        as_text: bool,
    },
}

/// Which protocol a session speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Classic and meta commands.
    Text,
    /// Packets.
    Binary,
}

/// Requests in batches: after each but the last, its replies are awaited, so that later requests can use CAS numbers.
#[derive(Clone, Debug)]
pub struct Session {
    /// Which protocol.
    pub protocol: Protocol,
    /// The batches.
    pub batches: Vec<Vec<Request>>,
    /// memcached may say less: it forgets replies that wait to be sent when it meets a packet with a wrong first byte, or
    /// when the connection ends in the middle of a data block.
    pub may_lose_replies: bool,
}

impl Request {
    /// These bytes.
    pub fn bytes(bytes: impl Into<Vec<u8>>) -> Request {
        Request {
            parts: vec![Part::Bytes(bytes.into())],
        }
    }

    /// Adds bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        match self.parts.last_mut() {
            Some(Part::Bytes(last)) => last.extend_from_slice(bytes),
            _ => self.parts.push(Part::Bytes(bytes.to_vec())),
        }
    }

    /// Adds the CAS number that came `back` before the last one, plus `plus`.
    pub fn push_cas(&mut self, back: usize, plus: u64, as_text: bool) {
        self.parts.push(Part::Cas { back, plus, as_text });
    }

    /// Appends what goes over the wire, given the CAS numbers that this server sent so far.
    pub fn encode(&self, seen: &[u64], out: &mut Vec<u8>) {
        for part in &self.parts {
            match part {
                Part::Bytes(bytes) => out.extend_from_slice(bytes),
                Part::Cas { back, plus, as_text } => {
                    let number = seen
                        .iter()
                        .rev()
                        .nth(*back)
                        .map_or(0, |cas| cas.wrapping_add(*plus));
                    if *as_text {
                        out.extend_from_slice(number.to_string().as_bytes());
                    } else {
                        out.extend_from_slice(&number.to_be_bytes());
                    }
                }
            }
        }
    }

    fn is_longer_than(&self, len: usize) -> bool {
        let lens = self.parts.iter().map(|part| match part {
            Part::Bytes(bytes) => bytes.len(),
            Part::Cas { .. } => 0,
        });
        lens.sum::<usize>() > len
    }

    fn has_cas(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Cas { .. }))
    }

    /// Whether it is arithmetic. While a reply with an item's value waits to be sent, memcached makes a new item instead of
    /// changing that one in place, and then neither pads the number nor keeps the lease; so replies are awaited first.
    pub fn counts(&self) -> bool {
        let Some(Part::Bytes(bytes)) = self.parts.first() else {
            return false;
        };
        let text: [&[u8]; 3] = [b"incr", b"decr", b"ma "];
        text.iter().any(|word| bytes.starts_with(word))
            || matches!(bytes[..], [0x80, 5 | 6 | 0x15 | 0x16, ..])
    }

    /// Changes a byte, leaves some out, repeats some, or cuts the end off.
    pub fn mutate(&mut self, random: &mut StdRng, alphabet: &[u8]) {
        // A CAS number in another place would be told apart.
        let [Part::Bytes(bytes)] = &mut self.parts[..] else {
            return;
        };
        if bytes.is_empty() || bytes.len() > MUTATED_LEN_MAX {
            return;
        }
        // memcached passes over what is no base64 in a key; here it is refused.
        if bytes[0] == b'm' && bytes.windows(2).any(|pair| pair == b" b") {
            return;
        }
        let before = bytes.clone();
        let at = random.random_range(0..bytes.len());
        let len = random.random_range(1..=4).min(bytes.len() - at);
        match random.random_range(0..6) {
            // No `-`: see `text.rs`.
            0 => bytes[at] = random.random_range(b'.'..=255),
            1 => bytes[at] = *pick(random, alphabet),
            2 => drop(bytes.drain(at..at + len)),
            3 => {
                let piece = bytes[at..at + len].to_vec();
                bytes.splice(at..at, piece);
            }
            4 => bytes.insert(at, *pick(random, alphabet)),
            _ => bytes.truncate(at),
        }
        // Flags that 1.6.18 does not know, and a body of 2^31 bytes or more, whose length it takes for a negative one: it refuses that and
        // reads the body as requests. Here it is swallowed.
        let has_new_flags =
            bytes.starts_with(b"m") && bytes.windows(2).any(|pair| matches!(pair, b" E" | b" x"));
        // Where less than the length is left, the next request tells it.
        let has_huge_body = bytes.first() == Some(&0x80) && bytes.get(8).is_none_or(|byte| *byte >= 0x80);
        // The next request's words are this one's then, and one of them may be the flag `b`.
        let has_no_end = before.starts_with(b"m") && !bytes.ends_with(b"\n");
        let tells_insides = bytes.starts_with(b"me ");
        // What a life is where `t` has come to stand before `N`, and whether what is dead at once is there to be won.
        let vivifies = bytes.starts_with(b"mg ") && bytes.windows(2).any(|pair| pair == b" N");
        if has_new_flags || has_huge_body || has_no_end || tells_insides || vivifies {
            *bytes = before;
        }
        // memcached loses count of bytes in these when they have a body that they should not have.
        if let [0x80, opcode @ (0x1b..), ..] = &mut bytes[..] {
            *opcode = 0;
        }
    }

    fn describe(&self) -> String {
        let mut out = String::from("> ");
        for part in &self.parts {
            match part {
                Part::Bytes(bytes) => out.push_str(&escape(bytes)),
                Part::Cas { back, plus, .. } => out.push_str(&format!("\\(cas-{back}+{plus})")),
            }
        }
        out.push_str("\\\n");
        out
    }
}

impl Protocol {
    /// Bytes that have a meaning.
    fn alphabet(self) -> &'static [u8] {
        match self {
            // No 0: memcached takes it for the end of the line's words.
            Protocol::Text => b" \n09azAZ",
            Protocol::Binary => b"\x00\x01\x02\x04\x05\x06\x08\x0c\x14\x18\x80\x81\xff",
        }
    }

    /// Appends a request whose reply tells that all before it were answered.
    pub fn encode_barrier(self, index: usize, out: &mut Vec<u8>) {
        match self {
            // The empty line ends what a wrong length left open.
            Protocol::Text => out.extend_from_slice(b"\r\nmn\r\n"),
            Protocol::Binary => {
                let mut header = [0; 24];
                (header[0], header[1]) = (0x80, 0x0a);
                header[12..16].copy_from_slice(&barrier_opaque(index));
                out.extend_from_slice(&header);
            }
        }
    }

    /// Whether the reply to that request has come.
    pub fn ends_with_barrier(self, index: usize, received: &[u8]) -> bool {
        match self {
            Protocol::Text => received.ends_with(b"MN\r\n"),
            Protocol::Binary => {
                let header = received.last_chunk::<24>();
                header.is_some_and(|header| {
                    header[..2] == [0x81, 0x0a] && header[12..16] == barrier_opaque(index)
                })
            }
        }
    }
}

fn barrier_opaque(index: usize) -> [u8; 4] {
    (0xfeed_0000 + index as u32).to_be_bytes()
}

impl Session {
    /// A random session of some 20 requests.
    pub fn random(random: &mut StdRng) -> Session {
        let protocol = if random.random_ratio(1, 4) {
            Protocol::Binary
        } else {
            Protocol::Text
        };
        let request = match protocol {
            Protocol::Text => text::request,
            Protocol::Binary => binary::request,
        };
        let mut batches: Vec<Vec<Request>> = Vec::new();
        for _ in 0..random.random_range(1..4) {
            let mut batch: Vec<Request> = Vec::new();
            for _ in 0..random.random_range(1..16) {
                let request = request(random);
                if request.counts() && batch.iter().any(|earlier| !earlier.counts()) {
                    batches.push(std::mem::take(&mut batch));
                }
                batch.push(request);
            }
            batches.push(batch);
        }
        // Only at the end: what is broken may swallow or close.
        let is_broken = random.random_ratio(1, 2);
        if is_broken {
            let mut broken: Vec<Request> = (0..random.random_range(1..6)).map(|_| request(random)).collect();
            broken.retain(|request| !request.counts());
            let mut is_after_mutated = false;
            broken.retain_mut(|request| {
                // What is left of a long value is a line then, and how long one may be depends on how its bytes arrive. And each
                // server has its own CAS numbers, which may be part of a key then.
                if is_after_mutated && (request.is_longer_than(LINE_LEN_MAX) || request.has_cas()) {
                    return false;
                }
                if random.random_ratio(2, 3) {
                    request.mutate(random, protocol.alphabet());
                    is_after_mutated = true;
                }
                true
            });
            if protocol == Protocol::Text && random.random_ratio(1, 2) {
                broken.push(text::nonsense(random));
            }
            batches.push(broken);
        }
        // memcached keeps such values in chunks, and calls them no number before it looks at the CAS number.
        if batches
            .iter()
            .flatten()
            .any(|request| request.is_longer_than(CHUNKED_LEN_MIN))
        {
            for batch in &mut batches {
                batch.retain(|request| !(request.counts() && request.has_cas()));
            }
        }
        Session {
            protocol,
            batches,
            may_lose_replies: is_broken,
        }
    }

    /// Requests in all.
    pub fn len(&self) -> usize {
        self.batches.iter().map(Vec::len).sum()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The session without the requests of these numbers.
    #[must_use]
    pub fn without(&self, from: usize, to: usize) -> Session {
        let mut number = 0;
        let mut keep = |request: &Request| {
            number += 1;
            (!(from + 1..=to).contains(&number)).then(|| request.clone())
        };
        let batches = self
            .batches
            .iter()
            .map(|batch| batch.iter().filter_map(&mut keep).collect())
            .collect();
        Session { batches, ..*self }
    }

    /// As a script would write it.
    pub fn describe(&self) -> String {
        let mut out = String::new();
        for batch in self.batches.iter().filter(|batch| !batch.is_empty()) {
            batch.iter().for_each(|request| out.push_str(&request.describe()));
            out.push('\n');
        }
        out
    }
}

/// One of `choices`.
pub fn pick<'a, T>(random: &mut StdRng, choices: &'a [T]) -> &'a T {
    &choices[random.random_range(0..choices.len())]
}
