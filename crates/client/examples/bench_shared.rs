//! What sharing connections costs and gains: `bench_shared PROGRAM [NAME]...` starts `PROGRAM -p -1` (a server of memcached's
//! kind that writes the file `MEMCACHED_PORT_FILENAME`) as often as needed and runs the measurements that are named, or all.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use scrubjay_client::placement::Server as Place;
use scrubjay_client::protocol::{Get, Reply, Request, Store};
use scrubjay_client::{Call, Client, Config, Route};

const THREADS: usize = 30;

struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(program: &str) -> Server {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let file = std::env::temp_dir().join(format!("bench_shared-{}-{number}", std::process::id()));
        let mut command = Command::new(program);
        command.args([
            "-p",
            "-1",
            "-m",
            "64",
            "-t",
            "1",
            "-c",
            "4096",
            "-l",
            "127.0.0.1",
            "-U",
            "0",
        ]);
        if program.ends_with("memcached") {
            command.args(["-u", "root"]);
        }
        let child = command
            .env("MEMCACHED_PORT_FILENAME", &file)
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("the server starts");
        let port = loop {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            let line = text.lines().find(|line| line.starts_with("TCP"));
            match line.and_then(|line| line.rsplit(' ').next()?.parse().ok()) {
                Some(port) => break port,
                None => thread::yield_now(),
            }
        };
        let _ = std::fs::remove_file(&file);
        Server { child, port }
    }

    fn client(&self) -> Client {
        Client::new(Config::new(vec![Place::new("127.0.0.1", self.port)])).expect("one server")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Latencies in microseconds, told by their percentiles.
struct Latencies(Vec<f64>);

impl Latencies {
    fn new(all: impl IntoIterator<Item = Duration>) -> Latencies {
        let mut list: Vec<f64> = all.into_iter().map(|each| each.as_secs_f64() * 1e6).collect();
        list.sort_by(f64::total_cmp);
        Latencies(list)
    }

    fn at(&self, share: f64) -> f64 {
        self.0[((self.0.len() - 1) as f64 * share) as usize]
    }

    fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }

    fn show(&self, what: &str) {
        println!(
            "{what}: mean {:.1} us, p50 {:.1}, p99 {:.1}, p99.9 {:.1}, max {:.1} ({} calls)",
            self.mean(),
            self.at(0.5),
            self.at(0.99),
            self.at(0.999),
            self.at(1.0),
            self.0.len()
        );
    }
}

fn get(client: &Client, key: &[u8]) -> Reply {
    client
        .call(Request::Get(Get::new(key)), Call::default())
        .expect("a reply")
}

fn set(client: &Client, key: &[u8], value: &[u8]) {
    let stored = client.call(Request::Store(Store::new(key, value)), Call::default());
    assert_eq!(stored, Ok(Reply::Stored));
}

/// What a bare loop of write and read would take.
fn raw_loop(server: &Server, calls: usize) -> Latencies {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).expect("a connection");
    stream.set_nodelay(true).expect("settable");
    let mut buffer = vec![0; 64 * 1024];
    let one = |_| {
        let start = Instant::now();
        stream
            .write_all(b"mg key s v f k O12345678\r\n")
            .expect("writable");
        let len = stream.read(&mut buffer).expect("readable");
        assert!(len > 0);
        start.elapsed()
    };
    Latencies::new((0..calls).map(one))
}

fn single(program: &str) {
    let server = Server::start(program);
    let client = server.client();
    set(&client, b"key", &[b'v'; 100]);
    let calls = 50_000;
    for _ in 0..2 {
        raw_loop(&server, calls).show("single get, write and read");
        let one = |_| {
            let start = Instant::now();
            get(&client, b"key");
            start.elapsed()
        };
        Latencies::new((0..calls).map(one)).show("single get, client        ");
    }
}

/// Calls per second of many threads.
fn throughput(span: Duration, call: impl Fn(usize) + Send + Sync) -> f64 {
    let count = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let start = Barrier::new(THREADS + 1);
    let (call, count, stop, start) = (&call, &count, &stop, &start);
    thread::scope(|scope| {
        for index in 0..THREADS {
            scope.spawn(move || {
                start.wait();
                let mut own = 0;
                while !stop.load(Ordering::Relaxed) {
                    call(index);
                    own += 1;
                }
                count.fetch_add(own, Ordering::Relaxed);
            });
        }
        start.wait();
        thread::sleep(span);
        stop.store(true, Ordering::Relaxed);
    });
    count.load(Ordering::Relaxed) as f64 / span.as_secs_f64()
}

/// P12: 30 threads on one connection, shared or behind a mutex.
fn mutex(program: &str) {
    let server = Server::start(program);
    let client = server.client();
    set(&client, b"key", &[b'v'; 100]);
    let span = Duration::from_secs(2);
    for _ in 0..2 {
        let locked = Mutex::new(server.client());
        let behind = throughput(span, |_| {
            let client = locked.lock().expect("no panics");
            get(&client, b"key");
        });
        let shared = throughput(span, |_| {
            get(&client, b"key");
        });
        println!(
            "{THREADS} threads, one connection: behind a mutex {behind:.0}/s, shared {shared:.0}/s, {:.2} times",
            shared / behind
        );
    }
}

/// P11: 30 threads, 30 servers, 1,000 requests a second in all.
fn cold_sockets(program: &str) {
    let servers: Vec<Server> = (0..THREADS).map(|_| Server::start(program)).collect();
    let config = || {
        Config::new(
            servers
                .iter()
                .map(|server| Place::new("127.0.0.1", server.port))
                .collect(),
        )
    };
    let shared = Client::new(config()).expect("servers");
    let pool: Vec<Client> = (0..THREADS)
        .map(|_| Client::new(config()).expect("servers"))
        .collect();
    let run = |client_of: &(dyn Fn(usize) -> Client + Sync)| {
        let all = Arc::new(Mutex::new(Vec::new()));
        thread::scope(|scope| {
            for index in 0..THREADS {
                let (client, all) = (client_of(index), all.clone());
                scope.spawn(move || {
                    let places: Vec<_> = client.servers().collect();
                    let ask = |number: usize| {
                        let place = places[(number + index) % places.len()];
                        let call = Call {
                            route: Route::Server(place),
                            timeout: None,
                        };
                        let start = Instant::now();
                        client
                            .call(Request::Get(Get::new(b"key")), call)
                            .expect("a reply");
                        start.elapsed()
                    };
                    for number in 0..places.len() {
                        let _first = ask(number);
                    }
                    let mut own = Vec::new();
                    let begin = Instant::now() + Duration::from_millis(index as u64);
                    for number in 0..300 {
                        let due = begin + Duration::from_millis(30) * number;
                        thread::sleep(due.saturating_duration_since(Instant::now()));
                        own.push(ask(number as usize * 7));
                    }
                    all.lock().expect("no panics").extend(own);
                });
            }
        });
        Latencies::new(all.lock().expect("no panics").drain(..).collect::<Vec<_>>())
    };
    for _ in 0..2 {
        run(&|index| pool[index].clone()).show("30 x 30, a connection each  ");
        run(&|_| shared.clone()).show("30 x 30, shared connections ");
    }
}

/// P05: a miss, then a set of 10 KB, with gaps: 10,000 of them, by ten clients side by side, so that the long gaps take 100 s only.
fn stalls(program: &str) {
    let server = Server::start(program);
    let value = vec![b'v'; 10 * 1024];
    for gap in [0, 10, 100] {
        let one = |client: &Client, key: &str| {
            thread::sleep(Duration::from_millis(gap));
            let start = Instant::now();
            assert_eq!(get(client, key.as_bytes()), Reply::Miss);
            set(client, key.as_bytes(), &value);
            start.elapsed()
        };
        let of_client = |number: u32| {
            let client = server.client();
            let key = |round| format!("key:{gap}:{number}:{round}");
            (0..1000).map(|round| one(&client, &key(round))).collect()
        };
        let all: Vec<Vec<Duration>> = thread::scope(|scope| {
            let of_client = &of_client;
            let clients: Vec<_> = (0..10)
                .map(|number| scope.spawn(move || of_client(number)))
                .collect();
            clients
                .into_iter()
                .map(|client| client.join().expect("no panics"))
                .collect()
        });
        let latencies = Latencies::new(all.into_iter().flatten());
        let stalls = latencies.0.iter().filter(|each| **each >= 35_000.0).count();
        latencies.show(&format!("miss, then set of 10 KB, gap {gap} ms: {stalls} stalls"));
    }
}

/// P07: the mean at 1 call a second and at 10,000.
fn rates(program: &str) {
    let server = Server::start(program);
    let client = server.client();
    set(&client, b"key", &[b'v'; 100]);
    for (rate, calls) in [(1, 60), (10, 100), (100, 300), (1000, 2000), (10_000, 20_000)] {
        let begin = Instant::now();
        let one = |number: u32| {
            let due = begin + Duration::from_secs(1) * number / rate;
            let left = due.saturating_duration_since(Instant::now());
            if left > Duration::from_micros(200) {
                thread::sleep(left - Duration::from_micros(100));
            }
            while Instant::now() < due {
                std::hint::spin_loop();
            }
            let start = Instant::now();
            get(&client, b"key");
            start.elapsed()
        };
        Latencies::new((0..calls).map(one)).show(&format!("get at {rate}/s"));
    }
}

/// 100 keys at once.
fn batches(program: &str) {
    let servers: Vec<Server> = (0..4).map(|_| Server::start(program)).collect();
    for count in [1, 4] {
        let places = servers[..count]
            .iter()
            .map(|server| Place::new("127.0.0.1", server.port))
            .collect();
        let client = Client::new(Config::new(places)).expect("servers");
        let keys: Vec<String> = (0..100).map(|number| format!("key:{number}")).collect();
        keys.iter()
            .for_each(|key| set(&client, key.as_bytes(), &[b'v'; 100]));
        let one = |plain: bool| {
            let start = Instant::now();
            let requests = keys
                .iter()
                .map(|key| {
                    let get = Get::new(key.as_bytes());
                    Request::Get(Get { plain, ..get })
                })
                .collect();
            let replies = client.call_all(requests, Call::default());
            assert!(
                replies.iter().all(|reply| matches!(reply, Ok(Reply::Value(_)))),
                "{replies:?}"
            );
            start.elapsed()
        };
        for (plain, words) in [(true, "plain"), (false, "with leases")] {
            Latencies::new((0..5000).map(|_| one(plain)))
                .show(&format!("100 keys from {count} servers, {words}"));
        }
    }
}

/// What it is called, and what measures it with a server's program.
type Measurement = (&'static str, fn(&str));

fn main() {
    let mut arguments = std::env::args().skip(1);
    let Some(program) = arguments.next() else {
        eprintln!("give the program of a server, such as target/release/scrubjay");
        std::process::exit(2);
    };
    let wanted: Vec<String> = arguments.collect();
    let all: [Measurement; 6] = [
        ("single", single),
        ("mutex", mutex),
        ("batches", batches),
        ("stalls", stalls),
        ("rates", rates),
        ("cold", cold_sockets),
    ];
    for (name, measure) in all {
        if wanted.is_empty() || wanted.iter().any(|each| each == name) {
            measure(&program);
        }
    }
}
