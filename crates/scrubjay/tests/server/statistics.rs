//! Statistics of a running server, beside memcached's and for the tools that read them.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Command;

use scrubjay_server::stats::why_absent;

use crate::kit::{Server, ask, until};

/// Debian's package of memcached has it there.
const MEMCACHED_TOOL: &str = "/usr/share/memcached/scripts/memcached-tool";

pub type Stats = BTreeMap<String, String>;

/// Asks for a group, and gives what comes up to `END`.
pub fn stats(stream: &mut BufReader<TcpStream>, group: &str) -> Stats {
    let line = format!("stats {group}\r\n");
    stream.get_mut().write_all(line.as_bytes()).expect("connected");
    let mut stats = Stats::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).expect("an answer");
        let line = line.strip_suffix("\r\n").expect("a line");
        if line == "END" {
            return stats;
        }
        let line = line.strip_prefix("STAT ").expect(line);
        let (name, value) = line.split_once(' ').expect(line);
        assert_eq!(stats.insert(name.to_owned(), value.to_owned()), None, "{name}");
    }
}

pub fn connect(server: &Server) -> BufReader<TcpStream> {
    BufReader::new(server.connect())
}

/// Something to count, of many sizes.
fn load(server: &Server) {
    let mut batch = Vec::new();
    for index in 0..300 {
        let value = "x".repeat(index * 11);
        batch.extend_from_slice(
            format!("set {}:{index} 0 0 {}\r\n{value}\r\n", index % 3, value.len()).as_bytes(),
        );
    }
    batch.extend_from_slice(b"get 0:0 0:299\r\ndelete 1:1\r\ndelete nothing\r\n");
    let mut stream = connect(server);
    stream.get_mut().write_all(&batch).expect("connected");
    assert_eq!(ask(stream.get_ref(), "touch 2:2 100").as_str(), "STORED");
    until(|| (stats(&mut connect(server), "")["cmd_touch"] == "1").then_some(())).expect("all is done");
}

/// Names that count for each of many: without the part that says which one.
fn kind(group: &str, name: &str) -> String {
    let parts: Vec<&str> = name.split(':').collect();
    match (group, &parts[..]) {
        ("items", ["items", _, name]) | ("slabs" | "conns", [_, name]) => (*name).to_owned(),
        ("sizes", [size]) if size.parse::<u64>().is_ok() => "size".to_owned(),
        _ => name.to_owned(),
    }
}

fn is_number(value: &str) -> bool {
    value.parse::<f64>().is_ok()
}

#[test]
fn what_memcached_tells_is_told_here_or_missing_for_a_reason() {
    let ours = Server::start("-t 2");
    for options in ["", "-o track_sizes"] {
        let memcacheds = Server::start_memcached(options);
        for server in [&ours, &memcacheds] {
            load(server);
        }
        for group in ["", "settings", "items", "slabs", "sizes", "conns", "extstore"] {
            let of = |server| -> Stats {
                let stats = stats(&mut connect(server), group);
                let pairs = stats.into_iter();
                pairs.map(|(name, value)| (kind(group, &name), value)).collect()
            };
            let told = of(&ours);
            let command = format!("stats {group}");
            for (name, theirs) in of(&memcacheds) {
                match (told.get(&name), why_absent(command.trim_end(), &name)) {
                    (Some(own), None) => {
                        assert_eq!(
                            is_number(own),
                            is_number(&theirs),
                            "{command}: {name} {own:?} {theirs:?}"
                        );
                    }
                    (None, Some(_)) => {}
                    (own, why) => panic!("{command}: {name} is {own:?} here, and absent because of {why:?}"),
                }
            }
        }
        drop(memcacheds);
        ask(ours.connect(), "stats reset");
        ask(ours.connect(), "flush_all");
    }
}

#[test]
fn classes_add_up_to_what_there_is() {
    let server = Server::start("-t 2");
    load(&server);
    let mut stream = connect(&server);
    let number = |stats: &Stats, name: &str| stats[name].parse::<u64>().expect(name);
    let sum = |stats: &Stats, group: &str, wanted: &str| -> u64 {
        let of = stats.iter().filter(|(name, _)| kind(group, name) == wanted);
        of.map(|(_, value)| value.parse::<u64>().expect(value)).sum()
    };
    let general = stats(&mut stream, "");
    let (items, bytes) = (number(&general, "curr_items"), number(&general, "bytes"));
    assert_eq!(items, 299);
    let told = stats(&mut stream, "items");
    assert_eq!(
        (
            sum(&told, "items", "number"),
            sum(&told, "items", "mem_requested")
        ),
        (items, bytes)
    );
    let told = stats(&mut stream, "slabs");
    assert_eq!(
        (
            sum(&told, "slabs", "used_chunks"),
            sum(&told, "slabs", "mem_requested")
        ),
        (items, bytes)
    );
    assert_eq!(sum(&told, "slabs", "cmd_set"), 300);
    // A chunk is the mean item, so that what is counted as wasted is the rounding only.
    let classes = number(&told, "active_slabs");
    assert!(classes > 20, "{classes}");
    for (name, size) in told.iter().filter(|(name, _)| name.ends_with(":chunk_size")) {
        let class = name.split(':').next().expect("a number");
        let used = number(&told, &format!("{class}:used_chunks"));
        let taken = size.parse::<u64>().expect(size) * used;
        let wanted = number(&told, &format!("{class}:mem_requested"));
        assert!(
            taken >= wanted && taken - wanted < used,
            "{name}: {taken} for {wanted}"
        );
    }
    let told = stats(&mut stream, "sizes");
    assert_eq!(sum(&told, "sizes", "size"), items);
    assert!(told.keys().all(|name| name.parse::<u64>().is_ok()), "{told:?}");
    // After a reset, what is there is there; what has happened is forgotten.
    assert_eq!(ask(stream.get_ref(), "stats reset"), "RESET");
    let told = stats(&mut stream, "slabs");
    assert_eq!(
        (sum(&told, "slabs", "used_chunks"), sum(&told, "slabs", "cmd_set")),
        (items, 0)
    );
}

#[test]
fn evictions_and_deaths_are_told_by_size() {
    let server = Server::start("-m 8 -I 1m -t 1");
    let mut stream = connect(&server);
    for round in 0..40 {
        let mut batch = Vec::new();
        for index in 0..100 {
            let value = "x".repeat(5_000);
            let head = format!(
                "set {round}:{index} 0 {} 5000 noreply\r\n{value}\r\n",
                index % 2 * 1000
            );
            batch.extend_from_slice(head.as_bytes());
        }
        stream.get_mut().write_all(&batch).expect("connected");
    }
    // Between the two tables more may be evicted.
    until(|| {
        let general = stats(&mut stream, "");
        let items = stats(&mut stream, "items");
        let sum = |wanted: &str| -> u64 {
            let of = items.iter().filter(|(name, _)| kind("items", name) == wanted);
            of.map(|(_, value)| value.parse::<u64>().expect(value)).sum()
        };
        assert!(sum("evicted") > 1000, "{items:?}");
        let expiring = sum("evicted_nonzero");
        assert!(expiring > 0 && expiring < sum("evicted"), "{items:?}");
        let sums = [
            ("evicted", "evictions"),
            ("evicted_unfetched", "evicted_unfetched"),
            ("number", "curr_items"),
        ];
        let equal = |(of_items, name): (&str, &str)| sum(of_items).to_string() == general[name];
        sums.into_iter().all(equal).then_some(())
    })
    .expect("the sums are those of all");
}

#[test]
fn every_socket_is_listed_by_whoever_asks_at_the_same_time() {
    let server = Server::start("-t 3");
    let mut idle = server.connect();
    let mut partial = server.connect();
    partial.write_all(b"set k 0 0 10\r\nabc").expect("connected");
    idle.write_all(b"mn\r\n").expect("connected");
    idle.read_exact(&mut [0; 4]).expect("an answer");
    let fresh = server.connect();
    let port = server.ports[0];
    let check = || {
        let told = stats(&mut connect(&server), "conns");
        let state_of = |local: &TcpStream| {
            let address = format!("tcp:{}", local.local_addr().expect("connected"));
            let (name, _) = told.iter().find(|(_, value)| **value == address)?;
            let number = name.strip_suffix(":addr").expect("an address");
            assert_eq!(
                told[&format!("{number}:listen_addr")],
                format!("tcp:127.0.0.1:{port}")
            );
            let secs = &told[&format!("{number}:secs_since_last_cmd")];
            assert!(secs.parse::<u64>().is_ok(), "{secs}");
            let last = told.get(&format!("{number}:last_cmd")).map(String::as_str);
            let lasts = [(&idle, Some("mn")), (&partial, Some("set")), (&fresh, None)];
            let expected = lasts.iter().find(|(other, _)| std::ptr::eq(*other, local));
            // What was sent may not have been read yet.
            if last != expected.expect("one of them").1 {
                return None;
            }
            Some(told[&format!("{number}:state")].clone())
        };
        let states = [&idle, &partial, &fresh].map(state_of);
        let expected = ["conn_read", "conn_nread", "conn_new_cmd"].map(|state| Some(state.to_owned()));
        assert!(told.values().any(|state| state == "conn_listening"), "{told:?}");
        assert!(told.values().any(|state| state == "conn_parse_cmd"), "{told:?}");
        (states == expected).then_some(())
    };
    until(check).expect("everybody is listed as what it is");
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| (0..30).for_each(|_| check().expect("as before")));
        }
    });
    // Neither one who leaves before the answer nor one who asks for more behind it does harm.
    for _ in 0..20 {
        server.connect().write_all(b"stats conns\r\n").expect("connected");
    }
    let mut stream = server.connect();
    stream
        .write_all(b"stats conns\r\nmn\r\nquit\r\n")
        .expect("connected");
    let mut said = String::new();
    stream.read_to_string(&mut said).expect("an end");
    assert!(said.ends_with("END\r\nMN\r\n"), "{said}");
    let (exit, said) = server.stop("USR1");
    assert_eq!(exit, Some(0), "{said}");
}

#[test]
fn requests_are_counted_by_prefix_while_somebody_wants_it() {
    let server = Server::start("-t 2");
    let dump = || {
        let mut stream = connect(&server);
        stream
            .get_mut()
            .write_all(b"stats detail dump\r\n")
            .expect("connected");
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).expect("an answer");
            if line == "END\r\n" {
                return lines;
            }
            lines.push(line.trim_end().to_owned());
        }
    };
    let play = || {
        for line in ["set a:1 0 0 1\r\n1", "mg a:1", "delete a:9", "get none", "get :x"] {
            ask(server.connect(), line);
        }
        ask(server.connect(), "get a:2");
    };
    play();
    assert_eq!(dump(), [""; 0]);
    assert_eq!(ask(server.connect(), "stats detail on"), "OK");
    assert_eq!(stats(&mut connect(&server), "settings")["detail_enabled"], "yes");
    play();
    let expected = [
        "PREFIX  get 1 hit 0 set 0 del 0",
        "PREFIX a get 2 hit 1 set 1 del 1",
    ];
    assert_eq!(dump(), expected);
    assert_eq!(ask(server.connect(), "stats detail off"), "OK");
    play();
    assert_eq!(dump(), expected);
    assert_eq!(ask(server.connect(), "stats reset"), "RESET");
    assert_eq!(dump(), [""; 0]);
    let server = Server::start("-D /");
    ask(server.connect(), "get a/b");
    assert_eq!(
        ask(server.connect(), "stats detail dump"),
        "PREFIX a get 1 hit 0 set 0 del 0"
    );
}

#[test]
fn memcached_tool_reads_what_is_told() {
    let server = Server::start("-t 2");
    load(&server);
    let said = |mode: &str| {
        let address = format!("127.0.0.1:{}", server.ports[0]);
        let output = Command::new(MEMCACHED_TOOL).args([&address, mode]).output();
        let output = output.expect("memcached-tool runs: it comes with Debian's package memcached");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && stderr.is_empty(), "{mode}: {stderr}");
        String::from_utf8(output.stdout).expect("text")
    };
    let display = said("display");
    let columns = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(
        columns(display.lines().next().expect("a head")),
        columns("# Item_Size Max_age Pages Count Full? Evicted Evict_Time OOM")
    );
    let counts = display
        .lines()
        .skip(1)
        .map(|line| columns(line)[4].parse::<u64>().expect(line));
    assert_eq!(counts.sum::<u64>(), 299, "{display}");
    let holds = |text: &str, name: &str, value: &str| {
        let found = text.lines().any(|line| columns(line) == [name, value]);
        assert!(found, "{name} {value} in {text}");
    };
    holds(&said("stats"), "curr_items", "299");
    holds(&said("settings"), "maxbytes", "67108864");
    let sizes = said("sizes");
    let counts = sizes
        .lines()
        .skip(1)
        .map(|line| columns(line)[1].parse::<u64>().expect(line));
    assert_eq!(counts.sum::<u64>(), 299, "{sizes}");
}

/// What the Prometheus exporter of memcached reads. Source: prometheus/memcached_exporter, pkg/exporter/exporter.go,
/// `parseStats`, `collectSlabMetrics` and `parseStatsSettings`; `number_temp`, extstore's and the proxy's names it reads
/// where they are told only.
const EXPORTER: [(&str, &str); 4] = [
    (
        "",
        "uptime time version pid rusage_user rusage_system bytes limit_maxbytes curr_items total_items bytes_read \
         bytes_written curr_connections total_connections rejected_connections conn_yields listen_disabled_num evictions \
         reclaimed store_too_large store_no_memory lru_crawler_starts direct_reclaims crawler_items_checked \
         crawler_reclaimed moves_to_cold moves_to_warm moves_within_lru accepting_conns get_hits get_misses delete_hits \
         delete_misses incr_hits incr_misses decr_hits decr_misses cas_hits cas_misses cas_badval touch_hits touch_misses \
         cmd_flush cmd_set round_robin_fallback unexpected_napi_ids",
    ),
    (
        "items",
        "number age hits_to_hot hits_to_warm hits_to_cold hits_to_temp crawler_reclaimed evicted evicted_nonzero \
         evicted_time evicted_unfetched expired_unfetched outofmemory reclaimed tailrepairs mem_requested moves_to_cold \
         moves_to_warm moves_within_lru number_hot number_warm number_cold age_hot age_warm",
    ),
    (
        "slabs",
        "get_hits delete_hits incr_hits decr_hits cas_hits touch_hits cas_badval cmd_set chunk_size chunks_per_page \
         total_pages total_chunks used_chunks free_chunks free_chunks_end mem_requested total_malloced",
    ),
    (
        "settings",
        "maxconns lru_crawler lru_crawler_sleep lru_crawler_tocrawl lru_maintainer_thread hot_lru_pct warm_lru_pct \
         hot_max_factor warm_max_factor",
    ),
];

#[test]
fn the_exporter_finds_its_names_with_values_it_can_read() {
    let server = Server::start("");
    load(&server);
    for (group, names) in EXPORTER {
        let told = stats(&mut connect(&server), group);
        for name in names.split_whitespace() {
            let mut found = told
                .iter()
                .filter(|(told, _)| kind(group, told) == name)
                .peekable();
            assert!(found.peek().is_some(), "stats {group}: {name} is missing");
            let is_text = ["version", "lru_crawler", "lru_maintainer_thread"].contains(&name);
            found.for_each(|(_, value)| assert!(is_text || is_number(value), "{name} {value}"));
        }
    }
}

#[test]
fn time_without_listening_is_measured() {
    let server = Server::start("-c 2 -o no_maxconns_fast");
    let mut first = connect(&server);
    assert_eq!(stats(&mut first, "")["time_in_listen_disabled_us"], "0");
    let second = server.connect();
    let waiting = server.connect();
    let stopped = |told: &Stats| told["accepting_conns"] == "0" && told["listen_disabled_num"] == "1";
    until(|| stopped(&stats(&mut first, "")).then_some(())).expect("no more than two are accepted");
    drop(second);
    let mut third = BufReader::new(waiting);
    let micros = stats(&mut third, "")["time_in_listen_disabled_us"].clone();
    assert!(micros.parse::<u64>().expect("a number") > 0);
}

#[test]
fn many_connections_are_listed_to_the_last() {
    let server = Server::start("-t 2");
    let others: Vec<TcpStream> = (0..400).map(|_| server.connect()).collect();
    let mut stream = connect(&server);
    until(|| (stats(&mut stream, "")["curr_connections"] == "401").then_some(())).expect("all are accepted");
    let told = stats(&mut stream, "conns");
    let count = |name: &str| told.keys().filter(|told| told.ends_with(name)).count();
    assert_eq!(
        (count(":listen_addr"), count(":addr"), count(":state")),
        (401, 402, 402)
    );
    for other in &others {
        let address = format!("tcp:{}", other.local_addr().expect("connected"));
        assert!(told.values().any(|value| *value == address), "{address}");
    }
    // The binary protocol tells the same: a packet a line, and an empty one at the end.
    let mut binary = BufReader::new(server.connect());
    let request = [
        &[0x80, 0x10, 0, 5, 0, 0, 0, 0, 0, 0, 0, 5][..],
        &[0; 12],
        b"conns",
    ]
    .concat();
    binary.get_mut().write_all(&request).expect("connected");
    let mut lines = 0;
    loop {
        let mut head = [0; 24];
        binary.read_exact(&mut head).expect("a packet");
        let len = u32::from_be_bytes([head[8], head[9], head[10], head[11]]);
        if len == 0 {
            break;
        }
        binary.read_exact(&mut vec![0; len as usize]).expect("its body");
        lines += 1;
    }
    // Two have asked for something.
    assert_eq!(lines, 402 * 4 + 3 + 2);
}

#[test]
fn who_ends_its_input_behind_the_question_is_answered() {
    let server = Server::start("-t 3");
    for _ in 0..200 {
        let mut stream = server.connect();
        stream.write_all(b"stats conns\r\nmn\r\n").expect("connected");
        stream.shutdown(std::net::Shutdown::Write).expect("connected");
        let mut said = String::new();
        stream.read_to_string(&mut said).expect("an end");
        assert!(said.ends_with("END\r\nMN\r\n"), "{said}");
    }
}
