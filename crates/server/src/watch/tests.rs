//! Watching in process: requests at chosen moments, the scribe's rounds by hand.

use std::sync::Arc;

use scrubjay_base::time::Now;
use scrubjay_cache::{Cache, PinnedSlice};
use scrubjay_net::{Next, Output, Peer, Service};

use super::scribe::Scribe;
use crate::options::Options;
use crate::service::{CacheService, Shared};
use crate::session::Session;

struct Bench {
    shared: Arc<Shared>,
    service: CacheService,
}

impl Bench {
    fn new(change: impl FnOnce(&mut Options)) -> Bench {
        let mut options = Options::default();
        options.memory_max = 8 << 20;
        change(&mut options);
        let cache = Cache::new(options.cache_config(1_700_000_000_000, 1)).expect("memory");
        let shared = Shared::new(cache, options, None, None);
        let service = CacheService::new(&shared);
        Bench { shared, service }
    }

    /// A connection, and what its first request is answered.
    fn connect(&mut self, second: u64, request: &str) -> (Session, String) {
        let mut session = self.service.open(Peer::Unix);
        let reply = self.ask(&mut session, second, request).1;
        (session, reply)
    }

    fn ask(&mut self, session: &mut Session, second: u64, request: &str) -> (Next, String) {
        self.service.begin_turn(Now::from_secs(second));
        let (mut rest, mut reply) = (request.as_bytes(), Vec::new());
        loop {
            let mut output: Output<PinnedSlice> = Output::default();
            let handled = self.service.handle(session, rest, &mut output);
            output.pieces().for_each(|piece| reply.extend_from_slice(piece));
            rest = &rest[handled.consumed..];
            if rest.is_empty() && handled.next != Next::Again {
                return (handled.next, String::from_utf8(reply).expect("text"));
            }
        }
    }
}

/// The lines without time, number and class.
fn lines(text: &str) -> Vec<String> {
    let kept = |word: &&str| {
        !["ts=", "gid=", "clsid="]
            .iter()
            .any(|start| word.starts_with(start))
    };
    let line = |line: &str| line.split(' ').filter(kept).collect::<Vec<_>>().join(" ");
    text.lines().map(line).collect()
}

#[test]
fn a_miss_tells_whether_there_was_something_once() {
    let mut bench = Bench::new(|_| {});
    let (mut watcher, reply) = bench.connect(1, "watch\r\n");
    assert_eq!(reply, "OK\r\n");
    let (mut client, _) = bench.connect(1, "set a 0 2 1\r\nx\r\nset b 0 0 1\r\nx\r\n");
    bench.ask(
        &mut client,
        9,
        "get a\r\nflush_all\r\nmg b v\r\nmd b\r\nget c\r\n",
    );
    let shared = Arc::clone(&bench.shared);
    assert!(Scribe::new(&shared).round(Now::from_secs(9)));
    let (next, text) = bench.ask(&mut watcher, 9, "");
    assert_eq!(next, Next::Fed);
    let told = |key, status| format!("type=item_get key={key} status={status} cfd=0 size=0");
    let wanted = [
        told("a", "not_found"),
        told("b", "not_found"),
        told("a", "expired"),
        told("b", "flushed"),
        told("b", "flushed"),
        told("c", "not_found"),
    ];
    assert_eq!(lines(&text), wanted);
    assert!(text.contains("ts=1700000009.000000 gid=3 "), "{text}");
}

#[test]
fn what_is_noted_changes_with_those_who_watch_and_details_are_noted_beside() {
    let mut bench = Bench::new(|_| {});
    let (mut client, _) = bench.connect(1, "stats detail on\r\n");
    let (watcher, _) = bench.connect(1, "watch mutations\r\n");
    bench.ask(&mut client, 1, "set a:1 0 0 1\r\nx\r\nget a:1\r\n");
    let (_, dump) = bench.ask(&mut client, 1, "stats detail dump\r\n");
    assert_eq!(dump, "PREFIX a get 1 hit 1 set 1 del 0\r\nEND\r\n");
    assert_eq!(bench.shared.log.counts().written, 1, "the store");
    drop(watcher);
    bench.ask(&mut client, 1, "set a:1 0 0 1\r\nx\r\nstats detail off\r\n");
    assert_eq!(bench.shared.log.counts().written, 1);
    assert_eq!(bench.shared.log.noted.bits(), 0);
}

#[test]
fn the_limit_holds_for_what_waits_and_the_rest_is_told_to_be_missing() {
    let mut bench = Bench::new(|options| options.watcher_logbuf_len = 1024);
    let (mut watcher, _) = bench.connect(1, "watch\r\n");
    let (mut client, _) = bench.connect(1, "version\r\n");
    let shared = Arc::clone(&bench.shared);
    let mut scribe = Scribe::new(&shared);
    for _ in 0..10 {
        bench.ask(&mut client, 1, &"get a\r\n".repeat(10));
        scribe.round(Now::from_secs(1));
    }
    let (_, first) = bench.ask(&mut watcher, 1, "whatever\r\n");
    assert!(first.len() <= 1024, "{} bytes", first.len());
    scribe.round(Now::from_secs(1));
    let text = first + &bench.ask(&mut watcher, 1, "").1;
    let told = text.lines().filter(|line| line.contains("type=item_get")).count() as u64;
    let skipped = text
        .lines()
        .filter_map(|line| line.strip_prefix("skipped=")?.parse::<u64>().ok());
    assert_eq!(skipped.sum::<u64>(), 100 - told);
    let counts = shared.log.counts();
    assert_eq!((counts.sent, counts.skipped), (told, 100 - told));
    assert!((1..100).contains(&told));
}

#[test]
fn what_workers_drop_is_told_to_those_whose_streams_it_was_of() {
    let mut bench = Bench::new(|options| options.worker_logbuf_len = 1024);
    let (mut gets, _) = bench.connect(1, "watch fetchers\r\n");
    let (mut orders, _) = bench.connect(1, "watch sysevents\r\n");
    let (mut client, _) = bench.connect(1, "version\r\n");
    bench.ask(&mut client, 1, &"get a\r\n".repeat(1000));
    let shared = Arc::clone(&bench.shared);
    Scribe::new(&shared).round(Now::from_secs(1));
    let (_, text) = bench.ask(&mut gets, 1, "");
    let (told, skipped) = text.trim_end().rsplit_once("\nskipped=").expect(&text);
    let skipped: u64 = skipped.parse().expect("a number");
    assert_eq!(told.lines().count() as u64 + skipped, 1000);
    assert_eq!(shared.log.counts().dropped, skipped);
    assert_eq!(bench.ask(&mut orders, 1, ""), (Next::Fed, String::new()));
}

#[test]
fn a_change_of_state_is_told_once() {
    let mut bench = Bench::new(|_| {});
    let (mut watcher, _) = bench.connect(1, "watch sysevents\r\n");
    let shared = Arc::clone(&bench.shared);
    let mut scribe = Scribe::new(&shared);
    scribe.round(Now::from_secs(1));
    let (_client, reply) = bench.connect(1, "cache_memlimit 9\r\n");
    assert_eq!(reply, "OK\r\n");
    scribe.round(Now::from_secs(2));
    scribe.round(Now::from_secs(3));
    let (_, text) = bench.ask(&mut watcher, 3, "");
    let wanted = [
        "type=cache_memlimit bytes=9437184 cfd=0",
        "type=state name=memory_limit from=8388608 to=9437184",
    ];
    assert_eq!(lines(&text)[..2], wanted);
}

/// What a watcher of invalidations gets when `requests` were handled, beats left out.
fn changes(requests: &str) -> Vec<String> {
    let mut bench = Bench::new(|_| {});
    let (mut client, _) = bench.connect(1, "set old 0 0 1\r\nx\r\nset number 0 0 1\r\n7\r\n");
    let (mut watcher, _) = bench.connect(1, "watch invalidations\r\n");
    let shared = Arc::clone(&bench.shared);
    let mut scribe = Scribe::new(&shared);
    scribe.round(Now::from_secs(1));
    bench.ask(&mut client, 1, requests);
    scribe.round(Now::from_secs(1));
    let (_, text) = bench.ask(&mut watcher, 1, "");
    let told = text.lines().filter(|line| !line.starts_with("beat="));
    told.map(str::to_owned).collect()
}

#[test]
fn whatever_changes_what_is_under_a_key_is_told_in_the_order_of_its_numbers() {
    let told = [
        "set a/b 0 0 1\r\nx\r\n",
        "add new 0 0 1\r\nx\r\n",
        "replace old 0 0 1\r\nx\r\n",
        "append old 0 0 1\r\nx\r\n",
        "prepend old 0 0 1\r\nx\r\n",
        "ms old 1\r\nx\r\n",
        "ms new 1 ME\r\nx\r\n",
        "incr number 1\r\n",
        "decr number 1\r\n",
        "ma number\r\n",
        "ma new N0\r\n",
        "touch old 9\r\n",
        "gat 9 old\r\n",
        "mg old T9\r\n",
        "mg new v N30\r\n",
        "delete old\r\n",
        "delete gone\r\n",
        "md old I T30\r\n",
        "md old x\r\n",
        "set old 0 0 9000000\r\n",
        "flush_all\r\n",
    ];
    for request in told {
        let verb = request.split([' ', '\r']).next().expect("a word");
        let key = request
            .split_ascii_whitespace()
            .find(|word| ["a/b", "new", "old", "number", "gone"].contains(word));
        let line = match key {
            Some(key) => format!("at=0:1 key={}", key.replace('/', "%2F")),
            None => "all=1".to_owned(),
        };
        assert_eq!(changes(request), [line], "{verb} in {request:?}");
    }
    let many = changes("set a 0 0 1\r\nx\r\ndelete a\r\nset b 0 0 1\r\nx\r\n");
    assert_eq!(many, ["at=0:1 key=a", "at=0:2 key=a", "at=0:3 key=b"]);
}

#[test]
fn what_leaves_copies_right_is_not_told() {
    for request in [
        "get old none\r\n",
        "gets old\r\n",
        "mg old v\r\n",
        "mg old v N30\r\n",
        "gat 9 none\r\n",
        "add old 0 0 1\r\nx\r\n",
        "replace none 0 0 1\r\nx\r\n",
        "append none 0 0 1\r\nx\r\n",
        "cas old 0 0 1 999\r\nx\r\n",
        "cas none 0 0 1 1\r\nx\r\n",
        "incr none 1\r\n",
        "incr old 1\r\n",
        "touch none 9\r\n",
        "md old C999\r\n",
        "flush_all 100\r\n",
    ] {
        assert_eq!(changes(request), Vec::<String>::new(), "{request:?}");
    }
}

#[test]
fn a_flush_that_was_put_off_is_told_when_it_is_done() {
    let mut bench = Bench::new(|_| {});
    let (mut watcher, _) = bench.connect(1, "watch invalidations\r\n");
    let shared = Arc::clone(&bench.shared);
    let mut scribe = Scribe::new(&shared);
    scribe.round(Now::from_secs(1));
    let (mut client, _) = bench.connect(1, "flush_all 5\r\n");
    let mut told = |bench: &mut Bench, second| {
        bench.ask(&mut client, second, "get a\r\n");
        scribe.round(Now::from_secs(second));
        let text = bench.ask(&mut watcher, second, "").1;
        text.lines().any(|line| line == "all=1")
    };
    assert!(!told(&mut bench, 2));
    assert!(told(&mut bench, 7));
    assert!(!told(&mut bench, 8), "once");
}

#[test]
fn beats_begin_when_every_worker_has_passed_and_echo_what_was_sent() {
    let mut bench = Bench::new(|_| {});
    let mut other = CacheService::new(&bench.shared);
    other.begin_turn(Now::from_secs(1));
    let (mut watcher, reply) = bench.connect(1, "watch invalidations\r\n41\r\n4");
    assert_eq!(reply, "OK\r\n");
    let shared = Arc::clone(&bench.shared);
    let mut scribe = Scribe::new(&shared);
    let mut round = |bench: &mut Bench, millis: u64, input: &str| {
        scribe.round(Now::from_nanos(millis * 1_000_000));
        bench.ask(&mut watcher, 1, input).1
    };
    assert_eq!(round(&mut bench, 1000, ""), "", "both workers are in their turns");
    assert_eq!(round(&mut bench, 1000, ""), "", "the other one still is");
    other.begin_turn(Now::from_secs(1));
    assert_eq!(round(&mut bench, 1000, "2\r"), "beat=41 at=\n");
    let (_client, _) = bench.connect(1, "set a 0 0 1\r\nx\r\n");
    assert_eq!(
        round(&mut bench, 1100, "\n"),
        "at=0:1 key=a\n",
        "no news, no beat"
    );
    assert_eq!(round(&mut bench, 1100, ""), "beat=42 at=0:1\n");
    assert_eq!(round(&mut bench, 1299, ""), "");
    assert_eq!(
        round(&mut bench, 1300, ""),
        "beat=42 at=0:1\n",
        "a fifth of a second later"
    );
}

#[test]
fn changes_without_room_leave_a_gap_and_are_told_to_be_missing_before_the_next_beat() {
    let mut bench = Bench::new(|options| options.worker_logbuf_len = 1024);
    let (mut watcher, _) = bench.connect(1, "watch invalidations\r\n1\n");
    let (mut client, _) = bench.connect(1, "version\r\n");
    bench.ask(&mut client, 1, &"set a 0 0 1 noreply\r\nx\r\n".repeat(1000));
    let shared = Arc::clone(&bench.shared);
    let mut scribe = Scribe::new(&shared);
    scribe.round(Now::from_secs(1));
    bench.ask(&mut client, 1, "");
    scribe.round(Now::from_secs(1));
    let (_, text) = bench.ask(&mut watcher, 1, "");
    let lines: Vec<&str> = text.lines().collect();
    let told = lines.iter().filter(|line| line.ends_with(" key=a")).count();
    assert!((1..1000).contains(&told));
    let skipped = lines
        .iter()
        .position(|line| *line == format!("skipped={}", 1000 - told));
    let beat = lines.iter().position(|line| *line == "beat=1 at=0:1000");
    assert!(skipped.is_some() && skipped < beat, "{text}");
}
