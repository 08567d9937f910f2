//! The client's conversations over real sockets, with scrubjay and with Debian's memcached at the other end.

use std::collections::BTreeMap;
use std::io::{IoSlice, Read, Write};
use std::net::TcpStream;

use scrubjay_client::protocol::conversation::Replies;
use scrubjay_client::protocol::probe::Found;
use scrubjay_client::protocol::{
    Arith, Conversation, Delete, Form, Get, Lease, Order, Probe, Refused, Reply, Request, Settings, Store,
    StoreMode, Ticket, Touch, Value,
};

use crate::kit::Server;

/// A conversation and its socket.
struct Line {
    stream: TcpStream,
    conversation: Conversation,
    replies: Replies,
}

impl Line {
    fn new(server: &Server, form: Form, order: Order) -> Line {
        let stream = server.connect();
        stream.set_nodelay(true).expect("settable");
        let settings = Settings {
            order,
            value_len_max: 4 << 20,
            ..Settings::new(form, 0xfeed_0000_1234_5678)
        };
        Line {
            stream,
            conversation: Conversation::new(settings),
            replies: Vec::new(),
        }
    }

    fn ask(&mut self, request: Request<'_>) -> Ticket {
        self.conversation.ask(request).expect("it can be asked")
    }

    /// Sends what is queued; gives the bytes that the first write took.
    fn send(&mut self) -> usize {
        let mut output = self.conversation.take_output();
        let mut first = None;
        while !output.is_empty() {
            let slices: Vec<IoSlice<'_>> = output.slices().map(IoSlice::new).collect();
            let written = self.stream.write_vectored(&slices).expect("writable");
            first.get_or_insert(written);
            output.advance(written);
        }
        first.unwrap_or_default()
    }

    /// Sends, and receives until nothing is awaited any more.
    fn settle(&mut self) -> BTreeMap<Ticket, Reply> {
        self.send();
        let mut buffer = [0; 1000];
        while self.conversation.is_awaited() {
            let len = self.stream.read(&mut buffer).expect("readable");
            assert_ne!(len, 0, "the server ended the connection");
            self.conversation
                .feed(&buffer[..len], &mut self.replies)
                .expect("a server without faults");
        }
        self.replies
            .drain(..)
            .map(|(ticket, reply)| (ticket, reply.expect("a server without faults")))
            .collect()
    }

    fn ask_alone(&mut self, request: Request<'_>) -> Reply {
        let ticket = self.ask(request);
        self.settle().remove(&ticket).expect("a reply")
    }
}

fn servers() -> [Server; 2] {
    [Server::start("-m 64"), Server::start_memcached("-m 64")]
}

const WAYS: [(Form, Order); 3] = [
    (Form::Meta, Order::Kept),
    (Form::Meta, Order::Free),
    (Form::Classic, Order::Kept),
];

fn value(bytes: &[u8], flags: u32) -> Reply {
    Reply::Value(Value {
        bytes: bytes.to_vec(),
        flags,
        ..Value::default()
    })
}

#[test]
fn a_probe_tells_that_both_servers_speak_meta() {
    for server in servers() {
        let mut stream = server.connect();
        let mut probe = Probe::default();
        stream.write_all(probe.request()).expect("writable");
        let mut buffer = [0; 100];
        let found = loop {
            let len = stream.read(&mut buffer).expect("readable");
            if let Some(found) = probe.feed(&buffer[..len]).expect("an answer") {
                break found;
            }
        };
        assert_eq!(found, Found::Form(Form::Meta));
    }
}

#[test]
fn every_request_has_its_reply_in_every_form() {
    for server in servers() {
        for (form, order) in WAYS {
            let mut line = Line::new(&server, form, order);
            changes_are_answered(&mut line);
            comparisons_are_answered(&mut line);
        }
    }
}

fn changes_are_answered(line: &mut Line) {
    let mut check = |request: Request<'_>, reply: Reply| {
        assert_eq!(line.ask_alone(request.clone()), reply, "{request:?}");
    };
    let store = |mode, bytes: &'static [u8]| {
        Request::Store(Store {
            mode,
            flags: 7,
            ..Store::new(b"k", bytes)
        })
    };
    let get = || Request::Get(Get::new(b"k"));
    let touch = || {
        Request::Touch(Touch {
            key: b"k",
            exptime: 60,
            quiet: false,
        })
    };
    let arith = |decrement, delta| {
        Request::Arith(Arith {
            decrement,
            ..Arith::new(b"k", delta)
        })
    };
    check(Request::Flush { delay_secs: 0 }, Reply::Flushed);
    check(get(), Reply::Miss);
    check(touch(), Reply::NotFound);
    check(arith(false, 1), Reply::NotFound);
    check(Request::Delete(Delete::new(b"k")), Reply::NotFound);
    check(store(StoreMode::Replace, b"x"), Reply::NotStored);
    check(store(StoreMode::Append, b"x"), Reply::NotStored);
    check(store(StoreMode::Add, b"10"), Reply::Stored);
    check(store(StoreMode::Add, b"x"), Reply::NotStored);
    check(get(), value(b"10", 7));
    check(
        Request::Get(Get {
            touch: Some(90),
            ..Get::new(b"k")
        }),
        value(b"10", 7),
    );
    check(touch(), Reply::Touched);
    check(arith(false, 5), Reply::Number(15));
    check(arith(true, 20), Reply::Number(0));
    check(store(StoreMode::Set, b"b"), Reply::Stored);
    check(store(StoreMode::Prepend, b"a"), Reply::Stored);
    check(store(StoreMode::Append, b"\r\nEND\r\n"), Reply::Stored);
    check(get(), value(b"ab\r\nEND\r\n", 7));
    check(Request::Noop, Reply::Alive);
    check(Request::Delete(Delete::new(b"k")), Reply::Deleted);
}

fn comparisons_are_answered(line: &mut Line) {
    let compared = |cas| {
        Request::Store(Store {
            cas: Some(cas),
            ..Store::new(b"k", b"v".as_slice())
        })
    };
    assert_eq!(line.ask_alone(compared(1)), Reply::NotFound);
    let plain = Request::Store(Store::new(b"k", b"v".as_slice()));
    assert_eq!(line.ask_alone(plain), Reply::Stored);
    assert_eq!(line.ask_alone(compared(u64::MAX)), Reply::Exists);
    let with_cas = Request::Get(Get {
        with_cas: true,
        ..Get::new(b"k")
    });
    let Reply::Value(Value { cas: Some(cas), .. }) = line.ask_alone(with_cas) else {
        panic!("a value with a CAS number");
    };
    assert_eq!(line.ask_alone(compared(cas)), Reply::Stored);
    assert!(
        matches!(
            line.ask_alone(Request::Arith(Arith::new(b"k", 1))),
            Reply::Error(_)
        ),
        "no number"
    );
    assert!(matches!(line.ask_alone(Request::Version), Reply::Version(_)));
}

#[test]
fn leases_counters_and_binary_keys_work_with_meta() {
    for server in servers() {
        let mut line = Line::new(&server, Form::Meta, Order::Kept);
        let key = b"control\t\r\0";
        let lease = |line: &mut Line| {
            let get = Get {
                vivify: Some(30),
                recache_below: Some(5),
                ..Get::new(key)
            };
            match line.ask_alone(Request::Get(get)) {
                Reply::Value(value) => (value.bytes, value.lease),
                reply => panic!("{reply:?}"),
            }
        };
        let won = Lease {
            won: true,
            ..Lease::default()
        };
        let taken = Lease {
            taken: true,
            ..Lease::default()
        };
        assert_eq!(lease(&mut line), (Vec::new(), won));
        assert_eq!(lease(&mut line), (Vec::new(), taken));
        let refilled = Store {
            exptime: 100,
            ..Store::new(key, b"full".as_slice())
        };
        assert_eq!(line.ask_alone(Request::Store(refilled)), Reply::Stored);
        assert_eq!(lease(&mut line), (b"full".to_vec(), Lease::default()));
        let invalid = Delete {
            invalidate: Some(30),
            ..Delete::new(key)
        };
        assert_eq!(line.ask_alone(Request::Delete(invalid)), Reply::Deleted);
        assert_eq!(lease(&mut line), (b"full".to_vec(), Lease { stale: true, ..won }));
        assert_eq!(
            lease(&mut line),
            (b"full".to_vec(), Lease { stale: true, ..taken })
        );
        let words = b"two words\r\n";
        let stored = line.ask_alone(Request::Store(Store::new(words, b"v".as_slice())));
        assert_eq!(stored, Reply::Stored);
        assert_eq!(line.ask_alone(Request::Get(Get::new(words))), value(b"v", 0));
        let counter = Arith {
            initial: Some((5, 60)),
            ..Arith::new(b"a b", 3)
        };
        assert_eq!(line.ask_alone(Request::Arith(counter)), Reply::Number(5));
        assert_eq!(line.ask_alone(Request::Arith(counter)), Reply::Number(8));
    }
}

#[test]
fn pipelined_requests_cancelled_and_quiet_ones_between_get_their_own() {
    for server in servers() {
        for (form, order) in WAYS {
            let mut line = Line::new(&server, form, order);
            let keys: Vec<String> = (0..200).map(|number| format!("key-{number}")).collect();
            for key in &keys {
                let store = Store {
                    quiet: true,
                    ..Store::new(key.as_bytes(), key.as_bytes())
                };
                line.ask(Request::Store(store));
            }
            // Where the order may be any, an error among other requests is nobody's for certain.
            let errors = u64::from(order == Order::Kept);
            for _ in 0..errors {
                let too_large = Store {
                    quiet: true,
                    ..Store::new(b"large", vec![0; 2 << 20])
                };
                line.ask(Request::Store(too_large));
            }
            line.ask(Request::Noop);
            line.settle();
            assert_eq!(line.conversation.quiet_errors(), errors, "{form:?} {order:?}");
            let mut expected = BTreeMap::new();
            for (number, key) in keys.iter().enumerate() {
                let ticket = line.ask(Request::Get(Get::new(key.as_bytes())));
                if number % 7 == 3 {
                    line.send();
                    assert!(line.conversation.cancel(ticket));
                } else {
                    expected.insert(ticket, value(key.as_bytes(), 0));
                }
                if number % 10 == 0 {
                    let delete = Delete {
                        quiet: true,
                        ..Delete::new(b"nothing")
                    };
                    line.ask(Request::Delete(delete));
                }
            }
            expected.insert(line.ask(Request::Noop), Reply::Alive);
            assert_eq!(line.settle(), expected, "{form:?} {order:?}");
            assert_eq!(line.conversation.outstanding(), 0);
        }
    }
}

#[test]
fn a_request_leaves_with_one_write() {
    let server = Server::start("");
    let mut line = Line::new(&server, Form::Meta, Order::Kept);
    for len in [0, 100, 10_000, 50_000] {
        let ticket = line.ask(Request::Store(Store::new(b"k", vec![b'v'; len])));
        assert!(line.send() > len, "header, value and line end");
        assert_eq!(line.settle(), BTreeMap::from([(ticket, Reply::Stored)]));
    }
    let too_long = line
        .conversation
        .ask(Request::Store(Store::new(b"k", vec![0; 5 << 20])));
    assert!(matches!(too_long, Err(Refused::ValueLen { .. })));
}
