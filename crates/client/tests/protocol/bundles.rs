//! Look-ups that are asked and answered as one: what is sent, what each gets, and what breaks the conversation.

use scrubjay_client::protocol::conversation::{Bundled, Replies};
use scrubjay_client::protocol::reply::ErrorKind;
use scrubjay_client::protocol::{
    Broken, Conversation, Form, Get, Order, Reply, Request, ServerError, Settings, Ticket, Value,
};

/// What the look-ups of a test are wanted as, in which form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    form: Form,
    plain: bool,
}

const LINE: Kind = Kind {
    form: Form::Meta,
    plain: true,
};
const EACH: Kind = Kind {
    form: Form::Meta,
    plain: false,
};
const CLASSIC: Kind = Kind {
    form: Form::Classic,
    plain: false,
};

/// Asks for these as a bundle.
fn ask(conversation: &mut Conversation, keys: &[&str], plain: bool) -> Ticket {
    let get = |key| Get {
        plain,
        ..Get::new(key)
    };
    let mut bundle = conversation.bundle(&get(keys[0].as_bytes())).expect("one");
    for key in keys {
        assert!(conversation.add(&mut bundle, &get(key.as_bytes())), "{key}");
    }
    conversation.ask_bundle(bundle).expect("room")
}

/// A conversation that has asked for `a`, `b` and `c` with number 5, and then for `d` with number 6, and all is sent.
fn asked(kind: Kind) -> Conversation {
    let mut conversation = Conversation::new(Settings {
        value_len_max: 1000,
        ..Settings::new(kind.form, 5)
    });
    ask(&mut conversation, &["a", "b", "c"], kind.plain);
    conversation.ask(Request::Get(Get::new(b"d"))).expect("room");
    conversation.take_output();
    conversation
}

fn value(bytes: &str) -> Option<Reply> {
    Some(Reply::Value(Value {
        bytes: bytes.as_bytes().to_vec(),
        flags: 7,
        ..Value::default()
    }))
}

fn failed(kind: ErrorKind, words: &str) -> Option<Reply> {
    Some(Reply::Error(ServerError {
        kind,
        words: words.to_owned(),
    }))
}

/// What came, as replies.
fn replies_of(bundled: &Bundled) -> Vec<Option<Reply>> {
    bundled.came.clone().into_replies()
}

/// What the bundle and the look-up after it got, in how many portions ever the bytes came.
fn check(kind: Kind, bytes: &str, expected: [Option<Reply>; 3]) {
    for cut in 0..=bytes.len() {
        let mut conversation = asked(kind);
        let mut replies = Replies::new();
        let (first, second) = bytes.as_bytes().split_at(cut);
        for part in [first, second] {
            let fed = conversation.feed(part, &mut replies);
            fed.unwrap_or_else(|broken| panic!("{bytes:?} cut at {cut}: {broken}"));
        }
        let bundled = conversation.take_bundled();
        assert_eq!(bundled.len(), 1, "{bytes:?} cut at {cut}");
        assert_eq!(replies_of(&bundled[0]), expected, "{bytes:?} cut at {cut}");
        assert_eq!(bundled[0].broken, None);
        assert_eq!(conversation.outstanding(), 1, "d");
        let last = match kind.form {
            Form::Meta => "EN O6\r\n",
            Form::Classic => "END\r\n",
        };
        conversation.feed(last.as_bytes(), &mut replies).expect("its own");
        assert!(matches!(replies[..], [(_, Ok(Reply::Miss))]), "{replies:?}");
        assert_eq!(conversation.outstanding(), 0);
    }
}

/// These bytes break the conversation, and with so many replies of the bundle.
fn check_broken(kind: Kind, bytes: &str, arrived: usize, is_it: fn(&Broken) -> bool) {
    let mut conversation = asked(kind);
    let mut replies = Replies::new();
    let broken = conversation
        .feed(bytes.as_bytes(), &mut replies)
        .expect_err(bytes);
    assert!(is_it(&broken), "{bytes:?}: {broken:?}");
    let bundled = conversation.take_bundled();
    let found: usize = bundled
        .iter()
        .map(|each| replies_of(each).iter().flatten().count())
        .sum();
    assert_eq!(found, arrived, "{bytes:?}");
    for each in &bundled {
        assert!(
            each.broken.is_some() || replies_of(each).iter().all(Option::is_some),
            "{bytes:?}"
        );
    }
    assert_eq!(replies.len() + bundled.len(), 2, "{bytes:?}: each ticket once");
    assert_eq!(conversation.outstanding(), 0);
}

#[test]
fn a_bundle_is_few_bytes_and_ends_with_its_number() {
    let sent = |kind: Kind| {
        let mut conversation = Conversation::new(Settings::new(kind.form, 5));
        ask(&mut conversation, &["a", "b", "c"], kind.plain);
        let output = conversation.take_output();
        let bytes: Vec<u8> = output.slices().flatten().copied().collect();
        String::from_utf8(bytes).expect("ASCII")
    };
    assert_eq!(sent(LINE), "get a b\r\nmg c v f k O5\r\n");
    assert_eq!(sent(EACH), "mg a v f k O5\r\nmg b v f k O5\r\nmg c v f k O5\r\n");
    assert_eq!(sent(CLASSIC), "get a b c\r\n");
}

#[test]
fn what_a_bundle_cannot_tell_is_asked_by_itself() {
    let conversation = Conversation::new(Settings::new(Form::Meta, 5));
    let plain = Get {
        plain: true,
        ..Get::new(b"a")
    };
    let mut bundle = conversation.bundle(&plain).expect("one");
    assert!(conversation.add(&mut bundle, &plain));
    for (get, why) in [
        (plain, "the same key again"),
        (Get { key: b"b c", ..plain }, "a blank in the key"),
        (Get { key: b"", ..plain }, "no key"),
        (
            Get {
                key: &[b'k'; 251],
                ..plain
            },
            "a long key",
        ),
        (Get::new(b"b"), "leases are of interest"),
        (
            Get {
                key: b"b",
                with_cas: true,
                ..plain
            },
            "another kind of line",
        ),
        (
            Get {
                key: b"b",
                touch: Some(1),
                ..plain
            },
            "a new exptime",
        ),
        (
            Get {
                key: b"b",
                vivify: Some(1),
                ..plain
            },
            "a lease",
        ),
        (
            Get {
                key: b"b",
                with_ttl: true,
                ..plain
            },
            "more than a line tells",
        ),
        (
            Get {
                key: b"b",
                recache_below: Some(1),
                ..plain
            },
            "an early refill",
        ),
    ] {
        assert!(!conversation.add(&mut bundle, &get), "{why}");
    }
    assert_eq!(bundle.only().map(|get| get.key), Some(b"a".as_slice()));
    let free = Conversation::new(Settings {
        order: Order::Free,
        ..Settings::new(Form::Meta, 5)
    });
    assert!(free.bundle(&plain).is_none(), "errors name no request");
}

#[test]
fn a_bundle_is_bounded_and_counts_for_all_its_look_ups() {
    let mut conversation = Conversation::new(Settings {
        outstanding_max: 200,
        ..Settings::new(Form::Meta, 5)
    });
    let keys: Vec<String> = (0..1000).map(|number| format!("key:{number}")).collect();
    let mut left = keys.as_slice();
    let mut counts = Vec::new();
    while let Some(first) = left.first() {
        let get = Get::new(first.as_bytes());
        let mut bundle = conversation.bundle(&get).expect("one");
        let fits = |key: &&String| conversation.add(&mut bundle, &Get::new(key.as_bytes()));
        let count = left.iter().take_while(fits).count();
        if count == 0 {
            break;
        }
        left = &left[count..];
        counts.push(count);
        conversation.ask_bundle(bundle).expect("room");
    }
    assert_eq!(counts, [128, 72]);
    assert_eq!(conversation.outstanding(), 200);
    let long: Vec<String> = (0..20).map(|number| format!("{number:0200}")).collect();
    let wide = Conversation::new(Settings::new(Form::Classic, 5));
    let mut bundle = wide.bundle(&Get::new(long[0].as_bytes())).expect("one");
    let fits = |key: &&String| wide.add(&mut bundle, &Get::new(key.as_bytes()));
    assert_eq!(long.iter().take_while(fits).count(), 9, "of 200 bytes each");
}

#[test]
fn each_key_gets_its_own_reply_however_the_bytes_are_cut() {
    let miss = || Some(Reply::Miss);
    check(
        LINE,
        "VALUE a 7 1\r\nx\r\nVALUE b 7 2\r\n\r\n\r\nEND\r\nVA 1 f7 kc O5\r\nz\r\n",
        [value("x"), value("\r\n"), value("z")],
    );
    check(
        LINE,
        "VALUE b 7 1\r\ny\r\nEND\r\nEN O5\r\n",
        [miss(), value("y"), miss()],
    );
    check(
        LINE,
        "END\r\nVA 1 f7 kc O5\r\nz\r\n",
        [miss(), miss(), value("z")],
    );
    // Something between client and server may not keep the order of a line's values: their keys tell.
    check(
        LINE,
        "VALUE b 7 1\r\ny\r\nVALUE a 7 1\r\nx\r\nEND\r\nEN O5\r\n",
        [value("x"), value("y"), miss()],
    );
    check(
        EACH,
        "EN O5\r\nVA 1 f7 kb O5\r\ny\r\nEN O5\r\n",
        [miss(), value("y"), miss()],
    );
    check(
        CLASSIC,
        "VALUE a 7 1\r\nx\r\nVALUE c 7 1\r\nz\r\nEND\r\n",
        [value("x"), miss(), value("z")],
    );
}

#[test]
fn a_number_is_read_whatever_its_length_and_one_that_does_not_fit_is_none() {
    let with_cas = |cas: &str| {
        let mut conversation = Conversation::new(Settings::new(Form::Meta, 5));
        let get = |key| Get {
            with_cas: true,
            ..Get::new(key)
        };
        let mut bundle = conversation.bundle(&get(b"a")).expect("one");
        assert!(conversation.add(&mut bundle, &get(b"a")) && conversation.add(&mut bundle, &get(b"b")));
        conversation.ask_bundle(bundle).expect("room");
        conversation.take_output();
        let bytes = format!("VA 1 f0 ka c{cas} O5\r\nx\r\nEN O5\r\n");
        conversation
            .feed(bytes.as_bytes(), &mut Replies::new())
            .map(|()| match &replies_of(&conversation.take_bundled()[0])[0] {
                Some(Reply::Value(value)) => value.cas,
                other => panic!("{cas}: {other:?}"),
            })
    };
    for len in 1..=20 {
        let text = &u64::MAX.to_string()[..len];
        assert_eq!(with_cas(text), Ok(text.parse().ok()), "{text}");
    }
    for text in ["18446744073709551616", "99999999999999999999", "1x", ""] {
        assert!(matches!(with_cas(text), Err(Broken::Unreadable(_))), "{text}");
    }
}

#[test]
fn an_error_is_that_of_the_keys_that_have_no_value() {
    let full = || failed(ErrorKind::Server, "out of memory");
    check(
        LINE,
        "VALUE a 7 1\r\nx\r\nSERVER_ERROR out of memory\r\nVA 1 f7 kc O5\r\nz\r\n",
        [value("x"), full(), value("z")],
    );
    check(
        LINE,
        "END\r\nSERVER_ERROR out of memory\r\n",
        [Some(Reply::Miss), Some(Reply::Miss), full()],
    );
    check(
        EACH,
        "VA 1 f7 ka O5\r\nx\r\nSERVER_ERROR out of memory\r\nEN O5\r\n",
        [value("x"), full(), Some(Reply::Miss)],
    );
    check(
        CLASSIC,
        "VALUE b 7 1\r\ny\r\nSERVER_ERROR out of memory\r\n",
        [full(), value("y"), full()],
    );
}

#[test]
fn whatever_is_no_reply_to_the_bundle_breaks_the_conversation() {
    for kind in [LINE, CLASSIC] {
        check_broken(kind, "VALUE e 7 1\r\n", 0, |broken| {
            matches!(broken, Broken::OtherKey(_))
        });
        check_broken(kind, "VALUE d 7 1\r\n", 0, |broken| {
            matches!(broken, Broken::OtherKey(_))
        });
        check_broken(kind, "VALUE a 7 1\r\nx\r\nVALUE a 7 1\r\n", 1, |broken| {
            matches!(broken, Broken::OtherKey(_))
        });
        check_broken(kind, "VALUE a 7 1\r\nx\r\nSTORED\r\n", 1, |broken| {
            matches!(broken, Broken::Unfit(_))
        });
        check_broken(kind, "VALUE a 7 1001\r\n", 0, |broken| {
            matches!(broken, Broken::ValueTooLong { .. })
        });
        check_broken(kind, "VALUE a 7 1\r\nxx\r\n", 0, |broken| {
            matches!(broken, Broken::ValueEnd)
        });
    }
    // The last key is none of the line's, and its reply bears the number.
    check_broken(LINE, "VALUE c 7 1\r\n", 0, |broken| {
        matches!(broken, Broken::OtherKey(_))
    });
    check_broken(LINE, "END\r\nEND\r\n", 2, |broken| {
        matches!(broken, Broken::Unfit(_))
    });
    check_broken(LINE, "EN O5\r\n", 0, |broken| {
        matches!(broken, Broken::OutOfOrder(_))
    });
    check_broken(LINE, "END\r\nEN O6\r\n", 2, |broken| {
        matches!(broken, Broken::Unasked(_))
    });
    check_broken(LINE, "END\r\nEN\r\n", 2, |broken| {
        matches!(broken, Broken::Unasked(_))
    });
    check_broken(LINE, "END\r\nVA 1 f7 ka O5\r\n", 2, |broken| {
        matches!(broken, Broken::OtherKey(_))
    });
    check_broken(LINE, "END\r\nVA 1 f7 O5\r\n", 2, |broken| {
        matches!(broken, Broken::OtherKey(_))
    });
    check_broken(LINE, "END\r\nHD O5\r\n", 2, |broken| {
        matches!(broken, Broken::Unfit(_))
    });
    check_broken(LINE, "END\r\nEN O5\r\nEN O5\r\n", 3, |broken| {
        matches!(broken, Broken::Unasked(_))
    });
    check_broken(EACH, "EN O6\r\n", 0, |broken| {
        matches!(broken, Broken::Unasked(_))
    });
    check_broken(EACH, "EN O5\r\nVA 1 f7 ka O5\r\n", 1, |broken| {
        matches!(broken, Broken::OtherKey(_))
    });
    check_broken(EACH, "END\r\n", 0, |broken| matches!(broken, Broken::Unfit(_)));
    check_broken(EACH, "EN O5\r\nEN O5\r\nEN O5\r\nEN O5\r\n", 3, |broken| {
        matches!(broken, Broken::Unasked(_))
    });
}

#[test]
fn what_has_come_before_the_connection_is_cut_is_kept() {
    for (kind, bytes) in [
        (LINE, "VALUE b 7 1\r\ny\r\n"),
        (LINE, "VALUE b 7 1\r\ny\r\nVALUE a 7 1\r\n"),
        (EACH, "EN O5\r\nVA 1 f7 kb O5\r\ny\r\nVA 1 f7 kc"),
        (CLASSIC, "VALUE b 7 1\r\ny\r\nEN"),
    ] {
        let mut conversation = asked(kind);
        let mut replies = Replies::new();
        conversation.feed(bytes.as_bytes(), &mut replies).expect(bytes);
        conversation.end(&mut replies);
        let bundled = conversation.take_bundled();
        assert_eq!(bundled.len(), 1, "{bytes}");
        assert_eq!(replies_of(&bundled[0])[1], value("y"), "{bytes}");
        assert_eq!(bundled[0].broken, Some(Broken::Ended), "{bytes}");
        assert_eq!(replies.len(), 1, "{bytes}: that of d");
    }
    // If nothing has come it is as for any other request, so that it can be asked again.
    let mut conversation = asked(LINE);
    let mut replies = Replies::new();
    conversation.end(&mut replies);
    assert_eq!(replies.len(), 2);
    assert_eq!(conversation.take_bundled(), []);
}

#[test]
fn a_bundle_given_up_tells_what_has_come_and_the_rest_is_dropped() {
    let bytes = "VALUE a 7 1\r\nx\r\nVALUE b 7 1\r\ny\r\nEND\r\nVA 1 f7 kc O5\r\nz\r\n";
    for cut in 0..bytes.len() {
        let mut conversation = asked(LINE);
        let mut replies = Replies::new();
        let (first, second) = bytes.as_bytes().split_at(cut);
        conversation.feed(first, &mut replies).expect("the first part");
        let ticket = ask(&mut conversation, &["e", "f"], true);
        assert!(conversation.cancel(ticket), "nothing of it can have come");
        assert_eq!(conversation.take_bundled(), []);
        let first = conversation.cancel(first_ticket());
        assert!(first, "it is not whole");
        let found = bytes[..cut].matches("x\r\n").count() + bytes[..cut].matches("y\r\n").count();
        match conversation.take_bundled().as_slice() {
            [] => assert_eq!(found, 0, "cut at {cut}"),
            [bundled @ Bundled { broken: None, .. }] => {
                let replies = replies_of(bundled);
                let ended = bytes[..cut].contains("END\r\n");
                assert_eq!(replies[0], value("x"), "cut at {cut}");
                assert_eq!(replies.iter().flatten().count(), found, "cut at {cut}");
                assert!(!ended || found == 2);
            }
            other => panic!("cut at {cut}: {other:?}"),
        }
        conversation.take_output();
        conversation.feed(second, &mut replies).expect("the rest");
        conversation
            .feed(b"EN O6\r\nEND\r\nEN O7\r\n", &mut replies)
            .expect("those after it");
        assert_eq!(replies.len(), 1, "cut at {cut}: that of d");
        assert_eq!(conversation.take_bundled(), []);
        assert_eq!(conversation.outstanding(), 0);
        assert!(!conversation.wants_closing());
    }
}

/// The ticket with number 5.
fn first_ticket() -> Ticket {
    let mut conversation = Conversation::new(Settings::new(Form::Meta, 5));
    conversation.ask(Request::Noop).expect("room")
}

#[test]
fn a_run_of_values_gives_each_its_own_wherever_it_is_cut() {
    let long = "k".repeat(60);
    let keys = ["a", "bb", "c:1", long.as_str(), "e:5", "ff", "g:7", "h:8"];
    // As long as the one before, with other flags, too long for the memory of all, missing, and as long as one further ahead.
    let values = [
        Some((100, 0)),
        Some((100, 0)),
        Some((100, 7)),
        Some((2000, 0)),
        Some((5, 0)),
        None,
        Some((5, 0)),
        Some((100, 0)),
    ];
    let (mut bytes, mut expected) = (Vec::new(), Vec::new());
    for (at, (key, value)) in keys.iter().zip(values).enumerate() {
        let Some((len, flags)) = value else {
            bytes.extend_from_slice(b"EN O5\r\n");
            expected.push(Some(Reply::Miss));
            continue;
        };
        let block = vec![b'0' + at as u8; len];
        bytes.extend_from_slice(format!("VA {len} f{flags} k{key} O5\r\n").as_bytes());
        bytes.extend_from_slice(&[&block[..], b"\r\n"].concat());
        expected.push(Some(Reply::Value(Value {
            bytes: block,
            flags,
            ..Value::default()
        })));
    }
    for cut in 0..=bytes.len() {
        let mut conversation = Conversation::new(Settings::new(Form::Meta, 5));
        ask(&mut conversation, &keys, false);
        conversation.take_output();
        let (first, second) = bytes.split_at(cut);
        for part in [first, second] {
            let fed = conversation.feed(part, &mut Replies::new());
            fed.unwrap_or_else(|broken| panic!("cut at {cut}: {broken}"));
        }
        let bundled = conversation.take_bundled();
        assert_eq!(bundled.len(), 1, "cut at {cut}");
        assert_eq!(replies_of(&bundled[0]), expected, "cut at {cut}");
    }
}

#[test]
fn a_head_as_the_one_before_is_believed_no_more_than_that_one() {
    let first = "VA 1 f0 ka O5\r\nx\r\n";
    let check = |second: &str, is_it: fn(&Broken) -> bool| {
        check_broken(EACH, &format!("{first}{second}\r\ny\r\n"), 1, is_it);
    };
    check("VA 1 f0 kc O5", |broken| matches!(broken, Broken::OtherKey(_)));
    check("VA 1 f0 ka O5", |broken| matches!(broken, Broken::OtherKey(_)));
    check("VA 1 f0 kb O6", |broken| matches!(broken, Broken::Unasked(_)));
    check("VA 1 f0 kb", |broken| matches!(broken, Broken::Unasked(_)));
    check_broken(EACH, &format!("{first}VA 1 f0 kb O5\r\nyz\r\n"), 1, |broken| {
        matches!(broken, Broken::ValueEnd)
    });
}
