//! `watch` over real sockets, beside Debian's memcached where that tells the same.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};

use crate::kit::{PATIENCE, Server, ask};

/// A connection that watches.
struct Watcher(BufReader<TcpStream>);

impl Watcher {
    fn new(server: &Server, streams: &str) -> Watcher {
        let mut stream = server.connect();
        let line = format!("watch {streams}\r\n");
        stream.write_all(line.as_bytes()).expect("sent");
        let mut watcher = Watcher(BufReader::new(stream));
        assert_eq!(watcher.line(), "OK\r");
        watcher
    }

    /// The next line as it came.
    fn line(&mut self) -> String {
        let mut line = Vec::new();
        self.0.read_until(b'\n', &mut line).expect("a line in time");
        let line = String::from_utf8_lossy(&line).into_owned();
        line.strip_suffix('\n')
            .unwrap_or_else(|| panic!("the end behind {line:?}"))
            .to_owned()
    }

    /// Lines up to the one that holds `end`, without what differs from server to server and from run to run.
    fn until(&mut self, end: &str) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let line = self.line();
            lines.push(without(&line, &["ts=", "gid=", "clsid=", "cfd=", "rport="]));
            if line.contains(end) {
                return lines;
            }
        }
    }
}

/// The line without the fields that start so.
fn without(line: &str, fields: &[&str]) -> String {
    let words = line.split(' ');
    let kept = words.filter(|word| !fields.iter().any(|field| word.starts_with(field)));
    kept.collect::<Vec<_>>().join(" ")
}

fn field<'a>(line: &'a str, name: &str) -> &'a str {
    let mut words = line.split(' ');
    let value = words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    value.unwrap_or_else(|| panic!("no {name} in {line:?}"))
}

/// Sends requests, of which the last is `quit`, and reads until the end.
fn converse(server: &Server, requests: &[u8]) {
    let mut stream = server.connect();
    stream.write_all(requests).expect("sent");
    stream.read_to_end(&mut Vec::new()).expect("the end in time");
}

const TEXT: &str = "get none\r\nset a%b 5 100 3\r\nxyz\r\nget a%b\r\ngets a%b none\r\ngat 50 a%b\r\ngat 50 none\r\n\
    touch a%b 0\r\ntouch none 4\r\nadd a%b 0 0 1\r\n1\r\nreplace none 0 0 1\r\n1\r\nappend a%b 0 0 1\r\nq\r\n\
    prepend a%b 0 0 1\r\nq\r\nappend none 0 0 1\r\nq\r\ncas a%b 0 0 1 1\r\nz\r\ncas none 0 0 1 1\r\nz\r\n\
    set n 0 0 2\r\n10\r\nincr n 5\r\nincr n 500000\r\ndecr n 5\r\nincr none 5\r\nincr a%b 1\r\ndelete a%b\r\n\
    delete a%b\r\nset k 0 0 5 noreply\r\nxxxxx\r\nget \u{e4}\u{1}\"k\r\nset e 0 -1 1\r\n1\r\nget e\r\nms mk 2\r\nhi\r\n\
    mg mk v\r\nmg mk\r\nmg none v\r\nmg viv v N30\r\nmg viv v N30\r\nms mk 2 MA\r\nhi\r\nms mk 2 ME\r\nhi\r\n\
    ms mk 2 MR T5\r\nhi\r\nms bWs= 2 b\r\nhi\r\nmg bWs= b v\r\nma n\r\nma none\r\nma nv N0 J5\r\nmd mk\r\nmd mk\r\n\
    ms inv 2\r\nhi\r\nmd inv I T30\r\nmg inv v\r\nme inv\r\nmn\r\nbogus foo bar\r\nquit\r\n";

fn packet(opcode: u8, key: &str, extras: &[u8], value: &str) -> Vec<u8> {
    let body_len = (key.len() + extras.len() + value.len()) as u8;
    let head = [
        0x80,
        opcode,
        0,
        key.len() as u8,
        extras.len() as u8,
        0,
        0,
        0,
        0,
        0,
        0,
        body_len,
    ];
    [&head[..], &[0; 12], extras, key.as_bytes(), value.as_bytes()].concat()
}

/// Set, get, a miss, add, append, increment twice, touch, delete, quit.
fn binary() -> Vec<u8> {
    let arithmetic = [&1u64.to_be_bytes()[..], &5u64.to_be_bytes(), &[0; 4]].concat();
    [
        packet(1, "bk", &[0; 8], "val"),
        packet(0, "bk", &[], ""),
        packet(0, "none", &[], ""),
        packet(2, "bk", &[0; 8], "val"),
        packet(0xe, "bk", &[], "val"),
        packet(5, "bn", &arithmetic, ""),
        packet(5, "bn", &arithmetic, ""),
        packet(0x1c, "bk", &[0; 4], ""),
        packet(4, "bk", &[], ""),
        packet(7, "", &[], ""),
    ]
    .concat()
}

#[test]
fn who_watches_is_told_what_memcached_tells() {
    let servers = [
        Server::start_memcached("-t 1"),
        Server::start("-t 1 -o io_driver=epoll"),
        Server::start("-t 1"),
    ];
    let [theirs, ours @ ..] = servers.map(|server| {
        let mut watcher = Watcher::new(&server, "connevents fetchers mutations fetchers");
        converse(&server, TEXT.as_bytes());
        converse(&server, &binary());
        converse(&server, b"get last\r\nquit\r\n");
        watcher.until("key=last")
    });
    // A life that has ended is a wrapped number there.
    let theirs: Vec<String> = theirs
        .into_iter()
        .map(|line| match line.contains("key=e status=stored") {
            true => format!("{} ttl=-1 {}", without(&line, &["ttl=", "size="]), "size=1"),
            false => line,
        })
        .collect();
    for ours in ours {
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours, theirs);
        }
        assert_eq!(ours.len(), theirs.len());
    }
}

#[test]
fn words_of_watch_are_answered_as_memcached_answers_them() {
    let servers = [Server::start_memcached(""), Server::start("")];
    for line in [
        "watch",
        "watch fetchers mutations evictions connevents sysevents rawcmds",
        "watch proxyreqs proxyevents proxyuser",
        "watch foo",
        "watch fetchers foo",
        "watch all",
        "watch FETCHERS",
    ] {
        let [theirs, ours] = servers.each_ref().map(|server| ask(server.connect(), line));
        assert_eq!(ours, theirs, "to {line:?}");
    }
    assert_eq!(ask(servers[1].connect(), "watch deletions"), "OK");
    let without = [Server::start_memcached("-W"), Server::start("-W")];
    let [theirs, ours] = without.map(|server| ask(server.connect(), "watch foo"));
    assert_eq!(ours, theirs);
}

#[test]
fn one_watcher_too_many_is_told_so_and_takes_the_place_of_one_that_goes() {
    let server = Server::start("");
    let mut watchers: Vec<Watcher> = (0..20).map(|_| Watcher::new(&server, "sysevents")).collect();
    let refused = ask(server.connect(), "watch");
    assert_eq!(refused, "WATCHER_TOO_MANY log watcher limit reached");
    assert_eq!(server.statistic("log_watchers"), 20);
    drop(watchers.pop());
    let mut stream = server.connect();
    let comes_in = || (ask(&mut stream, "watch") == "OK").then_some(());
    crate::kit::until(comes_in).expect("there is a place");
}

#[test]
fn each_watcher_gets_its_streams_and_nothing_that_was_before() {
    let server = Server::start("-t 2");
    converse(&server, b"set before 0 0 1\r\nx\r\nquit\r\n");
    let mut deletions = Watcher::new(&server, "deletions");
    let mut system = Watcher::new(&server, "sysevents");
    let mut raw = Watcher::new(&server, "rawcmds");
    converse(
        &server,
        b"set a 0 0 3\r\nabc\r\ndelete a\r\nset m 0 0 1\r\nx\r\nmd m\r\nflush_all\r\ndelete last\r\nset last 0 0 1\r\nx\r\n\
          delete last\r\nquit\r\n",
    );
    let lines = [
        "<set a 0 0 3",
        "<delete a",
        "<set m 0 0 1",
        "<md m",
        "<flush_all",
        "<delete last",
        "<set last 0 0 1",
        "<delete last",
        "<quit",
    ];
    let told = raw.until("quit").into_iter().map(|line| {
        let (number, line) = line.split_once(' ').expect("a descriptor and a line");
        assert!(number[1..].parse::<u32>().is_ok(), "{number}");
        format!("<{line}")
    });
    assert_eq!(told.collect::<Vec<_>>(), lines);
    let lines = [
        "type=deleted key=a cmd=delete size=3",
        "type=deleted key=m cmd=md size=1",
        "type=deleted key=last cmd=delete size=1",
    ];
    assert_eq!(deletions.until("key=last"), lines);
    assert_eq!(
        system.until("flush_all").last().map(String::as_str),
        Some("type=flush_all delay=0")
    );
}

#[test]
fn numbers_of_lines_ascend_and_whoever_watches_may_say_what_it_likes() {
    let server = Server::start("-t 2");
    let mut watcher = Watcher::new(&server, "fetchers");
    let stream = watcher.0.get_mut();
    stream
        .write_all(b"get a\r\nset b 0 0 5\r\nquit\r\n")
        .expect("sent");
    std::thread::scope(|scope| {
        for name in 0..4 {
            let server = &server;
            let line = move |number| format!("get {name}.{number}\r\n");
            let requests: String = (0..200).map(line).chain(["quit\r\n".to_owned()]).collect();
            scope.spawn(move || converse(server, requests.as_bytes()));
        }
    });
    let numbers: Vec<u64> = (0..800)
        .map(|_| field(&watcher.line(), "gid").parse().expect("a number"))
        .collect();
    assert!(numbers.is_sorted_by(|one, next| one < next));
}

#[test]
fn what_a_watcher_misses_is_counted_and_told_and_nobody_waits_for_it() {
    let server = Server::start("-t 1 -o watcher_logbuf_size=4,worker_logbuf_size=1");
    let mut slow = Watcher::new(&server, "fetchers");
    let mut other = Watcher::new(&server, "fetchers");
    let requests: String = (0..20_000)
        .map(|number| format!("get key:{number}\r\n"))
        .collect();
    converse(&server, (requests + "quit\r\n").as_bytes());
    let total = 20_000;
    for watcher in [&mut slow, &mut other] {
        let (mut lines, mut skipped) = (0, 0);
        while lines + skipped < total {
            match watcher.line().strip_prefix("skipped=") {
                Some(number) => skipped += number.parse::<u64>().expect("a number"),
                None => lines += 1,
            }
        }
        assert_eq!(lines + skipped, total);
        assert!(skipped > 0, "it was too much at once");
    }
    let [dropped, written] = ["log_worker_dropped", "log_worker_written"].map(|name| server.statistic(name));
    assert_eq!(dropped + written, total);
    let [skipped, sent] = ["log_watcher_skipped", "log_watcher_sent"].map(|name| server.statistic(name));
    assert_eq!(skipped + sent, 2 * written);
}

#[test]
fn an_eviction_is_told_with_why_and_how_long_it_stayed() {
    let server = Server::start("-t 1 -m 8 -o watcher_logbuf_size=4096,worker_logbuf_size=4096");
    let mut watcher = Watcher::new(&server, "evictions");
    let value = "v".repeat(10_000);
    let store = |number| format!("set key:{number} 0 0 10000 noreply\r\n{value}\r\n");
    let requests: String = (0..2_000).map(store).collect();
    converse(&server, (requests + "quit\r\n").as_bytes());
    let line = watcher.line();
    assert_eq!(field(&line, "type"), "eviction");
    assert!(field(&line, "key").starts_with("key%3A"), "{line}");
    let rest = without(&line, &["ts=", "gid=", "key=", "la=", "age="]);
    assert_eq!(
        rest,
        "type=eviction fetch=no ttl=-1 clsid=1 size=10000 cause=evicted reads=0"
    );
}

#[test]
fn why_a_connection_was_closed_is_told_and_who_only_watches_is_not_idle() {
    let server = Server::start("-t 1 -o idle_timeout=1");
    let mut watcher = Watcher::new(&server, "connevents");
    let stream = server.connect();
    let port = stream.local_addr().expect("bound").port().to_string();
    let new = watcher.line();
    assert_eq!(
        (field(&new, "type"), field(&new, "rport")),
        ("conn_new", port.as_str())
    );
    let closed = watcher.line();
    assert_eq!(field(&closed, "reason"), "idle_timeout");
    assert_eq!(field(&closed, "rport"), port);
    assert_eq!(field(&closed, "cfd"), field(&new, "cfd"));
    assert!(server.statistic("idle_kicks") >= 1);
}

#[test]
fn what_cannot_be_a_request_is_told_as_an_error() {
    let server = Server::start("-t 1");
    let mut watcher = Watcher::new(&server, "connevents");
    for (sent, reason) in [
        ("", "normal"),
        ("quit\r\n", "normal"),
        ("GET / HTTP/1.1\r\n", "error"),
    ] {
        let mut stream = server.connect();
        stream.write_all(sent.as_bytes()).expect("it reads");
        stream.shutdown(Shutdown::Write).expect("connected");
        assert_eq!(field(&watcher.line(), "type"), "conn_new");
        assert_eq!(field(&watcher.line(), "reason"), reason, "{sent:?}");
    }
}

#[test]
fn by_datagram_nobody_watches() {
    let server = Server::start("-U -1");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket
        .connect(("127.0.0.1", server.ports[1]))
        .expect("our machine");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    socket.send(b"\0\0\0\0\0\x01\0\0watch\r\n").expect("sent");
    let mut buffer = [0; 200];
    let len = socket.recv(&mut buffer).expect("a reply");
    assert_eq!(&buffer[8..len], b"CLIENT_ERROR this is answered by TCP only\r\n");
    assert_eq!(server.statistic("log_watchers"), 0);
}

#[test]
fn a_server_with_watchers_stops() {
    let server = Server::start("-t 2");
    let mut watcher = Watcher::new(&server, "connevents");
    let (status, _) = server.stop("TERM");
    assert_eq!(status, Some(0));
    watcher.0.read_to_end(&mut Vec::new()).expect("the end in time");
}
