//! Random requests, random cuts, random order, random damage: each ticket gets its own reply, once, or none.

mod bundles;
mod model;
mod rules;

use std::collections::{BTreeMap, BTreeSet};

use model::{Model, Server, TOO_LARGE};
use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop, prop_assert_eq, prop_oneof, proptest};
use scrubjay_client::protocol::conversation::{Bundled, Replies};
use scrubjay_client::protocol::{
    Arith, Broken, Conversation, Delete, Form, Get, Lease, Order, Refused, Reply, Request, Settings, Store,
    StoreMode, Ticket, Touch, Value,
};

/// Keys that no few spoilt bytes make one another; values begin with theirs. The last one needs base64.
const KEYS: [&str; 6] = [
    "aubergine-1783",
    "blackbird-4096",
    "chestnuts-2250",
    "dormouses-9911",
    "elderwood-6077",
    "fern\r\nwood 3141",
];

/// What a test does next.
#[derive(Clone, Debug)]
enum Step {
    Ask {
        verb: u8,
        key: usize,
        number: u8,
        quiet: bool,
    },
    /// Look-ups as one.
    AskMany {
        keys: Vec<usize>,
        with_cas: bool,
        plain: bool,
    },
    /// The output goes to the server.
    Send,
    /// So many bytes of replies arrive.
    Receive(usize),
    /// The reply to one of the latest requests is given up.
    Cancel(usize),
}

fn steps(classic: bool) -> impl Strategy<Value = Vec<Step>> {
    let keys = KEYS.len() - usize::from(classic);
    let ask =
        (0..14u8, 0..keys, any::<u8>(), prop::bool::weighted(0.3)).prop_map(|(verb, key, number, quiet)| {
            Step::Ask {
                verb,
                key,
                number,
                quiet,
            }
        });
    let ask_many = (vec(0..keys, 1..7), any::<bool>(), any::<bool>()).prop_map(|(keys, with_cas, plain)| {
        Step::AskMany {
            keys,
            with_cas,
            plain,
        }
    });
    let step = prop_oneof![
        8 => ask,
        2 => ask_many,
        1 => Just(Step::Send),
        2 => (1..200usize).prop_map(Step::Receive),
        1 => (0..8usize).prop_map(Step::Cancel),
    ];
    vec(step, 0..150)
}

/// One of the requests, with a value that says whose it is; now and then one that the server refuses.
fn request<'a>(settings: &Settings, verb: u8, key: &'a str, number: u8, quiet: bool) -> Request<'a> {
    let meta = settings.form == Form::Meta;
    let errors = settings.order == Order::Kept;
    let place = KEYS.iter().position(|known| *known == key).expect("one of them");
    // Lengths of different keys' values differ, as nothing else tells that a header has lost its value and got another one.
    let len = if errors && number > 250 {
        TOO_LARGE
    } else {
        KEYS.len() * usize::from(number % 4) + place
    };
    let value = [key.as_bytes(), &vec![b'\n'; len]].concat();
    let key = key.as_bytes();
    let cas = u64::from(number % 16);
    let store = |mode| Store {
        mode,
        quiet,
        flags: number.into(),
        ..Store::new(key, value.clone())
    };
    match verb {
        0..3 => Request::Get(Get::new(key)),
        3 => Request::Get(Get {
            with_cas: true,
            touch: (number > 100).then_some(60),
            ..Get::new(key)
        }),
        4 => Request::Get(Get {
            vivify: meta.then_some(30),
            ..Get::new(key)
        }),
        5 => Request::Touch(Touch {
            key,
            exptime: 30,
            quiet,
        }),
        6 => Request::Store(store(StoreMode::Set)),
        7 if number < 80 => Request::Store(Store {
            value: vec![b'\n'; 3 * KEYS.len()].into(),
            ..store(StoreMode::Append)
        }),
        7 if number < 160 => Request::Store(store(StoreMode::Add)),
        7 => Request::Store(store(StoreMode::Replace)),
        8 => Request::Store(Store {
            cas: Some(cas),
            ..store(StoreMode::Set)
        }),
        9 => Request::Delete(Delete {
            quiet,
            invalidate: (meta && number > 100).then_some(30),
            ..Delete::new(key)
        }),
        // A counter of its own, but where errors may come: there it may meet a value that is no number.
        10 => Request::Arith(Arith {
            key: if errors { key } else { b"counter" },
            decrement: number > 128,
            initial: meta.then_some((7, 0)),
            quiet,
            ..Arith::new(key, number.into())
        }),
        11 => Request::Noop,
        12 => Request::Version,
        _ if number > 200 => Request::Flush { delay_secs: 0 },
        _ => Request::Get(Get {
            with_cas: true,
            ..Get::new(key)
        }),
    }
}

/// A line of classic gets does not tell who refills.
fn without_lease(reply: Reply) -> Reply {
    match reply {
        Reply::Value(value) => Reply::Value(Value {
            lease: Lease::default(),
            ..value
        }),
        reply => reply,
    }
}

/// A conversation with a server at its other end.
struct Run {
    settings: Settings,
    conversation: Conversation,
    server: Server,
    /// The same requests executed as they were asked.
    oracle: Model,
    expected: BTreeMap<Ticket, Reply>,
    keys: BTreeMap<Ticket, String>,
    /// Of bundles: the keys, and what is expected.
    many: BTreeMap<Ticket, Vec<(String, Reply)>>,
    latest: Vec<Ticket>,
    given_up: BTreeSet<Ticket>,
    quiet_errors: u64,
    /// Replies the server still holds back, and bytes under way.
    held: Vec<Vec<u8>>,
    wire: Vec<u8>,
    chance: u64,
    replies: Replies,
}

impl Run {
    fn new(settings: Settings, chance: u64) -> Run {
        Run {
            settings,
            conversation: Conversation::new(settings),
            server: Server::new(settings.form),
            oracle: Model::default(),
            expected: BTreeMap::new(),
            keys: BTreeMap::new(),
            many: BTreeMap::new(),
            latest: Vec::new(),
            given_up: BTreeSet::new(),
            quiet_errors: 0,
            held: Vec::new(),
            wire: Vec::new(),
            chance,
            replies: Vec::new(),
        }
    }

    fn draw(&mut self, below: usize) -> usize {
        self.chance = self
            .chance
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.chance >> 33) as usize % below
    }

    fn ask(&mut self, request: &Request<'_>) {
        let ticket = match self.conversation.ask(request.clone()) {
            Ok(ticket) => ticket,
            Err(Refused::Full) => {
                self.send();
                return;
            }
            Err(Refused::Closing | Refused::EchoedKey) => return,
            Err(refused) => panic!("{request:?}: {refused}"),
        };
        let reply = self.oracle.execute(request);
        // The classic form has no other question for it.
        if request.is_quiet() {
            self.quiet_errors += u64::from(matches!(reply, Reply::Error(_)));
            return;
        }
        let key = request.key().unwrap_or_default();
        self.keys
            .insert(ticket, String::from_utf8_lossy(key).into_owned());
        self.expected.insert(ticket, reply);
        self.latest.push(ticket);
    }

    fn ask_many(&mut self, keys: &[usize], with_cas: bool, plain: bool) {
        let get = |key: usize| Get {
            with_cas,
            plain,
            ..Get::new(KEYS[key].as_bytes())
        };
        let Some(mut bundle) = self.conversation.bundle(&get(keys[0])) else {
            return self.ask(&Request::Get(get(keys[0])));
        };
        let fits = |key: &usize| self.conversation.add(&mut bundle, &get(*key));
        let keys: Vec<usize> = keys.iter().copied().filter(fits).collect();
        if keys.is_empty() {
            return self.send();
        }
        let ticket = match self.conversation.ask_bundle(bundle) {
            Ok(ticket) => ticket,
            Err(refused) => return assert_eq!(refused, Refused::Closing),
        };
        let expected = keys.into_iter().map(|key| {
            let reply = self.oracle.execute(&Request::Get(get(key)));
            (KEYS[key].to_owned(), without_lease(reply))
        });
        let expected = expected.collect();
        self.many.insert(ticket, expected);
        self.latest.push(ticket);
    }

    /// What came of bundles is right as far as it came. Gives whose it is.
    fn check_bundled(&mut self) -> Vec<Ticket> {
        let came = self.conversation.take_bundled();
        for Bundled { ticket, came, .. } in &came {
            let replies = came.clone().into_replies();
            let expected = &self.many[ticket];
            assert_eq!(expected.len(), replies.len());
            for ((key, expected), reply) in expected.iter().zip(replies) {
                let reply = reply.map(without_lease);
                assert!(reply.is_none_or(|reply| reply == *expected), "{key}");
            }
        }
        came.into_iter().map(|each| each.ticket).collect()
    }

    fn send(&mut self) {
        let output = self.conversation.take_output();
        let bytes: Vec<u8> = output.slices().flatten().copied().collect();
        let replies = self.server.serve(&bytes);
        if self.settings.order == Order::Kept {
            self.wire.extend(replies.concat());
            return;
        }
        self.held.extend(replies);
        self.let_go(self.held.len() / 2);
    }

    /// The server answers all but so many, in any order.
    fn let_go(&mut self, keep: usize) {
        while self.held.len() > keep {
            let at = self.draw(self.held.len());
            let reply = self.held.swap_remove(at);
            self.wire.extend(reply);
        }
    }

    fn receive(&mut self, len: usize) -> Result<(), Broken> {
        let bytes: Vec<u8> = self.wire.drain(..len.min(self.wire.len())).collect();
        self.conversation.feed(&bytes, &mut self.replies)
    }

    fn step(&mut self, step: &Step) -> Result<(), Broken> {
        match step {
            Step::Ask {
                verb,
                key,
                number,
                quiet,
            } => {
                self.ask(&request(&self.settings, *verb, KEYS[*key], *number, *quiet));
            }
            Step::AskMany {
                keys,
                with_cas,
                plain,
            } => self.ask_many(keys, *with_cas, *plain),
            Step::Send => self.send(),
            Step::Receive(len) => self.receive(*len)?,
            Step::Cancel(back) => {
                if let Some(ticket) = self.latest.iter().rev().nth(*back)
                    && self.conversation.cancel(*ticket)
                {
                    self.expected.remove(ticket);
                    self.given_up.insert(*ticket);
                }
            }
        }
        Ok(())
    }

    /// Lets everything arrive.
    fn finish(&mut self) -> Result<(), Broken> {
        self.ask(&Request::Noop);
        self.send();
        self.let_go(0);
        self.receive(usize::MAX)
    }
}

fn settings(form: Form, order: Order, first_ticket: u64) -> Settings {
    Settings {
        order,
        outstanding_max: 90,
        outstanding_bytes_max: 20_000,
        value_len_max: 5000,
        ..Settings::new(form, first_ticket)
    }
}

const WAYS: [(Form, Order); 3] = [
    (Form::Meta, Order::Kept),
    (Form::Meta, Order::Free),
    (Form::Classic, Order::Kept),
];

fn everybody_gets_their_own(way: usize, steps: &[Step], first: u64, chance: u64) {
    let (form, order) = WAYS[way];
    let mut run = Run::new(settings(form, order, first), chance);
    for step in steps {
        run.step(step).expect("a server without faults");
    }
    run.finish().expect("a server without faults");
    let got: BTreeMap<Ticket, Reply> = run
        .replies
        .iter()
        .map(|(ticket, reply)| (*ticket, reply.clone().expect("a server without faults")))
        .collect();
    assert_eq!(got.len(), run.replies.len(), "a ticket was answered twice");
    assert_eq!(got, run.expected);
    let bundled: BTreeMap<Ticket, bool> = (run.conversation.bundled().iter())
        .map(|each| {
            (
                each.ticket,
                each.came.clone().into_replies().iter().all(Option::is_some),
            )
        })
        .collect();
    let came = run.check_bundled();
    assert_eq!(came.len(), bundled.len(), "a bundle was answered twice");
    for ticket in run.many.keys() {
        let is_whole = bundled.get(ticket).copied();
        assert!(
            is_whole == Some(true) || run.given_up.contains(ticket),
            "{ticket:?}"
        );
    }
    assert_eq!(run.conversation.quiet_errors(), run.quiet_errors);
    assert!(!run.conversation.is_awaited());
    if run.conversation.broken().is_none() {
        assert_eq!(
            run.conversation.outstanding(),
            0,
            "the last request was a barrier"
        );
    }
}

/// Damage done to replies on their way.
#[derive(Clone, Debug)]
enum Damage {
    Flip(usize, u8),
    Insert(usize, Vec<u8>),
    Remove(usize, usize),
    Repeat(usize, usize),
    Swap(usize, usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = 0..4000usize;
    prop_oneof![
        (at.clone(), 1..=255u8).prop_map(|(at, bits)| Damage::Flip(at, bits)),
        (at.clone(), vec(any::<u8>(), 1..20)).prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
        (at.clone(), 1..200usize).prop_map(|(at, len)| Damage::Remove(at, len)),
        (at.clone(), 1..200usize).prop_map(|(at, len)| Damage::Repeat(at, len)),
        (at, 1..200usize).prop_map(|(at, len)| Damage::Swap(at, len)),
    ]
}

impl Damage {
    /// With `whole` only whole lines get lost, repeated or moved, and with a value's line the value.
    fn spoil(&self, wire: &mut Vec<u8>, whole: bool) {
        if wire.is_empty() {
            return;
        }
        let end = wire.len();
        let place = |at: usize| {
            let at = at.min(end);
            let begins = |line: &usize| {
                let is_value = KEYS.iter().any(|key| wire[*line..].starts_with(key.as_bytes()));
                wire[..*line].ends_with(b"\r\n") && !is_value
            };
            if whole {
                (0..=at).rev().find(begins).unwrap_or(0)
            } else {
                at
            }
        };
        let range = |at: usize, len: usize| place(at % end)..place(at % end + len);
        match self {
            Damage::Flip(at, bits) => wire[at % end] ^= bits,
            Damage::Insert(at, bytes) => {
                wire.splice(at % end..at % end, bytes.iter().copied());
            }
            Damage::Remove(at, len) => {
                wire.drain(range(*at, *len));
            }
            Damage::Repeat(at, len) => {
                let range = range(*at, *len);
                let again = wire[range.clone()].to_vec();
                wire.splice(range.start..range.start, again);
            }
            Damage::Swap(at, len) => {
                let moved: Vec<u8> = wire.drain(range(*at, *len)).collect();
                wire.extend(moved);
            }
        }
    }
}

/// A value given to a ticket must not be one of another key. In the classic form nothing tells a value's line that is patched
/// together out of two from a whole one: there, whole lines are lost, not parts of them.
fn nobody_gets_anothers(
    way: usize,
    plain: bool,
    steps: &[Step],
    damages: &[Damage],
    first: u64,
    chance: u64,
) {
    let (form, order) = WAYS[way];
    let classic = form == Form::Classic || plain;
    let mut steps = steps.to_vec();
    for step in &mut steps {
        if let Step::AskMany { plain: each, .. } = step {
            *each = plain;
        }
    }
    let mut run = Run::new(settings(form, order, first), chance);
    let mut broken = false;
    for step in &steps {
        broken = broken || run.step(step).is_err();
    }
    run.send();
    run.let_go(0);
    for damage in damages {
        damage.spoil(&mut run.wire, classic);
    }
    let shown = run.wire.escape_ascii().to_string();
    broken = broken || run.receive(usize::MAX).is_err();
    run.conversation.end(&mut run.replies);
    let mut answered = BTreeMap::new();
    for (ticket, reply) in &run.replies {
        assert!(
            answered.insert(*ticket, ()).is_none(),
            "{ticket:?} was answered twice"
        );
        let Some(own) = run.keys.get(ticket) else {
            assert!(
                run.many.contains_key(ticket) && reply.is_err(),
                "no reply without a ticket"
            );
            continue;
        };
        let Ok(Reply::Value(value)) = reply else {
            continue;
        };
        for other in KEYS.iter().filter(|key| *key != own) {
            assert!(
                !value.bytes.starts_with(other.as_bytes()),
                "{own} got the value of {other}: {value:?} out of {shown}"
            );
        }
    }
    check_spoilt_bundles(&mut run, &mut answered, &shown);
    let not_given_up = |ticket: &&Ticket| !run.given_up.contains(*ticket);
    assert!((run.many.keys().filter(not_given_up)).all(|ticket| answered.contains_key(ticket)));
    // Cancelled ones are not answered; all others are, if only to say that the connection has ended.
    assert!(run.expected.keys().all(|ticket| answered.contains_key(ticket)));
    assert!(run.conversation.feed(b"MN\r\n", &mut Vec::new()).is_err());
    assert!(broken || run.conversation.broken() == Some(&Broken::Ended));
}

/// As [`nobody_gets_anothers`] for what came of bundles.
fn check_spoilt_bundles(run: &mut Run, answered: &mut BTreeMap<Ticket, ()>, shown: &str) {
    for Bundled { ticket, came, .. } in run.conversation.take_bundled() {
        let whole_or_given_up = answered.insert(ticket, ()).is_none();
        assert!(whole_or_given_up, "{ticket:?} was answered twice");
        for ((own, _), reply) in run.many[&ticket].iter().zip(came.into_replies()) {
            let Some(Reply::Value(value)) = reply else {
                continue;
            };
            for other in KEYS.iter().filter(|key| *key != own) {
                assert!(
                    !value.bytes.starts_with(other.as_bytes()),
                    "{own} got the value of {other}: {value:?} out of {shown}"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_ticket_gets_its_own_reply_from_a_meta_server(steps in steps(false), first: u64, chance: u64) {
        everybody_gets_their_own(0, &steps, first, chance);
    }

    #[test]
    fn every_ticket_gets_its_own_reply_in_any_order(steps in steps(false), first: u64, chance: u64) {
        everybody_gets_their_own(1, &steps, first, chance);
    }

    #[test]
    fn every_ticket_gets_its_own_reply_from_a_classic_server(steps in steps(true), first: u64, chance: u64) {
        everybody_gets_their_own(2, &steps, first, chance);
    }

    #[test]
    fn no_ticket_gets_a_value_of_another_key_whatever_is_spoilt(
        way in 0..3usize, plain: bool, steps in steps(true), damages in vec(damage(), 1..5), first: u64, chance: u64,
    ) {
        nobody_gets_anothers(way, plain, &steps, &damages, first, chance);
    }

    #[test]
    fn any_bytes_are_taken_or_break_the_conversation_and_cuts_do_not_matter(
        way in 0..3usize,
        pieces in vec(prop_oneof![
            vec(any::<u8>(), 0..30),
            prop::sample::select(&[
                "\r\n", " ", "HD O1\r\n", "VA 3 O0 kaubergine-1783\r\nabc\r\n", "VA 99999999999 O0 kaubergine-1783\r\n",
                "EN O0\r\n", "MN\r\n", "VALUE aubergine-1783 0 3\r\nabc\r\n", "END\r\n", "STORED\r\n", "OK\r\n",
                "CLIENT_ERROR x\r\n", "ERROR\r\n", "VERSION 1\r\n", "VALUE ", "O0 ", "k", "1", "VERSION",
            ][..]).prop_map(|text| text.as_bytes().to_vec()),
        ], 0..12),
        cut in 1..50usize,
    ) {
        let feed = |chunk: usize| {
            let (form, order) = WAYS[way];
            let mut run = Run::new(settings(form, order, 0), 1);
            for (verb, key) in [(0, 0), (6, 0), (11, 0), (12, 0), (3, 1), (5, 1)] {
                run.ask(&request(&run.settings, verb, KEYS[key], 0, false));
            }
            run.conversation.take_output();
            let bytes = pieces.concat();
            let mut result = Ok(());
            for chunk in bytes.chunks(chunk) {
                result = result.and_then(|()| run.conversation.feed(chunk, &mut run.replies));
            }
            (result, run.replies)
        };
        prop_assert_eq!(feed(cut), feed(usize::MAX));
    }
}
