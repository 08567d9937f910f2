//! Listing and moving everything that a cache holds, over real sockets, with Debian's memcached as source and destination.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};

use crate::kit::{Dir, Server, run, said_by};
use crate::tls::Certificates;

/// Flags, seconds left to live, value, and whether the key is marked as binary.
type Item = (u32, Option<u64>, Vec<u8>, bool);

type Items = BTreeMap<Vec<u8>, Item>;

struct Client(BufReader<TcpStream>);

impl Client {
    fn new(server: &Server) -> Client {
        Client(BufReader::new(server.connect()))
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).expect("sent");
    }

    fn line(&mut self) -> String {
        let mut line = Vec::new();
        self.0.read_until(b'\n', &mut line).expect("a line");
        assert!(!line.is_empty(), "the server closed");
        String::from_utf8(line).expect("text")
    }

    /// Lines of a list, and its last line.
    fn list(&mut self, order: &str) -> (Vec<String>, String) {
        self.send(format!("{order}\r\n").as_bytes());
        let mut lines = Vec::new();
        loop {
            let line = self.line();
            if !line.starts_with("key=") && !line.starts_with("mg ") && !line.starts_with("ITEM ") {
                return (lines, line);
            }
            lines.push(line);
        }
    }

    /// The keys of a `metadump`, sorted.
    fn keys(&mut self, words: &str) -> Vec<Vec<u8>> {
        let (lines, end) = self.list(&format!("lru_crawler metadump {words}"));
        assert_eq!(end, "END\r\n");
        let mut keys: Vec<Vec<u8>> = lines.iter().map(|line| key_of(line)).collect();
        keys.sort();
        keys
    }

    fn store(&mut self, items: &Items) {
        for (key, (flags, ttl, value, is_binary)) in items {
            let (word, flag) = match is_binary {
                true => (STANDARD.encode(key), " b"),
                false => (String::from_utf8(key.clone()).expect("text"), ""),
            };
            let ttl = ttl.unwrap_or(0);
            let head = format!("ms {word} {}{flag} F{flags} T{ttl}\r\n", value.len());
            self.send(&[head.as_bytes(), value, b"\r\n"].concat());
            assert_eq!(self.line(), "HD\r\n");
        }
    }

    /// Everything that the server holds, by its own list.
    fn everything(&mut self) -> Items {
        let keys = self.keys("hash");
        let mut items = Items::new();
        for key in keys {
            self.send(format!("mg {} b f t k v\r\n", STANDARD.encode(&key)).as_bytes());
            let head = self.line();
            let words: Vec<&str> = head.split_whitespace().collect();
            assert_eq!(words[0], "VA", "{head}");
            let mut value = vec![0; words[1].parse::<usize>().expect("a length") + 2];
            self.0.read_exact(&mut value).expect("a value");
            value.truncate(value.len() - 2);
            let number = |letter| {
                words[2..]
                    .iter()
                    .find_map(|word| word.strip_prefix(letter)?.parse::<i64>().ok())
            };
            let item = (
                number('f').expect("flags") as u32,
                number('t').and_then(|ttl| u64::try_from(ttl).ok()),
                value,
                words[4..].contains(&"b"),
            );
            assert!(items.insert(key, item).is_none(), "a key is listed twice");
        }
        items
    }
}

fn key_of(line: &str) -> Vec<u8> {
    let word = line
        .strip_prefix("key=")
        .and_then(|rest| rest.split(' ').next())
        .expect("a key");
    scrubjay_protocol::dump::percent_decode(word.as_bytes()).expect("percent-encoded")
}

/// Items of all kinds; the largest value has `largest` bytes.
fn items(count: usize, largest: usize) -> Items {
    let mut random = StdRng::seed_from_u64(count as u64);
    let mut items = Items::new();
    for number in 0..count {
        let is_binary = number % 5 == 4;
        let key = match is_binary {
            true => [&[0, 255, b' ', b'\n'][..], format!("{number}").as_bytes()].concat(),
            false => format!("key:{}:%{number}", number % 3).into_bytes(),
        };
        let len = match number {
            0 => largest,
            1 => 0,
            _ => random.random_range(0..300),
        };
        let mut value = vec![0; len];
        random.fill_bytes(&mut value);
        let ttl = (number % 3 == 0).then(|| random.random_range(1000..2_000_000));
        items.insert(key, (random.random(), ttl, value, is_binary));
    }
    items
}

fn check_equal(one: &Items, other: &Items) {
    assert_eq!(one.len(), other.len());
    for ((key, one), (other_key, other)) in one.iter().zip(other) {
        let key = String::from_utf8_lossy(key);
        assert_eq!(key, String::from_utf8_lossy(other_key));
        assert!(one.2 == other.2, "{key}: values differ");
        assert_eq!((one.0, one.3), (other.0, other.3), "{key}");
        // The clocks' seconds and those that the test takes, which are many on a busy machine.
        let difference = one.1.unwrap_or(0).abs_diff(other.1.unwrap_or(0));
        assert!(
            one.1.is_some() == other.1.is_some() && difference < 300,
            "{key}: {:?} {:?}",
            one.1,
            other.1
        );
    }
}

/// Runs a command line that must succeed, and returns what it said.
fn succeed(line: &str) -> String {
    said_by(line, 0)
}

/// Runs one that must end with `exit` and say all of `words`.
fn refuse(line: &str, exit: i32, words: &[&str]) {
    let said = said_by(line, exit);
    for word in words {
        assert!(said.contains(word), "{line}: {word:?} is not in {said}");
    }
}

fn address(server: &Server) -> String {
    format!("127.0.0.1:{}", server.ports[0])
}

fn shown(path: &Path) -> &str {
    path.to_str().expect("text")
}

#[test]
fn what_is_dumped_into_a_file_and_loaded_is_the_same() {
    let (source, destination, dir) = (
        Server::start("-m 128 -I 16m"),
        Server::start("-m 128 -I 16m"),
        Dir::new(),
    );
    let items = items(5000, 10 << 20);
    Client::new(&source).store(&items);
    let file = dir.path("dump");
    let said = succeed(&format!("dump {} --server {}", shown(&file), address(&source)));
    assert!(
        said.contains("5,000 items") && said.contains("0 skipped, 0 failed"),
        "{said}"
    );
    let said = succeed(&format!(
        "load {} --server {} --connections 3",
        shown(&file),
        address(&destination)
    ));
    assert!(
        said.contains("5,000 items") && said.contains("0 skipped, 0 failed"),
        "{said}"
    );
    check_equal(&items, &Client::new(&destination).everything());
    // The other way round nothing is new, and what is there may stay.
    let said = succeed(&format!(
        "load {} --keep-existing --server {}",
        shown(&file),
        address(&destination)
    ));
    assert!(
        said.contains("0 items") && said.contains("5000 there already"),
        "{said}"
    );
    assert_eq!(
        String::from_utf8_lossy(&run(&format!("load --check {}", shown(&file))).stdout)
            .split(" in ")
            .next(),
        Some(&*format!("{}: 5,000 items", shown(&file)))
    );
}

/// Moves items between encrypted servers with users, no faster than it is told to.
#[test]
fn items_go_through_encryption_and_logins_at_the_rate_that_is_asked_for() {
    let (certificates, dir) = (Certificates::new(), Dir::new());
    let [users, login, wrong, file] = ["users", "login", "wrong", "dump"].map(|name| dir.path(name));
    std::fs::write(&users, "anna:secret\n").expect("ours");
    std::fs::write(&login, "anna:secret\n").expect("ours");
    std::fs::write(&wrong, "anna:guess\n").expect("ours");
    let options = format!("-m 64 {} -Y {}", certificates.options(), shown(&users));
    let [source, destination] = [(); 2].map(|()| Server::start(&options));
    let plain = Server::start("-m 64");
    let items = items(600, 200_000);
    Client::new(&plain).store(&items);
    let ca = certificates.path("chain");
    let at = |server: &Server, prefix: &str, login: &Path| {
        let (login, ca) = (shown(login), shown(&ca));
        let port = server.ports[0];
        let server = if prefix.is_empty() { "server" } else { "to" };
        format!("--{server} localhost:{port} --{prefix}login {login} --{prefix}tls-ca {ca}")
    };
    let into = format!("dump --server {}", address(&plain));
    succeed(&format!("{into} {}", at(&source, "to-", &login)));
    let started = Instant::now();
    let rate = 1000;
    succeed(&format!(
        "dump {} --rate {rate} {}",
        shown(&file),
        at(&source, "", &login)
    ));
    // It has no way of being faster: the lower bound does not depend on the machine.
    let least = Duration::from_secs_f64((items.len() as f64 / f64::from(rate)) / 2.0);
    assert!(
        started.elapsed() >= least,
        "{:?} at {rate} a second",
        started.elapsed()
    );
    let started = Instant::now();
    let load = format!("load {} --rate {rate}", shown(&file));
    succeed(&format!("{load} {}", at(&destination, "", &login)));
    assert!(
        started.elapsed() >= least,
        "{:?} at {rate} a second",
        started.elapsed()
    );
    // Back into the clear, to be looked at.
    let copy = Server::start("-m 64");
    succeed(&format!(
        "dump --to {} {}",
        address(&copy),
        at(&destination, "", &login)
    ));
    check_equal(&items, &Client::new(&copy).everything());
    for line in [&format!("dump {}.2", shown(&file)), &load] {
        refuse(&format!("{line} {}", at(&source, "", &wrong)), 2, &["--login"]);
        let port = source.ports[0];
        refuse(
            &format!("{line} --server localhost:{port} --tls-ca {}", shown(&ca)),
            2,
            &["--login"],
        );
        refuse(
            &format!("{line} --server localhost:{port} --login {}", shown(&login)),
            2,
            &[],
        );
    }
}

#[test]
fn items_go_from_memcached_here_and_back() {
    let [first, last] = [(); 2].map(|()| Server::start_memcached("-m 64"));
    let (here, dir) = (Server::start("-m 64"), Dir::new());
    let items = items(2000, 1_000_000);
    Client::new(&first).store(&items);
    succeed(&format!(
        "dump --to {} --server {}",
        address(&here),
        address(&first)
    ));
    check_equal(&items, &Client::new(&here).everything());
    let file = dir.path("dump");
    succeed(&format!("dump {} --server {}", shown(&file), address(&here)));
    succeed(&format!("load {} --server {}", shown(&file), address(&last)));
    check_equal(&items, &Client::new(&last).everything());
}

#[test]
fn values_that_the_destination_refuses_are_told_and_the_others_arrive() {
    let (source, destination) = (Server::start("-m 64 -I 2m"), Server::start("-m 64 -I 512k"));
    let items = items(100, 1 << 20);
    Client::new(&source).store(&items);
    let line = format!(
        "dump --to {} --server {}",
        address(&destination),
        address(&source)
    );
    refuse(
        &line,
        1,
        &["99 items", "1 failed (1 SERVER_ERROR object too large for cache)"],
    );
    let rest = items
        .into_iter()
        .filter(|(_, item)| item.2.len() < 1 << 20)
        .collect();
    check_equal(&rest, &Client::new(&destination).everything());
}

#[test]
fn filters_choose_the_same_items_wherever_they_are_applied() {
    let (here, memcached) = (Server::start("-m 64"), Server::start_memcached("-m 64"));
    let items = items(300, 5000);
    for server in [&here, &memcached] {
        Client::new(server).store(&items);
    }
    let check = |words: &str, options: &str, is_wanted: &dyn Fn(&[u8], &Item) -> bool| {
        let mut wanted: Vec<Vec<u8>> = items
            .iter()
            .filter(|(key, item)| is_wanted(key, item))
            .map(|(key, _)| key.clone())
            .collect();
        wanted.sort();
        assert_eq!(
            Client::new(&here).keys(&format!("all {words}")),
            wanted,
            "{words}"
        );
        for source in [&here, &memcached] {
            let copy = Server::start("-m 64");
            succeed(&format!(
                "dump {options} --to {} --server {}",
                address(&copy),
                address(source)
            ));
            let copied: Vec<Vec<u8>> = Client::new(&copy).everything().into_keys().collect();
            assert_eq!(copied, wanted, "{options}");
        }
    };
    check("prefix=key%3A1", "--prefix key:1", &|key, _| {
        key.starts_with(b"key:1")
    });
    check("size>=4000", "--size-min 4000", &|_, item| item.2.len() > 4000);
    check("size<=4000", "--size-max 4000", &|_, item| item.2.len() < 4000);
    check("ttl>=1000000", "--ttl-min 1000000", &|_, item| {
        item.1.is_none_or(|ttl| ttl > 1_000_000)
    });
    check("ttl<=1000000", "--ttl-max 1000000", &|_, item| {
        item.1.is_some_and(|ttl| ttl < 1_000_000)
    });
    check("age>=1000", "--age-min 1000", &|_, _| false);
    check(
        "age<=1000 prefix=key%3A2 ttl>=5",
        "--age-max 1000 --prefix key:2 --ttl-min 5",
        &|key, _| key.starts_with(b"key:2"),
    );
}

#[test]
fn a_file_can_be_loaded_in_part_by_the_same_filters() {
    let (source, dir) = (Server::start("-m 64"), Dir::new());
    let (items, file) = (items(300, 5000), dir.path("dump"));
    Client::new(&source).store(&items);
    succeed(&format!("dump {} --server {}", shown(&file), address(&source)));
    let check = |options: &str, is_wanted: &dyn Fn(&[u8], &Item) -> bool| {
        let copy = Server::start("-m 64");
        succeed(&format!(
            "load {options} {} --server {}",
            shown(&file),
            address(&copy)
        ));
        let wanted = items.iter().filter(|(key, item)| is_wanted(key, item));
        let wanted = wanted.map(|(key, item)| (key.clone(), item.clone())).collect();
        check_equal(&wanted, &Client::new(&copy).everything());
    };
    check("--prefix key:1", &|key, _| key.starts_with(b"key:1"));
    check("--size-min 4000", &|_, item| item.2.len() > 4000);
    check("--ttl-min 1000000", &|_, item| {
        item.1.is_none_or(|ttl| ttl > 1_000_000)
    });
    check("--ttl-max 1000000", &|_, item| {
        item.1.is_some_and(|ttl| ttl < 1_000_000)
    });
}

/// Rewrites a dump as if it had been taken so many seconds earlier.
fn age(file: &Path, secs: u64) {
    let mut bytes = std::fs::read(file).expect("our file");
    let mut at = 16;
    while bytes[at..].starts_with(b"BLK\n") {
        let long =
            |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let taken = long(&bytes, at + 16) - secs * 1000;
        bytes[at + 16..at + 24].copy_from_slice(&taken.to_le_bytes());
        let check = xxhash_rust::xxh3::xxh3_64(&bytes[at..at + 40]);
        bytes[at + 40..at + 48].copy_from_slice(&check.to_le_bytes());
        at += 48 + (long(&bytes, at + 4) & 0xffff_ffff) as usize;
    }
    std::fs::write(file, bytes).expect("our file");
}

#[test]
fn lives_go_on_between_dump_and_load_unless_they_are_kept() {
    let (source, dir) = (Server::start("-m 64"), Dir::new());
    let item = |ttl| (0, ttl, b"value".to_vec(), false);
    let items: Items = [("soon", Some(5_000)), ("later", Some(50_000)), ("never", None)]
        .map(|(key, ttl)| (key.as_bytes().to_vec(), item(ttl)))
        .into();
    Client::new(&source).store(&items);
    let file = dir.path("dump");
    succeed(&format!("dump {} --server {}", shown(&file), address(&source)));
    age(&file, 10_000);
    let rebased = Server::start("-m 64");
    let said = succeed(&format!("load {} --server {}", shown(&file), address(&rebased)));
    assert!(said.contains("2 items") && said.contains("1 expired"), "{said}");
    let expected =
        [("later", Some(40_000)), ("never", None)].map(|(key, ttl)| (key.as_bytes().to_vec(), item(ttl)));
    check_equal(&expected.into(), &Client::new(&rebased).everything());
    let kept = Server::start("-m 64");
    succeed(&format!(
        "load --keep-ttl {} --server {}",
        shown(&file),
        address(&kept)
    ));
    check_equal(&items, &Client::new(&kept).everything());
}

#[test]
fn a_damaged_file_is_told_precisely_and_salvaged_only_on_request() {
    let (source, dir) = (Server::start("-m 64"), Dir::new());
    let items = items(3000, 100);
    Client::new(&source).store(&items);
    let file = dir.path("dump");
    let dump = format!("dump {} --server {}", shown(&file), address(&source));
    succeed(&dump);
    refuse(&dump, 2, &["is there already", "--force"]);
    let whole = std::fs::read(&file).expect("our file");
    let check = |bytes: &[u8], words: &[&str]| {
        std::fs::write(&file, bytes).expect("our file");
        let destination = Server::start("-m 64");
        let load = format!("load {} --server {}", shown(&file), address(&destination));
        refuse(&load, 2, &[words, &["nothing was loaded", "--salvage"]].concat());
        refuse(&format!("load --check {}", shown(&file)), 1, words);
        assert_eq!(Client::new(&destination).keys("all"), [b""; 0]);
        refuse(&format!("{load} --salvage"), 1, words);
        let salvaged = Client::new(&destination).everything();
        assert!(!salvaged.is_empty() && salvaged.len() < items.len());
        let original = salvaged
            .keys()
            .map(|key| (key.clone(), items[key].clone()))
            .collect();
        check_equal(&original, &salvaged);
    };
    let len = whole.len() / 2;
    check(&whole[..len], &[&format!("is truncated: it ends at byte {len}")]);
    let mut damaged = whole.clone();
    damaged[70] ^= 1;
    check(
        &damaged,
        &["block 1 at byte 16, of 256 items, does not match its checksum"],
    );
    damaged = whole.clone();
    damaged[20] ^= 1;
    check(&damaged, &["is damaged at byte 16: no block begins there"]);
    std::fs::write(&file, &whole[..10]).expect("our file");
    refuse(&format!("load {}", shown(&file)), 2, &["is no dump"]);
    refuse(&format!("load {}", shown(&dir.path("none"))), 2, &["cannot read"]);

    // What was cut off can be fetched: the rest of the same server's list.
    std::fs::write(&file, &whole[..whole.len() - 60]).expect("our file");
    succeed(&format!("{dump} --resume"));
    refuse(&format!("{dump} --resume"), 2, &["is a whole dump already"]);
    let destination = Server::start("-m 64");
    succeed(&format!(
        "load {} --server {}",
        shown(&file),
        address(&destination)
    ));
    check_equal(&items, &Client::new(&destination).everything());
    // Another server's list goes another way.
    std::fs::write(&file, &whole[..whole.len() - 60]).expect("our file");
    let other = format!(
        "dump {} --resume --server {}",
        shown(&file),
        address(&destination)
    );
    refuse(&other, 2, &["cursor", "dump anew"]);
}

#[test]
fn under_load_what_stays_is_dumped_once_and_what_comes_and_goes_harms_nothing() {
    let (source, dir) = (Server::start("-m 64 -t 4"), Dir::new());
    let items = items(4000, 100);
    Client::new(&source).store(&items);
    let is_over = AtomicBool::new(false);
    let file = dir.path("dump");
    std::thread::scope(|scope| {
        // Also when an assertion fails: the scope waits for the writers.
        let _ends = Ends(&is_over);
        for writer in 0..2 {
            let (source, is_over) = (&source, &is_over);
            scope.spawn(move || {
                let mut client = Client::new(source);
                let mut number = 0u64;
                // The index grows and shrinks with these.
                while !is_over.load(Ordering::Relaxed) {
                    let verb = if (number / 5000).is_multiple_of(2) {
                        "ms"
                    } else {
                        "md"
                    };
                    let key = format!("passing:{writer}:{}", number % 5000);
                    let tail = if verb == "ms" {
                        " 5 T0\r\nvalue\r\n"
                    } else {
                        "\r\n"
                    };
                    client.send(format!("{verb} {key}{tail}").as_bytes());
                    client.line();
                    number += 1;
                }
            });
        }
        for round in 0..5 {
            succeed(&format!(
                "dump {} --force --server {}",
                shown(&file),
                address(&source)
            ));
            let destination = Server::start("-m 64");
            succeed(&format!(
                "load {} --server {}",
                shown(&file),
                address(&destination)
            ));
            let mut all = Client::new(&destination).everything();
            all.retain(|key, _| !key.starts_with(b"passing:"));
            check_equal(&items, &all);
            let keys = Client::new(&source).keys("all");
            let mut once = keys.clone();
            once.dedup();
            assert!(keys == once, "round {round}: no key is listed twice");
        }
    });
}

/// Ends the writers when dropped.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn lists_go_side_by_side_and_one_that_is_not_read_holds_up_nobody() {
    let server = Server::start("-m 64 -t 1");
    let items = items(20_000, 100);
    Client::new(&server).store(&items);
    // Three megabytes: more than sockets take without being read.
    let mut lazy: Vec<Client> = (0..3).map(|_| Client::new(&server)).collect();
    for client in &mut lazy {
        client.send(b"lru_crawler metadump all\r\nlru_crawler mgdump all\r\nmn\r\n");
    }
    let keys: Vec<Vec<u8>> = items.keys().cloned().collect();
    let mut others: Vec<Client> = (0..3).map(|_| Client::new(&server)).collect();
    for client in &mut others {
        client.send(b"lru_crawler metadump all\r\n");
    }
    assert_eq!(Client::new(&server).keys("all"), keys);
    for client in &mut others {
        let mut listed = Vec::new();
        loop {
            let line = client.line();
            if line == "END\r\n" {
                break;
            }
            listed.push(key_of(&line));
        }
        listed.sort();
        assert!(listed == keys);
    }
    for mut client in lazy {
        let lines: Vec<String> = (0..2 * keys.len() + 3).map(|_| client.line()).collect();
        assert_eq!(lines[keys.len()], "END\r\n");
        assert_eq!(lines[2 * keys.len() + 1..], ["EN\r\n", "MN\r\n"]);
    }
}

#[test]
fn pages_together_are_the_whole_list() {
    let server = Server::start("-m 64");
    let items = items(5000, 100);
    Client::new(&server).store(&items);
    let mut client = Client::new(&server);
    let (mut keys, mut from, mut pages) = (Vec::new(), "0".to_owned(), 0);
    loop {
        let (lines, end) = client.list(&format!("lru_crawler metadump all limit=100 from={from}"));
        keys.extend(lines.iter().map(|line| key_of(line)));
        pages += 1;
        match end.trim_end().strip_prefix("END next=") {
            Some(next) => {
                assert!((100..300).contains(&lines.len()), "{} lines", lines.len());
                from = next.to_owned();
            }
            None => break assert_eq!(end, "END\r\n"),
        }
    }
    keys.sort();
    assert!(keys == items.into_keys().collect::<Vec<_>>());
    assert!(pages > 15, "{pages}");
}

#[test]
fn classes_of_cachedump_together_are_everything() {
    let server = Server::start("-m 64");
    let items: Items = items(500, 50_000)
        .into_iter()
        .filter(|(_, item)| !item.3)
        .collect();
    Client::new(&server).store(&items);
    let mut client = Client::new(&server);
    let mut keys = Vec::new();
    client.send(b"stats items\r\n");
    let mut classes = Vec::new();
    loop {
        let line = client.line();
        if line == "END\r\n" {
            break;
        }
        if line.contains(":number ") {
            classes.push(line.split(':').nth(1).expect("a class").to_owned());
        }
    }
    for class in &classes {
        let (lines, end) = client.list(&format!("stats cachedump {class} 0"));
        assert_eq!(end, "END\r\n");
        let by_class = client.list(&format!("lru_crawler metadump {class}")).0;
        assert_eq!(lines.len(), by_class.len());
        for line in &lines {
            let words: Vec<&str> = line.split_whitespace().collect();
            assert_eq!(
                words[2],
                format!("[{}", items[words[1].as_bytes()].2.len()),
                "{line}"
            );
            keys.push(words[1].as_bytes().to_vec());
        }
        assert_eq!(client.list(&format!("stats cachedump {class} 1")).0.len(), 1);
    }
    keys.sort();
    assert!(keys == items.into_keys().collect::<Vec<_>>());
}

#[test]
fn where_dumps_are_off_nobody_lists() {
    let server = Server::start("-m 64 -X");
    let mut client = Client::new(&server);
    for (order, answer) in [
        ("lru_crawler metadump all", "ERROR metadump not allowed\r\n"),
        ("lru_crawler mgdump all", "ERROR metadump not allowed\r\n"),
        (
            "stats cachedump 1 0",
            "CLIENT_ERROR stats cachedump not allowed\r\n",
        ),
    ] {
        assert_eq!(client.list(order), (Vec::new(), answer.to_owned()), "{order}");
    }
    refuse(
        &format!("dump - --server {}", address(&server)),
        2,
        &["it was started with -X"],
    );
    let disabled = Server::start_memcached("-m 64 -o no_lru_crawler");
    refuse(
        &format!("dump - --server {}", address(&disabled)),
        2,
        &["lru_crawler enable"],
    );
}
