//! A small server: reads requests of both forms from bytes, executes them on a map, writes replies. The same map tells what
//! replies are to be expected.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use scrubjay_client::protocol::reply::ErrorKind;
use scrubjay_client::protocol::{
    Arith, Delete, Form, Get, Lease, Reply, Request, ServerError, Store, StoreMode, Touch, Value,
};

/// The server stores no more than this.
pub const TOO_LARGE: usize = 60;

#[derive(Clone, Debug, Default)]
struct Item {
    value: Vec<u8>,
    flags: u32,
    cas: u64,
    stale: bool,
    won: bool,
}

/// What the server knows.
#[derive(Clone, Debug, Default)]
pub struct Model {
    items: BTreeMap<Vec<u8>, Item>,
    cas: u64,
}

fn error(kind: ErrorKind, words: &str) -> Reply {
    Reply::Error(ServerError {
        kind,
        words: words.to_owned(),
    })
}

impl Model {
    /// Executes a request.
    pub fn execute(&mut self, request: &Request<'_>) -> Reply {
        match request {
            Request::Get(get) => self.get(get),
            Request::Touch(touch) if self.items.contains_key(touch.key) => Reply::Touched,
            Request::Touch(_) => Reply::NotFound,
            Request::Store(store) => self.store(store),
            Request::Delete(delete) => self.delete(delete),
            Request::Arith(arith) => self.arith(arith),
            Request::Noop => Reply::Alive,
            Request::Version => Reply::Version(b"1.2.3".to_vec()),
            Request::Flush { .. } => {
                self.items.clear();
                Reply::Flushed
            }
        }
    }

    fn next_cas(&mut self) -> u64 {
        self.cas += 1;
        self.cas
    }

    fn get(&mut self, get: &Get<'_>) -> Reply {
        let mut lease = Lease::default();
        if let Some(item) = self.items.get_mut(get.key) {
            lease.stale = item.stale;
            lease.taken = item.won;
            lease.won = item.stale && !item.won;
            item.won |= lease.won;
        } else if get.vivify.is_some() {
            let cas = self.next_cas();
            let item = Item {
                cas,
                won: true,
                ..Item::default()
            };
            self.items.insert(get.key.to_vec(), item);
            lease.won = true;
        } else {
            return Reply::Miss;
        }
        let item = &self.items[get.key];
        Reply::Value(Value {
            bytes: item.value.clone(),
            flags: item.flags,
            cas: get.with_cas.then_some(item.cas),
            ttl_secs: None,
            lease,
        })
    }

    fn store(&mut self, store: &Store<'_>) -> Reply {
        if store.value.len() > TOO_LARGE {
            return error(ErrorKind::Server, "object too large for cache");
        }
        let there = self.items.get(store.key);
        match (store.cas, there) {
            (Some(_), None) => return Reply::NotFound,
            (Some(cas), Some(item)) if item.cas != cas => return Reply::Exists,
            _ => {}
        }
        let mut item = Item {
            value: store.value.to_vec(),
            flags: store.flags,
            ..Item::default()
        };
        match (store.mode, there) {
            (StoreMode::Add, Some(_))
            | (StoreMode::Replace | StoreMode::Append | StoreMode::Prepend, None) => return Reply::NotStored,
            (StoreMode::Append, Some(old)) => {
                item = old.clone();
                item.value.extend_from_slice(&store.value);
            }
            (StoreMode::Prepend, Some(old)) => {
                item = old.clone();
                item.value.splice(..0, store.value.iter().copied());
            }
            _ => {}
        }
        item.cas = self.next_cas();
        self.items.insert(store.key.to_vec(), item);
        Reply::Stored
    }

    fn delete(&mut self, delete: &Delete<'_>) -> Reply {
        let Some(item) = self.items.get_mut(delete.key) else {
            return Reply::NotFound;
        };
        if delete.cas.is_some_and(|cas| cas != item.cas) {
            return Reply::Exists;
        }
        if delete.invalidate.is_some() {
            item.stale = true;
            item.won = false;
            item.cas = self.cas + 1;
            self.cas += 1;
        } else {
            self.items.remove(delete.key);
        }
        Reply::Deleted
    }

    fn arith(&mut self, arith: &Arith<'_>) -> Reply {
        let cas = self.next_cas();
        let number = match (self.items.get(arith.key), arith.initial) {
            (None, None) => return Reply::NotFound,
            (None, Some((initial, _))) => initial,
            (Some(item), _) => {
                let text = String::from_utf8_lossy(&item.value).into_owned();
                let Ok(number) = text.parse::<u64>() else {
                    return error(
                        ErrorKind::Client,
                        "cannot increment or decrement non-numeric value",
                    );
                };
                if arith.decrement {
                    number.saturating_sub(arith.delta)
                } else {
                    number.wrapping_add(arith.delta)
                }
            }
        };
        let item = self.items.entry(arith.key.to_vec()).or_default();
        item.value = number.to_string().into_bytes();
        item.cas = cas;
        Reply::Number(number)
    }
}

/// The server's side of one connection.
#[derive(Debug)]
pub struct Server {
    form: Form,
    model: Model,
}

impl Server {
    pub fn new(form: Form) -> Server {
        Server {
            form,
            model: Model::default(),
        }
    }

    /// Executes all requests of `bytes`, which must be whole; gives each one's reply.
    pub fn serve(&mut self, mut bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut replies = Vec::new();
        while !bytes.is_empty() {
            let at = bytes
                .windows(2)
                .position(|two| two == b"\r\n")
                .expect("whole lines");
            let (line, rest) = (&bytes[..at], &bytes[at + 2..]);
            bytes = rest;
            let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
            replies.push(match words[0] {
                b"mg" | b"ms" | b"md" | b"ma" | b"mn" => {
                    assert_eq!(self.form, Form::Meta);
                    self.meta(&words, &mut bytes)
                }
                _ => self.classic(&words, &mut bytes),
            });
        }
        replies
    }

    fn meta(&mut self, words: &[&[u8]], rest: &mut &[u8]) -> Vec<u8> {
        if words[0] == b"mn" {
            return b"MN\r\n".to_vec();
        }
        let flags = &words[if words[0] == b"ms" { 3 } else { 2 }..];
        let token = |letter: u8| {
            let flag = flags.iter().find(|flag| flag[0] == letter)?;
            Some(std::str::from_utf8(&flag[1..]).expect("ASCII"))
        };
        let signed = |letter| token(letter).map(|text| text.parse::<i64>().expect("a number"));
        let unsigned = |letter| token(letter).map(|text| text.parse::<u64>().expect("a number"));
        let key = match token(b'b') {
            Some(_) => STANDARD.decode(words[1]).expect("base64"),
            None => words[1].to_vec(),
        };
        let key = key.as_slice();
        let quiet = token(b'q').is_some();
        let request = match words[0] {
            b"mg" if token(b'v').is_none() => Request::Touch(Touch {
                key,
                exptime: signed(b'T').expect("touch has one"),
                quiet,
            }),
            b"mg" => Request::Get(Get {
                key,
                with_cas: token(b'c').is_some(),
                with_ttl: false,
                touch: signed(b'T'),
                vivify: signed(b'N'),
                recache_below: None,
                plain: false,
            }),
            b"ms" => Request::Store(Store {
                key,
                value: block(rest, words[2]).into(),
                mode: match token(b'M') {
                    Some("E") => StoreMode::Add,
                    Some("R") => StoreMode::Replace,
                    Some("A") => StoreMode::Append,
                    Some("P") => StoreMode::Prepend,
                    _ => StoreMode::Set,
                },
                flags: unsigned(b'F').expect("flags").try_into().expect("32 bits"),
                exptime: signed(b'T').expect("exptime"),
                cas: unsigned(b'C'),
                invalidate: false,
                quiet,
            }),
            b"md" => Request::Delete(Delete {
                key,
                cas: unsigned(b'C'),
                invalidate: token(b'I').and(signed(b'T')),
                quiet,
            }),
            _ => Request::Arith(Arith {
                key,
                delta: unsigned(b'D').expect("delta"),
                decrement: token(b'M') == Some("D"),
                initial: unsigned(b'J').zip(signed(b'N')),
                quiet,
            }),
        };
        let reply = self.model.execute(&request);
        encode_meta(&reply, words, flags)
    }

    fn classic(&mut self, words: &[&[u8]], rest: &mut &[u8]) -> Vec<u8> {
        let text = |at: usize| std::str::from_utf8(words[at]).expect("ASCII");
        let key = words.get(1).copied().unwrap_or_default();
        let verb = text(0);
        let request = match verb {
            "get" | "gets" | "gat" | "gats" => {
                let keys = &words[if verb.starts_with("gat") { 2 } else { 1 }..];
                return self.gets(keys, verb.ends_with('s'));
            }
            "touch" => Request::Touch(Touch {
                key,
                exptime: text(2).parse().expect("a number"),
                quiet: false,
            }),
            "delete" => Request::Delete(Delete::new(key)),
            "incr" | "decr" => Request::Arith(Arith {
                decrement: verb == "decr",
                ..Arith::new(key, text(2).parse().expect("a number"))
            }),
            "version" => Request::Version,
            "flush_all" => Request::Flush { delay_secs: 0 },
            _ => Request::Store(Store {
                key,
                value: Cow::Owned(block(rest, words[4])),
                mode: match verb {
                    "add" => StoreMode::Add,
                    "replace" => StoreMode::Replace,
                    "append" => StoreMode::Append,
                    "prepend" => StoreMode::Prepend,
                    "set" | "cas" => StoreMode::Set,
                    _ => panic!("no command: {verb}"),
                },
                flags: text(2).parse().expect("a number"),
                exptime: text(3).parse().expect("a number"),
                cas: (verb == "cas").then(|| text(5).parse().expect("a number")),
                invalidate: false,
                quiet: false,
            }),
        };
        let mut line = match self.model.execute(&request) {
            Reply::Stored => b"STORED".to_vec(),
            Reply::NotStored => b"NOT_STORED".to_vec(),
            Reply::Exists => b"EXISTS".to_vec(),
            Reply::NotFound => b"NOT_FOUND".to_vec(),
            Reply::Deleted => b"DELETED".to_vec(),
            Reply::Touched => b"TOUCHED".to_vec(),
            Reply::Flushed => b"OK".to_vec(),
            Reply::Number(number) => number.to_string().into_bytes(),
            Reply::Version(words) => [b"VERSION ".as_slice(), &words].concat(),
            Reply::Error(error) => error_line(&error),
            reply => panic!("{reply:?}"),
        };
        line.extend_from_slice(b"\r\n");
        line
    }

    fn gets(&mut self, keys: &[&[u8]], with_cas: bool) -> Vec<u8> {
        let mut out = Vec::new();
        for key in keys {
            let get = Get {
                with_cas,
                ..Get::new(key)
            };
            if let Reply::Value(value) = self.model.execute(&Request::Get(get)) {
                out.extend_from_slice(b"VALUE ");
                out.extend_from_slice(key);
                out.extend_from_slice(format!(" {} {}", value.flags, value.bytes.len()).as_bytes());
                if let Some(cas) = value.cas {
                    out.extend_from_slice(format!(" {cas}").as_bytes());
                }
                out.extend_from_slice(&[b"\r\n", value.bytes.as_slice(), b"\r\n"].concat());
            }
        }
        out.extend_from_slice(b"END\r\n");
        out
    }
}

fn block(rest: &mut &[u8], len: &[u8]) -> Vec<u8> {
    let len: usize = std::str::from_utf8(len)
        .expect("ASCII")
        .parse()
        .expect("a length");
    let value = rest[..len].to_vec();
    assert_eq!(&rest[len..len + 2], b"\r\n");
    *rest = &rest[len + 2..];
    value
}

fn error_line(error: &ServerError) -> Vec<u8> {
    let kind = match error.kind {
        ErrorKind::Unknown => "ERROR",
        ErrorKind::Client => "CLIENT_ERROR ",
        ErrorKind::Server => "SERVER_ERROR ",
    };
    format!("{kind}{}", error.words).into_bytes()
}

fn encode_meta(reply: &Reply, words: &[&[u8]], flags: &[&[u8]]) -> Vec<u8> {
    let asked = |letter: u8| flags.iter().find(|flag| flag[0] == letter);
    let mut value = None;
    let mut more = String::new();
    let mut line = match reply {
        Reply::Value(found) => {
            value = Some(found.bytes.clone());
            more += &format!(" f{}", found.flags);
            more += &found.cas.map(|cas| format!(" c{cas}")).unwrap_or_default();
            for (set, letter) in [
                (found.lease.won, " W"),
                (found.lease.stale, " X"),
                (found.lease.taken, " Z"),
            ] {
                more += if set { letter } else { "" };
            }
            format!("VA {}", found.bytes.len()).into_bytes()
        }
        Reply::Number(number) if asked(b'v').is_some() => {
            value = Some(number.to_string().into_bytes());
            format!("VA {}", number.to_string().len()).into_bytes()
        }
        Reply::Miss => b"EN".to_vec(),
        Reply::NotFound if words[0] == b"mg" => b"EN".to_vec(),
        Reply::NotFound => b"NF".to_vec(),
        Reply::NotStored => b"NS".to_vec(),
        Reply::Exists => b"EX".to_vec(),
        Reply::Error(error) => return [&error_line(error), b"\r\n".as_slice()].concat(),
        _ => b"HD".to_vec(),
    };
    if asked(b'q').is_some() && line == b"HD" {
        return Vec::new();
    }
    line.extend_from_slice(more.as_bytes());
    if asked(b'k').is_some() {
        line.extend_from_slice(&[b" k", words[1]].concat());
        line.extend_from_slice(if asked(b'b').is_some() {
            b" b".as_slice()
        } else {
            b""
        });
    }
    line.push(b' ');
    line.extend_from_slice(asked(b'O').expect("every request has an opaque"));
    line.extend_from_slice(b"\r\n");
    if let Some(value) = value {
        line.extend_from_slice(&[value.as_slice(), b"\r\n"].concat());
    }
    line
}
