//! Each rule by which no reply reaches the wrong caller, broken on purpose.

use scrubjay_client::protocol::conversation::Replies;
use scrubjay_client::protocol::{
    Arith, Broken, Conversation, Delete, Form, Get, Order, Refused, Reply, Request, Settings, Store,
};

fn settings(form: Form, order: Order) -> Settings {
    Settings {
        order,
        value_len_max: 1000,
        ..Settings::new(form, 5)
    }
}

/// Gets of `a` and `b`, a set and a counter, numbers 5 to 8, all sent.
fn four(form: Form, order: Order) -> Conversation {
    let mut conversation = Conversation::new(settings(form, order));
    for request in [
        Request::Get(Get::new(b"a")),
        Request::Get(Get::new(b"b")),
        Request::Store(Store::new(b"c", b"v".as_slice())),
        Request::Arith(Arith::new(b"d", 1)),
    ] {
        conversation.ask(request).expect("room");
    }
    conversation.take_output();
    conversation
}

fn sent(conversation: &mut Conversation) -> String {
    let output = conversation.take_output();
    let bytes: Vec<u8> = output.slices().flatten().copied().collect();
    String::from_utf8(bytes).expect("ASCII")
}

/// So many of the four tickets get a reply, the others the reason why the conversation is broken, and it is for good.
fn check_broken(form: Form, order: Order, bytes: &str, answered: usize, is_it: fn(&Broken) -> bool) {
    let mut conversation = four(form, order);
    let mut replies = Replies::new();
    let broken = conversation
        .feed(bytes.as_bytes(), &mut replies)
        .expect_err(bytes);
    assert!(is_it(&broken), "{bytes:?}: {broken:?}");
    let good = replies.iter().filter(|(_, reply)| reply.is_ok()).count();
    assert_eq!(
        (good, replies.len()),
        (answered, 4),
        "{bytes:?}: each ticket once"
    );
    assert_eq!(conversation.ask(Request::Noop), Err(Refused::Closing));
    assert!(conversation.wants_closing() && conversation.outstanding() == 0);
    assert_eq!(conversation.feed(b"", &mut replies), Err(broken));
}

#[test]
fn a_meta_reply_that_is_not_exactly_the_one_awaited_breaks_the_conversation() {
    let endless = "x".repeat(3000);
    let kept = |bytes, answered, is_it| check_broken(Form::Meta, Order::Kept, bytes, answered, is_it);
    kept("EN O4\r\n", 0, |broken| matches!(broken, Broken::Unasked(_)));
    kept("EN O9\r\n", 0, |broken| matches!(broken, Broken::Unasked(_)));
    kept("EN\r\n", 0, |broken| matches!(broken, Broken::Unasked(_)));
    kept("MN\r\n", 0, |broken| matches!(broken, Broken::Unasked(_)));
    kept("EN O5\r\nEN O5\r\n", 1, |broken| {
        matches!(broken, Broken::Unasked(_))
    });
    kept("EN O6\r\n", 0, |broken| matches!(broken, Broken::OutOfOrder(_)));
    kept("VA 1 kb O5\r\n", 0, |broken| {
        matches!(broken, Broken::OtherKey(_))
    });
    kept("VA 1 O5\r\n", 0, |broken| matches!(broken, Broken::OtherKey(_)));
    kept("EN kb O5\r\n", 0, |broken| matches!(broken, Broken::OtherKey(_)));
    kept("HD O5\r\n", 0, |broken| matches!(broken, Broken::Unfit(_)));
    kept("VA 1001 ka O5\r\n", 0, |broken| {
        matches!(broken, Broken::ValueTooLong { .. })
    });
    kept("VA 1 ka O5\r\nvv\r\n", 0, |broken| {
        matches!(broken, Broken::ValueEnd)
    });
    kept("hello\r\n", 0, |broken| matches!(broken, Broken::Unreadable(_)));
    kept("EN O5\n", 0, |broken| matches!(broken, Broken::Unreadable(_)));
    kept(&endless, 0, |broken| matches!(broken, Broken::LineTooLong));
    kept("EN O5\r\nEN O6\r\nVA 1 kc O7\r\n", 2, |broken| {
        matches!(broken, Broken::Unfit(_))
    });
    kept("EN O5\r\nEN O6\r\nERROR\r\n", 3, |broken| {
        matches!(broken, Broken::Doubtful(_))
    });
    kept("EN O5\r\nEN O6\r\nHD O7\r\nVA 1 kd O8\r\nx\r\n", 3, |broken| {
        matches!(broken, Broken::Unreadable(_))
    });
}

#[test]
fn a_doubtful_reply_without_number_or_order_breaks_the_conversation() {
    let free = |bytes, answered, is_it| check_broken(Form::Meta, Order::Free, bytes, answered, is_it);
    free("EN O6\r\nEN O6\r\n", 1, |broken| {
        matches!(broken, Broken::Unasked(_))
    });
    free("EN O6\r\nSERVER_ERROR x\r\n", 1, |broken| {
        matches!(broken, Broken::Doubtful(_))
    });
    let classic = |bytes, answered, is_it| check_broken(Form::Classic, Order::Kept, bytes, answered, is_it);
    classic("VALUE c 0 1\r\n", 0, |broken| {
        matches!(broken, Broken::OtherKey(_))
    });
    classic("VALUE a 0 1\r\nv\r\nVALUE a 0 1\r\n", 1, |broken| {
        matches!(broken, Broken::OtherKey(_))
    });
    classic("STORED\r\n", 0, |broken| matches!(broken, Broken::Unfit(_)));
    classic("END\r\nEND\r\n", 2, |broken| matches!(broken, Broken::Unfit(_)));
    classic("EN O5\r\n", 0, |broken| matches!(broken, Broken::Unfit(_)));
    classic("END\r\nCLIENT_ERROR x\r\n", 3, |broken| {
        matches!(broken, Broken::Doubtful(_))
    });
}

#[test]
fn an_error_is_its_requests_own_and_the_others_go_on() {
    let check = |form, bytes: &str| {
        let mut conversation = four(form, Order::Kept);
        let mut replies = Replies::new();
        conversation
            .feed(bytes.as_bytes(), &mut replies)
            .expect("in order");
        let errors: Vec<bool> = replies
            .iter()
            .map(|(_, reply)| matches!(reply, Ok(Reply::Error(_))))
            .collect();
        assert_eq!(errors, [false, false, true, false]);
        assert!(!conversation.wants_closing());
    };
    check(
        Form::Meta,
        "EN O5\r\nEN O6\r\nSERVER_ERROR too large\r\nNF O8\r\n",
    );
    check(Form::Classic, "END\r\nSERVER_ERROR too large\r\n2\r\n");
}

#[test]
fn a_reply_before_its_request_is_sent_is_nobodys() {
    for (form, bytes) in [(Form::Meta, "EN O5\r\n"), (Form::Classic, "END\r\n")] {
        let mut conversation = Conversation::new(settings(form, Order::Kept));
        conversation.ask(Request::Get(Get::new(b"a"))).expect("room");
        let mut replies = Replies::new();
        assert!(conversation.feed(bytes.as_bytes(), &mut replies).is_err());
        assert!(matches!(replies[..], [(_, Err(Broken::Unasked(_)))]));
    }
}

#[test]
fn a_run_of_quiet_requests_is_closed_before_the_next_request() {
    let mut conversation = Conversation::new(settings(Form::Meta, Order::Kept));
    let quiet = |key: &'static [u8]| {
        Request::Delete(Delete {
            quiet: true,
            ..Delete::new(key)
        })
    };
    conversation.ask(quiet(b"a")).expect("room");
    conversation.ask(quiet(b"b")).expect("room");
    let ticket = conversation.ask(Request::Get(Get::new(b"c"))).expect("room");
    assert_eq!(
        sent(&mut conversation),
        "md a q O5\r\nmd b q O6\r\nmn\r\nmg c v f k O8\r\n"
    );
    let mut replies = Replies::new();
    conversation
        .feed(b"NF O5\r\nSERVER_ERROR x\r\nMN\r\nEN O8\r\n", &mut replies)
        .expect("in order");
    assert_eq!(replies, [(ticket, Ok(Reply::Miss))]);
    assert_eq!((conversation.quiet_errors(), conversation.outstanding()), (1, 0));
}

#[test]
fn gets_of_classic_servers_share_a_line_but_never_a_key() {
    let mut conversation = Conversation::new(settings(Form::Classic, Order::Kept));
    let mut ask = |key: &'static [u8], with_cas| {
        let get = Get {
            with_cas,
            ..Get::new(key)
        };
        conversation.ask(Request::Get(get)).expect("room");
    };
    ask(b"a", false);
    ask(b"b", false);
    ask(b"a", false);
    ask(b"c", true);
    assert_eq!(sent(&mut conversation), "get a b\r\nget a\r\ngets c\r\n");
}

#[test]
fn who_gives_up_gets_nothing_and_too_many_of_them_close() {
    let mut conversation = Conversation::new(Settings {
        cancelled_max: 2,
        ..settings(Form::Meta, Order::Kept)
    });
    let tickets: Vec<_> = (0..3)
        .map(|_| conversation.ask(Request::Get(Get::new(b"a"))).expect("room"))
        .collect();
    conversation.take_output();
    assert!(conversation.cancel(tickets[0]));
    assert!(!conversation.cancel(tickets[0]), "nobody waits any more");
    assert!(!conversation.wants_closing());
    assert!(conversation.cancel(tickets[1]));
    assert!(conversation.wants_closing());
    let mut replies = Replies::new();
    conversation
        .feed(b"VA 1 ka O5\r\nx\r\nEN O6\r\nVA 1 ka O7\r\ny\r\n", &mut replies)
        .expect("in order");
    assert_eq!(replies.len(), 1, "only who waits");
    assert_eq!(replies[0].0, tickets[2]);
    assert!(!conversation.wants_closing() && !conversation.is_awaited());
}

#[test]
fn what_is_outstanding_is_bounded_and_replies_make_room() {
    let mut conversation = Conversation::new(Settings {
        outstanding_max: 3,
        outstanding_bytes_max: 2000,
        ..settings(Form::Meta, Order::Kept)
    });
    let quiet = || {
        Request::Store(Store {
            quiet: true,
            ..Store::new(b"a", vec![0; 900])
        })
    };
    conversation.ask(quiet()).expect("room");
    assert_eq!(conversation.ask(quiet()), Err(Refused::Full), "bytes");
    assert!(
        sent(&mut conversation).ends_with("\r\nmn\r\n"),
        "so that there will be room again"
    );
    conversation
        .feed(b"MN\r\n", &mut Replies::new())
        .expect("in order");
    for _ in 0..3 {
        conversation.ask(Request::Version).expect("room");
    }
    assert_eq!(conversation.ask(Request::Version), Err(Refused::Full), "requests");
}

#[test]
fn a_lost_reply_that_keeps_all_room_closes() {
    let mut conversation = Conversation::new(Settings {
        outstanding_max: 3,
        ..settings(Form::Meta, Order::Free)
    });
    let tickets: Vec<_> = (0..3)
        .map(|_| conversation.ask(Request::Get(Get::new(b"a"))).expect("room"))
        .collect();
    conversation.take_output();
    let mut replies = Replies::new();
    conversation
        .feed(b"EN O7\r\nEN O6\r\n", &mut replies)
        .expect("any order");
    assert_eq!(
        conversation.ask(Request::Noop),
        Err(Refused::Full),
        "somebody waits for it yet"
    );
    assert!(conversation.cancel(tickets[0]));
    assert_eq!(conversation.ask(Request::Noop), Err(Refused::Closing));
    conversation
        .feed(b"EN O5\r\n", &mut replies)
        .expect("late, but not wrong");
    assert_eq!(replies.len(), 2);
    conversation.ask(Request::Noop).expect("room again");
}
