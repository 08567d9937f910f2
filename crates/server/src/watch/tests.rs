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
